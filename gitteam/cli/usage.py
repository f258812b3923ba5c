"""`gitteam usage`: what the models used and what it cost."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gitteam.cli.common import Command, Shell, dim, fit, heading, hint, pass_shell, screen_width, visible_line, width
from gitteam.layout import CONFIG
from gitteam.usage import Row, read, sums

_HEAD = ("calls", "in", "cached", "out", "cost")
_LONGEST = 40  # columns for a name


@click.command(cls=Command, short_help="What the models used and what it cost, by member, task or day.")
@click.option("--by", type=click.Choice(["member", "task", "day"]), default="member", show_default=True, help="Rows.")
@pass_shell
def usage(shell: Shell, by: str) -> None:
    """What the models used: calls, tokens, how much of the prompts came from the cache, cost in dollars.

    \b
    gitteam usage
    gitteam usage --by task
    gitteam usage --by day --json
    """
    calls = read(shell.team.place)
    rows, total = sums(calls, by), next(iter(sums(calls, "team")), None)
    data = {
        "by": by,
        "rows": [{by: row.key, **row.to_json()} for row in rows],
        "total": total.to_json() if total else None,
    }
    shell.print(data, _table(by, rows, total) if total else "no model has been called yet")
    if total and total.unpriced and not shell.as_json:
        calls_had = "call had" if total.unpriced == 1 else "calls had"
        hint(f'{total.unpriced} {calls_had} no known price: name one in {CONFIG}, under settings, as "prices"')


def _table(by: str, rows: list[Row], total: Row) -> Iterator[str]:
    lines = [(by, *_HEAD), *((_name(by, row), *_figures(row)) for row in rows), ("total", *_figures(total))]
    columns = [max(map(width, column)) for column in zip(*lines, strict=True)]
    columns[0] = min(columns[0], _LONGEST)
    room = max(0, screen_width() - sum(columns) - 2 * len(columns))
    models = [fit(text, room).rstrip() for text in ("models", *(_models(row) for row in rows))]
    head, *middle, last = [_line(cells, columns) for cells in lines]
    yield dim(f"{head}  {models[0]}".rstrip())
    yield from (f"{line}  {dim(names)}" if names else line for line, names in zip(middle, models[1:], strict=True))
    yield heading(last)


def _line(cells: tuple[str, ...], columns: list[int]) -> str:
    name, *figures = zip(cells, columns, strict=True)
    return "  ".join([fit(*name), *(figure.rjust(column) for figure, column in figures)])


def _name(by: str, row: Row) -> str:
    if by == "task":
        return f"#{row.key}" if row.key else "no task"
    return visible_line(str(row.key))


def _models(row: Row) -> str:
    return ", ".join(visible_line(model) for model in row.models)


def _figures(row: Row) -> tuple[str, ...]:
    return str(row.calls), f"{row.input:,}", f"{row.cached:.0%}", f"{row.output:,}", cost(row)


def cost(row: Row) -> str:
    """The known part of it, with a mark where that is not all."""
    if row.unpriced == row.calls:
        return "unknown"
    return f"{'≥ ' if row.unpriced else ''}${row.cost:.4f}"
