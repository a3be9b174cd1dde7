"""Rules about segments: how they lie to FPDUs, and the attacks that they show (RFC 5044 §5.1, §9.1, appendix A.1, A.2).

In: segments as they are captured, those that turned out not to begin with an FPDU, and what routers report of the path
MTU, which may explain them.  Out: breaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scapy_mpa.framing.mulpdu import MIN_MULPDU
from scapy_mpa.receiver.values import Breach, Moment
from scapy_mpa.stream.connection import Arrival
from scapy_mpa.values.pathmtu import PathMTUMessages
from scapy_mpa.watches.counts import Counts, UnalignedSegment

#: Fewer segments show no habit.
FEWEST_SEGMENTS: Final = 16
#: Nanoseconds without a segment, with nothing unacknowledged, after which the send buffer was empty: RTO is 200 ms at
#: least where stacks do not keep RFC 6298's second (Linux: TCP_RTO_MIN).
PAUSE: Final = 200_000_000
#: So many segments in a row of at most MIN_MULPDU octets (RFC 5044 §4.5) show a path MTU that was forced down.
FEWEST_TINY: Final = 16
#: Octets of a segment before them without which the path was never wider: those that fit into what every host takes,
#: 576 octets, beside 64 of headers (RFC 791 §3.1).
NOT_TINY: Final = 512
#: Rules whose breach may come of a path that holds less than before.
_BY_PATH_MTU = frozenset(("alignment", "alignment-lost", "attack-path-mtu", "mulpdu-filled"))


class SegmentWatch:
    """The segments of one direction.

    Args:
        path_mtu: what routers report of its packets, None as long as none does; the owner adds to it.

    Attributes:
        first: the segment with the first octet of Full Operation, None before it.
        longest: octets of the longest segment.
    """

    __slots__ = ("_hop_limit", "_path_mtu", "_pause", "_tiny", "_unaligned", "first", "longest")

    def __init__(self, path_mtu: PathMTUMessages | None = None) -> None:
        self._path_mtu = path_mtu
        self._hop_limit = -1
        #: Parts of FPDUs, in a row, that are tiny.
        self._tiny = 0
        self._unaligned: tuple[int, int, int] | None = None
        #: The first segment after a pause since the last one that begins with an FPDU.
        self._pause: UnalignedSegment | None = None
        self.first: Arrival | None = None
        self.longest = 0

    def explain_by(self, path_mtu: PathMTUMessages) -> None:
        """Let what routers report of its packets explain what is found from now on."""
        self._path_mtu = path_mtu

    def arrived(self, arrival: Arrival) -> Sequence[Breach]:
        """Inspect a segment with octets of Full Operation."""
        length = arrival.end - arrival.start
        if length > self.longest:
            self.longest = length
        if self.first is None and arrival.start <= 0 < arrival.end:
            self.first = arrival
        limit, before = arrival.hop_limit, self._hop_limit
        if limit in (-1, before):
            return ()
        self._hop_limit = limit
        if before < 0:
            return ()
        detail = f"TTL or Hop Limit {limit}, previously {before}"
        return (Breach("attack-hijack", arrival.start, arrival.frame, arrival.time, detail),)

    def is_expected(self, hop_limit: int) -> bool:
        """Return True if a segment came the way that the one before came."""
        return hop_limit in (-1, self._hop_limit)

    def arrived_aligned(self, length: int) -> None:
        """Note a segment with so many octets that is expected."""
        if length > self.longest:
            self.longest = length

    def unaligned(self, segment: UnalignedSegment) -> Sequence[Breach]:
        """Inspect a segment that does not begin with an FPDU."""
        pause, length = self._pause, segment.end - segment.start
        if not segment.new:
            if segment.repeats is None or length == 1:  # a keep-alive, perhaps (RFC 9293 §3.8.4)
                return ()
            first, frame = segment.repeats
            detail = f"repeats frame {frame} from its octet {segment.start - first}, in the middle of an FPDU"
            return (Breach("alignment-retransmission", segment.start, segment.frame, segment.time, detail),)
        self._unaligned = self._unaligned or (segment.start, segment.frame, segment.time)
        if segment.acknowledged and segment.idle >= PAUSE and (pause is None or pause.aligned != segment.aligned):
            self._pause = UnalignedSegment().copy_of(segment)
        if not segment.is_part or segment.is_out_of_order:
            return ()
        self._tiny = self._tiny + 1 if length <= MIN_MULPDU and segment.longest >= NOT_TINY else 0
        if self._tiny != FEWEST_TINY:
            return ()
        detail = f"segments of {length:,} octets, while others had {segment.longest:,}"
        found = Breach("attack-path-mtu", segment.start, segment.frame, segment.time, detail)
        return self.explained((found,), length, segment.longest)

    def finish(self, counts: Counts, fits: bool, now: Moment) -> Sequence[Breach]:
        """Judge the alignment of all segments; ``fits``: every FPDU fits into a segment."""
        aligned = counts.header_aligned_segments
        segments = counts.segments - counts.retransmitted_segments - counts.unknown_segments
        if not fits or segments < FEWEST_SEGMENTS:
            return ()
        pause, few = self._pause, FEWEST_SEGMENTS // 2
        if pause is not None and few <= pause.aligned == aligned and counts.segments - pause.number >= few:
            detail = f"{counts.segments - pause.number} segments after a pause, none of which begins with an FPDU"
            found = Breach("alignment-lost", pause.start, pause.frame, pause.time, detail)
        elif 2 * aligned < segments:
            whole = counts.fpdu_aligned_segments
            detail = f"{aligned} of {segments} segments begin with an FPDU, {whole} hold whole ones"
            found = Breach("alignment", *(self._unaligned or (0, *now)), detail)
        else:
            return ()
        return self.explained((found,))

    def explained(self, breaches: Sequence[Breach], octets: int = 0, longest: int = 0) -> Sequence[Breach]:
        """Return breaches whose details name the path MTU that explains them, of segments of ``octets`` if given.

        The others had ``longest`` octets at most; 0: as many as all by now.
        """
        if not breaches or self._path_mtu is None:
            return breaches
        longest = longest or self.longest
        return [
            one._replace(detail=one.detail + self._path_mtu.explanation(one.frame, longest, octets))
            if one.rule in _BY_PATH_MTU
            else one
            for one in breaches
        ]
