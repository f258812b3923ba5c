"""The state of the team in one picture: who is there, what needs a person, what cannot be read."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any

from gitteam import layout, liveness, mail, requests, usage
from gitteam.board import Board
from gitteam.layout import Layout
from gitteam.records import CANCELLED, COMPLETED, FAILED, IN_PROGRESS, PENDING, Member, Task
from gitteam.roster import Config
from gitteam.tree import Files
from gitteam.usage import Row

# A task in progress whose file has not changed for so long may have been forgotten.
QUIET_SECONDS = 4 * 3600


@dataclass(frozen=True)
class Present:
    """A member as it is now, not as the last status written says."""

    member: Member
    alive: bool
    holds: tuple[Task, ...]
    unread: int

    @property
    def state(self) -> str:
        if self.member.kind == "agent":
            return self.member.status if self.alive else "not running"
        return "working" if self.holds else "idle"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.member.name, "role": self.member.role, "kind": self.member.kind, "status": self.state,
            "alive": self.alive, "tasks": [task.id for task in self.holds], "unread": self.unread,
        }  # fmt: skip


@dataclass(frozen=True)
class Status:
    team: str
    branch: str
    members: tuple[Present, ...]
    counts: dict[str, int]
    needs: tuple[str, ...]
    unreadable: dict[str, str]
    usage: Row | None = None  # what all model calls used

    def to_json(self) -> dict[str, Any]:
        return {
            "team": self.team, "branch": self.branch, "members": [m.to_json() for m in self.members],
            "tasks": self.counts, "needs": list(self.needs),
            "unreadable": [{"path": path, "reason": reason} for path, reason in sorted(self.unreadable.items())],
            "usage": self.usage.to_json() if self.usage else None,
        }  # fmt: skip


def gather(place: Layout, branch: str, config: Config, board: Board, files: Files) -> Status:
    tasks = board.all()
    members = tuple(_present(place, member, board, files) for _, member in sorted(config.members.items()))
    unreadable = {**board.troubles, **_bad_lines(files), **_rescued(files), **_strangers(config, files)}
    unreadable |= requests.unreadable(files) | _broken_skills(place)
    used = next(iter(usage.sums(usage.read(place), "team")), None)
    return Status(config.name, branch, members, _counts(tasks), tuple(_needs(place, tasks, files)), unreadable, used)


def _present(place: Layout, member: Member, board: Board, files: Files) -> Present:
    alive = bool(liveness.current_run(place, member.name))
    holds = tuple(sorted(board.held_by(member.name), key=lambda task: task.id))
    return Present(member, alive, holds, len(mail.read_inbox(files, member.name)))


def _counts(tasks: list[Task]) -> dict[str, int]:
    return {
        "ready": sum(t.ready for t in tasks),
        "in_progress": sum(t.status == IN_PROGRESS for t in tasks),
        "blocked": sum(t.status == PENDING and not t.ready for t in tasks),
        "failed": sum(t.status == FAILED for t in tasks),
        "completed": sum(t.status == COMPLETED for t in tasks),
        "cancelled": sum(t.status == CANCELLED for t in tasks),
    }


def _needs(place: Layout, tasks: list[Task], files: Files) -> list[str]:
    """What waits for a person, each with what to type."""
    needs = []
    for name in (layout.USER, layout.LEAD):
        if unread := len(mail.read_inbox(files, name)):
            needs.append(f"{unread} unread message{'' if unread == 1 else 's'} for {name}: gitteam inbox {name}")
    for request in requests.read_requests(files):
        if request.kind == requests.PLAN and request.status == requests.OPEN:
            needs.append(f"{request.sender} waits for an answer to its plan: gitteam approve {request.id}")
    for task in tasks:
        if task.status == FAILED:
            needs.append(f"#{task.id} {task.reason}: gitteam task release {task.id} --force, or cancel it")
        elif task.status == PENDING and any(word in task.reason for word in ("cancelled", "failed", "exist", "circle")):
            needs.append(f"#{task.id} is {task.reason}: gitteam task edit {task.id}")
        elif task.status == IN_PROGRESS and (quiet := _quiet_for(place, task)) > QUIET_SECONDS and not task.run:
            hours = int(quiet // 3600)
            needs.append(f"#{task.id} untouched by {task.owner} for {hours} h: gitteam task release {task.id} --force")
    return needs


def _quiet_for(place: Layout, task: Task) -> float:
    try:
        return time.time() - os.stat(place.at(task.path)).st_mtime
    except OSError:
        return 0


def _bad_lines(files: Files) -> dict[str, str]:
    found = {}
    for name in files.names(layout.INBOX):
        if name.endswith(".bad"):
            path = f"{layout.INBOX}/{name}"
            lines = [line for line in (files.read(path) or b"").split(b"\n") if line]
            if lines:
                count = f"{len(lines)} unreadable line{'' if len(lines) == 1 else 's'}"
                found[path] = f"{count} of {name[:-4]}.jsonl: {_places(lines)}"
    return found


def _strangers(config: Config, files: Files) -> dict[str, str]:
    """Inboxes of nobody: a line appended by hand to a name that was mistyped."""
    owners = {f"{layout.INBOX}/{name}": layout.inbox_owner(name) for name in files.names(layout.INBOX)}
    known = {*config.members, layout.USER, layout.LEAD}
    return {
        path: f"nobody is called {name}: {config.names()}"
        for path, name in owners.items()
        if name and name not in known
    }


def _rescued(files: Files) -> dict[str, str]:
    """Texts that were saved too late to stand in their place: see disk.Aside.rescue."""
    found = [f"{top}/{name}" for top in (layout.TASKS, layout.TEAM) for name in files.names(top) if ".rescued-" in name]
    return dict.fromkeys(found, "saved too late to be merged, and not readable: use what you need of it and delete it")


def _broken_skills(place: Layout) -> dict[str, str]:
    from gitteam import skills  # only where somebody wants the whole picture

    return skills.find(place.root)[1]


def _places(lines: list[bytes]) -> str:
    try:
        return "; ".join(f"line {v['line']}, {v['reason']}" for v in map(json.loads, lines[:3]))
    except (ValueError, KeyError, TypeError):
        return "edited by hand"
