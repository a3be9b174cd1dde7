"""Opens ESP packets with the given keys, in tunnel or transport mode (RFC 4303 §3.4).

The fragments of a datagram come together before (§3.4.1).  What cannot be opened is noted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scapy_mpa.capture.notes import Notes
from scapy_mpa.ipsec.algorithms import ESP_HEADER_LENGTH
from scapy_mpa.ipsec.associations import Associations
from scapy_mpa.ipsec.cipher import Cipher, IntegrityError, Opened, PayloadError

#: Sequence numbers below the highest that are examined for repeats (RFC 4303 §3.4.3 asks for 32 at least).
_WINDOW: Final = 1024
#: Senders whose sequence numbers are followed.
_MOST_FOLLOWED: Final = 4096
#: When frames are read again: how often sequence numbers may have passed 2^32 up to there.
_MOST_PASSES: Final = 16


class _Followed:
    """The sequence numbers of one sender: the highest that was verified, and those seen below it, as bits."""

    __slots__ = ("highest", "seen")

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.seen = 0

    def extended(self, low: int, first: int) -> int:
        """The 64-bit number that ends in these 32 bits (RFC 4303 appendix A2): the one nearest to the highest."""
        if self.highest < 0:
            return first << 32 | low
        nearest = (self.highest & ~0xFFFFFFFF) | low
        if nearest + (1 << 31) < self.highest:
            return nearest + (1 << 32)
        if nearest - (1 << 31) > self.highest and nearest >= 1 << 32:
            return nearest - (1 << 32)
        return nearest

    def take(self, seq: int) -> bool:
        """Note a number; False if it was there before."""
        if seq > self.highest:
            shift = min(seq - self.highest, _WINDOW)
            self.seen = (self.seen << shift | 1) & (1 << _WINDOW) - 1
            self.highest = seq
            return True
        bit = 1 << self.highest - seq if self.highest - seq < _WINDOW else 0
        if self.seen & bit:
            return False
        self.seen |= bit
        return True


class Decryption:
    """Opens the ESP packets of a capture.

    Args:
        associations: the keys.
        again: frames are read again, in any order: nothing is a replay.
    """

    def __init__(self, associations: Associations, again: bool = False) -> None:
        self._associations = associations
        self._again = again
        self._ciphers: dict[int, Cipher] = {}
        self._followed: dict[tuple[int, bytes, int], _Followed] = {}

    def open(
        self, frame: int, time: int, addresses: bytes, sealed: memoryview, is_whole: bool, notes: Notes
    ) -> Opened | None:
        """Return the decrypted content of a packet between these addresses (source, destination); None if it cannot be
        decrypted.

        ``is_whole``: the capture did not cut it.  Why it cannot be opened is noted for its frame, captured at ``time``.
        """
        if len(sealed) < ESP_HEADER_LENGTH:
            notes.add("esp-payload", frame, time, f"{len(sealed)} octets are not an ESP packet")
            return None
        spi, low = int.from_bytes(sealed[:4], "big"), int.from_bytes(sealed[4:8], "big")
        index = self._associations.index_of(addresses, spi)
        if index is None:
            notes.add("esp-sa", frame, time, f"no security association for SPI {spi:#010x} {_between(addresses)}")
            return None
        if not is_whole:
            notes.add("esp-payload", frame, time, f"SPI {spi:#010x}: the capture cut the packet")
            return None
        cipher = self._ciphers.get(index)
        if cipher is None:
            cipher = self._ciphers[index] = Cipher(self._associations.all[index])
        followed = self._follow((index, addresses, spi))
        octets, opened = bytes(sealed), None
        seq, error = 0, None
        for seq in self._numbers(index, followed, low):
            try:
                opened = cipher.decrypt(octets, seq >> 32)
                rule, error = "esp-payload", opened.doubt
                break
            except IntegrityError as wrong:
                rule, error = "esp-integrity", str(wrong)
            except PayloadError as wrong:
                rule, error = "esp-payload", str(wrong)
                break
        if error is not None:
            notes.add(rule, frame, time, f"SPI {spi:#010x}, sequence number {low}, {_between(addresses)}: {error}")
        if opened is None:
            return None
        if cipher.is_verified and not self._again and not followed.take(seq):
            notes.add(
                "esp-replay", frame, time, f"SPI {spi:#010x} {_between(addresses)}: sequence number {low} is not new"
            )
            return None
        return opened

    def _follow(self, sender: tuple[int, bytes, int]) -> _Followed:
        found = self._followed.get(sender)
        if found is None:
            if len(self._followed) >= _MOST_FOLLOWED:
                del self._followed[next(iter(self._followed))]
            found = self._followed[sender] = _Followed(-1)
        return found

    def _numbers(self, index: int, followed: _Followed, low: int) -> Iterator[int]:
        """Yield the sequence numbers that may have this low half, the likeliest first."""
        association = self._associations.all[index]
        if not association.extended:
            yield low
        elif self._again:
            yield from ((association.high + passes & 0xFFFFFFFF) << 32 | low for passes in range(_MOST_PASSES))
        else:
            yield followed.extended(low, association.high)


def _between(addresses: bytes) -> str:
    from ipaddress import ip_address

    size = len(addresses) // 2
    return f"from {ip_address(addresses[:size])} to {ip_address(addresses[size:])}"
