"""Git's object store: blobs, trees and commits as bytes.

Objects are written in this process, because a round trip to git for each of the
four objects of a commit would cost more than everything else together. The loose
format is stable and works for SHA-1 and SHA-256 alike. What is not loose is asked
of git, through the reader that `gitteam.repo` supplies.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from collections import OrderedDict
from collections.abc import Callable

Entries = dict[str, bytes]  # name -> the raw tree record `mode SP name NUL oid`

FILE_MODE, DIR_MODE = b"100644", b"40000"
MAX_BLOBS, MAX_TREES = 20_000, 256


def digest(kind: bytes, data: bytes, hex_length: int) -> str:
    """The object id, in the hash that ids of this length belong to."""
    hasher = hashlib.sha256 if hex_length == 64 else hashlib.sha1
    return hasher(b"%s %d\0" % (kind, len(data)) + data).hexdigest()


def is_blob(oid: str, data: bytes) -> bool:
    return digest(b"blob", data, len(oid)) == oid


def record(mode: bytes, name: str, oid: str) -> bytes:
    return mode + b" " + os.fsencode(name) + b"\0" + bytes.fromhex(oid)


def _tree_order(entry: bytes) -> bytes:
    """Git sorts a directory as if its name ended in a slash."""
    name = entry[entry.index(b" ") + 1 : entry.index(b"\0")]
    return name + b"/" if is_dir(entry) else name


def is_dir(entry: bytes) -> bool:
    return entry.startswith(DIR_MODE + b" ")


class Objects:
    """Reads and writes objects. `fallback` reads what is not a loose object."""

    def __init__(self, directory: str, hex_length: int, fallback: Callable[[str], bytes]):
        self.directory = directory
        self.hex_length = hex_length
        self._fallback = fallback
        self._fresh: dict[str, tuple[bytes, bytes]] = {}  # written since the last commit
        self._blobs: dict[str, bytes] = {}
        self._trees: OrderedDict[str, Entries] = OrderedDict()

    def oid_of(self, entry: bytes) -> str:
        return entry[-self.hex_length // 2 :].hex()

    def blob(self, oid: str, likely: Callable[[], bytes | None] = lambda: None) -> bytes:
        """A blob's bytes. `likely` usually has them and is quicker to ask; the hash says whether it has."""
        if oid not in self._blobs:
            if len(self._blobs) > MAX_BLOBS:
                self._blobs.clear()
            data = likely()
            self._blobs[oid] = data if data is not None and is_blob(oid, data) else self.read(oid)
        return self._blobs[oid]

    def read(self, oid: str) -> bytes:
        try:
            with open(os.path.join(self.directory, oid[:2], oid[2:]), "rb") as f:
                return zlib.decompress(f.read()).partition(b"\0")[2]
        except (FileNotFoundError, NotADirectoryError):
            return self._fallback(oid)

    def tree(self, oid: str) -> Entries:
        """The records of a directory by name. Not to be changed: it is kept for the next reader."""
        if oid not in self._trees:
            self._keep_tree(oid, self._parse_tree(self.read(oid)))
        return self._trees[oid]

    def _keep_tree(self, oid: str, entries: Entries) -> None:
        self._trees[oid] = entries
        if len(self._trees) > MAX_TREES:
            self._trees.popitem(last=False)

    def _parse_tree(self, data: bytes) -> Entries:
        entries, at = {}, 0
        size = self.hex_length // 2
        while at < len(data):
            space, nul = data.index(b" ", at), data.index(b"\0", at)
            entries[os.fsdecode(data[space + 1 : nul])] = data[at : nul + 1 + size]
            at = nul + 1 + size
        return entries

    def write(self, kind: bytes, data: bytes, durable: bool) -> str:
        oid = digest(kind, data, self.hex_length)
        self._fresh[oid] = (kind, data)
        self._store(oid, kind, data, durable)
        return oid

    def write_tree(self, entries: Entries, in_order: bool, durable: bool) -> str:
        if not in_order:
            entries = dict(sorted(entries.items(), key=lambda item: _tree_order(item[1])))
        oid = self.write(b"tree", b"".join(entries.values()), durable)
        self._keep_tree(oid, entries)
        return oid

    def _store(self, oid: str, kind: bytes, data: bytes, durable: bool) -> None:
        folder = os.path.join(self.directory, oid[:2])
        target = os.path.join(folder, oid[2:])
        if os.path.exists(target):
            return
        for attempts_left in range(100, -1, -1):
            temporary = os.path.join(folder, "tmp_obj_" + os.urandom(6).hex())  # a name git cleans up
            try:
                self._write_file(self._create(folder, temporary), kind, data, durable)
                # The new name needs no fsync of its own: that of the ref, which comes later, commits it too.
                os.rename(temporary, target)
                return
            except FileNotFoundError:
                if not attempts_left:  # a prune beside us cleans up temporary files, too
                    raise
            except BaseException:
                os.unlink(temporary)
                raise

    def _write_file(self, fd: int, kind: bytes, data: bytes, durable: bool) -> None:
        with open(fd, "wb") as f:  # writes all or raises, as os.write does not
            f.write(zlib.compress(b"%s %d\0" % (kind, len(data)) + data, 1))
            f.flush()
            if durable:
                os.fsync(fd)

    def _create(self, folder: str, path: str) -> int:
        """A new file in a directory that git makes when it is needed, and removes when it is empty."""
        for _ in range(100):
            with contextlib.suppress(FileNotFoundError):
                return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.mkdir(folder)
                os.chmod(folder, os.stat(self.directory).st_mode & 0o7777)  # as shared as the repository
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)

    def rewrite_lost(self, durable: bool) -> None:
        """Write again what a concurrent prune took away."""
        for oid in [oid for oid in self._fresh if not self._loose(oid)]:
            self._store(oid, *self._fresh[oid], durable)

    def _loose(self, oid: str) -> bool:
        return os.path.exists(os.path.join(self.directory, oid[:2], oid[2:]))

    def forget_fresh(self) -> None:
        self._fresh.clear()

    def are_crowded(self) -> bool:
        """Whether there are loose objects enough to pack, estimated as git does it: from one of 256 directories."""
        try:
            return len(os.listdir(os.path.join(self.directory, "17"))) > 24
        except FileNotFoundError:
            return False


def sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
