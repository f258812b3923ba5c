"""What a turn of the harness costs beside what it is made of, and how much of each request was in the one before."""

import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import anthropic

from bench.boards import MEMBERS, board
from bench.crews import PATIENCE, ClockedTeam, crew_of, serving, until_asleep
from bench.timing import Row, clock, in_turns, shown
from gitteam import Team
from gitteam.agents.crew import Crew
from gitteam.scripted import Reply, Request
from gitteam.scripted.exchange import Call
from gitteam.workplace import Workplace

ME = MEMBERS[0]
CREW = MEMBERS[:12]  # a round each, so that every conversation begins anew: who has slept longest is woken first
TURNS = 20
PREFIX_TURNS = 40
FILE, LINES = "letters.txt", 400
_TASK = "Task #"


class ManyTurns:
    """Answers a task with so many calls of a tool, one after the other. What it answers follows from the request."""

    def __init__(self, turns: int, call: Callable[[int], Call]):
        self._turns, self._call = turns, call
        self.arrivals: list[tuple[float, dict[str, Any]]] = []

    def __call__(self, request: Request) -> Reply:
        self.arrivals.append((clock(), request.body))
        turn, task = _turn(request.messages)
        if turn > self._turns:
            return Reply("Done.")
        done = ("task_update", {"id": task, "status": "completed"})
        return Reply(calls=[self._call(turn) if turn < self._turns else done])

    def lasts_at(self, moment: float) -> bool:
        return self.arrivals[0][0] <= moment <= self.arrivals[self._turns][0]

    def seconds_a_turn(self) -> float:
        """The median: a turn in which somebody else had the processor says nothing."""
        moments = [moment for moment, _ in self.arrivals[: self._turns + 1]]
        return median(after - before for before, after in pairwise(moments))


def _turn(messages: list[dict[str, Any]]) -> tuple[int, int]:
    """How many answers there have been since the last task was handed over, and which task it is."""
    turn = 0
    for message in reversed(messages):
        for block in message["content"] if message["role"] == "user" else ():
            if block["type"] == "text" and block["text"].startswith(_TASK):
                return turn, int(block["text"].removeprefix(_TASK).partition(":")[0])
        turn += message["role"] == "assistant"
    return turn, 0


def turn(scratch: Path) -> Iterator[Row]:
    """One call of the model and one of a tool."""
    yield from _tool(scratch / "read", "read_file", lambda n: {"path": FILE, "offset": n + 1, "limit": 20})
    yield from _tool(scratch / "bash", "bash", lambda n: {"command": f"sed -n {n + 1},{n + 20}p {FILE}"})


def _tool(scratch: Path, name: str, given: Callable[[int], dict[str, Any]]) -> Iterator[Row]:
    script = ManyTurns(TURNS, lambda number: (name, given(number)))
    path = _with_file(board(scratch / "board", 100, role="clerk"))
    with ClockedTeam(path) as team, serving(script) as server, crew_of(team, CREW, server.url) as crew:
        client = anthropic.Anthropic(api_key="scripted", base_url=server.url, max_retries=0)
        workplace = Workplace(str(path), str(scratch / "outputs"))
        use = {"read_file": workplace.read, "bash": workplace.run}[name]
        board_seconds: list[float] = []
        harness = partial(_piece_of_work, team, crew, script, board_seconds)
        bare = partial(_bare, client, script, lambda number: use(**given(number)))
        times = in_turns(len(CREW) - 1, {"harness": harness, "bare": bare})
        client.close()
    more = median(times["harness"]) - median(times["bare"])
    beside = f"{shown(more)} more, of which {shown(median(board_seconds[1:]))} to look at the board"
    yield Row(f"a turn with {name}", "bare SDK call + tool", times["harness"], times["bare"], "≤ 1.5", beside)


def _with_file(path: Path) -> Path:
    (path / FILE).write_text(
        "".join(f"The letter of customer {number}, and what we answered\n" for number in range(LINES))
    )
    return path


def _piece_of_work(team: ClockedTeam, crew: Crew, script: ManyTurns, board_seconds: list[float]) -> float:
    """Seconds a turn, from one request to the next."""
    script.arrivals.clear()
    team.spans.clear()
    (Path(team.place.root) / ".tasks" / "letters.md").write_text("Look through the letters\n")
    team.claims.get(timeout=PATIENCE)
    until_asleep(crew, CREW)
    spans = [end - start for who, start, end in team.spans if who in CREW and script.lasts_at(start)]
    board_seconds.append(sum(spans) / TURNS)
    return script.seconds_a_turn()


def _bare(client: anthropic.Anthropic, script: ManyTurns, use: Callable[[int], object]) -> float:
    """The same requests and the same tool once more, with nothing around them."""
    bodies = [body for _, body in script.arrivals[: TURNS + 1]]
    script.arrivals.clear()
    for number, body in enumerate(bodies):
        with client.messages.stream(**{key: value for key, value in body.items() if key != "stream"}) as stream:
            stream.get_final_message()
        use(number)
    return script.seconds_a_turn()


# -- what stays the same --------------------------------------------------------------------------


def prefix(scratch: Path) -> Iterator[Row]:
    """How much of each request is, byte for byte, the beginning of the next: what prompt caching lives on."""
    calls: list[Callable[[int], Call]] = [
        lambda n: ("read_file", {"path": FILE, "offset": n + 1, "limit": 20}),
        lambda n: ("bash", {"command": f"sed -n {n + 1},{n + 9}p {FILE}"}),
        lambda n: ("write_file", {"path": f"answer-{n}.txt", "content": f"Dear customer {n}\n"}),
        lambda n: ("send_message", {"to": MEMBERS[1], "content": f"Letter {n} is answered"}),
    ]
    script = ManyTurns(PREFIX_TURNS, lambda n: calls[n % len(calls)](n))
    path = _with_file(board(scratch / "board", 100, role="clerk"))
    with Team(path) as team, serving(script) as server, crew_of(team, [ME], server.url) as crew:
        team.add("Answer the letters")
        while len(script.arrivals) < PREFIX_TURNS:
            if not crew.running():
                raise RuntimeError("the teammate has ended")
            time.sleep(0.05)
        until_asleep(crew, [ME])
    texts = [_as_read(body) for _, body in script.arrivals[:PREFIX_TURNS]]
    shares = [len(os.path.commonprefix(pair)) / len(pair[0]) for pair in pairwise(texts)]  # noqa: RUF071 (no paths)
    beside = f"least {min(shares):.2%}"
    yield Row(f"prefix of the next request, {PREFIX_TURNS} turns", "the request", shares, [1], "≥ 0.95", beside, "")


def _as_read(body: dict[str, Any]) -> str:
    """A request in the order in which the model reads it."""
    parts = [body["model"], body["tools"], body["system"], *body["messages"]]
    return "\n".join(json.dumps(part, ensure_ascii=False) for part in parts)
