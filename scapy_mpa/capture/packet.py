"""From a captured frame to the TCP segment in it, through link layers, tunnels and fragments.

A message of ICMP about the path MTU of a TCP connection travels as a segment too (:mod:`scapy_mpa.values.pathmtu`).

The inner TCP segment is what counts.  :func:`segment_in` is the general path;  :class:`FastPath` knows the ordinary
packet at a glance (one unpack for the link, IP and TCP header without options).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any

from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.icmp import path_mtu_in
from scapy_mpa.capture.ip import (
    PROTOCOL_ESP,
    PROTOCOL_ICMP,
    PROTOCOL_ICMPV6,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    Packet,
    below_ipv6,
    ipv4,
    ipv6,
)
from scapy_mpa.capture.link import (
    ETHER_TYPE_AT,
    FIXED_HEADERS,
    RAW,
    UPPER_PDU,
    Trail,
    ip_by_version,
    network_layer,
)
from scapy_mpa.capture.notes import Notes
from scapy_mpa.capture.sealed import note_without_keys, sealed_in
from scapy_mpa.capture.tunnel import inner_packet
from scapy_mpa.values.encapsulation import ETHERTYPE_IPV4, ETHERTYPE_IPV6, NAMED_IP_PROTOCOLS
from scapy_mpa.values.segment import CarriedSegment, Segment

if TYPE_CHECKING:
    from scapy_mpa.ipsec.cipher import Opened

#: IP packets in one another, and fragments of fragments, that are examined.
MAX_NESTING = 8

#: In place of the index of the TCP header: no segment; what must be reassembled from fragments first; a packet of a
#: link type that is not known.
NO_SEGMENT, FRAGMENT, UNKNOWN_LINK = -1, -2, -3

_ICMP = frozenset((PROTOCOL_ICMP, PROTOCOL_ICMPV6))
_MAY_BE_SEALED = frozenset((PROTOCOL_ESP, PROTOCOL_UDP))
_TCP = Struct(">IIBB").unpack_from

#: What follows the EtherType in an IPv4 packet without options that carries TCP, and in an IPv6 packet without
#: extension headers: version, total or payload length, (fragment,) protocol, key, then TCP.
_IPV4_TCP, IPV4_TCP_LENGTH = "BxHxxHxB2x12sIIBB", 34
_IPV6_TCP, IPV6_TCP_LENGTH = "B3xHBx36sIIBB", 54
#: Octets of a TCP header without options (RFC 9293 §3.1).
_TCP_LENGTH = 20


class FastPath:
    """Unpackers for IPv4 and IPv6 under a link type, and the length of its header; they never match for others.

    Attributes:
        ether_type_at: where in the header the EtherType stands, -1 for other link types.
    """

    __slots__ = ("ether_type_at", "header", "ipv4", "ipv6")

    def __init__(self, link_type: int) -> None:
        self.header = 0
        self.ether_type_at = ETHER_TYPE_AT.get(link_type, -1)
        self.ipv4: Callable[..., tuple[Any, ...]] = _no_match
        self.ipv6: Callable[..., tuple[Any, ...]] = _no_match
        if link_type in FIXED_HEADERS:
            self.header, ether_type = FIXED_HEADERS[link_type]
            self.ipv4 = Struct(">" + ether_type + _IPV4_TCP).unpack_from
            self.ipv6 = Struct(">" + ether_type + _IPV6_TCP).unpack_from

    def segment(self, frame: int, time: int, octets: memoryview, start: int, end: int) -> Segment | None:
        """The TCP segment in the frame ``octets[start:end]``, None if that is not plain at a glance."""
        header = self.header
        captured = end - start
        if captured < header + IPV4_TCP_LENGTH:
            return None
        ether_type, version, total, fragment, protocol, key, seq, ack, data_offset, flags = self.ipv4(octets, start)
        if ether_type == ETHERTYPE_IPV4:
            if version != 0x45 or protocol != PROTOCOL_TCP or fragment & 0x3FFF:
                return None
            tcp = start + header + 20
            packet_end = start + header + total
        elif ether_type == ETHERTYPE_IPV6 and captured >= header + IPV6_TCP_LENGTH:
            _, version, total, protocol, key, seq, ack, data_offset, flags = self.ipv6(octets, start)
            if version >> 4 != 6 or protocol != PROTOCOL_TCP:
                return None
            tcp = start + header + 40
            packet_end = tcp + total
        else:
            return None
        payload = tcp + (data_offset >> 4) * 4
        length = packet_end - payload
        if data_offset < 0x50 or length < 0 or packet_end > end:
            return None
        return Segment(frame, time, key, seq, ack, flags, octets, payload, packet_end, tcp, length)


def _no_match(_octets: memoryview, _start: int) -> tuple[int | bytes, ...]:
    return (0, 0, 0, 0, 0, b"", 0, 0, 0, 0)


_FAST_PATHS = {link_type: FastPath(link_type) for link_type in (*FIXED_HEADERS, RAW)}


def fast_path(link_type: int) -> FastPath:
    """The fast path of a link type; those that have none share one that never matches."""
    return _FAST_PATHS.get(link_type, _FAST_PATHS[RAW])


def segment_in(
    frame: int,
    time: int,
    link_type: int,
    octets: memoryview,
    start: int,
    end: int,
    wire_end: int,
    fragments: Fragments,
    *,
    waits: bool = False,
) -> Segment | None:
    """The TCP segment in the frame ``octets[start:end]``, or None if there is none.

    ``wire_end`` is where the frame ended before the capture cut it. With ``waits``, a frame with a fragment, or with
    ESP, gives a segment with an empty key that stands for it, for :func:`segment_of_fragment`.
    """
    trail = Trail()
    found = _segment_in(frame, time, link_type, octets, start, end, wire_end, fragments, waits, trail)
    if found is None:
        if trail.unread is not None:
            fragments.notes.leave_unread(trail.unread, frame, time)
        if trail.mapper is not None:
            fragments.mappings.take(trail.mapper)
    elif trail.path or trail.is_fragmented:
        return CarriedSegment.of(found, tuple(trail.path), trail.is_fragmented)
    return found


def _segment_in(
    frame: int,
    time: int,
    link_type: int,
    octets: memoryview,
    start: int,
    end: int,
    wire_end: int,
    fragments: Fragments,
    waits: bool,
    trail: Trail,
) -> Segment | None:
    layer = network_layer(link_type, octets, start, end, trail)
    whole = Segment(frame, time, b"", link_type, 0, 0, octets, start, end, FRAGMENT, wire_end)
    if layer is None and link_type == UPPER_PDU:
        from scapy_mpa.capture.exported import exported_in

        exported = exported_in(octets, start, end)
        if exported is None:
            note_exported(fragments.notes, frame, time)
            return None
        if exported.addresses:
            return _tcp_segment(frame, time, exported.addresses, octets, exported.at, end, wire_end)
        layer = ip_by_version(octets, exported.at, end)
    layers = MAX_NESTING
    for _ in range(MAX_NESTING):
        if layer is None:
            return None
        ether_type, at = layer
        packet = (ipv4 if ether_type == ETHERTYPE_IPV4 else ipv6)(octets, at, end, wire_end)
        if packet is None:
            protocol_at = at + (9 if ether_type == ETHERTYPE_IPV4 else 6)
            name = NAMED_IP_PROTOCOLS.get(octets[protocol_at]) if protocol_at < end else None
            trail.unread = None if name is None else f"IP protocol {octets[protocol_at]} ({name})"
        while packet is not None:
            if packet.fragment is not None:
                if waits:
                    return whole
                trail.is_fragmented = True
                datagram = fragments.add(packet.fragment, frame, time)
                if datagram is None:
                    return None
                protocol, octets, wire_end = datagram.protocol, memoryview(datagram.octets), datagram.length
            elif packet.protocol in _MAY_BE_SEALED and (place := sealed_in(packet, octets, min(end, packet.wire_end))):
                if waits:
                    return whole
                opened = _opened(frame, time, packet, octets, place, fragments) if layers else None
                if opened is None:
                    return None
                layers -= 1
                protocol, octets, wire_end = opened.protocol, memoryview(opened.octets), len(opened.octets)
            else:
                break
            end = len(octets)
            packet = below_ipv6(packet.addresses, protocol, octets, 0, end, wire_end)
        if packet is None:
            return None
        wire_end = packet.wire_end
        end = min(end, wire_end)
        if packet.protocol == PROTOCOL_TCP:
            if end < packet.at + _TCP_LENGTH <= wire_end:
                fragments.notes.add("capture-cut", frame, time, "the TCP header was not captured in full")
            return _tcp_segment(frame, time, packet.addresses, octets, packet.at, end, wire_end)
        if packet.protocol in _ICMP:
            # What came in fragments is not examined.
            return path_mtu_in(frame, time, packet, octets, end, wire_end) if octets is whole.buffer else None
        layer = inner_packet(packet.protocol, octets, packet.at, end, fragments.udp_ports, trail)
    return None


def _opened(
    frame: int, time: int, packet: Packet, octets: memoryview, place: tuple[int, int, int], fragments: Fragments
) -> Opened | None:
    """Return the content of ESP between two of these places, if there are keys."""
    if fragments.esp is None:
        note_without_keys(fragments.notes, frame, time)
        return None
    start, end, wire_end = place
    sealed = octets[start : max(start, end)]
    return fragments.esp.open(frame, time, packet.addresses, sealed, end == wire_end, fragments.notes)


def segment_of_fragment(seg: Segment, fragments: Fragments) -> Segment | None:
    """The TCP segment that a fragment completes, or that ESP holds, which :func:`segment_in` had left undone."""
    return segment_in(seg.frame, seg.time, seg.seq, seg.buffer, seg.start, seg.end, seg.length, fragments)


def _tcp_segment(
    frame: int, time: int, addresses: bytes, octets: memoryview, tcp: int, end: int, wire_end: int
) -> Segment | None:
    if end - tcp < _TCP_LENGTH:
        return None
    seq, ack, data_offset, flags = _TCP(octets, tcp + 4)
    start = tcp + (data_offset >> 4) * 4
    if start < tcp + _TCP_LENGTH or start > wire_end:
        return None
    key = addresses + bytes(octets[tcp : tcp + 4])
    # The capture may have cut the packet in TCP's options.
    return Segment(frame, time, key, seq, ack, flags, octets, min(start, end), end, tcp, wire_end - start)


def note_exported(notes: Notes, frame: int, time: int) -> None:
    """Have the report say that an exported PDU was not read."""
    notes.add("link-type", frame, time, "only exported PDUs of IP (OSI layer 3) and TCP are read; this is neither")
