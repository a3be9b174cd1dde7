"""Combinations of parameters in which each value of one meets each value of every other, in few rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

Pairs = set[tuple[tuple[str, int], tuple[str, int]]]


def pairwise(parameters: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Rows that hold every pair of values of two parameters, found greedily; the same ones each time."""
    missing: Pairs = {
        ((one, i), (other, j))
        for one, other in combinations(parameters, 2)
        for i in range(len(parameters[one]))
        for j in range(len(parameters[other]))
    }
    rows = []
    while missing:
        row: dict[str, int] = dict(min(missing))
        for name, values in parameters.items():
            if name not in row:
                row[name] = max(range(len(values)), key=lambda value: (_gain(row, name, value, missing), -value))
        missing -= _pairs(row, parameters)
        rows.append({name: parameters[name][row[name]] for name in parameters})
    return rows


def _gain(row: Mapping[str, int], name: str, value: int, missing: Pairs) -> int:
    """Return how many missing pairs a value adds to a row; counted in both orders, as one of them is kept."""
    mine = name, value
    return sum(((theirs, mine) in missing) + ((mine, theirs) in missing) for theirs in row.items())


def _pairs(row: Mapping[str, int], parameters: Mapping[str, Sequence[Any]]) -> Pairs:
    return set(combinations([(name, row[name]) for name in parameters], 2))
