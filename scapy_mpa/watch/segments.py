"""How segments lie and where they come from: alignment with FPDUs, and the signs of attacks that segments show.

Alignment: whether it was there, was lost, came back (RFC 5044 §5.1, appendix A.1 and A.2).  Where FPDUs are longer than
a segment they cannot be aligned; that is reported by itself (``fpdu-above-emss``).  The attacks are those that RFC 5044
§9.1 names.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from scapy_mpa.framing.ddp import Terminate
from scapy_mpa.framing.fpdu import decode_fpdu
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.receive.located import Breach
from scapy_mpa.receive.reassembly import Piece, Reassembly
from scapy_mpa.receive.settlement import Counts
from scapy_mpa.tcp.half import Half, Moment
from scapy_mpa.values.segment import Segment

#: Fewer segments show no habit.
FEWEST_SEGMENTS = 16
#: So long nothing was sent, with nothing left to be acknowledged, that the send buffer was empty (nanoseconds).
PAUSE = 200_000_000
#: (layer, error type) of the Terminates that name a buffer which was not offered (RFC 5040 §4.8, RFC 5041 §7.2).
_PROTECTION = ((0, 1), (1, 1))
#: Among them, the one that is about something else: the DDP version of a tagged segment.
_DDP_VERSION = 1, 1, 4
#: Segments of so few octets hold little but headers; so many of them in a row, after segments that are not tiny.
TINY, _FEWEST_TINY, _NOT_TINY = 128, 16, 512

#: What may come of a path that takes less than before.
_BY_PATH_MTU = frozenset(("alignment", "alignment-lost", "attack-path-mtu", "mulpdu-filled"))

#: Version, TTL (Hop Limit) and addresses of an IP header, and its octets.
_ipv4, _IPV4_HEADER = Struct(">B7xB3x8s").unpack_from, 20
_ipv6, _IPV6_HEADER = Struct(">B6xB32s").unpack_from, 40


class AlignmentWatch:
    """The segments of one half connection that do not begin with an FPDU.

    Attributes:
        first: where the first of them begins, and its moment; None if there was none.
    """

    __slots__ = ("_aligned_then", "_pause", "_segments_then", "first")

    def __init__(self) -> None:
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
        if not acknowledged or when[1] - before.seg.time < PAUSE:
            return
        counts.settle()
        if self._pause is None or counts.header_aligned_segments != self._aligned_then:
            self._pause = offset, when
            self._aligned_then, self._segments_then = counts.header_aligned_segments, counts.segments

    def finish(self, counts: Counts, fits: bool, now: Moment) -> list[Breach]:
        """Nothing more comes; ``fits`` says that every FPDU fits into a segment."""
        segments, aligned = counts.segments - counts.retransmitted_segments, counts.header_aligned_segments
        if not fits or segments < FEWEST_SEGMENTS:
            return []
        if (
            self._pause is not None
            and self._aligned_then >= FEWEST_SEGMENTS // 2
            and aligned == self._aligned_then
            and counts.segments - self._segments_then >= FEWEST_SEGMENTS // 2
        ):
            offset, when = self._pause
            detail = (
                f"{counts.segments - self._segments_then} segments after a pause, none of which begins with an FPDU"
            )
            return [Breach("alignment-lost", offset, *when, detail)]
        elif 2 * aligned < segments:
            offset, when = self.first if self.first is not None else (0, now)
            detail = (
                f"{aligned} of {segments} segments begin with an FPDU, {counts.fpdu_aligned_segments} hold whole ones"
            )
            return [Breach("alignment", offset, *when, detail)]
        return []


class PathWatch:
    """Whether packets of a half connection come the same way as the first: by TTL or Hop Limit (RFC 5044 §9.1).

    Args:
        key: addresses and ports of its segments.
    """

    __slots__ = ("_hop_limit", "_hop_limit_before_tcp")

    def __init__(self, key: bytes) -> None:
        #: TTL or Hop Limit of its packets, None if that is not known, and where it is if there are no IP options.
        self._hop_limit: int | None = None
        self._hop_limit_before_tcp = hop_limit_distance(key)

    def look_at(self, seg: Segment) -> str:
        """Look at the packet that a segment came in; what is remarkable about its way, "" if nothing."""
        at = seg.tcp - self._hop_limit_before_tcp
        if at >= 0 and seg.buffer[at] == self._hop_limit:
            return ""
        limit, before = hop_limit(seg), self._hop_limit
        if limit is None or limit == before:
            return ""
        self._hop_limit = limit
        return f"TTL or Hop Limit {limit}, was {before} before" if before is not None else ""


class TinySegments:
    """Counts parts of FPDUs in segments that have become tiny."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        #: How many there were in a row.
        self.count = 0

    def is_one_too_many(self, length: int, longest: int) -> bool:
        """Whether a part of ``length`` octets, ``longest`` being that of the longest segment, is one too many."""
        if length > TINY or longest < _NOT_TINY:
            self.count = 0
            return False
        self.count += 1
        return self.count == _FEWEST_TINY


def hop_limit(seg: Segment) -> int | None:
    """TTL, or Hop Limit, of the packet that a segment came in; None if its IP header is not at hand.

    Options and extension headers hide it.
    """
    tcp, key = seg.tcp, seg.key
    is_ipv4 = len(key) == 12
    size = _IPV4_HEADER if is_ipv4 else _IPV6_HEADER
    if tcp < size:
        return None
    version, limit, addresses = (_ipv4 if is_ipv4 else _ipv6)(seg.buffer, tcp - size)
    is_header = version == 0x45 if is_ipv4 else version >> 4 == 6
    return limit if is_header and key.startswith(addresses) else None


def hop_limit_distance(key: bytes) -> int:
    """How far TTL, or Hop Limit, lies before the TCP header where there are no options and no extension headers."""
    return _IPV4_HEADER - 8 if len(key) == 12 else _IPV6_HEADER - 7


def names_buffer(terminate: Terminate) -> bool:
    """Whether a Terminate says that a buffer was targeted which had not been offered."""
    if (terminate.layer, terminate.etype, terminate.code) == _DDP_VERSION:
        return False
    return (terminate.layer, terminate.etype) in _PROTECTION


def is_good_fpdu(octets: memoryview, offset: int, markers: bool) -> bool:
    """Whether octets begin with an FPDU whose CRC is good; ``offset`` is that in the stream.

    None begins before SeqStart, or inside a Marker.
    """
    if offset < 0 or (markers and 0 < offset % MARKER_INTERVAL < MARKER_LENGTH):
        return False
    fpdu = decode_fpdu(octets, offset if markers else None)
    return fpdu is not None and bool(fpdu.crc_good)


class SegmentWatches:
    """The segments of one half connection: how long they are, how they lie, and which way they come.

    Args:
        half: the half connection.

    Attributes:
        alignment: those that do not begin with an FPDU.
        path: which way they come.
        longest: octets of the longest one, as far as that was looked at.
    """

    __slots__ = ("_half", "_tiny", "alignment", "longest", "path")

    def __init__(self, half: Half) -> None:
        self._half = half
        self.alignment = AlignmentWatch()
        self.path = PathWatch(half.key)
        self.longest = 0
        self._tiny = TinySegments()

    def look_at_path(self, first: Segment, last: Segment, reassembly: Reassembly) -> Sequence[Breach]:
        """Look at the way that two segments came; returns what is remarkable about it."""
        said = self.path.look_at(first), self.path.look_at(last)
        if not any(said):
            return ()
        return [
            Breach("attack-hijack", reassembly.offset_of(seg.seq), seg.frame, seg.time, detail)
            for seg, detail in zip((first, last), said, strict=True)
            if detail
        ]

    def lengthen(self, length: int) -> None:
        """A segment of ``length`` octets came."""
        if length > self.longest:
            self.longest = length

    def take_part(self, length: int) -> str:
        """A segment that holds a part of an FPDU came in order; what is remarkable about its length, "" if nothing."""
        if length > self.longest:
            self.longest = length
        elif (length <= TINY or self._tiny.count) and self._tiny.is_one_too_many(length, self.longest):
            return f"segments of {length} octets, while others had {self.longest}"
        return ""

    def explained(self, breaches: Sequence[Breach], octets: int = 0) -> Sequence[Breach]:
        """The same; those of segments, of ``octets`` if given, that a smaller path MTU explains say so."""
        told = self._half.path_mtu
        if told is None:
            return breaches
        return [
            breach._replace(detail=breach.detail + told.explanation(breach.frame, self.longest, octets))
            if breach.rule in _BY_PATH_MTU
            else breach
            for breach in breaches
        ]
