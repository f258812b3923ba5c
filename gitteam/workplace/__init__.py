"""Where and how a member's commands run and its files are read and written."""

from __future__ import annotations

import os
import stat
import threading

from gitteam.errors import ToolFailed
from gitteam.workplace import files, reading
from gitteam.workplace.editing import edited, encode
from gitteam.workplace.files import Fingerprint, Place, telling
from gitteam.workplace.output import Output
from gitteam.workplace.processes import LIMIT, STOPPING, Outcome, run_command
from gitteam.workplace.shell import check_command, environment, find_shell

__all__ = ["DEFAULT_SECONDS", "MAX_SECONDS", "Workplace"]

DEFAULT_SECONDS, MAX_SECONDS = 120.0, 600.0


class Workplace:
    """One member's place in a work tree. It remembers which files this member has read, and how they were.

    Every method returns a text for the model, or raises ToolFailed with a sentence for it.
    `spill` is a directory for outputs too long to show; the member may read there as well.
    """

    def __init__(self, root: str, spill: str):
        self.root = os.path.realpath(root)
        self.spill = os.path.abspath(spill)
        self._seen: dict[Place, Fingerprint] = {}

    # -- commands

    def environment(self) -> dict[str, str]:
        """The variables a command gets."""
        return environment(self.root)

    def run(self, command: str, timeout: float = DEFAULT_SECONDS, stop: threading.Event | None = None) -> str:
        """Run a shell command; when this returns, none of its processes is left."""
        if not timeout > 0:
            raise ToolFailed("the timeout must be more than 0 seconds")
        data = check_command(command)
        timeout, stop = min(timeout, MAX_SECONDS), stop or threading.Event()
        if stop.is_set():
            return f"[stopped: {STOPPING}]"
        output = Output(self.spill)
        try:
            with telling("run a command in", self.root):
                outcome = run_command(data, find_shell(), self.root, self.environment(), output.take, timeout, stop)
        finally:
            text = output.close()
        remarks = _remarks(outcome, timeout)
        if text and remarks and not text.endswith("\n"):
            text += "\n"
        return text + "\n".join(remarks)

    # -- files

    def read(self, path: str, offset: int = 1, limit: int = 2000) -> str:
        """The lines of a file, numbered, or the names in a directory."""
        if offset < 1 or limit < 1:
            raise ToolFailed("offset and limit count lines from 1")
        place = files.resolve(self.root, path, also=self.spill)
        self._seen.pop(_key(place), None)
        with telling("read", path), place.opened() as fd:
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                return reading.show_directory(fd)
            seen = files.fingerprint(fd)  # first: what is written while it is shown counts as a change
            os.lseek(fd, 0, os.SEEK_SET)
            text = reading.show_file(fd, path, offset, limit)
        self._seen[_key(place)] = seen
        return text

    def write(self, path: str, content: str) -> str:
        """Make a file, or replace one that this member has read and nobody has changed since."""
        data, place = encode(content), self._file(path)
        with telling("write", path), place.parent(create=True) as directory, files.locked(directory, path):
            mode = self._check_unchanged(place)
            files.replace(directory, place.name, data, mode)
            self._remember(place, data)
        count = len(content.splitlines())
        return f"wrote {count:,} line{'s' * (count != 1)} to {path}"

    def edit(self, path: str, old_text: str, new_text: str) -> str:
        """Replace one passage of a file that this member has read and nobody has changed since."""
        place = self._file(path)
        with telling("edit", path), place.parent() as directory, files.locked(directory, path):
            mode = self._check_unchanged(place)
            with place.opened() as fd:
                data, shown = edited(files.read_whole(fd, path), path, old_text, new_text)
            files.replace(directory, place.name, data, mode)
            self._remember(place, data)
        return f"edited {path}:\n{shown}"

    def _file(self, path: str) -> Place:
        place = files.resolve(self.root, path)
        if not place.names or path.endswith("/"):
            raise ToolFailed(f"{path} is a directory")
        return place

    def _remember(self, place: Place, data: bytes) -> None:
        """What was written is known as if it had been read."""
        if len(data) <= files.MAX_WHOLE:
            self._seen[_key(place)] = files.digest(data)
            return
        with place.opened() as fd:
            self._seen[_key(place)] = files.fingerprint(fd)

    def _check_unchanged(self, place: Place) -> int | None:
        """The mode of the file as it is, None if there is none; refused unless it is as this member knows it."""
        seen = self._seen.get(_key(place))
        try:
            with place.opened() as fd:
                mode = os.fstat(fd).st_mode
                if stat.S_ISDIR(mode):
                    raise ToolFailed(f"{place.asked} is a directory")
                now = files.fingerprint(fd)
        except FileNotFoundError:
            if seen:
                raise ToolFailed(f"somebody removed {place.asked} since you read it: read it again") from None
            return None
        if seen is None:
            raise ToolFailed(f"{place.asked} exists already, and you have not read it: read it first")
        if seen != now:
            raise ToolFailed(f"somebody changed {place.asked} since you read it: read it again")
        if not mode & 0o222:
            raise ToolFailed(f"{place.asked} is read-only")
        return mode


def _key(place: Place) -> Place:
    """A file by where it is, however it was asked for."""
    return Place(place.base, place.names, "")


def _remarks(outcome: Outcome, timeout: float) -> list[str]:
    remarks = [f"[{remark}]" for remark in outcome.leftovers]
    if outcome.stopped == LIMIT:
        remarks.append(f"[stopped after {timeout:g} s: {LIMIT}]")
    elif outcome.stopped:
        remarks.append(f"[stopped: {outcome.stopped}]")
    elif outcome.exit_code is None:
        remarks.append("[stopped: its processes were ended from outside]")
    elif outcome.exit_code:
        remarks.append(f"[exit code {outcome.exit_code}]")
    return remarks
