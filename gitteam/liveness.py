"""Who is alive: a running member holds a lock for life, which the kernel frees when it dies."""

from __future__ import annotations

import fcntl
import json
import os
from types import TracebackType

from gitteam.errors import Conflict
from gitteam.layout import Layout
from gitteam.records import Task


class Life:
    """One run of one member. Held from `begin` until `end`, or until the process dies in whatever way."""

    def __init__(self, place: Layout, name: str):
        # The lock library is loaded by those who hold a lock, not by those who only look.
        import filelock

        self.name = name
        self.run = os.urandom(6).hex()
        os.makedirs(place.live, exist_ok=True)
        # A second is ample: only somebody who looks, for an instant, can be in the way.
        self._lock = filelock.FileLock(
            place.live_lock(name), timeout=1, poll_interval=0.01, fallback_to_soft=False, thread_local=False,
            on_acquired=self._sign,
        )  # fmt: skip
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise Conflict(f"{name} is running already (process {process_of(place, name)})") from None

    def _sign(self, fd: int) -> None:
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps({"run": self.run, "pid": os.getpid()}).encode(), 0)

    def end(self) -> None:
        self._lock.release()

    def __enter__(self) -> Life:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()


def current_run(place: Layout, name: str) -> str:
    """The run of a living member, or "" when nobody of that name is alive."""
    try:
        fd = os.open(place.live_lock(name), os.O_RDONLY)
    except FileNotFoundError:
        return ""
    try:
        # Shared, so that two who look at the same moment do not take each other for the member.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return str(_signature(place, name).get("run", "")) or "?"
    finally:
        os.close(fd)
    return ""


def process_of(place: Layout, name: str) -> str:
    """The process a living member runs in, for a message."""
    return str(_signature(place, name).get("pid", "?"))


def holds(place: Layout, task: Task) -> bool:
    """Whether the run that a claim is tied to is still alive. A claim tied to none is nobody's to take away."""
    return not task.run or current_run(place, task.owner) == task.run


def _signature(place: Layout, name: str) -> dict[str, object]:
    try:
        with open(place.live_lock(name), encoding="utf-8") as f:
            found = json.load(f)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
