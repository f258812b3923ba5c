"""The goal of a run: kept until it is reached, so that a run that was interrupted can go on with it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from gitteam.layout import Layout


@dataclass(frozen=True)
class Goal:
    text: str = ""
    is_told: bool = False  # the lead's conversation has it


def read(place: Layout) -> Goal:
    """The goal that has not been reached yet; an empty one if there is none."""
    try:
        with open(_path(place), encoding="utf-8") as f:
            values = json.load(f)
        return Goal(str(values["text"]), bool(values["is_told"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Goal()


def write(place: Layout, goal: Goal) -> None:
    os.makedirs(place.state, exist_ok=True)
    temporary = f"{_path(place)}-new"  # there is one lead, and so one who writes
    with open(temporary, "w", encoding="utf-8") as f:
        json.dump(asdict(goal), f)
    os.replace(temporary, _path(place))


def forget(place: Layout) -> None:
    if os.path.exists(_path(place)):
        os.unlink(_path(place))


def _path(place: Layout) -> str:
    return os.path.join(place.state, "goal.json")
