"""From a captured frame to its IP packet: the link layers, by pcap link type.

In: the octets of a frame and its link type (tcpdump.org's LINKTYPE_ numbers).  Out: the EtherType of the
network layer and where it begins, or None for what carries no IP.
"""

from __future__ import annotations

NULL, ETHERNET, LOOP, RAW, SLL, IPV4, IPV6, SLL2 = 0, 1, 108, 101, 113, 228, 229, 276
#: Link types that give raw IP on some systems' old captures (DLT_RAW differs among them).
_RAW_TYPES = frozenset((RAW, 12, 14))

ETHERTYPE_IPV4, ETHERTYPE_IPV6 = 0x0800, 0x86DD
#: 802.1Q, 802.1ad and the values that came before the latter.
_VLAN_TYPES = frozenset((0x8100, 0x88A8, 0x9100, 0x9200))

LINK_TYPES = frozenset((NULL, ETHERNET, LOOP, SLL, IPV4, IPV6, SLL2)) | _RAW_TYPES

#: Where the network layer begins and a struct format that yields the EtherType before it, for the link types
#: whose header has one length: what the reader's fast path is built from.
FIXED_HEADERS = {ETHERNET: (14, "12xH"), SLL: (16, "14xH"), SLL2: (20, "H18x")}


def network_layer(link_type: int, octets: memoryview, start: int, end: int) -> tuple[int, int] | None:
    """EtherType and first octet of the network layer of the frame in ``octets[start:end]``, or None."""
    if link_type in FIXED_HEADERS:
        header, _ = FIXED_HEADERS[link_type]
        if end - start < header:
            return None
        at = start if link_type == SLL2 else start + header - 2
        ether_type = octets[at] << 8 | octets[at + 1]
        return _below_vlan(octets, ether_type, start + header, end)
    if link_type in (NULL, LOOP):
        # The protocol family, in the byte order of the host that captured (LOOP: of the network).  Each system
        # has its own number for IPv6, so the version nibble is what is trusted.
        return _by_version(octets, start + 4, end)
    if link_type in _RAW_TYPES or link_type in (IPV4, IPV6):
        return _by_version(octets, start, end)
    return None


def _below_vlan(octets: memoryview, ether_type: int, at: int, end: int) -> tuple[int, int] | None:
    while ether_type in _VLAN_TYPES:
        if end - at < 4:
            return None
        ether_type = octets[at + 2] << 8 | octets[at + 3]
        at += 4
    if ether_type in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
        return ether_type, at
    return None


def _by_version(octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    if end <= at:
        return None
    version = octets[at] >> 4
    if version == 4:
        return ETHERTYPE_IPV4, at
    if version == 6:
        return ETHERTYPE_IPV6, at
    return None
