"""Files as seen through one interface, whether on the branch, on disk, or about to be written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Protocol

from gitteam.checkpoint import Checkpoint, Entry
from gitteam.disk import read_regular
from gitteam.errors import BadFile
from gitteam.layout import Layout, is_inbox
from gitteam.objects import DIR_MODE, FILE_MODE, Entries, Objects, is_blob, is_dir, record

MAX_TOKENS = 50_000


class Files(Protocol):
    """What the board, the inboxes and the roster are read from."""

    def read(self, path: str) -> bytes | None: ...

    def names(self, directory: str) -> list[str]: ...

    def directories(self, directory: str) -> list[str]: ...

    def tokens(self, directory: str) -> dict[str, bytes | None]:
        """The files of a directory, each with something that stands for its exact content, if known."""
        ...


class Tree:
    """The files of one commit. Knows how to become the next one."""

    def __init__(self, objects: Objects, root: str | None, checkout: str):
        self._objects = objects
        self.root = root
        self._checkout = checkout

    def read(self, path: str) -> bytes | None:
        oid = self.oid(path)
        if oid is None:
            return None
        return self._objects.blob(oid, lambda: Disk(self._checkout).read(path))

    def tokens(self, directory: str) -> dict[str, bytes | None]:
        prefix = DIR_MODE + b" "  # spelled out, because this runs over every task at every change
        return {name: entry for name, entry in self._entries(directory).items() if entry[:6] != prefix}

    def names(self, directory: str) -> list[str]:
        return [name for name, entry in self._entries(directory).items() if not is_dir(entry)]

    def directories(self, directory: str) -> list[str]:
        return [name for name, entry in self._entries(directory).items() if is_dir(entry)]

    def oid(self, path: str) -> str | None:
        directory, _, name = path.rpartition("/")
        entry = self._entries(directory).get(name)
        return None if entry is None or is_dir(entry) else self._objects.oid_of(entry)

    def _entries(self, directory: str) -> Entries:
        if not directory:
            return self._objects.tree(self.root) if self.root else {}
        parent, _, name = directory.rpartition("/")
        entry = self._entries(parent).get(name)
        if entry is None or not is_dir(entry):
            return {}
        return self._objects.tree(self._objects.oid_of(entry))

    def differing(self, other: Tree, directory: str) -> Iterator[str]:
        """The files under a directory that are not the same in both trees; equal subdirectories are passed over."""
        ours, theirs = self._entries(directory), other._entries(directory)
        for name in ours.keys() | theirs.keys():
            pair = ours.get(name), theirs.get(name)
            if pair[0] != pair[1]:
                if any(entry and is_dir(entry) for entry in pair):
                    yield from self.differing(other, f"{directory}/{name}")
                if any(entry and not is_dir(entry) for entry in pair):
                    yield f"{directory}/{name}"

    def with_edits(self, edits: dict[str, bytes | None], durable: bool) -> Tree:
        """The tree after these files were written (None: taken away), its objects stored."""
        changed: dict[str, Entries] = {}
        unsorted: set[str] = set()

        def entries(directory: str) -> Entries:
            if directory not in changed:
                changed[directory] = dict(self._entries(directory))
                if directory:
                    entries(directory.rpartition("/")[0])
            return changed[directory]

        for path, data in edits.items():
            directory, _, name = path.rpartition("/")
            if data is None:
                entries(directory).pop(name, None)
            else:
                if name not in entries(directory):
                    unsorted.add(directory)
                entries(directory)[name] = record(FILE_MODE, name, self._objects.write(b"blob", data, durable))
        root = self.root or ""
        for directory in sorted(changed, key=lambda d: -d.count("/") - bool(d)):
            root = self._objects.write_tree(changed[directory], directory not in unsorted, durable)
            if directory:
                parent, _, name = directory.rpartition("/")
                if changed[directory]:
                    if name not in changed[parent]:
                        unsorted.add(parent)
                    changed[parent][name] = record(DIR_MODE, name, root)
                else:
                    changed[parent].pop(name, None)
        return Tree(self._objects, root, self._checkout)


class Disk:
    """The files as they stand in the checkout."""

    def __init__(self, checkout: str):
        self._checkout = checkout

    def read(self, path: str) -> bytes | None:
        try:
            return read_regular(os.path.join(self._checkout, path))[0]
        except (FileNotFoundError, NotADirectoryError, BadFile):
            return None

    def names(self, directory: str) -> list[str]:
        try:
            with os.scandir(os.path.join(self._checkout, directory)) as found:
                return [entry.name for entry in found if entry.is_file(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def tokens(self, directory: str) -> dict[str, bytes | None]:
        return dict.fromkeys(self.names(directory))

    def directories(self, directory: str) -> list[str]:
        try:
            with os.scandir(os.path.join(self._checkout, directory)) as found:
                return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []


class Overlay:
    """Files with edits on top that are not written yet."""

    def __init__(self, below: Files):
        self.below = below
        self.edits: dict[str, bytes | None] = {}

    def write(self, path: str, data: bytes) -> None:
        self.edits[path] = data

    def remove(self, path: str) -> None:
        self.edits[path] = None

    def read(self, path: str) -> bytes | None:
        return self.edits[path] if path in self.edits else self.below.read(path)

    def names(self, directory: str) -> list[str]:
        return list(self.tokens(directory))

    def directories(self, directory: str) -> list[str]:
        prefix = directory + "/"
        made = [
            path[len(prefix) :] for path, data in self.edits.items() if data is not None and path.startswith(prefix)
        ]
        names = [path.partition("/")[0] for path in made if "/" in path]
        return list(dict.fromkeys([*self.below.directories(directory), *names]))

    def tokens(self, directory: str) -> dict[str, bytes | None]:
        tokens = self.below.tokens(directory)
        for path, data in self.edits.items():
            parent, _, name = path.rpartition("/")
            if parent == directory:
                tokens.pop(name, None)
                if data is not None:
                    tokens[name] = None
        return tokens


class Standing(Disk):
    """The board as the note says it stands, read from disk.

    A file whose text cannot be read, or that is gone for the moment, is seen as the branch has it.
    """

    def __init__(self, place: Layout, note: Checkpoint, read_blob: Callable[[str], bytes], is_certain: bool = False):
        super().__init__(place.root)
        self._entries = note.entries
        self._is_certain = is_certain  # nothing on disk differs from the note
        self._read_blob = read_blob
        self.troubles = note.troubles

    def read(self, path: str) -> bytes | None:
        data = super().read(path) if path not in self.troubles or is_inbox(path) else None
        entry = self._entries.get(path)
        if entry and entry.blob and (data is None or self._has_changed_since(path, entry, data)):
            return self._read_blob(entry.blob)
        return data

    def _has_changed_since(self, path: str, entry: Entry, data: bytes) -> bool:
        """Whether somebody saved the file just now: its token would stand for another text."""
        return self._is_certain and not is_inbox(path) and not is_blob(entry.blob, data)

    def names(self, directory: str) -> list[str]:
        prefix = directory + "/"
        noted = [p[len(prefix) :] for p, e in self._entries.items() if e.blob and p.startswith(prefix)]
        found = [name for name in super().names(directory) if prefix + name not in self.troubles]
        return list(dict.fromkeys([*found, *(name for name in noted if "/" not in name)]))

    def tokens(self, directory: str) -> dict[str, bytes | None]:
        if not self._is_certain:
            return super().tokens(directory)
        start = len(directory) + 1
        noted = {p[start:]: e for p, e in self._entries.items() if e.blob and p.rpartition("/")[0] == directory}
        return {name: None if entry.bad else _token(name, entry.blob) for name, entry in noted.items()}


@lru_cache(MAX_TOKENS)
def _token(name: str, blob: str) -> bytes:
    """The same as a tree of the branch has for this file."""
    return record(FILE_MODE, name, blob)
