"""Faults made on purpose: commands killed or failed at a chosen system call, and what must hold afterwards.

Commands run in forked copies of the test's own process: real processes with real system calls, but without the start of
an interpreter, so that the n-th call of a kind is a call of the program's and hundreds of points fit into a minute.
"""

from __future__ import annotations

import ctypes
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Loaded before forking: what is imported late opens files of its own, at points that are not the program's.
import filelock  # noqa: F401
import git.exc  # noqa: F401
import pytest
from conftest import TIMEOUT, until
from conftest import git as run_git

import gitteam.cli.mail
import gitteam.cli.member
import gitteam.cli.report
import gitteam.cli.setup
import gitteam.cli.task
import gitteam.doctor  # noqa: F401
from gitteam import Team
from gitteam.cli import run as run_command
from gitteam.journal import Replay
from gitteam.objects import digest

# -- processes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """How a process ended: its exit code, negative for a signal, and what it printed."""

    code: int
    out: str
    err: str


class Child:
    """A forked process that waits for `go`, does one thing in a directory, and ends with what that returns."""

    def __init__(self, body: Callable[[], int], cwd: Path):
        self._output = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        self.pid = os.fork()
        if self.pid == 0:
            self._live(body, cwd)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])

    def _live(self, body: Callable[[], int], cwd: Path) -> None:
        code = 1  # as Python ends when nobody catches what is raised
        try:
            os.chdir(cwd)
            for number, file in enumerate(self._output, 1):
                os.dup2(file.fileno(), number)
            sys.stdout, sys.stderr = (os.fdopen(n, "w", encoding="utf-8", closefd=False) for n in (1, 2))
            signal.sigwait([signal.SIGUSR1])
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
            code = body()
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)

    def go(self) -> Child:
        os.kill(self.pid, signal.SIGUSR1)
        return self

    def end(self) -> Outcome:
        try:
            status = until(lambda: (found := os.waitpid(self.pid, os.WNOHANG))[0] and (found[1],), "its end")[0]
        except AssertionError:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
            raise
        code = os.waitstatus_to_exitcode(status)
        texts = []
        for file in self._output:
            file.seek(0)
            texts.append(file.read().decode())
            file.close()
        return Outcome(code, *texts)

    def kill(self) -> Outcome:
        os.kill(self.pid, 9)
        return self.end()


def command(root: Path, *words: str) -> Child:
    return Child(lambda: run_command(list(words)), root)


def call(root: Path, *words: str) -> Outcome:
    """Run one command, undisturbed."""
    found = command(root, *words).go().end()
    assert "Traceback" not in found.err, found.err
    assert "a bug in gitteam" not in found.err, found.err
    return found


# -- strace -----------------------------------------------------------------------------------


@cache
def _can_trace() -> bool:
    try:
        return subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


needs_strace = pytest.mark.skipif(not _can_trace(), reason="strace is missing, or may not trace here")


@dataclass(frozen=True)
class Point:
    """The n-th use of a system call by a command."""

    call: str
    number: int

    def __str__(self) -> str:
        return f"{self.call} {self.number}"

    def inject(self, what: str) -> tuple[str, ...]:
        return "-e", f"trace={self.call}", "-e", f"inject={self.call}:{what}:when={self.number}"


def call_traced(root: Path, words: tuple[str, ...], *options: str, log: str = "/dev/null") -> Outcome:
    """Run one command under strace. Only its own process is traced, not the git it starts."""
    child = command(root, *words)
    tracer = subprocess.Popen(["strace", "-qq", "-o", log, *options, "-p", str(child.pid)])
    until(lambda: "TracerPid:\t0\n" not in Path(f"/proc/{child.pid}/status").read_text(), "strace attached")
    found = child.go().end()
    tracer.wait(TIMEOUT)
    return found


def points(root: Path, words: tuple[str, ...], calls: str, reading: bool = False) -> list[Point]:
    """Every use a command makes of these system calls, in order. Files opened for reading only if asked for."""
    return [point for point, _ in _uses(root, words, calls, reading)]


# Calls between two of which nothing changes outside the process: a kill at each covers every state there can be.
CHANGING = (
    "openat,write,pwrite64,rename,link,unlink,unlinkat,rmdir,fsync,ftruncate,mkdir,chmod,flock,fcntl,vfork,exit_group"
)


def states(root: Path, words: tuple[str, ...]) -> list[Point]:
    """One point for each state a command goes through, in order: a kill at any other leaves what one of these does."""
    found, changed = [], True
    for point, line in _uses(root, words, CHANGING):
        if changed:
            found.append(point)
        changed = _outlives_the_process(line)
    return found


def _uses(root: Path, words: tuple[str, ...], calls: str, reading: bool = False) -> list[tuple[Point, str]]:
    """Each use of these system calls with its line in the trace."""
    log = root.parent / "trace"
    call_traced(root, words, "-e", f"trace={calls}", "-e", "signal=none", log=str(log))
    seen: Counter[str] = Counter()
    found = []
    for line in log.read_text(errors="replace").splitlines():
        if match := re.match(r"(\w+)\(", line):
            seen[match[1]] += 1
            if reading or match[1] != "openat" or re.search(r"O_CREAT|O_WRONLY|O_RDWR", line):
                found.append((Point(match[1], seen[match[1]]), line))
    return found


def _outlives_the_process(line: str) -> bool:
    """Whether this call did something that a kill does not undo. Locks and leases it does; a sync it does not need."""
    return " = -1 " not in line and not line.startswith(("flock(", "fcntl(", "fsync("))


def disturb_git(directory: Path, subcommand: str, *options: str, once: bool) -> str:
    """A PATH on which this subcommand of git, the first time or always, runs under strace with these options."""
    first = f"mkdir {directory}/disturbed 2>/dev/null && " * once
    return _git_in_front(directory, subcommand, f'{first}exec strace -qq -o /dev/null {shlex.join(options)} GIT "$@"')


def meddle_before(directory: Path, subcommand: str, *words: str) -> str:
    """A PATH on which another git command runs just before the first of this subcommand."""
    return _git_in_front(directory, subcommand, f"mkdir {directory}/meddled 2>/dev/null && GIT {shlex.join(words)}")


def _git_in_front(directory: Path, subcommand: str, action: str) -> str:
    directory.mkdir(exist_ok=True)
    script = f'#!/bin/sh\ncase " $* " in *" {subcommand} "*) {action} ;; esac\nexec GIT "$@"\n'
    (directory / "git").write_text(script.replace("GIT", shutil.which("git") or ""))
    (directory / "git").chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


# -- scenes: a prepared board, copied for each disturbance ---------------------------------------


@dataclass(frozen=True)
class Scene:
    """A command, the board it meets, and the state of things before and after it."""

    template: Path
    words: tuple[str, ...]
    states: list[State]  # before it, and after each commit it makes
    belongings: dict[str, bytes]

    def fresh(self) -> Path:
        root = self.template.parent / "copy"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.template, root, symlinks=True, copy_function=_copy)
        return root

    def check(self, root: Path, found: Outcome, by_reading: bool) -> None:
        """After a disturbed run: the next command works by itself, and all that must hold does."""
        again = call(root, "task", "list") if by_reading else call(root, "send", "user", "still there?")
        assert (again.code, again.err) == (0, ""), "the next command does not simply work"
        state = sound(root)
        assert state in self.states, f"neither before nor after: {state}"
        assert found.code or state == self.states[-1], f"acknowledged, but not there: {state}"
        touched = {path for path, _ in belongings(root).items() ^ self.belongings.items()}
        assert not touched, f"something of the person's was touched: {touched}"


def _copy(source: str, target: str) -> None:
    """Objects are never written to once they have their names, so that one file can serve all copies."""
    if "/.git/objects/" in source:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def scene(directory: Path, words: tuple[str, ...], prepare: Callable[[Team, Path], None]) -> Scene:
    template = new_board(directory / "template")
    with Team(template) as team:
        prepare(team, template)
    before, after = (shutil.copytree(template, directory / name, symlinks=True) for name in ("before", "after"))
    assert call(after, *words).code == 0
    sound(after)
    commits = run_git(after, "rev-list", "--reverse", f"{_tip(template)}..{_tip(after)}").split()
    return Scene(template, words, [sound(before), *(_state_at(after, c) for c in commits)], belongings(template))


def _tip(root: Path) -> str:
    return run_git(root, "rev-parse", "gitteam")


def _state_at(root: Path, commit: str) -> State:
    packed = subprocess.run(["git", "archive", commit], cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return _state({m.name: archive.extractfile(m).read() for m in archive if m.isfile()})  # type: ignore[union-attr]


def new_repository(root: Path, *options: str) -> Path:
    root.mkdir(parents=True)
    run_git(root, "init", "-q", "--template=", *options)
    (root / "README.md").write_text("# project\n")
    run_git(root, "add", ".")
    run_git(root, "commit", "-qm", "first")
    return root


def new_board(root: Path, *options: str, branch: str | None = None) -> Path:
    """A small repository, made with these options, with a team in it, alice and bob."""
    Team.init(new_repository(root, *options), branch=branch)
    with Team(root) as team:
        team.add_member("alice", "backend")
        team.add_member("bob", "frontend", "external")
    return root


# -- what must hold -----------------------------------------------------------------------------


State = dict[str, str]


def sound(root: Path) -> State:
    """Objects, history, op ids, and files that equal the branch, no more and no less; returns what the board says."""
    assert run_git(root, "fsck", "--full", "--strict", "--no-dangling") == "", "git fsck has something to say"
    with Team(root) as team:
        ledger = team.ledger
        ledger.sync()
        findings = Replay().run(ledger.repo, ledger.ref, merges_allowed=ledger.tracked)
        assert not findings, f"the history is wrong: {findings}"
        listing = run_git(root, "ls-tree", "-r", "-z", ledger.branch, "--", ".team", ".tasks").split("\0")
        on_branch = {line.partition("\t")[2]: line.split()[2] for line in listing if line}
        on_disk = board_files(root)
        hashes = {path: digest(b"blob", data, 40) for path, data in on_disk.items()}
        assert hashes == on_branch, f"files and branch differ: {set(hashes.items()) ^ set(on_branch.items())}"
        messages = run_git(root, "log", "--format=%B%x01", ledger.branch, "--", ".team", ".tasks").split("\x01")[:-1]
        ops = [op for message in messages for op in re.findall(r"^Team-Op: (\w+)$", message, re.MULTILINE)]
        assert len(set(ops)) == len(ops) == len(messages), "not one operation to each commit"
    return _state(on_disk)


def _state(files: dict[str, bytes]) -> State:
    """The board's texts without what differs from run to run."""
    state = {}
    for path, data in files.items():
        if path != ".team/inbox/user.jsonl" and path.startswith((".team/", ".tasks/")):
            text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", data.decode())
            state[path] = re.sub(r'"(id|timestamp|since)": ("\w+"|[\d.]+)', r'"\1": 0', text)
    return state


def board_files(root: Path) -> dict[str, bytes]:
    found = {}
    for top in (".team", ".tasks"):
        for folder, _, names in os.walk(root / top):
            for name in names:
                path = Path(folder, name)
                found[str(path.relative_to(root))] = path.read_bytes()
    return found


def check_order(acts: list[tuple[int, float, float]]) -> None:
    """What had returned before something else began stands before it. An act: place in the history, began, ended."""
    latest_start = 0.0
    for _, began, ended in sorted(acts):
        assert ended >= latest_start, "the history is not in the order in which things happened"
        latest_start = max(latest_start, began)


# The branch's lock is what a git that was killed leaves; the next change removes it.
_TEAMS = re.compile(r"\.team/|\.tasks/|\.git/(gitteam/|objects/|refs/heads/gitteam(\.lock)?$|logs/refs/heads/gitteam$)")


def belongings(root: Path) -> dict[str, bytes]:
    """What is the person's: everything in the checkout and the git directory that is not the team's."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), root)
            if not _TEAMS.match(path):
                found[path] = Path(folder, name).read_bytes()
    return found


# -- mounts of one's own --------------------------------------------------------------------------

_NEW_MOUNTS, _NEW_USER = 0x20000, 0x10000000


def with_own_mounts(body: Callable[[], None], cwd: Path) -> None:
    """Run `body` in a process whose mounts nobody else sees; skips the test where that is not allowed."""

    def live() -> int:
        if not _unshare():
            return 77
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        body()
        return 0

    found = Child(live, cwd).go().end()
    if found.code == 77:
        pytest.skip("no mount namespaces here")
    assert found.code == 0, found.err


def _unshare() -> bool:
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS | (_NEW_USER if user else 0)):
        return False
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    return True


def mount_memory(directory: Path, size: str) -> Path:
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(directory)], check=True)
    return directory
