"""Agents: starting them, stopping them, deciding about their plans."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from gitteam.cli.common import Command, Shell, acting, hint, name_argument, pass_shell, person, visible_line
from gitteam.cli.live import Screen, allow_hooks, budget_options, end_of, model_for, script_option, signals
from gitteam.errors import BadInput, Conflict, NotFound, NothingToDo
from gitteam.records import FAILED, FINISHED, Message
from gitteam.team import Team

if TYPE_CHECKING:
    from gitteam.agents.crew import Crew


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
        crew.ends = end_of(budget)
        with signals(crew):
            crew.run(until_done, stays)
    return _summary(team, crew, until_done)


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
