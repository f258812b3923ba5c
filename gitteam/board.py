"""The board: all tasks together, and what follows from them. Pure: nothing here writes or waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from gitteam import layout
from gitteam.circles import circles
from gitteam.errors import BadFile, NotFound
from gitteam.records import CANCELLED, COMPLETED, FAILED, FINISHED, IN_PROGRESS, PENDING, Member, Task, parse_task
from gitteam.tree import Files

MAX_PARSED = 50_000
_parsed: dict[bytes, Task] = {}  # by what stands for name and content: see Files.tokens


class Board:
    """The tasks in some files. `troubles` are paths whose text on disk cannot be read, with the reason."""

    def __init__(self, files: Files, troubles: Mapping[str, str] | None = None):
        self._files = files
        self.troubles = dict(troubles or {})
        self.tasks: dict[int, Task] = {}
        for name, token in files.tokens(layout.TASKS).items():
            task = _parsed.get(token) if token else None
            if task:
                self.tasks[task.id] = task
            elif layout.is_task_file(name):
                self._load(name, token)

    def _load(self, name: str, token: bytes | None) -> None:
        path = f"{layout.TASKS}/{name}"
        data = self._files.read(path)
        if data is None:
            return  # renamed since it was listed
        try:
            task = parse_task(path, data)
        except BadFile as e:
            self.troubles.setdefault(path, str(e))
            return
        if task.id:
            self.tasks.setdefault(task.id, task)
            if token:
                if len(_parsed) > MAX_PARSED:
                    _parsed.clear()
                _parsed[token] = task

    def put(self, task: Task) -> None:
        """Follow a change, without reading all tasks again."""
        self.forget(task.id)
        if not task.path.startswith(layout.DONE):
            self.tasks[task.id] = task
        if "highest" in self.__dict__:
            self.highest = max(self.highest, task.id)

    def forget(self, number: int) -> None:
        self.tasks.pop(number, None)
        self.__dict__.pop("_circles", None)

    # -- finding ----------------------------------------------------------------------

    def find(self, number: int) -> Task | None:
        return self.tasks.get(number) or self._swept(number)

    def _swept(self, number: int) -> Task | None:
        directory = layout.done_path(f"{number}.md").rpartition("/")[0]
        for name in self._files.names(directory):
            if layout.task_id(name) == number:
                return self._parse_swept(f"{directory}/{name}")
        return None

    def _parse_swept(self, path: str) -> Task | None:
        try:
            return parse_task(path, self._files.read(path) or b"")
        except BadFile as e:
            self.troubles.setdefault(path, str(e))
            return None

    def get(self, number: int) -> Task:
        """The task, with what can be said about it; an unknown id is an error that names the neighbours."""
        task = self.find(number)
        if task is None:
            known = f"the highest is #{self.highest}" if self.highest else "there are none yet"
            raise NotFound(f"there is no task #{number}: {known}; `gitteam task` lists them")
        return self.judged(task)

    def swept(self) -> Iterator[Task]:
        """The finished tasks in `done/`, oldest first."""
        for directory in sorted(self._files.directories(layout.DONE)):
            paths = [f"{layout.DONE}/{directory}/{name}" for name in self._files.names(f"{layout.DONE}/{directory}")]
            tasks = [task for path in paths if (task := self._parse_swept(path))]
            yield from sorted(tasks, key=lambda task: task.id)

    @cached_property
    def highest(self) -> int:
        """The highest id ever given: tasks are moved and cancelled, never taken off the branch."""
        names = self._files.names(layout.TASKS)
        if directories := [d for d in self._files.directories(layout.DONE) if layout.is_done_directory(d)]:
            names += self._files.names(f"{layout.DONE}/{max(directories, key=lambda d: (len(d), d))}")
        highest = max((layout.task_id(name) or 0 for name in names), default=0)
        # A file that cannot be read keeps its number to itself, unless that is a date or the like.
        for number in sorted(layout.task_id(path.rpartition("/")[2]) or 0 for path in self.troubles):
            if number <= highest + layout.NUMBER_LEAP:
                highest = max(highest, number)
        return highest

    # -- judging ----------------------------------------------------------------------

    def judged(self, task: Task) -> Task:
        """The task with `ready` and `reason` filled in."""
        reason = self.obstacle(task)
        return replace(task, ready=task.status == PENDING and not reason, reason=reason)

    def all(self) -> list[Task]:
        return [self.judged(self.tasks[number]) for number in sorted(self.tasks)]

    def obstacle(self, task: Task) -> str:
        """Why nobody at large can claim this open task, or ""."""
        if trouble := self.troubles.get(task.path):
            return f"its file cannot be read: {trouble}"
        if task.status == FAILED:
            return f"gave up after {task.attempts} attempts" if task.attempts else "failed"
        if task.status != PENDING:
            return ""
        return self._blocked(task) or (f"assigned to {task.owner}" if task.owner else "")

    def _blocked(self, task: Task) -> str:
        waiting = []
        for number in task.blocked_by:
            blocker = self.find(number)
            if blocker is None:
                return f"blocked by #{number}, which does not exist"
            if blocker.status in (CANCELLED, FAILED):
                return f"blocked by #{number}, which {'was cancelled' if blocker.status == CANCELLED else 'failed'}"
            if blocker.status != COMPLETED:
                waiting.append(number)
        if not waiting:
            return ""
        if task.id in self._circles:
            return f"blocked in a circle: {_numbers(self._circles[task.id])}"
        return f"blocked by {_numbers(waiting)}"

    @cached_property
    def _circles(self) -> dict[int, list[int]]:
        return circles({number: self._open_blockers(number) for number in self.tasks})

    def _open_blockers(self, number: int) -> tuple[int, ...]:
        task = self.tasks.get(number)
        return task.blocked_by if task and task.status not in FINISHED else ()

    def would_circle(self, task: Task, blocker: int) -> bool:
        """Whether `blocker` waits, through others, for `task`."""
        seen, todo = set(), [blocker]
        while todo:
            number = todo.pop()
            if number == task.id:
                return True
            if number not in seen:
                seen.add(number)
                todo.extend(self._open_blockers(number))
        return False

    # -- claiming ---------------------------------------------------------------------

    def held(self) -> list[Task]:
        return [task for task in self.tasks.values() if task.status == IN_PROGRESS]

    def held_by(self, name: str) -> list[Task]:
        return [task for task in self.held() if task.owner == name]

    def refusal(self, task: Task, member: Member) -> str:
        """Why this member cannot claim this task, or ""."""
        if task.status == IN_PROGRESS:
            return f"{task.owner} has it"
        if task.status != PENDING:
            return f"it is {task.status}"
        if trouble := self.troubles.get(task.path):
            return f"its file cannot be read: {trouble}"
        if task.owner not in ("", member.name):
            return f"it is assigned to {task.owner}"
        if task.role and task.role != member.role and member.name not in (layout.USER, layout.LEAD):
            return f"it is for the role {task.role}, and {member.name} is {member.role or 'without one'}"
        return self._blocked(task)

    def next_for(self, member: Member) -> Task | None:
        """What this member should do next: its own open task, else the most urgent it may claim."""
        own = self.held_by(member.name)
        if own:
            return min(own, key=_urgency)
        return next((task for task in self.claimable() if not self.refusal(task, member)), None)

    def claimable(self) -> list[Task]:
        """The tasks that wait for somebody, the most urgent first; whom each is for is not looked at."""
        return sorted((task for task in self.tasks.values() if task.status == PENDING), key=_urgency)


def _urgency(task: Task) -> tuple[int, int]:
    return -task.priority, task.id


def _numbers(numbers: list[int]) -> str:
    """`#1, #2`, not all of them where there are many."""
    more = f" and {len(numbers) - 8} more" if len(numbers) > 9 else ""
    return ", ".join(f"#{n}" for n in (numbers[:8] if more else numbers)) + more


def open_first(tasks: Iterable[Task]) -> list[Task]:
    """In the order people read a board: in progress, ready, blocked, failed, finished."""

    def rank(task: Task) -> int:
        if task.status == PENDING:
            return 1 if task.ready else 2
        return {IN_PROGRESS: 0, FAILED: 3}.get(task.status, 4)

    return sorted(tasks, key=lambda task: (rank(task), *_urgency(task)))
