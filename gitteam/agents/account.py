"""One account for all members of a process: what they may spend is checked before each call, and written down after it.

Before a call the account reserves what it could cost at worst. A call that would fit
if the others under way turned out cheap waits for them; one that would not fit even
then is refused. So a limit holds however many members call at once, and none of them
is turned away while there is money left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gitteam import usage
from gitteam.errors import GitteamError
from gitteam.layout import CONFIG, Layout
from gitteam.prices import Prices
from gitteam.usage import Call, Row

_HAIR = 1e-9  # dollars that are lost or won by adding up


class BudgetReached(GitteamError):
    """No further call is made: of the whole team, or for this task only."""

    def __init__(self, reason: str, whole_team: bool):
        self.reason, self.whole_team = reason, whole_team
        super().__init__(reason)


@dataclass(frozen=True)
class Limits:
    """What may be spent: by the process, and for each task by whoever works on it. None: as much as it takes."""

    max_cost: float | None = None
    max_calls: int | None = None
    max_seconds: float | None = None
    task_max_cost: float | None = None
    task_max_calls: int | None = None

    @property
    def need_prices(self) -> bool:
        return self.max_cost is not None or self.task_max_cost is not None

    @property
    def concern_tasks(self) -> bool:
        return self.task_max_cost is not None or self.task_max_calls is not None


@dataclass(frozen=True)
class Spending:
    """What has been spent so far; a run that is resumed hands it on."""

    calls: int = 0
    cost: float = 0.0
    seconds: float = 0.0


@dataclass
class Spent:
    """What one call used: None until the service has said so, and forever if the call was not billed."""

    usage: dict[str, int] | None = None


@dataclass(frozen=True, eq=False)
class _Reservation:
    task: int
    cost: float
    thread: int


@dataclass(frozen=True)
class _Purse:
    """What pays for a call: the team's, or a task's. `held` is what calls under way have reserved of it."""

    whose: str
    max_cost: float | None
    max_calls: int | None
    cost: float
    calls: int
    held: list[_Reservation]

    def refusal(self, worst: float) -> str:
        """Why one more call is too much, even if those under way turn out to cost nothing; "" if it is not."""
        if self._is_over(self.calls + 1, 0):
            return f"{self.whose} may make {self.max_calls} model calls and has made {self.calls}: allow more to go on"
        if self._is_over(0, self.cost + worst):
            return (
                f"{self.whose} may spend ${self.max_cost:g}: ${self.cost:.4f} is spent and the next call could cost "
                f"${worst:.4f}; allow more to go on"
            )
        return ""

    def is_spoken_for(self, worst: float) -> bool:
        """Whether one more call is too much if those under way use all they have reserved."""
        return self._is_over(self.calls + len(self.held) + 1, self.cost + sum(r.cost for r in self.held) + worst)

    def _is_over(self, calls: int, cost: float) -> bool:
        too_many = self.max_calls is not None and calls > self.max_calls
        return too_many or (self.max_cost is not None and cost > self.max_cost + _HAIR)


class Account:
    """The team's limits count what this process spends and what was spent `already`; a task's count all of the log."""

    def __init__(
        self, place: Layout, prices: Prices, limits: Limits, clock: Callable[[], float] = time.monotonic,
        already: Spending | None = None,
    ):  # fmt: skip
        self._place, self._prices, self._limits, self._clock = place, prices, limits, clock
        already = already or Spending()
        self._calls, self._cost, self._began = already.calls, already.cost, clock() - already.seconds
        self._change = threading.Condition()
        self._reserved: list[_Reservation] = []
        self._tasks: dict[str | int, Row] = {}
        self._read_up_to = 0

    @contextmanager
    def call(self, member: str, task: int, model: str, prompt_tokens: int, max_tokens: int) -> Iterator[Spent]:
        """Around one model call, which sets `usage` of what is yielded. Raises BudgetReached before it begins."""
        reservation = self._reserve(task, model, prompt_tokens, max_tokens)
        spent = Spent()
        try:
            yield spent
        finally:
            self._settle(reservation, member, model, spent.usage)

    def spending(self) -> Spending:
        with self._change:
            return Spending(self._calls, self._cost, self._clock() - self._began)

    def task_totals(self, task: int) -> dict[str, str]:
        """What a task took, by whomever, as trailers of the commit that completes it."""
        with self._change:
            self._catch_up()
            row = self._tasks.get(task)
        if row is None:
            return {}
        return {
            "Team-Tokens": f"{row.input + row.output} ({row.cached:.0%} cached)",
            "Team-Cost": "unknown" if row.known_cost is None else f"{row.known_cost:.4f}",
            "Team-Calls": str(row.calls),
        }

    # -- before a call ------------------------------------------------------------------------

    def _reserve(self, task: int, model: str, prompt_tokens: int, max_tokens: int) -> _Reservation:
        worst = self._prices.worst(model, prompt_tokens, max_tokens)
        if worst is None and self._limits.need_prices:
            raise BudgetReached(self._no_price(model), whole_team=True)
        wanted = _Reservation(task, worst or 0.0, threading.get_ident())
        with self._change:
            if any(other.thread == wanted.thread for other in self._reserved):
                raise RuntimeError("a model call within another one could wait for itself")
            while self._must_wait(wanted):
                self._change.wait()
            self._reserved.append(wanted)
        return wanted

    def _must_wait(self, wanted: _Reservation) -> bool:
        """Whether there is room only if others need less than they have reserved. Raises when there is none at all."""
        self._check_time()
        purses = [self._purse()]
        if wanted.task and self._limits.concern_tasks:
            purses.append(self._purse_of(wanted.task))
        for purse in purses:
            if reason := purse.refusal(wanted.cost):
                raise BudgetReached(reason, whole_team=purse is purses[0])
        return any(purse.is_spoken_for(wanted.cost) for purse in purses)

    def _check_time(self) -> None:
        most, passed = self._limits.max_seconds, self._clock() - self._began
        if most is not None and passed >= most:
            reason = f"the team may work {most / 60:g} minutes, which are over after {self._calls} calls"
            raise BudgetReached(f"{reason}: allow more to go on", whole_team=True)

    def _purse(self) -> _Purse:
        limits = self._limits
        return _Purse("the team", limits.max_cost, limits.max_calls, self._cost, self._calls, self._reserved)

    def _purse_of(self, task: int) -> _Purse:
        self._catch_up()
        row, limits = self._tasks.get(task), self._limits
        cost, calls = (row.cost, row.calls) if row else (0.0, 0)
        held = [other for other in self._reserved if other.task == task]
        return _Purse(f"task #{task}", limits.task_max_cost, limits.task_max_calls, cost, calls, held)

    def _no_price(self, model: str) -> str:
        return (
            f"the model {model!r:.80} has no price in the table of {self._prices.date}, so no limit on cost can hold: "
            f'give one in {CONFIG}, as settings: "prices": {{"MODEL": {{"input": 4, "output": 20}}}}'
        )

    # -- after it -----------------------------------------------------------------------------

    def _settle(self, reservation: _Reservation, member: str, model: str, used: dict[str, int] | None) -> None:
        """The real figures take the place of the reserved ones; what was not billed leaves no trace."""
        with self._change:
            self._reserved.remove(reservation)
            self._change.notify_all()
            if used is None:
                return
            cost = self._prices.cost(model, used)
            self._calls += 1
            self._cost += cost or 0.0
            tokens = {key: used.get(key, 0) for key in usage.TOKENS}
            now = round(time.time(), 3)
            usage.append(self._place, Call(now, member, reservation.task, model, **tokens, cost=cost))

    def _catch_up(self) -> None:
        """Add what has been logged since the last look, by whichever process."""
        calls, self._read_up_to = usage.read_from(self._place, self._read_up_to)
        for row in usage.sums(calls, "task"):
            before = self._tasks.get(row.key)
            self._tasks[row.key] = before.plus(row) if before else row
