"""Small checks that the rules are made of, each of which rejects with the place and the reason."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Any, NoReturn

_CALLED = {bool: "a boolean", dict: "an object", int: "a whole number", list: "a list", str: "a string"}


class Rejected(Exception):
    """What the API answers with an error status instead of a message."""

    def __init__(self, status: int, message: str):
        self.status = status
        super().__init__(message)


def reject(message: str) -> NoReturn:
    raise Rejected(400, message)


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def require(holder: dict[str, Any], key: str, kind: type, at: str) -> Any:
    place = f"{at}.{key}" if at else key
    if key not in holder:
        reject(f"{place}: field required")
    if not isinstance(holder[key], kind):
        reject(f"{place}: must be {_CALLED[kind]}")
    return holder[key]


def check_known(holder: dict[str, Any], known: Set[str], at: str) -> None:
    for key in holder:
        if key not in known:
            reject(f"{f'{at}.' if at else ''}{key}: extra inputs are not permitted")


def check_pattern(value: str, pattern: str, at: str) -> None:
    if not re.fullmatch(pattern, value):
        reject(f"{at}: must match ^{pattern}$")


def check_text(text: Any, at: str) -> None:
    if not isinstance(text, str):
        reject(f"{at}: must be a string")
    if not text:
        reject(f"{at}: text must not be empty")
    if text.isspace():
        reject(f"{at}: text must not be only white space")


def check_text_blocks(found: list[Any], at: str) -> None:
    for index, block in enumerate(found):
        if not isinstance(block, dict) or block.get("type") != "text":
            reject(f"{at}.{index}: must be a block of type text")
        check_text_block(block, f"{at}.{index}")


def check_text_block(block: dict[str, Any], at: str) -> None:
    check_known(block, {"cache_control", "citations", "text", "type"}, at)
    check_text(block.get("text"), f"{at}.text")


def check_cache_control(mark: Any) -> None:
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
        reject("cache_control.type: must be 'ephemeral'")
    if mark.get("ttl", "5m") not in ("5m", "1h"):
        reject("cache_control.ttl: must be '5m' or '1h'")
    check_known(mark, {"ttl", "type"}, "cache_control")
