"""Users' hooks around a team at work: what they refuse, who hears why, and that they run only when allowed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import call, completes, conversation, finish, history, statuses
from conftest import check_everything
from leads import asked_of, calls, create, lead_to_the_end, led, run_goal, spawn
from terminal import Terminal

from gitteam import Team, hooks
from gitteam.scripted import Reply, Server


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    Team.init(repo)
    with Team(repo) as team:
        yield team
        check_everything(team)


def configure(team: Team, allowed: bool = True, **commands: str) -> None:
    """Hooks by event, in the settings as a person writes them."""
    path = Path(team.place.root, ".team", "config.json")
    values = json.loads(path.read_text())
    values["settings"]["hooks"] = {event: [{"command": command}] for event, command in commands.items()}
    path.write_text(json.dumps(values))
    if allowed:
        hooks.allow(team.place, hooks.parse(team.config().settings))


def test_a_task_that_a_hook_refuses_is_not_created_and_the_lead_hears_why(team: Team) -> None:
    configure(team, TaskCreated='grep -q \'"role": ""\' && { echo every task needs a role >&2; exit 2; }; exit 0')
    plan = calls(create("Nameless"), create("Good", role="coder"), spawn("alice"))
    asked = asked_of(lead_to_the_end(team, led(plan), "Do it"), "lead")
    assert "not created: every task needs a role" in asked[1].new_text
    assert [task.subject for task in team.tasks()] == ["Good"]


def test_a_task_that_a_hook_does_not_find_finished_stays_open_until_it_is(team: Team) -> None:
    team.add_member("alice")
    team.add("Write notes.txt")
    configure(team, TaskCompleted="test -e notes.txt || { echo notes.txt is missing >&2; exit 2; }")
    alice = [completes(1), call("write_file", path="notes.txt", content="x\n"), completes(1)]
    asked = finish(team, led(alice=alice), "alice")
    assert "not completed: notes.txt is missing" in asked[1].new_text
    assert statuses(team) == ["completed"]
    assert sum("completes #1" in line for line in history(team)) == 1


def test_a_member_is_kept_from_going_idle_and_hears_what_is_missing(team: Team) -> None:
    team.add_member("alice")
    team.add("One")
    configure(team, TeammateIdle="test -e tidy || { echo tidy up first >&2; exit 2; }")
    alice = [completes(1), Reply("Done."), call("bash", command="touch tidy"), Reply("Tidied up.")]
    asked = finish(team, led(alice=alice), "alice")
    assert "tidy up first" in asked[2].new_text
    assert 'of="the hook TeammateIdle"' in asked[2].new_text
    assert len(asked) == 4


def test_a_hook_that_never_lets_a_member_rest_is_heard_three_times(team: Team) -> None:
    team.add_member("alice")
    team.add("One")
    configure(team, TeammateIdle="echo never enough >&2; exit 2")
    asked = finish(team, led(alice=[]), "alice")
    assert conversation(asked[-1]).count("never enough") == 3


def test_a_hook_gets_the_event_as_json(team: Team, repo: Path) -> None:
    configure(team, TaskCreated="cat > event.json")
    lead_to_the_end(team, led(calls(create("One", role="coder"), spawn("alice"))), "Do it")
    found = json.loads((repo / "event.json").read_text())
    assert (found["event"], found["member"], found["task"]["subject"]) == ("TaskCreated", "lead", "One")


def test_a_hook_that_is_broken_is_passed_over_with_a_warning(team: Team) -> None:
    configure(team, TaskCreated="exit 7")
    script = led(calls(create("One"), spawn("alice")))
    lead_to_the_end(team, script, "Do it")
    assert statuses(team) == ["completed"]


def test_a_hook_that_nobody_allowed_is_shown_and_does_not_run(team: Team, repo: Path) -> None:
    configure(team, allowed=False, TaskCreated="touch evil")
    with Server(led(calls(create("One"), spawn("alice")))) as server:
        done = run_goal(repo, server, "Do it")
    assert done.code == 0
    assert "TaskCreated: touch evil" in done.err
    assert "they do not run" in done.err
    assert not (repo / "evil").exists()


@pytest.mark.parametrize(("answer", "runs"), [("y", True), ("n", False)])
def test_in_a_terminal_hooks_are_asked_about_once(answer: str, runs: bool, team: Team, repo: Path) -> None:
    configure(team, allowed=False, TaskCreated="touch ran")
    with Server(led(calls(create("One"), spawn("alice")))) as server, Terminal(repo) as terminal:
        words = (sys.executable, "-m", "gitteam", "run", "--yes", "Do it")
        terminal.run(*words, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="test")
        terminal.until("Let them run here? [y/N]")
        terminal.type(answer, "Enter")
        terminal.until("exit 0")
    assert (repo / "ran").exists() == runs
    assert hooks.allowed(team.place, hooks.parse(team.config().settings)) == runs
