"""IP datagrams out of their fragments, whatever order they come in (RFC 791 §3.2, RFC 8200 §4.5).

Scapy's ``IPSession`` gives up a datagram whose last fragment comes early, knows IPv4 only and keeps for ever what is
never completed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from scapy.config import conf
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, ipv6nhcls
from scapy.packet import NoPayload, Packet, Padding

#: Octets of fragments held back; the oldest datagram goes first.
FRAGMENTS_LIMIT = 4 * 1024 * 1024

#: Fragment offsets count units of 8 octets.
_UNIT = 8
#: In IPv4's flags.
_MORE_FRAGMENTS = 1
#: Octets of memory that a fragment takes besides those it brings, and a dissected packet, near enough.
_PIECE_WEIGHT, _PACKET_WEIGHT = 512, 8192


class _Datagram:
    """The fragments of one datagram that have arrived: for each offset, the first one there."""

    __slots__ = ("brought", "first", "length", "pieces", "weight")

    def __init__(self) -> None:
        self.pieces: dict[int, bytes] = {}
        #: Octets of all pieces, those that overlap counted twice.
        self.brought = 0
        self.first: Packet | None = None
        self.length: int | None = None
        self.weight = 0

    def octets(self) -> bytes | None:
        """All octets, None as long as some are missing."""
        if self.length is None or self.first is None or self.brought < self.length:
            return None
        octets = bytearray()
        for start, piece in sorted(self.pieces.items()):
            if start > len(octets):
                return None
            octets += piece[len(octets) - start :]
        return bytes(octets[: self.length]) if len(octets) >= self.length else None


class PacketFragments:
    """Takes packets and returns them unchanged, or, for fragments, the datagram once it is complete."""

    def __init__(self, limit: int = FRAGMENTS_LIMIT) -> None:
        self.limit = limit
        self.held = 0
        self._datagrams: OrderedDict[tuple[Any, ...], _Datagram] = OrderedDict()

    def take(self, packet: Packet) -> Packet | None:
        """The packet, or the datagram that it completes, with its time; None for a fragment that completes none."""
        layer, start, more = fragment_of(packet)
        if layer is None:
            return packet
        ip = layer if isinstance(layer, IP) else layer.underlayer
        while not isinstance(ip, (IP, IPv6)):
            ip = ip.underlayer
        key = (ip.src, ip.dst, layer.id, layer.proto if isinstance(layer, IP) else layer.nh)
        datagram = self._datagrams.setdefault(key, _Datagram())
        octets = octets_above(layer)
        is_new = start not in datagram.pieces
        if is_new:
            datagram.pieces[start] = octets
            datagram.brought += len(octets)
            weight = _PIECE_WEIGHT + len(octets)
            if start == 0:
                datagram.first = packet
                weight += _PACKET_WEIGHT
            datagram.weight += weight
            self.held += weight
        if not more and datagram.length is None:
            datagram.length = start + len(octets)
            is_new = True
        whole = datagram.octets() if is_new else None
        if whole is not None and datagram.first is not None:
            self.held -= self._datagrams.pop(key).weight
            return _whole(datagram.first, whole, packet)
        while self.held > self.limit and self._datagrams:
            self.held -= self._datagrams.popitem(last=False)[1].weight
        return None


def octets_above(layer: Packet) -> bytes:
    """The payload of a layer as it was captured, or built; without what padded the frame."""
    payload = layer.payload
    if isinstance(payload, (NoPayload, Padding)):
        return b""
    return bytes(payload.original or payload.do_build())


def fragment_of(packet: Any) -> tuple[Any, int, bool]:
    """The layer that says that a packet is a fragment, its offset in octets, and whether more follow."""
    ip = packet.getlayer(IP)
    if ip is not None:
        more = bool(int(ip.flags) & _MORE_FRAGMENTS)
        return (ip, ip.frag * _UNIT, more) if ip.frag or more else (None, 0, False)
    header = packet.getlayer(IPv6ExtHdrFragment)
    if header is not None and (header.offset or header.m):
        return header, header.offset * _UNIT, bool(header.m)
    return None, 0, False


def _whole(first: Packet, octets: bytes, completing: Packet) -> Packet:
    """The datagram with the layers below its first fragment's, at the time of the one that completed it."""
    packet: Any = first.copy()
    layer, _, _ = fragment_of(packet)
    assert layer is not None
    layer.remove_payload()
    if isinstance(layer, IP):
        layer.flags = int(layer.flags) & ~_MORE_FRAGMENTS
        layer.frag, layer.len, layer.chksum = 0, None, None
        cls: Any = layer.guess_payload_class(octets)
    else:
        header, layer = layer, layer.underlayer
        layer.remove_payload()
        layer.nh = header.nh
        packet[IPv6].plen = None
        cls = ipv6nhcls.get(header.nh, conf.raw_layer)
    layer.add_payload(cls(octets, _underlayer=layer))
    packet.time, packet.wirelen = completing.time, None
    assert isinstance(packet, Packet)
    return packet
