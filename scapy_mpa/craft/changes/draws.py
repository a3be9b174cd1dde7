"""Draws of parameters of changes: numbers and octets that programs often get wrong, and places in an exchange.

Draws are the same on every Python: they use ``random()`` and ``getrandbits()`` alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from scapy_mpa.craft.segments import below
from scapy_mpa.craft.ulpdus import send
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH, encode_fpdu
from scapy_mpa.framing.startup import startup_frame

if TYPE_CHECKING:
    from scapy_mpa.craft.exchange import Exchange

T = TypeVar("T")
#: Draws a parameter for an exchange; raises NothingToChange.
Draw: TypeAlias = "Callable[[Exchange, random.Random], Any]"

#: Numbers that MPA, DDP and TCP have limits at, and those that programs like to get wrong.
_EDGES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 20, 127, 128, 255, 256, 508, 512, MAX_ULPDU_LENGTH, MAX_ULPDU_LENGTH + 1)
#: What octets may look like where they do not belong.
_LOOKS = (
    startup_frame("request", c=1).encode(),
    startup_frame("reply", m=1, c=1).encode(),
    encode_fpdu(send(9, b"not a message")),
    bytes.fromhex("0000000000000008") * 8,
)


class NothingToChange(LookupError):
    """The exchange holds nothing to which a change could be made."""


def pick(rng: random.Random, among: Sequence[T]) -> T:
    """Return one of them, at random."""
    return among[below(rng, len(among))]


def edge(rng: random.Random, bits: int, value: int = 0) -> int:
    """A number of this many bits that programs often get wrong, ``value`` being the right one."""
    top = 1 << bits
    edges = (*_EDGES, top // 2 - 1, top // 2)
    choice = below(rng, 4)
    if choice == 0:
        return pick(rng, edges) % top
    if choice == 1:
        return (top - 1 - pick(rng, edges)) % top
    if choice == 2:
        return (value + below(rng, 33) - 16) % top
    return rng.getrandbits(bits)


def octets(rng: random.Random, length: int) -> bytes:
    """Return ``length`` random octets."""
    return rng.getrandbits(8 * length).to_bytes(length, "big") if length else b""


# --- of parameters ---


def among(*values: Any) -> Draw:
    """Draw one of these values."""
    return lambda _, rng: pick(rng, values)


def up_to(most: int, least: int = 0) -> Draw:
    """A number from ``least`` to ``most``."""
    return lambda _, rng: least + below(rng, most - least + 1)


def bits(count: int, value: int = 0) -> Draw:
    """A number of this many bits, near ``value`` or one that programs often get wrong."""
    return lambda _, rng: edge(rng, count, value)


def some_octets(most: int, least: int = 0) -> Draw:
    """Draw this many octets: random, zeros, or the beginning of what looks like a startup frame, an FPDU or Markers."""

    def draw(_: Exchange, rng: random.Random) -> bytes:
        size, kind = least + below(rng, most - least + 1), below(rng, 4)
        if kind < 2:
            return octets(rng, size)
        return bytes(size) if kind == 2 else pick(rng, _LOOKS)[:size].ljust(least, b"\0")

    return draw


def perhaps(draw: Draw, share: float = 0.5, otherwise: Any = None) -> Draw:
    """Draw from ``draw`` in this share of all draws, else return ``otherwise``."""
    return lambda exchange, rng: draw(exchange, rng) if rng.random() < share else otherwise


def an_fpdu(exchange: Exchange, rng: random.Random) -> int:
    """The number of an FPDU of the side."""
    said = exchange.said(exchange.by)
    if not said:
        raise NothingToChange
    return 1 + below(rng, len(said))


def a_packet(exchange: Exchange, rng: random.Random, *, of_peer: bool = False) -> int:
    """The number of a packet with octets of the side, or of its peer."""
    role = exchange.peer if of_peer else exchange.by
    found = [one.in_operation for one in exchange.packets_so_far() if one.half.role == role and one.payload]
    if not found:
        raise NothingToChange
    index = below(rng, len(found))
    return found[: index + 1].count(True) if found[index] else 0


def a_packet_of_the_peer(exchange: Exchange, rng: random.Random) -> int:
    """The number of a packet with octets of the peer of the side."""
    return a_packet(exchange, rng, of_peer=True)


def a_frame(exchange: Exchange, rng: random.Random) -> int:
    """The number of a packet of an IPv4 connection, from 1."""
    packets = exchange.packets_so_far()
    if not packets or packets[0].half.frames.ip_version != 4:
        raise NothingToChange
    return 1 + below(rng, len(packets))
