"""PDUs that Wireshark exported as "OSI layer 3": an IP packet or a TCP segment after tags (link type 252).

Each tag is a type and a length of 16 bits, big-endian, and a value; one of type 0 ends them. What Wireshark decrypted
in ESP's transport mode is exported as TCP, with the addresses in tags.
"""

from __future__ import annotations

from typing import Final

from scapy_mpa.tuples import NamedTuple

_HEADER: Final = 4
_END, _DISSECTOR = 0, 12
_IPV4_ADDRESSES, _IPV6_ADDRESSES = (20, 21), (22, 23)
_WANTED: Final = frozenset((_DISSECTOR, *_IPV4_ADDRESSES, *_IPV6_ADDRESSES))
_IP: Final = frozenset((b"ip", b"ipv6"))


class ExportedPacket(NamedTuple):
    """The start of an exported PDU, and the addresses of a TCP segment, source and destination; empty for IP."""

    at: int
    addresses: bytes


def exported_in(octets: memoryview, at: int, end: int) -> ExportedPacket | None:
    """The IP packet or TCP segment in the record ``octets[at:end]``; None for a PDU of another protocol."""
    tags: dict[int, bytes] = {}
    while end - at >= _HEADER:
        kind, length = octets[at] << 8 | octets[at + 1], octets[at + 2] << 8 | octets[at + 3]
        at += _HEADER
        if kind == _END:
            return _told(tags, at)
        if kind in _WANTED:
            tags[kind] = bytes(octets[at : min(at + length, end)])
        at += length
    return None


def _told(tags: dict[int, bytes], at: int) -> ExportedPacket | None:
    name = tags.get(_DISSECTOR, b"").rstrip(b"\0")
    if name in _IP:
        return ExportedPacket(at, b"")
    if name != b"tcp":
        return None
    for (source, destination), size in ((_IPV4_ADDRESSES, 4), (_IPV6_ADDRESSES, 16)):
        if len(tags.get(source, b"")) == len(tags.get(destination, b"")) == size:
            return ExportedPacket(at, tags[source] + tags[destination])
    return None
