"""The account: limits that hold however many call at once, and what is written down afterwards."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import TIMEOUT, until
from faults import Child

from gitteam import Team, prices, usage
from gitteam.agents.account import Account, BudgetReached, Limits, Spending
from gitteam.layout import Layout

MODEL = "claude-opus-5-5"  # 20 dollars for a million tokens of answer
USED = {"input": 100, "output": 50, "cache_read": 800, "cache_write": 100}


@pytest.fixture
def place(team: Team) -> Layout:
    team.ledger.close()
    return team.place


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # or a thread is hardly ever interrupted where it hurts
    with ThreadPoolExecutor(16) as pool:
        yield pool
    sys.setswitchinterval(interval)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def account(place: Layout, settings: dict[str, Any] | None = None, **limits: Any) -> Account:
    return Account(place, prices.load(settings or {}), Limits(**limits))


def spend(
    account: Account, task: int = 0, answer: int = 50_000, room: int = 50_000, member: str = "alice", model: str = MODEL
) -> None:
    """One call with an answer of so many tokens; `room` is how many there could have been."""
    with account.call(member, task, model, 0, room) as spent:
        spent.usage = {"input": 0, "output": answer, "cache_read": 0, "cache_write": 0}


def refused(account: Account, **how: Any) -> BudgetReached:
    with pytest.raises(BudgetReached) as caught:
        spend(account, **how)
    assert "\n" not in str(caught.value)
    assert str(caught.value) == caught.value.reason
    return caught.value


# -- what is written down ---------------------------------------------------------------------------


def test_a_call_is_logged_with_its_real_figures(place: Layout) -> None:
    with account(place).call("alice", 3, MODEL, 5000, 16_000) as spent:
        spent.usage = USED
    [call] = usage.read(place)
    assert (call.member, call.task, call.model) == ("alice", 3, MODEL)
    assert (call.input, call.output, call.cache_read, call.cache_write) == (100, 50, 800, 100)
    assert call.cost == pytest.approx(0.0004 + 0.001 + 0.00016 + 0.0005)


def test_a_call_of_an_unknown_price_is_logged_as_that(place: Layout) -> None:
    spend(account(place, max_calls=5), model="llama")
    assert [call.cost for call in usage.read(place)] == [None]


def test_a_call_that_was_not_billed_leaves_no_trace(place: Layout) -> None:
    book = account(place, max_cost=1, max_calls=1)
    for _ in range(3):
        with pytest.raises(ConnectionError), book.call("alice", 1, MODEL, 0, 50_000):
            raise ConnectionError
    assert (usage.read(place), book.spending().calls) == ([], 0)
    spend(book)


def test_a_call_that_was_billed_counts_whatever_happens_afterwards(place: Layout) -> None:
    book = account(place, max_calls=1)

    def call() -> None:
        with book.call("alice", 1, MODEL, 0, 10) as spent:
            spent.usage = USED
            raise ConnectionError

    with pytest.raises(ConnectionError):
        call()
    assert len(usage.read(place)) == 1
    assert refused(book).whole_team


def test_a_log_that_cannot_be_written_does_not_make_calls_free(place: Layout) -> None:
    Path(place.usage).mkdir()
    book = account(place, max_calls=1)
    with pytest.raises(IsADirectoryError):
        spend(book)
    assert book.spending() == Spending(1, 1.0, pytest.approx(0, abs=TIMEOUT))
    assert "has made 1" in str(refused(book))


# -- each limit -------------------------------------------------------------------------------------


def test_calls_of_the_team_are_limited(place: Layout) -> None:
    book = account(place, max_calls=2)
    spend(book, member="alice", task=1)
    spend(book, member="bob", task=2)
    found = refused(book, task=3)
    assert str(found) == "the team may make 2 model calls and has made 2: allow more to go on"
    assert found.whole_team
    assert len(usage.read(place)) == 2


def test_cost_of_the_team_is_limited_by_what_the_next_call_could_cost(place: Layout) -> None:
    book = account(place, max_cost=3)
    spend(book)
    spend(book, answer=25_000)  # cheaper than it could have been
    spend(book)
    found = refused(book)
    assert str(found) == (
        "the team may spend $3: $2.5000 is spent and the next call could cost $1.0000; allow more to go on"
    )
    assert found.whole_team
    spend(book, room=25_000, answer=25_000)
    assert book.spending().cost == pytest.approx(3)


def test_the_prompt_counts_towards_what_a_call_could_cost(place: Layout) -> None:
    book = account(place, max_cost=0.05)
    with book.call("alice", 0, MODEL, 10_000, 0):  # all of it written to the cache
        pass
    with pytest.raises(BudgetReached), book.call("alice", 0, MODEL, 10_001, 0):
        pass


def test_a_sum_of_small_costs_reaches_its_limit_exactly(place: Layout) -> None:
    book = account(place, max_cost=0.3)
    for _ in range(3):  # three times 0.1 is a hair more than 0.3 to a computer
        spend(book, answer=5000, room=5000)
    assert refused(book, room=1).whole_team


def test_time_is_limited(place: Layout) -> None:
    clock = Clock()
    book = Account(place, prices.load({}), Limits(max_seconds=90), clock)
    clock.now += 89
    spend(book)
    clock.now += 1
    found = refused(book)
    assert str(found) == "the team may work 1.5 minutes, which are over after 1 calls: allow more to go on"
    assert found.whole_team


def test_a_task_has_limits_of_its_own(place: Layout) -> None:
    book = account(place, task_max_calls=2, task_max_cost=10)
    for _ in range(2):
        spend(book, task=1)
    found = refused(book, task=1, member="bob")
    assert str(found) == "task #1 may make 2 model calls and has made 2: allow more to go on"
    assert not found.whole_team
    spend(book, task=2)
    for _ in range(5):
        spend(book, task=0)


def test_a_tasks_cost_is_limited(place: Layout) -> None:
    book = account(place, task_max_cost=1.5)
    spend(book, task=1)
    found = refused(book, task=1)
    assert str(found).startswith("task #1 may spend $1.5: $1.0000 is spent and the next call could cost $1.0000")
    assert not found.whole_team


def test_the_teams_limit_is_named_before_the_tasks(place: Layout) -> None:
    book = account(place, max_calls=1, task_max_calls=1)
    spend(book, task=1)
    assert refused(book, task=1).whole_team


def test_a_model_without_a_price_is_refused_where_cost_is_limited(place: Layout) -> None:
    for limits in ({"max_cost": 100}, {"task_max_cost": 100}):
        found = refused(account(place, **limits), task=1, model="llama")
        assert "the model 'llama' has no price" in str(found)
        assert '.team/config.json, as settings: "prices"' in str(found)
        assert found.whole_team
    spend(account(place, {"prices": {"llama": {"input": 1, "output": 1}}}, max_cost=100), model="llama")


def test_a_free_model_may_be_called_when_nothing_may_be_spent(place: Layout) -> None:
    book = account(place, {"prices": {"llama": {"input": 0, "output": 0}}}, max_cost=0)
    spend(book, model="llama")
    assert refused(book).whole_team


# -- before and beside -----------------------------------------------------------------------------


def test_the_teams_limits_count_from_the_start_of_the_process(place: Layout) -> None:
    for _ in range(3):
        spend(account(place, max_calls=1, max_cost=1))
    assert len(usage.read(place)) == 3


def test_a_run_that_is_resumed_counts_what_it_spent_before(place: Layout) -> None:
    clock = Clock()
    first = Account(place, prices.load({}), Limits(max_calls=2), clock)
    spend(first)
    clock.now += 60
    before = first.spending()
    assert before == Spending(1, 1.0, 60)
    for limits in (Limits(max_calls=1), Limits(max_cost=1.5), Limits(max_seconds=60)):
        assert refused(Account(place, prices.load({}), limits, clock, already=before)).whole_team
    spend(Account(place, prices.load({}), Limits(max_calls=2, max_cost=2, max_seconds=61), clock, already=before))


def test_a_tasks_limits_count_what_other_processes_spent_on_it(place: Layout, repo: Path) -> None:
    book = account(place, task_max_calls=3)
    spend(book, task=1)

    def work() -> int:
        spend(account(place), task=1)
        spend(account(place), task=2)
        return 0

    assert Child(work, repo).go().end().code == 0
    spend(book, task=1)
    assert "has made 3" in str(refused(book, task=1))


def test_totals_of_a_task_are_those_of_all_who_worked_on_it(place: Layout) -> None:
    first, second = account(place), account(place)
    assert first.task_totals(1) == {}
    for book in (first, second, first):
        with book.call("alice", 1, MODEL, 1000, 50) as spent:
            spent.usage = USED
        spend(book, task=2)
    expected = {"Team-Tokens": "3150 (80% cached)", "Team-Cost": "0.0062", "Team-Calls": "3"}
    assert first.task_totals(1) == second.task_totals(1) == expected


def test_totals_of_a_task_with_an_unknown_price_say_so(place: Layout) -> None:
    book = account(place)
    spend(book, task=1)
    spend(book, task=1, model="llama")
    assert book.task_totals(1) == {"Team-Tokens": "100000 (0% cached)", "Team-Cost": "unknown", "Team-Calls": "2"}


# -- many at once -----------------------------------------------------------------------------------


def at_once(pool: ThreadPoolExecutor, count: int, work: Callable[[int], Any]) -> list[Future[Any]]:
    """Run it in so many threads, which all begin when the last of them is there."""
    barrier = threading.Barrier(count)

    def run(number: int) -> Any:
        barrier.wait(TIMEOUT)
        return work(number)

    return [pool.submit(run, number) for number in range(count)]


def outcomes(futures: list[Future[Any]]) -> tuple[int, int]:
    """How many went through, and how many were refused."""
    errors = [future.exception(TIMEOUT) for future in futures]
    assert [e for e in errors if e and not isinstance(e, BudgetReached)] == []
    return sum(e is None for e in errors), sum(e is not None for e in errors)


def test_of_sixteen_at_once_exactly_ten_may_call(place: Layout, pool: ThreadPoolExecutor) -> None:
    for number in range(200):
        book = account(place, max_calls=10)
        futures = at_once(pool, 16, lambda n, book=book: spend(book, task=n + 1, answer=1))  # type: ignore[misc]
        assert outcomes(futures) == (10, 6), f"round {number}"
        assert book.spending().calls == 10
    assert len(usage.read(place)) == 2000


def test_of_sixteen_at_once_no_more_may_call_than_the_money_allows(place: Layout, pool: ThreadPoolExecutor) -> None:
    for number in range(200):
        book = account(place, max_cost=10)
        assert outcomes(at_once(pool, 16, lambda n, book=book: spend(book, task=n + 1))) == (10, 6)  # type: ignore[misc]
        assert book.spending().cost == pytest.approx(10), f"round {number}"


def test_of_sixteen_at_once_a_task_takes_no_more_than_its_own(place: Layout, pool: ThreadPoolExecutor) -> None:
    book = account(place, task_max_calls=3)
    assert outcomes(at_once(pool, 16, lambda n: spend(book, task=1 + n % 2, answer=1))) == (6, 10)


def test_what_is_reserved_is_not_spent_so_others_wait_for_it(place: Layout, pool: ThreadPoolExecutor) -> None:
    """Sixteen calls that could cost 16 dollars and cost 16 cents fit into 1.50."""
    book = account(place, max_cost=1.5)
    with book.call("bob", 0, MODEL, 0, 50_000) as spent:
        others = [pool.submit(spend, book, answer=500) for _ in range(15)]
        until(lambda: waiting(book) == 15, "all others waiting")
        spent.usage = {"output": 500}
    assert outcomes(others) == (15, 0)
    assert book.spending().cost == pytest.approx(0.16)


def waiting(book: Account) -> int:
    return len(book._change._waiters)  # type: ignore[attr-defined]


def test_a_call_for_one_task_does_not_hold_up_another(place: Layout, pool: ThreadPoolExecutor) -> None:
    book = account(place, task_max_calls=1)
    with book.call("alice", 1, MODEL, 0, 10):
        assert outcomes([pool.submit(spend, book, task=2)]) == (1, 0)


@pytest.mark.parametrize("billed", [True, False], ids=["billed", "not billed"])
def test_one_who_waits_goes_on_or_is_refused_by_how_the_call_under_way_ends(
    billed: bool, place: Layout, pool: ThreadPoolExecutor
) -> None:
    book = account(place, max_calls=1)
    with book.call("alice", 1, MODEL, 0, 10) as spent:
        other = pool.submit(spend, book)
        until(lambda: waiting(book), "somebody waiting")
        assert not other.done()
        spent.usage = USED if billed else None
    assert outcomes([other]) == ((0, 1) if billed else (1, 0))


def test_a_call_too_dear_for_what_is_left_is_refused_without_waiting(place: Layout, pool: ThreadPoolExecutor) -> None:
    book = account(place, max_cost=2)
    spend(book)
    with book.call("alice", 1, MODEL, 0, 10_000):
        assert outcomes([pool.submit(spend, book, room=60_000)]) == (0, 1)


def test_time_that_runs_out_while_somebody_waits_ends_the_waiting(place: Layout, pool: ThreadPoolExecutor) -> None:
    clock = Clock()
    book = Account(place, prices.load({}), Limits(max_calls=1, max_seconds=60), clock)
    with book.call("alice", 1, MODEL, 0, 10):
        other = pool.submit(spend, book)
        until(lambda: waiting(book), "somebody waiting")
        clock.now += 60
    assert "minutes" in str(other.exception(TIMEOUT))


def test_a_call_within_a_call_is_a_mistake_and_not_a_deadlock(place: Layout) -> None:
    book = account(place)
    with ExitStack() as stack:
        stack.enter_context(book.call("alice", 1, MODEL, 0, 10))
        with pytest.raises(RuntimeError, match="within another one"):
            stack.enter_context(book.call("alice", 1, MODEL, 0, 10))
    spend(book)


def test_without_limits_nobody_waits(place: Layout, pool: ThreadPoolExecutor) -> None:
    book, barrier = account(place), threading.Barrier(16)

    def call(number: int) -> None:
        with book.call("alice", 1, "llama", 10**9, 10**9) as spent:
            barrier.wait(TIMEOUT)  # all sixteen are inside
            spent.usage = USED

    assert outcomes(at_once(pool, 16, call)) == (16, 0)
