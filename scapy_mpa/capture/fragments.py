"""IP datagrams reassembled from their fragments (RFC 791 §3.2, RFC 8200 §4.5, RFC 5722).

In: fragments, in the order of capture. Out: the datagram, at the fragment that completes it. A fragment that repeats
another one is ignored. One that overlaps others differently has the whole datagram left out, with all of its fragments
that still come: a receiver of IPv6 drops it, one of IPv4 may put it together. What is held is bounded: the oldest
datagram goes first. Both are noted.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from typing import TYPE_CHECKING

from scapy_mpa.capture.notes import Notes
from scapy_mpa.capture.portmapper import PortMappings
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.encapsulation import UDP_PORTS
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from scapy_mpa.capture.esp import Decryption

#: Nanoseconds after which the identification may be that of another datagram (Linux: 30 seconds).
LIFETIME = 30_000_000_000
#: Octets of the longest datagram (RFC 791 §3.1, RFC 8200 §4.5).
_LONGEST = 65535
#: What it takes to hold a fragment, besides its octets.
_OVERHEAD = 200


class Fragment(NamedTuple):
    """One fragment: its datagram, its place, whether more follow, its captured octets, their number on the wire."""

    key: bytes
    protocol: int
    offset: int
    more: bool
    octets: memoryview
    length: int


class Datagram(NamedTuple):
    """A reassembled datagram: its protocol, octets up to the first that was not captured, their number on the wire."""

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
    """The datagrams of a capture with missing fragments.

    ``limits`` says how many of them, and how many octets, may wait (``datagrams``, ``fragment_octets``); ``notes``
    takes those that are dropped; ``esp`` opens what ESP holds, where there are keys; ``udp_ports`` are those of
    tunnels, besides the usual ones.
    """

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        notes: Notes | None = None,
        esp: Decryption | None = None,
        udp_ports: Mapping[int, str] | None = None,
    ) -> None:
        self.notes = Notes() if notes is None else notes
        self.udp_ports: Mapping[int, str] = UDP_PORTS if udp_ports is None else {**UDP_PORTS, **udp_ports}
        self.esp = esp
        self.mappings = PortMappings()
        self._limits = limits
        self._incomplete: dict[bytes, _Incomplete] = {}
        self._weight = 0

    def add(self, fragment: Fragment, frame: int, time: int) -> Datagram | None:
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
            self.notes.add("ip-fragments", frame, time, "fragments overlap, so the datagram is left out")
            found.refuse()
        self._weight += found.weight - before
        if fits and found.held == found.length:
            self._drop(fragment.key)
            return found.datagram()
        self._make_room(frame, time)
        return None

    def waiting(self) -> dict[bytes, int]:
        """Return when the first fragment of each incomplete datagram was captured (nanoseconds), by its key."""
        return {key: found.first for key, found in self._incomplete.items()}

    def _make_room(self, frame: int, time: int) -> None:
        """Drop the oldest datagrams while there are too many, or too much is held of them."""
        datagrams, octets = self._limits.datagrams, self._limits.fragment_octets
        while self._weight > octets or len(self._incomplete) > datagrams:
            oldest = next(iter(self._incomplete))
            if not self._incomplete[oldest].overlaps:
                detail = f"more than {datagrams} datagrams wait for IP fragments (datagrams)"
                if self._weight > octets:
                    detail = f"more than {octets} octets of IP fragments wait for others (fragment_octets)"
                self.notes.add("limit", frame, time, detail)
            self._drop(oldest)

    def _drop(self, key: bytes) -> None:
        self._weight -= self._incomplete.pop(key).weight
