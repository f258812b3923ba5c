"""The team's configuration: its name, its settings, and who is on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gitteam import layout
from gitteam.errors import BadFile, BadInput, NotFound
from gitteam.records import Member, parse_member
from gitteam.tree import Files

DURABILITY = ("full", "fast")


@dataclass(frozen=True)
class Config:
    """`.team/config.json`. Keys it does not know are kept."""

    name: str
    branch: str
    members: dict[str, Member] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def durable(self) -> bool:
        return bool(self.settings.get("durability", "full") != "fast")

    def to_bytes(self) -> bytes:
        values = {
            "name": self.name, "branch": self.branch, "settings": self.settings,
            "members": {name: member.to_json() for name, member in self.members.items()}, **self.extra,
        }  # fmt: skip
        return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()

    def member(self, name: str) -> Member:
        """Somebody who may act: on the roster, the person, or the lead."""
        if name in self.members:
            return self.members[name]
        if name in (layout.USER, layout.LEAD):
            return Member(name, kind="person")
        raise NotFound(f"nobody on the team is called {name!r}: {self.names()}")

    def names(self) -> str:
        """The names, for an error that lists them."""
        if not self.members:
            return "there is only you, `user`; add somebody with `gitteam member add NAME --role ROLE`"
        return f"the team is {', '.join(sorted(self.members))}, and you, `user`"


def parse_config(data: bytes) -> Config:
    try:
        values = json.loads(data.decode("utf-8-sig"))
        json.dumps(values, ensure_ascii=False).encode()  # a lone surrogate could not be written back
    except RecursionError:
        raise BadFile("nested too deeply") from None
    except (ValueError, UnicodeError) as e:
        raise BadFile(f"not JSON: {e}", getattr(e, "lineno", None)) from None
    if not isinstance(values, dict):
        raise BadFile("not a JSON object")
    name, branch = values.pop("name", ""), values.pop("branch", layout.DEFAULT_BRANCH)
    members, settings = values.pop("members", {}), values.pop("settings", {})
    if not (isinstance(name, str) and layout.is_name(name) and isinstance(branch, str)):
        raise BadFile("name and branch must be names")
    if not isinstance(members, dict) or not isinstance(settings, dict):
        raise BadFile("members and settings must be objects")
    if settings.get("durability", "full") not in DURABILITY:
        raise BadFile('settings: durability is "full" or "fast"')
    return Config(name, branch, {n: parse_member(n, v) for n, v in members.items()}, settings, values)


def read_config(files: Files) -> Config:
    return parse_config(files.read(layout.CONFIG) or b"{}")


def checked_new_name(config: Config, name: str) -> str:
    layout.check_name(name, "name for a member")
    if name in layout.RESERVED:
        raise BadInput(f"{name!r} is reserved: choose another name")
    return name


def recipients(config: Config, sender: str, is_shut_down: Callable[[Member], bool]) -> list[str]:
    """Everybody a broadcast goes to."""
    return sorted(name for name, m in config.members.items() if name != sender and not is_shut_down(m))
