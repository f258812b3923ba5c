"""How things stand: status, diary, doctor."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import click

from gitteam import journal, layout
from gitteam.cli.common import (
    Command,
    Shell,
    ago,
    dim,
    fit,
    heading,
    hint,
    pass_shell,
    person,
    screen_width,
    visible_line,
)  # fmt: skip
from gitteam.errors import NoTeam
from gitteam.status import Status

# Where one of these is set there is a model to ask.
_MODEL_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")


@click.command(cls=Command, short_help="Who is there, what needs a person, what is unreadable.")
@pass_shell
def status(shell: Shell) -> None:
    """Who is on the team and alive, what needs a person, which files cannot be read.

    \b
    gitteam status --json
    """
    found = shell.team.status()
    shell.print(found.to_json(), _picture(found))


def overview(shell: Shell) -> None:
    """What bare `gitteam` shows: the state, and the next thing to type."""
    try:
        found = shell.team.status()
    except NoTeam:
        place = layout.find(shell.directory)
        shell.print({"team": None, "next": "gitteam init"}, f"no team in {visible_line(place.root)} yet")
        hint("next: gitteam init")
        return
    step = _next_step(found)
    shell.print({**found.to_json(), "next": step}, _picture(found))
    if not shell.as_json:
        hint(f"next: {step}")


def _next_step(found: Status) -> str:
    if found.unreadable:
        return f"mend {min(found.unreadable)}"
    if found.needs:
        return found.needs[0].rpartition(": ")[2]
    if not any(found.counts.values()):
        return 'gitteam task add "What has to be done"'
    if not found.members:
        return "gitteam member add alice --role backend"
    waiting = any(present.member.kind == "agent" and not present.alive for present in found.members)
    if found.counts["ready"] and waiting and any(os.environ.get(name) for name in _MODEL_VARIABLES):
        return "gitteam up"
    if found.counts["ready"]:
        return f"gitteam task claim --as {found.members[0].member.name}"
    return "gitteam log"


def _picture(found: Status) -> Iterator[str]:
    yield f"team {heading(found.team)} {dim(f'on branch {found.branch}')}"
    words = [f"{n} {what.replace('_', ' ')}" for what, n in found.counts.items() if n]
    yield "  " + (", ".join(words) or "no tasks")
    if used := found.usage:
        cost = f"${used.cost:.2f}" if used.known_cost is not None else "cost unknown"
        yield dim(f"  {used.calls} model calls, {cost}: gitteam usage")
    if found.members:
        yield heading("members")
    for present in found.members:
        member = present.member
        facts = [present.state, *(f"#{t.id} {visible_line(t.subject)}" for t in present.holds)]
        facts += [f"{present.unread} unread"] if present.unread else []
        name = person(member.name) + " " * max(0, 12 - len(member.name))
        yield f"  {name}  {fit(member.role or member.kind, 12)}  {', '.join(facts)}"[: screen_width() + 20]
    for title, lines in (("needs a person", found.needs), ("cannot be read", _unreadable(found))):
        if lines:
            yield heading(title)
            yield from (f"  {visible_line(line)}" for line in lines)


def _unreadable(found: Status) -> list[str]:
    return [f"{path}: {reason}" for path, reason in sorted(found.unreadable.items())]


@click.command(cls=Command)
@click.argument("target", metavar="[ID | NAME]", required=False)
@click.option("-n", "--limit", type=click.IntRange(min=1), default=30, help="How many entries.", show_default=True)
@pass_shell
def log(shell: Shell, target: str | None, limit: int) -> None:
    """The diary: all of it, one task's, or one member's. It is git's own history.

    \b
    gitteam log
    gitteam log 2
    gitteam log alice
    """
    team = shell.team
    chosen = _target(target)
    options = team.log_options(chosen)
    found = team.log(chosen, limit)
    now = time.time()
    shell.print(lambda: [entry.to_json() for entry in found], (_line(entry, now) for entry in found))
    if not shell.as_json:
        hint("the same with git: " + journal.command(options, team.ledger.branch))


def _target(text: str | None) -> int | str | None:
    number = (text or "").removeprefix("#")
    return int(number) if number.isascii() and number.isdigit() else text


def _line(entry: journal.Entry, now: float) -> str:
    when = fit(ago(now - entry.time), 10)
    return f"{dim(entry.commit[:8])}  {dim(when)}  {visible_line(entry.sentence)}"


@click.command(cls=Command, short_help="Check everything; say what is wrong and what to type.")
@click.option("--repair", is_flag=True, help="Mend what can be mended without losing anything.")
@pass_shell
def doctor(shell: Shell, repair: bool) -> int:
    """Check repository, lock, files and history; say what is wrong and what to type. Exit 0: nothing is wrong.

    \b
    gitteam doctor --repair
    """
    from gitteam.doctor import examine

    findings = examine(shell.team, repair)
    lines = [
        f"{click.style('mended' if f.mended else 'wrong', fg='green' if f.mended else 'red')}  {visible_line(f.text)}"
        for f in findings
    ]
    shell.print([f.to_json() for f in findings], lines or ["nothing is wrong"])
    return 1 if any(not f.mended for f in findings) else 0
