"""`gitteam member`: who is on the team."""

from __future__ import annotations

import click

from gitteam.cli.common import Group, Shell, acting, dim, fit, name_argument, pass_shell, person


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
@acting
@pass_shell
def add(shell: Shell, name: str, role: str, kind: str | None, by: str) -> None:
    """Put somebody on the team.

    \b
    gitteam member add alice --role backend
    gitteam member add ci --external
    """
    added = shell.team.add_member(name, role, kind or "agent", by=by)
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
