"""A member's commands: real shells, and what becomes of every process they start."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import TIMEOUT, until

from gitteam.errors import ToolFailed
from gitteam.workplace import Workplace
from gitteam.workplace import processes as processes_module
from gitteam.workplace.output import MAX_KEPT, MAX_SHOWN
from gitteam.workplace.table import Process, _table_of_ps, process_table, send, started_at

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks at processes through /proc")


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    (tmp_path / "tree").mkdir()
    return Workplace(str(tmp_path / "tree"), str(tmp_path / "spill"))


def is_running(pid: int) -> bool:
    return any(p.pid == pid and not p.dead for p in process_table())


def pids_in(place: Workplace, name: str = "pids") -> list[int]:
    path = Path(place.root, name)
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


# -- what is returned ------------------------------------------------------------------------


def test_output_of_both_kinds_comes_in_order(place: Workplace) -> None:
    assert place.run("echo one; echo two >&2; echo three") == "one\ntwo\nthree\n"


def test_an_exit_code_other_than_zero_is_told(place: Workplace) -> None:
    assert place.run("exit 3") == "[exit code 3]"
    assert place.run("printf x; false") == "x\n[exit code 1]"
    assert place.run("kill -SEGV $$").endswith("[exit code 139]")
    assert place.run("true") == ""


def test_a_command_runs_in_the_work_tree_and_reads_nothing(place: Workplace) -> None:
    assert place.run("pwd; echo $PWD; cat; read x || echo end") == f"{place.root}\n{place.root}\nend\n"


def test_a_command_inherits_no_file_of_ours(place: Workplace, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as f:
        assert place.run("ls /proc/$$/fd; true").split() == ["0", "1", "2"]
        assert not f.closed


def test_plain_text_stays_as_it_is_and_colours_go(place: Workplace) -> None:
    text = "a\tb  \n\n  ü → 👩\u200d💻 \u202e\ufeffend"
    Path(place.root, "text").write_text(text)
    assert place.run("cat text") == text
    assert place.run(r"printf '\033[1;31mred\033[0m \033]0;title\007x\r\nbar\rbaz\a\0'") == "red x\nbar\nbaz\\x07\\x00"


def test_what_is_not_utf8_is_replaced(place: Workplace) -> None:
    assert place.run(r"printf 'a\377b'") == "a\ufffdb"


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_timeout_of_nothing_is_refused(place: Workplace, seconds: float) -> None:
    with pytest.raises(ToolFailed, match="more than 0"):
        place.run("true", timeout=seconds)


@pytest.mark.parametrize(
    ("command", "why"),
    [("", "empty"), (" \n", "empty"), ("a\0b", "NUL"), ("\ud800", "Unicode"), ("true " * 50_000, "to a file and run")],
)
def test_a_command_that_is_none_is_refused(place: Workplace, command: str, why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        place.run(command)


def test_the_longest_command_runs(place: Workplace) -> None:
    assert place.run("echo " + "x" * 20_000) == "x" * 20_000 + "\n"
    assert place.run("true " + "x" * 127_000) == ""


def test_a_work_tree_that_is_gone_is_named(place: Workplace) -> None:
    os.rmdir(place.root)
    with pytest.raises(ToolFailed, match=r"could not be started in .*tree: no such file"):
        place.run("true")


def test_without_bash_sh_does_it(place: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert place.run("echo $0") == f"{tmp_path}/bin/sh\n"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolFailed, match="no shell"):
        place.run("true")


# -- long output -----------------------------------------------------------------------------


def test_long_output_shows_its_ends_and_where_all_of_it_is(place: Workplace) -> None:
    shown = place.run("seq 1 20000")
    everything = "".join(f"{n}\n" for n in range(1, 20001))
    middle = re.search(r"\n\[… ([\d,]+) of 108,894 bytes left out here; all of it is in (.*) …\]\n", shown)
    assert middle
    head, tail = shown[: middle.start()], shown[middle.end() :]
    assert everything.startswith(head)
    assert everything.endswith(tail)
    assert len(head) + len(tail) == MAX_SHOWN
    assert int(middle[1].replace(",", "")) == len(everything) - MAX_SHOWN
    assert Path(middle[2]).read_text() == everything
    assert place.read(middle[2], offset=20000).endswith("20000\t20000")


def test_only_the_member_may_look_at_what_is_kept(place: Workplace) -> None:
    place.run("seq 1 20000")
    assert stat.S_IMODE(os.stat(place.spill).st_mode) == 0o700
    assert [stat.S_IMODE(f.stat().st_mode) for f in Path(place.spill).iterdir()] == [0o600]


def test_output_that_can_be_shown_leaves_no_file(place: Workplace) -> None:
    shown = place.run("for i in $(seq 1 29000); do printf ü; done")  # more bytes than characters
    assert shown == "ü" * 29_000
    assert os.listdir(place.spill) == []
    place.run("head -c 30000 /dev/zero | tr '\\0' x")
    assert os.listdir(place.spill) == []


def test_the_kept_file_has_an_end_and_that_is_said(place: Workplace) -> None:
    shown = place.run("head -c 20000000 /dev/zero | tr '\\0' x")
    [kept] = Path(place.spill).iterdir()
    assert kept.stat().st_size == MAX_KEPT
    assert f"the first 10,000,000 bytes are in {kept}" in shown
    assert "of 20,000,000 bytes left out" in shown


def test_output_that_cannot_be_kept_is_still_shown(place: Workplace) -> None:
    Path(place.spill).write_text("in the way")
    shown = place.run("seq 1 20000")
    assert shown.startswith("1\n2\n")
    assert "lost: File exists" in shown


@pytest.mark.long
def test_memory_stays_flat_with_a_gigabyte_of_output(place: Workplace) -> None:
    def memory() -> int:
        return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0])

    place.run("seq 1 100000")
    before = memory()
    shown = place.run("head -c 1000000000 /dev/zero | tr '\\0' x; echo end", timeout=300)
    assert "of 1,000,000,004 bytes left out" in shown
    assert shown.endswith("xend\n")
    assert memory() - before < 20_000, "kilobytes"


# -- the end of all processes ----------------------------------------------------------------

SLEEPS = "sh -c 'echo $$ >> pids; exec sleep 600'"
IGNORES = "bash -c 'trap \"\" TERM HUP INT; echo $$ >> pids; while :; do sleep 1; done'"
WAYS = {
    "in the background": f"{SLEEPS} &",
    "with nohup": f"nohup {SLEEPS} >/dev/null 2>&1 &",
    "in a session of its own": f"setsid {SLEEPS} &",
    "forked twice": f"( ({SLEEPS}) & ) &",
    "forked twice in a session of its own": f"(setsid {SLEEPS} >/dev/null 2>&1 &) &",
    "without our variable, in a session of its own": f"(env -i setsid {SLEEPS} >/dev/null 2>&1 &) &",
    "ignoring TERM": f"{IGNORES} &",
    "ignoring TERM in a session of its own": f"setsid {IGNORES} &",
    "stopped": "(echo $BASHPID >> pids; kill -STOP $BASHPID; sleep 600) &",
}
UNTIL_IT_RUNS = "while [ ! -s pids ]; do sleep 0.01; done;"


@pytest.mark.parametrize("way", WAYS)
def test_whatever_a_command_leaves_running_is_ended_and_told(place: Workplace, way: str) -> None:
    shown = place.run(f"{WAYS[way]} {UNTIL_IT_RUNS} echo done")
    assert re.fullmatch(r"done\n\[ended \d process(es)? left running\]", shown)
    assert [pid for pid in pids_in(place) if is_running(pid)] == []


@pytest.mark.parametrize("way", WAYS)
def test_at_a_stop_everything_is_ended_within_two_seconds(place: Workplace, way: str) -> None:
    stop = threading.Event()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(place.run, f"{WAYS[way]} {UNTIL_IT_RUNS} echo $$ >> pids; sleep 600", stop=stop)
        until(lambda: len(pids_in(place)) == 2, "both processes running")
        began = time.monotonic()
        stop.set()
        assert running.result(TIMEOUT) == "[stopped: the team is stopping]"
    assert time.monotonic() - began < 2
    assert [pid for pid in pids_in(place) if is_running(pid)] == []


def test_at_the_time_limit_everything_is_ended(place: Workplace) -> None:
    shown = place.run(f"{IGNORES} & setsid {SLEEPS} & echo $$ >> pids; sleep 600", timeout=1)
    assert shown == "[stopped after 1 s: the time limit]"
    assert len(pids_in(place)) == 3
    assert [pid for pid in pids_in(place) if is_running(pid)] == []


def test_a_command_that_ends_in_time_is_not_said_to_have_left_anything(place: Workplace) -> None:
    assert place.run("sleep 0.01 & echo a | cat") == "a\n"


def test_a_stop_ends_a_command_at_once(place: Workplace) -> None:
    stop = threading.Event()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(place.run, "echo $$ > pids; echo begun; sleep 600", stop=stop)
        until(lambda: pids_in(place), "the command running")
        began = time.monotonic()
        stop.set()
        assert running.result(TIMEOUT) == "begun\n[stopped: the team is stopping]"
    assert time.monotonic() - began < 1
    assert not is_running(pids_in(place)[0])


def test_after_a_stop_nothing_is_begun(place: Workplace) -> None:
    stop = threading.Event()
    stop.set()
    assert place.run("touch begun", stop=stop) == "[stopped: the team is stopping]"
    assert os.listdir(place.root) == []


def test_term_comes_first_and_what_is_said_then_is_shown(place: Workplace) -> None:
    assert place.run("trap 'echo farewell; exit' TERM; sleep 600 & wait", timeout=0.3) == (
        "farewell\n[stopped after 0.3 s: the time limit]"
    )


def test_a_timeout_is_at_most_ten_minutes(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitteam.workplace.MAX_SECONDS", 0.2)
    assert place.run("sleep 600", timeout=10_000) == "[stopped after 0.2 s: the time limit]"


@pytest.mark.parametrize("number", ["TERM", "KILL"])
def test_a_command_that_ends_its_supervisor_does_not_get_away(place: Workplace, number: str) -> None:
    shown = place.run(f"(setsid {SLEEPS} &) & {UNTIL_IT_RUNS} echo $$ >> pids; kill -{number} $PPID; sleep 600")
    assert shown.endswith("[stopped: its processes were ended from outside]")
    assert len(pids_in(place)) == 2
    assert [pid for pid in pids_in(place) if is_running(pid)] == []


def test_a_command_that_signals_its_own_group_ends_only_itself(place: Workplace) -> None:
    assert place.run("kill 0; sleep 600") == "[exit code 143]"


def test_an_unrelated_process_of_the_same_parent_survives(place: Workplace) -> None:
    neighbour = subprocess.Popen(["sleep", "600"], cwd=place.root)
    later: list[subprocess.Popen[bytes]] = []
    starter = threading.Timer(0.1, lambda: later.append(subprocess.Popen(["sleep", "600"], cwd=place.root)))
    starter.start()
    try:
        place.run("sleep 600 & setsid sleep 600 & wait", timeout=0.4)
        place.run("sleep 600 &")
        starter.join()
        assert [p.poll() for p in (neighbour, *later)] == [None, None]
    finally:
        starter.join()
        for process in (neighbour, *later):
            process.kill()
            process.wait()


def test_a_command_in_another_workplace_survives(place: Workplace, tmp_path: Path) -> None:
    other, stop = Workplace(place.root, str(tmp_path / "other")), threading.Event()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(other.run, "echo $$ > theirs; sleep 600", stop=stop)
        until(lambda: pids_in(place, "theirs"), "the other command running")
        try:
            place.run("sleep 600 & setsid sleep 600 & wait", timeout=0.2)
            assert is_running(pids_in(place, "theirs")[0])
        finally:
            stop.set()
        running.result(TIMEOUT)


def test_another_process_that_has_got_a_pid_is_never_signalled() -> None:
    process = subprocess.Popen(["sleep", "600"])
    try:
        earlier = Process(process.pid, os.getpid(), 0, 0, started_at(process.pid) - 1)
        send(earlier, signal.SIGKILL)
        send(Process(process.pid, 0, 0, 0, started_at(process.pid)), signal.SIGTERM)
        assert process.wait(TIMEOUT) == -signal.SIGTERM
    finally:
        process.kill()
        process.wait()


def test_processes_that_keep_multiplying_are_all_ended(place: Workplace) -> None:
    # Each that ends starts another; up to 2^6 at a time. Without the file they multiply no more, whatever happens.
    Path(place.root, "bomb").write_text(
        'echo $$ >> pids; [ -e on ] || exit; trap "" TERM; [ $1 -gt 5 ] && exec sleep 600\n'
        "sh bomb $(($1 + 1)) & setsid sh bomb $(($1 + 1)) & while [ -e on ]; do sleep 600 & wait $!; done\n"
    )
    Path(place.root, "on").touch()
    try:
        began = time.monotonic()
        place.run("sh bomb 0", timeout=0.6)
        assert time.monotonic() - began < 0.6 + 2
        assert len(pids_in(place)) > 10
        assert [p for p in process_table() if p.pid in pids_in(place) and not p.dead] == []
    finally:
        os.unlink(Path(place.root, "on"))


def test_sixty_four_commands_at_once_end_and_leave_nothing(place: Workplace) -> None:
    before = open_files()
    with ThreadPoolExecutor(64) as pool:
        texts = list(pool.map(lambda n: place.run(f"echo $$ >> pids; setsid sleep 600 & echo {n}"), range(64)))
    assert [text.split("\n")[0] for text in texts] == [str(n) for n in range(64)]
    assert {text.split("\n")[1] for text in texts} == {"[ended 1 process left running]"}
    assert open_files() == before
    assert not [p for p in process_table() if p.parent == os.getpid() and p.dead]


def test_an_error_on_our_side_ends_the_command_too(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gitteam.workplace.output.Output.take", fail)
    before = open_files()
    with pytest.raises(KeyboardInterrupt):
        place.run("echo $$ > pids; setsid sleep 600 & echo $! >> pids; echo begun; sleep 600")
    assert len(pids_in(place)) == 2
    assert [pid for pid in pids_in(place) if is_running(pid)] == []
    assert open_files() == before


def test_when_we_are_killed_with_9_our_commands_end(place: Workplace) -> None:
    code = "import sys; from gitteam.workplace import Workplace; Workplace(sys.argv[1], sys.argv[2]).run(sys.argv[3])"
    command = "setsid sh -c 'trap \"\" TERM; echo $$ >> pids; sleep 600' & echo $$ >> pids; sleep 600"
    us = subprocess.Popen([sys.executable, "-c", code, place.root, place.spill, command])
    until(lambda: len(pids_in(place)) == 2, "the command running")
    us.kill()
    us.wait(TIMEOUT)
    until(lambda: not [pid for pid in pids_in(place) if is_running(pid)], "the end of its processes")


def test_a_command_inside_a_command_is_ended_with_it(place: Workplace) -> None:
    Path(place.root, "inner.py").write_text(
        "from gitteam.workplace import Workplace\n"
        "Workplace('.', 'spill').run('echo $$ > pids; setsid sleep 600 & echo $! >> pids; wait')\n"
    )
    stop = threading.Event()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(place.run, f"{sys.executable} inner.py", stop=stop)
        until(lambda: len(pids_in(place)) == 2, "the inner command running")
        stop.set()
        running.result(TIMEOUT)
    assert [pid for pid in pids_in(place) if is_running(pid)] == []


# -- where there is no /proc -----------------------------------------------------------------


def test_ps_tells_the_same_of_a_process() -> None:
    pick: Callable[[Process], bool] = lambda p: p.pid == os.getpid()  # noqa: E731
    [ours], [theirs] = filter(pick, process_table()), filter(pick, _table_of_ps())
    assert (ours.parent, ours.group, ours.dead) == (theirs.parent, theirs.group, theirs.dead)


def test_processes_are_found_through_ps_as_well(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes_module, "process_table", _table_of_ps)
    monkeypatch.setattr(processes_module, "started_at", lambda pid: 0)
    monkeypatch.setattr(processes_module, "send", lambda process, number: os.kill(process.pid, number))
    assert place.run("sleep 600 & echo $! > pids") == "[ended 1 process left running]"
    assert "time limit" in place.run("sleep 600 & echo $! > pids; wait", timeout=0.3)
    assert not is_running(pids_in(place)[0])
