"""Fragments of IP datagrams (RFC 791 §3.2, RFC 8200 §4.5), which RFC 5044 §A.5.1 has receivers reassemble."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from scapy_mpa.craft.packets import FrameMaker, ones_complement_sum

_MORE_FRAGMENTS = 0x2000
_UNIT = 8
_IPV4_HEADER, _IPV6_HEADER, _IPV6_FRAGMENT_HEADER = 20, 40, 8
_IPV6_FRAGMENT, _TCP = 44, 6
_ETHERNET, _CHECKSUM_AT = 14, 10


def fragment_places(length: int, mtu: int, ip_version: int) -> Iterator[tuple[int, int]]:
    """Yield where a datagram with ``length`` octets of IP payload is cut, so that each fragment fits ``mtu``."""
    header = _IPV4_HEADER if ip_version == 4 else _IPV6_HEADER + _IPV6_FRAGMENT_HEADER
    room = max((mtu - header) // _UNIT * _UNIT, _UNIT)
    for start in range(0, length, room):
        yield start, min(start + room, length)


def ip_fragment(frame: bytes, maker: FrameMaker, start: int, end: int, total: int, identification: int) -> bytes:
    """The fragment of ``frame`` that carries octets [start, end) of the ``total`` that follow its IP header."""
    link, header = frame[: maker.ip_at], bytearray(frame[maker.ip_at : maker.tcp_at])
    octets = frame[maker.tcp_at + start : maker.tcp_at + end]
    more = end < total
    if maker.ip_version == 4:
        struct.pack_into("!HHH", header, 2, len(header) + len(octets), identification & 0xFFFF, 0)
        struct.pack_into("!H", header, 6, (_MORE_FRAGMENTS if more else 0) | start // _UNIT)
        struct.pack_into("!H", header, 10, 0)
        struct.pack_into("!H", header, 10, -ones_complement_sum(bytes(header)) % 0xFFFF)
        return link + bytes(header) + octets
    struct.pack_into("!HB", header, 4, _IPV6_FRAGMENT_HEADER + len(octets), _IPV6_FRAGMENT)
    fragment_header = struct.pack("!BBHI", _TCP, 0, start | more, identification & 0xFFFFFFFF)
    return link + bytes(header) + fragment_header + octets


def headed(frame: bytes, changes: dict[int, bytes], ip_at: int = _ETHERNET) -> bytes:
    """A frame with other octets in its IPv4 header, by their index in that; its checksum is right again."""
    header = bytearray(frame[ip_at : ip_at + _IPV4_HEADER])
    for at, value in changes.items():
        header[at : at + len(value)] = value
    struct.pack_into("!H", header, _CHECKSUM_AT, 0)
    struct.pack_into("!H", header, _CHECKSUM_AT, -ones_complement_sum(bytes(header)) % 0xFFFF)
    return frame[:ip_at] + bytes(header) + frame[ip_at + _IPV4_HEADER :]
