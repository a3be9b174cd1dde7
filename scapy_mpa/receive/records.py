"""What is told of each FPDU, and a compact log of it.

:class:`FPDURecord` is what callers see.  A capture holds millions, so a half connection keeps its own in a
:class:`FPDULog`: packed octets, in the order of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import OPCODE_NAMES

if TYPE_CHECKING:
    from scapy.packet import Packet

LocatedBy: TypeAlias = Literal["start", "length", "marker", "scan"]
CrcVerdict: TypeAlias = Literal["good", "bad", "unchecked"]

#: Their places are the codes of a log row.
LOCATED_BY: tuple[LocatedBy, ...] = ("start", "length", "marker", "scan")
CRC_VERDICTS: tuple[CrcVerdict, ...] = ("good", "bad", "unchecked")
START, LENGTH, MARKER, SCAN = range(4)
GOOD, BAD, UNCHECKED = range(3)
#: No opcode: a ULPDU under 2 octets.
NO_OPCODE = 15
#: Bit of a row's flags octet: the FPDU comes after the half connection's first error.
AFTER_ERROR = 0x80


class FPDUContext(Protocol):
    """Where a record came from, and so where its octets are."""

    def octets(self, record: FPDURecord) -> bytes:
        """All octets of the FPDU, Markers included."""

    def packet(self, record: FPDURecord) -> Packet:
        """The FPDU as a Scapy packet."""


class _FPDUFields(NamedTuple):
    connection: int
    direction: Literal["initiator", "responder"]
    seq: int
    header_seq: int
    ulpdu_length: int
    wire_length: int
    markers: int
    crc: CrcVerdict
    located_by: LocatedBy
    frames: tuple[int, ...]
    placed_frame: int | None
    delivered_frame: int | None
    time_ns: int
    after_error: bool
    opcode: str | None


class FPDURecord(_FPDUFields):
    """One FPDU, with the keys of ``scapy-mpa fpdus``.

    ``seq`` and ``header_seq`` are TCP sequence numbers of its first octet and of its ULPDU_Length, lengths are
    octets, ``frames`` the frames that first brought its octets.  ``placed_frame`` is None if its CRC is bad,
    ``delivered_frame`` if it is, or if octets before it were never captured.  ``time`` is in seconds since the
    epoch, of the placed frame, else of the frame that completed it; ``time_ns`` the same in nanoseconds.
    """

    #: Where its octets can be had; None for a record that stands alone.
    context: FPDUContext | None = None

    @property
    def time(self) -> float:
        """Seconds since the epoch."""
        return self.time_ns / 1_000_000_000

    def octets(self) -> bytes:
        """All octets of the FPDU as they are in the capture, Markers, PAD and CRC included.

        The frames that brought them are read again.  Raises :class:`~scapy_mpa.errors.MPAError` if that cannot be.
        """
        return self._context().octets(self)

    def packet(self) -> Packet:
        """The FPDU as a Scapy packet; nothing else of the capture is dissected.  Raises as :meth:`octets` does."""
        return self._context().packet(self)

    def _context(self) -> FPDUContext:
        if self.context is None:
            raise MPAError("this record does not know the capture that it came from")
        return self.context

    def as_dict(self) -> dict[str, object]:
        """The record with the keys, in the order, of ``scapy-mpa fpdus``."""
        values = self._asdict()
        return {
            ("time" if name == "time_ns" else name): (
                self.time if name == "time_ns" else list(value) if name == "frames" else value
            )
            for name, value in values.items()
        }


#: seq, header_seq, wire_length, ulpdu_length, markers, flags, placed, delivered, time, number of frames, first
#: frame; the other frames follow.  Flags: opcode in the low four bits of the second octet; CRC verdict and
#: located_by in the first.
ROW = Struct("<IIIHHBBIIQII")
#: A row of :data:`ROW`: what the receiver writes and the log reads.
Row: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int]

#: Where the flags octet stands in a row.
_FLAGS_AT = Struct("<IIIHH").size
_MORE_FRAMES = Struct("<I")


def flags(crc: int, located_by: int, after_error: bool) -> int:
    """The flags octet of a row."""
    return crc | located_by << 2 | (AFTER_ERROR if after_error else 0)


def pack_frames(frames: tuple[int, ...]) -> bytes:
    """The frames after the first: steps of one octet, 0 before four octets of a frame number."""
    packed = bytearray()
    last = frames[0]
    for frame in frames[1:]:
        if frame - last < 256:
            packed.append(frame - last)
        else:
            packed += b"\0" + _MORE_FRAMES.pack(frame)
        last = frame
    return bytes(packed)


class FPDULog:
    """FPDUs of one half connection in the order of the stream: about 50 octets each."""

    __slots__ = ("octets",)

    def __init__(self) -> None:
        self.octets = bytearray()

    def mark_after(self, error: tuple[int, int], origin: int, floor: int) -> None:
        """Mark the FPDUs after the first error, which came at (frame, stream offset).

        ``origin`` is the sequence number of offset 0, ``floor`` the frame before which nothing is complete.
        """
        at, offset = 0, 0
        for row, frames in self.rows():
            offset += (row[0] - origin - offset) & 0xFFFFFFFF
            frame = row[7] or max(frames[-1], floor)
            if (frame, offset) > error:
                self.octets[at + _FLAGS_AT] |= AFTER_ERROR
            at += ROW.size + len(pack_frames(frames))

    def rows(self) -> Iterator[tuple[Row, tuple[int, ...]]]:
        """Yield each row with the frames of its FPDU."""
        octets = self.octets
        size, end, at = ROW.size, len(self.octets), 0
        unpack = ROW.unpack_from
        while at < end:
            row: Row = unpack(octets, at)
            at += size
            count, last = row[10], row[11]
            if count == 1:
                yield row, (last,)
                continue
            frames = [last]
            for _ in range(count - 1):
                step = octets[at]
                at += 1
                if step:
                    last += step
                else:
                    (last,) = _MORE_FRAMES.unpack_from(octets, at)
                    at += 4
                frames.append(last)
            yield row, tuple(frames)


def record_of(
    row: Row,
    frames: tuple[int, ...],
    connection: int,
    direction: Literal["initiator", "responder"],
    context: FPDUContext | None = None,
) -> FPDURecord:
    """The record of a row."""
    seq, header_seq, wire_length, ulpdu_length, markers, flag, opcode, placed, delivered, time, _, _ = row
    record = FPDURecord(
        connection,
        direction,
        seq,
        header_seq,
        ulpdu_length,
        wire_length,
        markers,
        CRC_VERDICTS[flag & 3],
        LOCATED_BY[flag >> 2 & 3],
        frames,
        placed or None,
        delivered or None,
        time,
        bool(flag & AFTER_ERROR),
        OPCODE_NAMES[opcode],
    )
    if context is not None:
        record.context = context
    return record
