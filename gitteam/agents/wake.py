"""Sleeping and waking: one observer for all members of a process, who sleep until there is something for them.

On each event the team's files are looked at once, and only those are woken whom it
concerns: one new task wakes one member and not all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gitteam import layout, mail, requests
from gitteam.board import Board
from gitteam.errors import GitteamError
from gitteam.records import Message
from gitteam.roster import Config, read_config
from gitteam.team import Team
from gitteam.tree import Files
from gitteam.watch import Watch


@dataclass(frozen=True)
class Sleeper:
    """Somebody who waits, and for what."""

    name: str
    known: frozenset[str]  # messages it has had already
    plan: str = ""  # it waits for an answer to its plan for this work, and takes no task
    quiet: bool = False  # it has talked too much: only the lead and the person wake it
    since: float = 0
    busy: bool = False  # a command of its own goes on for the work of `plan`: the end of that is a message
    woken: threading.Event = field(default_factory=threading.Event, compare=False)


@dataclass(frozen=True)
class Look:
    """The team's state at one moment."""

    files: Files
    board: Board
    config: Config

    def news_for(self, sleeper: Sleeper) -> list[Message]:
        found = [m for m in mail.read_inbox(self.files, sleeper.name) if m.id not in sleeper.known and wakes(m)]
        return [m for m in found if m.sender in (layout.LEAD, layout.USER)] if sleeper.quiet else found

    def is_undecided(self, sleeper: Sleeper) -> bool:
        return sleeper.busy or requests.is_waiting(requests.read_requests(self.files), sleeper.name, sleeper.plan)

    def is_moot(self, sleeper: Sleeper) -> bool:
        """Whether the task its plan is for has been taken from it."""
        held = [f"{task.id}/{task.claim}" for task in self.board.held_by(sleeper.name)]
        return "/" in sleeper.plan and sleeper.plan not in held


def wakes(message: Message) -> bool:
    """Whether it is worth a model call of its own. That somebody is idle is read along with the next."""
    return message.type != "idle_notification"


def who_wakes(look: Look, sleepers: Iterable[Sleeper], promised: dict[int, str]) -> dict[str, int | None]:
    """Whom this concerns, each with the task that is meant for it, if it is a task.

    `promised` are tasks for which somebody has been woken already. Who has slept longest goes first.
    """
    woken: dict[str, int | None] = {}
    free = []
    for sleeper in sorted(sleepers, key=lambda s: s.since):
        member = look.config.members.get(sleeper.name)
        if look.news_for(sleeper) or (member is None and sleeper.name != layout.LEAD):
            woken[sleeper.name] = None
        elif member is None:
            continue  # the lead takes no task
        elif sleeper.plan:
            if not look.is_undecided(sleeper) or look.is_moot(sleeper):
                woken[sleeper.name] = None
        elif look.board.held_by(sleeper.name):
            woken[sleeper.name] = None
        else:
            free.append(member)
    taken = set(promised)
    for task in look.board.claimable():
        if task.id not in taken:
            for member in free:
                if member.name not in woken and not look.board.refusal(task, member):
                    woken[member.name] = task.id
                    taken.add(task.id)
                    break
    return woken


class Bell:
    """Rings for the members of one process. `on_look` is told of every look, with who still sleeps after it."""

    def __init__(self, team: Team, warn: Callable[[str], None]):
        self._team, self._warn = team, warn
        self._watch = Watch(team.place)
        self._mutex = threading.Lock()
        self._sleepers: dict[str, Sleeper] = {}
        self._tasks: dict[str, int | None] = {}  # what somebody who was woken is meant to do
        self._promised: dict[int, str] = {}
        self._called: set[str] = set()  # who was called before it fell asleep
        self._closed = False
        self._said: set[str] = set()  # troubles that were told already
        self.on_look: list[Callable[[Look, list[Sleeper]], None]] = []
        self._thread = threading.Thread(target=self._run, name="gitteam-bell", daemon=True)
        self._thread.start()

    def sleep(
        self, name: str, known: Iterable[str] = (), *, plan: str = "", quiet: bool = False, busy: bool = False,
        timeout: float | None = None,
    ) -> tuple[bool, int | None]:  # fmt: skip
        """Wait until there is something for this member: whether there is, and the task if it is one."""
        sleeper = Sleeper(name, frozenset(known), plan, quiet, time.monotonic(), busy)
        with self._mutex:
            if self._closed or name in self._called:
                self._called.discard(name)
                return True, None
            self._promised = {task: who for task, who in self._promised.items() if who != name}
            self._sleepers[name] = sleeper
        self._watch.ring()  # whatever came before it fell asleep is seen by this look
        found = sleeper.woken.wait(timeout)
        with self._mutex:
            self._sleepers.pop(name, None)
            return found or sleeper.woken.is_set(), self._tasks.pop(name, None)

    def asleep(self) -> set[str]:
        """Who sleeps now."""
        with self._mutex:
            return set(self._sleepers)

    def resting(self) -> set[str]:
        """Who sleeps and has nothing to wake up for, by a look of this very moment."""
        files, board = self._team.look()
        look = Look(files, board, read_config(files))
        with self._mutex:
            return self._sleepers.keys() - who_wakes(look, self._sleepers.values(), self._promised).keys()

    def leave_to_others(self, name: str) -> None:
        """What this member was woken for and has not taken is there for whoever sleeps."""
        with self._mutex:
            kept = {task: who for task, who in self._promised.items() if who != name}
            if len(kept) == len(self._promised):
                return
            self._promised = kept
        self._watch.ring()

    def wake(self, name: str) -> bool:
        """Whatever it waits for: there is a reason to look up. Returns whether it slept."""
        with self._mutex:
            sleeper = self._sleepers.pop(name, None)
            if sleeper:
                sleeper.woken.set()
            return bool(sleeper)

    def call(self, name: str) -> None:
        """Wake it, or let its next sleep end at once: it may be about to fall asleep."""
        with self._mutex:
            if sleeper := self._sleepers.pop(name, None):
                sleeper.woken.set()
            else:
                self._called.add(name)

    def wake_all(self) -> None:
        """The team is stopping."""
        with self._mutex:
            self._closed = True
            for sleeper in self._sleepers.values():
                sleeper.woken.set()
        self._watch.ring()

    def close(self) -> None:
        self.wake_all()
        self._thread.join()
        self._watch.close()

    def _run(self) -> None:
        self._team.ledger.warm_up()
        while not self._closed:
            self._say_once(self._watch.trouble)
            if self._sleepers or self.on_look:
                self._look()
            self._watch.wait(self._team.patience())

    def _say_once(self, trouble: str) -> None:
        if trouble and trouble not in self._said:
            self._said.add(trouble)
            self._warn(trouble)

    def _look(self) -> None:
        """Whatever goes wrong is said once and tried again at the next event: all who sleep here depend on it."""
        try:
            look = self._take_a_look()
            with self._mutex:
                asleep = list(self._sleepers.values())
            for listener in self.on_look.copy():
                listener(look, asleep)
        except Exception as e:
            self._say_once(str(e) if isinstance(e, GitteamError) else f"{type(e).__name__}: {e}")

    def _take_a_look(self) -> Look:
        for warning in self._team.take_in_swept(self._watch):
            self._warn(warning)
        files, board = self._team.look()
        look = Look(files, board, read_config(files))
        with self._mutex:
            open_tasks = {task.id for task in board.claimable()}
            self._promised = {task: who for task, who in self._promised.items() if task in open_tasks}
            for name, task in who_wakes(look, self._sleepers.values(), self._promised).items():
                if task is not None:
                    self._promised[task] = name
                self._tasks[name] = task
                self._sleepers.pop(name).woken.set()
        return look
