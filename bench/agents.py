"""The measures of the team: how soon a teammate is at work, what resting costs, what a turn costs."""

import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.boards import MEMBERS, board
from bench.crews import (
    PATIENCE,
    POLL_SECONDS,
    ClockedScript,
    ClockedTeam,
    PollLoop,
    WatchedCrew,
    crew_at,
    poll_loops,
    put_task,
)
from bench.measures import claiming
from bench.timing import Row, clock, in_turns, shown
from gitteam import Team, layout
from gitteam.records import Message

ME = MEMBERS[0]
TASKS = 100  # on the board, and none of them for a teammate
ROUNDS = 20


def waking(scratch: Path) -> Iterator[Row]:
    """How soon a teammate that sleeps is at work."""
    script = ClockedScript()
    rested = board(scratch / "rested", TASKS)
    with (
        Team(rested) as alone,
        crew_at(board(scratch / "board", TASKS, role="clerk"), [ME], script) as (team, crew),
        poll_loops(scratch / "polled", [ME], TASKS) as [loop],
    ):
        subjects = {
            "commit": claiming(alone, "user"),
            "claim": partial(_claim_after_rename, team, crew),
            "call": partial(_call_after_line, team, crew, script),
            "polled claim": partial(_polled, loop, partial(put_task, loop.tasks / "999.json")),
            "polled message": partial(_polled, loop, partial(loop.inbox.write_text, '{"content": "Please hurry"}\n')),
        }
        times = in_turns(ROUNDS, subjects)
    commit, loop_name = "one durable commit", f"a loop that polls every {POLL_SECONDS:g} s"
    for measure, ours, theirs in (
        ("task file renamed → claim committed by an idle teammate", "claim", "polled claim"),
        ("message written → the model call with it begins", "call", "polled message"),
    ):
        worst = f"worst {shown(max(times[ours]))}"
        yield Row(measure, commit, times[ours], times["commit"], "≤ 5", worst)
        yield Row("the same", loop_name, times[ours], times[theirs], "≤ 0.02", f"its worst {shown(max(times[theirs]))}")


def _claim_after_rename(team: ClockedTeam, crew: WatchedCrew) -> float:
    crew.until_asleep()
    root = Path(team.place.root)
    draft = root / "draft.md"
    draft.write_text("Answer the letter\n")
    start = clock()
    draft.rename(root / layout.TASKS / "letter.md")
    seconds = team.claims.get(timeout=PATIENCE) - start
    crew.until_asleep()
    return seconds


def _call_after_line(team: ClockedTeam, crew: WatchedCrew, script: ClockedScript) -> float:
    crew.until_asleep()
    text = f"Please hurry {clock()}"
    line = Message("", "message", "user", ME, text, time.time()).line()
    start = clock()
    with open(team.place.at(layout.inbox_path(ME)), "ab") as inbox:
        inbox.write(line)
    while True:
        arrival, request = script.arrivals.get(timeout=PATIENCE)
        if text in request.new_text:
            break
    crew.until_asleep()
    return arrival - start


def _polled(loop: PollLoop, happens: Callable[[], object]) -> float:
    time.sleep(random.random() * POLL_SECONDS)  # it may be anywhere between two looks
    start = clock()
    happens()
    return loop.found.get(timeout=PATIENCE) - start
