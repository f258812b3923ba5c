"""How a run went: what was done, what was not and why, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gitteam.records import CANCELLED, COMPLETED, FAILED, IN_PROGRESS, PENDING, Task
from gitteam.usage import Row


@dataclass(frozen=True)
class Outcome:
    done: tuple[Task, ...]
    not_done: tuple[Task, ...]
    failed: tuple[Task, ...]
    cancelled: tuple[Task, ...]
    reason: str  # why it ended, if not because all was done
    usage: Row | None = None  # what the model calls of the run took

    @property
    def succeeded(self) -> bool:
        return not (self.not_done or self.failed or self.reason)

    def to_json(self) -> dict[str, object]:
        lists = {"done": self.done, "notDone": self.not_done, "failed": self.failed, "cancelled": self.cancelled}
        found = {key: [task.to_json() for task in tasks] for key, tasks in lists.items()}
        usage = self.usage.to_json() if self.usage else None
        return {"event": "outcome", "succeeded": self.succeeded, "reason": self.reason, **found, "usage": usage}


def outcome(tasks: list[Task], failure: str, failures: Mapping[str, str], had_team: bool) -> Outcome:
    """`failure` is the lead's. Its teammates', by name, matter only where something is left.

    Teammates may have done without tasks what was asked for. A lead alone that made none has only talked.
    """
    done, failed, cancelled = (_of(tasks, status) for status in (COMPLETED, FAILED, CANCELLED))
    left = _of(tasks, PENDING, IN_PROGRESS)
    reason = failure or (_told(failures) if left or failed else "")
    if not reason and not (done or left or failed) and (cancelled or not had_team):
        reason = "no task was completed"
    return Outcome(done, left, failed, cancelled, reason)


def _of(tasks: list[Task], *statuses: str) -> tuple[Task, ...]:
    return tuple(task for task in tasks if task.status in statuses)


def _told(failures: Mapping[str, str]) -> str:
    names: dict[str, list[str]] = {}
    for name in sorted(failures):
        names.setdefault(failures[name], []).append(name)
    return "; ".join(f"{', '.join(some)}: {reason}" for reason, some in names.items())
