"""What a model call costs: a dated table, which a team can change and extend in its settings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from gitteam.errors import BadInput
from gitteam.layout import CONFIG

_MOST = 1e9  # of dollars or tokens: more than that is a slip


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens of one model. Prompts of more than `above` tokens cost `factor` times as much."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    above: float | None = None
    factor: float = 1.0

    def times(self, prompt_tokens: int) -> float:
        return self.factor if self.above is not None and prompt_tokens > self.above else 1.0

    def cost(self, usage: Mapping[str, int]) -> float:
        read, written = usage.get("cache_read", 0), usage.get("cache_write", 0)
        fresh, answer = usage.get("input", 0), usage.get("output", 0)
        price = fresh * self.input + answer * self.output + read * self.cache_read + written * self.cache_write
        return price * self.times(fresh + read + written) / 1e6

    def worst(self, prompt_tokens: int, max_tokens: int) -> float:
        """What a call costs when none of its prompt is in the cache and its answer is as long as it may be."""
        dearest = max(self.input, self.cache_read, self.cache_write)
        return (prompt_tokens * dearest + max_tokens * self.output) * self.times(prompt_tokens) / 1e6


@dataclass(frozen=True)
class Prices:
    date: str
    models: Mapping[str, Price]

    def cost(self, model: str, usage: Mapping[str, int]) -> float | None:
        """Dollars for what a call used; None for a model whose price nobody knows."""
        price = self.models.get(model)
        return price.cost(usage) if price else None

    def worst(self, model: str, prompt_tokens: int, max_tokens: int) -> float | None:
        price = self.models.get(model)
        return price.worst(prompt_tokens, max_tokens) if price else None


def load(settings: Mapping[str, Any]) -> Prices:
    """The table, with what the team's settings say under `prices`; BadInput where that makes no sense."""
    table = _table()
    own = settings.get("prices", {})
    if not isinstance(own, dict):
        raise _wrong("", f'an object like {{"MODEL": {{"input": 4, "output": 20}}}}, not {own!r:.80}')
    changed = {model: _changed(model, table.models.get(model), values) for model, values in own.items()}
    return Prices(table.date, {**table.models, **changed})


@cache
def _table() -> Prices:
    found = tomllib.loads(files("gitteam").joinpath("prices.toml").read_text(encoding="utf-8"))
    return Prices(str(found["date"]), {model: Price(**values) for model, values in found["models"].items()})


def _changed(model: str, known: Price | None, values: Any) -> Price:
    """A price as a person gave it. What is left out stays as it was; caching with a new model costs what input does."""
    _check(model, values)
    if known is None:
        if missing := [key for key in ("input", "output") if key not in values]:
            raise _wrong(model, f"given with input and output: {missing[0]} is missing")
        known = Price(values["input"], values["output"], values["input"], values["input"])
    if known.above is None and ("above" in values) != ("factor" in values):
        raise _wrong(model, "given with both above and factor, or with neither")
    return replace(known, **values)


def _check(model: str, values: Any) -> None:
    if not isinstance(values, dict):
        raise _wrong(model, f'an object like {{"input": 4, "output": 20}}, not {values!r:.80}')
    known = [field.name for field in fields(Price)]
    for key, value in values.items():
        if key not in known:
            raise _wrong(model, f"made of {', '.join(known)}: {key!r:.80} is none of them")
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= _MOST:
            raise _wrong(f"{model}: {key}", f"a number from 0 on, not {value!r:.80}")


def _wrong(where: str, expected: str) -> BadInput:
    return BadInput(f"{CONFIG}: settings: prices{f': {where:.80}' if where else ''} is {expected}")
