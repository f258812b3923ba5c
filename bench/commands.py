"""What the commands cost from start to end, how soon a waiting one wakes, and what a long history adds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.boards import MEMBERS, board
from bench.claims import claiming
from bench.timing import Row, in_turns, median, shown, stopwatch
from gitteam import Team

PROGRAM = str(Path(sys.executable).with_name("gitteam"))
CLICK = 'python -c "import click"'


def _running(path: Path, *words: str, after: Callable[[], object] = lambda: None) -> Callable[[], float]:
    """Run a program to its end, timed; then what makes the next run the same, not timed."""

    def sample() -> float:
        with stopwatch() as watch:
            subprocess.run(words, cwd=path, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after()
        return watch.seconds

    return sample


def commands(scratch: Path, large: Callable[[], Path]) -> Iterator[Row]:
    subjects = {"click": _running(scratch, sys.executable, "-c", "import click")}
    teams = {size: Team(board(scratch / f"open-{size}", size)) for size in (100, 1000)}
    for size, team in teams.items():
        path, me = Path(team.place.root), MEMBERS[0]

        def hand_back(team: Team = team, me: str = me) -> None:
            team.release(team.board().held_by(me)[0].id, by=me)

        subjects[f"task {size}"] = _running(path, PROGRAM, "task")
        subjects[f"task add {size}"] = _running(path, PROGRAM, "task", "add", "Answer the letter")
        subjects[f"task claim {size}"] = _running(path, PROGRAM, "task", "claim", "--as", me, after=hand_back)
    middle = {name: median(times) for name, times in in_turns(20, subjects).items()}
    for team in teams.values():
        team.close()
    yield Row("gitteam task, 100 tasks", CLICK, middle["task 100"], middle["click"], "≤ 2.5")
    yield Row("gitteam task, 1,000 tasks", "the same, 100 tasks", middle["task 1000"], middle["task 100"], "≤ 2")
    for command in ("task add", "task claim"):
        for size in teams:
            ours = middle[f"{command} {size}"]
            yield Row(f"gitteam {command}, {size:,} tasks", CLICK, ours, middle["click"], "≤ 4.5")


def growth(scratch: Path, large: Callable[[], Path]) -> Iterator[Row]:
    places = {"small": board(scratch / "small", 100), "large": large()}
    calls = {("log",): ("log",), ("log", "ID"): ("log", "50"), ("task",): ("task",)}
    subjects = {
        " ".join((size, *name)): _running(path, PROGRAM, *words)
        for name, words in calls.items()
        for size, path in places.items()
    }
    middle = {name: median(times) for name, times in in_turns(10, subjects).items()}
    for name in map(" ".join, calls):
        ours, theirs = middle[f"large {name}"], middle[f"small {name}"]
        yield Row(f"gitteam {name}, 50,000 commits, 10,000 tasks", "the same, 100 of each", ours, theirs)


# -- waking ---------------------------------------------------------------------------------


def wake(scratch: Path, large: Callable[[], Path]) -> Iterator[Row]:
    """A board with nothing for the first member, until a file for them is renamed into it."""
    path = board(scratch / "waking", 100, role="clerk")
    with Team(path) as team:
        samples = in_turns(20, {"claim": claiming(team, "user"), "wake": lambda: _wake(team)})
    ours, theirs = median(samples["wake"]), median(samples["claim"])
    beside = f"worst {shown(max(samples['wake']))}"
    yield Row("task file renamed → gitteam wait printed", "claim, 100 tasks, durable", ours, theirs, "≤ 5", beside)


def _wake(team: Team) -> float:
    root, me = Path(team.place.root), MEMBERS[0]
    (root / "draft").write_text("Answer the letter\n")
    words = [PROGRAM, "wait", "--as", me, "--timeout", "60"]
    with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout
        _until_asleep(waiting.pid, root / ".tasks")
        with stopwatch() as watch:
            os.rename(root / "draft", root / ".tasks" / "letter.md")
            line = waiting.stdout.readline()
    team.cancel(int(line.split()[1]))
    return watch.seconds


def _until_asleep(pid: int, directory: Path) -> None:
    """Until the process watches the directory and none of its threads has run for a while."""
    mark = f"ino:{directory.stat().st_ino:x} "
    deadline, before = time.monotonic() + 30, ""
    while time.monotonic() < deadline:
        files = Path(f"/proc/{pid}/fdinfo").glob("*")
        is_watching = any(mark in text for text in map(_read, files))
        now = "".join(_read(thread) for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"))
        if is_watching and now == before:
            return
        before = now
        time.sleep(0.1)
    raise RuntimeError(f"process {pid} does not come to rest")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # closed meanwhile
        return ""
