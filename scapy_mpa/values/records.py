"""The record of each FPDU, and a compact log of records.

:class:`FPDURecord` is what callers see.  A capture holds millions, so a half connection keeps its own in a
:class:`FPDULog`: packed octets, in the order of the stream.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterable, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH, marker_count, plain_length
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.tuples import NamedTuple

if TYPE_CHECKING:
    from scapy.packet import Packet

LocatedBy: TypeAlias = Literal["start", "length", "marker", "scan"]
CrcVerdict: TypeAlias = Literal["good", "bad", "unchecked", "cut"]

#: Their places are the codes of a log row.
LOCATED_BY: tuple[LocatedBy, ...] = ("start", "length", "marker", "scan")
CRC_VERDICTS: tuple[CrcVerdict, ...] = ("good", "bad", "unchecked", "cut")
START, LENGTH, MARKER, SCAN = range(4)
GOOD, BAD, UNCHECKED, CUT = range(4)
#: No opcode: a ULPDU under 2 octets.
NO_OPCODE = 15
#: Bit of a row's flags octet: the FPDU comes after the half connection's first error.
AFTER_ERROR = 0x80


class FPDUContext(Protocol):
    """Where a record came from, and so where its octets are."""

    def octets(self, record: FPDURecord) -> bytes:
        """All octets of the FPDU, Markers included; up to the first that is missing, if the capture cut it."""

    def ulpdu(self, record: FPDURecord) -> bytes:
        """Its ULPDU, without Markers."""

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
    deviation: str | None = None


class FPDURecord(_FPDUFields):
    """One FPDU, with the keys of ``scapy-mpa fpdus``.

    ``seq`` and ``header_seq`` are TCP sequence numbers of its first octet and of its ULPDU_Length, lengths are
    octets, ``frames`` the frames of the copies chosen for its octets.  ``crc`` is "cut" if a snapshot length cut some
    of them off, so that it cannot be checked.  ``placed_frame`` is None if its CRC is bad, ``delivered_frame`` if it
    is, or if octets before it were never captured.  ``time`` is in seconds since the epoch, of the placed frame, else
    of the frame that completed it; ``time_ns`` the same in nanoseconds.
    ``deviation`` names what the sender does wrong, if the FPDU was read accordingly.
    """

    #: Where its octets are; None for a record on its own.
    context: FPDUContext | None = None

    @property
    def time(self) -> float:
        """Seconds since the epoch."""
        return self.time_ns / 1_000_000_000

    def octets(self) -> bytes:
        """Return all octets of the FPDU as captured, including Markers, PAD and CRC.

        If a snapshot length cut some of them off (``crc`` is "cut"), these are the octets before the first missing one.
        The frames that carried them are read again. Raises :class:`~scapy_mpa.errors.MPAError` if that is impossible.
        """
        return self._context().octets(self)

    def ulpdu(self) -> bytes:
        """Return the ULPDU of the FPDU, without Markers, as far as :meth:`octets` has it.

        Raises as :meth:`octets` does, and if its sender deviates.
        """
        return self._context().ulpdu(self)

    def packet(self) -> Packet:
        """Return the FPDU as a Scapy packet; nothing else is dissected. Raises as :meth:`octets` does."""
        return self._context().packet(self)

    def belong_to(self, context: FPDUContext) -> FPDURecord:
        """The record, which came from there."""
        self.context = context
        return self

    def _context(self) -> FPDUContext:
        if self.context is None:
            raise MPAError("this record does not know the capture that it came from")
        return self.context

    def as_dict(self) -> dict[str, object]:
        """Return the record with the keys of ``scapy-mpa fpdus``, in their order."""
        values = self._asdict()
        return {
            ("time" if name == "time_ns" else name): (
                self.time if name == "time_ns" else list(value) if name == "frames" else value
            )
            for name, value in values.items()
        }


#: seq, header_seq, wire_length, ulpdu_length, markers, flags (CRC verdict and located_by), opcode, placed, delivered,
#: time, number of frames, first frame; the other frames follow.
ROW = Struct("<IIIHHBBIIQII")


class FPDURow(NamedTuple):
    """A row of :data:`ROW`, which the receiver writes and the log reads.

    ``placed`` and ``delivered`` are 0 where a record has None, ``time`` is in nanoseconds.  Where ``frame_count`` is 0
    the row announces a run: ``header_seq`` is how many FPDUs it has.  In the log's octets ``wire_length`` of such a row
    is how many frames brought them, and ``delivered`` whether they are delivered.
    """

    seq: int
    header_seq: int
    wire_length: int
    ulpdu_length: int
    markers: int
    flags: int
    opcode: int
    placed: int
    delivered: int
    time: int
    frame_count: int
    first_frame: int


#: Where fields stand in a row, and in its octets.
_SEQ, _HEADER_SEQ, _WIRE_LENGTH, _PLACED, _DELIVERED, _FRAME_COUNT, _FIRST_FRAME = map(
    FPDURow._fields.index, ("seq", "header_seq", "wire_length", "placed", "delivered", "frame_count", "first_frame")
)
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


class Size(NamedTuple):
    """The size of an FPDU: octets of its ULPDU, octets on the wire, Markers, and whether it begins with one."""

    ulpdu_length: int
    wire_length: int
    markers: int
    has_leading_marker: bool


def size_of(ulpdu_length: int, phase: int | None) -> Size:
    """The size of an FPDU at an offset that leaves ``phase`` modulo 512; ``phase`` is None without Markers."""
    body = plain_length(ulpdu_length)
    if phase is None:
        return Size(ulpdu_length, body, 0, False)
    markers = marker_count(phase, body)
    return Size(ulpdu_length, body + MARKER_LENGTH * markers, markers, not phase)


class FPDULog:
    """FPDUs of one half connection in the order of the stream: 50 octets each, far fewer where a frame brought many.

    ``seq_start`` is the sequence number from which Markers count, None where there are none.
    """

    __slots__ = ("octets", "seq_start")

    def __init__(self, seq_start: int | None = None) -> None:
        self.octets = bytearray()
        self.seq_start = seq_start

    def add(self, row: FPDURow, frames: tuple[int, ...]) -> None:
        """Add one FPDU."""
        self.octets += ROW.pack(*row)
        if len(frames) > 1:
            self.octets += pack_frames(frames)

    def add_run(
        self,
        seqs: Sequence[int],
        fpdus: Sequence[int],
        flag: int,
        is_delivered: bool,
        firsts: Sequence[int],
        frames: Sequence[int],
        times: Sequence[int],
    ) -> None:
        """Add FPDUs one after the other, of which each of several frames brought some whole.

        A row without frames announces them.  Each is delivered by the frame that brought it, or none is.

        Args:
            seqs: the sequence number of the first FPDU of each frame.
            fpdus: ULPDU_Length and, times 2^16, the opcode of each FPDU.
            flag: the flags octet of all.
            is_delivered: whether they are delivered.
            firsts: the index of the first FPDU of each frame.
            frames: the frames; ``times`` in nanoseconds.
        """
        count = len(frames)
        self.octets += ROW.pack(0, len(fpdus), count, 0, 0, flag, NO_OPCODE, 0, is_delivered, 0, 0, 0)
        self.octets += bytes((flag,)) * count
        for code, column in (("I", seqs), ("I", firsts), ("I", frames), ("Q", times), ("I", fpdus)):
            self.octets += array(code, column).tobytes()

    def mark_after(self, error: tuple[int, int], origin: int, floor: int) -> None:
        """Mark the FPDUs after the first error, which came at (frame, stream offset): no frame that brought a run.

        ``origin`` is the sequence number of offset 0, ``floor`` the frame before which nothing is complete.
        """
        offset = 0
        for at, row, frames, _ in self._places():
            offset += (row[_SEQ] - origin - offset) & SEQ_MASK
            frame = row[_PLACED] or max(frames[-1], floor)
            if (frame, offset) > error:
                self.octets[at] |= AFTER_ERROR

    def plain_entries(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]]:
        """Yield each row, a tuple without names, as :meth:`entries` does."""
        for _, row, frames, run in self._places():
            yield row, frames, run

    def entries(self) -> Iterator[tuple[FPDURow, tuple[int, ...], tuple[int, ...] | None]]:
        """Yield each row with the frames of its FPDU and None, or, for a run, with its frame and what it is made of."""
        for _, row, frames, run in self._places():
            yield FPDURow._make(row), frames, run

    def rows(self) -> Iterator[tuple[FPDURow, tuple[int, ...]]]:
        """Yield each row with the frames of its FPDU."""
        for row, frames, run in self.entries():
            if run is None:
                yield row, frames
            else:
                for one in rows_of(row, run, self.seq_start):
                    yield one, frames

    def _places(self) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]]:
        octets = self.octets
        size, end, at = ROW.size, len(self.octets), 0
        unpack = ROW.unpack_from
        while at < end:
            row = unpack(octets, at)
            place = at + _FLAGS_AT
            at += size
            count, last = row[_FRAME_COUNT], row[_FIRST_FRAME]
            if count == 1:
                yield place, row, (last,), None
                continue
            if not count:
                at = yield from self._places_of_run(row, at)
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
            yield place, row, tuple(frames), None

    def _places_of_run(
        self, row: tuple[int, ...], at: int
    ) -> Generator[tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...] | None], None, int]:
        """Yield a row for each frame of a run whose columns begin at an index; return that after them."""
        fpdu_count, count, is_delivered = row[_HEADER_SEQ], row[_WIRE_LENGTH], row[_DELIVERED]
        place = at
        at += count
        columns = []
        for code, length in (("I", count), ("I", count), ("I", count), ("Q", count), ("I", fpdu_count)):
            column = array(code)
            end = at + length * column.itemsize
            column.frombytes(self.octets[at:end])
            columns.append(column)
            at = end
        seqs, firsts, frames, times, fpdus = columns
        for index, (seq, first, frame, time) in enumerate(zip(seqs, firsts, frames, times, strict=True)):
            run = tuple(fpdus[first : firsts[index + 1] if index + 1 < count else fpdu_count])
            delivered, flag = frame if is_delivered else 0, self.octets[place + index]
            one = seq, len(run), 0, 0, 0, flag, NO_OPCODE, frame, delivered, time, 0, frame
            yield place + index, one, (frame,), run
        return at


def rows_of(row: FPDURow, run: Iterable[int], seq_start: int | None) -> Iterator[FPDURow]:
    """The rows of a run's FPDUs."""
    seq, _, _, _, _, flag, _, frame, delivered, time, _, _ = row
    for one in run:
        phase = None if seq_start is None else (seq - seq_start) % MARKER_INTERVAL
        length, wire_length, markers, has_leading_marker = size_of(one & 0xFFFF, phase)
        header_seq = (seq + MARKER_LENGTH * has_leading_marker) & SEQ_MASK
        yield FPDURow(seq, header_seq, wire_length, length, markers, flag, one >> 16, frame, delivered, time, 1, frame)
        seq = (seq + wire_length) & SEQ_MASK


def record_of(
    row: FPDURow,
    frames: tuple[int, ...],
    connection: int,
    direction: Literal["initiator", "responder"],
    context: FPDUContext | None = None,
    deviation: str | None = None,
) -> FPDURecord:
    """The record of a row; ``deviation`` is what its sender is known to do wrong."""
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
        deviation,
    )
    return record.belong_to(context) if context is not None else record
