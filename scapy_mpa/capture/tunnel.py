"""From what an IP packet carries to the IP packet inside: IP-in-IP, GRE, ERSPAN, VXLAN, MPLS.

RFC 2003, 2473 (IP in IP), 2784 and 2890 (GRE), 2637 (GRE with PPP), 7348 (VXLAN), 4023 (MPLS),
draft-foschiano-erspan-03 (ERSPAN).
"""

from __future__ import annotations

from scapy_mpa.capture.ip import (
    PROTOCOL_GRE,
    PROTOCOL_IPV4,
    PROTOCOL_IPV6,
    PROTOCOL_MPLS,
    PROTOCOL_UDP,
)
from scapy_mpa.capture.link import (
    ETHERTYPE_ETHERNET,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_MPLS,
    ip_below,
    ip_below_ppp,
    ip_by_version,
)

_VXLAN_PORT = 4789
_UDP_HEADER, _VXLAN_HEADER, _VXLAN_VNI_FLAG = 8, 8, 0x08

_GRE_CHECKSUM, _GRE_ROUTING, _GRE_KEY, _GRE_SEQUENCE, _GRE_VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0007
_GRE_ACKNOWLEDGEMENT = 0x0080
_ERSPAN_I_II, _ERSPAN_III, _GRE_PPP = 0x88BE, 0x22EB, 0x880B


def inner_packet(protocol: int, octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    """EtherType and first octet of the IP packet in what IP carries as ``protocol``, or None."""
    if protocol == PROTOCOL_IPV4:
        return ETHERTYPE_IPV4, at
    if protocol == PROTOCOL_IPV6:
        return ETHERTYPE_IPV6, at
    if protocol == PROTOCOL_GRE:
        return _below_gre(octets, at, end)
    if protocol == PROTOCOL_UDP:
        return _below_udp(octets, at, end)
    if protocol == PROTOCOL_MPLS:
        return ip_below(octets, ETHERTYPE_MPLS, at, end)
    return None


def _below_udp(octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    if end - at < _UDP_HEADER + _VXLAN_HEADER or octets[at + 2] << 8 | octets[at + 3] != _VXLAN_PORT:
        return None
    if not octets[at + _UDP_HEADER] & _VXLAN_VNI_FLAG:
        return None
    return ip_below(octets, ETHERTYPE_ETHERNET, at + _UDP_HEADER + _VXLAN_HEADER, end)


def _below_gre(octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    if end - at < 4:
        return None
    flags = octets[at] << 8 | octets[at + 1]
    ether_type = octets[at + 2] << 8 | octets[at + 3]
    sequence = bool(flags & _GRE_SEQUENCE)
    version = flags & _GRE_VERSION
    at += 4
    if version == 1 and ether_type == _GRE_PPP:
        acknowledgement = bool(flags & _GRE_ACKNOWLEDGEMENT)
        return ip_below_ppp(octets, at + 4 + 4 * sequence + 4 * acknowledgement, end)
    if version or flags & _GRE_ROUTING:
        return None
    at += 4 * (bool(flags & _GRE_CHECKSUM) + bool(flags & _GRE_KEY) + sequence)
    if ether_type == _ERSPAN_I_II:
        # Type I has neither a sequence number nor a header of its own.
        return ip_below(octets, ETHERTYPE_ETHERNET, at + 8 * sequence, end)
    if ether_type == _ERSPAN_III:
        return _below_erspan_iii(octets, at, end)
    return ip_below(octets, ether_type, at, end)


def _below_erspan_iii(octets: memoryview, at: int, end: int) -> tuple[int, int] | None:
    if end - at < 12:
        return None
    frame_type = octets[at + 10] >> 2 & 0x1F
    has_platform_header = octets[at + 11] & 1
    at += 12 + 8 * has_platform_header
    if frame_type == 2:
        return ip_by_version(octets, at, end)
    return ip_below(octets, ETHERTYPE_ETHERNET, at, end)
