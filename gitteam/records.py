"""Tasks, messages and members: frozen records, and the file text they are read from."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from gitteam import frontmatter, layout
from gitteam.errors import BadFile

PENDING, IN_PROGRESS = "pending", "in_progress"
COMPLETED, CANCELLED, FAILED = "completed", "cancelled", "failed"
STATUSES = (PENDING, IN_PROGRESS, COMPLETED, CANCELLED, FAILED)
FINISHED = (COMPLETED, CANCELLED)  # failed is not: somebody has to decide about it

MESSAGE_TYPES = (
    "message", "broadcast", "shutdown_request", "shutdown_response", "plan_approval_request",
    "plan_approval_response", "result", "error", "idle_notification",
)  # fmt: skip
KINDS = ("agent", "external", "person")
MEMBER_STATUSES = ("working", "idle", "waiting_approval", "stopping", "shutdown", "failed")

MAX_FILE = 1 << 20
MAX_SUBJECT = 500
MAX_ATTEMPTS = 3
MAX_TIME = 253402300800  # the year 10000
NOTES = "## Notes"


@dataclass(frozen=True)
class Task:
    """One task. `ready` and `reason` are filled in by the board, which knows the others."""

    id: int
    path: str
    text: str = field(repr=False)
    subject: str
    status: str
    owner: str
    blocked_by: tuple[int, ...]
    role: str
    priority: int
    attempts: int
    claim: int
    run: str
    ready: bool = False
    reason: str = ""

    @property
    def state(self) -> tuple[str, str, int]:
        """What a save from a stale buffer must not undo."""
        return self.status, self.owner, self.claim

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @cached_property
    def _parts(self) -> tuple[str, str]:
        head = frontmatter.parse(self.text)
        body, notes = split_notes("\n" + _subject(head, _body(self.text, head))[1])
        return body.strip("\r\n"), notes.removeprefix(NOTES).strip("\r\n")

    @property
    def description(self) -> str:
        """What is written below the head, notes aside."""
        return self._parts[0]

    @property
    def notes(self) -> str:
        """What has been noted and reported, a line each."""
        return self._parts[1]

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id, "subject": self.subject, "description": self.description, "status": self.status,
            "owner": self.owner, "blockedBy": list(self.blocked_by), "ready": self.ready, "reason": self.reason,
            "path": self.path, "claim": self.claim, "role": self.role, "priority": self.priority,
            "attempts": self.attempts, "notes": self.notes,
        }  # fmt: skip

    def with_values(self, **changes: frontmatter.Value | None) -> Task:
        """This task with front matter keys changed, in its text too."""
        if frontmatter.split(self.text)[1]:
            text = frontmatter.edit(self.text, changes)
        else:
            # Plain text gets a head of its own; its first line moves there as the subject.
            body = self.text.lstrip("\ufeff").lstrip().partition("\n")[2].lstrip("\n")
            text = frontmatter.edit("", {"subject": self.subject, **changes}) + body
        return parse_task(self.path, text.encode())

    def with_note(self, stamp: str, author: str, note: str) -> Task:
        """This task with one more line under `## Notes`."""
        text = self.text if self.text.endswith("\n") or not self.text else self.text + "\n"
        if not _notes_start(text):
            text += ("" if text.endswith(("---\n", "\n\n")) else "\n") + NOTES + "\n\n"
        entry = "\n  ".join(note.strip().splitlines())
        return parse_task(self.path, f"{text}- {stamp} {author}: {entry}\n".encode())

    def moved(self, path: str) -> Task:
        return replace(self, path=path)


def new_task_text(subject: str, description: str, blocked_by: list[int], role: str, priority: int) -> str:
    head: dict[str, frontmatter.Value | None] = {
        "subject": subject, "status": PENDING, "owner": "", "blockedBy": list(blocked_by),
    }  # fmt: skip
    if role:
        head["role"] = role
    if priority:
        head["priority"] = priority
    body = description.strip("\n")
    return frontmatter.edit("", head) + (body + "\n" if body else "")


def _notes_start(text: str) -> int:
    """Where the last `## Notes` heading begins, or 0."""
    at = text.rfind("\n" + NOTES)
    while at >= 0:
        rest = text[at + 1 + len(NOTES) :]
        if not rest or rest[0] in "\r\n":
            return at + 1
        at = text.rfind("\n" + NOTES, 0, at)
    return 0


def split_notes(text: str) -> tuple[str, str]:
    start = _notes_start(text)
    return (text[:start], text[start:]) if start else (text, "")


@lru_cache(maxsize=20_000)
def parse_task(path: str, data: bytes) -> Task:
    """Read one task file, or raise BadFile with line and reason."""
    number = layout.task_id(path.rpartition("/")[2]) or 0
    text = _decode(data)
    head = frontmatter.parse(text)
    subject = _subject(head, "" if head.text("subject") else _body(text, head))[0]
    status = head.text("status") or PENDING
    if status not in STATUSES:
        raise BadFile(f"status {status!r} is none of {', '.join(STATUSES)}", head.spans["status"][0] + 1)
    owner = _name(head, "owner")
    if status == IN_PROGRESS and not owner:
        raise BadFile("in_progress needs an owner", head.spans["status"][0] + 1)
    return Task(
        id=number, path=path, text=text, subject=subject, status=status, owner=owner,
        blocked_by=_ids(head), role=_name(head, "role"),
        priority=head.integer("priority"), attempts=_count(head, "attempts"), claim=_count(head, "claim"),
        run=head.text("run"),
    )  # fmt: skip


def _body(text: str, head: frontmatter.Head) -> str:
    return "".join(frontmatter.split(text)[0][head.end + 1 :]) if head.end else text.removeprefix("\ufeff")


def _decode(data: bytes) -> str:
    if len(data) > MAX_FILE:
        raise BadFile(f"larger than {MAX_FILE >> 20} MiB")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise BadFile("UTF-16: save it as UTF-8")
    if b"\0" in data:
        raise BadFile("contains NUL bytes", data.count(b"\n", 0, data.index(b"\0")) + 1)
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise BadFile("not UTF-8", data.count(b"\n", 0, e.start) + 1) from None


def _subject(head: frontmatter.Head, body: str) -> tuple[str, str]:
    """The subject from the head, or the body's first line or heading, and the rest."""
    subject = head.text("subject").strip()
    if not subject:
        first, _, body = body.lstrip().partition("\n")
        subject = re.sub(r"\A#+\s+", "", first).strip()
    if not subject:
        raise BadFile("no subject: write one on the first line")
    if len(subject) > MAX_SUBJECT:
        raise BadFile(f"the subject is longer than {MAX_SUBJECT} characters")
    return subject, body


def _name(head: frontmatter.Head, key: str) -> str:
    value = head.text(key)
    if value and not layout.is_name(value):
        raise BadFile(f"{key} {value!r} is not a name", head.spans[key][0] + 1)
    return value


def _ids(head: frontmatter.Head) -> tuple[int, ...]:
    ids = head.integers("blockedBy")
    if any(i < 1 for i in ids):
        raise BadFile("blockedBy takes task numbers from 1", head.spans["blockedBy"][0] + 1)
    return ids


def _count(head: frontmatter.Head, key: str) -> int:
    number = head.integer(key)
    if number < 0:
        raise BadFile(f"{key} cannot be negative", head.spans[key][0] + 1)
    return number


@dataclass(frozen=True)
class Message:
    id: str
    type: str
    sender: str
    to: str
    content: str
    timestamp: float
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id, "type": self.type, "from": self.sender, "to": self.to,
            "content": self.content, "timestamp": self.timestamp, **self.extra,
        }  # fmt: skip

    def line(self) -> bytes:
        return json.dumps(self.to_json(), ensure_ascii=False).encode() + b"\n"


def parse_message(line: bytes, owner: str, occurrence: int) -> Message:
    """Read one line of an inbox. A missing id follows from the line and how often it came before."""
    try:
        if len(line) > MAX_FILE:
            raise BadFile(f"longer than {MAX_FILE >> 20} MiB")
        values = json.loads(line.decode(), parse_constant=_no_constant)
    except RecursionError:
        raise BadFile("not JSON: nested too deeply") from None
    except ValueError:  # also UnicodeDecodeError
        raise BadFile("not JSON in UTF-8") from None
    if not isinstance(values, dict):
        raise BadFile("not a JSON object")
    content = values.pop("content", None)
    if not isinstance(content, str) or not _encodable(values, content):
        raise BadFile('no text under "content"')
    derived = hashlib.sha256(b"%d\n" % occurrence + line).hexdigest()[:16]
    sender = _string(values, "sender", "")
    kind = _string(values, "type", "message")
    if kind not in MESSAGE_TYPES:
        raise BadFile(f"unknown type {kind!r}")
    stamp = values.pop("timestamp", 0)
    if not isinstance(stamp, int | float) or isinstance(stamp, bool) or not 0 <= stamp < MAX_TIME:
        stamp = 0
    return Message(
        id=_string(values, "id", derived) or derived, type=kind, sender=_string(values, "from", sender),
        to=_string(values, "to", owner), content=content,
        timestamp=stamp, extra=values,
    )  # fmt: skip


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _string(values: dict[str, Any], key: str, default: str) -> str:
    value = values.pop(key, None)
    return default if value is None else str(value)


def _encodable(values: dict[str, Any], content: str) -> bool:
    """A lone surrogate cannot be written back or printed."""
    try:
        (content + json.dumps(values, ensure_ascii=False)).encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True)
class Member:
    name: str
    role: str = ""
    kind: str = "agent"
    status: str = "idle"
    reason: str = ""
    since: float = 0
    prompt: str = ""  # an agent's own instructions
    model: str = ""  # "": the team's
    plan: bool = False  # whether it has to ask before it changes anything
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        chosen = {"prompt": self.prompt, "model": self.model, "plan": self.plan}
        return {
            "role": self.role, "kind": self.kind, "status": self.status, "reason": self.reason, "since": self.since,
            **{key: value for key, value in chosen.items() if value}, **self.extra,
        }  # fmt: skip


def parse_member(name: str, values: Any) -> Member:
    if not layout.is_name(name) or name in layout.RESERVED:
        raise BadFile(f"{name!r} cannot be a member's name")
    if not isinstance(values, dict):
        raise BadFile(f"member {name} is not an object")
    values = dict(values)
    known = {key: values.pop(key, "") for key in ("role", "kind", "status", "reason", "prompt", "model")}
    since, plan = values.pop("since", 0), values.pop("plan", False)
    texts = all(isinstance(v, str) for v in known.values())
    if not texts or not isinstance(since, int | float) or not isinstance(plan, bool):
        raise BadFile(f"member {name} has a value of the wrong type")
    known |= {"kind": known["kind"] or "agent", "status": known["status"] or "idle"}
    member = Member(name, **known, since=since, plan=plan, extra=values)
    if member.role and not layout.is_name(member.role):
        raise BadFile(f"member {name}: {member.role!r} is no role")
    if member.kind not in KINDS or member.status not in MEMBER_STATUSES:
        raise BadFile(f"member {name}: unknown kind or status")
    return member
