"""Faults made on purpose: commands killed or failed at a chosen system call, and what must hold afterwards.

Commands run in forked copies of the test's own process: real processes with real system calls, but without the start of
an interpreter, so that the n-th call of a kind is a call of the program's and hundreds of points fit into a minute.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import filelock  # noqa: F401  # loaded before forking: a lazy import would open files of its own
import git as _git  # noqa: F401
import git.exc  # noqa: F401
import pytest
from conftest import TIMEOUT, git

import gitteam.cli.mail
import gitteam.cli.member
import gitteam.cli.report
import gitteam.cli.setup
import gitteam.cli.task
import gitteam.doctor
from gitteam import Team
from gitteam.cli import run as run_command
from gitteam.journal import Replay
from gitteam.objects import digest

# -- processes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code, negative for a signal, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Child:
    """A forked process that waits for `go`, does one thing and ends."""

    def __init__(self, body: Callable[[], int], cwd: Path, output: Path):
        self._output = output
        ready, self._go = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._live(body, cwd, ready)
        os.close(ready)

    def _live(self, body: Callable[[], int], cwd: Path, ready: int) -> None:
        code = 99
        try:
            os.close(self._go)
            os.chdir(cwd)
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(f"{self._output}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8", closefd=False) for n in (1, 2))
            if os.read(ready, 1):
                code = body()
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)

    def go(self) -> Child:
        os.write(self._go, b"!")
        os.close(self._go)
        return self

    def kill(self) -> None:
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)

    def end(self) -> Outcome:
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        out, err = (Path(f"{self._output}.{name}").read_text() for name in ("out", "err"))
        return Outcome(code, out, err)


def command(root: Path, *words: str) -> Child:
    return Child(lambda: run_command(list(words)), root, root.parent / "output")


def call(root: Path, *words: str) -> Outcome:
    """Run one command, undisturbed."""
    found = command(root, *words).go().end()
    assert "Traceback" not in found.err, found.err
    return found


# -- strace -----------------------------------------------------------------------------------


@cache
def _can_trace() -> bool:
    try:
        return subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


needs_strace = pytest.mark.skipif(not _can_trace(), reason="strace is missing, or may not trace here")


def call_traced(root: Path, words: tuple[str, ...], *options: str) -> Outcome:
    """Run one command under strace with these options."""
    child = command(root, *words)
    tracer = subprocess.Popen(["strace", "-qq", *options, "-p", str(child.pid)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + TIMEOUT
    while "TracerPid:\t0\n" in Path(f"/proc/{child.pid}/status").read_text():
        assert time.monotonic() < deadline, "strace did not attach"
        time.sleep(0.001)
    found = child.go().end()
    tracer.wait(TIMEOUT)
    return found


def call_injected(root: Path, words: tuple[str, ...], point: Point, what: str) -> Outcome:
    return call_traced(
        root, words, "-o", "/dev/null", "-e", f"trace={point.call}",
        "-e", f"inject={point.call}:{what}:when={point.number}",
    )  # fmt: skip


@dataclass(frozen=True)
class Point:
    """The n-th use of a system call by a command."""

    call: str
    number: int

    def __str__(self) -> str:
        return f"{self.call} {self.number}"


def points(root: Path, words: tuple[str, ...], calls: str) -> list[Point]:
    """Every use a command makes of these system calls, in order. Of openat only what creates or writes."""
    log = root.parent / "trace"
    call_traced(root, words, "-o", str(log), "-e", f"trace={calls}", "-e", "signal=none")
    seen: Counter[str] = Counter()
    found = []
    for line in log.read_text(errors="replace").splitlines():
        if match := re.match(r"(\w+)\(", line):
            seen[match[1]] += 1
            if match[1] != "openat" or re.search(r"O_CREAT|O_WRONLY|O_RDWR", line):
                found.append(Point(match[1], seen[match[1]]))
    return found


# -- scenes: a prepared board, copied for each point -------------------------------------------


@dataclass(frozen=True)
class Scene:
    """A command, the board it meets, and the state of things before and after it."""

    template: Path
    words: tuple[str, ...]
    before: dict[str, Any]
    after: dict[str, Any]
    belongings: dict[str, bytes]

    def fresh(self) -> Path:
        root = self.template.parent / "copy"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.template, root, symlinks=True)
        return root

    def check(self, root: Path, found: Outcome, by_reading: bool) -> None:
        """After a disturbed run: the next command works by itself, and all that must hold does."""
        if by_reading:
            again = call(root, "task", "list", "--all", "--json")
        else:
            again = call(root, "send", "user", "still there?")
        assert (again.code, again.err) == (0, ""), "the next command does not simply work"
        state = state_of(root)
        assert state in (self.before, self.after), "neither before nor after"
        if found.code == 0:
            assert state == self.after, "acknowledged, but not there"
        sound(root)
        assert belongings(root) == self.belongings


def scene(directory: Path, words: tuple[str, ...], prepare: Callable[[Team, Path], None]) -> Scene:
    template = new_board(directory / "template")
    with Team(template) as team:
        prepare(team, template)
    shutil.copytree(template, directory / "before")
    shutil.copytree(template, directory / "after")
    assert call(directory / "after", *words).code == 0
    return Scene(template, words, state_of(directory / "before"), state_of(directory / "after"), belongings(template))


def new_board(root: Path) -> Path:
    """A small repository with a team in it, alice and bob."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "--template=")
    (root / "README.md").write_text("# project\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    Team.init(root)
    with Team(root) as team:
        team.add_member("alice", "backend")
        team.add_member("bob", "frontend", "external")
    return root


def state_of(root: Path) -> dict[str, Any]:
    """What the branch says once hand edits are in, without what differs from run to run."""
    with Team(root) as team:
        team.ledger.sync()
    files = {}
    for path in git(root, "ls-tree", "-r", "--name-only", "gitteam").splitlines():
        text = git(root, "show", f"gitteam:{path}")
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
        files[path] = re.sub(r'"(id|timestamp|since)": ("\w+"|[\d.]+)', r'"\1": 0', text)
    files.pop(".team/inbox/user.jsonl", None)
    return files


def belongings(root: Path) -> dict[str, bytes]:
    """What is the person's: everything in the checkout and the git directory that is not the team's."""
    ours = re.compile(r"\.team/|\.tasks/|\.git/(gitteam/|objects/|refs/heads/gitteam$|logs/refs/heads/gitteam$)")
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), root)
            if not ours.match(path):
                found[path] = Path(folder, name).read_bytes()
    return found


def sound(root: Path) -> None:
    """The invariants that one look can tell: objects, history, and files that equal the branch, no more and no less."""
    assert git(root, "fsck", "--full", "--strict", "--no-dangling") == ""
    with Team(root) as team:
        ledger = team.ledger
        assert Replay().run(ledger.repo, ledger.ref, merges_allowed=ledger.tracked) == []
        on_branch = {}
        for line in git(root, "ls-tree", "-r", "-z", ledger.branch, "--", ".team", ".tasks").split("\0"):
            if line:
                on_branch[line.partition("\t")[2]] = line.split()[2]
        assert files_of(root) == on_branch
        ops = re.findall(r"^Team-Op: (\w+)$", git(root, "log", "--format=%B", ledger.branch), re.MULTILINE)
        assert len(ops) == len(set(ops)) == len(git(root, "rev-list", ledger.branch).splitlines())


def files_of(root: Path) -> dict[str, str]:
    found = {}
    for top in (".team", ".tasks"):
        for folder, _, names in os.walk(root / top):
            for name in names:
                path = Path(folder, name)
                found[str(path.relative_to(root))] = digest(b"blob", path.read_bytes(), 40)
    return found


# -- places of their own ----------------------------------------------------------------------

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000


def in_namespace(body: Callable[[], None], directory: Path) -> None:
    """Run `body` in a process with mounts of its own; what it raises fails the test."""
    raise NotImplementedError


@contextmanager
def deleted_later(path: Path) -> Iterator[Path]:
    yield path
    shutil.rmtree(path, ignore_errors=True)


_ = (ctypes, gitteam)
