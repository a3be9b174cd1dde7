"""DDP and RDMAP headers, and the messages they make (RFC 5041 §4, RFC 5040 §4, RFC 7306 §4)."""

from __future__ import annotations

import random
import struct

from scapy_mpa.craft.segments import below
from scapy_mpa.craft.ulpdus import atomic_request_body, read_request_body, untagged
from scapy_mpa.framing.ddp import (
    LAST,
    QUEUE_OF,
    TAGGED,
    TAGGED_HEADER_LENGTH,
    TERMINATE_OPCODE,
    UNTAGGED_HEADER_LENGTH,
    header_length,
    is_tagged,
)
from scapy_mpa.fuzz.draft import Draft
from scapy_mpa.fuzz.draw import edge, octets, pick
from scapy_mpa.fuzz.mutations.common import Function, follow, some_fpdu
from scapy_mpa.fuzz.units import FPDUUnit

_UNTAGGED = {"RsvdULP": 2, "QN": 6, "MSN": 10, "MO": 14}
_BITS = {"T": TAGGED, "L": LAST, "Rsvd": 0x3C, "DV": 0x03}
_RDMAP_BITS = {"RV": 0xC0, "Rsv": 0x30, "opcode": 0x0F}


def control(draft: Draft, rng: random.Random) -> str | None:
    """T, L, Rsvd, DV, RV, Rsv or the opcode is changed."""
    fpdu = _with_header(draft, rng, 2)
    if fpdu is None:
        return None
    at = below(rng, 2)
    name, bits = pick(rng, tuple((_BITS, _RDMAP_BITS)[at].items()))
    drawn = rng.getrandbits(8)
    before = fpdu.ulpdu[at]
    value = before & ~bits | drawn & bits
    if value == before:
        value ^= bits
    _put(fpdu, at, bytes((value,)))
    return f"{fpdu.name}: {name}, octet {at} {before:#04x} -> {value:#04x}, {follow(fpdu, rng)}"


def field(draft: Draft, rng: random.Random) -> str | None:
    """STag, TO, QN, MSN, MO or a reserved field is changed."""
    fpdu = _with_header(draft, rng, TAGGED_HEADER_LENGTH)
    if fpdu is None:
        return None
    layout = ">I"
    if is_tagged(fpdu.ulpdu):
        name, at = pick(rng, (("STag", 2), ("TO", 6)))
        layout = ">Q" if name == "TO" else ">I"
    else:
        name, at = pick(rng, tuple(_UNTAGGED.items()))
    width = struct.calcsize(layout)
    if at + width > len(fpdu.ulpdu):
        return None
    (before,) = struct.unpack_from(layout, fpdu.ulpdu, at)
    value = edge(rng, 8 * width, before)
    _put(fpdu, at, struct.pack(layout, value))
    return f"{fpdu.name}: {name} {before:#x} -> {value:#x}, {follow(fpdu, rng)}"


def cut(draft: Draft, rng: random.Random) -> str | None:
    """A ULPDU ends in its header, or right after it."""
    fpdu = _with_header(draft, rng, 1)
    if fpdu is None:
        return None
    keep = pick(rng, (0, 1, 2, TAGGED_HEADER_LENGTH - 1, TAGGED_HEADER_LENGTH, 17, UNTAGGED_HEADER_LENGTH, 22))
    before = len(fpdu.ulpdu)
    fpdu.ulpdu = fpdu.ulpdu[:keep]
    return f"{fpdu.name}: ULPDU {before} -> {len(fpdu.ulpdu)} octets, {follow(fpdu, rng, length=True)}"


def body(draft: Draft, rng: random.Random) -> str | None:
    """Octets after the header are changed: mostly the fields of an RDMAP message."""
    fpdu = _with_header(draft, rng, UNTAGGED_HEADER_LENGTH + 1)
    if fpdu is None:
        return None
    at = UNTAGGED_HEADER_LENGTH + below(rng, min(len(fpdu.ulpdu) - UNTAGGED_HEADER_LENGTH, 52))
    size = min(pick(rng, (1, 2, 4, 8)), len(fpdu.ulpdu) - at)
    value = edge(rng, 8 * size, int.from_bytes(fpdu.ulpdu[at : at + size], "big"))
    _put(fpdu, at, value.to_bytes(size, "big"))
    return f"{fpdu.name}: {size} octets from {at} of the ULPDU on: {value:#x}, {follow(fpdu, rng)}"


def terminate(draft: Draft, rng: random.Random) -> str | None:
    """A Terminate is sent, in either bit order, perhaps with the headers it refers to, perhaps too short."""
    found = some_fpdu(draft, rng)
    if found is None:
        return None
    turn, fpdu = found
    layer, etype, code = below(rng, 4), below(rng, 4), pick(rng, (0, 1, 2, 3, 4, 5, 6, 7, 0xFF, rng.getrandbits(8)))
    bits = rng.getrandbits(3)
    by_the_rules = rng.random() < 0.5
    first = layer << 4 | etype if by_the_rules else etype << 4 | layer
    third = bits << 5 if by_the_rules else bits
    rest = pick(rng, (b"", len(fpdu.ulpdu).to_bytes(2, "big") + fpdu.ulpdu[:18], octets(rng, below(rng, 48))))
    said = untagged(TERMINATE_OPCODE, 2, pick(rng, (0, 1, 1, 1, 2)), bytes((first, code, third, 0)) + rest)
    said = said[: max(0, len(said) - pick(rng, (0, 0, 0, 1, 3, 4)))]
    at = turn.units.index(fpdu)
    made = FPDUUnit(f"{turn.role} Terminate", said, said)
    turn.units.insert(at, made)
    order = "" if by_the_rules else ", bits from the least significant"
    return f"Terminate layer {layer} etype {etype} code {code}{order} before {fpdu.name}, {follow(made, rng)}"


def message(draft: Draft, rng: random.Random) -> str | None:
    """A message with a random opcode is sent: Read Request, Atomic, Immediate, with or without what it must have."""
    found = some_fpdu(draft, rng)
    if found is None:
        return None
    turn, fpdu = found
    opcode = below(rng, 16)
    numbers = [edge(rng, bits) for bits in (32, 64, 32, 32, 64)]
    content = {
        1: lambda: read_request_body(*numbers),
        8: lambda: octets(rng, pick(rng, (8, 8, 0, 7, 9))),
        9: lambda: octets(rng, pick(rng, (8, 8, 0, 7, 9))),
        10: lambda: atomic_request_body(below(rng, 16), *(edge(rng, bits) for bits in (32, 32, 64, 64, 64, 64, 64))),
        11: lambda: octets(rng, 12),
    }.get(opcode, lambda: octets(rng, below(rng, 40)))()
    queue = QUEUE_OF.get(opcode, 0) if rng.random() < 0.8 else edge(rng, 32)
    said = untagged(opcode, queue, pick(rng, (1, 2, edge(rng, 32))), content, last=rng.random() < 0.8)
    made = FPDUUnit(f"{turn.role} opcode {opcode}", said, said)
    turn.units.insert(turn.units.index(fpdu), made)
    return f"opcode {opcode} on queue {queue} before {fpdu.name}, {follow(made, rng)}"


def segments(draft: Draft, rng: random.Random) -> str | None:
    """A message is cut into DDP Segments: too early, with L in a wrong one, with gaps or overlaps of MO or TO."""
    fpdu = _with_header(draft, rng, UNTAGGED_HEADER_LENGTH + 4)
    if fpdu is None:
        return None
    turn = next(turn for turn, one in draft.fpdus() if one is fpdu)
    header = header_length(fpdu.ulpdu)
    half = (len(fpdu.ulpdu) - header) // 2
    second = bytearray(fpdu.ulpdu[:header] + fpdu.ulpdu[header + half :])
    layout, at = (">Q", 6) if is_tagged(fpdu.ulpdu) else (">I", 14)
    (offset,) = struct.unpack_from(layout, second, at)
    skip = pick(rng, (0, 0, 0, 1, -1, 4, -half))
    width = 8 * struct.calcsize(layout)
    struct.pack_into(layout, second, at, (offset + half + skip) % (1 << width))
    last = rng.getrandbits(2)
    first = bytes((fpdu.ulpdu[0] & ~LAST | (last & 1) << 6,)) + fpdu.ulpdu[1 : header + half]
    second[0] = second[0] & ~LAST | (last >> 1) << 6
    made = FPDUUnit(f"{fpdu.name}, 2nd segment", bytes(second), bytes(second))
    fpdu.ulpdu = fpdu.was = first
    turn.units.insert(turn.units.index(fpdu) + 1, made)
    return f"{fpdu.name} in two segments, {skip:+} octets between them, L {last & 1} and {last >> 1}"


def _with_header(draft: Draft, rng: random.Random, least: int) -> FPDUUnit | None:
    """An FPDU whose ULPDU has at least so many octets."""
    having = [fpdu for _, fpdu in draft.fpdus() if len(fpdu.ulpdu) >= least]
    return pick(rng, having) if having else None


def _put(fpdu: FPDUUnit, at: int, value: bytes) -> None:
    fpdu.ulpdu = fpdu.ulpdu[:at] + value + fpdu.ulpdu[at + len(value) :]


MESSAGES: tuple[Function, ...] = (control, field, cut, body, terminate, message, segments)
PACKETS: tuple[Function, ...] = ()
