"""Startup frames, and their order (RFC 5044 §7.1)."""

from __future__ import annotations

import random

from scapy_mpa.craft.segments import below
from scapy_mpa.framing.startup import KEY_LENGTH, REPLY_KEY, REQUEST_KEY
from scapy_mpa.fuzz.draft import Draft, Turn
from scapy_mpa.fuzz.draw import edge, octets, other_than, pick
from scapy_mpa.fuzz.mutations.common import Function, changed, some_startup
from scapy_mpa.fuzz.units import FPDUUnit, Plain, Startup, copy_of

_PD_LENGTHS = (0, 1, 3, 4, 5, 255, 256, 257, 511, 512, 513, 514, 1024, 65535)
_MOST_PRIVATE_DATA = 4096


def key(draft: Draft, rng: random.Random) -> str | None:
    """The Key is damaged, cut, or the other frame's."""
    found = some_startup(draft, rng)
    if found is None:
        return None
    startup = found[1]
    drawn = below(rng, 4)
    if drawn == 0:
        startup.key = REPLY_KEY if startup.key == REQUEST_KEY else REQUEST_KEY
        return f"{startup.name}: the Key of the other frame"
    if drawn == 1:
        startup.key = startup.key[: below(rng, KEY_LENGTH)]
        return f"{startup.name}: {len(startup.key)} octets of the Key"
    at = below(rng, len(startup.key) or 1)
    startup.key = startup.key[:at] + octets(rng, 1) + startup.key[at + 1 :]
    return f"{startup.name}: octet {at} of the Key"


def reserved(draft: Draft, rng: random.Random) -> str | None:
    """Reserved bits are set, or R in a Request."""
    found = some_startup(draft, rng)
    if found is None:
        return None
    startup = found[1]
    mask = pick(rng, (0x01, 0x02, 0x04, 0x08, 0x0F, 0x10, 0x1F, 0x20))
    startup.flags ^= mask
    return f"{startup.name}: flags ^ {mask:#04x}"


def rev(draft: Draft, rng: random.Random) -> str | None:
    """Rev is changed."""
    found = some_startup(draft, rng)
    if found is None:
        return None
    startup = found[1]
    before, startup.rev = startup.rev, pick(rng, (0, 1, 2, 3, 127, 128, 255, edge(rng, 8, startup.rev)))
    return f"{startup.name}: {changed('Rev', before, startup.rev)}"


def pd_length(draft: Draft, rng: random.Random) -> str | None:
    """PD_Length is changed, and the Private Data has that length, or not."""
    found = some_startup(draft, rng)
    if found is None:
        return None
    startup = found[1]
    before = len(startup.private_data)
    length = pick(rng, _PD_LENGTHS) if rng.random() < 0.6 else edge(rng, 16, before)
    if rng.random() < 0.6 and length <= _MOST_PRIVATE_DATA:
        startup.private_data = startup.private_data[:length]
        startup.private_data += octets(rng, length - len(startup.private_data))
        startup.pd_length = None
        return f"{startup.name}: {changed('PD_Length', before, length)}, Private Data too"
    startup.pd_length = length
    return f"{startup.name}: {changed('PD_Length', before, length)}, Private Data as it was"


def private_data(draft: Draft, rng: random.Random) -> str | None:
    """Octets of the Private Data are changed."""
    having = [startup for _, startup in draft.startups() if startup.private_data]
    if not having:
        return None
    startup = pick(rng, having)
    at = below(rng, len(startup.private_data))
    size = 1 + below(rng, min(8, len(startup.private_data) - at))
    startup.private_data = startup.private_data[:at] + octets(rng, size) + startup.private_data[at + size :]
    return f"{startup.name}: Private Data, {size} octets from {at} on"


def twice(draft: Draft, rng: random.Random) -> str | None:
    """A startup frame comes twice."""
    found = some_startup(draft, rng)
    if found is None:
        return None
    turn, startup = found
    again = copy_of(startup)
    place = below(rng, 3)
    if place == 0:
        turn.units.append(again)
        return f"{startup.name} again behind itself"
    turns = draft.turns
    at = len(turns) if place == 1 else next(index for index, one in enumerate(turns) if one is turn) + 2
    turns.insert(at, Turn(turn.role, [again]))
    return f"{startup.name} again, as turn {min(at, len(turns) - 1)}"


def left_out(draft: Draft, rng: random.Random) -> str | None:
    """A startup frame is not sent."""
    found = some_startup(draft, rng)
    if found is None:
        return None
    turn, startup = found
    turn.units = [unit for unit in turn.units if unit is not startup]
    return f"{startup.name} left out"


def order(draft: Draft, rng: random.Random) -> str | None:
    """The Reply comes before the Request, or both sides send the same."""
    startups = draft.startups()
    if len(startups) < 2:
        return None
    (first, request), (second, reply) = startups[:2]
    if rng.random() < 0.5:
        at = [index for index, turn in enumerate(draft.turns) if turn is first or turn is second]
        if len(at) < 2:
            return None
        draft.turns[at[0]], draft.turns[at[1]] = draft.turns[at[1]], draft.turns[at[0]]
        return f"{reply.name} before {request.name}"
    source, copy = (request, reply) if rng.random() < 0.5 else (reply, request)
    copy.key = source.key
    return f"{copy.name} with the Key of {source.name}"


def extra(draft: Draft, rng: random.Random) -> str | None:
    """There are extra octets before, in or after a startup frame."""
    found = some_startup(draft, rng)
    if found is None:
        return None
    turn, startup = found
    more = octets(rng, 1 + below(rng, 40)) if rng.random() < 0.7 else startup.encode()[: 1 + below(rng, 19)]
    at = next(index for index, unit in enumerate(turn.units) if unit is startup) + below(rng, 2)
    turn.units.insert(at, Plain("octets", more))
    return f"{len(more)} octets {'behind' if turn.units[at - 1] is startup and at else 'before'} {startup.name}"


def cut(draft: Draft, rng: random.Random) -> str | None:
    """A startup frame ends early."""
    found = some_startup(draft, rng)
    if found is None:
        return None
    turn, startup = found
    whole = startup.encode()
    kept = whole[: below(rng, len(whole))]
    turn.units = [Plain(startup.name, kept) if unit is startup else unit for unit in turn.units]
    return f"{startup.name}: {len(kept)} octets of {len(whole)}"


def in_operation(draft: Draft, rng: random.Random) -> str | None:
    """A startup frame stands among FPDUs, or in the ULPDU of one."""
    fpdus, startups = draft.fpdus(), draft.startups()
    if not fpdus:
        return None
    startup = pick(rng, startups)[1] if startups else Startup("Request", REQUEST_KEY, 0x40, 1, b"")
    turn, fpdu = pick(rng, fpdus)
    if rng.random() < 0.5:
        at = next(index for index, unit in enumerate(turn.units) if unit is fpdu)
        turn.units.insert(at, copy_of(startup))
        return f"{startup.name} before {fpdu.name}"
    keep = below(rng, min(len(fpdu.ulpdu), 18) + 1)
    fpdu.ulpdu = fpdu.ulpdu[:keep] + startup.encode()
    return f"{startup.name} in {fpdu.name}, from octet {keep} of the ULPDU on"


def in_one_turn(draft: Draft, rng: random.Random) -> str | None:
    """A side sends FPDUs right after its startup frame."""
    startups = draft.startups()
    if not startups:
        return None
    turn, startup = pick(rng, startups)
    for other in draft.turns:
        if other is not turn and other.role == turn.role and any(isinstance(unit, FPDUUnit) for unit in other.units):
            turn.units += other.units
            other.units = []
            return f"FPDUs at once behind {startup.name}"
    return None


def flags(draft: Draft, rng: random.Random) -> str | None:
    """All bits of the flags octet are random."""
    found = some_startup(draft, rng)
    if found is None:
        return None
    startup = found[1]
    before, startup.flags = startup.flags, other_than(rng, 8, startup.flags)
    return f"{startup.name}: flags {before:#04x} -> {startup.flags:#04x}"


MESSAGES: tuple[Function, ...] = (
    key, reserved, rev, pd_length, private_data, twice, left_out, order, extra, cut, in_operation, in_one_turn,
    flags,
)  # fmt: skip
PACKETS: tuple[Function, ...] = ()
