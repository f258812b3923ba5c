"""How many tokens a request costs, with prompt caching as the API does it: by prefixes that stay the same."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from typing import Any

from gitteam.scripted.exchange import blocks

BYTES_PER_TOKEN = 4


def tokens(size: int) -> int:
    return max(1, size // BYTES_PER_TOKEN)


def prompt_size(body: dict[str, Any]) -> int:
    return sum(map(len, _pieces(body)))


class PromptCache:
    """Remembers the prefixes it has seen, message by message."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._lock = threading.Lock()

    def usage(self, body: dict[str, Any]) -> dict[str, int]:
        total = tokens(prompt_size(body))
        if not cache_marks(body):
            return _usage(total, 0, 0)
        read = min(total, self._learn(body) // BYTES_PER_TOKEN)
        return _usage(0, read, total - read)

    def _learn(self, body: dict[str, Any]) -> int:
        """The size of the longest known prefix; from now on all of this request's are known."""
        chain, size, known_size = hashlib.sha256(str(body["model"]).encode()), 0, 0
        with self._lock:
            for piece in _pieces(body):
                chain.update(hashlib.sha256(piece).digest())
                size += len(piece)
                if chain.digest() in self._known:
                    known_size = size
                self._known.add(chain.digest())
        return known_size


def _usage(fresh: int, read: int, created: int) -> dict[str, int]:
    return {"input_tokens": fresh, "cache_read_input_tokens": read, "cache_creation_input_tokens": created}


def _pieces(body: dict[str, Any]) -> Iterator[bytes]:
    """Tools and system first, then one piece per message, without the marks: those may move."""
    yield _bytes([_unmarked(body.get("tools")), _unmarked(blocks(body.get("system")))])
    for message in body["messages"]:
        yield _bytes([message["role"], _unmarked(blocks(message["content"]))])


def _bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")


def _unmarked(found: Any) -> list[dict[str, Any]]:
    return [_without_mark(block) for block in found or ()]


def _without_mark(block: dict[str, Any]) -> dict[str, Any]:
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    return {**bare, "content": _unmarked(blocks(bare.get("content")))} if bare.get("type") == "tool_result" else bare


def cache_marks(body: dict[str, Any]) -> list[Any]:
    """Every cache_control of the request: its own, and those of tools and blocks."""
    holders = [body, *(body.get("tools") or ()), *blocks(body.get("system"))]
    for message in body["messages"]:
        for block in blocks(message["content"]):
            holders += [block, *(blocks(block.get("content")) if block.get("type") == "tool_result" else ())]
    return [holder["cache_control"] for holder in holders if holder.get("cache_control") is not None]
