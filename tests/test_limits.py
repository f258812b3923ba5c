"""A model that runs away: whatever it does for ever, somebody puts an end to it and says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import call, check, completes, crew, diligent, finish, handed, lead_mail, team_of
from conftest import TIMEOUT, until
from hypothesis import given
from hypothesis import strategies as st

from gitteam import Team
from gitteam.agents.limits import Circles
from gitteam.agents.teammate import TALK_LIMIT
from gitteam.scripted import Reply, Request, Server


@pytest.fixture
def alice(repo: Path) -> Iterator[Team]:
    with team_of(repo, "alice") as team:
        team.add("One")
        yield team


# -- circles ----------------------------------------------------------------------------------------


def noted(*calls: tuple[str, str, bool]) -> list[str]:
    """What is found at each call: its command, what it gave, whether that was an error."""
    circles = Circles()
    return [
        circles.note({"name": "bash", "input": {"command": command}}, {"content": gave, "is_error": failed})
        for command, gave, failed in calls
    ]


def test_the_fourth_time_the_same_call_with_the_same_outcome_is_a_circle() -> None:
    found = noted(*[("ls", "a", False)] * 8)
    said = "the same call of bash 4 times, with the same outcome"
    assert found == ["", "", "", said] * 2


def test_a_call_whose_outcome_changes_is_no_circle() -> None:
    assert not any(noted(*[("ls", str(n), False) for n in range(50)]))


def test_the_third_time_the_same_error_is_a_circle() -> None:
    assert noted(*[(str(n), "no such file", True) for n in range(3)]) == ["", "", "the same error 3 times"]
    assert not any(noted(("a", "no", True), ("b", "no", True), ("c", "fine", False), ("d", "no", True)))


def test_the_same_two_calls_in_turn_are_a_circle() -> None:
    found = noted(*[("a", "1", False), ("b", "2", False)] * 3)
    assert found == ["", "", "", "", "", "the same two calls in turn 3 times"]


@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_only_repetition_is_a_circle(names: list[str]) -> None:
    found = noted(*[(name, "x", False) for name in names])
    since = 0
    for at, said in enumerate(found):
        last = names[since : at + 1]
        repeats = len(last) >= 4 and len(set(last[-4:])) == 1
        turns = len(last) >= 6 and len(set(last[-6::2])) == len(set(last[-5::2])) == 1
        assert bool(said) == (repeats or turns)
        since = at + 1 if said else since


def test_the_order_of_keys_makes_no_other_call() -> None:
    circles = Circles()
    inputs: list[dict[str, Any]] = [{"a": 1, "b": 2}, {"b": 2, "a": 1}] * 2
    assert [bool(circles.note({"name": "x", "input": i}, {"content": "y"})) for i in inputs] == [False] * 3 + [True]


CIRCLES: dict[str, Callable[[Request], Reply]] = {
    "the same call of bash 4 times": lambda request: call("bash", command="echo again"),
    "the same error 3 times": lambda request: call("task_get", id=99),
    "the same two calls in turn 3 times": lambda request: call("bash", command=f"echo {request.number % 2}"),
}


@pytest.mark.parametrize("found", CIRCLES)
def test_who_goes_round_in_circles_is_warned_once_and_then_stopped(found: str, alice: Team) -> None:
    requests = finish(alice, CIRCLES[found])
    task = alice.task(1)
    assert (task.status, task.attempts) == ("failed", 3)
    assert task.notes.count(f"going round in circles: {found}") == 3
    assert lead_mail(alice, "error")[0].content.startswith(f"#1: going round in circles: {found}")
    warned = [r for r in requests if f"You are going round in circles: {found}" in r.new_text]
    assert (len(warned), len(requests) <= 36) == (3, True)


def test_who_heeds_the_warning_goes_on(alice: Team) -> None:
    def script(request: Request) -> Reply:
        if "You are going round in circles" in request.new_text:
            return completes(1, "Another way.")
        return Reply("Done.") if request.number > 4 else call("bash", command="true")

    finish(alice, script)
    assert (alice.task(1).status, alice.task(1).attempts) == ("completed", 0)


# -- no end -----------------------------------------------------------------------------------------


def test_who_never_ends_is_stopped_by_the_turn_limit(alice: Team) -> None:
    requests = finish(alice, lambda request: call("bash", command=f"echo {request.number}"), max_turns=7)
    task = alice.task(1)
    assert (task.status, task.attempts, len(requests)) == ("failed", 3, 21)
    assert task.notes.count("no end after 7 turns") == 3


@pytest.mark.parametrize(
    "reply", [Reply("Never mind."), Reply("", stop="end_turn"), Reply("", stop="something_new"), call("idle")]
)
def test_who_ends_at_once_is_asked_once_and_the_task_goes_back(reply: Reply, alice: Team) -> None:
    requests = finish(alice, lambda request: reply)
    assert (alice.task(1).status, alice.task(1).attempts) == ("failed", 3)
    assert len(requests) == 6
    assert "Task #1 is still open and you hold it." in requests[1].new_text
    assert alice.task(1).notes.count("ended without finishing") == 3


@pytest.mark.parametrize("stop", ["max_tokens", "pause_turn", "model_context_window_exceeded"])
def test_who_is_always_cut_off_is_stopped_by_the_turn_limit(stop: str, alice: Team) -> None:
    requests = finish(alice, lambda request: Reply("And then", stop=stop), max_turns=5)
    assert (alice.task(1).status, alice.task(1).attempts) == ("failed", 3)
    assert len(requests) <= 30


def test_who_refuses_is_not_asked_again_and_again(alice: Team) -> None:
    requests = finish(alice, lambda request: Reply("No.", [("bash", {"command": "true"})], stop="refusal"))
    assert (alice.task(1).status, alice.task(1).attempts, len(requests)) == ("failed", 3, 3)


@pytest.mark.parametrize(
    "reply", [call("idle"), Reply("", stop="end_turn"), Reply("Hello.")], ids=["idle", "nothing", "a word"]
)
def test_a_message_is_one_piece_of_work_however_it_ends(reply: Reply, repo: Path) -> None:
    """Nothing is put to the model again once the work is over: idle makes no call."""
    with team_of(repo, "alice") as team, Server(lambda request: reply) as server, crew(team, server):
        team.send("alice", "hello", by="user")
        until(lambda: server.requests and not team.inbox("alice"), "the message read")
        until(lambda: lead_mail(team, "idle_notification"), "alice idle")
        until(lambda: team.config().members["alice"].status == "idle", "alice asleep")
        team.send("alice", "again", by="user")
        server.wait_for(lambda request: "again" in request.new_text, TIMEOUT)
        until(lambda: len(lead_mail(team, "idle_notification")) == 2, "alice idle")
        check(server)
        assert ["again" in request.new_text for request in server.requests] == [False, True]


@pytest.mark.parametrize("reply", [call("idle"), Reply("", stop="end_turn")], ids=["idle", "nothing"])
def test_a_restart_puts_nothing_to_the_model_that_was_over(reply: Reply, repo: Path) -> None:
    with team_of(repo, "alice") as team, Server(lambda request: reply) as server:
        for _ in range(2):
            with crew(team, server):
                if not server.requests:
                    team.send("alice", "hello", by="user")
                    until(lambda: lead_mail(team, "idle_notification"), "alice idle")
                until(lambda: team.config().members["alice"].status == "idle", "alice there")
        finish(team, lambda request: reply)
        assert len(server.requests) == 1
        check(server)


# -- talk -------------------------------------------------------------------------------------------


def test_two_who_answer_each_other_for_ever_fall_silent(repo: Path) -> None:
    def script(request: Request) -> Reply:
        other = "bob" if request.member == "alice" else "alice"
        if "<team-message" in request.new_text:
            return call("send_message", to=other, content=f"And you? ({request.number})")
        return Reply("I wait.")

    with team_of(repo, "alice", "bob") as team, Server(script) as server, crew(team, server):
        team.send("alice", "Say hello to bob.", by="user")
        silent = until(lambda: [m for m in lead_mail(team, "error") if "rounds of talk" in m.content], "silence")
        assert f"after {TALK_LIMIT} rounds of talk without a task it answers only the lead and the person" in str(
            silent
        )
        until(lambda: {m.status for m in team.members()} == {"idle"}, "both asleep")
        calls = len(server.requests)
        assert calls <= 4 * (TALK_LIMIT + 2)
        team.send("bob", "Are you there?", by="user")
        server.wait_for(lambda request: request.member == "bob" and "Are you there?" in request.new_text, TIMEOUT)
        until(lambda: {m.status for m in team.members()} == {"idle"}, "both asleep")
        check(server)


def test_mail_that_is_always_there_already_does_not_keep_anybody_talking(repo: Path) -> None:
    with team_of(repo, "alice", "bob") as team:

        def script(request: Request) -> Reply:
            if request.number < 3 * TALK_LIMIT:
                team.send("alice", f"And? ({request.number})", by="bob")
            return Reply("Yes.")

        team.send("alice", "Hello?", by="bob")
        with Server(script) as server, crew(team, server, "alice"):
            until(lambda: [m for m in lead_mail(team, "error") if "rounds of talk" in m.content], "silence")
            until(lambda: team.config().members["alice"].status == "idle", "alice asleep")
            check(server)
        assert len(server.requests) == TALK_LIMIT
        assert len(team.inbox("alice")) == 1


def test_a_task_ends_the_silence(repo: Path) -> None:
    def script(request: Request) -> Reply:
        if handed(request):
            return diligent(request)
        if "<team-message" in request.new_text:
            return call("send_message", to="bob" if request.member == "alice" else "alice", content="hm")
        return Reply("I wait.")

    with team_of(repo, "alice", "bob") as team, Server(script) as server, crew(team, server):
        team.send("alice", "Say hello to bob.", by="user")
        until(lambda: [m for m in lead_mail(team, "error") if "rounds of talk" in m.content], "silence")
        team.add("One")
        until(lambda: team.task(1).status == "completed", "the task done")
        check(server)
