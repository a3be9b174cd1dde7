"""Counts of one direction for the report: FPDUs, octets, segments, and their alignment (RFC 5044 §2, appendix A.3).

In: segments as they are captured, FPDUs and gaps in stream order.  Out: counts, and segments that do not begin with an
FPDU, once the FPDUs around them are known.
"""

from __future__ import annotations

from array import array
from heapq import heappop, heappush
from typing import Any, Final

from scapy_mpa.receiver.plain import PlainRun
from scapy_mpa.receiver.values import Gap, LeftOut, LocatedFPDU
from scapy_mpa.stream.connection import Arrival
from scapy_mpa.stream.peer_state import NEVER, NOWHERE
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.octets import append_four, append_number, cut_first, index_in, number_at
from scapy_mpa.values.records import BAD

#: FPDUs, and segments, whose places are remembered: a retransmission of anything before them is not known to begin with
#: an FPDU.  A bound of memory: 384 KiB.
REMEMBERED: Final = 4096
#: Segments that wait for the FPDUs around them; any beyond are not counted as aligned.  A bound of memory: 20 MiB.
MOST_UNJUDGED: Final = 1 << 16


class Sent(NamedTuple):
    """What was sent after a frame: offset and frame of the first segment, the last frame, and the number of octets."""

    offset: int
    first_frame: int
    last_frame: int
    segments: int
    octets: int


class UnalignedSegment:
    """A segment that waits for the FPDUs around it; once they are passed, one that does not begin with an FPDU.

    ``start``, ``end``, ``frame``, ``time``, ``new``, ``is_out_of_order`` and ``acknowledged`` are those of its
    :class:`~scapy_mpa.stream.connection.Arrival`.  ``number`` segments came before it, the last one ``idle``
    nanoseconds before; the ``longest`` up to it held so many octets; ``aligned`` of those judged by then begin with an
    FPDU.  ``is_part``: it neither begins nor ends an FPDU.  ``repeats``: offset and frame of the earlier segment that
    brought its first octet and began with an FPDU, None if it is no retransmission of one.
    """

    __slots__ = (
        "acknowledged", "aligned", "end", "frame", "idle", "is_out_of_order", "is_part", "longest", "new", "number",
        "repeats", "start", "time",
    )  # fmt: skip

    start: int
    end: int
    frame: int
    time: int
    new: int
    is_out_of_order: bool
    acknowledged: bool
    number: int
    idle: int
    longest: int
    aligned: int
    is_part: bool
    repeats: tuple[int, int] | None

    def take(self, rows: array[int], at: int) -> None:
        """Take the values that :meth:`Counts.brought` put down at an index."""
        self.start, self.end, self.frame = number_at(rows, at), number_at(rows, at + 1), number_at(rows, at + 2)
        self.time, self.new, self.idle = number_at(rows, at + 3), number_at(rows, at + 4), number_at(rows, at + 5)
        self.number, about = number_at(rows, at + 6), number_at(rows, at + 7)
        self.longest, self.acknowledged, self.is_out_of_order = about >> 2, about & 2 > 0, about & 1 > 0

    def is_before(self, end: int, start: int, number: int) -> bool:
        """Return True if it is judged before a segment with these values."""
        if self.end != end:
            return self.end < end
        return self.start < start if self.start != start else self.number < number

    def copy_of(self, other: UnalignedSegment) -> UnalignedSegment:
        """Take the values of another one; return itself."""
        self.start, self.end, self.frame, self.time, self.new = (
            other.start,
            other.end,
            other.frame,
            other.time,
            other.new,
        )
        self.is_out_of_order, self.acknowledged, self.is_part = other.is_out_of_order, other.acknowledged, other.is_part
        self.number, self.idle, self.longest, self.aligned = other.number, other.idle, other.longest, other.aligned
        self.repeats = other.repeats
        return self


#: So many FPDUs after the one that was found last are looked at first.
_NEAR: Final = 8
#: An empty set of numbers that nobody adds to.
_NONE: Final = array("q")
#: The same of segments.
_NOTHING: Final[list[Any]] = []
#: Numbers of a segment that waits, and of so many segments that were judged, which are kept so that others move seldom.
_ROW: Final = 8
_FEW: Final = 512 * _ROW
#: Numbers of a segment that is remembered.
_SENT: Final = 4


class Counts:
    """The counts of one direction; the attributes are those of the report.

    Args:
        begins_at: the offset of the first FPDU, None if that is not known.
    """

    __slots__ = (
        "_brought",
        "_ends",
        "_judged",
        "_late",
        "_left_out_ends",
        "_left_out_starts",
        "_located",
        "_longest",
        "_most_brought",
        "_most_unjudged",
        "_near",
        "_next",
        "_rest_end",
        "_seen",
        "_starts",
        "_time",
        "_unjudged",
        "crc_errors",
        "cut_fpdus",
        "delivered_late",
        "fpdu_aligned_segments",
        "fpdus",
        "header_aligned_segments",
        "marker_count",
        "missing_octets",
        "out_of_order_segments",
        "retransmitted_segments",
        "segments",
        "stream_octets",
        "ulpdu_octets",
        "undelivered",
        "unknown_segments",
        "unlocated_octets",
    )  # fmt: skip

    def __init__(self, begins_at: int | None = 0) -> None:
        self.fpdus = self.crc_errors = self.cut_fpdus = self.marker_count = self.ulpdu_octets = 0
        self.segments = self.out_of_order_segments = self.retransmitted_segments = 0
        self.header_aligned_segments = self.fpdu_aligned_segments = 0
        self.stream_octets = self.missing_octets = self.unlocated_octets = 0
        #: Segments with new octets that begin where no FPDU was located: how they lie is not known.
        self.unknown_segments = 0
        #: FPDUs placed before they were delivered, and never delivered.
        self.delivered_late = self.undelivered = 0
        #: Octets that FPDUs hold, the end of the last one, and where the next one begins, NOWHERE if that is not known.
        self._located, self._seen, self._next = 0, 0, NOWHERE if begins_at is None else begins_at
        #: Where the octets of an FPDU end that is not complete.
        self._rest_end = 0
        #: Where FPDUs begin, ascending, and where one ends after which none is known to begin.
        self._starts = self._ends = _NONE
        #: The index of the first FPDU that begins where the segment that was judged last does, or after it.
        self._near = 0
        #: Segments not judged yet by where they end, _ROW numbers each, the first at an index; and those that came
        #: late, a heap by end, start and number.
        self._unjudged, self._judged = array("q"), 0
        self._late: list[tuple[int, int, int, UnalignedSegment]] = []
        #: The time of the last segment, and the octets of the longest.
        self._time = self._longest = 0
        #: Where octets that were not believed begin and end, ascending.
        self._left_out_starts = self._left_out_ends = _NONE
        #: Of the last segments that went on after all others, _SENT numbers each, ascending: start, end, frame, 0.
        self._brought = array("q")
        self._most_brought, self._most_unjudged = _SENT * REMEMBERED, MOST_UNJUDGED

    @property
    def placed(self) -> int:
        """FPDUs placed: all whose CRC is not bad."""
        return self.fpdus - self.crc_errors

    @property
    def delivered(self) -> int:
        """FPDUs delivered: placed, with nothing missing before them."""
        return self.placed - self.undelivered

    @property
    def placed_out_of_order(self) -> int:
        """FPDUs placed before they were delivered, or never delivered."""
        return self.delivered_late + self.undelivered

    def as_dict(self) -> dict[str, int]:
        """Return the counts with the keys of the report, in its order."""
        return {
            "fpdus": self.fpdus,
            "placed": self.placed,
            "delivered": self.delivered,
            "placed_out_of_order": self.placed_out_of_order,
            "marker_count": self.marker_count,
            "crc_errors": self.crc_errors,
            "ulpdu_octets": self.ulpdu_octets,
            "stream_octets": self.stream_octets,
            "missing_octets": self.missing_octets,
            "unlocated_octets": self.unlocated_octets,
            "segments": self.segments,
            "header_aligned_segments": self.header_aligned_segments,
            "fpdu_aligned_segments": self.fpdu_aligned_segments,
            "out_of_order_segments": self.out_of_order_segments,
            "retransmitted_segments": self.retransmitted_segments,
            "cut_fpdus": self.cut_fpdus,
        }

    # --- what happens ---

    def arrived(self, arrival: Arrival) -> None:
        """Count a segment with octets of Full Operation."""
        is_late = arrival.is_out_of_order
        self.brought(
            arrival.start, arrival.end, arrival.frame, arrival.time, arrival.new, is_late, arrival.acknowledged
        )
        if arrival.new == arrival.end - arrival.start and not (is_late or arrival.reason):
            self.bring(arrival.start, arrival.end, arrival.frame)

    def brought(
        self, start: int, end: int, frame: int, time: int, new: int, is_out_of_order: bool, acknowledged: bool
    ) -> None:
        """Count a segment by the values of its :class:`~scapy_mpa.stream.connection.Arrival`."""
        self.segments += 1
        if not new:
            self.retransmitted_segments += 1
        elif is_out_of_order:
            self.out_of_order_segments += 1
        self.stream_octets += end if end < new else new  # the first may begin with the startup frame
        unjudged, number = self._unjudged, self.segments - 1
        if end - start > self._longest:
            self._longest = end - start
        count = len(unjudged)
        if start >= 0 and (count - self._judged) // _ROW + len(self._late) < self._most_unjudged:
            idle = time - self._time if self._time else 0
            about = self._longest << 2 | acknowledged << 1 | is_out_of_order
            append_four(unjudged, start, end, frame, time)
            append_four(unjudged, new, idle, number, about)
            if count > self._judged and end <= number_at(unjudged, count - _ROW + 1):
                one = UnalignedSegment()
                one.take(unjudged, count)
                heappush(self._late, (end, start, number, one))
                del unjudged[count:]
        self._time = time

    def arrived_aligned(self, start: int, end: int, frame: int, time: int) -> None:
        """Count a segment that continues where all octets end, and holds whole FPDUs, which are passed next."""
        self.segments += 1
        self.header_aligned_segments += 1
        self.fpdu_aligned_segments += 1
        self.stream_octets += end - start
        if end - start > self._longest:
            self._longest = end - start
        self._time = time
        self.bring(start, end, frame)

    def bring(self, start: int, end: int, frame: int) -> None:
        """Remember a segment beyond all others, with no reason to be dropped."""
        append_four(self._brought, start, end, frame, 0)
        if len(self._brought) > 2 * self._most_brought:
            cut_first(self._brought, len(self._brought) - self._most_brought)

    @property
    def is_judged(self) -> bool:
        """True if no segment waits for the FPDUs around it."""
        return len(self._unjudged) == self._judged and not self._late

    def passed(self, fpdu: LocatedFPDU, delivered: int) -> None:
        """Count the next FPDU in stream order; it is delivered at a frame, 0 if it is not."""
        offset, end = fpdu.offset, fpdu.end
        self.fpdus += 1
        self.marker_count += fpdu.markers
        self.ulpdu_octets += fpdu.ulpdu_length
        if self._starts is _NONE:
            self._starts, self._ends = array("q"), array("q")
        if offset != self._next and self._seen:
            append_number(self._ends, self._seen)
        append_number(self._starts, offset)
        if len(self._starts) > 2 * REMEMBERED:
            self._let_go()
        self._located += max(0, end - max(offset, self._seen))
        self._seen = max(end, self._seen)
        if fpdu.crc == BAD:
            self.crc_errors += 1
            self._next = NOWHERE  # its length is not to be trusted
            return
        self._next = end
        if not delivered:
            self.undelivered += 1
        elif delivered > fpdu.known[0]:
            self.delivered_late += 1

    def passed_run(self, run: PlainRun) -> None:
        """Count FPDUs that are plain."""
        count, offset, end = len(run.starts), run.offset, run.end
        self.fpdus += count
        self.marker_count += run.markers
        self.ulpdu_octets += run.ulpdu_octets
        if self._starts is _NONE:
            self._starts, self._ends = array("q"), array("q")
        if offset != self._next and self._seen:
            append_number(self._ends, self._seen)
        self._starts.extend(run.starts)
        if len(self._starts) > 2 * REMEMBERED:
            self._let_go()
        self._located += end - max(offset, self._seen)
        self._seen = self._next = end
        if run.is_delivered:
            self.delivered_late += run.delivered_late
        else:
            self.undelivered += count

    def _let_go(self) -> None:
        """Let go of what begins and ends too long ago."""
        self._near = max(0, self._near - len(self._starts) + REMEMBERED)
        del self._starts[:-REMEMBERED], self._ends[:-REMEMBERED]

    def lost(self, gap: Gap) -> None:
        """Count octets that no frame carried."""
        self.missing_octets += gap.end - gap.start
        if NOWHERE != self._next < gap.start:
            self.cut_fpdus += 1
            if self._starts is _NONE:
                self._starts, self._ends = array("q"), array("q")
            append_number(self._starts, self._next)
        self._next = NOWHERE

    def left_out(self, octets: LeftOut) -> None:
        """Take out octets that were not believed, and the segments that carried no others; ranges are ascending."""
        self.stream_octets -= octets.end - octets.start
        if self._left_out_starts is _NONE:
            self._left_out_starts, self._left_out_ends = array("q"), array("q")
        self._left_out_starts.append(octets.start)
        self._left_out_ends.append(octets.end)

    def _is_left_out(self, start: int, end: int) -> bool:
        index = index_in(self._left_out_starts, start + 1) - 1
        return index >= 0 and end <= self._left_out_ends[index]

    def judged(self, up_to: int | None = None) -> list[UnalignedSegment]:
        """Judge the segments that end where FPDUs have been passed, or at ``up_to``; return those not aligned."""
        found, limit, one = list[UnalignedSegment](), self.limit if up_to is None else up_to, UnalignedSegment()
        while self.judge_next(limit, one):
            found.append(one)
            one = UnalignedSegment()
        return found

    @property
    def limit(self) -> int:
        """The offset up to which it is known how segments lie: FPDUs have been passed so far."""
        if self._next == NOWHERE and self._starts:
            # The next FPDU may begin in one that is bad: where segments end there is not known before.
            return min(self._seen, self._starts[-1])
        return self._seen

    def judge_next(self, limit: int, one: UnalignedSegment) -> bool:
        """Judge segments that end at or below an offset until one is not aligned, whose values ``one`` takes.

        Return False if there is none.
        """
        unjudged, late = self._unjudged, self._late
        while True:
            at, start, end, waiting = self._judged, 0, 0, late[0][3] if late else None
            has_next = at < len(unjudged)
            if has_next:
                start, end = number_at(unjudged, at), number_at(unjudged, at + 1)
                if waiting is not None and not waiting.is_before(end, start, number_at(unjudged, at + 6)):
                    waiting = None
            if waiting is not None:
                if waiting.end > limit:
                    return False
                heappop(late)
                if self._is_unaligned(waiting.start, waiting.end, waiting.new, waiting.is_out_of_order, waiting):
                    one.copy_of(waiting)
                    return True
                continue
            if not has_next or end > limit:
                if not has_next or at > _FEW:
                    cut_first(unjudged, at)
                    self._judged = 0
                return False
            self._judged = at + _ROW
            is_out_of_order = number_at(unjudged, at + 7) & 1 > 0
            if self._is_unaligned(start, end, number_at(unjudged, at + 4), is_out_of_order, one):
                one.take(unjudged, at)
                return True

    def _is_unaligned(self, start: int, end: int, new: int, is_out_of_order: bool, one: UnalignedSegment) -> bool:
        """Return True if a segment is not aligned; ``one`` takes what is known of that."""
        starts = self._starts
        if len(self._left_out_starts) and self._is_left_out(start, end):
            self.segments -= 1
            self.out_of_order_segments -= is_out_of_order
            return False
        index, count = self._near, len(starts)
        # Most lie a little after the one before.
        if index > count or (index and number_at(starts, index - 1) >= start):
            index = index_in(starts, start)
        else:
            stop = index + _NEAR if index + _NEAR < count else count
            while index < stop and number_at(starts, index) < start:
                index += 1
            if index == stop < count:
                index = index_in(starts, start, index)
        self._near = index
        first = number_at(starts, index) if index < count else NEVER
        if first == start or start == self._next:
            self.header_aligned_segments += 1
            self.fpdu_aligned_segments += self._is_boundary(end)
            return False
        if index and self._is_unknown(start, index - 1):
            self.unknown_segments += new > 0
            return False
        one.aligned, one.is_part = self.header_aligned_segments, first > end and not start < self._seen <= end
        one.repeats = None if new else self._repeated(start)
        return True

    def _is_unknown(self, start: int, before: int) -> bool:
        """Return True if no FPDU was located around an offset, behind the one at an index: one may begin there."""
        after = index_in(self._ends, number_at(self._starts, before) + 1)
        if after < len(self._ends):
            return number_at(self._ends, after) <= start
        return before == len(self._starts) - 1 and start >= max(self._seen, self._rest_end)

    def sent_after(self, frame: int) -> Sent | None:
        """Return what was sent after a frame, as far as segments are remembered; None if nothing was."""
        index, brought = self._brought_after(frame, 2), self._brought
        if index == len(brought):
            return None
        start, end = brought[index], brought[1 - _SENT]
        return Sent(start, brought[index + 2], brought[2 - _SENT], (len(brought) - index) // _SENT, end - start)

    def _brought_after(self, number: int, column: int) -> int:
        """Return where the numbers begin of the first segment brought whose number in a column is above this one."""
        low, high = 0, len(self._brought) // _SENT
        while low < high:
            middle = (low + high) // 2
            if number_at(self._brought, middle * _SENT + column) > number:
                high = middle
            else:
                low = middle + 1
        return low * _SENT

    def _repeated(self, offset: int) -> tuple[int, int] | None:
        """Return offset and frame of the segment that carried the octet at ``offset`` and began with an FPDU."""
        index, brought = self._brought_after(offset, 0) - _SENT, self._brought
        if index < 0 or brought[index + 1] <= offset or self._is_boundary(offset):
            return None
        return (brought[index], brought[index + 2]) if _holds(self._starts, brought[index]) else None

    def _is_boundary(self, offset: int) -> bool:
        return offset in (self._next, self._seen) or _holds(self._starts, offset) or _holds(self._ends, offset)

    @property
    def begun_octets(self) -> int:
        """Return the octets of an FPDU at the end that is not complete; known once :meth:`finish` was called."""
        return max(0, self.stream_octets - self._located - self.unlocated_octets)

    def finish(self, rest: tuple[int, int] | None, is_cut: bool) -> list[UnalignedSegment]:
        """Count what is left, and judge all segments; return those not aligned.

        Args:
            rest: the octets of an FPDU that is not complete, None if none is known to have begun.
            is_cut: whether more of it was sent than was captured.
        """
        begun = 0
        if rest is not None:
            begun = rest[1] - rest[0]
            self._rest_end = rest[1]
        self.cut_fpdus += is_cut and begun > 0
        self.unlocated_octets = max(0, self.stream_octets - self._located - begun)
        found = self.judged(up_to=1 << 62)
        self._starts = self._ends = self._left_out_starts = self._left_out_ends = _NONE
        self._brought = _NONE
        self._unjudged, self._judged, self._late = _NONE, 0, _NOTHING
        return found


def _holds(ascending: array[int], offset: int) -> bool:
    index = index_in(ascending, offset)
    return index < len(ascending) and number_at(ascending, index) == offset
