"""A file that cannot be read has a defined result: named with place and reason, left alone, stopping nobody."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run, check_everything, git

from gitteam import Team
from gitteam.board import Board
from gitteam.doctor import examine
from gitteam.errors import Conflict
from gitteam.render import visible
from gitteam.tree import Disk, Overlay

Make = Callable[[Path], object]

GOOD = "---\nsubject: Mended\n---\n"
BOMB = "---\na: &a [x, x]\n" + "".join(f"{c}: &{c} [*a, *a, *a, *a]\n" for c in "bcdefghi") + "subject: x\n---\n"


def lines(*head: str, body: str = "") -> str:
    """A task whose front matter has these lines after a good subject on line 2."""
    return "\n".join(["---", "subject: Something", *head, "---", body])


# Text, the line that is wrong (0: the file as a whole), and what is said about it.
TEXTS: dict[str, tuple[str | bytes, int, str]] = {
    "empty": ("", 0, "no subject"),
    "blank": (" \n\t\n\n", 0, "no subject"),
    "no subject": ("---\nstatus: pending\n---\n", 0, "no subject"),
    "empty subject": ('---\nsubject: ""\n---\n', 0, "no subject"),
    "long subject": ("x" * 501, 0, "longer than 500"),
    "not closed": ("---\nsubject: x\n", 1, "not closed"),
    "closed with dots": ("---\nsubject: x\n...\n", 1, "not closed"),
    "no colon": (lines("just words"), 3, "key: value"),
    "no space after colon": (lines("status:pending"), 3, "key: value"),
    "colon in value": (lines("note: fix: it"), 3, "quotes"),
    "indented": (lines("meta:", "  a: b"), 4, "key: value"),
    "tab indented": (lines("meta:", "\ta: b"), 4, "key: value|tab"),
    "key twice": (lines("subject: Else"), 3, "twice"),
    "item without key": ("---\n- 1\nsubject: x\n---\n", 2, "belongs to no key"),
    "item under value": (lines("status: pending", "- 1"), 4, "belongs to no key"),
    "unknown status": (lines("status: almost"), 3, "none of pending, in_progress"),
    "capital status": (lines("status: Pending"), 3, "none of"),
    "boolean status": (lines("status: yes"), 3, "none of"),
    "list as status": (lines("status: [pending]"), 3, "not a list"),
    "in progress by nobody": (lines("status: in_progress"), 3, "owner"),
    "owner no name": (lines("owner: Alice Smith"), 3, "not a name"),
    "owner a path": (lines("owner: ../../etc/passwd"), 3, "not a name"),
    "owner a list": (lines("owner: [alice, bob]"), 3, "not a list"),
    "role no name": (lines("role: Back End"), 3, "not a name"),
    "priority a word": (lines("priority: high"), 3, "whole number"),
    "priority a fraction": (lines("priority: 1.5"), 3, "whole number"),
    "priority octal": (lines("priority: 010"), 3, "whole number"),
    "priority quoted": (lines('priority: "1"'), 3, "whole number"),
    "priority endless": (lines("priority: " + "9" * 400), 3, "whole number"),
    "claim negative": (lines("claim: -1"), 3, "negative"),
    "attempts negative": (lines("attempts: -1"), 3, "negative"),
    "blockers words": (lines("blockedBy: [one]"), 3, "task numbers"),
    "blockers a word": (lines("blockedBy: one"), 3, "task numbers"),
    "blocker zero": (lines("blockedBy: [0]"), 3, "from 1"),
    "blockers not closed": (lines("blockedBy: [1, 2"), 3, "not closed"),
    "blockers over lines": (lines("blockedBy: [1,", "  2]"), 3, "not closed"),
    "blockers nested": (lines("blockedBy: [[1], 2]"), 3, "cannot read the list"),
    "blockers a hole": (lines("blockedBy: [1,, 2]"), 3, "cannot read the list"),
    "block list of words": (lines("blockedBy:", "- 1", "- two"), 3, "task numbers"),
    "flow map": (lines("meta: {a: b}"), 3, "quotes"),
    "anchor": (lines("meta: &a x"), 3, "quotes"),
    "alias": (lines("meta: *a"), 3, "quotes"),
    "merge key": (lines("<<: *a"), 3, "key: value"),
    "tag": (lines('meta: !!python/object/apply:os.system ["touch pwned"]'), 3, "quotes"),
    "block scalar": (lines("meta: |", "  words"), 3, "quotes"),
    "folded scalar": (lines("meta: >-", "  words"), 3, "quotes"),
    "directive": (lines("meta: %YAML 1.2"), 3, "quotes"),
    "reserved": (lines("meta: @x"), 3, "quotes"),
    "quote not closed": (lines('meta: "words'), 3, "not closed"),
    "single quote not closed": (lines("meta: 'words"), 3, "not closed"),
    "words after quote": (lines('meta: "a" b'), 3, "quote"),
    "escape unknown to JSON": (lines(r'meta: "\x41"'), 3, "JSON"),
    "half a character": (lines(r'meta: "\ud83d"'), 3, "cannot read"),
    "control character": (lines("meta: a\x1b[31mb"), 3, "control character"),
    "next line": (lines("meta: a\x85b"), 3, "control character"),
    "line separator": (lines("meta: a\u2028b"), 3, "control character"),
    "second byte order mark": (lines("meta: \ufeffb"), 3, "control character"),
    "bomb": (BOMB, 2, "quotes"),
    "deep list": (lines("meta: " + "[" * 100_000), 3, "not closed"),
    "UTF-16": (GOOD.encode("utf-16"), 0, "UTF-16"),
    "UTF-16 big endian": (b"\xfe\xff" + GOOD.encode("utf-16-be"), 0, "UTF-16"),
    "UTF-16 without mark": (GOOD.encode("utf-16-le"), 1, "NUL"),
    "UTF-32": (GOOD.encode("utf-32"), 0, "UTF-16"),
    "Latin-1": (lines(body="café").encode("latin-1"), 4, "not UTF-8"),
    "cut in a character": (lines(body="café").encode()[:-1], 4, "not UTF-8"),
    "overlong": (lines(body="").encode() + b"\xc0\xaf", 4, "not UTF-8"),
    "NUL": (lines(body="a\n\0b"), 5, "NUL"),
    "ten megabytes": (b"Words\n" + b"x" * 10_000_000, 0, "larger than 1 MiB"),
    "a hundred megabytes": (b"", 0, "larger than"),
    "binary": (bytes(range(1, 256)), 2, "not UTF-8"),
}  # fmt: skip


def _sparse(path: Path) -> None:
    with open(path, "wb") as f:
        f.truncate(100_000_000)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as s, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)  # a socket's whole path has to be short
        s.bind(path.name)


def _unreadable(path: Path) -> None:
    path.write_text(GOOD)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("whoever runs this may read everything")


SPECIAL: dict[str, tuple[Make, str]] = {
    "link": (lambda p: p.symlink_to(p.parent.parent / "README.md"), "link|regular"),
    "link to nothing": (lambda p: p.symlink_to("nowhere"), "link|regular"),
    "link to itself": (lambda p: p.symlink_to(p.name), "link|regular"),
    "link to a device": (lambda p: p.symlink_to("/dev/zero"), "link|regular"),
    "FIFO": (os.mkfifo, "regular"),
    "socket": (_socket, "regular|device"),
    "directory": (os.mkdir, "directory|regular"),
    "full directory": (lambda p: (p / "inner").mkdir(parents=True), "directory|regular"),
    "no permission": (_unreadable, "permission"),
}


def _writer(data: str | bytes) -> Make:
    return lambda path: path.write_bytes(data.encode() if isinstance(data, str) else data)


BAD: dict[str, tuple[Make, int, str]] = {
    **{name: (_writer(data), line, reason) for name, (data, line, reason) in TEXTS.items()},
    **{name: (make, 0, reason) for name, (make, reason) in SPECIAL.items()},
    "a hundred megabytes": (_sparse, 0, "larger than"),
}


def picture(path: Path) -> tuple[object, ...]:
    """All there is to a file, so that "left as it is" can be checked."""
    found = path.lstat()
    data: object = None
    if stat.S_ISREG(found.st_mode):
        data = path.read_bytes() if os.access(path, os.R_OK) else None
    elif stat.S_ISLNK(found.st_mode):
        data = os.readlink(path)
    elif stat.S_ISDIR(found.st_mode):
        data = sorted(os.listdir(path))
    return found.st_mode, found.st_ino, found.st_mtime_ns, data


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            inner.rmdir()
        path.rmdir()
    else:
        path.unlink()


def tasks_dir(team: Team) -> Path:
    return Path(team.place.root) / ".tasks"


def assert_named(said: str, line: int, reasons: str) -> None:
    assert said.startswith(f"line {line}: ") if line else not said.startswith("line "), said
    assert any(reason in said for reason in reasons.split("|")), said
    assert len(said) < 300


def assert_work_goes_on(team: Team) -> None:
    other = team.add("Other")
    assert team.claim(by="bob").id == other.id
    assert team.done(other.id, by="bob").status == "completed"
    team.send("alice", "hello")


@pytest.mark.parametrize("case", BAD)
def test_new_file_that_cannot_be_read(team: Team, case: str) -> None:
    make, line, reason = BAD[case]
    path = tasks_dir(team) / "new.md"
    make(path)
    before = picture(path)
    assert_named(team.status().unreadable[".tasks/new.md"], line, reason)
    assert_work_goes_on(team)
    assert picture(path) == before
    remove(path)
    path.write_text(GOOD)
    assert [(t.id, t.subject) for t in team.tasks()] == [(1, "Other"), (2, "Mended")]
    assert team.status().unreadable == {}


def test_tasks_that_cannot_be_read_any_more_keep_their_last_good_state(team: Team) -> None:
    """Every case, on one board."""
    cases = {name: case for name, case in BAD.items() if case[0] is not _unreadable}
    for name in cases:
        (tasks_dir(team) / f"{name}.md").write_text(f"{name} was good\n")
    paths = {task.subject.removesuffix(" was good"): Path(team.place.root) / task.path for task in team.tasks()}
    for name, (make, _, _) in cases.items():
        paths[name].unlink()
        make(paths[name])
    before = {name: picture(path) for name, path in paths.items()}
    board = {task.subject.removesuffix(" was good"): task for task in team.tasks()}
    assert board.keys() == cases.keys()
    for name, (_, line, reasons) in cases.items():
        assert (board[name].status, board[name].ready) == ("pending", False), name
        assert_named(board[name].reason.removeprefix("its file cannot be read: "), line, reasons)
        with pytest.raises(Conflict, match="cannot be read"):
            team.claim(board[name].id, by="alice")
    assert_work_goes_on(team)
    assert {name: picture(path) for name, path in paths.items()} == before
    for path in paths.values():
        remove(path)
        path.write_text(GOOD)
    assert {(task.subject, task.ready) for task in team.tasks() if task.status == "pending"} == {("Mended", True)}
    assert team.status().unreadable == {}
    check_everything(team)


def test_all_of_them_together_are_named_and_stop_nobody(team: Team, run: Run) -> None:
    """Each on one line of `status` and `doctor`, with its place and reason, and in JSON."""
    cases = {f".tasks/new-{n}.md": (make, line, reason) for n, (make, line, reason) in enumerate(BAD.values())}
    for path, (make, _, _) in cases.items():
        if make is not _unreadable:
            make(Path(team.place.root) / path)
    found = {u["path"]: u["reason"] for u in run("status", "--json").json["unreadable"]}
    assert found.keys() == {path for path, (make, _, _) in cases.items() if make is not _unreadable}
    assert len(found) >= 50
    shown = {command: run(command).out.splitlines() for command in ("status", "doctor")}
    for path, said in found.items():
        assert_named(said, *cases[path][1:])
        for rows in shown.values():
            [row] = [row for row in rows if f"{path}: " in row]
            assert visible(said) in row
    assert_work_goes_on(team)


def test_new_file_with_a_claim_that_cannot_be(team: Team) -> None:
    path = tasks_dir(team) / "new.md"
    path.write_text(lines("status: in_progress", "owner: zed"))
    assert "nobody on the team is called zed" in team.status().unreadable[".tasks/new.md"]
    assert_work_goes_on(team)
    team.add_member("zed")
    assert team.task(2).owner == "zed"


@pytest.mark.parametrize(
    "line", ["subject: a{}b", 'subject: x\nblockedBy: [a{}b"]', "{}x: y", "subject: 'a'{}b", "subject: x\n-{}x"]
)
def test_long_line_of_spaces_is_read_at_once(team: Team, run: Run, line: str) -> None:
    """Within the limit of size nothing may cost more than its length; `run` gives up after a minute."""
    (tasks_dir(team) / "new.md").write_text(f"---\n{line.format(' ' * 1_000_000)}\n---\n")
    assert run("status", "--json").json["unreadable"][0]["path"] == ".tasks/new.md"


def test_file_with_a_number_that_is_taken(team: Team, run: Run) -> None:
    team.add("One")
    copy = tasks_dir(team) / "1-copy.md"
    copy.write_text("Another task\n")
    before = picture(copy)
    assert "belongs to .tasks/1-one.md" in team.status().unreadable[".tasks/1-copy.md"]
    assert "1-copy.md" in run("doctor").out
    assert team.claim(1, by="alice").subject == "One"
    assert picture(copy) == before
    os.rename(copy, tasks_dir(team) / "copy.md")
    assert [(t.id, t.subject) for t in team.tasks()] == [(1, "One"), (2, "Another task")]
    assert team.status().unreadable == {}


def test_two_new_files_with_one_number(team: Team) -> None:
    (tasks_dir(team) / "1-a.md").write_text("First\n")
    (tasks_dir(team) / "1-b.md").write_text("Second\n")
    [task] = team.tasks()
    [(bad, reason)] = team.status().unreadable.items()
    assert {task.path, bad} == {".tasks/1-a.md", ".tasks/1-b.md"}
    assert f"belongs to {task.path}" in reason


def test_name_that_is_too_long(team: Team) -> None:
    path = tasks_dir(team) / ("x" * 252 + ".md")
    path.write_text(GOOD)
    reason = team.status().unreadable[f".tasks/{path.name}"]
    assert "longer" in reason
    assert path.exists()
    os.rename(path, tasks_dir(team) / "short.md")
    assert team.task(1).subject == "Mended"


def test_bad_file_that_is_removed_is_forgotten(team: Team) -> None:
    path = tasks_dir(team) / "new.md"
    path.write_text("---\n")
    assert team.status().unreadable
    path.unlink()
    assert team.status().unreadable == {}
    assert examine(team, repair=False) == []


def test_bad_file_is_not_complained_about_in_the_diary(team: Team) -> None:
    path = Path(team.place.root) / team.add("One").path
    before = git(team.place.root, "rev-parse", "gitteam")
    path.write_text("---\n")
    team.status()
    team.board()
    assert git(team.place.root, "rev-parse", "gitteam") == before


def test_holder_of_a_task_whose_file_is_bad_can_finish_it(team: Team) -> None:
    path = Path(team.place.root) / team.add("One", "Some words").path
    team.claim(1, by="alice")
    good = path.read_text()
    bad = good.replace("status: in_progress", "status: nearly there")
    path.write_text(bad)
    assert team.done(1, "a note", by="alice").status == "completed"
    assert path.read_text() == bad
    path.write_text(good.replace("Some words", "Better words"))
    task = team.task(1)
    assert (task.status, task.description) == ("completed", "Better words")
    assert "a note" in task.notes
    check_everything(team)


COERCED = (
    "no yes on off true null ~ 0123 0x1F 0o17 1_000 1e3 .inf 12:30 12:30:45 2026-11-18 2026-11-18T12:00:00Z 1.0 << y"
)


@pytest.mark.parametrize("value", COERCED.split())
def test_value_that_yaml_tools_turn_into_something_else_is_a_text(team: Team, value: str) -> None:
    (tasks_dir(team) / "new.md").write_text(f"---\nsubject: {value}\nmeta: {value}\n---\n")
    assert team.task(1).subject == value
    assert team.claim(1, by="alice").subject == value
    assert f"\nmeta: {value}\n" in (tasks_dir(team) / "1-new.md").read_text()


# -- tasks that wait for what will never come ---------------------------------------------------------------


def block_by_hand(team: Team, number: int, *blockers: int) -> None:
    path = Path(team.place.root) / team.task(number).path
    path.write_text(path.read_text().replace("blockedBy: []", f"blockedBy: {list(blockers)}"))


@pytest.mark.parametrize("length", [1, 2, 3])
def test_circle_is_shown_and_the_others_go_on(team: Team, run: Run, length: int) -> None:
    for number in range(1, length + 2):
        team.add(f"Task {number}")
    for number in range(1, length + 1):
        block_by_hand(team, number, number % length + 1)
    reason = team.task(1).reason
    assert "circle" in reason
    assert all(f"#{number}" in reason for number in range(1, length + 1))
    assert reason in run("status").out
    assert team.claim(by="alice").id == length + 1
    path = Path(team.place.root) / team.task(length).path
    path.write_text(path.read_text().replace("blockedBy: [1]", "blockedBy: []"))
    assert team.task(length).ready


class Nowhere(Disk):
    """No files at all: what is put over it is everything there is."""

    def names(self, directory: str) -> list[str]:
        return []

    def directories(self, directory: str) -> list[str]:
        return []


def board_of(blockers: dict[int, list[int]], tmp_path: Path) -> Board:
    files = Overlay(Nowhere(str(tmp_path)))
    for number, by in blockers.items():
        files.write(f".tasks/{number}-x.md", f"---\nsubject: x\nblockedBy: {by}\n---\n".encode())
    return Board(files)


def test_circle_of_five_thousand_is_found(tmp_path: Path) -> None:
    board = board_of({n: [n % 5000 + 1] for n in range(1, 5001)}, tmp_path)
    reasons = [task.reason for task in board.all()]
    assert all("circle" in reason for reason in reasons)
    assert max(map(len, reasons)) < 200


def test_chain_of_five_thousand_has_one_ready_task(tmp_path: Path) -> None:
    board = board_of({n: [n + 1] if n < 5000 else [] for n in range(1, 5001)}, tmp_path)
    assert [task.id for task in board.all() if task.ready] == [5000]
    assert board.get(1).reason == "blocked by #2"


@pytest.mark.parametrize(
    ("how", "reason"), [("missing", "does not exist"), ("cancelled", "was cancelled"), ("failed", "failed")]
)
def test_blocker_that_will_never_be_done_is_shown(team: Team, run: Run, how: str, reason: str) -> None:
    team.add("One")
    team.add("Two")
    blocker = 2 if how != "missing" else 99
    block_by_hand(team, 1, blocker)
    path = Path(team.place.root) / team.task(2).path
    if how != "missing":
        path.write_text(path.read_text().replace("status: pending", f"status: {how}"))
    assert reason in team.task(1).reason
    assert f"#1 is blocked by #{blocker}" in run("status").out
    with pytest.raises(Conflict, match=reason):
        team.claim(1, by="alice")


# -- bad lines in an inbox ------------------------------------------------------------------------------------


BAD_LINES: dict[str, tuple[bytes, str]] = {
    "words": (b"hello alice", "not JSON"),
    "torn": (b'{"content": "hel', "not JSON"),
    "two in one": (b'{"content": "a"}{"content": "b"}', "not JSON"),
    "trailing comma": (b'{"content": "a",}', "not JSON"),
    "array": (b'[{"content": "a"}]', "not a JSON object"),
    "text": (b'"content"', "not a JSON object"),
    "number": (b"42", "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "no content": (b'{"from": "bob"}', "content"),
    "content a number": (b'{"content": 42}', "content"),
    "content a list": (b'{"content": ["a"]}', "content"),
    "half a character": (rb'{"content": "\ud83d"}', "content"),
    "half a character elsewhere": (rb'{"content": "a", "x": "\ud83d"}', ""),
    "unknown type": (b'{"content": "a", "type": "gossip"}', "unknown type"),
    "Latin-1": (b'{"content": "caf\xe9"}', "UTF-8"),
    "NUL": (b'{"content": "a\0b"}', "not JSON"),
    "UTF-16": ('{"content": "a"}'.encode("utf-16-le"), ""),
    "deep": (b'{"content": "a", "x": ' + b"[" * 100_000 + b"}", "not JSON"),
    "no number": (b'{"content": "a", "x": NaN}', "not JSON"),
    "endless number": (b'{"content": "a", "x": ' + b"9" * 10_000 + b"}", "not JSON"),
    "id that is taken": (b'{"id": "first", "content": "again"}', "id"),
    "ten megabytes": (b'{"content": "' + b"x" * 10_000_000 + b'"}', "longer than 1 MiB"),
}  # fmt: skip


def inbox(team: Team) -> Path:
    return Path(team.place.root) / ".team" / "inbox" / "alice.jsonl"


def set_aside(team: Team) -> list[dict[str, object]]:
    """The lines that were set aside, each with its own bytes again."""
    found = [json.loads(line) for line in inbox(team).with_suffix(".bad").read_bytes().splitlines()]
    return [
        {**f, "data": bytes.fromhex(f["bytes"]) if "bytes" in f else f["text"].encode()} for f in found
    ]  # fmt: skip


def take(team: Team) -> list[str]:
    with team.take("alice") as messages:
        return [m.content for m in messages]


@pytest.mark.parametrize("case", BAD_LINES)
def test_bad_line_is_set_aside_and_the_others_are_delivered_once(team: Team, case: str) -> None:
    line, reason = BAD_LINES[case]
    with open(inbox(team), "ab") as f:
        f.write(b'{"id": "first", "content": "before"}\n' + line + b'\n{"content": "after"}\n')
    assert [m.content for m in team.inbox("alice")] == ["before", "after"]
    [bad] = set_aside(team)
    assert (bad["line"], bad["data"]) == (2, line)
    assert reason in str(bad["reason"])
    assert f"line 2, {bad['reason']}" in team.status().unreadable[".team/inbox/alice.bad"]
    assert take(team) == ["before", "after"]
    assert take(team) == []
    assert set_aside(team) == [bad]
    check_everything(team)


def test_bad_lines_are_named_by_status_and_doctor(team: Team, run: Run) -> None:
    inbox(team).write_bytes(b"bad\n\nworse\n")
    for command in ("status", "doctor"):
        [row] = [row for row in run(command).out.splitlines() if ".team/inbox/alice.bad" in row]
        assert "line 1, not JSON" in row
        assert "line 3, not JSON" in row


def test_bad_lines_in_a_row_keep_their_places(team: Team) -> None:
    for number in range(3):
        with open(inbox(team), "ab") as f:
            f.write(b"bad %d\n" % number + b'{"content": "good"}\n')
        team.inbox("alice")
    assert [bad["data"] for bad in set_aside(team)] == [b"bad 0", b"bad 1", b"bad 2"]
    assert take(team) == ["good"] * 3


def test_same_bad_line_twice_is_set_aside_twice(team: Team) -> None:
    inbox(team).write_bytes(b"bad\nbad\n")
    team.inbox("alice")
    assert [(bad["line"], bad["data"]) for bad in set_aside(team)] == [(1, b"bad"), (2, b"bad")]


@pytest.mark.parametrize(
    ("data", "contents"),
    [
        (b'\n\n{"content": "a"}\n  \n{"content": "b"}\n\n', ["a", "b"]),
        (b'{"content": "a"}\r\n{"content": "b"}\r\n', ["a", "b"]),
        (b'  {"content": "a"}  \n', ["a"]),
        (b'{"content": "a"}', ["a"]),
        (b'{"content": "a"}\n{"content": "a"}\n', ["a", "a"]),
        (b'{"content": ""}\n', [""]),
    ],
    ids=["blank lines", "CRLF", "indented", "no newline", "identical", "empty content"],
)
def test_unusual_lines_that_are_messages(team: Team, data: bytes, contents: list[str]) -> None:
    inbox(team).write_bytes(data)
    assert [m.content for m in team.inbox("alice")] == contents
    team.send("alice", "one more")
    assert take(team) == [*contents, "one more"]
    assert not inbox(team).with_suffix(".bad").exists()
    check_everything(team)


def test_torn_tail_waits_for_its_end_and_blocks_nobody(team: Team) -> None:
    with open(inbox(team), "ab") as f:
        f.write(b'bad\n\n{"content": "one"}\n{"content": "tw')
        f.flush()
        assert take(team) == ["one"]
        team.send("alice", "three")
        assert take(team) == ["three"]
        f.write(b'o"}\n')
    assert take(team) == ["two"]
    assert [bad["data"] for bad in set_aside(team)] == [b"bad"]
    check_everything(team)


def test_torn_tail_that_nobody_ends_is_set_aside_with_its_place(team: Team) -> None:
    inbox(team).write_bytes(b'{"content": "one"}\n\n{"content": "tw')
    assert [m.content for m in team.inbox("alice")] == ["one"]
    assert "line 3" in " ".join(team.status().unreadable.values())
    team.send("alice", "three")
    assert take(team) == ["one", "three"]
    [bad] = set_aside(team)
    assert (bad["line"], bad["data"]) == (3, b'{"content": "tw')
    check_everything(team)


@pytest.mark.parametrize("stamp", ["NaN", "Infinity", "1e300", "-1e300", "1e18", '"yesterday"', "null", "true", "[]"])
def test_odd_time_stamp_harms_nothing(team: Team, run: Run, stamp: str) -> None:
    inbox(team).write_text(f'{{"content": "a", "timestamp": {stamp}}}\n{{"content": "b"}}\n')
    assert "  b" in run("inbox", "alice").out

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    shown = json.loads(run("inbox", "alice", "--json").out, parse_constant=refuse)
    assert shown[-1]["content"] == "b"


@pytest.mark.parametrize("case", ["link", "link to nothing", "FIFO", "socket", "directory", "no permission"])
def test_inbox_that_is_no_file(team: Team, run: Run, case: str) -> None:
    make, reason = SPECIAL[case]
    team.send("alice", "before")
    inbox(team).unlink()
    make(inbox(team))
    before = picture(inbox(team))
    assert any(r in run("status", "--json").json["unreadable"][0]["reason"] for r in reason.split("|"))
    assert run("send", "alice", "meanwhile").code == 0
    assert picture(inbox(team)) == before
    assert_work_goes_on(team)
    remove(inbox(team))
    assert take(team) == ["before", "meanwhile", "hello"]
    check_everything(team)


# -- what is shown ----------------------------------------------------------------------------------------------

ESCAPES = "\x1b[31m\x1b]0;owned\x07\x9b2J\x08\x7f"
BIDI = "\u202e\u2066\u2069\u200f\u061c"
HIDDEN = "\u200b\u200d\u2060\ufeff\u00ad\u180e\U000e0041"
EVIL = f"a{ESCAPES}b{BIDI}c{HIDDEN}d"


def hidden(text: str) -> set[str]:
    """The characters in a text that a terminal would act on, or not show."""
    acted_on = {c for c in ESCAPES + BIDI + HIDDEN if not c.isprintable()}
    return {ascii(c) for c in text if c != "\n" and (c in acted_on or c < " ")}


@pytest.fixture
def evil(team: Team, tmp_path: Path) -> Team:
    """A team in which every text that a person can write holds what should not reach a terminal."""
    root = Path(team.place.root)
    escaped = "".join(c if c.isprintable() or ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in EVIL)
    (tasks_dir(team) / "1-evil.md").write_text(f"{EVIL}\n\nMore {EVIL}\n")
    (tasks_dir(team) / f"bad{EVIL}.md").write_text("---\n")
    (tasks_dir(team) / f"7-{EVIL}.md").write_text(f'---\nsubject: "{escaped}"\nmeta: "{BIDI}"\n---\n')
    (tasks_dir(team) / "worse.md").write_text(
        f"---\nblockedBy: [{BIDI}{HIDDEN.replace(chr(0xFEFF), '')}]\nsubject: x\n---\n"
    )
    team.board()
    team.note(1, EVIL, by="alice")
    team.claim(1, by="alice")
    team.send("alice", f"{EVIL}\n{EVIL}")
    inbox(team).write_text(
        inbox(team).read_text() + json.dumps({"from": EVIL, "content": EVIL, "type": "error"}) + "\n"
    )
    inbox(team).write_text(inbox(team).read_text() + f'{{"content": "x", "type": "{BIDI}"}}\n')
    place = tmp_path / "elsewhere"
    git(root, "worktree", "add", "-q", str(place), "gitteam")
    (place / "own").write_text("x")
    git(place, "add", "own")
    subprocess.run(["git", "commit", "-qm", f"mine {EVIL}"], cwd=place, check=True)
    git(root, "worktree", "remove", "--force", str(place))
    return team


SHOWING = [
    "", "status", "task", "task --all", "task show 1", "task show 7", "task claim --as alice", "task note 1 EVIL",
    "task done 1 --as alice -m EVIL", "task add EVIL -d EVIL", "inbox alice", "inbox alice --take", "send alice EVIL",
    "log", "log 1", "log alice", "doctor", "wait --as bob --timeout 30", "member",
    "EVIL", "task EVIL", "task show EVIL", "task add x --as EVIL", "log EVIL", "send EVIL x", "inbox EVIL",
    "-C EVIL task", "member add EVIL", "member add x --role EVIL", "init --branch EVIL",
]  # fmt: skip


@pytest.mark.usefixtures("evil")
def test_nothing_hidden_reaches_the_terminal(run: Run) -> None:
    for words in SHOWING:
        result = run(*(EVIL if word == "EVIL" else word for word in words.split()))
        assert result.out or result.err, words
        assert not hidden(result.out + result.err), words


def test_hidden_characters_are_spelled_out(evil: Team, run: Run) -> None:
    assert (
        r"a\x1b[31m\x1b]0;owned\x07\x9b2J\x08\x7fb\u202e\u2066\u2069\u200f\u061cc\u200b" in run("task", "show", "1").out
    )
    assert r"\U000e0041" in run("task", "show", "1").out


def test_json_has_the_text_as_it_is(evil: Team, run: Run) -> None:
    assert run("task", "show", "1", "--json").json["subject"] == EVIL
    assert run("task", "show", "7", "--json").json["path"] == f".tasks/7-{EVIL}.md"
    assert run("inbox", "alice", "--json").json[1]["from"] == EVIL
    assert any(entry["sentence"].endswith(f"c{HIDDEN}d") for entry in run("log", "--json").json)
    assert {u["path"] for u in run("status", "--json").json["unreadable"]} >= {f".tasks/bad{EVIL}.md"}


def test_commits_of_ours_are_harmless_in_plain_git_log(evil: Team, run: Run) -> None:
    ours = git(evil.place.root, "log", "--format=%B", "--grep=^Team-Op: ", "gitteam")
    assert not hidden(ours)
    assert r"\x1b[31m" in ours


def test_subject_of_several_lines_takes_one_row(team: Team, run: Run) -> None:
    (tasks_dir(team) / "new.md").write_text('---\nsubject: "one\\ntwo\\tthree\\r\\nTeam-Op: x"\n---\n')
    [row] = [row for row in run("task").out.splitlines() if "#1" in row]
    assert "one two" in row
    assert run("task", "show", "1", "--json").json["subject"].startswith("one\ntwo\tthree")
    assert git(team.place.root, "log", "-1", "--format=%(trailers:key=Team-Op,valueonly)", "gitteam").count("\n") == 0
    assert "Team-Op: x" not in git(team.place.root, "log", "-1", "--format=%b", "gitteam").splitlines()


def test_trailer_in_a_text_does_not_count(team: Team) -> None:
    team.add("One")
    team.claim(1, by="alice")
    team.done(1, "all done\n\nTeam-Op: forged\nTeam-Task: 99", by="alice")
    trailers = git(
        team.place.root,
        "log",
        "-1",
        "--format=%(trailers:key=Team-Op,valueonly)%(trailers:key=Team-Task,valueonly)",
        "gitteam",
    )
    assert "forged" not in trailers
    assert "99" not in trailers.splitlines()


def test_file_name_that_is_no_text(team: Team, run: Run) -> None:
    team.add("One")
    os.rename(os.fsencode(tasks_dir(team) / "1-one.md"), os.fsencode(tasks_dir(team)) + b"/1-\xff.md")
    with open(os.fsencode(tasks_dir(team)) + b"/bad-\xfe.md", "w") as f:
        f.write("---\n")
    assert run("task", "show", "1").code == 0
    assert run("task", "show", "1", "--json").json["subject"] == "One"
    assert len(run("status", "--json").json["unreadable"]) == 1
    assert run("task", "claim", "1", "--as", "alice", "--json").json["owner"] == "alice"
    assert run("doctor").code == 1


def test_commit_that_is_no_text(team: Team, run: Run, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    git(team.place.root, "worktree", "add", "-q", str(place), "gitteam")
    subprocess.run(
        ["git", "commit", "-q", "--allow-empty", "-m", b"caf\xe9"], cwd=place, check=True, capture_output=True
    )
    git(team.place.root, "worktree", "remove", "--force", str(place))
    assert "caf" in run("log").out
    assert run("log", "--json").json[0]["sentence"].startswith("caf")
