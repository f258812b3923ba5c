"""The example scenarios: the lines at the top of each are typed as they stand, in a fresh repository."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TIMEOUT, check_everything, diary, gitteam, until
from test_cli import on_terminal

from gitteam import Team

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "examples" / "scripts"
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.toml") if not path.stem.startswith("lead-"))  # test_lead has those

Play = Callable[[str], list[str]]


def _lines(name: str) -> list[list[str]]:
    """The commands at the top of a scenario, in words."""
    return [
        shlex.split(line) for line in re.findall(r"^#   gitteam (.*)$", (SCRIPTS / f"{name}.toml").read_text(), re.M)
    ]


def _up(repo: Path, words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gitteam", "-C", str(repo), *words], cwd=ROOT, text=True, env=os.environ,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


@pytest.fixture
def play(repo: Path) -> Play:
    """Type a scenario's lines, to the end; what happened is the history."""

    def play(name: str) -> list[str]:
        gitteam(repo, "init")
        lines = _lines(name)
        at = next(number for number, words in enumerate(lines) if words[0] == "up")
        for words in lines[:at]:
            assert gitteam(repo, *words).code == 0
        up = _up(repo, lines[at])
        try:
            for words in lines[at + 1 :]:
                until(lambda words=words: gitteam(repo, *words).code == 0, " ".join(words))
            out = up.communicate(timeout=TIMEOUT)[0]
        finally:
            up.kill()
            up.communicate()
        assert up.returncode == 0, out
        assert "the script has no answer" not in out
        with Team(repo) as team:
            assert all(task.status == "completed" for task in team.tasks())
            check_everything(team)
        return diary(repo)

    return play


def _who(told: list[str], verb: str) -> list[str]:
    return [sentence.split(":")[0] for sentence in told if re.match(rf"\w+ {verb} #", sentence)]


def test_every_scenario_is_tried_here() -> None:
    assert NAMES == ["auto-claim", "broadcast", "dependencies", "message", "plan", "three-tasks"]


@pytest.mark.parametrize("name", NAMES)
def test_the_lines_of_a_scenario_name_itself(name: str) -> None:
    [up] = [words for words in _lines(name) if words[0] == "up"]
    assert up[-1] == f"examples/scripts/{name}.toml"
    assert f"scripts/{name}.toml" in (ROOT / "examples" / "README.md").read_text()


def test_three_tasks_are_done_one_after_the_other(play: Play, repo: Path) -> None:
    told = play("three-tasks")
    steps = [s.split(":")[0] for s in told if re.match(r"alice (claims|completes)", s)]
    assert steps == [f"alice {verb} #{number}" for number in (1, 2, 3) for verb in ("claims", "completes")]
    assert Team(repo).task(1).notes.endswith("1 files are tracked")


def test_dependencies_are_respected(play: Play, repo: Path) -> None:
    told = play("dependencies")
    steps = [re.sub(r"^\w+ ", "", s.split(":")[0]) for s in told if re.match(r"\w+ (claims|completes) ", s)]
    assert steps == [f"{verb} #{number}" for number in (1, 2, 3) for verb in ("claims", "completes")]
    assert Team(repo).task(3).notes.endswith("13 words")


def test_nothing_is_claimed_twice(play: Play) -> None:
    claims = _who(play("auto-claim"), "claims")
    assert sorted(claim.split("#")[1] for claim in claims) == ["1", "2", "3", "4"]
    assert {claim.split()[0] for claim in claims} == {"alice", "bob"}


def test_message_wakes_bob_and_his_answer_wakes_alice(play: Play, repo: Path) -> None:
    told = play("message")
    steps = ["alice writes to bob: Please look over ABOUT.md.", "bob writes to alice: ABOUT.md reads well."]
    steps.append("alice reports: Then it stays as it is.")
    assert [sentence for sentence in told if sentence in steps] == steps
    assert (repo / "ABOUT.md").read_text() == "Jane Doe began this project.\n"


def test_broadcast_reaches_everybody_else(play: Play) -> None:
    told = play("broadcast")
    for name in ("bob", "carol"):
        assert f"{name} reports: I change nothing any more." in told


def test_plan_is_rejected_and_the_next_one_approved(play: Play, repo: Path) -> None:
    told = play("plan")
    decisions = [re.sub(r" [0-9a-f]{6}", "", s.split(":")[0]) for s in told if "plan" in s.split(":")[0]]
    assert decisions == [
        "alice submits plan for #1", "Jane Doe rejects alice's plan",
        "alice submits plan for #1", "Jane Doe approves alice's plan",
    ]  # fmt: skip
    assert (repo / "README.md").read_text() == "# project\n"
    assert (repo / "WELCOME.md").exists()


def test_proxy_is_not_asked_for_the_model_on_this_machine(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert "alice completes #1: Tell everybody that the text is frozen" in play("broadcast")


def test_what_other_threads_print_has_no_colour_either(repo: Path) -> None:
    gitteam(repo, "init")
    *lines, up = _lines("broadcast")
    for words in lines:
        gitteam(repo, *words)
    shown = on_terminal(ROOT, "-C", str(repo), *up, NO_COLOR="1")
    assert "alice  joins" in shown
    assert "\x1b" not in shown
