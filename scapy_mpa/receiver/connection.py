"""An MPA connection: its startup frames, and the FPDUs of both directions (RFC 5044 §7.1, RFC 6581).

In: what a :class:`~scapy_mpa.stream.connection.TCPConnection` received.  Out: startup frames, and a reader of FPDUs for
each direction.  The Initiator is who sent the Request, which need not be who sent the SYN.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from scapy_mpa.framing.agreement import is_rdmac
from scapy_mpa.framing.markers import LONGEST_FPDU
from scapy_mpa.framing.senders import Bases
from scapy_mpa.framing.startup import KEY_LENGTH, REPLY_KEY, REQUEST_KEY
from scapy_mpa.infer.inference import FEWEST_HEADERS, HALF_BITS, Budget
from scapy_mpa.receiver.deviation import DeviationSearch, Diagnosis, DiagnosisBudget
from scapy_mpa.receiver.fpdus import FPDUReader
from scapy_mpa.receiver.inference import Beginning, beginning_of, infer_both, infer_half, markers_at
from scapy_mpa.receiver.startup import FoundFrame, KeySearch
from scapy_mpa.receiver.values import Moment
from scapy_mpa.receiver.window import Layout
from scapy_mpa.stream.connection import Arrival, TCPConnection, TCPHalf
from scapy_mpa.stream.drop_reason import LARGEST_WINDOW
from scapy_mpa.values.limits import Limits
from scapy_mpa.values.segment import Segment

#: Segments of a connection after which octets are old: so far a capture may have them out of order.  Without ACKs, of
#: segments reordered over 300, 64 lose 22 % of the FPDUs, 256 0.1 %, 1,024 none.
PATIENCE: Final = 1024
#: Nanoseconds after which octets are old.  What was lost was sent again before: RTO begins at 1 s (RFC 6298 §2) and
#: doubles.
PATIENCE_TIME: Final = 3_000_000_000
#: Octets of both directions at which FPDUs are first looked for where there is no startup frame; then at each doubling.
FIRST_LOOK: Final = 1 << 13
#: Octets after which no CRC in use is believed, as it goes: two of the longest FPDUs.
ENOUGH_WITHOUT_CRC: Final = 2 * LONGEST_FPDU
#: Octets without startup frame or FPDUs after which a connection is taken for another protocol's.
MOST_LOOKED_AT: Final = 1 << 18


class ConnectionReader:
    """A TCP connection that carries MPA, or may.

    Args:
        connection: the TCP connection.
        limits: how much is held at most.
        budget: how long octets may be searched at every place.
        diagnosis_budget: how much may be read and held to find out what senders do wrong.

    Attributes:
        frames: the startup frame of each direction, None if it was not found.
        initiator: the direction in which the Initiator sends, None if it is not known.
        readers: the reader of each direction, None before Full Operation.
        arrivals: the segments of each direction with octets of Full Operation, for the owner to take.
        rejected: True if the Reply rejects the connection.
        inferred: True if something that a startup frame tells had to be inferred.
        diagnoses: what the sender of each direction does wrong, None if it does nothing.
    """

    __slots__ = (
        "_adapting", "_budget", "_deviations", "_diagnosis_budget", "_few", "_is_other", "_limits", "_next_look",
        "_recent", "_searches", "arrivals",
        "connection", "diagnoses", "frames", "inferred", "initiator", "readers", "rejected",
    )  # fmt: skip

    def __init__(
        self, connection: TCPConnection, limits: Limits, budget: Budget, diagnosis_budget: DiagnosisBudget
    ) -> None:
        self.connection = connection
        self.frames: list[FoundFrame | None] = [None, None]
        self.initiator: int | None = None
        self.readers: list[FPDUReader | None] = [None, None]
        self.rejected = self.inferred = False
        self.arrivals: list[list[Arrival]] = [[], []]
        self._searches = [KeySearch(half) for half in connection.halves]
        self._limits = limits
        #: Octets that no limit forbids, as many as pieces may be.
        self._few = min(limits.held_octets, limits.held_segments)
        self._budget = budget
        self._diagnosis_budget = diagnosis_budget
        self._deviations: list[DeviationSearch | None] = [None, None]
        self.diagnoses: list[Diagnosis | None] = [None, None]
        #: The direction in which an RDMAC RNIC sends: maybe Markers that nobody asked for (RFC 5044, figure 14).
        self._adapting = -1
        self._recent: deque[int] = deque(maxlen=PATIENCE)
        self._next_look = FIRST_LOOK
        self._is_other = False

    @property
    def is_mpa(self) -> bool:
        """True once a startup frame was found or FPDUs were inferred."""
        return self.initiator is not None or self.frames != [None, None]

    def is_begun_anew_by(self, seg: Segment) -> bool:
        """Return True if a segment that fits no connection begins another one, whose SYN was not captured."""
        octets = bytes(seg.buffer[seg.start : min(seg.end, seg.start + KEY_LENGTH)])
        return octets in (REQUEST_KEY, REPLY_KEY) or not self.is_mpa or self.connection.is_closed

    @property
    def first_frame(self) -> int:
        """The frame by which connections are numbered: of the Request, else of the Reply, else of the first octets."""
        frames = (
            self.frames if self.initiator is None else [self.frames[self.initiator], self.frames[1 - self.initiator]]
        )
        found = next((one.frame for one in frames if one is not None), None)
        return min(half.first_frame for half in self.connection.halves) if found is None else found

    def receive(self, d: int, frame: int, time: int) -> None:
        """Read on, after the TCP connection received a segment in direction ``d``."""
        connection = self.connection
        arrival = connection.arrival
        reader, other = self.readers[d], self.readers[1 - d]
        if other is not None and connection.advanced:
            other.acknowledge()
        if reader is not None:
            self._recent.append(frame)
            if arrival is not None:
                self.arrivals[d].append(arrival)
                reader.receive(arrival.start, arrival.end)
            for direction, search in enumerate(self._deviations):
                if search is not None:
                    diagnosis = search.update(frame)
                    if diagnosis is not None or not search.is_open:
                        self._replace_reader(direction, diagnosis)
            for one in self.readers:
                if one is not None and one.half.copies.held:
                    self._give_up(one, (frame, time))
        elif arrival is not None and not self.rejected:
            if len(self.arrivals[d]) < self._limits.held_segments:
                self.arrivals[d].append(arrival)
            self._search(d, arrival.start, arrival.end)

    def _give_up(self, reader: FPDUReader, now: Moment) -> None:
        """Give up a hole that nothing will fill any more; a limit gives up what is held too long."""
        half, held = reader.half, reader.half.copies.held
        if held > self._few and (held > self._limits.held_octets or len(half.copies) > self._limits.held_segments):
            search = self._deviations[self.readers.index(reader)]
            if search is not None:
                search.close()
            else:
                reader.relieve()
            return
        if half.copies.end <= reader.main.edge and not reader.main.waits:
            return
        old_frame = self._recent[0] if len(self._recent) == PATIENCE else -1
        since, peer = now[1] - PATIENCE_TIME, half.peer
        if peer.last_ack_sent is not None and (peer.right_edge is None or half.believed <= peer.right_edge):
            # The peer's ACKs are captured: what it has not acknowledged may still be sent again.
            if not reader.main.waits and half.copies.next_start(reader.main.edge) <= peer.last_ack_sent:
                reader.give_up(now, lambda frame, when: frame <= old_frame or when <= since)
        else:
            reader.give_up(now, lambda frame, when: frame <= old_frame and when <= since)

    # --- startup ---

    def _search(self, d: int, start: int, end: int) -> None:
        half = self.connection.halves[d]
        if self.frames[d] is None:
            found = self._searches[d].receive(start, end)
            if found is not None:
                self.frames[d] = found
                self._agree()
        if self.initiator is None and not self._is_other:
            held = sum(one.copies.held for one in self.connection.halves)
            if held >= self._next_look:
                self._next_look = 2 * held
                if self.frames == [None, None]:
                    self._infer(is_over=False)
                    if self.initiator is None and held >= MOST_LOOKED_AT:
                        self._is_other = True
        elif self.inferred and half.copies.held >= self._next_look:
            self._next_look = 2 * half.copies.held
            self._infer_other(d, is_over=False)
        copies, limits = half.copies, self._limits
        if self._is_other or self.rejected:
            # Only a startup frame at its beginning can still make it MPA's.
            half.forget(end)
        while self.readers[d] is None and (copies.held > limits.held_octets or len(copies) > limits.held_segments):
            half.forget(copies.middle)

    def _agree(self) -> None:
        """Begin Full Operation once both startup frames are known (RFC 5044 §7.1.1, §7.1.2)."""
        first, second = self.frames
        if first is None or second is None or self.initiator is not None:
            return
        kinds = [first.startup.kind, second.startup.kind]
        if sorted(kinds) != ["reply", "request"]:
            return
        self.initiator = kinds.index("request")
        request, reply = (first, second) if self.initiator == 0 else (second, first)
        if reply.startup.r:
            self.rejected = True
            return
        crc = bool(request.startup.c or reply.startup.c)
        startup = max((request.frame, request.time), (reply.frame, reply.time))
        if request.startup.rev and not request.startup.m and is_rdmac(reply.startup):
            self._adapting = 1 - self.initiator
        # M asks for Markers in what its sender receives.
        for d, markers in ((self.initiator, reply.startup.m), (1 - self.initiator, request.startup.m)):
            found = self.frames[d]
            assert found is not None
            self._begin(d, Beginning(found.end, 0, Layout(bool(markers), crc), True), startup)
        for reader in self.readers:
            assert reader is not None
            reader.begin()

    def _begin(self, d: int, beginning: Beginning, startup: Moment) -> None:
        half = self.connection.halves[d]
        half.count_from(beginning.origin)
        self.arrivals[d] = [
            one._replace(start=one.start - beginning.origin, end=one.end - beginning.origin)
            for one in self.arrivals[d]
            if one.end > beginning.origin
        ]
        reader = FPDUReader(half, beginning.layout, startup, beginning.begins_at, beginning.is_beginning)
        self.readers[d] = reader
        if beginning.is_beginning:
            frame = self.frames[d]
            length = frame.end - frame.start if frame is not None else None
            # The SYN has the sequence number before that of the first octet.
            bases = Bases(None if half.start is None else 1 - half.start, length)
            self._deviations[d] = DeviationSearch(reader, bases, self._diagnosis_budget, self._limits)

    def _replace_reader(self, d: int, diagnosis: Diagnosis | None) -> None:
        """Let the FPDUs of a direction be read from the first octet on as its sender lays them, if it deviates."""
        search, before = self._deviations[d], self.readers[d]
        assert search is not None
        assert before is not None
        if diagnosis is not None:
            before.replaced = True
            before.half.read_again(0)
            if d == self._adapting and diagnosis.candidate.name == "markers-not-asked":
                reader = FPDUReader(before.half, Layout(True, before.layout.crc), before.startup)
            else:
                self.diagnoses[d] = diagnosis
                reader = FPDUReader(before.half, diagnosis.layout, before.startup)
                if diagnosis.anomaly.code is not None:
                    reader.first_error = diagnosis.anomaly.frame, diagnosis.anomaly.offset
            self.readers[d] = reader
            search.close()
            reader.begin()
        if not search.is_open:
            self._deviations[d] = None

    # --- startup frames that were not captured ---

    def _infer(self, is_over: bool) -> None:
        """Begin Full Operation without startup frames, if octets show it; who sent first is the Initiator."""
        halves = self.connection.halves
        found, crc = infer_both(halves, self._budget)
        if not any(found):
            return
        if not is_over and not crc and sum(half.copies.held for half in halves) < ENOUGH_WITHOUT_CRC:
            return
        self.initiator = min((0, 1), key=lambda d: halves[d].first_frame)
        self.inferred, self._next_look = True, FIRST_LOOK
        for d, inferred in enumerate(found):
            if inferred is not None:
                self._begin(d, beginning_of(halves[d], inferred), (0, 0))
        for d, reader in enumerate(self.readers):
            if reader is not None:
                reader.begin()
            elif len(halves[d].copies):
                self._infer_other(d, is_over)

    def _infer_other(self, d: int, is_over: bool) -> None:
        """Begin a direction that showed too little of its own when the other began, if its octets show enough now."""
        half, peer, asking = self.connection.halves[d], self.readers[1 - d], self.frames[1 - d]
        assert peer is not None
        crc, markers = peer.layout.crc, bool(asking.startup.m) if asking is not None else None
        inferred = infer_half(half, self._budget, markers, crc, FEWEST_HEADERS - 1)
        if inferred is not None and inferred.bits >= HALF_BITS and (is_over or inferred.shows_markers):
            self._begin(d, beginning_of(half, inferred), (0, 0))
        elif is_over and (markers is False or (crc and markers is None)):
            # Without Markers, a CRC, or what DDP sends, tells where FPDUs are.
            first = half.copies.start
            self._begin(d, Beginning(first - LARGEST_WINDOW, LARGEST_WINDOW, Layout(False, crc), False), (0, 0))
        reader = self.readers[d]
        if reader is not None:
            reader.begin()

    def _infer_from_one(self, d: int) -> None:
        """Begin Full Operation with the startup frame of one direction alone."""
        found = self.frames[d]
        assert found is not None
        half, other = self.connection.halves[d], self.connection.halves[1 - d]
        is_request = found.startup.kind == "request"
        self.initiator, self.inferred = d if is_request else 1 - d, True
        if found.startup.r and not is_request:
            self.rejected = True
            return
        layout = markers_at(half, found.end, self._budget, bool(found.startup.c) or None)
        startup = found.frame, found.time
        begin_other = self._start_of_other(d, other)
        if begin_other is not None:
            there = markers_at(other, begin_other, self._budget, layout.crc or None)
            crc = layout.crc or there.crc
            self._begin(1 - d, Beginning(begin_other, 0, Layout(bool(found.startup.m), crc), True), startup)
            layout = layout._replace(crc=crc)
        elif len(other.copies):
            inferred = infer_half(other, self._budget, bool(found.startup.m), layout.crc or None)
            if inferred is not None and inferred.confirmations:
                layout = layout._replace(crc=inferred.crc)
                self._begin(1 - d, beginning_of(other, inferred), startup)
        self._begin(d, Beginning(found.end, 0, layout, True), startup)
        for reader in self.readers:
            if reader is not None:
                reader.begin()

    def _start_of_other(self, d: int, other: TCPHalf) -> int | None:
        """Return where Full Operation of the direction without startup frame begins, None if that is not known.

        The Responder acknowledged the whole Request before it sent its Reply.
        """
        found = self.frames[d]
        assert found is not None
        if found.startup.kind == "request":
            return None
        return other.peer.acked_by(found.frame)

    # --- the end ---

    def finish(self) -> None:
        """Nothing more comes."""
        halves = self.connection.halves
        if self.initiator is None:
            for d, half in enumerate(halves):
                for start, end in list(half.copies.runs()) if self.frames[d] is None else ():
                    self.frames[d] = self.frames[d] or self._searches[d].receive(start, end, is_over=True)
            self._agree()
        if self.initiator is None:
            one = next((d for d in (0, 1) if self.frames[d] is not None), None)
            if one is None and not self._is_other:
                self._infer(is_over=True)
            elif one is not None and self.frames[1 - one] is None:
                self._infer_from_one(one)
        for d, reader in enumerate(self.readers):
            if reader is None and self.readers[1 - d] is not None and len(halves[d].copies):
                self._infer_other(d, is_over=True)
        for reader in self.readers:
            if reader is not None:
                reader.finish()
        for d, search in enumerate(self._deviations):
            if search is not None:
                before = self.readers[d]
                self._replace_reader(d, search.finish())
                reader = self.readers[d]
                if reader is not None and reader is not before:
                    reader.finish()
