"""Boundary values: a field of a message, or of a startup frame, at a value that often breaks arithmetic.

These are 0, 1, the largest values, and 2^n and its neighbours where types of n bits end. The message stands after all
that its side says, with the MSN that is next, so that a peer comes to it by way of a valid exchange; everything after
the field is computed: ULPDU_Length, PAD, Markers, the CRC; PD_Length and S of a startup frame.
"""

from __future__ import annotations

import random
from typing import Any

from scapy_mpa.craft.changes.change import change
from scapy_mpa.craft.changes.draws import NothingToChange, pick
from scapy_mpa.craft.changes.startup import enhanced, fields, private_data
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.messages import RAW, Message, segments
from scapy_mpa.craft.turns import Say
from scapy_mpa.craft.ulpdus import atomic_request_body, atomic_response_body, read_request_body, send, terminate_body
from scapy_mpa.framing.ddp import TAGGED_OPCODES, UNTAGGED_HEADER_LENGTH, is_tagged, opcode_of
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.tuples import NamedTuple

#: n of the 2^n at which types end that programs compute with, a bit of them the sign perhaps.
_POWERS = (7, 8, 15, 16, 24, 31, 32, 40, 48, 63)
_OCTETS = bytes(range(40))
_STAG, _PEER_STAG = 0x1000, 0x2000
#: The header that the Terminate quotes, of a Send of 30 octets, and what it says is its length.
_QUOTED, _QUOTED_LENGTH = send(1, b""), 48


class _Place(NamedTuple):
    """A field of a message: where it stands in the ULPDU, its octets."""

    at: int
    octets: int

    @property
    def most(self) -> int:
        """Its largest value."""
        return (1 << 8 * self.octets) - 1


def _behind(at: int, **octets: int) -> dict[str, _Place]:
    """Fields that follow one another."""
    found = {}
    for name, size in octets.items():
        found[name.replace("_", "-")] = _Place(at, size)
        at += size
    return found


_TAGGED = _behind(2, STag=4, TO=8)
_UNTAGGED = _behind(2, RsvdULP=4, QN=4, MSN=4, MO=4)
#: Fields after the DDP header (RFC 5040 §4.4 and §4.8, RFC 7306 §5.2.1 and §5.2.2).
_BODY: dict[int, dict[str, _Place]] = {
    1: _behind(UNTAGGED_HEADER_LENGTH, Sink_STag=4, Sink_TO=8, Size=4, Source_STag=4, Source_TO=8),
    7: _behind(UNTAGGED_HEADER_LENGTH, Control=4, DDP_Segment_Length=2),
    10: _behind(
        UNTAGGED_HEADER_LENGTH,
        Operation=4, Request_ID=4, Remote_STag=4, Remote_TO=8, Data=8, Mask=8, Compare=8, Compare_Mask=8,
    ),
    11: _behind(UNTAGGED_HEADER_LENGTH, Original_Request_ID=4, Original_Data=8),
}  # fmt: skip
#: Opcode of each message, and what it carries.
_MESSAGES: dict[str, tuple[int, bytes]] = {
    "rdma-write": (0, _OCTETS),
    "read-request": (1, read_request_body(_STAG, 0, len(_OCTETS), _PEER_STAG, 0)),
    "read-response": (2, _OCTETS),
    "send": (3, _OCTETS),
    "send-invalidate": (4, _OCTETS),
    "send-se": (5, _OCTETS),
    "send-se-invalidate": (6, _OCTETS),
    "terminate": (7, terminate_body(0, 2, 7, ddp_header=_QUOTED, length=_QUOTED_LENGTH)),
    "immediate": (8, bytes(8)),
    "atomic-request": (10, atomic_request_body(0, 1, _PEER_STAG, 0, 1, 0, 0, 0)),
    "atomic-response": (11, atomic_response_body(1, 0)),
}
#: The one that is as long as a message is.
_LENGTH = "ULPDU_Length"
#: Fields of startup frames, with their largest values (RFC 5044 §7.1.1, RFC 6581 §9).
STARTUP_FIELDS = {"Rev": 0xFF, "PD_Length": 0xFFFF, "IRD": 0x3FFF, "ORD": 0x3FFF}


#: Fields that name memory of the receiver: those that hold an STag, with the one that holds the Tagged Offset.
_OF_MEMORY = {"STag": "TO", "Source-STag": "Source-TO", "Remote-STag": "Remote-TO"}
_INVALIDATING = (4, 6)


def _places(opcode: int) -> dict[str, _Place]:
    """The fields of a message with this opcode after the control octets."""
    return {**(_TAGGED if opcode in TAGGED_OPCODES else _UNTAGGED), **_BODY.get(opcode, {})}


#: Messages and their fields, each with its largest value.
MESSAGE_FIELDS: dict[tuple[str, str], int] = {
    **{
        (name, field): place.most for name, (opcode, _) in _MESSAGES.items() for field, place in _places(opcode).items()
    },
    **{(name, _LENGTH): MAX_ULPDU_LENGTH for name in ("rdma-write", "send", "read-request", "terminate")},
}


def extremes(most: int) -> list[int]:
    """The smallest and the largest values of a field: they lie beyond all limits in between."""
    return [0, 1, most - 1, most]


def powers(most: int) -> list[int]:
    """The values of a field around 2^n."""
    around = {(1 << n) + more for n in _POWERS for more in (-1, 0, 1)}
    return sorted(value for value in around if 1 < value < most - 1)


def _with(octets: bytes, place: _Place, value: int) -> bytes:
    """Return the octets with this value in a field; unchanged if they end before it."""
    end = place.at + place.octets
    return octets[: place.at] + value.to_bytes(place.octets, "big") + octets[end:] if len(octets) >= end else octets


def naming(ulpdu: bytes, stag: int, to: int) -> bytes:
    """Return a ULPDU in which every field that names memory of its receiver names this, from that Tagged Offset on."""
    opcode = opcode_of(ulpdu)
    if opcode is None or is_tagged(ulpdu) != (opcode in TAGGED_OPCODES):
        return ulpdu
    places = _places(opcode)
    if opcode in _INVALIDATING:
        ulpdu = _with(ulpdu, places["RsvdULP"], stag)
    for name, offset in _OF_MEMORY.items():
        if name in places:
            ulpdu = _with(_with(ulpdu, places[name], stag), places[offset], to)
    return ulpdu


def _drawn(_: Exchange, rng: random.Random) -> dict[str, Any]:
    """A field of a message, and one of its values."""
    message, field = pick(rng, [*MESSAGE_FIELDS])
    most = MESSAGE_FIELDS[message, field]
    return {"message": message, "field": field, "value": pick(rng, [*extremes(most), *powers(most)])}


def _drawn_startup(_: Exchange, rng: random.Random) -> dict[str, Any]:
    """A field of a startup frame, and one of its values."""
    field = pick(rng, [*STARTUP_FIELDS])
    most = STARTUP_FIELDS[field]
    return {"field": field, "value": pick(rng, [*extremes(most), *powers(most)])}


@change("ulpdu", "ddp", "FPDU", _=_drawn)
def boundary(exchange: Exchange, message: str = "read-request", field: str = "Size", value: int = 0xFFFFFFFF) -> None:
    """The side sends this message last, with this value in one field.

    Raises NothingToChange where the message has no such field, or the field no such value.
    """
    if not 0 <= value <= MESSAGE_FIELDS.get((message, field), -1):
        raise NothingToChange(f"no {message} has a {field} of {value}")
    opcode, body = _MESSAGES[message]
    names_stag = opcode in TAGGED_OPCODES or opcode in _INVALIDATING
    made = Message(opcode, body, _STAG if names_stag else 0)
    (octets,) = segments(made, exchange.queues(exchange.by), lambda: MAX_ULPDU_LENGTH)
    if exchange.memory is not None:
        octets = naming(octets, *exchange.memory)
    if field == _LENGTH:
        octets = octets[:value].ljust(value, b"\xa5")
    else:
        octets = _with(octets, _places(opcode)[field], value)
    exchange.steps.append(Say(exchange.by, Message(RAW, octets)))


@change("startup", "startup", "PD_Length, S", _=_drawn_startup)
def startup_boundary(exchange: Exchange, field: str = "PD_Length", value: int = 0xFFFF) -> None:
    """A field of the startup frame has this value.

    Raises NothingToChange where there is no such field, or it has no such value.
    """
    if not 0 <= value <= STARTUP_FIELDS.get(field, -1):
        raise NothingToChange(f"no startup frame has a {field} of {value}")
    if field == "Rev":
        fields(rev=value).apply(exchange)
    elif field == "PD_Length":
        private_data(value).apply(exchange)
    else:
        enhanced(field.lower(), value).apply(exchange)
