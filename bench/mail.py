"""Messages under load: none lost, none doubled, and how long it takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.boards import MEMBERS, board
from bench.timing import Row, pass_gate, shown, together
from gitteam import Team
from gitteam.errors import NothingToDo

SENDERS, EACH, TAKERS = 4, 250, 2
READER = MEMBERS[-1]


def _send(path: Path, sender: str) -> tuple[float, float, list[str]]:
    with Team(path) as team:
        begin = pass_gate()
        for number in range(EACH):
            team.send(READER, f"{sender} {number}", by=sender)
        return begin, time.monotonic(), []


def _take(path: Path) -> tuple[float, float, list[str]]:
    """Take what comes until nothing has come for a while."""
    taken: list[str] = []
    with Team(path) as team:
        begin = end = pass_gate()
        while True:
            try:
                team.wait(READER, timeout=5)
            except NothingToDo:
                return begin, end, taken
            with team.take(READER) as messages:
                taken += [message.content for message in messages]
            end = time.monotonic()


def mail(scratch: Path, large: Callable[[], Path]) -> Iterator[Row]:
    path = board(scratch / "mail", 1, role="nobody")
    senders = [(_send, (path, name)) for name in MEMBERS[:SENDERS]]
    results = together([*senders, *[(_take, (path,))] * TAKERS])
    taken = Counter(text for result in results for text in result[2])
    sent = {f"{name} {number}" for name in MEMBERS[:SENDERS] for number in range(EACH)}
    seconds = max(result[1] for result in results) - min(result[0] for result in results)
    beside = f"{len(sent - taken.keys())} lost, {taken.total() - len(taken)} doubled; {shown(seconds)}, "
    yield Row(
        f"{SENDERS} senders × {EACH} messages, {TAKERS} takers, one inbox", "sent", taken.total(), len(sent), "= 1",
        beside + f"{len(sent) / seconds:.0f} messages/s", unit="messages",
    )  # fmt: skip
