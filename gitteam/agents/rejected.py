"""What becomes of messages that the service has taken in no request."""

from __future__ import annotations

from gitteam import layout, mail
from gitteam.change import Change


def set_aside(change: Change, name: str, ids: set[str], reason: str) -> None:
    """Take them unread, with an error that names them. It has none of their words: those would be in the way there."""
    found = [m for m in mail.read_inbox(change, name) if m.id in ids]
    if not mail.take(change, name, ids):
        return
    which = ", ".join(f"{m.id} from {m.sender or 'unknown'}" for m in found)
    text = f"set aside, because the API has twice not taken what was written to {name}: {which} ({reason})"
    mail.post(change, layout.USER if name == layout.LEAD else layout.LEAD, text, "error")
    change.story.tell("sent", f"{name} reports an error: {mail.preview(text)}")
