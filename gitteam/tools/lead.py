"""Tools of the lead alone: building a team, deciding about plans, ending it."""

from __future__ import annotations

from dataclasses import replace

from gitteam import layout, mail, requests, roster
from gitteam.agents import subagent
from gitteam.agents.lead_desk import LeadDesk
from gitteam.change import Change
from gitteam.errors import Conflict, NotFound, ToolFailed
from gitteam.records import Member
from gitteam.tools import Tool


def _team_create(desk: LeadDesk, name: str) -> str:
    layout.check_name(name, "name for a team")

    def create(change: Change) -> None:
        if change.config.name != name:
            change.put_config(replace(change.config, name=name))
            change.story.tell("member", f"lead calls the team {name}")

    desk.team.change(layout.LEAD, create)
    return f"The team is called {name}."


def _team_delete(desk: LeadDesk) -> str:
    names = [m.name for m in desk.team.members() if m.kind == "agent"]
    for name in names:
        if desk.team.is_alive(name):
            desk.team.ask_shutdown(name, "the work is done: the team is being disbanded", by=layout.LEAD)
    left = desk.crew.end_all(names)
    for name in [name for name in names if name not in left]:
        desk.team.remove_member(name, by=layout.LEAD)
        desk.crew.archive(name)
    if left:
        raise ToolFailed(f"still running, and not removed: {', '.join(left)}")
    return f"Disbanded: {', '.join(names)}. Everybody has shut down." if names else "There was nobody on the team."


def _spawn_teammate(
    desk: LeadDesk, name: str, role: str, prompt: str, model: str = "", require_plan: bool = False
) -> str:
    layout.check_name(name, "name for a member")
    if role:
        layout.check_name(role, "role")
    if desk.team.is_alive(name):
        raise Conflict(f"{name} is running already: write to it with send_message")
    if not desk.may_start(name, role):
        raise ToolFailed("the person does not want this team to be started: report, and ask what to change")

    def spawn(change: Change) -> None:
        known = change.config.members.get(name)
        if known and known.kind != "agent":
            raise Conflict(f"{name} is on the team already, and is no agent")
        wanted = Member(name, role, model=model, plan=require_plan)
        if known:
            roster.put(change, replace(wanted, prompt=known.prompt, extra=known.extra))
            change.story.tell("member", f"lead starts {name} again, {role}")
        else:
            roster.add(change, wanted)
        if prompt.strip():
            mail.post(change, name, prompt, "message")

    desk.team.change(layout.LEAD, spawn)
    desk.crew.start(name)
    return f"{name} is at work."


def _list_teammates(desk: LeadDesk) -> str:
    found = desk.team.status().members
    lines = []
    for present in found:
        holds = "".join(f", #{task.id} {task.subject}" for task in present.holds)
        lines.append(f"{present.member.name} ({present.member.role or present.member.kind}): {present.state}{holds}")
    return "\n".join(lines) or "There is nobody on the team yet."


def _broadcast(desk: LeadDesk, content: str) -> str:
    sent = desk.team.broadcast(content, by=layout.LEAD)
    return f"Sent to {', '.join(m.to for m in sent)}." if sent else "There is nobody to send it to."


def _shutdown_request(desk: LeadDesk, name: str, reason: str = "") -> str:
    if not desk.team.is_alive(name):
        raise NotFound(f"{name} is not running")
    request = desk.team.ask_shutdown(name, reason, by=layout.LEAD)
    return f"Asked, request {request.id}. You hear the answer."


def _plan_approval(desk: LeadDesk, request_id: str, approve: bool, feedback: str = "") -> str:
    decided = desk.team.change(layout.LEAD, lambda c: requests.decide_plan(c, request_id, approve, feedback))
    return f"{'Approved' if approve else 'Rejected'}; {decided.sender} knows."


def _subagent(desk: LeadDesk, prompt: str, kind: str) -> str:
    return subagent.run(desk, prompt, kind, desk.ask, desk.model, desk.max_tokens)


TOOLS = [
    Tool("team_create", "Give the team a name.", {"name": ("string", "")}, _team_create),
    Tool("team_delete", "Ask every teammate to shut down, wait, and disband the team.", {}, _team_delete),
    Tool(
        "spawn_teammate",
        "Start a teammate, who then finds its own work. Its prompt is the first message it gets.",
        {
            "name": ("string", "short, lower case"),
            "role": ("string", "like backend; tasks can be for a role"),
            "prompt": ("string", ""),
            "model": ("string?", ""),
            "require_plan": ("boolean?", "it has to submit a plan for each task before it changes anything"),
        },
        _spawn_teammate,
    ),
    Tool("list_teammates", "Who is on the team and what they do.", {}, _list_teammates, is_safe=True),
    Tool("broadcast", "Write to every teammate.", {"content": ("string", "")}, _broadcast),
    Tool(
        "shutdown_request",
        "Ask a teammate to shut down; it agrees or says why not.",
        {"name": ("string", ""), "reason": ("string?", "")},
        _shutdown_request,
    ),
    Tool(
        "plan_approval",
        "Decide about a teammate's plan.",
        {
            "request_id": ("string", ""),
            "approve": ("boolean", ""),
            "feedback": ("string?", "needed when you reject it: what to change"),
        },
        _plan_approval,
    ),
    Tool(
        "subagent",
        "Give a question or a piece of work to a helper of your own; its answer comes back here.",
        {"prompt": ("string", "everything it needs to know"), "kind": ("string", "explore or plan (reading), or code")},
        _subagent,
    ),
]
