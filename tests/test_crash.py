"""Kills, failing system calls, power cuts, full disks, leftovers: nothing acknowledged is lost, nothing happens twice."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Run, check_everything, git
from faults import (
    Outcome, Scene, belongings, board_files, call, call_traced, disturb_git, mount_memory, needs_strace, new_board,
    new_repository, points, scene, sound, with_own_mounts,
)  # fmt: skip

from gitteam import Team

# Calls between two of which nothing changes outside the process: a kill at each covers every state there can be.
CHANGING = "openat,write,pwrite64,rename,link,unlink,fsync,ftruncate,mkdir,chmod,flock,fcntl,vfork,exit_group"


# -- the board each command meets -------------------------------------------------------------


def one_task(team: Team, root: Path) -> None:
    team.add("One")


def two_tasks(team: Team, root: Path) -> None:
    team.add("One")
    team.add("Two")


def one_held(team: Team, root: Path) -> None:
    team.add("One", "with a text")
    team.claim(1, by="alice")


def many_finished(team: Team, root: Path) -> None:
    """One completion short of a sweep."""
    for number in range(1, 101):
        (root / f".tasks/{number}.md").write_text(f"---\nsubject: {number}\nstatus: completed\n---\n")
    (root / ".tasks/1.md").write_text("---\nsubject: 1\nstatus: in_progress\nowner: alice\n---\n")
    team.ledger.sync()


def mail(team: Team, root: Path) -> None:
    """Two messages that are committed, and two alike, appended by hand, that are not yet."""
    team.send("alice", "first")
    team.send("alice", "second")
    with open(root / ".team/inbox/alice.jsonl", "a") as f:
        f.write('{"content": "by hand"}\n' * 2)


def dropped_file(team: Team, root: Path) -> None:
    team.add("One")
    (root / ".tasks/fix-login.md").write_text("Fix the login page\n\nIt is broken.\n")


def edited_file(team: Team, root: Path) -> None:
    team.add("One", "text")
    path = root / ".tasks/1-one.md"
    path.write_text(path.read_text() + "more\n")


def renamed_file(team: Team, root: Path) -> None:
    two_tasks(team, root)
    (root / ".tasks/1-one.md").rename(root / ".tasks/1-another-name.md")


def claimed_by_hand(team: Team, root: Path) -> None:
    team.add("One")
    (root / ".tasks/1-one.md").write_text("---\nsubject: One\nstatus: in_progress\nowner: alice\n---\n")


def cleaned_away(team: Team, root: Path) -> None:
    two_tasks(team, root)
    team.send("alice", "first")
    shutil.rmtree(root / ".team")
    shutil.rmtree(root / ".tasks")


def everything_at_once(team: Team, root: Path) -> None:
    edited_file(team, root)
    (root / ".tasks/fix-login.md").write_text("Fix the login page\n")
    with open(root / ".team/inbox/alice.jsonl", "a") as f:
        f.write('{"content": "by hand"}\n')


Case = tuple[Callable[[Team, Path], None], tuple[str, ...]]

QUICK: dict[str, Case] = {
    "task add": (one_task, ("task", "add", "Second")),
    "task claim": (one_task, ("task", "claim", "1", "--as", "alice")),
    "task done": (one_held, ("task", "done", "1", "--as", "alice", "-m", "it works")),
    "send": (mail, ("send", "alice", "third")),
    "inbox --take": (mail, ("inbox", "alice", "--take", "--json")),
    "a dropped file": (dropped_file, ("task", "list")),
}
ALL: dict[str, Case] = {
    **QUICK,
    "task release": (one_held, ("task", "release", "1", "--as", "alice")),
    "task note": (one_task, ("task", "note", "1", "hm")),
    "task block": (two_tasks, ("task", "block", "1", "--by", "2")),
    "task cancel": (one_task, ("task", "cancel", "1")),
    "broadcast": (mail, ("broadcast", "to all")),
    "member add": (one_task, ("member", "add", "carol", "--role", "qa")),
    "member remove": (one_held, ("member", "remove", "alice")),
    "a sweep": (many_finished, ("task", "done", "1", "--as", "alice")),
    "an edited file": (edited_file, ("status",)),
    "a renamed file": (renamed_file, ("task", "list")),
    "a claim by hand": (claimed_by_hand, ("task", "list")),
    "appended messages": (mail, ("inbox", "alice")),
    "files cleaned away": (cleaned_away, ("status",)),
    "much by hand": (everything_at_once, ("task", "claim", "1", "--as", "alice")),
}


# -- killed -----------------------------------------------------------------------------------


def _survives_kills(board: Scene, stride: int, offset: int, calls: str = CHANGING, reading: bool = False) -> None:
    chosen = points(board.fresh(), board.words, calls, reading)[offset::stride]
    killed = 0
    for count, point in enumerate(chosen):
        root = board.fresh()
        found = call_traced(root, board.words, *point.inject("signal=SIGKILL"))
        killed += found.code == -9
        try:
            board.check(root, found, by_reading=bool(count % 2))
            _check_taken(board, root, found)
        except AssertionError as e:
            raise AssertionError(f"killed at {point}: {e}") from None
    # Which object directories have to be made depends on the hashes, so a few points may not be reached.
    assert killed > 0.8 * len(chosen)


def _check_taken(board: Scene, root: Path, found: Outcome) -> None:
    """What has left an inbox has been printed first."""
    if "--take" in board.words and "first" not in (root / ".team/inbox/alice.jsonl").read_text():
        assert all(text in found.out for text in ("first", "second")), found.out
        assert found.out.count("by hand") == 2


@needs_strace
@pytest.mark.parametrize("name", QUICK)
def test_killed_at_some_point_leaves_before_or_after(name: str, tmp_path: Path) -> None:
    prepare, words = QUICK[name]
    _survives_kills(scene(tmp_path, words, prepare), stride=6, offset=list(QUICK).index(name))


@needs_strace
@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_killed_at_every_point_leaves_before_or_after(name: str, tmp_path: Path) -> None:
    prepare, words = ALL[name]
    _survives_kills(scene(tmp_path, words, prepare), stride=1, offset=0)


@needs_strace
def test_killed_while_putting_back_vanished_files_cancels_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, words = ALL["files cleaned away"]
    board = scene(tmp_path, words, prepare)
    monkeypatch.setattr("gitteam.reconcile.GONE_SECONDS", 0.0)  # so that a wrong cancellation comes at once
    _survives_kills(board, stride=1, offset=0, calls="link,unlink,rename")


@needs_strace
@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.long)])
def test_init_killed_at_any_point_can_be_repeated(stride: int, tmp_path: Path) -> None:
    template = new_repository(tmp_path / "template")
    trial = shutil.copytree(template, tmp_path / "trial")
    for point in points(trial, ("init",), CHANGING)[::stride]:
        shutil.rmtree(trial)
        shutil.copytree(template, trial)
        call_traced(trial, ("init",), *point.inject("signal=SIGKILL"))
        again, next_one = call(trial, "init"), call(trial, "task", "add", "One")
        assert (again.code, next_one.code, next_one.out) == (0, 0, "1 One\n"), f"killed at {point}: {again}"
        sound(trial)


@needs_strace
@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("words", [("uninstall", "--yes"), ("uninstall", "--yes", "--history")], ids=" ".join)
def test_uninstall_killed_at_any_point_can_be_finished(words: tuple[str, ...], stride: int, tmp_path: Path) -> None:
    template = new_board(tmp_path / "template")
    call(template, "task", "add", "One")
    trial = shutil.copytree(template, tmp_path / "trial")
    for point in points(trial, words, CHANGING + ",unlinkat,rmdir")[::stride]:
        shutil.rmtree(trial)
        shutil.copytree(template, trial)
        call_traced(trial, words, *point.inject("signal=SIGKILL"))
        again = call(trial, *words)
        assert again.code == 0 or "there is no team" in again.err, f"killed at {point}: {again.err}"
        left = [name for name in (".team", ".tasks", ".git/gitteam") if (trial / name).exists()]
        assert call(trial, "init").code == 0, f"killed at {point}: no new team, left behind: {left}"
        assert call(trial, "task", "add", "Two").out == f"{1 if '--history' in words else 2} Two\n"
        sound(trial)


@needs_strace
@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.long)])
def test_killed_in_tracked_mode_leaves_the_index_with_the_branch(stride: int, tmp_path: Path) -> None:
    template, words = new_board(tmp_path / "template", "main"), ("task", "claim", "1", "--as", "alice")
    call(template, "task", "add", "One")
    trial = shutil.copytree(template, tmp_path / "trial")
    every = points(trial, words, CHANGING)
    for point in every[len(every) // 2 :: stride]:  # the objects come first, index and files in the second half
        shutil.rmtree(trial)
        shutil.copytree(template, trial)
        call_traced(trial, words, *point.inject("signal=SIGKILL"))
        assert call(trial, "task", "list").code == 0
        assert git(trial, "status", "--porcelain") == "", f"killed at {point}"
        sound(trial)


# -- git killed beneath us ------------------------------------------------------------------------


@needs_strace
@pytest.mark.parametrize(
    "call_and_number",
    ["openat:when=30", "rename:when=1", *(pytest.param(c, marks=pytest.mark.long) for c in ("write:when=1+", "fsync:when=1"))],
)
def test_git_killed_while_it_moves_the_branch_leaves_nothing_half_done(
    call_and_number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, words = QUICK["task claim"]
    board = scene(tmp_path, words, prepare)
    root, (kind, _, when) = board.fresh(), call_and_number.partition(":")
    with monkeypatch.context() as patch:
        inject = ("-e", f"trace={kind}", "-e", f"inject={kind}:signal=SIGKILL:{when}")
        patch.setenv("PATH", disturb_git(tmp_path / "bin", "update-ref", *inject, once=True))
        found = call(root, *words)
    board.check(root, found, by_reading=False)


@needs_strace
@pytest.mark.parametrize(
    ("subcommand", "kind"),
    [("rev-parse", "read"), ("cat-file", "read"), ("var", "read"), ("update-ref", "read"), ("update-ref", "rename")],
)
def test_git_that_always_dies_is_one_line(
    subcommand: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, words = QUICK["task add"]
    board = scene(tmp_path, words, prepare)
    root = board.fresh()
    git(root, "gc", "-q")  # so that objects have to be asked of git
    with monkeypatch.context() as patch:
        kill = ("-e", f"trace={kind}", "-e", f"inject={kind}:signal=SIGKILL:when=1")
        patch.setenv("PATH", disturb_git(tmp_path / "bin", subcommand, *kill, once=False))
        found = call(root, *words)
    assert found.code == 0 or _is_one_line(found.err), found
    assert found.code == (0 if subcommand == "var" else 1)
    sound(root)


def _is_one_line(text: str) -> bool:
    return text.startswith("gitteam: ") and text.count("\n") == 1 and text.endswith("\n")


# -- system calls that fail -------------------------------------------------------------------------

FAILURES = {
    "openat": ("EIO", "EACCES", "EMFILE", "ENOSPC", "EROFS"),
    "write": ("ENOSPC", "EIO"),
    "pwrite64": ("ENOSPC", "EIO"),
    "rename": ("EIO", "ENOSPC", "EROFS", "EACCES"),
    "link": ("EROFS", "EIO", "ENOSPC", "EACCES"),
    "unlink": ("EACCES", "EIO", "EROFS"),
    "mkdir": ("ENOSPC", "EROFS", "EACCES"),
    "fsync": ("EIO", "ENOSPC"),
    "ftruncate": ("EIO", "EROFS"),
    "chmod": ("EROFS", "EIO"),
    "flock": ("EIO",),
    "fcntl": ("EIO",),
    "vfork": ("EAGAIN", "ENOMEM"),
    "pipe2": ("EMFILE",),
    "getdents64": ("EIO",),
    "read": ("EIO",),
    "newfstatat": ("EIO", "EACCES"),
}


def _survives_failures(board: Scene, stride: int, offset: int, ever_after: bool) -> None:
    """`ever_after`: not only this call fails, but all that follow, as on a disk that has filled up or gone."""
    for count, point in enumerate(points(board.fresh(), board.words, ",".join(FAILURES), reading=True)[offset::stride]):
        failures = FAILURES[point.call]
        failure = failures[count % len(failures)]
        root = board.fresh()
        inject = [word + "+" * (ever_after and "when=" in word) for word in point.inject(f"error={failure}")]
        found = call_traced(root, board.words, *inject)
        try:
            assert found.code in (0, 1, 5), found
            assert "a bug in gitteam" not in found.err, found.err
            # A standard error that cannot be written to says nothing.
            assert found.code == 0 or _is_one_line(found.err) or (point.call == "write" and ever_after), found.err
            board.check(root, found, by_reading=bool(count % 2))
        except AssertionError as e:
            raise AssertionError(f"{failure} from {point}{' on' * ever_after}: {e}") from None


@needs_strace
@pytest.mark.parametrize("ever_after", [False, True], ids=["once", "ever after"])
@pytest.mark.parametrize("name", ["task claim", "a dropped file"])
def test_a_failing_call_is_one_line_and_no_harm(
    name: str, ever_after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITTEAM_LOCK_TIMEOUT", "0.5")
    prepare, words = QUICK[name]
    _survives_failures(scene(tmp_path, words, prepare), 17, 3 + ever_after, ever_after)


@needs_strace
@pytest.mark.long
@pytest.mark.parametrize("ever_after", [False, True], ids=["once", "ever after"])
@pytest.mark.parametrize("name", QUICK)
def test_any_failing_call_is_one_line_and_no_harm(
    name: str, ever_after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITTEAM_LOCK_TIMEOUT", "0.5")
    prepare, words = QUICK[name]
    _survives_failures(scene(tmp_path, words, prepare), 2, list(QUICK).index(name) % 2, ever_after)
