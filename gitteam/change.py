"""A change in the making: what one operation sees, what it writes, and in whose name."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gitteam import layout
from gitteam.board import Board
from gitteam.records import Task
from gitteam.render import visible
from gitteam.repo import Identity
from gitteam.roster import Config
from gitteam.story import Story
from gitteam.tree import Overlay, Tree


def member_identity(name: str) -> Identity:
    return Identity(name, f"{name}@gitteam.invalid")


@dataclass(frozen=True)
class Actor:
    """Who acts: a name on the board, and who the commit names as its author."""

    name: str
    identity: Identity

    @property
    def title(self) -> str:
        return visible(self.identity.name)


class Change(Overlay):
    """What one operation sees and writes."""

    def __init__(self, tree: Tree, config: Config, troubles: dict[str, str], actor: Actor, now: float):
        super().__init__(tree)
        self.config = config
        self.actor = actor
        self.now = now
        self.story = Story()
        self._troubles = troubles
        self._board: Board | None = None

    @property
    def board(self) -> Board:
        if self._board is None:
            self._board = Board(self, self._troubles)
        return self._board

    @property
    def stamp(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.now))

    def put(self, task: Task) -> Task:
        self.write(task.path, task.text.encode())
        self.board.put(task)
        return task

    def move(self, task: Task, path: str) -> Task:
        """The task under another path, still to be `put` there."""
        if task.path != path:
            self.remove(task.path)
        return task.moved(path)

    def put_config(self, config: Config) -> None:
        self.config = config
        self.write(layout.CONFIG, config.to_bytes())
