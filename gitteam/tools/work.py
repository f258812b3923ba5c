"""Tools that act on the work tree."""

from __future__ import annotations

from gitteam.agents.desk import Desk
from gitteam.agents.envelope import OUTPUT, envelope
from gitteam.tools import Tool


def _bash(desk: Desk, command: str, timeout: float = 120) -> str:
    return envelope(OUTPUT, desk.workplace.run(command, timeout, desk.stop), of="bash")


def _read_file(desk: Desk, path: str, offset: int = 1, limit: int = 2000) -> str:
    return envelope(OUTPUT, desk.workplace.read(path, offset, limit), of=path)


def _write_file(desk: Desk, path: str, content: str) -> str:
    return desk.workplace.write(path, content)


def _edit_file(desk: Desk, path: str, old_text: str, new_text: str) -> str:
    return envelope(OUTPUT, desk.workplace.edit(path, old_text, new_text), of=path)


TOOLS = [
    Tool(
        "bash",
        "Run a command in the work tree. Nothing goes on running after it returns.",
        {"command": ("string", ""), "timeout": ("number?", "seconds; 120 if not given, 600 at most")},
        _bash,
    ),
    Tool(
        "read_file",
        "Read a file's lines, numbered, or list a directory.",
        {
            "path": ("string", ""),
            "offset": ("integer?", "first line, from 1"),
            "limit": ("integer?", "how many lines; 2000 if not given"),
        },
        _read_file,
        is_safe=True,
        before_approval=True,
    ),
    Tool(
        "write_file",
        "Write a whole file. One that exists must have been read first.",
        {"path": ("string", ""), "content": ("string", "")},
        _write_file,
    ),
    Tool(
        "edit_file",
        "Replace a passage that occurs exactly once in a file you have read.",
        {"path": ("string", ""), "old_text": ("string", ""), "new_text": ("string", "")},
        _edit_file,
    ),
]
