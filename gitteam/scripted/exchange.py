"""What one exchange is made of: the request as a script sees it, and what a script may answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitteam.errors import BadInput

Call = tuple[str, dict[str, Any]]  # the name of a tool and its input

NAMED_FAULTS = ("bad-input", "eof", "error-event", "html", "partial-input", "refused", "stall")
_MEMBER = re.compile(r"\s*You are ([^\s,]+),")
_STATUS, _CUT = re.compile(r"[45]\d\d"), re.compile(r"cut:\d{1,9}")


def blocks(content: Any) -> list[Any]:
    """The content of a message, of a tool result or of the system prompt as blocks: a string is one block of text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def texts(content: Any) -> Iterator[str]:
    """Every text in it, those of tool results included."""
    for block in blocks(content):
        if block.get("type") == "text":
            yield block["text"]
        elif block.get("type") == "tool_result":
            yield from texts(block.get("content"))


@dataclass(frozen=True)
class Request:
    """A request that the API would have accepted. `number` counts them over the server's life."""

    number: int
    body: dict[str, Any] = field(repr=False)

    @property
    def model(self) -> str:
        return str(self.body["model"])

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def system(self) -> str:
        return "\n".join(texts(self.body.get("system")))

    @property
    def member(self) -> str:
        """Whose request it is: the system prompt begins with "You are ana,"."""
        found = _MEMBER.match(self.system)
        return found[1] if found else ""

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body["messages"])

    @property
    def tools(self) -> list[str]:
        return [tool.get("name", "") for tool in self.body.get("tools") or ()]

    @property
    def new_text(self) -> str:
        """All that was said since the model's last answer; several user messages in a row count as one."""
        new: list[str] = []
        for message in reversed(self.messages):
            if message["role"] == "assistant":
                break
            new[:0] = texts(message["content"])
        return "\n".join(new)


@dataclass(frozen=True)
class Reply:
    """An answer of the model. Without `stop`, its stop_reason is tool_use when it has calls, else end_turn."""

    says: str = ""
    calls: Sequence[Call] = ()
    stop: str = ""
    delay: float = 0
    usage: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong instead. The reply is what is broken off, or says the message of an error status."""

    kind: str
    reply: Reply = field(default_factory=Reply)
    retry_after: str = ""

    def __post_init__(self) -> None:
        if self.status is None and self.cut is None and self.kind not in NAMED_FAULTS:
            known = ", ".join(NAMED_FAULTS)
            raise BadInput(f"there is no fault {self.kind!r}: give a status from 400 to 599, cut:BYTES, or {known}")
        if self.kind in ("bad-input", "partial-input") and not self.reply.calls:
            raise BadInput(f"the fault {self.kind} needs calls: it spoils the input of the last one")
        if self.retry_after and self.status is None:
            raise BadInput(f"retry_after goes with an HTTP status, and {self.kind} has none")

    @property
    def status(self) -> int | None:
        return int(self.kind) if _STATUS.fullmatch(self.kind) else None

    @property
    def cut(self) -> int | None:
        """After how many bytes of its body the answer is cut."""
        return int(self.kind.removeprefix("cut:")) if _CUT.fullmatch(self.kind) else None


Answer = Reply | Fault
Answerer = Callable[[Request], Answer | None]
