"""One gate to the API for the whole process: when it says wait, everybody waits, and then they go in one by one.

After a failure one call goes first; each that succeeds lets twice as many through. So
sixteen members do not storm a service that has just come back.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable

LONGEST_PAUSE = 60.0
_FIRST_PAUSE = 0.5
_WIDE = 64
_TRUSTED = 3  # failures in a row for which the service's own word about the pause is enough


class Stopped(Exception):
    """The team is stopping: no further call is made."""


class Closed(Exception):
    """The gate stays closed for longer than somebody can wait. `pause` is for how long it is known to."""

    def __init__(self, reason: str, pause: float):
        self.reason, self.pause = reason, pause
        super().__init__(reason)


class Gate:
    def __init__(self, clock: Callable[[], float] = time.monotonic, jitter: Callable[[], float] = random.random):
        self._clock, self._jitter = clock, jitter
        self._change = threading.Condition()
        self._open_at = 0.0
        self._inside = 0
        self._width = _WIDE
        self._closings = 0
        self._failures = 0  # in a row
        self._reason = ""  # of the last one
        self._stopped = False

    def enter(self, patience: float = math.inf) -> int:
        """Wait for one's turn, for as long as that; returns a ticket for `leave`."""
        with self._change:
            deadline = self._clock() + patience
            while True:
                if self._stopped:
                    raise Stopped
                now = self._clock()
                pause = max(0.0, self._open_at - now)
                if not pause and (self._inside < self._width or self._width >= _WIDE):
                    self._inside += 1
                    return self._closings
                if now + pause >= deadline:
                    raise Closed(self._reason, pause)
                limit = min(pause or math.inf, deadline - now)
                self._change.wait(limit if limit < math.inf else None)

    def leave(self, ticket: int) -> None:
        """The call went well, or failed for reasons of its own."""
        with self._change:
            self._inside -= 1
            if ticket == self._closings:  # a call from before the last failure says nothing about now
                self._width = min(self._width * 2, _WIDE)
                self._failures = 0
            self._change.notify_all()

    def leave_failed(self, ticket: int, reason: str, retry_after: float | None) -> float:
        """The service is not there or wants to be left alone; returns for how long."""
        with self._change:
            self._inside -= 1
            if ticket == self._closings:  # calls that failed together count once
                self._closings += 1
                self._failures += 1
            self._width, self._reason = 1, reason
            pause = self._pause(retry_after)
            self._open_at = max(self._open_at, self._clock() + pause)
            self._change.notify_all()
            return pause

    def _pause(self, wanted: float | None) -> float:
        """As long as the service wants, a little spread; its own measure where it does not say, or says it in vain."""
        own = min(LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures, 10)) * (0.5 + self._jitter() / 2)
        if wanted is None:
            return own
        wanted += self._jitter() * min(wanted / 10, 1)
        return wanted if self._failures <= _TRUSTED else max(wanted, own)

    def stop(self) -> None:
        """Turn everybody away from now on."""
        with self._change:
            self._stopped = True
            self._change.notify_all()
