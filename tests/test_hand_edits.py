"""What a person does with an editor, `mv`, `rm` and git counts like a command, and is told in their name."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import TIMEOUT, Run, check_everything, diary, git, until

from gitteam import Team, checkpoint, disk, moves, reconcile
from gitteam.errors import Conflict, Refused

Edit = Callable[[str], str]


def root(team: Team) -> Path:
    return Path(team.place.root)


def tasks_dir(team: Team) -> Path:
    return root(team) / ".tasks"


def file_of(team: Team, number: int) -> Path:
    return root(team) / team.task(number).path


def drop(team: Team, name: str, text: str) -> Path:
    path = tasks_dir(team) / name
    path.write_text(text)
    return path


def swap(old: str, new: str) -> Edit:
    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return edit


def head(**values: object) -> Edit:
    """Set lines of the front matter where they stand, or at its end."""

    def edit(text: str) -> str:
        lines = text.split("\n")
        end = lines.index("---", 1)
        new = {key: f"{key}: {value}".rstrip() for key, value in values.items()}
        old = [new.pop(line.partition(":")[0], line) for line in lines[1:end]]
        return "\n".join(["---", *old, *new.values(), *lines[end:]])

    return edit


def write(path: Path, edit: Edit) -> None:
    path.write_text(edit(path.read_text()))


def grow_old(path: Path) -> None:
    """Wait until a file's time stamps can be trusted to tell whether it has changed."""
    until(lambda: time.time_ns() - path.stat().st_ctime_ns > 2 * disk.RACY_NS)


def newest(team: Team, form: str = "%s") -> str:
    return git(root(team), "log", "-1", f"--format={form}", team.ledger.branch)


def on_branch(team: Team, path: str) -> str:
    return subprocess.run(
        ["git", "show", f"{team.ledger.branch}:{path}"], cwd=root(team), check=True, capture_output=True, text=True
    ).stdout


def commits(team: Team) -> int:
    return len(diary(root(team)))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is gone counts as gone at the first look."""
    monkeypatch.setattr(reconcile, "GONE_SECONDS", 0.0)


@pytest.fixture
def sweeps_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two finished tasks the first is swept."""
    monkeypatch.setattr(moves, "SWEEP_AT", 2)
    monkeypatch.setattr(moves, "SWEEP_KEEPS", 1)


def sweep(team: Team) -> None:
    """Finish one more task, so that those before it are swept."""
    team.done(team.add("Last").id)


@pytest.fixture(autouse=True)
def _sound(team: Team) -> Iterator[None]:
    """Every test here ends with history, objects and files in order, and with nothing to complain about."""
    yield
    team.ledger.sync()
    check_everything(team)
    assert team.status().unreadable == {}


# -- files dropped into .tasks/ ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("fix-login.md", "3-fix-login.md"),
        ("fix the login.md", "3-fix-the-login.md"),
        ("7-seven.md", "7-seven.md"),
        ("7.md", "7.md"),
        ("7 with spaces.md", "7 with spaces.md"),
        ("7-größe.md", "7-größe.md"),
        ("102-far.md", "102-far.md"),
        ("103-too-far.md", "3-103-too-far.md"),
        ("2026-11-18-notes.md", "3-2026-11-18-notes.md"),
        ("0-zero.md", "3-0-zero.md"),
        ("007-bond.md", "3-007-bond.md"),
        ("9999999999-long.md", "3-9999999999-long.md"),
        ("日本語.md", "3.md"),
    ],
)
def test_dropped_file_gets_its_number(team: Team, name: str, path: str) -> None:
    team.add("One")
    team.add("Two")
    drop(team, name, "Fix the login page\n")
    task = team.tasks()[-1]
    assert (task.path, task.subject, task.ready) == (f".tasks/{path}", "Fix the login page", True)
    assert sorted(p.name for p in tasks_dir(team).iterdir()) == sorted(["1-one.md", "2-two.md", path])


@pytest.mark.parametrize(
    ("text", "subject", "description"),
    [
        ("Fix the login page", "Fix the login page", ""),
        ("Fix the login page\nIt is broken.\n", "Fix the login page", "It is broken."),
        (
            "# Fix the login page\n\nIt is broken.\n\n- on phones\n",
            "Fix the login page",
            "It is broken.\n\n- on phones",
        ),
        ("\n\n## Fix it\n", "Fix it", ""),
        ("---\nsubject: Fix it\n---\nIt is broken.\n", "Fix it", "It is broken."),
        ("---\npriority: 3\n---\n# Fix it\nIt is broken.\n", "Fix it", "It is broken."),
        ("---\nsubject: Fix it\nstatus:\nowner:\nblockedBy:\n---\n", "Fix it", ""),
        ("---\r\nsubject: Fix it\r\n---\r\nIt is broken.\r\n", "Fix it", "It is broken."),
        ("\ufeffFix it\n", "Fix it", ""),
    ],
)
def test_dropped_text_is_read_and_kept_as_it_is(team: Team, text: str, subject: str, description: str) -> None:
    path = tasks_dir(team) / "new.md"
    path.write_bytes(text.encode())
    task = team.task(1)
    assert (task.subject, task.description) == (subject, description)
    assert (tasks_dir(team) / "1-new.md").read_bytes() == text.encode()


def test_dropped_file_is_one_commit_in_the_persons_name(team: Team) -> None:
    drop(team, "fix.md", "Fix the login page\n")
    before = commits(team)
    team.board()
    assert commits(team) == before + 1
    assert newest(team, "%an <%ae>|%s|%(trailers:key=Team-Event,valueonly)%(trailers:key=Team-Task,valueonly)") == (
        "Jane Doe <jane@example.com>|Jane Doe adds #1: Fix the login page|added\n1"
    )


def test_files_dropped_together_are_numbered_in_the_order_they_were_made(team: Team) -> None:
    for when, name in enumerate(("zebra", "apple", "mango")):
        os.utime(drop(team, f"{name}.md", name + "\n"), (1_700_000_000 + when, 1_700_000_000 + when))
    assert [t.subject for t in team.tasks()] == ["zebra", "apple", "mango"]


def test_dropped_file_may_be_claimed_already(team: Team) -> None:
    drop(team, "new.md", "---\nsubject: Fix it\nstatus: in_progress\nowner: alice\n---\n")
    task = team.claim(by="alice")
    assert (task.id, task.owner, task.claim) == (1, "alice", 1)


def test_dropped_file_may_be_finished_already(team: Team) -> None:
    drop(team, "new.md", "---\nsubject: Fix it\nstatus: completed\nowner: alice\nclaim: 9\nattempts: 2\n---\n")
    task = team.task(1)
    assert (task.status, task.claim, task.attempts) == ("completed", 0, 0)


def test_file_still_being_written_is_taken_in_when_it_is_closed(team: Team) -> None:
    with open(tasks_dir(team) / "new.md", "w") as f:
        f.write("Fix the login\n")
        f.flush()
        grow_old(tasks_dir(team) / "new.md")  # closing it will not change how it looks
        assert team.tasks() == []
    assert [t.subject for t in team.tasks()] == ["Fix the login"]


def test_file_saved_again_under_its_first_name_is_the_same_task(team: Team) -> None:
    drop(team, "fix.md", "Fix it\n")
    team.board()
    drop(team, "fix.md", "Fix it\nIt is broken.\n")
    assert [(t.id, t.description) for t in team.tasks()] == [(1, "It is broken.")]
    assert os.listdir(tasks_dir(team)) == ["1-fix.md"]


def test_file_with_two_names_is_taken_in_once(team: Team) -> None:
    """What a process leaves that died between giving a file its number and taking the old name away."""
    os.link(drop(team, "fix.md", "---\nsubject: Fix it\nstatus: completed\n---\n"), tasks_dir(team) / "1-fix.md")
    assert [t.path for t in team.tasks()] == [".tasks/1-fix.md"]
    assert os.listdir(tasks_dir(team)) == ["1-fix.md"]


EDITORS_FILES = (
    ".1-one.md.swp .1-one.md.swo 1-one.md~ ~1-one.md #1-one.md# .#1-one.md 4913 1-one.md.bak 1-one.md.orig "
    "1-one.md.tmp .goutputstream-X1Y2Z3 .1-one.md.kate-swp sedAbC123 notes.txt 1-one.md.tmp.1234.56 .DS_Store"
)


@pytest.mark.parametrize("name", EDITORS_FILES.split())
def test_editors_own_files_are_left_alone(team: Team, name: str) -> None:
    team.add("One")
    path = drop(team, name, "---\nhalf a th")
    before = commits(team)
    assert len(team.tasks()) == 1
    assert (commits(team), path.read_text(), team.status().unreadable) == (before, "---\nhalf a th", {})


# -- saving ------------------------------------------------------------------------------------------


def in_place(path: Path, text: str, look: Callable[[], object]) -> None:
    with open(path, "r+") as f:
        f.write(text)
        f.truncate()


def truncating(path: Path, text: str, look: Callable[[], object]) -> None:
    """As VS Code and nano: empty for a moment."""
    path.write_text("")
    look()
    path.write_text(text)


def temp_and_rename(path: Path, text: str, look: Callable[[], object]) -> None:
    """As most others."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    look()
    os.rename(temporary, path)


def backup_and_rename(path: Path, text: str, look: Callable[[], object]) -> None:
    """As vim and emacs: for a moment there is only the backup, then an empty file."""
    swapfile = path.with_name(f".{path.name}.swp")
    swapfile.write_bytes(b"b0VIM 9.0")
    os.rename(path, f"{path}~")
    look()
    with open(path, "w") as f:
        look()
        f.write(text)
    look()
    os.unlink(f"{path}~")
    swapfile.unlink()


def in_two_writes(path: Path, text: str, look: Callable[[], object]) -> None:
    with open(path, "w") as f:
        f.write(text[: len(text) - 8])
        f.flush()
        look()
        f.write(text[len(text) - 8 :])


STYLES = [in_place, truncating, temp_and_rename, backup_and_rename, in_two_writes]


@pytest.mark.parametrize("style", STYLES)
def test_saving_in_any_way_is_one_edit(team: Team, style: Callable[..., None]) -> None:
    """Also with somebody looking at the board at the worst moment."""
    team.add("One", "Analyze the endpoints")
    path, before = file_of(team, 1), commits(team)
    style(path, path.read_text() + "All of them, and their errors\n", team.board)
    assert team.task(1).description == "Analyze the endpoints\nAll of them, and their errors"
    assert diary(root(team))[before:] == ["Jane Doe edits #1: One"]
    assert newest(team, "%an <%ae>") == "Jane Doe <jane@example.com>"


@pytest.mark.parametrize("style", STYLES)
def test_saving_while_the_task_is_claimed_keeps_both(team: Team, style: Callable[..., None]) -> None:
    team.add("One", "Analyze the endpoints")
    path = file_of(team, 1)

    def claim() -> None:
        try:
            team.claim(1, by="alice")
        except Conflict as e:
            assert "its file cannot be read" in str(e)  # noqa: PT017

    style(path, path.read_text() + "All of them, and their errors\n", claim)
    task = team.claim(1, by="alice")
    assert (task.status, task.owner, task.claim) == ("in_progress", "alice", 1)
    assert task.description == "Analyze the endpoints\nAll of them, and their errors"


def test_half_a_text_never_becomes_a_commit(team: Team) -> None:
    team.add("One", "first line\nsecond line\nthird line")
    path = file_of(team, 1)
    full = path.read_text() + "fourth line\n"
    with open(path, "w") as f:
        for at in range(0, len(full), 7):
            f.write(full[at : at + 7])
            f.flush()
            assert team.task(1).description == "first line\nsecond line\nthird line"
    assert team.task(1).description.endswith("fourth line")


def test_writer_that_begins_between_two_looks_is_not_half_read(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.add("One", "first line")
    path = file_of(team, 1)
    write(path, lambda text: text + "second line\n")
    full, ask, begun = path.read_text(), disk.has_writer, []
    with contextlib.ExitStack() as stack:

        def ask_and_then_begin(place: str) -> bool:
            answer = ask(place)
            if place == str(path) and not begun:
                begun.append(stack.enter_context(open(path, "w")))
                begun[0].write(full[:-8])
                begun[0].flush()
            return answer

        monkeypatch.setattr(disk, "has_writer", ask_and_then_begin)
        assert team.task(1).description in ("first line", "first line\nsecond line")
        begun[0].write(full[-8:])
    assert team.task(1).description == "first line\nsecond line"
    assert diary(root(team))[-2:] == ["Jane Doe adds #1: One", "Jane Doe edits #1: One"]


def test_text_that_came_too_late_and_cannot_be_read_is_kept_and_named(team: Team, run: Run) -> None:
    team.add("One", "Some words")
    path = file_of(team, 1)
    with open(path, "r+") as f:
        team.claim(1, by="alice")
        f.write("---\nsubject: [\n---\nMy precious words, and enough of them to overwrite everything there was\n")
        f.truncate()
    team.board()
    [kept] = [p for p in tasks_dir(team).iterdir() if p != path]
    assert "My precious words" in kept.read_text()
    assert kept.name in run("status").out
    assert kept.name in run("doctor").out
    assert team.task(1).owner == "alice"
    kept.unlink()
    assert run("doctor").code == 0


def test_text_written_after_its_file_was_replaced_is_merged_whole(team: Team) -> None:
    team.add("One", "first line\nsecond line\nthird line")
    path = file_of(team, 1)
    full = path.read_text() + "fourth line\n"
    with open(path, "r+") as f:
        team.claim(1, by="alice")  # the file this editor has open is no longer the one that stands there
        f.truncate(0)
        for at in range(0, len(full), 7):
            f.write(full[at : at + 7])
            f.flush()
            assert team.task(1).description == "first line\nsecond line\nthird line"
    task = team.task(1)
    assert (task.description, task.owner) == ("first line\nsecond line\nthird line\nfourth line", "alice")


def test_stale_text_written_after_its_file_was_replaced_keeps_the_notes(team: Team) -> None:
    team.add("One", "Some words")
    team.claim(1, by="alice")
    path = file_of(team, 1)
    buffer = path.read_text()
    team.note(1, "a note", by="alice")
    with open(path, "r+") as f:
        team.release(1, by="alice")
        f.write(swap("Some words", "Better words")(buffer))
        f.truncate()
    task = team.task(1)
    assert (task.state, task.description) == (("pending", "", 1), "Better words")
    assert "a note" in task.notes


def test_claim_changes_only_the_lines_of_state(team: Team) -> None:
    text = (
        "---\n# what matters most\nowner:\nx-estimate: 0x1F  # hours\nsubject: 'One: it''s'\n\ntags: [a, \"b\"]\n"
        "status: pending # for now\nblockedBy:\n---\n\n  Body \t\n\n"
    )
    drop(team, "1-one.md", text)
    team.claim(1, by="alice")
    before, after = text.split("\n"), (tasks_dir(team) / "1-one.md").read_text().split("\n")
    changed = [line for line in after if line not in before]
    assert [line.partition(":")[0] for line in changed] == ["owner", "status", "claim"]
    assert [line for line in before if line not in after] == ["owner:", "status: pending # for now"]


def test_edit_is_taken_in_by_a_reading_command(team: Team, run: Run) -> None:
    team.add("One")
    write(file_of(team, 1), swap("subject: One", "subject: Eins"))
    assert "Eins" in run("task").out
    assert newest(team) == "Jane Doe edits #1: Eins"


def test_unchanged_save_makes_no_commit(team: Team) -> None:
    team.add("One")
    path, before = file_of(team, 1), commits(team)
    temp_and_rename(path, path.read_text(), team.board)
    team.board()
    assert commits(team) == before


def test_edit_of_the_same_size_in_the_same_moment_is_seen(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system whose clock ticks slowly: neither the file's size nor its times have changed."""
    tick = 40_000_000

    def coarse(found: os.stat_result) -> disk.Look:
        return found.st_size, found.st_mtime_ns // tick * tick, found.st_ctime_ns // tick * tick, found.st_ino

    monkeypatch.setattr(disk, "look_of", coarse)
    monkeypatch.setattr(checkpoint, "look_of", coarse)
    set_value(team, "settings", "durability", value="fast")
    path = file_of(team, team.add("Task 10").id)
    for number in range(10, 40):
        team.note(1, f"note {number}")
        write(path, swap(f"Task {number}", f"Task {number + 1}"))
        team.board()
        assert f"subject: Task {number + 1}\n" in on_branch(team, ".tasks/1-task-10.md").replace('"', "")


def test_edits_of_several_files_are_one_commit(team: Team) -> None:
    team.add("One")
    team.add("Two")
    before = commits(team)
    write(tasks_dir(team) / "1-one.md", swap("subject: One", "subject: Eins"))
    write(tasks_dir(team) / "2-two.md", swap("subject: Two", "subject: Zwei"))
    team.board()
    assert commits(team) == before + 1
    assert newest(team, "%s|%b").startswith("Jane Doe edits #1: Eins|Jane Doe edits #2: Zwei\n")


def test_blocker_written_by_hand_blocks(team: Team) -> None:
    team.add("One")
    team.add("Two")
    write(file_of(team, 1), head(blockedBy="[2]"))
    assert team.task(1).reason == "blocked by #2"
    assert team.claim(by="alice").id == 2


# -- renaming and deleting ---------------------------------------------------------------------------


def test_renamed_file_is_the_same_task(team: Team) -> None:
    team.add("One")
    team.claim(1, by="alice")
    os.rename(file_of(team, 1), tasks_dir(team) / "1-better-name.md")
    task = team.task(1)
    assert (task.path, task.owner, task.claim) == (".tasks/1-better-name.md", "alice", 1)
    assert newest(team) == "Jane Doe renames #1 to .tasks/1-better-name.md"


@pytest.mark.parametrize(
    "name", ['1-"quoted".md', "1-tab\there.md", "1-größe.md", "1.md", "1 %2F %25.md", "1-'$(x)'.md"]
)
def test_odd_names_are_names(team: Team, name: str) -> None:
    team.add("One")
    os.rename(file_of(team, 1), tasks_dir(team) / name)
    team.claim(1, by="alice")
    team.note(1, "still here", by="alice")
    assert team.task(1).path == f".tasks/{name}"


def test_renamed_and_edited_at_once_is_both(team: Team) -> None:
    team.add("One")
    path = file_of(team, 1)
    (tasks_dir(team) / "1-eins.md").write_text(
        head(subject="Eins", status="in_progress", owner="bob")(path.read_text())
    )
    path.unlink()
    task = team.task(1)
    assert (task.path, task.subject, task.owner, task.claim) == (".tasks/1-eins.md", "Eins", "bob", 1)


@pytest.mark.usefixtures("at_once")
def test_copied_then_removed_is_a_rename(team: Team) -> None:
    """As `mv` does it from one file system to another, with a look in between."""
    team.add("One")
    path = file_of(team, 1)
    copy = tasks_dir(team) / "1-copy.md"
    copy.write_bytes(path.read_bytes())
    grow_old(copy)
    assert ".tasks/1-copy.md" in team.status().unreadable
    path.unlink()
    task = team.task(1)
    assert (task.path, task.status) == (".tasks/1-copy.md", "pending")


@pytest.mark.usefixtures("at_once")
def test_renamed_to_another_number_is_another_task(team: Team) -> None:
    team.add("One")
    team.add("Two")
    os.rename(file_of(team, 1), tasks_dir(team) / "9-one.md")
    assert [(t.id, t.status) for t in team.tasks(finished=True)] == [(1, "cancelled"), (2, "pending"), (9, "pending")]


def test_deleted_file_is_no_decision_at_first(team: Team) -> None:
    team.add("One")
    team.add("Two")
    before = commits(team)
    file_of(team, 1).unlink()
    assert (team.task(1).status, team.task(1).ready, "missing" in team.task(1).reason) == ("pending", False, True)
    with pytest.raises(Conflict, match="missing"):
        team.claim(1, by="alice")
    assert commits(team) == before
    age_absence(team)


def age_absence(team: Team) -> None:
    """Let the absences that have been noted be three seconds older."""
    with open(team.place.checkpoint, "rb+") as f:
        lines = f.read().splitlines(keepends=True)
        last = json.loads(lines[-1])
        assert last["missing"]
        last["missing"] = {path: since - 3 for path, since in last["missing"].items()}
        f.seek(0, os.SEEK_END)
        f.write(json.dumps(last).encode() + b"\n")


def test_file_that_stays_away_is_cancelled(team: Team) -> None:
    team.add("One")
    team.add("Two")
    file_of(team, 1).unlink()
    team.board()
    age_absence(team)
    assert team.task(1).status == "cancelled"
    assert newest(team, "%an|%s|%(trailers:key=Team-Event,valueonly)").strip() == (
        "Jane Doe|Jane Doe cancels #1: One|cancelled"
    )


def test_file_that_comes_back_was_never_gone(team: Team) -> None:
    team.add("One")
    team.add("Two")
    path, before = file_of(team, 1), commits(team)
    text = path.read_bytes()
    path.unlink()
    team.board()
    path.write_bytes(text)
    assert team.task(1).ready
    team.board()
    path.unlink()  # the two seconds begin anew
    team.board()
    assert (commits(team), team.task(1).status) == (before, "pending")
    path.write_bytes(text)


def test_file_that_comes_back_edited_is_edited(team: Team) -> None:
    team.add("One")
    team.add("Two")
    path = file_of(team, 1)
    text = path.read_text()
    path.unlink()
    team.board()
    path.write_text(swap("subject: One", "subject: Eins")(text))
    assert (team.task(1).subject, newest(team)) == ("Eins", "Jane Doe edits #1: Eins")


@pytest.mark.usefixtures("at_once")
def test_deleting_takes_a_task_from_its_holder(team: Team) -> None:
    team.add("One")
    team.add("Two")
    team.claim(1, by="alice")
    file_of(team, 1).unlink()
    assert team.task(1).status == "cancelled"
    with pytest.raises(Conflict, match="cancelled"):
        team.done(1, by="alice")


@pytest.mark.usefixtures("at_once")
def test_deleting_a_finished_task_puts_it_away(team: Team) -> None:
    team.add("One")
    team.add("Two")
    team.done(1)
    file_of(team, 1).unlink()
    assert (team.task(1).status, team.task(1).path) == ("completed", ".tasks/done/0001-0099/1-one.md")
    assert newest(team) == "Jane Doe puts #1 away: One"


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("there", "deleted", "statuses"),
    [
        (1, [1], ["cancelled"]),
        (2, [1, 2], ["cancelled", "cancelled"]),
        (3, [2], ["pending", "cancelled", "pending"]),
        (3, [1, 3], ["cancelled", "pending", "cancelled"]),
        (3, [1, 2, 3], ["pending"] * 3),
        (5, [1, 2, 3, 4, 5], ["pending"] * 5),
    ],
)
def test_some_deleted_are_cancelled_and_all_deleted_are_restored(
    team: Team, there: int, deleted: list[int], statuses: list[str]
) -> None:
    for number in range(there):
        team.add(f"Task {number}")
    for path in [file_of(team, number) for number in deleted]:
        path.unlink()
    assert [t.status for t in team.tasks(finished=True)] == statuses


@pytest.mark.usefixtures("at_once")
def test_finished_tasks_do_not_hide_that_all_open_ones_are_gone(team: Team) -> None:
    for number in range(4):
        team.add(f"Task {number}")
    team.done(1)
    for path in [file_of(team, number) for number in (2, 3, 4)]:
        path.unlink()
    assert [t.status for t in team.tasks()] == ["completed", "pending", "pending", "pending"]


def everything(team: Team) -> dict[str, bytes]:
    files = [p for top in (".team", ".tasks") for p in (root(team) / top).rglob("*") if p.is_file()]
    return {str(p.relative_to(root(team))): p.read_bytes() for p in files}


@pytest.mark.usefixtures("at_once", "sweeps_early")
@pytest.mark.parametrize(
    "remove",
    [
        lambda at: git(at, "clean", "-fdxq"),
        lambda at: shutil.rmtree(at / ".tasks"),
        lambda at: shutil.rmtree(at / ".team"),
        lambda at: [shutil.rmtree(at / ".team"), *(path.unlink() for path in (at / ".tasks").glob("*.md"))],
        lambda at: shutil.rmtree(at / ".tasks" / "done"),
        lambda at: shutil.rmtree(at / ".team" / "inbox"),
        lambda at: (at / ".team" / "config.json").unlink(),
        lambda at: (at / ".team" / "inbox" / "alice.jsonl").unlink(),
    ],
    ids=["git-clean", "tasks", "team", "team-and-tasks", "done", "inbox-directory", "config", "inbox"],
)
def test_what_was_swept_off_the_disk_is_put_back(team: Team, remove: Callable[[Path], object]) -> None:
    team.add("Swept")
    team.done(1)
    sweep(team)
    team.claim(team.add("Open").id, by="alice")
    team.send("alice", "hello")
    before, count = everything(team), commits(team)
    remove(root(team))
    team.ledger.sync()
    assert everything(team) == before
    assert commits(team) == count
    assert [m.content for m in team.inbox("alice")] == ["hello"]


def test_bad_file_that_is_cleaned_away_comes_back_good(team: Team) -> None:
    for number in range(3):
        team.add(f"Task {number}")
    file_of(team, 2).write_text("---\nhalf")
    assert ".tasks/2-task-1.md" in team.status().unreadable
    git(root(team), "clean", "-fdxq")
    assert (team.status().unreadable, team.task(2).ready) == ({}, True)


# -- wishes: status and owner written by hand ----------------------------------------------------------


def claimed(team: Team) -> None:
    team.claim(1, by="alice")


def finished(team: Team) -> None:
    team.claim(1, by="alice")
    team.done(1, by="alice")


def nothing(team: Team) -> None:
    pass


WISHES = {
    "claim": (nothing, head(status="in_progress", owner="alice"), ("in_progress", "alice", 1), "gives alice #1: One"),
    "own claim": (nothing, head(status="in_progress", owner="user"), ("in_progress", "user", 1), "claims #1: One"),
    "assign": (nothing, head(owner="bob"), ("pending", "bob", 0), "edits #1: One"),
    "complete unclaimed": (nothing, head(status="completed"), ("completed", "", 0), "completes #1: One"),
    "cancel": (nothing, head(status="cancelled"), ("cancelled", "", 0), "cancels #1: One"),
    "give up": (nothing, head(status="failed"), ("failed", "", 0), "gives up #1: One"),
    "complete": (claimed, head(status="completed"), ("completed", "alice", 1), "completes #1: One"),
    "release": (claimed, head(status="pending", owner=""), ("pending", "", 1), "releases #1: One"),
    "take over": (claimed, head(owner="bob"), ("in_progress", "bob", 2), "gives bob #1: One"),
    "cancel claimed": (claimed, head(status="cancelled"), ("cancelled", "alice", 1), "cancels #1: One"),
    "reopen": (finished, head(status="pending", owner=""), ("pending", "", 1), "releases #1: One"),
}


@pytest.mark.parametrize("wish", WISHES)
def test_state_written_by_hand_is_obeyed(team: Team, wish: str) -> None:
    before, edit, state, sentence = WISHES[wish]
    team.add("One", "Some words")
    before(team)
    count = commits(team)
    write(file_of(team, 1), edit)
    assert team.task(1).state == state
    assert diary(root(team))[count:] == [f"Jane Doe {sentence}"]
    assert newest(team, "%an") == "Jane Doe"


def test_claim_written_by_hand_fences_off_the_old_holder(team: Team) -> None:
    team.add("One")
    team.claim(1, by="alice")
    write(file_of(team, 1), head(owner="bob"))
    with pytest.raises(Conflict, match="bob"):
        team.done(1, by="alice", claim=1)
    assert team.done(1, by="bob", claim=2).status == "completed"


def test_claim_number_written_by_hand_does_not_count(team: Team) -> None:
    team.add("One")
    team.claim(1, by="alice")
    write(file_of(team, 1), head(claim=7))
    assert team.task(1).state == ("in_progress", "alice", 1)


def busy(team: Team) -> None:
    team.add("Two")
    team.claim(2, by="alice")


def blocked(team: Team) -> None:
    team.add("Two")
    team.block(1, 2)


REFUSALS = {
    "holder of another": (busy, "alice", "alice has #2"),
    "unknown": (nothing, "zed", "nobody on the team is called zed"),
    "blocked": (blocked, "alice", "blocked by #2"),
    "finished": (finished, "bob", "it is completed"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_claim_that_cannot_be_is_put_back_and_said(team: Team, case: str) -> None:
    before, name, reason = REFUSALS[case]
    team.add("One")
    before(team)
    was, path = team.task(1).state, file_of(team, 1)
    text = path.read_text()
    write(path, head(status="in_progress", owner=name))
    assert team.task(1).state == was
    assert path.read_text() == text
    assert reason in newest(team, "%B")
    assert newest(team, "%an") == "Jane Doe"


def test_refused_claim_does_not_take_the_words_along(team: Team) -> None:
    team.add("One", "Some words")
    busy(team)
    path = file_of(team, 1)
    path.write_text(head(status="in_progress", owner="alice")(path.read_text()) + "and more\n")
    task = team.task(1)
    assert (task.status, task.owner, task.description) == ("pending", "", "Some words\nand more")
    assert "alice has #2" in newest(team, "%B")


# -- saves from a stale buffer --------------------------------------------------------------------------


def noted(team: Team) -> None:
    team.note(1, "a note", by="bob")


def claimed_and_noted(team: Team) -> None:
    team.claim(1, by="alice")
    team.note(1, "a note", by="alice")


def released(team: Team) -> None:
    team.claim(1, by="alice")
    team.release(1, "a note", by="alice")


def handed_over(team: Team) -> None:
    released(team)
    team.claim(1, by="bob")


def completed_with_a_note(team: Team) -> None:
    team.claim(1, by="alice")
    team.done(1, "a note", by="alice")


def made_to_wait(team: Team) -> None:
    claimed(team)
    team.add("Two")
    team.block(1, 2)


def edited_by_another(team: Team) -> None:
    claimed(team)
    write(file_of(team, 1), swap("last line", "last line, longer"))
    noted(team)


MEANWHILE = [
    nothing, claimed, noted, claimed_and_noted, released, handed_over, completed_with_a_note, finished, made_to_wait,
    edited_by_another,
]  # fmt: skip


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_save_from_a_stale_buffer_undoes_nothing(team: Team, meanwhile: Callable[[Team], None]) -> None:
    team.add("One", "first line\n\nsecond line\n\nlast line")
    path = file_of(team, 1)
    buffer = path.read_text()
    meanwhile(team)
    now = team.task(1)
    path.write_text(swap("first line", "first line, edited")(buffer))
    task = team.task(1)
    assert (task.state, task.blocked_by, task.notes) == (now.state, now.blocked_by, now.notes)
    assert task.description == now.description.replace("first line", "first line, edited")
    assert newest(team) == "Jane Doe edits #1: One"


@pytest.mark.parametrize("meanwhile", MEANWHILE[1:])
def test_stale_buffer_saved_as_it_was_changes_nothing(team: Team, meanwhile: Callable[[Team], None]) -> None:
    team.add("One", "first line\n\nsecond line\n\nlast line")
    path = file_of(team, 1)
    buffer = path.read_text()
    meanwhile(team)
    text, before = path.read_text(), commits(team)
    path.write_text(buffer)
    team.board()
    assert (path.read_text(), commits(team)) == (text, before)


def test_same_lines_changed_by_both_are_the_persons_in_the_body_and_the_branchs_in_the_state(team: Team) -> None:
    team.add("One", "the old words")
    path = file_of(team, 1)
    buffer = path.read_text()
    write(path, swap("the old words", "somebody's words"))
    team.claim(1, by="alice")
    path.write_text(swap("the old words", "my words")(buffer))
    task = team.task(1)
    assert (task.description, task.status, task.owner) == ("my words", "in_progress", "alice")
    history = git(root(team), "log", "-p", "--format=", team.ledger.branch)
    assert "+somebody's words" in history
    assert "+my words" in history


@pytest.mark.parametrize("status", ["cancelled", "completed"])
def test_wish_in_a_stale_buffer_keeps_the_notes_made_meanwhile(team: Team, status: str) -> None:
    team.add("One", "Some words")
    path = file_of(team, 1)
    buffer = path.read_text()
    claimed_and_noted(team)
    path.write_text(head(status=status)(buffer))
    task = team.task(1)
    assert task.status == status
    assert "a note" in task.notes


def test_notes_written_by_hand_and_by_command_are_both_kept(team: Team) -> None:
    team.add("One")
    team.note(1, "the first", by="bob")
    path = file_of(team, 1)
    buffer = path.read_text()
    team.note(1, "by command", by="bob")
    path.write_text(buffer + "- by hand\n")
    assert [line.rpartition(": ")[2] for line in team.task(1).notes.splitlines() if line] == [
        "the first",
        "by command",
        "- by hand",
    ]


def test_version_of_an_earlier_holder_is_stale(team: Team) -> None:
    team.add("One")
    team.claim(1, by="alice")
    path = file_of(team, 1)
    buffer = path.read_text()
    team.release(1, by="alice")
    team.claim(1, by="bob")
    path.write_text(buffer + "Some words\n")
    task = team.task(1)
    assert (task.owner, task.claim, task.description) == ("bob", 2, "Some words")


# -- swept tasks -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("sweeps_early")
def test_save_at_the_path_of_a_swept_task_goes_into_it(team: Team) -> None:
    team.add("One", "Some words")
    path = file_of(team, 1)
    team.claim(1, by="alice")
    buffer = path.read_text()
    team.done(1, "a note", by="alice")
    sweep(team)
    assert not path.exists()
    path.write_text(swap("Some words", "Some better words")(buffer))
    task = team.task(1)
    assert (task.path, task.status) == (".tasks/done/0001-0099/1-one.md", "completed")
    assert task.description == "Some better words"
    assert "a note" in task.notes
    assert not path.exists()


@pytest.mark.usefixtures("sweeps_early")
def test_swept_task_saved_as_pending_is_open_again(team: Team) -> None:
    team.add("One")
    path = file_of(team, 1)
    team.claim(1, by="alice")
    team.done(1, by="alice")
    sweep(team)
    text = file_of(team, 1).read_text()
    path.write_text(head(status="pending", owner="")(text))
    assert (team.task(1).path, team.task(1).ready) == (".tasks/1-one.md", True)
    assert team.claim(1, by="bob").claim == 2


@pytest.mark.usefixtures("sweeps_early")
def test_edit_in_done_is_found_by_the_doctor(team: Team, run: Run) -> None:
    team.add("One", "Some words")
    team.done(1)
    sweep(team)
    write(file_of(team, 1), swap("Some words", "Some better words"))
    assert ".tasks/done/0001-0099/1-one.md was changed by hand" in run("doctor").out
    assert run("doctor", "--repair").code == 0
    assert (newest(team, "%an|%s"), team.task(1).description) == (
        "Jane Doe|Jane Doe edits #1: One",
        "Some better words",
    )


@pytest.mark.usefixtures("sweeps_early")
def test_edit_in_done_is_taken_in_while_somebody_waits(team: Team) -> None:
    team.add("One", "Some words")
    team.done(1)
    sweep(team)
    path = file_of(team, 1)
    text = swap("Some words", "Some better words")(path.read_text())
    with Team(root(team)) as other:
        waiting = threading.Thread(target=other.wait, args=("alice", TIMEOUT))
        waiting.start()

        def saved_and_taken_in() -> bool:
            path.write_text(text)  # every save is an event; the first may come before the waiting has begun
            return on_branch(team, ".tasks/done/0001-0099/1-one.md") == text

        until(saved_and_taken_in, "the edit in done/ taken in")
        drop(team, "end.md", "Something to wake up for\n")
        waiting.join(TIMEOUT)
        assert not waiting.is_alive()


@pytest.mark.usefixtures("sweeps_early", "at_once")
def test_file_moved_back_out_of_done_is_not_lost(team: Team) -> None:
    team.add("One", "Some words")
    team.done(1)
    sweep(team)
    os.rename(file_of(team, 1), tasks_dir(team) / "1-one.md")
    assert (team.task(1).status, team.task(1).description) == ("completed", "Some words")
    assert file_of(team, 1).exists()


# -- a person's own commit on the branch -----------------------------------------------------------------


@pytest.fixture
def commit(team: Team, tmp_path: Path) -> Callable[[Callable[[Path], object]], None]:
    """Change the files in a work tree of the branch and commit that, as a person would."""

    def commit(change: Callable[[Path], object]) -> None:
        place = tmp_path / "elsewhere"
        git(root(team), "worktree", "add", "-q", str(place), team.ledger.branch)
        change(place)
        git(place, "add", "-fA", ".")
        git(place, "commit", "-qm", "my own commit")
        git(root(team), "worktree", "remove", "--force", str(place))

    return commit


Commit = Callable[[Callable[[Path], object]], None]


def test_nothing_is_written_while_the_branch_is_checked_out(team: Team, tmp_path: Path) -> None:
    team.add("One")
    git(root(team), "worktree", "add", "-q", str(tmp_path / "elsewhere"), team.ledger.branch)
    with pytest.raises(Refused, match="checked out"):
        team.add("Two")
    assert [t.subject for t in team.tasks()] == ["One"]
    git(root(team), "worktree", "remove", str(tmp_path / "elsewhere"))
    assert team.add("Two").id == 2


def test_own_commit_is_brought_to_the_files_and_left_as_it_is(team: Team, commit: Commit) -> None:
    team.add("One")
    commit(lambda at: write(at / ".tasks" / "1-one.md", swap("subject: One", "subject: Eins")))
    assert (team.task(1).subject, newest(team)) == ("Eins", "my own commit")
    assert "subject: Eins" in (tasks_dir(team) / "1-one.md").read_text()


def test_own_commit_with_a_claim_counts_it(team: Team, commit: Commit) -> None:
    team.add("One")
    commit(lambda at: write(at / ".tasks" / "1-one.md", head(status="in_progress", owner="alice")))
    assert team.task(1).state == ("in_progress", "alice", 1)
    assert diary(root(team))[-2:] == ["my own commit", "Jane Doe gives alice #1: One"]


def test_own_commit_with_a_claim_that_cannot_be_is_undone(team: Team, commit: Commit) -> None:
    team.add("One")
    commit(lambda at: write(at / ".tasks" / "1-one.md", head(status="in_progress", owner="zed")))
    assert team.task(1).state == ("pending", "", 0)
    assert "nobody on the team is called zed" in newest(team, "%B")


def test_own_commit_with_unreadable_text_is_mended(team: Team, commit: Commit) -> None:
    team.add("One")
    text = (tasks_dir(team) / "1-one.md").read_text()
    commit(lambda at: (at / ".tasks" / "1-one.md").write_text("---\nbroken"))
    assert team.claim(by="alice").id == 1
    assert "restores #1" in diary(root(team))[-2]
    assert text.splitlines()[1] in (tasks_dir(team) / "1-one.md").read_text()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("new.md", "2-new.md"),
        ("7-seven.md", "7-seven.md"),
        ("1-again.md", "2-1-again.md"),
        ("5000-far.md", "2-5000-far.md"),
    ],
)
def test_own_commit_with_a_new_file_gets_its_number(team: Team, commit: Commit, name: str, path: str) -> None:
    team.add("One")
    commit(lambda at: (at / ".tasks" / name).write_text("Something new\n"))
    assert [(t.path, t.subject) for t in team.tasks()] == [
        (".tasks/1-one.md", "One"),
        (f".tasks/{path}", "Something new"),
    ]
    assert sorted(os.listdir(tasks_dir(team))) == ["1-one.md", path]


def test_own_commit_with_a_new_file_that_cannot_be_read_names_it_until_it_is_mended(team: Team, commit: Commit) -> None:
    team.add("One")
    commit(lambda at: (at / ".tasks" / "new.md").write_text("---\nbroken"))
    assert "line 1" in team.status().unreadable[".tasks/new.md"]
    assert team.claim(by="alice").id == 1
    (tasks_dir(team) / "new.md").write_text("Something new\n")
    assert [t.path for t in team.tasks()] == [".tasks/1-one.md", ".tasks/2-new.md"]
    assert sorted(os.listdir(tasks_dir(team))) == ["1-one.md", "2-new.md"]


def test_own_commit_that_deletes_a_task_cancels_it(team: Team, commit: Commit) -> None:
    team.add("One")
    team.add("Two")
    commit(lambda at: (at / ".tasks" / "1-one.md").unlink())
    assert team.task(1).status == "cancelled"
    assert newest(team) == "Jane Doe cancels #1: One"


def test_own_commit_that_deletes_everything_is_undone(team: Team, commit: Commit) -> None:
    for number in range(3):
        team.add(f"Task {number}")
    commit(lambda at: shutil.rmtree(at / ".tasks"))
    assert [t.status for t in team.tasks()] == ["pending"] * 3


@pytest.mark.parametrize("change", [lambda p: p.write_text("{"), lambda p: p.unlink()], ids=["broken", "deleted"])
def test_own_commit_that_spoils_the_settings_stops_nobody(
    team: Team, commit: Commit, change: Callable[[Path], object]
) -> None:
    commit(lambda at: change(at / ".team" / "config.json"))
    assert team.add("One", by="alice").id == 1
    assert [m.name for m in team.members()] == ["alice", "bob"]


def test_own_commit_with_a_bad_line_in_an_inbox_sets_it_aside(team: Team, commit: Commit) -> None:
    team.send("alice", "one")
    more = 'no message\n{"content": "two"}\n'
    commit(lambda at: write(at / ".team" / "inbox" / "alice.jsonl", lambda text: text + more))
    assert [m.content for m in team.inbox("alice")] == ["one", "two"]
    bad = inbox(team).with_suffix(".bad")
    assert json.loads(bad.read_text())["text"] == "no message"
    assert "line 2, not JSON" in team.status().unreadable[".team/inbox/alice.bad"]
    bad.write_text("")


def test_own_commit_and_an_edit_on_disk_meet(team: Team, commit: Commit) -> None:
    team.add("One", "first line\n\nsecond line\n\nlast line")
    commit(lambda at: write(at / ".tasks" / "1-one.md", swap("first line", "first line, committed")))
    write(tasks_dir(team) / "1-one.md", swap("last line", "last line, saved"))
    assert team.task(1).description == "first line, committed\n\nsecond line\n\nlast line, saved"


# -- settings and inboxes -----------------------------------------------------------------------------------


def settings(team: Team) -> Path:
    return root(team) / ".team" / "config.json"


def set_value(team: Team, *keys: str, value: object) -> None:
    values = json.loads(settings(team).read_text())
    place = values
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    settings(team).write_text(json.dumps(values))


def test_member_written_into_the_settings_is_on_the_team(team: Team) -> None:
    set_value(team, "members", "carol", value={"role": "design"})
    team.send("carol", "welcome")
    assert [m.content for m in team.inbox("carol")] == ["welcome"]
    assert "Jane Doe edits the settings" in diary(root(team))


def test_settings_keep_their_form_and_what_nobody_knows(team: Team) -> None:
    text = settings(team).read_text().replace('"settings": {}', '"settings":   {"durability":"fast"},\n "motto": "…"')
    settings(team).write_text(text)
    assert not team.config().durable
    assert on_branch(team, ".team/config.json") == text
    team.add_member("carol")
    assert json.loads(settings(team).read_text())["motto"] == "…"


def test_branch_is_not_changed_by_the_settings(team: Team) -> None:
    set_value(team, "branch", value="elsewhere")
    team.add("One")
    assert team.config().branch == "gitteam"
    assert json.loads(settings(team).read_text())["branch"] == "gitteam"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ('{"name": "x",', "line 1: not JSON"),
        ('{\n"name": x}', "line 2: not JSON"),
        ("[]", "not a JSON object"),
        ('{"name": "X Y"}', "name"),
        ('{"name": "x", "members": []}', "objects"),
        ('{"name": "x", "members": {"all": {}}}', "'all' cannot be a member's name"),
        ('{"name": "x", "members": {"a": {"kind": "ghost"}}}', "member a"),
        ('{"name": "x", "settings": {"durability": "maybe"}}', "durability"),
        ('{"name": "x", "motto": "\\ud800"}', ""),
        ("[" * 100_000, "deep"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_read_are_named_and_the_last_good_ones_hold(team: Team, text: str, reason: str) -> None:
    good = settings(team).read_text()
    settings(team).write_text(text)
    assert reason in team.status().unreadable[".team/config.json"]
    assert team.add("One", by="alice").id == 1
    assert settings(team).read_text() == text
    settings(team).write_text(good)
    assert team.add_member("carol").name == "carol"
    assert team.status().unreadable == {}


def test_settings_that_cannot_be_read_are_named_by_status_and_doctor(team: Team, run: Run) -> None:
    good = settings(team).read_text()
    settings(team).write_text('{\n"name": x}')
    for command in ("status", "doctor"):
        assert ".team/config.json: line 2: not JSON" in run(command).out
    settings(team).write_text(good)
    assert run("doctor").code == 0


def test_edit_of_the_settings_meets_a_member_added_meanwhile(team: Team) -> None:
    set_value(team, "settings", "durability", value="fast")
    team.add_member("carol")
    assert not team.config().durable
    assert [m.name for m in team.members()] == ["alice", "bob", "carol"]


def test_edit_of_the_settings_written_after_they_were_replaced_meets_the_new_ones(team: Team) -> None:
    with open(settings(team), "r+") as f:
        values = json.load(f)
        team.add_member("carol")  # what this editor has open is no longer the file that stands there
        values["settings"]["durability"] = "fast"
        f.seek(0)
        json.dump(values, f)
        f.truncate()
    assert [m.name for m in team.members()] == ["alice", "bob", "carol"]
    assert not team.config().durable


def inbox(team: Team, name: str = "alice") -> Path:
    return root(team) / ".team" / "inbox" / f"{name}.jsonl"


def test_line_appended_to_an_inbox_is_a_message_byte_for_byte(team: Team) -> None:
    line = '{ "content":"hi" , "sender": "bob" }\n'
    with open(inbox(team), "a") as f:
        f.write(line)
    [message] = team.inbox("alice")
    assert (message.content, message.sender, message.to, message.type) == ("hi", "bob", "alice", "message")
    assert on_branch(team, ".team/inbox/alice.jsonl") == line == inbox(team).read_text()
    assert newest(team, "%an|%s") == "Jane Doe|Jane Doe adds 1 message to alice's inbox"


@pytest.mark.parametrize("style", STYLES)
def test_line_deleted_from_an_inbox_is_gone(team: Team, style: Callable[..., None]) -> None:
    for text in ("one", "two", "three"):
        team.send("alice", text)
    lines = inbox(team).read_text().splitlines(keepends=True)
    style(inbox(team), lines[0] + lines[2], lambda: None)
    assert [m.content for m in team.inbox("alice")] == ["one", "three"]
    assert newest(team) == "Jane Doe removes 1 message from alice's inbox"


def test_line_deleted_while_another_comes(team: Team) -> None:
    team.send("alice", "one")
    team.send("alice", "two")
    write(inbox(team), lambda text: text.splitlines(keepends=True)[1])
    team.send("alice", "three", by="bob")
    assert [m.content for m in team.inbox("alice")] == ["two", "three"]


def test_last_line_without_its_end_is_a_message_once_it_is_whole(team: Team) -> None:
    with open(inbox(team), "a") as f:
        f.write('{"content": "h')
        f.flush()
        assert team.inbox("alice") == []
        f.write('i"}')
        f.flush()
        assert [m.content for m in team.inbox("alice")] == ["hi"]
    assert [m.content for m in team.inbox("alice")] == ["hi"]
