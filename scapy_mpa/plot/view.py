"""What is drawn of a connection: segments, FPDUs and acknowledgements of its half connections as columns of numbers.

What lies outside the frames and times that were asked for is left out. FPDUs are those of the report, segments are read
once more; nothing is decoded again. Some 40 octets an FPDU, 30 a segment.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.report.buffers import AtOnce, turns
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.track import HalfTrack, tracks
from scapy_mpa.tcp.half import Direction
from scapy_mpa.values.records import LOCATED_BY, FPDURecord

if TYPE_CHECKING:
    import numpy

    #: Numbers of one column.
    Column: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]

#: Records of FPDUs are kept up to so many: what is more is not drawn one by one.
MOST_RECORDS = 240
_SECOND = 1_000_000_000
#: Of each opcode the place of its name: what has none is alike.
_OPCODE_PLACES = tuple(OPCODE_NAMES.index(name) for name in OPCODE_NAMES)


class Stretch(NamedTuple):
    """The frames and the times (nanoseconds since the epoch) that are drawn; None where that is open."""

    frames: tuple[int, int | None] | None = None
    since: int | None = None
    until: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether all is drawn."""
        return self == Stretch()

    def has(self, frame: int, time: int) -> bool:
        """Whether what happened at a frame, at a time, is drawn."""
        if self.frames is not None:
            first, last = self.frames
            if frame < first or (last is not None and frame > last):
                return False
        return (self.since is None or time >= self.since) and (self.until is None or time <= self.until)

    @property
    def words(self) -> str:
        """What is drawn, in words; "" if that is everything."""
        said = []
        if self.frames is not None:
            first, last = self.frames
            said.append(f"frames {first} to {last}" if last is not None else f"frames from {first} on")
        if self.since is not None or self.until is not None:
            said.append("a part of the time")
        return "only " + ", ".join(said) if said else ""


class DrawnSegments(NamedTuple):
    """Columns, one entry a segment: frame, seconds since the connection began, first octet, the one behind the last.

    ``is_new``: it brought octets that none before it had; ``is_late``: it came behind segments that follow it.
    """

    frame: Column
    time: Column
    start: Column
    end: Column
    is_new: Column
    is_late: Column


class DrawnFPDUs(NamedTuple):
    """Columns, one entry an FPDU.

    First octet, the one behind the last; opcode; :data:`~scapy_mpa.values.records.LOCATED_BY`; whether its CRC is bad;
    whether it was placed before its turn; seconds since the connection began: of the frame that placed it (completed
    it), of the first frame that brought octets of it, and of its turn.
    """

    start: Column
    end: Column
    opcode: Column
    located: Column
    is_bad: Column
    is_early: Column
    time: Column
    first_time: Column
    turn_time: Column


class DrawnAcks(NamedTuple):
    """Columns: seconds, the octet up to which the peer has everything, that up to which it offers a window (or -1)."""

    time: Column
    ack: Column
    edge: Column


class HalfView(NamedTuple):
    """A half connection as it is drawn. ``records`` are its FPDUs with their offsets, none if there are too many."""

    direction: Direction
    markers: bool
    segments: DrawnSegments
    fpdus: DrawnFPDUs
    acks: DrawnAcks
    records: list[tuple[int, FPDURecord]]
    track: HalfTrack


def views(
    connection: Connection, directions: Sequence[Direction], window: Stretch, *, acks: bool = False
) -> list[HalfView]:
    """The half connections that are drawn: those that have FPDUs or segments of Full Operation in the window.

    Raises :class:`~scapy_mpa.errors.CaptureError` if the capture cannot be read again.
    """
    read = tracks([connection], acks=acks)
    found = []
    for direction in directions:
        view = _view(connection, direction, window, read[connection.number, direction])
        if len(view.fpdus.start) or len(view.segments.start):
            found.append(view)
    return found


def _view(connection: Connection, direction: Direction, window: Stretch, track: HalfTrack) -> HalfView:
    import numpy as np

    begun = connection.lifecycle.first[1]
    half = connection.half(direction)
    brought = bytearray(len(track.frames) + 1)
    columns = {name: array("q") for name in ("start", "end", "time", "first_time", "turn_time")}
    small = {name: array("b") for name in ("opcode", "located", "is_bad", "is_early")}
    records: list[tuple[int, FPDURecord]] = []
    last = -1
    for turn in turns(connection, direction):
        if isinstance(turn, AtOnce):
            run = turn.run
            brought[track.index_of(run.frame)] = 1
            if not window.has(run.frame, run.row.time):
                continue
            ends = [*accumulate(run.lengths, initial=turn.offset)]
            columns["start"].extend(ends[:-1])
            columns["end"].extend(ends[1:])
            # The frame that brings them places them, and it is their turn.
            for name in ("time", "first_time", "turn_time"):
                columns[name].extend(array("q", [run.row.time - begun]) * len(run.lengths))
            small["opcode"].extend([_OPCODE_PLACES[one >> 16] for one in run.fpdus])
            located = array("b", [run.row.flags >> 2 & 3])
            small["located"].extend(located * len(run.lengths))
            for name in ("is_bad", "is_early"):
                small[name].extend(array("b", bytes(len(run.lengths))))
            if len(records) <= MOST_RECORDS:
                records.extend(zip(ends, islice(run.records(), MOST_RECORDS + 1), strict=False))
            continue
        offset, record, leaves = turn
        for frame in record.frames:
            if frame != last:
                brought[track.index_of(frame)] = 1
                last = frame
        complete = record.placed_frame or record.frames[-1]
        if not window.has(complete, record.time_ns):
            continue
        columns["start"].append(offset)
        columns["end"].append(offset + record.wire_length)
        columns["time"].append(record.time_ns - begun)
        columns["first_time"].append(_time(track, record.frames[0], record.time_ns) - begun)
        columns["turn_time"].append(_time(track, leaves[0], record.time_ns) - begun)
        small["opcode"].append(OPCODE_NAMES.index(record.opcode))
        small["located"].append(LOCATED_BY.index(record.located_by))
        small["is_bad"].append(record.crc == "bad")
        small["is_early"].append(record.placed_frame is not None and record.placed_frame < leaves[0])
        if len(records) <= MOST_RECORDS:
            records.append((offset, record))
    if len(records) > MOST_RECORDS:
        records = []

    def seconds(values: array[int]) -> Column:
        return np.frombuffer(values, dtype=np.int64) / _SECOND

    def plain(values: array[int], kind: type = np.int64) -> Column:
        return np.frombuffer(values, dtype=kind)

    fpdus = DrawnFPDUs(
        plain(columns["start"]),
        plain(columns["end"]),
        plain(small["opcode"], np.int8),
        plain(small["located"], np.int8),
        plain(small["is_bad"], np.int8).astype(bool),
        plain(small["is_early"], np.int8).astype(bool),
        *(seconds(columns[name]) for name in ("time", "first_time", "turn_time")),
    )
    segments = _segments(track, window, brought, begun, half.seq_start is not None)
    acks = DrawnAcks((plain(track.ack_times) - begun) / _SECOND, plain(track.acks), plain(track.ack_edges))
    kept = _inside(plain(track.ack_frames, np.uint64), plain(track.ack_times), window) & (acks.ack >= 0)
    acks = DrawnAcks(*(column[kept] for column in acks))
    return HalfView(direction, bool(half.markers), segments, fpdus, acks, records, track)


def _time(track: HalfTrack, frame: int, otherwise: int) -> int:
    index = track.index_of(frame)
    return track.times[index] if index < len(track.times) else otherwise


def _inside(frames: Column, times: Column, window: Stretch) -> Column:
    import numpy as np

    kept = np.ones(len(frames), dtype=bool)
    if window.frames is not None:
        first, last = window.frames
        kept &= frames >= first
        if last is not None:
            kept &= frames <= last
    if window.since is not None:
        kept &= times >= window.since
    if window.until is not None:
        kept &= times <= window.until
    return kept


def _segments(
    track: HalfTrack, window: Stretch, brought: bytearray, begun: int, is_full_operation: bool
) -> DrawnSegments:
    import numpy as np

    frames, times = np.frombuffer(track.frames, dtype=np.uint64), np.frombuffer(track.times, dtype=np.int64)
    starts = np.frombuffer(track.starts, dtype=np.int64)
    lengths = np.frombuffer(track.lengths, dtype=np.uint32).astype(np.int64)
    ends = starts + lengths
    # The end of what was captured before each segment.
    before = np.concatenate(([0], np.maximum.accumulate(ends)[:-1])) if len(ends) else ends
    is_new = np.frombuffer(brought, dtype=np.uint8)[: len(frames)].astype(bool) | (ends > before)
    is_late = is_new & (starts < before)
    kept = _inside(frames, times, window) & (lengths > 0) & (ends > 0)
    if not is_full_operation:
        kept &= False
    columns = (frames, (times - begun) / _SECOND, starts, ends, is_new, is_late)
    return DrawnSegments(*(column[kept] for column in columns))


def holes(view: HalfView) -> list[tuple[int, int]]:
    """Octets that no segment brought, between the first and the last that are drawn."""
    import numpy as np

    if not len(view.segments.start):
        return []
    starts = np.frombuffer(view.track.starts, dtype=np.int64)
    ends = starts + np.frombuffer(view.track.lengths, dtype=np.uint32)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    where = np.nonzero(starts[1:] > ends[:-1])[0]
    low, high = int(view.segments.start.min()), int(view.segments.end.max())
    found = [(int(ends[index]), int(starts[index + 1])) for index in where]
    return [(first, end) for first, end in found if end > max(low, 0) and first < high]
