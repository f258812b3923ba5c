"""Boards to measure on: histories such as the package makes them, written in one go."""

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from gitteam import Team, layout
from gitteam.doctor import examine
from gitteam.moves import SWEEP_AT, SWEEP_KEEPS
from gitteam.records import COMPLETED, IN_PROGRESS, Member, Task, new_task_text, parse_task
from gitteam.roster import Config
from gitteam.story import Story

MEMBERS = [f"m{n}" for n in range(1, 17)]
LOOSE_OBJECTS = 6_000  # above so many gitteam packs them; a smaller history is left loose, as it would be

Commit = tuple[str, str, Task | None, dict[str, bytes | None]]  # author, event, task, files


def run(cwd: Path, *words: str, stdin: bytes | None = None) -> bytes:
    done = subprocess.run(words, cwd=cwd, input=stdin, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout


@cache
def board(path: Path, tasks: int, finished: int = 0, commits_each: int = 1, role: str = "", **settings: str) -> Path:
    """A repository with a team of sixteen and so many tasks, each with its commits, that the doctor accepts."""
    members = {name: Member(name, "worker", "external") for name in MEMBERS}
    config = Config("bench", layout.DEFAULT_BRANCH, members, settings)
    stream = b"".join(_stream(_history(config, tasks, finished, commits_each, role)))
    run(Path.home(), "git", "init", "-q", str(path))
    run(path, "git", "-c", f"fastimport.unpackLimit={LOOSE_OBJECTS}", "fast-import", "--quiet", stdin=stream)
    Team.init(path)
    with Team(path) as team:
        if findings := examine(team, repair=False):
            raise RuntimeError(f"the doctor does not accept the board: {findings[0].text}")
    return path


def _history(config: Config, tasks: int, finished: int, commits_each: int, role: str) -> Iterator[Commit]:
    """Each task is added, edited as often as it takes, and perhaps claimed, completed and swept."""
    yield layout.USER, "init", None, {layout.CONFIG: config.to_bytes()}
    done: list[Task] = []
    for number in range(1, tasks + 1):
        author, subject, ends = MEMBERS[number % 16], f"Look into the matter of customer {number}", number <= finished
        text = new_task_text(subject, "What they wrote, what we answered,\nwhat is left to do.", [], role, 0)
        task = parse_task(f"{layout.TASKS}/{layout.task_name(number, subject)}", text.encode())
        life: list[tuple[str, dict[str, Any]]] = [("added", {})]
        life += [("edited", {"priority": n}) for n in range(1, commits_each - 2 * ends)]
        life += [("claimed", {"status": IN_PROGRESS, "owner": author, "claim": 1})] * ends
        life += [("completed", {"status": COMPLETED})] * ends
        for event, values in life:
            task = task.with_values(**values)
            yield author, event, task, {task.path: task.text.encode()}
        done += [task] * ends
        if len(done) == SWEEP_AT:
            swept, done = done[:-SWEEP_KEEPS], done[-SWEEP_KEEPS:]
            moved = {layout.done_path(task.name): task.text.encode() for task in swept}
            yield layout.SYSTEM, "swept", None, {**dict.fromkeys(task.path for task in swept), **moved}


def _stream(commits: Iterator[Commit]) -> Iterator[bytes]:
    """The history in the words of git fast-import."""
    for number, (author, event, task, files) in enumerate(commits, 1):
        story = Story()
        story.tell(event, f"{author}: {event}" + (f" #{task.id}: {task.subject}" if task else ""), task)
        who = f"{author} <{author}@gitteam.invalid> {1_700_000_000 + number} +0000"
        head = f"commit refs/heads/{layout.DEFAULT_BRANCH}\nauthor {who}\ncommitter {who}"
        edits = {f"{'D' if data is None else 'M 100644 inline'} {path}": data for path, data in files.items()}
        for line, data in {head: story.message(f"{number:016x}").encode(), **edits}.items():
            yield line.encode() + (b"\n" if data is None else b"\ndata %d\n%b\n" % (len(data), data))
