"""Finding what is wrong with a team's repository, and mending what can be mended without losing anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gitteam import layout, setup
from gitteam.errors import GitteamError, LockTimeout
from gitteam.journal import Replay
from gitteam.objects import digest
from gitteam.repo import OLDEST_GIT, MissingObject
from gitteam.runner import GitFailed
from gitteam.team import Team
from gitteam.tree import Disk, Tree

_FETCH = "fetch it from a clone that has it"


@dataclass(frozen=True)
class Finding:
    text: str
    mended: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"finding": self.text, "mended": self.mended}


def examine(team: Team, repair: bool) -> list[Finding]:
    """Everything that is wrong. What the next change mends by itself is mended first and is no finding."""
    try:
        findings = [*_git(team), *_branch(team, repair), *_objects(team, repair)]
        if any(not f.mended for f in findings):
            return findings
        return _after(findings, team, repair)
    except MissingObject as e:
        return [Finding(f"object {e.oid[:10]} of the history is missing: {_FETCH}")]


def _after(findings: list[Finding], team: Team, repair: bool) -> list[Finding]:
    try:
        team.ledger.sync()
    except MissingObject:
        raise
    except LockTimeout as e:
        return [*findings, Finding(str(e))]
    except GitteamError as e:
        return [*findings, Finding(f"no change can be made: {e}")]
    return [*findings, *_excluded(team, repair), *_files(team), *_swept(team, repair), *_history(team)]


def _git(team: Team) -> Iterator[Finding]:
    version = team.ledger.repo.version()
    if version < OLDEST_GIT:
        yield Finding(f"git {'.'.join(map(str, version))} is too old: {'.'.join(map(str, OLDEST_GIT))} is needed")


def _branch(team: Team, repair: bool) -> Iterator[Finding]:
    """The branch gone, moved back, or rewritten since the files were last written."""
    ledger, repo = team.ledger, team.ledger.repo
    tip, noted = repo.tip(ledger.ref), ledger.noted_commit()
    if tip is None and (not noted or not repo.has(noted)):
        yield Finding(
            f"branch {ledger.branch} is gone and so is its last commit: restore it from a clone with git fetch"
        )
    elif not noted or tip == noted or (tip and repo.is_ancestor(noted, tip)):
        return
    elif not tip or (repo.is_ancestor(tip, noted) and not ledger.tracked):
        what = f"branch {ledger.branch} was {'deleted' if not tip else 'moved back'}; the files stand at {noted[:10]}"
        if repair:
            ledger.put_branch(noted, tip)
        yield Finding(what if repair else f"{what}: gitteam doctor --repair puts it back there", mended=repair)
    else:
        what = f"branch {ledger.branch} was rewritten: {noted[:10]}, where the files stand, is not part of it"
        if repair:
            ledger.forget_note()
        yield Finding(what if repair else f"{what}: gitteam doctor --repair takes the branch as it is", mended=repair)


def _objects(team: Team, repair: bool) -> Iterator[Finding]:
    """Objects a concurrent prune took away; the files on disk may still have their content."""
    repo = team.ledger.repo
    missing = repo.missing_objects(team.ledger.ref) if repo.tip(team.ledger.ref) else []
    found = {}
    if missing and repair:
        for path in _all_files(team):
            data = Disk(team.place.root).read(path) or b""
            found[digest(b"blob", data, repo.objects.hex_length)] = data
    for oid in missing:
        mended = oid in found
        if mended:
            repo.objects.write(b"blob", found[oid], durable=True)
        next_step = "" if mended else f": {_FETCH}" if repair else f": gitteam doctor --repair, or {_FETCH}"
        yield Finding(f"object {oid[:10]} of the history is missing{next_step}", mended)


def _all_files(team: Team) -> Iterator[str]:
    for top in (layout.TEAM, layout.TASKS):
        for folder, _, names in os.walk(team.place.at(top)):
            yield from (os.path.relpath(os.path.join(folder, name), team.place.root) for name in names)


def _excluded(team: Team, repair: bool) -> Iterator[Finding]:
    if not team.ledger.tracked and not setup.is_excluded(team.place):
        if repair:
            setup.exclude(team.place)
        next_step = "" if repair else ": gitteam doctor --repair"
        yield Finding(
            f".team/ and .tasks/ are not in .git/info/exclude, git status shows them{next_step}", mended=repair
        )


def _files(team: Team) -> Iterator[Finding]:
    coming_back = team.ledger.missing_files()  # or cancelled, by the next look
    for path, reason in sorted(team.status().unreadable.items()):
        if path in coming_back:
            continue
        yield Finding(f"{path}: {reason}; mend the file, the team goes on meanwhile")


def _swept(team: Team, repair: bool) -> Iterator[Finding]:
    """Files in done/ that differ from the branch: they are not looked at with every change."""
    ledger = team.ledger
    tree = Tree(ledger.repo.objects, ledger.repo.tree_of(ledger.repo.tip(ledger.ref) or ""), team.place.root)
    disk = Disk(team.place.root)
    paths = [f"{layout.DONE}/{d}/{n}" for d in tree.directories(layout.DONE) for n in tree.names(f"{layout.DONE}/{d}")]
    changed = [path for path in paths if disk.read(path) != tree.read(path)]
    if changed and repair:
        ledger.sync(also=changed)
        ledger.restore_swept([path for path in changed if disk.read(path) is None])
    for path in changed:
        next_step = "" if repair else ": gitteam doctor --repair takes it in"
        yield Finding(f"{path} was changed by hand or is gone{next_step}", mended=repair)


def _history(team: Team) -> Iterator[Finding]:
    ledger = team.ledger
    try:
        for problem in Replay().run(ledger.repo, ledger.ref, merges_allowed=ledger.tracked):
            yield Finding(f"history: {problem}; git show {problem.partition(':')[0]}")
    except GitFailed as e:
        yield Finding(f"the history cannot be read to its beginning, {e}: {_FETCH}")
