"""How FPDUs lie in segments: whether alignment was there, was lost, came back (RFC 5044 §5.1, appendix A.1 and A.2).

Where FPDUs are longer than a segment they cannot be aligned; that is told by itself (``fpdu-above-emss``).
"""

from __future__ import annotations

from collections.abc import Callable

from scapy_mpa.receive.counts import Counts
from scapy_mpa.receive.half import Moment
from scapy_mpa.receive.reassembly import Piece

#: Fewer segments show no habit.
FEWEST_SEGMENTS = 16
#: So long nothing was sent, with nothing left to be acknowledged, that the send buffer was empty (nanoseconds).
PAUSE = 200_000_000


class AlignmentWatch:
    """The segments of one half connection that do not begin with an FPDU; breaches are handed to ``find``."""

    __slots__ = ("_aligned_then", "_find", "_pause", "_segments_then", "first")

    def __init__(self, find: Callable[[str, int, int, int, str], None]) -> None:
        self._find = find
        #: Where the first of them begins, and its moment.
        self.first: tuple[int, Moment] | None = None
        #: The first pause since the last segment that began with an FPDU: where, when, what had been counted then.
        self._pause: tuple[int, Moment] | None = None
        self._aligned_then = self._segments_then = 0

    def goes_on(self, offset: int, when: Moment, before: Piece, acknowledged: bool, counts: Counts) -> None:
        """A segment at ``offset`` goes on with the FPDU of which ``before`` is the last part.

        ``acknowledged``: nothing of what was sent before was under way then.
        """
        if self.first is None:
            self.first = offset, when
        if not acknowledged or when[1] - before[3][1] < PAUSE:
            return
        counts.settle()
        if self._pause is None or counts.header_aligned_segments != self._aligned_then:
            self._pause = offset, when
            self._aligned_then, self._segments_then = counts.header_aligned_segments, counts.segments

    def finish(self, counts: Counts, fits: bool, now: Moment) -> None:
        """Nothing more comes; ``fits`` says that every FPDU fits into a segment."""
        segments, aligned = counts.segments - counts.retransmitted_segments, counts.header_aligned_segments
        if not fits or segments < FEWEST_SEGMENTS:
            return
        if (
            self._pause is not None
            and self._aligned_then >= FEWEST_SEGMENTS // 2
            and aligned == self._aligned_then
            and counts.segments - self._segments_then >= FEWEST_SEGMENTS // 2
        ):
            offset, when = self._pause
            detail = (
                f"after a pause {counts.segments - self._segments_then} segments, none of which begins with an FPDU"
            )
            self._find("alignment-lost", offset, *when, detail)
        elif 2 * aligned < segments:
            offset, when = self.first if self.first is not None else (0, now)
            detail = (
                f"{aligned} of {segments} segments begin with an FPDU, {counts.fpdu_aligned_segments} hold whole ones"
            )
            self._find("alignment", offset, *when, detail)
