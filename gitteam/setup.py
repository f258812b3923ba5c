"""Making a team in a repository, finding one, and taking it away again."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from dataclasses import dataclass

from gitteam import disk, layout, liveness
from gitteam.change import Actor, Change
from gitteam.errors import BadFile, BadInput, Conflict, NoTeam, Refused
from gitteam.layout import Layout
from gitteam.ledger import Ledger, blobs, record
from gitteam.lock import LOCK_TIMEOUT, file_lock
from gitteam.repo import RefMoved, Repo
from gitteam.roster import Config, parse_config
from gitteam.tree import Disk, Tree

_EXCLUDE = b"# gitteam: the team's files, whose history is on a branch of its own\n/.team/\n/.tasks/\n"
# Whatever a person sets for line endings or filters, the board's files are checked out as they are.
_ATTRIBUTES = b"* -text -eol -filter -ident -working-tree-encoding\n"


@dataclass(frozen=True)
class Made:
    """What `init` did."""

    config: Config
    created: bool
    tracked: bool
    excluded: bool


def adopt_tracked_board(place: Layout) -> None:
    """A clone of a repository with a tracked board needs no init."""
    branch = _board_branch_on_disk(place)
    if branch:
        repo = Repo(place)
        try:
            tip = repo.tip(f"refs/heads/{branch}")
            tracked = bool(tip) and Tree(repo.objects, repo.tree_of(tip or ""), place.root).oid(layout.CONFIG)
            if tracked and repo.head_branch() == branch:
                return _write_branch(place, branch, tracked=True)
        finally:
            repo.close()
    raise NoTeam(f"there is no team in {place.root}: run `gitteam init`")


def _board_branch_on_disk(place: Layout) -> str:
    try:
        with open(place.at(layout.CONFIG), "rb") as f:
            return parse_config(f.read()).branch
    except (OSError, BadFile):
        return ""


def _write_branch(place: Layout, branch: str, tracked: bool) -> None:
    os.makedirs(place.live, exist_ok=True)
    temporary = f"{place.branch}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as f:
        f.write(branch + (" tracked" if tracked else "") + "\n")
        f.flush()
        os.fsync(f.fileno())
    os.rename(temporary, place.branch)


def init(place: Layout, name: str | None, branch: str | None) -> Made:
    """Make a team here, or find the one that is here. Of the person's it touches `info/exclude` and nothing else."""
    repo = Repo(place)
    was_there = os.path.exists(place.state)
    os.makedirs(place.live, exist_ok=True)
    try:
        with file_lock(place, LOCK_TIMEOUT):
            created = not os.path.exists(place.branch) and _start(repo, place, name, branch)
    except RefMoved:
        raise Refused("the branch was moved by somebody else meanwhile: try again") from None
    except BaseException:
        if not was_there and not os.path.exists(place.branch):
            shutil.rmtree(place.state, ignore_errors=True)
        raise
    finally:
        repo.close()
    ledger = Ledger(place, LOCK_TIMEOUT)
    try:
        if branch and branch != ledger.branch:
            raise Conflict(f"the team here has its history on branch {ledger.branch}: `gitteam uninstall` comes first")
        excluded = not ledger.tracked and exclude(place)
        ledger.sync()
        return Made(ledger.config(), created, ledger.tracked, excluded)
    finally:
        ledger.close()


def _start(repo: Repo, place: Layout, name: str | None, branch: str | None) -> bool:
    """Begin a history, or join the one there is; whether it was begun."""
    branch = repo.check_branch_name(branch or layout.DEFAULT_BRANCH)
    tracked = repo.head_branch() == branch
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place.checkpoint)  # of a team that is no more
    team = layout.check_name(name, "team name") if name else _team_name(place)
    tip = _check_free(repo, place, branch, tracked)
    tree = Tree(repo.objects, repo.tree_of(tip) if tip else None, place.root)
    if begins := tree.oid(layout.CONFIG) is None:
        change = Change(tree, Config(team, branch), {}, Actor(layout.USER, repo.person()), time.time())
        change.put_config(change.config)
        for path in layout.ATTRIBUTES if tracked else ():
            change.write(path, _ATTRIBUTES)
        change.story.tell("init", f"{change.actor.title} starts team {team}")
        with repo.index.set(blobs(repo, change.edits)) if tracked else contextlib.nullcontext():
            record(repo, f"refs/heads/{branch}", tree, tip, change, own_branch=not tracked)
        for path, data in change.edits.items() if tracked else ():
            disk.replace(place, path, data, "", durable=True)
    elif repo.tip(f"refs/heads/{branch}") is None:
        repo.move_ref(f"refs/heads/{branch}", tip or "", None, durable=True)  # origin's
    _write_branch(place, branch, tracked)
    return begins


def _team_name(place: Layout) -> str:
    slug = re.sub(r"[^a-z0-9._-]+", "-", os.path.basename(place.root).lower()).strip("-._")[:40]
    return slug if layout.is_name(slug) and slug not in layout.RESERVED else "team"


def _check_free(repo: Repo, place: Layout, branch: str, tracked: bool) -> str | None:
    """The commit to start from, here or at origin; refuses where something else is in the way."""
    layout.refuse_foreign_directories(place)
    if target := repo.symbolic(f"refs/heads/{branch}"):
        raise Conflict(f"branch {branch} is another name for {target}: choose another with `--branch NAME`")
    tip = repo.tip(f"refs/heads/{branch}")
    if tracked:
        if what := repo.unfinished_business():
            raise Refused(f"{what} is under way in this checkout: finish or abort it first")
        return tip
    if found := repo.tracked_files(layout.TEAM, layout.TASKS):
        here = repo.head_branch()
        keep = f"keep the board there with `--branch {here}`" if here else "switch to a branch first"
        raise Conflict(f"{found[0]} is already tracked on {here or 'the checked out commit'}: {keep}")
    tip = tip or repo.tip(f"refs/remotes/origin/{branch}")
    if tip and Tree(repo.objects, repo.tree_of(tip), place.root).oid(layout.CONFIG) is None:
        raise Conflict(f"branch {branch} exists and holds no team: choose another with `--branch NAME`")
    return tip


def exclude(place: Layout) -> bool:
    """Keep the board out of the code branch's `git status`; whether the file had to be changed."""
    if is_excluded(place):
        return False
    data, made = _read_exclude(place), not os.path.exists(place.exclude)
    os.makedirs(os.path.dirname(place.exclude), exist_ok=True)
    with open(place.exclude, "ab") as f:
        # Exactly what `_unexclude` takes away again, also behind a last line that does not end.
        f.write(_EXCLUDE if made or data.endswith(b"\n") else b"\n" + _EXCLUDE[:-1])
    return True


def is_excluded(place: Layout) -> bool:
    return _EXCLUDE[:-1] in _read_exclude(place)


def _read_exclude(place: Layout) -> bytes:
    try:
        with open(place.exclude, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return b""


def _unexclude(place: Layout) -> None:
    data = _read_exclude(place)
    if data == _EXCLUDE:  # init made it
        os.unlink(place.exclude)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(place.exclude))
        return
    kept = data.replace(_EXCLUDE, b"").removesuffix(b"\n" + _EXCLUDE[:-1])
    if kept != data:
        with open(place.exclude, "wb") as f:
            f.write(kept)


def uninstall(place: Layout, history: bool) -> tuple[str, list[str]]:
    """Take away what init put there; the branch stays unless `history`. Returns its name, and the files left:
    those whose text is in no history.
    """
    ledger = Ledger(place, LOCK_TIMEOUT)
    try:
        with ledger.locked():
            if ledger.repo.tip(ledger.ref) is None and history:  # a removal that was interrupted
                _forget(place)
                return ledger.branch, []
            return ledger.branch, _uninstall(ledger, history)
    finally:
        ledger.close()


def _uninstall(ledger: Ledger, history: bool) -> list[str]:
    place = ledger.place
    alive = [name for name in ledger.config().members if liveness.current_run(place, name)]
    if alive:
        raise Conflict(f"{', '.join(alive)} is still running: stop it first")
    if ledger.tracked and history:
        raise BadInput(f"the history is part of branch {ledger.branch}: --history would take your commits along")
    ledger.sync()
    if any(disk.asides(place)):
        raise Conflict("somebody is still writing to one of the board's files: try again")
    known = ledger.files()
    if ledger.tracked:
        ledger.remove_board(known)
    left = _remove_files(place, known)
    if history:
        ledger.repo.delete_ref(ledger.ref, ledger.tip())
    _forget(place)
    return left


def _forget(place: Layout) -> None:
    """The file that says there is a team goes last, so that an interrupted removal can be repeated."""
    _unexclude(place)
    for name in sorted(os.listdir(place.state), key=lambda name: name == os.path.basename(place.branch)):
        path = os.path.join(place.state, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    os.rmdir(place.state)


def _remove_files(place: Layout, known: dict[str, bytes]) -> list[str]:
    """Delete the board's files that stand as the branch has them, and then empty directories; returns what is left."""
    on_disk = Disk(place.root)
    for path, data in known.items():
        if on_disk.read(path) == data:
            os.unlink(place.at(path))
    shutil.rmtree(place.aside, ignore_errors=True)
    left = []
    for top in (layout.TEAM, layout.TASKS):
        for folder, folders, names in os.walk(place.at(top), topdown=False):
            left += [os.path.relpath(os.path.join(folder, name), place.root) for name in names]
            if not os.listdir(folder):
                os.rmdir(folder)
            left += [os.path.join(folder, d) for d in folders if os.path.islink(os.path.join(folder, d))]
    return sorted(left)
