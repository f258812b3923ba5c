"""`gitteam chat`: the lead at a prompt."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from gitteam.cli.common import Command, Shell, hint, pass_shell, person, screen_width, visible_line
from gitteam.cli.lead import lead_here, model_option, team_here
from gitteam.cli.live import Screen, budget_options, script_option
from gitteam.errors import BadInput, GitteamError
from gitteam.layout import LEAD
from gitteam.render import visible

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from gitteam.agents.lead import Lead
    from gitteam.journal import Entry

# Each is a command of gitteam's own, as it stands here: none of them takes anything away.
_SLASH = {
    "/team": ["status"], "/tasks": ["task", "list"], "/inbox": ["inbox"], "/log": ["log", "-n", "15"],
    "/usage": ["usage"], "/stop": ["stop", "--timeout", "0"],
}  # fmt: skip
_HELP = """\
/team        who is there and what needs you
/tasks       the board
/inbox       messages for you
/log         the diary
/usage       what it has cost
/compact     let the lead shorten its conversation
/stop NAME   ask a teammate to shut down
/quit        leave, and stop the team in order (Ctrl-D does the same)
Esc Enter    a new line; Ctrl-C stops the lead's answer"""


@click.command(cls=Command, short_help="Talk to the lead; the team works meanwhile.")
@model_option
@budget_options
@script_option
@pass_shell
def chat(shell: Shell, /, model: str, script: str | None, **budget: Any) -> int:
    """Talk to the lead. Answers, messages and results arrive above the prompt while you type.

    \b
    gitteam chat
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput('chat needs a terminal; without one use `gitteam run "GOAL"`')
    team = team_here(shell)
    screen = _ChatScreen(team.ledger.repo.person().name)
    answer = _Answer(screen)
    with lead_here(shell, model, script, budget, screen, answer.end, lambda name, role: True, stays=True) as lead:
        lead.on_text = answer.add
        with _prompt(shell, lead) as session:
            lead.start()
            _converse(shell, lead, session)
            lead.interrupt()
            lead.crew.ask_to_stop()
            hint("stopping: everybody finishes the current call; Ctrl-C twice to stop at once")
    if lead.failure and not lead.was_stopped:
        hint(lead.failure)
    return 1 if lead.failure and not lead.was_stopped else 0


@contextmanager
def _prompt(shell: Shell, lead: Lead) -> Iterator[PromptSession[str]]:
    """A line to type in, with what is printed meanwhile above it."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.patch_stdout import patch_stdout

    keys = KeyBindings()
    keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
    keys.add("c-c", filter=Condition(lead.is_answering))(lambda event: lead.interrupt())  # what is typed stays
    history = FileHistory(os.path.join(shell.team.place.state, "chat-history"))
    words = WordCompleter([*_SLASH, "/compact", "/help", "/quit"], sentence=True)
    session: PromptSession[str] = PromptSession(
        "› ", history=history, key_bindings=keys, completer=words, complete_while_typing=False, prompt_continuation="  "
    )
    lead.on_end = lambda: _end_prompt(session)
    with patch_stdout(raw=True):
        yield session


def _end_prompt(session: PromptSession[str]) -> None:
    """As Ctrl-D does, from another thread: without its lead a chat is over."""
    if loop := session.app.loop:
        loop.call_soon_threadsafe(_leave, session)


def _leave(session: PromptSession[str]) -> None:
    future = session.app.future
    if future and not future.done():
        session.app.exit(exception=EOFError)


def _converse(shell: Shell, lead: Lead, session: PromptSession[str]) -> None:
    hint("say what you want done; /help lists the commands")
    while True:
        try:
            text = session.prompt(pre_run=lambda: _leave(session) if lead.has_ended else None).strip()
        except KeyboardInterrupt:
            hint("/quit or Ctrl-D leaves")
            continue
        except EOFError:
            return
        if text == "/quit":
            return
        if text:
            _act(shell, lead, text)


def _act(shell: Shell, lead: Lead, text: str) -> None:
    command, *rest = text.split()
    if command in ("/help", "/?"):
        click.echo(_HELP)
    elif command == "/compact":
        lead.compact_next()
        hint("the lead shortens its conversation before its next answer")
    elif command == "/stop" and (len(rest) != 1 or rest[0].startswith("-")):
        hint("/stop takes the name of one teammate")
    elif command in _SLASH and command != "/stop" and rest:
        hint(f"{command} takes nothing more; type `gitteam` in another terminal for the rest")
    elif command in _SLASH:
        from gitteam.cli import run

        run(["-C", shell.team.place.root, *_SLASH[command], *rest])
    elif command.startswith("/"):
        hint(f"there is no {visible_line(command)}; /help lists the commands")
    else:
        try:
            shell.team.send(LEAD, text)
        except GitteamError as e:
            hint(str(e))


class _ChatScreen(Screen):
    """What the person says stands there already."""

    def __init__(self, me: str):
        super().__init__(False, 10)
        self._said = f"{visible(me)} writes to {LEAD}: "

    def show(self, entry: Entry) -> None:
        if not entry.sentence.startswith(self._said):
            super().show(entry)


class _Answer:
    """The lead's answer as it comes: whole lines, above the prompt."""

    def __init__(self, screen: Screen):
        self._screen, self._rest, self._began = screen, "", False

    def add(self, text: str) -> None:
        self._rest += text
        room = screen_width() - 8
        while True:
            line, newline, rest = self._rest.partition("\n")
            if len(line) > room:
                cut = line.rfind(" ", 1, room + 1)
                line, over = (line[:cut], line[cut + 1 :]) if cut > 0 else (line[:room], line[room:])
                rest = over + newline + rest
            elif not newline:
                return
            self._print(line)
            self._rest = rest

    def end(self, text: str) -> None:
        """The answer is whole."""
        if self._rest:
            self._print(self._rest)
        elif text and not self._began:
            self._print(text)
        self._rest, self._began = "", False

    def _print(self, line: str) -> None:
        mark = person(LEAD) if not self._began else " " * len(LEAD)
        self._began = True
        self._screen.print(f"{mark}  {visible(line)}")
