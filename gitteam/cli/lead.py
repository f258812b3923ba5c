"""`gitteam run`: one sentence in, finished work out."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from gitteam.cli.common import Command, Shell, dim, heading, hint, pass_shell, person, visible_line
from gitteam.cli.live import Screen, allow_hooks, budget_options, end_of, model_for, script_option, signals
from gitteam.cli.usage import cost
from gitteam.errors import BadInput, NoTeam
from gitteam.records import FINISHED
from gitteam.render import visible
from gitteam.team import Team
from gitteam.usage import read_from, sums

if TYPE_CHECKING:
    from gitteam.agents.lead import Lead
    from gitteam.agents.outcome import Outcome

model_option = click.option(
    "--model", metavar="MODEL", default="", help="The lead's model, and that of teammates without their own."
)


@click.command(cls=Command, short_help="Give the lead a goal; it plans, starts a team, and reports.")
@click.argument("goal", required=False, default="")
@model_option
@budget_options
@click.option("--yes", is_flag=True, help="Start the team without asking.")
@script_option
@pass_shell
def run(shell: Shell, /, goal: str, model: str, yes: bool, script: str | None, **budget: Any) -> int:
    """Give the lead a goal: it plans tasks, starts teammates, coordinates, reports and disbands the team.

    Without a goal, or with the same one, it goes on with what was interrupted. Exit 0: all of it was done. Exit 1: not
    all of it. Exit 130: it was stopped, with Ctrl-C or a signal. With --json there is an object a line for every event,
    and the last one is the outcome.

    \b
    gitteam run "Migrate the app from REST to GraphQL"
    gitteam run --yes --max-cost 5 "Fix the failing tests"
    """
    team = team_here(shell)
    before = {task.id for task in team.tasks(finished=True) if task.status in FINISHED}
    spent = read_from(team.place, 0)[1]
    screen = _screen(shell, team, before)
    permission = _Permission(team, screen, asks=not yes and sys.stdin.isatty())
    with lead_here(shell, model, script, budget, screen, screen.hear, permission) as lead:
        if not goal and not lead.has_open_goal():
            raise BadInput('nothing was interrupted here: say what to do, as in `gitteam run "Fix the failing tests"`')
        permission.stop = lead.crew.stop
        lead.start(goal)
        lead.join()
    screen.close()
    found = replace(lead.outcome(before), usage=next(iter(sums(read_from(team.place, spent)[0], "team")), None))
    shell.print(found.to_json(), list(report_lines(found)))
    if lead.was_stopped:
        return 130
    return 0 if found.succeeded else 1


def _screen(shell: Shell, team: Team, before: set[int]) -> Screen:
    from gitteam.cli.progress import ProgressScreen, can_be_drawn

    return Screen(shell.as_json, 10) if shell.as_json or not can_be_drawn() else ProgressScreen(10, team, before)


def team_here(shell: Shell) -> Team:
    """The team of this repository, which is made if there is none."""
    try:
        return shell.team
    except NoTeam:
        Team.init(shell.directory)
        hint("there was no team here: made one, as `gitteam init` does")
        return shell.team


@contextmanager
def lead_here(
    shell: Shell, model: str, script: str | None, budget: dict[str, Any], screen: Screen, hear: Callable[[str], None],
    may_start: Callable[[str, str], bool], stays: bool = False,
) -> Iterator[Lead]:  # fmt: skip
    """A lead with its crew; when the block ends everybody is stopped in order."""
    from gitteam.agents.settings import read_settings

    team = shell.team
    settings = read_settings(team.config().settings)
    settings = replace(settings, model=model or settings.model)
    with model_for(team, script, settings, budget) as asked:
        from gitteam.agents.crew import Crew
        from gitteam.agents.lead import Lead, Voice, refuse_second

        refuse_second(team)
        hint(f"commands run with your rights in {visible_line(team.place.root)}; Ctrl-C stops the team")
        allow_hooks(team)
        crew = Crew(team, [], asked, settings, screen.say, screen.show)
        crew.ends = end_of(budget)
        screen.pay_from(asked.account)
        with signals(crew, screen.warn, but_ctrl_c=stays) as heed_ctrl_c:
            lead = Lead(team, crew, asked, settings, Voice(screen.say, hear, may_start), stays)
            try:
                yield lead
            finally:
                crew.ask_to_stop()
                heed_ctrl_c()
                lead.join()
                crew.finish()


class _Permission:
    """Asks the person once, before the first teammate is started."""

    def __init__(self, team: Team, screen: Screen, asks: bool):
        self._team, self._screen = team, screen
        self._answer = None if asks and screen.can_ask else True
        self.stop = threading.Event()  # the team's own, once there is one

    def __call__(self, name: str, role: str) -> bool:
        if self._answer is None:
            self._answer = self._screen.ask(list(self._plan(name, role)), "Start the team?", self.stop)
        return self._answer

    def _plan(self, name: str, role: str) -> Iterator[str]:
        yield heading("the lead's plan")
        for task in self._team.tasks():
            blocked = dim(f"  {visible(task.reason)}") if task.reason else ""
            yield f"  #{task.id}  {visible_line(task.subject)}{blocked}"
        yield f"  first teammate: {person(name)}, {visible_line(role)}"


def report_lines(found: Outcome) -> Iterator[str]:
    is_nothing = not (found.done or found.not_done or found.failed)
    yield heading("done" if found.succeeded else "nothing was done" if is_nothing else "not all of it was done")
    groups = ("", found.done), ("cancelled ", found.cancelled), ("left ", found.not_done), ("failed ", found.failed)
    for title, tasks in groups:
        for task in tasks:
            yield f"  {title}#{task.id}  {visible_line(task.subject)}{f'  {person(task.owner)}' if task.owner else ''}"
    if found.reason:
        yield f"  {visible_line(found.reason)}"
    if found.usage:
        calls = f"{found.usage.calls} model call{'' if found.usage.calls == 1 else 's'}"
        yield dim(f"  {calls}, {cost(found.usage)}")
