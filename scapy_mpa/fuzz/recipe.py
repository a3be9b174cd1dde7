"""What is drawn for a case, before anything is made: all that two runs need to make the same octets.

Each change has a seed of its own, so that a case without one of its changes is otherwise the same case: that is how a
failing one is made smaller.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from scapy_mpa.craft.changes.draws import pick
from scapy_mpa.craft.segmentation import Segmentation
from scapy_mpa.craft.sent import Repairable
from scapy_mpa.craft.setup import CLOSES, Close
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.fuzz.baselines import Baselines
from scapy_mpa.fuzz.catalogue import malformed_cases
from scapy_mpa.fuzz.draw import generator, weighted
from scapy_mpa.fuzz.exchange import RecordedExchange, Window
from scapy_mpa.tuples import NamedTuple

#: A change of a case: its name, and the seed that draws its parameters, or these as text.
Mutation: TypeAlias = "tuple[str, int | str]"
#: As many changes as a case has at most, unless told otherwise.
MOST_MUTATIONS = 8
_HOW_MANY = (1, 1, 1, 1, 2, 2, 3, 4, 6, 8)
#: Octets of ULPDUs of a valid exchange: few, most often.
SMALL = 1_500
_LARGE, _HUGE = 6_000, 70_000
_HUGE_SHARE = 0.01
_MALFORMED_SHARE = 0.15
_SEGMENTATIONS = (
    *(Segmentation("aligned"),) * 4,
    *(Segmentation("packed"),) * 2,
    Segmentation("stream"),
    Segmentation("unaligned"),
    Segmentation("crc-alone", shortest=8),
    Segmentation("random"),
)
_EMSS = (1448, 1448, 1448, 1460, 8948, 536, 512)
_LEFT: tuple[Repairable | None, ...] = (None, None, None, "crc", "lengths")


class Agreed(NamedTuple):
    """What the startup frames say in place of what they said: Markers (from the Initiator, the Responder), CRC."""

    markers: tuple[bool, bool]
    crc: bool


class Tcp(NamedTuple):
    """How a connection is carried: pairs are (Initiator's, Responder's)."""

    isns: tuple[int, int] = (0, 0)
    segmentation: tuple[Segmentation, Segmentation] = (Segmentation(), Segmentation())
    emss: int = 1448
    timestamps: bool = False
    close: tuple[Close, Role] = ("fin", "initiator")
    seed: int = 0


class Recipe(NamedTuple):
    """A case: its numbers, the exchange that it begins from, and what is drawn."""

    seed: int
    case: int
    #: None: it begins from a case of the catalogue.
    exchange: RecordedExchange | None
    window: Window = Window()
    agreed: Agreed | None = None
    tcp: Tcp = Tcp()
    #: What changes leave as it was.
    left: Repairable | None = None
    #: The changes.
    mutations: tuple[Mutation, ...] = ()
    #: The case of the catalogue.
    malformed: str = ""
    #: The changes that are asked for by name; none: any.
    only: tuple[str, ...] = ()
    #: The side whose messages are changed; None: either, as it is drawn.
    by: Role | None = None

    @property
    def source(self) -> str:
        """Its origin, as logs call it."""
        return f"catalogue: {self.malformed}" if self.exchange is None else self.exchange.source

    @property
    def connection(self) -> int:
        """The number of the connection there."""
        return 0 if self.exchange is None else self.exchange.connection


class Drawn(NamedTuple):
    """The changes that are drawn: how often each area, and the names of the changes in each.

    ``only`` are those that are asked for by name.
    """

    weights: Mapping[str, int]
    names: Mapping[str, Sequence[str]]
    only: tuple[str, ...] = ()

    def draw(self, rng: random.Random, count: int) -> tuple[Mutation, ...]:
        """Draw this many changes: areas by their weights, in each any of its changes."""
        areas, shares = tuple(self.names), tuple(self.weights[area] for area in self.names)
        drawn = []
        for _ in range(count if areas else 0):
            drawn.append((pick(rng, self.names[weighted(rng, areas, shares)]), rng.getrandbits(32)))
        return tuple(drawn)


def recipe(
    seed: int, case: int, baselines: Baselines, drawn: Drawn, of_packets: Drawn, most: int = MOST_MUTATIONS
) -> Recipe:
    """The case of this number, with ``most`` changes at most; cases of the catalogue get those ``of_packets`` alone.

    With none, case N is connection N of the baselines (counted round and round), as a whole and as it was.
    """
    rng = generator(seed, case)
    isns = rng.getrandbits(32), rng.getrandbits(32)
    if not most:
        exchanges = baselines.exchanges()
        return Recipe(seed, case, exchanges[case % len(exchanges)], tcp=Tcp(isns))
    count = min(most, pick(rng, _HOW_MANY))
    if baselines.with_catalogue and rng.random() < _MALFORMED_SHARE:
        name = pick(rng, malformed_cases(tuple(drawn.names)))
        return Recipe(seed, case, None, mutations=of_packets.draw(rng, count - 1), malformed=name)
    mutations = drawn.draw(rng, count)
    exchange = pick(rng, pick(rng, baselines.sources).found.exchanges)
    wants_markers = any("marker" in name for name, _ in mutations)
    tcp = Tcp(
        isns,
        (pick(rng, _SEGMENTATIONS), pick(rng, _SEGMENTATIONS)),
        pick(rng, _EMSS),
        rng.random() < 0.3,
        (pick(rng, ("fin", "fin", *CLOSES)), pick(rng, ROLES)),
        rng.getrandbits(32),
    )
    agreed = _agreed(rng, exchange, wants_markers)
    return Recipe(seed, case, exchange, _window(rng), agreed, tcp, pick(rng, _LEFT), mutations, only=drawn.only)


def _window(rng: random.Random) -> Window:
    """Small ones, most often: they find as much as large ones, in less time."""
    start = rng.random() if rng.random() < 0.5 else 0.0
    size = SMALL + int((_LARGE - SMALL) * rng.random() * rng.random())
    return Window(start, _HUGE if rng.random() < _HUGE_SHARE else size)


def _agreed(rng: random.Random, exchange: RecordedExchange, wants_markers: bool) -> Agreed | None:
    """As it was, or with other flags; with Markers somewhere if those are to be changed."""
    bits = rng.getrandbits(3)
    has_markers = any(exchange.setup["markers"])
    if rng.random() < 0.6 and (has_markers or not wants_markers):
        return None
    if wants_markers and not bits & 3:
        bits |= 1 + (bits >> 2)
    return Agreed((bool(bits & 1), bool(bits & 2)), bool(bits & 4) or rng.random() < 0.5)
