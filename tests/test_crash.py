"""Kills, failing system calls, power cuts, full disks, leftovers: nothing acknowledged is lost, nothing is doubled."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import git
from faults import (
    CHANGING,
    Outcome,
    Point,
    Scene,
    belongings,
    call,
    call_traced,
    disturb_git,
    mount_memory,
    needs_strace,
    new_board,
    new_repository,
    points,
    scene,
    sound,
    states,
    with_own_mounts,
)  # fmt: skip

from gitteam import Team

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


def _survives_kills(board: Scene, chosen: list[Point]) -> None:
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
    board = scene(tmp_path, words, prepare)
    _survives_kills(board, states(board.fresh(), words)[list(QUICK).index(name) :: 7])


@needs_strace
@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_killed_in_any_state_leaves_before_or_after(name: str, tmp_path: Path) -> None:
    """Most commands go the same way: one is killed in its odd states, the next in its even ones.

    A sweep does the same to eighty files. With a stride of 31 each of the six states of a file is met at some of them.
    """
    prepare, words = ALL[name]
    board, place = scene(tmp_path, words, prepare), list(ALL).index(name)
    _survives_kills(board, states(board.fresh(), words)[place % 2 :: 31 if name == "a sweep" else 2])


@needs_strace
@pytest.mark.parametrize("stride", [5, pytest.param(2, marks=pytest.mark.long)])
def test_what_is_written_by_hand_after_a_kill_is_kept_and_doubles_nothing(stride: int, tmp_path: Path) -> None:
    """The branch is ahead of the note then, and the files differ from both."""

    def prepare(team: Team, root: Path) -> None:
        one_task(team, root)
        mail(team, root)

    words = ("task", "claim", "1", "--as", "alice")
    board = scene(tmp_path, words, prepare)
    for point in states(board.fresh(), words)[::stride]:
        root = board.fresh()
        found = call_traced(root, words, *point.inject("signal=SIGKILL"))
        with open(root / ".team/inbox/alice.jsonl", "a") as f:
            f.write('{"content": "late"}\n')
        with open(root / ".tasks/1-one.md", "a") as f:
            f.write("by hand" if f.tell() else "One\n\nby hand")  # it may just have been renamed aside
        assert call(root, "task", "list").code == 0, f"killed at {point}"
        with Team(root) as team:
            contents = [message.content for message in team.inbox("alice")]
            assert sorted(contents) == ["by hand", "by hand", "first", "late", "second"], f"killed at {point}"
            task = team.task(1)
            assert task.description == "by hand", f"killed at {point}"
            assert task.state in ((("pending", "", 0), ("in_progress", "alice", 1))[found.code == 0 :]), f"{point}"
        sound(root)


@needs_strace
def test_killed_while_putting_back_vanished_files_cancels_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, words = ALL["files cleaned away"]
    board = scene(tmp_path, words, prepare)
    monkeypatch.setattr("gitteam.reconcile.GONE_SECONDS", 0.0)  # so that a wrong cancellation comes at once
    _survives_kills(board, points(board.fresh(), words, "link,unlink,rename"))


@needs_strace
@pytest.mark.parametrize("stride", [9, pytest.param(2, marks=pytest.mark.long)])
def test_init_killed_at_any_point_can_be_repeated(stride: int, tmp_path: Path) -> None:
    template = new_repository(tmp_path / "template")
    trial = shutil.copytree(template, tmp_path / "trial")
    for point in states(trial, ("init",))[::stride]:
        shutil.rmtree(trial)
        shutil.copytree(template, trial)
        call_traced(trial, ("init",), *point.inject("signal=SIGKILL"))
        again, next_one = call(trial, "init"), call(trial, "task", "add", "One")
        assert (again.code, next_one.code, next_one.out) == (0, 0, "1 One\n"), f"killed at {point}: {again}"
        sound(trial)


@needs_strace
@pytest.mark.parametrize("stride", [9, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("words", [("uninstall", "--yes"), ("uninstall", "--yes", "--history")], ids=" ".join)
def test_uninstall_killed_at_any_point_can_be_finished(words: tuple[str, ...], stride: int, tmp_path: Path) -> None:
    template = new_board(tmp_path / "template")
    call(template, "task", "add", "One")
    trial = shutil.copytree(template, tmp_path / "trial")
    for point in states(trial, words)[::stride]:
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
    template, words = new_board(tmp_path / "template", branch="main"), ("task", "claim", "1", "--as", "alice")
    call(template, "task", "add", "One")
    trial = shutil.copytree(template, tmp_path / "trial")
    every = states(trial, words)
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
    [
        "openat:when=30",
        "rename:when=1",
        *(pytest.param(c, marks=pytest.mark.long) for c in ("write:when=1+", "fsync:when=1")),
    ],
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
    return text.startswith(("gitteam: ", '{"error": ')) and text.count("\n") == 1 and text.endswith("\n")


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
    _survives_failures(scene(tmp_path, words, prepare), 37, 5 + 17 * ever_after, ever_after)


@needs_strace
@pytest.mark.long
@pytest.mark.parametrize("ever_after", [False, True], ids=["once", "ever after"])
@pytest.mark.parametrize("name", QUICK)
def test_any_failing_call_is_one_line_and_no_harm(
    name: str, ever_after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command begins elsewhere: where they go the same way, as they mostly do, together they meet every call.

    What fails ever after fails at the neighbours too, so that half as many do.
    """
    monkeypatch.setenv("GITTEAM_LOCK_TIMEOUT", "0.5")
    prepare, words = QUICK[name]
    step = 1 + ever_after
    _survives_failures(scene(tmp_path, words, prepare), step * len(QUICK), step * list(QUICK).index(name), ever_after)


# -- power cuts ---------------------------------------------------------------------------------------

_SHUTDOWN, _WITHOUT_FLUSHING = 0x8004587D, 2  # FS_IOC_SHUTDOWN: the file system stops at once, as without power


class Disk:
    """A file system on a loop device, whose power can be cut."""

    def __init__(self, directory: Path):
        self._image, self.path = directory / "image", directory / "disk"
        self.path.mkdir()
        subprocess.run(["truncate", "-s", "64M", self._image], check=True)
        subprocess.run(["mkfs.ext4", "-q", self._image], check=True, capture_output=True)
        self.mount()

    def mount(self) -> None:
        # Nothing reaches the disk by itself within the time of a test: only what was asked to be durable is.
        done = subprocess.run(
            ["mount", "-o", "loop,commit=300", self._image, self.path], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"no loop devices here: {done.stderr.strip()}")

    def unmount(self) -> None:
        subprocess.run(["umount", self.path], check=True)

    def cut_power(self) -> None:
        fd = os.open(self.path, os.O_RDONLY)
        fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _WITHOUT_FLUSHING))
        os.close(fd)
        self.unmount()

    def come_back(self) -> None:
        self.mount()  # replays the journal
        self.unmount()
        checked = subprocess.run(["fsck.ext4", "-fn", self._image], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout
        self.mount()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("cutting the power takes root and mkfs.ext4")
    disk = Disk(tmp_path)
    yield disk
    subprocess.run(["umount", "-l", disk.path], check=False, capture_output=True)


@pytest.mark.parametrize("rounds", [2, pytest.param(8, marks=pytest.mark.long)])
@pytest.mark.parametrize("apart", [False, True], ids=["together", "git on a disk of its own"])
def test_acknowledged_changes_survive_a_power_cut(apart: bool, rounds: int, disk: Disk, tmp_path: Path) -> None:
    """Apart, nothing that is done for the files makes the objects and the branch durable by the way."""
    where, options = (tmp_path, [f"--separate-git-dir={disk.path}/git"]) if apart else (disk.path, [])
    root = new_board(where / "project", *options)
    subprocess.run(["sync"], check=True)
    acknowledged: list[str] = []
    for number in range(rounds):
        for count in range(1 + number % 3):
            acknowledged.append(f"Task {number} {count}")
            assert call(root, "task", "add", acknowledged[-1]).code == 0
        assert call(root, "send", "alice", f"about {number}").code == 0
        disk.cut_power()
        disk.come_back()
        with Team(root) as team:
            assert [task.subject for task in team.tasks()] == acknowledged
            assert [message.content for message in team.inbox("alice")] == [f"about {n}" for n in range(number + 1)]
        sound(root)


@pytest.mark.long
def test_a_power_cut_in_the_middle_leaves_before_or_after(disk: Disk) -> None:
    root = new_board(disk.path / "project")
    call(root, "task", "add", "One")
    subprocess.run(["sync"], check=True)
    trial = points(root, ("task", "note", "1", "hm"), CHANGING)
    notes = 1
    for point in trial[::7]:
        found = call_traced(root, ("task", "note", "1", "hm"), *point.inject("signal=SIGKILL"))
        disk.cut_power()
        disk.come_back()
        with Team(root) as team:
            after = team.task(1).notes.count(": hm")
        assert after - notes in ((1,) if found.code == 0 else (0, 1)), f"cut at {point}"
        notes = after
        sound(root)


# -- leftovers ------------------------------------------------------------------------------------------


def _tear(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


_OTHER_LINES = b'{"commit": "' + b"0" * 40 + b'", "files": {}, "missing": {}}\n'
CHECKPOINTS: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "torn": lambda path: _tear(path, -7),
    "half": lambda path: _tear(path, len(path.read_bytes()) // 2),
    "without a line end": lambda path: _tear(path, -1),
    "garbage": lambda path: path.write_bytes(random.Random(1).randbytes(500)),
    "garbage behind": lambda path: path.write_bytes(path.read_bytes() + b"\0\0\0\n{}\n[]\n"),
    "other JSON": lambda path: path.write_bytes(b'{"commit": 1, "files": [], "missing": 3}\n'),
    "wrong types inside": lambda path: path.write_bytes(b'{"commit": "x", "files": {"a": [1, 2, 3]}}\n'),
    "zeros": lambda path: path.write_bytes(b"\0" * len(path.read_bytes())),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_damaged_note_of_the_files_costs_nothing(name: str, tmp_path: Path) -> None:
    root = new_board(tmp_path / "project")
    with Team(root) as team:
        mail(team, root)
        everything_at_once(team, root)
    expected = sound(shutil.copytree(root, tmp_path / "undamaged"))
    CHECKPOINTS[name](root / ".git/gitteam/checkpoint")
    assert call(root, "task", "list").code == 0
    assert sound(root) == expected


def test_a_note_of_a_commit_that_is_not_there_is_reported_and_repaired(tmp_path: Path) -> None:
    root = new_board(tmp_path / "project")
    (root / ".git/gitteam/checkpoint").write_bytes(_OTHER_LINES)
    refused = call(root, "task", "add", "One")
    assert refused.code == 1
    assert "gitteam doctor" in refused.err
    call(root, "doctor", "--repair")
    assert call(root, "task", "add", "One").out == "1 One\n"
    sound(root)


def test_a_stale_lock_of_the_branch_is_removed(tmp_path: Path) -> None:
    root = new_board(tmp_path / "project")
    lock = root / ".git/refs/heads/gitteam.lock"
    lock.write_text("")
    assert call(root, "task", "add", "One").out == "1 One\n"
    assert not lock.exists()
    sound(root)


def test_the_persons_index_lock_is_neither_needed_nor_touched(tmp_path: Path) -> None:
    root = new_board(tmp_path / "project")
    for name in ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "refs/heads/main.lock"):
        (root / ".git" / name).write_text("a git command of the person's\n")
    before = belongings(root)
    assert call(root, "task", "add", "One").out == "1 One\n"
    assert belongings(root) == before


LEFTOVERS = {
    "a new text": ".team/.aside/new-0123456789ab",
    "a note being written": ".git/gitteam/checkpoint.99999",
    "texts being merged": ".git/gitteam/merge-ours",
    "an object": ".git/objects/17/tmp_obj_0123456789ab",
    "a dead member's lock": ".git/gitteam/live/alice.lock",
    "a lock that signs somebody": ".git/gitteam/lock",
    "an editor's swap file": ".tasks/.1-one.md.swp",
}


@pytest.mark.parametrize("name", LEFTOVERS)
def test_leftovers_of_the_dead_are_in_nobodys_way(name: str, tmp_path: Path) -> None:
    root = new_board(tmp_path / "project")
    path = root / LEFTOVERS[name]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b'{"run": "0123456789ab", "pid": 1}')
    assert call(root, "task", "add", "One").out == "1 One\n"
    assert call(root, "status").err == ""
    assert "nothing is wrong" in call(root, "doctor").out


JUNK: dict[str, Callable[[Path], object]] = {
    "words": lambda aside: (aside / "hello").write_text("hello"),
    "a directory": lambda aside: (aside / "a b c").mkdir(),
    "a directory like ours": lambda aside: (aside / f"0123abcd {'0' * 40} .tasks%2F1-one.md").mkdir(),
    "a link": lambda aside: (aside / "0123abcd 0 .tasks%2F1-one.md").symlink_to("/etc/hostname"),
    "a pipe": lambda aside: os.mkfifo(aside / "0123abcd 0 .team%2Finbox%2Falice.jsonl"),
    "a directory like a new text": lambda aside: (aside / "new-0123").mkdir(),
    "no length": lambda aside: (aside / "0123abcd x .team%2Finbox%2Falice.jsonl").write_text('{"content": "hi"}\n'),
    "no object": lambda aside: (aside / f"0123abcd {'1' * 40} .tasks%2F1-one.md").write_text("Two\n"),
    "a way out": lambda aside: (aside / "0123abcd 0 .team%2Finbox%2F..%2Fx.jsonl").write_text('{"content": "hi"}\n'),
    "outside": lambda aside: (aside / "0123abcd 0 ..%2F..%2Fx.md").write_text("Two\n"),
    "a strange name": lambda aside: (aside / "0123abcd 0 %00%ff").write_text("Two\n"),
}


@pytest.mark.parametrize("name", JUNK)
def test_junk_among_what_was_set_aside_stops_nobody(name: str, tmp_path: Path) -> None:
    root = new_board(tmp_path / "project")
    call(root, "task", "add", "One")
    JUNK[name](root / ".team/.aside")
    looked, changed = call(root, "task", "list"), call(root, "task", "add", "Three")
    assert (looked.code, looked.err, changed.code, changed.out) == (0, "", 0, "2 Three\n")
    assert git(root, "fsck", "--full", "--strict", "--no-dangling") == ""
    names = git(root, "ls-tree", "-r", "--name-only", "gitteam").splitlines()
    assert [n for n in names if "inbox" not in n] == [".tasks/1-one.md", ".tasks/2-three.md", ".team/config.json"]


# -- no room, no writing ----------------------------------------------------------------------------------


def _noise(size: int, seed: int) -> str:
    """Text that does not get smaller when it is compressed."""
    return random.Random(seed).randbytes(size // 2).hex()


def _fill_up(root: Path, size: int) -> tuple[list[str], str]:
    """Send until there is no room; returns what was acknowledged, and what was refused."""
    sent: list[str] = []
    for number in range(200):
        text = f"{number} {_noise(size, number)}"
        found = call(root, "send", "alice", text)
        if found.code:
            assert _is_one_line(found.err), found.err
            assert "No space left on device" in found.err or "git" in found.err, found.err
            return sent, text
        sent.append(text)
    raise AssertionError("it never gets full")


@pytest.mark.parametrize(
    ("small", "large", "size"),
    [("size=3m", "size=20m", 90_000), ("size=20m,nr_inodes=250", "size=20m,nr_inodes=2500", 10)],
    ids=["full", "out of inodes"],
)
def test_a_full_disk_refuses_changes_and_tears_nothing(small: str, large: str, size: int, tmp_path: Path) -> None:
    def body() -> None:
        place = mount_memory(tmp_path / "small", small)
        root = new_board(place / "project")
        sent, refused = _fill_up(root, size)
        assert call(root, "task", "list").code == 0
        assert [text for text in sent if text not in call(root, "inbox", "alice").out] == []
        subprocess.run(["mount", "-o", f"remount,{large}", place], check=True)
        assert call(root, "send", "alice", refused).code == 0  # the very same objects once more
        sound(root)
        with Team(root) as team:
            contents = [message.content for message in team.inbox("alice")]
        assert contents in ([*sent, refused], [*sent, refused, refused])  # the refused one may have been one too late

    with_own_mounts(body, tmp_path)


def test_a_read_only_disk_shows_the_board_and_refuses_changes(tmp_path: Path) -> None:
    def body() -> None:
        place = mount_memory(tmp_path / "disk", "size=20m")
        root = new_board(place / "project")
        call(root, "task", "add", "One")
        (root / ".tasks/dropped.md").write_text("Two\n")
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        for words in (("task", "list"), ("task", "show", "1"), ("status",), ("inbox", "alice"), ("log",)):
            assert call(root, *words).code == 0, words
        assert "#1" in call(root, "task", "list").out
        refused = call(root, "task", "add", "Three")
        assert (refused.code, "Read-only file system" in refused.err, _is_one_line(refused.err)) == (1, True, True)
        subprocess.run(["mount", "-o", "remount,rw", place], check=True)
        assert call(root, "task", "add", "Three").out == "3 Three\n"
        sound(root)

    with_own_mounts(body, tmp_path)


def test_a_text_that_does_not_fit_is_not_left_torn(tmp_path: Path) -> None:
    def body() -> None:
        place = mount_memory(tmp_path / "disk", "size=3m")
        root = new_board(place / "project")
        text = _noise(900_000, 1)
        (place / "ballast").write_bytes(b"x" * 2_600_000)  # room for the beginning of the text
        assert call(root, "task", "add", "Large", "-d", text).code == 1
        (place / "ballast").unlink()
        assert git(root, "fsck", "--full", "--strict", "--no-dangling") == ""
        assert call(root, "task", "add", "Large", "-d", text).out == "1 Large\n"
        sound(root)

    with_own_mounts(body, tmp_path)


def test_a_team_that_stays_open_follows_a_note_that_is_written_anew(tmp_path: Path) -> None:
    """The new file may well have the old one's inode."""
    root = new_board(tmp_path / "project")
    with Team(root) as team:
        (root / ".tasks/1-one.md").write_text("One\n")
        for old, new in (("one", "two"), ("two", "three"), ("three", "four"), ("four", "five")):
            team.tasks()
            (root / f".tasks/1-{old}.md").rename(root / f".tasks/1-{new}.md")
        assert team.task(1).path == ".tasks/1-five.md"
        (root / ".tasks/1-five.md").write_text("---\nstatus: nonsense\n---\nOne\n")
        assert (team.task(1).path, team.task(1).ready) == (".tasks/1-five.md", False)
