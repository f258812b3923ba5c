"""What the program says to a model: the texts in prompts/, filled in."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Formatter

from gitteam import skills
from gitteam.agents.envelope import task_text
from gitteam.records import Member, Task
from gitteam.requests import APPROVED, OPEN, PLAN, SHUTDOWN, Request
from gitteam.roster import Config
from gitteam.skills import Skill


@cache
def prompt(name: str) -> str:
    return files("gitteam.agents").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8").strip()


def filled(template: str, /, **values: object) -> str:
    return Formatter().vformat(prompt(template), (), values)


def skills_prompt(found: list[Skill]) -> str:
    """What the repository has written down, by name; the rest is read on demand."""
    return f"Skills of this repository, to be read with the skill tool:\n{skills.catalogue(found)}\n" if found else ""


def system_prompt(config: Config, member: Member, found: list[Skill]) -> str:
    """The same for a member's whole life, so that it is served from the model's cache."""
    others = [f"{m.name} ({m.role or m.kind})" for n, m in sorted(config.members.items()) if n != member.name]
    return filled(
        "teammate",
        name=member.name,
        role=f"{member.role} " if member.role else "",
        team=config.name,
        prompt=f"{member.prompt}\n" if member.prompt else "",
        others=", ".join(others) or "nobody yet",
        plan=prompt("plan") + "\n" if member.plan else "",
        skills=skills_prompt(found),
    )


def lead_prompt(config: Config, found: list[Skill]) -> str:
    return filled("lead", team=config.name, skills=skills_prompt(found))


def identity(config: Config, member: Member, task: Task | None, requests: list[Request], goal: str = "") -> str:
    """Who a member is, what it holds and who asked for what: said anew when its conversation was shortened."""
    role = f", {member.role}," if member.role else ""
    lines = [f"You are {member.name}{role} in the team {config.name}. Your conversation has been shortened."]
    lines += [f"The person asks:\n{goal}\nLook at the board for what has been done about it."] if goal else []
    lines += [task_text(task), "You hold this task."] if task else ["You hold no task."]
    lines += [sentence for request in requests if (sentence := _about(request, member.name))]
    return "\n".join(lines)


def _about(request: Request, name: str) -> str:
    """What a member has to know about a request; nothing if it is between others."""
    if request.to == name and request.status == OPEN:
        if request.kind == SHUTDOWN:
            return f"Shutdown request {request.id} from {request.sender} waits for your answer."
        return f"Plan {request.id} of {request.sender} waits for your decision."
    if request.kind == PLAN and request.sender == name:
        return f"Your plan {request.id} {'is approved' if request.status == APPROVED else 'waits for approval'}."
    return ""
