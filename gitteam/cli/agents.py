"""Agents: starting them, stopping them, deciding about their plans."""

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

from gitteam.cli.common import (
    Command,
    F,
    Shell,
    acting,
    dim,
    dump_json,
    hint,
    name_argument,
    pass_shell,
    person,
    screen_width,
    visible_line,
)  # fmt: skip
from gitteam.errors import BadInput, Conflict, NotFound, NothingToDo
from gitteam.layout import LEAD
from gitteam.records import FAILED, FINISHED, Message
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


@click.command(cls=Command, short_help="Start the team's agents; they work off the board.")
@click.option("--until-done", is_flag=True, help="End when nothing is left that any of them could do.")
@budget_options
@script_option
@pass_shell
def up(shell: Shell, /, until_done: bool, script: str | None, **budget: Any) -> int:
    """Start all agents on the roster; they work off the board until you stop them. Ctrl-C stops them in order.

    \b
    gitteam up
    gitteam up --until-done
    gitteam up --script examples/scripts/three-tasks.toml
    """
    names = [m.name for m in shell.team.members() if m.kind == "agent"]
    if not names:
        raise NothingToDo("there is no agent on the team: gitteam member add ana --role backend")
    return _run(shell, names, script, budget, until_done, stays=True)


@click.command(cls=Command)
@name_argument()
@budget_options
@script_option
@pass_shell
def join(shell: Shell, /, name: str, script: str | None, **budget: Any) -> int:
    """Run one agent in this terminal. Several terminals make one team.

    \b
    gitteam join ana
    """
    member = shell.team.config().members.get(name)
    if member is None:
        raise NotFound(f"nobody on the team is called {name!r}: {shell.team.config().names()}")
    if member.kind != "agent":
        raise BadInput(f"{name} is {member.kind}, not an agent: it takes part through the commands")
    return _run(shell, [name], script, budget, until_done=False, stays=False)


def _run(
    shell: Shell, names: list[str], script: str | None, budget: dict[str, Any], until_done: bool, stays: bool
) -> int:
    from gitteam.agents.settings import read_settings

    team = shell.team
    settings = read_settings(team.config().settings)
    for name in names:
        if team.is_alive(name):
            raise Conflict(f"{name} is running already: stop it with `gitteam stop {name}`")
    with model_for(team, script, settings, budget) as model:
        from gitteam.agents.crew import Crew

        screen = Screen(shell.as_json, max(map(len, names)))
        hint(f"commands run with your rights in {visible_line(team.place.root)}; Ctrl-C stops the team")
        allow_hooks(team)
        crew = Crew(team, names, model, settings, screen.say, screen.show)
        with signals(crew):
            crew.run(until_done, stays)
    return _summary(team, crew, until_done)


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


@contextmanager
def model_for(team: Team, script: str | None, settings: Settings, budget: dict[str, Any]) -> Iterator[Model]:
    """The model to ask: the API, a server of the person's own, or the scripted one; paid from one account."""
    from gitteam.workplace.secrets import hide_key_from_proc

    if script is None:
        keys = hide_key_from_proc()  # starts the program once more: nothing may have been printed
        from gitteam.agents.model import Model

        model = Model(keys, os.environ.get("ANTHROPIC_BASE_URL"), settings.stall_timeout, settings.give_up_after)
        model.account = _account(team, settings, budget)
        try:
            yield model
        finally:
            model.close()
        return
    from gitteam.agents.model import KEYS, Model
    from gitteam.scripted import Script, Server

    with Server(Script.load(script)) as server:
        model = Model({KEYS[0]: "scripted"}, server.url, settings.stall_timeout, settings.give_up_after)
        model.account = _account(team, settings, budget)
        try:
            yield model
        finally:
            model.close()


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
def signals(crew: Crew, tell: Callable[[str], None] = hint) -> Iterator[None]:
    """Once: everybody stops in order. Twice: everybody hands back, and the process ends at once."""
    asked = 0

    def handle(number: int, frame: Any) -> None:
        nonlocal asked
        asked += 1
        # What is done here takes locks, which the interrupted main thread may hold.
        threading.Thread(target=stop_politely if asked == 1 else stop_at_once, daemon=True).start()

    def stop_politely() -> None:
        tell("stopping: everybody finishes the current call; Ctrl-C again to stop at once")
        crew.ask_to_stop()

    def stop_at_once() -> None:
        crew.abandon()
        os._exit(130)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _summary(team: Team, crew: Crew, until_done: bool) -> int:
    for reason in sorted(set(crew.failures.values())):
        names = ", ".join(sorted(name for name, why in crew.failures.items() if why == reason))
        click.echo(f"{click.style('gitteam:', fg='red')} {names}: {visible_line(reason)}", err=True)
    left = [task for task in team.tasks() if task.status not in FINISHED]
    if until_done and left:
        failed = sum(task.status == FAILED for task in left)
        hint(f"{len(left)} task{'' if len(left) == 1 else 's'} left, {failed} of them failed: gitteam task")
    return 1 if crew.failures or (until_done and left) else 0


@click.command(cls=Command)
@click.argument("name", metavar="[NAME]", required=False)
@click.option("-m", "--reason", default="", metavar="TEXT", help="Why; the member reads it.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=60, show_default=True, metavar="S", help="Wait for it."
)
@acting
@pass_shell
def stop(shell: Shell, name: str | None, reason: str, timeout: float, by: str) -> int:
    """Ask a running member to shut down, or all of them; it answers at its next model call, and may decline.

    \b
    gitteam stop ana
    gitteam stop --timeout 0      # ask everybody, and do not wait
    """
    team = shell.team
    if name is not None:
        team.config().member(name)
    names = [name] if name else [m.name for m in team.members() if team.is_alive(m.name)]
    if not [n for n in names if team.is_alive(n)]:
        raise NothingToDo(f"{name} is not running" if name else "nobody is running")
    asked = {team.ask_shutdown(n, reason, by=by).id: n for n in names}
    answers = _answers(team, asked, time.monotonic() + timeout, by)
    said = [{"name": n, "request": request, **answers.get(request, {})} for request, n in asked.items()]
    shell.print(said, [_stop_line(each) for each in said])
    if any(each.get("approve") is False for each in said):
        return Conflict.exit_code
    return 0 if timeout == 0 or len(answers) == len(asked) else NothingToDo.exit_code


def _stop_line(said: dict[str, Any]) -> str:
    reason = visible_line(str(said.get("reason", "")))
    silent = "has ended without an answer" if "approve" in said else "has been asked"
    answer = {True: "shuts down", False: f"declines: {reason}", None: silent}
    return f"{person(said['name'])} {answer[said.get('approve')]}"


def _answers(team: Team, asked: dict[str, str], deadline: float, by: str) -> dict[str, dict[str, Any]]:
    """What was answered until the deadline, or who ended without a word; the answers stay in the inbox."""
    from gitteam.watch import Watch

    with Watch(team.place) as watch:
        while True:
            gone = {request for request, name in asked.items() if not team.is_alive(name)}  # looked at before the inbox
            inbox: list[Message] = team.inbox(by)
            found = {
                str(m.extra.get("request_id")): {"approve": m.extra.get("approve"), "reason": m.extra.get("reason", "")}
                for m in inbox
                if m.type == "shutdown_response"
            }
            unsaid = {request: {"approve": None, "reason": ""} for request in gone}
            answers = {request: answer for request, answer in {**unsaid, **found}.items() if request in asked}
            ended = gone | {request for request, answer in answers.items() if answer["approve"] is False}
            left = deadline - time.monotonic()
            if len(ended) == len(asked) or left <= 0:
                return answers
            watch.wait(left)


@click.command(cls=Command)
@click.argument("request", metavar="ID")
@click.option("-m", "--message", "feedback", default="", metavar="TEXT", help="Something to add.")
@acting
@pass_shell
def approve(shell: Shell, request: str, feedback: str, by: str) -> None:
    """Approve a plan: by its id, the beginning of it, or the member's name.

    \b
    gitteam approve 3f9a1c
    """
    _decided(shell, request, True, feedback, by)


@click.command(cls=Command)
@click.argument("request", metavar="ID")
@click.argument("feedback")
@acting
@pass_shell
def reject(shell: Shell, request: str, feedback: str, by: str) -> None:
    """Reject a plan and say what to change; the member submits another one.

    \b
    gitteam reject 3f9a1c "Too broad: start with the login form"
    """
    _decided(shell, request, False, feedback, by)


def _decided(shell: Shell, request: str, approve: bool, feedback: str, by: str) -> None:
    decided = shell.team.decide_plan(request, approve, feedback, by=by)
    verb = "approved" if approve else "rejected"
    shell.print({**decided.to_json(), "status": verb}, f"{verb} {decided.sender}'s plan {decided.id}")
