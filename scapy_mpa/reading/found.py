"""The FPDUs of a capture with their octets, in an order that is known only at its end.

In the order of delivery an FPDU comes when it and all before it in its half connection are complete: the order of the
stream, each half connection's in turn with the frames. An FPDU that is never delivered, because octets before it were
not captured or because its CRC is bad, has its turn there too. In the order of placement it comes at the frame that
placed it (RFC 5044 §6). Memory does not follow the capture: what waits is in temporary files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from scapy_mpa.analyzer.connection import FullOperation
from scapy_mpa.framing.crc import CRC_LENGTH, crc_from_field
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import Fpdu, crc_octets, decode_fpdu, read_fpdu
from scapy_mpa.framing.markers import remove_markers
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.reading.listener import CaptureListener
from scapy_mpa.reading.query import Asked, Query, query_of
from scapy_mpa.reading.spill import OctetStore, Sorted
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import HalfConnection, marker_phase
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURecord, FPDURow, record_of

Order: TypeAlias = Literal["delivered", "placed"]

#: A row as it goes into a file: without the names of its fields.
_PlainRow: TypeAlias = tuple[int, ...]
#: (connection, direction, stream offset, 0, row, frames, complete, place and number of its octets) of an FPDU, and
#: (connection, direction, stream offset, 1, delivered) where that was known later.
_Event: TypeAlias = (
    "tuple[int, int, int, int, _PlainRow, tuple[int, ...], int, int, int] | tuple[int, int, int, int, int]"
)
#: (turn, connection, direction, stream offset, row, frames, place and number of its octets, FPDUs listed before it).
_Turn: TypeAlias = "tuple[int, int, int, int, _PlainRow, tuple[int, ...], int, int, int]"

#: This many frames that carried octets of an FPDU weigh as much as the rest of it.
_FRAMES_A_WEIGHT = 8


class FoundFPDU(NamedTuple):
    """An FPDU: whose it is, its stream offset from SeqStart, the frame at which it has its turn, its octets.

    ``number`` is its place in the half connection, from 0. If the capture cut it, ``octets`` are those before the first
    that is missing.
    """

    connection: Connection
    half: HalfConnection
    offset: int
    turn: int
    record: FPDURecord
    octets: bytes
    number: int

    @property
    def crc_octets(self) -> bytes:
        """Its CRC field, empty if its sender leaves that out, or the capture cut it."""
        if self.is_cut:
            return b""
        dialect = self.half.dialect
        fpdu = None if dialect is None else read_fpdu(dialect, self.octets, self.offset, self._due(dialect))
        return self.octets[-CRC_LENGTH:] if fpdu is None else crc_octets(fpdu, self.octets)

    def _due(self, dialect: Dialect) -> int:
        """Octets before the next Marker where it begins."""
        return dialect.due_behind(self.offset, self.number)

    @property
    def is_cut(self) -> bool:
        """True if a snapshot length cut off some of its octets."""
        return len(self.octets) < self.record.wire_length

    @property
    def decoded(self) -> Fpdu:
        """Its fields; of one that the capture cut what is there of the ULPDU, without PAD, CRC and Markers."""
        octets, dialect, lengths = self.octets, self.half.dialect, (self.record.ulpdu_length, self.record.wire_length)
        if dialect is None:
            return located_fpdu(octets, self.offset, bool(self.half.markers), *lengths)
        found = decode_fpdu(octets, self.offset, check_crc=False, dialect=dialect, due=self._due(dialect))
        if found is None or found.wire_length != len(octets):  # its sender had not deviated yet
            return _as_it_lies(octets, octets, *lengths)
        return found


def located_fpdu(octets: bytes, offset: int, markers: bool, ulpdu_length: int, wire_length: int) -> Fpdu:
    """Return the fields of an FPDU at a stream offset, as far as they exist if it was cut, as ``decoded`` has it.

    ``wire_length`` counts its octets on the wire, Markers included.
    """
    found = decode_fpdu(octets, marker_phase(markers, offset), check_crc=False)
    if found is not None:
        return found
    return _as_it_lies(octets, remove_markers(octets, offset) if markers else octets, ulpdu_length, wire_length)


def _as_it_lies(octets: bytes, plain: bytes, length: int, wire_length: int) -> Fpdu:
    """An FPDU that the capture cut, ``plain`` without its Markers; or that begins inside a Marker, where none can."""
    if len(octets) < wire_length:
        return Fpdu(length, plain[2 : 2 + length], b"", 0, None, (), wire_length)
    end = 2 + length
    return Fpdu(
        length, octets[2:end], octets[end:-CRC_LENGTH], crc_from_field(octets[-CRC_LENGTH:]), None, (), len(octets)
    )


class ConnectionSpan(NamedTuple):
    """The first and the last frame that are known to be of an MPA connection, and how many FPDUs each side sent."""

    first: int
    last: int
    initiator: int
    responder: int


class FoundFPDUs(CaptureListener):
    """Reads a capture, or several merged by time; then iterating yields its FPDUs, as often as one likes.

    ``report`` is the report without FPDUs: only those of the connections that are left in it are yielded, of these
    ``directions``. Use as a context manager: what waits in files is dropped at its end. Raises
    :class:`~scapy_mpa.errors.CaptureError` as :func:`scapy_mpa.analyze` does, and OSError if a temporary file cannot be
    written.
    """

    def __init__(
        self,
        capture: Query | Asked,
        order: Order = "delivered",
        *,
        directions: Sequence[Role] = ROLES,
    ) -> None:
        self._order = order
        self._directions = directions
        #: The frames between which an MPA connection is known to be there, and how many FPDUs each direction has.
        self._extents: dict[int, list[int]] = {}
        self._octets = OctetStore()
        self._events: Sorted[_Event] = Sorted()
        self._turns: Sorted[_Turn] = Sorted()
        super().__init__()
        try:
            self.read(query_of(capture))
            for turn in self._in_stream_order():
                self._turns.add(turn, _weight(turn[5]))
                self._note(turn)
            self._events.close()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Forget the FPDUs found."""
        super().begin()
        self._octets.close()
        self._events.close()
        self._octets, self._events = OctetStore(), Sorted()

    def __enter__(self) -> FoundFPDUs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop what waits in files."""
        self._events.close()
        self._turns.close()
        self._octets.close()

    def __iter__(self) -> Iterator[FoundFPDU]:
        """Yield the FPDUs in the order asked for."""
        shown = {id(connection) for connection in self.report.connections}
        for turn, serial, side, offset, row, frames, place, length, number in self._turns:
            connection, direction = self.connections[serial], ROLES[side]
            if connection is None or id(connection) not in shown or direction not in self._directions:
                continue
            half = connection.half(direction)
            record = record_of(FPDURow._make(row), frames, connection.number, direction, None, half.deviation)
            yield FoundFPDU(connection, half, offset, turn, record, self._octets.at(place, length), number)

    def extent(self, connection: Connection) -> ConnectionSpan:
        """Return what is known about where a connection of the report lies."""
        frames = [frame for frame in (connection.request_frame, connection.reply_frame) if frame is not None]
        counts = [0, 0]
        for serial, found in self._extents.items():
            if self.connections[serial] is connection:
                frames += found[:2]
                counts = found[2:]
        return ConnectionSpan(min(frames, default=1), max(frames, default=1), counts[0], counts[1])

    def _note(self, turn: _Turn) -> None:
        frames = turn[5]
        extent = self._extents.setdefault(turn[1], [frames[0], 0, 0, 0])
        extent[0] = min(extent[0], frames[0])
        extent[1] = max(extent[1], frames[-1])
        extent[2 + turn[2]] += 1

    # --- what the receiver tells ---

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        complete = max(frames[-1], operation.reader.startup[0])
        where = self.where(operation, row)
        self._events.add(
            (*where, 0, tuple(row), frames, complete, self._octets.keep(octets), len(octets)), _weight(frames)
        )

    def delivered(self, operation: FullOperation, row: FPDURow) -> None:
        """An FPDU that was placed at an earlier frame is delivered now."""
        self._events.add((*self.where(operation, row), 1, row.delivered))

    def _in_stream_order(self) -> Iterator[_Turn]:
        """The turns, half connection by half connection."""
        half: tuple[int, int] | None = None
        turn = end = number = 0
        last: _Turn | None = None
        for event in self._events:
            serial, side, offset = event[:3]
            if len(event) == 5:
                if last is not None and last[1:4] == event[:3]:
                    row = tuple(FPDURow._make(last[4])._replace(delivered=event[4]))
                    last = (*last[:4], row, *last[5:])
                continue
            if (serial, side) != half:
                half, turn, end, number = (serial, side), 0, offset, 0
            if last is not None and last[1:4] == event[:3]:
                last, number = None, number - 1  # its octets had been withdrawn, and came again
            elif offset < end:
                continue
            _, _, _, _, row, frames, complete, place, length = event
            turn = max(turn, complete)
            end = offset + FPDURow._make(row).wire_length
            if last is not None:
                yield last
            own = FPDURow._make(row).placed or complete
            last = (turn if self._order == "delivered" else own), *event[:3], row, frames, place, length, number
            number += 1
        if last is not None:
            yield last


def _weight(frames: tuple[int, ...]) -> int:
    return 1 + len(frames) // _FRAMES_A_WEIGHT
