"""How far a run has come: one quiet last line under the events, redrawn in place."""

from __future__ import annotations

import os
import select
import shutil
import sys
import threading

import click

from gitteam.agents.account import Account
from gitteam.agents.gate import Stopped
from gitteam.cli.common import dim, fit
from gitteam.cli.live import Screen
from gitteam.journal import Entry
from gitteam.records import FAILED, FINISHED, IN_PROGRESS, Task
from gitteam.team import Team

_BAR = 20  # columns
_ERASE = "\r\x1b[K"
_HEED = 0.2  # seconds until a question notices that the team is stopping


def can_be_drawn() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class ProgressScreen(Screen):
    """Lines of events, and below them how far the tasks are that were not finished `before`."""

    can_ask = True

    def __init__(self, width: int, team: Team, before: set[int]):
        super().__init__(False, width)
        self._team, self._before = team, before
        self._tasks: list[Task] = []
        self._account: Account | None = None

    def pay_from(self, account: Account | None) -> None:
        self._account = account

    def show(self, entry: Entry) -> None:
        tasks = self._team.tasks(finished=True)
        self._tasks = [task for task in tasks if task.id not in self._before]
        super().show(entry)

    def print(self, line: str) -> None:
        with self._mutex:
            self._write(_ERASE)
            click.echo(line, color=self._color)
            self._write(self._bar())

    def warn(self, text: str) -> None:
        self._write(_ERASE)  # nobody is waited for: it may be a question that waits for us
        super().warn(text)

    def close(self) -> None:
        """The line is gone."""
        with self._mutex:
            self._tasks = []
            self._write(_ERASE)

    def ask(self, lines: list[str], question: str, stop: threading.Event) -> bool:
        """Yes, unless the person says otherwise. Nothing else is printed meanwhile."""
        with self._mutex:
            self._write(_ERASE)
            click.echo("\n".join(lines))
            self._write(f"{question} [Y/n] ")
            return _answer(stop).strip().lower() in ("", "y", "yes")

    def _bar(self) -> str:
        columns = shutil.get_terminal_size().columns - 1  # a full line would begin another one
        text = progress(self._tasks, self._account.spending().cost if self._account else 0.0)
        # The cursor goes back to where the line begins, so that whatever else is printed does not stand behind it.
        return f"{dim(fit(text, columns).rstrip())}\r" if text and columns > 0 else ""

    def _write(self, text: str) -> None:
        """As it is: click takes all codes for colours and leaves them out where there are to be none."""
        sys.stdout.write(click.unstyle(text) if os.environ.get("NO_COLOR") and text != _ERASE else text)
        sys.stdout.flush()


def progress(tasks: list[Task], cost: float) -> str:
    """`[██░░] 2 of 4 done · ana #3, bob #4 · $0.02`, or nothing where there is no task."""
    if not tasks:
        return ""
    done, failed = sum(t.status in FINISHED for t in tasks), sum(t.status == FAILED for t in tasks)
    full = _BAR * done // len(tasks)
    parts = [f"[{'█' * full}{'░' * (_BAR - full)}] {done} of {len(tasks)} done"]
    parts += [f"{failed} failed"] if failed else []
    at_work = [f"{task.owner} #{task.id}" for task in tasks if task.status == IN_PROGRESS]
    parts += [", ".join(at_work)] if at_work else []
    parts += [f"${cost:.2f}"] if cost >= 0.005 else []
    return " · ".join(parts)


def _answer(stop: threading.Event) -> str:
    """A line from the person, or "no" at the end of their input. Raises Stopped when the team stops."""
    while not stop.is_set():
        if select.select([sys.stdin], [], [], _HEED)[0]:
            return sys.stdin.readline() or "no"
    click.echo()
    raise Stopped
