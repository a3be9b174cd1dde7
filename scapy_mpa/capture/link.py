"""From a captured frame to its IP packet: the link layers, by pcap link type.

In: the octets of a frame and its link type (tcpdump.org's LINKTYPE_ numbers). Out: the EtherType of the
network layer and where it begins, or None for what carries no IP.

Some link types are a header of the capture program before a frame of another link type (:data:`_WRAPPERS`).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from scapy_mpa.values.encapsulation import (
    ETHERTYPE_ETHERNET,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_MPLS,
    ETHERTYPE_PPPOE,
    ETHERTYPE_QINQ,
    ETHERTYPE_VLAN,
    ETHERTYPE_VNTAG,
    NAMED_ETHERTYPES,
    SNAP,
)

NULL, ETHERNET, LOOP, RAW, SLL, IPV4, IPV6, SLL2 = 0, 1, 108, 101, 113, 228, 229, 276
#: What Wireshark exports: :mod:`~scapy_mpa.capture.exported`.
UPPER_PDU = 252
PPP, PPP_HDLC, PPP_ETHER, C_HDLC, PPP_WITH_DIR, C_HDLC_WITH_DIR = 9, 50, 51, 104, 204, 205
ENC, PFLOG, PPI, ERF, MPLS, IPNET, NFLOG, IPOIB, PKTAP = 109, 117, 192, 197, 219, 226, 239, 242, 258
#: Link types that give raw IP on some systems' old captures (DLT_RAW differs among them).
_RAW_TYPES = frozenset((RAW, 12, 14))

#: 802.1Q, 802.1ad and the values that came before the latter.
_VLAN_TYPES = frozenset((ETHERTYPE_VLAN, ETHERTYPE_QINQ, 0x9100, 0x9200))
_ETHERTYPE_MPLS_UPSTREAM: Final = 0x8848
_MPLS_TYPES = frozenset((ETHERTYPE_MPLS, _ETHERTYPE_MPLS_UPSTREAM))
_IP_TYPES = frozenset((ETHERTYPE_IPV4, ETHERTYPE_IPV6))
#: Below this an EtherType is the length of an IEEE 802.3 frame.
LEAST_ETHERTYPE: Final = 0x0600
#: Octets after the EtherType of a VN-Tag (IEEE 802.1BR), up to the next EtherType.
_VNTAG_LENGTH: Final = 4
_KNOWN_TYPES = _IP_TYPES | _VLAN_TYPES | _MPLS_TYPES | {ETHERTYPE_PPPOE}

#: PPP's protocol numbers (RFC 1332, 5072, 3032) and the EtherTypes of the same.
_PPP_PROTOCOLS = {
    0x0021: ETHERTYPE_IPV4,
    0x0057: ETHERTYPE_IPV6,
    0x0281: ETHERTYPE_MPLS,
    0x0283: _ETHERTYPE_MPLS_UPSTREAM,
}

#: Where the network layer begins and a struct format that yields the EtherType before it, for the link types
#: whose header has one length: what the reader's fast path is built from.
FIXED_HEADERS = {ETHERNET: (14, "12xH"), SLL: (16, "14xH"), SLL2: (20, "H18x")}
#: Where in it the EtherType stands.
ETHER_TYPE_AT = {ETHERNET: 12, SLL: 14, SLL2: 0}

#: Link type of the frame after a header of the capture program, and where it begins; None if the header is cut.
_Inner: TypeAlias = "tuple[int, int] | None"

#: Octets before the frame where they are always as many, and its link type: the direction of PPP and HDLC; address
#: family, SPI and flags of an IPsec interface; the ends of a Solaris ipnet packet.
_FIXED_WRAPPERS: Final = {
    C_HDLC: (0, PPP_HDLC),
    PPP_WITH_DIR: (1, PPP),
    C_HDLC_WITH_DIR: (1, PPP_HDLC),
    ENC: (12, RAW),
    IPNET: (24, RAW),
}

#: Length and link type in the header of PPI (version, flags, length, link type), and of PKTAP (length, what follows,
#: link type): little-endian, whoever wrote them.
_PPI: Final = Struct("<2xHI")
_PKTAP: Final = Struct("<3I")
#: The shortest PKTAP header, and what it says if a packet follows.
_PKTAP_LENGTH, _PKTAP_PACKET = 108, 1
#: The shortest pflog header: up to the numbers of the rules, and the direction.
_PFLOG_LENGTH = 45

#: An ERF record begins with a time stamp; it is followed by its type, whose highest bit says that an extension
#: header follows, as does that of each extension header's first octet.
_ERF_LENGTH, _ERF_TYPE_AT, _ERF_EXTENSION, _ERF_EXTENSION_LENGTH = 16, 8, 0x80, 8
#: ERF types: octets between the headers and the frame, and its link type.
_ERF_TYPES: Final = {
    **dict.fromkeys((1, 10, 15, 19), (0, PPP_HDLC)),
    **dict.fromkeys((2, 11, 16, 20), (2, ETHERNET)),
    **dict.fromkeys((5, 17), (4, PPP_HDLC)),
    **dict.fromkeys((22, 23), (0, RAW)),
}

#: NFLOG's attributes: length and type, then the value, to a multiple of four octets. The first value begins with the
#: protocol as an EtherType; the other one is the packet.
_NFLOG_LENGTH, _NFLOG_PACKET_HEADER, _NFLOG_PAYLOAD = 4, 1, 9
_NFLOG_ORDERS: Final = {True: Struct("<2H"), False: Struct(">2H")}
#: Address families whose packets are IP: Linux's AF_INET and AF_INET6.
_NFLOG_IP: Final = frozenset((2, 10))

#: Octets before the encapsulation header of IP over InfiniBand: a Global Routing Header, or zeros and the address.
_IPOIB_ADDRESS = 40

#: Headers of capture programs in one another that are read: more than any program writes.
_MOST_WRAPPERS: Final = 4


class Trail:
    """What is found between the start of a frame and the TCP segment in it.

    Attributes:
        path: tags and tunnels that tell one network from another on the same wire, the outermost first.
        unread: what it came to that may hold TCP and is not read, None if nothing.
        is_fragmented: whether the segment came in fragments of an IP datagram.
        mapper: a message of the port mapper, None if there is none.
    """

    __slots__ = ("is_fragmented", "mapper", "path", "unread")

    def __init__(self) -> None:
        self.path: list[str] = []
        self.unread: str | None = None
        self.mapper: memoryview | None = None
        self.is_fragmented = False


def network_layer(link_type: int, octets: memoryview, start: int, end: int, trail: Trail) -> tuple[int, int] | None:
    """EtherType and first octet of the network layer of the frame in ``octets[start:end]``, or None."""
    if link_type in _WRAPPERS:
        unwrapped = _unwrapped(link_type, octets, start, end)
        if unwrapped is None:
            return None
        link_type, start = unwrapped
    if link_type in FIXED_HEADERS:
        header, _ = FIXED_HEADERS[link_type]
        if end - start < header:
            return None
        at = start if link_type == SLL2 else start + header - 2
        return ip_below(octets, octets[at] << 8 | octets[at + 1], start + header, end, trail)
    read = _NETWORK_LAYERS.get(link_type)
    return None if read is None else read(octets, start, end, trail)


def link_type_not_read(link_type: int, octets: memoryview, start: int, end: int) -> int | None:
    """Return the link type for which the frame ``octets[start:end]`` is not read, its own or an inner one, or None."""
    if link_type in _WRAPPERS:
        unwrapped = _unwrapped(link_type, octets, start, end)
        if unwrapped is None:
            return None
        link_type, _ = unwrapped
    return None if link_type in LINK_TYPES else link_type


def _unwrapped(link_type: int, octets: memoryview, start: int, end: int) -> _Inner:
    """Link type and first octet of the frame below all headers of capture programs, None if they are cut or faulty."""
    for _ in range(_MOST_WRAPPERS):
        wrapper = _WRAPPERS.get(link_type)
        if wrapper is None:
            return link_type, start
        inner = wrapper(octets, start, end)
        if inner is None or inner[1] > end:
            return None
        link_type, start = inner
    return None if link_type in _WRAPPERS else (link_type, start)


def _fixed_wrapper(length: int, link_type: int) -> Callable[[memoryview, int, int], _Inner]:
    return lambda _octets, start, _end: (link_type, start + length)


def _below_ppi(octets: memoryview, start: int, end: int) -> _Inner:
    if end - start < _PPI.size:
        return None
    length, link_type = _PPI.unpack_from(octets, start)
    return (link_type, start + length) if length >= _PPI.size else None


def _below_pktap(octets: memoryview, start: int, end: int) -> _Inner:
    if end - start < _PKTAP_LENGTH:
        return None
    length, what, link_type = _PKTAP.unpack_from(octets, start)
    return (link_type, start + length) if length >= _PKTAP_LENGTH and what == _PKTAP_PACKET else None


def _below_pflog(octets: memoryview, start: int, end: int) -> _Inner:
    """The length is without the padding to a multiple of four."""
    if end <= start or octets[start] < _PFLOG_LENGTH:
        return None
    return RAW, start + (octets[start] + 3 & ~3)


def _below_erf(octets: memoryview, start: int, end: int) -> _Inner:
    if end - start < _ERF_LENGTH:
        return None
    flags = octets[start + _ERF_TYPE_AT]
    found = _ERF_TYPES.get(flags & ~_ERF_EXTENSION)
    if found is None:
        return None
    at = start + _ERF_LENGTH
    while flags & _ERF_EXTENSION:
        if at >= end:
            return None
        flags = octets[at]
        at += _ERF_EXTENSION_LENGTH
    gap, link_type = found
    return link_type, at + gap


def _below_nflog(octets: memoryview, start: int, end: int, trail: Trail) -> tuple[int, int] | None:
    """The packet that netfilter logged, of the protocol that the attributes say.

    They are in the byte order of the host that captured, which shows in the first type: all types are below 256. A
    packet of AF_INET or AF_INET6 is IP, whatever the attributes say: old kernels leave the protocol zero.
    """
    at = start + _NFLOG_LENGTH
    if end - at < _NFLOG_LENGTH:
        return None
    fields = _NFLOG_ORDERS[octets[at + 2] != 0]
    protocol = None
    while end - at >= fields.size:
        length, kind = fields.unpack_from(octets, at)
        if length < fields.size:
            return None
        value = at + fields.size
        if kind == _NFLOG_PAYLOAD:
            if protocol is None or octets[start] in _NFLOG_IP:
                return ip_by_version(octets, value, end)
            return ip_below(octets, protocol, value, end, trail)
        if kind == _NFLOG_PACKET_HEADER and length >= fields.size + 2 and end - value >= 2:
            protocol = octets[value] << 8 | octets[value + 1]
        at += length + 3 & ~3
    return None


def _below_ipoib(octets: memoryview, start: int, end: int, trail: Trail) -> tuple[int, int] | None:
    """IP over InfiniBand; the encapsulation header of RFC 4391 §6, an EtherType and 16 zero bits, may stand alone."""
    if end - start > 4 and octets[start + 2] == octets[start + 3] == 0:
        found = _ether_type_at(octets, start, end)
        if found is not None and ip_by_version(octets, start + 4, end) == (found[0], start + 4):
            return found[0], start + 4
    at = start + _IPOIB_ADDRESS
    return ip_below(octets, octets[at] << 8 | octets[at + 1], at + 4, end, trail) if end - at >= 4 else None


def _below_family(octets: memoryview, start: int, end: int, _trail: Trail) -> tuple[int, int] | None:
    """The protocol family, in the byte order of the host that captured (LOOP: of the network), before the packet.

    Each system has its own number for IPv6, so the version nibble is what is trusted.
    """
    return ip_by_version(octets, start + 4, end)


def ip_below(octets: memoryview, ether_type: int, at: int, end: int, trail: Trail) -> tuple[int, int] | None:
    """EtherType and first octet of the IP packet below VLAN tags, MPLS labels, PPPoE and inner Ethernet headers."""
    found: tuple[int, int] | None = (ether_type, at)
    while found is not None and found[0] not in _IP_TYPES:
        found = _below_one(octets, *found, end, trail)
    return found


def _below_one(octets: memoryview, ether_type: int, at: int, end: int, trail: Trail) -> tuple[int, int] | None:
    """Return what follows one header, None if it is cut or unknown; always further on."""
    if ether_type in _VLAN_TYPES:
        if end - at >= 2 and (number := (octets[at] & 0x0F) << 8 | octets[at + 1]):
            trail.path.append(f"VLAN {number}")
        return _ether_type_at(octets, at + 2, end)
    if ether_type in _MPLS_TYPES:
        return _below_mpls(octets, at, end, trail)
    if ether_type == ETHERTYPE_VNTAG:
        return _ether_type_at(octets, at + _VNTAG_LENGTH, end)
    if ether_type < LEAST_ETHERTYPE and bytes(octets[at : at + len(SNAP)]) == SNAP:
        return _ether_type_at(octets, at + len(SNAP), end)
    if ether_type in NAMED_ETHERTYPES:
        trail.unread = f"EtherType {ether_type:#06x} ({NAMED_ETHERTYPES[ether_type]})"
    if ether_type == ETHERTYPE_ETHERNET:
        return _ether_type_at(octets, at + 12, end)
    if ether_type == ETHERTYPE_PPPOE and end - at > 6 and octets[at] == 0x11 and octets[at + 1] == 0:
        return _ppp_protocol(octets, at + 6, end)
    return None


def _ether_type_at(octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    return (octets[at] << 8 | octets[at + 1], at + 2) if end - at >= 2 else None


def _below_mpls(octets: memoryview, at: int, end: int, trail: Trail) -> tuple[int, int] | None:
    """Below the last label is IP, or Ethernet with or without a control word (RFC 4448 §4.6): nothing says which."""
    first = at
    while end - at >= 4 and not octets[at + 2] & 1:
        at += 4
    at += 4
    if at <= end:
        # The last label is that of the service.
        trail.path.append(f"MPLS {int.from_bytes(octets[max(first, at - 4) : at], 'big') >> 12}")
    if end <= at:
        return None
    ethernet = _ether_type_at(octets, at + 12, end)
    version = octets[at] >> 4
    if version in (4, 6) and not _begins_ip(octets, ethernet, end):
        return (ETHERTYPE_IPV4 if version == 4 else ETHERTYPE_IPV6), at
    if version == 0:
        after_control_word = _ether_type_at(octets, at + 4 + 12, end)
        if after_control_word is not None and after_control_word[0] in _KNOWN_TYPES:
            return after_control_word
    return ethernet


def _begins_ip(octets: memoryview, layer: tuple[int, int] | None, end: int) -> bool:
    """Return True if what an EtherType says is there: IPv4 without options or IPv6."""
    if layer is None or layer[1] >= end:
        return False
    ether_type, at = layer
    return (ether_type == ETHERTYPE_IPV4 and octets[at] == 0x45) or (
        ether_type == ETHERTYPE_IPV6 and octets[at] >> 4 == 6
    )


def ip_below_ppp(octets: memoryview, at: int, end: int, trail: Trail) -> tuple[int, int] | None:
    """EtherType and first octet of the IP packet in a PPP frame, in HDLC-like framing or not (RFC 1661, 1662)."""
    if end - at >= 4 and octets[at] in (0x0F, 0x8F) and octets[at + 1] == 0:
        # Cisco's HDLC, which link type 50 may be too, has EtherTypes.
        found = _ether_type_at(octets, at + 2, end)
    else:
        if end - at >= 2 and octets[at] == 0xFF and octets[at + 1] == 0x03:
            at += 2
        found = _ppp_protocol(octets, at, end)
    return None if found is None else ip_below(octets, *found, end, trail)


def _ppp_protocol(octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    """The protocol field, of one octet if that is odd (RFC 1661 §6.5), as an EtherType."""
    if end - at < 2:
        return None
    size = 1 if octets[at] & 1 else 2
    ether_type = _PPP_PROTOCOLS.get(int.from_bytes(octets[at : at + size], "big"))
    return None if ether_type is None else (ether_type, at + size)


def ip_by_version(octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    """EtherType and first octet of an IP packet whose version nothing says."""
    if end <= at:
        return None
    version = octets[at] >> 4
    if version == 4:
        return ETHERTYPE_IPV4, at
    if version == 6:
        return ETHERTYPE_IPV6, at
    return None


#: Link types whose frames begin with a header of the capture program: what reads it.
_WRAPPERS: Final[dict[int, Callable[[memoryview, int, int], _Inner]]] = {
    **{link_type: _fixed_wrapper(*inner) for link_type, inner in _FIXED_WRAPPERS.items()},
    PFLOG: _below_pflog,
    PPI: _below_ppi,
    ERF: _below_erf,
    PKTAP: _below_pktap,
}

#: Link types whose header has no fixed length: what finds the network layer of a frame.
_NETWORK_LAYERS: Final[dict[int, Callable[[memoryview, int, int, Trail], tuple[int, int] | None]]] = {
    **dict.fromkeys((NULL, LOOP), _below_family),
    **dict.fromkeys((*_RAW_TYPES, IPV4, IPV6), lambda octets, start, end, _trail: ip_by_version(octets, start, end)),
    **dict.fromkeys((PPP, PPP_HDLC), ip_below_ppp),
    PPP_ETHER: lambda octets, start, end, trail: ip_below(octets, ETHERTYPE_PPPOE, start, end, trail),
    MPLS: lambda octets, start, end, trail: ip_below(octets, ETHERTYPE_MPLS, start, end, trail),
    NFLOG: _below_nflog,
    IPOIB: _below_ipoib,
}

#: All link types that are read.
LINK_TYPES: Final = frozenset((*FIXED_HEADERS, *_NETWORK_LAYERS, *_WRAPPERS, UPPER_PDU))
