"""Signs of the attacks that RFC 5044 §9.1 names, as far as segments show them."""

from __future__ import annotations

from struct import Struct

from scapy_mpa.framing.ddp import Terminate
from scapy_mpa.framing.fpdu import decode_fpdu
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.receive.segment import Segment

#: (layer, error type) of the Terminates that name a buffer which was not offered (RFC 5040 §4.8, RFC 5041 §7.2).
_PROTECTION = ((0, 1), (1, 1))
#: Among them, the one that is about something else: the DDP version of a tagged segment.
_DDP_VERSION = 1, 1, 4
#: Segments of so few octets hold little but headers; so many of them in a row, after segments that are not tiny.
TINY, _FEWEST_TINY, _NOT_TINY = 128, 16, 512

#: Version, TTL (Hop Limit) and addresses of an IP header, and its octets.
_ipv4, _IPV4_HEADER = Struct(">B7xB3x8s").unpack_from, 20
_ipv6, _IPV6_HEADER = Struct(">B6xB32s").unpack_from, 40


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
