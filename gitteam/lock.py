"""The lock that all processes share, on the file system that the repository is on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gitteam.errors import LockTimeout, NoTeam
from gitteam.layout import Layout
from gitteam.render import visible

LOCK_TIMEOUT = 15.0
# How often the next in line tries, and those behind it. A change takes a few milliseconds only.
LOCK_POLL, DOOR_POLL = 0.001, 0.01


@contextmanager
def file_lock(place: Layout, timeout: float) -> Iterator[None]:
    """The lock all processes share. The kernel frees it when its holder dies; a timeout names the holder."""
    import filelock

    lock = filelock.FileLock(place.lock, fallback_to_soft=False, on_acquired=_sign)
    # Everybody passes the door, also who has just let go: so only one at a time tries often, and none waits for long.
    door = filelock.FileLock(place.door, fallback_to_soft=False)
    try:
        with door.acquire(timeout, DOOR_POLL):
            lock.acquire(timeout, LOCK_POLL)
    except filelock.Timeout:
        raise LockTimeout(f"the lock is busy: {holder(place)}; try again, or wait for it") from None
    except FileNotFoundError:
        raise NoTeam(f"{place.state} is gone: run `gitteam init`") from None
    try:
        yield
    finally:
        lock.release()


def _sign(fd: int) -> None:
    """Leave word of who holds the lock, for those who wait in vain."""
    words = " ".join(visible(word) for word in [os.path.basename(sys.argv[0]), *sys.argv[1:4]])
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"process {os.getpid()} ({words[:100]})".encode(errors="replace"), 0)


def holder(place: Layout) -> str:
    try:
        with open(place.lock, encoding="utf-8", errors="replace") as f:
            return "held by " + (f.read() or "an unknown process")
    except OSError:
        return "its holder is unknown"
