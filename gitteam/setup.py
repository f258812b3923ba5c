"""Making a team in a repository, finding one, and taking it away again."""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import dataclass

from gitteam import layout, liveness
from gitteam.change import Actor, Change
from gitteam.errors import BadFile, BadInput, Conflict, NoTeam, Refused
from gitteam.layout import Layout
from gitteam.ledger import Ledger
from gitteam.repo import Repo
from gitteam.roster import Config, parse_config
from gitteam.tree import Tree

_EXCLUDE = ("# gitteam: the team's files, whose history is on a branch of its own", "/.team/", "/.tasks/")
# Whatever a person sets for line endings or filters, the board's files are checked out as they are.
_ATTRIBUTES = b"* -text -filter -ident\n"


@dataclass(frozen=True)
class Made:
    """What `init` did."""

    config: Config
    created: bool
    tracked: bool
    excluded: bool


def open_ledger(place: Layout, lock_timeout: float) -> Ledger:
    """The ledger of the team in this repository; a clone with a tracked board needs no init."""
    if not os.path.exists(place.branch):
        _adopt_tracked_board(place)
    _refuse_links(place)
    return Ledger(place, lock_timeout)


def _refuse_links(place: Layout) -> None:
    for path in (layout.TEAM, layout.TASKS, layout.INBOX, layout.REQUESTS, layout.DONE):
        if os.path.islink(place.at(path)):
            raise Refused(f"{path} is a symbolic link: the board must be in the checkout itself; remove the link")


def _adopt_tracked_board(place: Layout) -> None:
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
    """Make a team here, or find the one that is here already. Touches `info/exclude` and nothing else of the person's."""
    repo = Repo(place)
    try:
        if os.path.exists(place.branch):
            return _again(place, branch)
        branch = repo.check_branch_name(branch or layout.DEFAULT_BRANCH)
        tracked = repo.head_branch() == branch
        _check_free(repo, place, branch, tracked)
        team = layout.check_name(name, "team name") if name else _team_name(place)
        created = _first_commit(repo, place, team, branch, tracked)
    finally:
        repo.close()
    excluded = not tracked and exclude(place)
    _write_branch(place, branch, tracked)
    ledger = Ledger(place)
    ledger.sync()
    config = ledger.config()
    ledger.close()
    return Made(config, created, tracked, excluded)


def _again(place: Layout, branch: str | None) -> Made:
    ledger = Ledger(place)
    try:
        if branch and branch != ledger.branch:
            raise Conflict(f"the team here has its history on branch {ledger.branch}: `gitteam uninstall` comes first")
        excluded = not ledger.tracked and exclude(place)
        ledger.sync()
        return Made(ledger.config(), False, ledger.tracked, excluded)
    finally:
        ledger.close()


def _team_name(place: Layout) -> str:
    slug = re.sub(r"[^a-z0-9._-]+", "-", os.path.basename(place.root).lower()).strip("-._")[:40]
    return slug if layout.is_name(slug) and slug not in layout.RESERVED else "team"


def _check_free(repo: Repo, place: Layout, branch: str, tracked: bool) -> None:
    _refuse_links(place)
    if tracked:
        if what := repo.unfinished_business():
            raise Refused(f"{what} is under way in this checkout: finish or abort it first")
        return
    head = repo.tip("HEAD")
    code = Tree(repo.objects, repo.tree_of(head) if head else None, place.root)
    for path in (layout.TEAM, layout.TASKS):
        if code.names(path) or code.directories(path):
            here = repo.head_branch() or "the checked out commit"
            raise Conflict(f"{path} is already tracked on {here}: keep the board there with `--branch {here}`")
    tip = repo.tip(f"refs/heads/{branch}")
    if tip and Tree(repo.objects, repo.tree_of(tip), place.root).oid(layout.CONFIG) is None:
        raise Conflict(f"branch {branch} exists and holds no team: choose another with `--branch NAME`")


def _first_commit(repo: Repo, place: Layout, team: str, branch: str, tracked: bool) -> bool:
    """The commit that begins the history, unless there is one already, here or at origin."""
    ref = f"refs/heads/{branch}"
    tip = repo.tip(ref)
    if not tip and not tracked and (remote := repo.tip(f"refs/remotes/origin/{branch}")):
        repo.move_ref(ref, remote, None, durable=True)
        tip = remote
    tree = Tree(repo.objects, repo.tree_of(tip) if tip else None, place.root)
    if tree.oid(layout.CONFIG):
        return False
    config = Config(team, branch)
    change = Change(tree, config, {}, Actor(layout.USER, repo.person()), time.time())
    change.put_config(config)
    if tracked:
        change.write(layout.ATTRIBUTES, _ATTRIBUTES)
    change.story.tell("init", f"{change.actor.title} starts team {team}")
    os.makedirs(place.state, exist_ok=True)
    _write_branch(place, branch, tracked)
    ledger = Ledger(place)
    try:
        ledger.begin_history(change, tip)
    except BaseException:
        os.unlink(place.branch)
        raise
    finally:
        ledger.close()
    return True


def exclude(place: Layout) -> bool:
    """Keep the board out of the code branch's `git status`; whether the file had to be changed."""
    text = _read_exclude(place)
    missing = [line for line in _EXCLUDE if line not in text.splitlines()]
    if not missing:
        return False
    os.makedirs(os.path.dirname(place.exclude), exist_ok=True)
    with open(place.exclude, "a", encoding="utf-8", errors="surrogateescape") as f:
        f.write(("" if not text or text.endswith("\n") else "\n") + "".join(line + "\n" for line in missing))
    return True


def is_excluded(place: Layout) -> bool:
    return set(_EXCLUDE) <= set(_read_exclude(place).splitlines())


def _read_exclude(place: Layout) -> str:
    try:
        with open(place.exclude, encoding="utf-8", errors="surrogateescape") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def _unexclude(place: Layout) -> None:
    lines = _read_exclude(place).splitlines(keepends=True)
    kept = [line for line in lines if line.rstrip("\n") not in _EXCLUDE]
    if kept != lines:
        with open(place.exclude, "w", encoding="utf-8", errors="surrogateescape") as f:
            f.writelines(kept)


def uninstall(place: Layout, history: bool) -> str:
    """Take away what init put there. The branch stays unless `history`; returns its name."""
    ledger = open_ledger(place, 15.0)
    try:
        alive = [name for name in ledger.config().members if liveness.current_run(place, name)]
        if alive:
            raise Conflict(f"{', '.join(alive)} is still running: stop it first")
        if ledger.tracked and history:
            raise BadInput(f"the history is part of branch {ledger.branch}: --history would take your commits along")
        if ledger.tracked:
            ledger.remove_board()
        else:
            ledger.sync()
        if history:
            ledger.repo.delete_ref(ledger.ref)
        branch = ledger.branch
    finally:
        ledger.close()
    _unexclude(place)
    for path in (place.at(layout.TEAM), place.at(layout.TASKS), place.state):
        shutil.rmtree(path, ignore_errors=True)
    return branch
