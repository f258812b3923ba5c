"""What the real API rejects. A client that gets past these rules has sent a sound request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from gitteam.scripted.caching import cache_marks
from gitteam.scripted.conversation import check_messages
from gitteam.scripted.forms import (
    Rejected,
    check_cache_control,
    check_known,
    check_pattern,
    check_text_blocks,
    is_whole,
    reject,
    require,
)  # fmt: skip

MAX_MARKS = 4
_COUNTED = {
    "cache_control", "messages", "model", "output_config", "speed", "system", "thinking", "tool_choice", "tools",
}  # fmt: skip
_SENT = _COUNTED | {
    "container", "diagnostics", "inference_geo", "max_tokens", "metadata", "service_tier", "stop_sequences", "stream",
}  # fmt: skip
_OF_TOOL = {
    "allowed_callers", "cache_control", "defer_loading", "description", "eager_input_streaming", "input_examples",
    "input_schema", "name", "strict", "type",
}  # fmt: skip
_TOOL_NAME = r"[a-zA-Z0-9_-]{1,128}"


def check_headers(headers: Mapping[str, str]) -> None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if not (scheme.lower() == "bearer" and token.strip()) and not headers.get("x-api-key"):
        raise Rejected(401, "no credential: send authorization: Bearer KEY, or x-api-key")
    if not headers.get("anthropic-version"):
        reject("anthropic-version: header is required")


def accepted(raw: bytes | None, models: Sequence[str] = (), counting: bool = False) -> dict[str, Any]:
    """The body of a sound request; anything else is Rejected. None stands for one that was too large to read."""
    if raw is None:
        raise Rejected(413, "Request exceeds the maximum size of 32 MB")
    body = _parsed(raw)
    check_known(body, _COUNTED if counting else _SENT, "")
    _check_model(body, models)
    if not counting:
        _check_limits(body)
    _check_system(body)
    names = _check_tools(body)
    if check_messages(require(body, "messages", list, "")) and not names:
        reject("tools: there must be tools when messages have tool_use or tool_result blocks")
    _check_tool_choice(body, names)
    _check_thinking(body)
    _check_cache(body)
    return body


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw, parse_constant=_no_constant)
        if b"\\ud" in raw.lower():
            json.dumps(body, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError) as e:
        reject(f"the request body is not valid JSON: {e}")
    if not isinstance(body, dict):
        reject("the request body must be an object")
    return body


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _check_model(body: dict[str, Any], models: Sequence[str]) -> None:
    model = require(body, "model", str, "")
    if not model:
        reject("model: must not be empty")
    if models and model not in models:
        raise Rejected(404, f"model: {model}")


def _check_limits(body: dict[str, Any]) -> None:
    if "max_tokens" not in body:
        reject("max_tokens: field required")
    if not is_whole(body["max_tokens"]):
        reject("max_tokens: must be a whole number")
    if body["max_tokens"] < 1:
        reject("max_tokens: must be greater than or equal to 1")
    if "stream" in body:
        require(body, "stream", bool, "")
    for key in ("metadata", "output_config"):
        if body.get(key) is not None:
            require(body, key, dict, "")


def _check_system(body: dict[str, Any]) -> None:
    system = body.get("system")
    if system is not None and not isinstance(system, str):
        check_text_blocks(require(body, "system", list, ""), "system")


def _check_tools(body: dict[str, Any]) -> set[str]:
    names: set[str] = set()
    if body.get("tools") is None:
        return names
    for index, tool in enumerate(require(body, "tools", list, "")):
        name = _check_tool(tool, f"tools.{index}")
        if name in names:
            reject(f"tools: names must be unique, and there are two {name}")
        names.add(name)
    return names


def _check_tool(tool: Any, at: str) -> str:
    if not isinstance(tool, dict):
        reject(f"{at}: must be an object")
    name = str(require(tool, "name", str, at))
    check_pattern(name, _TOOL_NAME, f"{at}.name")
    if tool.get("type") in (None, "custom"):
        check_known(tool, _OF_TOOL, at)
        schema = require(tool, "input_schema", dict, at)
        if schema.get("type") != "object":
            reject(f"{at}.input_schema.type: must be 'object'")
    return name


def _check_tool_choice(body: dict[str, Any], names: set[str]) -> None:
    if body.get("tool_choice") is None:
        return
    kind = require(body, "tool_choice", dict, "").get("type")
    if kind in ("any", "tool"):
        reject(f"tool_choice: the type {kind!r} forces a tool, which this model does not support; use 'auto'")
    if kind not in ("auto", "none"):
        reject("tool_choice.type: must be 'auto' or 'none'")
    if not names:
        reject("tool_choice: may only be given together with tools")


def _check_thinking(body: dict[str, Any]) -> None:
    if "thinking" not in body:
        return
    thinking = require(body, "thinking", dict, "")
    kind = thinking.get("type")
    if kind not in ("adaptive", "between_tools", "disabled", "enabled"):
        reject("thinking.type: must be 'adaptive', 'between_tools', 'disabled' or 'enabled'")
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not is_whole(budget) or not 1024 <= budget < body.get("max_tokens", budget + 1):
            reject("thinking.budget_tokens: must be at least 1024 and less than max_tokens")


def _check_cache(body: dict[str, Any]) -> None:
    marks = cache_marks(body)
    for mark in marks:
        check_cache_control(mark)
    if len(marks) > MAX_MARKS:
        reject(f"at most {MAX_MARKS} blocks may have cache_control, and there are {len(marks)}")
