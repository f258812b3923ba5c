"""`gitteam watch`: the team, live."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import threading
import time
import tty
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

import click

from gitteam import journal, requests, usage
from gitteam.cli.common import Command, Shell, pass_shell
from gitteam.cli.dashboard import picture
from gitteam.errors import GitteamError
from gitteam.records import Task
from gitteam.status import Status
from gitteam.team import Team
from gitteam.watch import Watch

# At most twenty pictures a second, however much happens.
PAUSE = 0.05
# More lines of the diary than a screen has, because not all of them are shown.
DIARY = 300
# A look that waits for a busy lock is not waited for when one quits.
PATIENCE = 1.0

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"  # another screen, no cursor, no line that goes on in the next
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"


@click.command(cls=Command, short_help="See the team at work, live.")
@click.pass_context
@pass_shell
def watch(shell: Shell, ctx: click.Context) -> int:
    """See the team at work: what needs a person, who does what, the board, the diary. q quits.

    It is drawn again when something changes. Without a terminal: one picture.

    \b
    gitteam watch
    gitteam watch | cat
    """
    team = shell.team
    if shell.as_json or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        scene = replace(_View(team).look(), warnings=())  # they go to the other stream
        columns, height = shutil.get_terminal_size((100, 40))
        lines = scene.draw(max(40, columns), max(10, height))
        shell.print(scene.status.to_json(), [click.unstyle(line).rstrip() for line in lines])
        return 0
    with Watch(team.place) as events, _Looker(team, events) as looker, _Bell() as bell:
        looker.start(bell.ring)
        with _Terminal(bell, ctx.color is not False) as terminal:
            return _live(looker, terminal)


def _live(looker: _Looker, terminal: _Terminal) -> int:
    code = None
    while code is None:
        if looker.failure:
            raise looker.failure
        terminal.draw(looker.scene)
        code = terminal.wait()
    return code


# -- what there is to see ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Scene:
    status: Status
    tasks: tuple[Task, ...]
    requests: tuple[requests.Request, ...]
    entries: tuple[journal.Entry, ...]
    usage: tuple[str, ...]
    warnings: tuple[str, ...]

    def draw(self, columns: int, height: int) -> list[str]:
        return picture(
            self.status, self.tasks, self.requests, self.entries, self.usage, columns, height,
            now=time.time(), warnings=self.warnings,
        )  # fmt: skip


class _View:
    """The team as it stands. Of diary and usage only what they have gained is read at each look."""

    def __init__(self, team: Team):
        self._team = team
        self._entries: deque[journal.Entry] = deque(maxlen=DIARY)
        self._used: usage.Row | None = None
        self._counted = 0  # so much of the log of usage

    def look(self) -> _Scene:
        status = self._team.status()
        files, board = self._team.look()
        found = requests.read_requests(files)
        self._read_diary()
        self._count_usage()
        return _Scene(
            status, tuple(board.all()), tuple(found), tuple(self._entries),
            _bill(self._used) if self._used else (), tuple(self._team.warnings),
        )  # fmt: skip

    def _read_diary(self) -> None:
        if not self._entries:
            self._entries.extend(reversed(list(self._team.log(limit=DIARY))))
        else:
            ledger = self._team.ledger
            self._entries.extend(journal.since(ledger.repo, ledger.ref, self._entries[-1].commit))

    def _count_usage(self) -> None:
        calls, end = usage.read_from(self._team.place, self._counted)
        if end < self._counted:
            self._used = None  # somebody has begun the log anew
        self._counted = end
        for row in usage.sums(calls, "team"):
            self._used = self._used.plus(row) if self._used else row


def _bill(used: usage.Row) -> tuple[str, ...]:
    known = "" if used.known_cost is not None else "≥ "
    cost = "cost unknown" if used.unpriced == used.calls else f"{known}${used.cost:.2f}"
    return cost, f"{used.calls} call{'' if used.calls == 1 else 's'}", f"{used.cached:.0%} cached"


class _Looker:
    """Looks again whenever something happens, in a thread of its own: the keys are heard also while it waits."""

    def __init__(self, team: Team, events: Watch):
        self._team, self._events = team, events
        self._view = _View(team)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gitteam-looker", daemon=True)
        self.failure: Exception | None = None
        self.scene = self._view.look()

    def start(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._closed.wait(PAUSE):
                self._events.wait(self._team.patience())
                self.scene = self._look()
                self._ring()
        except Exception as e:
            self.failure = e  # for the main thread, which has the screen to put back first
            self._ring()

    def _look(self) -> _Scene:
        trouble = [self._events.trouble] if self._events.trouble else []
        try:
            trouble += self._team.take_in_swept(self._events)
            scene = self._view.look()
        except (GitteamError, OSError) as e:
            return replace(self.scene, warnings=(*trouble, str(e)))
        return replace(scene, warnings=(*trouble, *scene.warnings))

    def __enter__(self) -> _Looker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed.set()
        self._events.ring()
        if self._thread.ident:
            self._thread.join(PATIENCE)


# -- the terminal -----------------------------------------------------------------------------

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HANDLED = (*_ENDING, signal.SIGTSTP, signal.SIGWINCH)
_AGAIN = b"\x0c"  # Ctrl-L


class _Bell:
    """Wakes the main thread. A signal only leaves its number here, so that nothing is ever interrupted half way."""

    def __enter__(self) -> _Bell:
        self._mutex = threading.Lock()
        self._heard, self._rung = os.pipe()
        os.set_blocking(self._heard, False)
        os.set_blocking(self._rung, False)
        self._open = True
        self._wakeup = signal.set_wakeup_fd(self._rung, warn_on_full_buffer=False)
        wanted = [n for n in _HANDLED if signal.getsignal(n) is not signal.SIG_IGN]  # nohup ignores one
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in wanted}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        with self._mutex:
            self._open = False
            os.close(self._rung)
            os.close(self._heard)

    def ring(self) -> None:
        """From any thread, at any time."""
        with self._mutex, contextlib.suppress(BlockingIOError):  # it is full of rings that nobody has heard yet
            if self._open:
                os.write(self._rung, b"\0")

    def fileno(self) -> int:
        return self._heard

    def signals(self) -> bytes:
        """The numbers of those that came, after `select` has said that there is something."""
        return os.read(self._heard, 4096)


class _Terminal:
    """The screen and the keys, from entering to leaving, after which all is as it was."""

    def __init__(self, bell: _Bell, colored: bool):
        self._bell, self._colored = bell, colored
        self._screen, self._keys = sys.stdout.fileno(), sys.stdin.fileno()
        self._settings = termios.tcgetattr(self._keys) if sys.stdin.isatty() else None
        self._shown: Sequence[str | None] = []

    def __enter__(self) -> _Terminal:
        self._take_over()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(OSError, termios.error):  # the terminal may be gone
            self._give_back()

    def wait(self) -> int | None:
        """Return when there may be something to draw, or with the exit code when it is over."""
        ready, _, _ = select.select([self._bell, *([self._keys] if self._settings else [])], [], [])
        heard = self._bell.signals() if self._bell in ready else b""
        for number in _ENDING:
            if number in heard:
                return 128 + number
        if signal.SIGTSTP in heard:
            self._give_back()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._take_over()
        if signal.SIGWINCH in heard:
            self._shown = []
        return self._read_keys() if self._keys in ready else None

    def _read_keys(self) -> int | None:
        try:
            keys = os.read(self._keys, 1024)
        except OSError:
            keys = b""
        if not keys:
            return 128 + signal.SIGHUP  # the terminal is gone
        if _AGAIN in keys:
            self._shown = []
        return 0 if b"q" in keys else None

    def draw(self, scene: _Scene) -> None:
        """Only the lines that differ from those on the screen, all in one write."""
        columns, height = os.get_terminal_size(self._screen)
        lines = scene.draw(columns, height)
        lines += [""] * (height - len(lines))
        if not self._colored:
            lines = [click.unstyle(line) for line in lines]
        shown = self._shown if len(self._shown) == height else [None] * height
        # Cleared first: at the end of a full line, clearing would take its last character.
        self._write("".join(f"\x1b[{n + 1};1H\x1b[K{lines[n]}" for n in range(height) if lines[n] != shown[n]))
        self._shown = lines

    def _take_over(self) -> None:
        if self._settings:
            tty.setcbreak(self._keys, termios.TCSANOW)
        self._write(_ENTER)
        self._shown = []

    def _give_back(self) -> None:
        self._write(_LEAVE)
        if self._settings:
            termios.tcsetattr(self._keys, termios.TCSANOW, self._settings)

    def _write(self, text: str) -> None:
        rest = text.encode(sys.stdout.encoding, "replace")
        while rest:
            rest = rest[os.write(self._screen, rest) :]
