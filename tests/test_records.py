"""Tasks, messages and members: the text they are read from, and the text they become."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitteam.errors import BadFile
from gitteam.records import (
    MAX_FILE,
    MAX_SUBJECT,
    MESSAGE_TYPES,
    STATUSES,
    Member,
    Message,
    Task,
    new_task_text,
    parse_member,
    parse_message,
    parse_task,
)

PATH = ".tasks/7-fix-it.md"
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
LINES = st.text(st.sampled_from("ab#-: \n"), max_size=30)


def task(text: str, path: str = PATH) -> Task:
    return parse_task(path, text.encode())


def headed(*lines: str, body: str = "") -> str:
    return "\n".join(["---", "subject: Fix it", *lines, "---", body])


# -- tasks ----------------------------------------------------------------------------------------


def test_every_key_of_a_task_is_read() -> None:
    found = task(headed(
        "status: in_progress", "owner: alice", "blockedBy: [3, 1]", "role: backend", "priority: -2", "attempts: 1",
        "claim: 4", "run: abc", body="Why.\n\n## Notes\n\n- then alice: so\n",
    ))  # fmt: skip
    assert found.to_json() == {
        "id": 7, "subject": "Fix it", "description": "Why.", "status": "in_progress", "owner": "alice",
        "blockedBy": [3, 1], "ready": False, "reason": "", "path": PATH, "claim": 4, "role": "backend", "priority": -2,
        "attempts": 1, "notes": "- then alice: so",
    }  # fmt: skip
    assert found.run == "abc"


def test_what_is_not_said_has_a_default() -> None:
    found = task(headed())
    assert (found.status, found.owner, found.blocked_by, found.claim, found.priority) == ("pending", "", (), 0, 0)


@pytest.mark.parametrize(
    ("path", "number"),
    [
        (".tasks/7-fix-it.md", 7), (".tasks/7.md", 7), (".tasks/7_x.md", 7), (".tasks/7 x.md", 7),
        (".tasks/12.x.md", 12),
        (".tasks/done/0100-0199/103-x.md", 103), (".tasks/fix-it.md", 0), (".tasks/07-x.md", 0), (".tasks/7x.md", 0),
        (".tasks/0-x.md", 0), (".tasks/12345678901-x.md", 0), (".tasks/٣-x.md", 0),
    ],
)  # fmt: skip
def test_the_number_that_begins_the_name_is_the_id(path: str, number: int) -> None:
    assert task(headed(), path).id == number


@pytest.mark.parametrize(
    ("text", "subject", "description"),
    [
        ("Fix the login page", "Fix the login page", ""),
        ("Fix it\n\nIt is broken.\n", "Fix it", "It is broken."),
        ("\n\n  # A heading\ntext\n", "A heading", "text"),
        ("### Deep  \n", "Deep", ""),
        ("#hashtag first\n", "#hashtag first", ""),
        ("\ufeffWith a mark\r\nmore\r\n", "With a mark", "more"),
        ("Setext\n---\nmore\n", "Setext", "---\nmore"),
        ("status: completed\n", "status: completed", ""),
        ("---\nstatus: pending\n---\n# From the body\nmore\n", "From the body", "more"),
        ("---\nsubject: 42\n---\n", "42", ""),
    ],
)
def test_the_subject_is_the_key_or_the_first_line(text: str, subject: str, description: str) -> None:
    found = task(text)
    assert (found.subject, found.description) == (subject, description)


@pytest.mark.parametrize(
    ("data", "line", "word"),
    [
        (b"", None, "no subject"),
        (b" \n\n", None, "no subject"),
        (b"---\nstatus: pending\n---\n\n", None, "no subject"),
        (b"---\nsubject: x\nstatus: doing\n---\n", 3, "status 'doing'"),
        (b"---\nsubject: x\nstatus: [pending]\n---\n", 3, "not a list"),
        (b"---\nsubject: x\nstatus: in_progress\n---\n", 3, "owner"),
        (b"---\nsubject: x\nowner: Alice Smith\n---\n", 3, "name"),
        (b"---\nsubject: x\nowner: ../x\n---\n", 3, "name"),
        (b"---\nsubject: x\nrole: Back End\n---\n", 3, "name"),
        (b"---\nsubject: x\n\nblockedBy: [one]\n---\n", 4, "numbers"),
        (b"---\nsubject: x\nblockedBy: [0]\n---\n", 3, "from 1"),
        (b"---\nsubject: x\npriority: high\n---\n", 3, "whole number"),
        (b"---\nsubject: x\nclaim: -1\n---\n", 3, "negative"),
        (b"---\nsubject: x\nattempts: -1\n---\n", 3, "negative"),
        (b"---\nsubject: x\n", 1, "not closed"),
        (b"x\ny\0\n", 2, "NUL"),
        (b"x\ny\n\xff\n", 3, "UTF-8"),
        ("words".encode("utf-16"), None, "UTF-16"),
        (b"x" * (MAX_SUBJECT + 1), None, "longer"),
        (b"x\n" + b"y" * MAX_FILE, None, "larger"),
    ],
)
def test_a_file_that_is_no_task_is_refused_with_line_and_reason(data: bytes, line: int | None, word: str) -> None:
    with pytest.raises(BadFile) as caught:
        parse_task(PATH, data)
    assert word in caught.value.reason
    assert caught.value.line == line


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_is_read(status: str) -> None:
    assert task(headed(f"status: {status}", "owner: alice")).status == status


@settings(deadline=None)
@given(STRINGS, STRINGS, st.lists(st.integers(1, 999), unique=True), st.integers(-99, 99))
def test_a_new_task_reads_back_as_it_was_given(subject: str, text: str, blockers: list[int], priority: int) -> None:
    subject, text = " ".join(subject.split()) or "x", text.replace("\0", "").replace("## Notes", "").strip("\r\n")
    found = task(new_task_text(subject, text, blockers, "backend", priority))
    assert (found.subject, found.description) == (subject, text)
    assert (found.blocked_by, found.role, found.priority) == (tuple(blockers), "backend", priority)
    assert found.state == ("pending", "", 0)


def test_a_claim_changes_only_its_lines() -> None:
    text = headed("status: pending", "owner:", "# mine", "x: y", body="Body\n")
    claimed = task(text).with_values(status="in_progress", owner="alice", claim=1)
    assert claimed.text.splitlines() == [
        "---", "subject: Fix it", "status: in_progress", "owner: alice", "# mine", "x: y", "claim: 1", "---", "Body",
    ]  # fmt: skip
    assert claimed.state == ("in_progress", "alice", 1)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("Fix it\nmore\n", "more\n"),
        ("# Fix it\n\nmore\n", "more\n"),
        ("\ufeffFix it\n", ""),
        ("Fix it\n---\nmore\n", "---\nmore\n"),
        ("Fix it\n---\nstatus: completed\n---\nmore\n", "---\nstatus: completed\n---\nmore\n"),
        ("Fix it", ""),
    ],
)
def test_plain_text_gets_a_head_and_keeps_its_body(text: str, body: str) -> None:
    claimed = task(text).with_values(status="in_progress", owner="alice", claim=1)
    assert claimed.text == f"---\nsubject: Fix it\nstatus: in_progress\nowner: alice\nclaim: 1\n---\n{body}"


def noted(text: str, note: str) -> Task:
    return task(text).with_note("2026-11-18T12:00:00Z", "alice", note)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (headed(), "\n## Notes\n\n"),
        (headed(body="Body"), "\n\n## Notes\n\n"),
        (headed(body="Body\n"), "\n## Notes\n\n"),
        (headed(body="Body\n\n## Notes\n\n- old\n"), ""),
        (headed(body="## Notes\n"), ""),
        (headed(body="## Notes on style\n"), "\n## Notes\n\n"),
        ("plain", "\n\n## Notes\n\n"),
    ],
)
def test_a_note_goes_below_one_heading_at_the_end(before: str, after: str) -> None:
    entry = "- 2026-11-18T12:00:00Z alice: it works\n"
    assert noted(before, "it works\n").text.removeprefix(before).lstrip("\n") == (after + entry).lstrip("\n")


def test_a_note_of_many_lines_stays_one_entry() -> None:
    found = noted(headed(), "first\n## Notes\nlast")
    assert found.notes == "- 2026-11-18T12:00:00Z alice: first\n  ## Notes\n  last"


@settings(deadline=None)
@given(LINES, LINES.filter(str.strip))
@example("## Notes\n- a", "b")
def test_a_note_only_ever_appends(body: str, note: str) -> None:
    before = task(headed(body=body))
    after = before.with_note("2026-11-18T12:00:00Z", "alice", note)
    assert after.text.startswith(before.text)
    assert after.notes.startswith(before.notes)
    assert after.description.rstrip() == before.description.rstrip()
    assert note.strip().splitlines()[-1].strip() in after.notes


# -- messages -------------------------------------------------------------------------------------


def message(occurrence: int = 0, /, **values: Any) -> Message:
    return parse_message(json.dumps(values).encode(), "alice", occurrence)


def test_a_line_with_content_alone_is_a_message() -> None:
    found = message(content="hi")
    assert (found.type, found.sender, found.to, found.content, found.timestamp) == ("message", "", "alice", "hi", 0)


@pytest.mark.parametrize("key", ["from", "sender"])
def test_the_sender_is_read_under_either_name(key: str) -> None:
    assert message(content="hi", **{key: "bob"}).sender == "bob"


def test_a_missing_id_is_derived_from_content_and_place() -> None:
    first, again, second, other = (
        message(content="hi"), message(content="hi"), message(1, content="hi"), message(content="ho"),
    )  # fmt: skip
    assert first.id == again.id
    assert len({first.id, second.id, other.id}) == 3


@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_id_counts_as_missing(empty: Any) -> None:
    assert message(content="hi", id=empty).id != message(1, content="hi", id=empty).id


def test_an_id_that_is_given_stays() -> None:
    assert message(5, content="hi", id="x1").id == "x1"


def test_unknown_keys_are_kept() -> None:
    found = message(content="hi", request_id="r", approve=True, nested={"a": [1]})
    assert found.extra == {"request_id": "r", "approve": True, "nested": {"a": [1]}}
    assert found.to_json()["nested"] == {"a": [1]}


@pytest.mark.parametrize("kind", MESSAGE_TYPES)
def test_every_type_is_read(kind: str) -> None:
    assert message(content="hi", type=kind).type == kind


@pytest.mark.parametrize("stamp", ["soon", True, None, [], -5, 10**18, 1e300])
def test_a_time_that_is_none_reads_as_no_time(stamp: Any) -> None:
    assert message(content="hi", timestamp=stamp).timestamp == 0


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b"", "JSON"),
        (b'{"content": "torn', "JSON"),
        (b"hello", "JSON"),
        (b'{"content": "\xff"}', "JSON"),
        (b'{"content": "x", "timestamp": NaN}', "JSON"),
        (b'{"content": "x", "n": -Infinity}', "JSON"),
        (b"[1]", "object"),
        (b'"text"', "object"),
        (b"{}", "content"),
        (b'{"content": null}', "content"),
        (b'{"content": 5}', "content"),
        (b'{"content": "\\ud800"}', "content"),
        (b'{"content": "x", "a": "\\udfff"}', "content"),
        (b'{"content": "x", "type": "shout"}', "unknown type"),
        (b"[" * 100_000, "deep"),
        (b'{"content": "' + b"x" * MAX_FILE + b'"}', "longer"),
    ],
)
def test_a_line_that_is_no_message_is_refused_with_the_reason(line: bytes, word: str) -> None:
    with pytest.raises(BadFile, match=word):
        parse_message(line, "alice", 0)


@settings(deadline=None)
@given(STRINGS, st.dictionaries(st.sampled_from(["request_id", "reason", "x"]), STRINGS))
def test_a_message_is_one_line_and_reads_back(content: str, extra: dict[str, Any]) -> None:
    sent = Message("id1", "message", "bob", "alice", content, 1709234567.89, extra)
    line = sent.line()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert parse_message(line.rstrip(b"\n"), "alice", 0) == sent


def test_the_line_of_a_message_begins_as_the_protocol_shows_it() -> None:
    line = Message("1", "message", "lead", "alice", "grüße", 1.5).line().decode()
    assert line == (
        '{"id": "1", "type": "message", "from": "lead", "to": "alice", "content": "grüße", "timestamp": 1.5}\n'
    )


# -- members ----------------------------------------------------------------------------------------


def test_a_member_reads_back_with_what_it_does_not_know() -> None:
    values = {"role": "backend", "kind": "person", "status": "working", "reason": "", "since": 5.5, "shoe": "x"}
    found = parse_member("alice", values)
    assert found == Member("alice", "backend", "person", "working", "", 5.5, extra={"shoe": "x"})
    assert found.to_json() == values


def test_a_member_needs_nothing_but_a_name() -> None:
    assert parse_member("alice", {}) == Member("alice")


@pytest.mark.parametrize(
    ("name", "values", "word"),
    [
        ("lead", {}, "name"), ("user", {}, "name"), ("all", {}, "name"), ("gitteam", {}, "name"),
        ("Alice", {}, "name"), ("../alice", {}, "name"), ("a" * 41, {}, "name"), ("", {}, "name"), ("a\n", {}, "name"),
        ("alice", [], "object"), ("alice", {"role": 5}, "type"), ("alice", {"since": "then"}, "type"),
        ("alice", {"role": "Back End"}, "role"), ("alice", {"kind": "robot"}, "kind"),
        ("alice", {"status": "away"}, "status"),
    ],
)  # fmt: skip
def test_what_is_no_member_is_refused_with_the_reason(name: str, values: Any, word: str) -> None:
    with pytest.raises(BadFile, match=word):
        parse_member(name, values)
