"""Reads a capture and yields its messages, in memory that does not follow the capture.

As long as the FPDUs of a connection are delivered as they come, or soon after, their segments are put together at once.
One that was placed ahead waits until it is delivered.  Behind octets that were never captured nothing is delivered any
more: from there on all of a connection goes into files, and is put together at the end, in the order of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import TypeAlias, cast

from scapy_mpa.capture.named import CaptureSource
from scapy_mpa.framing.agreement import agreed
from scapy_mpa.framing.dialect import decode_spoken
from scapy_mpa.framing.fpdu import LENGTH_FIELD_LENGTH, decode_fpdu
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.messages.assembly import DEFAULT_HELD, Assembly, ConnectionMessages, DDPSegment, MessageHalf
from scapy_mpa.messages.row import MessageRow, row_of
from scapy_mpa.messages.store import MessageStore
from scapy_mpa.messages.times import FrameTimes
from scapy_mpa.receive.mpa import CapturedConnection
from scapy_mpa.receive.operation import FullOperation
from scapy_mpa.receive.receiver import Receiver
from scapy_mpa.report.analysis import EVERYTHING, Selection
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import DIRECTIONS
from scapy_mpa.report.model import Report
from scapy_mpa.tcp.half import Direction
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.records import AFTER_ERROR, FPDURow
from scapy_mpa.values.segment import Segment
from scapy_mpa.wireshark.listener import Listener
from scapy_mpa.wireshark.spill import OctetStore, Sorted

#: FPDUs placed ahead that one half connection keeps in memory.
_MOST_AHEAD = 1 << 14
#: Octets of a ULPDU that are looked at where its payload is not wanted: DDP's header, and what an upper layer needs.
_LOOKED_AT = 18 + 4096

_Plain: TypeAlias = "tuple[object, ...]"
#: (connection, direction, stream offset, 0, where it ends, place and number of its octets, the rest of a DDPSegment),
#: or, of one that was delivered later than it came, (connection, direction, stream offset, 1, frame).
_Event: TypeAlias = "tuple[int, int, int, int, int, int, int, _Plain] | tuple[int, int, int, int, int]"
#: (turn, connection, direction, stream offset, place and number of its octets, the rest of a DDPSegment).
_Turn: TypeAlias = "tuple[int, int, int, int, int, int, _Plain]"


class _Reading:
    """A half connection while it is read."""

    __slots__ = ("_offsets", "ahead", "end", "half", "is_plain", "next_seq", "number")

    def __init__(self, half: MessageHalf, is_plain: bool) -> None:
        self.half = half
        #: Neither Markers nor a sender that deviates: the ULPDU is one run of octets.
        self.is_plain = is_plain
        #: What was placed and not delivered yet, or behind such, by stream offset: octets of the FPDU, and its segment.
        self.ahead: dict[int, tuple[int, DDPSegment]] = {}
        #: A heap of their offsets.
        self._offsets: list[int] = []
        #: The sequence number of the next FPDU; the stream offset behind the last one; how many there were.
        self.next_seq = -1
        self.end = 0
        self.number = 0

    def is_lowest(self, offset: int) -> bool:
        """Whether nothing waits before an offset."""
        return not self._offsets or offset < self._offsets[0]

    def wait(self, offset: int, wire_length: int, segment: DDPSegment) -> None:
        """An FPDU has to wait."""
        if offset not in self.ahead:
            heappush(self._offsets, offset)
        self.ahead[offset] = wire_length, segment

    def deliver(self, offset: int, frame: int) -> Iterator[DDPSegment]:
        """An FPDU that waits is delivered; yields what need not wait any more, in the order of the stream."""
        there = self.ahead.get(offset)
        if there is not None:
            self.ahead[offset] = there[0], there[1]._replace(delivered=frame)
        while self._offsets and self.ahead[self._offsets[0]][1].delivered:
            first = heappop(self._offsets)
            wire_length, segment = self.ahead.pop(first)
            if first >= self.end:
                self.pass_fpdu(-1, first + wire_length)
                yield segment

    def give_up(self) -> Iterator[tuple[int, int, DDPSegment]]:
        """Yield all that waits: offset, end and segment of each."""
        for offset, (wire_length, segment) in self.ahead.items():
            yield offset, offset + wire_length, segment
        self.ahead.clear()
        self._offsets.clear()

    def pass_fpdu(self, next_seq: int, end: int) -> None:
        """An FPDU was taken; the next one has this sequence number, and this one ended at that offset."""
        self.next_seq, self.end = next_seq, end


class CapturedMessages(Listener):
    """Reads a capture, or several merged by time; then iterating yields its messages, as often as one likes.

    ``report`` is the report without FPDUs: only messages of the connections that are left in it are yielded, of these
    ``directions``, and of these upper layers. ``store`` makes what the messages are put into, where not all of them are
    asked for. Use as a context manager. Raises as :func:`scapy_mpa.analyze` does, and
    OSError if a temporary file cannot be written.

    Attributes:
        messages: what is known of the messages of each connection of the report, by its number.
    """

    def __init__(
        self,
        capture: CaptureSource | Sequence[CaptureSource],
        *,
        payload: bool = False,
        held: int = DEFAULT_HELD,
        store: Callable[[], MessageStore] = MessageStore,
        directions: Sequence[Direction] = DIRECTIONS,
        protocols: Sequence[str] = (),
        selection: Selection = EVERYTHING,
        assumptions: Assumptions = NOTHING,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._wants_payload = payload
        self._held = held
        self._directions = directions
        self._protocols = protocols
        self._make_store = store
        self._store, self._octets = store(), OctetStore()
        self._times = FrameTimes()
        self._spilled_octets, self._events = OctetStore(), cast("Sorted[_Event]", Sorted())
        super().__init__()
        try:
            self.read(capture, selection, assumptions, limits)
            self._take_spilled()
            self._assembly.finish()
        except BaseException:
            self.close()
            raise
        self.messages = {
            there.number: self._connections[serial]
            for serial, there in enumerate(self.connections)
            if there is not None and serial in self._connections
        }
        for connection in self._connections.values():
            for half in connection.halves:
                half.requests.under_way.finish()

    # --- what Listener asks for ---

    def begin(self) -> None:
        """Forget what was heard."""
        super().begin()
        self.close()
        self._store, self._octets, self._times = self._make_store(), OctetStore(), FrameTimes()
        self._spilled_octets, self._events = OctetStore(), Sorted()
        self._assembly = Assembly(self._store, self._octets if self._wants_payload else None, self._held)
        self._connections: dict[int, ConnectionMessages] = {}
        self._readings: dict[FullOperation, _Reading] = {}
        #: Those whose FPDUs go into files.
        self._spilled: set[int] = set()
        self._now: tuple[int, ...] = ()
        #: The frame of the first error of each half connection.
        self._errors: dict[int, int] = {}

    def __enter__(self) -> CapturedMessages:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop what waits in files."""
        for one in (self._store, self._octets, self._times, self._spilled_octets, self._events):
            one.close()

    def see(self, segments: Sequence[Segment]) -> None:
        """Segments will be received next."""
        self._times.see(segments)

    def sink(self, _operation: FullOperation, _row: FPDURow, frames: tuple[int, ...]) -> None:
        """Take the frames of what :meth:`placed` is handed next."""
        self._now = frames

    def connect(self, receiver: Receiver, report: Report) -> None:
        """The capture has been read."""
        super().connect(receiver, report)
        for operation, reading in self._readings.items():
            if operation.first_error is not None:
                self._errors[reading.half.half] = operation.first_error[0]
            if reading.ahead:
                self._spill(reading.half.connection)

    # --- what the receiver tells ---

    def placed(self, operation: FullOperation, row: FPDURow, octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        reading = self._readings.get(operation)
        if reading is None:
            reading = self._read_half(operation)
        seq, _, wire_length, ulpdu_length, _, flags, _, placed, delivered, time, _, first_frame = row
        number = reading.number
        reading.number = number + 1
        if not placed:
            return
        frames = self._now
        last_frame = frames[-1]
        if first_frame == last_frame == placed:
            first_time = time
        else:
            first_time = self._times.at(first_frame) or time
            if last_frame != placed:
                time = self._times.at(last_frame) or time
        if reading.is_plain:
            ulpdu = octets[LENGTH_FIELD_LENGTH : LENGTH_FIELD_LENGTH + ulpdu_length]
        else:
            ulpdu = _ulpdu_of(operation, row, octets, number)
        segment = DDPSegment(
            ulpdu, ulpdu_length, first_frame, last_frame, placed, delivered, first_time, time, flags >= AFTER_ERROR
        )
        if seq == reading.next_seq and delivered:
            reading.pass_fpdu(seq + wire_length & SEQ_MASK, reading.end + wire_length)
            self._assembly.take(reading.half, segment)
            return
        offset = operation.reassembly.offset_of(seq)
        connection = reading.half.connection
        if connection.serial in self._spilled:
            self._keep(reading, offset, offset + wire_length, segment)
        elif delivered and reading.is_lowest(offset):
            if offset >= reading.end:
                reading.pass_fpdu(seq + wire_length & SEQ_MASK, offset + wire_length)
                self._assembly.take(reading.half, segment)
        else:
            reading.wait(offset, wire_length, segment)
            if operation.gapped or len(reading.ahead) > _MOST_AHEAD:
                self._spill(connection)

    def delivered(self, operation: FullOperation, row: FPDURow) -> None:
        """An FPDU that was placed at an earlier frame is delivered now."""
        reading = self._readings[operation]
        offset = operation.reassembly.offset_of(row.seq)
        half = reading.half
        if half.connection.serial in self._spilled:
            self._events.add((half.connection.serial, half.half & 1, offset, 1, row.delivered))
            return
        for segment in reading.deliver(offset, row.delivered):
            self._assembly.take(half, segment)

    def _read_half(self, operation: FullOperation) -> _Reading:
        serial = self.serial(operation.mpa)
        connection = self._connections.get(serial)
        if connection is None:
            connection = self._connections[serial] = _connection(serial, cast(CapturedConnection, operation.mpa))
        half = connection.halves[DIRECTIONS.index(operation.direction)]
        reading = self._readings[operation] = _Reading(half, not operation.markers and operation.dialect is None)
        return reading

    # --- what cannot be put together yet ---

    def _spill(self, connection: ConnectionMessages) -> None:
        """From now on all of a connection goes into files."""
        self._spilled.add(connection.serial)
        for reading in self._readings.values():
            if reading.half.connection is connection:
                for offset, end, segment in reading.give_up():
                    self._keep(reading, offset, end, segment)

    def _keep(self, reading: _Reading, offset: int, end: int, segment: DDPSegment) -> None:
        half = reading.half
        if offset < reading.end:
            return
        wanted = segment.ulpdu if self._wants_payload else segment.ulpdu[:_LOOKED_AT]
        place = self._spilled_octets.keep(wanted)
        plain = tuple(segment[1:])
        self._events.add((half.connection.serial, half.half & 1, offset, 0, end, place, len(wanted), plain))

    def _take_spilled(self) -> None:
        """Put together what went into files, in the order of delivery."""
        if not self._spilled:
            return
        turns: Sorted[_Turn] = Sorted()
        try:
            for turn in self._in_stream_order():
                turns.add(turn)
            for _, serial, side, _, place, length, plain in turns:
                half = self._connections[serial].halves[side]
                segment = DDPSegment._make((self._spilled_octets.at(place, length), *plain))
                self._assembly.take(half, segment)
        finally:
            turns.close()
            self._events.close()

    def _in_stream_order(self) -> Iterator[_Turn]:
        """The turns, half connection by half connection: each when it and all before it were complete."""
        half: tuple[int, int] | None = None
        turn = last_end = 0
        last: _Turn | None = None
        for event in self._events:
            if len(event) == 5:
                if last is not None and last[1:4] == event[:3]:
                    segment = DDPSegment._make((b"", *last[6]))._replace(delivered=event[4])
                    last = (*last[:6], tuple(segment[1:]))
                continue
            serial, side, offset, _, end, place, length, plain = event
            if (serial, side) != half:
                half, turn, last_end = (serial, side), 0, offset
            if last is not None and last[1:4] == event[:3]:
                last = None  # its octets had been withdrawn, and came again
            elif offset < last_end:
                continue
            if last is not None:
                yield last
            turn = max(turn, DDPSegment._make((b"", *plain)).placed)
            last_end = end
            last = turn, serial, side, offset, place, length, plain
        if last is not None:
            yield last

    # --- what is yielded ---

    @property
    def store(self) -> MessageStore:
        """What the messages were put into."""
        return self._store

    def __iter__(self) -> Iterator[MessageRow]:
        """Yield the messages in the order of delivery; those never delivered come behind all others."""
        shown = self.shown_halves()
        for values in self._store:
            half = values.half
            number = shown.get(half)
            if number is None:
                continue
            payload = None
            if values.payload is not None:
                payload = self._octets.at(*values.payload)
            yield row_of(values, number, DIRECTIONS[half & 1], self._errors.get(half), payload)

    def shown_halves(self) -> dict[int, int]:
        """The half connections that are yielded, and the number of their connection."""
        left = {id(connection) for connection in self.report.connections}
        found = {}
        for serial, connection in enumerate(self.connections):
            if connection is None or id(connection) not in left or serial not in self._connections:
                continue
            if self._protocols and self._connections[serial].upper.name not in self._protocols:
                continue
            for direction in self._directions:
                found[2 * serial + DIRECTIONS.index(direction)] = connection.number
        return found

    @property
    def shown(self) -> list[tuple[Connection, ConnectionMessages]]:
        """The connections of which messages are yielded."""
        numbers = {*self.shown_halves().values()}
        return [(one, self.messages[one.number]) for one in self.report.connections if one.number in numbers]


def _connection(serial: int, mpa: CapturedConnection) -> ConnectionMessages:
    request = mpa.request.startup if mpa.request is not None else None
    reply = mpa.reply.startup if mpa.reply is not None else None
    depths = None
    if request is not None and reply is not None:
        depths = agreed(request, reply, mpa.responder_port).depths
    limits = (depths.initiator_ord, depths.responder_ord) if depths is not None else (None, None)
    return ConnectionMessages(serial, request, reply, mpa.responder_port, limits)


def _ulpdu_of(operation: FullOperation, row: FPDURow, octets: bytes, number: int) -> bytes:
    """The ULPDU of an FPDU with Markers, or of a sender that deviates."""
    offset = operation.reassembly.offset_of(row.seq)
    dialect = operation.dialect
    if dialect is not None:
        found = decode_spoken(dialect, octets, offset, dialect.due_behind(offset, number))
    else:
        phase = offset % MARKER_INTERVAL
        found = decode_fpdu(octets, None if 0 < phase < MARKER_LENGTH else phase, check_crc=False)
    if found is None:
        return octets[LENGTH_FIELD_LENGTH : LENGTH_FIELD_LENGTH + row.ulpdu_length]
    return found.ulpdu
