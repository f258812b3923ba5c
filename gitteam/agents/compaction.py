"""Making room: pure decisions about what of a conversation is kept.

It is done rarely and in big steps. Between two steps a conversation only grows, so that
what the model has read before is byte for byte the same and is served from its cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from gitteam.agents.blocks import Block, Message, text_block

CLEAR_AT = 0.6  # of the window: old tool results go
SUMMARIZE_AT = 0.8  # of the window: all but the newest is told in short
_NEWEST = 0.2  # of what there is, by size, stays as it is when results are cleared
_SHORT = 400  # a result of so many characters is not worth clearing
_LAST = 4000  # characters of a last result that go over into a new beginning
_CLEARED = "[cleared to save room: {} characters]"


def is_due(tokens: int, window: int) -> str:
    """What has to be done about a conversation of so many tokens: "", "clear" or "summarize"."""
    if tokens >= SUMMARIZE_AT * window:
        return "summarize"
    return "clear" if tokens >= CLEAR_AT * window else ""


def without_old_results(messages: list[Message]) -> list[Message]:
    """The conversation with its older tool results emptied; calls and answers stay in pairs."""
    sizes = [len(json.dumps(m)) for m in messages]
    newest, kept = len(messages), 0
    while newest and kept + sizes[newest - 1] <= _NEWEST * sum(sizes):
        newest -= 1
        kept += sizes[newest]
    newest = min(newest, len(messages) - 1)
    return [_cleared(m) if i < newest else m for i, m in enumerate(messages)]


def is_worth_it(before: list[Message], after: list[Message]) -> bool:
    """Whether enough is gained to give up the cache for it."""
    return len(json.dumps(after)) < 0.75 * len(json.dumps(before))


def _cleared(message: Message) -> Message:
    return {**message, "content": [_cleared_block(b) for b in message["content"]]}


def _cleared_block(block: Block) -> Block:
    content = block.get("content")
    if block["type"] != "tool_result" or not isinstance(content, str) or len(content) <= _SHORT:
        return block
    return {**block, "content": _CLEARED.format(len(content))}


def with_question(messages: list[Message], question: str) -> list[Message]:
    """The conversation with one more thing said to the model."""
    block = text_block(question)
    if messages and messages[-1]["role"] == "user":
        return [*messages[:-1], {"role": "user", "content": [*messages[-1]["content"], block]}]
    return [*messages, {"role": "user", "content": [block]}]


def shrinking(messages: list[Message]) -> Iterator[list[Message]]:
    """The conversation, then without old results, then ever shorter ends of it that begin with what somebody said."""
    yield messages
    messages = without_old_results(messages)
    yield messages
    starts = [i for i, m in enumerate(messages) if m["role"] == "user" and not _has_results(m)]
    while len(starts) > 1:
        starts = starts[len(starts) // 2 :]
        yield messages[starts[0] :]


def _has_results(message: Message) -> bool:
    return any(b["type"] == "tool_result" for b in message["content"])


def newest_results(messages: list[Message], mark: Callable[[str], str]) -> list[str]:
    """What the last calls gave and the model has not read yet, as text: their calls are gone."""
    if not messages or messages[-1]["role"] != "user":
        return []
    found = [str(b["content"]) for b in messages[-1]["content"] if b["type"] == "tool_result"]
    return [mark(text if len(text) <= _LAST else text[:_LAST] + "…") for text in found]


def newest_texts(messages: list[Message]) -> list[str]:
    """What the model has been told last and not answered yet: it goes over into the new beginning whole."""
    if not messages or messages[-1]["role"] != "user":
        return []
    return [b["text"] for b in messages[-1]["content"] if b["type"] == "text"]
