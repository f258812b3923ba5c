"""Samples taken in turns, processes let go together, and the rows they become."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Any

GATE_TIMEOUT = 60


@dataclass(frozen=True)
class Row:
    """One line of the table: ours against the reference, in seconds unless a unit is named."""

    measure: str
    reference: str
    ours: float
    theirs: float
    target: str = ""  # "≤ 0.75", "≥ 0.6", "= 1"; none where there is only something to look at
    beside: str = ""
    unit: str = "s"

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def verdict(self) -> str:
        if not self.target:
            return ""
        sign, limit = self.target.split()
        met = {"≤": self.ratio <= float(limit), "≥": self.ratio >= float(limit), "=": self.ratio == float(limit)}[sign]
        return "ok" if met else "over" if sign == "≤" else "under" if sign == "≥" else "wrong"


class Stopwatch:
    seconds = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    watch, start = Stopwatch(), time.perf_counter()
    yield watch
    watch.seconds = time.perf_counter() - start


def in_turns(rounds: int, subjects: dict[str, Callable[[], float]], warm_up: int = 1) -> dict[str, list[float]]:
    """Sample each subject once a round, so that the machine's moods hit all alike. Each returns its own seconds."""
    samples: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(-warm_up, rounds):
        for name, subject in subjects.items():
            os.sync()  # or a subject's fsync would pay for what the one before it left unwritten
            seconds = subject()
            if number >= 0:  # what came before filled the caches
                samples[name].append(seconds)
    return samples


def median(samples: Sequence[float]) -> float:
    return statistics.median(samples)


def percentile(samples: Sequence[float], share: float) -> float:
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * share))]


def shown(value: float, unit: str = "s") -> str:
    if unit != "s":
        return f"{value:,.0f} {unit}"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"


# -- processes ----------------------------------------------------------------------------

_gate: Barrier


def _share(gate: Barrier) -> None:
    global _gate
    _gate = gate


def pass_gate() -> float:
    """Called by each of the processes of `together` once it is ready; returns when all are, with the time."""
    _gate.wait(GATE_TIMEOUT)
    return time.monotonic()


def together(calls: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]]) -> list[Any]:
    """Run each call in a process of its own; all have to `pass_gate`. An exception in one is raised here."""
    spawn = multiprocessing.get_context("spawn")
    gate = spawn.Barrier(len(calls))
    with ProcessPoolExecutor(len(calls), mp_context=spawn, initializer=_share, initargs=(gate,)) as pool:
        return [future.result() for future in [pool.submit(function, *args) for function, args in calls]]
