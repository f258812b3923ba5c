"""One gate to the API for the whole process: when it says wait, everybody waits, and then they go in one by one.

After a failure one call goes first; each that succeeds lets twice as many through. So
sixteen members do not storm a service that has just come back.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

LONGEST_PAUSE = 60.0
_FIRST_PAUSE = 0.5
_WIDE = 64


class Stopped(Exception):
    """The team is stopping: no further call is made."""


class Gate:
    def __init__(self, clock: Callable[[], float] = time.monotonic, jitter: Callable[[], float] = random.random):
        self._clock, self._jitter = clock, jitter
        self._change = threading.Condition()
        self._open_at = 0.0
        self._inside = 0
        self._width = _WIDE
        self._failures = 0
        self._stopped = False

    def enter(self) -> int:
        """Wait for one's turn; returns a ticket for `leave`."""
        with self._change:
            while True:
                if self._stopped:
                    raise Stopped
                pause = self._open_at - self._clock()
                if pause <= 0 and (self._inside < self._width or self._width >= _WIDE):
                    self._inside += 1
                    return self._failures
                self._change.wait(pause if pause > 0 else None)

    def leave(self) -> None:
        """The call went well, or failed for reasons of its own."""
        with self._change:
            self._inside -= 1
            self._width = min(self._width * 2, _WIDE)
            self._failures = 0
            self._change.notify_all()

    def leave_failed(self, ticket: int, retry_after: float | None) -> float:
        """The service is not there or wants to be left alone; returns for how long."""
        with self._change:
            self._inside -= 1
            if ticket == self._failures:  # calls that failed together count once
                self._failures += 1
            self._width = 1
            pause = retry_after if retry_after is not None else self._pause()
            self._open_at = max(self._open_at, self._clock() + pause)
            self._change.notify_all()
            return pause

    def _pause(self) -> float:
        longest = min(LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures, 10))
        return longest * (0.5 + self._jitter() / 2)

    def stop(self) -> None:
        """Turn everybody away from now on."""
        with self._change:
            self._stopped = True
            self._change.notify_all()
