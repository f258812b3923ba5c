"""Commands in the background: real shells, read while they run, and none of them left when it is over."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import TIMEOUT, until

from gitteam.errors import ToolFailed
from gitteam.workplace.background import MAX_ENDED, MAX_RUNNING, Background
from gitteam.workplace.output import MAX_KEPT, MAX_SHOWN
from gitteam.workplace.table import process_table

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks at processes through /proc")

SLEEPS = "sh -c 'echo $$ >> pids; exec sleep 600'"
IGNORES = "bash -c 'trap \"\" TERM HUP INT; echo $$ >> pids; while :; do sleep 1; done'"


class Place:
    """A member's background, and what it was told."""

    def __init__(self, path: Path):
        self.root, self.spill = path / "tree", path / "spill"
        self.root.mkdir()
        self.told: queue.Queue[tuple[str, str]] = queue.Queue()
        self.background = Background(str(self.root), str(self.spill), lambda id, text: self.told.put((id, text)))

    def start(self, command: str) -> str:
        return self.background.start(command)

    def output(self, id: str = "b1") -> str:
        return self.background.output(id)

    def told_next(self) -> tuple[str, str]:
        return self.told.get(timeout=TIMEOUT)

    def until_written(self, name: str, lines: int = 1) -> list[int]:
        path = self.root / name
        until(lambda: path.exists() and path.read_text().count("\n") >= lines, f"{lines} lines in {name}")
        return [int(pid) for pid in path.read_text().split()]

    def collect(self, wanted: str, id: str = "b1") -> str:
        """Everything new until it holds the wanted text, without the remarks about the state."""
        shown = ""

        def arrived() -> bool:
            nonlocal shown
            shown += re.sub(r"\[b\d+: .*\]\Z", "", self.output(id))
            return wanted in shown

        until(arrived, f"{wanted!r} in the output")
        return shown


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.background.close()


def running(pids: list[int]) -> list[int]:
    return [p.pid for p in process_table() if p.pid in pids and not p.dead]


def refused(why: str) -> pytest.RaisesExc[ToolFailed]:
    return pytest.raises(ToolFailed, match=why)


# -- start, read on, be told -----------------------------------------------------------------


def test_ids_count_up(place: Place) -> None:
    assert [place.start("true") for _ in range(3)] == ["b1", "b2", "b3"]


def test_a_start_returns_while_the_command_runs(place: Place) -> None:
    place.start("echo begun; sleep 600")
    assert place.collect("begun") == "begun\n"
    assert re.fullmatch(r"\[b1: running for \d s, nothing new\]", place.output())


def test_output_is_only_what_is_new(place: Place) -> None:
    place.start("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two >&2; exit 3")
    assert place.collect("one\n") == "one\n"
    (place.root / "go").touch()
    assert place.told_next()[0] == "b1"
    assert place.output() == "two\n[b1: ended with exit code 3]"
    assert place.output() == "[b1: ended with exit code 3, nothing new]"


def test_the_end_is_told_once_with_the_command(place: Place) -> None:
    place.start("echo  a\nexit 0")
    assert place.told_next() == ("b1", "b1 ended with exit code 0: echo a exit 0")
    place.start("kill -SEGV $$")
    assert place.told_next() == ("b2", "b2 ended with exit code 139: kill -SEGV $$")
    place.start("true " + "x" * 5000 + "\x1b")
    assert len(place.told_next()[1]) < 250
    assert place.told.empty()


def test_who_is_told_of_the_end_can_read_the_output_and_start_another(tmp_path: Path) -> None:
    texts: queue.Queue[str] = queue.Queue()

    def on_end(id: str, sentence: str) -> None:
        texts.put(background.output(id))
        if id == "b1":
            background.start("echo second")
        else:
            background.close()
            texts.put("closed")

    background = Background(str(tmp_path), str(tmp_path / "spill"), on_end)
    background.start("echo first")
    assert [texts.get(timeout=TIMEOUT) for _ in range(3)] == [
        "first\n[b1: ended with exit code 0]",
        "second\n[b2: ended with exit code 0]",
        "closed",
    ]


def test_a_command_outlives_the_thread_that_started_it(place: Place) -> None:
    starter = threading.Thread(target=place.start, args=("while [ ! -e go ]; do sleep 0.01; done; echo done",))
    starter.start()
    starter.join(TIMEOUT)
    (place.root / "go").touch()
    assert place.told_next()[1].startswith("b1 ended with exit code 0")
    assert place.output().startswith("done\n")


def test_a_command_runs_in_the_work_tree_without_secrets(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    monkeypatch.setenv("NPM_TOKEN", "t")
    place.start('pwd; echo "$PWD $ANTHROPIC_API_KEY$NPM_TOKEN$TERM"; cat; ls /proc/$$/fd; true')
    place.told_next()
    root = os.path.realpath(place.root)
    assert place.output() == f"{root}\n{root} dumb\n0\n1\n2\n[b1: ended with exit code 0]"


def test_what_a_command_leaves_running_is_ended_with_it_and_told(place: Place) -> None:
    place.start(f"setsid {SLEEPS} & while [ ! -s pids ]; do sleep 0.01; done")
    assert place.told_next()[1].startswith("b1 ended with exit code 0, ended 1 process left running: ")
    assert running(place.until_written("pids")) == []


def test_a_command_ended_from_outside_is_told_as_that(place: Place) -> None:
    place.start("kill -KILL $PPID; sleep 600")
    assert "ended from outside" in place.told_next()[1]


# -- what is refused -------------------------------------------------------------------------


def test_an_unknown_id_is_refused_with_those_there_are(place: Place) -> None:
    with refused("no background command 'b1'; there are: none yet"):
        place.output("b1")
    place.start("true")
    place.start("true")
    with refused("no background command 'b3'; there are: b1, b2"):
        place.background.stop("b3")


@pytest.mark.parametrize(("command", "why"), [(" ", "empty"), ("a\0b", "NUL"), ("x" * 200_000, "too many")])
def test_a_command_that_is_none_is_refused(place: Place, command: str, why: str) -> None:
    with refused(why):
        place.start(command)
    assert place.start("true") == "b1"


def test_a_command_that_cannot_be_started_is_refused(place: Place) -> None:
    place.root.rmdir()
    with refused("could not be started in .*tree: no such file"):
        place.start("true")
    assert place.told.empty()


def test_eight_run_at_a_time_and_a_ninth_is_refused_until_one_ends(place: Place) -> None:
    for _ in range(MAX_RUNNING):
        place.start("sleep 600")
    with refused("8 background commands are running already: stop one of b1, b2, b3, b4, b5, b6, b7, b8"):
        place.start("true")
    place.background.stop("b3")
    assert place.start("true") == "b9"


def test_of_many_that_have_ended_the_last_are_remembered(place: Place) -> None:
    for _ in range(MAX_ENDED + 5):
        place.start("echo x")
        place.told_next()
    with refused("no background command 'b4'"):
        place.output("b4")
    assert place.output("b6").startswith("x\n")
    assert len(os.listdir(place.spill)) <= MAX_ENDED + 1


# -- the output ------------------------------------------------------------------------------


def test_much_news_shows_its_ends_and_where_all_of_it_is(place: Place) -> None:
    place.start("echo before; while [ ! -e go ]; do sleep 0.01; done; seq 1 20000")
    place.collect("before\n")
    (place.root / "go").touch()
    place.told_next()
    shown = place.output()
    found = re.search(r"\n\[… [\d,]+ of 108,894 bytes left out here; all of it is in (.*) …\]\n", shown)
    assert found
    assert shown.startswith("1\n2\n")
    assert shown.endswith("\n20000\n[b1: ended with exit code 0]")
    assert len(shown) < MAX_SHOWN + 500
    place.background.close()
    assert Path(found[1]).read_text() == "before\n" + "".join(f"{n}\n" for n in range(1, 20001))


def test_the_file_has_an_end_however_often_one_reads(place: Place) -> None:
    write = "head -c 6000000 /dev/zero | tr '\\0' x"
    place.start(f"{write}; echo one; while [ ! -e go ]; do sleep 0.01; done; {write}; echo two")
    place.collect("one")
    (place.root / "go").touch()
    place.told_next()
    assert "bytes left out here; the first 10,000,000 bytes are in" in place.output()
    assert [f.stat().st_size for f in place.spill.iterdir()] == [MAX_KEPT]


def test_a_file_nobody_was_told_of_is_removed(place: Place) -> None:
    place.start("echo short")
    place.told_next()
    place.output()
    assert len(os.listdir(place.spill)) == 1
    place.background.close()
    assert os.listdir(place.spill) == []


def test_output_that_cannot_be_kept_is_still_shown(place: Place) -> None:
    place.spill.write_text("in the way")
    place.start("seq 1 20000")
    place.told_next()
    assert "lost: File exists" in place.output()


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (r"a\303", r"\274b\n", "aüb\n"),
        (r"a\360\237\221", r"\251b\n", "a👩b\n"),
        (r"a\r", r"\nb\n", "a\nb\n"),
        (r"a\033[1;3", r"1mb\n", "ab\n"),
        (r"a\033", r"[0mb\n", "ab\n"),
    ],
)
def test_what_is_written_in_two_parts_is_shown_whole(place: Place, first: str, second: str, text: str) -> None:
    place.start(f"printf '{first}'; while [ ! -e go ]; do sleep 0.01; done; printf '{second}'")
    assert place.collect("a") == "a\n"  # the line end is ours
    (place.root / "go").touch()
    place.told_next()
    assert "a" + place.output() == f"{text}[b1: ended with exit code 0]"


def test_half_a_character_at_the_end_of_all_is_shown_as_such(place: Place) -> None:
    place.start(r"printf 'a\303'")
    place.told_next()
    assert place.output() == "a\ufffd\n[b1: ended with exit code 0]"


@pytest.mark.long
def test_memory_stays_flat_with_a_gigabyte_that_nobody_reads(place: Place) -> None:
    def memory() -> int:
        return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0])

    place.start("seq 1 100000")
    place.told_next()
    before = memory()
    place.start("head -c 1000000000 /dev/zero | tr '\\0' x; echo end")
    place.told.get(timeout=300)
    assert "of 1,000,000,004 bytes left out" in place.output("b2")
    assert memory() - before < 20_000, "kilobytes"


# -- the end of all processes ----------------------------------------------------------------


def test_a_stop_ends_the_whole_tree_and_is_not_told_again(place: Place) -> None:
    place.start(f"{IGNORES} & setsid {SLEEPS} & (env -i setsid {SLEEPS} &) & echo $$ >> pids; echo begun; sleep 600")
    pids = place.until_written("pids", 4)
    assert re.fullmatch(r"begun\n(?:bash: .*\n)*\[b1: stopped\]", place.background.stop("b1"))
    assert running(pids) == []
    place.background.close()
    assert place.told.empty()


def test_what_has_ended_can_be_stopped_without_harm(place: Place) -> None:
    place.start("echo a")
    place.told_next()
    assert place.background.stop("b1") == "a\n[b1: ended with exit code 0]"
    assert place.background.stop("b1") == "[b1: ended with exit code 0, nothing new]"


def test_a_stop_leaves_the_others_running(place: Place) -> None:
    place.start(f"setsid {SLEEPS} & sleep 600")
    [other] = place.until_written("pids")
    place.start("sleep 600")
    place.background.stop("b2")
    assert running([other]) == [other]
    assert "running for" in place.output("b1")


def test_at_the_close_nothing_is_left_running(place: Place) -> None:
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(4):
        place.start(f"{IGNORES} & setsid {SLEEPS} & wait")
    pids = place.until_written("pids", 8)
    began = time.monotonic()
    place.background.close()
    assert time.monotonic() - began < 3, "they end side by side"
    assert running(pids) == []
    until(lambda: threading.active_count() == threads, "the end of the threads")
    assert len(os.listdir("/proc/self/fd")) == files
    assert place.told.empty()


def test_after_the_close_nothing_is_begun(place: Place) -> None:
    place.background.close()
    place.background.close()
    with refused("the team is stopping"):
        place.start("touch begun")
    assert os.listdir(place.root) == []


@pytest.mark.parametrize("end", ["sys.exit()", "os.kill(os.getpid(), 9)"])
def test_a_program_that_ends_without_a_close_leaves_nothing_running(place: Place, end: str) -> None:
    code = (
        "import os, sys\nfrom gitteam.workplace.background import Background\n"
        "Background(sys.argv[1], sys.argv[2], print).start(sys.argv[3])\n"
        f"while not os.path.exists(sys.argv[1] + '/ready'): pass\n{end}"
    )
    command = f"setsid {IGNORES} & {SLEEPS} & while [ $(wc -l < pids) -lt 2 ]; do sleep 0.01; done; touch ready; wait"
    program = subprocess.Popen([sys.executable, "-c", code, place.root, place.spill, command])
    try:
        program.wait(TIMEOUT)
    finally:
        program.kill()
    pids = place.until_written("pids", 2)
    until(lambda: not running(pids), "the end of its processes")


def test_an_error_on_our_side_ends_the_command_and_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, data: bytes) -> None:
        raise ToolFailed("no room")

    monkeypatch.setattr("gitteam.workplace.output.Kept.take", fail)
    place.start(f"setsid {SLEEPS} & while [ ! -s pids ]; do sleep 0.01; done; echo a; sleep 600")
    assert place.told_next()[1].startswith("b1 ended: no room: ")
    assert running(place.until_written("pids")) == []
