"""One picture of the team for a screen of any size: what needs a person, who does what, the board, the diary.

Pure: a picture follows from the records and nothing else. What is most important takes
the room it needs, the rest shares what is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import click

from gitteam.board import open_first
from gitteam.cli.common import dim, fit, heading, person, width
from gitteam.journal import Entry
from gitteam.records import CANCELLED, COMPLETED, FAILED, FINISHED, IN_PROGRESS, Task
from gitteam.render import visible
from gitteam.requests import OPEN, PLAN, Request
from gitteam.status import Present, Status

SMALLEST = 40, 10
_LEAST = 4  # so many rows each part gets before the more important ones get all they want
_UNSHOWN = ("", "taken", "swept")  # of no interest while one looks on

Style = Callable[[str], str]


def picture(
    status: Status, tasks: Sequence[Task], requests: Sequence[Request], entries: Sequence[Entry],
    usage_lines: Sequence[str], columns: int, height: int, *, now: float, warnings: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """At most `height` lines of at most `columns` columns, coloured. The entries come oldest first.

    `now` decides only whether a time is shown as time of day; `warnings` are why this may not be the newest state.
    """
    if columns < SMALLEST[0] or height < SMALLEST[1]:
        return [_cell("too small: needs {}x{}".format(*SMALLEST), columns)][:height]
    lines = [_title(status, columns), _figures(status, usage_lines, columns)]
    parts = [
        _Needs([*(_Need(text) for text in warnings), *_needs(status, requests)]),
        _Members(sorted(status.members, key=_liveliness), now),
        _Tasks(open_first(task for task in tasks if task.status not in FINISHED)),
        _Diary([entry for entry in entries if entry.event not in _UNSHOWN], now),
    ]
    rooms, gap = _share([part.wants(columns) for part in parts], height - len(lines))
    for part, room in zip(parts, rooms, strict=True):
        if room:
            lines += [*gap, heading(part.title), *part.lines(columns, room)]
    return lines


def _share(wanted: list[int], left: int) -> tuple[list[int], list[str]]:
    """How many rows each part gets, and what stands between them: an empty line, if all get enough even so."""
    enough = [wanted[0], *(min(want, _LEAST) for want in wanted[1:])]
    airy = _rooms(wanted, enough, left, 2)
    if all(rows >= least for rows, least in zip(airy, enough, strict=True)):
        return airy, [""]
    return _rooms(wanted, enough, left, 1), []


def _rooms(wanted: list[int], enough: list[int], left: int, extra: int) -> list[int]:
    """First enough for each in order, then all they want; `extra` lines are needed besides the rows of each."""
    rooms = [0] * len(wanted)
    for goal in (enough, wanted):
        for n, rows in enumerate(goal):
            cost = extra if rows and not rooms[n] else 0
            more = max(0, min(rows - rooms[n], left - cost))
            rooms[n] += more
            left -= more + cost if more else 0
    return rooms


# -- cells ----------------------------------------------------------------------------------


def _cell(text: str, columns: int, style: Style = str) -> str:
    """A text from anywhere, harmless and exactly so many columns wide."""
    line = " ".join(visible(text[: 4 * columns]).split())  # a tab would be as wide as the terminal likes
    # `fit` shortens step by step: it gets at most one character too many.
    end = next((n for n, used in enumerate(accumulate(map(width, line)), 1) if used > columns), None)
    return style(fit(line[:end], columns))


def _spread(left: str, right: str, columns: int, left_style: Style = str, right_style: Style = str) -> str:
    """Two texts at both ends of a line; where they meet the left one is cut, and the right one at half of it."""
    if not right:
        return _cell(left, columns, left_style)
    right = _cell(right, min(width(right), columns // 2))
    return _cell(left, columns - width(right) - 2, left_style) + "  " + right_style(right)


def _widest(texts: Sequence[str], most: int) -> int:
    return min(most, max(map(width, texts), default=0))


def _in(color: str) -> Style:
    return lambda text: click.style(text, fg=color)


def _clock(when: float, now: float) -> str:
    """The time of day, or the day if it is another one: nothing that would be wrong a minute later."""
    then = time.localtime(when)
    return time.strftime("%H:%M" if then[:3] == time.localtime(now)[:3] else "%d %b", then)


def _title(status: Status, columns: int) -> str:
    done, total = status.counts[COMPLETED], sum(status.counts.values()) - status.counts[CANCELLED]
    figures, bar = f"{done}/{total}", min(30, columns // 4)
    filled = bar * done // total if total else 0
    left = columns - bar - len(figures) - 5
    name = min(width(status.team), left)
    branch = _cell(f"on branch {status.branch}", left - name, dim)
    progress = _in("green")("█" * filled) + dim("░" * (bar - filled))
    return f"{_cell(status.team, name, heading)}  {branch}  {progress} {figures}"


def _figures(status: Status, usage_lines: Sequence[str], columns: int) -> str:
    words = [f"{n} {what.replace('_', ' ')}" for what, n in status.counts.items() if n]
    return _spread(", ".join(words) or "no tasks", ", ".join(usage_lines), columns, dim, dim)


@dataclass(frozen=True)
class _Part:
    """A part of the picture. It says how many rows it wants, and makes do with fewer."""

    items: Sequence[Any]

    title = ""
    remedy = ""  # what to type to see what was left out
    empty = ""

    def wants(self, columns: int) -> int:
        return len(self.items) or bool(self.empty)

    def lines(self, columns: int, room: int) -> list[str]:
        if not self.items:
            return ["  " + _cell(self.empty, columns - 2, dim)]
        if len(self.items) <= room:
            return self.rows(self.items, columns)
        rest = f"… and {len(self.items) - room + 1} more: {self.remedy}"
        return [*self.rows(self.items[: room - 1], columns), "  " + _cell(rest, columns - 2, dim)]

    def rows(self, items: Sequence[Any], columns: int) -> list[str]:
        raise NotImplementedError


@dataclass(frozen=True)
class _Need:
    text: str
    command: str = ""  # what to type about it


def _needs(status: Status, requests: Sequence[Request]) -> Iterator[_Need]:
    commands = set()
    for request in requests:
        if (request.kind, request.status) == (PLAN, OPEN):
            number = request.work.partition("/")[0] if "/" in request.work else ""
            commands.add(command := f"gitteam approve {request.id}")
            yield _Need(f"{request.sender} plans{f' #{number}' if number else ''}: {request.content}", command)
    for line in status.needs:
        text, _, command = line.rpartition(": ")
        if command not in commands:
            yield _Need(text, command)
    for path, reason in sorted(status.unreadable.items()):
        yield _Need(f"{path} cannot be read: {reason}")
    for present in status.members:
        if end := _bad_end(present):
            yield _Need(f"{present.member.name} {end}", f"gitteam join {present.member.name}")


def _bad_end(present: Present) -> str:
    """How an agent ended that did not end in order, or ""."""
    member = present.member
    if member.kind != "agent" or present.alive or member.status == "shutdown":
        return ""
    if member.status == "idle" and not member.reason:
        return ""  # it has never run
    return f"failed: {member.reason}" if member.status == "failed" else f"died while {member.status.replace('_', ' ')}"


class _Needs(_Part):
    title = "needs a person"
    remedy = "gitteam status"

    def wants(self, columns: int) -> int:
        return sum(len(_wrapped(need, columns)) for need in self.items)

    def lines(self, columns: int, room: int) -> list[str]:
        if len(self.items) > room:
            return super().lines(columns, room)
        lines: list[str] = []
        for left, need in zip(reversed(range(len(self.items))), self.items, strict=True):
            whole = _wrapped(need, columns)
            lines += whole if len(lines) + len(whole) + left <= room else self.rows([need], columns)
        return lines

    def rows(self, items: Sequence[_Need], columns: int) -> list[str]:
        return [_need_line(need, columns) for need in items]


def _wrapped(need: _Need, columns: int) -> list[str]:
    """With its command below, where both cannot stand side by side."""
    if not need.command or min(width(need.text), 40) + width(need.command) + 6 <= columns:
        return [_need_line(need, columns)]
    return [_need_line(_Need(need.text), columns), "    " + _cell(need.command, columns - 4, _in("cyan"))]


def _need_line(need: _Need, columns: int) -> str:
    room = columns - 4
    command = _cell(need.command, min(width(need.command), max(room * 2 // 3, room - 2 - width(need.text))))
    text = _cell(need.text, room - (width(command) + 2 if command else 0))
    return f"  {_in('red')('!')} {text}" + (f"  {_in('cyan')(command)}" if command else "")


_STATE_STYLES = {"working": _in("green"), "waiting_approval": _in("yellow"), "failed": _in("red")}
_LIVELINESS = {"working": 0, "waiting_approval": 1, "stopping": 2, "idle": 3}


def _liveliness(present: Present) -> int:
    """Who does something stands first, and is seen also where not all can be."""
    return _LIVELINESS.get(present.state, 4)


@dataclass(frozen=True)
class _Members(_Part):
    now: float

    title = "members"
    remedy = "gitteam member"
    empty = "nobody yet: gitteam member add alice --role backend"

    def rows(self, items: Sequence[Present], columns: int) -> list[str]:
        name = _widest([p.member.name for p in items], 16)
        role = _widest([p.member.role or p.member.kind for p in items], 12) if columns >= 60 else 0
        state = _widest([p.state for p in items], 16)
        return [self._row(p, name, role, state, columns) for p in items]

    def _row(self, present: Present, name: int, role: int, state: int, columns: int) -> str:
        member = present.member
        who = _cell(member.name, name, lambda text: person(text.rstrip()) + " " * (name - len(text.rstrip())))
        what = _cell(member.role or member.kind, role, dim) + "  " if role else ""
        does = _cell(present.state.replace("_", " "), state, _STATE_STYLES.get(present.state, dim))
        left = columns - name - role - state - (8 if role else 6)
        since = f"since {_clock(member.since, self.now)}" if left > 28 and present.alive and member.since else ""
        return f"  {who}  {what}{does}  {_spread(_occupation(present), since, left, str, dim)}"


def _occupation(present: Present) -> str:
    facts = [f"#{task.id} {task.subject}" for task in present.holds]
    if not facts and present.alive and present.member.reason:
        facts = [present.member.reason.replace("_", " ")]
    return ", ".join([*facts, f"{present.unread} unread"] if present.unread else facts)


_MARKS = {IN_PROGRESS: ("●", _in("green")), FAILED: ("✗", _in("red"))}


class _Tasks(_Part):
    title = "board"
    remedy = "gitteam task"
    empty = 'nothing to do: gitteam task add "What has to be done"'

    def rows(self, items: Sequence[Task], columns: int) -> list[str]:
        digits = _widest([str(task.id) for task in items], 9)
        return [self._row(task, digits, columns) for task in items]

    def _row(self, task: Task, digits: int, columns: int) -> str:
        mark, style = _MARKS.get(task.status, ("○", str) if task.ready else ("◌", dim))
        number = f"#{task.id}".rjust(digits + 1)
        rest = _spread(task.subject, _standing(task), columns - digits - 7, str, style)
        return f"  {style(mark)} {number}  {rest}"


def _standing(task: Task) -> str:
    if task.status == IN_PROGRESS:
        return task.owner
    ready = f"ready for {task.role}" if task.role else "ready"
    return ready if task.ready else task.reason


@dataclass(frozen=True)
class _Diary(_Part):
    now: float

    title = "diary"

    def lines(self, columns: int, room: int) -> list[str]:
        return [self._row(entry, columns) for entry in self.items[-room:]]

    def _row(self, entry: Entry, columns: int) -> str:
        when = _cell(_clock(entry.time, self.now), 6, dim)
        text = _cell(entry.sentence, columns - 10)
        if text.startswith(entry.author + " "):
            text = person(entry.author) + text[len(entry.author) :]
        return f"  {when}  {text}"
