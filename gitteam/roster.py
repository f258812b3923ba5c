"""The team's configuration: its name, its settings, and who is on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gitteam import layout
from gitteam.errors import BadFile, BadInput, Conflict, NotFound
from gitteam.records import KINDS, Member, parse_member
from gitteam.tree import Files

if TYPE_CHECKING:
    from gitteam.change import Change

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


def add(change: Change, member: Member) -> Member:
    layout.check_name(member.name, "name for a member")
    if member.name in layout.RESERVED:
        raise BadInput(f"{member.name!r} is reserved: choose another name")
    if member.role:
        layout.check_name(member.role, "role")
    if member.kind not in KINDS:
        raise BadInput(f"{member.kind!r} is no kind of member: {', '.join(KINDS)}")
    if known := change.config.members.get(member.name):
        raise Conflict(f"{member.name} is on the team already, as {known.role or 'a member'}")
    member = put(change, member)
    role = f", {member.role}" if member.role else ""
    change.story.tell("member", f"{change.actor.title} adds {member.name} to the team{role}")
    return member


def remove(change: Change, name: str, is_alive: Callable[[str], bool]) -> Member:
    """Take somebody off the team; what they hold goes back to the board, their unread mail with them."""
    member = change.config.members.get(name)
    if member is None:
        raise NotFound(f"nobody on the team is called {name!r}: {change.config.names()}")
    if is_alive(name):
        raise Conflict(f"{name} is running: stop it first with `gitteam stop {name}`")
    for task in change.board.held_by(name):
        change.story.trailers["Team-Override"] = name
        change.put(task.with_values(status="pending", owner="", run=None))
    for path in (layout.inbox_path(name), layout.bad_lines_path(name)):
        if change.read(path) is not None:
            change.remove(path)
    members = {n: m for n, m in change.config.members.items() if n != name}
    change.put_config(replace(change.config, members=members))
    change.story.tell("member", f"{change.actor.title} takes {name} off the team")
    return member


def put(change: Change, member: Member) -> Member:
    """Write a member as it is from now on. What could not be read back is refused: see parse_member."""
    parse_member(member.name, member.to_json())
    member = replace(member, since=round(change.now, 3))
    change.put_config(replace(change.config, members={**change.config.members, member.name: member}))
    return member


def set_status(change: Change, name: str, status: str, reason: str = "") -> None:
    """What a member does now. Nothing is told: that is for the move it is a part of."""
    member = change.config.members.get(name)
    if member and (member.status, member.reason) != (status, reason):
        put(change, replace(member, status=status, reason=reason))


def recipients(config: Config, sender: str, is_shut_down: Callable[[Member], bool]) -> list[str]:
    """Everybody a broadcast goes to."""
    return sorted(name for name, m in config.members.items() if name != sender and not is_shut_down(m))
