"""From a recipe to packets, and to what a log says of them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from scapy_mpa.craft.pcapfile import Packet, PcapWriter
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scapy_mpa.fuzz.catalogue import Change, malform
from scapy_mpa.fuzz.draft import Draft, DraftSide, LaidUnit, drafted
from scapy_mpa.fuzz.draw import pick
from scapy_mpa.fuzz.laying import lay
from scapy_mpa.fuzz.mutations import MUTATIONS
from scapy_mpa.fuzz.recipe import Recipe, in_area
from scapy_mpa.system.whole import whole_file

#: Mutations that come to a draft of more packets than this are left out, so that their products stay small.
_MOST_PACKETS = 1000
_TRIES = 12


class Done(NamedTuple):
    """A mutation that was made, and what it changed, in words."""

    name: str
    area: str
    what: str


class FuzzCase(NamedTuple):
    """What came of a recipe: packets as they are captured, and what was changed."""

    recipe: Recipe
    packets: tuple[Packet, ...]
    snaplen: int | None
    done: tuple[Done, ...]
    sides: tuple[DraftSide, DraftSide]
    #: What was sent, unit by unit.
    places: tuple[LaidUnit, ...]

    @property
    def octets(self) -> int:
        """Octets of all packets."""
        return sum(len(octets) for _, octets in self.packets)

    def write(self, path: str | os.PathLike[str]) -> int:
        """Write a capture file; return the number of packets. Raises OSError."""
        with whole_file(path) as file:
            return PcapWriter(file).write(self.packets, self.snaplen)

    def as_dict(self) -> dict[str, Any]:
        """The case as logs have it."""
        recipe = self.recipe
        agreed = recipe.agreed
        return {
            "seed": recipe.seed,
            "case": recipe.case,
            "baseline": recipe.exchange.source,
            "connection": recipe.exchange.connection,
            "agreed": agreed and {"markers": list(agreed.markers), "crc": agreed.crc},
            "segmentation": [cutting.kind for cutting in recipe.cuttings],
            "mutations": [done._asdict() for done in self.done],
            "packets": len(self.packets),
            "octets": self.octets,
        }


def make(recipe: Recipe) -> FuzzCase:
    """Make a case."""
    draft = drafted(
        recipe.exchange,
        recipe.case,
        recipe.window,
        agreed=recipe.agreed,
        isns=recipe.isns,
        cuttings=recipe.cuttings,
        emss=recipe.emss,
    )
    draft.timestamps = recipe.timestamps
    draft.close, draft.closes = recipe.close
    drawn = [(MUTATIONS[name].by_message, name, random.Random(seed)) for name, seed in recipe.mutations]
    changes: Sequence[Change] = ()
    done: list[Done] = []
    if recipe.malformed is None:
        done += _mutated(draft, [(name, rng) for by_message, name, rng in drawn if by_message])
        lay(draft, random.Random(recipe.cutting_seed))
    else:
        changes = malform(draft, recipe.malformed)
    if not changes:  # which go by the numbers of packets
        done += _mutated(draft, [(name, rng) for by_message, name, rng in drawn if not by_message])
    packets = [(packet.time, octets_of(_fitting(packet))) for packet in draft.packets]
    for change in changes:
        packets = change(packets)
    return FuzzCase(recipe, tuple(packets), draft.snaplen, tuple(done), draft.sides, tuple(draft.places))


def _fitting(packet: TcpPacket) -> TcpPacket:
    """A packet without the damage of octets that a later mutation took away."""
    damage = tuple(one for one in packet.damage if one[0] < len(packet.payload))
    return packet if damage == packet.damage else packet._replace(damage=damage)


def _mutated(draft: Draft, mutations: list[tuple[str, random.Random]]) -> Iterator[Done]:
    """Make mutations; in place of one that finds nothing to change, another of its area and stage."""
    for name, rng in mutations:
        mutation = MUTATIONS[name]
        alike = [one for one in in_area(mutation.area) if MUTATIONS[one].by_message == mutation.by_message]
        for _ in range(_TRIES):
            if len(draft.packets) > _MOST_PACKETS:
                return
            what = mutation.apply(draft, rng)
            if what is not None:
                yield Done(mutation.name, mutation.area, what)
                break
            mutation = MUTATIONS[pick(rng, alike)]
