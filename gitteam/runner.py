"""Running git: the command line, the environment, and processes that are kept and spoken to.

GitPython supplies the command runner and nothing else: its object and index classes
lose commits under contention and fail on SHA-256 repositories. It is imported at the
first git command, because that import costs more than most reading commands do.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

from gitteam.errors import GitteamError
from gitteam.layout import Layout

if TYPE_CHECKING:
    from git import Git

# Whatever a repository or a parent process configures, no command of ours runs a program for it.
_SAFE = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false",
    "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.pager=cat", "-c", "log.showSignature=false",
)  # fmt: skip
# No prompt, no lock for the person's index, nothing replaced, and nothing fetched for an object that is missing.
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none",
}  # fmt: skip
_KEPT_VARIABLES = re.compile(
    r"GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL)|GIT_CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|GIT_EXEC_PATH|GIT_PYTHON_\w+"
)


class GitFailed(GitteamError):
    """git refused a command; the message is its own last line."""

    kind = "git"


class Runner:
    """Starts git for one repository."""

    def __init__(self, layout: Layout):
        self.layout = layout
        self._gitpython: Git | None = None

    def command(self, *args: str, tree: bool = True, keep: Iterable[str] = ()) -> list[str]:
        """The words to run. A variable like GIT_INDEX_FILE, set by a hook that calls us, must not lead them astray."""
        foreign = [key for key in os.environ if key.startswith("GIT_") and not _KEPT_VARIABLES.fullmatch(key)]
        drop = [word for key in foreign if key not in _ENVIRONMENT and key not in keep for word in ("-u", key)]
        place = [f"--git-dir={self.layout.common}", *([f"--work-tree={self.layout.root}"] if tree else [])]
        return [*(["env", *drop] if drop else []), "git", *place, *_SAFE, *args]

    def start(self, *args: str, tree: bool = True, env: dict[str, str] | None = None) -> Process:
        if self._gitpython is None:
            self._gitpython = _import_gitpython()(self.layout.root)
            self._gitpython.update_environment(**_ENVIRONMENT)
        from git.exc import GitCommandNotFound

        words = self.command(*args, tree=tree, keep=env or ())
        try:
            process: Any = self._gitpython.execute(words, istream=subprocess.PIPE, as_process=True, env=env)
        except GitCommandNotFound:
            raise GitFailed("git is not installed, or not on the PATH") from None
        return Process(process)

    def run(self, *args: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,), **start: Any) -> tuple[int, bytes]:
        """Run one command to its end; a status that is not `ok` raises GitFailed."""
        process = self.start(*args, **start)
        out, err = process.finish(stdin)
        if process.status not in ok:
            lines = err.decode(errors="replace").strip().splitlines()
            raise GitFailed(f"git {args[0]}: {lines[-1] if lines else f'exit status {process.status}'}")
        return process.status, out

    def text(self, *args: str, **start: Any) -> str:
        return os.fsdecode(self.run(*args, **start)[1]).strip("\n")


def _import_gitpython() -> type[Git]:
    """GitPython's command runner. Importing it runs `git version` twice, unless it cannot find git."""
    settings = {"GIT_PYTHON_REFRESH": "quiet", "GIT_PYTHON_GIT_EXECUTABLE": os.devnull}
    before = {key: os.environ.get(key) for key in settings}
    os.environ.update(settings)
    try:
        from git import Git
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
    return Git


class Process:
    """A running git, spoken to line by line."""

    def __init__(self, process: Any):
        self._process = process  # git.Git.AutoInterrupt: ends the process when collected
        self._in: IO[bytes] = process.stdin
        self._out: IO[bytes] = process.stdout

    @property
    def status(self) -> int:
        return int(self._process.proc.returncode)

    def write(self, data: bytes) -> None:
        self._in.write(data)
        self._in.flush()

    def line(self) -> bytes:
        line = self._out.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return line[:-1]

    def read(self, size: int) -> bytes:
        data = self._out.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def lines(self) -> Iterator[bytes]:
        for line in self._out:
            yield line.rstrip(b"\n")

    def finish(self, stdin: bytes) -> tuple[bytes, bytes]:
        out, err = self._process.proc.communicate(stdin)
        return out, err

    def kill(self) -> None:
        if self._process.proc.poll() is None:
            self._process.proc.kill()
            self._process.proc.communicate()
