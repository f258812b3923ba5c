"""A model that goes round in circles: noticed from its calls and what they gave."""

from __future__ import annotations

import json
from collections import deque

from gitteam.agents.blocks import Block

_SAME_CALL, _SAME_ERROR, _ROUNDS = 4, 3, 3


class Circles:
    """The last few calls of one piece of work."""

    def __init__(self) -> None:
        self._calls: deque[tuple[str, str]] = deque(maxlen=2 * _ROUNDS)
        self._errors: deque[str] = deque(maxlen=_SAME_ERROR)

    def note(self, call: Block, result: Block) -> str:
        """What is going round in circles with this call, or ""."""
        said = json.dumps(result.get("content"), ensure_ascii=False)
        self._calls.append((json.dumps([call["name"], call["input"]], sort_keys=True), said))
        self._errors.append(said) if result.get("is_error") else self._errors.clear()
        found = self._found(call["name"])
        if found:
            self._calls.clear()
            self._errors.clear()
        return found

    def _found(self, name: str) -> str:
        last = list(self._calls)
        if len(last) >= _SAME_CALL and len(set(last[-_SAME_CALL:])) == 1:
            return f"the same call of {name} {_SAME_CALL} times, with the same outcome"
        if len(self._errors) == _SAME_ERROR and len(set(self._errors)) == 1:
            return f"the same error {_SAME_ERROR} times"
        if len(last) == 2 * _ROUNDS and len(set(last[::2])) == len(set(last[1::2])) == 1:
            return f"the same two calls in turn {_ROUNDS} times"
        return ""
