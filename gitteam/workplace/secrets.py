"""What a member's command may know: an environment without secrets, and no key to be read out of /proc."""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from collections.abc import Mapping

# Names are taken apart at "_": MONKEY_PATCH and TOKENIZERS_PARALLELISM hold no secret, NPM_AUTHTOKEN does.
_SECRET_WORD = re.compile(
    r".*(KEY|TOKEN|AUTH|PRIVATE)S?\d*|.*(SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|OAUTH).*"
    r"|(ASK|PG)?PASS(FILE)?|CREDS?|XAUTHORITY"
)
_HARMLESS_WORDS = {"MONKEY", "DONKEY", "TURKEY", "HOTKEY", "HOTKEYS", "WHISKEY", "HOCKEY"}
# GIT_DIR and the like would aim a command at another repository than the one it runs in.
_DROPPED_PREFIXES = ("ANTHROPIC_", "CLAUDE", "AWS_", "GITTEAM_", "GIT_")
_URL_WITH_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_ADDED = {"GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "PAGER": "cat", "TERM": "dumb"}

_KEY_FD = "GITTEAM_KEY_FD"
_MEMFD = "gitteam-key"
_PR_SET_DUMPABLE = 4

_hidden: dict[str, str] = {}


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a tool's command gets of our environment."""
    return {name: value for name, value in environ.items() if not _is_dropped(name, value)} | _ADDED


def _is_dropped(name: str, value: str) -> bool:
    return name.upper().startswith(_DROPPED_PREFIXES) or is_secret(name) or bool(_URL_WITH_PASSWORD.search(value))


def is_secret(name: str) -> bool:
    """Whether a variable of this name is likely to hold a secret, or a way to one."""
    words = [word for word in re.split(r"[^A-Z0-9]+", name.upper()) if word]
    if len(words) > 1 and "PWD" in words:  # MYSQL_PWD is a password, PWD a directory
        return True
    return any(_SECRET_WORD.fullmatch(word) and word not in _HARMLESS_WORDS for word in words)


def hide_key_from_proc() -> dict[str, str]:
    """Take the model's keys out of our environment, also out of /proc/<pid>/environ, and return them.

    The environment a process was started with stays readable there for as long as it runs, whatever it
    does to its variables. So on Linux the program starts itself once more without the keys, and gets
    them through a file in memory. To be called once, first thing, by the program itself: what has been
    done until then is done again, and other threads end.
    """
    handed_over = _receive()
    found = {name: value for name, value in os.environ.items() if name.startswith("ANTHROPIC_") and is_secret(name)}
    for name in found:
        del os.environ[name]
    if found and not handed_over:
        _start_again(found)
    _hidden.update(found | handed_over)
    if _hidden:
        _forbid_looking_in()
    return dict(_hidden)


def _receive() -> dict[str, str]:
    """What was handed over by the program that has become this one."""
    number = os.environ.pop(_KEY_FD, "")
    if not number.isdecimal() or not _is_ours(int(number)):
        return {}
    with open(int(number), "rb") as f:
        f.seek(0)
        return {str(name): str(value) for name, value in json.loads(f.read()).items()}


def _is_ours(fd: int) -> bool:
    """Whether it is the file in memory: the number may be inherited from somebody whose file is closed long since."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith(f"/memfd:{_MEMFD}")
    except OSError:
        return False


def _start_again(keys: dict[str, str]) -> None:
    """Become the same program without the keys. Returns only where that cannot be done."""
    program = sys.orig_argv[1:]
    if not hasattr(os, "memfd_create") or not sys.executable or program in ([], ["-"]):
        return
    fd = os.memfd_create(_MEMFD)
    os.write(fd, json.dumps(keys).encode())
    os.set_inheritable(fd, True)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        # The full path comes first: Python finds its virtual environment by it.
        os.execve(sys.executable, [sys.executable, *program], {**os.environ, _KEY_FD: str(fd)})
    except OSError:  # the interpreter is gone: the key is out of our variables at least
        os.close(fd)


def _forbid_looking_in() -> None:
    """Let no process of the same user read our memory, our open files or a core dump."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
