"""The demo, run as a person would: once for a person and once for a program, side by side, in hostile surroundings."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import TIMEOUT, check_everything, diary, git, gitteam

from gitteam import Team
from gitteam.agents.lead import Outcome
from gitteam.demo.stage import Diary, DidNotComeAbout, Person
from gitteam.journal import Entry

ROOT = Path(__file__).parent.parent
# What a person may have configured; the demo is to be safe from all of it.
_HOSTILE = """\
[user]
    name = Evil
    email = evil@example.com
[commit]
    gpgSign = true
[core]
    hooksPath = {hooks}
[init]
    defaultBranch = trunk
"""


@dataclass(frozen=True)
class Played:
    repo: Path
    out: str
    err: str
    code: int


def _surroundings(home: Path) -> dict[str, str]:
    (home / "hooks").mkdir(parents=True)
    hook = home / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (home / ".gitconfig").write_text(_HOSTILE.format(hooks=home / "hooks"))
    proxy = "http://127.0.0.1:9"
    return {
        **os.environ, "HOME": str(home), "GIT_AUTHOR_NAME": "Evil", "GIT_DIR": "/nonexistent", "NO_COLOR": "1",
        "HTTP_PROXY": proxy, "http_proxy": proxy, "ANTHROPIC_BASE_URL": proxy, "ANTHROPIC_API_KEY": "not to be used",
    }  # fmt: skip


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """Two demos at the same time."""
    place = tmp_path_factory.mktemp("demo")
    environ = _surroundings(place / "home")
    wishes: dict[str, list[str]] = {"person": [], "program": ["--json"]}
    running = {
        name: subprocess.Popen(
            [sys.executable, "-m", "gitteam", "demo", name, *options], cwd=place, env=environ, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for name, options in wishes.items()
    }  # fmt: skip
    found = {}
    for name, process in running.items():
        out, err = process.communicate(timeout=3 * TIMEOUT)
        found[name] = Played(place / name, out, err, process.returncode)
    return found


@pytest.fixture
def demo(played: dict[str, Played]) -> Played:
    return played["person"]


@pytest.fixture
def told(demo: Played) -> list[str]:
    return diary(demo.repo)


def _in_order(told: list[str], *beginnings: str) -> bool:
    """Whether these come one after the other."""
    rest = iter(told)
    return all(any(sentence.startswith(beginning) for sentence in rest) for beginning in beginnings)


# -- what came about ------------------------------------------------------------------------------


def test_demo_ends_well_and_says_where_it_is(demo: Played) -> None:
    assert (demo.code, demo.err) == (0, "")
    assert f"  cd {demo.repo}\n" in demo.out


def test_each_task_is_claimed_once_by_whom_it_is_for_and_in_order(told: list[str]) -> None:
    claims = [re.match(r"(\w+) claims #([1-4]):", sentence) for sentence in told]
    found = [(c[1], c[2]) for c in claims if c]
    assert found == [("analyst", "1"), ("backend", "2"), ("backend", "3"), ("frontend", "4")]


def test_no_task_is_claimed_before_the_one_it_waits_for_is_completed(told: list[str]) -> None:
    steps = [f"{verb} #{number}:" for number in "1234" for verb in ("claims", "completes")]
    found = [step for sentence in told for step in steps if step in sentence]
    assert found == steps


def test_lead_plans_and_starts_the_team(told: list[str]) -> None:
    assert _in_order(
        told, *(f"lead adds #{number}: " for number in "1234"), "lead adds analyst to the team, analyst",
        "lead adds backend to the team, backend", "lead adds frontend to the team, frontend",
    )  # fmt: skip
    assert _in_order(told, "lead adds #4", "analyst claims #1")


def test_lead_rejects_a_plan_and_approves_another_one(told: list[str]) -> None:
    assert _in_order(
        told, "backend claims #2", "backend submits plan", "lead rejects backend's plan", "backend submits plan",
        "lead approves backend's plan", "backend completes #2",
    )  # fmt: skip


def test_lead_hears_of_the_task_that_the_person_dropped_in(demo: Played) -> None:
    assert re.search(r"^[\d:]+  lead +Sam's #5 is for whoever is free\.$", demo.out, re.MULTILINE)


def test_task_dropped_in_by_hand_wakes_somebody_while_another_one_is_under_way(told: list[str]) -> None:
    assert _in_order(told, "backend claims #3", "Sam adds #5", "frontend claims #5", "frontend completes #5")
    assert _in_order(told, "Sam adds #5", "frontend claims #5", "backend completes #3")


def test_message_is_read_in_the_middle_of_work(told: list[str]) -> None:
    assert _in_order(
        told, "backend claims #3", "Sam writes to backend", "backend takes 1 message", "backend completes #3"
    )


@pytest.mark.parametrize("name", ["analyst", "backend", "frontend"])
def test_everybody_is_asked_to_shut_down_and_answers(name: str, told: list[str]) -> None:
    assert _in_order(
        told, f"lead asks {name} to shut down", f"{name} agrees to shut down", f"{name} leaves, asked to",
        f"lead takes {name} off the team",
    )  # fmt: skip


def test_lead_says_at_the_end_that_the_migration_is_complete(demo: Played) -> None:
    after = demo.out.split("reports\n")[1]
    assert re.search(r"lead      Migration complete\. .*\ndone\n(  #\d  .*\n){5}", after)


def test_usage_of_everybody_is_written_down(demo: Played) -> None:
    used = json.loads(gitteam(demo.repo, "usage", "--json").out)
    assert [row["member"] for row in used["rows"]] == ["analyst", "backend", "frontend", "lead"]
    assert used["total"]["unpriced"] == 0


def test_history_is_sound_and_nothing_is_left_undone(demo: Played) -> None:
    with Team(demo.repo) as team:
        assert [task.status for task in team.tasks()] == ["completed"] * 5
        assert (team.requests(), team.members(), team.inbox("lead")) == ([], [], [])
        check_everything(team)
    assert git(demo.repo, "status", "--porcelain") == ""


# -- the app ----------------------------------------------------------------------------------------


def _python(demo: Played, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-B", *words], cwd=demo.repo, capture_output=True, text=True)


def test_app_passes_its_own_tests(demo: Played) -> None:
    done = _python(demo, "-m", "unittest")
    assert (done.returncode, "Ran 7 tests" in done.stderr) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ('{ book(id: "3") { title author { name } } }',
         {"data": {"book": {"title": "Invisible Cities", "author": {"name": "Italo Calvino"}}}}),
        ('{ book(id: "9") { title } }', {"data": {"book": None}}),
        ("{ books { titel } }", {"errors": [{"message": "Book has no field titel"}]}),
        ("{ books }", {"errors": [{"message": "books needs fields"}]}),
        ("{ books { title { x } } }", {"errors": [{"message": "title has no fields"}]}),
        ("{ book { title } }", {"errors": [{"message": "book takes id"}]}),
        ('{ book(id: "1") { title ', {"errors": [{"message": "unexpected end"}]}),
    ],
)  # fmt: skip
def test_app_answers_queries(demo: Played, query: str, answer: object) -> None:
    assert json.loads(_python(demo, "api.py", query).stdout) == answer


def test_members_commit_what_they_do(demo: Played) -> None:
    assert git(demo.repo, "log", "--format=%an", "main").split() == [
        "frontend", "backend", "Sam", "backend", "analyst", "Sam",
    ]  # fmt: skip


# -- its surroundings -------------------------------------------------------------------------------


def test_persons_own_identity_and_configuration_stay_out_of_it(demo: Played) -> None:
    people = git(demo.repo, "log", "--format=%an %ae %cn %ce", "main", "gitteam")
    assert "Evil" not in people
    assert git(demo.repo, "symbolic-ref", "HEAD") == "refs/heads/main"


def test_no_colour_is_shown_where_none_is_wanted(demo: Played) -> None:
    assert "\x1b" not in demo.out


def test_every_act_of_the_person_is_shown_as_it_is_typed(demo: Played) -> None:
    typed = re.findall(r"^\$ (\w+(?: [a-z]+)?)", demo.out, re.MULTILINE)
    for command in ("gitteam run", "echo", "gitteam send", "git log", "gitteam usage", "gitteam doctor"):
        assert command in typed
    assert "OK\n" in demo.out


def test_for_a_program_every_line_is_json_and_the_last_one_names_the_place(played: dict[str, Played]) -> None:
    demo = played["program"]
    *events, outcome, last = [json.loads(line) for line in demo.out.splitlines()]
    assert (demo.code, demo.err, last) == (0, "", {"directory": str(demo.repo)})
    assert (outcome["succeeded"], len(outcome["done"])) == (True, 5)
    assert "frontend completes #4: Let the client use GraphQL" in [event["sentence"] for event in events]


def _alike(line: str) -> str:
    """A line without what differs from one time to the next."""
    line = re.sub(r"^\d\d:\d\d:\d\d", "TIME", line.strip())
    return re.sub(r"\b(plan) [0-9a-f]{6}\b|in \d\.\d+s", r"\1 ID", line)


def test_readme_shows_what_the_demo_shows(demo: Played) -> None:
    section = (ROOT / "README.md").read_text().split("## What it looks like")[1].split("\n## ")[0]
    shown = [_alike(line) for line in re.findall(r"^    (.+)$", section, re.MULTILINE) if line != "[…]"]
    assert len(shown) > 30
    played = {_alike(line) for line in demo.out.splitlines()}
    assert [line for line in shown if line not in played] == []


# -- when it cannot be ------------------------------------------------------------------------------


def test_directory_with_something_in_it_is_refused_and_left_alone(repo: Path) -> None:
    before = sorted(repo.iterdir())
    result = gitteam(repo.parent, "demo", repo.name)
    assert (result.code, result.err) == (2, "gitteam: project is not empty: name a new directory\n")
    assert sorted(repo.iterdir()) == before


def test_without_git_it_says_so(tmp_path: Path) -> None:
    result = gitteam(tmp_path, "demo", "here", PATH=str(tmp_path))
    assert (result.code, result.err) == (1, "gitteam: git is not installed, or not on the PATH\n")


def test_first_thing_that_fails_ends_it_with_the_reason_and_the_place(tmp_path: Path) -> None:
    shim = tmp_path / "bin" / "git"
    shim.parent.mkdir()
    shim.write_text('#!/bin/sh\ncase "$1" in commit) echo "no room" >&2; exit 1; esac\nexec "$GIT" "$@"\n')
    shim.chmod(0o755)
    result = gitteam(
        tmp_path, "demo", "here", PATH=f"{shim.parent}{os.pathsep}{os.environ['PATH']}", GIT=shutil.which("git") or ""
    )
    assert (result.code, result.err) == (1, "gitteam: git commit: no room; what there is of it is in here\n")


class _Nobody:
    """A screen that nobody looks at."""

    hides_output = True

    def typed(self, line: str) -> None: ...
    def heading(self, text: str) -> None: ...
    def remark(self, text: str) -> None: ...
    def say(self, name: str, text: str) -> None: ...
    def show(self, entry: Entry) -> None: ...
    def report(self, outcome: Outcome) -> None: ...


def test_command_that_fails_ends_the_demo(tmp_path: Path) -> None:
    person = Person(tmp_path, _Nobody())
    person.types("true")
    with pytest.raises(DidNotComeAbout, match="`echo why; exit 3` ended with exit code 3: why"):
        person.types("echo why; exit 3")


def test_waiting_ends_when_nobody_is_left_who_could_do_it() -> None:
    diary = Diary(_Nobody())
    diary.end()
    with pytest.raises(DidNotComeAbout, match="this did not come about: bob claims #1"):
        diary.until("bob claims #1")


# -- the package --------------------------------------------------------------------------------------


def test_all_its_files_are_in_the_package() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["gitteam"]
    tracked = git(ROOT, "ls-files", "gitteam/demo/app", "gitteam/demo/script.toml").splitlines()
    assert len(tracked) > 5
    for path in tracked:
        name = path.removeprefix("gitteam/")
        assert any(_fits(name, pattern) for pattern in patterns), path


def _fits(name: str, pattern: str) -> bool:
    """As setuptools does it: a star matches neither a slash nor a dot at the beginning."""
    same_depth = name.count("/") == pattern.count("/")
    is_hidden = Path(name).name.startswith(".") and not Path(pattern).name.startswith(".")
    return same_depth and not is_hidden and fnmatch.fnmatch(name, pattern)
