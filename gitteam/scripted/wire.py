"""Answers as bytes: JSON and server-sent events as the API sends them, whole or broken on purpose."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from http.client import responses
from typing import Any

from gitteam.scripted.caching import tokens
from gitteam.scripted.exchange import Answer, Fault, Reply, Request

ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_PIECES = 4  # into how many deltas a text or an input is divided
_JSON, _SSE, _HTML = "application/json", "text/event-stream; charset=utf-8", "text/html; charset=utf-8"
_PAGE = b"<!DOCTYPE html>\n<html><body><h1>Welcome</h1><p>Sign in to go on.</p></body></html>\n"
_UNFINISHED = "This answer is not meant to arrive whole."


class After(Enum):
    """What becomes of the connection once the bytes are sent."""

    KEEP = "keep"
    CLOSE = "close"
    STALL = "stall"


@dataclass(frozen=True)
class Outgoing:
    data: bytes
    after: After = After.KEEP
    delay: float = 0


def outgoing(answer: Answer, request: Request, usage: dict[str, int]) -> Outgoing:
    """What is sent for an answer, and what then."""
    reply = answer.reply if isinstance(answer, Fault) else answer
    sent = _faulty(answer, request, usage) if isinstance(answer, Fault) else _whole(reply, request, usage)
    return replace(sent, delay=reply.delay)


def error(status: int, message: str = "", retry_after: str = "") -> Outgoing:
    number = _id("req")
    headers = {"request-id": number, **({"retry-after": retry_after} if retry_after else {})}
    body = {**_error(status, message), "request_id": number}
    return Outgoing(_plain(status, _JSON, _json(body), **headers))


def found(body: dict[str, Any]) -> Outgoing:
    return Outgoing(_plain(200, _JSON, _json(body)))


def _error(status: int, message: str) -> dict[str, Any]:
    kind = ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message or kind.replace("_", " ").capitalize()}}


# -- faults ---------------------------------------------------------------------------------------


def _faulty(fault: Fault, request: Request, usage: dict[str, int]) -> Outgoing:
    if fault.status:
        return error(fault.status, fault.reply.says, fault.retry_after)
    if fault.kind == "refused":
        return Outgoing(b"", After.CLOSE)
    if fault.kind == "html":
        return Outgoing(_plain(200, _HTML, _PAGE))
    if fault.kind in ("bad-input", "partial-input"):
        return _whole(fault.reply, request, usage, spoil=fault.kind)
    if fault.kind == "error-event" and not request.stream:
        return error(529)
    return _broken(fault, request, usage)


def _broken(fault: Fault, request: Request, usage: dict[str, int]) -> Outgoing:
    """An answer that begins well."""
    reply = fault.reply if fault.reply.says or fault.reply.calls else replace(fault.reply, says=_UNFINISHED)
    message = _message(reply, request, usage)
    parts = list(_events(message)) if request.stream else _halves(_json(message))
    half, size = b"".join(parts[: len(parts) // 2]), sum(map(len, parts))
    if fault.cut is not None:
        return Outgoing(_framed(request, b"".join(parts)[: fault.cut], size), After.CLOSE)
    if fault.kind == "stall":
        return Outgoing(_framed(request, half, size), After.STALL)
    if fault.kind == "error-event":
        half += _event(_error(529, "Overloaded"))
    return Outgoing(_framed(request, half, None))


def _halves(body: bytes) -> list[bytes]:
    return [body[: len(body) // 2], body[len(body) // 2 :]]


def _framed(request: Request, body: bytes, promised: int | None) -> bytes:
    """The body in HTTP's frame: properly ended, or, where a size is promised, with the rest still to come."""
    if request.stream:
        end = b"0\r\n\r\n" if promised is None else b""
        return _head(200, _SSE, **{"transfer-encoding": "chunked"}) + _chunk(body) + end
    return _head(200, _JSON, **{"content-length": str(promised or len(body))}) + body


def _chunk(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body) if body else b""


# -- messages -------------------------------------------------------------------------------------


def _whole(reply: Reply, request: Request, usage: dict[str, int], spoil: str = "") -> Outgoing:
    message = _message(reply, request, usage)
    if spoil:
        _spoil(message["content"][-1], spoil)
    body = b"".join(_events(message)) if request.stream else _json(message)
    return Outgoing(_framed(request, body, None))


def _message(reply: Reply, request: Request, usage: dict[str, int]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.says}] if reply.says else []
    content += [{"type": "tool_use", "id": _id("toolu"), "name": tool, "input": put} for tool, put in reply.calls]
    stop = reply.stop or ("tool_use" if reply.calls else "end_turn")
    return {
        "id": _id("msg"),
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": tokens(len(_json(content))), **reply.usage},
    }


def _spoil(block: dict[str, Any], how: str) -> None:
    """Make the input of a call text that is no JSON: broken off, or wrong from its beginning."""
    text = json.dumps(block["input"], ensure_ascii=False)
    block["input"] = text[: (len(text) + 1) // 2] if how == "partial-input" else "{'" + text[1:]


def _events(message: dict[str, Any]) -> Iterator[bytes]:
    """One message as the stream of events that builds it up."""
    usage = message["usage"]
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _event({"type": "message_start", "message": begun})
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
        if index == 0:
            yield _event({"type": "ping"})
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": delta, "usage": usage})
    yield _event({"type": "message_stop"})


def _block_events(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    if block["type"] == "text":
        empty, deltas = {**block, "text": ""}, [{"type": "text_delta", "text": p} for p in _divided(block["text"])]
    else:
        put = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"], ensure_ascii=False)
        empty = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *_divided(put)]]
    yield _event({"type": "content_block_start", "index": index, "content_block": empty})
    for delta in deltas:
        yield _event({"type": "content_block_delta", "index": index, "delta": delta})
    yield _event({"type": "content_block_stop", "index": index})


def _divided(text: str) -> list[str]:
    step = -(-len(text) // _PIECES) or 1
    return [text[at : at + step] for at in range(0, len(text), step)]


# -- bytes ----------------------------------------------------------------------------------------


def _id(kind: str) -> str:
    # Random and not counted: a conversation may go on with another server, and its ids must stay unique.
    return f"{kind}_{secrets.token_hex(12)}"


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def _event(data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), _json(data))


def _plain(status: int, kind: str, body: bytes, **headers: str) -> bytes:
    return _head(status, kind, **{"content-length": str(len(body))}, **headers) + body


def _head(status: int, kind: str, **headers: str) -> bytes:
    headers = {"content-type": kind, "request-id": _id("req"), **headers}
    lines = [f"HTTP/1.1 {status} {responses.get(status, 'Error')}", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
