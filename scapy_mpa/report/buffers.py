"""How many octets a receiver had to hold, and at what cost: RFC 5044 appendix B, computed for a capture.

A receiver holds octets of an FPDU from the frame that brought them to the frame at which it can place the FPDU. When
that is depends on how it finds FPDUs, k being one of them, in frames of the capture:

    order(k)  = max(complete(j) for all j <= k)     it waits for full order, as TCP alone does
    length(k) = max(complete(k), length(k-1))       it places by length alone; after octets never captured and after a
                                                    bad CRC, where nobody knows the length, it searches: complete(k)
    marker(k) = placed(k)                           by Marker and length, as the receiver does

complete(k) and placed(k) are the receiver's. An FPDU whose CRC is bad is dropped when it is located and complete.
Octets never captured hold nothing back in any of the three, and what belongs to no FPDU that was captured whole is not
counted. What one frame brings and places is never held. Without Markers the second and the third are the same.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Literal, TypeAlias

from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import FPDURun
from scapy_mpa.report.model import Report
from scapy_mpa.report.track import HalfTrack, tracks
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURecord
from scapy_mpa.values.words import plural

#: How a receiver finds FPDUs.
Way: TypeAlias = Literal["order", "length", "marker"]
WAYS: tuple[Way, ...] = ("order", "length", "marker")
WAY_WORDS: dict[Way, str] = {
    "order": "waiting for full order",
    "length": "placing by length alone",
    "marker": "by Marker and length",
}
_SECOND = 1_000_000_000
#: Different numbers of segments an FPDU lies in that the text lists.
_SPREADS = 4


class Leaving(NamedTuple):
    """An FPDU, where it begins, and when a receiver can place or drops it: three frames, as :data:`WAYS` has them."""

    offset: int
    record: FPDURecord
    leaves: tuple[int, int, int]


class AtOnce(NamedTuple):
    """FPDUs one after the other, and where the first begins: the frame that carried them placed them, in any way."""

    offset: int
    run: FPDURun


def turns(connection: Connection, direction: Role) -> Iterator[Leaving | AtOnce]:
    """Yield the FPDUs of a half connection, in the order of the stream."""
    half, clock = connection.half(direction), _Clock(connection)
    offset, seq = 0, half.seq_start or 0
    for entry in half.fpdus.entries():
        first = entry.row.seq if isinstance(entry, FPDURun) else entry.seq
        offset += first - seq & SEQ_MASK
        seq = first
        if isinstance(entry, FPDURecord):
            yield Leaving(offset, entry, clock.pass_fpdu(offset, entry))
        elif entry.is_at_once:
            clock.pass_run(offset + sum(entry.lengths), entry.frame)
            yield AtOnce(offset, entry)
        else:
            at = offset
            for record in entry.records():
                yield Leaving(at, record, clock.pass_fpdu(at, record))
                at += record.wire_length


class _Clock:
    """When FPDUs can be placed, in the order of the stream."""

    __slots__ = ("_by_length", "_by_marker", "_end", "_floor", "_in_order")

    def __init__(self, connection: Connection) -> None:
        startup = connection.request_frame or 0, connection.reply_frame or 0
        self._floor = 0 if connection.inferred else max(startup)
        self._in_order = self._by_length = self._by_marker = self._end = 0

    def pass_fpdu(self, offset: int, record: FPDURecord) -> tuple[int, int, int]:
        """The next FPDU; returns when it leaves, by :data:`WAYS`."""
        placed = record.placed_frame
        complete = max(record.frames[-1], self._floor)
        is_found = placed is not None and record.located_by == "scan"
        # Behind a gap or a wrong length the next FPDU is searched for.
        if offset != self._end or is_found:
            self._by_length = 0
            if not record.markers or is_found:
                self._by_marker = 0
        if placed is not None:
            complete, self._by_marker = min(complete, placed), placed
        else:
            self._by_marker = complete if record.markers else max(complete, self._by_marker)
        self._by_length = max(complete, self._by_length, self._by_marker)
        self._in_order = max(complete, self._in_order, self._by_length)
        leaves = self._in_order, self._by_length, self._by_marker
        self._end = offset + record.wire_length
        if record.crc == "bad":
            self._by_length = 0
        return leaves

    def pass_run(self, end: int, frame: int) -> None:
        """Pass FPDUs up to an offset, which were delivered by the frame that carried them: none before them waits."""
        self._in_order = max(self._in_order, frame)
        self._by_length = self._by_marker = frame
        self._end = end


class Held(NamedTuple):
    """Octets held one way: the most, first at which frame; octets times nanoseconds; the time."""

    peak: int
    peak_frame: int | None
    octet_ns: int
    ns: int

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        return {
            "peak_octets": self.peak,
            "peak_frame": self.peak_frame,
            "octet_seconds": self.octet_ns / _SECOND,
            "mean_octets": self.octet_ns / self.ns if self.ns else 0.0,
        }


class HalfBuffers(NamedTuple):
    """What a receiver of one half connection had to hold and to do.

    Attributes:
        fpdus: those that were captured whole.
        octets: of these, on the wire.
        at_once: octets of them that the frame which brought them placed, by Marker and length.
        spread: how many FPDUs span how many segments.
        crc: whether CRCs are in use.
        held: by :data:`WAYS`.
        series: octets held after each frame of the track, by :data:`WAYS`.
    """

    fpdus: int
    octets: int
    at_once: int
    spread: dict[int, int]
    crc: bool
    held: dict[Way, Held]
    series: dict[Way, array[int]]

    @property
    def parts(self) -> int:
        """The number of parts of FPDUs in segments: each is copied separately, and takes a run of the CRC machine
        (B.2.1).
        """
        return sum(segments * count for segments, count in self.spread.items())

    def as_dict(self) -> dict[str, Any]:
        """The keys of the report's JSON."""
        each = self.parts / self.fpdus if self.fpdus else 0.0
        return {
            **{way: self.held[way].as_dict() for way in WAYS},
            "octets": self.octets,
            "octets_placed_at_once": self.at_once,
            "fpdus_by_segments": {str(segments): count for segments, count in sorted(self.spread.items())},
            "segments_an_fpdu": each,
            "copies_an_fpdu": each,
            "crc_passes_an_fpdu": each if self.crc else 0.0,
        }


def half_buffers(connection: Connection, direction: Role, track: HalfTrack) -> HalfBuffers:
    """Return what a receiver of a half connection had to hold. The report must hold FPDUs."""
    count = BufferCount(track)
    for turn in turns(connection, direction):
        count.take(turn)
    return count.result(connection.crc)


class BufferCount:
    """Counts what a receiver of a half connection had to hold, given its FPDUs in the order of the stream."""

    def __init__(self, track: HalfTrack) -> None:
        self._track = track
        self._changes = {way: array("q", bytes(8 * (len(track.frames) + 1))) for way in WAYS}
        self._fpdus = self._octets = self._at_once = 0
        self._spread: Counter[int] = Counter()

    def take(self, turn: Leaving | AtOnce) -> None:
        """The next FPDUs."""
        if isinstance(turn, AtOnce):
            lengths = turn.run.lengths
            octets = sum(lengths)
            self._fpdus += len(lengths)
            self._octets += octets
            self._at_once += octets
            self._spread[1] += len(lengths)
            return
        offset, record, leaves = turn
        frames, length = record.frames, record.wire_length
        self._fpdus += 1
        self._octets += length
        self._spread[len(frames)] += 1
        if len(frames) == 1 and leaves[0] == frames[0]:
            self._at_once += length  # by any way
            return
        track, changes = self._track, self._changes
        for frame, some in track.parts(frames, offset, length):
            if leaves[2] == frame:
                self._at_once += some
            begin = track.index_of(frame)
            for way, leave in zip(WAYS, leaves, strict=True):
                if leave > frame:
                    changes[way][begin] += some
                    changes[way][track.index_of(leave)] -= some

    def result(self, crc: bool) -> HalfBuffers:
        """Return the result; ``crc`` says whether CRCs are in use."""
        series = {way: array("q", accumulate(self._changes[way][:-1])) for way in WAYS}
        held = {way: _held(self._track, series[way]) for way in WAYS}
        spread = dict(sorted(self._spread.items()))
        return HalfBuffers(self._fpdus, self._octets, self._at_once, spread, crc, held, series)


def _held(track: HalfTrack, series: Sequence[int]) -> Held:
    peak = max(series, default=0)
    peak_frame = track.frames[series.index(peak)] if peak else None
    times = track.times
    weighted = total = 0
    for index in range(len(times) - 1):
        # Clocks go backward, sometimes.
        step = max(0, times[index + 1] - times[index])
        weighted += series[index] * step
        total += step
    return Held(peak, peak_frame, weighted, total)


def buffers_of(report: Report, directions: Sequence[Role] = ROLES) -> dict[tuple[int, Role], HalfBuffers]:
    """Return what receivers had to hold, by connection and direction; half connections without FPDUs are left out.

    The report must hold FPDUs; the captures are read again. Raises :class:`~scapy_mpa.errors.CaptureError` if that
    cannot be done.
    """
    found = {}
    there = [one for one in report.connections if any(len(one.half(direction).fpdus) for direction in directions)]
    read = tracks(there)
    for connection in there:
        for direction in directions:
            track = read.pop((connection.number, direction))
            if len(connection.half(direction).fpdus):
                # The series of many connections would be as large as these.
                whole = half_buffers(connection, direction, track)
                found[connection.number, direction] = whole._replace(series={})
    return found


def add_buffers(values: dict[str, Any], found: dict[tuple[int, Role], HalfBuffers]) -> dict[str, Any]:
    """Return the JSON of a report, its connections one by one, with ``buffers`` in each half, null in one without
    FPDUs.
    """
    return {**values, "connections": (_with_buffers(one, found) for one in values["connections"])}


def _with_buffers(connection: dict[str, Any], found: dict[tuple[int, Role], HalfBuffers]) -> dict[str, Any]:
    for direction, half in connection["halves"].items():
        one = found.get((connection["connection"], direction))
        half["buffers"] = one.as_dict() if one is not None else None
    return connection


def buffer_lines(
    connection: Connection, found: dict[tuple[int, Role], HalfBuffers], directions: Sequence[Role]
) -> Iterator[str]:
    """Yield what a receiver of the connection had to hold, for people."""
    for direction in directions:
        one = found.get((connection.number, direction))
        if one is None:
            continue
        counts = connection.half(direction).counts
        again = f" ({counts.retransmitted_segments} carried nothing new)" if counts.retransmitted_segments else ""
        yield (
            f"  buffers, {direction} sends: {plural(one.fpdus, 'FPDU')}, {plural(counts.segments, 'segment')}{again}, "
            f"of which {counts.header_aligned_segments} begin with an FPDU, {counts.fpdu_aligned_segments} hold whole "
            "ones"
        )
        most = sorted(one.spread.items(), key=lambda item: (-item[1], item[0]))[:_SPREADS]
        listed = ", ".join(f"{count} in {segments}" for segments, count in sorted(most))
        more = ", ..." if len(one.spread) > _SPREADS else ""
        each = f"{one.parts / one.fpdus:.2f}"
        passes = f"{each} CRC passes" if one.crc else "no CRC pass"
        yield f"    an FPDU spans {each} segments ({listed}{more}): {each} copies and {passes} each"
        share = 100 * one.at_once / one.octets if one.octets else 100.0
        yield f"    {one.at_once} of {one.octets} octets ({share:.1f} %) placed by the frame that carried them"
        for way in WAYS:
            held = one.held[way]
            at = f" at frame {held.peak_frame}" if held.peak_frame is not None else ""
            mean = held.octet_ns / held.ns if held.ns else 0.0
            yield (
                f"    held {WAY_WORDS[way] + ':':<25} at most {held.peak} octets{at}, {mean:.1f} on average, "
                f"{held.octet_ns / _SECOND:.3f} octet-seconds"
            )
