"""The picture of `watch`, made from records: what it shows, in which order, at any size."""

from __future__ import annotations

import re
import time
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitteam.cli.common import width
from gitteam.cli.dashboard import picture
from gitteam.journal import Entry
from gitteam.records import Member, Task
from gitteam.requests import Request
from gitteam.status import Present, Status

NOON = time.mktime((2026, 3, 4, 12, 0, 0, 0, 0, -1))
SIZES = [(40, 10), (41, 11), (60, 15), (80, 24), (120, 40), (300, 100)]
EVIL = "\x1b[2J\x1b]0;title\x07\u202eevil\t\ttabs\n漢字漢字漢字\u200b🚀" * 20


def task(number: int, subject: str = "", status: str = "pending", **values: Any) -> Task:
    known = {"owner": "", "blocked_by": (), "role": "", "priority": 0, "attempts": 0, "claim": 0, "run": ""}
    return Task(number, f".tasks/{number}.md", "", subject or f"Subject {number}", status, **{**known, **values})


def member(name: str, status: str = "idle", alive: bool = True, holds: tuple[Task, ...] = (), **values: Any) -> Present:
    return Present(Member(name, status=status, **{"since": NOON, **values}), alive, holds, 0)


def plan(sender: str = "ana", request: str = "3f9a1c", status: str = "pending") -> Request:
    return Request(request, "plan", sender, "lead", "first this, then that", "7/1", status)


def entry(sentence: str, event: str = "noted", when: float = NOON) -> Entry:
    return Entry("c" * 40, int(when), sentence.split(" ")[0], sentence, event, None)


def draw(
    columns: int = 80, height: int = 24, *, tasks: Any = (), requests: Any = (), entries: Any = (), usage: Any = (),
    warnings: Any = (), **status: Any,
) -> list[str]:  # fmt: skip
    """The picture without its colours."""
    counts = {"ready": sum(t.ready for t in tasks)}
    counts["blocked"] = sum(t.status == "pending" and not t.ready for t in tasks)
    for what in ("in_progress", "failed", "completed", "cancelled"):
        counts[what] = sum(t.status == what for t in tasks)
    known = {"team": "shop", "branch": "gitteam", "members": (), "counts": counts, "needs": (), "unreadable": {}}
    found = Status(**{**known, **status})
    lines = picture(found, tasks, requests, entries, usage, columns, height, now=NOON, warnings=warnings)
    return [click.unstyle(line) for line in lines]


def parts(lines: list[str]) -> dict[str, list[str]]:
    """The rows below each heading."""
    found: dict[str, list[str]] = {}
    rows: list[str] = []
    for line in filter(None, lines[2:]):
        if line.startswith(" "):
            rows.append(line.strip())
        else:
            rows = found[line] = []
    return found


def full(size: int) -> dict[str, Any]:
    """So much of everything that it fits on no screen, with texts that mean harm."""
    return {
        "tasks": [
            *(task(n, EVIL, "in_progress", owner="ana") for n in range(1, size)),
            *(task(n, EVIL, ready=True, role="backend") for n in range(size, 2 * size)),
            *(task(n, EVIL, reason=f"blocked by {EVIL}") for n in range(2 * size, 3 * size)),
            task(10**8, EVIL, "failed"), task(999, EVIL, "completed"), task(1000, EVIL, "cancelled"),
        ],
        "members": tuple(
            member("m" * 35 + str(n), status, n % 2 == 0, (task(n, EVIL),), role="r" * 40, reason=EVIL)
            for n, status in enumerate(["working", "idle", "waiting_approval", "failed", "stopping", "shutdown"] * size)
        ),
        "requests": [plan(f"ana{n}", f"{n:06x}") for n in range(size)],
        "needs": tuple(f"#{n} {EVIL}: gitteam task release {n} --force, or cancel it" for n in range(size)),
        "unreadable": {f".tasks/{EVIL}{n}.md": EVIL for n in range(size)},
        "entries": [entry(f"ana {EVIL}") for _ in range(size)],
        "usage": [EVIL], "warnings": [EVIL], "team": "t" * 40, "branch": EVIL,
    }  # fmt: skip


# -- sizes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 5, 60])
@pytest.mark.parametrize(("columns", "height"), SIZES)
def test_everything_stays_on_the_screen_whatever_the_texts(columns: int, height: int, size: int) -> None:
    lines = draw(columns, height, **full(size))
    assert len(lines) <= height
    assert [line for line in lines if width(line) > columns] == []
    assert not re.search(r"[\x00-\x1f\x7f\u200b\u202e]", "".join(lines))


@given(st.integers(1, 200), st.integers(1, 60), st.integers(0, 12))
def test_any_size_will_do(columns: int, height: int, size: int) -> None:
    lines = draw(columns, height, **full(size)) if size else draw(columns, height)
    assert 1 <= len(lines) <= height
    assert max(map(width, lines)) <= columns


@pytest.mark.parametrize(("columns", "height"), [(39, 10), (40, 9), (20, 100), (200, 3)])
def test_below_40x10_one_line_says_that_it_is_too_small(columns: int, height: int) -> None:
    [line] = draw(columns, height, needs=("#1 failed: gitteam task",))
    assert line.startswith("too small")


def test_wide_characters_count_as_two_columns() -> None:
    [row] = parts(draw(60, tasks=[task(1, "漢" * 60, ready=True)]))["board"]
    left = 60 - len("  ○ #1  ") - len("  ready")
    assert row == "○ #1  " + "漢" * ((left - 1) // 2) + "…  ready"


def test_the_screen_is_used_to_the_last_line() -> None:
    assert len(draw(80, 24, tasks=[task(1)], entries=[entry(f"ana says {n}") for n in range(50)])) == 24


# -- what needs a person ----------------------------------------------------------------------------


def test_what_needs_a_person_comes_first_in_order_of_urgency() -> None:
    found = draw(
        100,
        requests=[plan()],
        needs=("2 unread messages for user: gitteam inbox user", "#4 failed: gitteam task release 4 --force"),
        unreadable={".tasks/x.md": "not UTF-8"},
        members=(member("bob", "working", alive=False),),
    )
    assert next(iter(parts(found))) == "needs a person"
    texts = [re.sub(" {2,}", " | ", row) for row in parts(found)["needs a person"]]
    assert texts == [
        "! ana plans #7: first this, then that | gitteam approve 3f9a1c",
        "! 2 unread messages for user | gitteam inbox user",
        "! #4 failed | gitteam task release 4 --force",
        "! .tasks/x.md cannot be read: not UTF-8",
        "! bob died while working | gitteam join bob",
    ]


def test_a_plan_is_listed_once() -> None:
    found = draw(requests=[plan()], needs=("ana waits for an answer to its plan: gitteam approve 3f9a1c",))
    assert len(parts(found)["needs a person"]) == 1


def test_decided_plans_and_requests_to_shut_down_need_nobody() -> None:
    shutdown = Request("aaaaaa", "shutdown", "user", "ana", "")
    assert "needs a person" not in parts(draw(requests=[plan(status="approved"), shutdown]))


@pytest.mark.parametrize(
    ("status", "reason", "alive", "said"),
    [
        ("working", "", False, "died while working"), ("waiting_approval", "", False, "died while waiting approval"),
        ("idle", "awaiting_tasks", False, "died while idle"), ("failed", "no key", False, "failed: no key"),
        ("idle", "", False, ""), ("shutdown", "timeout", False, ""), ("working", "", True, ""),
    ],
)  # fmt: skip
def test_dead_is_who_did_not_end_in_order(status: str, reason: str, alive: bool, said: str) -> None:
    rows = parts(draw(members=(member("ana", status, alive, reason=reason),))).get("needs a person", [])
    assert [" ".join(row.split()) for row in rows] == ([f"! ana {said} gitteam join ana"] if said else [])


def test_who_takes_part_through_commands_is_never_dead() -> None:
    assert "needs a person" not in parts(draw(members=(member("ci", "working", False, kind="external"),)))


@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize(("columns", "height"), SIZES)
def test_needs_are_not_cut_off_in_favour_of_anything_else(columns: int, height: int, count: int) -> None:
    others = {key: value for key, value in full(30).items() if key in ("tasks", "entries")}
    busy = tuple(member(f"ana{n}", "working") for n in range(30))
    needs = tuple(f"{n} unread messages for user: gitteam inbox user{n}" for n in range(count))
    rows = " ".join(parts(draw(columns, height, needs=needs, members=busy, **others))["needs a person"])
    assert [n for n in range(count) if f"gitteam inbox user{n}" not in rows] == []


def test_more_needs_than_lines_leave_no_room_for_the_rest_and_are_counted() -> None:
    needs = tuple(f"#{n} failed: gitteam task release {n} --force" for n in range(50))
    found = parts(draw(80, 12, needs=needs, tasks=[task(1)], members=(member("ana"),)))
    assert list(found) == ["needs a person"]
    assert found["needs a person"][-1] == "… and 42 more: gitteam status"
    assert len(found["needs a person"]) == 9


def test_a_command_that_does_not_fit_beside_stands_below_and_is_whole() -> None:
    lines = draw(44, needs=("#4 gave up after 3 attempts: gitteam task release 4 --force, or x",))
    assert "    gitteam task release 4 --force, or x" in [line.rstrip() for line in lines]


def test_why_the_picture_may_be_old_is_said_first() -> None:
    found = draw(warnings=["the lock is busy"], needs=("#4 failed: gitteam task",))
    assert parts(found)["needs a person"][0] == "! the lock is busy"


# -- the rest -----------------------------------------------------------------------------------------


def test_the_top_names_team_branch_and_progress() -> None:
    tasks = [task(1, status="completed"), task(2, ready=True), task(3, ready=True), task(4, status="cancelled")]
    first, second = draw(80, tasks=tasks, usage=["$0.42", "7 calls"])[:2]
    assert first == f"{'shop  on branch gitteam':54}  {'█' * 6}{'░' * 14} 1/3"
    assert second == f"{'2 ready, 1 completed, 1 cancelled':64}  $0.42, 7 calls"


def test_bar_is_full_only_when_all_is_done() -> None:
    done = [task(n, status="completed") for n in range(1, 200)]
    assert "░" in draw(tasks=[*done, task(200)])[0]
    assert "░" not in draw(tasks=done)[0]


def test_members_say_what_they_do_and_since_when_the_busy_first() -> None:
    rows = parts(
        draw(members=(
            member("ana", reason="awaiting_tasks", role="qa"), member("bob", "working", holds=(task(3),)),
            member("cy", "shutdown", alive=False), member("di", "waiting_approval", since=NOON - 48 * 3600),
        ))
    )["members"]  # fmt: skip
    assert [re.sub(" {2,}", " | ", row) for row in rows] == [
        "bob | agent | working | #3 Subject 3 | since 12:00",
        "di | agent | waiting approval | since 02 Mar",
        "ana | qa | idle | awaiting tasks | since 12:00",
        "cy | agent | not running",
    ]


def test_board_shows_in_progress_ready_and_blocked_with_the_reason_but_nothing_finished() -> None:
    tasks = [
        task(1, status="completed"), task(2, reason="blocked by #11"), task(11, status="in_progress", owner="ana"),
        task(4, ready=True), task(5, ready=True, role="qa", priority=3), task(6, status="failed", reason="failed"),
    ]  # fmt: skip
    assert [" ".join(row.split()) for row in parts(draw(tasks=tasks))["board"]] == [
        "● #11 Subject 11 ana", "○ #5 Subject 5 ready for qa", "○ #4 Subject 4 ready",
        "◌ #2 Subject 2 blocked by #11", "✗ #6 Subject 6 failed",
    ]  # fmt: skip


def test_diary_ends_with_the_newest_line() -> None:
    rows = parts(draw(height=12, entries=[entry(f"ana says {n}") for n in range(50)]))["diary"]
    assert rows[-1] == "12:00   ana says 49"
    assert len(rows) > 4


def test_diary_leaves_out_what_interests_nobody() -> None:
    entries = [entry("ana claims #1", "claimed"), entry("ana takes 1 message", "taken"), entry("Jane fixes", "")]
    assert parts(draw(entries=entries))["diary"] == ["12:00   ana claims #1"]


def test_every_part_has_a_few_lines_where_there_is_room() -> None:
    found = parts(draw(80, 24, **{**full(30), "needs": (), "unreadable": {}, "requests": (), "members": tuple(
        member(f"ana{n}", "working") for n in range(30))}))  # fmt: skip
    assert {title: len(rows) >= 4 for title, rows in found.items() if title != "needs a person"} == {
        "members": True, "board": True, "diary": True,
    }  # fmt: skip


def test_an_empty_team_says_what_to_type() -> None:
    found = parts(draw())
    assert "gitteam member add" in found["members"][0]
    assert "gitteam task add" in found["board"][0]
