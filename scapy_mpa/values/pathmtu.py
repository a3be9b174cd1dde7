"""What routers say about the path MTU: ICMP Fragmentation Needed, ICMPv6 Packet Too Big (RFC 1191 §4, RFC 4443 §3.2).

Such a message quotes the packet that was too long, at least its IP header and the first eight octets after it: ports
and sequence number.  It travels with the segments of the capture, in their order, as one that has the key of the quoted
packet and no payload, so that whatever tells segments apart by connection, port or frame does the same with it.
"""

from __future__ import annotations

from struct import Struct

from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.segment import PATH_MTU, Segment

#: No path takes less, so that no host believes less: IPv4 (RFC 1191 §3), IPv6 (RFC 8201 §4); octets.
LEAST_MTU_IPV4, LEAST_MTU_IPV6 = 68, 1280
#: This many messages are kept per half connection; others are counted.
MOST_KEPT = 16

#: Octets of the headers of IP and TCP, and of the longest TCP options.
_IPV4_TCP, _IPV6_TCP, _TCP_OPTIONS = 40, 60, 40
#: MTU, octets of the quoted packet, whether the ICMP checksum is wrong; the address of the sender follows.
_VALUES = Struct("!IIB")


class PathMTUMessage(NamedTuple):
    """The content of one message.

    Attributes:
        frame: its frame.
        time: that frame's time, in nanoseconds since the epoch.
        seq: the sequence number of the packet that it quotes.
        mtu: the next hop's MTU in octets, 0 if it names none (RFC 1191 §5).
        size: octets of the packet that it quotes.
        router: the address of its sender.
        unfit: why no host would believe it, "" if nothing speaks against it.
    """

    frame: int
    time: int
    seq: int
    mtu: int
    size: int
    router: str
    unfit: str = ""

    @property
    def least(self) -> int:
        """The least MTU of the IP version."""
        return LEAST_MTU_IPV6 if ":" in self.router else LEAST_MTU_IPV4

    @property
    def detail(self) -> str:
        """What it says, and what is odd about it."""
        mtu = f"a next-hop MTU of {self.mtu}" if self.mtu else "no next-hop MTU"
        said = f"{self.router} reports {mtu} for a packet of {self.size} octets"
        if 0 < self.mtu < self.least:
            said += f"; below {self.least}, which every path supports"
        elif self.mtu >= self.size > 0:
            said += ", which fits"
        return f"{said}; {self.unfit}" if self.unfit else said

    def explains(self, longest: int, octets: int) -> bool:
        """True if segments of ``octets`` of payload may come of it, ``longest`` having been the most; 0: of any."""
        most = self.mtu - (_IPV6_TCP if ":" in self.router else _IPV4_TCP)
        fits = not octets or most - _TCP_OPTIONS <= octets <= most
        return not self.unfit and self.mtu > 0 and most < longest and fits


def path_mtu_segment(
    frame: int, time: int, key: bytes, seq: int, mtu: int, size: int, is_damaged: bool, router: bytes
) -> Segment:
    """A message as what travels with segments; ``is_damaged``: its ICMP checksum is wrong."""
    octets = memoryview(_VALUES.pack(mtu, size, is_damaged) + router)
    return Segment(frame, time, key, seq, 0, PATH_MTU, octets, 0, len(octets), -1, 0)


def path_mtu_message(seg: Segment) -> PathMTUMessage:
    """The message that travels as this segment."""
    from ipaddress import IPv4Address, IPv6Address

    mtu, size, is_damaged = _VALUES.unpack_from(seg.buffer, seg.start)
    address = bytes(seg.buffer[seg.start + _VALUES.size : seg.end])
    router = str(IPv6Address(address) if len(address) == 16 else IPv4Address(address))
    unfit = "its ICMP checksum is wrong" if is_damaged else ""
    return PathMTUMessage(seg.frame, seg.time, seg.seq, mtu, size, router, unfit)


class PathMTUMessages:
    """The messages about packets of one half connection.

    Attributes:
        kept: the first ones, in the order of capture.
        more: how many came besides.
        last: the last of these, None if there is none.
    """

    __slots__ = ("kept", "last", "more")

    def __init__(self) -> None:
        self.kept: list[PathMTUMessage] = []
        self.more = 0
        self.last: PathMTUMessage | None = None

    def take(self, message: PathMTUMessage) -> None:
        """Count one more message."""
        if len(self.kept) < MOST_KEPT:
            self.kept.append(message)
        else:
            self.more, self.last = self.more + 1, message

    def explanation(self, frame: int, longest: int, octets: int = 0) -> str:
        """Return what to add to findings about segments from ``frame`` on, "" if no earlier message explains them.

        They have ``octets``, 0 if any number, and the longest one before them had ``longest``.
        """
        for one in reversed(self.kept):
            if one.frame < frame and one.explains(longest, octets):
                return f"; frame {one.frame} reports a path MTU of {one.mtu}"
        return ""
