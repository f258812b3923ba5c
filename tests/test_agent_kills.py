"""Members that are killed, stopped or crash in the middle, and what becomes of their work afterwards."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from agents import (
    Pause,
    Program,
    Step,
    call,
    check,
    claims,
    completes,
    conversation,
    crew,
    diligent,
    finish,
    handed,
    history,
    in_turn,
    lead_mail,
    program,
    statuses,
    team_of,
    until_asleep,
    until_status,
)  # fmt: skip
from conftest import TIMEOUT, until

from gitteam import Team, moves
from gitteam.agents import crew as crew_module
from gitteam.agents.conversation import INTERRUPTED, RESUMED
from gitteam.agents.teammate import Teammate
from gitteam.scripted import Fault, Reply, Request, Server
from gitteam.tools import Toolbox


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    with team_of(repo, "alice", "bob") as team:
        yield team


def arrives(server: Server, number: int) -> Request:
    return server.wait_for(lambda r: r.number == number, TIMEOUT)


# -- kill -9 ------------------------------------------------------------------------------------------


def _in_a_call(server: Server, repo: Path) -> None:
    arrives(server, 1)


def _in_a_tool(server: Server, repo: Path) -> None:
    until((repo / "begun").exists, "the command running")


SLEEPS = call("bash", command="touch begun; sleep 600")
STALLS = Fault("stall", Reply("Half of this arri"))
STUCK = Reply("Too late.", delay=600)


@pytest.mark.parametrize(
    ("step", "reached"),
    [(STUCK, _in_a_call), (SLEEPS, _in_a_tool), (STALLS, _in_a_call)],
    ids=["in a call", "in a tool", "in a stream"],
)
def test_killed_in_the_middle_a_member_goes_on_where_it_was(step: Step, reached, team: Team, repo: Path) -> None:  # type: ignore[no-untyped-def]
    team.add("Write it down")
    write = call("bash", command="echo line >> notes.txt")
    with Server(in_turn(alice=[step, write, completes(1)])) as server:
        with program(repo, server, "join", "alice") as join:
            reached(server, repo)
            join.kill()
        assert (team.task(1).status, team.task(1).attempts) == ("pending", 1)
        with crew(team, server, "alice", until_done=True) as running:
            running.wait()
        check(server)
        resumed = server.requests[1]
    assert "began it before" in resumed.new_text
    assert RESUMED in resumed.new_text
    assert (INTERRUPTED in resumed.new_text) == (step is SLEEPS)
    assert (repo / "notes.txt").read_text() == "line\n"
    assert (team.task(1).status, team.task(1).attempts, team.task(1).claim) == ("completed", 1, 2)
    assert claims(team) == {1: ["alice", "alice"]}


def test_a_message_is_kept_when_its_reader_is_killed_before_the_answer(team: Team, repo: Path) -> None:
    act = call("bash", command="echo acted >> acts.txt")
    with Server(in_turn(alice=[STUCK, act, Reply("Acted.")])) as server:
        with program(repo, server, "join", "alice") as join:
            team.send("alice", "please act")
            arrives(server, 1)
            join.kill()
        assert [m.content for m in team.inbox("alice")] == ["please act"]
        with crew(team, server, "alice", until_done=True) as running:
            running.wait()
        check(server)
        assert len(server.requests) == 3
        assert conversation(server.requests[-1]).count("please act") == 1
    assert (repo / "acts.txt").read_text() == "acted\n"
    assert team.inbox("alice") == []
    assert [m.content for m in lead_mail(team, "result")] == ["Acted."]


@contextmanager
def nothing_can_be_committed(team: Team) -> Iterator[None]:
    """The lock is held by somebody for as long as this lasts."""
    held, release = threading.Event(), threading.Event()

    def hold(change: object) -> None:
        held.set()
        release.wait(TIMEOUT)

    holder = threading.Thread(target=team.change, args=("user", hold))
    holder.start()
    try:
        assert held.wait(TIMEOUT)
        yield
    finally:
        release.set()
        holder.join(TIMEOUT)


def test_a_message_that_was_answered_but_not_taken_yet_does_not_come_again(team: Team, repo: Path) -> None:
    transcript = Path(team.place.transcripts, "alice.jsonl")
    busy = Pause(call("bash", command="echo acted >> acts.txt"))
    with Server(in_turn(alice=[busy, Reply("I look whether I have.")])) as server:
        with program(repo, server, "join", "alice") as join:
            team.send("alice", "please act")
            with busy.meanwhile():
                locked = nothing_can_be_committed(team)
                locked.__enter__()
            until(lambda: '"assistant"' in transcript.read_text(), "the answer in the transcript")
            join.kill()
            locked.__exit__(None, None, None)
        assert len(team.inbox("alice")) == 1
        assert not (repo / "acts.txt").exists()  # no tool runs before its message is taken
        with crew(team, server, "alice", until_done=True) as running:
            running.wait()
        check(server)
        assert conversation(server.requests[-1]).count("please act") == 1
        assert INTERRUPTED in server.requests[-1].new_text
    assert team.inbox("alice") == []


def test_a_whole_team_killed_at_once_loses_nothing_and_does_nothing_twice(team: Team, repo: Path) -> None:
    team.add_member("carol")
    for number in range(4):
        team.add(f"Task {number}")
    dead = threading.Event()

    def answer(request: Request) -> Reply:
        if not dead.is_set():
            return STUCK
        number = handed(request)
        write = f"echo {number} >> done.txt"
        return Reply(calls=[("bash", {"command": write}), *completes(number).calls]) if number else Reply("Done.")

    with Server(answer) as server:
        with program(repo, server, "up") as up:
            for name in ("alice", "bob", "carol"):
                server.wait_for(lambda r, name=name: r.member == name, TIMEOUT)
            up.kill()
        dead.set()
        assert [(t.status, t.attempts) for t in team.tasks()] == [("pending", 1)] * 3 + [("pending", 0)]
        with crew(team, server, until_done=True) as running:
            running.wait()
        check(server)
    assert statuses(team) == ["completed"] * 4
    assert sorted((repo / "done.txt").read_text().split()) == ["1", "2", "3", "4"]


def test_another_member_takes_over_what_a_killed_one_held(team: Team, repo: Path) -> None:
    team.add("One")
    with Server(in_turn(alice=[STUCK])) as server, program(repo, server, "join", "alice") as join:
        arrives(server, 1)
        with crew(team, server, "bob"):
            join.kill()
            until(lambda: statuses(team) == ["completed"], "the task done by bob")
            check(server)
    assert claims(team) == {1: ["alice", "bob"]}


# -- a task that kills --------------------------------------------------------------------------------


def poison(team: Team, repo: Path, times: int) -> None:
    """Start alice so many times on a task that has her process killed."""
    running: list[Program] = []

    def answer(request: Request) -> Reply:
        return call("bash", command=f"kill -9 {running[-1].process.pid}; sleep 600")

    with Server(answer) as server:
        for _ in range(times):
            running.append(Program(repo, server, "join", "alice"))
            assert running[-1].end().code == -9
            team.tasks()  # somebody looks
        check(server)


def test_a_task_that_has_killed_its_worker_three_times_is_failed(team: Team, repo: Path) -> None:
    team.add("Poison")
    for _ in range(2):
        claim = team.claim(1, by="bob").claim
        team.change("bob", lambda c, claim=claim: moves.give_up(c, 1, "it bites", claim))
    poison(team, repo, 1)
    assert (team.task(1).status, team.task(1).attempts) == ("failed", 3)
    asked = finish(team, diligent)
    assert not [request for request in asked if handed(request)]
    assert history(team).count("gitteam gives up #1, alice died: Poison") == 1


@pytest.mark.long
def test_a_task_that_kills_its_worker_each_time_is_given_up_after_three(team: Team, repo: Path) -> None:
    team.add("Poison")
    poison(team, repo, 3)
    assert (team.task(1).status, team.task(1).attempts) == ("failed", 3)
    assert claims(team) == {1: ["alice"] * 3}


# -- signals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_after_one_signal_everybody_finishes_the_call_and_hands_back(
    number: signal.Signals, team: Team, repo: Path
) -> None:
    team.add("One")
    team.add("Two")
    busy = {name: Pause(call("write_file", path="never", content="x")) for name in ("alice", "bob")}
    with Server(lambda request: busy[request.member](request)) as server, program(repo, server, "up") as up:
        with busy["alice"].meanwhile(), busy["bob"].meanwhile():
            up.signal(number)
            until(lambda: "stopping: everybody finishes the current call" in up.err(), "word of the stop")
        found = up.end()
        check(server)
    assert found.code == 0, found
    assert not (repo / "never").exists()
    assert [(t.status, t.attempts) for t in team.tasks()] == [("pending", 0)] * 2
    assert {(m.status, m.reason) for m in team.members()} == {("shutdown", "stopped")}
    assert all("stopped: the team is stopping" in task.notes for task in team.tasks())


def test_after_the_second_ctrl_c_everything_is_handed_back_at_once(team: Team, repo: Path) -> None:
    team.add("One")
    with Server(lambda request: STUCK) as server, program(repo, server, "up") as up:
        arrives(server, 1)
        until_status(team, "alice" if team.task(1).owner == "alice" else "bob", "working")
        up.signal(signal.SIGINT)
        until(lambda: "stopping" in up.err(), "word of the stop")
        up.signal(signal.SIGINT)
        found = up.end()
    assert found.code == 130
    assert (team.task(1).status, team.task(1).attempts) == ("pending", 0)
    assert {(m.status, m.reason) for m in team.members()} == {("shutdown", "stopped")}
    assert finish(team, diligent)
    assert statuses(team) == ["completed"]


def test_a_running_command_does_not_hold_up_ctrl_c(team: Team, repo: Path) -> None:
    team.add("One")
    with Server(in_turn(alice=[SLEEPS])) as server, program(repo, server, "join", "alice") as join:
        _in_a_tool(server, repo)
        join.signal(signal.SIGINT)
        assert join.end().code == 0
        check(server)
    assert (team.task(1).status, team.task(1).attempts) == ("pending", 0)
    asked = finish(team, diligent, "alice")
    assert RESUMED in asked[0].new_text
    assert "the team is stopping" in conversation(asked[0])


# -- a crash of a member's own ----------------------------------------------------------------------------


@pytest.fixture
def broken_bash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first bash is a bug in the program."""
    crashed = threading.Event()
    tools = Teammate.toolbox._tools
    bash = tools["bash"]

    def broken(*args: object, **given: object) -> str:
        if crashed.is_set():
            return bash.run(*args, **given)
        crashed.set()
        raise ZeroDivisionError("division by zero")

    toolbox = Toolbox([replace(tool, run=broken) if tool is bash else tool for tool in tools.values()])
    monkeypatch.setattr(Teammate, "toolbox", toolbox)
    monkeypatch.setattr(crew_module, "_FIRST_PAUSE", 0.01)


@pytest.mark.usefixtures("broken_bash")
def test_a_member_that_crashes_is_shown_and_started_again(team: Team, repo: Path) -> None:
    team.add("One")
    write = call("bash", command="echo line >> notes.txt")
    with Server(in_turn(alice=[write, write, completes(1)])) as server:
        with crew(team, server, "alice", until_done=True, may_crash=True) as running:
            running.wait()
        check(server)
        assert INTERRUPTED in server.requests[1].new_text
    said = [text for name, text in running.said if name == "alice"]
    assert len(said) == 1
    assert said[0].startswith("crashed, and starts again in 0.01 s: ZeroDivisionError: division by zero; see ")
    assert "ZeroDivisionError" in Path(team.place.log).read_text()
    assert (team.task(1).status, team.task(1).attempts) == ("completed", 1)
    assert (repo / "notes.txt").read_text() == "line\n"


@pytest.mark.usefixtures("broken_bash")
def test_the_task_of_one_that_crashed_is_handed_over(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "_FIRST_PAUSE", 600.0)  # it does not come back in this test
    team.add("One")
    busy = Pause(call("bash", command="true"))
    with (
        Server(in_turn(alice=[busy])) as server,
        crew(team, server, "alice", may_crash=True),
        busy.meanwhile(),
        crew(team, server, "bob") as other,
    ):
        until_asleep(other, "bob")
        busy.go()
        until(lambda: statuses(team) == ["completed"], "the task done by bob")
    assert claims(team) == {1: ["alice", "bob"]}


def test_a_member_taken_off_the_team_while_it_sleeps_is_not_started_again(team: Team) -> None:
    with Server(diligent) as server, crew(team, server, "alice", idle_timeout=0.02) as running:
        until_status(team, "alice", "shutdown", "timeout")
        until(lambda: not team.is_alive("alice"), "alice gone")
        team.remove_member("alice")
        running.wait()
    assert "nobody on the team is called 'alice'" in running.crew.failures["alice"]


def test_a_team_that_ends_all_at_the_same_instant_ends(team: Team) -> None:
    names = [f"m{number}" for number in range(8)]
    for name in names:
        team.add_member(name)
        team.add(f"For {name}")
    together = threading.Barrier(8, timeout=TIMEOUT)

    def refuse(request: Request) -> Fault:
        together.wait()
        return Fault("401", Reply("invalid x-api-key"))

    with Server(refuse) as server, crew(team, server, *names) as running:
        running.wait()
    assert sorted(running.crew.failures) == names
    assert {(t.status, t.attempts) for t in team.tasks()} == {("pending", 0)}
