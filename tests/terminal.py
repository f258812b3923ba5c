"""A real terminal of a test's own: tmux on a socket of its own, typed into and read off the screen."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

import pytest
from conftest import TIMEOUT, until

HELD = ("HOME", "GIT_CONFIG_NOSYSTEM", "NO_COLOR")


class Terminal:
    """One window. What runs in it is followed by a line with its exit code."""

    def __init__(self, cwd: Path, columns: int = 100, lines: int = 40):
        if not shutil.which("tmux"):
            pytest.skip("tmux is not installed")
        self._directory = tempfile.mkdtemp(prefix="gitteam-tmux-")
        self._socket = os.path.join(self._directory, "socket")
        size = ("-x", str(columns), "-y", str(lines))
        self._tmux("new-session", "-d", *size, "-c", str(cwd), "exec sleep 600")
        self._cwd = cwd

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, "-f", "/dev/null", *words], capture_output=True, text=True, timeout=TIMEOUT
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, *words: str, **env: str) -> None:
        """Run a program in the window; after it `exit CODE` stands there."""
        known = {key: os.environ[key] for key in HELD if key in os.environ} | {"LC_ALL": "C.UTF-8", **env}
        line = shlex.join(["env", "-u", "COLUMNS", *(f"{key}={value}" for key, value in known.items()), *words])
        script = Path(self._directory, "script")
        script.write_text(f"trap : INT\n{line}\necho exit $?\nexec sleep 600\n")
        self._tmux("respawn-pane", "-k", "-c", str(self._cwd), f"exec sh {script}")

    def type(self, *keys: str) -> None:
        """Press keys by tmux's names of them; other words are typed as they are."""
        self._tmux("send-keys", *keys)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def until(self, text: str) -> str:
        """Wait until it stands on the screen; returns all that stands there."""
        last = ""

        def shown() -> str:
            nonlocal last
            last = self.screen()
            return last if text in last else ""

        try:
            return str(until(shown, f"{text!r} on the screen"))
        except AssertionError as e:
            raise AssertionError(f"{e}; it shows:\n{last}") from None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._tmux("kill-server")
        shutil.rmtree(self._directory)
