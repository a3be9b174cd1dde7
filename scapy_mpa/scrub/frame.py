"""One frame without payload and addresses: headers are copied, all else is replaced.

What is not known to be a header is replaced: a frame begins as zeros, and only what this module knows goes into it.
Checksums are adjusted by what changed below them (RFC 1624), so that one that was right is right, and one that was
wrong is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from scapy_mpa.capture.exported import exported_in
from scapy_mpa.capture.ip import (
    PROTOCOL_GRE,
    PROTOCOL_ICMP,
    PROTOCOL_ICMPV6,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    Packet,
    ipv4,
    ipv6,
)
from scapy_mpa.capture.link import (
    C_HDLC_WITH_DIR,
    ENC,
    ERF,
    ETHERNET,
    IPNET,
    IPOIB,
    NFLOG,
    PFLOG,
    PKTAP,
    PPI,
    PPP_WITH_DIR,
    SLL,
    SLL2,
    UPPER_PDU,
    Trail,
    ip_by_version,
    network_layer,
)
from scapy_mpa.capture.packet import MAX_NESTING
from scapy_mpa.capture.sealed import sealed_in
from scapy_mpa.capture.tunnel import inner_packet
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.ipsec.algorithms import ESP_HEADER_LENGTH
from scapy_mpa.scrub.noise import Noise
from scapy_mpa.scrub.stream import StreamMasks, kept_key
from scapy_mpa.values.encapsulation import (
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_QINQ,
    ETHERTYPE_VLAN,
    UDP_PORTS,
)
from scapy_mpa.values.segment import SYN

_MAC, _ETHERNET_HEADER, _IPV4_HEADER, _IPV6_HEADER = 6, 14, 20, 40
_TCP_HEADER, _UDP_HEADER, _ICMP_HEADER = 20, 8, 8
_ETHERTYPE_ARP: Final = 0x0806
_TAGS: Final = frozenset((ETHERTYPE_VLAN, ETHERTYPE_QINQ, 0x9100, 0x9200))
_GRE_CHECKSUM: Final = 0x80
#: TCP options that say nothing of anybody: end, no operation, maximum segment size, window scale, SACK, timestamps.
_TCP_OPTIONS: Final = frozenset((0, 1, 2, 3, 4, 5, 8))
#: Extension headers whose contents may be addresses or signatures, of which the first four octets stay: Routing, AH,
#: Destination Options, Mobility, HIP, Shim6.
_EXTENSIONS: Final = frozenset((43, 51, 60, 135, 139, 140))
_EXTENSION_KEPT: Final = 4
_AUTHENTICATION: Final = 51
#: Of headers of capture programs, which may name processes, users and interfaces: the octets that stay.
_PROGRAM_HEADERS: Final = {PPI: 8, PKTAP: 12, PFLOG: 1, ENC: 12, IPNET: 0, ERF: 16, PPP_WITH_DIR: 1, C_HDLC_WITH_DIR: 1}
#: Octets before the frame that IP over InfiniBand has for addresses.
_IPOIB_ADDRESS: Final = 40
#: Types of tags before an exported PDU that hold addresses; those of which the value stays: names of dissectors, ports
#: and their type, the number of the frame.
_TAG_ADDRESSES: Final = frozenset((20, 21, 22, 23))
_TAGS_KEPT: Final = frozenset((12, 13, 14, 24, 25, 26, 30))
_NFLOG_HEADER, _NFLOG_PACKET_HEADER, _NFLOG_PAYLOAD = 4, 1, 9


class FrameScrubber:
    """Replaces what frames carry.

    Args:
        noise: What takes its place.
        streams: The half connections of MPA.
        udp_ports: UDP ports of tunnels, besides the usual ones.

    Attributes:
        replaced: What was replaced whole, and in how many frames.
        payload: Octets of TCP payload that were replaced, headers of MPA, DDP and RDMAP among them.
    """

    def __init__(self, noise: Noise, streams: StreamMasks, udp_ports: Mapping[int, str] | None = None) -> None:
        self._noise, self._streams = noise, streams
        self._ports = UDP_PORTS if udp_ports is None else {**UDP_PORTS, **udp_ports}
        self.replaced: Counter[str] = Counter()
        self.payload = 0

    def frame(self, number: int, link_type: int, octets: bytes, wire: int) -> bytes:
        """Return the octets of a frame, of which `wire` were sent, with its payload and addresses replaced."""
        one = _Frame(self, number, octets)
        one.link(link_type, max(wire, len(octets)))
        return bytes(one.out)

    def put_in_place(self, what: str, octets: memoryview) -> bytes:
        """Return what takes the place of octets that are not examined; ``what`` they are is counted."""
        if not octets:
            return b""
        self.replaced[what] += 1
        return self._noise.in_place_of(octets)

    # What a frame asks for.

    @property
    def noise(self) -> Noise:
        """What generates octets and addresses."""
        return self._noise

    @property
    def streams(self) -> StreamMasks:
        """The half connections of MPA."""
        return self._streams

    @property
    def ports(self) -> Mapping[int, str]:
        """UDP ports of tunnels."""
        return self._ports


class _Frame:
    """A frame as it was captured, and as it is written."""

    def __init__(self, scrubber: FrameScrubber, number: int, octets: bytes) -> None:
        self._scrubber, self._number = scrubber, number
        self._octets = memoryview(octets)
        self.out = bytearray(len(octets))
        self._trail = Trail()

    # --- octets ---

    def _keep(self, at: int, end: int) -> None:
        self.out[at:end] = self._octets[at:end]

    def _replace(self, at: int, end: int, what: str) -> None:
        end = min(end, len(self._octets))
        if at < end:
            self.out[at:end] = self._scrubber.put_in_place(what, self._octets[at:end])

    def _map(self, at: int, size: int, mapped: Callable[[bytes], bytes]) -> None:
        if at + size <= len(self._octets):
            self.out[at : at + size] = mapped(bytes(self._octets[at : at + size]))

    def _address(self, at: int, size: int) -> None:
        self._map(at, size, self._scrubber.noise.address)

    def _mac(self, at: int) -> None:
        self._map(at, _MAC, self._scrubber.noise.mac)

    def _number_at(self, at: int) -> int:
        return self._octets[at] << 8 | self._octets[at + 1]

    # --- link layer ---

    def link(self, link_type: int, wire: int) -> None:
        """Replace what a frame of a link type holds."""
        end = len(self._octets)
        layer = network_layer(link_type, self._octets, 0, end, self._trail)
        addresses = b""
        if layer is None and link_type == UPPER_PDU:
            exported = exported_in(self._octets, 0, end)
            if exported is not None:
                self._exported_tags(exported.at)
                addresses = exported.addresses
                layer = ip_by_version(self._octets, exported.at, end)
                if addresses:
                    self._tcp(Packet(addresses, PROTOCOL_TCP, exported.at, wire), end)
                    return
        if layer is None:
            self._without_ip(link_type, end)
            return
        ether_type, at = layer
        self._link_header(link_type, at)
        self._packet(ether_type, at, end, wire, 0)

    def _without_ip(self, link_type: int, end: int) -> None:
        if link_type != ETHERNET or end < _ETHERNET_HEADER:
            self._replace(0, end, f"frames of link type {link_type} without IP")
            return
        self._keep(2 * _MAC, _ETHERNET_HEADER)
        self._mac(0)
        self._mac(_MAC)
        self._replace(_ETHERNET_HEADER, end, f"frames of EtherType {self._number_at(2 * _MAC):#06x}")

    def _link_header(self, link_type: int, at: int) -> None:
        """Copy what stands before the IP packet at an index, with other addresses."""
        begin = 0
        if link_type in _PROGRAM_HEADERS:
            self._keep(_PROGRAM_HEADERS[link_type], at)
            self._program_header(link_type, at)
        elif link_type == NFLOG:
            self._nflog(at)
        elif link_type == IPOIB:
            self._keep(_IPOIB_ADDRESS if at >= _IPOIB_ADDRESS else 0, at)
        elif link_type != UPPER_PDU:
            self._keep(0, at)
            begin = self._link_addresses(link_type)
        self._inner_addresses(begin, at)

    def _link_addresses(self, link_type: int) -> int:
        """Replace the addresses of the outermost header; return where others may begin."""
        if link_type == ETHERNET:
            self._mac(0)
            self._mac(_MAC)
            return _ETHERNET_HEADER
        if link_type in (SLL, SLL2):
            at = 6 if link_type == SLL else 12
            size = self._number_at(4) if link_type == SLL else self._octets[11]
            if size == _MAC:
                self._mac(at)
            else:
                self.out[at : at + 8] = bytes(8)
            return 16 if link_type == SLL else 20
        return 0

    def _program_header(self, link_type: int, at: int) -> None:
        """Copy of a header of a capture program what a reader needs: it may name users, processes, places."""
        kept = _PROGRAM_HEADERS[link_type]
        self._keep(0, min(kept, at))
        length = {PPI: 2, PKTAP: 0}.get(link_type)
        if length is not None:
            size = 2 if link_type == PPI else 4
            end = min(int.from_bytes(self._octets[length : length + size], "little"), at)
        elif link_type == PFLOG:
            end = min(self._octets[0] + 3 & ~3, at)
        elif link_type == ERF:
            end, more = kept, self._octets[8]
            while more & 0x80 and end < at:
                more = self._octets[end]
                behind = min(end + 8, at)
                self.out[end + 1 : behind] = bytes(max(0, behind - end - 1))
                end = behind
            return
        else:
            end = {IPNET: 24}.get(link_type, kept)
        self.out[kept:end] = bytes(max(0, end - kept))

    def _nflog(self, at: int) -> None:
        """Copy netfilter's attributes without values but the protocol and the packet: they name users and addresses."""
        self._keep(0, at)
        order = "little" if self._octets[_NFLOG_HEADER + 2] else "big"
        place = _NFLOG_HEADER
        while place + 4 <= at:
            length = int.from_bytes(self._octets[place : place + 2], order)  # type: ignore[arg-type]
            kind = int.from_bytes(self._octets[place + 2 : place + 4], order)  # type: ignore[arg-type]
            if length < 4 or kind == _NFLOG_PAYLOAD:
                return
            if kind != _NFLOG_PACKET_HEADER:
                end = min(place + length, at)
                self.out[place + 4 : end] = bytes(max(0, end - place - 4))
            place += length + 3 & ~3

    def _exported_tags(self, at: int) -> None:
        """Copy the tags before an exported PDU, with other addresses."""
        place = 0
        while place + 4 <= at:
            kind, length = self._number_at(place), self._number_at(place + 2)
            self._keep(place, place + 4)
            value = place + 4
            if kind in _TAG_ADDRESSES and length in (4, 16):
                self._address(value, length)
            elif kind in _TAGS_KEPT:
                self._keep(value, min(value + length, at))
            place = value + length

    def _inner_addresses(self, low: int, at: int) -> None:
        """Replace MAC addresses of an Ethernet header that ends where an IP packet begins, after VLAN tags or not."""
        ether_type = at - 2
        if ether_type - 2 * _MAC < low:
            return
        expected = {4: ETHERTYPE_IPV4, 6: ETHERTYPE_IPV6}.get(self._octets[at] >> 4) if at < len(self._octets) else None
        if self._number_at(ether_type) != expected:
            return
        while ether_type - 4 - 2 * _MAC >= low and self._number_at(ether_type - 4) in _TAGS:
            ether_type -= 4
        self._mac(ether_type - 2 * _MAC)
        self._mac(ether_type - _MAC)

    # --- IP ---

    def _packet(self, ether_type: int, at: int, end: int, wire_end: int, depth: int) -> None:
        """Replace what the IP packet at an index holds."""
        is_ipv4 = ether_type == ETHERTYPE_IPV4
        packet = (ipv4 if is_ipv4 else ipv6)(self._octets, at, end, wire_end)
        header = _IPV4_HEADER if is_ipv4 else _IPV6_HEADER
        if end - at < header or self._octets[at] >> 4 != (4 if is_ipv4 else 6):
            self._replace(at, end, "IP packets that are cut or faulty")
            return
        self._keep(at, at + header)
        for place in (12, 16) if is_ipv4 else (8, 24):
            self._address(at + place, 4 if is_ipv4 else 16)
        if packet is None:
            # Options and the like of a packet that is not read go with what it carries.
            number = self._octets[at + 9 if is_ipv4 else at + 6]
            self._replace(at + header, end, f"IP packets of protocol {number}")
        else:
            behind = at + header
            if is_ipv4:
                # Padding that has no meaning takes the place of options: routes and time stamps have addresses.
                behind = min(at + (self._octets[at] & 0x0F) * 4, end)
                self.out[at + header : behind] = b"\1" * (behind - at - header)
            self._extensions(behind, min(packet.at, end), self._octets[at + 9 if is_ipv4 else at + 6])
            self._payload(packet, min(end, packet.wire_end), depth)
        if is_ipv4:
            size = min(max(header, (self._octets[at] & 0x0F) * 4), end - at)
            self._adjust(at + 10, at, at + size, 0, 0)

    def _extensions(self, at: int, end: int, kind: int) -> None:
        """Copy extension headers as far as they hold no addresses."""
        while at + 8 <= end:
            size = (self._octets[at + 1] + 2) * 4 if kind == _AUTHENTICATION else (self._octets[at + 1] + 1) * 8
            size = 8 if kind == 44 else size
            self._keep(at, min(at + (_EXTENSION_KEPT if kind in _EXTENSIONS else size), end))
            kind, at = self._octets[at], at + size

    def _payload(self, packet: Packet, end: int, depth: int) -> None:
        """Replace what an IP packet carries, up to an index."""
        at, protocol = packet.at, packet.protocol
        if at >= end:
            return
        if packet.fragment is not None:
            self._replace(at, end, "fragments of IP datagrams")
        elif (sealed := sealed_in(packet, self._octets, end)) is not None:
            start = min(sealed[0] + ESP_HEADER_LENGTH, end)
            self._keep(at, start)
            self._replace(start, end, "ESP packets")
        elif protocol == PROTOCOL_TCP:
            self._tcp(packet, end)
        elif protocol in (PROTOCOL_ICMP, PROTOCOL_ICMPV6):
            self._icmp(packet, end)
        else:
            self._tunnel(packet, end, depth)

    def _tunnel(self, packet: Packet, end: int, depth: int) -> None:
        """Replace the content of a tunnel, or everything if it is not a tunnel."""
        at, protocol = packet.at, packet.protocol
        inner = None
        if depth + 1 < MAX_NESTING:
            inner = inner_packet(protocol, self._octets, at, end, self._scrubber.ports, self._trail)
        if inner is not None and inner[1] < end:
            self._keep(at, inner[1])
            self._inner_addresses(at, inner[1])
            self._packet(inner[0], inner[1], end, packet.wire_end, depth + 1)
        elif protocol == PROTOCOL_UDP and end - at >= _UDP_HEADER:
            self._keep(at, at + _UDP_HEADER)
            self._replace(at + _UDP_HEADER, end, "UDP datagrams")
        else:
            self._replace(at, end, f"IP packets of protocol {protocol}")
        if protocol == PROTOCOL_UDP and end - at >= _UDP_HEADER:
            self._adjust(at + 6, at, end, *self._pseudo(packet))
        elif protocol == PROTOCOL_GRE and end - at >= 8 and self._octets[at] & _GRE_CHECKSUM and inner is not None:
            self._adjust(at + 4, at, end, 0, 0)

    def _icmp(self, packet: Packet, end: int) -> None:
        """Replace what an ICMP message holds: headers of a packet that it quotes stay, with other addresses."""
        at = packet.at
        self._keep(at, min(at + _ICMP_HEADER, end))
        quoted = at + _ICMP_HEADER
        version = self._octets[quoted] >> 4 if quoted < end else 0
        is_ipv4 = len(packet.addresses) == 8
        header = _IPV4_HEADER if is_ipv4 else _IPV6_HEADER
        is_error = self._octets[at] in ((3, 4, 5, 11, 12) if is_ipv4 else (1, 2, 3, 4))
        if is_error and version == (4 if is_ipv4 else 6) and end - quoted >= header:
            self._keep(quoted, quoted + header)
            for place in (12, 16) if is_ipv4 else (8, 24):
                self._address(quoted + place, 4 if is_ipv4 else 16)
            transport = quoted + max(header, (self._octets[quoted] & 0x0F) * 4 if is_ipv4 else header)
            if is_ipv4:
                self.out[quoted + header : min(transport, end)] = b"\1" * max(0, min(transport, end) - quoted - header)
                self._adjust(quoted + 10, quoted, min(transport, end), 0, 0)
            # Ports and sequence number (RFC 792), and what else a TCP header has.
            is_tcp = self._octets[quoted + 9 if is_ipv4 else quoted + 6] == PROTOCOL_TCP
            self._keep(min(transport, end), min(transport + (_TCP_HEADER if is_tcp else _UDP_HEADER), end))
            quoted = min(transport + (_TCP_HEADER if is_tcp else _UDP_HEADER), end)
        self._replace(quoted, end, "ICMP messages")
        if end - at >= 4:
            self._adjust(at + 2, at, end, *((0, 0) if is_ipv4 else self._pseudo(packet)))

    # --- TCP ---

    def _tcp(self, packet: Packet, end: int) -> None:
        at = packet.at
        if end - at < _TCP_HEADER:
            self._keep(at, end)
            return
        octets = self._octets
        start = at + (octets[at + 12] >> 4) * 4
        if start < at + _TCP_HEADER or start > packet.wire_end:
            self._keep(at, at + _TCP_HEADER)
            self._replace(at + _TCP_HEADER, end, "TCP segments with a faulty header")
            return
        start = min(start, end)
        self._keep(at, at + _TCP_HEADER)
        self._tcp_options(at + _TCP_HEADER, start)
        if start < end:
            key = packet.addresses + bytes(octets[at : at + 4])
            seq = int.from_bytes(octets[at + 4 : at + 8], "big") + bool(octets[at + 13] & SYN) & SEQ_MASK
            self._tcp_payload(key, seq, start, end)
        self._adjust_tcp(packet, end)

    def _tcp_options(self, at: int, end: int) -> None:
        """Copy options; of those that may hold keys, tokens or addresses only kind and length."""
        while at < end:
            kind = self._octets[at]
            size = 1 if kind < 2 else max(2, self._octets[at + 1]) if at + 1 < end else 1
            self._keep(at, min(at + (size if kind in _TCP_OPTIONS else 2), end))
            at += size

    def _tcp_payload(self, key: bytes, seq: int, start: int, end: int) -> None:
        payload = self._octets[start:end]
        half = self._scrubber.streams.of(key, self._trail.path, self._number, seq)
        self._scrubber.payload += len(payload)
        if half is None:
            self._scrubber.replaced["TCP segments of connections without MPA"] += 1
            noise = self._scrubber.noise.octets(b"tcp" + key + seq.to_bytes(4, "big"), len(payload))
            self.out[start:end] = noise
            self._keep(start, start + kept_key(payload))
            return
        mask = half.mask(seq, len(payload), payload)
        changed = int.from_bytes(payload, "big") ^ int.from_bytes(mask, "big")
        self.out[start:end] = changed.to_bytes(len(payload), "big")

    # --- checksums ---

    def _pseudo(self, packet: Packet) -> tuple[int, int]:
        """Return the sums of the addresses of the pseudo-header, before and after."""
        half = len(packet.addresses) // 2
        address = self._scrubber.noise.address
        changed = address(packet.addresses[:half]) + address(packet.addresses[half:])
        return int.from_bytes(packet.addresses, "big"), int.from_bytes(changed, "big")

    def _adjust(self, field: int, at: int, end: int, before: int, after: int) -> None:
        """Adjust a checksum by what changed in [at, end) and in the pseudo-header; 0 says that there is none."""
        found = self._number_at(field)
        if found:
            self.out[field : field + 2] = self._octets[field : field + 2]
            change = _sum(self.out[at:end]) + after - _sum(self._octets[at:end]) - before
            self._put(field, found - change)

    def _adjust_tcp(self, packet: Packet, end: int) -> None:
        """Adjust TCP's checksum: one that a host left to its network card is the sum of the pseudo-header alone."""
        at, field = packet.at, packet.at + 16
        found = self._number_at(field)
        before, after = self._pseudo(packet)
        if not found:
            return
        if end < packet.wire_end:  # nobody can know whether it is right
            self._adjust(field, at, end, before, after)
            return
        length = end - at
        was = _verdict(found, _sum(self._octets[at:end]), before, length)
        if was == "offloaded":
            self._put(field, found + after - before)
            return
        self._adjust(field, at, end, before, after)
        while _verdict(self._out_number(field), _sum(self.out[at:end]), after, length) != was:
            self._put(field, self._out_number(field) + 1)  # wrong, and by chance like one that is not

    def _out_number(self, at: int) -> int:
        return self.out[at] << 8 | self.out[at + 1]

    def _put(self, field: int, value: int) -> None:
        self.out[field : field + 2] = (value % 0xFFFF or 0xFFFF).to_bytes(2, "big")


def _sum(octets: bytes | bytearray | memoryview) -> int:
    """The sum of 16-bit words, modulo 2^16 - 1 (RFC 1071)."""
    return int.from_bytes(bytes(octets) + bytes(len(octets) & 1), "big") % 0xFFFF


def _verdict(found: int, total: int, pseudo: int, length: int) -> str:
    """Say of the checksum of a whole segment what :func:`~scapy_mpa.values.segment.checksum_is_wrong` goes by."""
    pseudo += PROTOCOL_TCP
    if (total + pseudo + length) % 0xFFFF == 0:
        return "right"
    is_offloaded = (found - pseudo - length) % 0xFFFF == 0 or (found - pseudo) % 0xFFFF == 0
    return "offloaded" if is_offloaded else "wrong"
