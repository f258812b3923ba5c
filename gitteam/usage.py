"""What the models used: a log with a line for every call, and its sums by member, task, day, or all together."""

from __future__ import annotations

import errno
import json
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from gitteam.layout import Layout
from gitteam.records import MAX_TIME

TOKENS = ("input", "output", "cache_read", "cache_write")
_MOST = 1e12  # of tokens or dollars in one call: a line with more says nothing


@dataclass(frozen=True, slots=True)
class Call:
    """One model call. `task` is 0 for work on none, `cost` is in dollars and None where the price is unknown."""

    time: float
    member: str
    task: int
    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float | None

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_write

    @property
    def day(self) -> str:
        return time.strftime("%Y-%m-%d", time.localtime(self.time))


@dataclass(frozen=True)
class Row:
    """The sum of some calls. `cost` is that of the calls with a known price; `unpriced` says how many have none."""

    key: str | int
    calls: int
    input: int  # all of the prompts, read from the cache or not
    output: int
    cache_read: int
    cost: float
    unpriced: int
    models: tuple[str, ...]

    @property
    def cached(self) -> float:
        """The share of the prompts that was read from the cache."""
        return self.cache_read / self.input if self.input else 0.0

    @property
    def known_cost(self) -> float | None:
        """What all of it cost, if that is known."""
        return None if self.unpriced else self.cost

    def plus(self, other: Row) -> Row:
        return Row(
            self.key, self.calls + other.calls, self.input + other.input, self.output + other.output,
            self.cache_read + other.cache_read, self.cost + other.cost, self.unpriced + other.unpriced,
            tuple(sorted({*self.models, *other.models})),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {
            "calls": self.calls, "input": self.input, "output": self.output, "cached": round(self.cached, 4),
            "cost": None if self.unpriced == self.calls else round(self.cost, 8), "unpriced": self.unpriced,
            "models": list(self.models),
        }  # fmt: skip


# -- the log ------------------------------------------------------------------------------------


def append(place: Layout, call: Call) -> None:
    """One write, which the system puts at the end whoever else writes."""
    os.makedirs(place.state, exist_ok=True)
    fd = os.open(place.usage, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        line = json.dumps(asdict(call)).encode() + b"\n"
        if _is_torn(fd):
            line = b"\n" + line  # or it would be a part of what somebody could not finish
        if os.write(fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place.usage)
    finally:
        os.close(fd)


def _is_torn(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"


def read(place: Layout) -> list[Call]:
    return read_from(place, 0)[0]


def read_from(place: Layout, start: int) -> tuple[list[Call], int]:
    """The calls from a place in the file on, and the place to go on from. What cannot be read is skipped."""
    try:
        with open(place.usage, "rb") as f:
            start = start if start <= f.seek(0, os.SEEK_END) else 0  # it is another file than before
            f.seek(start)
            data = f.read()
    except FileNotFoundError:
        return [], 0
    whole = data.rfind(b"\n") + 1
    return [call for line in data[:whole].split(b"\n") if (call := _parsed(line))], start + whole


def _parsed(line: bytes) -> Call | None:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or not all(fits(values.get(key)) for key, fits in _FORMS.items()):
        return None
    return Call(**{key: values[key] for key in _FORMS})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_cost(value: Any) -> bool:
    return value is None or _is_number(value)


_FORMS: dict[str, Callable[[Any], bool]] = {
    "time": lambda value: _is_number(value) and value < MAX_TIME, "member": _is_text, "task": _is_count,
    "model": _is_text, **dict.fromkeys(TOKENS, _is_count), "cost": _is_cost,
}  # fmt: skip


# -- sums ---------------------------------------------------------------------------------------

_KEYS: dict[str, Callable[[Call], str | int]] = {
    "member": lambda call: call.member, "task": lambda call: call.task, "day": lambda call: call.day,
    "team": lambda call: "team",
}  # fmt: skip


def sums(calls: Iterable[Call], by: str) -> list[Row]:
    """A row for each member, task or day, in their order; by team a single one. Without calls there is none."""
    groups: dict[str | int, list[Call]] = {}
    for call in calls:
        groups.setdefault(_KEYS[by](call), []).append(call)
    return [_row(key, groups[key]) for key in sorted(groups)]


def _row(key: str | int, calls: list[Call]) -> Row:
    costs = [call.cost for call in calls if call.cost is not None]
    return Row(
        key, len(calls), sum(call.prompt for call in calls), sum(call.output for call in calls),
        sum(call.cache_read for call in calls), math.fsum(costs), len(calls) - len(costs),
        tuple(sorted({call.model for call in calls})),
    )  # fmt: skip
