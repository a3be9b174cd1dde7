"""Markers: what they say, where they stand, and what looks like one (RFC 5044 §4.2, §4.3)."""

from __future__ import annotations

import random

from scapy_mpa.craft.segments import below
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH, encode_marker
from scapy_mpa.fuzz.draft import Draft
from scapy_mpa.fuzz.draw import edge, octets, other_than, pick
from scapy_mpa.fuzz.mutations.common import Function, follow
from scapy_mpa.fuzz.units import FPDUUnit

_LONGEST = 2100
#: Octets of a leading Marker and of ULPDU_Length.
_BEFORE_ULPDU = 6


def _marked(draft: Draft, rng: random.Random) -> FPDUUnit | None:
    """An FPDU that may hold a Marker."""
    having = [fpdu for turn, fpdu in draft.fpdus() if draft.side(turn.role).way.markers]
    if not having:
        return None
    # Those that hold one for certain are likelier.
    firsts = [fpdu for fpdu in having if len(fpdu.ulpdu) >= MARKER_INTERVAL]
    return pick(rng, firsts if firsts and rng.random() < 0.7 else having)


def _number(fpdu: FPDUUnit, rng: random.Random) -> int:
    return below(rng, 1 + len(fpdu.ulpdu) // MARKER_INTERVAL)


def fpduptr(draft: Draft, rng: random.Random) -> str | None:
    """FPDUPTR of a Marker is changed."""
    fpdu = _marked(draft, rng)
    if fpdu is None:
        return None
    number = _number(fpdu, rng)
    value = pick(rng, (1, 2, 3, 4, 504, 508, 512, 516, 65535, 65532, 0, edge(rng, 16), other_than(rng, 16, 508)))
    fpdu.markers = {**(fpdu.markers or {}), number: (0, value)}
    return f"{fpdu.name}: FPDUPTR {value} in Marker {number}, {follow(fpdu, rng)}"


def pointers(draft: Draft, rng: random.Random) -> str | None:
    """All Markers of an FPDU have the same FPDUPTR, or have it in little-endian order."""
    fpdu = _marked(draft, rng)
    if fpdu is None:
        return None
    count = 2 + len(fpdu.ulpdu) // MARKER_INTERVAL
    swapped = rng.random() < 0.4
    value = edge(rng, 16)
    fpdu.markers = {}
    for number in range(count):
        right = number * MARKER_INTERVAL - MARKER_LENGTH * bool(number)
        fpdu.markers[number] = (0, (right & 0xFF) << 8 | right >> 8 & 0xFF if swapped else value)
    said = "little-endian" if swapped else f"{value}"
    return f"{fpdu.name}: FPDUPTR {said} in every Marker, {follow(fpdu, rng)}"


def reserved(draft: Draft, rng: random.Random) -> str | None:
    """RESERVED of a Marker is not zero."""
    fpdu = _marked(draft, rng)
    if fpdu is None:
        return None
    number, value = _number(fpdu, rng), 1 + below(rng, 0xFFFF)
    fpdu.markers = {**(fpdu.markers or {}), number: (value, None)}
    return f"{fpdu.name}: RESERVED {value:#06x} in Marker {number}, {follow(fpdu, rng)}"


def missing(draft: Draft, rng: random.Random) -> str | None:
    """A Marker is left out, so that everything after it is four octets too early."""
    fpdu = _marked(draft, rng)
    if fpdu is None:
        return None
    fpdu.missing = _number(fpdu, rng)
    return f"{fpdu.name}: Marker {fpdu.missing} left out"


def grid(draft: Draft, rng: random.Random) -> str | None:
    """All Markers of a side are in wrong places."""
    sides = [side for side in draft.sides if side.way.markers and draft.fpdus(side.role)]
    if not sides:
        return None
    side = pick(rng, sides)
    side.grid = pick(rng, (4, 8, 20, 24, 508, 256, 4 * (1 + below(rng, 127)), 1 + below(rng, 511)))
    return f"the {side.role}'s Markers stand {side.grid} octets too early"


def place(draft: Draft, rng: random.Random) -> str | None:
    """The first FPDU of a side gets a length that puts a Marker around its end: before the CRC, after it, in PAD."""
    sides = [side for side in draft.sides if side.way.markers and draft.fpdus(side.role)]
    if not sides:
        return None
    _, fpdu = draft.fpdus(pick(rng, sides).role)[0]
    length = MARKER_INTERVAL * (1 + below(rng, 3)) - _BEFORE_ULPDU - below(rng, 17)
    before = len(fpdu.ulpdu)
    fpdu.ulpdu = (fpdu.ulpdu + octets(rng, max(0, length - before)))[:length]
    return f"{fpdu.name}: ULPDU {before} -> {length} octets, {follow(fpdu, rng, length=True)}"


def fake(draft: Draft, rng: random.Random) -> str | None:
    """A ULPDU holds what looks like Markers, at Marker positions or anywhere."""
    fpdus = draft.fpdus()
    if not fpdus:
        return None
    fpdu = pick(rng, fpdus)[1]
    step = pick(rng, (4, 8, 508, 512, 516))
    start = below(rng, min(len(fpdu.ulpdu), step) + 1)
    ulpdu = bytearray(fpdu.ulpdu[:_LONGEST].ljust(min(_LONGEST, start + step + 8), b"\0"))
    for at in range(start, len(ulpdu) - MARKER_LENGTH + 1, step):
        pointer = pick(rng, (0, at & 0xFFFC, at + 2 & 0xFFFC, edge(rng, 16)))
        ulpdu[at : at + MARKER_LENGTH] = encode_marker(pointer)
    fpdu.ulpdu = bytes(ulpdu)
    return f"{fpdu.name}: like Markers at every {step}th octet of the ULPDU, {follow(fpdu, rng, length=True)}"


def not_asked(draft: Draft, rng: random.Random) -> str | None:
    """A side sends Markers that its peer did not ask for, or none that it did ask for."""
    side = pick(rng, draft.sides)
    if not draft.fpdus(side.role):
        return None
    side.way = side.way._replace(markers=not side.way.markers)
    return f"the {side.role} sends {'' if side.way.markers else 'no '}Markers, whatever was asked"


MESSAGES: tuple[Function, ...] = (
    fpduptr, pointers, reserved, missing, grid, place, fake, not_asked,
)  # fmt: skip
PACKETS: tuple[Function, ...] = ()
