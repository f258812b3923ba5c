"""A request that the service does not take: nothing in it is lost, and nothing in it is in the way for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import call, conversation, crew, in_turn, lead_mail, team_of, until_asleep
from conftest import until
from leads import asked_of, calls, create, leading, led, spawn

from gitteam import Team
from gitteam.agents.conversation import Conversation
from gitteam.scripted import Fault, Reply, Request, Server

REFUSED = Fault("400", Reply("messages: something odd"))


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    with team_of(repo, "alice", "bob") as team:
        yield team


def allergic(request: Request) -> Reply | Fault:
    """Takes no request with a certain word in it."""
    return REFUSED if "GRIT" in conversation(request) else Reply("Fine.")


def answered(server: Server, script: Callable[[Request], Any] = allergic) -> list[Request]:
    return [request for request in server.requests if isinstance(script(request), Reply)]


def test_messages_of_a_rejected_request_come_once_more_and_are_marked(team: Team) -> None:
    with Server(in_turn(alice=[REFUSED, Reply("Fine.")])) as server, crew(team, server, "alice") as running:
        team.send("alice", "use OAuth", by="bob")
        until(lambda: len(server.requests) == 2, "the second request")
        until_asleep(running, "alice")
    first, second = server.requests
    assert ("use OAuth" in first.new_text, "redelivered" in first.new_text) == (True, False)
    assert 'redelivered="yes">\nuse OAuth\n' in second.new_text
    assert team.inbox("alice") == []


def test_messages_that_are_rejected_twice_are_set_aside_and_the_lead_knows(team: Team) -> None:
    with Server(allergic) as server, crew(team, server, "alice") as running:
        bad = team.send("alice", "GRIT", by="bob")[0]
        until(lambda: any("set aside" in m.content for m in lead_mail(team, "error")), "the error")
        until_asleep(running, "alice")
        assert (len(server.requests), team.inbox("alice")) == (2, [])
        team.send("alice", "harmless", by="bob")
        until(lambda: answered(server), "an answer")
        until_asleep(running, "alice")
    [told] = [m.content for m in lead_mail(team, "error") if "set aside" in m.content]
    assert told == (
        f"set aside, because the API has twice not taken what was written to alice: {bad.id} from bob "
        "(the API does not take the request (messages: something odd))"
    )
    assert len(server.requests) == 3


def test_what_read_inbox_showed_comes_once_more_too(team: Team) -> None:
    def writes_meanwhile(request: Request) -> Reply:
        team.send("alice", "do not deploy", by="bob")
        return call("read_inbox")

    script = in_turn(alice=[writes_meanwhile, REFUSED, Reply("Fine.")])
    with Server(script) as server, crew(team, server, "alice") as running:
        team.send("alice", "begin", by="bob")
        until(lambda: len(server.requests) == 3, "the third request")
        until_asleep(running, "alice")
    assert 'redelivered="yes">\ndo not deploy\n' in server.requests[2].new_text
    assert "begin" not in server.requests[2].new_text, "it had been answered"
    assert team.inbox("alice") == []


def test_that_they_were_rejected_survives_a_restart(tmp_path: Path) -> None:
    talk = Conversation(str(tmp_path / "alice.jsonl"))
    talk.tell("one", "two", delivered=["a", "b"])
    talk.begin_anew([], returns=["a", "b"])
    talk.tell("one", delivered=["a"])
    talk.close()
    again = Conversation(str(tmp_path / "alice.jsonl"))
    assert (again.delivered, again.returned) == ({"a"}, {"a", "b"})
    again.forget(["a", "b"])
    assert (again.delivered, again.returned) == (set(), set())
    again.close()


def test_after_a_rejected_request_the_lead_still_knows_its_goal_and_its_mail(team: Team) -> None:
    plan = calls(create("Do it"), spawn("carl"))
    script = led(plan, Reply("I wait."), REFUSED)
    with Server(script) as server, leading(team, server, "Migrate the whole") as running:
        running.wait()
        assert running.lead.failure == ""
    asked = asked_of(server.requests, "lead")
    assert len(asked) > 3
    assert all("Migrate the whole" in conversation(request) for request in asked)
    lost = [line for line in asked[2].new_text.splitlines() if line.startswith("<team-message ")]
    assert lost
    assert all(line[:-1] + ' redelivered="yes">' in asked[3].new_text for line in lost)


def test_what_the_lead_cannot_be_told_is_told_to_the_person(team: Team) -> None:
    with Server(allergic) as server, leading(team, server, stays=True) as running:
        until(lambda: running.crew.bell._sleepers.keys() >= {"lead"}, "the lead asleep")
        team.send("lead", "GRIT", by="bob")
        until(lambda: team.inbox("user"), "the error")
        until(lambda: running.crew.bell._sleepers.keys() >= {"lead"}, "the lead asleep")
    assert [m.type for m in team.inbox("user")] == ["error"]
    assert "not taken what was written to lead" in team.inbox("user")[0].content
    assert (len(server.requests), team.inbox("lead")) == (2, [])
