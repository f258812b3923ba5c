"""Waking when files change. An event only ever says "look again"; what there is to see is decided elsewhere."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import warnings
from types import TracebackType
from typing import Any

from gitteam import layout
from gitteam.layout import Layout

# How often to look even without an event: they are lost on network file systems and when queues overflow.
SLOW_POLL = 5.0
# The same where there are no events at all.
FAST_POLL = 0.5

_MEANINGFUL = ("created", "modified", "moved", "deleted", "closed")


class Watch:
    """Watches a team's files from creation until `close`. Look once after creating it: see `wait`."""

    def __init__(self, place: Layout):
        # watchdog is loaded by those who wait, not by every command.
        from watchdog.events import FileSystemEventHandler
        from watchdog.observers import Observer

        _make_moves_immediate()
        # It warns of events that come while it stops; nobody needs to read that.
        logging.getLogger("watchdog").addHandler(logging.NullHandler())
        logging.getLogger("watchdog").propagate = False
        # The same directory twice, when one is made and watched at the same moment: it sorts that out by itself.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"watchdog\.")
        self._place = place
        self._changed = threading.Event()
        self._swept: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.trouble = ""  # why there are no events
        watch = self

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: Any) -> None:
                if event.event_type in _MEANINGFUL and not event.is_directory:
                    watch._note(os.fsdecode(event.dest_path or event.src_path))

        self._observer: Any = None
        observer = None
        try:
            observer = Observer()
            watched = [place.at(path) for path in (layout.TASKS, layout.TEAM, layout.INBOX, layout.REQUESTS)]
            for path in [*watched, place.aside, place.live]:
                os.makedirs(path, exist_ok=True)
                observer.schedule(Handler(), path, recursive=path == watched[0])  # done/ is below the tasks
            observer.start()
            self._observer = observer
        except OSError as e:
            if observer:
                observer.stop()  # it has threads already, though it never started
            why = (os.strerror(e.errno) if e.errno else str(e)).lower()
            self.trouble = f"no file events ({why}): looking every {FAST_POLL:g} s instead"

    def _note(self, path: str) -> None:
        done = self._place.at(layout.DONE) + os.sep
        if path.startswith(done) and path.endswith(".md"):
            self._swept.put(os.path.relpath(path, self._place.root))
        self._changed.set()

    def wait(self, timeout: float) -> None:
        """Return when something may have changed since the last call, at the latest after `timeout` or a slow poll."""
        if self._observer is not None and not self._observer.is_alive():
            self._observer = None
            self.trouble = f"no file events (the observer died): looking every {FAST_POLL:g} s instead"
        self._changed.wait(min(timeout, SLOW_POLL if self._observer is not None else FAST_POLL))
        self._changed.clear()

    def ring(self) -> None:
        """Let `wait` return: there is a reason to look that is no file."""
        self._changed.set()

    def swept_files(self) -> list[str]:
        """The files in done/ that changed since the last call; they are looked at only when somebody says so."""
        found = set()
        while not self._swept.empty():
            found.add(self._swept.get())
        return sorted(found)

    def remember(self, paths: list[str]) -> None:
        """These could not be looked at now."""
        for path in paths:
            self._swept.put(path)

    def close(self) -> None:
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _make_moves_immediate() -> None:
    """watchdog holds a move out of a directory back for half a second, and all behind it, waiting for its other half.

    Every file we replace is moved out first, so that everybody would wake half a second late.
    """
    with contextlib.suppress(ImportError):  # there is none where the system has no inotify
        from watchdog.observers.inotify_move_event_grouper import InotifyMoveEventGrouper

        InotifyMoveEventGrouper.delay = 0.0
