"""Waiting: for commands in the background, for an approval, and for the end of the time that was given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import Pause, Step, call, completes, crew, finish, handed, in_turn, program, statuses, team_of, until_asleep
from conftest import until
from leads import calls

from gitteam import Team
from gitteam.agents import agent
from gitteam.scripted import Reply, Request, Server

UNTIL_GO = "until test -e go; do sleep 0.02; done; echo passed > made"


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    with team_of(repo, "ana") as team:
        yield team


def waits(request: Request) -> Reply:
    """Completes its task when the command has ended, and has nothing to do until then."""
    return completes(1) if "b1 ended" in request.new_text else Reply("I wait for b1.")


# -- for a command ------------------------------------------------------------------------------------------


def test_who_waits_for_a_command_keeps_its_task_and_finishes_it(team: Team, repo: Path) -> None:
    team.add("Run the long tests")
    steps: list[Step] = [call("background_run", command=UNTIL_GO), *[waits] * 4]
    with Server(in_turn(ana=steps)) as server, crew(team, server) as running:
        until_asleep(running, "ana")
        until(lambda: team.task(1).status == "in_progress" and len(server.requests) == 2, "ana waiting")
        (repo / "go").touch()
        until(lambda: statuses(team) == ["completed"], "the task done")
    assert team.task(1).attempts == 0


def test_who_waits_long_for_a_command_is_asked_about_it(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "LONGEST_WAIT", 0.1)
    team.add("Serve it")
    asked = finish(team, in_turn(ana=[call("background_run", command="sleep 600"), Reply("I wait."), completes(1)]))
    assert "still goes on" in asked[2].new_text


def test_until_done_waits_for_a_command_that_nobody_holds_a_task_for(team: Team, repo: Path) -> None:
    def go(request: Request) -> Reply:
        (repo / "go").touch()
        return Reply("I wait for b1.")

    team.send("ana", "build it")
    finish(team, in_turn(ana=[call("background_run", command=f"{UNTIL_GO}; sleep 0.5; echo more > more"), go]))
    assert (repo / "more").exists()


# -- for an approval ----------------------------------------------------------------------------------------


def test_a_command_does_not_outlive_the_approval_it_was_started_under(repo: Path) -> None:
    with team_of(repo) as team:
        team.add_member("paula", plan=True)
        team.add("One")
        team.add("Two")
        begin = calls(("background_run", {"command": "echo $$ > pid; exec sleep 600"}),
                      ("task_update", {"id": 1, "status": "completed"}))  # fmt: skip

        def begun(request: Request) -> Reply:
            until(lambda: (repo / "pid").exists() and (repo / "pid").read_text().strip(), "the command running")
            return Reply("One is done.")

        steps: list[Step] = [call("submit_plan", plan="look"), begin, begun, call("submit_plan", plan="more")]
        with Server(in_turn(paula=steps)) as server, crew(team, server):
            until(team.requests, "the first plan")
            team.decide_plan("paula", True)
            until(lambda: [r for r in team.requests() if r.work.startswith("2/")], "the second plan")
            assert not Path("/proc", (repo / "pid").read_text().strip()).exists()
            second = server.wait_for(lambda r: handed(r) == 2, 60)
            assert "were stopped: what they were approved for is over" in second.new_text


# -- for the end of the time ----------------------------------------------------------------------------------


def test_idle_members_end_when_their_minutes_are_over(team: Team, repo: Path) -> None:
    with Server(in_turn()) as server, program(repo, server, "up", "--max-minutes", "0.02") as running:
        done = running.end()
        assert server.requests == []
    assert (done.code, "the time that was given is over" in done.out) == (0, True)
    assert team.config().members["ana"].status == "shutdown"


# -- for nothing: a setting that cannot be read ---------------------------------------------------------------


def test_a_broken_hooks_setting_is_warned_of_once_and_keeps_nobody_from_finishing(team: Team, repo: Path) -> None:
    team.add("One")
    team.add("Two")
    first = Pause(completes(1))
    with Server(in_turn(ana=[first])) as server, crew(team, server) as running:
        with first.meanwhile():
            path = repo / ".team" / "config.json"
            known = json.loads(path.read_text())
            path.write_text(json.dumps({**known, "settings": {**known["settings"], "hooks": {"TaskComplete": []}}}))
        until(lambda: statuses(team) == ["completed", "completed"], "both done")
        until_asleep(running, "ana")
        warnings = [text for _, text in running.said if "hooks are passed over" in text]
    assert len(warnings) == 1
    assert "there is no event 'TaskComplete'" in warnings[0]
