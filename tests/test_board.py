"""The board: what is ready, what is blocked and why, and who gets what next."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitteam import layout
from gitteam.board import Board, open_first
from gitteam.errors import NotFound
from gitteam.records import Member
from gitteam.tree import Disk, Overlay

ALICE = Member("alice", "backend")
NOWHERE = Disk("/dev/null")


def text(number: int, **keys: Any) -> bytes:
    lines = [f"{key}: {list(value) if isinstance(value, tuple) else value}" for key, value in keys.items()]
    return "\n".join(["---", f"subject: task {number}", *lines, "---", ""]).encode()


def board(tasks: dict[int, dict[str, Any]], swept: Iterable[int] = (), troubles: dict[str, str] | None = None) -> Board:
    files = Overlay(NOWHERE)
    for number, keys in tasks.items():
        name = f"{number}.md"
        files.write(layout.done_path(name) if number in swept else f"{layout.TASKS}/{name}", text(number, **keys))
    return Board(files, troubles)


def graph(edges: dict[int, tuple[int, ...]]) -> Board:
    return board({number: {"blockedBy": blockers} for number, blockers in edges.items()})


def reason(found: Board, number: int) -> str:
    return found.get(number).reason


# -- ready and blocked ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocker", "ready", "why"),
    [
        ({"status": "completed", "owner": "bob"}, True, ""),
        ({"status": "pending"}, False, "blocked by #1"),
        ({"status": "in_progress", "owner": "bob"}, False, "blocked by #1"),
        ({"status": "cancelled"}, False, "blocked by #1, which was cancelled"),
        ({"status": "failed", "attempts": 3}, False, "blocked by #1, which failed"),
        (None, False, "blocked by #1, which does not exist"),
    ],
)
@pytest.mark.parametrize("swept", [(), (1,)])
def test_a_task_is_ready_once_its_blockers_are_completed(
    blocker: dict[str, Any] | None, ready: bool, why: str, swept: tuple[int, ...]
) -> None:
    others = {1: blocker} if blocker else {}
    found = board({**others, 2: {"blockedBy": (1,)}}, swept).get(2)
    assert (found.ready, found.reason) == (ready, why)


def test_one_blocker_that_is_not_done_is_enough() -> None:
    found = board({1: {"status": "completed"}, 2: {}, 3: {}, 4: {"blockedBy": (1, 2, 3)}})
    assert reason(found, 4) == "blocked by #2, #3"


@pytest.mark.parametrize(
    ("keys", "ready", "why"),
    [
        ({}, True, ""),
        ({"owner": "bob"}, False, "assigned to bob"),
        ({"status": "in_progress", "owner": "bob"}, False, ""),
        ({"status": "completed"}, False, ""),
        ({"status": "cancelled"}, False, ""),
        ({"status": "failed", "attempts": 3}, False, "gave up after 3 attempts"),
    ],
)
def test_only_a_pending_task_without_an_owner_is_ready(keys: dict[str, Any], ready: bool, why: str) -> None:
    found = board({1: keys}).get(1)
    assert (found.ready, found.reason) == (ready, why)


def test_a_task_whose_file_cannot_be_read_is_not_claimable_and_the_others_go_on() -> None:
    found = board({1: {"priority": 9}, 2: {}}, troubles={".tasks/1.md": "line 3: no"})
    assert reason(found, 1) == "its file cannot be read: line 3: no"
    assert found.next_for(ALICE).id == 2


def test_an_unreadable_text_is_named_and_is_no_task() -> None:
    files = Overlay(NOWHERE)
    files.write(".tasks/1.md", b"---\nstatus: nonsense\n---\nx\n")
    files.write(".tasks/2.md", text(2))
    found = Board(files)
    assert list(found.tasks) == [2]
    assert "line 2" in found.troubles[".tasks/1.md"]


# -- circles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 5000])
def test_every_task_of_a_circle_says_so_and_the_others_go_on(size: int) -> None:
    found = graph({**{n: (n % size + 1,) for n in range(1, size + 1)}, size + 1: (), size + 2: (1,)})
    assert all("circle" in task.reason and not task.ready for task in found.all()[:size])
    assert reason(found, size + 2) == "blocked by #1"
    assert found.next_for(ALICE).id == size + 1


def test_a_small_circle_names_its_tasks() -> None:
    assert reason(graph({1: (2,), 2: (3,), 3: (1,)}), 2) == "blocked in a circle: #1, #2, #3"


def test_a_large_circle_is_not_spelled_out() -> None:
    assert len(reason(graph({n: (n % 5000 + 1,) for n in range(1, 5001)}), 1)) < 120


def test_a_circle_through_a_finished_task_is_none() -> None:
    found = board({1: {"blockedBy": (2,)}, 2: {"blockedBy": (1,), "status": "completed"}})
    assert found.get(1).ready


@pytest.mark.parametrize("turn", [1, -1])
def test_a_chain_of_5000_is_followed_to_its_end(turn: int) -> None:
    numbers = list(range(1, 5001))[::turn]
    edges = {number: (following,) for number, following in pairwise(numbers)}
    found = graph({**edges, numbers[-1]: ()})
    assert [task.id for task in found.all() if task.ready] == [numbers[-1]]
    assert not any("circle" in task.reason for task in found.all())
    assert found.would_circle(found.tasks[numbers[-1]], numbers[0])


def test_many_circles_in_one_stay_cheap() -> None:
    """2,000 tasks in a ring, each of which also waits for the first: work per way round would never end."""
    found = graph({n: (n % 2000 + 1, 1) for n in range(1, 2001)})
    assert all("circle" in task.reason for task in found.all())


EDGES = st.dictionaries(st.integers(1, 7), st.lists(st.integers(1, 8), max_size=3, unique=True).map(tuple), max_size=7)


def reachable(edges: dict[int, tuple[int, ...]], start: int) -> set[int]:
    found: set[int] = set()
    todo = [n for n in edges.get(start, ()) if n in edges]
    while todo:
        number = todo.pop()
        if number not in found:
            found.add(number)
            todo += [n for n in edges[number] if n in edges]
    return found


@settings(max_examples=200, deadline=None)
@given(EDGES)
def test_a_task_is_ready_exactly_if_it_waits_for_nothing(edges: dict[int, tuple[int, ...]]) -> None:
    found = graph(edges)
    assert {t.id for t in found.all() if t.ready} == {n for n, blockers in edges.items() if not blockers}
    for number, blockers in edges.items():
        if all(b in edges for b in blockers):  # a blocker that is not there is named first
            assert ("circle" in reason(found, number)) == (number in reachable(edges, number))


@settings(max_examples=200, deadline=None)
@given(EDGES, st.integers(1, 7), st.integers(1, 7))
def test_an_edge_would_make_a_circle_exactly_if_there_is_a_way_back(
    edges: dict[int, tuple[int, ...]], number: int, blocker: int
) -> None:
    edges = {number: (), blocker: (), **edges}
    found = graph(edges)
    assert found.would_circle(found.tasks[number], blocker) == (
        number == blocker or number in reachable(edges, blocker)
    )


# -- claiming ---------------------------------------------------------------------------------------


def next_id(found: Board, member: Member = ALICE) -> int | None:
    task = found.next_for(member)
    return task.id if task else None


def test_the_own_open_task_comes_first() -> None:
    assert next_id(board({1: {"priority": 9}, 2: {"status": "in_progress", "owner": "alice"}})) == 2


def test_then_the_highest_priority() -> None:
    assert next_id(board({1: {}, 2: {"priority": 5}, 3: {"priority": 7}, 4: {"priority": -1}})) == 3


def test_then_the_lowest_id_as_a_number() -> None:
    assert next_id(board({10: {}, 9: {}, 100: {}})) == 9


def test_what_is_negative_comes_last() -> None:
    assert next_id(board({1: {"priority": -1}, 2: {}})) == 2


@pytest.mark.parametrize("keys", [{"status": "completed"}, {"owner": "bob"}, {"blockedBy": (9,)}, {"role": "frontend"}])
def test_what_cannot_be_claimed_is_passed_over(keys: dict[str, Any]) -> None:
    assert next_id(board({1: keys, 2: {}})) == 2
    assert next_id(board({1: keys})) is None


def test_a_task_assigned_to_somebody_is_theirs_alone() -> None:
    found = board({1: {"owner": "alice"}})
    assert next_id(found) == 1
    assert found.refusal(found.tasks[1], Member("bob")) == "it is assigned to alice"


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (ALICE, ""),
        (Member("bob", "frontend"), "it is for the role backend, and bob is frontend"),
        (Member("carol"), "it is for the role backend, and carol is without one"),
        (Member("user", kind="person"), ""),
        (Member("lead"), ""),
    ],
)
def test_a_role_binds_members_but_not_the_person_or_the_lead(member: Member, why: str) -> None:
    found = board({1: {"role": "backend"}})
    assert found.refusal(found.tasks[1], member) == why


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"status": "in_progress", "owner": "bob"}, "bob has it"),
        ({"status": "completed", "owner": "bob"}, "it is completed"),
        ({"status": "cancelled"}, "it is cancelled"),
        ({"status": "failed"}, "it is failed"),
        ({"blockedBy": (2,)}, "blocked by #2"),
    ],
)
def test_a_refusal_says_why(keys: dict[str, Any], why: str) -> None:
    found = board({1: keys, 2: {}})
    assert found.refusal(found.tasks[1], ALICE) == why


# -- finding ----------------------------------------------------------------------------------------


def on_disk(root: Path, tasks: dict[int, dict[str, Any]], swept: Iterable[int]) -> Board:
    for number, keys in tasks.items():
        name = f"{number}-x.md"
        path = root / (layout.done_path(name) if number in swept else f"{layout.TASKS}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text(number, **keys))
    return Board(Disk(str(root)))


@pytest.mark.parametrize(("open_id", "swept"), [(3, (90, 120)), (3, (9950, 10020)), (7, (5, 6)), (101, (98, 99))])
def test_the_highest_id_counts_what_was_swept(tmp_path: Path, open_id: int, swept: tuple[int, ...]) -> None:
    tasks = {open_id: {}, **{number: {"status": "completed"} for number in swept}}
    assert on_disk(tmp_path, tasks, swept).highest == max(open_id, *swept)


def test_an_unknown_id_is_told_which_there_are() -> None:
    with pytest.raises(NotFound, match=r"no task #9: the highest is #2"):
        board({1: {}, 2: {}}).get(9)


def test_swept_tasks_are_found_and_listed_in_order(tmp_path: Path) -> None:
    done = {"status": "completed"}
    found = on_disk(tmp_path, {150: done, 2: {"blockedBy": (150,)}, 9: done, 10: done}, swept=(9, 10, 150))
    assert found.get(9).status == "completed"
    assert [(t.id, t.ready) for t in found.all()] == [(2, True)]
    assert [t.id for t in found.swept()] == [9, 10, 150]


def test_a_board_that_follows_a_change_is_the_board_read_anew() -> None:
    found = graph({1: (2,), 2: (1,)})
    assert "circle" in reason(found, 1)
    found.put(found.tasks[2].with_values(status="completed", blockedBy=None))
    assert found.get(1).ready
    found.put(found.tasks[1].moved(layout.done_path("1.md")))
    assert list(found.tasks) == [2]


def test_people_see_what_is_in_progress_first_and_what_is_done_last() -> None:
    found = board({
        1: {"status": "completed"}, 2: {"status": "failed"}, 3: {"blockedBy": (4,)}, 4: {}, 5: {"priority": 1},
        6: {"status": "in_progress", "owner": "bob"}, 7: {"status": "cancelled"},
    })  # fmt: skip
    assert [t.id for t in open_first(found.all())] == [6, 5, 4, 3, 2, 1, 7]
