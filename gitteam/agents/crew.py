"""The supervisor: starts members, keeps them alive, shows the diary as it grows, and stops everybody in order."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable

from gitteam import journal, liveness, moves, roster
from gitteam.agents.model import Model
from gitteam.agents.settings import Settings
from gitteam.agents.teammate import FAILED, TIMEOUT, Teammate
from gitteam.agents.wake import Bell, Look, Sleeper
from gitteam.change import Change
from gitteam.errors import GitteamError
from gitteam.team import Team

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class Crew:
    """Some members of a team, each in a thread of its own.

    `say(name, text)` is for what is not in the diary, `show(entry)` for what is.
    """

    def __init__(
        self, team: Team, names: list[str], model: Model, settings: Settings, say: Callable[[str, str], None],
        show: Callable[[journal.Entry], None],
    ):  # fmt: skip
        self._team, self._model, self._settings, self._say = team, model, settings, say
        self._show = show
        self.stop = threading.Event()
        self.failures: dict[str, str] = {}
        self._quiet = threading.Event()  # nobody has anything to do, or everybody has ended
        self._until_done = False
        self._seen = team.ledger.tip()
        self._threads = {n: threading.Thread(target=self._keep, args=(n,), name=n, daemon=True) for n in names}
        self._running = set(names)
        self._bell = Bell(team, lambda text: say("", text))
        self._bell.on_look += [self._tail, self._check_done]

    def run(self, until_done: bool = False, stays: bool = True) -> None:
        """Until everybody has ended: because they were stopped, or with `until_done` because nothing is left."""
        self._until_done, self._stays = until_done, stays
        for thread in self._threads.values():
            thread.start()
        self._quiet.wait()
        self.ask_to_stop()
        for thread in self._threads.values():
            thread.join()
        self._bell.close()
        self._tail_now()

    def ask_to_stop(self) -> None:
        """Everybody finishes the current call, hands back and leaves. Safe in a signal handler's thread."""
        self.stop.set()
        self._model.gate.stop()
        self._bell.wake_all()
        self._quiet.set()

    def abandon(self) -> None:
        """Hand back what everybody holds, now, while their calls are still under way. The process ends after this."""
        for name in sorted(self._running):
            self._team.change(name, lambda c, name=name: _leave_at_once(c, name))  # type: ignore[misc]

    # -- one member -----------------------------------------------------------------------------

    def _keep(self, name: str) -> None:
        """Keep one member alive: woken after it went to sleep for good, started again after a crash."""
        pause = _FIRST_PAUSE
        try:
            while not self.stop.is_set():
                began = time.monotonic()
                mate = Teammate(self._team, name, self._model, self._settings, self._bell, self.stop, self._say)
                try:
                    ended = mate.live()
                except GitteamError as e:
                    self.failures[name] = str(e)
                    self._say(name, f"cannot go on: {e}")
                    return
                except Exception as e:
                    pause = _FIRST_PAUSE if time.monotonic() - began > _LONGEST_PAUSE else pause
                    self._say(
                        name, f"crashed ({type(e).__name__}: {e}), starts again in {pause:g} s; see {self._log()}"
                    )
                    self.stop.wait(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
                    continue
                if ended == FAILED:
                    self.failures[name] = mate.failure
                if ended != TIMEOUT or not self._stays:
                    return
                self._bell.sleep(name)
        finally:
            self._running.discard(name)
            if not self._running:
                self._quiet.set()

    def _log(self) -> str:
        path = self._team.place.log
        with open(path, "a", encoding="utf-8") as f:
            f.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}\n{traceback.format_exc()}\n")
        return os.path.relpath(path, self._team.place.root)

    # -- looking on -----------------------------------------------------------------------------

    def _tail(self, look: Look, asleep: list[Sleeper]) -> None:
        self._tail_now()

    def _tail_now(self) -> None:
        entries = journal.since(self._team.ledger.repo, self._team.ledger.ref, self._seen)
        for entry in entries:
            self._show(entry)
            self._seen = entry.commit

    def _check_done(self, look: Look, asleep: list[Sleeper]) -> None:
        """Whether nobody here has anything to do, and nobody elsewhere does what could give them something."""
        if not self._until_done or {s.name for s in asleep} != self._running or any(s.plan for s in asleep):
            return
        if not any(task.run and liveness.holds(self._team.place, task) for task in look.board.held()):
            self._quiet.set()


def _leave_at_once(change: Change, name: str) -> None:
    for task in change.board.held_by(name):
        moves.release(change, task.id, f"{name} was stopped in the middle")
    roster.set_status(change, name, "shutdown", "stopped")
    change.story.tell("member", f"{name} leaves at once")
