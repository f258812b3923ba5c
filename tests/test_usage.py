"""The log of model calls: many writers, torn lines, and what `gitteam usage` makes of it."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Run, git
from faults import Child

from gitteam import Team, usage
from gitteam.layout import Layout
from gitteam.usage import Call

NOON = time.mktime((2026, 11, 18, 12, 0, 0, 0, 0, -1))
CALL = Call(NOON, "alice", 1, "claude-sonnet-5-5", 100, 50, 800, 100, 0.5)


@pytest.fixture
def place(team: Team) -> Layout:
    return team.place


def log(place: Layout) -> Path:
    return Path(place.usage)


def fill(place: Layout, *calls: Call) -> None:
    for call in calls:
        usage.append(place, call)


# -- the log ------------------------------------------------------------------------------------------


def test_what_is_appended_is_read(place: Layout) -> None:
    calls = [CALL, replace(CALL, member="bob", task=0, cost=None), replace(CALL, model="\ud800 odd\n")]
    fill(place, *calls)
    assert usage.read(place) == calls
    assert len(log(place).read_bytes().splitlines()) == 3


def test_without_a_log_there_are_no_calls(place: Layout) -> None:
    assert usage.read(place) == []


def test_only_the_person_can_read_the_log(place: Layout) -> None:
    before = os.umask(0)
    try:
        fill(place, CALL)
    finally:
        os.umask(before)
    assert stat.S_IMODE(log(place).stat().st_mode) == 0o600


def test_the_log_is_in_no_commit_and_goes_with_the_team(place: Layout, repo: Path, run: Run) -> None:
    fill(place, CALL)
    assert git(repo, "status", "--porcelain") == ""
    assert run("uninstall", "--yes").code == 0
    assert not log(place).exists()


@pytest.mark.parametrize(
    "line",
    [
        "", "{", "null", "[]", "{}", "\x00\x00", "[" * 100_000, '"alice"', "\ud800",
        json.dumps({"time": 1, "member": "alice"}),
    ],
    ids=lambda line: repr(line[:10]),
)  # fmt: skip
def test_a_line_that_is_no_call_is_skipped(place: Layout, line: str) -> None:
    fill(place, CALL)
    with open(place.usage, "ab") as f:
        f.write(line.encode("utf-8", "surrogatepass") + b"\n")
    fill(place, CALL)
    assert usage.read(place) == [CALL, CALL]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("time", "now"), ("time", -1), ("time", 1e300), ("time", float("nan")), ("member", 3), ("task", 1.5),
        ("task", True), ("task", None), ("model", None), ("input", -1), ("output", 10**400), ("cache_read", "5"),
        ("cache_write", [1]), ("cost", "free"), ("cost", float("inf")), ("cost", -0.1),
    ],
)  # fmt: skip
def test_a_line_with_a_wrong_value_is_skipped(place: Layout, key: str, value: object) -> None:
    fill(place, CALL)
    good = json.loads(log(place).read_text())
    with open(place.usage, "a") as f:
        f.write(json.dumps({**good, key: value}) + "\n" + json.dumps({**good, "more": 1}) + "\n")
    assert usage.read(place) == [CALL, CALL]


def test_a_log_cut_anywhere_loses_only_the_line_that_was_cut(place: Layout) -> None:
    fill(place, CALL, CALL)
    data = log(place).read_bytes()
    for end in range(len(data) // 2 + 1, len(data)):
        log(place).write_bytes(data[:end])
        assert usage.read(place) == [CALL]
        fill(place, replace(CALL, task=7))
        found = usage.read(place)
        assert (found[0], found[-1]) == (CALL, replace(CALL, task=7))
        assert len(found) == 2 + (end == len(data) - 1)  # only the end of the line was missing


def test_reading_on_begins_where_reading_ended(place: Layout) -> None:
    fill(place, CALL)
    first, position = usage.read_from(place, 0)
    with open(place.usage, "ab") as f:
        f.write(b'{"half": ')
    assert usage.read_from(place, position) == ([], position)
    fill(place, replace(CALL, task=2))
    more, _ = usage.read_from(place, position)
    assert (first, more) == ([CALL], [replace(CALL, task=2)])


def test_reading_on_in_a_new_log_begins_at_its_beginning(place: Layout) -> None:
    fill(place, CALL, CALL)
    _, position = usage.read_from(place, 0)
    log(place).unlink()
    assert usage.read_from(place, position) == ([], 0)
    fill(place, CALL)
    assert usage.read_from(place, position)[0] == [CALL]


def test_many_processes_write_at_once_and_nothing_is_lost(team: Team, place: Layout, repo: Path) -> None:
    team.ledger.close()
    long_name = "m" * 9000  # longer than a page, and than any buffer that may be in between

    def write(member: str) -> int:
        for number in range(100):
            usage.append(place, replace(CALL, member=member, task=number, model=long_name))
        return 0

    names = [f"m{n}" for n in range(8)]
    writers = [Child(lambda name=name: write(name), repo) for name in names]  # type: ignore[misc]
    for writer in writers:
        writer.go()
    assert [writer.end().code for writer in writers] == [0] * 8
    found = usage.read(place)
    for name in names:
        assert [call.task for call in found if call.member == name] == list(range(100))
    # Whoever looks in the middle of another's write takes it for torn: that costs an empty line.
    assert len(list(filter(None, log(place).read_bytes().splitlines()))) == 800


def test_a_full_disk_is_told_and_the_next_line_is_whole(team: Team, place: Layout, repo: Path) -> None:
    fill(place, CALL)
    team.ledger.close()

    def write() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (log(place).stat().st_size + 20,) * 2)
        with pytest.raises(OSError, match=r"usage\.jsonl"):
            usage.append(place, CALL)
        return 7

    assert Child(write, repo).go().end().code == 7
    fill(place, replace(CALL, task=2))
    assert usage.read(place) == [CALL, replace(CALL, task=2)]


# -- sums -----------------------------------------------------------------------------------------------

MANY = [
    CALL,
    replace(CALL, member="bob", task=10, cost=0.25, cache_read=0, cache_write=900, model="claude-opus-5-5"),
    replace(CALL, task=2, time=NOON - 86400, cost=None, model="llama"),
    replace(CALL, task=0, output=1),
]


@pytest.mark.parametrize(
    ("by", "keys"),
    [("member", ["alice", "bob"]), ("task", [0, 1, 2, 10]), ("day", ["2026-11-17", "2026-11-18"]), ("team", ["team"])],
)
def test_sums_are_in_order_and_lose_nothing(by: str, keys: list[str | int]) -> None:
    rows = usage.sums(MANY, by)
    assert [row.key for row in rows] == keys
    assert sum(row.calls for row in rows) == 4
    assert sum(row.input for row in rows) == 4000
    assert sum(row.output for row in rows) == 151
    assert sum(row.unpriced for row in rows) == 1
    assert sum(row.cost for row in rows) == pytest.approx(1.25)


def test_a_sum_tells_share_cost_and_models() -> None:
    alice, bob = usage.sums(MANY, "member")
    assert (alice.cached, bob.cached) == (0.8, 0)
    assert (alice.models, bob.models) == (("claude-sonnet-5-5", "llama"), ("claude-opus-5-5",))
    assert (alice.cost, alice.known_cost, alice.unpriced) == (1.0, None, 1)
    assert (bob.cost, bob.known_cost, bob.unpriced) == (0.25, 0.25, 0)


def test_sums_of_parts_are_the_sum_of_all() -> None:
    [first], [second] = usage.sums(MANY[:2], "team"), usage.sums(MANY[2:], "team")
    assert [first.plus(second)] == usage.sums(MANY, "team")


def test_nothing_has_no_sum_and_no_tokens_no_share() -> None:
    assert usage.sums([], "team") == []
    [row] = usage.sums([Call(NOON, "alice", 0, "m", 0, 0, 0, 0, 0.0)], "team")
    assert row.cached == 0


def test_days_are_those_of_the_persons_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    late = replace(CALL, time=1795042800.0)  # 2026-11-18, 23:00 in Greenwich
    try:
        for zone, day in (("UTC0", "2026-11-18"), ("EAST-2", "2026-11-19")):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert late.day == day
    finally:
        monkeypatch.undo()
        time.tzset()


# -- the command ----------------------------------------------------------------------------------------


def test_before_the_first_call_usage_says_so(team: Team, run: Run) -> None:
    shown = run("usage")
    assert (shown.code, shown.out) == (0, "no model has been called yet\n")
    assert run("usage", "--json").json == {"by": "member", "rows": [], "total": None}


def test_usage_without_a_team_is_an_error(repo: Path, run: Run) -> None:
    assert run("usage").code == 1


def test_usage_by_member(place: Layout, run: Run) -> None:
    fill(place, *MANY)
    shown = run("usage")
    assert shown.out.splitlines() == [
        "member  calls     in  cached  out       cost  models",
        "alice       3  3,000     80%  101  ≥ $1.0000  claude-sonnet-5-5, llama",
        "bob         1  1,000      0%   50    $0.2500  claude-opus-5-5",
        "total       4  4,000     60%  151  ≥ $1.2500",
    ]
    assert "1 call had no known price" in shown.err


def test_usage_by_task(place: Layout, run: Run) -> None:
    fill(place, *MANY)
    shown = [line.split() for line in run("usage", "--by", "task").out.splitlines()]
    assert [line[0] for line in shown] == ["task", "no", "#1", "#2", "#10", "total"]
    assert shown[3] == ["#2", "1", "1,000", "80%", "50", "unknown", "llama"]


def test_usage_by_day_as_json(place: Layout, run: Run) -> None:
    fill(place, *MANY)
    found = run("usage", "--by", "day", "--json").json
    assert found["by"] == "day"
    assert found["rows"][0] == {
        "day": "2026-11-17", "calls": 1, "input": 1000, "output": 50, "cached": 0.8, "cost": None, "unpriced": 1,
        "models": ["llama"],
    }  # fmt: skip
    assert found["total"] == {
        "calls": 4, "input": 4000, "output": 151, "cached": 0.6, "cost": 1.25, "unpriced": 1,
        "models": ["claude-opus-5-5", "claude-sonnet-5-5", "llama"],
    }  # fmt: skip


def test_no_line_is_wider_than_the_screen_or_moves_the_cursor(place: Layout, run: Run) -> None:
    fill(place, *MANY, replace(CALL, model="\x1b[2J" + "m" * 200))
    for columns in (60, 100):
        shown = run("usage", COLUMNS=str(columns)).out
        assert "\x1b" not in shown
        assert max(map(len, shown.splitlines())) <= columns
        assert not [line for line in shown.splitlines() if line != line.rstrip()]
