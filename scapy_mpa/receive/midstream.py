"""A connection whose startup frames were not captured, or one of them: what they said is inferred, or was told.

Nothing is believed of a TCP connection without enough evidence in the octets of both half connections together;
then a half connection that shows too little of its own waits for more (:class:`UndecidedHalf`).  All octets that
waited are received as if it had been known from the beginning what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.framing.fpdu import decode_fpdu
from scapy_mpa.framing.markers import LONGEST_FPDU, MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.receive.inference import CONNECTION_BITS, FEWEST_HEADERS, HALF_BITS, Inferred, Run, infer
from scapy_mpa.receive.operation import Direction, FullOperation
from scapy_mpa.receive.segment import END, LENGTH, SEQ, SEQ_MASK, START, Segment, checksum_is_wrong, small_copy
from scapy_mpa.receive.startup import StartupPhase
from scapy_mpa.receive.stream import MAX_WINDOW, PIECE_WEIGHT, Stream

if TYPE_CHECKING:
    from scapy_mpa.receive.tcp import Half, MPAConnection, TCPConnection

DIRECTIONS: tuple[Direction, Direction] = ("initiator", "responder")

#: Octets that wait in a half connection whose other half has been inferred, and for how long (nanoseconds).
_MOST_UNDECIDED = 256 * 1024
#: Evidence for which more octets are waited for, though they are many already.
_PROMISING_BITS = 32
#: What comes before the octets captured first, by so much, is not waited for.
_LOWEST = 1 << 20


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
    stream = Stream(phase.stream.seq_of(phase.wait_from), True)
    for seg in phase.waiting:
        start = stream.offset_of(seg[SEQ])
        stream.commit(seg, start, start + seg[END] - seg[START])
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
        half.enter(UndecidedHalf(half, "responder", waited["responder"].segments, bool(request.m)))
    else:
        enter(mpa, "responder", waited["responder"], inferred, None)
    return True


def _agreeing(inferred: Inferred | None, crc: bool) -> Inferred | None:
    return inferred if inferred is not None and inferred.crc == crc else None


# --- neither was captured ---


class Waited:
    """The segments that wait in a half connection, put in order."""

    def __init__(self, half: Half) -> None:
        phase = half.phase
        assert isinstance(phase, (StartupPhase, UndecidedHalf))
        self.half = half
        self.segments = phase.waiting
        #: The offset of the first octet after the SYN, None if that was not captured.
        self.begin: int | None = None
        self.stream = Stream(phase.origin, False)
        if half.origin is not None:
            self.begin = self.stream.offset_of(half.origin)
        # What the receiver dropped says nothing, unless there is nothing else: no checksum of a capture may be right.
        right = [seg for seg in self.segments if not checksum_is_wrong(seg)]
        for seg in right if 2 * len(right) >= len(self.segments) else self.segments:
            start = self.stream.offset_of(seg[SEQ])
            self.stream.commit(seg, start, start + seg[END] - seg[START])
        self.runs = [Run(start, self.stream.read(start, end)) for start, end in self.stream.islands]

    def infer(self, markers: bool | None, crc: bool | None, fewest: int = FEWEST_HEADERS) -> Inferred | None:
        """What the octets say, given what is known."""
        return infer(self.runs, self.half.connection.receiver.budget, markers, crc, fewest)

    def begins(self, near: int | None) -> int | None:
        """The first octet that belongs to it: not far from the one at ``near``; None if there is none."""
        found: int | None = None
        for start, end in reversed(self.stream.islands):
            if found is not None and found - end > _LOWEST:
                break
            if near is None or start <= near or found is not None:
                found = start
        return found

    def told_start(self) -> int | None:
        """The offset at which Full Operation begins as the user told, if its octet is among these."""
        receiver = self.half.connection.receiver
        for seq in receiver.assumptions.start:
            offset = self.stream.offset_of(seq)
            if any(run.offset <= offset < run.offset + len(run.octets) for run in self.runs):
                receiver.starts_found.add(seq)
                return offset
        return self.begin if receiver.assumptions.begins_behind_syn else None


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
            half.enter(UndecidedHalf(half, direction, waited[direction].segments))
        else:
            enter(mpa, direction, waited[direction], inferred_here, starts[direction])
    return True


def begun_at_syn(waited: Waited, inferred: Inferred) -> bool:
    """Whether Full Operation, as inferred, begins with the first octet after the SYN, as the first draft has it."""
    if waited.begin is None or not inferred.markers or not inferred.crc:
        return False
    return inferred.first == waited.begin and (waited.begin - inferred.grid) % MARKER_INTERVAL == 0


def enter(
    mpa: MPAConnection,
    direction: Direction,
    waited: Waited,
    inferred: Inferred | None,
    start: int | None,
    has_markers: bool | None = None,
) -> None:
    """Begin Full Operation of one half connection, and receive what waited.

    ``inferred`` is what it was inferred to be, ``start`` the offset at which Full Operation begins, if that is told;
    ``has_markers`` whether it holds Markers, if a startup frame says so.
    """
    half, stream = waited.half, waited.stream
    assumed = half.connection.receiver.assumptions
    markers = inferred.markers if inferred is not None else bool(assumed.markers_of(direction))
    if start is None and inferred is not None and begun_at_syn(waited, inferred):
        start = waited.begin
    if start is not None:
        begun = Stream(stream.seq_of(start), True)
        operation = half.connection.operation(mpa, direction, begun, markers, (0, 0), 0)
    else:
        first = waited.begins(inferred.first if inferred is not None else None)
        if first is None:
            first = waited.begin or 0
        # Offsets count from a place before anything that can still come, where a Marker stands or could stand.
        shift = MAX_WINDOW
        if inferred is not None and inferred.markers:
            shift += (first - inferred.grid) % MARKER_INTERVAL
        begun = Stream((stream.seq_of(first) - shift) & SEQ_MASK, True, shift)
        # What may hold Markers, nobody knows where, is not searched: where one stands an FPDU would be wrong.
        known = inferred is not None or assumed.markers_of(direction) is not None or has_markers is False
        known = known or (mpa.crc and has_markers is None)
        operation = half.connection.operation(mpa, direction, begun, markers, (0, 0), None, may_search=known)
    mpa.inferences[direction] = inferred
    operation.replay(waited.segments)


class UndecidedHalf:
    """A half connection of a connection that was inferred, which has not shown yet what it is itself."""

    def __init__(
        self, half: Half, direction: Direction, waiting: list[Segment], has_markers: bool | None = None
    ) -> None:
        self.half = half
        self._has_markers = has_markers
        self.direction: Direction = direction
        self.waiting = waiting
        self.origin = waiting[0][SEQ] if waiting else half.origin or max(half.peer.ack, 0)
        self._octets = sum(seg[LENGTH] + PIECE_WEIGHT for seg in waiting)
        self._next_try = 2 * self._octets
        self._released = 0
        self._touched = False
        half.next_seq = -1

    @property
    def weight(self) -> int:
        """Octets of memory that what waits takes."""
        return self._octets

    def in_order(self, seg: Segment) -> bool:
        """No segment is taken at a glance."""
        return False

    def receive(self, seg: Segment) -> None:
        """Take any segment with payload."""
        if self.half.connection.begins_anew(self.half, seg):
            return
        if not self._touched:
            self._touched = True
            self.half.connection.receiver.touched.append(self)
        if not self.waiting:
            self.origin = seg[SEQ]
        self.waiting.append(seg)
        self._octets += seg[END] - seg[START] + PIECE_WEIGHT
        if self._octets >= self._next_try:
            self._next_try = 2 * self._octets
            self.decide(self._octets > _MOST_UNDECIDED)

    def decide(self, at_last: bool) -> None:
        """Begin Full Operation if what waits says enough; ``at_last``, with what is likeliest."""
        connection = self.half.connection
        mpa = connection.mpa
        assert mpa is not None
        waited = Waited(self.half)
        assumed = connection.receiver.assumptions
        start = waited.told_start()
        # That there is MPA is known: less will do.
        told = assumed.markers_of(self.direction) if self._has_markers is None else self._has_markers
        inferred = waited.infer(told, mpa.crc, FEWEST_HEADERS - 1)
        if inferred is not None and (inferred.bits < HALF_BITS or not (at_last or inferred.shows_markers)):
            inferred = None
        if inferred is not None or start is not None or at_last:
            enter(mpa, self.direction, waited, inferred, start, self._has_markers)

    def relieve(self, _now: tuple[int, int]) -> None:
        """Too much is held back in all: decide."""
        self.decide(at_last=True)

    def release(self) -> bool:
        """The block of the capture that segments lie in goes; nothing is left to go with the next one."""
        copies: dict[int, Segment] = {}
        for at in range(self._released, len(self.waiting)):
            self.waiting[at] = small_copy(self.waiting[at], copies)
        self._released = len(self.waiting)
        self._touched = False
        return False


class AdaptingHalf(UndecidedHalf):
    """What a Responder sends that may be an RDMAC RNIC: whether it holds Markers, its first octets show.

    An RDMAC RNIC sends Markers to whoever goes on after its Reply; the Initiator's M need not have asked for them
    (RFC 5044 appendix C.2.3, Figure 16).  ULPDU_Length is never zero, the first Marker is.
    """

    def __init__(
        self, half: Half, direction: Direction, waiting: list[Segment], seq_start: int, floor: tuple[int, int]
    ) -> None:
        super().__init__(half, direction, waiting)
        self._seq_start = seq_start
        self._floor = floor
        self._next_try = 0

    def decide(self, at_last: bool) -> None:
        """Begin Full Operation if its first octets are there; ``at_last``, without."""
        connection = self.half.connection
        mpa = connection.mpa
        assert mpa is not None
        stream = Stream(self._seq_start, True)
        for seg in self.waiting:
            start = stream.offset_of(seg[SEQ])
            stream.commit(seg, start, start + seg[END] - seg[START])
        if stream.next < MARKER_LENGTH and not at_last:
            return
        markers = stream.next >= MARKER_LENGTH and stream.read(0, MARKER_LENGTH) == bytes(MARKER_LENGTH)
        operation = connection.operation(mpa, self.direction, Stream(self._seq_start, True), markers, self._floor, 0)
        operation.replay(self.waiting)


def finish_undecided(half: Half) -> None:
    """Nothing more comes: begin Full Operation with what is there."""
    if isinstance(half.phase, UndecidedHalf):
        half.phase.decide(at_last=True)
        assert isinstance(half.phase, FullOperation)
