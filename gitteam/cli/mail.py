"""Messages, and waiting for something to do."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import click

from gitteam.cli.common import (
    Command,
    Shell,
    acting,
    complete_name,
    dim,
    hint,
    name_argument,
    pass_shell,
    person,
    read_text,
    visible_line,
)  # fmt: skip
from gitteam.errors import BadInput
from gitteam.records import MESSAGE_TYPES, Message
from gitteam.render import visible


@click.command(cls=Command, short_help="Write to a member, the lead, the person, or all.")
@name_argument()
@click.argument("text")
@click.option("--type", "kind", type=click.Choice(MESSAGE_TYPES), default="message", help="What kind of message.")
@acting
@pass_shell
def send(shell: Shell, name: str, text: str, kind: str, by: str) -> None:
    """Write to a member, to `lead`, to `user`, or to `all`; `-` reads the text from standard input.

    \b
    gitteam send alice "Please look at pagination"
    """
    _sent(shell, shell.team.send(name, read_text(text), kind=kind, by=by))


@click.command(cls=Command)
@click.argument("text")
@acting
@pass_shell
def broadcast(shell: Shell, text: str, by: str) -> None:
    """Write to everybody but yourself and those shut down.

    \b
    gitteam broadcast "The API is frozen until noon"
    """
    _sent(shell, shell.team.broadcast(read_text(text), by=by))


def _sent(shell: Shell, messages: list[Message]) -> None:
    names = ", ".join(message.to for message in messages)
    shell.print([m.to_json() for m in messages], f"sent to {names}" if names else "nobody to send to")


@click.command(cls=Command)
@name_argument(required=False)
@click.option("--take", is_flag=True, help="Take the messages out of the inbox once they are printed.")
@pass_shell
def inbox(shell: Shell, name: str | None, take: bool) -> None:
    """Show an inbox; without a name, yours. Consumes nothing unless told to.

    \b
    gitteam inbox alice
    gitteam inbox alice --take --json
    """
    if not take:
        messages = shell.team.inbox(name)
        shell.print([m.to_json() for m in messages], _letters(messages))
        return
    if name is None:
        raise BadInput("say whose: gitteam inbox NAME --take")
    with shell.team.take(name) as messages:
        shell.print([m.to_json() for m in messages], _letters(messages))
        sys.stdout.flush()  # they leave the inbox only after they have reached the reader


def _letters(messages: list[Message]) -> Iterator[str]:
    if not messages:
        yield dim("no messages")
    for message in messages:
        when = time.strftime("%d %b %H:%M", time.localtime(message.timestamp)) if message.timestamp else ""
        facts = [when, "" if message.type == "message" else message.type]
        known = "  ".join(fact for fact in facts if fact)
        yield person(message.sender or "somebody") + (f"  {dim(known)}" if known else "")
        yield from (f"  {visible(line)}" for line in message.content.splitlines())


@click.command(cls=Command, short_help="Sleep until there is a message or a task.")
@click.option("--as", "by", metavar="NAME", required=True, shell_complete=complete_name, help="Who waits.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="S", help="Give up after so many seconds: exit 3.")
@pass_shell
def wait(shell: Shell, by: str, timeout: float | None) -> None:
    """Block until there is a message for NAME or a task NAME may claim, and say which.

    \b
    until gitteam task claim --as bot; do gitteam wait --as bot; gitteam inbox bot --take; done
    """
    messages, task = shell.team.wait(by, timeout, warn=lambda text: hint(f"gitteam: {text}"))
    lines = [f"messages {len(messages)}"] if messages else []
    lines += [f"task {task.id} {visible_line(task.subject)}"] if task else []
    shell.print({"messages": [m.to_json() for m in messages], "task": task.to_json() if task else None}, lines)
