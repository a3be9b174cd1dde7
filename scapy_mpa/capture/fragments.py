"""IP datagrams put together again from their fragments (RFC 791 §3.2, RFC 8200 §4.5, RFC 5722).

In: fragments, in the order of capture.  Out: the datagram, at the fragment that completes it.  A fragment that repeats
another one is ignored.  One that overlaps others differently makes the whole datagram one that is dropped, with all of
its fragments that still come.  What is held is bounded: the oldest datagram goes first.
"""

from __future__ import annotations

from bisect import bisect
from typing import NamedTuple

#: Datagrams that may be incomplete at a time, and the octets of their fragments.
DATAGRAM_LIMIT, OCTET_LIMIT = 4096, 16 * 1024 * 1024
#: Nanoseconds after which the identification may be that of another datagram (Linux: 30 seconds).
LIFETIME = 30_000_000_000
#: Octets of the longest datagram (RFC 791 §3.1, RFC 8200 §4.5).
_LONGEST = 65535
#: What it takes to hold a fragment, besides its octets.
_OVERHEAD = 200


class Fragment(NamedTuple):
    """One fragment: whose it is, its place, whether more follow, its octets as captured, their number on the wire."""

    key: bytes
    protocol: int
    offset: int
    more: bool
    octets: memoryview
    length: int


class Datagram(NamedTuple):
    """What fragments make: protocol, octets up to the first that was not captured, their number on the wire."""

    protocol: int
    octets: bytes
    length: int


class _Incomplete:
    """The fragments of a datagram that are there."""

    __slots__ = ("first", "held", "length", "overlaps", "pieces", "protocol", "starts", "weight")

    def __init__(self, time: int) -> None:
        self.first = time
        #: Beginnings, sorted, and what begins there: octets captured, octets on the wire.
        self.starts: list[int] = []
        self.pieces: dict[int, tuple[bytes, int]] = {}
        self.held = 0
        self.length: int | None = None
        self.protocol = 0
        self.overlaps = False
        self.weight = _OVERHEAD

    def add(self, fragment: Fragment) -> bool:
        """Take a fragment; False if it overlaps others."""
        offset, length = fragment.offset, fragment.length
        same = self.pieces.get(offset)
        if same is not None and same == (bytes(fragment.octets), length):
            return True
        end = offset + length
        index = bisect(self.starts, offset)
        before = self.starts[index - 1] if index else -1
        if (
            (index and before + self.pieces[before][1] > offset)
            or (index < len(self.starts) and self.starts[index] < end)
            or (self.length is not None and (end > self.length or not fragment.more))
            or (not fragment.more and self.starts and self.starts[-1] >= end)
        ):
            return False
        self.starts.insert(index, offset)
        self.pieces[offset] = bytes(fragment.octets), length
        self.held += length
        self.weight += len(fragment.octets) + _OVERHEAD
        if not offset:
            self.protocol = fragment.protocol
        if not fragment.more:
            self.length = end
        return True

    def refuse(self) -> None:
        """Keep nothing, and take nothing more."""
        self.overlaps = True
        self.starts, self.pieces, self.weight = [], {}, _OVERHEAD

    def datagram(self) -> Datagram:
        """All of it."""
        octets: list[bytes] = []
        for start in self.starts:
            captured, length = self.pieces[start]
            octets.append(captured)
            if len(captured) < length:
                break
        return Datagram(self.protocol, b"".join(octets), self.held)


class Fragments:
    """The datagrams of a capture of which some fragments are missing.

    ``reassembled`` counts those that were completed, ``overlapping`` those dropped because fragments overlapped,
    ``given_up`` those dropped for others because too much was held.
    """

    def __init__(self, datagram_limit: int = DATAGRAM_LIMIT, octet_limit: int = OCTET_LIMIT) -> None:
        self.reassembled = self.overlapping = self.given_up = 0
        self._datagram_limit = datagram_limit
        self._octet_limit = octet_limit
        self._incomplete: dict[bytes, _Incomplete] = {}
        self._weight = 0

    def add(self, fragment: Fragment, time: int) -> Datagram | None:
        """Take a fragment of a frame captured at ``time`` (nanoseconds); the datagram if it is complete now."""
        end = fragment.offset + fragment.length
        if not fragment.length or end > _LONGEST or (fragment.more and fragment.length % 8):
            return None  # what no host may send, and none takes
        found = self._incomplete.get(fragment.key)
        if found is not None and time - found.first > LIFETIME:
            self._drop(fragment.key)
            found = None
        if found is None:
            found = self._incomplete[fragment.key] = _Incomplete(time)
            self._weight += found.weight
        if found.overlaps:
            return None
        before = found.weight
        fits = found.add(fragment)
        if not fits:
            self.overlapping += 1
            found.refuse()
        self._weight += found.weight - before
        if fits and found.held == found.length:
            self._drop(fragment.key)
            self.reassembled += 1
            return found.datagram()
        while self._weight > self._octet_limit or len(self._incomplete) > self._datagram_limit:
            oldest = next(iter(self._incomplete))
            self.given_up += not self._incomplete[oldest].overlaps
            self._drop(oldest)
        return None

    def told(self) -> list[str]:
        """What was dropped, in words."""
        lines = []
        if self.overlapping:
            lines.append(f"{_datagrams(self.overlapping)} dropped, because their IP fragments overlap")
        if self.given_up:
            lines.append(f"{_datagrams(self.given_up)} in IP fragments dropped, because too many were incomplete")
        return lines

    def _drop(self, key: bytes) -> None:
        self._weight -= self._incomplete.pop(key).weight


def _datagrams(count: int) -> str:
    return f"{count} datagram{'s' if count > 1 else ''}"
