"""From an IP packet to its TCP segment: IPv4 with options, IPv6 with extension headers (RFC 791, 8200, 9293).

The general path, for every packet that the reader's fast path does not know at a glance.
"""

from __future__ import annotations

from struct import Struct

from scapy_mpa.capture.link import ETHERTYPE_IPV4
from scapy_mpa.receive.segment import Segment

_TCP = Struct(">IIBB").unpack_from
_PROTOCOL_TCP = 6
_FRAGMENT_HEADER, _AUTHENTICATION_HEADER = 44, 51
#: Hop-by-Hop Options, Routing, Destination Options, Mobility, HIP, Shim6: a length in units of 8 octets.
_EXTENSION_HEADERS = frozenset((0, 43, 60, 135, 139, 140))


def tcp_segment(
    frame: int, time: int, ether_type: int, octets: memoryview, at: int, end: int, wire_end: int
) -> Segment | None:
    """The TCP segment in the IP packet ``octets[at:end]``, or None if there is none.

    ``wire_end`` is where the packet ended before the capture cut it.  Fragments are not segments.
    """
    located = (_ipv4 if ether_type == ETHERTYPE_IPV4 else _ipv6)(octets, at, end, wire_end)
    if located is None:
        return None
    addresses, tcp, packet_end = located
    if end - tcp < 20:
        return None
    seq, ack, data_offset, flags = _TCP(octets, tcp + 4)
    start = tcp + (data_offset >> 4) * 4
    if start < tcp + 20 or start > packet_end:
        return None
    length = packet_end - start
    captured_end = min(packet_end, end)
    if captured_end < start:
        captured_end = start = end
    key = addresses + bytes(octets[tcp : tcp + 4])
    return (frame, time, key, seq, ack, flags, octets, start, captured_end, tcp, length)


def _ipv4(octets: memoryview, at: int, end: int, wire_end: int) -> tuple[bytes, int, int] | None:
    if end - at < 20:
        return None
    header = (octets[at] & 0x0F) * 4
    total = octets[at + 2] << 8 | octets[at + 3]
    fragment = (octets[at + 6] << 8 | octets[at + 7]) & 0x3FFF
    if octets[at] >> 4 != 4 or header < 20 or octets[at + 9] != _PROTOCOL_TCP or fragment:
        return None
    # A host that offloads segmentation may leave the total length zero: the packet is all that was sent.
    packet_end = at + total if total else wire_end
    if packet_end < at + header or packet_end > wire_end:
        return None
    return bytes(octets[at + 12 : at + 20]), at + header, packet_end


def _ipv6(octets: memoryview, at: int, end: int, wire_end: int) -> tuple[bytes, int, int] | None:
    if end - at < 40 or octets[at] >> 4 != 6:
        return None
    payload = octets[at + 4] << 8 | octets[at + 5]
    packet_end = at + 40 + payload if payload else wire_end
    if packet_end > wire_end:
        return None
    protocol, header = octets[at + 6], at + 40
    while protocol != _PROTOCOL_TCP:
        if end - header < 8:
            return None
        if protocol in _EXTENSION_HEADERS:
            size = (octets[header + 1] + 1) * 8
        elif protocol == _AUTHENTICATION_HEADER:
            size = (octets[header + 1] + 2) * 4
        elif protocol == _FRAGMENT_HEADER and not (octets[header + 2] << 8 | octets[header + 3]) & 0xFFF9:
            size = 8  # an atomic fragment (RFC 6946) is a whole packet
        else:
            return None
        protocol = octets[header]
        header += size
    if header > packet_end:
        return None
    return bytes(octets[at + 8 : at + 40]), header, packet_end
