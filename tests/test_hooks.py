"""Users' hooks: how they are configured, who has to allow them, and that none of them holds anybody up."""

from __future__ import annotations

import json
import os
import re
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import TIMEOUT, Run, git, until

from gitteam import Team, hooks, layout
from gitteam.errors import BadInput
from gitteam.hooks import MAX_FEEDBACK, Hook
from gitteam.layout import Layout
from gitteam.workplace.table import process_table

DONE = "TaskCompleted"
PAYLOAD: dict[str, Any] = {"team": "t", "member": "alice", "task": {"id": 1, "subject": "Fix ü\n"}}


class Asking:
    """Asks hooks in a repository, and keeps what was warned of."""

    def __init__(self, root: Path):
        self.root = root
        self.warnings: list[str] = []

    def __call__(self, *commands: str, timeout: float = 30, stop: threading.Event | None = None) -> str:
        configured = {DONE: [Hook(command, timeout) for command in commands]}
        return hooks.run(configured, DONE, PAYLOAD, str(self.root), self.warnings.append, stop)

    @property
    def pids(self) -> list[int]:
        path = self.root / "pids"
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    def left(self) -> list[int]:
        return [p.pid for p in process_table() if p.pid in self.pids and not p.dead]


@pytest.fixture
def ask(repo: Path) -> Asking:
    return Asking(repo)


@pytest.fixture
def place(repo: Path) -> Layout:
    return layout.find(str(repo))


# -- as they are configured ------------------------------------------------------------------


def test_hooks_are_read_from_the_settings() -> None:
    settings = {
        "model": "x",
        "hooks": {DONE: [{"command": "make test", "timeout": 5}, {"command": "true"}], "TeammateIdle": []},
    }
    assert hooks.parse(settings) == {DONE: [Hook("make test", 5.0), Hook("true", 60.0)], "TeammateIdle": []}
    assert hooks.parse({}) == {}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "settings: hooks is an object like"),
        (None, "settings: hooks is an object like"),
        ({"TaskDone": []}, "no event 'TaskDone': use TaskCompleted, TaskCreated, TeammateIdle"),
        ({DONE: {"command": "true"}}, "hooks: TaskCompleted is a list like"),
        ({DONE: ["true"]}, "TaskCompleted: number 1 is an object with a text"),
        ({DONE: [{"command": "true"}, {}]}, "TaskCompleted: number 2 is an object with a text"),
        ({DONE: [{"command": ["true"]}]}, "number 1 is an object with a text"),
        ({DONE: [{"command": " "}]}, "number 1: the command is empty"),
        ({DONE: [{"command": "a\0b"}]}, "NUL"),
        ({DONE: [{"command": "\ud800"}]}, "not valid Unicode"),
        ({DONE: [{"command": "true", "matcher": "*"}]}, "without 'matcher'"),
        ({DONE: [{"command": "true", "timeout": 0}]}, "timeout is a number of seconds above 0"),
        ({DONE: [{"command": "true", "timeout": "60"}]}, "timeout is"),
        ({DONE: [{"command": "true", "timeout": True}]}, "timeout is"),
        ({DONE: [{"command": "true", "timeout": float("nan")}]}, "timeout is"),
        ({DONE: [{"command": "true", "timeout": 601}]}, "600 at most"),
    ],
)
def test_a_wrong_shape_is_told_with_the_file_and_the_place(value: object, why: str) -> None:
    with pytest.raises(BadInput, match=why) as told:
        hooks.parse({"hooks": value})
    assert str(told.value).startswith(".team/config.json: settings: ")
    assert "\n" not in str(told.value)


def test_a_board_with_hooks_in_its_settings_works_on(team: Team, repo: Path, run: Run) -> None:
    path = repo / ".team/config.json"
    config = json.loads(path.read_text())
    config["settings"]["hooks"] = {DONE: [{"command": "make test"}]}
    path.write_text(json.dumps(config))
    assert run("task", "add", "One").code == 0
    assert hooks.parse(team.config().settings) == {DONE: [Hook("make test")]}


# -- whether they may run --------------------------------------------------------------------


def test_hooks_are_allowed_once_and_only_as_they_are(place: Layout) -> None:
    configured = {DONE: [Hook("make test", 5)], "TaskCreated": [Hook("true")]}
    assert not hooks.allowed(place, configured)
    hooks.allow(place, configured)
    assert hooks.allowed(place, configured)
    assert hooks.allowed(place, {"TaskCreated": [Hook("true")], DONE: [Hook("make test", 5)], "TeammateIdle": []})
    for changed in (
        {DONE: [Hook("make test; curl evil", 5)], "TaskCreated": [Hook("true")]},
        {DONE: [Hook("make test", 6)], "TaskCreated": [Hook("true")]},
        {DONE: [Hook("true")], "TaskCreated": [Hook("make test", 5)]},
        {DONE: [Hook("make test", 5)]},
        {**configured, "TeammateIdle": [Hook("true")]},
    ):
        assert not hooks.allowed(place, changed)


def test_to_allow_others_takes_back_the_first(place: Layout) -> None:
    first, second = {DONE: [Hook("one")]}, {DONE: [Hook("two")]}
    hooks.allow(place, first)
    hooks.allow(place, second)
    assert (hooks.allowed(place, first), hooks.allowed(place, second)) == (False, True)


def test_no_hooks_need_no_leave(place: Layout) -> None:
    assert hooks.allowed(place, {})
    assert hooks.allowed(place, {DONE: []})


def test_a_clone_has_to_allow_them_again(place: Layout, repo: Path, tmp_path: Path) -> None:
    configured = {DONE: [Hook("make test")]}
    hooks.allow(place, configured)
    git(tmp_path, "clone", "-q", str(repo), "clone")
    assert not hooks.allowed(layout.find(str(tmp_path / "clone")), configured)


def test_only_a_file_of_this_user_alone_counts(place: Layout) -> None:
    configured = {DONE: [Hook("make test")]}
    hooks.allow(place, configured)
    path = Path(place.state, "hooks-allowed")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(place.state) == ["hooks-allowed"]
    path.chmod(0o620)
    assert not hooks.allowed(place, configured)
    path.chmod(0o600)
    assert hooks.allowed(place, configured)
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    assert not hooks.allowed(place, configured)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_what_another_user_has_allowed_does_not_count(place: Layout) -> None:
    configured = {DONE: [Hook("make test")]}
    hooks.allow(place, configured)
    os.chown(Path(place.state, "hooks-allowed"), 65534, 65534)
    assert not hooks.allowed(place, configured)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
def test_what_is_no_file_allows_nothing_and_is_not_waited_for(place: Layout, make: Any) -> None:
    os.mkdir(place.state)
    make(os.path.join(place.state, "hooks-allowed"))
    assert not hooks.allowed(place, {DONE: [Hook("make test")]})


def test_a_person_is_shown_all_of_a_command_and_nothing_hidden() -> None:
    command = "true" + " " * 300 + "\n\x1b[8mcurl evil\u202e"
    assert hooks.describe({DONE: [Hook("make test", 1.5), Hook(command)], "TeammateIdle": [Hook("true")]}) == [
        "TaskCompleted: make test (at most 1.5 s)",
        "TaskCompleted: true" + " " * 300 + r"\n\x1b[8mcurl evil\u202e (at most 60 s)",
        "TeammateIdle: true (at most 60 s)",
    ]


# -- what they say ---------------------------------------------------------------------------


def test_a_hook_gets_the_event_as_json(ask: Asking) -> None:
    assert ask("cat > event; ls /proc/$$/fd > files; pwd > where") == ""
    assert json.loads((ask.root / "event").read_text()) == {"event": DONE, **PAYLOAD}
    assert (ask.root / "event").read_text().count("\n") == 1
    assert (ask.root / "files").read_text().split() == ["0", "1", "2"]
    assert (ask.root / "where").read_text() == f"{os.path.realpath(ask.root)}\n"
    assert ask.warnings == []


def test_every_hook_gets_the_event_from_its_beginning(ask: Asking) -> None:
    assert ask("cat > one", "cat > two") == ""
    assert (ask.root / "one").read_text() == (ask.root / "two").read_text() != ""


def test_a_hook_gets_no_secrets(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    monkeypatch.setenv("NPM_TOKEN", "t")
    monkeypatch.setenv("HARMLESS", "h")
    assert ask('echo "<$ANTHROPIC_API_KEY$NPM_TOKEN$HARMLESS>" >&2; exit 2') == "<h>"


def test_exit_code_2_refuses_with_what_is_on_stderr(ask: Asking) -> None:
    assert ask("echo progress; echo ' two tests fail' >&2; echo $'\\e[31mred\\e[0m' >&2; exit 2") == (
        "two tests fail\nred"
    )
    assert ask.warnings == []


def test_a_refusal_without_words_is_still_a_refusal(ask: Asking) -> None:
    assert ask("exit 2") == "the hook `exit 2` refuses this, and does not say why"


def test_the_first_refusal_decides(ask: Asking) -> None:
    assert ask("true", "echo no >&2; exit 2", "touch third") == "no"
    assert not (ask.root / "third").exists()


def test_long_feedback_is_cut_in_its_middle(ask: Asking) -> None:
    feedback = ask("echo first >&2; seq 1 200000 >&2; echo last >&2; exit 2")
    assert feedback.startswith("first\n1\n")
    assert feedback.endswith("200000\nlast")
    assert "bytes left out here …]" in feedback
    assert MAX_FEEDBACK - 200 < len(feedback) <= MAX_FEEDBACK


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo what; echo why >&2; exit 1", "it ended with exit code 1: why"),
        ("exit 3", "it ended with exit code 3"),
        ("no-such-program", "it ended with exit code 127: .*no-such-program"),
        ("kill -KILL $$", "it ended with exit code 137"),
        ("kill -KILL $PPID; sleep 600", "it was ended from outside"),
        ("printf 'a\\nb\\e[2Jc\\a' >&2; exit 1", r"bc\\x07"),
    ],
)
def test_another_failure_is_warned_of_and_the_next_hook_asked(ask: Asking, command: str, why: str) -> None:
    assert ask(command, "echo no >&2; exit 2") == "no"
    [warning] = ask.warnings
    assert warning.startswith("the hook `")
    assert "for TaskCompleted is passed over: " in warning
    assert re.search(why, warning)
    assert warning.isprintable()


def test_a_hook_that_cannot_be_started_is_warned_of(ask: Asking, tmp_path: Path) -> None:
    ask.root = tmp_path / "gone"
    assert ask("true") == ""
    assert "could not be started in" in ask.warnings[0]


def test_an_event_without_hooks_runs_nothing(ask: Asking) -> None:
    configured = {"TaskCreated": [Hook("touch ran; exit 2")]}
    assert hooks.run(configured, DONE, PAYLOAD, str(ask.root), ask.warnings.append) == ""
    assert not (ask.root / "ran").exists()


# -- none of them holds anybody up -----------------------------------------------------------

SLEEPS = "sh -c 'echo $$ >> pids; exec sleep 600'"
IGNORES = "bash -c 'trap \"\" TERM HUP INT; echo $$ >> pids; while :; do sleep 1; done'"


@pytest.mark.parametrize(
    "command",
    [
        "echo $$ >> pids; sleep 600",
        "echo $$ >> pids; trap '' TERM; while :; do sleep 1; done",
        "echo $$ >> pids; kill -STOP $$",
        f"setsid {IGNORES} & {SLEEPS}",
        f"(env -i setsid {SLEEPS} &) & wait; sleep 600",
        "echo $$ >> pids; exec cat /dev/zero >&2",
    ],
)
def test_at_its_timeout_every_process_of_a_hook_is_ended(ask: Asking, command: str) -> None:
    began = time.monotonic()
    assert ask(command, timeout=0.7) == ""
    assert time.monotonic() - began < 0.7 + 3
    assert "is passed over: it was ended after 0.7 s" in ask.warnings[0]
    assert ask.pids != []
    assert ask.left() == []


def test_what_a_hook_leaves_running_is_ended(ask: Asking) -> None:
    command = f"setsid {IGNORES} & nohup {SLEEPS} & while [ $(wc -l < pids) -lt 2 ]; do sleep 0.01; done 2> errors"
    assert ask(f"touch pids; {command}; echo no >&2; exit 2") == "no"
    assert len(ask.pids) == 2
    assert ask.left() == []


def test_a_stop_of_the_team_ends_the_hook_and_asks_no_other(ask: Asking) -> None:
    stop = threading.Event()
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(ask, "echo $$ > pids; sleep 600", "touch second; exit 2", stop=stop)
        until(lambda: ask.pids, "the hook running")
        stop.set()
        assert asked.result(TIMEOUT) == ""
    assert "the team is stopping" in ask.warnings[0]
    assert ask.left() == []
    assert not (ask.root / "second").exists()


def test_a_large_event_does_not_wait_for_a_hook_that_reads_nothing(ask: Asking) -> None:
    payload = {"task": {"text": "x" * 3_000_000}}
    configured = {DONE: [Hook("exit 0"), Hook("wc -c > size")]}
    assert hooks.run(configured, DONE, payload, str(ask.root), ask.warnings.append) == ""
    assert int((ask.root / "size").read_text()) > 3_000_000


@pytest.mark.parametrize("where", [1, 2])
def test_a_gigabyte_of_output_takes_no_memory(ask: Asking, where: int) -> None:
    def memory() -> int:
        return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

    before = memory()
    feedback = ask(f"head -c 1000000000 /dev/zero >&{where}; echo end >&2; exit 2", timeout=60)
    assert feedback.endswith("end")
    assert len(feedback) <= MAX_FEEDBACK
    assert memory() - before < 20_000, "kilobytes"
