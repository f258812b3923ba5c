"""How soon a teammate is at work, and what it costs that it waits."""

import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from bench.boards import MEMBERS, board
from bench.crews import (
    PATIENCE,
    POLL_SECONDS,
    ClockedScript,
    ClockedTeam,
    PollLoop,
    crew_of,
    poll_loops,
    put_task,
    serving,
    until_asleep,
)
from bench.measures import claiming
from bench.timing import Row, clock, in_turns, shown
from gitteam import Team, layout, roster
from gitteam.agents.crew import Crew
from gitteam.records import Member, Message

ME = MEMBERS[0]
TASKS = 100  # on the board, and none of them for a teammate
ROUNDS = 20
IDLE_SECONDS = 10.0
CROWDS = (50, 200)
COMMIT, POLLING = "one durable commit", f"a loop that polls every {POLL_SECONDS:g} s"


def waking(scratch: Path) -> Iterator[Row]:
    """A teammate that sleeps, and something comes."""
    script = ClockedScript()
    with (
        Team(board(scratch / "alone", TASKS)) as alone,
        ClockedTeam(board(scratch / "board", TASKS, role="clerk")) as team,
        serving(script) as server,
        crew_of(team, [ME], server.url) as crew,
        poll_loops(scratch / "polled", [ME], TASKS) as [loop],
    ):
        subjects = {
            "commit": claiming(alone, "user"),
            "claim": partial(_claim_after_rename, team, crew),
            "call": partial(_call_after_line, team, crew, script),
            "polled claim": partial(_polled, loop, partial(put_task, loop.tasks / "999.json")),
            "polled call": partial(_polled, loop, partial(loop.inbox.write_text, '{"content": "Please hurry"}\n')),
        }
        times = in_turns(ROUNDS, subjects)
    measures = {
        "claim": "task file renamed → claim committed by an idle teammate",
        "call": "message written → the model call with it begins",
    }
    for name, measure in measures.items():
        ours, polled = times[name], times[f"polled {name}"]
        yield Row(measure, COMMIT, ours, times["commit"], "≤ 5", f"worst {shown(max(ours))}")
        target = "≤ 0.02" if name == "claim" else ""
        yield Row("the same", POLLING, ours, polled, target, f"its worst {shown(max(polled))}")


def _claim_after_rename(team: ClockedTeam, crew: Crew) -> float:
    root = Path(team.place.root)
    draft = root / "draft.md"
    draft.write_text("Answer the letter\n")
    start = clock()
    draft.rename(root / layout.TASKS / "letter.md")
    committed = team.claims.get(timeout=PATIENCE)
    until_asleep(crew, [ME])
    return committed - start


def _call_after_line(team: ClockedTeam, crew: Crew, script: ClockedScript) -> float:
    text = f"Please hurry {clock()}"
    line = Message("", "message", layout.USER, ME, text, time.time()).line()
    start = clock()
    with open(team.place.at(layout.inbox_path(ME)), "ab") as inbox:
        inbox.write(line)
    arrived = script.wait_for(text)
    until_asleep(crew, [ME])
    return arrived - start


def _polled(loop: PollLoop, happens: Callable[[], object]) -> float:
    time.sleep(random.random() * POLL_SECONDS)  # it may be anywhere between two looks
    start = clock()
    happens()
    return loop.found.get(timeout=PATIENCE) - start


# -- waiting --------------------------------------------------------------------------------------


def idling(scratch: Path) -> Iterator[Row]:
    """Many teammates asleep in one process, and then a broadcast."""
    for count in CROWDS:
        yield from _crowd(scratch / str(count), [f"t{number}" for number in range(1, count + 1)])


def _crowd(scratch: Path, names: list[str]) -> Iterator[Row]:
    path, script, count = board(scratch / "board", TASKS, role="clerk"), ClockedScript(), len(names)
    with Team(path) as team, serving(script) as server:
        team.change("user", lambda c: [roster.add(c, Member(name, "worker")) for name in names])
        commits = in_turns(5, {"commit": claiming(team, "user")})["commit"]
        jobs: list[tuple[Callable[..., None], tuple[object, ...]]] = [
            (_sleep_in_crew, (path, names, server.url)),
            (_sleep_in_loops, (scratch / "polled", names)),
            (_sleep, ()),
        ]
        children = [_begin(job, given) for job, given in jobs]
        ours, polled, alone = [pipe.recv() for _, pipe in children]
        start = clock()
        team.broadcast("Please hurry", by="user")
        woken = max(script.wait_for("Please hurry") for _ in names) - start
        for process, pipe in children:
            pipe.send("end")
            process.join()
    measure, of_core = f"{count} idle teammates, CPU in {IDLE_SECONDS:g} s", f"{ours / IDLE_SECONDS:.2%} of a core"
    yield Row(measure, "an idle Python process", [ours], [alone], "", of_core)
    yield Row("the same", f"{count} loops that poll", [ours], [polled])
    measure, each = f"broadcast → all {count} have asked the model", f"{shown(woken / count)} each"
    yield Row(measure, COMMIT, [woken], commits, "", each)


def _begin(job: Callable[..., None], given: tuple[object, ...]) -> tuple[multiprocessing.Process, Connection]:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=job, args=(theirs, *given), daemon=True)
    process.start()
    return process, ours  # type: ignore[return-value]


def _sleep(pipe: Connection) -> None:
    """Tell how much CPU this process takes while it waits, and stay until told to end."""
    before = time.process_time()
    time.sleep(IDLE_SECONDS)
    pipe.send(time.process_time() - before)
    pipe.recv()


def _sleep_in_crew(pipe: Connection, path: Path, names: list[str], url: str) -> None:
    with Team(path) as team, crew_of(team, names, url) as crew:
        _sleep(pipe)
        until_asleep(crew, names)


def _sleep_in_loops(pipe: Connection, directory: Path, names: list[str]) -> None:
    with poll_loops(directory, names, TASKS):
        time.sleep(2 * POLL_SECONDS)
        _sleep(pipe)
