"""`gitteam watch` in a real terminal: tmux shows what a person would see, and commands from outside change it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Run, gitteam, until

from gitteam import Team, requests

needs_tmux = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


def changed(lines: str = "") -> str:
    """The command, after some lines of Python that know its module as `w`. It never looks but for an event."""
    start = (
        "import gitteam.cli.watch as w, gitteam.watch\nfrom gitteam.cli import main\ngitteam.watch.SLOW_POLL = 1e6\n"
    )
    return shlex.join([sys.executable, "-c", f"{start}{lines}\nmain(['watch'])\n"])


WATCH = changed()


class Pane:
    """A terminal with a shell in which `watch` was typed. When it ends, its exit code is shown."""

    def __init__(self, repo: Path, socket: Path, columns: int, height: int, command: str, **env: str):
        self._socket = socket
        script = f"trap : INT; cd {shlex.quote(str(repo))}; stty -a >{socket}.before; echo typed before; {command}; "
        script += f"code=$?; stty -a >{socket}.after; echo ended with $code.; exec cat"
        words = [f"{key}={value}" for key, value in {"NO_COLOR": "1", **env}.items()]
        self.tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(height),
            "env", *words, "sh", "-c", script,
        )  # fmt: skip

    def tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *words], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lines(self) -> list[str]:
        return self.tmux("capture-pane", "-p").splitlines()

    def shows(self, *texts: str) -> list[str]:
        """Wait until all of these are on the screen; returns it."""

        def found() -> list[str]:
            lines = self.lines()
            return lines if all(any(text in line for line in lines) for text in texts) else []

        try:
            return until(found)
        except AssertionError:
            raise AssertionError(f"no {texts} in:\n" + "\n".join(self.lines())) from None

    def press(self, key: str) -> None:
        self.tmux("send-keys", key)

    def state(self, name: str) -> str:
        """What tmux knows about the terminal, like cursor_flag or alternate_on."""
        return self.tmux("display-message", "-p", f"#{{{name}}}").strip()

    def process(self) -> int:
        """The program's process: the only child of the shell."""
        shell = self.state("pane_pid")
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def is_restored(self) -> bool:
        before, after = (Path(f"{self._socket}.{when}").read_text() for when in ("before", "after"))
        return (self.state("alternate_on"), self.state("cursor_flag"), self.state("wrap_flag")) == (
            "0", "1", "1",
        ) and before == after  # fmt: skip


Watch = Callable[..., Pane]


@pytest.fixture
def watch(team: Team, repo: Path, tmp_path: Path) -> Iterator[Watch]:
    """`watch(columns, height)` starts it in a terminal of that size."""
    sockets = []

    def start(columns: int = 80, height: int = 24, command: str = WATCH, **env: str) -> Pane:
        sockets.append(tmp_path / f"tmux-{len(sockets)}")
        return Pane(repo, sockets[-1], columns, height, command, **env)

    yield start
    for socket in sockets:
        subprocess.run(["tmux", "-S", socket, "kill-server"], stderr=subprocess.DEVNULL, timeout=30)


# -- what it shows ------------------------------------------------------------------------------------


@needs_tmux
def test_what_others_do_appears(watch: Watch, team: Team, repo: Path) -> None:
    pane = watch()
    pane.shows("project  on branch gitteam", "nothing to do", "Jane Doe adds bob to the team")
    gitteam(repo, "task", "add", "Design the schema")
    pane.shows("○ #1  Design the schema", "1 ready", "0/1", "Jane Doe adds #1: Design the schema")
    gitteam(repo, "task", "claim", "--as", "bob")
    pane.shows("● #1  Design the schema", "bob    frontend  working      #1 Design the schema", "bob claims #1")
    gitteam(repo, "send", "user", "Which port?", "--as", "bob")
    pane.shows("! 1 unread message for user", "gitteam inbox user")
    gitteam(repo, "task", "done", "1", "--as", "bob")
    lines = pane.shows("1/1", "nothing to do", "bob completes #1")
    assert not any("● #1" in line for line in lines)


@needs_tmux
def test_what_is_done_by_hand_appears(watch: Watch, repo: Path) -> None:
    pane = watch()
    pane.shows("nothing to do")
    (repo / ".tasks" / "new.md").write_text("Written by hand\n")
    pane.shows("○ #1  Written by hand")
    (repo / ".tasks" / "2-bad.md").write_text("---\nstatus: soon\n---\nBad\n")
    pane.shows("! .tasks/2-bad.md cannot be read: line 2: status 'soon'")


@needs_tmux
def test_a_plan_is_there_with_the_command_until_it_is_decided(watch: Watch, team: Team, repo: Path) -> None:
    team.add("One")
    team.claim(1, by="alice")
    pane = watch()
    pane.shows("● #1  One")
    request = team.change("alice", lambda c: requests.submit_plan(c, "First look, then leap", "1/1"))
    pane.shows("! alice plans #1: First look, then leap", f"gitteam approve {request.id}")
    gitteam(repo, "approve", request.id)
    until(lambda: not any("alice plans" in line for line in pane.lines()), "the plan to go")


@needs_tmux
def test_a_member_killed_with_9_is_said_to_be_dead(watch: Watch, team: Team, repo: Path) -> None:
    code = """if True:
        import signal
        from gitteam import Team, roster
        from gitteam.liveness import Life
        team = Team(".")
        life = Life(team.place, "alice")
        def works(change):
            roster.set_status(change, "alice", "working")
            change.story.tell("member", "alice works")
        team.change("alice", works)
        signal.pause()
    """
    alice = subprocess.Popen([sys.executable, "-c", code], cwd=repo)
    try:
        pane = watch()
        pane.shows("alice  backend   working")
    finally:
        alice.kill()
        alice.wait()
    pane.shows("! alice died while working", "gitteam join alice", "alice  backend   not running")


@needs_tmux
def test_texts_cannot_take_over_the_terminal(watch: Watch, team: Team, repo: Path) -> None:
    (repo / ".tasks" / "evil.md").write_text("# \x1b[2J\x1b[31mred\x07\u202e漢字\n")
    watch().shows("○ #1  \\x1b[2J\\x1b[31mred\\x07\\u202e漢字")


# -- the terminal ---------------------------------------------------------------------------------------


@needs_tmux
def test_it_has_a_screen_of_its_own_and_hides_the_cursor(watch: Watch) -> None:
    pane = watch()
    lines = pane.shows("members")
    assert (pane.state("alternate_on"), pane.state("cursor_flag")) == ("1", "0")
    assert not any("typed before" in line for line in lines)


@needs_tmux
@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda pane: pane.press("q"), 0),
        (lambda pane: pane.press("C-c"), 130),
        (lambda pane: os.kill(pane.process(), signal.SIGTERM), 143),
        (lambda pane: os.kill(pane.process(), signal.SIGHUP), 129),
    ],
    ids=["q", "Ctrl-C", "SIGTERM", "SIGHUP"],
)
def test_every_way_out_leaves_the_terminal_as_it_was(watch: Watch, end: Callable[[Pane], None], code: int) -> None:
    pane = watch()
    pane.shows("members")
    end(pane)
    lines = pane.shows(f"ended with {code}.")
    assert [line for line in lines if line and line != "^C"] == ["typed before", f"ended with {code}."]
    assert pane.is_restored()


@needs_tmux
@pytest.mark.parametrize("what", ["_Scene.draw", "_View.look"], ids=["drawing", "looking"])
def test_a_bug_leaves_the_terminal_as_it_was(watch: Watch, repo: Path, tmp_path: Path, what: str) -> None:
    """What has gone well once fails the second time."""
    lines = f"""
whole = w.{what}
def once(*words):
    w.{what} = lambda *_: 1 // 0
    return whole(*words)
w.{what} = once"""
    pane = watch(command=changed(lines), TMPDIR=str(tmp_path))
    pane.shows("members")
    gitteam(repo, "task", "add", "One")
    pane.shows("ended with 1.", "gitteam: a bug in gitteam: ZeroDivisionError")
    assert pane.is_restored()


@needs_tmux
def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(watch: Watch, repo: Path) -> None:
    pane = watch(command=f"set -m; {WATCH}; echo stopped with $?.; read line; fg")
    pane.shows("members")
    pane.press("C-z")
    pane.shows("typed before", "stopped with 147.")
    assert (pane.state("alternate_on"), pane.state("cursor_flag")) == ("0", "1")
    gitteam(repo, "task", "add", "Meanwhile")
    pane.press("Enter")
    pane.shows("○ #1  Meanwhile")
    pane.press("q")
    pane.shows("ended with 0.")
    assert pane.is_restored()


@needs_tmux
def test_a_terminal_that_goes_away_ends_it(watch: Watch) -> None:
    pane = watch()
    pane.shows("members")
    process = pane.process()
    pane.tmux("kill-session")
    until(lambda: not os.path.exists(f"/proc/{process}"), "the end of the process")


@needs_tmux
def test_a_resized_terminal_is_drawn_anew(watch: Watch, team: Team) -> None:
    team.add("One")
    pane = watch(80, 24)
    pane.shows("0/1")
    for columns, height in [(120, 40), (40, 10), (100, 30)]:
        pane.tmux("resize-window", "-x", str(columns), "-y", str(height))
        until(lambda columns=columns: len(pane.lines()[0]) == columns, f"a picture {columns} wide")
        lines = pane.shows("members", "board", "diary", "○ #1  One")
        assert max(map(len, lines)) == columns
        assert sum("members" in line for line in lines) == 1


@needs_tmux
def test_a_small_terminal_says_so_until_it_grows(watch: Watch) -> None:
    pane = watch(30, 8)
    assert [line for line in pane.shows("too small: needs 40x10") if line] == ["too small: needs 40x10"]
    pane.tmux("resize-window", "-x", "40", "-y", "10")
    pane.shows("members", "diary")
    pane.press("q")
    pane.shows("ended with 0.")


@needs_tmux
def test_other_keys_change_nothing_and_ctrl_l_draws_anew(watch: Watch) -> None:
    pane = watch()
    picture = pane.shows("members", "diary")
    for key in ("x", "Up", "Enter", "Escape"):
        pane.press(key)
    Path(pane.state("pane_tty")).write_text("\x1b[2J\x1b[5;1Hsomebody wrote here")
    pane.shows("somebody wrote here")
    pane.press("C-l")
    until(lambda: pane.lines() == picture, "the picture as it was")


@needs_tmux
@pytest.mark.parametrize(("no_color", "colored"), [("", True), ("1", False)])
def test_colours_are_left_out_when_unwanted(watch: Watch, no_color: str, colored: bool) -> None:
    pane = watch(NO_COLOR=no_color)
    pane.shows("members")
    assert ("\x1b[" in pane.tmux("capture-pane", "-p", "-e")) is colored


# -- how often it draws -----------------------------------------------------------------------------------

COUNTED = """
def counted(owner, name, word):
    whole = getattr(owner, name)
    def count(*words):
        with open({log!r}, "a") as f:
            f.write(word if words[-1] else "")
        return whole(*words)
    setattr(owner, name, count)
counted(w._Terminal, "_write", "d")
counted(w._Looker, "_look", "l")"""


@needs_tmux
def test_nothing_is_drawn_when_nothing_has_changed(watch: Watch, team: Team, tmp_path: Path) -> None:
    team.add("One")
    log = tmp_path / "log"
    pane = watch(command=changed(COUNTED.format(log=str(log))))
    pane.shows("○ #1  One")
    until(lambda: log.read_text().startswith("dd"), "the first picture")
    drawn, looks = log.read_text().count("d"), log.read_text().count("l")
    for n in range(1, 4):
        open(team.place.at(team.task(1).path), "a").close()
        until(lambda n=n: log.read_text().count("l") >= looks + n, "another look")
    assert log.read_text().count("d") == drawn
    team.note(1, "now")
    pane.shows("notes on #1: now")
    assert log.read_text().count("d") > drawn


@needs_tmux
def test_a_burst_is_drawn_twenty_times_a_second_and_ends_with_the_newest(
    watch: Watch, team: Team, tmp_path: Path
) -> None:
    log, inbox = tmp_path / "log", Path(team.place.at(".team/inbox/bob.jsonl"))
    pane = watch(command=changed(COUNTED.format(log=str(log))))
    pane.shows("members")
    began, drawn = time.monotonic(), log.read_text().count("d")
    for n in range(200):
        with open(inbox, "a") as f:
            f.write(f'{{"content": "message {n}"}}\n')
        time.sleep(0.005)
    pane.shows("200 unread")
    passed = time.monotonic() - began
    assert 2 <= log.read_text().count("d") - drawn <= 20 * passed + 2


# -- without a terminal -----------------------------------------------------------------------------------


def test_without_a_terminal_there_is_one_picture(team: Team, run: Run) -> None:
    team.add("One")
    result = run("watch", COLUMNS="60", LINES="12", NO_COLOR="")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].startswith("project  on branch gitteam")
    assert len(lines) <= 12
    assert max(map(len, lines)) == 60
    assert "\x1b" not in result.out
    assert not any(line.endswith(" ") for line in lines)


def test_json_is_that_of_the_status(team: Team, run: Run) -> None:
    team.add("One")
    assert run("watch", "--json").json == run("status", "--json").json


def test_where_there_is_no_team_it_says_so(repo: Path, run: Run) -> None:
    assert run("watch").code == run("status").code != 0


@needs_tmux
def test_a_dumb_terminal_gets_one_picture(watch: Watch) -> None:
    pane = watch(TERM="dumb", NO_COLOR="")
    lines = pane.shows("members", "ended with 0.")
    assert lines[0] == "typed before"
    assert "\x1b" not in pane.tmux("capture-pane", "-p", "-e")
