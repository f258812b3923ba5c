"""`gitteam member`: who is on the team."""

from __future__ import annotations

import click

from gitteam.cli.common import Group, Shell, acting, dim, fit, name_argument, pass_shell, person, read_text


@click.group(cls=Group)
def member() -> None:
    """Who is on the team. Without a subcommand: list.

    \b
    gitteam member add alice --role backend
    """


@member.command("list")
@pass_shell
def list_(shell: Shell) -> None:
    """List the members.

    \b
    gitteam member list --json
    """
    members = shell.team.members()
    lines = [f"{person(m.name)}{' ' * (16 - len(m.name))}  {fit(m.role or '-', 16)}  {dim(m.kind)}" for m in members]
    none = ["nobody yet: gitteam member add NAME --role ROLE"]
    shell.print([{"name": m.name, **m.to_json()} for m in members], lines or none)


@member.command()
@click.argument("name")
@click.option("--role", default="", help="What they do, like backend; tasks can be for a role.")
@click.option("--person", "kind", flag_value="person", help="A human being.")
@click.option("--external", "kind", flag_value="external", help="A script or another program that uses these commands.")
@click.option("--prompt", default="", metavar="TEXT", help="An agent's own instructions; `-` reads standard input.")
@click.option("--model", default="", metavar="MODEL", help="An agent's own model; the team's, if not given.")
@click.option("--plan", is_flag=True, help="It has to submit a plan and wait for approval before it changes anything.")
@acting
@pass_shell
def add(shell: Shell, name: str, role: str, kind: str | None, prompt: str, model: str, plan: bool, by: str) -> None:
    """Put somebody on the team.

    \b
    gitteam member add alice --role backend
    gitteam member add ana --role api --prompt "You own the API." --plan
    gitteam member add ci --external
    """
    prompt = read_text(prompt)
    added = shell.team.add_member(name, role, kind or "agent", prompt=prompt, model=model, plan=plan, by=by)
    shell.print({"name": added.name, **added.to_json()}, added.name)


@member.command()
@name_argument()
@acting
@pass_shell
def remove(shell: Shell, name: str, by: str) -> None:
    """Take somebody off the team; what they hold goes back to the board.

    \b
    gitteam member remove alice
    """
    removed = shell.team.remove_member(name, by=by)
    shell.print({"name": removed.name, **removed.to_json()}, removed.name)
