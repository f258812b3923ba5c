"""The command line as scripts and people use it: output, exit codes, JSON, through real processes."""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from conftest import TIMEOUT, Result, Run, diary, git, gitteam, until

from gitteam import Team
from gitteam.cli import cli
from gitteam.cli import run as run_here
from gitteam.cli.common import fit, width

TASK = {
    "id", "subject", "description", "status", "owner", "blockedBy", "ready", "reason", "path", "claim", "role",
    "priority", "attempts", "notes",
}  # fmt: skip
MESSAGE = {"id", "type", "from", "to", "content", "timestamp"}
MEMBER = {"name", "role", "kind", "status", "reason", "since"}
NO_TEAM = "gitteam: there is no team in {root}: run `gitteam init`\n"


def new_team(root: Path) -> None:
    """A repository with a team in it, made outside of any test's own environment."""
    root.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        git(root, "init", "-q", "-b", "main")
        git(root, "config", "user.name", "Jane Doe")
        git(root, "config", "user.email", "jane@example.com")
        git(root, "commit", "-q", "--allow-empty", "-m", "first")
        Team.init(root)
        with Team(root) as team:
            team.add_member("alice", "backend")
            team.add_member("bob", "frontend", "external")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "project"
    new_team(root)
    return root


@pytest.fixture
def team(repo: Path, template: Path) -> Iterator[Team]:
    """A team with alice and bob: a copy, because most tests here need one and making it takes longer than they do."""
    shutil.rmtree(repo)
    shutil.copytree(template, repo)
    with Team(repo) as team:
        yield team


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board that is only looked at: a task in every state, three members, a message for alice and one for you."""
    root = tmp_path_factory.mktemp("standing") / "crew"
    new_team(root)
    with Team(root) as team:
        team.add_member("carol", kind="person")
        team.add("Analyze the endpoints", "All of them")
        team.claim(1, by="bob")
        team.done(1, "12 endpoints", by="bob")
        team.add("Design the schema")
        team.claim(2, by="alice")
        team.add("Write the resolvers", blocked_by=[2])
        team.add("Style the page", role="frontend", priority=5)
        team.add("Print the manual")
        team.cancel(5)
        team.send("alice", "Please look at pagination")
        team.send("user", "Which port?", by="alice")
    (root / "sub").mkdir()
    return root


@pytest.fixture
def look(standing: Path) -> Run:
    """Run a command on the standing board."""
    return lambda *args, **kwargs: gitteam(standing, *args, **kwargs)


# -- what is refused, and how ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("frob", 2, "frob"),
        ("task add", 2, "SUBJECT"),
        ("task add ''", 2, "subject"),
        ("task add x --priority high", 2, "high"),
        ("task add x --role 'Back End'", 2, "Back End"),
        ("task add x --blocked-by 99", 3, "no task #99: the highest is #5"),
        ("task add x --as zed", 3, "alice, bob, carol, and you, `user`"),
        ("task list --status doing", 2, "doing"),
        ("task show x", 2, "'x' is no task number"),
        ("task show ٣", 2, "no task number"),
        ("task show 99", 3, "no task #99"),
        ("task claim 1 --as carol", 4, "it is completed"),
        ("task claim 2 --as carol", 4, "alice has it"),
        ("task claim 3 --as carol", 4, "blocked by #2"),
        ("task claim 4 --as carol", 4, "for the role frontend"),
        ("task claim --as carol", 3, "nothing for carol to claim"),
        ("task done 2 --as bob", 4, "alice has it"),
        ("task done 2 --as alice --claim 7", 4, "claim 7 of #2 is over: alice has it with claim 1"),
        ("task done 1 --as bob", 4, "completed already by bob"),
        ("task done 3 --as bob", 4, "nobody has claimed it"),
        ("task release 2 --as bob", 4, "alice has it"),
        ("task release 2 --as alice --claim 7", 4, "claim 7 of #2 is over"),
        ("task release 3 --as user", 4, "nobody has it"),
        ("task note 2 ' '", 2, "empty note"),
        ("task block 2 --by 3", 4, "for ever"),
        ("task cancel 5", 4, "cancelled already"),
        ("task cancel 2 --as bob", 4, "alice has it"),
        ("send zed hi", 3, "alice, bob, carol"),
        ("send alice ''", 2, "empty message"),
        ("send alice hi --type shout", 2, "shout"),
        ("send alice hi --as zed", 3, "alice, bob, carol"),
        ("inbox zed", 3, "alice, bob, carol"),
        ("inbox --take", 2, "say whose"),
        ("wait --as zed", 3, "alice, bob, carol"),
        ("wait --as carol --timeout 0", 3, "nothing came for carol"),
        ("member add alice", 4, "alice is on the team already"),
        ("member add lead", 2, "reserved"),
        ("member add Zed", 2, "Zed"),
        ("member add zed --role 'X Y'", 2, "X Y"),
        ("member remove zed", 3, "alice, bob, carol"),
        ("log 99", 3, "no task #99"),
        ("log zed", 3, "alice, bob, carol"),
        ("init --branch other", 4, "branch gitteam"),
    ],
)
def test_a_refusal_is_one_line_with_its_exit_code_and_changes_nothing(
    standing: Path, look: Run, words: str, code: int, says: str
) -> None:
    before = git(standing, "rev-parse", "gitteam")
    result = look(*shlex.split(words))
    assert result.code == code
    assert says in result.err
    assert (result.out, result.err.count("\n")) == ("", 1)
    assert git(standing, "rev-parse", "gitteam") == before


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        ("task show 99", "not-found", 3),
        ("task claim --as carol", "nothing", 3),
        ("task claim 2 --as bob", "conflict", 4),
        ("task add x --priority high", "usage", 2),
        ("frob", "usage", 2),
    ],
)
def test_an_error_with_json_is_an_object_on_the_other_stream(look: Run, words: str, kind: str, code: int) -> None:
    result = look(*words.split(), "--json")
    error = json.loads(result.err)["error"]
    assert (result.code, result.out) == (code, "")
    assert set(error) == {"kind", "message", "exit"}
    assert (error["kind"], error["exit"]) == (kind, code)


def test_where_there_is_no_team_one_line_says_what_to_do(repo: Path, run: Run) -> None:
    assert (run("task").code, run("task").err) == (1, NO_TEAM.format(root=repo))


@pytest.mark.parametrize("words", [["task"], ["init"], []])
def test_outside_a_repository_one_line_says_so(tmp_path: Path, words: list[str]) -> None:
    result = gitteam(tmp_path, *words)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "not in a git repository" in result.err


def test_in_a_bare_repository_one_line_says_so(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare")
    result = gitteam(tmp_path, "init")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "bare" in result.err


def test_without_git_one_line_says_so_and_reading_goes_on(look: Run) -> None:
    assert look("task", PATH="/nonexistent").code == 0
    result = look("task", "add", "x", PATH="/nonexistent")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "git is not installed, or not on the PATH" in result.err


@pytest.mark.parametrize("value", ["soon", "nan"])
def test_a_lock_timeout_that_is_none_is_refused(look: Run, value: str) -> None:
    result = look("task", "note", "3", "x", GITTEAM_LOCK_TIMEOUT=value)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert value in result.err


MEGABYTE = b"x" * (1 << 20)


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["task", "add", "s", "-d", "-"], b"a\0b"),
        (["task", "add", b"s\xff"], b""),
        (["task", "note", "3", "-"], b"a\xffb"),
        (["task", "note", "3", "-"], MEGABYTE),
        (["task", "done", "2", "-m", "-"], b"\0"),
        (["task", "cancel", "3", "-m", b"\xff"], b""),
        (["send", "alice", "-"], b"\xff"),
        (["send", "alice", "-"], MEGABYTE),
    ],
    ids=range(8),
)
def test_a_text_that_cannot_be_stored_is_refused_in_one_line(standing: Path, words: list[Any], stdin: bytes) -> None:
    before = git(standing, "rev-parse", "gitteam")
    command = [sys.executable, "-m", "gitteam", *words]
    done = subprocess.run(command, cwd=standing, input=stdin, capture_output=True, timeout=TIMEOUT)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert git(standing, "rev-parse", "gitteam") == before


# -- reading --------------------------------------------------------------------------------------------


def test_the_board_shows_what_is_in_progress_ready_blocked_and_done(look: Run) -> None:
    assert look("task").out.splitlines() == [
        "in progress",
        "  #2  Design the schema      alice",
        "ready",
        "  #4  Style the page         for frontend priority 5",
        "blocked",
        "  #3  Write the resolvers    by #2",
        "done",
        "  #1  Analyze the endpoints  bob",
        "  #5  Print the manual       cancelled",
    ]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ("task", [1, 2, 3, 4, 5]),
        ("task --all", [1, 2, 3, 4, 5]),
        ("task list --ready", [4]),
        ("task list --status completed", [1]),
        ("task list --status pending", [3, 4]),
        ("task list --owner alice", [2]),
        ("task list --owner alice --status completed", []),
    ],
)
def test_lists_are_bare_arrays_of_tasks(look: Run, words: str, ids: list[int]) -> None:
    result = look(*words.split(), "--json")
    assert (result.code, result.err) == (0, "")
    assert [task["id"] for task in result.json] == ids
    assert all(set(task) == TASK for task in result.json)


def test_a_task_as_json(look: Run) -> None:
    found = look("task", "show", "#3", "--json").json
    assert set(found) == TASK
    assert {key: found[key] for key in ("id", "blockedBy", "ready", "reason", "claim", "owner")} == {
        "id": 3, "blockedBy": [2], "ready": False, "reason": "blocked by #2", "claim": 0, "owner": "",
    }  # fmt: skip


def test_a_task_as_text(look: Run) -> None:
    lines = look("task", "show", "1").out.splitlines()
    assert lines[:5] == [
        "#1  Analyze the endpoints", "  completed, by bob", "  .tasks/1-analyze-the-endpoints.md", "", "  All of them",
    ]  # fmt: skip
    assert lines[-1].endswith("bob: 12 endpoints")


def test_an_inbox_is_shown_and_not_consumed(look: Run) -> None:
    first, second = look("inbox", "alice", "--json"), look("inbox", "alice", "--json")
    assert first.json == second.json
    assert [set(message) for message in first.json] == [MESSAGE]
    assert first.json[0]["content"] == "Please look at pagination"
    assert look("inbox", "alice").out.splitlines()[1:] == ["  Please look at pagination"]


def test_the_inbox_without_a_name_is_the_persons(look: Run) -> None:
    assert [(m["from"], m["content"]) for m in look("inbox", "--json").json] == [("alice", "Which port?")]


@pytest.mark.parametrize("words", [["member"], ["member", "list"]])
def test_members_as_json(look: Run, words: list[str]) -> None:
    found = look(*words, "--json").json
    assert [(m["name"], m["role"], m["kind"]) for m in found] == [
        ("alice", "backend", "agent"), ("bob", "frontend", "external"), ("carol", "", "person"),
    ]  # fmt: skip
    assert all(set(member) == MEMBER for member in found)


def test_status_as_json(look: Run) -> None:
    found = look("status", "--json").json
    assert set(found) == {"team", "branch", "members", "tasks", "needs", "unreadable", "usage"}
    assert (found["team"], found["branch"], found["unreadable"]) == ("crew", "gitteam", [])
    assert set(found["members"][0]) == {"name", "role", "kind", "status", "alive", "tasks", "unread"}
    assert (found["members"][0]["tasks"], found["members"][0]["unread"]) == ([2], 1)
    assert found["tasks"] == {
        "ready": 1, "in_progress": 1, "blocked": 1, "failed": 0, "completed": 1, "cancelled": 1,
    }  # fmt: skip


def test_status_says_what_needs_a_person(look: Run) -> None:
    out = look("status").out
    assert "alice" in out
    assert "gitteam inbox user" in out


def test_bare_gitteam_shows_the_status_and_the_next_thing_to_type(look: Run) -> None:
    result = look()
    assert result.code == 0
    assert result.out == look("status").out
    assert result.err == "next: gitteam inbox user\n"


def test_the_next_thing_to_type_works(repo: Path, run: Run) -> None:
    """Following nothing but the advice leads from nothing to a task in progress."""
    said = []
    for _ in range(4):
        step = run("--json").json["next"]
        said.append(step)
        assert run(*shlex.split(step)[1:]).code == 0
    assert said[0] == "gitteam init"
    assert run("task", "--json").json[0]["status"] == "in_progress"


def test_the_diary_as_json(look: Run) -> None:
    found = look("log", "--json").json
    assert all(set(entry) == {"commit", "time", "author", "sentence", "event", "task"} for entry in found)
    assert found[-1]["sentence"] == "Jane Doe starts team crew"
    assert found[0]["sentence"] == "alice writes to user: Which port?"


@pytest.mark.parametrize(
    ("target", "first", "count"),
    [("2", "alice claims #2: Design the schema", 2), ("#2", "alice claims #2", 2), ("bob", "bob completes #1", 2)],
)
def test_the_diary_of_a_task_or_a_member(look: Run, target: str, first: str, count: int) -> None:
    found = look("log", target, "--json").json
    assert found[0]["sentence"].startswith(first)
    assert len(found) == count


@pytest.mark.parametrize("target", [[], ["2"], ["bob"], ["user"]])
def test_the_git_command_that_is_shown_gives_the_same_entries(standing: Path, look: Run, target: list[str]) -> None:
    result = look("log", *target)
    command = result.err.removeprefix("the same with git: ").strip()
    shown = [line.split()[0] for line in result.out.splitlines()]
    same = subprocess.run(shlex.split(command), cwd=standing, capture_output=True, text=True, check=True).stdout
    assert len(shown) > 1
    assert [line[:7] for line in same.splitlines()] == [commit[:7] for commit in shown]


def test_the_diary_can_be_cut_short(look: Run) -> None:
    assert len(look("log", "-n", "2", "--json").json) == 2


def test_doctor_finds_nothing_wrong(look: Run) -> None:
    assert (look("doctor").code, look("doctor", "--json").json) == (0, [])


def test_what_is_empty_is_an_empty_array_with_exit_0(repo: Path, run: Run) -> None:
    Team.init(repo)
    for words in ("task", "task --ready", "inbox", "inbox user", "member", "doctor"):
        result = run(*words.split(), "--json")
        assert (words, result.code, result.out, result.err) == (words, 0, "[]\n", "")


# -- everywhere -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["-C", "{}", "task"], ["task", "-C", "{}"], ["task", "list", "-C", "{}"]])
def test_a_directory_may_be_named_before_or_after_the_command(
    standing: Path, look: Run, tmp_path: Path, words: list[str]
) -> None:
    words = [word.format(standing) for word in words]
    assert gitteam(tmp_path, *words).out == look("task").out


@pytest.mark.parametrize("words", [["task", "-C", "{}", "show", "1"], ["task", "--json", "show", "1"]])
def test_the_common_options_may_stand_before_a_subcommand_too(standing: Path, look: Run, words: list[str]) -> None:
    result = look(*[word.format(standing) for word in words])
    assert (result.code, "Analyze the endpoints" in result.out) == (0, True)


def test_any_directory_of_the_repository_will_do(standing: Path, look: Run) -> None:
    assert gitteam(standing / "sub", "task").out == look("task").out


def test_a_directory_that_is_not_there_is_named(look: Run) -> None:
    result = look("-C", "/nonexistent/x", "task")
    assert (result.code, result.err) == (1, "gitteam: /nonexistent/x: no such directory\n")


@pytest.mark.parametrize("words", [["--json", "task", "show", "1"], ["task", "show", "1", "--json"]])
def test_json_may_be_asked_for_before_or_after_the_command(look: Run, words: list[str]) -> None:
    assert look(*words).json["id"] == 1


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command
            yield from commands(command, (*path, name))


COMMANDS = dict(commands(cli))


def test_the_commands_are_those_of_the_contract() -> None:
    verbs = ["list", "add", "show", "edit", "claim", "release", "done", "note", "block", "cancel"]
    tasks = {f"task {verb}" for verb in verbs}
    members = {"member", "member list", "member add", "member remove"}
    others = {
        "",
        "init",
        "task",
        "send",
        "broadcast",
        "inbox",
        "wait",
        "run",
        "chat",
        "up",
        "join",
        "stop",
        "approve",
        "reject",
        "demo",
        "status",
        "watch",
        "log",
        "usage",
        "doctor",
        "completion",
        "uninstall",
    }
    assert {" ".join(path) for path in COMMANDS} == tasks | members | others


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_has_an_example(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here([*path, "--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert any(" ".join(["gitteam", *path]) in line for line in lines if not line.startswith("Usage"))


@pytest.mark.parametrize("path", [p for p in COMMANDS if not isinstance(COMMANDS[p], click.Group)], ids=" ".join)
def test_every_command_takes_json_and_a_directory(path: tuple[str, ...]) -> None:
    assert {"--json", "-C"} <= {name for param in COMMANDS[path].params for name in param.opts}


CHANGING = "task add, task claim, task release, task done, task note, task block, task cancel, send, broadcast"


@pytest.mark.parametrize("name", [*CHANGING.split(", "), "member add", "member remove"])
def test_every_changing_command_takes_a_name_to_act_as(name: str) -> None:
    assert "--as" in {name for param in COMMANDS[tuple(name.split())].params for name in param.opts}


def test_the_short_help_is_the_help(look: Run) -> None:
    assert look("task", "add", "-h").out == look("task", "add", "--help").out


def test_the_installed_script_is_the_program(standing: Path, look: Run) -> None:
    script = shutil.which("gitteam", path=str(Path(sys.executable).parent))
    assert script, "install the project: pip install -e ."
    done = subprocess.run([script, "task"], cwd=standing, capture_output=True, text=True, check=True)
    assert done.stdout == look("task").out


def on_terminal(cwd: Path, *args: str, **env: str) -> str:
    """What the program writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "gitteam", *args], cwd=cwd, stdout=theirs, stderr=theirs, env={**os.environ, **env}
    ):
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 4096):
                shown += data
        except OSError:  # how a terminal says that nobody writes any more
            pass
    os.close(ours)
    return shown.decode()


@pytest.mark.parametrize("words", [["task"], ["log"], ["task", "show", "99"]])
def test_no_color_is_honoured(standing: Path, words: list[str]) -> None:
    assert "\x1b[" not in on_terminal(standing, *words, NO_COLOR="1")


def test_a_terminal_gets_colours_and_a_pipe_none(standing: Path, look: Run) -> None:
    assert "\x1b[" in on_terminal(standing, "task", NO_COLOR="")
    assert "\x1b[" not in look("task", NO_COLOR="").out


def test_what_hides_in_a_text_is_shown_and_json_stays_valid(team: Team, run: Run) -> None:
    nasty = "red \x1b[31m bidi \u202e zero \u200b end"
    team.add(nasty, nasty)
    team.note(1, nasty)
    team.send("user", nasty, by="alice")
    for words in (["task"], ["task", "show", "1"], ["inbox"], ["log"], ["status"]):
        out = run(*words).out
        assert not {"\x1b", "\u202e", "\u200b"} & set(out)
    assert "\\x1b[31m" in run("task").out
    assert run("task", "--json").json[0]["subject"] == nasty
    assert run("inbox", "--json").json[0]["content"] == nasty


def test_no_row_of_the_board_is_wider_than_the_screen(team: Team, run: Run) -> None:
    team.add("日本語" * 40)
    team.add("a long subject " * 20, blocked_by=[1])
    team.add("x", role="backend", priority=7)
    for columns in (40, 60, 110):
        assert max(width(line) for line in run("task", COLUMNS=str(columns)).out.splitlines()) <= columns


def test_a_name_of_forty_letters_fits_everywhere(team: Team, run: Run) -> None:
    name = "a-very-long-name-".ljust(40, "x")
    team.add_member(name, name)
    team.add("Fix it", role=name)
    team.claim(1, by=name)
    for words in (["member"], ["status"], ["task", "show", "1"], ["log"]):
        assert name in run(*words, COLUMNS="100").out


@pytest.mark.parametrize("columns", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "text", ["", "ab", "abcdefghi", "日本語日本語", "e\u0301e\u0301e\u0301e\u0301", "two\nlines", "\x1b[31m"]
)
def test_a_text_is_fitted_to_exactly_so_many_columns(text: str, columns: int) -> None:
    assert width(fit(text, columns)) == columns


# -- what is loaded ---------------------------------------------------------------------------------------

LOADED = "import sys, gitteam.cli; gitteam.cli.run(sys.argv[1:]); print('loaded', *sys.modules, file=sys.stderr)"


def loaded(cwd: Path, *words: str) -> set[str]:
    """The top-level modules one call of the program imports."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words], cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    return set(done.stderr.splitlines()[-1].split()[1:])


READING = ["", "task --all", "task show 1", "inbox alice", "member", "status --json"]


@pytest.mark.parametrize("words", READING)
def test_reading_commands_load_neither_git_nor_watchdog(standing: Path, words: str) -> None:
    assert not {"git", "watchdog", "anthropic"} & loaded(standing, *words.split())


def test_reading_commands_load_no_git_after_a_gc_either(team: Team, repo: Path) -> None:
    team.add("Fix it")
    git(repo, "gc", "-q")
    assert not {"git", "watchdog"} & loaded(repo, "task")


@pytest.mark.parametrize(
    ("words", "module"), [("task add x", "git"), ("log", "git"), ("wait --as alice --timeout 0", "watchdog")]
)
def test_other_commands_load_what_they_need_and_never_anthropic(
    team: Team, repo: Path, words: str, module: str
) -> None:
    found = loaded(repo, *words.split())
    assert module in found
    assert "anthropic" not in found


def test_only_the_agents_load_anthropic_and_no_module_works_on_import() -> None:
    code = """if True:
        import importlib, pkgutil, sys, threading, gitteam
        for module in pkgutil.walk_packages(gitteam.__path__, "gitteam."):
            if not module.name.startswith(("gitteam.__main__", "gitteam.agents", "gitteam.tools")):
                importlib.import_module(module.name)
        assert not {"anthropic", "git", "watchdog"} & set(sys.modules), sorted(sys.modules)
        assert threading.active_count() == 1
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=TIMEOUT)


# -- completion -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_produced_and_the_shell_can_read_it(look: Run, tmp_path: Path, shell: str) -> None:
    result = look("completion", shell)
    assert (result.code, result.err) == (0, "")
    assert "_GITTEAM_COMPLETE" in result.out
    if program := shutil.which(shell):
        (tmp_path / "script").write_text(result.out)
        subprocess.run([program, "-n", str(tmp_path / "script")], check=True, timeout=TIMEOUT)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("gitteam me", {"member"}),
        ("gitteam task ", {"list", "add", "show", "edit", "claim", "release", "done", "note", "block", "cancel"}),
        ("gitteam member ", {"list", "add", "remove"}),
        ("gitteam task show ", {"1", "2", "3", "4", "5"}),
        ("gitteam task claim --as ", {"alice", "bob", "carol", "user", "lead"}),
        ("gitteam wait --as c", {"carol"}),
        ("gitteam send b", {"bob"}),
        ("gitteam task list --owner a", {"alice"}),
        ("gitteam task block 3 --by 4", {"4"}),
    ],
)
def test_commands_names_and_numbers_are_completed(look: Run, line: str, offered: set[str]) -> None:
    words = line.split() + ([""] if line.endswith(" ") else [])
    result = look(COMP_WORDS=line, COMP_CWORD=str(len(words) - 1), _GITTEAM_COMPLETE="bash_complete")
    assert {entry.partition(",")[2] for entry in result.out.splitlines()} == offered


# -- init and uninstall -----------------------------------------------------------------------------------


def test_init_says_what_it_did_and_three_commands_to_try(repo: Path, run: Run) -> None:
    result = run("init")
    assert (result.code, result.out) == (0, "started team project, history on branch gitteam\n")
    hints = result.err.splitlines()
    assert "info/exclude" in hints[0]
    assert [shlex.split(line)[0] for line in hints[-3:]] == ["gitteam"] * 3
    for line in hints[-3:]:
        assert run(*shlex.split(line)[1:]).code == 0


def test_init_twice_finds_the_team_and_changes_nothing(repo: Path, run: Run) -> None:
    run("init", "--name", "crew")
    before = [git(repo, "rev-parse", "gitteam"), (repo / ".git/info/exclude").read_text()]
    result = run("init", "--json")
    assert result.json == {"team": "crew", "branch": "gitteam", "created": False, "tracked": False}
    assert [git(repo, "rev-parse", "gitteam"), (repo / ".git/info/exclude").read_text()] == before


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ([], {"team": "project", "branch": "gitteam", "created": True, "tracked": False}),
        (
            ["--name", "crew", "--branch", "diary"],
            {"team": "crew", "branch": "diary", "created": True, "tracked": False},
        ),
        (["--branch", "main"], {"team": "project", "branch": "main", "created": True, "tracked": True}),
    ],
)
def test_init_as_json(repo: Path, run: Run, words: list[str], made: dict[str, Any]) -> None:
    result = run("init", *words, "--json")
    assert (result.json, result.err) == (made, "")


@pytest.mark.parametrize("words", [["--name", "My Team"], ["--branch", "a..b"], ["--branch", "-x"], ["--name", "../x"]])
def test_init_refuses_what_is_no_name(repo: Path, run: Run, words: list[str]) -> None:
    result = run("init", *words)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert not (repo / ".team").exists()


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("", 1), ("y\n", 0)])
def test_uninstall_asks_first(team: Team, repo: Path, run: Run, answer: str, code: int) -> None:
    result = run("uninstall", stdin=answer)
    assert (result.code, (repo / ".tasks").exists()) == (code, code != 0)
    assert "remove the board" in result.err
    assert "remove the board" not in result.out


def test_uninstall_takes_away_all_that_init_put_there_but_the_branch(repo: Path, run: Run) -> None:
    (repo / ".git/info/exclude").write_text("# mine\n*.o")
    before = sorted(str(path.relative_to(repo)) for path in repo.rglob("*") if ".git/objects" not in str(path))
    run("init")
    run("task", "add", "x")
    result = run("uninstall", "--yes", "--json")
    assert result.json == {"removed": True, "branch": "gitteam", "left": []}
    after = sorted(str(path.relative_to(repo)) for path in repo.rglob("*") if ".git/objects" not in str(path))
    assert [
        path for path in after if path not in before and "refs/heads/gitteam" not in path and "/logs/" not in path
    ] == []
    assert (repo / ".git/info/exclude").read_text().strip() == "# mine\n*.o"
    assert len(diary(repo)) == 2
    assert run("task").code == 1


def test_uninstall_with_history_deletes_the_branch(team: Team, repo: Path, run: Run) -> None:
    assert run("uninstall", "--yes", "--history", "--json").json == {"removed": True, "branch": None, "left": []}
    assert git(repo, "branch", "--list", "gitteam") == ""


def test_after_uninstall_init_finds_the_history_again(team: Team, run: Run) -> None:
    team.add("Fix it")
    run("uninstall", "--yes")
    assert run("init", "--json").json["created"] is False
    assert [task["subject"] for task in run("task", "--json").json] == ["Fix it"]


# -- tasks ------------------------------------------------------------------------------------------------


def test_every_change_of_a_task_prints_the_task(team: Team, repo: Path, run: Run) -> None:
    steps = [
        (["add", "Fix it", "-d", "Soon", "--role", "backend", "--priority", "3"], "pending", "user"),
        (["claim", "--as", "alice"], "in_progress", "alice"),
        (["release", "1", "--as", "alice", "--claim", "1", "-m", "later"], "pending", "alice"),
        (["claim", "1", "--as", "alice"], "in_progress", "alice"),
        (["note", "1", "half way", "--as", "bob"], "in_progress", "bob"),
        (["done", "1", "--as", "alice", "--claim", "2", "-m", "fixed"], "completed", "alice"),
        (["release", "1", "--force"], "pending", "user"),
        (["cancel", "1"], "cancelled", "user"),
    ]
    for words, status, actor in steps:
        found = run("task", *words, "--json").json
        assert (set(found), found["id"], found["status"]) == (TASK, 1, status)
        author = git(repo, "log", "-1", "--format=%an <%ae>", "gitteam")
        assert author == ("Jane Doe <jane@example.com>" if actor == "user" else f"{actor} <{actor}@gitteam.invalid>")
    assert (found["description"], found["role"], found["priority"], found["claim"]) == ("Soon", "backend", 3, 2)
    assert [line.split(": ", 1)[1] for line in found["notes"].splitlines()] == ["later", "half way", "fixed"]


def test_the_diary_reads_well(team: Team, repo: Path, run: Run) -> None:
    for words in (
        "task add First",
        "task add Second --blocked-by 1",
        "task claim --as alice",
        "task done 1 --as alice",
    ):
        run(*words.split())
    run("task", "release", "1", "--force", "--as", "bob")
    run("send", "alice", "Please look at pagination")
    assert diary(repo)[3:] == [
        "Jane Doe adds #1: First",
        "Jane Doe adds #2: Second",
        "alice claims #1: First",
        "alice completes #1: First",
        "bob reopens #1 of alice: First",
        "Jane Doe writes to alice: Please look at pagination",
    ]


def test_a_change_prints_number_and_subject(team: Team, run: Run) -> None:
    assert run("task", "add", "  Fix   it ").out == "1 Fix it\n"
    assert run("task", "claim", "--as", "alice").out == "1 Fix it\n"


def test_blockers_are_given_one_by_one(team: Team, run: Run) -> None:
    for word in ("a", "b"):
        run("task", "add", word)
    assert run("task", "add", "c", "--blocked-by", "1", "--blocked-by", "#2", "--json").json["blockedBy"] == [1, 2]


def test_block_adds_a_blocker(team: Team, run: Run) -> None:
    team.add("a")
    team.add("b")
    found = run("task", "block", "1", "--by", "2", "--json").json
    assert (found["blockedBy"], found["ready"]) == ([2], False)


@pytest.mark.parametrize(
    ("words", "key"), [("task add x -d -", "description"), ("task note 1 -", "notes"), ("task done 1 -m -", "notes")]
)
def test_a_dash_reads_the_text_from_standard_input(team: Team, run: Run, words: str, key: str) -> None:
    team.add("Fix it")
    found = run(*words.split(), "--json", stdin="first line\n\nlast: grüße\n").json
    assert "first line" in found[key]
    assert "last: grüße" in found[key]


def test_the_person_claims_without_a_name(team: Team, run: Run) -> None:
    team.add("Fix it")
    assert run("task", "claim", "--json").json["owner"] == "user"


def test_a_second_claim_names_the_owner(team: Team, run: Run) -> None:
    team.add("Fix it")
    team.claim(1, by="alice")
    assert run("task", "claim", "1", "--as", "bob").err == "gitteam: bob cannot claim #1: alice has it\n"


def test_whoever_holds_a_task_gets_that_one_again(team: Team, repo: Path, run: Run) -> None:
    team.add("Fix it")
    team.add("More", priority=9)
    team.claim(1, by="alice")
    before = git(repo, "rev-parse", "gitteam")
    assert run("task", "claim", "--as", "alice", "--json").json["id"] == 1
    assert run("task", "claim", "2", "--as", "alice").code == 4
    assert git(repo, "rev-parse", "gitteam") == before


@pytest.mark.parametrize("verb", ["done", "release"])
def test_a_stale_claim_number_is_refused(team: Team, run: Run, verb: str) -> None:
    """A holder that lost its task and got it again must not end it with what it knew before."""
    team.add("Fix it")
    for _ in range(2):
        team.claim(1, by="alice")
        team.release(1, by="alice")
    team.claim(1, by="alice")
    assert run("task", verb, "1", "--as", "alice", "--claim", "2").code == 4
    assert run("task", verb, "1", "--as", "alice", "--claim", "3").code == 0


@pytest.mark.parametrize("verb", ["done", "release"])
def test_the_claim_number_of_a_task_that_was_handed_back_is_over(team: Team, run: Run, verb: str) -> None:
    team.add("Fix it")
    team.claim(1)
    team.release(1)
    result = run("task", verb, "1", "--claim", "1")
    assert (result.code, result.err) == (4, "gitteam: claim 1 of #1 is over: it is pending\n")


def test_force_releases_what_somebody_else_holds_and_is_recorded(team: Team, repo: Path, run: Run) -> None:
    team.add("Fix it")
    team.claim(1, by="alice")
    assert run("task", "release", "1", "--as", "bob", "--force", "--json").json["status"] == "pending"
    assert git(repo, "log", "-1", "--format=%(trailers:key=Team-Override,valueonly)", "gitteam").strip() == "alice"


def test_a_dropped_file_is_a_task_by_the_next_command(team: Team, repo: Path, run: Run) -> None:
    (repo / ".tasks/fix-login.md").write_text("Fix the login page\n")
    assert run("task", "--json").json[0]["path"] == ".tasks/1-fix-login.md"
    assert diary(repo)[-1] == "Jane Doe adds #1: Fix the login page"


def test_a_file_that_cannot_be_read_is_named_with_line_and_reason(team: Team, repo: Path, run: Run) -> None:
    (repo / ".tasks/x.md").write_text("---\nsubject: x\nstatus: doing\n---\n")
    found = run("status", "--json").json["unreadable"]
    assert [set(entry) for entry in found] == [{"path", "reason"}]
    assert found[0]["path"] == ".tasks/x.md"
    assert "line 3" in found[0]["reason"]
    assert "x.md" in run("status").out
    doctor = run("doctor", "--json")
    assert doctor.code == 1
    assert [set(entry) for entry in doctor.json] == [{"finding", "mended"}]
    assert "line 3" in doctor.json[0]["finding"]


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_bad_file_keeps_its_number_to_itself(team: Team, repo: Path, run: Run, by_hand: bool) -> None:
    bad = "---\nsubject: x\nstatus: doing\n---\n"
    (repo / ".tasks/1-login.md").write_text(bad)
    if by_hand:
        (repo / ".tasks/login.md").write_text("Login\n")
    else:
        assert run("task", "add", "Login").code == 0
    found = run("task", "--json").json
    assert [(task["subject"], task["ready"]) for task in found] == [("Login", True)]
    assert (repo / found[0]["path"]).read_text() != bad
    assert (repo / ".tasks/1-login.md").read_text() == bad
    assert run("task", "add", "More").code == 0


def test_doctor_is_content_after_a_persons_commit_was_mended(team: Team, repo: Path, run: Run) -> None:
    team.add("Fix it")
    team.claim(1, by="alice")
    tree = repo.parent / "elsewhere"
    git(repo, "worktree", "add", "-q", str(tree), "gitteam")
    file = tree / ".tasks/1-fix-it.md"
    file.write_text(file.read_text().replace("claim: 1", "claim: 7"))
    git(tree, "commit", "-qam", "my own")
    git(repo, "worktree", "remove", "--force", str(tree))
    assert run("task", "show", "1", "--json").json["claim"] == 1
    assert run("doctor", "--json").json == []


# -- task edit --------------------------------------------------------------------------------------------


@pytest.fixture
def editor(tmp_path: Path) -> Any:
    """An editor that runs these lines of Python with `text` and `path`, and saves `text` if it changed."""

    def make(code: str) -> str:
        script = tmp_path / "my editor.py"
        script.write_text(
            f"import os, sys\npath = sys.argv[-1]\ntext = before = open(path).read()\n{code}\n"
            "if text != before:\n    open(path, 'w').write(text)\n"
        )
        return shlex.join([sys.executable, str(script), "--wait"])

    return make


def test_what_the_editor_saves_is_taken_in_as_the_persons_commit(team: Team, repo: Path, run: Run, editor: Any) -> None:
    team.add("Fix it")
    result = run("task", "edit", "1", "--json", EDITOR=editor("text = text.replace('Fix it', 'Mend it')"))
    assert (result.code, result.json["subject"]) == (0, "Mend it")
    assert git(repo, "log", "-1", "--format=%an %s", "gitteam") == "Jane Doe Jane Doe edits #1: Mend it"


def test_visual_goes_before_editor(team: Team, run: Run, editor: Any) -> None:
    team.add("Fix it")
    visual = editor("text = text.replace('Fix it', 'By visual')")
    assert run("task", "edit", "1", VISUAL=visual, EDITOR="false").out == "1 By visual\n"


def test_an_editor_that_saves_by_renaming_is_fine(team: Team, run: Run, editor: Any) -> None:
    team.add("Fix it")
    code = "open(path + '~', 'w').write(text + 'more\\n')\nos.rename(path + '~', path)"
    assert run("task", "edit", "1", "--json", EDITOR=editor(code)).json["description"] == "more"


def test_an_edit_that_changes_nothing_is_no_commit(team: Team, repo: Path, run: Run) -> None:
    team.add("Fix it")
    before = git(repo, "rev-parse", "gitteam")
    assert run("task", "edit", "1", EDITOR="true").code == 0
    assert git(repo, "rev-parse", "gitteam") == before


@pytest.mark.parametrize(
    ("editor_words", "says"),
    [("false", "exit code 1"), ("no-such-editor", "no-such-editor"), ("'", "EDITOR"), ("", "EDITOR")],
)
def test_an_editor_that_fails_is_named(team: Team, run: Run, editor_words: str, says: str) -> None:
    team.add("Fix it")
    result = run("task", "edit", "1", EDITOR=editor_words)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert says in result.err


def test_an_edit_that_cannot_be_read_says_why_and_the_task_stays(team: Team, run: Run, editor: Any) -> None:
    team.add("Fix it")
    result = run("task", "edit", "1", EDITOR=editor("text = text.replace('pending', 'doing')"))
    assert result.code == 4
    assert "line 3" in result.err
    assert run("task", "show", "1", "--json").json["status"] == "pending"
    mended = run("task", "edit", "1", "--json", EDITOR=editor("text = text.replace('doing', 'completed')"))
    assert mended.json["status"] == "completed"


def test_a_claim_by_hand_that_cannot_be_leaves_the_board_working(team: Team, repo: Path, run: Run, editor: Any) -> None:
    team.add("First")
    team.add("Second", blocked_by=[1])
    claim = editor("text = text.replace('pending', 'in_progress').replace('owner:', 'owner: alice')")
    run("task", "edit", "2", EDITOR=claim)
    found = run("task", "show", "2", "--json").json
    assert (found["status"], found["owner"], found["reason"]) == ("pending", "", "blocked by #1")
    assert "owner: alice" not in (repo / found["path"]).read_text()
    assert run("task", "add", "Third").code == 0
    assert run("doctor").code == 0


def test_a_swept_task_can_be_edited_too(team: Team, repo: Path, run: Run, editor: Any) -> None:
    for number in range(1, 101):
        (repo / f".tasks/{number}.md").write_text(f"---\nsubject: old {number}\nstatus: completed\n---\n")
    team.add("the last")
    team.done(101)
    assert team.task(1).path == ".tasks/done/0001-0099/1.md"
    result = run("task", "edit", "1", "--json", EDITOR=editor("text = text.replace('old 1', 'new 1')"))
    assert result.json["subject"] == "new 1"
    assert diary(repo)[-1] == "Jane Doe edits #1: new 1"


# -- messages ---------------------------------------------------------------------------------------------


def test_sending_prints_what_was_sent(team: Team, repo: Path, run: Run) -> None:
    found = run("send", "alice", "hello", "--as", "bob", "--type", "result", "--json").json
    assert [set(message) for message in found] == [MESSAGE]
    assert [(m["from"], m["to"], m["type"]) for m in found] == [("bob", "alice", "result")]
    assert [json.loads(line) for line in (repo / ".team/inbox/alice.jsonl").read_text().splitlines()] == found


@pytest.mark.parametrize("words", [["broadcast", "hello"], ["send", "all", "hello"]])
def test_a_broadcast_goes_to_everybody_but_the_sender(team: Team, run: Run, words: list[str]) -> None:
    team.add_member("carol")
    found = run(*words, "--as", "alice", "--json").json
    assert [(m["to"], m["type"]) for m in found] == [("bob", "broadcast"), ("carol", "broadcast")]


def test_a_broadcast_passes_over_those_shut_down(team: Team, repo: Path, run: Run) -> None:
    config = json.loads((repo / ".team/config.json").read_text())
    config["members"]["bob"]["status"] = "shutdown"
    (repo / ".team/config.json").write_text(json.dumps(config))
    assert [m["to"] for m in run("broadcast", "hello", "--json").json] == ["alice"]


def test_a_broadcast_to_nobody_is_an_empty_array(repo: Path, run: Run) -> None:
    Team.init(repo)
    result = run("broadcast", "hello", "--json")
    assert (result.code, result.out) == (0, "[]\n")


def test_take_prints_and_consumes(team: Team, repo: Path, run: Run) -> None:
    team.send("alice", "one")
    with (repo / ".team/inbox/alice.jsonl").open("a") as inbox:
        inbox.write('{"content": "two"}\n')
    assert [m["content"] for m in run("inbox", "alice", "--take", "--json").json] == ["one", "two"]
    assert run("inbox", "alice", "--take", "--json").out == "[]\n"
    assert diary(repo)[-1] == "alice takes 2 messages"


def test_messages_stay_if_they_cannot_be_printed(team: Team, repo: Path) -> None:
    team.send("alice", "one")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gitteam", "inbox", "alice", "--take"], cwd=repo, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1
    assert [m.content for m in team.inbox("alice")] == ["one"]


def test_a_message_with_an_impossible_time_is_shown_all_the_same(team: Team, repo: Path, run: Run) -> None:
    (repo / ".team/inbox/alice.jsonl").write_text('{"content": "hi", "timestamp": 1e18}\n')
    assert "hi" in run("inbox", "alice").out


# -- members ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kind"),
    [([], "agent"), (["--person"], "person"), (["--external"], "external"), (["--role", "qa"], "agent")],
)
def test_adding_a_member_prints_it(team: Team, run: Run, words: list[str], kind: str) -> None:
    found = run("member", "add", "dora", *words, "--json").json
    assert set(found) == MEMBER
    assert (found["name"], found["kind"], found["role"]) == ("dora", kind, "qa" if "qa" in words else "")


def test_a_removed_members_task_goes_back_to_the_board(team: Team, run: Run) -> None:
    team.add("Fix it")
    team.claim(1, by="alice")
    assert run("member", "remove", "alice", "--json").json["name"] == "alice"
    assert run("task", "show", "1", "--json").json["ready"] is True
    assert [m["name"] for m in run("member", "--json").json] == ["bob"]


# -- lock and interruption --------------------------------------------------------------------------------


@pytest.fixture
def held_lock(team: Team) -> Iterator[None]:
    """This process holds the lock."""
    held, release = threading.Event(), threading.Event()

    def hold(change: Any) -> None:
        held.set()
        release.wait(TIMEOUT)

    thread = threading.Thread(target=lambda: team.ledger.change("user", hold))
    thread.start()
    assert held.wait(TIMEOUT)
    yield
    release.set()
    thread.join()


def test_a_lock_that_stays_busy_is_exit_5_and_names_the_holder(held_lock: None, run: Run) -> None:
    result = run("task", "add", "x", GITTEAM_LOCK_TIMEOUT="0.1")
    assert (result.code, result.err.count("\n")) == (5, 1)
    assert f"process {os.getpid()}" in result.err
    error = json.loads(run("task", "add", "x", "--json", GITTEAM_LOCK_TIMEOUT="0.1").err)["error"]
    assert (error["kind"], error["exit"]) == ("locked", 5)


def test_reading_does_not_need_the_lock(held_lock: None, run: Run) -> None:
    result = run("task", GITTEAM_LOCK_TIMEOUT="0.1")
    assert (result.code, result.err) == (0, "")


def test_reading_while_the_lock_is_busy_warns_that_hand_edits_are_missing(
    held_lock: None, repo: Path, run: Run
) -> None:
    (repo / ".tasks/new.md").write_text("New\n")
    result = run("task", "--json", GITTEAM_LOCK_TIMEOUT="0.1")
    assert (result.code, result.out) == (0, "[]\n")
    assert "lock" in result.err


class Waiting:
    """A `gitteam wait` in a process of its own."""

    def __init__(self, repo: Path, *words: str):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gitteam", "wait", *words], cwd=repo, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        until(self._watches, "a watch on the files")

    def _watches(self) -> bool:
        """Whether it listens for file events, where the system lets us see that."""
        folder = f"/proc/{self.process.pid}/fd"
        if self.process.poll() is not None or not os.path.isdir(folder):
            return True
        try:
            return any("inotify" in os.readlink(os.path.join(folder, name)) for name in os.listdir(folder))
        except FileNotFoundError:
            return False  # one was closed while we looked

    def result(self) -> Result:
        out, err = self.process.communicate(timeout=TIMEOUT)
        return Result(subprocess.CompletedProcess([], self.process.returncode, out, err))


def rename_into_place(repo: Path, name: str, text: str) -> None:
    (repo / f"{name}.new").write_text(text)
    (repo / f"{name}.new").rename(repo / ".tasks" / name)


def test_wait_wakes_when_a_task_file_is_dropped(team: Team, repo: Path) -> None:
    waiting = Waiting(repo, "--as", "bob")
    rename_into_place(repo, "fix.md", "Fix the login page\n")
    result = waiting.result()
    assert (result.code, result.out, result.err) == (0, "task 1 Fix the login page\n", "")


def test_wait_wakes_when_a_message_is_appended(team: Team, repo: Path) -> None:
    waiting = Waiting(repo, "--as", "bob", "--json")
    subprocess.run("""echo '{"content":"hi"}' >> .team/inbox/bob.jsonl""", shell=True, cwd=repo, check=True)
    found = waiting.result().json
    assert set(found) == {"messages", "task"}
    assert ([m["content"] for m in found["messages"]], found["task"]) == (["hi"], None)


def test_wait_consumes_nothing(team: Team, repo: Path, run: Run) -> None:
    team.send("bob", "hi")
    team.add("Fix it")
    assert run("wait", "--as", "bob").out == "messages 1\ntask 1 Fix it\n"
    assert len(run("inbox", "bob", "--json").json) == 1
    assert run("task", "--json").json[0]["status"] == "pending"


def test_wait_respects_the_role(team: Team, repo: Path) -> None:
    waiting = Waiting(repo, "--as", "bob", "--json")
    rename_into_place(repo, "1-not-mine.md", "---\nsubject: Not mine\nrole: backend\n---\n")
    until(lambda: any("Not mine" in line for line in diary(repo)), "the waiting process to have seen the first file")
    rename_into_place(repo, "2-mine.md", "---\nsubject: Mine\nrole: frontend\n---\n")
    assert waiting.result().json["task"]["subject"] == "Mine"


def test_wait_wakes_when_a_blocker_is_done(team: Team, repo: Path) -> None:
    team.add("First")
    team.claim(1, by="alice")
    team.add("Second", blocked_by=[1])
    waiting = Waiting(repo, "--as", "bob", "--json")
    team.done(1, by="alice")
    found = waiting.result().json["task"]
    assert (found["id"], found["ready"], set(found)) == (2, True, TASK)


def test_wait_gives_up_at_the_timeout_with_exit_3(team: Team, run: Run) -> None:
    team.add("Not for bob", role="backend")
    result = run("wait", "--as", "bob", "--timeout", "0.2")
    assert (result.code, result.out, result.err) == (3, "", "gitteam: nothing came for bob in 0.2 s\n")


def test_ctrl_c_ends_a_wait_with_exit_130(team: Team, repo: Path) -> None:
    waiting = Waiting(repo, "--as", "bob")
    waiting.process.send_signal(signal.SIGINT)
    result = waiting.result()
    assert (result.code, result.out) == (130, "")
    assert "Traceback" not in result.err


def test_a_reader_that_stops_reading_is_no_error_with_a_traceback(team: Team, repo: Path) -> None:
    for number in range(3):
        team.add(f"task {number}")
    command = f"{shlex.quote(sys.executable)} -m gitteam log | head -n 1"
    done = subprocess.run(command, shell=True, cwd=repo, capture_output=True, text=True, timeout=TIMEOUT)
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr
