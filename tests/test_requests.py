"""Requests and their answers: shutting down, and plans that wait for approval."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from agents import (
    Pause,
    Step,
    call,
    check,
    completes,
    conversation,
    crew,
    history,
    in_turn,
    program,
    statuses,
    team_of,
    until_alive,
    until_status,
)  # fmt: skip
from conftest import TIMEOUT, Run, until
from program import call as command

from gitteam import Team, watch
from gitteam.errors import Conflict, NotFound
from gitteam.scripted import Reply, Request, Server


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    with team_of(repo, "alice", "bob") as team:
        yield team


@pytest.fixture
def planner(team: Team) -> Team:
    """paula has to ask before she changes anything, and there is a task for her."""
    team.add_member("paula", plan=True)
    team.add("Write it down")
    return team


def _requested(request: Request) -> str:
    return re.findall(r'type="shutdown_request".*request_id="(\w+)"|Shutdown request (\w+)', conversation(request))[-1][
        0
    ]


def agrees(request: Request) -> Reply:
    return call("shutdown_response", request_id=_requested(request), approve=True)


def declines(request: Request) -> Reply:
    return call("shutdown_response", request_id=_requested(request), approve=False, reason="nearly there")


# -- shutting down ------------------------------------------------------------------------------------


def test_a_shutdown_in_mid_work_hands_the_task_back_without_an_attempt(team: Team) -> None:
    team.add("Long work")
    busy = Pause(call("bash", command="true"))
    with Server(in_turn(alice=[busy, agrees])) as server, crew(team, server, "alice") as running:
        with busy.meanwhile():
            asked = team.ask_shutdown("alice", "we are done for today")
        running.wait()
        check(server)
        assert len(server.requests) == 2  # it answers at its next call, and there is none after it
        assert "we are done for today" in server.requests[1].new_text
    assert (team.task(1).status, team.task(1).attempts) == ("pending", 0)
    assert (team.config().members["alice"].status, team.requests()) == ("shutdown", [])
    answer = next(m for m in team.inbox("user") if m.type == "shutdown_response")
    assert (answer.sender, answer.extra["request_id"], answer.extra["approve"]) == ("alice", asked.id, True)
    assert history(team)[-3:] == [
        "alice takes 1 message", "alice agrees to shut down", "alice releases #1: Long work",
    ]  # fmt: skip


def test_no_tool_runs_after_a_member_has_agreed_to_shut_down(team: Team, repo: Path) -> None:
    def agrees_and_writes(request: Request) -> Reply:
        return Reply(calls=[*agrees(request).calls, ("write_file", {"path": "late.txt", "content": "x"})])

    with Server(in_turn(alice=[agrees_and_writes])) as server, crew(team, server, "alice") as running:
        team.ask_shutdown("alice")
        running.wait()
        check(server)
    assert not (repo / "late.txt").exists()


def test_a_member_that_declines_says_why_and_goes_on(team: Team) -> None:
    team.add("Long work")
    busy = Pause(call("bash", command="true"))
    with Server(in_turn(alice=[busy, declines, completes(1)])) as server, crew(team, server, "alice"):
        with busy.meanwhile():
            team.ask_shutdown("alice")
        until_status(team, "alice", "idle")
        check(server)
        assert team.is_alive("alice")
    assert statuses(team) == ["completed"]
    assert "alice declines to shut down, nearly there" in history(team)
    assert [m.content for m in team.inbox("user") if m.type == "shutdown_response"] == ["nearly there"]


def test_one_that_ignores_a_shutdown_is_asked_once_and_then_it_is_granted(team: Team) -> None:
    team.add("Long work")
    busy = Pause(Reply("Hm."))
    with Server(in_turn(alice=[busy, Reply("Hm."), Reply("Hm again.")])) as server:
        with crew(team, server, "alice") as running:
            with busy.meanwhile():
                asked = team.ask_shutdown("alice")
            running.wait()
        check(server)
        questions = [r for r in server.requests if f"Shutdown request {asked.id} from user has no answer" in r.new_text]
    assert len(questions) == 1
    assert (team.task(1).status, team.task(1).attempts) == ("pending", 0)
    assert "alice agrees to shut down" in history(team)


def test_asking_twice_is_one_request(team: Team) -> None:
    assert team.ask_shutdown("alice").id == team.ask_shutdown("alice").id
    assert len(team.inbox("alice")) == 1


def test_a_member_cannot_answer_for_another(team: Team) -> None:
    asked = team.ask_shutdown("bob")
    answers = call("shutdown_response", request_id=asked.id, approve=True)
    with Server(in_turn(alice=[answers])) as server, crew(team, server, "alice"):
        team.send("alice", "answer for bob")
        refused = server.wait_for(lambda r: r.number == 2, 20).new_text
        until_status(team, "alice", "idle")
    assert f"request {asked.id} is for bob, not for alice" in refused
    assert [r.id for r in team.requests()] == [asked.id]


def test_a_request_survives_the_death_of_the_member_it_is_for(team: Team, repo: Path) -> None:
    team.add("Long work")
    stuck = Pause(Reply("never heard"))
    with Server(in_turn(alice=[stuck, agrees])) as server:
        with program(repo, server, "join", "alice") as join, stuck.meanwhile():
            team.ask_shutdown("alice")
            join.kill()
        with crew(team, server, "alice") as running:
            running.wait()
        check(server)
    assert "alice agrees to shut down" in history(team)
    assert (team.task(1).status, team.task(1).attempts, team.requests()) == ("pending", 1, [])


# -- gitteam stop --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "code", "line"),
    [(agrees, 0, "alice shuts down"), (declines, 4, "alice declines: nearly there")],
    ids=["agreed", "declined"],
)
def test_stop_says_what_the_member_answered(answer: Step, code: int, line: str, team: Team, repo: Path) -> None:
    with Server(in_turn(alice=[answer])) as server, crew(team, server, "alice"):
        until_alive(team, "alice")
        found = command(repo, "stop", "alice")
        assert team.is_alive("alice") == bool(code)
        check(server)
    assert (found.code, found.out) == (code, f"{line}\n")


def test_stop_ends_with_3_when_no_answer_comes_in_time(team: Team, repo: Path) -> None:
    team.add("Long work")
    busy = Pause(completes(1))
    with Server(in_turn(alice=[busy, agrees])) as server, crew(team, server, "alice"), busy.meanwhile():
        found = command(repo, "stop", "alice", "--timeout", "0.1")
        asked = command(repo, "stop", "alice", "--timeout", "0")
    assert (found.code, found.out) == (3, "alice has been asked\n")
    assert (asked.code, asked.out) == (0, "alice has been asked\n")


def test_stop_does_not_wait_for_one_that_ends_without_an_answer(team: Team, repo: Path) -> None:
    team.add("Long work")
    busy = Pause(completes(1))
    with Server(in_turn(alice=[busy])) as server, program(repo, server, "join", "alice") as join, busy.meanwhile():
        stopping = ThreadPoolExecutor(1)
        found = stopping.submit(command, repo, "stop", "alice", "--timeout", str(10 * TIMEOUT))
        until(team.requests, "the request")
        join.kill()
        assert (found.result(TIMEOUT).code, found.result().out) == (0, "alice has ended without an answer\n")
        stopping.shutdown()


def test_stop_of_everybody_asks_those_who_run(team: Team, repo: Path) -> None:
    team.add_member("carol")
    script = in_turn(alice=[agrees], bob=[agrees])
    with Server(script) as server, crew(team, server, "alice", "bob") as running:
        until_alive(team, "alice", "bob")
        found = command(repo, "stop")
        running.wait()
    assert (found.code, sorted(found.out.splitlines())) == (0, ["alice shuts down", "bob shuts down"])
    assert team.inbox("carol") == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("stop",), "nobody is running"),
        (("stop", "alice"), "alice is not running"),
        (("stop", "zoe"), "nobody on the team is called 'zoe'"),
    ],
)
def test_stop_ends_with_3_when_there_is_nobody_to_stop(
    words: tuple[str, ...], error: str, team: Team, repo: Path
) -> None:
    found = command(repo, *words)
    assert (found.code, error in found.err) == (3, True)
    assert team.requests() == []


# -- plans: the gate -----------------------------------------------------------------------------------


PLAN = call("submit_plan", plan="I write notes.txt and nothing else.")
WRITE = call("write_file", path="notes.txt", content="noted\n")


@pytest.mark.parametrize(
    "forbidden",
    [
        call("bash", command="touch notes.txt"),
        WRITE,
        call("edit_file", path="README.md", old_text="project", new_text="notes"),
        completes(1),
        call("task_create", subject="More"),
        call("claim_task", id=2),
    ],
    ids=lambda reply: reply.calls[0][0],
)
def test_without_an_approved_plan_nothing_is_changed(forbidden: Reply, planner: Team, repo: Path) -> None:
    planner.add("Another")
    script = in_turn(paula=[forbidden, call("read_file", path="README.md"), call("task_list"), PLAN])
    with Server(script) as server, crew(planner, server, "paula"):
        until_status(planner, "paula", "waiting_approval")
        check(server)
        told = [r.new_text for r in server.requests[1:]]
    tool = forbidden.calls[0][0]
    assert f"{tool} needs an approved plan: read what you need, then call submit_plan" in told[0]
    assert "# project" in told[1]
    assert "#1 [in_progress, owner paula] Write it down" in told[2]
    assert not (repo / "notes.txt").exists()
    assert (repo / "README.md").read_text() == "# project\n"
    assert statuses(planner) == ["pending", "pending"]


def test_a_rejected_plan_is_improved_approved_and_carried_out(planner: Team, repo: Path) -> None:
    better = call("submit_plan", plan="I write one line into notes.txt.")
    with Server(in_turn(paula=[PLAN, WRITE, better, WRITE, completes(1)])) as server, crew(planner, server, "paula"):
        until_status(planner, "paula", "waiting_approval")
        assert [m.content for m in planner.inbox("lead")] == ["I write notes.txt and nothing else."]
        found = command(repo, "reject", "paula", "Too broad: one line is enough")
        assert (found.code, "rejected paula's plan" in found.out) == (0, True)
        feedback = server.wait_for(lambda r: r.number == 2, 20).new_text
        until(lambda: [r for r in planner.requests() if "one line" in r.content], "the second plan")
        assert not (repo / "notes.txt").exists()  # it tried, unimpressed
        found = command(repo, "approve", "paula", "-m", "go ahead")
        assert found.code == 0
        until(lambda: statuses(planner) == ["completed"], "the task done")
        check(server)
    assert 'type="plan_approval_response"' in feedback
    assert 'approve="False"' in feedback
    assert "Too broad: one line is enough" in feedback
    assert (repo / "notes.txt").read_text() == "noted\n"
    said = [re.sub(r" [0-9a-f]{6}\b", " ID", line) for line in history(planner) if "plan" in line]
    assert said == [
        "paula submits plan ID for #1: I write notes.txt and nothing else.",
        "Jane Doe rejects paula's plan ID: Too broad: one line is enough",
        "paula submits plan ID for #1: I write one line into notes.txt.",
        "Jane Doe approves paula's plan ID: go ahead",
    ]


def test_an_approval_holds_for_one_claim_and_not_for_the_next(planner: Team, repo: Path) -> None:
    planner.add("Another")
    late = call("write_file", path="late.txt", content="x")
    script = in_turn(paula=[PLAN, WRITE, completes(1), Reply("Done."), late, PLAN])
    with Server(script) as server, crew(planner, server, "paula"):
        until_status(planner, "paula", "waiting_approval")
        planner.decide_plan("paula", True)
        until(lambda: statuses(planner) == ["completed", "in_progress"], "the second task")
        until_status(planner, "paula", "waiting_approval")
        check(server)
        refused = server.wait_for(lambda r: r.number == 6, 20).new_text
    assert (repo / "notes.txt").exists()
    assert not (repo / "late.txt").exists()
    assert "write_file needs an approved plan" in refused


def test_an_approval_is_over_when_the_same_task_is_claimed_again(planner: Team, repo: Path) -> None:
    back = call("task_update", id=1, status="pending", note="later")
    script = in_turn(paula=[PLAN, back, Reply("Later."), WRITE, PLAN])
    with Server(script) as server, crew(planner, server, "paula"):
        until_status(planner, "paula", "waiting_approval")
        planner.decide_plan("paula", True)
        until(lambda: planner.task(1).claim == 2, "the second claim")
        until_status(planner, "paula", "waiting_approval")
        check(server)
    assert not (repo / "notes.txt").exists()


# -- plans: waiting ------------------------------------------------------------------------------------


def test_a_decision_wakes_the_waiting_member_at_once(planner: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SLOW_POLL", 600.0)  # only the event is left to wake anybody
    monkeypatch.setattr(planner, "patience", lambda: 600.0)
    with Server(in_turn(paula=[PLAN, completes(1)])) as server, crew(planner, server, "paula") as running:
        until(lambda: [s for s in list(running.crew.bell._sleepers.values()) if s.plan], "paula waiting")
        planner.decide_plan("paula", True)
        server.wait_for(lambda r: r.number == 2, 5)
        until_status(planner, "paula", "idle")
        check(server)


def test_waiting_for_approval_has_no_timeout(planner: Team) -> None:
    with Server(in_turn(paula=[PLAN])) as server, crew(planner, server, "paula", idle_timeout=0.02):
        until_status(planner, "paula", "waiting_approval")
        time.sleep(0.3)  # many times the timeout of one who is idle
        assert planner.config().members["paula"].status == "waiting_approval"
        assert len(server.requests) == 1


def test_one_who_waits_answers_a_message_and_waits_on(planner: Team) -> None:
    with Server(in_turn(paula=[PLAN, Reply("I wait for the lead.")])) as server, crew(planner, server, "paula"):
        until_status(planner, "paula", "waiting_approval")
        planner.send("paula", "how is it going?")
        server.wait_for(lambda r: "how is it going?" in r.new_text, 20)
        until(lambda: not planner.inbox("paula"), "the message taken")
        planner.decide_plan("paula", True)
        until(lambda: len(server.requests) == 3, "the call after the decision")
        check(server)


def test_a_newer_plan_takes_the_place_of_an_older_one(planner: Team) -> None:
    newer = call("submit_plan", plan="I write nothing.")
    with Server(in_turn(paula=[PLAN, newer])) as server, crew(planner, server, "paula"):
        until_status(planner, "paula", "waiting_approval")
        planner.send("paula", "think again")
        until(lambda: "I write nothing." in [r.content for r in planner.requests()], "the newer plan")
        assert len(planner.requests()) == 1
        check(server)


def test_one_who_waits_can_be_shut_down(planner: Team) -> None:
    with Server(in_turn(paula=[PLAN, agrees])) as server, crew(planner, server, "paula") as running:
        until_status(planner, "paula", "waiting_approval")
        planner.ask_shutdown("paula")
        running.wait()
        check(server)
    assert (planner.requests(), statuses(planner)) == ([], ["pending"])


def test_one_who_waits_hears_that_its_task_is_taken_away(planner: Team) -> None:
    with Server(in_turn(paula=[PLAN, Reply("Then not.")])) as server, crew(planner, server, "paula"):
        until_status(planner, "paula", "waiting_approval")
        planner.cancel(1)
        assert "Task #1 is no longer yours" in server.wait_for(lambda r: r.number == 2, 20).new_text
        until_status(planner, "paula", "idle")
        check(server)
    assert planner.requests() == []


# -- plans: deciding -----------------------------------------------------------------------------------


@pytest.fixture
def submitted(planner: Team) -> Iterator[Team]:
    with Server(in_turn(paula=[PLAN, completes(1)])) as server, crew(planner, server, "paula"):
        until_status(planner, "paula", "waiting_approval")
        yield planner
        check(server)


def whole(team: Team) -> str:
    return team.requests()[0].id


@pytest.mark.parametrize(
    "name", [whole, lambda team: whole(team)[:3], lambda team: "paula"], ids=["id", "part", "name"]
)
def test_a_plan_is_approved_by_its_id_a_part_of_it_or_the_name(
    name: Callable[[Team], str], submitted: Team, repo: Path
) -> None:
    number = whole(submitted)
    found = command(repo, "approve", name(submitted))
    assert (found.code, found.out) == (0, f"approved paula's plan {number}\n")
    until(lambda: statuses(submitted) == ["completed"], "the task done")


def test_there_is_one_decision_per_request(planner: Team, repo: Path) -> None:
    busy = Pause(completes(1))
    with Server(in_turn(paula=[PLAN, busy])) as server, crew(planner, server, "paula"):
        until_status(planner, "paula", "waiting_approval")
        number = whole(planner)
        planner.decide_plan(number, True)
        with busy.meanwhile():
            for verb, words in (("approve", ()), ("reject", ("no",))):
                second = command(repo, verb, number, *words)
                assert (second.code, f"request {number} is approved already" in second.err) == (4, True)


def test_a_rejected_request_cannot_be_approved_afterwards(planner: Team) -> None:
    busy = Pause(Reply("I think again."))
    with Server(in_turn(paula=[PLAN, busy])) as server, crew(planner, server, "paula"):
        until_status(planner, "paula", "waiting_approval")
        number = whole(planner)
        planner.decide_plan(number, False, "no")
        with busy.meanwhile(), pytest.raises(NotFound, match=f"no one plan request fits '{number}'"):
            planner.decide_plan(number, True)


def test_an_agent_cannot_decide_about_a_plan(submitted: Team, repo: Path) -> None:
    for name in ("bob", "paula"):
        found = command(repo, "approve", "paula", "--as", name)
        assert (found.code, f"{name} cannot decide about plans" in found.err) == (4, True)
    with pytest.raises(Conflict, match="bob cannot decide"):
        submitted.decide_plan("paula", False, "no", by="bob")
    assert submitted.requests()[0].status == "pending"


def test_a_rejection_without_feedback_is_refused(submitted: Team, repo: Path) -> None:
    found = command(repo, "reject", "paula", " ")
    assert (found.code, "a rejection needs feedback" in found.err) == (2, True)
    assert submitted.requests()[0].status == "pending"


def test_an_unknown_plan_is_refused_with_those_that_are_open(submitted: Team, repo: Path) -> None:
    found = command(repo, "approve", "nothing")
    assert (found.code, f"open: {whole(submitted)} (from paula)" in found.err) == (3, True)


@pytest.mark.parametrize(("decision", "told"), [("approved", "plan is approved"), ("rejected", "plan is rejected")])
def test_a_plan_is_decided_by_an_edit_of_its_file(decision: str, told: str, planner: Team, repo: Path) -> None:
    with Server(in_turn(paula=[PLAN, WRITE])) as server, crew(planner, server, "paula"):
        until_status(planner, "paula", "waiting_approval")
        path = repo / f".team/requests/{whole(planner)}.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "status": decision}))
        heard = server.wait_for(lambda r: r.number == 2, 20).new_text
        server.wait_for(lambda r: r.number == 3, 20)
        check(server)
    assert told in heard
    assert (repo / "notes.txt").exists() == (decision == "approved")


def test_a_plan_for_a_task_shows_in_status(submitted: Team, run: Run) -> None:
    found = run("status")
    assert (found.code, "waiting_approval" in found.out) == (0, True)
