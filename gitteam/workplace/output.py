"""The output of a command: its beginning and end for the model, all of it in a file, little of it in memory."""

from __future__ import annotations

import contextlib
import io
import os
import re

MAX_SHOWN = 30_000  # characters
MAX_KEPT = 10_000_000  # bytes of the file
_PART = MAX_SHOWN // 2
_WINDOW = 4 * MAX_SHOWN  # a character has at most four bytes

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(data: bytes) -> str:
    """Output as text: no colours, other control characters spelled out, all else as it is."""
    text = data.decode("utf-8", "replace")
    # What overwrites its line on a terminal (a bar that grows) becomes lines, and nothing of it is lost.
    text = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class Output:
    """Takes in what a command writes, however much that is."""

    def __init__(self, spill: str):
        self._spill = spill
        self._head, self._tail = bytearray(), bytearray()
        self._total = self._kept = 0
        self._file: io.FileIO | None = None
        self._path = self._trouble = ""

    def take(self, data: bytes) -> None:
        room = max(0, _WINDOW - len(self._head))
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * _WINDOW:
            del self._tail[:-_WINDOW]
        earlier, self._total = self._total, self._total + len(data)
        if self._total > MAX_SHOWN:
            # The first time, what came earlier goes with it: all of that is in the head.
            self._keep(data if earlier > MAX_SHOWN else bytes(self._head[:earlier]) + data)

    def _keep(self, data: bytes) -> None:
        if self._trouble or self._kept >= MAX_KEPT:
            return
        try:
            self._file = self._file or self._open()
            self._kept += self._file.write(data[: MAX_KEPT - self._kept])
        except OSError as e:  # the disk is full, for one: the command is not to blame
            self._trouble = e.strerror or str(e)

    def _open(self) -> io.FileIO:
        os.makedirs(self._spill, mode=0o700, exist_ok=True)
        self._path = os.path.join(self._spill, f"output-{os.urandom(4).hex()}.txt")
        return io.FileIO(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w")

    def close(self) -> str:
        """What is shown of it."""
        if self._file:
            self._file.close()
        tail = bytes(self._tail[-_WINDOW:])
        if len(self._head) + len(tail) < self._total:
            return self._with_gap(plain(bytes(self._head)), plain(tail))
        text = plain(bytes(self._head) + tail)
        if len(text) > MAX_SHOWN:
            return self._with_gap(text, text)
        self._forget_file()
        return text

    def _with_gap(self, head: str, tail: str) -> str:
        head, tail = head[:_PART], tail[-_PART:]
        missing = max(1, self._total - len(head.encode()) - len(tail.encode()))
        return f"{head}\n[… {missing:,} of {self._total:,} bytes left out here; {self._where()} …]\n{tail}"

    def _where(self) -> str:
        if self._kept == self._total:
            return f"all of it is in {self._path}"
        reason = self._trouble or "no more is kept"
        return f"the first {self._kept:,} bytes are in {self._path}: {reason}" if self._kept else f"lost: {reason}"

    def _forget_file(self) -> None:
        if self._path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
