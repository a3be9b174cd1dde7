"""The catalogue, as the fuzzer sees it: how often areas are drawn, and the cases that it may begin from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache

from scapy_mpa.catalogue.case import AREAS
from scapy_mpa.catalogue.table import CASES


@cache
def weights() -> dict[str, int]:
    """Return how often each area is drawn: in proportion to its cases in the catalogue."""
    counted = Counter(case.area for case in CASES.values())
    return {area: counted[area] for area in AREAS}


@lru_cache(maxsize=32)
def malformed_cases(areas: Sequence[str]) -> tuple[str, ...]:
    """The names of the cases of some areas."""
    return tuple(name for name, case in CASES.items() if case.area in areas)
