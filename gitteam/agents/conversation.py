"""A member's conversation with its model, on disk as it grows, and whole again after a crash.

The file is a list of steps, a JSON object a line: what was said to the model, what it
answered, which messages have left the inbox, and from time to time a whole new beginning
(compaction). Nothing is ever removed from it. A torn last line is left out.
"""

from __future__ import annotations

import json
import os
from typing import Any, BinaryIO

from gitteam.agents.blocks import Block, Message, result, text_block

INTERRUPTED = (
    "interrupted: the program ended before this answered. It may or may not have taken effect: "
    "look before you do it again."
)
RESUMED = "You were interrupted and are back now. What came last may have reached you before; do nothing twice."
_BYTES_PER_TOKEN = 3  # fewer than in most texts: what is not counted yet may be more than it turns out to be


class Conversation:
    """The messages so far, in the form the API takes, and which of the inbox's are among them."""

    def __init__(self, path: str):
        self.messages: list[Message] = []
        self.delivered: set[str] = set()  # ids in here that may still be in the inbox
        self.returned: set[str] = set()  # ids that were in here, could not be put to the model, and come once more
        self._counted = 0  # tokens, by the service, up to its last answer
        self._since = 0  # bytes that have come after that
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self._file = _open(path)
        for step, size in _steps(self._file):
            self._follow(step, size)
        self.resumed = bool(self.messages)
        if self.resumed:
            self._mend()

    def close(self) -> None:
        self._file.close()

    @property
    def is_unanswered(self) -> bool:
        """Whether something has been said to the model that it has not answered."""
        return bool(self.messages) and self.messages[-1]["role"] == "user"

    def tokens(self, beside: int) -> int:
        """At most how many tokens a request has now, with so many bytes of prompt and tools beside the conversation."""
        return self._counted + (self._since + (0 if self._counted else beside)) // _BYTES_PER_TOKEN

    # -- growing ----------------------------------------------------------------------------

    def tell(self, *texts: str, delivered: list[str] | None = None) -> None:
        """Something for the model to read before its next answer."""
        self._step({"user": [text_block(text) for text in texts], "delivered": delivered or []})

    def answer(self, results: list[Block], delivered: list[str]) -> None:
        """What its tools gave."""
        self._step({"user": results, "delivered": delivered})

    def hear(self, blocks: list[Block], tokens: int = 0) -> None:
        """What the model said, and how many tokens the service has counted, that included."""
        self._step({"assistant": blocks, "tokens": tokens})

    def forget(self, ids: list[str]) -> None:
        """These have left the inbox, and cannot come a second time."""
        self._step({"taken": ids})

    def keep_delivered(self, present: set[str]) -> None:
        """These are in the inbox now. What is not was taken; the program may have ended before it said so."""
        if gone := self.delivered - present:
            self.forget(sorted(gone))

    def end_turn(self, text: str) -> None:
        """A piece of work is over. What has no answer gets this one: it is not put to the model again."""
        if self.is_unanswered:
            self.hear([text_block(text)])

    def begin_anew(self, messages: list[Message], returns: list[str] | None = None) -> None:
        """Compaction: from here on the conversation is this. What `returns` is not in it, and comes once more."""
        self._step({"compacted": messages, "returned": returns or []})

    def save(self) -> None:
        """After this what was said survives a power cut too."""
        os.fsync(self._file.fileno())

    def _step(self, step: dict[str, Any]) -> None:
        line = json.dumps(step, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self._file.write(line + b"\n")
        self._file.flush()
        self._follow(step, len(line))

    def _follow(self, step: dict[str, Any], size: int) -> None:
        self._since += size
        if "user" in step:
            self._add("user", step["user"])
            self.delivered.update(step.get("delivered", ()))
        elif "assistant" in step:
            self._add("assistant", step["assistant"])
            if tokens := step.get("tokens"):
                self._counted, self._since = tokens, 0
        elif "taken" in step:
            self.delivered.difference_update(step["taken"])
            self.returned.difference_update(step["taken"])
        elif "compacted" in step:
            self.messages = list(step["compacted"])
            self._counted, self._since = 0, size
            self.delivered.difference_update(step.get("returned", ()))
            self.returned.update(step.get("returned", ()))

    def _add(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1] = {"role": role, "content": [*self.messages[-1]["content"], *blocks]}
        else:
            self.messages.append({"role": role, "content": blocks})

    # -- after a restart ----------------------------------------------------------------------

    def _mend(self) -> None:
        """Every call gets an answer, and the model learns that it was away."""
        last = self.messages[-1]
        if last["role"] == "assistant":
            calls = [b for b in last["content"] if b["type"] == "tool_use"]
            if calls:
                self.answer([result(call, INTERRUPTED, True) for call in calls], [])
        if self.is_unanswered and self.messages[-1]["content"][-1] != text_block(RESUMED):
            self.tell(RESUMED)


def _open(path: str) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "a+b")


def _steps(file: BinaryIO) -> list[tuple[dict[str, Any], int]]:
    """Each with its size."""
    file.seek(0)
    data = file.read()
    if data and not data.endswith(b"\n"):
        file.write(b"\n")  # so that what comes next is a line of its own
        file.flush()
    return [(step, len(line)) for line in data.split(b"\n") if isinstance(step := _parsed(line), dict)]


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
