"""Samples taken in turns, processes let go together, and the rows they become."""

import multiprocessing
import operator
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from gitteam import Team

clock = time.monotonic  # the same in all processes


@dataclass(frozen=True)
class Row:
    """One line of the table: our samples against the reference's."""

    measure: str
    reference: str
    ours: list[float]
    theirs: list[float]
    target: str = ""  # "≤ 0.75" and the like; none where there is only something to look at
    beside: str = ""
    unit: str = "s"

    @property
    def ratio(self) -> float:
        return median(self.ours) / median(self.theirs)

    @property
    def verdict(self) -> str:
        sign, _, limit = self.target.partition(" ")
        misses = {"≤": operator.gt, "≥": operator.lt, "=": operator.ne}
        return "" if not sign else "missed" if misses[sign](self.ratio, float(limit)) else "ok"


def shown(value: float, unit: str = "s") -> str:
    if unit != "s":
        return f"{value:,.0f}{unit}"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"


def timed(action: Callable[[], Any], after: Callable[[], Any] = lambda: None) -> Callable[[], float]:
    """A subject: does something and says how long it took. `after` makes the next time the same, and is not timed."""

    def sample() -> float:
        start = clock()
        action()
        seconds = clock() - start
        after()
        return seconds

    return sample


def in_turns(rounds: int, subjects: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Sample each subject once a round, so that the machine's moods hit all alike."""
    samples: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(1 + rounds):
        for name, subject in subjects.items():
            os.sync()  # or an fsync would pay for what the subject before left unwritten
            samples[name].append(subject())
    return {name: values[1:] for name, values in samples.items()}  # the first round filled the caches


def together(path: Path, jobs: list[tuple[Callable[[Team, str], Any], str]]) -> tuple[float, list[Any]]:
    """Run jobs in a process each, begun at the same moment; the seconds until the last has ended, and their results."""
    spawn, count = multiprocessing.get_context("spawn"), len(jobs)
    with spawn.Manager() as manager, ProcessPoolExecutor(count, spawn) as pool:
        calls = pool.map(_run, [manager.Barrier(count)] * count, [path] * count, *zip(*jobs, strict=True))
        begins, ends, results = zip(*calls, strict=True)
    return max(ends) - min(begins), list(results)


def _run(gate: Any, path: Path, job: Callable[[Team, str], Any], name: str) -> tuple[float, float, Any]:
    with Team(path, lock_timeout=600) as team:  # a wait that is too long is to be measured
        team.ledger.sync()
        gate.wait(60)
        begin = clock()
        result = job(team, name)
        return begin, clock(), result
