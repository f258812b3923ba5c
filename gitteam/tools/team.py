"""Tools that act on the board and the inboxes."""

from __future__ import annotations

import json
from itertools import accumulate

from gitteam import layout, mail, moves, requests, roster
from gitteam.agents.desk import Desk
from gitteam.agents.envelope import OUTPUT, envelope, message_text, one_line, task_text
from gitteam.change import Change
from gitteam.errors import BadInput, ToolFailed
from gitteam.records import CANCELLED, COMPLETED, IN_PROGRESS, PENDING, Task
from gitteam.tools import LONGEST, Tool

_ROOM_FOR_A_WORD = 100  # characters, about messages that do not fit


def _task_create(
    desk: Desk, subject: str, description: str = "", blocked_by: list[int] | None = None, role: str = ""
) -> str:
    wanted = {"subject": subject, "description": description, "blockedBy": blocked_by or [], "role": role}
    if objection := desk.objection("TaskCreated", task=wanted):
        raise ToolFailed(f"not created: {objection}")
    task = desk.team.add(subject, description, blocked_by=blocked_by or (), role=role, by=desk.name)
    return f"#{task.id} is on the board: {task.reason or 'ready to be claimed'}."


def _task_get(desk: Desk, id: int) -> str:
    task = desk.team.task(id)
    facts = {
        "status": task.status, "owner": task.owner, "blocked_by": list(task.blocked_by), "role": task.role,
        "ready": task.ready, "reason": task.reason, "attempts": task.attempts,
    }  # fmt: skip
    return f"{json.dumps({key: value for key, value in facts.items() if value})}\n{task_text(task)}"


def _task_list(desk: Desk) -> str:
    lines = [_line(task) for task in desk.team.tasks()]
    return envelope(OUTPUT, "\n".join(lines), of="task_list") if lines else "The board is empty."


def _line(task: Task) -> str:
    facts = [task.status, *([f"owner {task.owner}"] if task.owner else []), *([task.reason] if task.reason else [])]
    facts += ["ready"] if task.ready else []
    facts += [f"for {task.role}"] if task.role else []
    return f"#{task.id} [{', '.join(facts)}] {one_line(task.subject)}"


def _task_update(
    desk: Desk, id: int, status: str = "", note: str = "", result: str = "", blocked_by: list[int] | None = None
) -> str:
    if status not in ("", COMPLETED, PENDING, CANCELLED, IN_PROGRESS):
        raise BadInput(f"status is {COMPLETED}, {PENDING} (hand it back), {IN_PROGRESS} (claim it) or {CANCELLED}")
    if not (status or note or result or blocked_by):
        raise BadInput("nothing to change: give status, note, result or blocked_by")
    if status == COMPLETED:
        finished = {**desk.team.task(id).to_json(), "result": result}
        if objection := desk.objection("TaskCompleted", task=finished):
            raise ToolFailed(f"not completed: {objection}")
    own = desk.task if desk.task and desk.task.id == id else None
    claim = own.claim if own else None
    totals = desk.totals(id) if status == COMPLETED else {}

    def update(change: Change) -> Task:
        task = change.board.get(id)
        said = "\n".join(filter(None, (note, result)))
        for number in blocked_by or ():
            task = moves.block(change, id, number)
        if status == COMPLETED:
            change.story.trailers |= totals
            return moves.complete(change, id, said, claim)
        if status == PENDING:
            return moves.release(change, id, said, claim)
        if status == CANCELLED:
            return moves.cancel(change, id, said)
        if status == IN_PROGRESS:
            task = _claim(change, desk, id)
        return moves.note(change, id, said) if said else task

    task = desk.team.change(desk.name, update)
    _keep_up(desk, task)
    return f"#{id} is {task.status} now."


def _claim_task(desk: Desk, id: int | None = None) -> str:
    task = desk.team.change(desk.name, lambda c: _claim(c, desk, id))
    _keep_up(desk, task)
    return f"#{task.id} is yours now.\n{task_text(task)}"


def _claim(change: Change, desk: Desk, number: int | None) -> Task:
    task = moves.claim(change, number, desk.run)
    requests.forget_plans(change, desk.name, but=f"{task.id}/{task.claim}")
    roster.set_status(change, desk.name, "working")
    return task


def _keep_up(desk: Desk, task: Task) -> None:
    """The member's own task is what the board says it holds."""
    if task.status == IN_PROGRESS and task.owner == desk.name:
        desk.task = task
    elif desk.task and desk.task.id == task.id:
        desk.task = None


def _send_message(desk: Desk, to: str, content: str) -> str:
    sent = desk.team.change(desk.name, lambda c: mail.send(c, to, content))
    return f"Sent to {', '.join(m.to for m in sent)}." if sent else "There is nobody to send it to."


def _read_inbox(desk: Desk) -> str:
    found = [m for m in desk.team.inbox(desk.name) if m.id not in desk.shown]
    texts = _first_that_fit([message_text(m) for m in found])
    read, left = found[: len(texts)], len(found) - len(texts)
    desk.read += read
    desk.shown |= {m.id for m in read}
    if left:  # what counts as unread is told before the next call, and at any length
        texts.append(f"{left} more do not fit in here. They reach you by themselves, next.")
    return "\n".join(texts) or "There is nothing new. Messages reach you by themselves."


def _first_that_fit(texts: list[str]) -> list[str]:
    sizes = accumulate(len(text) + 1 for text in texts)
    return [text for text, size in zip(texts, sizes, strict=True) if size <= LONGEST - _ROOM_FOR_A_WORD]


def _idle(desk: Desk) -> str:
    desk.ending = "idle"
    return "You are woken when there is something for you."


def _submit_plan(desk: Desk, plan: str) -> str:
    request = desk.team.change(desk.name, lambda c: requests.submit_plan(c, plan, desk.work))
    desk.may_wait = True
    return f"Submitted as request {request.id}. You hear the decision; wait for it."


def _shutdown_response(desk: Desk, request_id: str, approve: bool, reason: str = "") -> str:
    desk.team.change(desk.name, lambda c: requests.answer_shutdown(c, request_id, approve, reason))
    if approve:
        desk.ending = "stopping"
    return "You are shutting down now." if approve else "Said. Go on with your work."


TOOLS = [
    Tool(
        "task_create",
        "Put a task on the board for somebody to claim.",
        {
            "subject": ("string", ""),
            "description": ("string?", ""),
            "blocked_by": ("array?", "numbers of tasks that must be completed first"),
            "role": ("string?", "only members of this role claim it"),
        },
        _task_create,
    ),
    Tool("task_get", "One task, whole.", {"id": ("integer", "")}, _task_get, is_safe=True, before_approval=True),
    Tool("task_list", "The board, a line a task.", {}, _task_list, is_safe=True, before_approval=True),
    Tool(
        "task_update",
        "Complete a task (with its result), hand it back, note something on it.",
        {
            "id": ("integer", ""),
            "status": ("string?", "completed; pending: hand it back; in_progress: claim it; cancelled"),
            "note": ("string?", ""),
            "result": ("string?", "with completed: what was done, for those who come after"),
            "blocked_by": ("array?", "tasks it has to wait for"),
        },
        _task_update,
    ),
    Tool(
        "claim_task",
        "Take a task, or the next one that fits you. You hold one at a time.",
        {"id": ("integer?", "")},
        _claim_task,
    ),
    Tool(
        "send_message",
        f"Write to a member, to `{layout.LEAD}`, to `{layout.USER}`, or to `{layout.ALL}`.",
        {"to": ("string", ""), "content": ("string", "")},
        _send_message,
        before_approval=True,
    ),
    Tool("read_inbox", "Messages that came just now.", {}, _read_inbox, before_approval=True),
    Tool("idle", "End this work: you have nothing to do until you are woken.", {}, _idle, before_approval=True),
    Tool(
        "submit_plan",
        "Say what you are going to change and how, and ask for approval.",
        {"plan": ("string", "")},
        _submit_plan,
        before_approval=True,
    ),
    Tool(
        "shutdown_response",
        "Answer a shutdown request: agree, or say why not yet.",
        {"request_id": ("string", ""), "approve": ("boolean", ""), "reason": ("string?", "needed when you decline")},
        _shutdown_response,
        before_approval=True,
    ),
]
