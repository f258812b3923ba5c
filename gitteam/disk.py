"""Reading and replacing files that other people may be writing at this very moment.

A blind rename over a file loses what somebody appends or saves to the old one between
our reading and our renaming. So the old file is first renamed aside, the new one
linked in only where nobody made one meanwhile, and the aside is kept for as long as
somebody has it open for writing; whatever it then holds beyond what we had read is
handed to the ledger as one more hand edit.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass

from gitteam.errors import BadFile
from gitteam.layout import Layout, is_board_path, is_inbox
from gitteam.objects import is_blob

Look = tuple[int, int, int, int]  # size, mtime, ctime, inode: what tells that a file is unchanged

_NEW = "new-"
_ASIDE = re.compile(r"[0-9a-f]{8} ([0-9a-f]{40}|[0-9a-f]{64}|[0-9]{0,12}) (.+)\Z", re.DOTALL)

MAX_READ = 64 << 20
# A file changed again within its file system's clock tick keeps its time stamps: do not trust one so young.
RACY_NS = 50_000_000


def look_of(found: os.stat_result) -> Look:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def settled(look: Look) -> Look | None:
    """This look if it is old enough to be trusted later."""
    now = time.time_ns()
    return look if abs(now - look[1]) > RACY_NS and abs(now - look[2]) > RACY_NS else None


def read_regular(path: str) -> tuple[bytes, Look]:
    """The bytes of a regular file and how it looked while they were read; anything else is a BadFile."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise BadFile("a symbolic link") from None
        if e.errno in (errno.EACCES, errno.ENXIO, errno.EISDIR):
            raise BadFile(os.strerror(e.errno).lower()) from None
        raise
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise BadFile("a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file")
        if found.st_size > MAX_READ:
            raise BadFile(f"larger than {MAX_READ >> 20} MiB")
        with open(fd, "rb", closefd=False) as f:
            return f.read(), look_of(found)
    finally:
        os.close(fd)


def is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def has_writer(path: str) -> bool:
    """Whether some process has the file open for writing. Where the system cannot tell: no."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # A lease is granted only while nobody writes. Its breaking sends a signal: one that is ignored by default.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as e:
        return e.errno == errno.EAGAIN
    finally:
        os.close(fd)
    return False


@dataclass(frozen=True)
class Aside:
    """A file that was renamed out of the way, and what of it was known then: a blob, or for an inbox a length."""

    place: str
    path: str
    base: str

    @property
    def token(self) -> str:
        return os.path.basename(self.place).partition(" ")[0]

    def read(self) -> tuple[bytes, bool]:
        """What it holds, and whether that is final."""
        final = not has_writer(self.place)
        return read_regular(self.place)[0], final

    def is_known(self, data: bytes) -> bool:
        return len(data) <= int(self.base) if is_inbox(self.path) else is_blob(self.base, data)

    def drop(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.place)

    def rescue(self) -> None:
        """Leave a text that belongs nowhere beside the board, under a name that says so."""
        checkout = os.path.dirname(os.path.dirname(os.path.dirname(self.place)))
        os.rename(self.place, os.path.join(checkout, f"{self.path}.rescued-{self.token}"))

    def keep(self, base: str) -> None:
        """Somebody still writes to it: remember what has been taken in."""
        os.rename(self.place, _place(os.path.dirname(self.place), self.token, self.path, base))


def asides(layout: Layout) -> Iterator[Aside]:
    """What is still aside: somebody has it open, or a process died in the middle of a replacement."""
    try:
        names = sorted(os.listdir(layout.aside))
    except FileNotFoundError:
        return
    for name in names:
        place = os.path.join(layout.aside, name)
        if not stat.S_ISREG(os.lstat(place).st_mode):
            continue  # not ours, whatever it is called
        if name.startswith(_NEW):
            os.unlink(place)
        elif (found := _ASIDE.match(name)) and is_board_path(_unquote(found[2])):
            aside = Aside(place, _unquote(found[2]), found[1])
            if not is_inbox(aside.path) or aside.base.isdigit():
                yield aside


def replace(layout: Layout, path: str, data: bytes | None, base: str, durable: bool) -> Look | None:
    """Put `data` at `path` (None: nothing). `base` is what is known of the file there now: see Aside.

    Returns how the new file looks, or None where that is not certain and it must be read again.
    """
    os.makedirs(layout.aside, exist_ok=True)
    temporary = _write_temporary(layout, data, durable) if data is not None else None
    replaced: list[Aside] = []
    try:
        while True:
            if aside := _set_aside(layout, path, base):
                replaced.append(aside)
            if temporary is None or _link(temporary, layout.at(path)):
                break
            base = "0" if is_inbox(path) else base  # somebody made a new file meanwhile: none of it is known
    finally:
        if temporary:
            os.unlink(temporary)
    for aside in replaced:
        with contextlib.suppress(BadFile):  # then it stays aside, until it can be read
            found, final = aside.read()
            if final and aside.is_known(found):
                aside.drop()
    return _look_at(layout.at(path))


def _look_at(path: str) -> Look | None:
    try:
        return look_of(os.lstat(path))
    except FileNotFoundError:
        return None


def rename_new(layout: Layout, old: str, new: str) -> None:
    """Give a file its final name without ever replacing one. A crash leaves two names for one file."""
    try:
        os.link(layout.at(old), layout.at(new))
    except FileExistsError:
        raise BadFile(f"{new} is in the way") from None
    os.unlink(layout.at(old))


def _place(directory: str, token: str, path: str, base: str) -> str:
    return os.path.join(directory, f"{token} {base} {path.replace('%', '%25').replace('/', '%2F')}")


def _unquote(name: str) -> str:
    return name.replace("%2F", "/").replace("%25", "%")


def _set_aside(layout: Layout, path: str, base: str) -> Aside | None:
    aside = Aside(_place(layout.aside, os.urandom(4).hex(), path, base), path, base)
    try:
        os.rename(layout.at(path), aside.place)
    except FileNotFoundError:
        return None
    return aside


def _write_temporary(layout: Layout, data: bytes, durable: bool) -> str:
    temporary = os.path.join(layout.aside, _NEW + os.urandom(6).hex())
    with open(temporary, "xb") as f:
        try:
            f.write(data)
            f.flush()
            if durable:
                os.fsync(f.fileno())
        except BaseException:
            os.unlink(temporary)
            raise
    return temporary


def _link(source: str, target: str) -> bool:
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except FileNotFoundError:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        return _link(source, target)
    return True
