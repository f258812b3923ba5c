"""What `.team/config.json` says under `settings` about agents, with what holds where it is silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gitteam.errors import BadInput
from gitteam.layout import CONFIG

NEVER = "never"
_MOST = 1e9  # longer than that no timer can be set


@dataclass(frozen=True)
class Settings:
    model: str = "claude-sonnet-5-5"
    idle_timeout: float | None = 60.0  # None: never
    max_turns: int = 50  # model calls for one piece of work
    max_tokens: int = 16_000  # of one reply
    context_window: int = 200_000
    give_up_after: float = 900.0  # seconds of a service that does not answer
    stall_timeout: float = 120.0  # seconds without a byte of an answer that has begun
    task_max_cost: float = 0.0  # dollars for one task; 0: as many as it takes
    task_max_turns: int = 0  # model calls for one task, by whomever; 0: as many as it takes


def read_settings(values: dict[str, Any]) -> Settings:
    """Settings as a person wrote them, or BadInput with what is wrong."""
    known = {key: value for key, value in values.items() if key in Settings.__dataclass_fields__}
    if known.get("idle_timeout") == NEVER:
        known["idle_timeout"] = None
    for key, value in known.items():
        if key == "idle_timeout" and value is None:
            continue
        fits, expected = _FORMS[type(getattr(Settings, key))]
        if not fits(value):
            also = f', or "{NEVER}"' if key == "idle_timeout" else ""
            raise BadInput(f"{CONFIG}: settings: {key} is {expected}{also}, not {value!r:.80}")
    return Settings(**known)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _MOST


_FORMS: dict[type, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str) and bool(value.strip()), "a name"),
    int: (lambda value: isinstance(value, int) and _is_number(value), "a whole number above 0"),
    float: (_is_number, "a number above 0"),
}
