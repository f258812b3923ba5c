"""What a person's way with a task file means: dropped, saved, renamed, deleted, committed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gitteam import disk, layout, merge
from gitteam.board import Board
from gitteam.errors import BadFile
from gitteam.layout import Layout
from gitteam.records import CANCELLED, FINISHED, IN_PROGRESS, Member, Task, parse_task
from gitteam.roster import Config
from gitteam.story import Story
from gitteam.tree import Files, Overlay, Tree

if TYPE_CHECKING:
    from gitteam.repo import Repo

# All of so many open tasks gone at once is a cleaned work tree, not a decision.
MASS_DELETION = 3
# Longer names could not be renamed aside: see gitteam.disk.
MAX_NAME = 150

_VERBS = {
    "claimed": "claims",
    "completed": "completes",
    "cancelled": "cancels",
    "failed": "gives up",
    "released": "releases",
}


@dataclass
class TasksByHand:
    """Turns hand edits of tasks into edits of `view`, and says so in `story`."""

    repo: Repo
    place: Layout
    tip: str
    view: Overlay
    story: Story
    config: Config
    person: str
    strangers: dict[str, str]  # numbered files on disk that are on no branch; their numbers are taken

    def __post_init__(self) -> None:
        self.board = Board(self.view, self.strangers)
        self._by_slug = {_slug(task): task for task in self.board.tasks.values()}

    def _put(self, task: Task) -> None:
        """Write a task to the view; the board follows, so that thousands of new files stay cheap."""
        self.view.write(task.path, task.text.encode())
        self.board.put(task)
        if not task.path.startswith(layout.DONE):
            self._by_slug[_slug(task)] = task

    def _remove(self, task: Task) -> None:
        self.view.remove(task.path)
        self.board.forget(task.id)

    # -- a text for a task that exists ------------------------------------------------------

    def save(self, edited: Task, base: Task | None, current: Task, tip: str = "") -> None:
        """Merge what a person saved with what the branch says, up to `tip`: see gitteam.merge."""
        outcome = merge.merge_task(
            base, edited, current, lambda: self._older(current, tip or self.tip), self._refusal, self.repo.merge_lines
        )
        task = outcome.task
        if outcome.refused:
            self.story.tell("edited", f"{self.person}'s edit is refused: {outcome.refused}", task)
        if current.path.startswith(layout.DONE) and task.status not in FINISHED:
            self._remove(current)
            task = task.moved(f"{layout.TASKS}/{task.name}")  # open again
        if self.view.read(task.path) == task.text.encode():
            return
        self._put(task)
        verb = _VERBS.get(outcome.event, "edits")
        if outcome.event == "claimed" and task.owner != layout.USER:
            verb = f"gives {task.owner}"
        self.story.tell(outcome.event, f"{self.person} {verb} #{task.id}: {task.subject}", task)

    def rename(self, task: Task, known: Task) -> None:
        """The file of a known task under another name, perhaps edited too."""
        self._remove(known)
        moved = known.moved(task.path)
        self._put(moved)
        self.story.tell("edited", f"{self.person} renames #{task.id} to {task.path}", task)
        self.save(task, known, moved)

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

    def _older(self, task: Task, tip: str) -> Iterator[Task]:
        """Earlier versions of a task's file, newest first, wherever it stood."""
        folders, ends = (layout.TASKS, f"{layout.DONE}/*"), ("[-_. ]*", ".md")
        globs = [f":(glob){folder}/{task.id}{end}" for folder in folders for end in ends]
        for commit in self.repo.commits(tip, "--", *globs):
            found = Board(self.tree_of(commit)).find(task.id)
            if found and found.text != task.text:
                yield found

    def tree_of(self, commit: str) -> Tree:
        return Tree(self.repo.objects, self.repo.tree_of(commit) if commit else None, self.place.root)

    # -- a file that is on no branch yet ------------------------------------------------------

    def drop(self, task: Task) -> str | None:
        """Take in a new file; returns the path it has from now on, or None where its text went elsewhere.

        It gets its number as its name before the commit, so that a crash in between cannot take it in twice.
        """
        if len(os.fsencode(task.name)) > MAX_NAME:
            raise BadFile(f"its name is longer than {MAX_NAME} bytes")
        if twin := self._twin(task.path):
            os.unlink(self.place.at(task.path))  # a process died between giving it a name and taking the old one away
            return twin
        if again := self._saved_again(task):
            self.save(task.moved(again.path), None, again)
            return None
        path = self._path_for(task)
        new = self._as_new(task, path)
        if path != task.path:
            if os.path.lexists(self.place.at(path)):
                raise DependsOnOthers(f"{path} is in the way")
            disk.rename_new(self.place, task.path, path)
            if self.view.read(task.path) is not None:
                self.view.remove(task.path)  # a person had committed it under its first name
        self._add(new)
        return path

    def _path_for(self, task: Task) -> str:
        """A new file's own number counts if it is free and not far off; otherwise it stays behind a new one."""
        highest = self.board.highest
        if task.id and task.id <= highest + layout.NUMBER_LEAP and not self.board.find(task.id):
            return task.path
        return f"{layout.TASKS}/{layout.task_name(highest + 1, task.name.removesuffix('.md'))}"

    def _as_new(self, task: Task, path: str) -> Task:
        task = parse_task(path, task.text.encode())
        held = task.status == IN_PROGRESS
        if held and (reason := self._refusal(task.with_values(status="pending", owner=""), task.owner)):
            raise DependsOnOthers(f"{task.owner} cannot have it: {reason}")
        if held or task.claim or task.run or task.attempts:
            task = task.with_values(claim=1 if held else None, run=None, attempts=None)
        return task

    def _add(self, task: Task) -> None:
        self._put(task)
        self.story.tell("added", f"{self.person} adds #{task.id}: {task.subject}", task)

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
        known = self.board.tasks.get(known.id) if known else None
        return known if known and known.subject == task.subject and known.status not in FINISHED else None

    # -- a file that is gone --------------------------------------------------------------------

    def put_away(self, task: Task) -> None:
        """What deleting its file means: an open task is cancelled, a finished one swept."""
        self._remove(task)
        target = task.moved(layout.done_path(task.name))
        if task.status in FINISHED:
            self._put(target)
            self.story.tell("swept", f"{self.person} puts #{task.id} away: {task.subject}", task)
        else:
            self._put(target.with_values(status=CANCELLED, run=None))
            self.story.tell("cancelled", f"{self.person} cancels #{task.id}: {task.subject}", task)

    def at(self, path: str) -> Task | None:
        task = self.board.find(layout.task_id(path.rpartition("/")[2]) or 0)
        return task if task and task.path == path else None

    def is_deliberate(self, board: Board, files: Files) -> bool:
        """Whether deletions can be meant: not when the settings, or all of several open tasks, went along."""
        left = set(files.names(layout.TASKS))
        unfinished = [t for t in board.tasks.values() if t.status not in FINISHED]
        cleaned = not left.intersection(t.name for t in unfinished) and len(unfinished) >= MASS_DELETION
        return not cleaned and "config.json" in files.names(layout.TEAM)

    def _add_committed(self, task: Task) -> None:
        known = self.board.find(task.id) if task.id else None
        if known and known.path.startswith(layout.DONE):  # moved back from there by hand
            self.save(task.moved(known.path), known, known)
            return
        try:
            self._add(self._as_new(task, self._path_for(task)))
        except BadFile as e:
            self._add(self._as_new(task.with_values(status="pending", owner=""), self._path_for(task)))
            self.story.tell("edited", f"refused: {e.reason}", task)

    # -- a person's own commit --------------------------------------------------------------------

    def committed(self, path: str, before: Tree, after: Tree, parent: str, tree: Files) -> None:
        """One file of a person's own commit: mended where it is no valid state, otherwise left as it is."""
        data = after.read(path)
        was, task = read_task(path, before.read(path)), read_task(path, data)
        if task and was:
            self.save(task, was, was, parent)
        elif task and not path.startswith(layout.DONE):
            # As if it had been dropped: without it on the board, it gets the number it may have.
            self.view.remove(path)
            self.board = Board(self.view)
            self.board.highest = max(self.board.highest, Board(before).highest)
            self._add_committed(task)
        elif was and not task and self.board.find(was.id) is None:
            self.board.put(was)
            if data is None and self.is_deliberate(Board(before), tree):
                self.put_away(was)
            else:
                self._put(was)
                self.story.tell("edited", f"gitteam restores #{was.id}, which {self.person} committed unreadable", was)


class DependsOnOthers(BadFile):
    """A reason that may be gone tomorrow without this file having changed."""


def read_task(path: str, data: bytes | None) -> Task | None:
    """The task in these bytes, or None where there is none that can be read."""
    try:
        return parse_task(path, data) if data is not None else None
    except BadFile:
        return None


def _slug(task: Task) -> str:
    """A task file's name without its number."""
    return task.name.removeprefix(str(task.id))
