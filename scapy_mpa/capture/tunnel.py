"""From the payload of an IP packet to the IP packet inside: IP-in-IP, GRE, ERSPAN, VXLAN, Geneve, MPLS.

RFC 2003, 2473 (IP in IP), 2784 and 2890 (GRE), 2637 (GRE with PPP), 7348 (VXLAN), draft-ietf-nvo3-vxlan-gpe, 8926
(Geneve), 4023 (MPLS), draft-foschiano-erspan-03 (ERSPAN).
"""

from __future__ import annotations

from collections.abc import Mapping

from scapy_mpa.capture.ip import (
    PROTOCOL_GRE,
    PROTOCOL_IPV4,
    PROTOCOL_IPV6,
    PROTOCOL_MPLS,
    PROTOCOL_UDP,
)
from scapy_mpa.capture.link import LEAST_ETHERTYPE, Trail, ip_below, ip_below_ppp, ip_by_version
from scapy_mpa.capture.portmapper import PORT
from scapy_mpa.values.encapsulation import (
    ETHERTYPE_ETHERNET,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_MPLS,
    GENEVE,
    GPE_PROTOCOLS,
    NAMED_UDP_PORTS,
    VXLAN,
    VXLAN_GPE,
)

#: Octets of UDP's header; of VXLAN's, VXLAN-GPE's, and Geneve's before its options.
_UDP_HEADER, _TUNNEL_HEADER = 8, 8
_VXLAN_VNI_FLAG, _GPE_FLAG = 0x08, 0x04
#: Geneve: the mask of the number of its options in words, and what may be set besides the EtherType (RFC 8926 §3.4).
_GENEVE_OPTIONS, _GENEVE_FREE = 0x3F, 0x3FC0_0000
_NAMES = {VXLAN: "VXLAN", VXLAN_GPE: "VXLAN-GPE", GENEVE: "Geneve"}

_GRE_CHECKSUM, _GRE_ROUTING, _GRE_KEY, _GRE_SEQUENCE, _GRE_VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0007
_GRE_ACKNOWLEDGEMENT = 0x0080
_ERSPAN_I_II, _ERSPAN_III, _GRE_PPP = 0x88BE, 0x22EB, 0x880B


def inner_packet(
    protocol: int, octets: memoryview, at: int, end: int, ports: Mapping[int, str], trail: Trail
) -> tuple[int, int] | None:
    """EtherType and first octet of the IP packet in what IP carries as ``protocol``, or None.

    ``ports`` are those of UDP that are read, and as what.
    """
    if protocol == PROTOCOL_IPV4:
        return ETHERTYPE_IPV4, at
    if protocol == PROTOCOL_IPV6:
        return ETHERTYPE_IPV6, at
    if protocol == PROTOCOL_GRE:
        return _below_gre(octets, at, end, trail)
    if protocol == PROTOCOL_UDP:
        return _below_udp(octets, at, end, ports, trail)
    if protocol == PROTOCOL_MPLS:
        return ip_below(octets, ETHERTYPE_MPLS, at, end, trail)
    return None


def _below_udp(octets: memoryview, at: int, end: int, ports: Mapping[int, str], trail: Trail) -> tuple[int, int] | None:
    if end - at < _UDP_HEADER:
        return None
    source, port = octets[at] << 8 | octets[at + 1], octets[at + 2] << 8 | octets[at + 3]
    kind = ports.get(port)
    at += _UDP_HEADER
    if kind is not None:
        if not _is_header(octets, at, end, kind):
            trail.unread = f"UDP port {port} (not {_NAMES[kind]})"
            return None
        return (_below_geneve if kind == GENEVE else _below_vxlan)(octets, at, end, kind, trail)
    if PORT in (source, port):
        trail.mapper = octets[at:end]
    named = next((one for one in (port, source) if one in NAMED_UDP_PORTS), None)
    if named is not None:
        trail.unread = f"UDP port {named} ({NAMED_UDP_PORTS[named]})"
    elif (tunnel := _tunnel_in(octets, at, end)) is not None:
        trail.unread = f"UDP port {port} (like {_NAMES[tunnel]}; --decode udp:{port}={tunnel} reads it)"
    return None


def _is_header(octets: memoryview, at: int, end: int, kind: str) -> bool:
    """Return True unless the header of a tunnel is there and is another's."""
    if end - at < _TUNNEL_HEADER:
        return True  # the capture may have cut it
    if kind != GENEVE:
        return bool(octets[at] & _VXLAN_VNI_FLAG)
    return not octets[at] >> 6 and (octets[at + 2] << 8 | octets[at + 3]) >= LEAST_ETHERTYPE


def _tunnel_in(octets: memoryview, at: int, end: int) -> str | None:
    """Return the tunnel that a datagram to the port of none looks like: its reserved bits are 0, and IP is inside.

    By chance one datagram in 2^40 does.
    """
    if end - at < _TUNNEL_HEADER or octets[at + 7]:
        return None
    first = int.from_bytes(octets[at : at + 4], "big")
    if first == _VXLAN_VNI_FLAG << 24:
        kind = VXLAN
    elif first & ~0xFF == (_VXLAN_VNI_FLAG | _GPE_FLAG) << 24 and octets[at + 3] in GPE_PROTOCOLS:
        kind = VXLAN_GPE
    elif first & ~_GENEVE_FREE == ETHERTYPE_ETHERNET:
        kind = GENEVE
    else:
        return None
    inner = (_below_geneve if kind == GENEVE else _below_vxlan)(octets, at, end, kind, Trail())
    return kind if inner is not None and inner == ip_by_version(octets, inner[1], end) else None


def _below_vxlan(octets: memoryview, at: int, end: int, kind: str, trail: Trail) -> tuple[int, int] | None:
    """VXLAN; with its P bit, VXLAN-GPE says what is inside."""
    if end - at < _TUNNEL_HEADER:
        return None
    inner = ETHERTYPE_ETHERNET
    if kind == VXLAN_GPE and octets[at] & _GPE_FLAG:
        inner = GPE_PROTOCOLS.get(octets[at + 3], 0)
    _note_vni(octets, at + 4, trail)
    return ip_below(octets, inner, at + _TUNNEL_HEADER, end, trail)


def _below_geneve(octets: memoryview, at: int, end: int, _kind: str, trail: Trail) -> tuple[int, int] | None:
    if end - at < _TUNNEL_HEADER:
        return None
    _note_vni(octets, at + 4, trail)
    inner = octets[at + 2] << 8 | octets[at + 3]
    return ip_below(octets, inner, at + _TUNNEL_HEADER + 4 * (octets[at] & _GENEVE_OPTIONS), end, trail)


def _note_vni(octets: memoryview, at: int, trail: Trail) -> None:
    trail.path.append(f"VNI {int.from_bytes(octets[at : at + 3], 'big')}")


def _below_gre(octets: memoryview, at: int, end: int, trail: Trail) -> tuple[int, int] | None:
    if end - at < 4:
        return None
    flags = octets[at] << 8 | octets[at + 1]
    ether_type = octets[at + 2] << 8 | octets[at + 3]
    sequence = bool(flags & _GRE_SEQUENCE)
    version = flags & _GRE_VERSION
    at += 4
    if version == 1 and ether_type == _GRE_PPP:
        acknowledgement = bool(flags & _GRE_ACKNOWLEDGEMENT)
        return ip_below_ppp(octets, at + 4 + 4 * sequence + 4 * acknowledgement, end, trail)
    if version or flags & _GRE_ROUTING:
        return None
    at += 4 * bool(flags & _GRE_CHECKSUM)
    if flags & _GRE_KEY:
        trail.path.append(f"GRE key {int.from_bytes(octets[at : min(at + 4, end)], 'big')}")
        at += 4
    at += 4 * sequence
    if ether_type == _ERSPAN_I_II:
        # Type I has neither a sequence number nor a header of its own. Type II has the VLAN of a frame without its tag.
        return ip_below(octets, ETHERTYPE_ETHERNET, at + 8 * sequence, end, trail)
    if ether_type == _ERSPAN_III:
        return _below_erspan_iii(octets, at, end, trail)
    return ip_below(octets, ether_type, at, end, trail)


def _below_erspan_iii(octets: memoryview, at: int, end: int, trail: Trail) -> tuple[int, int] | None:
    if end - at < 12:
        return None
    frame_type = octets[at + 10] >> 2 & 0x1F
    has_platform_header = octets[at + 11] & 1
    at += 12 + 8 * has_platform_header
    if frame_type == 2:
        return ip_by_version(octets, at, end)
    return ip_below(octets, ETHERTYPE_ETHERNET, at, end, trail)
