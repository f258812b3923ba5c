"""What helps a lead or a member with its own work: subagents, skills, commands in the background."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agents import Pause, Step, call, completes, conversation, finish
from conftest import check_everything, gitteam, until
from leads import asked_of, calls, create, lead_to_the_end, led, running_goal, spawn

from gitteam import Team
from gitteam.agents import subagent
from gitteam.scripted import Fault, Reply, Request, Server

READING = ("explore", "plan")


@pytest.fixture
def team(repo: Path) -> Iterator[Team]:
    Team.init(repo)
    with Team(repo) as team:
        yield team
        check_everything(team)


# -- subagents ------------------------------------------------------------------------------------------


def is_helper(request: Request) -> bool:
    return request.system.startswith("You are a subagent")


def helped(kind: str, *steps: Step) -> Callable[[Request], Reply | Fault | None]:
    """A lead that asks a helper of this kind, and the helper's answers."""
    lead, left = led(call("subagent", prompt="How many lines has README.md?", kind=kind)), list(steps)

    def answer(request: Request) -> Reply | Fault | None:
        if not is_helper(request):
            return lead(request)
        step = left.pop(0)
        return step(request) if callable(step) else step

    return answer


def of_helpers(requests: list[Request]) -> list[Request]:
    return [request for request in requests if is_helper(request)]


@pytest.mark.parametrize("kind", [*READING, "code"])
def test_the_answer_of_a_subagent_is_the_result_of_the_call(kind: str, team: Team) -> None:
    script = helped(kind, call("read_file", path="README.md"), Reply("README.md has one line."))
    asked = lead_to_the_end(team, script, "Count")
    first, second = of_helpers(asked)
    assert "How many lines" in first.new_text
    assert "# project" in second.new_text
    assert "README.md has one line." in asked_of(asked, "lead")[1].new_text
    assert "The person asks" not in conversation(second)  # it has a conversation of its own


@pytest.mark.parametrize("kind", READING)
@pytest.mark.parametrize(
    "wanted",
    [
        call("write_file", path="new.txt", content="x"),
        call("bash", command="touch new.txt"),
        call("task_create", subject="Another"),
        call("spawn_teammate", name="eve", role="", prompt=""),
        call("background_run", command="touch new.txt"),
    ],
    ids=lambda reply: reply.calls[0][0],
)
def test_a_reading_subagent_cannot_change_anything_whatever_it_calls(kind: str, wanted: Reply, team: Team) -> None:
    asked = of_helpers(lead_to_the_end(team, helped(kind, wanted, Reply("I could not.")), "Count"))
    name = wanted.calls[0][0]
    assert name not in asked[0].tools
    assert f"there is no tool '{name}'" in asked[1].new_text
    assert not Path(team.place.root, "new.txt").exists()
    assert (team.tasks(), team.members()) == ([], [])


def test_a_coding_subagent_writes_but_does_not_touch_the_board(team: Team) -> None:
    write = calls(("write_file", {"path": "new.txt", "content": "x\n"}), create("Another"))
    asked = of_helpers(lead_to_the_end(team, helped("code", write, Reply("Written.")), "Count"))
    assert Path(team.place.root, "new.txt").read_text() == "x\n"
    assert "there is no tool 'task_create'" in asked[1].new_text
    assert team.tasks() == []


def test_a_subagent_that_comes_to_no_end_is_ended(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subagent, "MAX_TURNS", 3)
    asked = lead_to_the_end(team, helped("explore", *[call("task_list")] * 9), "Count")
    assert len(of_helpers(asked)) == 3
    assert "came to no end in 3 turns" in asked_of(asked, "lead")[1].new_text


def test_a_subagent_that_is_cut_off_goes_on_and_its_answer_is_whole(team: Team) -> None:
    script = helped("explore", Reply("README.md has ", stop="max_tokens"), Reply("one line."))
    asked = lead_to_the_end(team, script, "Count")
    assert "Your reply was cut off" in of_helpers(asked)[1].new_text
    assert "README.md has one line." in asked_of(asked, "lead")[1].new_text


def test_a_kind_that_does_not_exist_is_refused(team: Team) -> None:
    asked = lead_to_the_end(team, helped("destroy"), "Count")
    assert of_helpers(asked) == []
    assert "kind is one of explore, plan, code" in asked_of(asked, "lead")[1].new_text


def test_a_teammate_has_neither_subagents_nor_the_leads_tools(team: Team) -> None:
    team.add_member("alice")
    team.add("One")
    asked = finish(team, led(alice=[call("subagent", prompt="x", kind="code"), call("team_delete")]), "alice")
    assert {"subagent", "spawn_teammate", "team_delete", "plan_approval"}.isdisjoint(asked[0].tools)
    assert {"skill", "background_run", "send_message"} <= {*asked[0].tools}
    assert "there is no tool 'subagent'" in asked[1].new_text
    assert "there is no tool 'team_delete'" in asked[2].new_text


# -- skills -------------------------------------------------------------------------------------------------


@pytest.fixture
def skills(repo: Path) -> Path:
    """Two skills: one that can be read and one that cannot."""
    for name, text in (
        ("release", "---\nname: release\ndescription: How a version is released\n---\nTag it, then push the tag.\n"),
        ("broken", "---\nname: broken\n---\nNobody knows what this is for.\n"),
    ):
        path = repo / "skills" / name
        path.mkdir(parents=True)
        (path / "SKILL.md").write_text(text)
    return repo / "skills"


@pytest.mark.parametrize("who", ["lead", "alice"])
def test_skills_are_listed_in_the_system_prompt_and_read_on_demand(who: str, team: Team, skills: Path) -> None:
    reads = call("skill", name="release")
    plan = calls(create("One"), spawn("alice"))
    script = led(reads, plan) if who == "lead" else led(plan, alice=[reads])
    first, second, *_ = asked_of(lead_to_the_end(team, script, "Release it"), who)
    assert "- release: How a version is released" in first.system
    assert "Tag it" not in conversation(first) + first.system
    assert "Tag it, then push the tag." in second.new_text
    assert "broken" not in first.system


def test_an_unknown_skill_is_refused_with_the_names_there_are(team: Team, skills: Path) -> None:
    asked = lead_to_the_end(team, led(call("skill", name="broken")), "Release it")
    assert "there is no skill 'broken': release" in asked[1].new_text


def test_a_broken_skill_is_named_by_the_status(team: Team, skills: Path, repo: Path) -> None:
    shown = gitteam(repo, "status").out
    assert "cannot be read\n  skills/broken/SKILL.md: it has no description" in shown
    assert "release" not in shown
    [found] = gitteam(repo, "status", "--json").json["unreadable"]
    assert found["path"] == "skills/broken/SKILL.md"


# -- in the background -----------------------------------------------------------------------------------------


def _pid(repo: Path) -> int:
    return int(until(lambda: (repo / "pid").exists() and (repo / "pid").read_text().strip(), "the command running"))


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split(") ")[-1].startswith("Z")


SERVES = call("background_run", command="echo $$ > pid.new; mv pid.new pid; exec sleep 600")


def test_a_member_is_told_when_its_background_command_has_ended(team: Team) -> None:
    team.add_member("alice")
    team.add("Build it")
    alice: list[Step] = [
        call("background_run", command="echo built; exit 3"), call("bash", command="sleep 0.5"),
        call("background_output", id="b1"),
    ]  # fmt: skip
    asked = finish(team, led(alice=alice), "alice")
    assert "Started as b1" in asked[1].new_text
    assert any("b1 ended with exit code 3" in request.new_text for request in asked)
    assert "built" in asked[3].new_text


def test_a_background_command_is_stopped_by_its_member(team: Team, repo: Path) -> None:
    def stop(request: Request) -> Reply:
        _pid(repo)
        return call("background_stop", id="b1")

    asked = lead_to_the_end(team, led(SERVES, stop), "Serve it")
    assert "[b1: stopped" in asked[2].new_text
    assert _is_gone(_pid(repo))


def test_nothing_is_left_running_when_the_team_is_disbanded(team: Team, repo: Path) -> None:
    lead_to_the_end(team, led(calls(create("One"), spawn("alice")), alice=[SERVES, completes(1)]), "Serve it")
    assert _is_gone(_pid(repo))


def test_a_lead_with_a_finished_board_does_not_wait_for_what_goes_on_in_the_background(team: Team, repo: Path) -> None:
    plan = calls(*SERVES.calls, create("One"), spawn("alice"))
    asked = asked_of(lead_to_the_end(team, led(plan), "Serve it"), "lead")
    assert "Disbanded" in asked[-1].new_text
    assert _is_gone(_pid(repo))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_nothing_is_left_running_however_the_program_ends(number: signal.Signals, repo: Path) -> None:
    waits = Pause(Reply("It serves."))
    with Server(led(SERVES, waits)) as server, running_goal(repo, server, "Serve it") as running:
        with waits.meanwhile():
            pid = _pid(repo)
            running.signal(number)
            if number == signal.SIGINT:
                until(lambda: "stopping" in running.err(), "word of it")
        running.process.wait()
    until(lambda: _is_gone(pid), "the command gone")
