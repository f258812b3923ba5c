"""What a repository of a person's looks like, byte for byte, apart from what belongs to the team."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

TEAM_FILES = (".team", ".tasks")


def snapshot(root: Path, branch: str = "gitteam", times: bool = True, exclude: bool = True) -> dict[str, object]:
    """Every file in the checkout and in its git directory: mode, bytes, and with `times` when it was written.

    Left out are the objects, the team's branch with its reflog, `gitteam/` and the team's own files; with
    `exclude`, `info/exclude` too.
    """
    ours = {f"refs/heads/{branch}", f"logs/refs/heads/{branch}", "objects", "gitteam"}
    ours |= {"info/exclude"} if exclude else set()
    found = _walk(root, {".git", *TEAM_FILES}, times)
    return found | {f".git/{path}": value for path, value in _walk(root / ".git", ours, times).items()}


def difference(before: dict[str, object], after: dict[str, object]) -> set[str]:
    """The paths that are not the same in both: what a failing test should print."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def _walk(top: Path, skipped: set[str], times: bool) -> dict[str, object]:
    found: dict[str, object] = {}
    for folder, directories, files in os.walk(top):
        here = os.path.relpath(folder, top)
        prefix = "" if here == "." else here + "/"
        directories[:] = [name for name in directories if prefix + name not in skipped]
        found.update((prefix + name, "directory") for name in directories)
        found.update(
            (prefix + name, _look(Path(folder, name), times)) for name in files if prefix + name not in skipped
        )
    return found


def _look(path: Path, times: bool) -> tuple[object, ...]:
    state = path.lstat()
    if stat.S_ISLNK(state.st_mode):
        content = os.readlink(path)
    else:
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(state.st_mode) else ""
    return state.st_mode, content, state.st_mtime_ns if times else 0
