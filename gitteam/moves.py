"""What can be done with a task: each function is one move inside a change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gitteam import layout, mail
from gitteam.errors import BadInput, Conflict, NothingToDo
from gitteam.records import (
    CANCELLED,
    COMPLETED,
    FAILED,
    FINISHED,
    IN_PROGRESS,
    MAX_ATTEMPTS,
    MAX_FILE,
    MAX_SUBJECT,
    PENDING,
    Task,
    new_task_text,
    parse_task,
)  # fmt: skip

if TYPE_CHECKING:
    from gitteam.change import Change

# Finished tasks are swept into done/ in bulk once there are this many, all but the newest few.
SWEEP_AT, SWEEP_KEEPS = 100, 20


def add(
    change: Change,
    subject: str,
    description: str = "",
    blocked_by: tuple[int, ...] = (),
    role: str = "",
    priority: int = 0,
) -> Task:
    subject = " ".join(subject.split())
    if not subject:
        raise BadInput("a task needs a subject")
    if len(subject) > MAX_SUBJECT:
        raise BadInput(f"a subject has at most {MAX_SUBJECT} characters: put the rest into the description (-d)")
    if role:
        layout.check_name(role, "role")
    for number in blocked_by:
        change.board.get(number)
    number = change.board.highest + 1
    text = new_task_text(subject, description, list(dict.fromkeys(blocked_by)), role, priority)
    if len(text.encode()) > MAX_FILE:
        raise BadInput("the description is larger than 1 MiB")
    task = change.put(parse_task(f"{layout.TASKS}/{layout.task_name(number, subject)}", text.encode()))
    change.story.tell("added", f"{change.actor.title} adds #{number}: {subject}", task)
    return change.board.get(number)


def claim(change: Change, number: int | None = None, run: str = "") -> Task:
    """Take a task: this one, or without a number the next there is. Whoever holds one already gets that."""
    member = change.config.member(change.actor.name)
    held = change.board.held_by(member.name)
    if number is None:
        task = change.board.next_for(member)
        if task is None:
            raise NothingToDo(f"there is nothing for {member.name} to claim: {_census(change)}")
    else:
        task = change.board.get(number)
    if task.id in [t.id for t in held]:
        if run and run != task.run:
            change.put(task.with_values(run=run))
            change.story.tell("claimed", f"{change.actor.title} goes on with #{task.id}: {task.subject}", task)
        return change.board.get(task.id)
    if reason := change.board.refusal(task, member):
        raise Conflict(f"{member.name} cannot claim #{task.id}: {reason}")
    if held:
        raise Conflict(f"{member.name} has #{held[0].id} already: finish or release that first")
    task = task.with_values(status=IN_PROGRESS, owner=member.name, claim=task.claim + 1, run=run or None)
    change.put(task)
    change.story.tell("claimed", f"{change.actor.title} claims #{task.id}: {task.subject}", task)
    return change.board.get(task.id)


def _census(change: Change) -> str:
    tasks = change.board.all()
    counts = {
        "in progress": sum(t.status == IN_PROGRESS for t in tasks),
        "blocked": sum(t.status == PENDING and not t.ready for t in tasks),
        "ready for others": sum(t.ready for t in tasks),
        "failed": sum(t.status == FAILED for t in tasks),
    }
    return ", ".join(f"{n} {what}" for what, n in counts.items() if n) or "the board has no open task"


def _check_holder(change: Change, task: Task, claim: int | None, force: bool, verb: str) -> None:
    """Only the holder, with the current claim, ends it; the lead and a person may override, which is recorded."""
    name = change.actor.name
    if claim is not None and (task.status != IN_PROGRESS or claim != task.claim):
        now = f"{task.owner} has it with claim {task.claim}" if task.status == IN_PROGRESS else f"it is {task.status}"
        raise Conflict(f"claim {claim} of #{task.id} is over: {now}")
    if task.status == IN_PROGRESS and task.owner == name:
        return
    if task.status in FINISHED:
        raise Conflict(f"#{task.id} is {task.status} already{f' by {task.owner}' if task.owner else ''}")
    if not force and name not in (layout.USER, layout.LEAD):
        if task.status == IN_PROGRESS:
            raise Conflict(f"{name} cannot {verb} #{task.id}: {task.owner} has it")
        raise Conflict(f"{name} cannot {verb} #{task.id}: it is {task.status}, and nobody has claimed it")
    change.story.trailers["Team-Override"] = task.owner or "nobody"


def complete(change: Change, number: int, result: str = "", claim: int | None = None) -> Task:
    task = change.board.get(number)
    _check_holder(change, task, claim, False, "complete")
    owner = task.owner or change.actor.name
    task = task.with_values(status=COMPLETED, owner=owner, run=None)
    if result.strip():
        task = task.with_note(change.stamp, change.actor.name, result)
        change.story.body = result.strip()
    change.put(task)
    change.story.tell(
        "completed", f"{change.actor.title} completes #{number}{_for(change, owner)}: {task.subject}", task
    )
    return change.board.get(number)


def release(change: Change, number: int, reason: str = "", claim: int | None = None, force: bool = False) -> Task:
    """Hand a task back. With force also somebody else's, a failed one, or a finished one that has to be done again."""
    task = change.board.get(number)
    if not (force and task.status in (*FINISHED, FAILED)):
        _check_holder(change, task, claim, force, "release")
        if task.status == PENDING:
            raise Conflict(f"#{number} is pending: nobody has it")
    owner, held = task.owner, task.status == IN_PROGRESS
    task = change.move(task, f"{layout.TASKS}/{task.name}")
    task = task.with_values(status=PENDING, owner="", run=None, **({} if held else {"attempts": None}))
    if reason.strip():
        task = task.with_note(change.stamp, change.actor.name, reason)
    change.put(task)
    verb = "releases" if held else "reopens"
    change.story.tell("released", f"{change.actor.title} {verb} #{number}{_for(change, owner)}: {task.subject}", task)
    return change.board.get(number)


def _for(change: Change, owner: str) -> str:
    return f" of {owner}" if owner and owner != change.actor.name else ""


def note(change: Change, number: int, text: str) -> Task:
    task = change.board.get(number)
    if not text.strip():
        raise BadInput("an empty note says nothing")
    task = change.put(task.with_note(change.stamp, change.actor.name, text))
    if len(task.text.encode()) > MAX_FILE:
        raise BadInput(f"#{number} would grow beyond 1 MiB")
    change.story.tell("noted", f"{change.actor.title} notes on #{number}: {text.strip().splitlines()[0]}", task)
    return change.board.get(number)


def block(change: Change, number: int, by: int) -> Task:
    task, blocker = change.board.get(number), change.board.get(by)
    if task.status in FINISHED:
        raise Conflict(f"#{number} is {task.status}: blocking it would change nothing")
    if by == number or change.board.would_circle(task, blocker.id):
        raise Conflict(
            f"#{number} cannot wait for #{by}: #{by} waits for #{number}, they would block each other for ever"
        )
    if by not in task.blocked_by:
        change.put(task.with_values(blockedBy=[*task.blocked_by, by]))
        change.story.tell("edited", f"{change.actor.title} makes #{number} wait for #{by}: {task.subject}", task)
    return change.board.get(number)


def cancel(change: Change, number: int, reason: str = "") -> Task:
    task = change.board.get(number)
    if task.status in FINISHED:
        raise Conflict(f"#{number} is {task.status} already")
    if task.status == IN_PROGRESS:
        _check_holder(change, task, None, False, "cancel")
    owner = task.owner
    task = task.with_values(status=CANCELLED, run=None)
    if reason.strip():
        task = task.with_note(change.stamp, change.actor.name, reason)
    change.put(task)
    change.story.tell("cancelled", f"{change.actor.title} cancels #{number}{_for(change, owner)}: {task.subject}", task)
    return change.board.get(number)


def reap(change: Change, is_alive: Callable[[Task], bool]) -> None:
    """Put back what dead members held, and tell the lead."""
    for task in change.board.held():
        if task.run and not is_alive(task):
            failed = _count_attempt(change, task, f"{task.owner} died while working on it")
            sentence = f"gives up #{task.id}" if failed else f"takes #{task.id} back"
            event = "failed" if failed else "released"
            mail.post(change, layout.LEAD, f"{task.owner} died while working on #{task.id}: {task.subject}", "error")
            change.story.tell(event, f"gitteam {sentence}, {task.owner} died: {task.subject}", task)


def give_up(change: Change, number: int, reason: str, claim: int) -> Task:
    """Hand a task back that could not be done: unlike a release this is an attempt."""
    task = change.board.get(number)
    _check_holder(change, task, claim, False, "hand back")
    failed = _count_attempt(change, task, reason)
    sentence = f"gives up #{number} for good" if failed else f"hands #{number} back"
    event = "failed" if failed else "released"
    change.story.tell(event, f"{change.actor.title} {sentence}, {reason.splitlines()[0]}: {task.subject}", task)
    return change.board.get(number)


def _count_attempt(change: Change, task: Task, reason: str) -> bool:
    """Back to pending with one attempt more; a task that has cost too many is failed, for a person to decide."""
    attempts = task.attempts + 1
    failed = attempts >= MAX_ATTEMPTS
    task = task.with_values(status=FAILED if failed else PENDING, owner="", run=None, attempts=attempts)
    change.put(task.with_note(change.stamp, change.actor.name, f"{reason} (attempt {attempts})"))
    return failed


def sweep(change: Change) -> None:
    """Move finished tasks into done/, so that the cost of a change does not grow with what is finished."""
    board = change.board
    finished = sorted(t.id for t in board.tasks.values() if t.status in FINISHED)
    if len(finished) < SWEEP_AT:
        return
    for number in finished[:-SWEEP_KEEPS]:
        task = board.tasks[number]
        if task.path not in board.troubles:
            change.put(change.move(task, layout.done_path(task.name)))
    moved = len(change.edits) // 2
    change.story.tell("swept", f"gitteam sweeps {moved} finished tasks into {layout.DONE}/")
