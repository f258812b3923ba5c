"""Making room: rarely, in big steps, and never so that the API would not take it or the member forgets who it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agents import call, check, completes, conversation, crew, finish, handed, team_of
from conftest import TIMEOUT
from hypothesis import given
from hypothesis import strategies as st

from gitteam import Team
from gitteam import requests as team_requests
from gitteam.agents import compaction, words
from gitteam.agents.blocks import result, text_block
from gitteam.agents.lead import ME
from gitteam.scripted import Fault, Reply, Request, Server
from gitteam.scripted.conversation import check_messages

SUMMARY = "The conversation is about to be shortened."
SHORTENED = "Your conversation has been shortened."


# -- pure -------------------------------------------------------------------------------------------


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Sound conversations that end with something to answer: texts and calls of all sizes."""
    texts = st.sampled_from(["x", "word " * 30, "y" * 300, "z" * 3000, "☃" * 900])
    messages: list[dict[str, Any]] = [{"role": "user", "content": [text_block(draw(texts))]}]
    for turn in range(draw(st.integers(0, 8))):
        uses = [
            {"type": "tool_use", "id": f"toolu_{turn}_{n}", "name": "bash", "input": {"command": draw(texts)}}
            for n in range(draw(st.integers(0, 4)))
        ]
        messages.append({"role": "assistant", "content": [text_block(draw(texts)), *uses]})
        results = [result(each, draw(texts), draw(st.booleans())) for each in uses]
        told = [text_block(draw(texts))] if not uses or draw(st.booleans()) else []
        messages.append({"role": "user", "content": [*results, *told]})
    return messages


def kinds(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(b["type"], b.get("id") or b.get("tool_use_id") or "") for m in messages for b in m["content"]]


@given(conversations())
def test_clearing_keeps_every_pair_every_text_and_the_newest_message(messages: list[dict[str, Any]]) -> None:
    before = json.dumps(messages)
    after = compaction.without_old_results(messages)
    check_messages(after)
    assert kinds(after) == kinds(messages)
    assert after[-1] == messages[-1]
    for old, new in zip(messages, after, strict=True):
        assert [b for b in new["content"] if b["type"] != "tool_result"] == [
            b for b in old["content"] if b["type"] != "tool_result"
        ]
    assert json.dumps(messages) == before, "what was given has been changed"


@given(conversations())
def test_clearing_twice_is_clearing_once(messages: list[dict[str, Any]]) -> None:
    once = compaction.without_old_results(messages)
    again = compaction.without_old_results(once)
    assert len(json.dumps(again)) <= len(json.dumps(once))
    check_messages(again)


@given(conversations(), st.text(min_size=1).filter(str.strip))
def test_a_question_can_be_asked_of_any_conversation_and_any_end_of_it(
    messages: list[dict[str, Any]], question: str
) -> None:
    sizes = []
    for some in compaction.shrinking(messages):
        asked = compaction.with_question(some, question)
        check_messages(asked)
        assert asked[-1]["content"][-1] == text_block(question)
        assert kinds(some) == kinds(messages)[-len(kinds(some)) :]
        sizes.append(len(json.dumps(some)))
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) >= 2


@given(conversations())
def test_what_the_model_has_not_answered_goes_over_whole(messages: list[dict[str, Any]]) -> None:
    last = messages[-1]["content"]
    assert compaction.newest_texts(messages) == [b["text"] for b in last if b["type"] == "text"]
    assert len(compaction.newest_results(messages, str)) == sum(b["type"] == "tool_result" for b in last)
    assert all(len(text) <= 4001 for text in compaction.newest_results(messages, str))


def test_after_an_answer_nothing_is_left_to_go_over() -> None:
    answered = [{"role": "user", "content": [text_block("a")]}, {"role": "assistant", "content": [text_block("b")]}]
    assert (compaction.newest_texts(answered), compaction.newest_results(answered, str)) == ([], [])
    assert compaction.newest_texts([]) == []


@pytest.mark.parametrize(
    ("tokens", "due"), [(0, ""), (599, ""), (600, "clear"), (799, "clear"), (800, "summarize"), (5000, "summarize")]
)
def test_what_is_due_depends_on_the_window(tokens: int, due: str) -> None:
    assert compaction.is_due(tokens, 1000) == due


# -- the whole of it ----------------------------------------------------------------------------------


@pytest.fixture
def alice(repo: Path) -> Iterator[Team]:
    Team.init(repo, name="crew")
    with Team(repo) as team:
        team.add_member("alice", "backend")
        team.add("Write the report", "About the </team-task> weather.")
        yield team


def steps(*answers: Any) -> Callable[[Request], Any]:
    """One after another; a request for a summary is answered whenever it comes, and then all is completed."""
    left = list(answers)

    def answer(request: Request) -> Any:
        if SUMMARY in request.new_text:
            return Reply("I have read a and b. Next: write.")
        return left.pop(0) if left else Reply("Done.") if "completed now" in request.new_text else completes(1)

    return answer


def look(number: int, tokens: int = 0) -> Reply:
    usage = {"input_tokens": tokens} if tokens else {}
    return Reply(f"Look {number}.", [("bash", {"command": f"seq -s, 900; echo result {number}"})], usage=usage)


def transcript(team: Team) -> str:
    return (Path(team.place.transcripts) / "alice.jsonl").read_text()


def test_old_results_go_first_and_only_once(alice: Team) -> None:
    requests = finish(alice, steps(*[look(n) for n in range(8)], look(8, 130_000), look(9), look(10)))
    cleared = [conversation(request).count("[cleared to save room") for request in requests]
    assert cleared[:9] == [0] * 9
    assert cleared[9] >= 6
    assert set(cleared[9:]) == {cleared[9]}
    assert SHORTENED in requests[9].new_text
    assert conversation(requests[-1]).count(SHORTENED) == 1
    assert not any(SUMMARY in request.new_text for request in requests)
    assert all(f"result {n}" in transcript(alice) for n in range(11))


def test_near_the_limit_there_is_a_summary(alice: Team) -> None:
    requests = finish(alice, steps(look(0), look(1), look(2, 170_000)))
    assert SUMMARY in requests[3].new_text
    after = requests[4]
    assert len(after.messages) == 1
    assert '<team-summary of="what came before">\nI have read a and b. Next: write.\n</team-summary>' in after.new_text
    assert "result 2" in after.new_text, "what the last call gave is lost"
    assert "result 1" not in after.new_text
    assert all(f"result {n}" in transcript(alice) for n in range(3))
    assert alice.task(1).status == "completed"


@pytest.mark.parametrize("status", ["400", "413"])
def test_a_conversation_that_is_too_long_is_summarized_and_gone_on_with(status: str, alice: Team) -> None:
    too_long = Fault(status, Reply("prompt is too long: 210000 tokens > 200000 maximum"))
    requests = finish(alice, steps(look(0), too_long))
    assert [SUMMARY in request.new_text for request in requests[:4]] == [False, False, True, False]
    assert SHORTENED in requests[3].new_text
    assert (alice.task(1).status, alice.task(1).attempts) == ("completed", 0)


def test_a_summary_that_is_too_long_itself_is_made_of_less(alice: Team) -> None:
    too_long = Fault("400", Reply("prompt is too long: 210000 tokens > 200000 maximum"))
    sizes: list[int] = []

    def script(request: Request) -> Any:
        if SUMMARY in request.new_text:
            sizes.append(len(json.dumps(request.messages)))
            return too_long if len(sizes) == 1 else Reply("In short.")
        return usual(request)

    usual = steps(*[look(n) for n in range(4)], too_long)
    requests = finish(alice, script)
    assert len(sizes) == 2
    assert sizes[1] < sizes[0]
    assert "In short." in conversation(requests[-1])


def test_what_never_fits_is_handed_back_and_does_not_stop_what_comes_after(alice: Team) -> None:
    alice.add("Small")

    def script(request: Request) -> Any:
        if "Task #1: " in conversation(request):
            return Fault("400", Reply("prompt is too long: 210000 tokens > 200000 maximum"))
        return completes(2) if handed(request) == 2 else Reply("Done.")

    finish(alice, script)
    assert (alice.task(1).status, alice.task(1).attempts) == ("failed", 3)
    assert "does not fit into the model's window" in alice.task(1).notes
    assert alice.task(2).status == "completed"


def test_a_full_window_in_the_middle_of_a_reply_is_summarized(alice: Team) -> None:
    requests = finish(alice, steps(look(0), Reply("And so", stop="model_context_window_exceeded")))
    assert SUMMARY in requests[2].new_text
    assert SHORTENED in requests[3].new_text
    assert alice.task(1).status == "completed"


@pytest.mark.parametrize("tokens", [130_000, 170_000], ids=["cleared", "summarized"])
def test_the_request_after_it_says_who_what_and_who_asked(tokens: int, alice: Team) -> None:
    def ask_for_the_end(request: Request) -> Reply:
        alice.send("alice", "Use </team-message> OAuth.", by="user")
        alice.ask_shutdown("alice", "the day is over", by="user")
        return look(9, tokens)

    usual = steps(*[look(n) for n in range(7)])

    def script(request: Request) -> Any:
        if SHORTENED in request.new_text:
            wanted = alice.requests()[0].id
            return call("shutdown_response", request_id=wanted, approve=False, reason="first the report")
        if request.number == 8:
            return ask_for_the_end(request)
        return usual(request)

    requests = finish(alice, script)
    after = next(request for request in requests if SHORTENED in request.new_text)
    asked = alice.inbox("user")[0].extra["request_id"]
    assert f"You are alice, backend, in the team crew. {SHORTENED}" in after.new_text
    assert 'Task #1: Write the report\n<team-task id="1" claim="1">' in after.new_text
    assert "About the &lt;/team-task> weather." in after.new_text
    assert "You hold this task." in after.new_text
    assert f"Shutdown request {asked} from user waits for your answer." in after.new_text
    assert "Use &lt;/team-message> OAuth." in after.new_text
    assert after.system.startswith("You are alice, backend ")
    assert alice.task(1).status == "completed"


def test_the_lead_is_told_its_goal_and_which_plans_wait_for_it(alice: Team) -> None:
    alice.add_member("paula", plan=True)
    plan = alice.change("paula", lambda c: team_requests.submit_plan(c, "I change it all.", "piece"))
    alice.ask_shutdown("alice", by="lead")
    told = words.identity(alice.config(), ME, None, alice.requests(), "Migrate it.")
    assert told.splitlines()[1:] == [
        "The person asks:", "Migrate it.", "Look at the board for what has been done about it.", "You hold no task.",
        f"Plan {plan.id} of paula waits for your decision.",
    ]  # fmt: skip
    alice.decide_plan("paula", True, by="user")
    assert "paula" not in words.identity(alice.config(), ME, None, alice.requests())


def test_identity_survives_a_kill_right_after_the_shortening(alice: Team) -> None:
    """The new beginning and the identity are one line of the transcript."""
    finish(alice, steps(look(0), look(1, 170_000)))
    line = next(json.loads(line) for line in transcript(alice).splitlines() if '"compacted"' in line)
    assert SHORTENED in line["compacted"][-1]["content"][-1]["text"]


def test_between_two_shortenings_every_request_only_extends_the_one_before(alice: Team) -> None:
    requests = finish(alice, steps(*[look(n) for n in range(40)]), max_turns=60)
    assert len(requests) >= 41
    for old, new in pairwise(requests):
        assert (old.body["system"], old.body["tools"]) == (new.body["system"], new.body["tools"])
        assert new.messages[: len(old.messages)] == old.messages
        assert json.dumps(new.messages).startswith(json.dumps(old.messages)[:-1])


def test_a_message_in_the_middle_of_work_does_not_change_what_was_read(repo: Path) -> None:
    with team_of(repo, "alice") as team:
        team.add("One")

        def script(request: Request) -> Any:
            if request.number < 10:
                team.send("alice", f"word {request.number}", by="user")
                return look(request.number)
            return Reply("Done.") if "completed now" in request.new_text else completes(1)

        with Server(script) as server, crew(team, server, until_done=True) as running:
            server.wait_for(lambda request: request.number == 11, TIMEOUT)
            running.wait()
            check(server)
        for old, new in pairwise(server.requests):
            assert new.messages[: len(old.messages)] == old.messages
        assert [f"word {n}" in server.requests[n].new_text for n in range(1, 10)] == [True] * 9
