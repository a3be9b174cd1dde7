"""The cases of a fuzzer as inputs of an engine: a case is the changes of another one, and one more.

An input is the number of the ordinary case whose connection it begins from, and its changes, as JSON. What is added are
the changes of an ordinary case. In a run without an engine they are made to a valid exchange; here to what the engine
chooses among the cases that reached something new.
"""

from __future__ import annotations

import json
import random

from scapy_mpa.craft.segments import below
from scapy_mpa.fuzz.draw import weighted
from scapy_mpa.fuzz.recipe import Mutation, Recipe
from scapy_mpa.fuzz.run import Fuzzer

#: How often changes are added at the end, somewhere, in place of one; and how often one is taken away.
_WAYS = {"append": 6, "insert": 2, "replace": 1, "remove": 1}
#: Ordinary cases whose changes are added: those of one change each, and a few more. Of these the first come more often,
#: since they have the smallest and the largest values.
_CASES = 1500


class Guided:
    """Makes inputs of inputs, and cases of them.

    Args:
        fuzzer: whose changes are made, ``fuzzer.most`` in a case at most.
    """

    def __init__(self, fuzzer: Fuzzer) -> None:
        self._fuzzer = fuzzer

    def recipe(self, octets: bytes, number: int) -> Recipe:
        """Return what an input stands for, as the case of this number."""
        begin, changes = _decoded(octets)
        return self._fuzzer.recipe(begin)._replace(case=number, mutations=changes)

    def mutated(self, octets: bytes, most: int, seed: int) -> bytes:
        """Return an input, ``most`` octets long at most, with the next changes of the fuzzer."""
        rng = random.Random(seed)
        begin, changes = _decoded(octets)
        found = [*changes]
        way = weighted(rng, [*_WAYS], [*_WAYS.values()])
        at = below(rng, len(found) + 1) if way == "insert" else below(rng, max(1, len(found)))
        if way == "remove" and len(found) > 1:
            del found[at]
        else:
            number = below(rng, below(rng, _CASES) + 1)
            if not found:
                begin = number
            more = self._fuzzer.recipe(number).mutations
            at = len(found) if way in ("append", "remove") else at
            found[at : at + (way == "replace")] = more
        while len(found) > self._fuzzer.most or (len(made := _encoded(begin, found)) > most and found):
            del found[below(rng, len(found))]
        return made


def _encoded(begin: int, changes: list[Mutation]) -> bytes:
    return json.dumps([begin, *changes], separators=(",", ":")).encode()


def _decoded(octets: bytes) -> tuple[int, tuple[Mutation, ...]]:
    """The case that an input begins from, and its changes; the first and none where it says nothing, as at first."""
    try:
        begin, *changes = json.loads(octets)
    except ValueError:
        return 0, ()
    return begin, tuple((name, parameters) for name, parameters in changes)
