"""Frames of a TCP connection: Ethernet, IPv4 or IPv6 and TCP, with right checksums (RFC 791, 8200, 9293).

Field values and payload go in, the octets of a frame come out. What does not change in a direction is packed
once, so that a frame costs a few microseconds.
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

_TCP_PROTOCOL = 6
_TTL = 64
_ETHERTYPE_IPV4, _ETHERTYPE_IPV6, _ETHERTYPE_VLAN = 0x0800, 0x86DD, 0x8100
_IPV4_HEADER, _IPV6_HEADER, _TCP_HEADER = 20, 40, 20
_DONT_FRAGMENT = 0x4000

# Behind the octets that are the same in every frame.
_IPV4_TCP = "HHHBBH8sHHIIHHHH"
_IPV6_TCP = "HBB32sHHIIHHHH"


@dataclass(frozen=True)
class Endpoint:
    """One end of a connection: an IPv4 or IPv6 address, a TCP port and six octets of MAC address."""

    address: str
    port: int
    mac: bytes


def pseudo_header_sum(frame: bytes, maker: FrameMaker) -> int:
    """Return what a host that leaves TCP checksums to its network card puts into the field of ``frame`` (RFC 9293
    §3.1).

    It is the sum over the pseudo-header alone, from which the card continues.
    """
    first, last = (12, 20) if maker.ip_version == 4 else (8, 40)
    addresses = frame[maker.ip_at + first : maker.ip_at + last]
    return (ones_complement_sum(addresses) + _TCP_PROTOCOL + len(frame) - maker.tcp_at) % 0xFFFF


def ones_complement_sum(octets: bytes) -> int:
    """RFC 1071's sum of 16-bit words modulo 65535, octets of odd number padded with zero.

    2**16 is 1 modulo 65535, so the octets taken as one large number leave the sum of their words. Zero stands
    for 0xFFFF too, which is what a sum over real headers (never all zero) means by it.
    """
    value = int.from_bytes(octets, "big")
    return (value << 8 if len(octets) & 1 else value) % 0xFFFF


class FrameMaker:
    """Makes the frames that ``source`` sends to ``destination``, in a VLAN if one is given (IEEE 802.1Q).

    Raises ValueError if the addresses are not both IPv4 or both IPv6, a MAC address has not 6 octets, or there is
    no such VLAN.
    """

    __slots__ = (
        "_addresses",
        "_constant_sum",
        "_ip_sum",
        "_ipv4_tcp",
        "_ipv6_tcp",
        "_ports",
        "_prefix",
        "ip_at",
        "ip_version",
        "tcp_at",
    )

    def __init__(self, source: Endpoint, destination: Endpoint, vlan: int | None = None) -> None:
        addresses = ipaddress.ip_address(source.address), ipaddress.ip_address(destination.address)
        if addresses[0].version != addresses[1].version:
            raise ValueError(f"{source.address} and {destination.address} do not have the same IP version")
        if len(source.mac) != 6 or len(destination.mac) != 6:
            raise ValueError("a MAC address has 6 octets")
        if vlan is not None and not 0 <= vlan < 1 << 12:
            raise ValueError(f"VLAN {vlan} does not fit 12 bits")
        self.ip_version = addresses[0].version
        self._addresses = addresses[0].packed + addresses[1].packed
        self._ports = source.port, destination.port
        ethernet = destination.mac + source.mac
        if vlan is not None:
            ethernet += struct.pack("!HH", _ETHERTYPE_VLAN, vlan)
        if self.ip_version == 4:
            self._prefix = ethernet + struct.pack("!HBB", _ETHERTYPE_IPV4, 0x45, 0)
        else:
            self._prefix = ethernet + struct.pack("!HI", _ETHERTYPE_IPV6, 6 << 28)
        #: Where the IP header begins in a frame, and, in ``tcp_at``, the TCP header.
        self.ip_at = len(ethernet) + 2
        self.tcp_at = self.ip_at + (_IPV4_HEADER if self.ip_version == 4 else _IPV6_HEADER)
        self._ipv4_tcp = struct.Struct(f"!{len(self._prefix)}s{_IPV4_TCP}")
        self._ipv6_tcp = struct.Struct(f"!{len(self._prefix)}s{_IPV6_TCP}")
        pseudo = ones_complement_sum(self._addresses) + _TCP_PROTOCOL
        self._constant_sum = pseudo + source.port + destination.port
        self._ip_sum = ones_complement_sum(
            struct.pack("!BBHBBH", 0x45, 0, _DONT_FRAGMENT, _TTL, _TCP_PROTOCOL, 0) + self._addresses
        )

    def frame(
        self,
        payload: bytes,
        *,
        seq: int,
        ack: int,
        flags: int,
        window: int,
        options: bytes = b"",
        identification: int = 0,
    ) -> bytes:
        """Return one frame. ``options`` is a multiple of four octets, ``window`` is as in the header.

        ``identification`` (modulo 65536) exists only in IPv4.
        """
        length = _TCP_HEADER + len(options) + len(payload)
        offset_flags = (_TCP_HEADER + len(options)) << 10 | flags
        rest = options + payload
        # A 32-bit number is congruent to the sum of its words, so seq and ack are added whole.
        total = self._constant_sum + length + seq + ack + offset_flags + window + ones_complement_sum(rest)
        checksum = -total % 0xFFFF
        if self.ip_version == 4:
            identification &= 0xFFFF
            ip_length = _IPV4_HEADER + length
            return (
                self._ipv4_tcp.pack(
                    self._prefix,
                    ip_length,
                    identification,
                    _DONT_FRAGMENT,
                    _TTL,
                    _TCP_PROTOCOL,
                    -(self._ip_sum + ip_length + identification) % 0xFFFF,
                    self._addresses,
                    *self._ports,
                    seq,
                    ack,
                    offset_flags,
                    window,
                    checksum,
                    0,
                )
                + rest
            )
        return (
            self._ipv6_tcp.pack(
                self._prefix,
                length,
                _TCP_PROTOCOL,
                _TTL,
                self._addresses,
                *self._ports,
                seq,
                ack,
                offset_flags,
                window,
                checksum,
                0,
            )
            + rest
        )
