"""The process between us and a command: it outlives the command's whole tree, and tells what becomes of it.

On Linux every process of the tree that loses its parent becomes a child of this one, however it was
started: none gets away unseen. It runs as a program of its own, by its path, and imports nothing of
gitteam. The command comes on stdin; what that is to read, if anything, is a file handed down. What is
told goes to a pipe, a line each: `pid 17` of the shell, `exit 3` when that has ended, `gone` when all
the others have too.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class _Abandoned(Exception):
    """Whoever wanted the command is dead."""


def _abandon(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Abandoned


def main(teller: int, parent: int, shell: str, stdin: int | None = None) -> None:
    os.set_inheritable(teller, False)
    try:
        signal.signal(signal.SIGTERM, _abandon)
        if sys.platform == "linux":
            prctl = ctypes.CDLL(None).prctl
            prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() == parent:
            _supervise(teller, shell, stdin)
    except _Abandoned:
        _kill_all()


def _supervise(teller: int, shell: str, stdin: int | None) -> None:
    command = sys.stdin.buffer.read()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing if stdin is None else stdin, 0)
    if stdin is not None:
        os.close(stdin)
    try:
        # Python ignores these two signals; a command is not to inherit that.
        defaults = [signal.SIGPIPE, signal.SIGXFSZ]
        child = os.posix_spawn(shell, [shell, "-c", command], os.environ, setsid=True, setsigdef=defaults)
    except OSError as e:
        os.write(teller, f"failed {e.strerror}\n".encode())
        return
    os.write(teller, f"pid {child}\n".encode())
    os.dup2(nothing, 1)  # the output is at its end when the command's processes have closed it
    os.dup2(nothing, 2)
    _reap(teller, child)


def _reap(teller: int, child: int) -> None:
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        if pid == child:
            os.write(teller, f"exit {os.waitstatus_to_exitcode(status)}\n".encode())
    if sys.platform == "linux":  # elsewhere there may be orphans that never came here
        os.write(teller, b"gone\n")


def _kill_all() -> None:
    """Kill our children until none is left: whom they leave behind become our children."""
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as f:
        return [int(pid) for pid in f.read().split()]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
    os._exit(0)  # at once: somebody waits for this
