"""Where everything lives: the only module that knows paths and the grammar of names.

Board paths are relative to the main checkout and written with slashes, as git
writes them: `.tasks/12-design-the-schema.md`. Nothing here starts a process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from gitteam.errors import BadInput, NoTeam, Refused

TEAM = ".team"
CONFIG = ".team/config.json"
INBOX = ".team/inbox"
REQUESTS = ".team/requests"
TASKS = ".tasks"
DONE = ".tasks/done"
ATTRIBUTES = (".team/.gitattributes", ".tasks/.gitattributes")
DEFAULT_BRANCH = "gitteam"
# How far above the highest id a new file's own number may be; beyond that it is a date or the like.
NUMBER_LEAP = 100

USER, LEAD, ALL, SYSTEM = "user", "lead", "all", "gitteam"
RESERVED = (USER, LEAD, ALL, SYSTEM)

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}\Z")
_TASK_FILE = re.compile(r"([1-9][0-9]{0,8})(?:[-_. ].*)?\.md\Z", re.DOTALL)
_DONE_DIRECTORY = re.compile(r"[0-9]{4,9}-[0-9]{4,9}\Z")
_OID = re.compile(r"[0-9a-f]{40,64}\Z")
_EDITOR_FILE = re.compile(r"[.#~]|.*(~|\.sw[a-p]|\.tmp|\.bak|\.orig|\.rej|\.part|#)\Z", re.DOTALL)


@dataclass(frozen=True)
class Layout:
    """One repository: its main checkout and the git directory all work trees share."""

    root: str
    common: str

    @property
    def state(self) -> str:
        return os.path.join(self.common, "gitteam")

    @property
    def lock(self) -> str:
        return os.path.join(self.state, "lock")

    @property
    def door(self) -> str:
        return os.path.join(self.state, "door")

    @property
    def checkpoint(self) -> str:
        return os.path.join(self.state, "checkpoint")

    @property
    def branch(self) -> str:
        return os.path.join(self.state, "branch")

    @property
    def live(self) -> str:
        return os.path.join(self.state, "live")

    @property
    def log(self) -> str:
        return os.path.join(self.state, "errors.log")

    @property
    def usage(self) -> str:
        """One line for every model call: who, what for, how many tokens, what it cost."""
        return os.path.join(self.state, "usage.jsonl")

    @property
    def transcripts(self) -> str:
        return os.path.join(self.state, "transcripts")

    @property
    def outputs(self) -> str:
        """Where a command's output goes that is too long to show."""
        return os.path.join(self.state, "outputs")

    @property
    def exclude(self) -> str:
        return os.path.join(self.common, "info", "exclude")

    @property
    def aside(self) -> str:
        # In the work tree, because a file can only be renamed within one file system.
        return os.path.join(self.root, TEAM, ".aside")

    def at(self, path: str) -> str:
        """The place on disk of a board path."""
        return os.path.join(self.root, path)

    def live_lock(self, name: str) -> str:
        return os.path.join(self.live, name + ".lock")

    def take_lock(self, name: str) -> str:
        return os.path.join(self.state, f"take-{name}.lock")


def find(start: str) -> Layout:
    """The repository that `start` is in; its board is the main checkout's."""
    here = os.path.realpath(start)
    if not os.path.isdir(here):
        raise NoTeam(f"{start}: no such directory")
    while True:
        dot_git = os.path.join(here, ".git")
        if os.path.isdir(dot_git):
            return Layout(here, dot_git)
        if os.path.isfile(dot_git):
            return _linked(here, dot_git)
        if all(os.path.exists(os.path.join(here, p)) for p in ("HEAD", "objects", "refs")):
            raise NoTeam(f"{here} is a bare repository: gitteam needs a checkout; clone it and work there")
        if here == os.path.dirname(here):
            raise NoTeam(f"{start} is not in a git repository: run `git init` first")
        here = os.path.dirname(here)


def _linked(here: str, dot_git: str) -> Layout:
    """A `.git` file: a submodule, a separate git directory, or a linked work tree."""
    with open(dot_git, encoding="utf-8", errors="replace") as f:
        first = f.readline().strip()
    if not first.startswith("gitdir: "):
        raise NoTeam(f"{dot_git} is not a git link: expected a line `gitdir: PATH`")
    git_dir = os.path.realpath(os.path.join(here, first[len("gitdir: ") :]))
    try:
        with open(os.path.join(git_dir, "commondir"), encoding="utf-8") as f:
            common = os.path.realpath(os.path.join(git_dir, f.read().strip()))
    except FileNotFoundError:
        return Layout(here, git_dir)
    if os.path.basename(common) != ".git":
        raise NoTeam(f"the main repository of this work tree, {common}, has no checkout of its own to hold the board")
    return Layout(os.path.dirname(common), common)


def read_branch(place: Layout) -> tuple[str, bool]:
    """The branch the history lives on, and whether it is the one that is checked out (tracked mode)."""
    try:
        with open(place.branch, encoding="utf-8") as f:
            name, _, mode = f.read().strip().partition(" ")
    except FileNotFoundError:
        raise NoTeam(f"there is no team in {place.root}: run `gitteam init`") from None
    return name, mode == "tracked"


def refuse_foreign_directories(place: Layout) -> None:
    """The board is in the checkout itself, whatever somebody has committed under its name."""
    for path in (TEAM, TASKS, INBOX, REQUESTS, DONE):
        if os.path.islink(place.at(path)):
            raise Refused(f"{path} is a symbolic link: the board must be in the checkout itself; remove the link")
        if os.path.exists(place.at(path)) and not os.path.isdir(place.at(path)):
            raise Refused(f"{path} is a file where gitteam needs a directory: move it away")


def read_ref(place: Layout, ref: str) -> str | None:
    """What the files say a ref points at. None: another backend, or no such ref; then git has to be asked."""
    try:
        with open(os.path.join(place.common, ref), encoding="ascii") as f:
            value = f.read().strip()
        return value if _OID.match(value) else None
    except (OSError, UnicodeDecodeError):
        return _read_packed_ref(place, ref)


def _read_packed_ref(place: Layout, ref: str) -> str | None:
    try:
        with open(os.path.join(place.common, "packed-refs"), encoding="utf-8", errors="surrogateescape") as f:
            found = next((line.split(" ")[0] for line in f if line.endswith(f" {ref}\n")), "")
    except OSError:
        return None
    return found if _OID.match(found) else None


def check_name(name: str, what: str = "name") -> str:
    """A name that may become part of a path, an e-mail address, a trailer."""
    if not _NAME.match(name):
        raise BadInput(f"{name!r} is no valid {what}: use a-z, 0-9, '.', '_', '-', at most 40 characters")
    return name


def is_name(name: str) -> bool:
    return bool(_NAME.match(name))


def task_id(name: str) -> int | None:
    """The number a task file's name begins with, if it is one."""
    match = _TASK_FILE.match(name)
    return int(match[1]) if match else None


def task_name(number: int, title: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:48].strip("-")
    return f"{number}-{slug}.md" if slug else f"{number}.md"


def is_task_file(name: str) -> bool:
    """Whether a name in `.tasks/` is meant as a task: editors' own files are not."""
    return name.endswith(".md") and not _EDITOR_FILE.match(name)


def is_numbered(path: str) -> bool:
    return task_id(path.rpartition("/")[2]) is not None


def _is_mail_file(name: str) -> bool:
    return name.endswith((".jsonl", ".bad")) and is_name(name.rpartition(".")[0])


# The directories that are looked through at every change, and which of their files count. `done/` is not: it grows.
SCANNED: tuple[tuple[str, Callable[[str], bool]], ...] = (
    (TASKS, is_task_file),
    (INBOX, _is_mail_file),
    (REQUESTS, lambda name: name.endswith(".json") and not name.startswith(".")),
    (TEAM, lambda name: name == "config.json"),
)


def is_board_path(path: str) -> bool:
    """Whether a path, from wherever it comes, is one of the board's own: nothing else is ever written or committed."""
    directory, _, name = path.rpartition("/")
    if directory.startswith(DONE + "/"):
        return is_done_directory(directory[len(DONE) + 1 :]) and is_task_file(name)
    return any(directory == scanned and wanted(name) for scanned, wanted in SCANNED)


def is_done_directory(name: str) -> bool:
    return bool(_DONE_DIRECTORY.match(name))


def done_path(name: str) -> str:
    """Where a finished task's file is swept to: a hundred to a directory."""
    low = (task_id(name) or 0) // 100 * 100
    return f"{DONE}/{max(low, 1):04d}-{low + 99:04d}/{name}"


def inbox_path(name: str) -> str:
    return f"{INBOX}/{name}.jsonl"


def bad_lines_path(name: str) -> str:
    """Where the lines of an inbox go that cannot be read."""
    return f"{INBOX}/{name}.bad"


def request_path(request: str) -> str:
    return f"{REQUESTS}/{request}.json"


def is_inbox(path: str) -> bool:
    return path.startswith(INBOX + "/") and path.endswith(".jsonl")


def inbox_owner(file_name: str) -> str | None:
    name = file_name.removesuffix(".jsonl")
    return name if name != file_name and _NAME.match(name) else None
