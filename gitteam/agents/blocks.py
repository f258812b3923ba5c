"""What a conversation is made of, in the form the API takes."""

from __future__ import annotations

from typing import Any

Block = dict[str, Any]
Message = dict[str, Any]


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def result(call: Block, text: str, is_error: bool = False) -> Block:
    """The answer to one tool call."""
    found: Block = {"type": "tool_result", "tool_use_id": call["id"], "content": text or "(nothing)"}
    return {**found, "is_error": True} if is_error else found
