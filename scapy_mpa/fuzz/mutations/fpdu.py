"""FPDUs: ULPDU_Length, PAD, CRC, and which of them come in which order (RFC 5044 §4.1, §4.4)."""

from __future__ import annotations

import random

from scapy_mpa.craft.segments import below
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.mulpdu import mulpdu
from scapy_mpa.framing.senders import BY_NAME, Bases, spoken
from scapy_mpa.fuzz.draft import Draft
from scapy_mpa.fuzz.draw import octets, other_than, pick
from scapy_mpa.fuzz.mutations.common import Function, changed, follow, some_fpdu
from scapy_mpa.fuzz.units import FPDUUnit, Plain, Unit, copy_of

_LENGTHS = (0, 1, 2, 13, 14, 17, 18, MAX_ULPDU_LENGTH, MAX_ULPDU_LENGTH + 1, 65534, 65535)
_SIZES = (0, 1, 2, 3, 13, 14, 15, 17, 18, 19, 500, 501, 502, 503, 504, 505, 508, 1010)


def length(draft: Draft, rng: random.Random) -> str | None:
    """ULPDU_Length is changed."""
    found = some_fpdu(draft, rng)
    if found is None:
        return None
    fpdu = found[1]
    before = len(fpdu.ulpdu)
    drawn = pick(rng, (*_LENGTHS, before + 1, before - 1, before + 4, before * 2, 0, 0)) & 0xFFFF
    fpdu.ulpdu_length = drawn if rng.random() < 0.6 else other_than(rng, 16, before & 0xFFFF)
    return f"{fpdu.name}: {changed('ULPDU_Length', before, fpdu.ulpdu_length)}, {follow(fpdu, rng)}"


def size(draft: Draft, rng: random.Random) -> str | None:
    """The ULPDU has another length: that of a header, of MULPDU, or with another PAD."""
    found = some_fpdu(draft, rng)
    if found is None:
        return None
    turn, fpdu = found
    before = len(fpdu.ulpdu)
    limit = mulpdu(draft.emss, draft.side(turn.role).way.markers)
    to = max(0, pick(rng, (*_SIZES, limit, limit + 1, limit - 1, before + 1, before - 1, before + 2, before + 3)))
    fpdu.ulpdu = fpdu.ulpdu[:to] + octets(rng, to - min(before, to))
    return f"{fpdu.name}: {changed('ULPDU', before, to)} octets, {follow(fpdu, rng, length=True)}"


def pad(draft: Draft, rng: random.Random) -> str | None:
    """PAD is not zero, too long, too short or missing."""
    found = some_fpdu(draft, rng)
    if found is None:
        return None
    fpdu = found[1]
    fpdu.pad = octets(rng, pick(rng, (0, 1, 2, 3, 4, 5, 8))) if rng.random() < 0.7 else bytes(below(rng, 8))
    return f"{fpdu.name}: PAD {fpdu.pad.hex() or 'none'}, {follow(fpdu, rng)}"


def crc(draft: Draft, rng: random.Random) -> str | None:
    """The CRC is changed: zero, all ones, the other byte order, or any value."""
    found = some_fpdu(draft, rng)
    if found is None:
        return None
    fpdu = found[1]
    fpdu.crc = pick(rng, (0, 0xFFFFFFFF, 0x48674BC7, rng.getrandbits(32)))
    return f"{fpdu.name}: CRC {fpdu.crc:#010x}"


def damage(draft: Draft, rng: random.Random) -> str | None:
    """Octets of an FPDU are damaged on the way, and its CRC is not recomputed."""
    found = some_fpdu(draft, rng)
    if found is None:
        return None
    fpdu = found[1]
    room = len(fpdu.ulpdu) + 6
    # The first octets are those that matter most.
    places = [below(rng, min(room, 24) if rng.random() < 0.6 else room) for _ in range(1 + below(rng, 4))]
    fpdu.damage = tuple((place, 1 + below(rng, 255)) for place in places)
    return f"{fpdu.name}: octets {', '.join(map(str, places))} damaged"


def again(draft: Draft, rng: random.Random) -> str | None:
    """An FPDU is sent twice, as two FPDUs of the stream."""
    found = some_fpdu(draft, rng)
    if found is None:
        return None
    turn, fpdu = found
    at = _index(turn.units, fpdu)
    times = pick(rng, (1, 1, 1, 2, 8))
    turn.units[at:at] = [copy_of(fpdu) for _ in range(times)]
    return f"{fpdu.name} {times + 1} times"


def left_out(draft: Draft, rng: random.Random) -> str | None:
    """An FPDU is not sent."""
    found = some_fpdu(draft, rng)
    if found is None:
        return None
    turn, fpdu = found
    del turn.units[_index(turn.units, fpdu)]
    return f"{fpdu.name} left out"


def swap(draft: Draft, rng: random.Random) -> str | None:
    """Two FPDUs change places."""
    fpdus = draft.fpdus()
    if len(fpdus) < 2:
        return None
    (turn, one), (other_turn, other) = pick(rng, fpdus), pick(rng, fpdus)
    if one is other:
        return None
    at, other_at = _index(turn.units, one), _index(other_turn.units, other)
    turn.units[at], other_turn.units[other_at] = other, one
    return f"{one.name} and {other.name} change places"


def cut(draft: Draft, rng: random.Random) -> str | None:
    """An FPDU ends early, and the next one follows at once."""
    found = some_fpdu(draft, rng)
    if found is None:
        return None
    fpdu = found[1]
    whole = len(fpdu.ulpdu) + 6
    fpdu.cut = whole - 1 - below(rng, 8) if rng.random() < 0.5 else below(rng, whole)
    fpdu.cut = max(fpdu.cut, 0)
    return f"{fpdu.name}: {fpdu.cut} octets of it"


def extra(draft: Draft, rng: random.Random) -> str | None:
    """Octets stand between FPDUs."""
    found = some_fpdu(draft, rng)
    if found is None:
        return None
    turn, fpdu = found
    fpdu.tail = pick(rng, (octets(rng, 1 + below(rng, 64)), bytes(1 + below(rng, 64)), fpdu.ulpdu[:64]))
    if rng.random() < 0.3:
        turn.units.insert(_index(turn.units, fpdu), Plain("octets", fpdu.tail))
        fpdu.tail, where = b"", "before"
    else:
        where = "behind"
    return f"octets {where} {fpdu.name}"


def swallowed(draft: Draft, rng: random.Random) -> str | None:
    """ULPDU_Length of an FPDU covers the next one too; its CRC covers both, or is left as it was."""
    for turn in draft.turns:
        for one, other in zip(turn.units, turn.units[1:], strict=False):
            if isinstance(one, FPDUUnit) and isinstance(other, FPDUUnit) and len(one.ulpdu) + len(other.ulpdu) < 60000:
                one.ulpdu += bytes(-(2 + len(one.ulpdu)) % 4 + 4) + len(other.ulpdu).to_bytes(2, "big") + other.ulpdu
                turn.units.remove(other)
                return f"{one.name} holds {other.name}, {follow(one, rng, length=True)}"
    return None


def nested(draft: Draft, rng: random.Random) -> str | None:
    """A ULPDU holds what looks like an FPDU, with a good CRC."""
    fpdus = draft.fpdus()
    if not fpdus:
        return None
    (turn, fpdu), (_, inner) = pick(rng, fpdus), pick(rng, fpdus)
    way = draft.side(turn.role).way
    keep = below(rng, min(len(fpdu.ulpdu), 18) + 1)
    look_alike = inner.encode(way._replace(markers=False), 0) * pick(rng, (1, 1, 2, 4))
    fpdu.ulpdu = fpdu.ulpdu[:keep] + look_alike[: MAX_ULPDU_LENGTH - keep]
    return f"{inner.name} in the ULPDU of {fpdu.name}, {follow(fpdu, rng, length=True)}"


def many(draft: Draft, rng: random.Random) -> str | None:
    """Many FPDUs of a few octets."""
    found = some_fpdu(draft, rng)
    if found is None:
        return None
    turn, fpdu = found
    count, octets_each = 8 + below(rng, 56), pick(rng, (0, 0, 1, 14, 18))
    small = [
        FPDUUnit(f"{fpdu.name}.{number}", fpdu.ulpdu[:octets_each], fpdu.ulpdu[:octets_each]) for number in range(count)
    ]
    at = _index(turn.units, fpdu)
    turn.units[at:at] = small
    return f"{count} FPDUs of {octets_each} octets before {fpdu.name}"


def dialect(draft: Draft, rng: random.Random) -> str | None:
    """A side formats all FPDUs like a sender with one or two deviations."""
    side = pick(rng, draft.sides)
    if not draft.fpdus(side.role):
        return None
    names = [pick(rng, tuple(BY_NAME)) for _ in range(pick(rng, (1, 1, 2)))]
    agreed = Dialect(side.way.markers, side.way.crc, side.way.origin)
    if spoken(list(dict.fromkeys(names)), agreed, Bases(0, 0)) is None:
        return None
    side.deviation = "+".join(dict.fromkeys(names))
    return f"the {side.role} deviates: {side.deviation}"


def _index(units: list[Unit], fpdu: FPDUUnit) -> int:
    return next(index for index, unit in enumerate(units) if unit is fpdu)


MESSAGES: tuple[Function, ...] = (
    length, size, pad, crc, damage, again, left_out, swap, cut, extra, swallowed, nested, many, dialect,
)  # fmt: skip
PACKETS: tuple[Function, ...] = ()
