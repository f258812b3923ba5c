"""`gitteam demo`: a team at work, without a key."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitteam.cli.common import Command, Shell, dim, dump_json, heading, pass_shell, visible_line
from gitteam.cli.lead import report_lines
from gitteam.cli.live import Screen

if TYPE_CHECKING:
    from gitteam.agents.outcome import Outcome

_LOOK_AROUND = (
    "gitteam log 3",
    "git show gitteam:.tasks/3-serve-graphql-beside-rest.md",
    "git log -1 --grep='completes #3' gitteam",
    "gitteam usage --by task",
)


@click.command(cls=Command, short_help="Watch a lead and its team at work; needs no key.")
@click.argument("where", metavar="[DIR]", required=False)
@pass_shell
def demo(shell: Shell, where: str | None) -> None:
    """Watch a lead and three teammates move a small app to GraphQL, from one sentence. Needs no key and no network.

    What the model says is a script; all else is real, and is left to be looked at in DIR, which must be new or empty.
    Without DIR it is a temporary directory, named at the end.

    \b
    gitteam demo
    """
    from gitteam.demo import DidNotComeAbout, play

    root = Path(shell.directory, where) if where else Path(tempfile.mkdtemp(prefix="gitteam-"), "library")
    stage = _Stage(shell.as_json, len("frontend"))
    try:
        play(root, stage)
    except DidNotComeAbout as e:
        raise DidNotComeAbout(f"{e}; what there is of it is in {root}") from None
    stage.end(os.path.abspath(root))


class _Stage(Screen):
    """The lines of `up`, and between them what a person types."""

    @property
    def hides_output(self) -> bool:
        return self._as_json

    def heading(self, text: str) -> None:
        self._words(f"\n{heading(text)}\n")

    def remark(self, text: str) -> None:
        self._words(dim(text))

    def typed(self, line: str) -> None:
        self._words(f"{click.style('$', fg='green')} {line}")

    def report(self, outcome: Outcome) -> None:
        if self._as_json:
            self.print(dump_json(outcome.to_json()))
        else:
            self.print("\n".join(report_lines(outcome)))

    def end(self, root: str) -> None:
        if self._as_json:
            self.print(dump_json({"directory": root}))
        self.heading("It is all there to be looked at")
        for line in (f"cd {shlex.quote(visible_line(root))}", *_LOOK_AROUND):
            self._words(f"  {line}")

    def _words(self, text: str) -> None:
        if not self._as_json:
            self.print(text)
