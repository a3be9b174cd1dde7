"""The copies that a receiver took, of those of the same octets that differ.

A receiver may drop a segment without a word for the CRC of an FPDU in it (RFC 5044 §8); TCP then sends it again. So of
two copies whose TCP checksums are right the later one counts, if it makes an FPDU good that the earlier one makes
bad, and if it comes before the peer has acknowledged the octets in question: what comes after that is dropped. Only
octets of that FPDU are taken from the later copy; other FPDUs in the same segment were good at once. What came between
the two, and was equal to the first, was a repeat.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from scapy_mpa.craft.tcppacket import SentHalf
from scapy_mpa.tuples import NamedTuple


class Captured(NamedTuple):
    """Octets [start, end) of a stream as a frame carried them; ``damage`` holds the offsets of the wrong ones.

    ``is_dropped``: its TCP checksum shows that. The capture file has the octets before ``kept``; a snapshot length cut
    off the others.
    """

    frame: int
    start: int
    end: int
    damage: tuple[int, ...]
    is_dropped: bool
    kept: int


class Acknowledged:
    """How far the peer has acknowledged, by the frames that say so: (frame, offset), in order of capture."""

    def __init__(self, said: Sequence[tuple[int, int]] = ()) -> None:
        self._frames = [frame for frame, _ in said]
        self._offsets = [*accumulate((offset for _, offset in said), max)]

    def before(self, frame: int) -> int:
        """The offset up to which everything was acknowledged before a frame."""
        index = bisect_left(self._frames, frame)
        return self._offsets[index - 1] if index else -1


def taken(half: SentHalf, captured: Sequence[Captured], acknowledged: Acknowledged) -> list[Captured]:
    """Return the segments without octets whose later copy was taken; one may then be in several parts."""
    left_out: dict[int, list[tuple[int, int]]] = {}
    for first, last in _damaged_fpdus(half, captured):
        ranges = [*_replaced(captured, acknowledged, first, last)]
        # A copy that leaves it bad was no more taken than the first.
        if None not in ranges:
            for index, copy, start, end in filter(None, ranges):
                for other in range(index, copy):
                    left_out.setdefault(other, []).append((start, end))
    return [part for index, segment in enumerate(captured) for part in _parts(segment, left_out.get(index, []))]


def _damaged_fpdus(half: SentHalf, captured: Sequence[Captured]) -> list[tuple[int, int]]:
    """Return where FPDUs lie with an octet that was damaged under a right TCP checksum, if CRCs show that."""
    origin = half.origin
    if origin is None or not half.crc:
        return []
    places = {at - origin for segment in captured if not segment.is_dropped for at in segment.damage}
    fpdus = {next(half.fpdus_from(place)) for place in places}
    extents = sorted((origin + fpdu.offset, origin + fpdu.end) for fpdu in fpdus)
    return [(first, last) for first, last in extents if _is_in_file(captured, first, last)]


def _is_in_file(captured: Sequence[Captured], first: int, last: int) -> bool:
    """Return True if no octet of [first, last) is one that every copy of it lacks for a snapshot length."""
    is_cut = [segment for segment in captured if segment.kept < min(segment.end, last) and segment.end > first]
    return all(
        any(one.start <= at < one.kept for one in captured)
        for segment in is_cut
        for at in range(max(segment.kept, first), min(segment.end, last))
    )


def _replaced(
    captured: Sequence[Captured], acknowledged: Acknowledged, first: int, last: int
) -> Iterator[tuple[int, int, int, int] | None]:
    """For each damaged octet of the FPDU [first, last): which copy takes which octets of which segment, or None."""
    for index, segment in enumerate(captured):
        if segment.is_dropped:
            continue
        for at in segment.damage:
            if first <= at < last and not any(_brings_right(one, at) for one in captured[:index]):
                yield _replacement(captured, acknowledged, index, at, first, last)


def _brings_right(segment: Captured, at: int) -> bool:
    return not segment.is_dropped and segment.start <= at < segment.kept and at not in segment.damage


def _replacement(
    captured: Sequence[Captured], acknowledged: Acknowledged, index: int, at: int, first: int, last: int
) -> tuple[int, int, int, int] | None:
    segment = captured[index]
    for later, copy in enumerate(captured[index + 1 :], index + 1):
        edge = acknowledged.before(copy.frame)
        if edge > at:
            return None
        start, end = max(segment.start, copy.start, first, edge), min(segment.end, copy.kept, last)
        if _brings_right(copy, at) and not any(start <= other < end for other in copy.damage):
            return index, later, start, end
    return None


def _parts(segment: Captured, left_out: list[tuple[int, int]]) -> Iterator[Captured]:
    at = segment.start
    for start, end in sorted(left_out):
        if at < min(start, segment.end):
            yield segment._replace(start=at, end=min(start, segment.end))
        at = max(at, end)
    if at < segment.end:
        yield segment._replace(start=at)
