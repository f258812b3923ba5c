"""The script: who, on seeing what, answers how. The first turn that fits and is not used up answers."""

from __future__ import annotations

import os
import re
import threading
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gitteam.errors import BadInput
from gitteam.scripted.exchange import Answer, Call, Fault, Reply, Request

USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Turn:
    answer: Answer
    member: str = ""
    sees: re.Pattern[str] | None = None
    times: int = 1  # 0: always

    def answer_to(self, request: Request) -> Answer | None:
        if self.member and self.member != request.member:
            return None
        if self.sees is None:
            return self.answer
        seen = self.sees.search(request.new_text)
        return _filled(self.answer, seen.groupdict(default="")) if seen else None


class Script:
    """Answers by its turns. May be asked by many threads: a turn answers as often as it says, never more often."""

    def __init__(self, turns: Sequence[Turn], models: Sequence[str] = ()):
        self.turns, self.models = tuple(turns), tuple(models)
        self._used = [0] * len(turns)
        self._lock = threading.Lock()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Script:
        try:
            with open(path, encoding="utf-8") as f:
                return cls.parse(f.read(), os.fspath(path))
        except OSError as e:
            raise BadInput(f"{os.fspath(path)} cannot be read: {e.strerror}") from None
        except UnicodeDecodeError:
            raise BadInput(f"{os.fspath(path)} is no script: it is not UTF-8 text") from None

    @classmethod
    def parse(cls, text: str, name: str = "script") -> Script:
        try:
            found = tomllib.loads(text)
            _check_keys(found, _TOP)
        except (tomllib.TOMLDecodeError, BadInput) as e:
            raise BadInput(f"{name} is no script: {e}") from None
        turns = []
        for number, values in enumerate(found.get("turn", []), 1):
            try:
                turns.append(_turn(values))
            except BadInput as e:
                raise BadInput(f"{name}, turn {number}: {e}") from None
        return cls(turns, found.get("models", []))

    def __call__(self, request: Request) -> Answer | None:
        with self._lock:
            for at, turn in enumerate(self.turns):
                if turn.times and self._used[at] >= turn.times:
                    continue
                if answer := turn.answer_to(request):
                    self._used[at] += 1
                    return answer
        return None

    @property
    def unused(self) -> list[int]:
        """The numbers of the turns that have not answered yet."""
        with self._lock:
            return [number for number, used in enumerate(self._used, 1) if not used]


# -- filling in what was seen ---------------------------------------------------------------------


def _filled(answer: Answer, groups: dict[str, str]) -> Answer:
    if isinstance(answer, Fault):
        return replace(answer, reply=_filled_reply(answer.reply, groups))
    return _filled_reply(answer, groups)


def _filled_reply(reply: Reply, groups: dict[str, str]) -> Reply:
    calls = [(tool, _fill(values, groups)) for tool, values in reply.calls]
    return replace(reply, says=_fill(reply.says, groups), calls=calls)


def _fill(value: Any, groups: dict[str, str]) -> Any:
    """Known names in braces are replaced in every string; other braces stay, for they may be code."""
    if isinstance(value, str):
        return _PLACE.sub(lambda place: groups.get(place[1], place[0]), value)
    if isinstance(value, dict):
        return {key: _fill(inner, groups) for key, inner in value.items()}
    return [_fill(inner, groups) for inner in value] if isinstance(value, list) else value


# -- reading a turn -------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value)


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and all(isinstance(inner, dict) for inner in value.values())


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_usage(value: Any) -> bool:
    return isinstance(value, dict) and all(key in USAGE and _is_count(count) for key, count in value.items())


_Form = tuple[Callable[[Any], bool], str]
_TEXT: _Form = _is_text, "a string"
_TOP: dict[str, _Form] = {
    "models": (_list_of(_is_text), "a list of strings"),
    "turn": (_list_of(lambda value: isinstance(value, dict)), "given as [[turn]]"),
}
_TURN: dict[str, _Form] = {
    "member": _TEXT,
    "sees": _TEXT,
    "says": _TEXT,
    "calls": (_list_of(_is_call), "a list of { TOOL = { NAME = VALUE } }"),
    "delay": (_is_number, "a number of seconds"),
    "times": (_is_count, "a whole number, 0 for always"),
    "fault": _TEXT,
    "retry_after": _TEXT,
    "stop": _TEXT,
    "usage": (_is_usage, f"a table of whole numbers for some of {', '.join(USAGE)}"),
}


def _check_keys(values: dict[str, Any], forms: dict[str, _Form]) -> None:
    for key, value in values.items():
        if key not in forms:
            raise BadInput(f"there is no key {key!r}: known are {', '.join(forms)}")
        fits, form = forms[key]
        if not fits(value):
            raise BadInput(f"{key} must be {form}")


def _turn(values: dict[str, Any]) -> Turn:
    _check_keys(values, _TURN)
    if not any(values.get(key) for key in ("says", "calls", "fault", "stop")):
        raise BadInput("it answers nothing: give says, calls, fault or stop")
    return Turn(_answer(values), values.get("member", ""), _pattern(values.get("sees")), values.get("times", 1))


def _pattern(sees: str | None) -> re.Pattern[str] | None:
    try:
        return None if sees is None else re.compile(sees)
    except re.error as e:
        raise BadInput(f"sees is no regular expression: {e}") from None


def _answer(values: dict[str, Any]) -> Answer:
    calls: list[Call] = [next(iter(call.items())) for call in values.get("calls", [])]
    reply = Reply(
        values.get("says", ""), calls, values.get("stop", ""), values.get("delay", 0), values.get("usage", {})
    )
    if "fault" in values:
        return Fault(values["fault"], reply, values.get("retry_after", ""))
    if "retry_after" in values:
        raise BadInput("retry_after goes with a fault that is an HTTP status")
    return reply
