"""A lead under test: in this process or in its own, with a scripted model, and what became of its run."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents import PROGRAM, Program, Step, check, diligent, program
from conftest import TIMEOUT, Result, check_everything, diary

from gitteam import Team
from gitteam.agents.crew import Crew
from gitteam.agents.lead import Lead, Voice
from gitteam.agents.model import Model
from gitteam.agents.settings import Settings
from gitteam.scripted import Fault, Reply, Request, Server

SCRIPTS = Path(__file__).parent.parent / "examples" / "scripts"


# -- what the model says ------------------------------------------------------------------------


def calls(*some: tuple[str, dict[str, Any]], says: str = "") -> Reply:
    """Several tool calls in one answer."""
    return Reply(says, calls=list(some))


def spawn(name: str, role: str = "coder", prompt: str = "", **given: Any) -> tuple[str, dict[str, Any]]:
    return "spawn_teammate", {"name": name, "role": role, "prompt": prompt, **given}


def create(subject: str, **given: Any) -> tuple[str, dict[str, Any]]:
    return "task_create", {"subject": subject, **given}


def agreeable(request: Request) -> Reply:
    """Shuts down when asked to, and is diligent otherwise."""
    if found := re.search(r'type="shutdown_request" id="\w+" request_id="(\w+)"', request.new_text):
        return Reply(calls=[("shutdown_response", {"request_id": found[1], "approve": True})])
    return diligent(request)


def usual(request: Request) -> Reply:
    """What a lead does when it has planned: disbands the team at the end, and reports."""
    if "Every task is finished" in request.new_text:
        return Reply(calls=[("team_delete", {})])
    return Reply("All of it is done." if "Disbanded" in request.new_text else "I wait.")


def led(*steps: Step, **members: list[Step]) -> Callable[[Request], Reply | Fault | None]:
    """The lead's answers one after another, then the usual; its members' likewise, then they are agreeable."""
    left = {"lead": list(steps), **{name: list(some) for name, some in members.items()}}

    def answer(request: Request) -> Reply | Fault | None:
        some = left.get(request.member)
        step = some.pop(0) if some else usual if request.member == "lead" else agreeable
        return step(request) if callable(step) else step

    return answer


# -- a lead in this process -----------------------------------------------------------------------


class Leading:
    """A lead and its crew in threads of this process, and what they say."""

    def __init__(self, team: Team, server: Server, goal: str, stays: bool, settings: Settings):
        self.said: list[tuple[str, str]] = []
        self.heard: list[str] = []
        self._model = Model({"ANTHROPIC_API_KEY": "test"}, server.url, settings.stall_timeout, settings.give_up_after)
        self.crew = Crew(team, [], self._model, settings, lambda *said: self.said.append(said), lambda entry: None)
        voice = Voice(lambda *said: self.said.append(said), self.heard.append, lambda name, role: True)
        self.lead = Lead(team, self.crew, self._model, settings, voice, stays)
        self._thread = threading.Thread(target=self.lead.live, args=(goal,))
        self._thread.start()

    def wait(self) -> None:
        """Until the lead has ended by itself."""
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive(), "the lead did not end"

    def stop(self) -> None:
        self.crew.ask_to_stop()
        self.wait()
        self.crew.finish()
        self._model.close()


@contextmanager
def leading(team: Team, server: Server, goal: str = "", stays: bool = False, **settings: Any) -> Iterator[Leading]:
    """A lead at work, stopped in order at the end."""
    known = {"idle_timeout": None, "give_up_after": 20.0, **settings}
    running = Leading(team, server, goal, stays, Settings(**known))
    try:
        yield running
    finally:
        running.stop()
    assert not [text for _, text in running.said if "crashed" in text], running.said


def lead_to_the_end(team: Team, script: Callable[[Request], Any], goal: str, **settings: Any) -> list[Request]:
    """Let a lead work until it has ended by itself; returns what the model was asked."""
    with Server(script) as server:
        with leading(team, server, goal, **settings) as running:
            running.wait()
            assert running.lead.failure == ""
        check(server)
        return server.requests


# -- a lead in a process of its own -----------------------------------------------------------------


def run_goal(repo: Path, server: Server, *words: str, **env: str) -> Result:
    """`gitteam run` to its end."""
    with program(repo, server, "run", *words, **env) as running:
        return running.end()


@contextmanager
def running_goal(repo: Path, server: Server, *words: str, **env: str) -> Iterator[Program]:
    with program(repo, server, "run", *words, start=PROGRAM, **env) as running:
        yield running


# -- what has become of it ------------------------------------------------------------------------


def told(repo: Path) -> list[str]:
    """The diary without ids of requests, and without how the team came about."""
    lines = [re.sub(r" [0-9a-f]{6}\b", "", line) for line in diary(repo)]
    return [line for line in lines if not re.match(r"Jane Doe (sets up|begins)", line)]


def of_those(lines: list[str], *wanted: str) -> list[str]:
    """The lines that are among these, in the order of the history."""
    return [line for line in lines if line in wanted]


def check_team(repo: Path) -> None:
    with Team(repo) as team:
        check_everything(team)


def asked_of(requests: list[Request], member: str) -> list[Request]:
    return [request for request in requests if request.member == member]
