"""What `.team/config.json` says under `settings` about agents, with what holds where it is silent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gitteam.errors import BadInput
from gitteam.layout import CONFIG

NEVER = "never"


@dataclass(frozen=True)
class Settings:
    model: str = "claude-sonnet-5-5"
    idle_timeout: float | None = 60.0  # None: never
    max_turns: int = 50  # model calls for one piece of work
    max_tokens: int = 16_000  # of one reply
    context_window: int = 200_000
    give_up_after: float = 900.0  # seconds of a service that does not answer
    stall_timeout: float = 120.0  # seconds without a byte of an answer that has begun


def read_settings(values: dict[str, Any]) -> Settings:
    """Settings as a person wrote them, or BadInput with what is wrong."""
    known = {key: value for key, value in values.items() if key in Settings.__dataclass_fields__}
    if known.get("idle_timeout") == NEVER:
        known["idle_timeout"] = None
    for key, value in known.items():
        wanted = type(getattr(Settings, key))
        numeric = wanted in (int, float) and isinstance(value, int | float) and not isinstance(value, bool)
        fits = isinstance(value, str) and value if wanted is str else numeric and value > 0
        if not fits and not (key == "idle_timeout" and value is None):
            expected = "a name" if wanted is str else "a number above 0"
            also = f', or "{NEVER}"' if key == "idle_timeout" else ""
            raise BadInput(f"{CONFIG}: settings: {key} is {expected}{also}, not {value!r}")
        if wanted is int and value is not None:
            known[key] = int(value)
    return Settings(**known)
