"""FPDUs of all half connections, as a receiver places them, become DDP Segments in the order of delivery.

As long as the FPDUs of a connection are delivered as they come, or soon after, their segments are reassembled at once.
One that was placed ahead waits until it is delivered. Behind octets that were never captured nothing is delivered any
more: what becomes of the segments there, is for a subclass to say.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from scapy_mpa.analyzer.connection import CapturedConnection, FullOperation
from scapy_mpa.framing.agreement import agreed
from scapy_mpa.framing.ddp import TAGGED_HEADER_LENGTH
from scapy_mpa.framing.fpdu import decode_fpdu
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH, MARKER_INTERVAL, MARKER_LENGTH, remove_markers
from scapy_mpa.framing.role import ROLES
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.messages.calls import LinkedConnection
from scapy_mpa.messages.times import FrameTimes
from scapy_mpa.rdmap.assembly import Assembly, ConnectionMessages, DDPSegment, MessageHalf, Writes
from scapy_mpa.rdmap.memory import UNKNOWN
from scapy_mpa.reading.listener import CaptureListener
from scapy_mpa.receiver.plain import PlainRun
from scapy_mpa.values.records import AFTER_ERROR, FPDURow
from scapy_mpa.values.segment import Segment

#: FPDUs placed ahead that one half connection keeps in memory.
_MOST_AHEAD = 1 << 14
#: The bits of ULPDU_Length in what a PlainRun has of each FPDU.
_ULPDU_LENGTH = 0xFFFF


class HalfReading:
    """A half connection while it is read."""

    __slots__ = ("_offsets", "ahead", "end", "half", "is_plain", "next_seq", "number")

    def __init__(self, half: MessageHalf, is_plain: bool) -> None:
        self.half = half
        #: Neither Markers nor a sender that deviates: the ULPDU is one run of octets.
        self.is_plain = is_plain
        #: What was placed and not delivered yet, or after such, by stream offset: octets of the FPDU, and its segment.
        self.ahead: dict[int, tuple[int, DDPSegment]] = {}
        #: A heap of their offsets.
        self._offsets: list[int] = []
        #: The sequence number of the next FPDU; the stream offset after the last one; how many there were.
        self.next_seq = -1
        self.end = 0
        self.number = 0

    def is_lowest(self, offset: int) -> bool:
        """Return True if nothing waits before an offset."""
        return not self._offsets or offset < self._offsets[0]

    def wait(self, offset: int, wire_length: int, segment: DDPSegment) -> None:
        """An FPDU has to wait."""
        if offset not in self.ahead:
            heappush(self._offsets, offset)
        self.ahead[offset] = wire_length, segment

    def deliver(self, offset: int, frame: int) -> Iterator[DDPSegment]:
        """An FPDU that waits is delivered; yields what need no longer wait, in the order of the stream."""
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


class MessageListener(CaptureListener):
    """Receives every FPDU, and has their segments reassembled.

    Attributes:
        assembly: puts them together.
        times: of the frames.
        acks: acknowledgement numbers of the frames.
        readings: the half connections.
    """

    assembly: Assembly
    times: FrameTimes
    acks: FrameTimes

    def begin(self) -> None:
        """Forget what was received."""
        super().begin()
        self.readings: dict[FullOperation, HalfReading] = {}
        self._connections: dict[int, LinkedConnection] = {}
        #: Those whose FPDUs are no longer delivered.
        self._gapped: set[int] = set()
        #: By the number of their half connection.
        self._operations: dict[int, FullOperation] = {}

    def see(self, segments: Sequence[Segment]) -> None:
        """Segments will be received next."""
        self.times.see(segments)
        self.acks.see(segments)

    # --- what the receiver tells ---

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        reading = self.readings.get(operation)
        if reading is None:
            reading = self._read_half(operation)
        seq, _, wire_length, ulpdu_length, _, flags, _, placed, delivered, time, _, first_frame = row
        number = reading.number
        reading.number = number + 1
        if not placed:
            return
        offset = reading.end if seq == reading.next_seq and delivered else operation.offset_of(seq)
        last_frame = frames[-1]
        if first_frame == last_frame == placed:
            first_time = time
        else:
            first_time = self.times.at(first_frame) or time
            if last_frame != placed:
                time = self.times.at(last_frame) or time
        if reading.is_plain:
            ulpdu = octets[LENGTH_FIELD_LENGTH : LENGTH_FIELD_LENGTH + ulpdu_length]
        else:
            ulpdu = _ulpdu_of(operation, row, octets, number)
        segment = DDPSegment(
            *(ulpdu, ulpdu_length, first_frame, last_frame, placed, delivered, first_time, time, flags >= AFTER_ERROR),
            *(len(octets) < wire_length, offset, offset + wire_length),
        )
        self._take(operation, reading, seq, segment)

    def placed_run(self, operation: FullOperation, run: PlainRun) -> None:
        """Receive RDMA Writes that were placed, each in one FPDU; their octets are not wanted."""
        reading = self.readings.get(operation)
        if reading is None:
            reading = self._read_half(operation)
        headers, lengths = run.headers, [one & _ULPDU_LENGTH for one in run.fpdus]
        count = len(lengths)
        reading.number += count
        error = operation.first_error
        is_next = run.is_delivered and operation.seq_of(run.offset) == reading.next_seq and error is None
        for first, behind, frame, time in zip(run.firsts, [*run.firsts[1:], count], run.frames, run.times, strict=True):
            if is_next:
                header = headers[first * TAGGED_HEADER_LENGTH : behind * TAGGED_HEADER_LENGTH]
                end = run.end_of(behind - 1)
                writes = Writes(bytes(header), lengths[first:behind], frame, time, run.starts[first], end)
                reading.pass_fpdu(operation.seq_of(end), end)
                self.assembly.take_writes(reading.half, writes)
                continue
            for index in range(first, behind):
                header = headers[index * TAGGED_HEADER_LENGTH : (index + 1) * TAGGED_HEADER_LENGTH]
                offset, end = run.starts[index], run.end_of(index)
                segment = DDPSegment(
                    *(bytes(header), lengths[index], frame, frame, frame, frame if run.is_delivered else 0, time, time),
                    *(error is not None and (frame, offset) > error, False, offset, end),
                )
                self._take(operation, reading, operation.seq_of(offset), segment)

    def _take(self, operation: FullOperation, reading: HalfReading, seq: int, segment: DDPSegment) -> None:
        """Put an FPDU's segment together with others, or let it wait; ``seq`` is the FPDU's sequence number."""
        delivered, offset, end = segment.delivered, segment.offset, segment.end
        wire_length = end - offset
        if seq == reading.next_seq and delivered:
            reading.pass_fpdu(seq + wire_length & SEQ_MASK, end)
            self.assembly.take(reading.half, segment)
            return
        connection = reading.half.connection
        if connection.serial in self._gapped:
            self._take_behind_gap(reading, offset, end, segment)
        elif delivered and reading.is_lowest(offset):
            if offset >= reading.end:
                reading.pass_fpdu(seq + wire_length & SEQ_MASK, end)
                self.assembly.take(reading.half, segment)
        else:
            reading.wait(offset, wire_length, segment)
            if operation.gapped or len(reading.ahead) > _MOST_AHEAD:
                self._give_up(connection)

    def delivered(self, operation: FullOperation, row: FPDURow) -> None:
        """An FPDU that was placed at an earlier frame is delivered now."""
        reading = self.readings[operation]
        offset = operation.offset_of(row.seq)
        half = reading.half
        if half.connection.serial in self._gapped:
            self._deliver_behind_gap(half, offset, row.delivered)
            return
        for segment in reading.deliver(offset, row.delivered):
            self.assembly.take(half, segment)

    def _read_half(self, operation: FullOperation) -> HalfReading:
        serial = self.serial(operation.mpa)
        connection = self._connections.get(serial)
        if connection is None:
            connection = self._connections[serial] = _connection(serial, operation.mpa)
            self.begun(connection)
        half = connection.halves[ROLES.index(operation.direction)]
        reading = self.readings[operation] = HalfReading(half, not operation.markers and operation.dialect is None)
        self._operations[half.half] = operation
        return reading

    def begun(self, connection: ConnectionMessages) -> None:
        """A connection has its first FPDU."""

    def acknowledged(self, half: MessageHalf, frame: int) -> int:
        """Return the stream offset up to which who sent a frame had received octets of the peer."""
        ack = self.acks.at(frame)
        if not ack:
            return UNKNOWN  # such as of octets without packets
        peer = half.peer
        return self._operations[half.half].mpa.acknowledged_offset(peer.half & 1, ack, peer.taken)

    def _give_up(self, connection: ConnectionMessages) -> None:
        """Stop delivering: nothing of a connection waits for delivery from now on."""
        self._gapped.add(connection.serial)
        for reading in self.readings.values():
            if reading.half.connection is connection:
                for offset, end, segment in reading.give_up():
                    self._take_behind_gap(reading, offset, end, segment)

    @abstractmethod
    def _take_behind_gap(self, reading: HalfReading, offset: int, end: int, segment: DDPSegment) -> None:
        """A segment, from one stream offset to another, of a connection with nothing left to deliver."""

    @abstractmethod
    def _deliver_behind_gap(self, half: MessageHalf, offset: int, frame: int) -> None:
        """Deliver what :meth:`_take_behind_gap` received for a stream offset after all."""


def _connection(serial: int, mpa: CapturedConnection) -> LinkedConnection:
    request = mpa.request.startup if mpa.request is not None else None
    reply = mpa.reply.startup if mpa.reply is not None else None
    depths = None
    if request is not None and reply is not None:
        depths = agreed(request, reply, mpa.responder_port).depths
    limits = (depths.initiator_ord, depths.responder_ord) if depths is not None else (None, None)
    return LinkedConnection(serial, request, reply, mpa.responder_port, limits)


def _ulpdu_of(operation: FullOperation, row: FPDURow, octets: bytes, number: int) -> bytes:
    """The ULPDU of an FPDU with Markers, or of a sender that deviates."""
    offset = operation.offset_of(row.seq)
    dialect = operation.dialect
    if dialect is not None:
        due = dialect.due_behind(offset, number)
        found = decode_fpdu(octets, offset, check_crc=False, dialect=dialect, due=due)
        if found is not None and found.wire_length != len(octets):
            found = None  # its sender had not deviated yet
    else:
        phase = offset % MARKER_INTERVAL
        found = decode_fpdu(octets, None if 0 < phase < MARKER_LENGTH else phase, check_crc=False)
        if found is None:  # the capture cut it
            octets = remove_markers(octets, offset)
    if found is None:
        return octets[LENGTH_FIELD_LENGTH : LENGTH_FIELD_LENGTH + row.ulpdu_length]
    return found.ulpdu
