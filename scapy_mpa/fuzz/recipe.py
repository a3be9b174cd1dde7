"""What is drawn for a case, before anything is made: all that two runs need to make the same octets.

Each mutation has a seed of its own, so that a case without one of its mutations is otherwise the same case: that is how
a failing one is made smaller.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from scapy_mpa.craft.segmentation import Segmentation
from scapy_mpa.craft.setup import CLOSES, Close
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.fuzz.baselines import Baselines
from scapy_mpa.fuzz.catalogue import malformed_cases, nothing_said
from scapy_mpa.fuzz.draft import Agreed, Window
from scapy_mpa.fuzz.draw import generator, pick, weighted
from scapy_mpa.fuzz.exchange import Exchange
from scapy_mpa.fuzz.mutations import MUTATIONS

#: As many as a case has at most, unless told otherwise.
MOST_MUTATIONS = 8
_HOW_MANY = (1, 1, 1, 1, 2, 2, 3, 4, 6, 8)
_SMALL, _LARGE, _HUGE = 1_500, 6_000, 70_000
_HUGE_SHARE = 0.01
_MALFORMED_SHARE = 0.15
_CUTTINGS = (
    *(Segmentation("aligned"),) * 4,
    *(Segmentation("packed"),) * 2,
    Segmentation("stream"),
    Segmentation("unaligned"),
    Segmentation("crc-alone", shortest=8),
    Segmentation("random"),
)
_SIZES = (1448, 1448, 1448, 1460, 8948, 536, 512)


#: What a mutation changes.
Changes: TypeAlias = Literal["messages", "packets"]


class Recipe(NamedTuple):
    """A case: its numbers, the exchange it begins from, and what is drawn. Pairs are (Initiator's, Responder's)."""

    seed: int
    case: int
    exchange: Exchange
    window: Window = Window()
    agreed: Agreed | None = None
    isns: tuple[int, int] = (0, 0)
    cuttings: tuple[Segmentation, Segmentation] = (Segmentation(), Segmentation())
    emss: int = 1448
    timestamps: bool = False
    close: tuple[Close, Role] = ("fin", "initiator")
    cutting_seed: int = 0
    #: Names and seeds.
    mutations: tuple[tuple[str, int], ...] = ()
    #: The case of the catalogue whose packets it begins from in place of messages.
    malformed: str | None = None


def recipe(
    seed: int,
    case: int,
    baselines: Baselines,
    weights: Mapping[str, int],
    most: int = MOST_MUTATIONS,
    only: Changes | None = None,
) -> Recipe:
    """The case of this number; ``weights`` say how often each area is drawn, ``most`` how many mutations there may be,
    ``only`` what they change.

    With none, case N is connection N of the baselines (counted round and round), as a whole and as it was.
    """
    rng = generator(seed, case)
    isns = rng.getrandbits(32), rng.getrandbits(32)
    if not most:
        exchanges = baselines.exchanges()
        return Recipe(seed, case, exchanges[case % len(exchanges)], isns=isns)
    count = min(most, pick(rng, _HOW_MANY))
    if baselines.with_catalogue and rng.random() < _MALFORMED_SHARE:
        return _malformed(seed, case, rng, weights, count)
    mutations = _mutations(rng, weights, count, only)
    source = pick(rng, baselines.sources)
    exchange = pick(rng, source.found.exchanges)
    wants_markers = any(name.startswith("markers-") for name, _ in mutations)
    return Recipe(
        seed,
        case,
        exchange,
        _window(rng),
        _agreed(rng, exchange, wants_markers),
        isns,
        (pick(rng, _CUTTINGS), pick(rng, _CUTTINGS)),
        pick(rng, _SIZES),
        rng.random() < 0.3,
        (pick(rng, ("fin", "fin", *CLOSES)), pick(rng, ROLES)),
        rng.getrandbits(32),
        mutations,
    )


def _malformed(seed: int, case: int, rng: random.Random, weights: Mapping[str, int], count: int) -> Recipe:
    """A case of the catalogue, and mutations of its packets."""
    name = pick(rng, malformed_cases(tuple(weights)))
    shares = {area: weight for area, weight in weights.items() if in_area(area, "packets")}
    drawn = _mutations(rng, shares, count - 1, "packets") if shares else ()
    return Recipe(seed, case, nothing_said(name), mutations=drawn, malformed=name)


def _mutations(
    rng: random.Random, weights: Mapping[str, int], count: int, only: Changes | None = None
) -> tuple[tuple[str, int], ...]:
    """Areas by their weights, in each any mutation, or any of those that change messages or packets."""
    areas, shares = tuple(weights), tuple(weights.values())
    drawn = []
    for _ in range(count):
        area = weighted(rng, areas, shares)
        drawn.append((pick(rng, in_area(area, only)), rng.getrandbits(32)))
    return tuple(drawn)


def in_area(area: str, only: Changes | None = None) -> Sequence[str]:
    """The names of the mutations of an area, or of those that change messages or packets."""
    alike = (one for one in MUTATIONS.values() if one.area == area)
    return [one.name for one in alike if only is None or one.by_message == (only == "messages")]


def _window(rng: random.Random) -> Window:
    """Small ones, most often: they find as much as large ones, in less time."""
    start = rng.random() if rng.random() < 0.5 else 0.0
    size = _SMALL + int((_LARGE - _SMALL) * rng.random() * rng.random())
    return Window(start, _HUGE if rng.random() < _HUGE_SHARE else size)


def _agreed(rng: random.Random, exchange: Exchange, wants_markers: bool) -> Agreed | None:
    """As it was, or with other flags; with Markers somewhere if those are to be mutated."""
    bits = rng.getrandbits(3)
    has_markers = any(way.markers for way in exchange.ways)
    if rng.random() < 0.6 and (has_markers or not wants_markers):
        return None
    if wants_markers and not bits & 3:
        bits |= 1 + (bits >> 2)
    return Agreed((bool(bits & 1), bool(bits & 2)), bool(bits & 4) or rng.random() < 0.5)
