"""Who is alive: real processes that hold a life and a claim, and are killed with -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Run, check_everything, diary, git, until
from faults import Child, call, command

from gitteam import Team
from gitteam.errors import Conflict
from gitteam.liveness import Life, current_run

TEN_YEARS = 10 * 365 * 24 * 3600.0


class Member:
    """A running member: a process that holds its life and a task until it is killed."""

    def __init__(self, team: Team, name: str, number: int | None = 1, also: str = ""):
        self._team, self._number, self._also = team, number, also
        self.name = name
        self.process = Child(self._live, Path(team.place.root)).go()
        until(lambda: os.path.exists(self._ready), f"{name} at work")
        os.unlink(self._ready)

    @property
    def _ready(self) -> str:
        return os.path.join(self._team.place.root, os.pardir, f"{self.name}.ready")

    def _live(self) -> int:
        life = Life(self._team.place, self.name)
        with Team(self._team.place.root) as team:
            if self._number:
                team.claim(self._number, by=self.name, run=life.run)
        if self._also:
            subprocess.Popen(["sh", "-c", self._also])
        Path(self._ready).touch()
        signal.pause()
        return 0

    def kill(self) -> None:
        assert self.process.kill().code == -9


@pytest.fixture
def board(team: Team) -> Iterator[Team]:
    team.add("One")
    team.ledger.close()  # no process of git is inherited by the members
    yield team
    check_everything(team)


def test_a_member_killed_with_9_is_seen_dead_at_once(board: Team) -> None:
    alice = Member(board, "alice")
    assert current_run(board.place, "alice") == board.task(1).run
    alice.kill()
    assert current_run(board.place, "alice") == ""


def test_the_task_of_a_dead_member_goes_back_with_one_attempt(board: Team) -> None:
    Member(board, "alice").kill()
    task = board.task(1)
    assert (task.status, task.owner, task.attempts, task.claim, task.run) == ("pending", "", 1, 1, "")
    assert "alice died while working on it" in task.notes
    assert diary(Path(board.place.root))[-1] == "gitteam takes #1 back, alice died: One"


def test_the_lead_is_told_of_a_death_once(board: Team) -> None:
    Member(board, "alice").kill()
    board.task(1)
    board.task(1)
    [message] = board.inbox("lead")
    assert (message.sender, message.type) == ("gitteam", "error")
    assert message.content == "alice died while working on #1: One"


def test_a_task_that_has_cost_three_lives_is_failed(board: Team) -> None:
    states = []
    for name in ("alice", "bob", "alice"):
        Member(board, name).kill()
        states.append((board.task(1).status, board.task(1).attempts))
    assert states == [("pending", 1), ("pending", 2), ("failed", 3)]
    with pytest.raises(Conflict, match="failed"):
        board.claim(1, by="bob")


def test_a_person_gives_a_failed_task_another_three_lives(board: Team, run: Run) -> None:
    for _ in range(3):
        Member(board, "alice").kill()
    assert "task release 1 --force" in run("status").out
    assert run("task", "release", "1", "--force").code == 0
    assert (board.task(1).status, board.task(1).attempts) == ("pending", 0)
    Member(board, "alice").kill()
    assert (board.task(1).status, board.task(1).attempts) == ("pending", 1)


@pytest.mark.parametrize(
    "words",
    [
        ("task", "list"),
        ("task", "show", "1"),
        ("status",),
        ("task", "add", "Two"),
        ("send", "bob", "hi"),
        ("inbox", "bob"),
    ],
    ids=" ".join,
)
def test_any_command_gives_back_what_a_dead_member_held(words: tuple[str, ...], board: Team, repo: Path) -> None:
    Member(board, "alice").kill()
    assert call(repo, *words).code == 0
    assert "status: pending" in (repo / ".tasks/1-one.md").read_text()


def test_a_living_member_keeps_its_task_whatever_others_do(board: Team, repo: Path) -> None:
    alice = Member(board, "alice")
    before = board.task(1)
    for number in range(3):
        call(repo, "task", "add", f"Task {number}")
        call(repo, "status")
        call(repo, "doctor", "--repair")
    refused = call(repo, "task", "claim", "1", "--as", "bob")
    assert (refused.code, "alice has it" in refused.err) == (4, True)
    assert board.task(1).state == before.state
    alice.kill()


def test_the_claim_of_a_command_stays_when_the_command_has_ended(board: Team, repo: Path) -> None:
    assert call(repo, "task", "claim", "1", "--as", "alice").code == 0
    Member(board, "alice", number=None).kill()  # a life that ends is no business of a claim that is not tied to it
    assert (board.task(1).status, board.task(1).owner, board.task(1).attempts) == ("in_progress", "alice", 0)


def test_anybody_may_force_a_release_and_it_is_recorded(board: Team, repo: Path) -> None:
    call(repo, "task", "claim", "1", "--as", "alice")
    assert call(repo, "task", "release", "1", "--as", "bob").code == 4
    assert call(repo, "task", "release", "1", "--as", "bob", "--force").code == 0
    assert "Team-Override: alice" in git(repo, "log", "-1", "--format=%B", "gitteam")


def test_a_claim_of_a_command_can_be_tied_to_a_life_later(board: Team) -> None:
    board.claim(1, by="alice")
    board.ledger.close()
    alice = Member(board, "alice")
    assert (board.task(1).claim, bool(board.task(1).run)) == (1, True)
    alice.kill()
    assert board.task(1).status == "pending"


def test_a_second_life_of_one_name_is_refused_and_names_the_process(board: Team) -> None:
    alice = Member(board, "alice")
    with pytest.raises(Conflict, match=f"alice is running already .process {alice.process.pid}"):
        Life(board.place, "alice")
    alice.kill()


def test_a_dead_name_can_live_again_and_its_old_claim_is_over(board: Team) -> None:
    Member(board, "alice").kill()
    alice = Member(board, "alice", number=None)
    task = board.task(1)
    assert (task.status, task.attempts) == ("pending", 1)
    alice.kill()


def test_a_restart_that_nobody_noticed_gets_the_task_with_a_new_claim(board: Team) -> None:
    first = board.task(1).claim
    Member(board, "alice").kill()
    alice = Member(board, "alice")  # claims before anybody else has looked
    task = board.task(1)
    assert (task.status, task.owner, task.claim, task.attempts) == ("in_progress", "alice", first + 2, 1)
    alice.kill()


def test_a_child_that_outlives_its_member_does_not_keep_it_alive(board: Team, repo: Path) -> None:
    pid_file = repo.parent / "pid"
    alice = Member(board, "alice", also=f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 600")
    child = int(until(lambda: pid_file.exists() and pid_file.read_text(), "the child running"))
    alice.kill()
    try:
        os.kill(child, 0)
        assert current_run(board.place, "alice") == ""
        assert board.task(1).status == "pending"
    finally:
        os.kill(child, signal.SIGKILL)


def test_status_shows_who_is_alive_and_what_they_have(board: Team, run: Run) -> None:
    alice = Member(board, "alice")

    def facts() -> dict[str, object]:
        return next(m for m in json.loads(run("status", "--json").out)["members"] if m["name"] == "alice")

    alive = facts()
    assert (alive["alive"], alive["tasks"]) == (True, [1])
    alice.kill()
    dead = facts()
    assert (dead["alive"], dead["status"], dead["tasks"]) == (False, "not running", [])


def test_a_running_member_cannot_be_removed(board: Team, repo: Path) -> None:
    alice = Member(board, "alice")
    refused = call(repo, "member", "remove", "alice")
    assert (refused.code, "stop it first" in refused.err) == (4, True)
    alice.kill()
    assert call(repo, "member", "remove", "alice").code == 0


def test_one_who_waits_is_woken_by_a_death(board: Team, repo: Path) -> None:
    alice = Member(board, "alice")
    waiting = command(repo, "wait", "--as", "bob", "--timeout", "50").go()
    until(lambda: any("inotify" in _link(fd) for fd in _open_files(waiting.pid)), "bob waiting")
    alice.kill()
    assert waiting.end().out == "task 1 One\n"


def _open_files(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/fd").iterdir())


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""


def test_looking_from_many_sides_at_once_disturbs_no_beginning(board: Team, repo: Path) -> None:
    def look() -> int:
        while True:
            current_run(board.place, "alice")

    lookers = [Child(look, repo).go() for _ in range(4)]
    try:
        for _ in range(50):
            with Life(board.place, "alice") as life:
                assert current_run(board.place, "alice") == life.run
    finally:
        for looker in lookers:
            looker.kill()


# -- the clock ------------------------------------------------------------------------------------


@pytest.mark.parametrize("leap", [TEN_YEARS, -TEN_YEARS], ids=["forward", "backward"])
def test_a_clock_that_leaps_takes_nothing_from_the_living(
    leap: float, board: Team, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, now = Member(board, "alice"), time.time
    monkeypatch.setattr(time, "time", lambda: now() + leap)  # also for the commands, which are forked from here
    call(repo, "task", "add", "Two")
    assert call(repo, "task", "claim", "2", "--as", "bob").code == 0
    assert [(t.status, t.owner) for t in board.tasks()] == [("in_progress", "alice"), ("in_progress", "bob")]
    alice.kill()
    assert [(t.status, t.owner) for t in board.tasks()] == [("pending", ""), ("in_progress", "bob")]


def test_order_comes_from_the_history_and_not_from_the_clock(
    board: Team, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time
    for number, leap in enumerate([0, TEN_YEARS, -TEN_YEARS, 3600, -TEN_YEARS, TEN_YEARS]):
        monkeypatch.setattr(time, "time", lambda leap=leap: now() + leap)
        call(repo, "task", "note", "1", f"note {number}")
        call(repo, "send", "alice", f"message {number}")
    assert [m.content for m in board.inbox("alice")] == [f"message {n}" for n in range(6)]
    assert [line.rpartition(": ")[2] for line in board.task(1).notes.splitlines()] == [f"note {n}" for n in range(6)]
    shown = [entry.sentence for entry in board.log(1) if "notes on" in entry.sentence]
    assert shown == [f"Jane Doe notes on #1: note {n}" for n in reversed(range(6))]


@pytest.mark.parametrize("leap", [TEN_YEARS, -TEN_YEARS], ids=["forward", "backward"])
def test_a_file_that_vanishes_for_a_moment_is_not_cancelled_because_the_clock_was_set(
    leap: float, board: Team, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, path = time.time, repo / ".tasks/1-one.md"
    call(repo, "task", "add", "Two")
    text = path.read_text()
    path.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now() + leap)
        call(repo, "task", "list")
    call(repo, "task", "list")
    path.write_text(text)
    assert board.task(1).status == "pending"
