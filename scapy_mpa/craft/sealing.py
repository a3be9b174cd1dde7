"""Packets of a connection under IPsec's ESP: tunnel or transport mode, in UDP or not (RFC 4303, RFC 3948).

Keys, SPIs and initialization vectors follow from the seed, so the same scenario gives the same octets. Sequence numbers
count packets in the order of capture. In tunnel mode two gateways exchange the packets; fragments of IP are inside.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from scapy_mpa.craft.packets import FrameMaker, ones_complement_sum
from scapy_mpa.craft.wanted import Wanted
from scapy_mpa.errors import MPAError
from scapy_mpa.ipsec.algorithms import ENCRYPTIONS, NULL
from scapy_mpa.ipsec.associations import Association, line_of
from scapy_mpa.tuples import NamedTuple

_TUNNEL, _TRANSPORT, _UDP = "tunnel", "transport", "udp"
_HMAC: Final = "HMAC-SHA-256-128 [RFC4868]"
_HMAC_KEY: Final = 32
#: What is made, by name: encryption, octets of its key, integrity.
ALGORITHMS: Final = {
    "aes-gcm": ("AES-GCM with 16 octet ICV [RFC4106]", 20, NULL),
    "aes-cbc": ("AES-CBC [RFC3602]", 16, _HMAC),
    "null": (NULL, 0, _HMAC),
}
#: Addresses of the gateways of a tunnel (RFC 5737, RFC 3849).
_GATEWAYS: Final = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::1", "2001:db8::2")}
_FIRST_SPI: Final = 0x1000
_ESP, _UDP_PROTOCOL, _UDP_PORT, _TTL = 50, 17, 4500, 64
_INNER_PROTOCOL: Final = {4: 4, 6: 41}
_IPV4_HEADER, _UDP_HEADER, _LONGEST = 20, 8, 0xFFFF
_DONT_FRAGMENT = 0x4000


class SealedWay(NamedTuple):
    """How packets are encrypted: the name of the algorithm, tunnel or transport, and in UDP or not."""

    algorithm: str
    is_tunnel: bool
    in_udp: bool


def way_of(text: object) -> SealedWay | None:
    """Return what ``aes-gcm``, ``aes-cbc,transport`` or ``null,udp`` asks for; None for any other text."""
    if not isinstance(text, str):
        return None
    algorithm, *words = (word.strip() for word in text.split(","))
    is_known = algorithm in ALGORITHMS and {*words} <= {_TUNNEL, _TRANSPORT, _UDP} and len({*words}) == len(words)
    if not is_known or {_TUNNEL, _TRANSPORT} <= {*words}:
        return None
    return SealedWay(algorithm, _TRANSPORT not in words, _UDP in words)


WAY: Final = Wanted(
    f"one of {', '.join(ALGORITHMS)}, with ,tunnel or ,transport and ,udp behind it, or nothing",
    lambda value: value == "" or way_of(value) is not None,
)


class Sealing:
    """Seals what one side of a connection sends.

    Args:
        way: how.
        addresses: source and destination.
        seed: decides about the keys.
        number: of the connection.
        side: 0 for the Initiator, 1 for the Responder.
    """

    def __init__(self, way: SealedWay, addresses: tuple[str, str], seed: int, number: int, side: int) -> None:
        from scapy_mpa.ipsec.cipher import Cipher

        rng = random.Random(seed << 25 | number << 1 | side)
        self._way = way
        version = ip_address(addresses[0]).version
        encryption, size, integrity = ALGORITHMS[way.algorithm]
        between = addresses
        if way.is_tunnel:
            gateways = _GATEWAYS[version]
            between = (gateways[side], gateways[1 - side])
        self.spi = _FIRST_SPI + 2 * number + side
        #: Of what it sends.
        self.association = Association(
            _host(between[0]), _host(between[1]), f"{self.spi:08x}", encryption, _octets(rng, size), integrity,
            _octets(rng, _HMAC_KEY) if integrity != NULL else b"",
        )  # fmt: skip
        self._cipher = Cipher(self.association)
        self._iv = ENCRYPTIONS[encryption].iv
        self._rng = rng
        self._outer = b"".join(ip_address(one).packed for one in between)
        self._seq = 0

    def seal(self, frame: bytes, maker: FrameMaker, is_fragment: bool) -> bytes:
        """The frame that carries a frame's packet.

        Raises :class:`~scapy_mpa.errors.MPAError` for what cannot travel so: a fragment in transport mode (RFC 4303
        §3.1.1), and a packet that is too long then.
        """
        self._seq += 1
        # A counter must not come twice; a CBC vector must not be foreseen (RFC 4106 §3.1, RFC 3602 §3).
        iv = self._seq.to_bytes(8, "big") if self._iv <= 8 else _octets(self._rng, self._iv)
        if self._way.is_tunnel:
            protocol, inner = _INNER_PROTOCOL[maker.ip_version], frame[maker.ip_at :]
        elif is_fragment:
            raise MPAError("fragments need tunnel mode: ESP in transport mode covers whole datagrams")
        else:
            protocol, inner = frame[maker.ip_at + (9 if maker.ip_version == 4 else 6)], frame[maker.tcp_at :]
        octets = self._cipher.encrypt(protocol, inner, self.spi, self._seq, iv)
        carried = _ESP
        if self._way.in_udp:
            carried, octets = _UDP_PROTOCOL, self._in_udp(octets, maker.ip_version)
        if len(octets) + _IPV4_HEADER > _LONGEST:
            raise MPAError(f"a packet of {len(octets)} octets is too long for ESP; choose a smaller mtu")
        return frame[: maker.ip_at] + self._ip_header(carried, len(octets), maker.ip_version) + octets

    def _in_udp(self, octets: bytes, ip_version: int) -> bytes:
        length = _UDP_HEADER + len(octets)
        checksum = 0  # as RFC 3948 §2.1 has it for IPv4
        if ip_version == 6:
            total = ones_complement_sum(self._outer) + _UDP_PROTOCOL + 2 * length + 2 * _UDP_PORT
            checksum = -(total + ones_complement_sum(octets)) % 0xFFFF or 0xFFFF
        return struct.pack("!4H", _UDP_PORT, _UDP_PORT, length, checksum) + octets

    def _ip_header(self, protocol: int, length: int, ip_version: int) -> bytes:
        if ip_version == 6:
            return struct.pack("!IHBB", 6 << 28, length, protocol, _TTL) + self._outer
        header = struct.pack(
            "!BBHHHBBH", 0x45, 0, _IPV4_HEADER + length, self._seq & 0xFFFF, _DONT_FRAGMENT, _TTL, protocol, 0
        )
        checksum = -ones_complement_sum(header + self._outer) % 0xFFFF
        return header[:-2] + struct.pack("!H", checksum) + self._outer


def key_lines(sealings: Iterable[Sealing]) -> str:
    """Return the keys of all of them, as Wireshark's esp_sa and ``--esp`` have them."""
    return "".join(f"{line_of(one.association)}\n" for one in sealings)


def _host(address: str) -> IPv4Network | IPv6Network:
    return ip_network(address)


def _octets(rng: random.Random, count: int) -> bytes:
    return rng.getrandbits(8 * count).to_bytes(count, "big") if count else b""
