"""What every command of a member is run with: a shell, and an environment without secrets."""

from __future__ import annotations

import os
import shutil

from gitteam.errors import ToolFailed
from gitteam.workplace.editing import encode
from gitteam.workplace.secrets import clean_environment

MAX_COMMAND = 128_000  # bytes; the system takes hardly more in one argument


def check_command(text: str) -> bytes:
    """A command as the shell gets it, or ToolFailed with what is wrong with it."""
    data = encode(text)
    if not data.strip():
        raise ToolFailed("the command is empty")
    if b"\0" in data:
        raise ToolFailed("the command has a NUL character")
    if len(data) > MAX_COMMAND:
        raise ToolFailed(f"the command has {len(data):,} bytes, too many: write them to a file and run that")
    return data


def find_shell() -> str:
    shell = shutil.which("bash") or shutil.which("sh")
    if not shell:
        raise ToolFailed("there is no shell on this machine: neither bash nor sh is in PATH")
    return shell


def environment(root: str) -> dict[str, str]:
    """The variables a command gets that runs in `root`."""
    return {**clean_environment(os.environ), "PWD": root}
