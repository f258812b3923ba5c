"""Bringing branch and files together: what people did by hand, as edits to be committed.

A Reconciliation looks at the files, the note of where they stood, and the branch. It
decides what each difference means and collects it; the ledger commits and writes. On
disk it changes one thing only: a new task file gets its number as its name, before the
commit, so that a crash in between cannot take the file in twice.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gitteam import disk, layout, merge
from gitteam.board import Board
from gitteam.checkpoint import Checkpoint, Entry, Found, differences
from gitteam.errors import BadFile
from gitteam.layout import Layout
from gitteam.objects import digest
from gitteam.records import CANCELLED, FINISHED, IN_PROGRESS, Member, Task, parse_task
from gitteam.roster import Config, parse_config
from gitteam.story import Story
from gitteam.tree import Disk, Files, Overlay, Tree

if TYPE_CHECKING:
    from gitteam.repo import Repo

# Editors save by renaming: a file that is gone may be back in a moment.
GONE_SECONDS = 2.0
# All of so many open tasks gone at once is a cleaned work tree, not a decision.
MASS_DELETION = 3
# How far above the highest id a new file's own number may be; beyond that it is a date or the like.
NUMBER_LEAP = 100


@dataclass(frozen=True)
class Looked:
    """One look at the disk: what differs from the note, what is gone, what was renamed out of the way."""

    changed: list[Found]
    gone: list[str]
    renewed: dict[str, Entry]
    asides: list[disk.Aside]

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone or self.asides)


def look(place: Layout, note: Checkpoint | None, also: Iterable[str] = ()) -> Looked:
    """Compare the files with the note; `also` are swept tasks, which are not looked at by themselves."""
    changed, gone, renewed = differences(place, note or Checkpoint())
    for path in also:
        if os.path.lexists(place.at(path)):
            found = os.lstat(place.at(path))
            changed.append(Found(path, disk.look_of(found), stat.S_ISREG(found.st_mode)))
    return Looked(changed, gone, renewed, list(disk.asides(place)))


@dataclass(frozen=True)
class Seen:
    data: bytes
    look: disk.Look


@dataclass
class Reconciliation:
    repo: Repo
    place: Layout
    tree: Tree  # the branch as it is
    base: Tree  # the branch as it was when the files were last written
    note: Checkpoint | None
    tip: str
    config: Config
    person: str
    now: float
    story: Story = field(default_factory=Story)
    seen: dict[str, Seen] = field(default_factory=dict)  # files on disk that differ from the note
    bad: dict[str, Entry] = field(default_factory=dict)  # texts that cannot be read
    missing: dict[str, float] = field(default_factory=dict)  # tasks whose file is gone, since when
    discard: set[str] = field(default_factory=set)  # files on disk whose text went elsewhere
    asides: list[tuple[disk.Aside, str]] = field(default_factory=list)  # with what is known of each now; "": all

    def __post_init__(self) -> None:
        self.view = Overlay(self.tree)
        self.board = Board(self.tree)
        self._by_slug = {_slug(task): task for task in self.board.tasks.values()}

    @property
    def edits(self) -> dict[str, bytes | None]:
        return {path: data for path, data in self.view.edits.items() if self.tree.read(path) != data}

    # -- looking --------------------------------------------------------------------------

    def take_in(self, looked: Looked) -> None:
        self._foreign_commits()
        for aside in looked.asides:
            self._aside(aside)
        for found in sorted(looked.changed, key=lambda f: layout.is_numbered(f.path), reverse=True):
            self._file(found, looked.gone)
        interrupted = {aside.path for aside in looked.asides}
        self._gone([path for path in looked.gone if path not in interrupted and path not in self.view.edits])

    def outdated(self) -> set[str]:
        """Files the branch has differently than the note says they stand on disk."""
        known = self.note.entries if self.note else {}
        on_branch = {path: self.tree.oid(path) for path in _board_paths(self.tree)}
        stale = {path for path, oid in on_branch.items() if path not in known or known[path].blob != oid}
        return stale | {path for path, entry in known.items() if entry.blob and path not in on_branch}

    def outdated_swept(self) -> set[str]:
        """The same for done/, whose files are not in the note: what differs between then and now."""
        known = self.base if os.path.isdir(self.place.at(layout.DONE)) else Tree(self.repo.objects, None, "")
        found = set()
        for directory in {*self.tree.directories(layout.DONE), *known.directories(layout.DONE)}:
            path = f"{layout.DONE}/{directory}"
            then, now = known.tokens(path), self.tree.tokens(path)
            found |= {f"{path}/{name}" for name in then.keys() | now.keys() if then.get(name) != now.get(name)}
        return found

    def _foreign_commits(self) -> None:
        """A commit without an op id is a person's: what it changed counts as edited by hand."""
        if not self.note or self.note.commit == self.tip:
            return
        for commit in self.repo.commits("--reverse", "--first-parent", f"{self.note.commit}..{self.tip}"):
            if "\nTeam-Op: " in self.repo.message_of(commit):
                continue
            before, after = (self._tree_of(c) for c in ([*self.repo.parents_of(commit), ""][0], commit))
            for path in sorted({*_board_paths(before), *_board_paths(after)}):
                data = after.read(path)
                if path.startswith(layout.TASKS) and data != before.read(path) and data == self.tree.read(path):
                    self._committed(path, before.read(path), data)

    def _tree_of(self, commit: str) -> Tree:
        return Tree(self.repo.objects, self.repo.tree_of(commit) if commit else None, self.place.root)

    def _committed(self, path: str, before: bytes | None, data: bytes | None) -> None:
        """Part of a person's own commit: mended where it is no valid state, otherwise left as it is."""
        was = parse_task(path, before) if before is not None and _readable(path, before) else None
        if data is not None and _readable(path, data):
            task = parse_task(path, data)
            if was:
                self._edit(task, was, was)
            elif not task.id:
                self._remove(task)
                self._new(task, self._number(path))
        elif was and self.board.find(was.id) is None:
            self.board.put(was)
            if data is None and self._is_deliberate(self.tree):
                self._put_away(was)
            else:
                self._put(was)
                self.story.tell("edited", f"{self.person}'s commit left #{was.id} unreadable: restored", was)

    def _file(self, found: Found, gone: list[str]) -> None:
        path = found.path
        try:
            if not found.regular:
                raise BadFile("not a regular file")
            data, look = disk.read_regular(self.place.at(path))
        except FileNotFoundError:
            return
        except BadFile as e:
            self._set_bad(path, found.look, str(e))
            return
        if data == self.tree.read(path):
            self.seen[path] = Seen(data, look)
            return
        try:
            self._changed(path, data, look, gone)
        except BadFile as e:
            self._set_bad(path, look, str(e))

    def _set_bad(self, path: str, look: disk.Look, reason: str) -> None:
        self.bad[path] = Entry(self.tree.oid(path) or "", disk.settled(look), reason)

    def _changed(self, path: str, data: bytes, look: disk.Look, gone: list[str]) -> None:
        if path.startswith(layout.TASKS + "/"):
            self._task_file(path, data, look, gone)
        elif layout.is_inbox(path):
            tail = self._mail(path, self.base.read(path) or b"", data)
            self.seen[path] = Seen(data[: len(data) - len(tail)], look)
            if tail:
                number = data.count(b"\n") + 1
                self._set_bad(path, look, f"line {number} is not finished")
        elif path == layout.CONFIG:
            self._config(data)
            self.seen[path] = Seen(data, look)
        else:
            self.view.write(path, data)
            self.seen[path] = Seen(data, look)
            self.story.tell("edited", f"{self.person} edits {path}")

    # -- tasks ----------------------------------------------------------------------------

    def _put(self, task: Task) -> None:
        """Write a task to the view; the board follows, so that thousands of new files stay cheap."""
        self.view.write(task.path, task.text.encode())
        self.board.put(task)
        if not task.path.startswith(layout.DONE):
            self._by_slug[_slug(task)] = task

    def _remove(self, task: Task) -> None:
        self.view.remove(task.path)
        self.board.forget(task.id)

    def _task_file(self, path: str, data: bytes, look: disk.Look, gone: list[str]) -> None:
        task = parse_task(path, data)
        owner = self.board.find(task.id) if task.id else None
        if owner and owner.path == path:
            base = self.base.read(path)
            self._edit(task, parse_task(path, base) if base and _readable(path, base) else None, owner)
        elif owner and owner.path in gone:  # renamed
            self._remove(owner)
            self._edit(task, owner, owner.moved(path))
            self.story.tell("edited", f"{self.person} renames #{task.id} to {path}", task)
        elif owner and owner.path.startswith(layout.DONE):  # saved where it stood before it was swept
            self._edit(task, None, owner)
            self.discard.add(path)
        elif owner:
            raise BadFile(f"number {task.id} belongs to {owner.path}: rename this file")
        else:
            path = self._new_file(task, path)
        self.seen[path] = Seen(data, look)

    def _new_file(self, task: Task, path: str) -> str:
        """Take in a file that is on no branch yet; returns the path it has from now on."""
        if self._is_being_written(path):
            raise BadFile("somebody is still writing it")
        if twin := self._twin(path):
            os.unlink(self.place.at(path))  # a process died between giving it a name and taking the old one away
            return twin
        if again := self._saved_again(task):
            self._edit(task.moved(again.path), None, again)
            self.discard.add(path)
            return path
        number = self._number(path)
        if number == task.id:
            target = path
        else:
            target = f"{layout.TASKS}/{layout.task_name(number, path.rpartition('/')[2].removesuffix('.md'))}"
            disk.rename_new(self.place, path, target)
        self._new(task.moved(target), number)
        return target

    def _is_being_written(self, path: str) -> bool:
        return disk.has_writer(self.place.at(path))

    def _number(self, path: str) -> int:
        own, highest = layout.task_id(path.rpartition("/")[2]), self.board.highest
        return own if own and own <= highest + NUMBER_LEAP and not self.board.find(own) else highest + 1

    def _new(self, task: Task, number: int) -> None:
        path = f"{layout.TASKS}/{layout.task_name(number, task.name.removesuffix('.md'))}"
        path = task.path if layout.task_id(task.name) == number else path
        task = parse_task(path, task.text.encode())
        if task.claim or task.run or task.attempts or task.status == IN_PROGRESS:
            held = task.status == IN_PROGRESS
            if held and (reason := self._refusal(task, task.owner)):
                raise BadFile(f"{task.owner} cannot have it: {reason}")
            task = task.with_values(claim=1 if held else None, run=None, attempts=None)
        self._put(task)
        self.story.tell("added", f"{self.person} adds #{number}: {task.subject}", task)

    def _twin(self, path: str) -> str | None:
        """Another name of the same file that already carries a number."""
        ours = os.lstat(self.place.at(path))
        if ours.st_nlink == 1 or layout.is_numbered(path):
            return None
        for name in os.listdir(self.place.at(layout.TASKS)):
            other = f"{layout.TASKS}/{name}"
            if layout.is_numbered(other) and os.lstat(self.place.at(other)).st_ino == ours.st_ino:
                return other
        return None

    def _saved_again(self, task: Task) -> Task | None:
        """The open task this file became earlier, if an editor has saved it once more under its first name."""
        known = self._by_slug.get(layout.task_name(0, task.name.removesuffix(".md"))[1:])
        if known and known.subject == task.subject and self.board.tasks.get(known.id, known).status not in FINISHED:
            return self.board.tasks.get(known.id)
        return None

    def _edit(self, edited: Task, base: Task | None, current: Task) -> None:
        """A text a person wrote for a task that exists."""
        outcome = merge.merge_task(
            base, edited, current, lambda: self._older(current), self._refusal, self.repo.merge_lines
        )
        task = outcome.task
        if current.path.startswith(layout.DONE) and task.status not in FINISHED:
            self._remove(current)
            task = task.moved(f"{layout.TASKS}/{task.name}")  # open again
        if self.view.read(task.path) == task.text.encode():
            return
        self._put(task)
        verb = {"claimed": f"gives {task.owner}", "released": "releases"}.get(outcome.event, _VERBS.get(outcome.event))
        self.story.tell(outcome.event, f"{self.person} {verb or 'edits'} #{task.id}: {task.subject}", task)
        if outcome.refused:
            self.story.tell(outcome.event, f"refused: {outcome.refused}", task)

    def _refusal(self, task: Task, name: str) -> str:
        """Why somebody named by hand as the owner cannot have a task. A role does not bind a person's decision."""
        if name != layout.USER and name not in self.config.members:
            return f"nobody on the team is called {name}"
        if others := [t for t in self.board.held_by(name) if t.id != task.id]:
            return f"{name} has #{others[0].id}"
        if task.status == IN_PROGRESS:
            return ""
        if task.status in FINISHED:
            return f"it is {task.status}"
        return self.board.refusal(task, Member(name, role=task.role))

    def _older(self, task: Task) -> Iterator[Task]:
        """Earlier versions of a task's file, newest first, wherever it stood."""
        globs = [
            f":(glob){where}{task.id}{end}" for where in (".tasks/", ".tasks/done/*/") for end in ("[-_. ]*", ".md")
        ]
        for commit in self.repo.commits(self.tip, "--", *globs):
            tree = self._tree_of(commit)
            found = Board(tree).find(task.id)
            if found and found.text != task.text:
                yield found

    def _gone(self, paths: list[str]) -> None:
        """A task file that stays away is a cancellation. Anything else that vanished is put back."""
        tasks = {path: task for path in paths if (task := self._open_task_at(path))}
        was = self.note.missing if self.note else {}
        if not self.note or self.note.commit != self.tip or not self._is_deliberate(Disk(self.place.root)):
            return
        for path, task in tasks.items():
            since = min(was.get(path, self.now), self.now)
            if self.now - since < GONE_SECONDS:
                self.missing[path] = since
            else:
                self._put_away(task)

    def _put_away(self, task: Task) -> None:
        """What deleting its file means: an open task is cancelled, a finished one swept."""
        self._remove(task)
        target = task.moved(layout.done_path(task.name))
        if task.status in FINISHED:
            self._put(target)
            self.story.tell("swept", f"{self.person} puts #{task.id} away: {task.subject}", task)
        else:
            self._put(target.with_values(status=CANCELLED, run=None))
            self.story.tell("cancelled", f"{self.person} cancels #{task.id}: {task.subject}", task)

    def _open_task_at(self, path: str) -> Task | None:
        task = self.board.find(layout.task_id(path.rpartition("/")[2]) or 0)
        return task if task and task.path == path else None

    def _is_deliberate(self, files: Files) -> bool:
        """Whether deletions can be meant: not when the settings, or all of several open tasks, went along."""
        left = set(files.names(layout.TASKS))
        unfinished = [t for t in self.board.tasks.values() if t.status not in FINISHED]
        cleaned = not left.intersection(t.name for t in unfinished) and len(unfinished) >= MASS_DELETION
        return not cleaned and bool(left) and "config.json" in files.names(layout.TEAM)

    # -- mail and settings ----------------------------------------------------------------

    def _mail(self, path: str, base: bytes, data: bytes) -> bytes:
        """Take in an inbox somebody wrote to; returns an unfinished last line."""
        name = layout.inbox_owner(path.rpartition("/")[2]) or ""
        current = self.view.read(path) or b""
        mail = merge.merge_inbox(name, base, data, current)
        if mail.data != current:
            self.view.write(path, mail.data)
            said = [f"adds {_count(mail.added, 'message')} to"] if mail.added else []
            said += [f"removes {_count(mail.removed, 'message')} from"] if mail.removed else []
            self.story.tell("sent" if mail.added else "taken", f"{self.person} {' and '.join(said)} {name}'s inbox")
        self._set_lines_aside(name, mail.bad)
        return mail.tail

    def _set_lines_aside(self, name: str, bad: tuple[dict[str, object], ...]) -> None:
        if not bad:
            return
        path = layout.bad_lines_path(name)
        held = self.view.read(path) or b""
        lines = [json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in bad]
        self.view.write(path, held + b"".join(line for line in lines if line not in held))
        self.story.tell("edited", f"{_count(len(bad), 'line')} of {name}'s inbox cannot be read: set aside in {path}")

    def _config(self, data: bytes) -> None:
        parse_config(data)
        base, current = (json.loads(tree.read(layout.CONFIG) or b"{}") for tree in (self.base, self.view))
        ours = json.loads(data)
        merged = merge.merge_values(base, ours, current)
        merged["branch"] = current.get("branch", layout.DEFAULT_BRANCH)
        text = data if merged == ours else (json.dumps(merged, indent=2, ensure_ascii=False) + "\n").encode()
        parse_config(text)
        self.view.write(layout.CONFIG, text)
        self.story.tell("edited", f"{self.person} edits the settings")

    def _aside(self, aside: disk.Aside) -> None:
        """A file that was renamed out of the way while somebody had it open."""
        data, final = aside.read()
        known = aside.base
        if layout.is_inbox(aside.path):
            start = max(int(known), self._taken_from(aside))
            tail = self._mail(aside.path, b"", data[start:])
            end = len(data) - len(tail)
            if final and tail:
                reason = {"line": 0, "reason": "not finished", "text": tail.decode(errors="replace")}
                self._set_lines_aside(layout.inbox_owner(aside.path.rpartition("/")[2]) or "", (reason,))
            if end > start or (final and tail):
                self.story.trailers[f"Team-Aside-{aside.token}"] = str(len(data) if final else end)
            known = str(end)
        elif not aside.is_known(data) and _readable(aside.path, data):
            self._edit_from_aside(aside, data)
            known = digest(b"blob", data, self.repo.objects.hex_length)
        self.asides.append((aside, "" if final else known))

    def _edit_from_aside(self, aside: disk.Aside, data: bytes) -> None:
        current = self.board.find(layout.task_id(aside.path.rpartition("/")[2]) or 0)
        if current and aside.path.startswith(layout.TASKS):
            base = self.repo.objects.read(aside.base) if aside.base else b""
            started = parse_task(current.path, base) if _readable(current.path, base) else None
            self._edit(parse_task(current.path, data), started, current)

    def _taken_from(self, aside: disk.Aside) -> int:
        """How much of an aside is in the history already, of a process that died before it could say so."""
        key = f"Team-Aside-{aside.token}: "
        for line in self.repo.log("-n", "500", f"--grep=^{key}", "--format=%B", self.tip):
            if line.startswith(key):
                return int(line[len(key) :])
        return 0


def _slug(task: Task) -> str:
    """A task file's name without its number."""
    return task.name.removeprefix(str(task.id))


_VERBS = {"completed": "completes", "cancelled": "cancels", "failed": "gives up"}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _readable(path: str, data: bytes) -> bool:
    try:
        parse_task(path, data)
    except BadFile:
        return False
    return True


def _board_paths(files: Files) -> Iterator[str]:
    """The board's files that also stand in the note: all but what was swept."""
    for directory, wanted in layout.SCANNED:
        for name in files.names(directory):
            if wanted(name):
                yield f"{directory}/{name}"
