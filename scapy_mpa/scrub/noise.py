"""Replacements for octets that are not to be passed on: pseudo-random ones, the same for the same seed.

Addresses are permuted within their kind: a private address stays private, and no two become one. Without a seed the key
is random and nobody keeps it, so nothing of this can be undone. Whoever knows a seed can undo it.
"""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import blake2b, shake_256
from typing import Final

_KEY_LENGTH: Final = 32
#: Rounds of the Feistel network: four of a pseudo-random function make a strong permutation (Luby and Rackoff, 1988);
#: twice as many, since its halves are short.
_ROUNDS: Final = 8
#: Addresses that are remembered: a bound of memory, some megabytes.
_REMEMBERED: Final = 1 << 14
_BYTE: Final = 8

#: Blocks of IPv4 addresses that stay what they are, in which host bits are permuted: prefix, its length in bits
#: (RFC 1918, 3927, 6598).
_BLOCKS: Final = (
    (0x0A000000, 8),
    (0xAC100000, 12),
    (0xC0A80000, 16),
    (0xA9FE0000, 16),
    (0x64400000, 10),
)
_IPV4_BITS: Final = 32
#: The first octets of addresses that name no host of anybody: this network, loopback; multicast and beyond from 224 on.
_NO_HOSTS: Final = frozenset((0, 127, *range(224, 256)))
_LINK_LOCAL: Final = b"\xfe\x80"
_MULTICAST: Final = 0xFF


class Noise:
    """Pseudo-random octets and permutations.

    Args:
        seed: What they are made of; None for a random key.
    """

    def __init__(self, seed: str | None = None) -> None:
        self._key = (
            os.urandom(_KEY_LENGTH) if seed is None else blake2b(seed.encode(), digest_size=_KEY_LENGTH).digest()
        )
        self.address = lru_cache(_REMEMBERED)(self._address)
        self.mac = lru_cache(_REMEMBERED)(self._mac)

    def octets(self, label: bytes, length: int) -> bytes:
        """Return `length` octets that belong to a label; the fewer are the first of the more."""
        return shake_256(self._key + label).digest(length)

    def in_place_of(self, octets: bytes | memoryview) -> bytes:
        """Return as many octets, the same for the same."""
        digest = blake2b(octets, key=self._key, digest_size=_KEY_LENGTH).digest()
        return self.octets(b"content" + digest, len(octets))

    def _mac(self, address: bytes) -> bytes:
        """Return what takes the place of a MAC address; group addresses and zeros stay."""
        if not any(address) or address[0] & 1:
            return address
        return address[:1] + self._permuted(b"mac", address[1:])

    def _address(self, address: bytes) -> bytes:
        """Return what takes the place of an IP address; those that name no host of anybody stay."""
        return self._ipv4(address) if len(address) == _IPV4_BITS // _BYTE else self._ipv6(address)

    def _ipv4(self, address: bytes) -> bytes:
        value = int.from_bytes(address, "big")
        if address[0] in _NO_HOSTS:
            return address
        for prefix, length in _BLOCKS:
            bits = _IPV4_BITS - length
            if value >> bits == prefix >> bits:
                host = self._feistel(b"ipv4", value & (1 << bits) - 1, bits)
                return (prefix | host).to_bytes(4, "big")
        while True:  # walk on until it is a public address again, which nearly always is at once
            value = self._feistel(b"ipv4", value, _IPV4_BITS)
            if value >> 24 not in _NO_HOSTS and all(
                value >> _IPV4_BITS - length != prefix >> _IPV4_BITS - length for prefix, length in _BLOCKS
            ):
                return value.to_bytes(4, "big")

    def _ipv6(self, address: bytes) -> bytes:
        if address[0] == _MULTICAST or not any(address[:-1]):
            return address
        kept = len(address) // 2 if address.startswith(_LINK_LOCAL) else 1
        return address[:kept] + self._permuted(b"ipv6", address[kept:])

    def _permuted(self, label: bytes, octets: bytes) -> bytes:
        bits = len(octets) * _BYTE
        return self._feistel(label, int.from_bytes(octets, "big"), bits).to_bytes(len(octets), "big")

    def _feistel(self, label: bytes, value: int, bits: int) -> int:
        """Return a permutation of the numbers of an even number of bits."""
        half = bits // 2
        mask = (1 << half) - 1
        left, right = value >> half, value & mask
        for turn in range(_ROUNDS):
            digest = blake2b(
                b"%b %d %d %d" % (label, bits, turn, right), key=self._key, digest_size=_KEY_LENGTH
            ).digest()
            left, right = right, left ^ int.from_bytes(digest, "big") & mask
        return left << half | right
