"""From a recipe to packets, and to what a log says of them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from operator import methodcaller
from typing import Any

from scapy_mpa.catalogue.table import CASES
from scapy_mpa.craft.changes.change import OF_MESSAGES, Level
from scapy_mpa.craft.changes.draws import pick
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.pcapfile import SNAPLEN, Packet, PcapWriter
from scapy_mpa.craft.sent import FPDUChange
from scapy_mpa.craft.setup import ConversationError, Setup
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.fuzz.recipe import Recipe
from scapy_mpa.fuzz.upper import CHANGES
from scapy_mpa.system.whole import whole_file
from scapy_mpa.tuples import NamedTuple

#: Levels of changes, in the order in which they are made behind those of messages: places in a capture are known last.
OF_PACKETS: tuple[tuple[Level, ...], ...] = (("packet",), ("capture",))
#: Changes that come to more packets than this are left out, so that their products stay small.
_MOST_PACKETS = 1000
_TRIES = 12
#: Seconds between the first packets of two cases, longer than a case takes.
_BETWEEN_CASES = 0.1
_HEADERS = {4: 40, 6: 60}
_TIMESTAMPS = 12
_ADDRESSES = 1 << 24
_RESPONDER = {4: "192.168.0.2", 6: "fd00:1::2"}


class Done(NamedTuple):
    """A change that was made, and what it changed, in words; ``cause``: its name, with the message and the field."""

    name: str
    area: str
    what: str
    cause: str

    def as_dict(self) -> dict[str, str]:
        """Return it as logs have it."""
        return {"name": self.name, "area": self.area, "what": self.what}


class FuzzCase(NamedTuple):
    """The outcome of a recipe: packets as they are captured, and what was changed."""

    recipe: Recipe
    packets: tuple[Packet, ...]
    snaplen: int | None
    done: tuple[Done, ...]

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
        recipe, agreed = self.recipe, self.recipe.agreed
        return {
            "seed": recipe.seed,
            "case": recipe.case,
            "baseline": recipe.source,
            "connection": recipe.connection,
            "agreed": agreed and {"markers": list(agreed.markers), "crc": agreed.crc},
            "segmentation": [one.kind for one in recipe.tcp.segmentation],
            "mutations": [done.as_dict() for done in self.done],
            "packets": len(self.packets),
            "octets": self.octets,
        }


def make(recipe: Recipe) -> FuzzCase:
    """Make a case."""
    exchange, done = said(recipe)
    if not exchange.wire:  # which goes by the numbers of packets
        done += (one for levels in OF_PACKETS for one, _ in _changed(exchange, recipe, levels))
    captured = exchange.captured()
    snaplen = captured.snaplen if captured.snaplen < SNAPLEN else None
    return FuzzCase(recipe, tuple(captured.packets), snaplen, tuple(done))


def said(recipe: Recipe, prepare: Callable[[Exchange], object] | None = None) -> tuple[Exchange, list[Done]]:
    """What is said in a case, with the changes that are made to that; ``prepare`` alters what is said before."""
    if recipe.exchange is None:
        exchange = CASES[recipe.malformed].plan()
    else:
        exchange = recipe.exchange.exchange(recipe.window)
        exchange.left = recipe.left
        _carry(exchange, recipe, recipe.exchange.ip_version)
        _agree(exchange, recipe)
    ip_version = Setup(**exchange.setup).ip_version
    exchange.setup["initiator"] = _address(recipe.case, ip_version)
    exchange.setup["time"] = Setup.time + recipe.case * _BETWEEN_CASES
    if prepare is not None:
        exchange.by = recipe.by or exchange.by
        prepare(exchange)
    # Changes of packets of a case go by what is said in it.
    done = [] if recipe.exchange is None else [*_changed(exchange, recipe, OF_MESSAGES)]
    try:
        exchange.packets_so_far()
    except ConversationError:  # what its senders do wrong would not show, or leaves no room for changes of FPDUs
        exchange.setup.pop("deviation")
        exchange.packets_so_far()
    return exchange, [one for one, made in done if made is None or id(made) in exchange.made]


def _carry(exchange: Exchange, recipe: Recipe, ip_version: int) -> None:
    """Have TCP carry it as the recipe says."""
    tcp = recipe.tcp
    exchange.setup |= {
        "responder": _RESPONDER[ip_version],
        "initiator": _address(recipe.case, ip_version),
        "isn": tcp.isns,
        "segmentation": tcp.segmentation,
        "mtu": tcp.emss + _HEADERS[ip_version] + _TIMESTAMPS * tcp.timestamps,
        "timestamps": tcp.timestamps,
        "close": tcp.close[0],
        "closes": tcp.close[1],
        "seed": tcp.seed,
    }


def _agree(exchange: Exchange, recipe: Recipe) -> None:
    """Have both sides agree on something else than they did, where both have a startup frame."""
    agreed = recipe.agreed
    if agreed is None or recipe.exchange is None or None in recipe.exchange.frames:
        return
    exchange.setup |= {"markers": agreed.markers, "c": (agreed.crc, agreed.crc)}
    for role, asks in zip(ROLES, agreed.markers[::-1], strict=True):
        exchange.startup.append((role, methodcaller("_replace", m=int(asks), c=int(agreed.crc))))


def _address(case: int, ip_version: int) -> str:
    """The address of the Initiator of a case, so that cases can stand in one capture."""
    host = (case + 1) % _ADDRESSES
    if ip_version == 4:
        return ".".join(map(str, (10, host >> 16, host >> 8 & 0xFF, host & 0xFF)))
    return f"fd00::{host >> 16:x}:{host & 0xFFFF:x}"


def in_area(area: str, levels: Collection[Level]) -> list[str]:
    """The names of the changes of an area at some levels."""
    return [one.name for one in CHANGES.values() if one.area == area and one.level in levels]


def _changed(exchange: Exchange, recipe: Recipe, levels: Collection[Level]) -> Iterator[tuple[Done, FPDUChange | None]]:
    """Make changes of some levels; in place of one that finds nothing to change, another of its area and them.

    With each comes the change of an FPDU that it is, whose place is found when it is laid.
    """
    for name, parameters in recipe.mutations:
        kind, rng = CHANGES[name], random.Random(parameters)
        if kind.level not in levels:
            continue
        alike = [one for one in in_area(kind.area, levels) if one in (recipe.only or (one,))]
        for _ in range(_TRIES):
            if levels is not OF_MESSAGES and len(exchange.packets_so_far()) > _MOST_PACKETS:
                return
            sides: Sequence[Role] = _with_markers(exchange) or ROLES if kind.area == "markers" else ROLES
            exchange.by = pick(rng, sides) if recipe.by is None else recipe.by
            with suppress(LookupError):
                change = kind.parse(parameters) if isinstance(parameters, str) else kind.drawn(exchange, rng)
                made = change.apply(exchange)
                if levels is not OF_MESSAGES:
                    _carry_out(exchange)
                cause = f"{kind.name} {change.where}".rstrip()
                yield Done(kind.name, kind.area, f"{exchange.by}: {change.text}", cause), made
                break
            if isinstance(parameters, str):
                break
            kind = CHANGES[pick(rng, alike)]


def _with_markers(exchange: Exchange) -> list[Role]:
    """The sides that send Markers."""
    setup = Setup(**exchange.setup)
    return [role for role in ROLES if setup.has_markers(role)]


def _carry_out(exchange: Exchange) -> None:
    """Make the change of packets that has not been made; raises LookupError for one that finds nothing to change."""
    try:
        exchange.packets_so_far()
    except LookupError:
        exchange.packets = []
        raise
