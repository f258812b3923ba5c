"""The processes there are, and how to signal one of them without ever meeting another."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

# What reading about a process says when it has ended meanwhile, or is another user's.
_OUT_OF_SIGHT = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True)
class Process:
    """A process at one moment. The pid may be somebody else's later; together with the start it is unique."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    dead: bool = False


def process_table() -> Iterator[Process]:
    """All processes one can see."""
    try:
        names = os.listdir("/proc")
    except FileNotFoundError:
        yield from _table_of_ps()
        return
    for name in names:
        if name.isdigit() and (process := _from_proc(int(name))):
            yield process


def _from_proc(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            text = f.read()
    except _OUT_OF_SIGHT:
        return None
    # The name in parentheses may hold anything, also parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    parent, group, session = (int(field) for field in fields[1:4])
    return Process(pid, parent, group, session, int(fields[19]), fields[0] in b"ZXx")


def _table_of_ps() -> Iterator[Process]:
    listing = subprocess.run(["ps", "-axo", "pid=,ppid=,pgid=,stat="], capture_output=True, text=True, check=False)
    for line in listing.stdout.splitlines():
        pid, parent, group, state = line.split()
        yield Process(int(pid), int(parent), int(group), 0, 0, state.startswith("Z"))


def started_at(pid: int) -> int:
    process = _from_proc(pid)
    return process.started if process else 0


def has_mark(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            return mark.encode() in f.read()
    except _OUT_OF_SIGHT:
        return False


def send(process: Process, number: int) -> None:
    """Signal this very process, and never another one that has got its pid."""
    try:
        if not hasattr(os, "pidfd_open"):
            os.kill(process.pid, number)
            return
        fd = os.pidfd_open(process.pid)
    except (ProcessLookupError, PermissionError):
        return
    try:
        if started_at(process.pid) == process.started:
            signal.pidfd_send_signal(fd, number)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        os.close(fd)
