"""Requests that wait for an answer: to shut down, to approve a plan.

Each is a file in `.team/requests/`, so that it survives a restart of either side. A
plan is approved for one piece of work only: see `Request.work`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gitteam import layout, mail, roster
from gitteam.errors import BadFile, BadInput, Conflict, NotFound
from gitteam.tree import Files

if TYPE_CHECKING:
    from gitteam.change import Change

SHUTDOWN, PLAN = "shutdown", "plan"
OPEN, APPROVED = "pending", "approved"


@dataclass(frozen=True)
class Request:
    id: str
    kind: str
    sender: str
    to: str
    content: str  # the plan, or why to shut down
    work: str = ""  # what a plan is for: a task and its claim, like 12/3, or one piece of work without a task
    status: str = OPEN
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id, "kind": self.kind, "from": self.sender, "to": self.to, "content": self.content,
            "work": self.work, "status": self.status, **self.extra,
        }  # fmt: skip

    def to_bytes(self) -> bytes:
        return (json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n").encode()


def parse_request(data: bytes) -> Request:
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise BadFile(f"not JSON: {e}", getattr(e, "lineno", None)) from None
    keys = {"id": "id", "kind": "kind", "from": "sender", "to": "to", "content": "content", "work": "work"}
    if not isinstance(values, dict) or not all(isinstance(values.get(key), str) for key in (*keys, "status")):
        raise BadFile(f"not a request: it needs {', '.join(keys)} and status, all texts")
    known = {attribute: values.pop(key) for key, attribute in keys.items()}
    return Request(**known, status=values.pop("status"), extra=values)


def read_requests(files: Files) -> list[Request]:
    """All that can be read, by id."""
    found = []
    for name in sorted(files.names(layout.REQUESTS)):
        try:
            found.append(parse_request(files.read(f"{layout.REQUESTS}/{name}") or b""))
        except BadFile:
            continue  # status shows it
    return found


def unreadable(files: Files) -> dict[str, str]:
    """Files among the requests that somebody broke, with the reason."""
    found = {}
    for name in files.names(layout.REQUESTS):
        path = f"{layout.REQUESTS}/{name}"
        try:
            parse_request(files.read(path) or b"")
        except BadFile as e:
            found[path] = str(e)
    return found


def open_for(files: Files, name: str) -> list[Request]:
    """What this member has been asked, or is waiting for."""
    return [r for r in read_requests(files) if r.status == OPEN and name in (r.sender, r.to)]


def is_approved(found: list[Request], name: str, work: str) -> bool:
    """Whether this member's plan for this very piece of work has been approved."""
    return any((r.kind, r.sender, r.work, r.status) == (PLAN, name, work, APPROVED) for r in found)


def is_waiting(found: list[Request], name: str, work: str) -> bool:
    """Whether this member waits for an answer to its plan for this very piece of work."""
    return any((r.kind, r.sender, r.work, r.status) == (PLAN, name, work, OPEN) for r in found)


def find_open(files: Files, wanted: str, kind: str) -> Request:
    """An open request by its id, the beginning of it, or the name of the member it is about."""
    requests = [r for r in read_requests(files) if r.kind == kind]
    fits = [r for r in requests if r.id.startswith(wanted) or wanted == (r.sender if kind == PLAN else r.to)]
    waiting = [r for r in fits if r.status == OPEN]
    if wanted and len(waiting) == 1:
        return waiting[0]
    if wanted and fits and not waiting:
        raise Conflict(f"request {fits[0].id} is {fits[0].status} already")
    listed = ", ".join(f"{r.id} (from {r.sender})" for r in requests if r.status == OPEN) or "there is none"
    raise NotFound(f"no one {kind} request fits {wanted!r}; open: {listed}")


# -- moves ----------------------------------------------------------------------------------


def ask_shutdown(change: Change, name: str, reason: str = "") -> Request:
    """Ask a member to end; asking again while it has not answered changes nothing."""
    if name not in change.config.members:
        raise NotFound(f"nobody on the team is called {name!r}: {change.config.names()}")
    for known in open_for(change, name):
        if known.kind == SHUTDOWN:
            return known
    request = _put(change, Request(_new_id(), SHUTDOWN, change.actor.name, name, reason))
    text = reason.strip() or "please shut down"
    mail.post(change, name, text, "shutdown_request", {"request_id": request.id})
    change.story.tell("asked", f"{change.actor.title} asks {name} to shut down")
    return request


def answer_shutdown(change: Change, request_id: str, approve: bool, reason: str = "") -> Request:
    """A member's answer: it ends, or says why not."""
    name = change.actor.name
    request = find_open(change, request_id, SHUTDOWN)
    if request.to != name:
        raise Conflict(f"request {request.id} is for {request.to}, not for {name}")
    if not approve and not reason.strip():
        raise BadInput("say why not: a reason is needed")
    change.remove(layout.request_path(request.id))
    extra = {"request_id": request.id, "approve": approve, "reason": reason}
    mail.post(change, request.sender, reason.strip() or "shutting down", "shutdown_response", extra)
    if approve:
        roster.set_status(change, name, "stopping", f"asked by {request.sender}")
    verb = "agrees to shut down" if approve else f"declines to shut down, {reason.strip().splitlines()[0]}"
    change.story.tell("answered", f"{change.actor.title} {verb}")
    return request


def submit_plan(change: Change, plan: str, work: str) -> Request:
    """A member's plan, to be approved before it changes anything. A newer one takes an older one's place."""
    name = change.actor.name
    if not plan.strip():
        raise BadInput("an empty plan says nothing")
    forget_plans(change, name)
    request = _put(change, Request(_new_id(), PLAN, name, layout.LEAD, plan, work))
    mail.post(change, layout.LEAD, plan, "plan_approval_request", {"request_id": request.id, "work": work})
    roster.set_status(change, name, "waiting_approval", f"plan {request.id}")
    number = work.partition("/")[0] if "/" in work else ""
    task = change.board.find(int(number)) if number else None
    what = f"plan {request.id}{f' for #{number}' if number else ''}"
    change.story.tell("asked", f"{change.actor.title} submits {what}: {mail.preview(plan)}", task)
    return request


def decide_plan(change: Change, wanted: str, approve: bool, feedback: str = "") -> Request:
    """The lead's or a person's decision about a plan; there is one per request."""
    actor = change.config.member(change.actor.name)
    if actor.kind != "person":
        raise Conflict(f"{actor.name} cannot decide about plans: the lead or a person does")
    request = find_open(change, wanted, PLAN)
    if not approve and not feedback.strip():
        raise BadInput("say what to change: a rejection needs feedback")
    if approve:
        _put(change, replace(request, status=APPROVED))
    else:
        change.remove(layout.request_path(request.id))
    extra = {"request_id": request.id, "approve": approve, "feedback": feedback}
    text = feedback.strip() or "approved"
    mail.post(change, request.sender, text, "plan_approval_response", extra)
    what = f"{'approves' if approve else 'rejects'} {request.sender}'s plan {request.id}"
    change.story.tell(
        "answered", f"{change.actor.title} {what}{f': {mail.preview(feedback)}' if feedback.strip() else ''}"
    )
    return request


def forget_plans(change: Change, name: str, but: str = "") -> None:
    """A piece of work is over, and with it what was approved for it. `but` is the one that goes on."""
    for request in read_requests(change):
        if (request.kind, request.sender) == (PLAN, name) and (not but or request.work != but):
            change.remove(layout.request_path(request.id))


def forget(change: Change, name: str) -> None:
    """This member is gone, and with it all that it was asked or had asked."""
    for request in read_requests(change):
        if name in (request.sender, request.to):
            change.remove(layout.request_path(request.id))


def _put(change: Change, request: Request) -> Request:
    change.write(layout.request_path(request.id), request.to_bytes())
    return request


def _new_id() -> str:
    return os.urandom(3).hex()
