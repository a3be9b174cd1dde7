"""IP headers: IPv4 with options, IPv6 with extension headers, fragments of both (RFC 791, 8200, 2675)."""

from __future__ import annotations

from scapy_mpa.capture.fragments import Fragment
from scapy_mpa.tuples import NamedTuple

PROTOCOL_ICMP, PROTOCOL_ICMPV6 = 1, 58
PROTOCOL_IPV4, PROTOCOL_TCP, PROTOCOL_UDP, PROTOCOL_IPV6, PROTOCOL_GRE, PROTOCOL_MPLS = 4, 6, 17, 41, 47, 137
PROTOCOL_ESP = 50
#: What may hold a TCP segment: only these are reassembled from fragments.
_PROTOCOLS = frozenset(
    (PROTOCOL_IPV4, PROTOCOL_TCP, PROTOCOL_UDP, PROTOCOL_IPV6, PROTOCOL_GRE, PROTOCOL_ESP, PROTOCOL_MPLS)
)
#: What is read: of ICMP only whole packets.
_READ = _PROTOCOLS | {PROTOCOL_ICMP, PROTOCOL_ICMPV6}
_HOP_BY_HOP, _FRAGMENT_HEADER, _AUTHENTICATION_HEADER = 0, 44, 51
#: Hop-by-Hop Options, Routing, Destination Options, Mobility, HIP, Shim6: a length in units of 8 octets.
_EXTENSION_HEADERS = frozenset((_HOP_BY_HOP, 43, 60, 135, 139, 140))
_MAY_LEAD_TO_TCP = _PROTOCOLS | _EXTENSION_HEADERS | {_AUTHENTICATION_HEADER, _FRAGMENT_HEADER}
_JUMBO_PAYLOAD = bytes((0xC2, 4))


class Packet(NamedTuple):
    """An IP packet: its two addresses, what it carries, where that begins and ended on the wire.

    ``fragment`` is what it carries if that is only a part of a datagram.
    """

    addresses: bytes
    protocol: int
    at: int
    wire_end: int
    fragment: Fragment | None = None


def ipv4(octets: memoryview, at: int, end: int, wire_end: int) -> Packet | None:
    """The IPv4 packet in ``octets[at:end]``, which ended at ``wire_end`` before the capture cut it, or None."""
    if end - at < 20:
        return None
    header = (octets[at] & 0x0F) * 4
    total = octets[at + 2] << 8 | octets[at + 3]
    protocol = octets[at + 9]
    if octets[at] >> 4 != 4 or header < 20 or (protocol not in _READ and protocol != _AUTHENTICATION_HEADER):
        return None
    # A host that offloads segmentation may leave the total length zero: the packet is all that was sent.
    packet_end = at + total if total else wire_end
    if packet_end < at + header or packet_end > wire_end:
        return None
    addresses = bytes(octets[at + 12 : at + 20])
    field = octets[at + 6] << 8 | octets[at + 7]
    at_payload = at + header
    if not field & 0x3FFF:
        if protocol == _AUTHENTICATION_HEADER:
            return below_ipv6(addresses, protocol, octets, at_payload, end, packet_end)
        return Packet(addresses, protocol, at_payload, packet_end)
    if protocol not in _PROTOCOLS and protocol != _AUTHENTICATION_HEADER:
        return None
    key = addresses + bytes(octets[at + 4 : at + 6]) + bytes((protocol,))
    part = octets[at_payload : max(at_payload, min(end, packet_end))]
    more = bool(field & 0x2000)
    fragment = Fragment(key, protocol, (field & 0x1FFF) * 8, more, part, packet_end - at_payload)
    return Packet(addresses, protocol, at_payload, packet_end, fragment)


def ipv6(octets: memoryview, at: int, end: int, wire_end: int) -> Packet | None:
    """The IPv6 packet in ``octets[at:end]``, which ended at ``wire_end`` before the capture cut it, or None."""
    if end - at < 40 or octets[at] >> 4 != 6:
        return None
    payload = octets[at + 4] << 8 | octets[at + 5]
    protocol, payload_at = octets[at + 6], at + 40
    if not payload and protocol == _HOP_BY_HOP:
        payload = _jumbo_payload(octets, payload_at, end)
    packet_end = payload_at + payload if payload else wire_end
    if packet_end > wire_end:
        return None
    return below_ipv6(bytes(octets[at + 8 : at + 40]), protocol, octets, payload_at, end, packet_end)


def below_ipv6(
    addresses: bytes, protocol: int, octets: memoryview, at: int, end: int, packet_end: int
) -> Packet | None:
    """Return what follows the extension headers from ``at`` on, including IPsec AH (RFC 4302), or None.

    The first of them is ``protocol``.
    """
    while protocol not in _READ:
        if end - at < 8:
            return None
        if protocol in _EXTENSION_HEADERS:
            size = (octets[at + 1] + 1) * 8
        elif protocol == _AUTHENTICATION_HEADER:
            size = (octets[at + 1] + 2) * 4
        elif protocol == _FRAGMENT_HEADER:
            size = 8
            field = octets[at + 2] << 8 | octets[at + 3]
            if field & 0xFFF9:  # else an atomic fragment (RFC 6946), a whole packet
                return _ipv6_fragment(addresses, field, octets, at, end, packet_end)
        else:
            return None
        protocol = octets[at]
        at += size
    return Packet(addresses, protocol, at, packet_end) if at <= packet_end else None


def _ipv6_fragment(
    addresses: bytes, field: int, octets: memoryview, at: int, end: int, packet_end: int
) -> Packet | None:
    payload_at = at + 8
    if payload_at > packet_end or octets[at] not in _MAY_LEAD_TO_TCP:
        return None
    key = addresses + bytes(octets[at + 4 : at + 8])
    part = octets[payload_at : max(payload_at, min(end, packet_end))]
    fragment = Fragment(key, octets[at], field & 0xFFF8, bool(field & 1), part, packet_end - payload_at)
    return Packet(addresses, _FRAGMENT_HEADER, payload_at, packet_end, fragment)


def _jumbo_payload(octets: memoryview, at: int, end: int) -> int:
    """The jumbo payload length among the hop-by-hop options, 0 if there is none (RFC 2675 §2)."""
    if end - at < 8:
        return 0
    options_end = min(at + (octets[at + 1] + 1) * 8, end)
    at += 2
    while options_end - at >= 2:
        if octets[at] == 0:  # Pad1 has no length
            at += 1
            continue
        if octets[at : at + 2] == _JUMBO_PAYLOAD and options_end - at >= 6:
            return int.from_bytes(octets[at + 2 : at + 6], "big")
        at += 2 + octets[at + 1]
    return 0
