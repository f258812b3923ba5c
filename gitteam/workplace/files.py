"""Files of a work tree, and nothing outside it: every name is resolved first and then opened step by step."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass

from gitteam.disk import look_of
from gitteam.errors import ToolFailed
from gitteam.layout import TASKS, TEAM

MAX_WHOLE = 10_000_000  # bytes that are ever held in memory
_MAX_NAME, _MAX_PATH = 255, 4096  # bytes
_LOCK_PATIENCE = 5.0
_OURS = (TEAM, TASKS)

Fingerprint = str


@dataclass(frozen=True)
class Place:
    """A resolved path: a real directory, and the names from there to the file, none of them a symbolic link."""

    base: str
    names: tuple[str, ...]
    asked: str  # as the model wrote it

    @contextlib.contextmanager
    def parent(self, create: bool = False) -> Iterator[int]:
        """The directory of the file, opened name by name: a link put there meanwhile is not followed."""
        directory = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in self.names[:-1]:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=directory)
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
                os.close(directory)
                directory = inner
            yield directory
        finally:
            os.close(directory)

    @property
    def name(self) -> str:
        return self.names[-1] if self.names else "."

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """The file or directory, opened for reading. Whatever else it is, it is refused, and never waited for."""
        with self.parent() as directory:
            # Looked at first: opening alone has effects on some devices.
            self.check_kind(os.stat(self.name, dir_fd=directory, follow_symlinks=False))
            fd = os.open(self.name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY, dir_fd=directory)
        try:
            self.check_kind(os.fstat(fd))
            yield fd
        finally:
            os.close(fd)

    def check_kind(self, found: os.stat_result) -> None:
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise ToolFailed(f"{self.asked} is not a regular file: it cannot be read or written")


def resolve(root: str, path: str, also: str = "") -> Place:
    """Where a path leads: inside `root`, or below the directory `also`; anywhere else is refused."""
    _check_spelling(path)
    root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(root, path))
    if also and (names := _below(os.path.realpath(also), real)):
        return Place(os.path.realpath(also), names, path)
    names = _below(root, real)
    if names is None:
        raise ToolFailed(f"{path} is outside the work tree: only files inside {root} can be read and written")
    for spelling in (names, _below(root, os.path.normpath(os.path.join(root, path))) or ()):
        _check_names(path, spelling)
    _check_identity(path, root, names)
    return Place(root, names, path)


def _check_spelling(path: str) -> None:
    if not path:
        raise ToolFailed("the path is empty: give a path relative to the work tree")
    if "\0" in path:
        raise ToolFailed("the path has a NUL character")
    try:
        data = path.encode()
    except UnicodeEncodeError:
        raise ToolFailed("the path is not valid Unicode") from None
    if len(data) > _MAX_PATH or any(len(name) > _MAX_NAME for name in data.split(b"/")):
        raise ToolFailed(f"the path is too long: a name has at most {_MAX_NAME} bytes, a path {_MAX_PATH}")


def _below(directory: str, path: str) -> tuple[str, ...] | None:
    """The names that lead from a directory to a path in it."""
    if path == directory:
        return ()
    prefix = directory.rstrip("/") + "/"
    return tuple(path[len(prefix) :].split("/")) if path.startswith(prefix) else None


def _check_names(path: str, names: tuple[str, ...]) -> None:
    folded = [name.casefold() for name in names]
    if ".git" in folded:
        raise _refuse_git(path)
    if folded and folded[0] in _OURS:
        raise _refuse_ours(path)


def _check_identity(path: str, root: str, names: tuple[str, ...]) -> None:
    """The same by what the directories are: names are spelled in other ways on some file systems, or linked."""
    guarded = {_identity(os.path.join(root, name)): name for name in (".git", *_OURS)}
    for depth in range(1, len(names) + 1):
        identity = _identity(os.path.join(root, *names[:depth]))
        if identity and identity in guarded:
            raise _refuse_git(path) if guarded[identity] == ".git" else _refuse_ours(path)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _refuse_git(path: str) -> ToolFailed:
    return ToolFailed(f"{path} belongs to git: use git commands through bash")


def _refuse_ours(path: str) -> ToolFailed:
    return ToolFailed(f"{path} belongs to the team: use the task and message tools")


@contextlib.contextmanager
def telling(verb: str, path: str) -> Iterator[None]:
    """What the system refuses, told to the model in one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise ToolFailed(f"cannot {verb} {path}: there is no such file") from None
    except OSError as e:
        reason = {errno.ELOOP: "a symbolic link is in the way", errno.ENOTDIR: "a part of it is not a directory"}
        raise ToolFailed(f"cannot {verb} {path}: {reason.get(e.errno or 0, (e.strerror or str(e)).lower())}") from None


def read_whole(fd: int, asked: str) -> bytes:
    """A text file that is small enough to be edited."""
    size = os.fstat(fd).st_size
    if size > MAX_WHOLE:
        raise ToolFailed(f"{asked} has {size:,} bytes, too many to edit: change it with a command")
    with open(fd, "rb", closefd=False) as f:
        f.seek(0)
        data = f.read(MAX_WHOLE + 1)
    if b"\0" in data:
        raise ToolFailed(f"{asked} is a binary file of {size:,} bytes")
    return data


def fingerprint(fd: int) -> Fingerprint:
    """What tells whether a file has changed: its content, or for a large one how it looks."""
    found = os.fstat(fd)
    if found.st_size > MAX_WHOLE:
        return repr(look_of(found))
    with open(fd, "rb", closefd=False) as f:
        f.seek(0)
        return digest(f.read(MAX_WHOLE + 1))


def digest(data: bytes) -> Fingerprint:
    return hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def locked(directory: int, asked: str) -> Iterator[None]:
    """Only one member at a time checks and replaces files of a directory, in whatever process. Ends with its fd."""
    deadline = time.monotonic() + _LOCK_PATIENCE
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ToolFailed(f"cannot write {asked}: somebody keeps its directory locked; try again") from None
            time.sleep(0.005)
        except OSError:  # some network file systems lock no directories
            break
    yield


def replace(directory: int, name: str, data: bytes, mode: int | None) -> None:
    """Put a file there in one stroke: whoever reads it sees the old one or the new one."""
    temporary = f".gitteam-{os.urandom(6).hex()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=directory)
    try:
        with open(fd, "wb") as f:
            f.write(data)
            if mode is not None:
                os.fchmod(fd, stat.S_IMODE(mode))
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(temporary, dir_fd=directory)
        raise
