"""Prices: the table that comes with the program, and what a team's settings make of it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from gitteam import Team, prices
from gitteam.agents.settings import Settings
from gitteam.errors import BadInput

MILLION = 1_000_000


def usage(input: int = 0, output: int = 0, cache_read: int = 0, cache_write: int = 0) -> dict[str, int]:
    return {"input": input, "output": output, "cache_read": cache_read, "cache_write": cache_write}


@pytest.mark.parametrize(
    ("model", "dollars"),
    [("claude-opus-5-5", (4, 20, 0.2, 5)), ("claude-sonnet-5-5", (2, 10, 0.1, 2.5))],
)  # fmt: skip
def test_a_million_tokens_of_each_kind_cost_what_the_table_says(model: str, dollars: tuple[float, ...]) -> None:
    kinds = ("input", "output", "cache_read", "cache_write")
    found = [prices.load({}).cost(model, usage(**{kind: MILLION})) for kind in kinds]
    assert found == pytest.approx(list(dollars))


def test_kinds_of_tokens_add_up() -> None:
    cost = prices.load({}).cost("claude-sonnet-5-5", usage(1000, 500, 20_000, 400))
    assert cost == pytest.approx(0.002 + 0.005 + 0.002 + 0.001)


def test_the_table_has_a_date_and_the_default_model() -> None:
    found = prices.load({})
    assert datetime.date.fromisoformat(found.date).year >= 2026
    assert Settings().model in found.models


@pytest.mark.parametrize(
    ("used", "dollars"),
    [
        (usage(100_000, 1000), 0.0105),
        (usage(100_001, 1000), 5 * (0.0100001 + 0.0005)),
        (usage(1, 1000, 60_000, 40_000), 5 * (0.0000001 + 0.0005 + 0.0006 + 0.005)),  # what is cached is prompt too
        (usage(50_000, 900_000), 0.005 + 0.45),  # the answer is not
    ],
)
def test_long_prompts_cost_more_where_the_table_says_so(used: dict[str, int], dollars: float) -> None:
    assert prices.load({}).cost("claude-haiku-5-5", used) == pytest.approx(dollars)


def test_an_unknown_model_has_an_unknown_price_and_never_none_at_all() -> None:
    found = prices.load({})
    assert found.cost("llama", usage()) is None
    assert found.cost("llama", usage(5, 5)) is None
    assert found.worst("llama", 5, 5) is None


# -- the worst a call can cost ----------------------------------------------------------------------


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "odd"])
@pytest.mark.parametrize("prompt", [0, 10, 100_000, 100_001])
def test_no_call_costs_more_than_the_worst(model: str, prompt: int) -> None:
    found = prices.load({"prices": {"odd": {"input": 1, "output": 2, "cache_read": 7, "cache_write": 3}}})
    worst = found.worst(model, prompt, 500)
    costs = [
        found.cost(model, {**usage(output=output), kind: prompt})
        for kind in ("input", "cache_read", "cache_write")
        for output in (0, 500)
    ]
    assert worst is not None
    assert max(c for c in costs if c is not None) == pytest.approx(worst)


# -- a team's own -------------------------------------------------------------------------------------


def own(**models: Any) -> dict[str, Any]:
    return {"prices": {name.replace("_", "-"): values for name, values in models.items()}}


def test_a_team_can_add_a_model() -> None:
    found = prices.load(own(llama={"input": 1, "output": 3}))
    assert found.cost("llama", usage(MILLION, MILLION)) == 4
    assert found.cost("llama", usage(cache_read=MILLION, cache_write=MILLION)) == 2  # as dear as input, if not given
    assert found.cost("claude-opus-5-5", usage(MILLION)) == 4


def test_a_model_may_cost_nothing() -> None:
    found = prices.load(own(llama={"input": 0, "output": 0}))
    assert (found.cost("llama", usage(5, 5)), found.worst("llama", 5, 5)) == (0, 0)


def test_a_team_can_change_one_figure_and_the_others_stay() -> None:
    found = prices.load(own(claude_haiku_5_5={"output": 7}))
    before = prices.load({})
    assert found.cost("claude-haiku-5-5", usage(output=MILLION)) == 7
    for used in (usage(200_000), usage(cache_read=1000), usage(cache_write=1000)):
        assert found.cost("claude-haiku-5-5", used) == before.cost("claude-haiku-5-5", used)
    assert before.cost("claude-haiku-5-5", usage(output=MILLION)) == 0.5


def test_a_team_can_give_a_price_for_long_prompts() -> None:
    found = prices.load(own(llama={"input": 1, "output": 1, "above": 10, "factor": 3}))
    assert [found.cost("llama", usage(n)) for n in (10, 11)] == pytest.approx([10 / 1e6, 33 / 1e6])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "prices is an object like"),
        ({"llama": 3}, "prices: llama is an object like"),
        ({"llama": {"input": 1}}, "prices: llama is given with input and output: output is missing"),
        ({"llama": {"input": 1, "output": 1, "ouput": 2}}, "'ouput' is none of them"),
        ({"llama": {"input": "1", "output": 1}}, "prices: llama: input is a number from 0 on, not '1'"),
        ({"llama": {"input": -1, "output": 1}}, "not -1"),
        ({"llama": {"input": True, "output": 1}}, "not True"),
        ({"llama": {"input": float("nan"), "output": 1}}, "not nan"),
        ({"llama": {"input": float("inf"), "output": 1}}, "not inf"),
        ({"llama": {"input": 10**400, "output": 1}}, "llama: input is a number"),
        ({"llama": {"input": 1, "output": 1, "above": None}}, "not None"),
        ({"llama": {"input": 1, "output": 1, "above": 5}}, "with both above and factor"),
        ({"claude-opus-5-5": {"factor": 5}}, "with both above and factor"),
    ],
)
def test_a_wrong_price_is_refused_and_the_file_named(values: Any, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        prices.load({"prices": values})
    assert str(refused.value).startswith(".team/config.json: settings: prices")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_prices_stand_in_the_configuration_of_the_team(team: Team, repo: Path) -> None:
    config = repo / ".team" / "config.json"
    values = json.loads(config.read_text())
    values["settings"]["prices"] = {"llama": {"input": 1, "output": 3}}
    config.write_text(json.dumps(values))
    assert prices.load(team.config().settings).cost("llama", usage(MILLION)) == 1
