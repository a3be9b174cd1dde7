"""A connection whose startup frames were not captured, or one of them: what they said is inferred, or was told.

Nothing is believed of a TCP connection without enough evidence in the octets of both half connections together;
then a half connection that shows too little of its own waits for more (:class:`UndecidedHalf`).  All octets that
waited are received as if it had been known from the beginning what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.framing.fpdu import decode_fpdu
from scapy_mpa.framing.markers import LONGEST_FPDU
from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.receive.entering import Waited, begun_at_syn, enter
from scapy_mpa.receive.inference import CONNECTION_BITS, Inferred
from scapy_mpa.receive.half import Direction, MAX_WINDOW
from scapy_mpa.receive.startup import StartupPhase
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.receive.undecided import UndecidedHalf
from scapy_mpa.receive.waiting import lay

if TYPE_CHECKING:
    from scapy_mpa.receive.tcp import Half, TCPConnection

DIRECTIONS: tuple[Direction, Direction] = ("initiator", "responder")

#: Evidence for which more octets are waited for, though they are many already.
_PROMISING_BITS = 32


# --- the Request was not captured ---


def infer_from_reply(connection: TCPConnection) -> bool:
    """Begin Full Operation with the Reply alone: the Responder's Markers, and CRC, are told or read off its octets."""
    mpa = connection.mpa
    if mpa is None or mpa.request is not None or mpa.reply is None or mpa.operations:
        return False
    phases = [half.phase for half in connection.halves]
    if any(not isinstance(phase, StartupPhase) or phase.wait_from is None for phase in phases):
        return False
    reply = mpa.reply.startup
    if reply.r:
        mpa.rejected = True
        return False
    assumed = connection.receiver.assumptions
    begins = {direction: _beginning(mpa.halves[direction]) for direction in DIRECTIONS}
    markers = begins["responder"][:4] == bytes(4)
    crc = bool(reply.c)
    guesses: tuple[tuple[Direction, bool], ...]
    guesses = (("responder", False), ("responder", True), ("initiator", bool(reply.m)))
    for direction, with_markers in guesses:
        fpdu = decode_fpdu(begins[direction], 0 if with_markers else None)
        if fpdu is not None and fpdu.crc_good:
            crc = True
            if direction == "responder":
                markers = with_markers
                break
    told = assumed.markers_of("responder")
    mpa.crc = crc if assumed.crc is None else assumed.crc or bool(reply.c)
    mpa.inferred = True
    floor = mpa.reply.frame, mpa.reply.time
    connection.begin(mpa, floor, {"initiator": bool(reply.m), "responder": markers if told is None else told})
    return True


def _beginning(half: Half) -> bytes:
    """The first octets that wait for Full Operation of a half connection, as far as there is no gap."""
    phase = half.phase
    if not isinstance(phase, StartupPhase) or phase.wait_from is None:
        return b""
    stream = lay(phase.waiting, Reassembly(phase.stream.seq_of(phase.wait_from), True))
    return stream.read(0, min(stream.next, LONGEST_FPDU))


# --- the Reply was not captured ---


def infer_from_request(connection: TCPConnection) -> bool:
    """Begin Full Operation with the Request alone, if the octets of both half connections say enough.

    The Responder must not have sent something in place of the Reply.
    """
    mpa = connection.mpa
    if mpa is None or mpa.reply is not None or mpa.request is None or mpa.operations:
        return False
    initiator, responder = (mpa.halves[direction].phase for direction in DIRECTIONS)
    if not isinstance(initiator, StartupPhase) or not isinstance(responder, StartupPhase):
        return False
    if initiator.wait_from is None or responder.unexpected is not None:
        return False
    request = mpa.request.startup
    assumed = connection.receiver.assumptions
    crc = True if request.c else assumed.crc
    waited = {direction: Waited(mpa.halves[direction]) for direction in DIRECTIONS}
    found = {
        "initiator": waited["initiator"].infer(assumed.markers_of("initiator"), crc),
        "responder": waited["responder"].infer(bool(request.m), crc),
    }
    sure = [one for one in found.values() if one is not None and one.confirmations]
    if sum(one.bits for one in sure) < CONNECTION_BITS:
        return False
    mpa.crc, mpa.inferred = max(sure, key=lambda one: one.bits).crc, True
    begins = waited["initiator"].stream.offset_of(initiator.stream.seq_of(initiator.wait_from))
    enter(mpa, "initiator", waited["initiator"], _agreeing(found["initiator"], mpa.crc), begins)
    inferred = _agreeing(found["responder"], mpa.crc)
    half = mpa.halves["responder"]
    if inferred is None:
        half.enter(UndecidedHalf(half, "responder", responder.waiting, bool(request.m)))
    else:
        enter(mpa, "responder", waited["responder"], inferred, None)
    return True


def _agreeing(inferred: Inferred | None, crc: bool) -> Inferred | None:
    return inferred if inferred is not None and inferred.crc == crc else None


# --- neither was captured ---


def infer_both(connection: TCPConnection) -> bool:
    """Begin Full Operation of a connection without startup frames, if its octets say that it is one.

    True if it is, so that the phases of its half connections are others now.
    """
    receiver = connection.receiver
    phases = [half.phase for half in connection.halves if isinstance(half.phase, StartupPhase)]
    if connection.mpa is not None or len(phases) < 2 or any(phase.found is not None for phase in phases):
        return False
    if not any(phase.undecided and phase.waiting for phase in phases):
        return False
    assumed = receiver.assumptions
    first = connection.first_sender or connection.halves[0]
    halves: dict[Direction, Half] = {"initiator": first, "responder": first.peer}
    waited = {direction: Waited(halves[direction]) for direction in DIRECTIONS}
    crc = assumed.crc_told
    starts = {direction: waited[direction].told_start() for direction in DIRECTIONS}
    found: dict[Direction, Inferred] = {}
    for direction in DIRECTIONS:
        inferred = waited[direction].infer(assumed.markers_of(direction), crc)
        if inferred is not None:
            found[direction] = inferred
    # CRCs are in use in both directions or in none (RFC 5044 §7.1.1): the stronger one decides.
    connection.is_promising = any(inferred.bits >= _PROMISING_BITS for inferred in found.values())
    surest = max((one for one in found.values() if one.confirmations), key=lambda one: one.bits, default=None)
    if surest is not None:
        for direction, inferred in list(found.items()):
            if inferred.crc != surest.crc and (again := waited[direction].infer(None, surest.crc)) is not None:
                found[direction] = again
        found = {direction: inferred for direction, inferred in found.items() if inferred.crc == surest.crc}
    told = any(start is not None for start in starts.values())
    if not told and (surest is None or sum(inferred.bits for inferred in found.values()) < CONNECTION_BITS):
        return False
    if not receiver.has_room(first):
        return False
    crc = surest.crc if surest is not None and crc is None else bool(crc)
    mpa = connection.begin_inferred(first, crc)
    if any(begun_at_syn(waited[direction], inferred) for direction, inferred in found.items()):
        mpa.inferred_profile = PROFILES["culley-02"]
    elif any(inferred.origin == "first-octet" for inferred in found.values()):
        mpa.inferred_profile = PROFILES["rddp-01"]
    mpa.findings.profile = mpa.profile.name
    for direction in DIRECTIONS:
        inferred_here = found.get(direction)
        if starts[direction] is None and (inferred_here is None or not inferred_here.shows_markers):
            half = halves[direction]
            half.enter(UndecidedHalf(half, direction, waited[direction].waiting))
        else:
            enter(mpa, direction, waited[direction], inferred_here, starts[direction])
    return True
