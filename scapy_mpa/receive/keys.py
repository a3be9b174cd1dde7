"""Where startup frames begin: the search for a Key in octets that come in any order (RFC 5044 §7.1.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scapy_mpa.framing.startup import KEY_LENGTH, KEY_PREFIX, REPLY_KEY, REQUEST_KEY, STARTUP_HEADER_LENGTH
from scapy_mpa.receive.reassembly import UNANCHORED, Reassembly

#: Places at which a startup frame may begin that are remembered.
_MOST_CANDIDATES = 64
#: So many octets of a Key may be wrong; by chance no more than one in 2^80 begins like that.
_MOST_WRONG = 4


class KeySearch:
    """The search in one half connection; ``candidates`` are the places of startup frames that are not complete.

    ``may_begin`` is asked about each place, with the octets there, of which at least the header is complete.
    """

    def __init__(self, may_begin: Callable[[int, bytes], bool]) -> None:
        self.candidates: list[int] = []
        self._may_begin = may_begin

    def complete(self, stream: Reassembly, first: int, last: int) -> Iterator[int]:
        """Yield where startup frames begin that are complete, now that [first, last) of the stream has come."""
        island = stream.range_at(first)
        if island is None:
            return
        low = max(island[0], first - len(KEY_PREFIX) + 1)
        octets = stream.read(low, min(island[1], last + len(KEY_PREFIX) - 1))
        at = octets.find(KEY_PREFIX)
        candidates = set(self.candidates)
        while at >= 0:
            candidates.add(low + at)
            at = octets.find(KEY_PREFIX, at + 1)
        if not candidates:
            return
        self.candidates = []
        covered = UNANCHORED
        for offset in sorted(candidates):
            extent = self._extent(stream, offset)
            # What stands in a startup frame begins none.
            if extent is None or offset < covered:
                continue
            covered, is_complete = extent
            if is_complete:
                yield offset
                covered = UNANCHORED
            elif len(self.candidates) < _MOST_CANDIDATES:
                self.candidates.append(offset)

    def _extent(self, stream: Reassembly, offset: int) -> tuple[int, bool] | None:
        """The end of the startup frame at ``offset`` as far as it is known, and whether all of it is there.

        None if there is none.
        """
        island = stream.range_at(offset)
        if island is None:
            return None
        octets = stream.read(offset, min(island[1], offset + STARTUP_HEADER_LENGTH))
        if not any(key.startswith(octets[:KEY_LENGTH]) for key in (REQUEST_KEY, REPLY_KEY)):
            return None
        if len(octets) < STARTUP_HEADER_LENGTH:
            return offset + len(octets), False
        if not self._may_begin(offset, octets):
            return None
        end = offset + STARTUP_HEADER_LENGTH + (octets[18] << 8 | octets[19])
        return end, end <= island[1]


def beginning_of_key(octets: bytes) -> int:
    """How many octets at the end of ``octets`` may be the beginning of a Key."""
    for length in range(min(len(KEY_PREFIX) - 1, len(octets)), 0, -1):
        if octets.endswith(KEY_PREFIX[:length]):
            return length
    return 0


def is_garbled_key(octets: bytes) -> bool:
    """Whether octets begin with what was meant for a Key and is none: but for a few octets, or but for case."""
    key = octets[:KEY_LENGTH]
    if len(key) < KEY_LENGTH or key in (REQUEST_KEY, REPLY_KEY):
        return False
    return any(
        key.lower() == right.lower() or sum(a != b for a, b in zip(key, right, strict=True)) <= _MOST_WRONG
        for right in (REQUEST_KEY, REPLY_KEY)
    )
