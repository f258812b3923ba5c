"""The supervisor: starts members, keeps them alive, shows the diary as it grows, and stops everybody in order."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec

from gitteam import journal, liveness, moves, roster
from gitteam.agents.model import Model
from gitteam.agents.settings import Settings
from gitteam.agents.teammate import FAILED, TIMEOUT, Teammate
from gitteam.agents.wake import Bell, Look, Sleeper
from gitteam.change import Change
from gitteam.errors import Conflict, GitteamError, NotFound
from gitteam.records import FINISHED, Task
from gitteam.team import Team
from gitteam.watch import Watch

P = ParamSpec("P")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
PATIENCE = 30.0  # seconds for somebody who was asked to end


class Crew:
    """Some members of a team, each in a thread of its own.

    `say(name, text)` is for what is not in the diary, `show(entry)` for what is.
    """

    def __init__(
        self, team: Team, names: list[str], model: Model, settings: Settings, say: Callable[[str, str], None],
        show: Callable[[journal.Entry], None],
    ):  # fmt: skip
        self._team, self._names, self._model, self._settings = team, names, model, settings
        self._say, self._show = _quietly(say), _quietly(show)
        self.stop = threading.Event()  # everybody is to stop
        self.ends: float | None = None  # when the time is over, on the clock of time.monotonic
        self.failures: dict[str, str] = {}
        self._stops: dict[str, threading.Event] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._mates: dict[str, Teammate] = {}
        self._active: set[threading.Thread] = set()  # each leaves it by itself: two may end at the same instant
        self._over = threading.Event()  # nobody has anything to do, or everybody has ended
        self._until_done, self._stays = False, True
        self._seen = team.ledger.tip()
        self.bell = Bell(team, lambda text: self._say("", text))
        self.bell.on_look += [self._tail, self._check_done]

    def run(self, until_done: bool = False, stays: bool = True) -> None:
        """Until everybody has ended: because they were stopped, or with `until_done` because nothing is left."""
        self._stays = stays
        threads = [self._admit(name) for name in self._names]
        self._until_done = until_done  # only now: while nobody is there, nobody has anything to do
        for thread in threads:
            thread.start()
        if not self._over.wait(self.seconds_left()):
            self._say("", "the time that was given is over: everybody hands back")
        self.ask_to_stop()
        self.finish()

    def start(self, name: str) -> None:
        """Let a member live; one that ended can be started again, and one that sleeps for good is woken."""
        former = self._threads.get(name)
        while former in self._active and not self.stop.is_set():
            if self._team.is_alive(name) or self.bell.wake(name):
                return
            former.join(0.01)  # it is about to sleep, or to leave
        if not self.stop.is_set():
            self._admit(name).start()

    def _admit(self, name: str) -> threading.Thread:
        self._stops[name] = threading.Event()
        thread = threading.Thread(target=self._keep, args=(name,), name=name, daemon=True)
        self._threads[name] = thread
        self._active.add(thread)
        return thread

    def running(self) -> set[str]:
        """Who has not ended, awake or asleep."""
        return {thread.name for thread in self._active.copy()}

    def is_busy(self) -> bool:
        """Whether a command of a member's goes on in the background."""
        return any(hasattr(m, "desk") and m.desk.background.is_busy for m in self._mates.copy().values())

    def seconds_left(self) -> float | None:
        """Until the time is over that was given to everybody; None if there is no such limit."""
        return None if self.ends is None else max(0.0, self.ends - time.monotonic())

    def ask_to_stop(self) -> None:
        """Everybody finishes the current call, hands back and leaves."""
        self.stop.set()
        for stop in self._stops.copy().values():
            stop.set()
        self._model.gate.stop()
        self.bell.wake_all()
        self._over.set()

    def finish(self) -> None:
        """Wait until everybody has left."""
        for thread in self._threads.copy().values():
            thread.join()
        self.bell.close()
        self._tail_now()

    def abandon(self) -> None:
        """Hand back what everybody holds, now, while their calls are still under way. The process ends after this."""
        for name in sorted(self.running()):
            # Whatever is in the way: their claims are tied to this process, and end with it.
            with suppress(GitteamError, OSError):
                self._team.change(name, lambda c, name=name: _leave_at_once(c, name))  # type: ignore[misc]

    def end_all(self, names: list[str]) -> list[str]:
        """Wait until these have ended as they were asked to, then end those who have not; returns who is left."""
        self._end([name for name in names if not self._team.is_alive(name)])  # asleep for good, or not born yet
        left = self._await_end(names, PATIENCE)
        self._end(left)
        return self._await_end(left, PATIENCE)

    def _end(self, names: list[str]) -> None:
        for name in names:
            if stop := self._stops.get(name):
                stop.set()
                self.bell.call(name)

    def _await_end(self, names: list[str], seconds: float) -> list[str]:
        deadline = time.monotonic() + seconds
        with Watch(self._team.place) as watch:
            while left := [name for name in names if self._team.is_alive(name)]:
                if time.monotonic() >= deadline or self.stop.is_set():
                    break
                watch.wait(deadline - time.monotonic())
        for name in set(names) - set(left):
            if thread := self._threads.get(name):
                thread.join(PATIENCE)
        return left

    def archive(self, name: str) -> None:
        """Put a conversation away: whoever is called the same later is somebody else."""
        path = os.path.join(self._team.place.transcripts, f"{name}.jsonl")
        if os.path.exists(path):
            os.rename(path, f"{path[: -len('.jsonl')]}-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}.jsonl")

    # -- one member -----------------------------------------------------------------------------

    def _keep(self, name: str) -> None:
        """Keep one member alive: woken after it went to sleep for good, started again after a crash."""
        stop, pause = self._stops[name], _FIRST_PAUSE
        self.failures.pop(name, None)
        mate = Teammate(self._team, name, self._model, self._settings, self.bell, stop, self._say)
        self._mates[name] = mate
        try:
            while not stop.is_set():
                began = time.monotonic()
                try:
                    ended = mate.live()
                except (Conflict, NotFound) as e:  # it lives elsewhere, or is not on the team any more
                    self._fail(name, str(e))
                    return
                except Exception as e:
                    pause = _FIRST_PAUSE if time.monotonic() - began > _LONGEST_PAUSE else pause
                    what = str(e) if isinstance(e, GitteamError) else f"{type(e).__name__}: {e}; see {self.log_crash()}"
                    self._say(name, f"crashed, and starts again in {pause:g} s: {what}")
                    stop.wait(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
                    continue
                finally:
                    self.bell.leave_to_others(name)
                if ended == FAILED:
                    self.failures[name] = mate.failure
                if ended != TIMEOUT or not self._stays:
                    return
                self.bell.sleep(name, mate.known, quiet=mate.is_quiet)
        finally:
            self._active.discard(threading.current_thread())
            if not self._active:
                self._over.set()

    def _fail(self, name: str, reason: str) -> None:
        self.failures[name] = reason
        self._say(name, f"cannot start: {reason}")

    def log_crash(self) -> str:
        """Write down where it happened; returns in which file."""
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
        if not self._until_done or {s.name for s in asleep} != self.running() or any(s.plan for s in asleep):
            return
        if self.is_busy() and not _is_all_finished(look.board.all()):
            return
        if not any(task.run and liveness.holds(self._team.place, task) for task in look.board.held()):
            self._over.set()


def _is_all_finished(tasks: list[Task]) -> bool:
    return bool(tasks) and all(task.status in FINISHED for task in tasks)


def _quietly(show: Callable[P, None]) -> Callable[P, None]:
    """Nothing depends on the screen: the team goes on when it is gone, as in `gitteam up | head`."""

    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        with suppress(OSError, ValueError):
            show(*args, **kwargs)

    return call


def _leave_at_once(change: Change, name: str) -> None:
    for task in change.board.held_by(name):
        moves.release(change, task.id, f"{name} was stopped in the middle")
    roster.set_status(change, name, "shutdown", "stopped")
    change.story.tell("member", f"{name} leaves at once")
