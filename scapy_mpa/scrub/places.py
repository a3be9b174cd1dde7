"""Where the FPDUs of a capture lie, and which part of each is a header: rows of one size in a temporary file.

Every FPDU that was placed, or found bad, has a row, half connection by half connection, in the order of the stream. One
that is bad may claim octets in which others were found: its row ends where theirs begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from struct import Struct
from typing import Final

from scapy_mpa.analyzer.connection import FullOperation
from scapy_mpa.framing.crc import CRC_LENGTH
from scapy_mpa.framing.ddp import TAGGED, TAGGED_HEADER_LENGTH, TERMINATE_OPCODE, UNTAGGED_HEADER_LENGTH
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import FPDUPlace, conformant, crc_agrees, lay_out, read_fpdu, ulpdu_of
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.reading.listener import CaptureListener
from scapy_mpa.reading.query import Query
from scapy_mpa.reading.spill import OctetStore, Sorted
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.scrub.headers import kept_protocol, kept_upper_header
from scapy_mpa.system.temporary import temporary_file
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURow

_OPCODE: Final = 0x0F
#: Octets after the DDP header that RDMAP's own headers have, by opcode: of a Read Request in its longest form, of a
#: Terminate all it may quote, of an Atomic Request up to what is to be swapped, of an Atomic Response up to the value
#: (RFC 5040 §4, RFC 7306 §5).
_RDMAP_HEADERS: Final = {1: 32, TERMINATE_OPCODE: 52, 10: 20, 11: 4}
#: Rules about a first FPDU that is read otherwise than both sides agreed: with Markers, or without.
_READ_OTHERWISE: Final = frozenset(("marker-absent", "marker-unasked"))
_ROW: Final = Struct("<qIHHHBBB")


class Place(NamedTuple):
    """The position of an FPDU.

    Attributes:
        offset: Of its first octet, in the stream.
        wire: Octets on the wire, Markers included; up to where another FPDU begins.
        ulpdu_length: Octets of its ULPDU.
        kept: Those of them that are headers.
        due: Octets before its first Marker.
        pad: Octets of PAD.
        which: Which of :func:`dialects_of` it is laid out by.
        has_crc: 1 if its CRC field holds a CRC.
    """

    offset: int
    wire: int
    ulpdu_length: int
    kept: int
    due: int
    pad: int
    which: int
    has_crc: int

    def laid_out(self, dialect: Dialect) -> FPDUPlace:
        """Return where its fields are."""
        covered = LENGTH_FIELD_LENGTH + self.ulpdu_length + self.pad
        crc_length = CRC_LENGTH if dialect.crc_field else 0
        return lay_out(dialect, self.offset, self.due, self.ulpdu_length, self.pad, covered, crc_length)


def dialects_of(half: HalfConnection) -> tuple[Dialect, Dialect, Dialect]:
    """Return how FPDUs of a half connection may lie.

    As its sender does, as RFC 5044 has it, and so without Markers where there are to be some, or with them.
    """
    usual = conformant(bool(half.markers), True)
    own = usual if half.dialect is None else half.dialect._replace(crc=True)
    return own, usual, conformant(not half.markers, True)


#: (connection, direction, stream offset, number of the event, place and number of its octets, octets on the wire).
_Event = tuple[int, int, int, int, int, int, int]


class Places(CaptureListener):
    """Reads a capture; then its FPDUs are known by connection, direction and number. Use as a context manager.

    Args:
        query: The capture, and what is assumed of it.
        keeps_headers: Whether the headers of upper layers count as headers.

    Attributes:
        extents: The numbers of the FPDUs of each half connection, by number of the connection and direction.
        buffers: Buffers that are named are left readable, since a finding rests on them.

    Raises as :func:`scapy_mpa.analyze` does, and OSError if a temporary file cannot be written.
    """

    def __init__(self, query: Query, *, keeps_headers: bool = False) -> None:
        self._octets, self._events = OctetStore(), Sorted[_Event]()
        self._count = 0
        self._rows: mmap | None = None
        self.extents: dict[tuple[int, Role], range] = {}
        self._file = temporary_file()
        super().__init__()
        try:
            self.read(query)
            self._write(keeps_headers=keeps_headers)
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Forget the FPDUs found."""
        super().begin()
        self._octets.close()
        self._events.close()
        self._octets, self._events = OctetStore(), Sorted()

    def placed(self, operation: FullOperation, row: FPDURow, _frames: tuple[int, ...], octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        self._count += 1
        where = (*self.where(operation, row), self._count)
        self._events.add((*where, self._octets.keep(octets), len(octets), row.wire_length))

    def delivered(self, operation: FullOperation, row: FPDURow) -> None:
        """Do nothing: the time of delivery does not matter here."""

    def _write(self, *, keeps_headers: bool) -> None:
        """Write a row for each FPDU."""
        protocols = {
            serial: kept_protocol(one, keeps_headers=keeps_headers)
            for serial, one in enumerate(self.connections)
            if one is not None
        }
        self.buffers = not keeps_headers and any(protocols.values())
        count, first = 0, 0
        half: tuple[int, int] | None = None
        for event, number, following in self._in_order():
            serial, side, offset, _, at, length, wire = event
            connection = self.connections[serial]
            if (serial, side) != half:
                half, first = (serial, side), count
            if connection is None:
                continue
            octets = self._octets.at(at, length)
            place = _place(connection, ROLES[side], offset, octets, wire, number, protocols.get(serial))
            if place is None:
                continue
            end = offset + place.wire if following is None else min(offset + place.wire, following)
            self._file.write(_ROW.pack(*place._replace(wire=end - offset)))
            count += 1
            self.extents[connection.number, ROLES[side]] = range(first, count)
        self._events.close()
        self._octets.close()
        self._file.flush()
        if count:
            self._rows = mmap(self._file.fileno(), 0, access=ACCESS_READ)

    def _in_order(self) -> Iterator[tuple[_Event, int, int | None]]:
        """Yield FPDUs, how many lie before each in its half connection, and where the next begins, if there is one."""
        last: _Event | None = None
        number = 0
        for event in self._events:
            if last is not None and last[:3] != event[:3]:  # else its octets had been withdrawn, and came again
                is_same = last[:2] == event[:2]
                yield last, number, event[2] if is_same else None
                number = number + 1 if is_same else 0
            last = event
        if last is not None:
            yield last, number, None

    def at(self, index: int) -> Place:
        """Return the FPDU with a number."""
        assert self._rows is not None
        return Place._make(_ROW.unpack_from(self._rows, index * _ROW.size))

    def __enter__(self) -> Places:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the files."""
        self._events.close()
        self._octets.close()
        if self._rows is not None:
            self._rows.close()
            self._rows = None
        self._file.close()


def _place(
    connection: Connection, role: Role, offset: int, octets: bytes, wire: int, number: int, protocol: str | None
) -> Place | None:
    """Return where an FPDU lies; None if how it lies is not known. Of a ``protocol`` headers count as headers."""
    half = connection.half(role)
    dialects = [*enumerate(dialects_of(half))]
    is_otherwise = not offset and half.dialect is None and _is_read_otherwise(connection, role)
    for which, dialect in dialects[2:] if is_otherwise else dialects:
        due = dialect.due_behind(offset, number)
        place = read_fpdu(dialect, octets, offset, due)
        if place is None or (place.end - place.offset != wire and not is_otherwise):
            continue
        kept = _kept(ulpdu_of(place, octets), place.ulpdu_length, protocol, is_from_initiator=role == "initiator")
        in_use = connection.crc or (len(octets) == wire and crc_agrees(dialect, place, octets))
        has_crc = dialect.crc_field and not dialect.crc_is_zero and in_use
        kept = min(place.ulpdu_length, kept)
        return Place(offset, place.end - place.offset, place.ulpdu_length, kept, due, place.pad, which, int(has_crc))
    return None


def _is_read_otherwise(connection: Connection, role: Role) -> bool:
    """Return True if the first FPDU of a half connection is one only if it is read otherwise than was agreed."""
    return any(found.rule.id in _READ_OTHERWISE and found.direction == role for found in connection.findings)


def _kept(ulpdu: bytes, length: int, protocol: str | None, *, is_from_initiator: bool) -> int:
    """Return how many octets of a ULPDU are headers."""
    if not ulpdu or ulpdu[0] & TAGGED:
        return TAGGED_HEADER_LENGTH
    opcode = ulpdu[1] & _OPCODE if len(ulpdu) > 1 else 0
    kept = UNTAGGED_HEADER_LENGTH + _RDMAP_HEADERS.get(opcode, 0)
    if protocol is not None:
        kept += kept_upper_header(protocol, ulpdu, length, is_from_initiator=is_from_initiator)
    return kept
