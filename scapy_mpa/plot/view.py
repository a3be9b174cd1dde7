"""What is drawn of a connection: segments, FPDUs and acknowledgements of its half connections as columns of numbers.

What lies outside the frames and times that were asked for is left out. FPDUs are those of the report, segments are read
again; nothing is decoded again. Some 80 octets a segment, whatever FPDUs it brings.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.messages.row import MessageRow
from scapy_mpa.plot.look import Heading, kind_of
from scapy_mpa.plot.order import findings_sentence, order_sentences
from scapy_mpa.plot.rows import ConnectionRows
from scapy_mpa.report.buffers import AtOnce, BufferCount, HalfBuffers, Leaving, half_buffers, turns
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.track import HalfTrack, tracks
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import LOCATED_BY, FPDURecord

if TYPE_CHECKING:
    import numpy

    #: Numbers of one column.
    Column: TypeAlias = numpy.ndarray[Any, numpy.dtype[Any]]

#: FPDUs, or segments, that lanes draw one by one; that anything does.
MOST_RECORDS, MOST_EACH = 240, 1000
#: What is said about a connection of which there is nothing to draw.
NOTHING = "no segment of Full Operation is within what is drawn; --kind ladder shows how the connection began and ended"
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
        """True if all is drawn."""
        return self == Stretch()

    def has(self, frame: int, time: int) -> bool:
        """Return True if what happened at a frame, at a time, is drawn."""
        if self.frames is not None:
            first, last = self.frames
            if frame < first or (last is not None and frame > last):
                return False
        return (self.since is None or time >= self.since) and (self.until is None or time <= self.until)

    def words(self, begun: int) -> str:
        """Return what is drawn of a connection that began then (nanoseconds), in words; "" if that is everything."""
        said = []
        if self.frames is not None:
            first, last = self.frames
            said.append(f"frames {first} to {last}" if last is not None else f"frames from {first} on")
        if self.since is not None:
            said.append(f"from {(self.since - begun) / _SECOND:g} s on")
        if self.until is not None:
            said.append(f"up to {(self.until - begun) / _SECOND:g} s")
        return "only " + ", ".join(said) if said else ""


class DrawnSegments(NamedTuple):
    """Columns, one entry a segment: frame, seconds since the connection began, first octet, the one after the last.

    ``is_new``: it brought octets that none before it had; ``is_late``: it came after segments that follow it.
    """

    frame: Column
    time: Column
    start: Column
    end: Column
    is_new: Column
    is_late: Column


class DrawnFPDUs(NamedTuple):
    """Columns, one entry an FPDU, or some of one kind that lie one after the other and came in one frame.

    First octet, the one after the last; how many; opcode; :data:`~scapy_mpa.values.records.LOCATED_BY`; whether its
    CRC is bad; whether it was placed early; whether it came after a RST, so that no receiver placed it;
    seconds since the connection began: of the frame that placed it (completed it), of the first frame that brought
    octets of it, and of its turn.
    """

    start: Column
    end: Column
    count: Column
    opcode: Column
    located: Column
    is_bad: Column
    is_early: Column
    is_reset: Column
    time: Column
    first_time: Column
    turn_time: Column


class DrawnAcks(NamedTuple):
    """Columns: seconds, the octet up to which the peer has everything, that up to which it offers a window (or -1)."""

    time: Column
    ack: Column
    edge: Column


class DrawnParts(NamedTuple):
    """Columns, an entry a stretch of octets that a segment brought: first octet, the one after the last, when."""

    start: Column
    end: Column
    time: Column
    frame: Column


class OctetParts(NamedTuple):
    """The octets of segments: each that was captured is once in one of the first two, further copies are repeats."""

    ahead: DrawnParts
    filling: DrawnParts
    repeats: DrawnParts


class TimeMark(NamedTuple):
    """A mark where a connection begins or ends: frame, seconds since the start, sender, a word, and whether it is bad.

    ``last_frame`` is that of the last one, if there were several, which ``times`` says.
    """

    frame: int
    time: float
    side: Role | None
    what: str
    is_bad: bool = False
    last_frame: int = 0
    times: int = 1

    def words(self, *, names_side: bool) -> str:
        """The words for it."""
        whose = f" of the {self.side}" if names_side and self.side is not None else ""
        times = f", {self.times:,} times" if self.times > 1 else ""
        where = f" (frame {self.frame}{' on' if self.times > 1 else ''})" if self.is_bad else ""
        return self.what + whose + times + where


class HalfView(NamedTuple):
    """A half connection as it is drawn. ``records`` are its FPDUs, none if there are too many."""

    direction: Role
    markers: bool
    segments: DrawnSegments
    fpdus: DrawnFPDUs
    fpdu_count: int
    acks: DrawnAcks
    records: list[FPDURecord]
    track: HalfTrack


class WholeHalf(NamedTuple):
    """All of a half connection, a stretch of which is drawn: FPDUs with frame and time (nanoseconds), segments too."""

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
        self,
        connection: Connection,
        directions: Sequence[Role],
        read: dict[Role, HalfTrack] | None = None,
        *,
        says_verdict: bool = True,
        messages: ConnectionRows | None = None,
    ) -> None:
        self.connection = connection
        self.directions = tuple(directions)
        #: True if pictures say what became of the connection; else that is said beside them.
        self.says_verdict = says_verdict
        #: Its messages, if they were read already.
        self.messages = messages
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
        """Return what a receiver of a half connection had to hold."""
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

    @contextmanager
    def rows(self) -> Iterator[Callable[[], Iterator[MessageRow]]]:
        """Have what yields the messages of the connection, as often as one likes.

        Raises as :class:`~scapy_mpa.plot.rows.ConnectionRows` does.
        """
        shared = self.messages
        if shared is not None:
            yield lambda: shared.of([self.connection])
            return
        with ConnectionRows([self.connection]) as mine:
            yield lambda: mine.of([self.connection])

    def heading(self, what: str, window: Stretch) -> Heading:
        """Return the text above a picture."""
        connection = self.connection
        only = window.words(connection.lifecycle.first[1])
        whose = f"connection {connection.number}, {connection.name}" + (f", {only}" if only else "")
        verdict: tuple[str, ...] = ()
        if self.says_verdict:
            said = connection.verdict
            verdict = (said[:1].upper() + said[1:] + ".", *order_sentences(connection), findings_sentence(connection))
        return Heading(what, whose, verdict, connection.lifecycle.is_unfinished)

    def marks(self, window: Stretch) -> list[TimeMark]:
        """Return what begins and ends the connection, in the order of capture."""
        connection, begun = self.connection, self.connection.lifecycle.first[1]
        found = [
            TimeMark(one.frame, (one.time - begun) / _SECOND, one.side, one.what, "rejects" in one.what)
            for one in connection.startup_events
            if one.what not in ("FIN", "RST") and window.has(one.frame, one.time)
        ]
        for side in ROLES:
            terminated = connection.lifecycle.half(side).terminated
            if terminated is not None and window.has(terminated.frame, terminated.time):
                found.append(TimeMark(terminated.frame, (terminated.time - begun) / _SECOND, side, "Terminate", True))
            for name, sign in self.track(side).signs.items():
                if name == "SYN" or not window.has(sign.frame, sign.time):
                    continue
                time, is_reset = (sign.time - begun) / _SECOND, name == "RST"
                times = sign.segments if is_reset else 1
                found.append(TimeMark(sign.frame, time, side, name, is_reset, sign.last_frame, times))
        if connection.lifecycle.ended == "lost" and connection.lifecycle.ended_frame is not None:
            time = (connection.lifecycle.ended_time - begun) / _SECOND
            found.append(TimeMark(connection.lifecycle.ended_frame, time, None, "last retransmission in vain", True))
        return sorted(found, key=lambda mark: mark.frame)

    def parts(self, direction: Role, window: Stretch) -> OctetParts:
        """The octets of the segments of a half connection that are drawn, each that was captured once."""
        whole = self.whole(direction)
        kept = inside(whole.segments.frame, whole.segment_times, window)
        return _parts(whole.segments, kept)

    def _view(self, direction: Role, window: Stretch, acks: bool) -> HalfView:
        import numpy as np

        track, half = self.track(direction, acks=acks), self.connection.half(direction)
        whole = self.whole(direction)
        fpdus, segments = whole.fpdus, whole.segments
        kept = inside(whole.frames, whole.times, window)
        if not window.is_open:
            fpdus = DrawnFPDUs(*(column[kept] for column in fpdus))
        records: list[FPDURecord] = []
        count = int(fpdus.count.sum())
        if count <= MOST_EACH:
            begins = np.cumsum(whole.fpdus.count) - whole.fpdus.count
            numbers = np.repeat(begins[kept] - (np.cumsum(fpdus.count) - fpdus.count), fpdus.count) + np.arange(count)
            found = half.fpdus.some(numbers.tolist())
            records = [found[number] for number in sorted(found)]
            fpdus = _each(fpdus, records)
        if not window.is_open:
            there = inside(segments.frame, whole.segment_times, window)
            segments = DrawnSegments(*(column[there] for column in segments))
        drawn = _acks(track, window, self.connection.lifecycle.first[1], acks)
        return HalfView(direction, bool(half.markers), segments, fpdus, count, drawn, records, track)


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
    starts, ends, counts, frames, times = (array("q") for _ in range(5))
    opcodes, located, is_bad, is_early = bytearray(), bytearray(), bytearray(), bytearray()
    brought = array("q")
    #: Of entries whose frame was not the first that brought octets, or their turn: which, and these two times.
    waited, first_times, turn_times = array("q"), array("q"), array("q")
    for turn in there:
        if isinstance(turn, AtOnce):
            run, end = turn.run, turn.offset
            for opcode, count, octets in _alike(run.fpdus, run.lengths):
                starts.append(end)
                end += octets
                ends.append(end)
                counts.append(count)
                frames.append(run.frame)
                times.append(run.row.time)
                opcodes.append(_OPCODE_PLACES[opcode])
                located.append(run.row.flags >> 2 & 3)
                is_bad.append(0)
                is_early.append(0)
            brought.append(run.frame)
            continue
        offset, record, leaves = turn
        brought.extend(record.frames)
        waited.append(len(starts))
        first_times.append(_time(track, record.frames[0], record.time_ns))
        turn_times.append(_time(track, leaves[0], record.time_ns))
        starts.append(offset)
        ends.append(offset + record.wire_length)
        counts.append(1)
        frames.append(record.placed_frame or record.frames[-1])
        times.append(record.time_ns)
        opcodes.append(OPCODE_NAMES.index(record.opcode))
        located.append(LOCATED_BY.index(record.located_by))
        is_bad.append(record.crc == "bad")
        is_early.append(record.placed_frame is not None and record.placed_frame < leaves[0])

    def plain(values: array[int]) -> Column:
        return np.frombuffer(values, dtype=np.int64)

    def small(values: bytearray) -> Column:
        return np.frombuffer(values, dtype=np.int8)

    time = (plain(times) - begun) / _SECOND
    first, turn_time = time, time
    if waited:
        first, turn_time = time.copy(), time.copy()
        places = plain(waited)
        first[places], turn_time[places] = ((plain(one) - begun) / _SECOND for one in (first_times, turn_times))
    reset = connection.lifecycle.reset_frame
    is_reset = plain(frames) > reset if reset is not None else np.zeros(len(frames), dtype=bool)
    fpdus = DrawnFPDUs(
        plain(starts),
        plain(ends),
        plain(counts),
        small(opcodes),
        small(located),
        small(is_bad).astype(bool),
        small(is_early).astype(bool) & ~is_reset,
        is_reset,
        *(time, first, turn_time),
    )
    segments, segment_times = _segments(track, plain(brought), begun, half.seq_start is not None)
    return WholeHalf(fpdus, plain(frames), plain(times), segments, segment_times)


def _alike(fpdus: Sequence[int], lengths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the FPDUs of a frame, those of one kind that follow one another together: opcode, how many, octets."""
    if len({one >> 16 for one in fpdus}) == 1:
        yield fpdus[0] >> 16, len(fpdus), sum(lengths)
        return
    for _, group in groupby(zip(fpdus, lengths, strict=True), key=lambda one: kind_of(one[0] >> 16)):
        some = [*group]
        yield some[0][0] >> 16, len(some), sum(length for _, length in some)


def _each(fpdus: DrawnFPDUs, records: Sequence[FPDURecord]) -> DrawnFPDUs:
    """The same with an entry for each FPDU, whose records these are."""
    import numpy as np

    each = fpdus.count
    if len(records) != int(each.sum()):
        return fpdus  # the log does not have them all
    lengths = np.array([record.wire_length for record in records], dtype=np.int64)
    ends = np.cumsum(lengths)
    begins = np.cumsum(each) - each
    # What lies before the first FPDU of each entry is where the stream is, less what was counted up to there.
    ends += np.repeat(fpdus.start - (ends - lengths)[begins], each)
    opcodes = np.array([OPCODE_NAMES.index(record.opcode) for record in records], dtype=np.int8)
    same = DrawnFPDUs(*(np.repeat(column, each) for column in fpdus))
    return same._replace(start=ends - lengths, end=ends, count=np.ones(len(lengths), dtype=np.int64), opcode=opcodes)


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
    """Return which of these frames, with their times in nanoseconds, are drawn."""
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


def _parts(segments: DrawnSegments, kept: Column) -> OctetParts:
    """Return which octets each of the ``kept`` segments carried first, and which it repeated."""
    import numpy as np

    start, end = np.maximum(segments.start, 0), segments.end
    late = np.flatnonzero(segments.is_late)
    filling, repeats = _Stretches(), _Stretches()
    ahead = np.where(segments.is_new, start, end)
    if len(late):
        before = np.maximum(np.concatenate(([0], np.maximum.accumulate(end)[:-1])), 0)
        ahead[late] = np.minimum(np.maximum(start, before), end)[late]
        gaps = _Gaps()
        for index in np.flatnonzero(segments.is_late | (start > before)).tolist():
            first, last, known = int(start[index]), int(end[index]), int(before[index])
            if first > known:
                gaps.open(known, first)
                continue
            rest = first
            for low, high in gaps.fill(first, min(last, known)):
                filling.add(index, low, high)
                repeats.add(index, rest, low)
                rest = high
            repeats.add(index, rest, min(last, known))
    again = np.flatnonzero(~segments.is_new & kept)

    def parts(index: Column, first: Column, last: Column) -> DrawnParts:
        return DrawnParts(first, last, segments.time[index], segments.frame[index])

    new = np.flatnonzero((ahead < end) & kept)
    copies = repeats.columns(kept)
    copied = (
        np.concatenate((again, copies[0])),
        np.concatenate((start[again], copies[1])),
        np.concatenate((end[again], copies[2])),
    )
    return OctetParts(parts(new, ahead[new], end[new]), parts(*filling.columns(kept)), parts(*copied))


class _Stretches:
    """Stretches of octets, each with the number of the segment that brought it."""

    def __init__(self) -> None:
        self._index, self._start, self._end = array("q"), array("q"), array("q")

    def add(self, index: int, start: int, end: int) -> None:
        """Add one more, if it is not empty."""
        if start < end:
            self._index.append(index)
            self._start.append(start)
            self._end.append(end)

    def columns(self, kept: Column) -> tuple[Column, Column, Column]:
        """Return those of the kept segments: number, first octet, the one after the last."""
        import numpy as np

        index, start, end = (np.array(one, dtype=np.int64) for one in (self._index, self._start, self._end))
        there = kept[index]
        return index[there], start[there], end[there]


class _Gaps:
    """The octets of a stream that were not captured yet, as stretches in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def open(self, start: int, end: int) -> None:
        """Octets after all others are missing."""
        self._starts.append(start)
        self._ends.append(end)

    def fill(self, start: int, end: int) -> list[tuple[int, int]]:
        """Octets came; returns those of them that were missing."""
        first = bisect_right(self._ends, start)
        last = bisect_left(self._starts, end)
        found = [
            (max(low, start), min(high, end))
            for low, high in zip(self._starts[first:last], self._ends[first:last], strict=True)
        ]
        if found:
            left = [(self._starts[first], start), (end, self._ends[last - 1])]
            left = [(low, high) for low, high in left if low < high]
            self._starts[first:last] = [low for low, _ in left]
            self._ends[first:last] = [high for _, high in left]
        return found


def unacknowledged(connection: Connection, view: HalfView) -> tuple[int, int] | None:
    """The octets that are drawn of those at the end of the stream that were never acknowledged; None without any."""
    octets = connection.lifecycle.half(view.direction).unacknowledged_octets
    if not octets or not len(view.segments.end):
        return None
    last = max(map(sum, zip(view.track.starts, view.track.lengths, strict=True)))
    first, end = max(last - octets, int(view.segments.start.min())), min(last, int(view.segments.end.max()))
    return (first, end) if first < end else None


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
