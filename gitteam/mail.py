"""Messages: sending them, reading an inbox, taking what was read out of it."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gitteam import layout, roster
from gitteam.errors import BadFile, BadInput, NotFound
from gitteam.records import MAX_FILE, MESSAGE_TYPES, Message, parse_message
from gitteam.tree import Files

if TYPE_CHECKING:
    from gitteam.change import Change

_PREVIEW = 72


def _lines(files: Files, name: str) -> Iterator[tuple[bytes, Message | None]]:
    """The lines of an inbox, each with the message in it; None where there is none that can be read."""
    seen: Counter[bytes] = Counter()
    for line in (files.read(layout.inbox_path(name)) or b"").split(b"\n"):
        message = None
        with contextlib.suppress(BadFile):
            message = parse_message(line, name, seen[line])
        seen[line] += 1
        yield line, message


def read_inbox(files: Files, name: str) -> list[Message]:
    return [message for _, message in _lines(files, name) if message]


def take(change: Change, name: str, ids: set[str]) -> int:
    """Remove these messages; returns how many were still there."""
    lines = list(_lines(change, name))
    kept = [line for line, message in lines if line and not (message and message.id in ids)]
    taken = sum(bool(message and message.id in ids) for _, message in lines)
    if taken:
        change.write(layout.inbox_path(name), b"".join(line + b"\n" for line in kept))
        change.story.tell("taken", f"{name} takes {taken} message{'' if taken == 1 else 's'}")
    return taken


def send(change: Change, to: str, content: str, kind: str = "message", **extra: Any) -> list[Message]:
    """Put a message into an inbox, or with `all` into everybody's."""
    if kind not in MESSAGE_TYPES:
        raise BadInput(f"{kind!r} is no type of message: {', '.join(MESSAGE_TYPES)}")
    if not content.strip():
        raise BadInput("an empty message says nothing")
    if to == layout.ALL:
        return broadcast(change, content)
    if to not in change.config.members and to not in (layout.USER, layout.LEAD):
        raise NotFound(f"nobody on the team is called {to!r}: {change.config.names()}")
    message = post(change, to, content, kind, extra)
    change.story.tell("sent", f"{change.actor.title} writes to {to}: {preview(content)}")
    return [message]


def broadcast(change: Change, content: str) -> list[Message]:
    if not content.strip():
        raise BadInput("an empty message says nothing")
    sender = change.actor.name
    names = roster.recipients(change.config, sender, lambda m: m.status == "shutdown")
    messages = [post(change, name, content, "broadcast") for name in names]
    if messages:
        change.story.tell("sent", f"{change.actor.title} writes to all: {preview(content)}")
    return messages


def post(change: Change, to: str, content: str, kind: str, extra: dict[str, Any] | None = None) -> Message:
    """Put a message into an inbox as a part of a move that tells about itself."""
    message = Message(os.urandom(8).hex(), kind, change.actor.name, to, content, round(change.now, 3), extra or {})
    line = message.line()
    if len(line) > MAX_FILE:
        raise BadInput("a message has at most 1 MiB: write a file and send its path")
    path = layout.inbox_path(to)
    change.write(path, (change.read(path) or b"") + line)
    return message


def preview(content: str) -> str:
    first = " ".join(content.split())
    return first if len(first) <= _PREVIEW else first[: _PREVIEW - 1] + "…"
