"""What `up`, `join`, `run`, `chat` and `demo` share: the model they ask, the lines they show, how they are stopped."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from gitteam.cli.common import F, dim, dump_json, hint, person, screen_width, visible_line
from gitteam.layout import LEAD
from gitteam.team import Team

if TYPE_CHECKING:
    from gitteam.agents.account import Account
    from gitteam.agents.crew import Crew
    from gitteam.agents.model import Model
    from gitteam.agents.settings import Settings
    from gitteam.journal import Entry

_UNSHOWN = ("taken", "swept")  # of no interest while one looks on

script_option = click.option(
    "--script", metavar="FILE", help="Answer from a script instead of a model: see docs/scripted.md."
)


def budget_options(function: F) -> F:
    """What may be spent before everybody hands back and ends."""
    above = click.FloatRange(min=0, min_open=True)
    for option in (
        click.option("--max-minutes", type=above, metavar="M", help="End after so many minutes."),
        click.option("--max-turns", type=click.IntRange(min=1), metavar="N", help="Make at most so many model calls."),
        click.option("--max-cost", type=above, metavar="DOLLARS", help="Spend at most so much."),
    ):
        function = option(function)
    return function


def _account(team: Team, settings: Settings, budget: dict[str, Any]) -> Account:
    from gitteam import prices
    from gitteam.agents.account import Account, Limits

    minutes = budget.get("max_minutes")
    limits = Limits(
        budget.get("max_cost"), budget.get("max_turns"), minutes * 60 if minutes else None,
        settings.task_max_cost or None, settings.task_max_turns or None,
    )  # fmt: skip
    return Account(team.place, prices.load(team.config().settings), limits)


def allow_hooks(team: Team) -> None:
    """Hooks run for whoever allowed them: those of a clone or a pull are shown first, and asked about once."""
    from gitteam import hooks

    found = hooks.parse(team.config().settings)
    if hooks.allowed(team.place, found):
        return
    hint("the team's settings name these commands, which run when something happens:")
    for line in hooks.describe(found):
        hint(f"  {line}")
    if sys.stdin.isatty() and sys.stderr.isatty() and click.confirm("Let them run here?", default=False, err=True):
        hooks.allow(team.place, found)
    else:
        hint("they do not run; start the team in a terminal to allow them")


def end_of(budget: dict[str, Any]) -> float | None:
    """When the minutes are over that were given, on the clock of time.monotonic."""
    minutes = budget.get("max_minutes")
    return time.monotonic() + minutes * 60 if minutes else None


@contextmanager
def model_for(team: Team, script: str | None, settings: Settings, budget: dict[str, Any]) -> Iterator[Model]:
    """The model to ask: the API, a server of the person's own, or the scripted one; paid from one account."""
    with _service(script) as (keys, url):
        from gitteam.agents.model import Model

        model = Model(keys, url, settings.stall_timeout, settings.give_up_after)
        model.account = _account(team, settings, budget)
        try:
            yield model
        finally:
            model.close()


@contextmanager
def _service(script: str | None) -> Iterator[tuple[dict[str, str], str | None]]:
    """Who answers: the keys for it, and where it is if that is not the usual place."""
    if script is None:
        from gitteam.workplace.secrets import hide_key_from_proc

        keys = hide_key_from_proc()  # starts the program once more: nothing may have been printed
        yield keys, os.environ.get("ANTHROPIC_BASE_URL")
        return
    from gitteam.agents.model import KEYS
    from gitteam.scripted import Script, Server

    with Server(Script.load(script)) as server:
        yield {KEYS[0]: "scripted"}, server.url


class Screen:
    """A calm line per event: when, who, what."""

    can_ask = False

    def __init__(self, as_json: bool, width: int):
        self._as_json, self._width = as_json, width
        self._mutex = threading.Lock()
        context = click.get_current_context(silent=True)
        self._color = context.color if context else None  # the other threads that print here have no context

    def show(self, entry: Entry) -> None:
        if entry.event in _UNSHOWN:
            return
        if self._as_json:
            self.print(dump_json(entry.to_json()))
            return
        name, _, rest = entry.sentence.partition(" ")
        if name != entry.author:  # a person's name may have several words
            name, rest = entry.author, entry.sentence.removeprefix(entry.author).strip()
        self._line(name, rest, time.localtime(entry.time))

    def say(self, name: str, text: str) -> None:
        """Something that is not in the diary."""
        if self._as_json:
            self.print(dump_json({"author": name, "sentence": text, "event": "said"}))
        else:
            self._line(name, visible_line(text), time.localtime(), dim)

    def _line(self, name: str, text: str, when: time.struct_time, style: Callable[[str], str] = str) -> None:
        gap = " " * max(0, self._width - len(name))
        margin = len("00:00:00  ") + max(self._width, len(name)) + 2
        lines = [text]
        if sys.stdout.isatty():  # wrapped here, or the terminal breaks into the columns of time and name
            lines = textwrap.wrap(text, max(20, screen_width() - margin), break_on_hyphens=False) or [""]
        rest = [" " * margin + style(line) for line in lines[1:]]
        first = f"{dim(time.strftime('%H:%M:%S', when))}  {person(name)}{gap}  {style(lines[0])}"
        self.print("\n".join([first, *rest]))

    def print(self, line: str) -> None:
        with self._mutex:
            click.echo(line, color=self._color)
            sys.stdout.flush()

    def hear(self, text: str) -> None:
        """What the lead has said at the end of its turn."""
        if text:
            self.say(LEAD, text)

    def warn(self, text: str) -> None:
        """Something for the person, at once, whoever is printing."""
        hint(text)

    def ask(self, lines: list[str], question: str, stop: threading.Event) -> bool:
        """Nobody can be asked: it is as they wanted it when they began."""
        return True

    def pay_from(self, account: Account | None) -> None:
        """Where to see what has been spent."""

    def close(self) -> None:
        """Nothing more is shown."""


@contextmanager
def signals(crew: Crew, tell: Callable[[str], None] = hint, but_ctrl_c: bool = False) -> Iterator[Callable[[], None]]:
    """Once: everybody stops in order. Twice: everybody hands back, and the process ends at once.

    Ctrl-C may be left to a prompt; from the call of what is yielded on it is heeded too.
    """
    asked = 0

    def handle(number: int, frame: Any) -> None:
        nonlocal asked
        asked += 1
        # What is done here takes locks, which the interrupted main thread may hold.
        threading.Thread(target=stop_politely if asked == 1 else stop_at_once, daemon=True).start()

    def stop_politely() -> None:
        crew.ask_to_stop()  # first: the screen may be gone
        tell("stopping: everybody finishes the current call; Ctrl-C again to stop at once")

    def stop_at_once() -> None:
        try:
            crew.abandon()
        finally:
            os._exit(130)

    def heed_ctrl_c() -> None:
        signal.signal(signal.SIGINT, handle)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, handle)
    if not but_ctrl_c:
        heed_ctrl_c()
    try:
        yield heed_ctrl_c
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
