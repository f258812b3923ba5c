"""Others write to the same files at the same moment, without asking: nothing of theirs or ours is lost or doubled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import outside
import pytest
from conftest import TIMEOUT, check_everything, git, until

from gitteam import Team

Start = Callable[..., subprocess.Popen[str]]

SHELL = r"""
i=0
while [ $i -lt $3 ]; do
    echo "{\"content\": \"$2-$i\"}" >> "$1/.team/inbox/alice.jsonl"
    i=$((i + 1))
    /bin/true
done
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process of outside.py, or with a list any other; whatever still runs at the end is ended."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str | Path, command: list[str] | None = None) -> subprocess.Popen[str]:
        program = command or [sys.executable, outside.__file__]
        process = subprocess.Popen(
            [*program, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        _, err = process.communicate(timeout=5 * TIMEOUT)
        assert process.returncode == 0, err


def inbox(team: Team) -> Path:
    return Path(team.place.root) / outside.INBOX


def take(team: Team) -> list[str]:
    with team.take("alice") as messages:
        return [m.content for m in messages]


def fast(team: Team) -> None:
    """Without waiting for the disk there are more changes in the same time, and so more chances to go wrong."""
    path = Path(team.place.root) / ".team" / "config.json"
    path.write_text(path.read_text().replace('"settings": {}', '"settings": {"durability": "fast"}'))
    assert not team.config().durable


def assert_mail_is_whole(team: Team, start: Start, tmp_path: Path, each: int, writers: list[str]) -> None:
    """Outsiders append and a member sends, so many messages each, while two take: each comes out exactly once."""
    root, out, stop = team.place.root, tmp_path / "out", tmp_path / "stop"
    inbox(team).touch()
    takers = [start("take", root, f"{out}{n}", stop) for n in range(2)]
    until(lambda: all(Path(f"{out}{n}").exists() for n in range(2)), "both takers at work")
    started = []
    for writer in writers:
        command = ["sh", "-c", SHELL] if writer.startswith("shell") else None
        started.append(start(writer.rstrip("12"), root, writer, str(each), command=command))
    finish(*started)
    stop.touch()
    finish(*takers)
    taken = [json.loads(line) for n in range(2) for line in Path(f"{out}{n}").read_text().splitlines()]
    taken += take(team)
    expected = Counter(f"{writer}-{number}" for writer in writers for number in range(each))
    assert Counter(taken) - expected == Counter(), "doubled"
    assert expected - Counter(taken) == Counter(), "lost"
    assert not inbox(team).with_suffix(".bad").exists()
    assert os.listdir(team.place.aside) == []
    check_everything(team)


MANY = ["shell1", "shell2", "append1", "append2", "send"]


def test_no_append_is_lost_or_doubled_while_the_inbox_is_taken(team: Team, start: Start, tmp_path: Path) -> None:
    assert_mail_is_whole(team, start, tmp_path, 300, MANY)


@pytest.mark.long
def test_none_of_thousands_of_appends_is_lost_or_doubled(team: Team, start: Start, tmp_path: Path) -> None:
    fast(team)
    assert_mail_is_whole(team, start, tmp_path, 800, MANY)


def test_no_line_written_in_two_halves_is_lost_or_doubled(team: Team, start: Start, tmp_path: Path) -> None:
    """One such writer only: two would tear each other's lines."""
    assert_mail_is_whole(team, start, tmp_path, 100, ["append_halves", "send"])


@pytest.fixture
def appender(team: Team, start: Start) -> Callable[[str], None]:
    """Somebody who has the inbox open all the time and writes when told to."""
    inbox(team).touch()
    process = start("append_on_command", team.place.root)
    assert process.stdin
    assert process.stdout
    assert process.stdout.readline() == "open\n"

    def append(part: str) -> None:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(part) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "written\n"

    append.close = lambda: finish(process)  # type: ignore[attr-defined]
    return append


def nothing(team: Team, taken: list[str]) -> None:
    pass


def somebody_sends(team: Team, taken: list[str]) -> None:
    team.send("alice", "from bob", by="bob")


def alice_takes(team: Team, taken: list[str]) -> None:
    taken += take(team)


def both(team: Team, taken: list[str]) -> None:
    somebody_sends(team, taken)
    alice_takes(team, taken)


BETWEEN = [nothing, somebody_sends, alice_takes, both]


@pytest.mark.parametrize("then", BETWEEN)
@pytest.mark.parametrize("between", BETWEEN)
def test_line_written_in_two_halves_is_one_message(
    team: Team, appender: Callable[[str], None], between: Callable[..., None], then: Callable[..., None]
) -> None:
    taken: list[str] = []
    for number in range(3):
        appender('{"content": "mess')
        between(team, taken)
        appender(f'age {number}"}}\n')
        then(team, taken)
    appender.close()  # type: ignore[attr-defined]
    taken += take(team)
    assert [t for t in taken if t != "from bob"] == ["message 0", "message 1", "message 2"]
    assert not inbox(team).with_suffix(".bad").exists()
    assert take(team) == []
    check_everything(team)


@pytest.mark.parametrize("between", BETWEEN)
def test_identical_lines_are_as_many_messages(
    team: Team, appender: Callable[[str], None], between: Callable[..., None]
) -> None:
    taken: list[str] = []
    for _ in range(4):
        appender('{"content": "ping"}\n')
        between(team, taken)
    appender.close()  # type: ignore[attr-defined]
    taken += take(team)
    assert taken.count("ping") == 4
    check_everything(team)


def test_writer_that_is_killed_leaves_its_half_line_set_aside(team: Team, start: Start) -> None:
    inbox(team).touch()
    process = start("append_on_command", team.place.root)
    assert process.stdin
    assert process.stdout
    process.stdout.readline()
    process.stdin.write(json.dumps('{"content": "whole"}\n{"content": "ha') + "\n")
    process.stdin.flush()
    process.stdout.readline()
    team.send("alice", "from bob")
    process.kill()
    process.wait()
    assert sorted(take(team)) == ["from bob", "whole"]
    [bad] = inbox(team).with_suffix(".bad").read_text().splitlines()
    assert json.loads(bad)["text"] == '{"content": "ha'
    assert team.send("alice", "next")
    assert take(team) == ["next"]
    check_everything(team)


def versions(team: Team) -> list[str]:
    """Every text the task's file has had on the branch, oldest first."""
    form = ["--reverse", "--format=", "--raw", "--no-abbrev"]
    blobs = re.findall(
        r"^:\S+ \S+ \S+ (\S+) ", git(team.place.root, "log", *form, "gitteam", "--", ".tasks"), re.MULTILINE
    )
    read = subprocess.run(
        ["git", "cat-file", "--batch"],
        cwd=team.place.root,
        input="\n".join(blobs),
        capture_output=True,
        text=True,
        check=True,
    )
    return re.split(r"^\S+ blob \d+\n", read.stdout, flags=re.MULTILINE)[1:]


def assert_task_is_whole(team: Team, start: Start, tmp_path: Path, style: str, saves: int) -> None:
    """A person saves while a member claims, notes and releases: every note and every save is there at the end."""
    acknowledged, stop = tmp_path / "acknowledged", tmp_path / "stop"
    team.add("One", "first line\n\nedit: 0\n\nlast line")
    path = Path(team.place.root) / team.task(1).path
    member = start("work", team.place.root, acknowledged, stop)
    until(lambda: acknowledged.exists() and acknowledged.stat().st_size, "the member at work")
    finish(start("edit", path, style, saves, acknowledged))
    stop.touch()
    finish(member)
    task = team.task(1)
    said = acknowledged.read_text().splitlines()
    notes = [line.removeprefix("note ") for line in said if line.startswith("note ")]
    assert re.findall(r"note-\d+-end", task.notes) == notes
    assert task.state == ("pending", "", said.count("claim"))
    assert task.description == f"first line\n\nedit: {saves}\n\nlast line"
    bodies = [
        re.search(r"^---\n(first line\n\nedit: (\d+)\n\nlast line\n)", text, re.MULTILINE) for text in versions(team)
    ]
    assert all(bodies), "half a text was committed"
    edits = [int(body[2]) for body in bodies if body]
    assert edits == sorted(edits), "an older text came back"
    assert sorted(os.listdir(path.parent)) == [path.name]
    assert team.status().unreadable == {}
    check_everything(team)


@pytest.mark.parametrize("style", outside.STYLES)
def test_saving_beside_a_member_at_work_loses_nothing(team: Team, start: Start, tmp_path: Path, style: str) -> None:
    assert_task_is_whole(team, start, tmp_path, style, 100)


@pytest.mark.long
@pytest.mark.parametrize("style", outside.STYLES)
def test_saving_hundreds_of_times_loses_nothing(team: Team, start: Start, tmp_path: Path, style: str) -> None:
    fast(team)
    assert_task_is_whole(team, start, tmp_path, style, 300)
