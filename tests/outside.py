"""People and programs beside gitteam, each in a process of its own: `python outside.py WHAT ARGUMENTS`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gitteam import Team
from gitteam.errors import Conflict

INBOX = ".team/inbox/alice.jsonl"


def _line(content: str) -> str:
    return json.dumps({"content": content}) + "\n"


def append(root: str, prefix: str, count: str) -> None:
    """Open, append, close, as `>>` does; synced, so that there is time for others in between."""
    for number in range(int(count)):
        with open(f"{root}/{INBOX}", "a") as f:
            f.write(_line(f"{prefix}-{number}"))
            f.flush()
            os.fsync(f.fileno())


def append_halves(root: str, prefix: str, count: str) -> None:
    """Every line in two writes, the file kept open for a few lines at a time."""
    for start in range(0, int(count), 5):
        with open(f"{root}/{INBOX}", "ab", buffering=0) as f:
            for number in range(start, min(start + 5, int(count))):
                line = _line(f"{prefix}-{number}").encode()
                for part in (line[: len(line) // 2], line[len(line) // 2 :]):
                    f.write(part)
                    os.fsync(f.fileno())


def append_on_command(root: str) -> None:
    """Append each part that is read from standard input, the file open all the time; answer when it is written."""
    with open(f"{root}/{INBOX}", "ab", buffering=0) as f:
        print("open", flush=True)
        for part in sys.stdin:
            f.write(json.loads(part).encode())
            print("written", flush=True)


def send(root: str, prefix: str, count: str) -> None:
    with Team(root) as team:
        for number in range(int(count)):
            team.send("alice", f"{prefix}-{number}", by="bob")


def take(root: str, out: str, stop: str) -> None:
    """Take what comes, note it, until told to stop."""
    with Team(root) as team, open(out, "a") as f:
        while True:
            ending = os.path.exists(stop)
            with team.take("alice") as messages:
                f.writelines(json.dumps(m.content) + "\n" for m in messages)
                f.flush()
            if ending:
                return


def work(root: str, acknowledged: str, stop: str) -> None:
    """Claim, note and release task 1 over and over; write down what was acknowledged."""
    with Team(root) as team, open(acknowledged, "a") as f:
        for number in range(1_000_000):
            for what, operation in _round(team, number):
                _insist(operation)
                f.write(what + "\n")
                f.flush()
            if os.path.exists(stop):
                return


def _round(team: Team, number: int) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "claim", lambda: team.claim(1, by="alice")
    yield f"note note-{number}-end", lambda: team.note(1, f"note-{number}-end", by="alice")
    yield "release", lambda: team.release(1, by="alice")


def _insist(operation: Callable[[], object]) -> None:
    """While the file is half saved or gone for a moment, a claim is refused: try again."""
    while True:
        try:
            operation()
            return
        except Conflict as e:
            if "cannot be read" not in str(e) and "missing" not in str(e):
                raise


def edit(path: str, style: str, count: str, acknowledged: str) -> None:
    """Load the file, change a line, save it in an editor's way; again whenever the other process has got on."""
    for number in range(1, int(count) + 1):
        before = os.path.getsize(acknowledged)
        text = _load(Path(path))
        changed, hits = re.subn(r"^edit: \d+$", f"edit: {number}", text, flags=re.MULTILINE)
        assert hits == 1, f"a person found this in the file: {text!r}"
        STYLES[style](Path(path), changed)
        deadline = time.monotonic() + 60
        while os.path.getsize(acknowledged) == before:
            assert time.monotonic() < deadline, "the other process does not get on"
            time.sleep(0.0005)


def _load(path: Path) -> str:
    while True:
        try:
            return path.read_text()
        except FileNotFoundError:  # being replaced
            continue


def in_place(path: Path, text: str) -> None:
    with open(path, "r+") as f:
        f.write(text)
        f.truncate()


def truncating(path: Path, text: str) -> None:
    path.write_text(text)


def in_two_writes(path: Path, text: str) -> None:
    with open(path, "w") as f:
        f.write(text[: len(text) // 2])
        f.flush()
        os.fsync(f.fileno())
        f.write(text[len(text) // 2 :])


def temp_and_rename(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    os.rename(temporary, path)


def backup_and_rename(path: Path, text: str) -> None:
    swapfile = path.with_name(f".{path.name}.swp")
    swapfile.write_bytes(b"b0VIM 9.0")
    with contextlib.suppress(FileNotFoundError):  # being replaced; vim writes its text all the same
        os.rename(path, f"{path}~")
    with open(path, "w") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    Path(f"{path}~").unlink(missing_ok=True)
    swapfile.unlink()


STYLES = {
    f.__name__: f for f in (in_place, truncating, in_two_writes, temp_and_rename, backup_and_rename)
}  # fmt: skip


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
