"""Commands that go on while their member works."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from gitteam.errors import ToolFailed
from gitteam.render import visible
from gitteam.workplace.files import telling
from gitteam.workplace.output import Kept, Window
from gitteam.workplace.processes import Outcome, Running
from gitteam.workplace.shell import check_command, environment, find_shell

MAX_RUNNING = 8
MAX_ENDED = 16  # that are still remembered
MAX_COMMAND_SHOWN = 200  # characters


class Background:
    """One member's commands in the background.

    `on_end(id, sentence)` is called from a thread when one has ended by itself, with all of its processes. It is
    not called for those that were stopped: who stops one is told by that.
    """

    def __init__(self, root: str, spill: str, on_end: Callable[[str, str], None]):
        self._root, self._spill, self._on_end = os.path.realpath(root), os.path.abspath(spill), on_end
        self._lock = threading.Lock()
        self._commands: dict[str, _Command] = {}
        self._count = 0
        self._closed = False

    def start(self, command: str) -> str:
        """Run a shell command in the background; returns its id."""
        data = check_command(command)
        with self._lock:
            self._check_room()
            id = f"b{self._count + 1}"
            begun = _Command(id, command, Kept(self._spill), self._on_end)
            with telling("run a command in", self._root):
                begun.start(data, self._root)
            self._count += 1
            self._commands[id] = begun
            self._forget_oldest()
        return id

    def output(self, id: str) -> str:
        """What it has written since the last call, and how it is."""
        return self._command(id).news()

    def stop(self, id: str) -> str:
        """End all of its processes; returns what there was to read yet, and how it ended."""
        command = self._command(id)
        command.stop()
        command.wait()
        return command.news()

    @property
    def is_busy(self) -> bool:
        """Whether one of them is still running."""
        with self._lock:
            return any(not command.has_ended for command in self._commands.values())

    def close(self) -> None:
        """End all of them: none is left running, and none can be started any more."""
        with self._lock:
            self._closed = True
            commands = list(self._commands.values())
        for command in commands:
            command.stop()
        for command in commands:
            command.wait()
            command.forget()

    def _command(self, id: str) -> _Command:
        with self._lock:
            command = self._commands.get(id)
            known = ", ".join(self._commands) or "none yet"
        if command is None:
            raise ToolFailed(f"there is no background command {visible(id)[:40]!r}; there are: {known}")
        return command

    def _check_room(self) -> None:
        if self._closed:
            raise ToolFailed("the team is stopping: nothing is begun any more")
        running = [id for id, command in self._commands.items() if not command.has_ended]
        if len(running) >= MAX_RUNNING:
            raise ToolFailed(f"{MAX_RUNNING} background commands are running already: stop one of {', '.join(running)}")

    def _forget_oldest(self) -> None:
        ended = [id for id, command in self._commands.items() if command.has_ended]
        for id in ended[:-MAX_ENDED]:
            self._commands.pop(id).forget()


class _Command:
    """One command and the thread that watches over it."""

    def __init__(self, id: str, command: str, kept: Kept, on_end: Callable[[str, str], None]):
        self._id, self._text, self._on_end = id, command, on_end
        self._lock = threading.Lock()  # of the output: one thread takes it in, another shows it
        self._window, self._kept = Window(), kept
        self._stop, self._ended = threading.Event(), threading.Event()
        self._began = time.monotonic()
        self._how = "ended by an error of gitteam"  # unless we hear otherwise

    def start(self, data: bytes, root: str) -> None:
        begun: Future[None] = Future()
        # A daemon: a program that ends without closing is not kept from it, and takes the command along.
        threading.Thread(
            target=self._live, args=(data, root, begun), name=f"background-{self._id}", daemon=True
        ).start()
        begun.result()

    def _live(self, data: bytes, root: str, begun: Future[None]) -> None:
        # Started from this thread because the system ends the command with the thread that started it.
        try:
            running = Running(data, find_shell(), root, environment(root), self._take)
        except Exception as e:  # whatever it is, whoever starts the command gets it
            begun.set_exception(e)
            return
        begun.set_result(None)
        outcome = None
        try:
            outcome = self._watch(running)
        finally:
            self._kept.close()
            self._ended.set()
        if outcome is None or not outcome.stopped:
            self._on_end(self._id, f"{self._id} {self._how}: {_shortened(self._text)}")

    def _watch(self, running: Running) -> Outcome | None:
        try:
            with running:
                outcome = running.end(running.watch(math.inf, self._stop))
        except ToolFailed as e:
            self._how = f"ended: {e}"
            return None
        self._how = _how(outcome)
        return outcome

    def _take(self, data: bytes) -> None:
        with self._lock:
            self._window.take(data)
            self._kept.take(data)

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def stop(self) -> None:
        self._stop.set()

    def wait(self) -> None:
        """Until all of its processes have ended; not until that is told, for the teller may be waiting for us."""
        self._ended.wait()

    def news(self) -> str:
        ended = self.has_ended  # first: what comes between this and the reading is shown the next time
        with self._lock:
            window, self._window = self._window, Window()
            if not ended:
                self._window.take(window.take_back_unfinished())
            text = window.text(self._kept.where)
        state = self._how if ended else f"running for {time.monotonic() - self._began:.0f} s"
        if text and not text.endswith("\n"):
            text += "\n"
        return f"{text}[{self._id}: {state}{'' if text else ', nothing new'}]"

    def forget(self) -> None:
        self._kept.forget()


def _how(outcome: Outcome) -> str:
    if outcome.stopped:
        how = "stopped"
    elif outcome.exit_code is None:
        how = "ended from outside"
    else:
        how = f"ended with exit code {outcome.exit_code}"
    return ", ".join([how, *outcome.leftovers])


def _shortened(command: str) -> str:
    line = visible(" ".join(command.split()))
    return line if len(line) <= MAX_COMMAND_SHOWN else line[:MAX_COMMAND_SHOWN] + "…"
