"""Bringing branch and files together: what people did by hand, as edits to be committed.

A Reconciliation looks at the files, the note of where they stood, and the branch. It
decides what each difference means and collects it; the ledger commits and writes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gitteam import disk, layout, merge
from gitteam.checkpoint import Checkpoint, Entry, Found, differences
from gitteam.errors import BadFile
from gitteam.layout import Layout
from gitteam.records import parse_task
from gitteam.roster import Config, parse_config
from gitteam.story import Story
from gitteam.tasks_by_hand import DependsOnOthers, TasksByHand, read_task
from gitteam.tree import Disk, Files, Overlay, Tree

if TYPE_CHECKING:
    from gitteam.repo import Repo

# Editors save by renaming: a file that is gone may be back in a moment.
GONE_SECONDS = 2.0


@dataclass(frozen=True)
class Looked:
    """One look at the disk: what differs from the note, what is gone, what was renamed out of the way."""

    changed: list[Found]
    gone: list[str]
    renewed: dict[str, Entry | None]
    asides: list[disk.Aside]

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone or self.asides or None in self.renewed.values())


def look(place: Layout, note: Checkpoint | None, also: Iterable[str] = ()) -> Looked:
    """Compare the files with the note; `also` are swept tasks, which are not looked at by themselves."""
    changed, gone, renewed = differences(place, note or Checkpoint())
    for path in also:
        if os.path.lexists(place.at(path)):
            found = os.lstat(place.at(path))
            changed.append(Found(path, disk.look_of(found)))
    return Looked(changed, gone, renewed, list(disk.asides(place)))


@dataclass(frozen=True)
class Seen:
    """What was read on disk, and how the file looked then."""

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
    instant: float  # of a clock that nobody sets
    looked: Looked
    story: Story = field(default_factory=Story)
    seen: dict[str, Seen] = field(default_factory=dict)  # files on disk that differ from the note
    bad: dict[str, Entry] = field(default_factory=dict)  # texts that cannot be read
    missing: dict[str, float] = field(default_factory=dict)  # tasks whose file is gone, since when
    lost: set[str] = field(default_factory=set)  # swept files that are not on disk
    asides: list[tuple[disk.Aside, str]] = field(default_factory=list)  # with what is known of each now; "": all

    def __post_init__(self) -> None:
        self.view = Overlay(self.tree)
        # Numbers of files that are on no branch, readable or not, are taken.
        new = [f.path for f in self.looked.changed if f.path.startswith(layout.TASKS) and not self.tree.oid(f.path)]
        bad = [path for path, e in (self.note.entries if self.note else {}).items() if e.bad and not e.blob]
        strangers = {path: "" for path in [*new, *bad] if layout.is_numbered(path)}
        self.tasks = TasksByHand(
            self.repo, self.place, self.tip, self.view, self.story, self.config, self.person, strangers
        )  # fmt: skip

    @property
    def edits(self) -> dict[str, bytes | None]:
        return {path: data for path, data in self.view.edits.items() if self.tree.read(path) != data}

    def take_in(self) -> None:
        looked = self.looked
        self._foreign_commits()
        for aside in looked.asides:
            self._aside(aside)
        # Numbered files first, then new ones in the order they were made.
        for found in sorted(looked.changed, key=lambda f: (not layout.is_numbered(f.path), f.look[1], f.path)):
            self._file(found, looked.gone)
        interrupted = {aside.path for aside in looked.asides}
        self._gone([path for path in looked.gone if path not in interrupted and path not in self.view.edits])

    def outdated(self) -> set[str]:
        """Files the branch has differently than they stand on disk, as far as the note knows."""
        swept_base = self.base if os.path.isdir(self.place.at(layout.DONE)) else self.tasks.tree_of("")
        stale = set(self.tree.differing(swept_base, layout.DONE))
        if self.note and self.note.commit == self.tip:
            return stale
        known = self.note.entries if self.note else {}
        on_branch = {path: self.tree.oid(path) for path in _board_paths(self.tree)}
        stale |= {path for path, oid in on_branch.items() if path not in known or known[path].blob != oid}
        return stale | {path for path, entry in known.items() if entry.blob and path not in on_branch}

    def _foreign_commits(self) -> None:
        """A commit without an op id is a person's: what it changed counts as edited by hand."""
        if not self.note or self.note.commit == self.tip:
            return
        for commit in self.repo.commits("--reverse", "--first-parent", f"{self.note.commit}..{self.tip}"):
            if "\nTeam-Op: " in self.repo.message_of(commit):
                continue
            parent = next(iter(self.repo.parents_of(commit)), "")
            before, after = self.tasks.tree_of(parent), self.tasks.tree_of(commit)
            for path in sorted(after.differing(before, layout.TASKS)):
                if layout.is_task_file(path.rpartition("/")[2]) and after.read(path) == self.tree.read(path):
                    self.tasks.committed(path, before, after, parent, self.tree)
            for path in sorted(after.differing(before, layout.INBOX)):
                if layout.is_inbox(path) and after.read(path) == self.tree.read(path):
                    self._committed_mail(path, before.read(path) or b"", after.read(path) or b"")
        try:
            parse_config(self.tree.read(layout.CONFIG) or b"")
        except BadFile:
            self.view.write(layout.CONFIG, self.base.read(layout.CONFIG) or b"")
            self.story.tell("edited", f"gitteam restores the settings, which {self.person} committed unreadable")

    def _committed_mail(self, path: str, before: bytes, data: bytes) -> None:
        name = layout.inbox_owner(path.rpartition("/")[2]) or ""
        mail = merge.merge_inbox(name, before, data, before)
        if mail.bad:
            self.view.write(path, mail.data)
            self._set_lines_aside(name, mail.bad)

    # -- files on disk ----------------------------------------------------------------------

    def _file(self, found: Found, gone: list[str]) -> None:
        path = found.path
        try:
            # Half a text is not read: its being finished is an event, too. To an inbox anybody may write at any time.
            data, look = disk.read_regular(self.place.at(path))
            half = not layout.is_inbox(path) and disk.has_writer(self.place.at(path))
            if half or (look != disk.look_of(os.lstat(self.place.at(path))) and not layout.is_inbox(path)):
                raise DependsOnOthers("somebody is writing it")
        except FileNotFoundError:
            return
        except BadFile as e:
            self._set_bad(path, found.look, e)
            return
        if data == self.tree.read(path):
            self.seen[path] = Seen(data, look)
            return
        try:
            self._changed(path, data, look, gone)
        except BadFile as e:
            self._set_bad(path, look, e)
        except FileNotFoundError:
            return  # an editor is quicker than we are: there will be another look

    def _set_bad(self, path: str, look: disk.Look, reason: BadFile) -> None:
        lasting = None if isinstance(reason, DependsOnOthers) else disk.settled(look)
        self.bad[path] = Entry("", lasting, str(reason))

    def _changed(self, path: str, data: bytes, look: disk.Look, gone: list[str]) -> None:
        if path.startswith(layout.TASKS + "/"):
            self._task(path, data, look, gone)
            return
        if layout.is_inbox(path):
            tail = self._mail(path, self.base.read(path) or b"", data)
            if tail:
                self._set_bad(path, look, BadFile("not finished", data.count(b"\n") + 1))
                data = data[: len(data) - len(tail)]
        elif path == layout.CONFIG:
            self._config(self.base.read(path), data)
        else:
            self.view.write(path, data)
            self.story.tell("edited", f"{self.person} edits {path}")
        self.seen[path] = Seen(data, look)

    def _task(self, path: str, data: bytes, look: disk.Look, gone: list[str]) -> None:
        task = parse_task(path, data)
        known = self.tasks.board.find(task.id) if task.id else None
        if known is None:
            path = self.tasks.drop(task) or path
        elif known.path == path:
            self.tasks.save(task, read_task(path, self.base.read(path)), known)
        elif known.path in gone:
            self.tasks.rename(task, known)
        elif known.path.startswith(layout.DONE):
            self.tasks.save(task, None, known)  # saved where it stood before it was swept
            if not os.path.lexists(self.place.at(known.path)):
                self.lost.add(known.path)  # it was moved from there
        else:
            raise DependsOnOthers(f"number {task.id} belongs to {known.path}: rename this file")
        self.seen[path] = Seen(data, look)

    def _gone(self, paths: list[str]) -> None:
        """A task file that stays away is a cancellation. Anything else that vanished is put back."""
        if not self.note or self.note.commit != self.tip or not os.path.isdir(self.place.at(layout.TASKS)):
            return
        if not self.tasks.is_deliberate(self.tasks.board, Disk(self.place.root)):
            return
        for path in paths:
            if task := self.tasks.at(path):
                since = min(self.note.missing.get(path, self.instant), self.instant)
                if self.instant - since < GONE_SECONDS:
                    self.missing[path] = since
                else:
                    self.tasks.put_away(task)
            elif path.endswith(".bad"):  # seen, and done with
                self.view.remove(path)
                self.story.tell("edited", f"{self.person} deletes {path}")

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

    def _config(self, base: bytes | None, data: bytes) -> None:
        parse_config(data)
        was, ours, current = (json.loads(text or b"{}") for text in (base, data, self.view.read(layout.CONFIG)))
        merged = {**merge.merge_values(was, ours, current), "branch": current["branch"]}
        text = data if merged == ours else (json.dumps(merged, indent=2, ensure_ascii=False) + "\n").encode()
        self.config = parse_config(text)
        self.view.write(layout.CONFIG, text)
        self.story.tell("edited", f"{self.person} edits the settings")

    # -- files that were renamed out of the way ------------------------------------------------

    def _aside(self, aside: disk.Aside) -> None:
        """A file that somebody may have written to after it was replaced."""
        try:
            data, final = aside.read()
        except BadFile:
            return  # when it can be read, it will be
        if layout.is_inbox(aside.path):
            known = self._mail_aside(aside, data, final)
        else:
            if final and not aside.is_known(data):
                self._text_aside(aside, data)
            known = aside.base
        self.asides.append((aside, "" if final else known))

    def _mail_aside(self, aside: disk.Aside, data: bytes, final: bool) -> str:
        start = max(int(aside.base), self._taken_from(aside))
        current = self.view.read(aside.path) or b""
        tail = self._mail(aside.path, current, current + data[start:])
        end = len(data) - len(tail)
        if final and tail:
            line = data.count(b"\n") + 1
            reason: dict[str, object] = {"line": line, "reason": "not finished", "text": tail.decode(errors="replace")}
            self._set_lines_aside(layout.inbox_owner(aside.path.rpartition("/")[2]) or "", (reason,))
        if end > start or (final and tail):
            self.story.trailers[f"Team-Aside-{aside.token}"] = str(len(data) if final else end)
        return str(end)

    def _taken_from(self, aside: disk.Aside) -> int:
        """How much of an aside is in the history already, of a process that died before it could say so."""
        key = f"Team-Aside-{aside.token}: "
        for line in self.repo.log("-n", "500", f"--grep=^{key}", "--format=%B", self.tip):
            if line.startswith(key):
                return int(line[len(key) :])
        return 0

    def _text_aside(self, aside: disk.Aside, data: bytes) -> None:
        base = self.repo.objects.read(aside.base) if aside.base and self.repo.has(aside.base) else None
        current = self.tasks.board.find(layout.task_id(aside.path.rpartition("/")[2]) or 0)
        try:
            if aside.path == layout.CONFIG:
                self._config(base, data)
            elif current and aside.path.startswith(layout.TASKS):
                self.tasks.save(parse_task(current.path, data), read_task(current.path, base), current)
            else:
                aside.rescue()
        except BadFile:
            aside.rescue()  # it came too late to stand in its place, and cannot be merged


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _board_paths(files: Files) -> Iterator[str]:
    """The board's files that also stand in the note: all but what was swept."""
    for directory, wanted in layout.SCANNED:
        for name in files.names(directory):
            if wanted(name):
                yield f"{directory}/{name}"
