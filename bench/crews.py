"""Teams to measure: members that live in this process on a scripted model, and a loop that polls, to compare with."""

import json
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from bench.timing import clock
from gitteam import Team
from gitteam.agents.crew import Crew
from gitteam.agents.model import KEYS, Model
from gitteam.agents.settings import Settings
from gitteam.board import Board
from gitteam.change import Change
from gitteam.records import IN_PROGRESS, Task
from gitteam.scripted import Reply, Request, Server
from gitteam.tree import Standing

PATIENCE = 120  # seconds for anything that is waited for; never reached when all is well
POLL_SECONDS = 1.0

T = TypeVar("T")


class ClockedTeam(Team):
    """Notes when each claim was committed, and when each member looked and changed something."""

    def __init__(self, path: Path):
        super().__init__(path)
        self.claims: queue.SimpleQueue[float] = queue.SimpleQueue()
        self.spans: list[tuple[str, float, float]] = []  # in whose thread, from when to when

    def look(self) -> tuple[Standing, Board]:
        with self._noted():
            return super().look()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        start = clock()
        yield
        self.spans.append((threading.current_thread().name, start, clock()))

    def change(self, by: str, operation: Callable[[Change], T]) -> T:
        with self._noted():
            result = super().change(by, operation)
        if isinstance(result, Task) and result.status == IN_PROGRESS:
            self.claims.put(clock())
        return result


class ClockedScript:
    """Notes when each request came. Every task is completed at once, and everything else is answered with a word."""

    def __init__(self) -> None:
        self.arrivals: queue.SimpleQueue[tuple[float, Request]] = queue.SimpleQueue()

    def __call__(self, request: Request) -> Reply:
        self.arrivals.put((clock(), request))
        if task := re.search(r"^Task #(\d+):", request.new_text, re.MULTILINE):
            return Reply(calls=[("task_update", {"id": int(task[1]), "status": "completed", "result": "Done."})])
        return Reply("Done.")

    def wait_for(self, text: str) -> float:
        """When the next request came that has this in what is new."""
        while True:
            arrived, request = self.arrivals.get(timeout=PATIENCE)
            if text in request.new_text:
                return arrived


def until_asleep(crew: Crew, names: list[str]) -> None:
    deadline = clock() + PATIENCE
    while crew.bell.asleep() != set(names):
        if clock() > deadline:
            raise RuntimeError("the crew does not come to rest")
        time.sleep(0.02)
    time.sleep(0.1)  # the events of their last commits are still on their way


@contextmanager
def crew_of(team: Team, names: list[str], url: str) -> Iterator[Crew]:
    """These members, alive and asleep, on the model at `url`."""
    model = Model({KEYS[0]: "scripted"}, url, stall_timeout=PATIENCE)
    crew = Crew(team, names, model, Settings(idle_timeout=None), lambda *_: None, lambda _: None)
    running = threading.Thread(target=crew.run)
    running.start()
    try:
        until_asleep(crew, names)
        yield crew
    finally:
        crew.ask_to_stop()
        running.join()
        model.close()


@contextmanager
def serving(script: Callable[[Request], Reply]) -> Iterator[Server]:
    """A server for the script, that was content with every request."""
    with Server(script) as server:
        yield server
        if found := server.failures or server.rejected:
            raise RuntimeError(f"the server is not content: {found[0]}")


class PollLoop(threading.Thread):
    """A teammate that looks once a second, at all tasks and its inbox, and claims without a lock or a history."""

    def __init__(self, directory: Path, name: str):
        super().__init__(daemon=True)
        self.tasks, self.inbox = directory / "tasks", directory / f"{name}.jsonl"
        self.found: queue.SimpleQueue[float] = queue.SimpleQueue()  # when it had claimed something, or read something
        self._member, self._ended = name, threading.Event()

    def run(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            if self._take_messages() or self._claim():
                self.found.put(clock())

    def _take_messages(self) -> bool:
        if not self.inbox.exists() or not (text := self.inbox.read_text()):
            return False
        self.inbox.write_text("")
        return bool([json.loads(line) for line in text.splitlines()])

    def _claim(self) -> bool:
        for file in sorted(self.tasks.glob("*.json")):
            task = json.loads(file.read_text())
            if task["status"] == "pending" and not task["owner"] and not task["blockedBy"]:
                file.write_text(json.dumps({**task, "status": IN_PROGRESS, "owner": self._member}))
                return True
        return False

    def close(self) -> None:
        self._ended.set()
        self.join()


@contextmanager
def poll_loops(directory: Path, names: list[str], tasks: int) -> Iterator[list[PollLoop]]:
    """So many of them on one board, on which everything is somebody's already."""
    (directory / "tasks").mkdir(parents=True, exist_ok=True)
    for number in range(1, tasks + 1):
        put_task(directory / "tasks" / f"{number}.json", owner="clerk")
    loops = [PollLoop(directory, name) for name in names]
    for loop in loops:
        loop.start()
    try:
        yield loops
    finally:
        for loop in loops:
            loop.close()


def put_task(path: Path, owner: str = "") -> None:
    """Rename a task of the poll loop's into place."""
    task = {"id": path.stem, "subject": "Answer the letter", "status": "pending", "owner": owner, "blockedBy": []}
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(task))
    draft.rename(path)
