"""The team at work, from the claim to the report, each flow read off the ledger's history."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import (
    Pause,
    call,
    check,
    claims,
    completes,
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

from gitteam import Team
from gitteam.scripted import Fault, Reply, Request, Server


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    with team_of(repo, "alice", "bob") as team:
        yield team


def work_of(team: Team) -> list[str]:
    return [line for line in history(team) if " claims #" in line or " completes #" in line]


# -- finding work -----------------------------------------------------------------------------------


def test_alice_alone_takes_three_tasks_one_after_another(team: Team) -> None:
    for subject in ("One", "Two", "Three"):
        team.add(subject)
    finish(team, diligent, "alice")
    assert work_of(team) == [
        "alice claims #1: One", "alice completes #1: One", "alice claims #2: Two", "alice completes #2: Two",
        "alice claims #3: Three", "alice completes #3: Three",
    ]  # fmt: skip


def test_tasks_are_done_in_the_order_of_their_dependencies(team: Team) -> None:
    team.add("Last")
    team.add("Middle")
    team.add("First")
    team.block(1, on=2)
    team.block(2, on=3)
    finish(team, diligent)
    done = [line.split()[2] for line in history(team) if " completes #" in line]
    assert done == ["#3:", "#2:", "#1:"]


def test_alice_and_bob_share_the_board_and_do_nothing_twice(team: Team) -> None:
    for number in range(10):
        team.add(f"Task {number}")
    finish(team, diligent)
    assert statuses(team) == ["completed"] * 10
    assert all(len(who) == 1 for who in claims(team).values())
    assert len(claims(team)) == 10


def test_the_real_command_works_off_the_board_and_ends_with_0(team: Team, repo: Path) -> None:
    team.add("One")
    team.add("Two", blocked_by=[1])
    with Server(diligent) as server, program(repo, server, "up", "--until-done") as up:
        found = up.end()
        check(server)
    assert found.code == 0
    assert statuses(team) == ["completed"] * 2
    assert "claims #1: One" in found.out
    assert f"commands run with your rights in {repo}" in found.err


def test_a_file_dropped_while_everybody_is_idle_is_picked_up(team: Team, repo: Path) -> None:
    with Server(diligent) as server, crew(team, server) as running:
        until_asleep(running, "alice", "bob")
        assert server.requests == []  # idle makes no call
        (repo / ".tasks/fix-login.md").write_text("Fix the login page\n")
        until(lambda: statuses(team) == ["completed"], "the task done")
    assert len(claims(team)[1]) == 1


def test_only_a_member_of_its_role_takes_a_task(team: Team) -> None:
    team.add_member("carol", "backend")
    team.add("For backend", role="backend")
    team.add("For nobody here", role="design")
    finish(team, diligent)
    assert claims(team) == {1: ["carol"]}
    assert statuses(team) == ["completed", "pending"]


def test_its_own_open_task_comes_first(team: Team) -> None:
    for subject in ("One", "Two", "Mine"):
        team.add(subject)
    team.claim(3, by="alice")
    asked = finish(team, diligent, "alice")
    assert [handed(request) for request in asked if handed(request)] == [3, 1, 2]
    assert claims(team)[3] == ["alice"]
    assert "alice goes on with #3: Mine" in history(team)


# -- eight at the same instant ----------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [pytest.param(5), pytest.param(50, marks=pytest.mark.long)])
def test_eight_who_finish_at_the_same_instant_claim_each_task_once(rounds: int, team: Team) -> None:
    """In each round all eight end their work together, and eight tasks are ready for them."""
    names = [f"m{number}" for number in range(8)]
    for name in names:
        team.add_member(name)
    for number in range(8 * rounds):
        team.add(f"Task {number}")
    together = threading.Barrier(8, timeout=TIMEOUT)

    def answer(request: Request) -> Reply:
        reply = diligent(request)
        if not reply.calls:
            together.wait()
        return reply

    asked = finish(team, answer, *names)
    assert statuses(team) == ["completed"] * 8 * rounds
    assert sorted(claims(team)) == list(range(1, 8 * rounds + 1))
    assert all(len(who) == 1 for who in claims(team).values())
    assert len(asked) == 2 * 8 * rounds


@pytest.mark.long
def test_two_terminals_are_one_team(team: Team, repo: Path) -> None:
    for number in range(6):
        team.add(f"Task {number}")
    together = threading.Barrier(2, timeout=TIMEOUT)

    def answer(request: Request) -> Reply:
        if len(request.messages) == 1:
            together.wait()  # both have begun
        return diligent(request)

    with Server(answer) as server:
        with program(repo, server, "join", "alice") as alice, program(repo, server, "join", "bob") as bob:
            until(lambda: statuses(team) == ["completed"] * 6, "all done")
            for terminal in (alice, bob):
                terminal.signal(signal.SIGINT)
                assert terminal.end().code == 0
        check(server)
    assert all(len(who) == 1 for who in claims(team).values())
    assert {who for (who,) in claims(team).values()} == {"alice", "bob"}


# -- talking ----------------------------------------------------------------------------------------


def test_bob_reads_what_alice_writes_before_his_next_call_in_the_middle_of_work(team: Team) -> None:
    team.add("Long work")
    busy = Pause(call("bash", command="true"))
    script = in_turn(bob=[busy, completes(1)], alice=[call("send_message", to="bob", content="use tabs")])
    with Server(script) as server, crew(team, server, "bob"):
        with busy.meanwhile(), crew(team, server, "alice"):
            team.send("alice", "tell bob")
            until(lambda: team.inbox("bob"), "mail for bob")
        until_status(team, "bob", "idle")
        check(server)
        second = [r for r in server.requests if r.member == "bob"][1]
    assert '<team-message from="alice" type="message"' in second.new_text
    assert "use tabs" in second.new_text
    assert team.inbox("bob") == []


def test_a_broadcast_reaches_everybody_but_its_sender(team: Team) -> None:
    team.add_member("carol")
    script = in_turn(alice=[call("send_message", to="all", content="lunch")])
    with Server(script) as server, crew(team, server) as running:
        until_asleep(running, "alice", "bob", "carol")
        team.send("alice", "tell them")
        readers = [
            server.wait_for(lambda r, n=n: r.member == n and "lunch" in r.new_text, 20) for n in ("bob", "carol")
        ]
        until(lambda: not team.inbox("bob") and not team.inbox("carol"), "both inboxes empty")
        check(server)
    assert all('from="alice" type="broadcast"' in r.new_text for r in readers)
    assert not [r for r in server.requests if r.member == "alice" and 'type="broadcast"' in r.new_text]


def test_a_hand_edit_of_the_task_reaches_the_model_before_its_next_call(team: Team, repo: Path) -> None:
    team.add("Paint it", "in red")
    busy = Pause(call("bash", command="true"))
    with Server(in_turn(alice=[busy, completes(1)])) as server, crew(team, server, "alice"):
        with busy.meanwhile():
            path = repo / ".tasks/1-paint-it.md"
            path.write_text(path.read_text().replace("in red", "in blue"))
        told = server.wait_for(lambda r: r.number == 2, 20).new_text
        until(lambda: statuses(team) == ["completed"], "the end")
        check(server)
    assert "Somebody changed your task" in told
    assert "in blue" in told


def test_its_own_note_is_no_news_to_it(team: Team) -> None:
    team.add("Note it")
    asked = finish(team, in_turn(alice=[call("task_update", id=1, note="half way"), completes(1)]), "alice")
    assert not any("Somebody changed" in request.new_text for request in asked)


@pytest.mark.parametrize("how", ["cancelled", "released", "file deleted"])
def test_a_task_taken_away_in_mid_work_is_left_alone(how: str, team: Team, repo: Path) -> None:
    team.add("Never mind")
    team.add("Something else")
    busy = Pause(call("bash", command="true"))
    with Server(in_turn(alice=[busy, Reply("I leave it.")])) as server, crew(team, server, "alice"):
        with busy.meanwhile():
            if how == "cancelled":
                team.cancel(1)
            elif how == "released":
                team.release(1)
                team.cancel(1)
            else:
                (repo / ".tasks/1-never-mind.md").unlink()
                until(lambda: team.task(1).status == "cancelled", "the deletion taken for a wish")
        told = server.wait_for(lambda r: r.number == 2, 20).new_text
        until(lambda: team.task(2).status == "completed", "the other task done")
        check(server)
    assert "Task #1 is no longer yours: it is cancelled" in told
    assert team.task(1).status == "cancelled"


def test_a_task_given_to_somebody_else_stays_theirs(team: Team) -> None:
    team.add("Whose")
    busy = Pause(completes(1))
    with Server(in_turn(alice=[busy, Reply("Fine.")])) as server, crew(team, server, "alice"):
        with busy.meanwhile():
            team.release(1)
            team.claim(1, by="bob")
        refused = server.wait_for(lambda r: r.number == 2, 20).new_text
        until_status(team, "alice", "idle")
        check(server)
    assert "claim 1 of #1 is over: bob has it with claim 2" in refused
    assert "Task #1 is no longer yours: it is in_progress, bob has it" in refused
    assert (team.task(1).status, team.task(1).owner) == ("in_progress", "bob")


# -- ending a piece of work -------------------------------------------------------------------------


def test_a_reply_without_tools_is_asked_about_once_and_then_counts_as_an_attempt(team: Team) -> None:
    team.add("Hard")
    with Server(in_turn(alice=[Reply("Hm."), Reply("I do not know.")])) as server, crew(team, server, "alice"):
        asked = server.wait_for(lambda r: r.number == 2, 20)
        again = server.wait_for(lambda r: r.number == 3, 20)
        until_status(team, "alice", "idle")
        check(server)
    assert asked.new_text.startswith("Task #1 is still open and you hold it.")
    assert handed(again) == 1
    assert "began it before" in again.new_text
    assert "alice hands #1 back, ended without finishing: I do not know.: Hard" in history(team)
    assert (team.task(1).status, team.task(1).attempts) == ("completed", 1)


def test_one_that_was_asked_may_still_finish(team: Team) -> None:
    team.add("Hard")
    finish(team, in_turn(alice=[Reply("I think it is done."), completes(1)]), "alice")
    assert (team.task(1).status, team.task(1).attempts) == ("completed", 0)


def test_handing_back_is_no_attempt(team: Team) -> None:
    team.add("Hard")
    back = call("task_update", id=1, status="pending", note="needs a key")
    finish(team, in_turn(alice=[back, Reply("Over to you."), completes(1)]), "alice")
    assert (team.task(1).attempts, team.task(1).claim) == (0, 2)
    assert "needs a key" in team.task(1).notes


def test_the_turn_limit_ends_in_a_note_and_an_attempt(team: Team) -> None:
    team.add("Endless")
    script = in_turn(alice=[call("bash", command=f"echo {n}") for n in range(3)])
    asked = finish(team, script, "alice", max_turns=3)
    assert (team.task(1).status, team.task(1).attempts) == ("completed", 1)
    assert "no end after 3 turns (attempt 1)" in team.task(1).notes
    assert [m.content for m in lead_mail(team, "error")] == ["#1: no end after 3 turns"]
    assert handed(asked[3]) == 1


def test_three_attempts_fail_a_task_and_nobody_goes_on_with_it(team: Team) -> None:
    team.add("Endless")
    team.add("After it", blocked_by=[1])
    count = iter(range(1000))

    def endless(request: Request) -> Reply:
        return call("bash", command=f"echo {next(count)}")

    asked = finish(team, endless, "alice", max_turns=2)
    assert (team.task(1).status, team.task(1).attempts) == ("failed", 3)
    assert statuses(team) == ["failed", "pending"]
    assert len(asked) == 3 * 2
    assert [line for line in history(team) if "#1" in line][-1].startswith("alice gives up #1 for good")


# -- word to the lead -------------------------------------------------------------------------------


def test_the_last_text_of_a_piece_of_work_is_its_result_for_the_lead(team: Team) -> None:
    team.add("One")
    team.add("Two")
    finish(team, in_turn(alice=[completes(1), Reply("One is green."), completes(2), Reply("Two is blue.")]), "alice")
    assert [(m.sender, m.content) for m in lead_mail(team, "result")] == [
        ("alice", "One is green."), ("alice", "Two is blue."),
    ]  # fmt: skip
    assert [m.content for m in lead_mail(team, "idle_notification")] == ["alice is idle"]


def test_going_idle_twice_without_work_in_between_is_said_once(team: Team) -> None:
    team.add("One")
    with Server(diligent) as server, crew(team, server, "alice") as running:
        until(lambda: lead_mail(team, "idle_notification"), "word that she is idle")
        until_status(team, "alice", "idle")
        sleepers = running.crew.bell._sleepers
        first = until(lambda: sleepers.get("alice"), "alice asleep")
        first.woken.set()  # a false alarm
        until(lambda: sleepers.get("alice") not in (None, first), "alice asleep again")
        assert len(lead_mail(team, "idle_notification")) == 1
        team.add("Two")
        until(lambda: len(lead_mail(team, "idle_notification")) == 2, "word after new work")
        check(server)


# -- going and coming back ----------------------------------------------------------------------------


def test_after_its_idle_timeout_a_member_leaves_and_the_lead_hears_of_it(team: Team) -> None:
    with Server(diligent) as server, crew(team, server, "alice", stays=False, idle_timeout=0.05) as running:
        running.wait()
        assert server.requests == []
    member = team.config().members["alice"]
    assert (member.status, member.reason) == ("shutdown", "timeout")
    assert [(m.content, m.extra) for m in lead_mail(team, "idle_notification")] == [
        ("alice ends: nothing to do", {"reason": "timeout"})
    ]
    assert not team.is_alive("alice")


@pytest.mark.parametrize("what", ["a task", "a message"])
def test_a_crew_starts_a_member_again_when_there_is_something_for_it(what: str, team: Team) -> None:
    with Server(diligent) as server, crew(team, server, "alice", idle_timeout=0.05):
        until_status(team, "alice", "shutdown", "timeout")
        if what == "a task":
            team.add("New")
            until(lambda: statuses(team) == ["completed"], "the task done")
        else:
            team.send("alice", "are you there?")
            until(lambda: not team.inbox("alice"), "the message taken")
        until_status(team, "alice", "shutdown", "timeout")
        check(server)
    assert history(team).count("alice joins") == 2


def test_a_task_that_the_service_does_not_take_is_not_in_the_way_of_the_next(team: Team) -> None:
    def choosy(request: Request) -> Reply | Fault:
        if "poison" in str(request.messages):
            return Fault("400")
        return diligent(request)

    team.add("poison")
    team.add("Good")
    with Server(choosy) as server, crew(team, server, "alice"):
        until(lambda: statuses(team) == ["failed", "completed"], "the good one done")
    assert team.task(2).claim == 1


def test_one_that_sleeps_for_good_is_started_again_in_its_own_thread(team: Team) -> None:
    with Server(diligent) as server, crew(team, server, "alice", idle_timeout=0.05) as running:
        until_status(team, "alice", "shutdown", "timeout")
        until(lambda: not team.is_alive("alice"))
        for _ in range(3):
            running.crew.start("alice")
        until(lambda: history(team).count("alice joins") >= 2, "her second life")
        assert [t.name for t in threading.enumerate()].count("alice") == 1
