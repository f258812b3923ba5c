"""`gitteam run`: one sentence in, finished work out."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import click

from gitteam.cli.agents import Screen, model_for, script_option, signals
from gitteam.cli.common import Command, Shell, dim, heading, hint, pass_shell, person, visible_line
from gitteam.errors import BadInput, NoTeam
from gitteam.records import FINISHED
from gitteam.render import visible
from gitteam.team import Team

if TYPE_CHECKING:
    from gitteam.agents.lead import Outcome


@click.command(cls=Command, short_help="Give the lead a goal; it plans, starts a team, and reports.")
@click.argument("goal", required=False, default="")
@click.option("--model", metavar="MODEL", help="The lead's model, and that of teammates without their own.")
@click.option("--yes", is_flag=True, help="Start the team without asking.")
@script_option
@pass_shell
def run(shell: Shell, goal: str, model: str | None, yes: bool, script: str | None) -> int:
    """Give the lead a goal: it plans tasks, starts teammates, coordinates, reports and disbands the team.

    Without a goal, or with the same one, it goes on with what was interrupted. Exit 0: all of it was done.

    \b
    gitteam run "Migrate the app from REST to GraphQL"
    gitteam run --yes "Fix the failing tests"
    """
    try:
        team = shell.team
    except NoTeam:
        Team.init(shell.directory)
        hint("there was no team here: made one, as `gitteam init` does")
        team = shell.team
    from dataclasses import replace

    from gitteam.agents.settings import read_settings

    settings = read_settings(team.config().settings)
    settings = replace(settings, model=model or settings.model)
    with model_for(script, settings) as asked:
        from gitteam.agents import lead as leading
        from gitteam.agents.crew import Crew

        leading.refuse_second(team)
        before = {task.id for task in team.tasks(finished=True) if task.status in FINISHED}
        screen = Screen(shell.as_json, 10)
        hint(f"commands run with your rights in {visible_line(team.place.root)}; Ctrl-C stops the team")
        crew = Crew(team, [], asked, settings, screen.say, screen.show)
        ask_first = not yes and sys.stdin.isatty() and sys.stdout.isatty() and not shell.as_json
        voice = leading.Voice(screen.say, lambda text: screen.say("lead", text), _Permission(team, not ask_first))
        lead = leading.Lead(team, crew, asked, settings, voice)
        if not goal and not lead.has_open_goal():
            raise BadInput('nothing was interrupted here: say what to do, as in `gitteam run "Fix the failing tests"`')
        thread = threading.Thread(target=lead.live, args=(goal,), name="lead", daemon=True)
        with signals(crew):
            thread.start()
            thread.join()
            was_stopped = crew.stop.is_set()
            crew.ask_to_stop()
            crew.finish()
    found = leading.outcome(team, lead, before, "it was stopped" if was_stopped else "")
    shell.print(found.to_json(), list(_report(found)))
    if not was_stopped:
        lead.reached()
    return 0 if found.succeeded else 1


class _Permission:
    """Asks the person once, before the first teammate is started."""

    def __init__(self, team: Team, given: bool):
        self._team, self._given = team, given
        self._answer: bool | None = None

    def __call__(self, name: str, role: str) -> bool:
        if self._given:
            return True
        if self._answer is None:
            click.echo(heading("the lead's plan"))
            for task in self._team.tasks():
                blocked = dim(f"  {visible(task.reason)}") if task.reason else ""
                click.echo(f"  #{task.id}  {visible_line(task.subject)}{blocked}")
            click.echo(f"  first teammate: {person(name)}, {visible_line(role)}")
            self._answer = click.confirm("Start the team?", default=True)
        return self._answer


def _report(found: Outcome) -> list[str]:
    lines = [heading("done" if found.succeeded else "not all of it was done")]
    for title, tasks in (("", found.done), ("left", found.not_done), ("failed", found.failed)):
        for task in tasks:
            who = f"  {person(task.owner)}" if task.owner else ""
            lines.append(f"  {f'{title} ' if title else ''}#{task.id}  {visible_line(task.subject)}{who}")
    return [*lines, f"  {visible_line(found.reason)}"] if found.reason else lines
