"""The gate: when the service wants to be left alone nobody calls, and then they come back one by one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import TIMEOUT, until

from gitteam.agents.gate import LONGEST_PAUSE, Closed, Gate, Stopped

BUSY = "the API is overloaded"


class Clock:
    """Time that passes only when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate(clock: Clock) -> Gate:
    return Gate(clock, lambda: 1.0)  # the longest pause there is by chance


def is_open(gate: Gate) -> bool:
    """Whether somebody without patience gets in; whoever does stays inside."""
    try:
        gate.enter(patience=0)
    except Closed:
        return False
    return True


def fail(gate: Gate, retry_after: float | None = None) -> float:
    return gate.leave_failed(gate.enter(), BUSY, retry_after)


def test_everybody_may_call_while_all_is_well(gate: Gate) -> None:
    assert [gate.enter() for _ in range(200)] == [0] * 200


def test_nobody_calls_before_the_service_wants_it(gate: Gate, clock: Clock) -> None:
    pause = fail(gate, 90)
    assert 90 <= pause <= 91
    clock.now += 89.9
    assert not is_open(gate)
    clock.now += 1.2
    assert is_open(gate)


def test_the_wanted_pause_is_spread_so_that_processes_do_not_come_back_together(clock: Clock) -> None:
    pauses = {fail(Gate(clock, lambda chance=chance: chance), 20) for chance in (0.0, 0.3, 0.9)}
    assert len(pauses) == 3
    assert min(pauses) == 20


def test_own_pauses_double_up_to_a_minute(gate: Gate, clock: Clock) -> None:
    pauses = []
    for _ in range(12):
        pauses.append(fail(gate))
        clock.now += pauses[-1]
    assert pauses == [1, 2, 4, 8, 16, 32, *[LONGEST_PAUSE] * 6]


def test_half_of_an_own_pause_is_chance(clock: Clock) -> None:
    assert [fail(Gate(clock, lambda chance=chance: chance)) for chance in (0.0, 0.5, 1.0)] == [0.5, 0.75, 1.0]


def test_a_service_that_always_says_at_once_is_not_hammered(gate: Gate, clock: Clock) -> None:
    pauses = []
    for _ in range(9):
        pauses.append(fail(gate, 0))
        clock.now += pauses[-1]
    assert pauses == [0, 0, 0, 8, 16, 32, *[LONGEST_PAUSE] * 3]


def test_calls_that_failed_together_count_once(gate: Gate) -> None:
    tickets = [gate.enter() for _ in range(16)]
    assert {gate.leave_failed(ticket, BUSY, None) for ticket in tickets} == {1.0}


def test_after_a_failure_one_goes_first_and_each_success_lets_twice_as_many_in(gate: Gate, clock: Clock) -> None:
    fail(gate, 10)
    clock.now += 12
    widths = []
    for _ in range(4):
        entered = 0
        while entered < 100 and is_open(gate):
            entered += 1
        widths.append(entered)
        gate.leave(1)
        for _ in range(entered - 1):
            gate.leave(0)  # as if it had begun before the failure: it makes room, and proves nothing
    assert widths == [1, 2, 4, 8]


def test_a_call_from_before_the_failure_lets_nobody_in(gate: Gate, clock: Clock) -> None:
    early = [gate.enter() for _ in range(8)]
    fail(gate, 10)
    for ticket in early:
        gate.leave(ticket)
    clock.now += 12
    assert is_open(gate)
    assert not is_open(gate)


def test_a_success_ends_the_row_of_failures(gate: Gate, clock: Clock) -> None:
    for _ in range(5):
        clock.now += fail(gate)
    gate.leave(gate.enter())
    assert fail(gate) == 1


def test_who_cannot_wait_so_long_is_told_at_once_and_why(gate: Gate) -> None:
    fail(gate, 86400)
    with pytest.raises(Closed, match=BUSY) as closed:
        gate.enter(patience=900)
    assert closed.value.pause == pytest.approx(86401)


# -- threads, in real time ----------------------------------------------------------------------


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def stopped(gate: Gate) -> bool:
    try:
        gate.enter(patience=7200)
    except Stopped:
        return True
    return False


def waiting(gate: Gate, count: int) -> None:
    until(lambda: len(gate._change._waiters) == count, f"{count} at the gate")


def test_stopping_ends_every_wait_at_once(pool: ThreadPoolExecutor) -> None:
    gate = Gate()
    fail(gate, 3600)
    results = [pool.submit(stopped, gate) for _ in range(16)]
    waiting(gate, 16)
    gate.stop()
    assert all(result.result(TIMEOUT) for result in results)
    assert stopped(gate)


def test_stopping_ends_the_wait_for_one_who_is_inside(pool: ThreadPoolExecutor) -> None:
    gate = Gate(jitter=lambda: 0.0)
    fail(gate, 0)
    gate.enter()
    result = pool.submit(stopped, gate)
    waiting(gate, 1)
    gate.stop()
    assert result.result(TIMEOUT)


def test_patience_ends_while_somebody_else_is_trying(pool: ThreadPoolExecutor) -> None:
    gate = Gate(jitter=lambda: 0.0)
    fail(gate, 0)
    gate.enter()  # and does not come back
    with pytest.raises(Closed, match=BUSY):
        pool.submit(gate.enter, 0.01).result(TIMEOUT)
