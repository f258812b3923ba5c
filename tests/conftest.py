"""Fixtures: real git in temporary directories, the real program in real processes, and guards around both."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitteam import Team
from gitteam.journal import Replay

signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # a job in the background ignores it, and so would its children

TIMEOUT = 60  # for anything a test waits for; never reached when all is well


@pytest.fixture(autouse=True)
def _guards(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No home directory, no git identity but the pinned one, no network, no thread left behind."""
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Jane Doe\n\temail = jane@example.com\n[init]\n\tdefaultBranch = main\n"
    )
    for key in [k for k in os.environ if k.startswith("GIT_")]:
        monkeypatch.delenv(key)
    for key, value in {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "NO_COLOR": "1", "COLUMNS": "100"}.items():
        monkeypatch.setenv(key, value)
    for key in ("XDG_CONFIG_HOME", "VISUAL", "EDITOR", "GITTEAM_LOCK_TIMEOUT"):
        monkeypatch.delenv(key, raising=False)

    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        if self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1"):
            return connect(self, address)
        raise AssertionError(f"a test connects to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t not in before and t.is_alive()]
    for thread in left:
        thread.join(5)
    assert not [t for t in left if t.is_alive()], f"threads left behind: {left}"


def git(cwd: Path | str, *args: str, check: bool = True, **kwargs: Any) -> str:
    """Run git as a person would; returns its output."""
    done = subprocess.run(["git", *args], cwd=cwd, check=False, capture_output=True, text=True, **kwargs)
    assert not check or done.returncode == 0, f"git {' '.join(args)}: {done.stderr}"
    return done.stdout.strip("\n")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit of a person's own."""
    path = tmp_path / "project"
    path.mkdir()
    git(path, "init", "-q")
    (path / "README.md").write_text("# project\n")
    git(path, "add", ".")
    git(path, "commit", "-qm", "first")
    return path


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    """A team in that repository, with alice and bob."""
    Team.init(repo)
    with Team(repo) as team:
        team.add_member("alice", "backend")
        team.add_member("bob", "frontend", "external")
        yield team


class Result:
    """What one call of the program did."""

    def __init__(self, done: subprocess.CompletedProcess[str]):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"exit {self.code}\n{self.out}\n{self.err}"


Run = Callable[..., Result]


def gitteam(cwd: Path | str, *args: str, stdin: str = "", **env: str) -> Result:
    """Run the program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "gitteam", *args], cwd=cwd, input=stdin, capture_output=True, text=True, timeout=TIMEOUT,
        env={**os.environ, **env},
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert "a bug in gitteam" not in done.stderr, done.stderr
    return Result(done)


@pytest.fixture
def run(repo: Path) -> Run:
    """`run("task", "add", "Fix it")` in the repository; env as keywords."""
    return lambda *args, **kwargs: gitteam(repo, *args, **kwargs)


def until(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Wait for something another process does; fails after TIMEOUT."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError(f"{what} did not come about in {TIMEOUT} s")


def age(path: Path) -> None:
    """Make a file's absence or change look old: what a test would otherwise have to wait for."""
    past = time.time() - 3600
    os.utime(path, (past, past))


def diary(cwd: Path, branch: str = "gitteam") -> list[str]:
    """The subjects of the history, oldest first."""
    return git(cwd, "log", "--reverse", "--format=%s", branch).splitlines()


def check_everything(team: Team) -> None:
    """The invariants: history sound, objects sound, files equal to the branch, doctor content."""
    ledger = team.ledger
    assert Replay().run(ledger.repo, ledger.ref, merges_allowed=ledger.tracked) == []
    assert git(team.place.root, "fsck", "--full", "--strict", "--no-dangling").strip() in (
        "",
        "notice: No default references",
    )
    for path in git(
        team.place.root, "ls-tree", "-r", "--name-only", "-z", ledger.branch, "--", ".team", ".tasks"
    ).split("\0"):
        if path:
            blob = subprocess.run(
                ["git", "cat-file", "blob", f"{ledger.branch}:{path}"],
                cwd=team.place.root,
                capture_output=True,
                check=True,
            ).stdout
            assert (Path(team.place.root) / path).read_bytes() == blob, f"{path} on disk differs from the branch"
