"""Octets that are missing, and directions that end in the middle of something (RFC 5044 §8 code 1, RFC 9293 §3.4).

In: segments as they are captured, FPDUs and gaps in stream order, what is left at the end, and how the direction was
closed.  Out: breaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scapy_mpa.receiver.plain import PlainRun
from scapy_mpa.receiver.values import Breach, Gap, LeftOut, LocatedFPDU, Moment, Rest
from scapy_mpa.stream.connection import Arrival
from scapy_mpa.stream.drop_reason import NEAR
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import BAD

#: Of a segment whose checksum is wrong where those of the others are right.
DROPPED: Final = "TCP checksum wrong: assumed to be dropped by the receiver"


class Closed(NamedTuple):
    """How a direction was closed: "FIN" or "RST", when, and the offset up to which octets must have been sent."""

    how: str
    moment: Moment
    sent: int


class GapWatch:
    """The octets that are missing in one direction.

    Attributes:
        has_gap: whether octets are missing.
    """

    __slots__ = ("_crc", "_cut_end", "_damaged", "_is_beginning", "_located_end", "_lost_end", "_next", "has_gap")

    def __init__(self, is_beginning: bool, crc: bool) -> None:
        self._crc = crc
        self._is_beginning = is_beginning
        #: Where the last FPDU ends, and where the next one begins, None if that is not known.
        self._located_end = 0
        #: Where the last octets end that no frame brought.
        self._lost_end = 0
        #: Where the last octets end that a snapshot length cut off: no FPDU that begins before is known.
        self._cut_end = 0
        #: Octets that belong to no FPDU, of segments with a wrong TCP checksum, where no FPDU after them was passed.
        self._damaged: list[LeftOut] = []
        self._next: int | None = 0 if is_beginning else None
        self.has_gap = False

    def arrived(self, arrival: Arrival) -> Sequence[Breach]:
        """Report a segment that the capture file holds only in part."""
        cut = arrival.end - arrival.start - arrival.captured
        if not cut:
            return ()
        self._cut_end = max(self._cut_end, arrival.end)
        detail = f"{cut:,} octets of the payload were not captured"
        return (Breach("capture-cut", arrival.start + arrival.captured, arrival.frame, arrival.time, detail),)

    def passed(self, fpdu: LocatedFPDU) -> Sequence[Breach]:
        """Inspect the next FPDU in stream order: does it follow the one before?

        Without CRC the reader reports itself that Markers contradict a length.
        """
        expected, offset, end = self._next, fpdu.offset, fpdu.end
        damaged = self._damage(offset) if self._damaged else ()
        self._next, self._located_end = None if fpdu.crc == BAD else end, end
        if damaged or not self._crc or expected is None or offset <= expected or expected < self._cut_end:
            return damaged
        detail = f"{offset - expected:,} octets that belong to no FPDU"
        return (Breach("fpdu-format", expected, *fpdu.known, detail),)

    def damaged(self, octets: LeftOut) -> None:
        """Note octets that belong to no FPDU, of a segment that its receiver drops for its TCP checksum."""
        self._damaged = [*(one for one in self._damaged if one.end > self._located_end), octets]

    def _damage(self, end: int) -> Sequence[Breach]:
        """Return the segments whose octets, between the last FPDU and ``end``, accuse nobody."""
        if not self._damaged:
            return ()
        start = max(self._located_end, self._lost_end)
        found = {one.frame: one for one in reversed(self._damaged) if one.start < end and one.end > start}
        return [Breach("tcp-checksum", one.start, one.frame, one.time, DROPPED) for one in found.values()][::-1]

    def passed_run(self, run: PlainRun) -> None:
        """Note FPDUs that follow the one before."""
        self._next = self._located_end = run.end

    def lost(self, gap: Gap) -> Sequence[Breach]:
        """Report octets that no frame carried."""
        damaged = self._damage(gap.start)
        self.has_gap, self._next, self._lost_end = True, None, gap.end
        detail, rule = f"{gap.end - gap.start:,} octets were not captured", "gap"
        if gap.acknowledged:
            detail, rule = f"{detail}, though the peer acknowledged them", "capture-gap"
        return (*damaged, Breach(rule, gap.start, *gap.moment, detail))

    def finish(
        self, rest: Rest | None, edge: int, closed: Closed | None, acknowledged: int | None, now: Moment
    ) -> Sequence[Breach]:
        """Report how the direction ended, if it did in the middle of something.

        Args:
            rest: the octets at its end that belong to no FPDU.
            edge: the offset after its last octet.
            closed: how it was closed, None if it was not.
            acknowledged: the offset up to which the peer acknowledged octets, None before it acknowledged any.
            now: the moment of the last frame.
        """
        # Where octets were cut off after the last FPDU, it is not known where the next one begins.
        is_known = self._is_beginning and not self.has_gap and self._cut_end <= self._located_end
        if rest is not None and not rest.is_located and rest.end > self._located_end:
            damaged = self._damage(rest.end)
            if damaged or is_known:
                detail = f"{rest.end - self._located_end:,} octets that belong to no FPDU"
                return damaged or (Breach("fpdu-format", self._located_end, *now, detail),)
        if closed is not None and 0 < closed.sent - edge < NEAR:
            if closed.sent <= self._lost_end:
                return ()
            is_acknowledged = acknowledged is not None and acknowledged >= closed.sent
            return self.lost(Gap(edge, closed.sent, is_acknowledged, closed.moment))
        # A FIN has a number, too.  Where more was acknowledged, nothing can be said about the end.
        is_unseen = acknowledged is not None and edge + 1 < acknowledged < edge + NEAR
        if rest is None or not rest.is_located or rest.is_doubtful or closed is None or is_unseen:
            return ()
        if closed.how == "RST" and closed.moment < rest.moment:
            return ()
        detail = f"{closed.how} {rest.end - rest.start:,} octets into an FPDU"
        damaged = self._damage(rest.end)
        return damaged or (Breach("connection-lost", rest.start, *max(closed.moment, rest.moment), detail),)
