"""What a committed claim costs: inside one process, and where sixteen processes want the lock."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.boards import MEMBERS, board, git, repository
from bench.timing import Row, in_turns, median, pass_gate, percentile, shown, stopwatch, together
from gitteam import Team, moves
from gitteam.change import Change
from gitteam.errors import NothingToDo
from gitteam.journal import Replay
from gitteam.records import Task

TASKS_CONTENDED = 400


def claiming(team: Team, member: str = MEMBERS[0]) -> Callable[[], float]:
    """Claim the next task, timed; hand it back, not timed."""

    def sample() -> float:
        with stopwatch() as watch:
            task = team.claim(by=member)
        team.release(task.id, by=member)
        return watch.seconds

    return sample


def _committing(path: Path, of: Path) -> Callable[[], float]:
    """The same change made with git's own commands, in an ordinary repository that tracks the same files."""
    repository(path)
    for name in (".tasks", ".team"):
        shutil.copytree(of / name, path / name)
    git(path, "add", ".")
    git(path, "commit", "-qm", "the board")
    file = min((path / ".tasks").glob("1-*.md"))
    texts = [file.read_text().replace("pending", status) for status in ("pending", "in_progress")]

    def sample() -> float:
        texts.reverse()
        with stopwatch() as watch:
            file.write_text(texts[0])
            subprocess.run(["git", "add", "--", str(file)], cwd=path, check=True)
            subprocess.run(["git", "commit", "-q", "-m", "m1 claims #1"], cwd=path, check=True)
        return watch.seconds

    return sample


def claim(scratch: Path, large: Callable[[], Path]) -> Iterator[Row]:
    durable, fast = board(scratch / "durable", 100), board(scratch / "fast", 100, fast=True)
    with Team(durable) as ours, Team(fast) as ours_fast, Team(large()) as ours_large:
        samples = in_turns(60, {
            "git": _committing(scratch / "plain", durable), "durable": claiming(ours), "fast": claiming(ours_fast),
            "large": claiming(ours_large),
        })  # fmt: skip
    middle = {name: median(times) for name, times in samples.items()}
    yield Row("claim, 100 tasks, durable", "git add + git commit", middle["durable"], middle["git"], "≤ 0.75")
    yield Row("claim, 100 tasks, fast", "git add + git commit", middle["fast"], middle["git"], "≤ 0.5")
    yield Row("claim, 10,000 tasks, 9,500 done", "claim, 100 tasks", middle["large"], middle["durable"], "≤ 1.5")


# -- sixteen at once ------------------------------------------------------------------------


def _work(path: Path, member: str) -> tuple[float, float, list[int], list[float]]:
    """Claim and complete until nothing is left: begin, end, what was claimed, how long each turn was waited for."""
    claimed: list[int] = []
    waits: list[float] = []

    def turn(operation: Callable[[Change], Task]) -> Task:
        asked = time.monotonic()

        def timed(change: Change) -> Task:
            waits.append(time.monotonic() - asked)  # the lock is ours, and the files have been looked at
            return operation(change)

        return team.ledger.change(member, timed)

    with Team(path) as team:
        team.ledger.sync()
        begin = pass_gate()
        while True:
            try:
                task = turn(moves.claim)
            except NothingToDo:
                return begin, time.monotonic(), claimed, waits
            claimed.append(task.id)
            turn(partial(moves.complete, number=task.id, claim=task.claim))


def contention(scratch: Path, large: Callable[[], Path]) -> Iterator[Row]:
    template = board(scratch / "contended", TASKS_CONTENDED)
    waits: dict[int, list[float]] = {1: [], 16: []}
    doubled = wrong = 0

    def working(processes: int) -> Callable[[], float]:
        def sample() -> float:
            nonlocal doubled, wrong
            path = scratch / "race"
            shutil.copytree(template, path)
            results = together([(_work, (path, member)) for member in MEMBERS[:processes]])
            claimed = [number for result in results for number in result[2]]
            doubled += len(claimed) - len(set(claimed))
            wrong += len(_findings(path)) + (set(claimed) != set(range(1, TASKS_CONTENDED + 1)))
            waits[processes] += [wait for result in results for wait in result[3]]
            shutil.rmtree(path)
            return max(result[1] for result in results) - min(result[0] for result in results)

        return sample

    samples = in_turns(3, {"one": working(1), "sixteen": working(16)}, warm_up=0)
    rates = {name: TASKS_CONTENDED / median(times) for name, times in samples.items()}
    yield Row(
        "16 processes claim 400 tasks", "one process", rates["sixteen"], rates["one"], "≥ 0.6", unit="/s",
        beside=f"wait for the lock p95 {shown(percentile(waits[16], 0.95))}, longest {shown(max(waits[16]))}; "
        f"{doubled} claimed twice, {wrong} wrong in the history",
    )  # fmt: skip


def _findings(path: Path) -> list[str]:
    with Team(path) as team:
        return Replay().run(team.ledger.repo, team.ledger.ref)
