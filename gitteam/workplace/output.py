"""The output of a command: its beginning and end for the model, all of it in a file, little of it in memory."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable

MAX_SHOWN = 30_000  # characters
MAX_KEPT = 10_000_000  # bytes of the file

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])")
# A character, a line end or a colour of which more is to come.
_UNFINISHED = re.compile(
    rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2}|\r|\x1b(?:\[[0-?]*[ -/]*)?)\Z"
)
_MAX_UNFINISHED = 64
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(data: bytes) -> str:
    """Output as text: no colours, other control characters spelled out, all else as it is."""
    text = data.decode("utf-8", "replace")
    # What overwrites its line on a terminal (a bar that grows) becomes lines, and nothing of it is lost.
    text = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class Window:
    """The beginning and the end of what a command writes, and nothing between once it is too long to show."""

    def __init__(self, shown: int = MAX_SHOWN):
        self._shown = shown  # characters
        self._room = 4 * shown  # a character has at most four bytes
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0

    def take(self, data: bytes) -> None:
        room = max(0, self._room - len(self._head))
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._room:
            del self._tail[: -self._room]
        self.total += len(data)

    def beginning(self, length: int) -> bytes:
        return bytes(self._head[:length])

    def take_back_unfinished(self) -> bytes:
        """What its last bytes mean is told by the next ones: they are taken out again."""
        part = self._tail or self._head
        found = _UNFINISHED.search(part, max(0, len(part) - _MAX_UNFINISHED))
        if not found:
            return b""
        self.total -= len(found[0])
        unfinished = bytes(found[0])
        del part[found.start() :]
        return unfinished

    def text(self, where: Callable[[], str]) -> str:
        """What is shown; `where` is asked only if that is not all, and tells where the rest is."""
        tail = bytes(self._tail[-self._room :])
        if len(self._head) + len(tail) < self.total:
            return self._with_gap(plain(bytes(self._head)), plain(tail), where())
        text = plain(bytes(self._head) + tail)
        return self._with_gap(text, text, where()) if len(text) > self._shown else text

    def _with_gap(self, head: str, tail: str, where: str) -> str:
        part = self._shown // 2
        head, tail = head[:part], tail[-part:]
        missing = max(1, self.total - len(head.encode()) - len(tail.encode()))
        remark = f"; {where}" if where else ""
        return f"{head}\n[… {missing:,} of {self.total:,} bytes left out here{remark} …]\n{tail}"


class Kept:
    """A file with what a command has written, up to a limit."""

    def __init__(self, spill: str):
        self._spill = spill
        self._offered = self._size = 0
        self._file: io.FileIO | None = None
        self._path = self._trouble = ""
        self._named = False

    def take(self, data: bytes) -> None:
        self._offered += len(data)
        if self._trouble or self._size >= MAX_KEPT:
            return
        try:
            self._file = self._file or self._open()
            self._size += self._file.write(data[: MAX_KEPT - self._size])
        except OSError as e:  # the disk is full, for one: the command is not to blame
            self._trouble = e.strerror or str(e)

    def _open(self) -> io.FileIO:
        os.makedirs(self._spill, mode=0o700, exist_ok=True)
        self._path = os.path.join(self._spill, f"output-{os.urandom(4).hex()}.txt")
        return io.FileIO(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w")

    def where(self) -> str:
        """Where to find what is not shown. From now on the file is needed."""
        self._named = True
        if self._size == self._offered:
            return f"all of it is in {self._path}"
        reason = self._trouble or "no more is kept"
        return f"the first {self._size:,} bytes are in {self._path}: {reason}" if self._size else f"lost: {reason}"

    def close(self) -> None:
        if self._file:
            self._file.close()

    def forget(self) -> None:
        """Remove the file, unless somebody was told of it."""
        self.close()
        if self._path and not self._named:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)


class Output:
    """Takes in what a command writes, however much that is."""

    def __init__(self, spill: str):
        self._window, self._kept = Window(), Kept(spill)

    def take(self, data: bytes) -> None:
        earlier = self._window.total
        self._window.take(data)
        if self._window.total > MAX_SHOWN:
            # The first time, what came earlier goes with it: all of that is in the head.
            self._kept.take(data if earlier > MAX_SHOWN else self._window.beginning(earlier) + data)

    def close(self) -> str:
        """What is shown of it."""
        text = self._window.text(self._kept.where)
        self._kept.forget()
        return text
