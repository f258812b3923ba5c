"""How a hand edit meets the branch: stale buffers, wishes, notes, inboxes, settings."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitteam import Team
from gitteam.merge import Outcome, merge_inbox, merge_task, merge_values
from gitteam.records import Task, parse_task

PATH = ".tasks/7-fix-it.md"
WHEN = "2026-11-18T12:00:00Z"
BODY = "Alpha\nbeta\ngamma\ndelta\nepsilon\nzeta\nOmega\n"


def git_lines(ours: str, base: str, theirs: str) -> str:
    """What the repository's own merge does: `git merge-file --ours`."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("ours", "base", "theirs")]
        for path, text in zip(paths, (ours, base, theirs), strict=True):
            path.write_bytes(text.encode())
        words = ["git", "merge-file", "-p", "-q", "--ours", *map(str, paths)]
        return subprocess.run(words, check=True, capture_output=True).stdout.decode()


def task(text: str) -> Task:
    return parse_task(PATH, text.encode())


def fresh(body: str = BODY) -> Task:
    return task(f"---\nsubject: Fix it\nstatus: pending\nowner:\nblockedBy: []\n# kept\nmine: x\n---\n{body}")


def claimed(by: Task, owner: str = "alice") -> Task:
    return by.with_values(status="in_progress", owner=owner, claim=by.claim + 1)


def rewrite(of: Task, old: str, new: str) -> Task:
    assert old in of.text
    return task(of.text.replace(old, new))


def merge(edited: Task, history: list[Task], base: Task | None = None, refusal: str = "") -> Outcome:
    """A person saves `edited` over the last version of `history`; the files stood at `base`, by default the last."""
    *older, current = history
    return merge_task(base or current, edited, current, lambda: older[::-1], lambda task, name: refusal, git_lines)


# -- stale buffers ------------------------------------------------------------------------------------


def life() -> list[Task]:
    """A task with a past: every version of it that an editor may still have open."""
    v0 = fresh()
    v1 = v0.with_note(WHEN, "bob", "look at beta")
    v2 = claimed(v1)
    v3 = v2.with_note(WHEN, "alice", "half done")
    v4 = rewrite(v3, "Alpha", "Alpha, as the branch has it").with_values(status="pending", owner="")
    v5 = claimed(v4.with_note(WHEN, "alice", "handed back"), "bob")
    v6 = v5.with_values(status="completed").with_note(WHEN, "bob", "finished")
    return [v0, v1, v2, v3, v4, v5, v6]


LIFE = life()


@pytest.mark.parametrize("known", ["the newest version", "the version that was loaded", "nothing"])
@pytest.mark.parametrize(("loaded", "now"), [(i, j) for j in range(1, len(LIFE)) for i in range(j)])
def test_a_save_from_a_stale_buffer_never_undoes_what_happened(loaded: int, now: int, known: str) -> None:
    base = {"the newest version": LIFE[now], "the version that was loaded": LIFE[loaded], "nothing": None}[known]
    edited = rewrite(LIFE[loaded], "Omega\n", "Omega, as the person has it\n")
    *older, current = LIFE[: now + 1]
    outcome = merge_task(base, edited, current, lambda: older[::-1], lambda task, name: "", git_lines)
    merged = outcome.task
    assert (outcome.event, merged.state) == ("edited", current.state)
    assert merged.notes.splitlines() == current.notes.splitlines()
    assert "Omega, as the person has it" in merged.description
    assert ("as the branch has it" in merged.description) == ("as the branch has it" in current.description)
    assert merged.text.count("## Notes") == (1 if current.notes else 0)


LINES = st.lists(st.integers(0, 6), unique=True, max_size=3)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 5), st.integers(1, 6), LINES, st.sampled_from(["\n", "\r\n"]))
def test_a_stale_save_keeps_state_notes_and_the_persons_lines(i: int, j: int, lines: list[int], newline: str) -> None:
    loaded, now = min(i, j - 1), j
    text = LIFE[loaded].text
    for number in lines:
        word = BODY.split("\n")[number]
        text = text.replace(word, f"{word} by hand {number}", 1)
    outcome = merge(task(text.replace("\n", newline)), LIFE[: now + 1])
    assert outcome.task.state == LIFE[now].state
    assert set(LIFE[now].notes.splitlines()) <= set(outcome.task.notes.splitlines())
    assert all(f"by hand {number}" in outcome.task.description for number in lines)


def test_where_both_changed_the_same_line_the_persons_text_wins_in_the_body() -> None:
    v0, v1 = fresh(), claimed(rewrite(fresh(), "gamma", "gamma of the branch"))
    merged = merge(rewrite(v0, "gamma", "gamma by hand"), [v0, v1]).task
    assert "gamma by hand" in merged.text
    assert "of the branch" not in merged.text
    assert merged.state == ("in_progress", "alice", 1)


def test_a_stale_save_with_another_key_changed_keeps_the_claim_and_the_key() -> None:
    v0 = fresh()
    merged = merge(rewrite(v0, "blockedBy: []", "blockedBy: [3]\npriority: 5"), [v0, claimed(v0)]).task
    assert (merged.state, merged.blocked_by, merged.priority) == (("in_progress", "alice", 1), (3,), 5)


def test_a_stale_save_keeps_a_key_the_branch_changed() -> None:
    v0 = fresh()
    v1 = claimed(v0.with_values(blockedBy=[3], role="backend"))
    merged = merge(rewrite(v0, "mine: x", "mine: y"), [v0, v1]).task
    assert (merged.blocked_by, merged.role) == ((3,), "backend")
    assert "# kept\nmine: y\n" in merged.text


def test_a_stale_save_of_plain_text_keeps_the_claim() -> None:
    v0 = task("Fix it\n\nfirst\n")
    merged = merge(task("Fix it\n\nfirst\nsecond\n"), [v0, claimed(v0)]).task
    assert merged.state == ("in_progress", "alice", 1)
    assert (merged.subject, merged.description) == ("Fix it", "first\nsecond")


def test_a_stale_save_does_not_tie_a_claim_to_an_earlier_run() -> None:
    """A member that came back keeps its claim number and has another run; the old one is dead."""
    v0 = claimed(fresh()).with_values(run="first")
    v1 = v0.with_values(run="second")
    assert merge(rewrite(v0, "Omega", "Omega by hand"), [fresh(), v0, v1]).task.run == "second"


def test_a_save_that_changes_nothing_but_the_body_is_taken_byte_for_byte() -> None:
    edited = rewrite(claimed(fresh()), "delta", "delta   \t\r")
    assert merge(edited, [fresh(), claimed(fresh())]).task.text == edited.text


# -- notes --------------------------------------------------------------------------------------------


def test_a_note_written_meanwhile_is_not_lost() -> None:
    v0 = fresh()
    merged = merge(rewrite(v0, "Omega", "Omega by hand"), [v0, v0.with_note(WHEN, "bob", "look here")]).task
    assert merged.notes == f"- {WHEN} bob: look here"
    assert "Omega by hand" in merged.description


def test_notes_of_both_sides_come_together() -> None:
    v0 = fresh().with_note(WHEN, "alice", "first")
    v1 = v0.with_note(WHEN, "bob", "from the branch")
    merged = merge(task(v0.text + "- by hand\n"), [v0, v1], base=v0).task
    assert merged.notes.splitlines() == [f"- {WHEN} alice: first", f"- {WHEN} bob: from the branch", "- by hand"]


def test_the_first_notes_of_both_sides_come_together_under_one_heading() -> None:
    v0 = fresh()
    v1 = v0.with_note(WHEN, "bob", "from the branch")
    merged = merge(task(v0.text + "\n## Notes\n\n- by hand\n"), [v0, v1], base=v0).task
    assert merged.text.count("## Notes") == 1
    assert merged.notes.splitlines() == [f"- {WHEN} bob: from the branch", "- by hand"]


def test_a_note_of_many_lines_survives_whole() -> None:
    v0 = fresh()
    v1 = v0.with_note(WHEN, "bob", "one\ntwo\none")
    assert merge(rewrite(v0, "Omega", "Omega by hand"), [v0, v1]).task.notes == v1.notes


def test_a_note_by_hand_of_many_lines_survives_whole() -> None:
    v0 = fresh().with_note(WHEN, "alice", "first")
    v1 = v0.with_note(WHEN, "bob", "one\n\ntwo")
    merged = merge(task(v0.text + "- mine\n  two\n  end\n"), [v0, v1], base=v0).task
    assert merged.notes.endswith("- mine\n  two\n  end")


# -- wishes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "save", "event", "state"),
    [
        (fresh(), {"status": "in_progress", "owner": "bob"}, "claimed", ("in_progress", "bob", 1)),
        (fresh(), {"status": "completed"}, "completed", ("completed", "", 0)),
        (fresh(), {"status": "cancelled"}, "cancelled", ("cancelled", "", 0)),
        (fresh(), {"owner": "bob"}, "edited", ("pending", "bob", 0)),
        (fresh(), {"claim": 9}, "edited", ("pending", "", 0)),
        (claimed(fresh()), {"status": "pending", "owner": ""}, "released", ("pending", "", 1)),
        (claimed(fresh()), {"status": "completed"}, "completed", ("completed", "alice", 1)),
        (claimed(fresh()), {"status": "completed", "owner": ""}, "completed", ("completed", "alice", 1)),
        (claimed(fresh()), {"status": "cancelled"}, "cancelled", ("cancelled", "alice", 1)),
        (claimed(fresh()), {"owner": "bob"}, "claimed", ("in_progress", "bob", 2)),
        (claimed(fresh()), {"claim": None}, "edited", ("in_progress", "alice", 1)),
        (claimed(fresh()), {"claim": 7}, "edited", ("in_progress", "alice", 1)),
        (claimed(fresh()).with_values(status="completed"), {"status": "pending", "owner": ""}, "released",
         ("pending", "", 1)),
    ],
)  # fmt: skip
def test_a_state_that_was_never_there_is_a_wish_and_obeyed(
    before: Task, save: dict[str, Any], event: str, state: tuple[str, str, int]
) -> None:
    outcome = merge(before.with_values(**save), [before])
    assert (outcome.event, outcome.task.state, outcome.refused) == (event, state, "")


def test_pending_without_the_claim_line_is_the_stale_text_and_no_release() -> None:
    v0 = fresh()
    assert merge(v0, [v0, claimed(v0)]).task.state == ("in_progress", "alice", 1)


def test_a_claim_by_hand_that_cannot_be_is_refused_and_the_text_kept() -> None:
    edited = rewrite(fresh().with_values(status="in_progress", owner="bob"), "Omega", "Omega by hand")
    outcome = merge(edited, [fresh()], refusal="blocked by #3")
    assert outcome.task.state == ("pending", "", 0)
    assert "Omega by hand" in outcome.task.text
    assert outcome.refused == "bob cannot have #7: blocked by #3"


@pytest.mark.parametrize("save", [{"status": "pending", "owner": ""}, {"status": "completed"}, {"owner": "bob"}])
def test_whoever_ends_a_claim_by_hand_also_unties_it_from_its_run(save: dict[str, Any]) -> None:
    held = claimed(fresh()).with_values(run="abc")
    assert merge(held.with_values(**save), [held]).task.run == ""


def test_a_wish_and_a_note_of_the_branch_come_together() -> None:
    held = claimed(fresh())
    now = held.with_note(WHEN, "alice", "nearly")
    outcome = merge(held.with_values(status="completed"), [fresh(), held, now])
    assert outcome.task.state == ("completed", "alice", 1)
    assert outcome.task.notes == f"- {WHEN} alice: nearly"


# -- the line merge itself ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "base", "theirs", "merged"),
    [
        ("a\nb\nc\nd\nE\n", "a\nb\nc\nd\ne\n", "A\nb\nc\nd\ne\n", "A\nb\nc\nd\nE\n"),
        ("a mine\n", "a\n", "a theirs\n", "a mine\n"),
        ("grüße\r\n", "", "", "grüße\r\n"),
        ("no end", "no", "no", "no end"),
        ("--version\n", "x\n", "x\n", "--version\n"),
    ],
)
def test_lines_are_merged_three_ways_and_ours_win(team: Team, ours: str, base: str, theirs: str, merged: str) -> None:
    assert team.ledger.repo.merge_lines(ours, base, theirs) == merged
    assert git_lines(ours, base, theirs) == merged


# -- inboxes ------------------------------------------------------------------------------------------


def line(content: str, **more: Any) -> bytes:
    return json.dumps({"content": content, **more}).encode() + b"\n"


def contents(data: bytes) -> list[str]:
    return [json.loads(text)["content"] for text in data.splitlines()]


NAMES = st.sampled_from("abcdef")


@settings(max_examples=150, deadline=None)
@given(st.lists(NAMES), st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)), st.lists(NAMES), st.lists(NAMES))
def test_an_inbox_is_merged_three_ways(
    old: list[str], deleted: set[int], taken: set[int], by_hand: list[str], sent: list[str]
) -> None:
    """Equal lines are messages of their own: they are counted, never taken for one another."""
    base = [line(name) for name in old]
    by_hand_lines = [line("hand " + name) for name in by_hand]
    sent_lines = [line("sent " + name) for name in sent]
    edited = [text for i, text in enumerate(base) if i not in deleted] + by_hand_lines
    current = [text for i, text in enumerate(base) if i not in taken] + sent_lines
    merged = merge_inbox("alice", b"".join(base), b"".join(edited), b"".join(current))
    gone = Counter(t for i, t in enumerate(base) if i in deleted)
    left = Counter(t for i, t in enumerate(base) if i not in taken) - gone
    expected = left + Counter(sent_lines) + Counter(by_hand_lines)
    assert Counter(merged.data.splitlines(keepends=True)) == expected
    assert [t for t in contents(merged.data) if t.startswith("sent")] == ["sent " + n for n in sent]
    assert [t for t in contents(merged.data) if t.startswith("hand")] == ["hand " + n for n in by_hand]
    assert (merged.bad, merged.tail, merged.added) == ((), b"", len(by_hand))


def test_lines_that_a_dead_process_already_committed_are_not_taken_twice() -> None:
    merged = merge_inbox("alice", b"", line("a") + line("b"), line("a"))
    assert (contents(merged.data), merged.added) == (["a", "b"], 1)


def test_what_is_added_stays_byte_for_byte() -> None:
    odd = b'{ "content":"hi",\t"x" : 1.0 }\r\n'
    assert merge_inbox("alice", b"", odd, b"").data == odd


def test_a_last_line_without_an_end_counts_once_it_is_whole() -> None:
    assert merge_inbox("alice", b"", line("a") + line("b").rstrip(), b"").data == line("a") + line("b")


def test_a_last_line_that_is_not_finished_waits() -> None:
    merged = merge_inbox("alice", b"", line("a") + b'{"content": "to', b"")
    assert (merged.data, merged.tail, merged.bad) == (line("a"), b'{"content": "to', ())


@pytest.mark.parametrize(
    "bad", [b"hello", b'{"content": "torn', b"[1]", b"{}", b'{"content": "\xff"}', b'{"content": 1}']
)
def test_a_bad_line_is_set_aside_with_its_place_and_the_good_ones_go_on(bad: bytes) -> None:
    merged = merge_inbox("alice", b"", line("a") + bad + b"\n\n  \n" + line("b"), b"")
    assert contents(merged.data) == ["a", "b"]
    assert [entry["line"] for entry in merged.bad] == [2]
    assert all(entry["reason"] for entry in merged.bad)
    kept = merged.bad[0].get("text", "").encode() or bytes.fromhex(merged.bad[0].get("bytes", ""))
    assert kept == bad


@pytest.mark.parametrize("where", ["on the branch", "in the same save"])
def test_an_id_that_is_there_already_is_set_aside(where: str) -> None:
    first, second = line("a", id="x"), line("other", id="x")
    edited, current = (first + second, b"") if where == "in the same save" else (second, first)
    merged = merge_inbox("alice", b"", edited, current)
    assert contents(merged.data) == ["a"]
    assert "x" in merged.bad[0]["reason"]


def test_removed_lines_are_counted() -> None:
    merged = merge_inbox("alice", line("a") + line("b"), line("b"), line("a") + line("b") + line("c"))
    assert (contents(merged.data), merged.removed) == (["b", "c"], 1)


# -- settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ({"a": 1}, {"a": 2}, {"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": 1}, {"a": 3}, {"a": 3}),
        ({"a": 1}, {"a": 2}, {"a": 3}, {"a": 2}),
        ({"a": 1}, {}, {"a": 1, "b": 1}, {"b": 1}),
        ({}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}),
        ({"m": {"x": 1}}, {"m": {"x": 1, "y": 2}}, {"m": {"x": 9}}, {"m": {"x": 9, "y": 2}}),
        ({"m": {"x": 1}}, {"m": {"x": 1}, "n": 1}, {"m": {}}, {"m": {}, "n": 1}),
        ({"l": [1]}, {"l": [1, 2]}, {"l": [1, 3]}, {"l": [1, 2]}),
    ],
)
def test_settings_are_merged_value_by_value(base: Any, ours: Any, theirs: Any, merged: Any) -> None:
    assert merge_values(base, ours, theirs) == merged


VALUES = st.recursive(
    st.integers(0, 2) | st.booleans(), lambda v: st.dictionaries(st.sampled_from("ab"), v), max_leaves=4
)


@given(VALUES, VALUES)
@example({}, {"a": {}})
def test_if_only_one_side_changed_settings_that_side_is_the_result(base: Any, changed: Any) -> None:
    assert merge_values(base, changed, base) == changed
    assert merge_values(base, base, changed) == changed
