"""A router's answer to a packet that is too long: ICMP Fragmentation Needed, ICMPv6 Packet Too Big.

RFC 792, RFC 1191 §4, RFC 4443 §3.2. In: the frame that it drops, over Ethernet, with VLAN tags or without. Out: the
frame with its message to the sender, which quotes the packet.
"""

from __future__ import annotations

import ipaddress
import struct

from scapy_mpa.craft.packets import ones_complement_sum

_MACS, _VLAN_TYPE, _IPV6_TYPE = 12, 0x8100, 0x86DD
_IPV4_HEADER, _IPV6_HEADER, _ICMP, _ICMPV6, _TTL = 20, 40, 1, 58, 64
_FRAGMENTATION_NEEDED, _PACKET_TOO_BIG = (3, 4), (2, 0)


def too_big(frame: bytes, mtu: int, router: str, *, seq: int | None = None, quoted: int = 8) -> bytes:
    """Return what ``router`` answers to a frame that is longer than ``mtu``.

    It quotes the IP header without options and ``quoted`` octets after it, with another sequence number than the
    packet's if ``seq`` is one. Checksums are right.
    """
    ip_at = _MACS + 2
    while frame[ip_at - 2 : ip_at] == _VLAN_TYPE.to_bytes(2, "big"):
        ip_at += 4
    is_ipv6 = frame[ip_at - 2 : ip_at] == _IPV6_TYPE.to_bytes(2, "big")
    tcp_at = ip_at + (_IPV6_HEADER if is_ipv6 else _IPV4_HEADER)
    quote = bytearray(frame[ip_at : tcp_at + quoted])
    if seq is not None:
        struct.pack_into("!I", quote, tcp_at - ip_at + 4, seq & 0xFFFFFFFF)
    ethernet = frame[6:12] + frame[:6] + frame[_MACS:ip_at]
    source = ipaddress.ip_address(router).packed
    if is_ipv6:
        addresses = source + frame[ip_at + 8 : ip_at + 24]
        message = struct.pack("!BBHI", *_PACKET_TOO_BIG, 0, mtu) + quote
        pseudo = addresses + struct.pack("!II", len(message), _ICMPV6)
        header = struct.pack("!IHBB", 6 << 28, len(message), _ICMPV6, _TTL) + addresses
    else:
        addresses = source + frame[ip_at + 12 : ip_at + 16]
        message = struct.pack("!BBHHH", *_FRAGMENTATION_NEEDED, 0, 0, mtu) + quote
        pseudo = b""
        length = _IPV4_HEADER + len(message)
        header = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, _TTL, _ICMP, 0) + addresses
        header = header[:10] + (-ones_complement_sum(header) % 0xFFFF).to_bytes(2, "big") + header[12:]
    checksum = -(ones_complement_sum(message) + ones_complement_sum(pseudo)) % 0xFFFF
    return ethernet + header + message[:2] + checksum.to_bytes(2, "big") + message[4:]
