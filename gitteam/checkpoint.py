"""The note of which commit the files on disk stand at, and what each looked like then.

It lets a command see without git, and without reading every file, whether anything
changed by hand since. It is a log of JSON lines: a change appends what it altered.
It is written after the files and may therefore lag behind them, never run ahead, so a
torn or missing line costs a second look and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace

from gitteam import layout
from gitteam.disk import Look, look_of, read_regular, settled
from gitteam.errors import BadFile
from gitteam.layout import Layout
from gitteam.objects import is_blob

COMPACT_BYTES = 64_000
_IDENTITY = len('{"note":"0123456789abcdef",')


@dataclass(frozen=True)
class Entry:
    """One file: the blob it stands at, how it looked on disk, and why its present text does not count."""

    blob: str  # "" when the branch does not have it
    look: Look | None
    bad: str = ""


@dataclass
class Checkpoint:
    commit: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    missing: dict[str, float] = field(
        default_factory=dict
    )  # path -> when its absence was first seen, of the monotonic clock

    @property
    def troubles(self) -> dict[str, str]:
        """The files whose text on disk does not count, each with the reason."""
        bad = {path: entry.bad for path, entry in self.entries.items() if entry.bad}
        return {**bad, **dict.fromkeys(self.missing, "the file is missing")}

    def apply(self, line: bytes) -> None:
        values = json.loads(line)
        for path, raw in values.get("files", {}).items():
            if raw is None:
                self.entries.pop(path, None)
            else:
                self.entries[path] = Entry(raw[0], tuple(raw[1]) if raw[1] else None, raw[2])
        self.missing = values.get("missing", self.missing)
        self.commit = values["commit"]


def _dump(commit: str, entries: dict[str, Entry | None], missing: dict[str, float]) -> bytes:
    files = {path: e and [e.blob, e.look, e.bad] for path, e in entries.items()}
    return json.dumps({"commit": commit, "files": files, "missing": missing}, separators=(",", ":")).encode() + b"\n"


class CheckpointFile:
    """Reads the note, following what other processes append, and adds to it. Writing needs the ledger's lock."""

    def __init__(self, path: str):
        self._path = path
        self._place = (0, 0)  # inode and size up to which `_held` is current
        self._size_at_rewrite = 0
        self._identity = b""
        self._held = Checkpoint()
        self._mutex = threading.Lock()

    def read(self) -> Checkpoint | None:
        """The note as it stands, or None where there is none that can be read."""
        with self._mutex:
            self._follow()
            held = self._held
            return replace(held, entries=dict(held.entries)) if held.commit else None

    def _follow(self) -> None:
        try:
            with open(self._path, "rb") as f:
                found = os.fstat(f.fileno())
                if f.read(_IDENTITY) != self._identity or found.st_size < self._place[1]:
                    f.seek(0)
                    self._held, self._place, self._identity = Checkpoint(), (found.st_ino, 0), f.read(_IDENTITY)
                f.seek(self._place[1])
                for line in f:
                    if not line.endswith(b"\n"):
                        break
                    self._held.apply(line)
                    self._place = (found.st_ino, self._place[1] + len(line))
        except FileNotFoundError:
            self._held, self._place = Checkpoint(), (0, 0)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            self._held, self._place = Checkpoint(), (0, -1)  # damaged: never appended to, always rewritten

    def write(self, commit: str, entries: dict[str, Entry | None], missing: dict[str, float], durable: bool) -> None:
        """Note what changed since `read`."""
        line = _dump(commit, entries, missing)
        with self._mutex:
            inode, size = self._place
            self._held.apply(line)
            if not inode or size < 0 or size + len(line) > 2 * self._size_at_rewrite + COMPACT_BYTES:
                self._rewrite(durable)
                return
            fd = os.open(self._path, os.O_WRONLY)
            try:
                os.ftruncate(fd, size)  # a torn line of a process that died
                os.pwrite(fd, line, size)
            finally:
                os.close(fd)
            self._place = (inode, size + len(line))

    def drop(self) -> None:
        """Forget where the files stand: the next note is a whole one."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        self._place = (0, 0)

    def _rewrite(self, durable: bool) -> None:
        # Its first bytes tell one note from another; an inode number may be given again at once.
        self._identity = b'{"note":"%s",' % os.urandom(8).hex().encode()
        data = self._identity + _dump(self._held.commit, dict(self._held.entries), self._held.missing)[1:]
        temporary = f"{self._path}.{os.getpid()}"
        with open(temporary, "wb") as f:
            f.write(data)
            f.flush()
            if durable:
                os.fsync(f.fileno())
            inode = os.fstat(f.fileno()).st_ino
        os.rename(temporary, self._path)
        self._place, self._size_at_rewrite = (inode, len(data)), len(data)


@dataclass(frozen=True)
class Found:
    """A board file on disk that differs from the note."""

    path: str
    look: Look


def differences(place: Layout, note: Checkpoint) -> tuple[list[Found], list[str], dict[str, Entry | None]]:
    """What stands differently on disk than noted: files that differ, files that are gone, and entries to renew."""
    changed: list[Found] = []
    renewed: dict[str, Entry | None] = {}
    present: set[str] = set()
    for path, found in _walk(place, note.entries):
        present.add(path)
        entry, look = note.entries.get(path), look_of(found)
        if entry and entry.look == look:
            continue
        if entry and not entry.bad and _is_same(place.at(path), entry.blob):
            if fresh := settled(look):
                renewed[path] = Entry(entry.blob, fresh)
            continue
        changed.append(Found(path, look))
    absent = note.entries.keys() - present
    renewed.update((path, None) for path in absent if not note.entries[path].blob)  # bad files that were taken away
    return changed, [path for path in absent if note.entries[path].blob], renewed


def _walk(place: Layout, known: Container[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Every board file in the checkout, `done/` aside."""
    for directory, wanted in layout.SCANNED:
        try:
            with os.scandir(place.at(directory)) as entries:
                for entry in entries:
                    path = f"{directory}/{entry.name}"
                    if path in known or wanted(entry.name):
                        yield path, entry.stat(follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            continue


def _is_same(path: str, blob: str) -> bool:
    try:
        return bool(blob) and is_blob(blob, read_regular(path)[0])
    except (OSError, BadFile):
        return False
