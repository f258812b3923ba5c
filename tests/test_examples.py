"""The examples, run as they are: real shells, real signals, and the history as the witness."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import TIMEOUT, check_everything, diary, git, until

from gitteam import Team

EXAMPLES = Path(__file__).parent.parent / "examples"

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory at the front of PATH, with this program in it."""
    path = tmp_path / "tools"
    path.mkdir()
    _tool(path / "gitteam", f'exec "{sys.executable}" -m gitteam "$@"')
    monkeypatch.setenv("PATH", str(path), prepend=os.pathsep)
    return path


def _tool(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@pytest.fixture
def counter(team: Team) -> Team:
    """A team with somebody for teammate.sh to be."""
    team.add_member("counter", "counter", "external")
    return team


@pytest.fixture
def start(tools: Path, repo: Path) -> Iterator[Start]:
    """Start a program in the repository, in a process group of its own as a terminal would."""
    running: list[subprocess.Popen[str]] = []

    def start(*words: str | Path) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            [str(w) for w in words], cwd=repo, stdin=subprocess.DEVNULL, text=True, start_new_session=True, **pipes
        )  # fmt: skip
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)


def _waits(process: subprocess.Popen[str]) -> bool:
    """Whether a process of this group has begun to wait for something to do."""
    assert process.poll() is None, process.communicate()
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if b"wait" in words and b"gitteam" in words and os.getpgid(int(entry.name)) == process.pid:
                return any("inotify" in os.readlink(fd) for fd in (entry / "fd").iterdir())
        except OSError:
            continue  # it has ended meanwhile
    return False


@contextmanager
def _teammate(start: Start, team: Team) -> Iterator[subprocess.Popen[str]]:
    """teammate.sh at work, and then told to stop."""
    process = start(EXAMPLES / "teammate.sh", "counter")
    yield process
    team.send("counter", "stop")
    assert process.wait(TIMEOUT) == 0


@pytest.mark.parametrize("name", ["teammate.sh", "by-hand.sh"])
def test_example_is_an_executable_shell_script(name: str) -> None:
    assert os.access(EXAMPLES / name, os.X_OK)
    subprocess.run(["sh", "-n", EXAMPLES / name], check=True)


# -- teammate.sh ------------------------------------------------------------------------------


def test_teammate_does_what_is_there_and_what_comes(counter: Team, repo: Path, start: Start) -> None:
    first = counter.add("Count the lines of README.md", role="counter")
    with _teammate(start, counter) as process:
        until(lambda: counter.task(first.id).status == "completed")
        until(lambda: _waits(process))
        second = counter.add("And again those of README.md")
        until(lambda: counter.task(second.id).status == "completed")
    assert [line for line in diary(repo) if line.startswith("counter ")] == [
        "counter claims #1: Count the lines of README.md",
        "counter completes #1: Count the lines of README.md",
        "counter claims #2: And again those of README.md",
        "counter completes #2: And again those of README.md",
        "counter takes 1 message",
    ]
    assert counter.task(first.id).notes.endswith("counter: 1 lines in README.md")
    check_everything(counter)


def test_teammate_takes_off_the_board_what_it_cannot_do(counter: Team, start: Start) -> None:
    task = counter.add("Count the lines of nothing.txt", role="counter")
    with _teammate(start, counter):
        until(lambda: counter.task(task.id).status == "cancelled")
    assert counter.task(task.id).notes.endswith("no file called nothing.txt is committed here")


@pytest.mark.parametrize("trick", ["$(touch${IFS}pwned)", "README.md;touch${IFS}pwned", "../x", "."])
def test_teammate_never_runs_what_a_task_says(trick: str, counter: Team, repo: Path, start: Start) -> None:
    task = counter.add(f"Count the lines of {trick}", role="counter")
    with _teammate(start, counter):
        until(lambda: counter.task(task.id).status == "cancelled")
    assert sorted(p.name for p in repo.iterdir()) == [".git", ".tasks", ".team", "README.md"]


def test_teammate_counts_a_file_whatever_it_is_called(counter: Team, repo: Path, start: Start) -> None:
    name = "$(touch${IFS}pwned);`touch\\tpwned`"
    (repo / name).write_text("one\ntwo\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "an odd name")
    counter.add(f"Count the lines of {name}")
    with _teammate(start, counter):
        until(lambda: counter.task(1).status == "completed")
    assert counter.task(1).notes.endswith(f"2 lines in {name}")
    assert not (repo / "pwned").exists()


def test_teammate_takes_its_mail_and_shows_it(counter: Team, start: Start) -> None:
    with _teammate(start, counter) as process:
        until(lambda: _waits(process))
        counter.send("counter", "Good morning")
        until(lambda: not counter.inbox("counter"))
    assert "  Good morning\n" in process.communicate()[0]


def test_teammate_goes_on_after_a_kill_with_what_it_held(counter: Team, repo: Path, start: Start) -> None:
    counter.add("Count the lines of README.md")
    counter.claim(by="counter")
    with _teammate(start, counter):
        until(lambda: counter.task(1).status == "completed")
    assert counter.task(1).claim == 1


def test_ctrl_c_ends_an_idle_teammate(counter: Team, repo: Path, start: Start) -> None:
    before = diary(repo)
    process = start(EXAMPLES / "teammate.sh", "counter")
    until(lambda: _waits(process))
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert (out, err.strip()) == ("", "gitteam: there is nothing for counter to claim: the board has no open task")
    assert diary(repo) == before


def test_ctrl_c_in_the_middle_of_a_task_hands_it_back(counter: Team, repo: Path, tools: Path, start: Start) -> None:
    _tool(tools / "wc", f"touch '{tools}/counting'; exec sleep {TIMEOUT}")
    counter.add("Count the lines of README.md")
    process = start(EXAMPLES / "teammate.sh", "counter")
    until((tools / "counting").exists)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(TIMEOUT) == 130
    assert (counter.task(1).status, counter.task(1).owner) == ("pending", "")
    assert diary(repo)[-1] == "counter releases #1: Count the lines of README.md"


def test_teammate_that_nobody_knows_says_so_and_ends(team: Team, start: Start) -> None:
    process = start(EXAMPLES / "teammate.sh", "stranger")
    assert "nobody on the team is called 'stranger'" in process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 3


def test_teammate_ends_when_nothing_may_be_written(counter: Team, repo: Path, start: Start) -> None:
    """And does not try again and again."""
    counter.add("Count the lines of README.md")
    git(repo, "switch", "-q", "gitteam")
    process = start(EXAMPLES / "teammate.sh", "counter")
    assert "branch gitteam is checked out" in process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 1


# -- by-hand.sh -------------------------------------------------------------------------------


@pytest.fixture
def by_hand(team: Team, repo: Path, start: Start, tools: Path) -> Callable[..., None]:
    """Run by-hand.sh to its end while bob, busy with a task of his own, waits for mail; gitteam is out of its reach."""

    def run(*names: str) -> None:
        team.add("Something else")
        team.claim(1, by="bob")
        waiting = start(sys.executable, "-m", "gitteam", "wait", "--as", "bob")
        until(lambda: _waits(waiting))
        (tools / "gitteam").write_text("#!/bin/sh\nexit 99\n")
        script = start(EXAMPLES / "by-hand.sh", *names)
        assert script.wait(TIMEOUT) == 0, script.communicate()
        until(lambda: team.inbox("lead"))

    return run


def test_everything_done_by_hand_is_in_the_history(by_hand: Callable[..., None], team: Team, repo: Path) -> None:
    by_hand()
    told = git(repo, "log", "-3", "--reverse", "--grep=^Team-Task: 2$", "--format=%s", "gitteam").splitlines()
    assert told == [
        "Jane Doe adds #2: Count the open tasks",
        "Jane Doe claims #2: Count the open tasks",
        "Jane Doe completes #2: Count the open tasks",
    ]
    # The last two saves may be taken in together, and are one commit then.
    assert "Jane Doe adds 1 message to lead's inbox" in git(repo, "log", "-2", "--format=%B", "gitteam")
    check_everything(team)


def test_task_done_by_hand_is_claimed_once_and_completed(by_hand: Callable[..., None], team: Team) -> None:
    by_hand("alice")
    task = team.task(2)
    assert (task.status, task.owner, task.claim) == ("completed", "alice", 1)
    assert task.notes == "- alice: 2 open tasks"


def test_everything_can_be_done_by_hand_again(by_hand: Callable[..., None], team: Team, start: Start) -> None:
    by_hand()
    assert start(EXAMPLES / "by-hand.sh").wait(TIMEOUT) == 0
    until(lambda: len(team.inbox("lead")) == 2)
    assert [(t.id, t.status, t.claim) for t in team.tasks()][1:] == [(2, "completed", 1), (3, "completed", 1)]


def test_message_sent_by_hand_arrives(by_hand: Callable[..., None], team: Team) -> None:
    by_hand("alice")
    [message] = team.inbox("lead")
    assert (message.sender, message.content) == ("alice", "I counted 2 open tasks")
