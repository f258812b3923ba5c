"""Many at once: processes that claim and are killed at any moment, and the person's own git beside us."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import TIMEOUT, check_everything, git, until
from faults import Child, call, command, new_board, sound

from gitteam import Team
from gitteam.errors import NothingToDo

# -- claims -------------------------------------------------------------------------------------


def test_of_eight_who_claim_one_task_one_gets_it_and_seven_are_told_who(tmp_path: Path) -> None:
    root = new_board(tmp_path / "project")
    names = [f"m{n}" for n in range(8)]
    with Team(root) as team:
        team.add("One")
        for name in names:
            team.add_member(name)
    children = [command(root, "task", "claim", "1", "--as", name) for name in names]
    ends = dict(zip(names, [child.end() for child in [child.go() for child in children]], strict=True))
    winners = [name for name, end in ends.items() if end.code == 0]
    assert len(winners) == 1, ends
    losers = [end for name, end in ends.items() if name not in winners]
    assert [end.code for end in losers] == [4] * 7
    assert all(f"{winners[0]} has it" in end.err for end in losers), losers
    sound(root)


def test_threads_that_share_one_team_do_each_task_once(team: Team) -> None:
    names = [f"m{n}" for n in range(6)]
    for name in names:
        team.add_member(name)
    for number in range(12):
        team.add(f"Task {number}")
    done: list[int] = []

    def work(name: str) -> None:
        while True:
            try:
                task = team.claim(by=name)
            except NothingToDo:
                return
            team.done(task.id, by=name, claim=task.claim)
            done.append(task.id)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert sorted(done) == list(range(1, 13))
    check_everything(team)


# -- claims by processes that are killed at any moment --------------------------------------------


class Worker:
    """Somebody who claims, notes, releases and completes, and writes down what was acknowledged, and when."""

    def __init__(self, root: Path, name: str):
        self.root, self.name = root, name
        self._log, self._finish = root.parent / f"{name}.log", root.parent / "finish"
        self.start()

    def start(self) -> None:
        self.process = Child(self._work, self.root).go()

    def _work(self) -> int:
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def act(event: str, operation: Callable[[], Any], mark: str = "") -> Any:
            began = time.monotonic()
            task = operation()
            record = {"event": event, "task": task.id, "claim": task.claim, "mark": mark}
            os.write(log, (json.dumps({**record, "began": began, "ended": time.monotonic()}) + "\n").encode())
            return task

        with Team(self.root, lock_timeout=TIMEOUT) as team:
            while True:
                finishing = self._finish.exists()
                try:
                    task = act("claimed", lambda: team.claim(by=self.name))
                except NothingToDo:
                    if finishing:
                        return 0
                    continue
                mark = f"{self.name}-{time.monotonic_ns()}"
                act("noted", lambda n=task.id, m=mark: team.note(n, m, by=self.name), mark)
                over = team.done if finishing or task.id % 3 == 0 else team.release
                event = "completed" if over == team.done else "released"
                act(event, lambda n=task.id, c=task.claim, f=over: f(n, by=self.name, claim=c))

    def kill(self) -> None:
        found = self.process.kill()
        assert found.code == -9, f"{self.name} did not live until it was killed: {found}"

    def acknowledged(self) -> list[dict[str, Any]]:
        lines = self._log.read_text().splitlines(keepends=True) if self._log.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]  # the last one may be torn


def _positions(root: Path) -> dict[tuple[object, ...], int]:
    """Where in the history each claim, note and end of a claim stands; each only once."""
    found: dict[tuple[object, ...], int] = {}
    claims: defaultdict[int, int] = defaultdict(int)
    form = "--format=%an%x09%(trailers:key=Team-Event,valueonly,separator=)%x09%(trailers:key=Team-Task,valueonly,separator=)%x09%s"
    for position, line in enumerate(git(root, "log", "--reverse", form, "gitteam").splitlines()):
        author, event, number, sentence = line.split("\t")
        if event not in ("claimed", "noted", "released", "completed"):
            continue
        claims[int(number)] += event == "claimed"
        last = sentence.rpartition(" ")[2] if event == "noted" else claims[int(number)]
        key = (author, event, int(number), last)
        assert key not in found, f"{key} is in the history twice"
        found[key] = position
    return found


def _check_order(times: list[tuple[int, float, float]]) -> None:
    """What had returned before something else began stands before it."""
    latest_start = 0.0
    for _, began, ended in sorted(times):
        assert ended >= latest_start, "the history is not in the order in which things happened"
        latest_start = max(latest_start, began)


def _kill_at_random(workers: list[Worker], kills: int, longest: float) -> None:
    chance = random.Random(7)
    for _ in range(kills):
        time.sleep(chance.uniform(0.02, longest))
        victim = chance.choice(workers)
        victim.kill()
        victim.start()


@pytest.mark.parametrize(
    ("tasks", "kills", "longest"), [(30, 40, 0.08), pytest.param(200, 500, 0.2, marks=pytest.mark.long)]
)
def test_sixteen_who_are_killed_at_random_lose_and_double_nothing(
    tasks: int, kills: int, longest: float, tmp_path: Path
) -> None:
    root, names = new_board(tmp_path / "project"), [f"m{n}" for n in range(16)]
    with Team(root) as team:
        for number in range(1, tasks + 1):
            (root / f".tasks/{number}-task.md").write_text(f"Task {number}\n")
        for name in names:
            team.add_member(name)
    workers = [Worker(root, name) for name in names]
    _kill_at_random(workers, kills, longest)
    (tmp_path / "finish").touch()
    ends = [worker.process.end() for worker in workers]
    assert [end.code for end in ends] == [0] * 16, [end.err for end in ends if end.code]

    with Team(root) as team:
        everything = team.tasks(finished=True)
    assert [(task.id, task.status) for task in everything] == [(n, "completed") for n in range(1, tasks + 1)]
    positions, times, text = _positions(root), [], "".join(task.notes for task in everything)
    for worker in workers:
        for act in worker.acknowledged():
            key = (worker.name, act["event"], act["task"], act["mark"] or act["claim"])
            assert key in positions, f"acknowledged, but not in the history: {key}"
            # Whoever comes back to a task of their own is told so without a commit.
            times += [(positions[key], act["began"], act["ended"])] if act["event"] != "claimed" else []
            assert not act["mark"] or text.count(act["mark"]) == 1
    _check_order(times)
    sound(root)
