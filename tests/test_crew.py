"""The supervisor: what one member, one listener or one screen does wrong is no trouble for the others."""

from __future__ import annotations

import threading

import pytest
from agents import call, crew, diligent, history, statuses, until_asleep, until_status
from conftest import until

from gitteam import Team
from gitteam.agents import teammate
from gitteam.agents.crew import Crew
from gitteam.agents.model import Model
from gitteam.agents.settings import Settings
from gitteam.agents.wake import Bell
from gitteam.errors import BadInput, LockTimeout
from gitteam.journal import Entry
from gitteam.liveness import Life
from gitteam.records import Member
from gitteam.requests import ask_shutdown
from gitteam.roster import put
from gitteam.scripted import Reply, Request, Server


def test_a_member_that_could_not_be_read_back_is_not_written(team: Team) -> None:
    with pytest.raises(BadInput, match="no role"):
        team.change("lead", lambda c: put(c, Member("alice", "Senior Dev!")))
    assert team.config().members["alice"].role == "backend"


def test_a_screen_that_is_gone_stops_nobody(team: Team) -> None:
    shown = []

    def broken(entry: Entry | None) -> None:
        shown.append(entry)
        raise BrokenPipeError

    with Server(diligent) as server:
        model = Model({"ANTHROPIC_API_KEY": "test"}, server.url, stall_timeout=20)
        alone = Crew(team, ["alice"], model, Settings(), lambda name, text: broken(None), broken)
        thread = threading.Thread(target=alone.run)
        thread.start()
        until(lambda: "alice" in alone.bell.asleep(), "rest")
        team.add("One")
        until(lambda: statuses(team) == ["completed"], "the task done")
        alone.ask_to_stop()
        thread.join()
        model.close()
    assert shown


def test_a_listener_that_fails_keeps_nobody_asleep(team: Team) -> None:
    said: list[str] = []
    bell = Bell(team, said.append)
    try:

        def broken(look: object, asleep: object) -> None:
            raise ZeroDivisionError("a listener")

        bell.on_look.append(broken)
        woken: list[tuple[bool, int | None]] = []
        sleeper = threading.Thread(target=lambda: woken.append(bell.sleep("alice", timeout=60)))
        sleeper.start()
        until(lambda: said, "word of the failure")
        team.add("One")
        sleeper.join(60)
        assert woken == [(True, 1)]
        assert said == ["ZeroDivisionError: a listener"]
    finally:
        bell.close()


def test_one_that_is_called_before_it_falls_asleep_wakes_at_once(team: Team) -> None:
    bell = Bell(team, print)
    try:
        bell.call("alice")
        assert bell.sleep("alice", timeout=60) == (True, None)
        assert bell.sleep("alice", timeout=0.01) == (False, None)
    finally:
        bell.close()


def test_a_task_is_not_kept_for_one_that_lives_elsewhere(team: Team) -> None:
    team.add_member("carol", "backend")
    with Server(diligent) as server, crew(team, server, "alice", "carol", idle_timeout=0.05):
        for name in ("alice", "carol"):
            until_status(team, name, "shutdown", "timeout")
            until(lambda name=name: not team.is_alive(name), "the end of its life")  # type: ignore[misc]
        with Life(team.place, "alice"):  # as in another terminal
            team.add("One", role="backend")
            until(lambda: statuses(team) == ["completed"], "the task done by the other")
    assert "carol completes #1: One" in history(team)


def test_the_limit_on_talk_outlives_a_life(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teammate, "TALK_LIMIT", 3)
    team.add_member("carol", "backend")

    def polite(request: Request) -> Reply:
        if "<team-message" not in request.new_text:
            return Reply("Said.")
        return call("send_message", to="carol" if request.member == "alice" else "alice", content="And you?")

    with Server(polite) as server, crew(team, server, "alice", "carol", idle_timeout=0.01):
        team.send("alice", "How are you?")
        until(lambda: history(team).count("carol joins") >= 3, "several lives")
        until(lambda: [h for h in history(team) if "rounds of talk" in h], "word that it is enough")
        until(lambda: not (team.is_alive("alice") or team.is_alive("carol")), "rest")
        calls = len(server.requests)
    assert calls < 30


def test_a_namesake_inherits_no_request(team: Team) -> None:
    team.change("user", lambda c: ask_shutdown(c, "alice"))
    team.remove_member("alice")
    assert team.requests() == []


def test_everybody_is_abandoned_whatever_is_in_the_way(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(diligent) as server, crew(team, server, "alice") as running:
        until_asleep(running, "alice")

        def busy(*_: object) -> None:
            raise LockTimeout("another process holds the lock")

        with monkeypatch.context() as patched:
            patched.setattr(team, "change", busy)
            running.crew.abandon()
