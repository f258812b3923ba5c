"""Running a command, and ending every process it has started."""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from gitteam.errors import ToolFailed
from gitteam.workplace import supervisor
from gitteam.workplace.table import Process, has_mark, process_table, send, started_at

GRACE = 0.5  # seconds from TERM to KILL
PATIENCE = 2.0  # for what cannot even be killed
TICK = 0.05  # how soon a stop is noticed
# Processes that end by themselves right after their command were not left running.
AFTERMATH = 0.03
# Every process of a command inherits this variable. A team inside a team adds to it.
MARK = "GITTEAM_COMMAND"

LIMIT, STOPPING = "the time limit", "the team is stopping"


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code, or why it has none; how many processes it left, and how many still run."""

    code: int | None
    stopped: str
    left: int
    immortal: int

    @property
    def exit_code(self) -> int | None:
        """As shells tell it: the death by a signal is a number above 128."""
        return 128 - self.code if self.code is not None and self.code < 0 else self.code

    @property
    def leftovers(self) -> list[str]:
        """What is worth telling of the processes it left."""
        remarks = []
        if self.immortal:
            remarks.append(f"{self.immortal} process{'es' * (self.immortal != 1)} could not be ended")
        if self.left and not self.stopped:
            remarks.append(f"ended {self.left} process{'es' * (self.left != 1)} left running")
        return remarks


@dataclass(frozen=True)
class Files:
    """Open files for a command: to read, if not nothing; to write to, so that only its errors are taken."""

    stdin: int | None = None
    stdout: int | None = None


NO_FILES = Files()


def run_command(
    command: bytes,
    shell: str,
    directory: str,
    environ: dict[str, str],
    take: Callable[[bytes], None],
    timeout: float,
    stop: threading.Event,
    files: Files = NO_FILES,
) -> Outcome:
    """Run a command to its end, its time limit or the stop; afterwards none of its processes is left."""
    deadline = time.monotonic() + timeout
    with Running(command, shell, directory, environ, take, files) as running:
        stopped = running.watch(deadline, stop)
        return running.end(stopped)


class Running:
    """A command that runs, with whatever it starts."""

    def __init__(
        self,
        command: bytes,
        shell: str,
        directory: str,
        environ: dict[str, str],
        take: Callable[[bytes], None],
        files: Files = NO_FILES,
    ):
        self._command, self._take = command, take
        self._mark = os.urandom(16).hex()
        environ = {**environ, MARK: f"{os.environ.get(MARK, '')} {self._mark}".strip()}
        self._told = b""
        self._shell: int | None = None
        self._code: int | None = None
        self._gone = False  # all of its processes, for certain
        self._known: dict[int, Process] = {}
        with contextlib.ExitStack() as ends:
            self._output, writer = _pipe(ends)
            self._teller, teller = _pipe(ends)
            with writer, teller:
                self._process = _start(shell, directory, environ, writer.fileno(), teller.fileno(), files)
            self._ends = ends.pop_all()
        self._since = started_at(self._process.pid)
        self._open = {self._output, self._teller}
        self._poll = select.poll()
        for fd in self._open:
            self._poll.register(fd, select.POLLIN)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if error:
                self._end_processes()
        finally:
            self._process.kill()
            self._process.wait()
            self._ends.close()

    def _hand_over(self) -> None:
        assert self._process.stdin
        try:
            with self._process.stdin as pipe:
                pipe.write(self._command)
        except BrokenPipeError:
            self._gone = True  # it never began

    # -- watching

    def watch(self, deadline: float, stop: threading.Event) -> str:
        """Wait until the command has ended, or for a reason to end it: that is returned."""
        self._hand_over()
        while self._code is None and not self._gone and self._teller in self._open:
            if stop.is_set():
                return STOPPING
            rest = deadline - time.monotonic()
            if rest <= 0:
                return LIMIT
            self._pump(min(TICK, rest))
        return ""

    def _pump(self, seconds: float) -> None:
        """Wait so long for something to read, and read it."""
        for fd, _ in self._poll.poll(seconds * 1000):
            try:
                data = os.read(fd, 65536)
            except BlockingIOError:
                continue
            if not data:
                self._poll.unregister(fd)
                self._open.remove(fd)
            elif fd == self._output:
                self._take(data)
            else:
                self._hear(data)

    def _pump_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._gone and (rest := deadline - time.monotonic()) > 0:
            self._pump(rest)

    def _hear(self, data: bytes) -> None:
        *lines, self._told = (self._told + data).split(b"\n")
        for line in lines:
            word, _, rest = line.decode().partition(" ")
            if word == "pid":
                self._shell = int(rest)
            elif word == "exit":
                self._code = int(rest)
            elif word == "gone":
                self._gone = True
            else:
                raise ToolFailed(f"the command could not be started: {rest.lower()}")

    # -- ending

    def end(self, stopped: str) -> Outcome:
        if not stopped:
            self._pump_for(AFTERMATH)
        left, immortal = self._end_processes()
        deadline = time.monotonic() + 1  # nobody is left to write any more, or nobody that can be ended
        while self._output in self._open and self._poll.poll(0) and time.monotonic() < deadline:
            self._pump(0)
        return Outcome(None if stopped else self._code, stopped, left, immortal)

    def _end_processes(self) -> tuple[int, int]:
        """TERM all, then KILL all, until none is found; how many there were, and how many are left."""
        began, pause = time.monotonic(), 0.01
        told: set[tuple[int, int, int]] = set()
        found: list[Process] = []
        while not self._gone:
            found = self._find()
            passed = time.monotonic() - began
            if (not found and self._teller not in self._open) or passed > PATIENCE:
                break
            number = signal.SIGTERM if passed < GRACE else signal.SIGKILL
            self._tell_group(found, number)
            for process in found:
                if (process.pid, process.started, number) not in told:
                    told.add((process.pid, process.started, number))
                    send(process, number)
            self._pump_for(pause)
            pause = min(2 * pause, 0.1)
        return len(self._known), 0 if self._gone else len(found)

    def _tell_group(self, found: list[Process], number: int) -> None:
        """The shell's process group at one stroke: no fork gets in between."""
        if self._shell and number == signal.SIGKILL and any(p.group == self._shell for p in found):
            try:
                os.killpg(self._shell, number)
            except (ProcessLookupError, PermissionError):
                return  # they are told one by one in any case

    def _find(self) -> list[Process]:
        """All living processes of this command. Whoever was found once is known, even if nothing tells any more."""
        table = {p.pid: p for p in process_table() if p.started >= self._since and p.pid != self._process.pid}
        ours = {p.pid for p in table.values() if self._is_ours(p)}
        new = ours
        while new:
            new = {p.pid for p in table.values() if p.parent in new} - ours
            ours |= new
        # The oldest first: a shell that outlives its child for a moment would report the death in the output.
        found = sorted((table[pid] for pid in ours if not table[pid].dead), key=lambda p: (p.started, p.pid))
        self._known |= {p.pid: p for p in found if p.pid != self._shell or self._code is not None}
        return found

    def _is_ours(self, process: Process) -> bool:
        known = self._known.get(process.pid)
        return (
            process.parent == self._process.pid
            or (known is not None and known.started == process.started)
            or (self._shell is not None and self._shell in (process.session, process.group))
            or has_mark(process.pid, self._mark)
        )


def _pipe(ends: contextlib.ExitStack) -> tuple[int, io.FileIO]:
    """Both ends of a new pipe. Reading from it never blocks."""
    reader, writer = os.pipe()
    ends.callback(os.close, reader)
    os.set_blocking(reader, False)
    return reader, io.FileIO(writer, "w")


def _start(
    shell: str, directory: str, environ: dict[str, str], output: int, teller: int, files: Files
) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-I", "-S", supervisor.__file__, str(teller), str(os.getpid()), shell]
    given = [] if files.stdin is None else [files.stdin]
    stdout = output if files.stdout is None else files.stdout
    try:
        return subprocess.Popen(
            [*program, *map(str, given)], cwd=directory, env=environ, stdin=subprocess.PIPE, stdout=stdout,
            stderr=output, pass_fds=(teller, *given), start_new_session=True,
        )  # fmt: skip
    except OSError as e:
        raise ToolFailed(f"the command could not be started in {directory}: {(e.strerror or str(e)).lower()}") from None
