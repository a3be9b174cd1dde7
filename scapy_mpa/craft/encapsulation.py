"""Frames in tags and tunnels: what :mod:`scapy_mpa.capture` reads, made by Scapy's layers and by the same numbers.

Each encapsulation has the frame of a connection inside, or its IP packet; tunnels go between two gateways.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from scapy_mpa.craft.wanted import Wanted
from scapy_mpa.values.encapsulation import (
    ETHERTYPE_ETHERNET,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_MPLS,
    ETHERTYPE_PPPOE,
    ETHERTYPE_QINQ,
    ETHERTYPE_VLAN,
    ETHERTYPE_VNTAG,
    GENEVE_PORT,
    LINUX_VXLAN_PORT,
    SNAP,
    VXLAN_GPE_PORT,
    VXLAN_PORT,
)

#: Documentation addresses of the gateways (RFC 5737), and the source port of tunnels over UDP.
_GATEWAYS: Final = ("192.0.2.1", "192.0.2.2")
_SOURCE_PORT: Final = 50000
#: Octets of both addresses of an Ethernet frame, and where its payload begins.
_ADDRESSES, _PAYLOAD = 12, 14
_TAG, _OUTER_TAG, _VNI, _LABEL, _KEY = 7, 8, 5001, 17, 99
#: AH with an Integrity Check Value of 12 octets (RFC 4302): length in words less two, SPI, number, value.
_AH: Final = struct.Struct("!BBHII12s")
_IP_IN_IP, _IPV6_IN_IP, _GRE_PROTOCOL, _AH_PROTOCOL = 4, 41, 47, 51
_ERSPAN_II, _ERSPAN_III, _GRE_SEQUENCE, _GRE_KEY = 0x88BE, 0x22EB, 0x1000, 0x2000


def _tagged(*tags: tuple[int, int]) -> Callable[[bytes], bytes]:
    octets = b"".join(struct.pack("!HH", *tag) for tag in tags)
    return lambda frame: frame[:_ADDRESSES] + octets + frame[_ADDRESSES:]


def _ether_type(frame: bytes) -> int:
    return int.from_bytes(frame[_ADDRESSES:_PAYLOAD], "big")


def _with_type(frame: bytes, ether_type: int, header: bytes) -> bytes:
    """The IP packet of a frame after another header."""
    return frame[:_ADDRESSES] + struct.pack("!H", ether_type) + header + frame[_PAYLOAD:]


def _snap(frame: bytes) -> bytes:
    payload = SNAP + frame[_ADDRESSES:]
    return frame[:_ADDRESSES] + struct.pack("!H", len(payload)) + payload


def _pppoe(frame: bytes) -> bytes:
    protocol = 0x0021 if _ether_type(frame) == ETHERTYPE_IPV4 else 0x0057
    length = len(frame) - _PAYLOAD + 2
    return _with_type(frame, ETHERTYPE_PPPOE, struct.pack("!BBHHH", 0x11, 0, 1, length, protocol))


def _ah(frame: bytes) -> bytes:
    """Transport mode: between the IP header and TCP's; nobody computed the value."""
    is_ipv4 = _ether_type(frame) == ETHERTYPE_IPV4
    at, size = (9, 20) if is_ipv4 else (6, 40)
    ip, rest = bytearray(frame[_PAYLOAD : _PAYLOAD + size]), frame[_PAYLOAD + size :]
    header = _AH.pack(ip[at], _AH.size // 4 - 2, 0, 0x1000, 1, bytes(12))
    ip[at] = _AH_PROTOCOL
    length_at = 2 if is_ipv4 else 4
    struct.pack_into("!H", ip, length_at, int.from_bytes(ip[length_at : length_at + 2], "big") + len(header))
    return frame[:_PAYLOAD] + bytes(ip) + header + rest


@cache
def _scapy() -> Any:
    from scapy.layers import inet

    return inet


def _outer(protocol: int, payload: bytes) -> bytes:
    """An Ethernet frame with an IP packet between the gateways."""
    inet = _scapy()
    packet = inet.IP(src=_GATEWAYS[0], dst=_GATEWAYS[1], proto=protocol, flags="DF") / payload
    return bytes(inet.Ether(src="02:00:00:00:00:0b", dst="02:00:00:00:00:0a", type=ETHERTYPE_IPV4) / packet)


def _gre(flags: int, protocol: int, payload: bytes) -> bytes:
    key = struct.pack("!I", _KEY) if flags & _GRE_KEY else b""
    number = struct.pack("!I", 1) if flags & _GRE_SEQUENCE else b""
    return _outer(_GRE_PROTOCOL, struct.pack("!HH", flags, protocol) + key + number + payload)


def _udp(port: int, header: bytes, payload: bytes) -> bytes:
    inet = _scapy()
    udp = inet.UDP(sport=_SOURCE_PORT, dport=port, chksum=0) / (header + payload)
    return _outer(17, bytes(udp))


def _vxlan(port: int) -> Callable[[bytes], bytes]:
    return lambda frame: _udp(port, struct.pack("!II", 0x08 << 24, _VNI << 8), frame)


def _vxlan_gpe(frame: bytes) -> bytes:
    protocol = 1 if _ether_type(frame) == ETHERTYPE_IPV4 else 2
    return _udp(VXLAN_GPE_PORT, struct.pack("!II", 0x0C << 24 | protocol, _VNI << 8), frame[_PAYLOAD:])


def _geneve(frame: bytes) -> bytes:
    """Return the frame in Geneve, with an option of eight octets."""
    option = struct.pack("!HBBI", 0xFFFF, 1, 1, 0)
    return _udp(GENEVE_PORT, struct.pack("!BBHI", 2, 0, ETHERTYPE_ETHERNET, _VNI << 8) + option, frame)


def _mpls(frame: bytes) -> bytes:
    return _with_type(frame, ETHERTYPE_MPLS, struct.pack("!I", _LABEL << 12 | 1 << 8 | 64))


def _ip_in_ip(frame: bytes) -> bytes:
    return _outer(_IPV6_IN_IP if _ether_type(frame) == ETHERTYPE_IPV6 else _IP_IN_IP, frame[_PAYLOAD:])


#: What an Ethernet frame becomes, by name.
ENCAPSULATIONS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "vlan": _tagged((ETHERTYPE_VLAN, _TAG)),
    "qinq": _tagged((ETHERTYPE_QINQ, _OUTER_TAG), (ETHERTYPE_VLAN, _TAG)),
    "vn-tag": lambda frame: frame[:_ADDRESSES] + struct.pack("!HI", ETHERTYPE_VNTAG, 0x12345) + frame[_ADDRESSES:],
    "snap": _snap,
    "pppoe": _pppoe,
    "mpls": _mpls,
    "ah": _ah,
    "ip-in-ip": _ip_in_ip,
    "gre": lambda frame: _gre(0, _ether_type(frame), frame[_PAYLOAD:]),
    "gre-key": lambda frame: _gre(_GRE_KEY, ETHERTYPE_ETHERNET, frame),
    "erspan-2": lambda frame: _gre(_GRE_SEQUENCE, _ERSPAN_II, struct.pack("!HHI", 0x1000 | _TAG, 1, 5) + frame),
    "erspan-3": lambda frame: _gre(_GRE_SEQUENCE, _ERSPAN_III, struct.pack("!HHIHH", 0x2001, 1, 5, 0, 0) + frame),
    "vxlan": _vxlan(VXLAN_PORT),
    "vxlan-linux": _vxlan(LINUX_VXLAN_PORT),
    "vxlan-gpe": _vxlan_gpe,
    "geneve": _geneve,
}

ENCAPSULATION: Final = Wanted(
    f"one of {', '.join(ENCAPSULATIONS)}, or nothing", lambda value: value == "" or value in ENCAPSULATIONS
)
