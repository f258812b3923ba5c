"""What the lead has before it: a desk like every member's, and the crew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gitteam.agents.desk import Desk

if TYPE_CHECKING:
    from gitteam.agents.crew import Crew
    from gitteam.agents.model import Ask, Reply


@dataclass(kw_only=True)
class LeadDesk(Desk):
    crew: Crew
    may_start: Callable[[str, str], bool]  # asks the person, once, before the first teammate is started
    ask: Callable[[Ask], Reply]  # how a subagent's calls are made
    model: str
    max_tokens: int
