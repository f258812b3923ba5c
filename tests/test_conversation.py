"""A member's conversation on disk: whole and valid again after the program ended at any point."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Pause, check, conversation, crew, in_turn, team_of
from conftest import TIMEOUT, until

from gitteam import Team
from gitteam.agents.blocks import result, text_block
from gitteam.agents.conversation import INTERRUPTED, RESUMED, Conversation
from gitteam.scripted import Reply, Server
from gitteam.scripted.conversation import check_messages


def use(number: int, name: str = "bash") -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {"command": "ls ☃"}}


def fill(path: Path) -> None:
    """Everything that happens to a conversation, once."""
    talk = Conversation(str(path))
    talk.tell("Task #1: Fix it", "<team-message>hi ☃</team-message>", delivered=["a", "b"])
    talk.hear([text_block("I look."), use(1), use(2)])
    talk.forget(["a", "b"])
    talk.answer([result(use(1), "one"), result(use(2), "two", is_error=True)], ["c"])
    talk.tell("You are going round in circles.")
    talk.hear([use(3)])
    talk.answer([result(use(3), "")], [])
    talk.begin_anew([{"role": "user", "content": [text_block("a summary"), text_block("you are alice")]}])
    talk.hear([text_block("On."), use(4)])
    talk.answer([result(use(4), "four")], [])
    talk.hear([text_block("Done.")])
    talk.tell("Task #2: More")
    talk.hear([text_block("Done too.")])
    talk.close()


def is_valid(talk: Conversation) -> None:
    """The API would take it, with something to answer at its end."""
    messages = [*talk.messages]
    if not messages or messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": [text_block("next")]})
    check_messages(messages)


def loaded(path: Path) -> Conversation:
    talk = Conversation(str(path))
    talk.close()
    return talk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "transcripts/alice.jsonl"


def test_a_conversation_is_the_same_after_a_restart(path: Path) -> None:
    fill(path)
    talk, again = loaded(path), loaded(path)
    assert talk.messages == again.messages
    assert [m["role"] for m in talk.messages] == ["user", "assistant"] * 3
    assert (talk.delivered, talk.resumed) == ({"c"}, True)


def test_only_its_owner_may_read_it(path: Path) -> None:
    before = os.umask(0)
    try:
        fill(path)
    finally:
        os.umask(before)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_file_cut_at_any_byte_is_valid_and_goes_on(path: Path, tmp_path: Path) -> None:
    fill(path)
    data = path.read_bytes()
    cut = tmp_path / "cut/alice.jsonl"
    cut.parent.mkdir()
    for size in range(len(data) + 1):
        cut.write_bytes(data[:size])
        talk = Conversation(str(cut))
        is_valid(talk)
        talk.tell("Task #3: After the crash", delivered=["z"])
        talk.hear([use(size + 100)])
        talk.answer([result(use(size + 100), "x")], [])
        talk.close()
        again = loaded(cut)
        is_valid(again)
        assert "Task #3: After the crash" in str(again.messages[-3:]), size
        assert again.messages[:-1] == talk.messages[:-1]
        assert "z" in again.delivered
        assert cut.read_bytes().startswith(data[:size])


def test_a_file_cut_behind_any_line_loses_no_line_before_it(path: Path) -> None:
    fill(path)
    lines = path.read_bytes().splitlines(keepends=True)
    for count in range(len(lines) + 1):
        path.write_bytes(b"".join(lines[:count]))
        talk = loaded(path)
        is_valid(talk)
        last = json.loads(lines[count - 1]) if count else {}
        for block in last.get("user", []) + last.get("assistant", []):
            assert block in [b for m in talk.messages for b in m["content"]]


@pytest.mark.parametrize("junk", [b"\0" * 100, b"\xff\xfe\n", b"[1]\n", b'"x"\n', b"[" * 100_000, b"\n\n"])
def test_what_is_no_step_is_left_out(junk: bytes, path: Path) -> None:
    fill(path)
    before = loaded(path).messages
    with open(path, "ab") as f:
        f.write(junk)
    talk = Conversation(str(path))
    talk.tell("next")
    talk.close()
    assert loaded(path).messages[:-1] == before
    is_valid(loaded(path))


def test_a_call_that_was_interrupted_is_told_so(path: Path) -> None:
    talk = Conversation(str(path))
    talk.tell("Task #1: Fix it")
    talk.hear([use(1), use(2)])
    talk.close()
    assert loaded(path).messages[-1]["content"] == [
        result(use(1), INTERRUPTED, True), result(use(2), INTERRUPTED, True), text_block(RESUMED),
    ]  # fmt: skip


def test_many_restarts_are_told_once(path: Path) -> None:
    talk = Conversation(str(path))
    talk.tell("Task #1: Fix it")
    talk.close()
    for _ in range(5):
        talk = loaded(path)
    assert talk.messages == [{"role": "user", "content": [text_block("Task #1: Fix it"), text_block(RESUMED)]}]


def test_a_new_conversation_was_not_interrupted(path: Path) -> None:
    talk = loaded(path)
    assert (talk.messages, talk.resumed) == ([], False)


def test_the_end_of_a_piece_of_work_answers_what_has_no_answer(path: Path) -> None:
    talk = Conversation(str(path))
    talk.end_turn("nothing was said")
    talk.tell("Task #1: Fix it")
    talk.end_turn("(given up)")
    talk.end_turn("(given up)")
    assert [m["role"] for m in talk.messages] == ["user", "assistant"]
    talk.close()
    assert loaded(path).messages == talk.messages


def test_delivered_ids_are_remembered_until_they_have_left_the_inbox(path: Path) -> None:
    talk = Conversation(str(path))
    talk.tell("one", delivered=["a", "b"])
    talk.forget(["a"])
    talk.close()
    assert loaded(path).delivered == {"b"}
    talk = Conversation(str(path))
    talk.keep_delivered({"b", "c"})
    assert talk.delivered == {"b"}
    talk.keep_delivered({"c"})
    talk.close()
    assert loaded(path).delivered == set()


# -- messages by hand -------------------------------------------------------------------------------


@pytest.fixture
def alice(repo: Path) -> Iterator[Team]:
    with team_of(repo, "alice") as team:
        yield team


def append(repo: Path, line: str = '{"from": "lead", "content": "go on"}\n') -> None:
    with open(repo / ".team/inbox/alice.jsonl", "a") as f:
        f.write(line)


def test_an_identical_message_by_hand_is_delivered_again(alice: Team, repo: Path) -> None:
    with Server(lambda request: Reply("All right.")) as server, crew(alice, server):
        for count in range(1, 4):
            append(repo)
            server.wait_for(
                lambda request, count=count: request.new_text.count("go on") == 1 == request.number // count, 60
            )
            until(lambda: not alice.inbox("alice"), "the message taken")
        check(server)
    assert [request.new_text.count("go on") for request in server.requests] == [1, 1, 1]


def test_an_identical_message_that_comes_while_the_first_is_read_is_delivered_too(alice: Team, repo: Path) -> None:
    reads = Pause(Reply("Read."))
    with Server(in_turn(alice=[reads])) as server, crew(alice, server):
        append(repo)
        with reads.meanwhile():
            append(repo)
        server.wait_for(lambda request: request.number == 2, TIMEOUT)
        until(lambda: not alice.inbox("alice"), "both taken")
        check(server)
    assert [request.new_text.count("go on") for request in server.requests] == [1, 1]


def test_an_identical_message_is_delivered_also_after_a_crash_between_taking_and_noting_it(
    alice: Team, repo: Path
) -> None:
    with Server(lambda request: Reply("All right.")) as server:
        with crew(alice, server):
            append(repo)
            until(lambda: server.requests and not alice.inbox("alice"), "the message taken")
        path = Path(alice.place.transcripts) / "alice.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if b'"taken"' not in line))
        with crew(alice, server):
            until(lambda: alice.config().members["alice"].reason == "awaiting_messages", "alice waiting")
            until(lambda: b'"taken"' in path.read_bytes(), "the id forgotten")
            append(repo)
            server.wait_for(lambda request: request.number == 2, TIMEOUT)
            until(lambda: not alice.inbox("alice"), "the message taken")
        check(server)
    assert conversation(server.requests[-1]).count("go on") == 2
