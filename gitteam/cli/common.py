"""What the commands share: options, the team they act on, and how things look on a screen."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import unicodedata
import zlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from gitteam import layout
from gitteam.errors import BadInput
from gitteam.lock import LOCK_TIMEOUT
from gitteam.render import visible
from gitteam.team import Team

F = TypeVar("F", bound=Callable[..., Any])


class Shell:
    """One call of the program: where it acts and how it prints."""

    def __init__(self, directory: str | None, as_json: bool):
        self.directory = directory or "."
        self.as_json = as_json
        self._team: Team | None = None

    @property
    def team(self) -> Team:
        if self._team is None:
            self._team = Team(self.directory, _lock_timeout())
        return self._team

    def print(self, data: Any, text: str | Iterable[str]) -> None:
        """Print the data as JSON if asked to, otherwise the text; warnings go to the other stream."""
        for warning in self._team.warnings if self._team else ():
            hint(f"warning: {warning}")
        if self.as_json:
            click.echo(dump_json(data() if callable(data) else data))
        else:
            click.echo(text if isinstance(text, str) else "\n".join(text))


def dump_json(data: Any) -> str:
    """JSON in UTF-8, also where a file's name is not: that stands there escaped."""
    text = json.dumps(data, ensure_ascii=False)
    return re.sub("[\ud800-\udfff]", lambda m: f"\\u{ord(m[0]):04x}", text)


def _lock_timeout() -> float:
    text = os.environ.get("GITTEAM_LOCK_TIMEOUT") or str(LOCK_TIMEOUT)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < 1e6:
        raise BadInput(f"GITTEAM_LOCK_TIMEOUT takes seconds, not {text!r}")
    return seconds


def hint(text: str) -> None:
    """Something for the person, not part of the data."""
    click.echo(click.style(visible(text), dim=True), err=True)


pass_shell = click.make_pass_decorator(Shell)


def _everywhere() -> list[click.Parameter]:
    return [
        click.Option(["-C", "directory"], metavar="DIR", expose_value=False, callback=_set_directory, hidden=True),
        click.Option(["--json"], is_flag=True, expose_value=False, callback=_set_json, help="Print JSON."),
    ]


class Command(click.Command):
    """A command that takes -C and --json, wherever they stand."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.params += _everywhere()


class Group(click.Group):
    """A group that runs its `list` when no subcommand is named."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.params += _everywhere()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = list(args)
        while rest and rest[0] in ("-C", "--json"):
            del rest[: 2 if rest[0] == "-C" else 1]
        named = bool(rest) and (not rest[0].startswith("-") or rest[0] in ("-h", "--help"))
        return super().parse_args(ctx, args if named or ctx.resilient_parsing else ["list", *args])


def _set_directory(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value:
        ctx.find_object(Shell).directory = value  # type: ignore[union-attr]


def _set_json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_object(Shell).as_json = True  # type: ignore[union-attr]


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = [m.name for m in _quiet_team(ctx).members()] + [layout.USER, layout.LEAD]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_task(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    tasks = _quiet_team(ctx).tasks()
    return [CompletionItem(str(t.id), help=visible(t.subject)) for t in tasks if str(t.id).startswith(incomplete)]


def _quiet_team(ctx: click.Context) -> Team:
    shell = ctx.find_object(Shell)
    return Team(shell.directory if shell else ".")


class TaskId(click.ParamType[int]):
    """`12`, or `#12` as it is shown."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).removeprefix("#")
        if not (text.isascii() and text.isdigit() and 0 < int(text) < 10**9):
            self.fail(f"{visible(str(value))!r} is no task number", param, ctx)
        return int(text)


TASK_ID = TaskId()


def task_argument(name: str = "number", required: bool = True) -> Callable[[F], F]:
    metavar = "ID" if required else "[ID]"
    return click.argument(name, metavar=metavar, type=TASK_ID, required=required, shell_complete=complete_task)


def name_argument(required: bool = True) -> Callable[[F], F]:
    metavar = "NAME" if required else "[NAME]"
    return click.argument("name", metavar=metavar, required=required, shell_complete=complete_name)


def acting(function: F) -> F:
    """The option that says who acts."""
    option = click.option(
        "--as", "by", metavar="NAME", default=layout.USER, shell_complete=complete_name,
        help="Who acts: a member's name. Without it: you.",
    )  # fmt: skip
    return option(function)


def read_text(text: str) -> str:
    """A text argument; `-` reads it from standard input."""
    return sys.stdin.read() if text == "-" else text


# -- looks ----------------------------------------------------------------------------------


def visible_line(text: str) -> str:
    return " ".join(visible(text).split("\n"))


def width(text: str) -> int:
    """How many columns a text takes up on a terminal."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)


def fit(text: str, columns: int) -> str:
    """A text cut or filled to exactly so many columns."""
    text = visible_line(text)
    if width(text) > columns:
        while text and width(text) > columns - 1:
            text = text[:-1]
        text += "…"[:columns]
    return text + " " * (columns - width(text))


def screen_width() -> int:
    return max(40, min(shutil.get_terminal_size((100, 24)).columns, 120))


def heading(text: str) -> str:
    return click.style(text, bold=True)


def dim(text: str) -> str:
    return click.style(text, dim=True)


_MEMBER_COLORS = ("cyan", "magenta", "yellow", "blue", "green")


def person(name: str) -> str:
    """A member's name in a colour of its own."""
    return click.style(visible_line(name), fg=_MEMBER_COLORS[zlib.crc32(name.encode()) % len(_MEMBER_COLORS)])


def ago(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"
