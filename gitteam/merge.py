"""How a hand edit meets what happened on the branch meanwhile. Pure decisions over texts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gitteam import frontmatter
from gitteam.errors import BadFile
from gitteam.records import FAILED, IN_PROGRESS, NOTES, PENDING, Task, parse_message, parse_task, split_notes

# Lines that only a claim, a release or a completion changes; a stale buffer never does.
STATE_KEYS = ("status", "owner", "claim", "run")

MergeLines = Callable[[str, str, str], str]  # ours, base, theirs


@dataclass(frozen=True)
class Outcome:
    """What a hand edit of one task came to."""

    task: Task
    event: str = "edited"
    refused: str = ""


def merge_task(
    base: Task | None,
    edited: Task,
    current: Task,
    older: Callable[[], Iterable[Task]],
    refuse: Callable[[Task, str], str],
    merge_lines: MergeLines,
) -> Outcome:
    """Bring a person's text together with the branch's.

    `base` is what the person began with as far as we know, `older` the versions before `current`, newest first,
    `refuse` says why a name cannot have the task.
    """
    started = base or current
    if edited.state != current.state:
        fits = base and edited.state == base.state and _notes(base.text) <= _notes(edited.text)
        stale = base if fits else _loaded_before(edited, older(), edited.state)
        if stale:
            return Outcome(_blend(stale, edited, current, merge_lines))
    if not _notes(current.text) <= _notes(edited.text):
        # Notes only ever grow, so a text that lacks one was loaded before that note was written.
        started = _loaded_before(edited, older()) or started
    merged = _blend(started, edited, current, merge_lines)
    return Outcome(merged) if edited.state == current.state else _obey(merged, edited, current, refuse)


def _loaded_before(edited: Task, older: Iterable[Task], state: tuple[str, str, int] | None = None) -> Task | None:
    """The newest version that has no note the edited text lacks, and this state if one is given."""
    notes = _notes(edited.text)
    return next((v for v in older if (not state or v.state == state) and _notes(v.text) <= notes), None)


def _notes(text: str) -> set[str]:
    return {line.strip() for line in split_notes("\n" + text)[1].splitlines()[1:] if line.strip()}


def _obey(merged: Task, wish: Task, current: Task, refuse: Callable[[Task, str], str]) -> Outcome:
    """A change of status or owner that no older version explains is the person's wish."""
    if wish.status == IN_PROGRESS:
        if current.status == IN_PROGRESS and wish.owner == current.owner:
            return Outcome(merged)
        if reason := refuse(current, wish.owner):
            return Outcome(merged, refused=f"{wish.owner} cannot have #{current.id}: {reason}")
        task = merged.with_values(status=IN_PROGRESS, owner=wish.owner, claim=current.claim + 1, run=None)
        return Outcome(task, "claimed")
    if wish.status == PENDING:
        task = merged.with_values(status=PENDING, owner=wish.owner, run=None)
        if current.status == FAILED:
            task = task.with_values(attempts=None)  # somebody has decided: it gets all its chances again
        return Outcome(task, "edited" if current.status == PENDING else "released")
    task = merged.with_values(status=wish.status, owner=wish.owner or current.owner, run=None)
    return Outcome(task, "edited" if wish.status == current.status else wish.status)


def _blend(base: Task, edited: Task, current: Task, merge_lines: MergeLines) -> Task:
    """Three ways: key by key in the head, line by line in the body, notes together. State is the branch's."""
    if base.text == current.text and edited.state == current.state and edited.run == current.run:
        return parse_task(current.path, edited.text.encode())
    if any(frontmatter.split(t.text)[1] for t in (base, edited, current)):
        base, edited, current = (t.with_values(status=t.status) for t in (base, edited, current))
    heads = [frontmatter.parse(t.text).values for t in (base, edited, current)]
    changes: dict[str, frontmatter.Value | None] = {}
    for key in dict.fromkeys([*heads[2], *heads[0], *STATE_KEYS]):
        was, ours, theirs = (head.get(key) for head in heads)
        if ours != theirs and (key in STATE_KEYS or ours == was):
            changes[key] = theirs
    (base_body, base_notes), (our_body, our_notes), (their_body, their_notes) = (
        split_notes("\n" + _below_head(t.text)) for t in (base, edited, current)
    )
    body = _three_ways(base_body, our_body, their_body, merge_lines)
    notes = _three_ways(base_notes, our_notes, their_notes, lambda *_: _union(base_notes, our_notes, their_notes))
    if notes and body.strip("\n") and not body.endswith("\n\n"):
        body = body.rstrip("\n") + "\n\n"
    text = edited.text[: len(edited.text) - len(_below_head(edited.text))] + (body + notes)[1:]
    if not changes:
        return parse_task(current.path, text.encode())
    return parse_task(current.path, text.encode()).with_values(**changes)


def _below_head(text: str) -> str:
    lines, end = frontmatter.split(text)
    return "".join(lines[end + 1 :]) if end else text


def _three_ways(base: str, ours: str, theirs: str, merge: MergeLines) -> str:
    if ours in (base, theirs):
        return theirs
    return ours if theirs == base else merge(ours, base, theirs)


def _union(base: str, ours: str, theirs: str) -> str:
    """The branch's notes, and behind them those a person added by hand."""
    known = {*_entries(base), *_entries(theirs)}
    new = [entry for entry in _entries(ours) if entry not in known]
    return (theirs or NOTES + "\n\n").rstrip("\n") + "\n" + "".join(entry + "\n" for entry in new)


def _entries(notes: str) -> list[str]:
    """One note may take several lines; the next begins with a dash."""
    return [entry.strip("\n") for entry in re.split(r"\n(?=- )", notes.removeprefix(NOTES)) if entry.strip()]


# -- inboxes -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Mail:
    """What an inbox came to: its lines, those set aside as unreadable, and an unfinished last one."""

    data: bytes
    bad: tuple[dict[str, Any], ...] = ()
    tail: bytes = b""
    added: int = 0
    removed: int = 0


def merge_inbox(owner: str, base: bytes, edited: bytes, current: bytes) -> Mail:
    """Lines a person added are messages, lines they deleted are gone; what is on the branch otherwise stays."""
    *lines, tail = edited.split(b"\n")
    if tail.strip() and _is_message(owner, tail):
        lines, tail = [*lines, tail], b""
    before = Counter(base.split(b"\n"))
    # What the branch gained since: a process that died may have committed these very lines already.
    gained = Counter(current.split(b"\n")) - before
    kept = Counter(lines)
    added: list[bytes] = []
    bad: list[dict[str, Any]] = []
    ids = _ids(owner, current)
    for number, line in enumerate(lines, 1):
        if before[line] > 0:
            before[line] -= 1
        elif gained[line] > 0:
            gained[line] -= 1
        elif line.strip():
            reason = _why_bad(owner, line, ids)
            if reason:
                bad.append({"line": number, "reason": reason, **_as_json(line)})
            else:
                added.append(line)
    gone = Counter(line for line in base.split(b"\n") if line) - kept
    rest: list[bytes] = []
    for line in filter(None, current.split(b"\n")):
        if gone[line] > 0:
            gone[line] -= 1
        else:
            rest.append(line)
    removed = len([line for line in current.split(b"\n") if line]) - len(rest)
    data = b"".join(line + b"\n" for line in [*rest, *added])
    return Mail(data, tuple(bad), tail if tail.strip() else b"", len(added), removed)


def _is_message(owner: str, line: bytes) -> bool:
    try:
        parse_message(line, owner, 0)
    except BadFile:
        return False
    return True


def _ids(owner: str, data: bytes) -> set[str]:
    found = set()
    for line in filter(None, data.split(b"\n")):
        try:
            found.add(parse_message(line, owner, 0).id)
        except BadFile:
            continue
    return found


def _why_bad(owner: str, line: bytes, ids: set[str]) -> str:
    try:
        message = parse_message(line, owner, 0)
        explicit = bool(json.loads(line.decode()).get("id"))
    except BadFile as e:
        return e.reason
    if explicit and message.id in ids:
        return f"a message with the id {message.id} is there already"
    if explicit:
        ids.add(message.id)
    return ""


def _as_json(line: bytes) -> dict[str, str]:
    try:
        return {"text": line.decode()}
    except UnicodeDecodeError:
        return {"bytes": line.hex()}


# -- settings and roster --------------------------------------------------------------------


def merge_values(base: Any, ours: Any, theirs: Any) -> Any:
    """Three ways through nested objects; where both changed the same value, ours wins."""
    if ours == base:
        return theirs
    if theirs == base or not all(isinstance(v, dict) for v in (ours, theirs)):
        return ours
    known = base if isinstance(base, dict) else {}
    merged = {}
    for key in dict.fromkeys([*theirs, *ours]):
        value = merge_values(known.get(key), ours.get(key), theirs.get(key))
        if value is not None:
            merged[key] = value
    return merged
