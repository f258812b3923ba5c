"""Tools that help a member with its own work: skills, and commands that go on in the background."""

from __future__ import annotations

from gitteam.agents.desk import Desk
from gitteam.agents.envelope import OUTPUT, envelope
from gitteam.errors import NotFound
from gitteam.tools import Tool


def _skill(desk: Desk, name: str) -> str:
    for skill in desk.skills:
        if skill.name == name:
            return envelope(OUTPUT, skill.body, of=skill.path)
    known = ", ".join(skill.name for skill in desk.skills) or "there is none"
    raise NotFound(f"there is no skill {name!r}: {known}")


def _background_run(desk: Desk, command: str) -> str:
    return f"Started as {desk.background.start(command)}. You are told when it ends."


def _background_output(desk: Desk, id: str) -> str:
    return envelope(OUTPUT, desk.background.output(id), of=id)


def _background_stop(desk: Desk, id: str) -> str:
    return desk.background.stop(id)


TOOLS = [
    Tool(
        "skill",
        "How to do something, written down for this repository.",
        {"name": ("string", "")},
        _skill,
        is_safe=True,
        before_approval=True,
    ),
    Tool(
        "background_run", "Start a command that goes on while you work.", {"command": ("string", "")}, _background_run
    ),
    Tool(
        "background_output",
        "What a background command has printed since you last looked.",
        {"id": ("string", "")},
        _background_output,
        before_approval=True,
    ),
    Tool(
        "background_stop", "End a background command.", {"id": ("string", "")}, _background_stop, before_approval=True
    ),
]
