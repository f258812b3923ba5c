"""How files and directories are shown to the model."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gitteam.errors import ToolFailed
from gitteam.workplace.files import MAX_WHOLE

MAX_LINE = 2000  # characters shown of a line
MAX_TEXT = 100_000  # characters shown at once
MAX_NAMES = 500
_MAX_LINE_BYTES = 4 * MAX_LINE + 8
_SNIFFED = 65536


def numbered(number: int, line: str) -> str:
    """A line like those of `cat -n`."""
    line = line.rstrip("\r\n")
    return f"{number:6}\t{line[:MAX_LINE] + '…' if len(line) > MAX_LINE else line}"


def show_directory(fd: int) -> str:
    with os.scandir(fd) as entries:
        names = sorted(e.name + "/" * e.is_dir(follow_symlinks=False) for e in entries)
    if not names:
        return "[the directory is empty]"
    more = [f"[{len(names) - MAX_NAMES:,} more]"] if len(names) > MAX_NAMES else []
    # A name may hold any bytes.
    shown = [os.fsencode(name).decode("utf-8", "replace") for name in names[:MAX_NAMES]]
    return "\n".join(shown + more)


def show_file(fd: int, asked: str, offset: int, limit: int) -> str:
    """Lines from `offset` on. Never holds more of the file than it shows, however long the lines are."""
    size = os.fstat(fd).st_size
    if b"\0" in os.pread(fd, _SNIFFED, 0):
        raise ToolFailed(f"{asked} is a binary file of {size:,} bytes: look at it with a command")
    shown: list[str] = []
    length = last = 0
    room = True
    for last, line in enumerate(_lines(fd), 1):
        if last < offset:
            continue
        room = room and len(shown) < limit and length < MAX_TEXT
        if room:
            shown.append(numbered(last, line))
            length += len(shown[-1])
        elif size > MAX_WHOLE:
            break  # nobody needs the count of the lines so much
    return _with_remarks(shown, asked, size, offset, last)


def _with_remarks(shown: list[str], asked: str, size: int, offset: int, last: int) -> str:
    if not last:
        return f"[{asked} is empty]"
    if not shown:
        raise ToolFailed(f"{asked} has {last:,} lines: there is no line {offset:,}")
    following = offset + len(shown)
    if following <= last:
        count = f"{last - following + 1:,} more lines" if size <= MAX_WHOLE else f"more lines, {size:,} bytes in all"
        shown.append(f"[{count}: go on with offset {following}]")
    return "\n".join(shown)


def _lines(fd: int) -> Iterator[str]:
    """The lines of a file, of each only as much as can be shown."""
    with open(fd, "rb", closefd=False) as f:
        while line := f.readline(_MAX_LINE_BYTES):
            rest = line
            while not rest.endswith(b"\n") and (rest := f.readline(_SNIFFED)):
                pass
            yield line.decode("utf-8", "replace")
