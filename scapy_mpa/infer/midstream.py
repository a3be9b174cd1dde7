"""Full Operation whose startup frames were not captured, or one of them: what they said is inferred, or was given.

Nothing is believed of a TCP connection without enough evidence in the octets of both half connections together;
then a half connection that shows too little of its own waits for more (:class:`AwaitingInference`).  All octets that
waited are received as if it had been known from the beginning what they are.

What is inferred here are values; the TCP connection acts on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from scapy_mpa.framing.fpdu import decode_fpdu
from scapy_mpa.framing.markers import LONGEST_FPDU, MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.framing.profiles import PROFILES, Profile
from scapy_mpa.framing.role import ROLES as DIRECTIONS
from scapy_mpa.framing.role import Role as Direction
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.infer.inference import FEWEST_HEADERS, HALF_BITS, Inferred, Run, infer, is_enough
from scapy_mpa.receive.context import ReceiverContext
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.receive.waiting import Waiting, lay
from scapy_mpa.tcp.half import MAX_WINDOW, Half, Moment
from scapy_mpa.values.assumptions import Assumptions
from scapy_mpa.values.segment import Segment, checksum_is_wrong

#: What comes before the octets captured first, by so much, is not waited for.
_LOWEST = 1 << 20
#: Evidence for which more octets are waited for, though they are many already.
_PROMISING_BITS = 32
#: Octets that wait in a half connection whose other half has been inferred.
_MOST_WAITING = 256 * 1024


class Beginning(NamedTuple):
    """How Full Operation of one half connection begins.

    Attributes:
        reassembly: the octets, none of which is there yet.
        markers: whether they hold Markers.
        floor: the frame before which nothing is placed, and its time.
        begins_at: the offset of the first FPDU, None if it is not known.
        may_search: whether FPDUs may be searched for.
        inferred: what the half connection was inferred to be, None if it was not.
    """

    reassembly: Reassembly
    markers: bool
    floor: Moment = (0, 0)
    begins_at: int | None = 0
    may_search: bool = True
    inferred: Inferred | None = None


class Waited:
    """The segments that wait in a half connection, put in order.

    Args:
        half: the direction of the TCP connection.
        waiting: these segments.
        origin: the sequence number at which offsets count 0.
        context: what all half connections share.

    Attributes:
        waiting: these segments.
        reassembly: their octets.
        runs: the same, those that follow one another together.
    """

    def __init__(self, half: Half, waiting: Waiting, origin: int, context: ReceiverContext) -> None:
        self.waiting = waiting
        self.reassembly = Reassembly(origin, False)
        self._context = context
        #: The offset of the first octet after the SYN, None if that was not captured.
        self._begin = self.reassembly.offset_of(half.origin) if half.origin is not None else None
        # What the receiver dropped says nothing, unless there is nothing else: no checksum of a capture may be right.
        right = [seg for seg in waiting if not checksum_is_wrong(seg)]
        lay(right if 2 * len(right) >= len(waiting) else waiting, self.reassembly)
        self.runs = [Run(start, self.reassembly.read(start, end)) for start, end in self.reassembly.beyond]

    def infer(self, markers: bool | None, crc: bool | None, fewest: int = FEWEST_HEADERS) -> Inferred | None:
        """What the octets say, given what is known."""
        return infer(self.runs, self._context.budget, markers, crc, fewest)

    def told_start(self) -> int | None:
        """The offset at which Full Operation begins as the user told, if its octet is among these."""
        for seq in self._context.assumptions.start:
            offset = self.reassembly.offset_of(seq)
            if any(run.offset <= offset < run.offset + len(run.octets) for run in self.runs):
                self._context.find_start(seq)
                return offset
        return self._begin if self._context.assumptions.begins_behind_syn else None

    def begins_at_syn(self, inferred: Inferred) -> bool:
        """Whether Full Operation begins with the first octet after the SYN, as the first draft has it."""
        if self._begin is None or not inferred.markers or not inferred.crc:
            return False
        return inferred.first == self._begin and (self._begin - inferred.grid) % MARKER_INTERVAL == 0

    def beginning(self, inferred: Inferred | None, start: int | None, told: bool | None, may_search: bool) -> Beginning:
        """How Full Operation begins.

        Args:
            inferred: what the half connection was inferred to be, None if too little was there.
            start: the offset at which it begins, if that was given.
            told: whether it holds Markers, if that was given.
            may_search: whether FPDUs may be searched for though nothing was inferred.
        """
        stream, markers = self.reassembly, inferred.markers if inferred is not None else bool(told)
        if start is None and inferred is not None and self.begins_at_syn(inferred):
            start = self._begin
        if start is not None:
            return Beginning(Reassembly(stream.seq_of(start), True), markers, inferred=inferred)
        first = self._first(inferred.first if inferred is not None else None)
        # Offsets count from a place before anything that can still come, where a Marker stands or could stand.
        shift = MAX_WINDOW
        if inferred is not None and inferred.markers:
            shift += (first - inferred.grid) % MARKER_INTERVAL
        begun = Reassembly((stream.seq_of(first) - shift) & SEQ_MASK, True, shift)
        # What may hold Markers, nobody knows where, is not searched: where one stands an FPDU would be wrong.
        known = inferred is not None or told is not None or may_search
        return Beginning(begun, markers, begins_at=None, may_search=known, inferred=inferred)

    def _first(self, near: int | None) -> int:
        """The first octet that belongs to it: not far from the one at ``near``."""
        found: int | None = None
        for start, end in reversed(self.reassembly.beyond):
            if found is not None and found - end > _LOWEST:
                break
            if near is None or start <= near or found is not None:
                found = start
        return found if found is not None else self._begin or 0


class AwaitingInference:
    """A half connection that has not shown yet how its Full Operation begins, though there is MPA on the connection.

    Args:
        half: the direction of the TCP connection.
        waiting: the segments that wait; the phase takes them over.
        context: what all half connections share.
        look: looks at what waits, the last time if so; None if it does not say enough.
        begin: begins Full Operation.
        next_try: octets that are waited for before they are looked at.
    """

    def __init__(
        self,
        half: Half,
        waiting: Waiting,
        context: ReceiverContext,
        look: Callable[[Half, Waiting, int, bool], Beginning | None],
        begin: Callable[[Beginning], None],
        next_try: int,
    ) -> None:
        self.half = half
        self.waiting = waiting
        self._context = context
        self._look = look
        self._begin = begin
        self._next_try = next_try
        #: The sequence number at which offsets count 0.
        self._origin = waiting.segments[0].seq if waiting else half.origin or max(half.peer.ack, 0)
        self._is_touched = bool(waiting)
        if waiting:
            context.touch(self)

    @property
    def weight(self) -> int:
        """Octets of memory that what waits takes."""
        return self.waiting.octets

    def receive(self, seg: Segment) -> None:
        """Take a segment with payload that TCP takes."""
        if not self._is_touched:
            self._is_touched = True
            self._context.touch(self)
        waiting = self.waiting
        if not waiting:
            self._origin = seg.seq
        waiting.add(seg, self.half.peer.ack)
        if waiting.octets >= self._next_try:
            self._next_try = 2 * waiting.octets
            self.decide(waiting.octets > _MOST_WAITING)

    def decide(self, at_last: bool) -> None:
        """Begin Full Operation if what waits says enough; ``at_last``, with what is likeliest."""
        beginning = self._look(self.half, self.waiting, self._origin, at_last)
        if beginning is not None:
            self._begin(beginning)

    def relieve(self, _now: Moment) -> None:
        """Too much is held back in all: decide."""
        self.decide(at_last=True)

    def let_go(self) -> None:
        """The TCP connection is over: nothing that waits is read any more."""
        self.waiting.replace()

    def release(self) -> bool:
        """The block of the capture that segments lie in goes; nothing is left to go with the next one."""
        self.waiting.release({})
        self._is_touched = False
        return False


class Awaited(NamedTuple):
    """What is known of a half connection whose other half has been inferred.

    Attributes:
        direction: which of both it is.
        crc: whether CRCs are in use.
        markers: whether a startup frame asks for Markers, None if there is none that says it.
        context: what all half connections share.
    """

    direction: Direction
    crc: bool
    markers: bool | None
    context: ReceiverContext

    def look(self, half: Half, waiting: Waiting, origin: int, at_last: bool) -> Beginning | None:
        """How Full Operation begins, if what waits says enough; ``at_last``, with what is likeliest."""
        waited = Waited(half, waiting, origin, self.context)
        start, told = waited.told_start(), self.context.assumptions.markers_of(self.direction)
        # That there is MPA is known: less will do.
        inferred = waited.infer(told if self.markers is None else self.markers, self.crc, FEWEST_HEADERS - 1)
        if inferred is not None and (inferred.bits < HALF_BITS or not (at_last or inferred.shows_markers)):
            inferred = None
        if inferred is None and start is None and not at_last:
            return None
        may_search = self.markers is False or (self.crc and self.markers is None)
        return waited.beginning(inferred, start, told, may_search)


class AwaitedMarkers(NamedTuple):
    """What a Responder sends that may be an RDMAC RNIC: whether it holds Markers, its first octets show.

    An RDMAC RNIC sends Markers to whoever goes on after its Reply; the Initiator's M need not have asked for them
    (RFC 5044 appendix C.2.3, Figure 16).  ULPDU_Length is never zero, the first Marker is.

    Attributes:
        seq_start: the sequence number at which Full Operation begins.
        floor: the frame before which nothing is placed, and its time.
    """

    seq_start: int
    floor: Moment

    def look(self, _half: Half, waiting: Waiting, _origin: int, at_last: bool) -> Beginning | None:
        """How Full Operation begins if its first octets are there; ``at_last``, without."""
        octets = first_octets(waiting, self.seq_start)[:MARKER_LENGTH]
        if len(octets) < MARKER_LENGTH and not at_last:
            return None
        return Beginning(Reassembly(self.seq_start, True), octets == bytes(MARKER_LENGTH), self.floor)


def first_octets(waiting: Waiting, begins_at: int) -> bytes:
    """The octets that wait from the sequence number ``begins_at`` on, up to a gap: at most those of an FPDU."""
    stream = lay(waiting, Reassembly(begins_at, True))
    return stream.read(0, min(stream.next, LONGEST_FPDU))


# --- the Request was not captured ---


def infer_from_reply(
    reply: StartupFrame, begins: Mapping[Direction, bytes], assumed: Assumptions
) -> tuple[bool, dict[Direction, bool]]:
    """Whether CRCs are in use, and which directions hold Markers, by the Reply alone and the first octets behind."""
    markers = begins["responder"][:MARKER_LENGTH] == bytes(MARKER_LENGTH)
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
    if assumed.crc is not None:
        crc = assumed.crc or bool(reply.c)
    return crc, {"initiator": bool(reply.m), "responder": markers if told is None else told}


# --- the Reply was not captured, or neither ---


class InferredHalves(NamedTuple):
    """What the octets of both half connections, together, say.

    Attributes:
        crc: whether CRCs are in use.
        found: what each was inferred to be, as far as it agrees with that.
        is_enough: whether it is believed.
        bits: what the evidence of the one that says most is worth.
    """

    crc: bool
    found: dict[Direction, Inferred]
    is_enough: bool
    bits: int

    @property
    def is_promising(self) -> bool:
        """Whether more octets are worth waiting for, though what is there does not say enough."""
        return self.bits >= _PROMISING_BITS


def infer_from_request(
    request: StartupFrame, waited: Mapping[Direction, Waited], assumed: Assumptions
) -> InferredHalves:
    """What the octets say, the Request being known, the Reply not."""
    crc = True if request.c else assumed.crc
    found = _infer_each(waited, {"initiator": assumed.markers_of("initiator"), "responder": bool(request.m)}, crc)
    sure = [one for one in found.values() if one.confirmations]
    if not is_enough(sure):
        return InferredHalves(bool(crc), {}, False, 0)
    surest = max(sure, key=lambda one: one.bits)
    return InferredHalves(surest.crc, _agreeing(found, surest.crc), True, surest.bits)


def infer_both(waited: Mapping[Direction, Waited], assumed: Assumptions, is_told: bool) -> InferredHalves:
    """What the octets say without startup frames; ``is_told`` that Full Operation begins in them."""
    crc = assumed.crc_told
    found = _infer_each(waited, {direction: assumed.markers_of(direction) for direction in DIRECTIONS}, crc)
    bits = max((one.bits for one in found.values()), default=0)
    # CRCs are in use in both directions or in none (RFC 5044 §7.1.1): the stronger one decides.
    surest = max((one for one in found.values() if one.confirmations), key=lambda one: one.bits, default=None)
    if surest is None:
        return InferredHalves(bool(crc), found, is_told, bits)
    for direction, inferred in list(found.items()):
        if inferred.crc != surest.crc and (again := waited[direction].infer(None, surest.crc)) is not None:
            found[direction] = again
    found = _agreeing(found, surest.crc)
    believed = is_told or is_enough(found.values())
    return InferredHalves(surest.crc if crc is None else crc, found, believed, bits)


def inferred_profile(waited: Mapping[Direction, Waited], found: Mapping[Direction, Inferred]) -> Profile:
    """The specification that half connections without startup frames look like."""
    if any(waited[direction].begins_at_syn(inferred) for direction, inferred in found.items()):
        return PROFILES["culley-02"]
    if any(inferred.origin == "first-octet" for inferred in found.values()):
        return PROFILES["rddp-01"]
    return PROFILES["rfc5044"]


def _infer_each(
    waited: Mapping[Direction, Waited], markers: Mapping[Direction, bool | None], crc: bool | None
) -> dict[Direction, Inferred]:
    found = {direction: waited[direction].infer(markers[direction], crc) for direction in DIRECTIONS}
    return {direction: inferred for direction, inferred in found.items() if inferred is not None}


def _agreeing(found: Mapping[Direction, Inferred], crc: bool) -> dict[Direction, Inferred]:
    return {direction: inferred for direction, inferred in found.items() if inferred.crc == crc}
