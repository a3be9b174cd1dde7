"""The cases of one change each, which come first: in rounds, as the seed orders them.

A round has one boundary value of each field. The first rounds have the smallest and the largest values, which lie
beyond all limits in between; in the very first each other change comes alone as well.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from scapy_mpa.craft.changes.boundary import MESSAGE_FIELDS, STARTUP_FIELDS, extremes, powers
from scapy_mpa.craft.segments import below
from scapy_mpa.fuzz.baselines import Baselines
from scapy_mpa.fuzz.draw import T, generator
from scapy_mpa.fuzz.exchange import Window
from scapy_mpa.fuzz.recipe import SMALL, Mutation, Recipe, Tcp
from scapy_mpa.fuzz.upper import fields_of

_BOUNDARY, _STARTUP_BOUNDARY, _UPPER_BOUNDARY = "boundary", "startup-boundary", "upper-boundary"


def single_changes(seed: int, names: Collection[str], uppers: Collection[str] = ()) -> list[Mutation]:
    """All of them, of changes with these names, in the order of a seed; ``uppers`` are the upper layers there are."""
    rng = generator(seed, 0)
    fields: list[list[Mutation]] = []
    if _BOUNDARY in names:
        for (message, field), most in MESSAGE_FIELDS.items():
            fields.append(
                [(_BOUNDARY, f"message={message},field={field},value={value}") for value in _order(rng, most)]
            )
    if _STARTUP_BOUNDARY in names:
        for field, most in STARTUP_FIELDS.items():
            fields.append([(_STARTUP_BOUNDARY, f"field={field},value={value}") for value in _order(rng, most)])
    if _UPPER_BOUNDARY in names:
        for message, field, most in fields_of(uppers):
            values = dict.fromkeys(_order(rng, most))
            fields.append([(_UPPER_BOUNDARY, f"message={message},field={field},value={value}") for value in values])
    ordered = _BOUNDARY, _STARTUP_BOUNDARY, _UPPER_BOUNDARY
    others: list[Mutation] = [(name, rng.getrandbits(32)) for name in names if name not in ordered]
    found: list[Mutation] = []
    for number in range(max(map(len, fields), default=0) or 1):
        of_round = [values[number] for values in fields if number < len(values)]
        found += _shuffled(rng, of_round if number else [*of_round, *others])
    return found


def single(seed: int, number: int, mutation: Mutation, begin: Baselines) -> Recipe:
    """The case of this number: a valid exchange, and one change."""
    rng = generator(seed, number)
    exchanges = begin.valid()
    tcp = Tcp((rng.getrandbits(32), rng.getrandbits(32)))
    exchange = exchanges[number % len(exchanges)]
    return Recipe(seed, number, exchange, Window(octets=SMALL), tcp=tcp, mutations=(mutation,))


def _order(rng: random.Random, most: int) -> list[int]:
    """The values of a field as they are given."""
    return [*_shuffled(rng, extremes(most)), *_shuffled(rng, powers(most))]


def _shuffled(rng: random.Random, values: Sequence[T]) -> list[T]:
    """The same in another order."""
    found = [*values]
    for last in range(len(found) - 1, 0, -1):
        other = below(rng, last + 1)
        found[last], found[other] = found[other], found[last]
    return found
