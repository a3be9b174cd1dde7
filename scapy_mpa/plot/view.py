"""What is drawn of a connection: segments, FPDUs and acknowledgements of its half connections as columns of numbers.

What lies outside the frames and times that were asked for is left out. FPDUs are those of the report, segments are read
once more; nothing is decoded again. Some 40 octets an FPDU, 30 a segment.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.report.buffers import AtOnce, BufferCount, HalfBuffers, Leaving, half_buffers, turns
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.track import HalfTrack, tracks
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
    """A half connection as it is drawn. ``records`` are its FPDUs, none if there are too many."""

    direction: Role
    markers: bool
    segments: DrawnSegments
    fpdus: DrawnFPDUs
    acks: DrawnAcks
    records: list[FPDURecord]
    track: HalfTrack


class WholeHalf(NamedTuple):
    """All of a half connection, of which a stretch is drawn: FPDUs with frame and time (nanoseconds), segments too."""

    fpdus: DrawnFPDUs
    frames: Column
    times: Column
    segments: DrawnSegments
    segment_times: Column


class Subject:
    """The connection that pictures are of, in some directions; what they are drawn from is gathered once for all.

    The report must hold FPDUs. ``read`` are segments with acknowledgements, where they were read already, as they are
    for whoever draws everything; else the captures are read when a picture needs them, which raises
    :class:`~scapy_mpa.errors.CaptureError` if that cannot be done.
    """

    def __init__(
        self, connection: Connection, directions: Sequence[Role], read: dict[Role, HalfTrack] | None = None
    ) -> None:
        self.connection = connection
        self.directions = tuple(directions)
        self._tracks = read
        self._has_acks = self._wants_all = read is not None
        self._whole: dict[Role, WholeHalf] = {}
        self._buffers: dict[Role, HalfBuffers] = {}

    def only(self, directions: Sequence[Role]) -> Subject:
        """The same in some directions."""
        other = copy(self)
        other.directions = tuple(directions)
        return other

    def track(self, direction: Role, *, acks: bool = False) -> HalfTrack:
        """The segments of a half connection, with acknowledgements if asked for."""
        if self._tracks is None or (acks and not self._has_acks):
            self._has_acks = acks
            read = tracks([self.connection], acks=acks)
            self._tracks = {side: read[self.connection.number, side] for side in ROLES}
        return self._tracks[direction]

    def buffers(self, direction: Role) -> HalfBuffers:
        """What a receiver of a half connection had to hold."""
        if self._wants_all:
            self.whole(direction)
        if direction not in self._buffers:
            self._buffers[direction] = half_buffers(self.connection, direction, self.track(direction))
        return self._buffers[direction]

    def whole(self, direction: Role) -> WholeHalf:
        """All of a half connection."""
        if direction not in self._whole:
            track, there = self.track(direction), turns(self.connection, direction)
            if self._wants_all:
                # To go through all FPDUs takes longer than to count.
                count = BufferCount(track)
                self._whole[direction] = _whole(self.connection, direction, track, _counted(there, count))
                self._buffers[direction] = count.result(self.connection.crc)
            else:
                self._whole[direction] = _whole(self.connection, direction, track, there)
        return self._whole[direction]

    def views(self, window: Stretch, *, acks: bool = False) -> list[HalfView]:
        """The half connections that are drawn: those that have FPDUs or segments of Full Operation in the window."""
        views = [self._view(direction, window, acks) for direction in self.directions]
        return [view for view in views if len(view.fpdus.start) or len(view.segments.start)]

    def _view(self, direction: Role, window: Stretch, acks: bool) -> HalfView:
        import numpy as np

        track, half = self.track(direction, acks=acks), self.connection.half(direction)
        whole = self.whole(direction)
        fpdus, segments = whole.fpdus, whole.segments
        kept = inside(whole.frames, whole.times, window)
        numbers = np.flatnonzero(kept)
        records: list[FPDURecord] = []
        if len(numbers) <= MOST_RECORDS:
            found = half.fpdus.some(numbers.tolist())
            records = [found[number] for number in sorted(found)]
        if not window.is_open:
            fpdus = DrawnFPDUs(*(column[kept] for column in fpdus))
            there = inside(segments.frame, whole.segment_times, window)
            segments = DrawnSegments(*(column[there] for column in segments))
        drawn = _acks(track, window, self.connection.lifecycle.first[1], acks)
        return HalfView(direction, bool(half.markers), segments, fpdus, drawn, records, track)


def _counted(there: Iterable[Leaving | AtOnce], count: BufferCount) -> Iterator[Leaving | AtOnce]:
    """The same FPDUs, counted on their way."""
    for turn in there:
        count.take(turn)
        yield turn


def _whole(connection: Connection, direction: Role, track: HalfTrack, there: Iterable[Leaving | AtOnce]) -> WholeHalf:
    """All of a half connection, FPDU by FPDU, or frame by frame where that brought, placed and delivered several."""
    import numpy as np

    begun = connection.lifecycle.first[1]
    half = connection.half(direction)
    # An entry stands for as many FPDUs one behind the other as it counts.
    offsets, counts, frames, times = array("q"), array("q"), array("q"), array("q")
    located, is_bad, is_early = bytearray(), bytearray(), bytearray()
    lengths, opcodes, brought = array("I"), bytearray(), array("q")
    #: Of entries whose frame was not the first that brought octets, or their turn: which, and these two times.
    waited, first_times, turn_times = array("q"), array("q"), array("q")
    for turn in there:
        if isinstance(turn, AtOnce):
            run = turn.run
            offsets.append(turn.offset)
            counts.append(len(run.lengths))
            frames.append(run.frame)
            times.append(run.row.time)
            located.append(run.row.flags >> 2 & 3)
            is_bad.append(0)
            is_early.append(0)
            lengths.extend(run.lengths)
            opcodes.extend([_OPCODE_PLACES[one >> 16] for one in run.fpdus])
            brought.append(run.frame)
            continue
        offset, record, leaves = turn
        brought.extend(record.frames)
        waited.append(len(offsets))
        first_times.append(_time(track, record.frames[0], record.time_ns))
        turn_times.append(_time(track, leaves[0], record.time_ns))
        offsets.append(offset)
        counts.append(1)
        frames.append(record.placed_frame or record.frames[-1])
        times.append(record.time_ns)
        located.append(LOCATED_BY.index(record.located_by))
        is_bad.append(record.crc == "bad")
        is_early.append(record.placed_frame is not None and record.placed_frame < leaves[0])
        lengths.append(record.wire_length)
        opcodes.append(OPCODE_NAMES.index(record.opcode))

    def plain(values: array[int]) -> Column:
        return np.frombuffer(values, dtype=np.int64)

    def small(values: bytearray) -> Column:
        return np.frombuffer(values, dtype=np.int8)

    each = plain(counts)
    octets = np.frombuffer(lengths, dtype=np.uint32)
    # Columns with an entry for each FPDU are large: what can be is computed in place, or shared.
    ends = np.cumsum(octets, dtype=np.int64)
    starts = ends - octets
    # What lies before the first FPDU of each entry is where the stream is, less what was counted up to there.
    begins = np.cumsum(each) - each
    shift = np.repeat(plain(offsets) - starts[begins] if len(each) else plain(offsets), each)
    starts += shift
    ends += shift
    del shift, octets
    time = np.repeat((plain(times) - begun) / _SECOND, each)
    first = turn_time = time
    if waited:
        first, turn_time = time.copy(), time.copy()
        places = begins[plain(waited)]
        first[places], turn_time[places] = ((plain(one) - begun) / _SECOND for one in (first_times, turn_times))
    fpdus = DrawnFPDUs(
        starts,
        ends,
        small(opcodes),
        np.repeat(small(located), each),
        np.repeat(small(is_bad).astype(bool), each),
        np.repeat(small(is_early).astype(bool), each),
        *(time, first, turn_time),
    )
    segments, segment_times = _segments(track, plain(brought), begun, half.seq_start is not None)
    return WholeHalf(fpdus, np.repeat(plain(frames), each), np.repeat(plain(times), each), segments, segment_times)


def _acks(track: HalfTrack, window: Stretch, begun: int, is_wanted: bool) -> DrawnAcks:
    import numpy as np

    times, frames = np.frombuffer(track.ack_times, dtype=np.int64), np.frombuffer(track.ack_frames, dtype=np.uint64)
    ack, edge = (np.frombuffer(values, dtype=np.int64) for values in (track.acks, track.ack_edges))
    kept = inside(frames, times, window) & (ack >= 0) & is_wanted
    return DrawnAcks((times[kept] - begun) / _SECOND, ack[kept], edge[kept])


def _time(track: HalfTrack, frame: int, otherwise: int) -> int:
    index = track.index_of(frame)
    return track.times[index] if index < len(track.times) else otherwise


def inside(frames: Column, times: Column, window: Stretch) -> Column:
    """Which of these frames, with their times in nanoseconds, are drawn."""
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


def _segments(track: HalfTrack, brought: Column, begun: int, is_full_operation: bool) -> tuple[DrawnSegments, Column]:
    """The segments of Full Operation, and their times in nanoseconds; some frames ``brought`` new octets."""
    import numpy as np

    frames, times = np.frombuffer(track.frames, dtype=np.uint64), np.frombuffer(track.times, dtype=np.int64)
    starts = np.frombuffer(track.starts, dtype=np.int64)
    lengths = np.frombuffer(track.lengths, dtype=np.uint32).astype(np.int64)
    ends = starts + lengths
    # The end of what was captured before each segment.
    before = np.concatenate(([0], np.maximum.accumulate(ends)[:-1])) if len(ends) else ends
    has_brought = np.zeros(len(frames) + 1, dtype=bool)
    has_brought[np.searchsorted(frames, brought.astype(np.uint64))] = True
    is_new = has_brought[:-1] | (ends > before)
    is_late = is_new & (starts < before)
    kept = (lengths > 0) & (ends > 0) & is_full_operation
    columns = (frames, (times - begun) / _SECOND, starts, ends, is_new, is_late)
    return DrawnSegments(*(column[kept] for column in columns)), times[kept]


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
