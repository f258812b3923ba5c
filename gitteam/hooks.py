"""Users' hooks: commands of theirs that are asked when something happens, and may refuse it.

They come from `.team/config.json`, which others can write and one can clone. So they run only after the person
on this machine has seen and allowed them: as they are, for a changed hook is another one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gitteam.errors import BadInput, ToolFailed
from gitteam.layout import CONFIG, Layout
from gitteam.render import visible
from gitteam.workplace.files import telling
from gitteam.workplace.output import Window
from gitteam.workplace.processes import LIMIT, Files, Outcome, run_command
from gitteam.workplace.shell import check_command, environment, find_shell

EVENTS = ("TaskCompleted", "TaskCreated", "TeammateIdle")
DEFAULT_SECONDS, MAX_SECONDS = 60.0, 600.0
REFUSES = 2  # the exit code
MAX_FEEDBACK = 4000  # characters
_REMARK = 100  # of those, for what is said about the part left out
_ALLOWED = "hooks-allowed"


@dataclass(frozen=True)
class Hook:
    command: str
    timeout: float = DEFAULT_SECONDS


Hooks = dict[str, list[Hook]]
Warn = Callable[[str], None]


# -- as they are configured


def parse(settings: Mapping[str, Any]) -> Hooks:
    """The hooks that the settings hold by event, or BadInput with what is wrong."""
    events = settings.get("hooks", {})
    if not isinstance(events, dict):
        raise _wrong("hooks", f'an object like {{"{EVENTS[0]}": [{{"command": "make test"}}]}}')
    for event in events:
        if event not in EVENTS:
            raise BadInput(f"{CONFIG}: settings: hooks: there is no event {event!r}: use {', '.join(EVENTS)}")
    return {event: _parse_list(f"hooks: {event}", listed) for event, listed in events.items()}


def _parse_list(where: str, listed: Any) -> list[Hook]:
    if not isinstance(listed, list):
        raise _wrong(where, 'a list like [{"command": "make test", "timeout": 60}]')
    return [_parse_hook(f"{where}: number {number}", values) for number, values in enumerate(listed, 1)]


def _parse_hook(where: str, values: Any) -> Hook:
    if not isinstance(values, dict) or not isinstance(values.get("command"), str):
        raise _wrong(where, 'an object with a text "command"')
    if unknown := sorted(set(values) - {"command", "timeout"}):
        raise _wrong(where, f'an object with "command" and "timeout", and without {unknown[0]!r}')
    timeout = values.get("timeout", DEFAULT_SECONDS)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= MAX_SECONDS:
        raise _wrong(f"{where}: timeout", f"a number of seconds above 0, {MAX_SECONDS:g} at most")
    try:
        check_command(values["command"])
    except ToolFailed as e:
        raise BadInput(f"{CONFIG}: settings: {where}: {e}") from None
    return Hook(values["command"], float(timeout))


def _wrong(where: str, wanted: str) -> BadInput:
    return BadInput(f"{CONFIG}: settings: {where} is {wanted}")


# -- whether they may run here


def describe(hooks: Hooks) -> list[str]:
    """What a person is shown before allowing them: all of every command, and nothing hidden in it."""
    return [f"{event}: {_line(hook.command)} (at most {hook.timeout:g} s)" for event in hooks for hook in hooks[event]]


def allowed(place: Layout, hooks: Hooks) -> bool:
    """Whether this user has allowed these very hooks in this repository. No hooks need no leave."""
    return not any(hooks.values()) or _read_mine(_file(place)) == _digest(hooks).encode()


def allow(place: Layout, hooks: Hooks) -> None:
    """Let these hooks run here from now on, and no others."""
    os.makedirs(place.state, exist_ok=True)
    temporary = f"{_file(place)}-{os.urandom(4).hex()}"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as f:
            f.write(_digest(hooks))
        os.rename(temporary, _file(place))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _file(place: Layout) -> str:
    return os.path.join(place.state, _ALLOWED)


def _digest(hooks: Hooks) -> str:
    values = {event: [[hook.command, hook.timeout] for hook in listed] for event, listed in hooks.items() if listed}
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _read_mine(path: str) -> bytes:
    """A file that only this user can have written; nothing where it is another's."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        found = os.fstat(fd)
        mine = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
        return os.read(fd, 1000) if mine else b""
    finally:
        os.close(fd)


# -- running them


def run(
    hooks: Hooks, event: str, payload: Mapping[str, Any], root: str, warn: Warn, stop: threading.Event | None = None
) -> str:
    """Ask the hooks of an event one after the other. The first that refuses decides: what it says is returned.

    "" means that nothing objects. A hook that fails in any other way, or takes too long, is warned of and passed
    over. When this returns, none of their processes is left.
    """
    stop = stop or threading.Event()
    message = json.dumps({**payload, "event": event}).encode() + b"\n"
    for hook in hooks.get(event, []):
        if stop.is_set():
            break
        errors = Window(MAX_FEEDBACK - _REMARK)
        try:
            outcome = _run_one(hook, message, os.path.realpath(root), errors, stop)
        except ToolFailed as e:
            warn(_warning(event, hook, str(e)))
            continue
        said = errors.text(lambda: "").strip()
        if outcome.code == REFUSES:
            return said or f"the hook `{_line(hook.command)[:200]}` refuses this, and does not say why"
        if trouble := _trouble(outcome, hook):
            warn(_warning(event, hook, f"{trouble}: {said.splitlines()[-1]}" if said else trouble))
    return ""


def _run_one(hook: Hook, message: bytes, root: str, errors: Window, stop: threading.Event) -> Outcome:
    command = check_command(hook.command)
    # A file and not a pipe: a hook that does not read it keeps nobody waiting.
    with telling("run a hook in", root), tempfile.TemporaryFile() as stdin:
        stdin.write(message)
        stdin.seek(0)
        files = Files(stdin.fileno(), subprocess.DEVNULL)
        return run_command(command, find_shell(), root, environment(root), errors.take, hook.timeout, stop, files)


def _trouble(outcome: Outcome, hook: Hook) -> str:
    if outcome.stopped == LIMIT:
        return f"it was ended after {hook.timeout:g} s"
    if outcome.stopped:
        return f"it was ended: {outcome.stopped}"
    if outcome.exit_code is None:
        return "it was ended from outside"
    return f"it ended with exit code {outcome.exit_code}" if outcome.exit_code else ""


def _warning(event: str, hook: Hook, trouble: str) -> str:
    return f"the hook `{_line(hook.command)[:200]}` for {event} is passed over: {_line(trouble)[:500]}"


def _line(text: str) -> str:
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")
