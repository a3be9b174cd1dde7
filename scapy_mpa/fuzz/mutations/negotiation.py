"""What the startup frames agree on, and what the sides make of it (RFC 5044 §7.1.1, RFC 6581 §9)."""

from __future__ import annotations

import random

from scapy_mpa.craft.segments import below
from scapy_mpa.craft.ulpdus import (
    READ_REQUEST,
    REQUEST_QUEUE,
    TERMINATE,
    TERMINATE_QUEUE,
    rdma_write,
    read_request_body,
    send,
    terminate_body,
    untagged,
)
from scapy_mpa.framing.ddp import opcode_of
from scapy_mpa.framing.role import ROLES
from scapy_mpa.framing.startup import ENHANCED_DATA_LENGTH, NOT_NEGOTIATED, C, EnhancedData, M, R, S
from scapy_mpa.fuzz.draft import Draft, Turn
from scapy_mpa.fuzz.draw import edge, octets, pick
from scapy_mpa.fuzz.mutations.common import Function, some_startup
from scapy_mpa.fuzz.units import FPDUUnit, Startup

_DEPTH_BITS = 14
_NAMES = {M: "M", C: "C", R: "R", S: "S"}


def flag(draft: Draft, rng: random.Random) -> str | None:
    """M, C, R or S is changed; FPDUs are formatted accordingly, or not."""
    found = some_startup(draft, rng)
    if found is None:
        return None
    turn, startup = found
    bit = pick(rng, (M, M, C, C, R, S))
    startup.flags ^= bit
    said = f"{startup.name}: {_NAMES[bit]} {int(bool(startup.flags & bit))}"
    if bit in (M, C) and rng.random() < 0.5:
        # M rules what its sender receives; C of either frame rules both directions (§7.1.1).
        for side in draft.sides:
            if bit == M and side.role != turn.role:
                side.way = side.way._replace(markers=bool(startup.flags & M))
            elif bit == C:
                side.way = side.way._replace(crc=any(one.flags & C for _, one in draft.startups()))
        return f"{said}, FPDUs accordingly"
    return f"{said}, FPDUs as they were"


def way(draft: Draft, rng: random.Random) -> str | None:
    """A side formats FPDUs differently from what was agreed on: Markers, CRC, or what FPDUPTR counts from."""
    side = pick(rng, draft.sides)
    if not draft.fpdus(side.role):
        return None
    drawn = below(rng, 3)
    if drawn == 0:
        side.way = side.way._replace(markers=not side.way.markers)
        return f"the {side.role} sends {'' if side.way.markers else 'no '}Markers all the same"
    if drawn == 1:
        side.way = side.way._replace(crc=not side.way.crc)
        return f"the {side.role} {'fills in' if side.way.crc else 'leaves zero'} CRCs all the same"
    side.way = side.way._replace(origin="first-octet" if side.way.origin == "header" else "header")
    return f"the {side.role} counts FPDUPTR from the {side.way.origin.replace('-', ' ')}"


def enhanced(draft: Draft, rng: random.Random) -> str | None:
    """A to D, IRD or ORD of RFC 6581 are changed, or are added to a frame without them."""
    found = some_startup(draft, rng)
    if found is None:
        return None
    startup = found[1]
    data = startup.private_data
    if len(data) < ENHANCED_DATA_LENGTH or rng.random() < 0.2:
        startup.flags |= S
        startup.rev = max(startup.rev, pick(rng, (1, 2, 2, 2)))
        data = EnhancedData(ird=8, ord=8).encode() + data
    now = EnhancedData.decode(data)
    name = pick(rng, EnhancedData._fields)
    value = getattr(now, name)
    drawn = 1 - value
    if name in ("ird", "ord"):
        drawn = pick(rng, (0, 1, NOT_NEGOTIATED - 1, NOT_NEGOTIATED, edge(rng, _DEPTH_BITS, value)))
    startup.private_data = now._replace(**{name: drawn}).encode() + data[ENHANCED_DATA_LENGTH:]
    startup.pd_length = None
    return f"{startup.name}: {name.upper()} {value} -> {drawn}"


def enhanced_cut(draft: Draft, rng: random.Random) -> str | None:
    """S is set, and the Private Data is too short for what it announces."""
    found = some_startup(draft, rng)
    if found is None:
        return None
    startup = found[1]
    startup.flags |= S
    startup.rev = max(startup.rev, 2)
    startup.private_data = startup.private_data[: below(rng, ENHANCED_DATA_LENGTH)]
    startup.pd_length = None
    return f"{startup.name}: S with {len(startup.private_data)} octets of Private Data"


def rejected(draft: Draft, rng: random.Random) -> str | None:
    """The Reply rejects; FPDUs still follow, or other octets, or nothing."""
    replies = [startup for turn, startup in draft.startups() if turn.role == "responder"]
    if not replies:
        return None
    reply = pick(rng, replies)
    reply.flags |= R
    if rng.random() < 0.5:
        for turn in draft.turns:
            turn.units = [unit for unit in turn.units if isinstance(unit, Startup)]
        return f"{reply.name} rejects, nothing follows"
    return f"{reply.name} rejects, FPDUs follow"


def responder_first(draft: Draft, rng: random.Random) -> str | None:
    """The Responder sends FPDUs before the Initiator's first (RFC 5044 §7.1.2)."""
    with_fpdus = [turn for turn in draft.turns if any(isinstance(unit, FPDUUnit) for unit in turn.units)]
    theirs = [turn for turn in with_fpdus if turn.role == "responder"]
    if not theirs or with_fpdus[0].role == "responder":
        return None
    turn = theirs[0]
    draft.turns.remove(turn)
    draft.turns.insert(draft.turns.index(with_fpdus[0]), turn)
    return "the Responder's FPDUs before the Initiator's first"


def rtr(draft: Draft, rng: random.Random) -> str | None:
    """A ready-to-receive message is put first, or is not one of those offered (RFC 6581 §9.2)."""
    if not draft.startups():
        return None
    ulpdu = pick(
        rng,
        (
            rdma_write(0, 0, b""),
            send(1, b""),
            untagged(READ_REQUEST, REQUEST_QUEUE, 1, read_request_body(0, 0, 0, 0, 0)),
            untagged(TERMINATE, TERMINATE_QUEUE, 1, terminate_body(2, 0, 7)),
            rdma_write(0, 0, octets(rng, 1 + below(rng, 20))),
        ),
    )
    role = pick(rng, (ROLES[0], ROLES[0], ROLES[1]))
    last = max(index for index, turn in enumerate(draft.turns) if any(isinstance(u, Startup) for u in turn.units))
    draft.turns.insert(last + 1, Turn(role, [FPDUUnit(f"{role} RTR message", ulpdu, ulpdu)]))
    return f"the {role} begins with a message of opcode {opcode_of(ulpdu)}"


def peer_to_peer(draft: Draft, rng: random.Random) -> str | None:
    """Both frames are enhanced (RFC 6581), with random Control Flags."""
    startups = [startup for _, startup in draft.startups()]
    if len(startups) < 2:
        return None
    said = []
    for startup in startups:
        bits = rng.getrandbits(4)
        data = EnhancedData(1, bits >> 2 & 1, bits >> 1 & 1, bits & 1, edge(rng, _DEPTH_BITS), edge(rng, _DEPTH_BITS))
        if startup.flags & S and startup.rev > 1:
            startup.private_data = startup.private_data[ENHANCED_DATA_LENGTH:]
        startup.flags, startup.rev = startup.flags | S, 2
        startup.private_data = data.encode() + startup.private_data
        startup.pd_length = None
        said.append(f"{startup.name} B {data.b} C {data.c} D {data.d} IRD {data.ird} ORD {data.ord}")
    return "peer to peer: " + ", ".join(said)


MESSAGES: tuple[Function, ...] = (
    flag, way, enhanced, enhanced_cut, rejected, responder_first, rtr, peer_to_peer,
)  # fmt: skip
PACKETS: tuple[Function, ...] = ()
