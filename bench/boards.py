"""Boards to measure on, written in one go as the history the package itself would have made."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from gitteam import Team, layout
from gitteam.doctor import examine
from gitteam.moves import SWEEP_AT, SWEEP_KEEPS
from gitteam.records import COMPLETED, IN_PROGRESS, Member, Task, new_task_text, parse_task
from gitteam.roster import Config
from gitteam.story import Story

BEGINNING = 1_700_000_000
MEMBERS = [f"m{n}" for n in range(1, 17)]
# Above this many objects gitteam packs them; a history of fewer is left loose, as it would be.
LOOSE_OBJECTS = 6_000


def git(cwd: Path, *words: str, stdin: bytes = b"") -> None:
    subprocess.run(["git", *words], cwd=cwd, input=stdin, check=True, capture_output=True)


def repository(path: Path) -> Path:
    path.mkdir()
    git(path, "init", "-q")
    return path


def board(path: Path, tasks: int, finished: int = 0, commits_each: int = 1, role: str = "", fast: bool = False) -> Path:
    """A repository with a team of sixteen and this board, accepted by the doctor. `commits_each`: per task."""
    history = _History(fast)
    for number in range(1, tasks + 1):
        history.task(number, number <= finished, commits_each, role)
    repository(path)
    git(path, "-c", f"fastimport.unpackLimit={LOOSE_OBJECTS}", "fast-import", "--quiet", stdin=b"".join(history.stream))
    subprocess.run(f"git archive {layout.DEFAULT_BRANCH} | tar -x", shell=True, cwd=path, check=True)
    Team.init(path)
    with Team(path) as team:
        if findings := examine(team, repair=False):
            raise RuntimeError(f"the doctor does not accept the board: {findings[0].text}")
    return path


class _History:
    """A team's history as a stream for git fast-import."""

    def __init__(self, fast: bool):
        self.stream: list[bytes] = []
        self._commits = 0
        self._finished: list[Task] = []
        members = {name: Member(name, "worker", "external") for name in MEMBERS}
        config = Config("bench", layout.DEFAULT_BRANCH, members, {"durability": "fast"} if fast else {})
        self._commit("user", "init", "starts team bench", {layout.CONFIG: config.to_bytes()})

    def task(self, number: int, finished: bool, commits: int, role: str) -> None:
        author = MEMBERS[number % len(MEMBERS)]
        for event, task in _life(number, author, finished, commits, role):
            self._commit(author, event, f"{event} #{number}: {task.subject}", {task.path: task.text.encode()}, task)
        if finished:
            self._finished.append(task)
        if len(self._finished) == SWEEP_AT:
            self._sweep()

    def _sweep(self) -> None:
        swept, self._finished = self._finished[:-SWEEP_KEEPS], self._finished[-SWEEP_KEEPS:]
        edits: dict[str, bytes | None] = {task.path: None for task in swept}
        edits.update({layout.done_path(task.name): task.text.encode() for task in swept})
        self._commit(layout.SYSTEM, "swept", f"sweeps {len(swept)} finished tasks into {layout.DONE}/", edits)

    def _commit(
        self, author: str, event: str, words: str, edits: dict[str, bytes | None], task: Task | None = None
    ) -> None:
        story = Story()
        story.tell(event, f"{author} {words}", task)
        self._commits += 1
        who = f"{author} <{author}@gitteam.invalid> {BEGINNING + self._commits} +0000"
        head = f"commit refs/heads/{layout.DEFAULT_BRANCH}\nauthor {who}\ncommitter {who}\n"
        self.stream += [head.encode(), _data(story.message(f"{self._commits:016x}").encode())]
        for path, data in edits.items():
            self.stream.append(f"D {path}\n".encode() if data is None else f"M 100644 inline {path}\n".encode())
            self.stream.append(b"" if data is None else _data(data))


def _data(data: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(data), data)


def _life(number: int, author: str, finished: bool, commits: int, role: str) -> Iterator[tuple[str, Task]]:
    """A task's versions: added, claimed, noted, completed; without the second and the last if it is not finished."""
    subject = f"Look into the matter of customer {number}"
    text = new_task_text(subject, "What they wrote, what we answered,\nwhat is left to do.", [], role, 0)
    task = parse_task(f"{layout.TASKS}/{layout.task_name(number, subject)}", text.encode())
    yield "added", task
    if finished:
        task = task.with_values(status=IN_PROGRESS, owner=author, claim=1)
        yield "claimed", task
    for _ in range(commits - (3 if finished else 1)):
        task = task.with_note("2023-11-14T22:13:20Z", author, "asked again, no answer yet")
        yield "noted", task
    if finished:
        yield "completed", task.with_values(status=COMPLETED)
