"""What an agent can do: the tools by name, and the one place where they are run.

Who may call what is decided in `Toolbox.run`, whatever the model has been shown.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from gitteam.agents.blocks import Block, result
from gitteam.errors import GitteamError, ToolFailed

if TYPE_CHECKING:
    from gitteam.agents.desk import Desk

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,),
}  # fmt: skip
_CALLED = {"integer": "whole number", "array": "list of task numbers"}
_AT_ONCE = 8
LONGEST = 100_000  # characters of one result


@dataclass(frozen=True)
class Tool:
    """One tool. A parameter is `name: (type, what it means)`; a type that ends in `?` may be left out."""

    name: str
    description: str
    parameters: dict[str, tuple[str, str]]
    run: Callable[..., str]
    is_safe: bool = False  # changes nothing: may run beside others
    before_approval: bool = False  # a member whose plan is not approved yet may use it

    def schema(self) -> dict[str, Any]:
        properties = {}
        for name, (kind, meaning) in self.parameters.items():
            kind = kind.removesuffix("?")
            items = {"items": {"type": "integer"}} if kind == "array" else {}
            properties[name] = {"type": kind, **items, **({"description": meaning} if meaning else {})}
        required = [name for name, (kind, _) in self.parameters.items() if not kind.endswith("?")]
        return {
            "name": self.name, "description": self.description,
            "input_schema": {
                "type": "object", "properties": properties, "required": required, "additionalProperties": False,
            },
        }  # fmt: skip

    def check(self, given: Any) -> dict[str, Any]:
        """What the model gave, if it fits."""
        if not isinstance(given, dict):
            raise ToolFailed(f"{self.name} takes an object")
        if unknown := given.keys() - self.parameters.keys():
            raise ToolFailed(f"{self.name} has no {min(unknown)!r}; it takes {', '.join(self.parameters) or 'nothing'}")
        for name, (kind, _) in self.parameters.items():
            if name not in given:
                if not kind.endswith("?"):
                    raise ToolFailed(f"{self.name} needs {name!r}")
                continue
            value, wanted = given[name], kind.removesuffix("?")
            fits = isinstance(value, _TYPES[wanted]) and (wanted == "boolean" or not isinstance(value, bool))
            if not fits or (wanted == "array" and not all(type(item) is int for item in value)):
                what = _CALLED.get(wanted, wanted)
                raise ToolFailed(f"{self.name}: {name!r} must be a {what}, not {value!r:.80}")
        return given


class Toolbox:
    """The tools of one kind of member."""

    def __init__(self, tools: list[Tool]):
        self._tools = {tool.name: tool for tool in tools}
        self.schemas = [tool.schema() for tool in tools]

    def run_all(self, desk: Desk, calls: list[Block]) -> list[Block]:
        """Answer all calls of one reply, in order; neighbours that change nothing run side by side."""
        results: list[Block] = []
        for is_safe, group in groupby(calls, key=self._is_safe):
            some = list(group)
            if is_safe and len(some) > 1:
                with ThreadPoolExecutor(min(_AT_ONCE, len(some))) as pool:
                    results += pool.map(lambda call: self.run(desk, call), some)
            else:
                results += [self.run(desk, call) for call in some]
        return results

    def _is_safe(self, call: Block) -> bool:
        tool = self._tools.get(call["name"])
        return bool(tool and tool.is_safe)

    def run(self, desk: Desk, call: Block) -> Block:
        """Answer one call; whatever is wrong with it is said to the model."""
        try:
            if desk.stop.is_set():
                raise ToolFailed("not run: the team is stopping")
            if desk.ending == "stopping":
                raise ToolFailed("not run: you have agreed to shut down")
            tool = self._tools.get(call["name"])
            if tool is None:
                raise ToolFailed(f"there is no tool {call['name']!r}; there are {', '.join(self._tools)}")
            given = tool.check(call["input"])
            if not tool.before_approval and not desk.may_change_things():
                raise ToolFailed(f"{tool.name} needs an approved plan: read what you need, then call submit_plan")
            text = tool.run(desk, **given)
        except GitteamError as e:
            return result(call, str(e), is_error=True)
        except OSError as e:
            return result(call, f"{e.filename or call['name']}: {e.strerror or e}", is_error=True)
        return result(call, text if len(text) <= LONGEST else text[:LONGEST] + "\n[cut here]")
