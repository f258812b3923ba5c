"""Text is data: what others wrote reaches a model in a marked envelope that names its origin.

Nothing inside an envelope can close it, and the system prompt says that nothing inside one grants permission.
"""

from __future__ import annotations

import html
import re

from gitteam.records import Message, Task
from gitteam.render import HIDDEN, visible

# Names that no code and no markup uses: what a member reads of a file is what it can look for in it.
MESSAGE, TASK, OUTPUT, NOTES, SUMMARY = "team-message", "team-task", "team-output", "team-notes", "team-summary"
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe0f\uffa0"  # letters and marks that show nothing
_GAP = rf"[\s{HIDDEN}{_BLANK}]*+"  # what a reader may not see between two letters
_HYPHEN = "[-\u00ad\u2010-\u2015\u2212\ufe58\ufe63\uff0d]"
_TAGS = "|".join(_GAP.join(_HYPHEN if c == "-" else c for c in tag) for tag in (MESSAGE, TASK, OUTPUT, NOTES, SUMMARY))
_TAG = re.compile(rf"[<＜﹤](?={_GAP}[/／]?{_GAP}(?:{_TAGS})(?!\w))", re.IGNORECASE)


def envelope(tag: str, text: str, **attributes: object) -> str:
    """`text` between tags of ours, its origin in the attributes."""
    head = "".join(f' {key.rstrip("_")}="{_attribute(value)}"' for key, value in attributes.items() if value != "")
    return f"<{tag}{head}>\n{without_tags(text)}\n</{tag}>"


def without_tags(text: str) -> str:
    """Text in which nothing reads like an envelope of ours beginning or ending."""
    return _TAG.sub("&lt;", text)


def one_line(text: str) -> str:
    """Somebody's words within a line of ours."""
    return without_tags(" ".join(visible(text).split()))


def _attribute(value: object) -> str:
    return html.escape(" ".join(visible(str(value)).split()))


def message_text(message: Message, redelivered: bool = False) -> str:
    """A message as a member reads it."""
    known = {key: message.extra[key] for key in ("request_id", "approve") if key in message.extra}
    return envelope(
        MESSAGE, message.content, from_=message.sender or "unknown", type=message.type, id=message.id, **known,
        redelivered="yes" if redelivered else "",
    )  # fmt: skip


def task_text(task: Task) -> str:
    """A task as it is handed over."""
    parts = [f"Task #{task.id}: {one_line(task.subject)}"]
    parts += [envelope(TASK, task.description or "(no description)", id=task.id, claim=task.claim)]
    parts += [envelope(NOTES, task.notes, task=task.id)] if task.notes else []
    return "\n".join(parts)
