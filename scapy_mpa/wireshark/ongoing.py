"""Wireshark's view of an ongoing capture: the ULPDUs, or the same connections without Markers.

In: startup frames and FPDUs, as a receiver finds them, and the segments that bring them. Out: packets of a pcapng
file, as :mod:`~scapy_mpa.wireshark.export` and :mod:`~scapy_mpa.wireshark.strip` make them, as soon as they are known.
What is read once is what a receiver that conforms finds: nothing is known about a sender that deviates.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from operator import itemgetter
from typing import Final

from scapy_mpa.analyzer.connection import CapturedConnection, FullOperation, Listener
from scapy_mpa.craft.pcapngfile import CutPacket
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.sequence import seq_add
from scapy_mpa.rdmap.assembly import DEFAULT_HELD
from scapy_mpa.reading.found import located_fpdu
from scapy_mpa.receiver.startup import FoundFrame
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.limits import DEFAULT_LIMITS
from scapy_mpa.values.records import FPDURow
from scapy_mpa.values.segment import PATH_MTU, SYN, Segment
from scapy_mpa.wireshark.export import exported
from scapy_mpa.wireshark.strip import ConnectionSent, HalfSent, IPPacket
from scapy_mpa.wireshark.unmarked import Unmarked

#: Half connections whose SYN is kept until it shows whether they carry MPA: as many as the receiver keeps.
_MOST_OPENING: Final = 2 * DEFAULT_LIMITS.connections
#: Octets of FPDUs of a half connection that wait for others before them: as many as of messages that wait for theirs.
_MOST_HELD: Final = DEFAULT_HELD


class _Found(NamedTuple):
    """An FPDU, and the frame that placed it, or completed it if its CRC is bad."""

    frame: int
    operation: FullOperation
    row: FPDURow
    octets: bytes


class OngoingULPDUs(Listener):
    """ULPDUs in the order of placement, as exported PDUs.

    Args:
        is_wanted: whether an FPDU of a connection and a direction, placed at a frame and a time, is to be written.

    Attributes:
        bad: FPDUs that were left out because their CRC is bad.
    """

    def __init__(self, is_wanted: Callable[[int, Role, int, int], bool]) -> None:
        self._is_wanted = is_wanted
        self._found: list[_Found] = []
        self.bad = 0

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        self._found.append(_Found(row.placed or frames[-1], operation, row, octets))

    def take(self) -> Iterator[CutPacket]:
        """Yield the ULPDUs of what was placed since the last time."""
        found, self._found = sorted(self._found, key=itemgetter(0)), []
        for frame, operation, row, octets in found:
            number, direction = operation.mpa.number, operation.direction
            if operation.is_replaced or not self._is_wanted(number, direction, frame, row.time):
                continue
            if not row.placed:
                self.bad += 1
                continue
            offset = operation.offset_of(row.seq)
            fpdu = located_fpdu(octets, offset, operation.markers, row.ulpdu_length, row.wire_length)
            yield exported(operation.key, row.placed, row.time, fpdu)


class _Stream:
    """The FPDUs of one direction, put into the order of the stream."""

    def __init__(self, operation: FullOperation) -> None:
        self.operation = operation
        #: By stream offset; a number tells those of the same offset apart.
        self._waiting: list[tuple[int, int, FPDURow, bytes]] = []
        self._held = self._count = 0
        #: The offset after the last FPDU that was sent; None before the first one of a stream joined in the middle.
        self._end: int | None = 0 if operation.reader.is_beginning else None

    def add(self, found: _Found) -> None:
        """Take one in."""
        self._count += 1
        self._held += len(found.octets)
        heappush(self._waiting, (self.operation.offset_of(found.row.seq), self._count, found.row, found.octets))

    def ready(self, *, is_over: bool = False) -> Iterator[tuple[int, FPDURow, bytes]]:
        """Yield those whose turn it is: nothing before them is missing, or it will not come, or too much waits."""
        waiting = self._waiting
        while waiting:
            offset = waiting[0][0]
            must_go = is_over or self.operation.gapped or self._held > _MOST_HELD
            if self._end is not None and offset > self._end and not must_go:
                return
            _, _, row, octets = heappop(waiting)
            self._held -= len(octets)
            if self._end is not None and offset < self._end and not self.operation.gapped:
                continue  # its octets had been withdrawn, and came again
            self._end = offset + row.wire_length
            yield offset, row, octets


class _Connection(ConnectionSent):
    """A connection as it is rewritten while it is ongoing."""

    def __init__(self, mpa: CapturedConnection) -> None:
        self._mpa = mpa
        self.by_role = {role: HalfSent(mpa.keys[role], Unmarked(None, markers=False), 1) for role in ROLES}
        super().__init__({mpa.keys[role]: half for role, half in self.by_role.items()})
        self._streams: dict[Role, _Stream] = {}

    def known(self) -> None:
        """Number the octets of each direction that is in Full Operation as they are without Markers."""
        for role, operation in self._mpa.operations.items():
            stream = self._streams.get(role)
            if stream is None or stream.operation is not operation:
                self._streams[role] = _Stream(operation)
                numbers = Unmarked(
                    operation.seq_start, markers=operation.markers, has_start=operation.reader.is_beginning
                )
                before = self.by_role[role].numbers
                if before.fin is not None and not before.markers:
                    numbers.fin = numbers.offset_of(before.seq_at(before.fin))
                self.by_role[role].numbers = numbers

    def add(self, found: _Found) -> None:
        """Take an FPDU in."""
        stream = self._streams.get(found.operation.direction)
        if stream is not None and stream.operation is found.operation:
            stream.add(found)

    def ready(self, *, is_over: bool = False) -> Iterator[IPPacket]:
        """Yield the packets of FPDUs whose turn it is, and the FIN after the last one."""
        for role, stream in self._streams.items():
            half = self.by_role[role]
            for offset, row, octets in stream.ready(is_over=is_over):
                markers = stream.operation.markers
                fpdu = located_fpdu(octets, offset, markers, row.ulpdu_length, row.wire_length)
                yield from half.fpdu(offset, octets, fpdu, row.markers, crc=stream.operation.crc)
        for half in self.by_role.values():
            fin = half.numbers.fin
            if fin is not None and (is_over or half.next == half.numbers.seq_at(fin)):
                half.left = 0
            yield from half.fin()


class OngoingPlain(Listener):
    """The MPA connections without their Markers, in the order of their streams.

    Args:
        is_wanted: whether a connection is to be written.

    Attributes:
        fpdus: how many were written.
    """

    def __init__(self, is_wanted: Callable[[int], bool]) -> None:
        self._is_wanted = is_wanted
        self._segments: list[Segment] = []
        self._startups: list[tuple[CapturedConnection, Role, FoundFrame]] = []
        self._found: list[_Found] = []
        self._over: list[CapturedConnection] = []
        self._connections: dict[CapturedConnection, _Connection] = {}
        self._by_key: dict[bytes, _Connection] = {}
        #: The SYN of each half connection without a startup frame so far, and the segment after it if that is empty.
        self._opening: OrderedDict[bytes, list[Segment]] = OrderedDict()
        self._time = 0
        self.fpdus = 0

    def see(self, segments: Sequence[Segment]) -> None:
        """Segments will be received next."""
        self._segments += segments

    def startup(self, mpa: CapturedConnection, direction: Role, found: FoundFrame) -> None:
        """A startup frame is complete."""
        self._startups.append((mpa, direction, found))

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        self._found.append(_Found(row.placed or frames[-1], operation, row, octets))

    def forget(self, mpa: CapturedConnection) -> None:
        """Release a connection that is over."""
        self._over.append(mpa)

    def take(self) -> Iterator[CutPacket]:
        """Yield the packets of what was received since the last time."""
        startups = deque(sorted(self._startups, key=lambda one: one[2].frame))
        found = deque(sorted(self._found, key=itemgetter(0)))
        segments, self._segments, self._startups, self._found = self._segments, [], [], []
        for connection in self._connections.values():
            connection.known()
        for seg in segments:
            if seg.flags & PATH_MTU:
                continue
            self._time = seg.time
            while startups and startups[0][2].frame <= seg.frame:
                yield from self._begin(*startups.popleft())
            yield from _timed(seg.time, self._segment(seg))
            while found and found[0].frame <= seg.frame:
                yield from self._fpdu(found.popleft())
        for startup in startups:
            yield from self._begin(*startup)
        for one in found:
            yield from self._fpdu(one)
        for mpa in self._over:
            over = self._connections.pop(mpa, None)
            if over is not None:
                yield from _timed(self._time, over.ready(is_over=True))
                self._by_key = {key: one for key, one in self._by_key.items() if one is not over}
        self._over.clear()

    def _begin(self, mpa: CapturedConnection, direction: Role, found: FoundFrame) -> Iterator[CutPacket]:
        """A startup frame: it is sent with its last segment, the SYNs that waited for it before."""
        connection = self._connection(mpa)
        if connection is not None:
            connection.by_role[direction].begin((found.startup, found.seq, found.frame))
            waiting = [seg for key in connection.halves for seg in self._opening.pop(key, ())]
            for seg in sorted(waiting, key=lambda seg: seg.frame):
                yield from _timed(seg.time, connection.segment(seg))

    def _connection(self, mpa: CapturedConnection) -> _Connection | None:
        connection = self._connections.get(mpa)
        if connection is None and self._is_wanted(mpa.number):
            connection = self._connections[mpa] = _Connection(mpa)
            connection.known()
            for key in connection.halves:
                self._by_key[key] = connection
        return connection

    def _segment(self, seg: Segment) -> Iterator[IPPacket]:
        """Yield what a segment gives besides FPDUs; an opening is held until the connection shows what it carries."""
        connection = self._by_key.get(seg.key)
        if seg.flags & SYN and (connection is None or _begins_another(connection.halves[seg.key], seg)):
            self._by_key.pop(seg.key, None)
            self._opening[seg.key] = [_header_alone(seg)]
            self._opening.move_to_end(seg.key)
            if len(self._opening) > _MOST_OPENING:
                self._opening.popitem(last=False)
        elif connection is not None:
            yield from connection.segment(seg)
            yield from connection.ready()
        elif not seg.length and len(opening := self._opening.get(seg.key, ())) == 1:
            assert isinstance(opening, list)
            opening.append(_header_alone(seg))

    def _fpdu(self, found: _Found) -> Iterator[CutPacket]:
        connection = self._connection(found.operation.mpa)
        if connection is not None and not found.operation.is_replaced:
            self.fpdus += 1
            connection.add(found)
            yield from _timed(self._time, connection.ready())


def _begins_another(half: HalfSent, seg: Segment) -> bool:
    """Return True if a SYN does not belong to the previous connection."""
    return half.startup_seq is not None and seq_add(seg.seq, 1) != half.startup_seq and seg.seq not in half.syns


def _header_alone(seg: Segment) -> Segment:
    """The same segment without the block of the capture that it is in, which need not stay in memory."""
    tcp = seg.tcp if seg.tcp >= 0 else seg.start
    header = memoryview(bytes(seg.buffer[tcp : seg.start]))
    return seg.replace(buffer=header, tcp=min(seg.tcp, 0), start=len(header), end=len(header), length=0)


def _timed(time: int, packets: Iterator[IPPacket]) -> Iterator[CutPacket]:
    for packet in packets:
        yield time, *packet
