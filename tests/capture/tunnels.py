"""Puts Ethernet frames into tunnels, and IP packets into fragments."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.capture.frames import linked, with_vlans

MAC = bytes.fromhex("02000000000b02000000000a")
OUTER4 = bytes([192, 0, 2, 1, 192, 0, 2, 2])
OUTER6 = bytes.fromhex("20010db8" + 11 * "00" + "01") + bytes.fromhex("20010db8" + 11 * "00" + "02")


def ip4(protocol: int, payload: bytes, *, field: int = 0, ident: int = 1, addresses: bytes = OUTER4) -> bytes:
    """An IPv4 packet with a total length, none if that does not fit."""
    total = len(payload) + 20
    return struct.pack("!BBHHHBBH", 0x45, 0, total if total < 65536 else 0, ident, field, 64, protocol, 0) + (
        addresses + payload
    )


def ip6(protocol: int, payload: bytes, *, addresses: bytes = OUTER6) -> bytes:
    length = len(payload) if len(payload) < 65536 else 0
    return struct.pack("!IHBB", 6 << 28, length, protocol, 64) + addresses + payload


def outer4(protocol: int, payload: bytes) -> bytes:
    return MAC + b"\x08\x00" + ip4(protocol, payload)


def outer6(protocol: int, payload: bytes) -> bytes:
    return MAC + b"\x86\xdd" + ip6(protocol, payload)


def is_ip(frame: bytes) -> bool:
    return frame[12:14] in (b"\x08\x00", b"\x86\xdd")


def gre(flags: int, protocol: int, payload: bytes, outer: Callable[[int, bytes], bytes] = outer4) -> bytes:
    options = b"".join(
        value for bit, value in ((0x8000, b"\xab\xcd\0\0"), (0x2000, b"key!"), (0x1000, b"seq!")) if flags & bit
    )
    return outer(47, struct.pack("!HH", flags, protocol) + options + payload)


def gre_ip(flags: int) -> Callable[[bytes], bytes]:
    return lambda frame: gre(flags, struct.unpack("!H", frame[12:14])[0], frame[14:])


def vxlan(frame: bytes, outer: Callable[[int, bytes], bytes] = outer4) -> bytes:
    inner = b"\x08\0\0\0\0\0\x2a\0" + frame
    return outer(17, struct.pack("!HHHH", 50000, 4789, 8 + len(inner), 0) + inner)


def mpls(labels: int, payload: bytes) -> bytes:
    stack = b"".join(struct.pack("!I", 16 + n << 12 | (n == labels - 1) << 8 | 64) for n in range(labels))
    return MAC + b"\x88\x47" + stack + payload


def erspan_iii(frame: bytes, *, platform: bool, raw: bool = False) -> bytes:
    header = struct.pack("!HHIHH", 0x2001, 1, 5, 0, (2 << 10 if raw else 0) | platform)
    return gre(0x1000, 0x22EB, header + bytes(8) * platform + (frame[14:] if raw else frame))


def ip_in_ip(outer: Callable[[int, bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda frame: outer(4 if frame[12:14] == b"\x08\x00" else 41, frame[14:])


#: What an Ethernet frame becomes. Frames that carry no IP stay as they are.
TUNNELS: dict[str, Callable[[bytes], bytes]] = {
    "pppoe": lambda frame: MAC + b"\x88\x64" + linked(51, frame),
    "pppoe under a vlan": lambda frame: with_vlans(MAC + b"\x88\x64" + linked(51, frame), (0x8100, 7)),
    "mpls": lambda frame: mpls(1, frame[14:]),
    "three mpls labels": lambda frame: mpls(3, frame[14:]),
    "ethernet over mpls": lambda frame: mpls(2, frame),
    "ethernet over mpls, control word": lambda frame: mpls(2, bytes(4) + frame),
    "mpls in ip": lambda frame: outer4(137, mpls(2, frame[14:])[14:]),
    "vxlan": vxlan,
    "vxlan over ipv6": lambda frame: vxlan(frame, outer6),
    "vxlan with a vlan inside": lambda frame: vxlan(with_vlans(frame, (0x8100, 5))),
    "vlan, vxlan": lambda frame: with_vlans(vxlan(frame), (0x88A8, 1), (0x8100, 2)),
    "gre": gre_ip(0),
    "gre with key": gre_ip(0x2000),
    "gre with checksum and sequence": gre_ip(0x9000),
    "gre with all": gre_ip(0xB000),
    "gre over ipv6": lambda frame: gre(0x2000, struct.unpack("!H", frame[12:14])[0], frame[14:], outer6),
    "ethernet over gre": lambda frame: gre(0x2000, 0x6558, frame),
    "mpls over gre": lambda frame: gre(0, 0x8847, mpls(2, frame[14:])[14:]),
    "pptp": lambda frame: outer4(47, struct.pack("!HHIII", 0x3081, 0x880B, 7, 8, 9) + linked(50, frame)),
    "ip in ipv4": ip_in_ip(outer4),
    "ip in ipv6": ip_in_ip(outer6),
    "erspan i": lambda frame: gre(0, 0x88BE, frame),
    "erspan ii": lambda frame: gre(0x1000, 0x88BE, b"\x10\1\0\1\0\0\0\5" + frame),
    "erspan iii": lambda frame: erspan_iii(frame, platform=False),
    "erspan iii, platform": lambda frame: erspan_iii(frame, platform=True),
    "erspan iii, ip": lambda frame: erspan_iii(frame, platform=False, raw=True),
    "erspan in vxlan in gre": lambda frame: gre(0x2000, 0x6558, vxlan(gre(0x1000, 0x88BE, bytes(8) + frame))),
}


def tunnelled(name: str, frame: bytes) -> bytes:
    return TUNNELS[name](frame) if is_ip(frame) else frame


def in_fragments(frame: bytes, size: int, ident: int) -> list[bytes]:
    """The Ethernet frame's IP packet in fragments of so many octets (a multiple of 8), the frame itself if it fits."""
    ip = frame[14:]
    if frame[12:14] == b"\x08\x00":
        header, payload = 20, ip[20 : int.from_bytes(ip[2:4], "big")]
    elif frame[12:14] == b"\x86\xdd":
        header, payload = 40, ip[40 : 40 + int.from_bytes(ip[4:6], "big")]
    else:
        return [frame]
    if len(payload) <= size:
        return [frame]
    made = []
    for offset in range(0, len(payload), size):
        part = payload[offset : offset + size]
        more = offset + size < len(payload)
        if header == 20:
            packet = ip4(ip[9], part, field=more << 13 | offset // 8, ident=ident, addresses=ip[12:20])
        else:
            packet = ip6(44, struct.pack("!BBHI", ip[6], 0, offset | more, ident) + part, addresses=ip[8:40])
        made.append(frame[:14] + packet)
    return made
