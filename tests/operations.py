"""Hundreds of mixed operations on a team, by the program and by hand, the same ones for the same seed."""

from __future__ import annotations

import random
from pathlib import Path

from gitteam import Team
from gitteam.errors import GitteamError

MEMBERS = ("alice", "bob", "carol")


def mixed(team: Team, count: int, seed: int = 0, deletions: bool = True) -> int:
    """Do `count` things; what the rules forbid is refused, which is part of it. Returns how many succeeded.

    What was deleted by hand stays undecided for two seconds: without `deletions` the board is settled at the end.
    """
    chance = random.Random(seed)
    config = team.config()
    for name in MEMBERS:
        if name not in config.members:
            team.add_member(name)
    moves = [_add, _add, _claim, _claim, _done, _done, _release, _note, _cancel, _block, _send, _broadcast, _take]
    moves += [_edit, _drop, _append, _look, *([_delete] if deletions else [])]
    succeeded = 0
    for _ in range(count):
        try:
            chance.choice(moves)(team, chance)
            succeeded += 1
        except GitteamError:
            continue
    return succeeded


def _member(chance: random.Random) -> str:
    return chance.choice(MEMBERS)


def _number(team: Team, chance: random.Random) -> int:
    return chance.randint(1, max(1, team.board().highest))


def _add(team: Team, chance: random.Random) -> None:
    team.add(f"Task {chance.random():.6f}", "text\n" * chance.randint(0, 5), by=_member(chance))


def _claim(team: Team, chance: random.Random) -> None:
    team.claim(by=_member(chance))


def _done(team: Team, chance: random.Random) -> None:
    name = _member(chance)
    for task in team.board().held_by(name):
        team.done(task.id, "a result", by=name)


def _release(team: Team, chance: random.Random) -> None:
    team.release(_number(team, chance), "no time", force=True)


def _note(team: Team, chance: random.Random) -> None:
    team.note(_number(team, chance), "a note", by=_member(chance))


def _cancel(team: Team, chance: random.Random) -> None:
    team.cancel(_number(team, chance))


def _block(team: Team, chance: random.Random) -> None:
    team.block(_number(team, chance), _number(team, chance))


def _send(team: Team, chance: random.Random) -> None:
    team.send(_member(chance), "a message", by=_member(chance))


def _broadcast(team: Team, chance: random.Random) -> None:
    team.broadcast("to everybody")


def _take(team: Team, chance: random.Random) -> None:
    with team.take(_member(chance)):
        pass


def _files(team: Team) -> list[Path]:
    return sorted(Path(team.place.at(".tasks")).glob("*.md"))


def _edit(team: Team, chance: random.Random) -> None:
    if files := _files(team):
        with chance.choice(files).open("a") as f:
            f.write("a line by hand\n")
    team.tasks()


def _drop(team: Team, chance: random.Random) -> None:
    Path(team.place.at(f".tasks/dropped {chance.random():.6f}.md")).write_text(f"Dropped {chance.random():.6f}\n")
    team.tasks()


def _append(team: Team, chance: random.Random) -> None:
    with Path(team.place.at(f".team/inbox/{_member(chance)}.jsonl")).open("a") as f:
        f.write('{"content": "by hand"}\n')
    team.inbox(_member(chance))


def _delete(team: Team, chance: random.Random) -> None:
    if files := _files(team):
        chance.choice(files).unlink()
    team.tasks()


def _look(team: Team, chance: random.Random) -> None:
    team.tasks(finished=True)
    team.status()
    list(team.log(limit=5))
