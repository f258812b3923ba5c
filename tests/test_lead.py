"""The lead's flows, from one sentence to a disbanded team, each read off the ledger's history."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Result, gitteam
from leads import SCRIPTS, check_team, of_those, told

ROOT = Path(__file__).parent.parent
NAMES = sorted(path.stem for path in SCRIPTS.glob("lead-*.toml"))

Play = Callable[[str], Result]


def words_of(name: str) -> list[str]:
    """The one command at the top of a scenario, in words."""
    [line] = re.findall(r"^#   gitteam (.*)$", (SCRIPTS / f"{name}.toml").read_text(), re.M)
    return shlex.split(line)


@pytest.fixture
def play(repo: Path) -> Play:
    """Type a scenario's line in a repository without a team. It ends well, and leaves nobody behind."""

    def play(name: str) -> Result:
        words = words_of(name)
        done = gitteam(ROOT, "-C", str(repo), *words)
        assert done.code == 0, done
        assert "the script has no answer" not in done.out
        assert gitteam(repo, "status", "--json").json["members"] == []
        check_team(repo)
        return done

    return play


def test_every_scenario_is_played_here_and_listed() -> None:
    listed = (ROOT / "examples" / "README.md").read_text()
    known = "auto-claim", "broadcast", "dependencies", "graphql", "message", "plan", "shutdown"
    assert [name.removeprefix("lead-") for name in NAMES] == [*known]
    for name in NAMES:
        assert words_of(name)[:3] == ["run", "--script", f"examples/scripts/{name}.toml"]
        assert f"(scripts/{name}.toml)" in listed


def test_alice_and_bob_are_started_and_alice_writes_to_bob(play: Play, repo: Path) -> None:
    assert "Spawn alice (coder) and bob (tester). Have alice send bob a message." in words_of("lead-message")
    done = play("lead-message")
    steps = [
        "lead adds bob to the team, tester", "lead adds alice to the team, coder",
        "alice writes to bob: Hello bob, I begin with the login form.",
        "bob reports: alice begins with the login form; I test it when it is there.",
        "lead asks alice to shut down", "lead takes alice off the team",
    ]  # fmt: skip
    assert of_those(told(repo), *steps) == steps
    assert "alice has written to bob, and bob has read it." in done.out


def test_a_broadcast_of_the_lead_reaches_everybody(play: Play, repo: Path) -> None:
    play("lead-broadcast")
    lines = told(repo)
    assert lines.count("lead writes to all: The text is frozen: please change nothing any more.") == 1
    assert {line for line in lines if " reports: " in line} == {
        "alice reports: I change nothing any more.", "bob reports: I change nothing any more.",
        "carol reports: I have read it last, and change nothing either.",
    }  # fmt: skip


def test_three_tasks_are_claimed_by_two_without_being_handed_out(play: Play, repo: Path) -> None:
    assert "Create 3 tasks, then spawn alice and bob. Watch them auto-claim." in words_of("lead-auto-claim")
    done = play("lead-auto-claim")
    claims = [line.split(":")[0] for line in told(repo) if " claims #" in line]
    assert sorted(claim.split("#")[1] for claim in claims) == ["1", "2", "3"]
    assert {claim.split()[0] for claim in claims} == {"alice", "bob"}
    assert not [line for line in told(repo) if re.match(r"lead (claims|completes|writes)", line)]
    assert re.findall(r"^  #(\d)  .*  (alice|bob)$", done.out, re.M)


def test_dependencies_that_the_lead_set_are_kept(play: Play, repo: Path) -> None:
    play("lead-dependencies")
    lines = [line.partition(" ")[2].split(":")[0] for line in told(repo)]
    steps = [line for line in lines if re.match(r"(claims|completes) #", line)]
    assert steps == [f"{verb} #{number}" for number in (1, 2, 3) for verb in ("claims", "completes")]
    assert "4 words" in (repo / ".tasks" / "3-count-its-words.md").read_text()


def test_a_plan_is_rejected_revised_and_approved_by_the_lead(play: Play, repo: Path) -> None:
    play("lead-plan")
    decisions = [line.split(":")[0] for line in told(repo) if " plan" in line.split(":")[0]]
    assert decisions == [
        "alice submits plan for #1", "lead rejects alice's plan", "alice submits plan for #1",
        "lead approves alice's plan",
    ]  # fmt: skip
    assert (repo / "README.md").read_text() == "# project\n"
    assert (repo / "WELCOME.md").exists()


def test_a_shutdown_is_declined_in_the_middle_of_work_and_agreed_to_later(play: Play, repo: Path) -> None:
    play("lead-shutdown")
    steps = [
        "alice claims #1: Write a long text", "lead asks alice to shut down",
        "alice declines to shut down, The text is half written", "alice completes #1: Write a long text",
        "lead asks alice to shut down", "alice agrees to shut down", "alice leaves, asked to",
    ]  # fmt: skip
    assert of_those(told(repo), *steps) == steps


def test_the_migration_goes_from_one_sentence_to_a_disbanded_team(play: Play, repo: Path) -> None:
    done = play("lead-graphql")
    steps = [
        "lead calls the team graphql", "lead adds #1: Analyze the REST endpoints",
        "lead adds #4: Let the client use GraphQL", "lead adds ben to the team, backend",
        "ana completes #1: Analyze the REST endpoints", "ben claims #2: Design the GraphQL schema",
        "lead rejects ben's plan: REST has to stay", "ben completes #2: Design the GraphQL schema",
        "ben completes #3: Serve GraphQL beside REST", "fay claims #4: Let the client use GraphQL",
        "fay completes #4: Let the client use GraphQL", "lead asks fay to shut down", "fay leaves, asked to",
        "lead takes fay off the team",
    ]  # fmt: skip
    assert of_those(told(repo), *steps) == steps
    assert "Migration complete." in done.out
    assert (repo / "client.txt").read_text() == "POST /graphql, in one request\n"
