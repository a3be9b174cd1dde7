"""ICMP messages about the path MTU (RFC 792, 1191, 4443, 8201), read for the TCP packet that they quote.

What a router sends has at least the IP header of the packet and eight octets after it, which are ports and sequence
number of a TCP segment (RFC 792; RFC 4443 has as much as fits).  Anything else is no such message: other types and
codes, quotes of other protocols, a quote that was cut before, and a message that did not go to the sender of what it
quotes.
"""

from __future__ import annotations

from struct import Struct

from scapy_mpa.capture.ip import PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, Packet, below_ipv6
from scapy_mpa.values.pathmtu import path_mtu_segment
from scapy_mpa.values.segment import Segment

#: Type and code of Fragmentation Needed, and of Packet Too Big.
_FRAGMENTATION_NEEDED, _PACKET_TOO_BIG = (3, 4), (2, 0)
_HEADER, _IPV4_HEADER, _IPV6_HEADER = 8, 20, 40
#: Ports and sequence number.
_QUOTED = 8

_ipv4 = Struct("!BxHxxHxB2x8s").unpack_from
_ipv6 = Struct("!B3xHBx32s").unpack_from
_seq = Struct("!4xI").unpack_from


def path_mtu_in(frame: int, time: int, packet: Packet, octets: memoryview, end: int, wire_end: int) -> Segment | None:
    """Return what the ICMP message in a packet says about the path MTU of a TCP connection; None if nothing.

    ``end`` is where the capture ends, ``wire_end`` where the message does.
    """
    at, addresses = packet.at, packet.addresses
    is_ipv4 = len(addresses) == 8
    kind, protocol = (_FRAGMENTATION_NEEDED, PROTOCOL_ICMP) if is_ipv4 else (_PACKET_TOO_BIG, PROTOCOL_ICMPV6)
    if packet.protocol != protocol or end - at < _HEADER or (octets[at], octets[at + 1]) != kind:
        return None
    quoted = (_quoted_ipv4 if is_ipv4 else _quoted_ipv6)(octets, at + _HEADER, end)
    if quoted is None:
        return None
    tcp, size, between = quoted
    router, host = addresses[: len(addresses) // 2], addresses[len(addresses) // 2 :]
    if end - tcp < _QUOTED or between[: len(host)] != host:
        return None
    mtu = int.from_bytes(octets[at + 6 if is_ipv4 else at + 4 : at + _HEADER], "big")
    is_damaged = end == wire_end and _is_damaged(octets[at:end], b"" if is_ipv4 else addresses)
    key = between + bytes(octets[tcp : tcp + 4])
    return path_mtu_segment(frame, time, key, _seq(octets, tcp)[0], mtu, size, is_damaged, router)


def _quoted_ipv4(octets: memoryview, at: int, end: int) -> tuple[int, int, bytes] | None:
    """Return where TCP begins in the quoted packet, octets of that packet, both addresses; None if it is not TCP."""
    if end - at < _IPV4_HEADER:
        return None
    version, size, fragment, protocol, addresses = _ipv4(octets, at)
    header = (version & 0x0F) * 4
    # Behind another fragment than the first there are no ports.
    if version >> 4 != 4 or header < _IPV4_HEADER or protocol != PROTOCOL_TCP or fragment & 0x1FFF:
        return None
    return at + header, size, addresses


def _quoted_ipv6(octets: memoryview, at: int, end: int) -> tuple[int, int, bytes] | None:
    if end - at < _IPV6_HEADER:
        return None
    version, length, protocol, addresses = _ipv6(octets, at)
    packet = below_ipv6(addresses, protocol, octets, at + _IPV6_HEADER, end, end) if version >> 4 == 6 else None
    if packet is None or packet.protocol != PROTOCOL_TCP or packet.fragment is not None:
        return None
    return packet.at, _IPV6_HEADER + length, addresses


def _is_damaged(message: memoryview, addresses: bytes) -> bool:
    """True if the checksum of a whole message is wrong; one that was not filled in is not (RFC 792, RFC 4443 §2.3)."""
    if not any(message[2:4]):
        return False
    padded = bytes(message) + bytes(len(message) & 1)
    pseudo = int.from_bytes(addresses, "big") + len(message) + PROTOCOL_ICMPV6 if addresses else 0
    return (int.from_bytes(padded, "big") + pseudo) % 0xFFFF != 0
