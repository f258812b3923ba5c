"""Agents under test: a team of them, a scripted model, and crews that run in this process or in their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import TIMEOUT, Result, check_everything, diary, until

from gitteam import Team
from gitteam.agents.crew import Crew
from gitteam.agents.model import Model
from gitteam.agents.settings import Settings
from gitteam.journal import Entry
from gitteam.records import Message
from gitteam.scripted import Fault, Reply, Request, Server

PROGRAM = (sys.executable, "-m", "gitteam")

Step = Reply | Fault | Callable[[Request], Reply | Fault | None]


@contextmanager
def team_of(repo: Path, *names: str) -> Iterator[Team]:
    """A team of agents in a repository. All that must hold is checked at the end."""
    Team.init(repo)
    with Team(repo) as team:
        for name in names:
            team.add_member(name)
        yield team
        check_everything(team)


# -- what the model says ------------------------------------------------------------------------


def call(tool: str, **given: Any) -> Reply:
    return Reply(calls=[(tool, given)])


def completes(number: int, result: str = "done") -> Reply:
    return call("task_update", id=number, status="completed", result=result)


def handed(request: Request) -> int | None:
    """The task that has been handed over since the model's last answer."""
    found = re.findall(r"^Task #(\d+): ", request.new_text, re.MULTILINE)
    return int(found[-1]) if found else None


def diligent(request: Request) -> Reply:
    """Completes every task it is handed and has nothing else to say."""
    number = handed(request)
    return completes(number) if number else Reply("All done.")


def in_turn(**steps: list[Step]) -> Callable[[Request], Reply | Fault | None]:
    """Each member's answers, one after another; then it is diligent. A function is asked for its answer."""
    left = {name: list(some) for name, some in steps.items()}

    def answer(request: Request) -> Reply | Fault | None:
        some = left.get(request.member)
        step = some.pop(0) if some else diligent
        return step(request) if callable(step) else step

    return answer


class Pause:
    """A model call that takes until the test has done something."""

    def __init__(self, then: Step):
        self._then = then
        self._arrived, self._go = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> Reply | Fault | None:
        self._arrived.set()
        assert self._go.wait(TIMEOUT), "nobody let it go on"
        return self._then(request) if callable(self._then) else self._then

    @contextmanager
    def meanwhile(self) -> Iterator[None]:
        """What is done in here happens while the model thinks."""
        assert self._arrived.wait(TIMEOUT), "the model was not asked"
        try:
            yield
        finally:
            self.go()

    def go(self) -> None:
        self._go.set()


# -- a crew in this process ---------------------------------------------------------------------


class Running:
    """A crew that runs in threads of this process, and what it says and shows."""

    def __init__(self, team: Team, server: Server, names: list[str], until_done: bool, stays: bool, settings: Settings):
        self.said: list[tuple[str, str]] = []
        self.shown: list[Entry] = []
        self._model = Model({"ANTHROPIC_API_KEY": "test"}, server.url, settings.stall_timeout, settings.give_up_after)
        self.crew = Crew(team, names, self._model, settings, lambda *said: self.said.append(said), self.shown.append)
        self._thread = threading.Thread(target=self.crew.run, args=(until_done, stays))
        self._thread.start()

    def wait(self) -> None:
        """Until the crew has ended by itself."""
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive(), "the crew did not end"

    def stop(self) -> None:
        self.crew.ask_to_stop()
        self.wait()
        self._model.close()


@contextmanager
def crew(
    team: Team, server: Server, *names: str, until_done: bool = False, stays: bool = True, may_crash: bool = False,
    **settings: Any,
) -> Iterator[Running]:  # fmt: skip
    """A crew at work, stopped in order at the end. Without names it is everybody."""
    chosen = list(names) or [m.name for m in team.members() if m.kind == "agent"]
    running = Running(
        team, server, chosen, until_done, stays, Settings(**{"idle_timeout": None, "give_up_after": 20.0, **settings})
    )
    try:
        yield running
    finally:
        running.stop()
    assert may_crash or not [text for _, text in running.said if "crashed" in text], running.said


def finish(team: Team, script: Callable[[Request], Any], *names: str, **settings: Any) -> list[Request]:
    """Let a crew work until nothing is left to do; returns what the model was asked."""
    with Server(script) as server:
        with crew(team, server, *names, until_done=True, **settings) as running:
            running.wait()
        check(server)
        return server.requests


def check(server: Server) -> None:
    """Everything that was sent was sound, and the script itself did not fail."""
    assert server.rejected == []
    assert server.failures == []


# -- a crew in a process of its own ---------------------------------------------------------------


class Program:
    """`gitteam up` or `join` in a real process that asks this server."""

    def __init__(self, cwd: Path, server: Server, *words: str, start: tuple[str, ...] = PROGRAM, **env: str):
        self._output = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115
        self.process = subprocess.Popen(
            [*start, *words], cwd=cwd, stdout=self._output[0], stderr=self._output[1],
            env={**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "test", **env},
        )  # fmt: skip

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def out(self) -> str:
        """What it has printed so far."""
        return os.pread(self._output[0].fileno(), 1 << 20, 0).decode()

    def err(self) -> str:
        return os.pread(self._output[1].fileno(), 1 << 20, 0).decode()

    def end(self) -> Result:
        """Wait for its end; what it printed, and its exit code."""
        code = self.process.wait(TIMEOUT)
        texts = []
        for file in self._output:
            file.seek(0)
            texts.append(file.read())
            file.close()
        assert "Traceback" not in texts[1], texts[1]
        return Result(subprocess.CompletedProcess([], code, *texts))

    def kill(self) -> Result:
        self.process.kill()
        return self.end()


@contextmanager
def program(cwd: Path, server: Server, *words: str, start: tuple[str, ...] = PROGRAM, **env: str) -> Iterator[Program]:
    """Killed at the end, if it has not ended before."""
    running = Program(cwd, server, *words, start=start, **env)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait(TIMEOUT)


# -- what has become of it ------------------------------------------------------------------------


def history(team: Team) -> list[str]:
    """The diary without how the team came about."""
    lines = diary(Path(team.place.root), team.branch)
    return [line for line in lines if not re.match(r"Jane Doe (sets up|begins|adds|starts)", line)]


def claims(team: Team) -> dict[int, list[str]]:
    """Who has claimed each task, in order."""
    found: dict[int, list[str]] = defaultdict(list)
    for line in history(team):
        if match := re.match(r"(\S+) claims #(\d+): ", line):
            found[int(match[2])].append(match[1])
    return dict(found)


def statuses(team: Team) -> list[str]:
    return [task.status for task in team.tasks(finished=True)]


def lead_mail(team: Team, kind: str) -> list[Message]:
    return [m for m in team.inbox("lead") if m.type == kind]


def until_alive(team: Team, *names: str) -> None:
    until(lambda: all(map(team.is_alive, names)), f"{names} running")


def until_asleep(running: Running, *names: str) -> None:
    """Wait until they wait for something to do: the bell rings for them from now on."""
    until(lambda: running.crew.bell._sleepers.keys() >= {*names}, f"{names} asleep")


def until_status(team: Team, name: str, status: str, reason: str | None = None) -> None:
    """Wait until the roster says so of a member."""

    def says_so() -> bool:
        member = team.config().members[name]
        return member.status == status and reason in (None, member.reason)

    until(says_so, f"{name} {status}")


def conversation(request: Request) -> str:
    """Everything said to the model so far, for a look at the whole of a conversation."""
    parts = [block.get("text") or block.get("content") or "" for m in request.messages for block in m["content"]]
    return "\n".join(map(str, parts))
