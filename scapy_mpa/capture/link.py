"""From a captured frame to its IP packet: the link layers, by pcap link type.

In: the octets of a frame and its link type (tcpdump.org's LINKTYPE_ numbers). Out: the EtherType of the
network layer and where it begins, or None for what carries no IP.
"""

from __future__ import annotations

NULL, ETHERNET, LOOP, RAW, SLL, IPV4, IPV6, SLL2 = 0, 1, 108, 101, 113, 228, 229, 276
#: What Wireshark exports: :mod:`~scapy_mpa.capture.exported`.
UPPER_PDU = 252
PPP, PPP_HDLC, PPP_ETHER = 9, 50, 51
#: Link types that give raw IP on some systems' old captures (DLT_RAW differs among them).
_RAW_TYPES = frozenset((RAW, 12, 14))

ETHERTYPE_IPV4, ETHERTYPE_IPV6 = 0x0800, 0x86DD
#: 802.1Q, 802.1ad and the values that came before the latter.
_VLAN_TYPES = frozenset((0x8100, 0x88A8, 0x9100, 0x9200))
#: MPLS (RFC 3032), PPPoE sessions (RFC 2516), a whole Ethernet frame (RFC 1701).
ETHERTYPE_MPLS, _ETHERTYPE_MPLS_UPSTREAM, _ETHERTYPE_PPPOE, ETHERTYPE_ETHERNET = 0x8847, 0x8848, 0x8864, 0x6558
_MPLS_TYPES = frozenset((ETHERTYPE_MPLS, _ETHERTYPE_MPLS_UPSTREAM))
_IP_TYPES = frozenset((ETHERTYPE_IPV4, ETHERTYPE_IPV6))
_KNOWN_TYPES = _IP_TYPES | _VLAN_TYPES | _MPLS_TYPES | {_ETHERTYPE_PPPOE}

#: PPP's protocol numbers (RFC 1332, 5072, 3032) and the EtherTypes of the same.
_PPP_PROTOCOLS = {
    0x0021: ETHERTYPE_IPV4,
    0x0057: ETHERTYPE_IPV6,
    0x0281: ETHERTYPE_MPLS,
    0x0283: _ETHERTYPE_MPLS_UPSTREAM,
}

LINK_TYPES = frozenset((NULL, ETHERNET, PPP, PPP_HDLC, PPP_ETHER, LOOP, SLL, IPV4, IPV6, SLL2, UPPER_PDU)) | _RAW_TYPES

#: Where the network layer begins and a struct format that yields the EtherType before it, for the link types
#: whose header has one length: what the reader's fast path is built from.
FIXED_HEADERS = {ETHERNET: (14, "12xH"), SLL: (16, "14xH"), SLL2: (20, "H18x")}
#: Where in it the EtherType stands.
ETHER_TYPE_AT = {ETHERNET: 12, SLL: 14, SLL2: 0}


def network_layer(link_type: int, octets: memoryview, start: int, end: int) -> tuple[int, int] | None:
    """EtherType and first octet of the network layer of the frame in ``octets[start:end]``, or None."""
    if link_type in FIXED_HEADERS:
        header, _ = FIXED_HEADERS[link_type]
        if end - start < header:
            return None
        at = start if link_type == SLL2 else start + header - 2
        return ip_below(octets, octets[at] << 8 | octets[at + 1], start + header, end)
    if link_type in (NULL, LOOP):
        # The protocol family, in the byte order of the host that captured (LOOP: of the network). Each system
        # has its own number for IPv6, so the version nibble is what is trusted.
        return ip_by_version(octets, start + 4, end)
    if link_type in _RAW_TYPES or link_type in (IPV4, IPV6):
        return ip_by_version(octets, start, end)
    if link_type in (PPP, PPP_HDLC):
        return ip_below_ppp(octets, start, end)
    if link_type == PPP_ETHER:
        return ip_below(octets, _ETHERTYPE_PPPOE, start, end)
    return None


def ip_below(octets: memoryview, ether_type: int, at: int, end: int) -> tuple[int, int] | None:
    """EtherType and first octet of the IP packet below VLAN tags, MPLS labels, PPPoE and inner Ethernet headers."""
    found: tuple[int, int] | None = (ether_type, at)
    while found is not None and found[0] not in _IP_TYPES:
        found = _below_one(octets, *found, end)
    return found


def _below_one(octets: memoryview, ether_type: int, at: int, end: int) -> tuple[int, int] | None:
    """What stands below one header, None if it is cut or not known; always further on."""
    if ether_type in _VLAN_TYPES:
        return _ether_type_at(octets, at + 2, end)
    if ether_type in _MPLS_TYPES:
        return _below_mpls(octets, at, end)
    if ether_type == ETHERTYPE_ETHERNET:
        return _ether_type_at(octets, at + 12, end)
    if ether_type == _ETHERTYPE_PPPOE and end - at > 6 and octets[at] == 0x11 and octets[at + 1] == 0:
        return _ppp_protocol(octets, at + 6, end)
    return None


def _ether_type_at(octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    return (octets[at] << 8 | octets[at + 1], at + 2) if end - at >= 2 else None


def _below_mpls(octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    """Below the last label is IP, or Ethernet with or without a control word (RFC 4448 §4.6): nothing says which."""
    while end - at >= 4 and not octets[at + 2] & 1:
        at += 4
    at += 4
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
    """Whether what an EtherType says is there: IPv4 without options or IPv6."""
    if layer is None or layer[1] >= end:
        return False
    ether_type, at = layer
    return (ether_type == ETHERTYPE_IPV4 and octets[at] == 0x45) or (
        ether_type == ETHERTYPE_IPV6 and octets[at] >> 4 == 6
    )


def ip_below_ppp(octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    """EtherType and first octet of the IP packet in a PPP frame, in HDLC-like framing or not (RFC 1661, 1662)."""
    if end - at >= 4 and octets[at] in (0x0F, 0x8F) and octets[at + 1] == 0:
        # Cisco's HDLC, which link type 50 may be too, has EtherTypes.
        found = _ether_type_at(octets, at + 2, end)
    else:
        if end - at >= 2 and octets[at] == 0xFF and octets[at + 1] == 0x03:
            at += 2
        found = _ppp_protocol(octets, at, end)
    return None if found is None else ip_below(octets, *found, end)


def _ppp_protocol(octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    """The protocol field, of one octet if that is odd (RFC 1661 §6.5), as an EtherType."""
    if end - at < 2:
        return None
    size = 1 if octets[at] & 1 else 2
    ether_type = _PPP_PROTOCOLS.get(int.from_bytes(octets[at : at + size], "big"))
    return None if ether_type is None else (ether_type, at + size)


def ip_by_version(octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    """EtherType and first octet of an IP packet of which nothing says which version it is."""
    if end <= at:
        return None
    version = octets[at] >> 4
    if version == 4:
        return ETHERTYPE_IPV4, at
    if version == 6:
        return ETHERTYPE_IPV6, at
    return None
