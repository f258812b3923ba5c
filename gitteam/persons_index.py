"""The person's index, in tracked mode: the board's own entries follow the branch, and no others change."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gitteam.errors import Refused
from gitteam.runner import Runner


class PersonsIndex:
    def __init__(self, git: Runner, hex_length: int):
        self._git = git
        self._hex_length = hex_length

    @contextmanager
    def set(self, entries: dict[str, str | None]) -> Iterator[None]:
        """Set the person's index entries for these paths, and no others, when the block ends well.

        Their index is locked meanwhile as git locks it, so that no commit of theirs comes between branch and index.
        """
        if not entries:
            yield
            return
        index, lock = (os.path.join(self._git.layout.common, name) for name in ("index", "index.lock"))
        while True:
            before = _inode_and_time(index)
            self._copy(index, entries)
            try:
                os.link(self._own, lock)
            except FileExistsError:
                raise Refused("a git command is under way in this checkout: try again") from None
            if _inode_and_time(index) == before:
                break
            os.unlink(lock)  # changed while it was copied
        try:
            yield
        except BaseException:
            os.unlink(lock)
            raise
        os.rename(lock, index)
        os.unlink(self._own)

    @property
    def _own(self) -> str:
        return os.path.join(self._git.layout.state, "index")

    def free_own_lock(self) -> None:
        """Take away the lock of a process of ours that died: it is the same file as our copy of the index."""
        lock = os.path.join(self._git.layout.common, "index.lock")
        with suppress(FileNotFoundError):
            if os.path.samefile(lock, self._own):
                os.unlink(lock)

    def _copy(self, index: str, entries: dict[str, str | None]) -> None:
        for leftover in (self._own, self._own + ".lock"):
            with suppress(FileNotFoundError):
                os.unlink(leftover)
        with suppress(FileNotFoundError):  # none yet: git makes one
            shutil.copyfile(index, self._own)
            shutil.copymode(index, self._own)
        zero = "0" * self._hex_length
        lines = [f"100644 {oid}\t{path}\0" if oid else f"0 {zero}\t{path}\0" for path, oid in entries.items()]
        env = {**self._without_filters(), "GIT_INDEX_FILE": self._own}
        self._git.run("update-index", "-z", "--index-info", stdin=os.fsencode("".join(lines)), env=env)

    def _without_filters(self) -> dict[str, str]:
        """Settings that switch every filter off: writing an index compares files, and would run them."""
        names = self._git.run("config", "-z", "--name-only", "--get-regexp", r"^filter\.", ok=(0, 1))[1].split(b"\0")
        drivers = {os.fsdecode(name).rpartition(".")[0] for name in names if name}
        pairs = [(f"{d}.{key}", "") for d in sorted(drivers) for key in ("clean", "smudge", "process")]
        pairs += [(f"{d}.required", "false") for d in sorted(drivers)]
        env = {"GIT_CONFIG_COUNT": str(len(pairs))}
        for number, (key, value) in enumerate(pairs):
            env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return env


def _inode_and_time(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
