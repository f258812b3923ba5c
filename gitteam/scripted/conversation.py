"""The rules for messages: roles in order, sound blocks, and a result for every call of a tool."""

from __future__ import annotations

from typing import Any

from gitteam.scripted.exchange import blocks
from gitteam.scripted.forms import (
    check_known,
    check_pattern,
    check_text,
    check_text_block,
    check_text_blocks,
    reject,
    require,
)

ROLES = ("user", "assistant", "system")
_TOOL_ID = r"[a-zA-Z0-9_-]+"
# Which keys a block may have, by its type; None: not looked at here.
_BLOCKS: dict[str, set[str] | None] = {
    "thinking": {"signature", "thinking", "type"},
    "redacted_thinking": {"data", "type"},
    "tool_use": {"cache_control", "caller", "id", "input", "name", "toolset_name", "type"},
    "tool_result": {"cache_control", "content", "is_error", "tool_use_id", "toolset_name", "type"},
    "text": None,
    "image": None,
    "document": None,
    "search_result": None,
    "server_tool_use": None,
    "web_search_tool_result": None,
    "web_fetch_tool_result": None,
    "code_execution_tool_result": None,
    "bash_code_execution_tool_result": None,
    "text_editor_code_execution_tool_result": None,
    "tool_search_tool_result": None,
    "container_upload": None,
}
_ONLY_IN = {"thinking": "assistant", "redacted_thinking": "assistant", "tool_use": "assistant", "tool_result": "user"}
_IN_RESULTS = ("text", "image", "search_result", "document", "tool_reference", "browser_state")


def check_messages(messages: list[Any]) -> bool:
    """Reject what is unsound. Whether tools were used in it."""
    if not messages:
        reject("messages: at least one message is required")
    for index, message in enumerate(messages):
        _check_message(message, f"messages.{index}")
    if messages[0]["role"] != "user":
        reject("messages: the first message must have the role user")
    if messages[-1]["role"] == "assistant":
        reject("this model does not support assistant message prefill: the conversation must end with a user message")
    return _check_tool_use(_merged(messages))


def _check_message(message: Any, at: str) -> None:
    if not isinstance(message, dict):
        reject(f"{at}: must be an object")
    check_known(message, {"role", "content"}, at)
    role = require(message, "role", str, at)
    if role not in ROLES:
        reject(f"{at}.role: must be one of {', '.join(ROLES)}")
    content = message.get("content")
    if content in ("", []):
        reject(f"{at}: all messages must have non-empty content")
    if isinstance(content, str):
        return check_text(content, f"{at}.content")
    found = require(message, "content", list, at)
    if role == "system":
        return check_text_blocks(found, f"{at}.content")
    for index, block in enumerate(found):
        _check_block(block, role, f"{at}.content.{index}")
    return None


def _check_block(block: Any, role: str, at: str) -> None:
    if not isinstance(block, dict):
        reject(f"{at}: must be an object")
    kind = require(block, "type", str, at)
    if kind not in _BLOCKS:
        reject(f"{at}.type: there is no content block {kind!r}")
    if _ONLY_IN.get(kind, role) != role:
        reject(f"{at}: {kind} blocks can only be in {_ONLY_IN[kind]} messages")
    if known := _BLOCKS[kind]:
        check_known(block, known, at)
    match kind:
        case "text":
            check_text_block(block, at)
        case "thinking":
            require(block, "thinking", str, at)
            require(block, "signature", str, at)
        case "redacted_thinking":
            require(block, "data", str, at)
        case "tool_use":
            check_pattern(require(block, "id", str, at), _TOOL_ID, f"{at}.id")
            require(block, "name", str, at)
            require(block, "input", dict, at)
        case "tool_result":
            _check_result(block, at)


def _check_result(block: dict[str, Any], at: str) -> None:
    check_pattern(require(block, "tool_use_id", str, at), _TOOL_ID, f"{at}.tool_use_id")
    if "is_error" in block:
        require(block, "is_error", bool, at)
    content = block.get("content")
    if block.get("is_error") and not content:
        reject(f"{at}.content: must not be empty when is_error is true")
    if content is None or isinstance(content, str):
        return
    for index, inner in enumerate(require(block, "content", list, at)):
        place = f"{at}.content.{index}"
        if not isinstance(inner, dict) or inner.get("type") not in _IN_RESULTS:
            reject(f"{place}: must be a block of type {', '.join(_IN_RESULTS)}")
        if inner["type"] == "text":
            check_text_block(inner, place)


# -- tools ----------------------------------------------------------------------------------------


def _merged(messages: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Role and blocks of each turn: messages of one role in a row are one turn."""
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for message in messages:
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks(message["content"]))
        else:
            turns.append((message["role"], list(blocks(message["content"]))))
    return turns


def _check_tool_use(turns: list[tuple[str, list[dict[str, Any]]]]) -> bool:
    used: set[str] = set()
    asked: list[str] = []
    for role, found in turns:
        _check_answers(asked, role, found)
        asked = [block["id"] for block in found if block["type"] == "tool_use"]
        for name in asked:
            if name in used:
                reject(f"messages: tool_use ids must be unique, and {name} comes twice")
            used.add(name)
    return bool(used)


def _check_answers(asked: list[str], role: str, found: list[dict[str, Any]]) -> None:
    """In the turn after these calls each has exactly one result, and the results come first."""
    kinds = [block["type"] for block in found]
    results = [block["tool_use_id"] for block in found if block["type"] == "tool_result"]
    for name in results:
        if name not in asked:
            reject(f"messages: the tool_result of {name} has no tool_use in the message before")
        if results.count(name) > 1:
            reject(f"messages: each tool_use must have a single result, and {name} has {results.count(name)}")
    if missing := [name for name in asked if name not in results]:
        reject(f"messages: tool_use without a tool_result in the next message: {', '.join(missing)}")
    if "tool_result" in kinds[len(results) :]:
        reject("messages: tool_result blocks must come before other content")
