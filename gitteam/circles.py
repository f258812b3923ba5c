"""Which tasks wait, through others, for themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def circles(waits_for: Mapping[int, Iterable[int]]) -> dict[int, list[int]]:
    """Every task in a circle, with all the tasks of that circle.

    Tarjan's strongly connected components, with a stack of its own: a chain may be thousands long.
    """
    found: dict[int, list[int]] = {}
    order: dict[int, int] = {}  # when each was reached
    low: dict[int, int] = {}  # the earliest one it leads back to
    path: list[int] = []
    on_path: set[int] = set()
    for start in waits_for:
        if start in order:
            continue
        todo = [(start, iter(waits_for[start]))]
        while todo:
            number, rest = todo[-1]
            if number not in order:
                order[number] = low[number] = len(order)
                path.append(number)
                on_path.add(number)
            following = next((n for n in rest if n in waits_for), None)
            if following is None:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[number])
                if low[number] == order[number]:
                    members = path[path.index(number) :] if path[-1] != number else [number]
                    del path[-len(members) :]
                    on_path.difference_update(members)
                    if len(members) > 1 or number in waits_for[number]:
                        found.update(dict.fromkeys(members, sorted(members)))
            elif following not in order:
                todo.append((following, iter(waits_for[following])))
            elif following in on_path:
                low[number] = min(low[number], order[following])
    return found
