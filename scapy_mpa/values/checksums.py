"""The TCP checksums of the segments of a half connection, right or wrong: each is computed once.

A checksum is examined only where copies differ or an FPDU is bad, but there again and again: for each copy that comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scapy_mpa.values.segment import Segment, checksum_is_right, checksum_is_wrong

#: This many are remembered before stale ones are looked for.
_FEW = 1024


class Checksums:
    """The TCP checksums of segments, by their frames: what is copied out of a block of the capture stays known."""

    __slots__ = ("_right", "_wrong")

    def __init__(self) -> None:
        self._right: dict[int, bool] = {}
        self._wrong: dict[int, bool] = {}

    def is_wrong(self, seg: Segment) -> bool:
        """Return True if a receiver would have dropped this segment for its TCP checksum."""
        return _look_up(self._wrong, seg, checksum_is_wrong)

    def is_right(self, seg: Segment) -> bool:
        """Return True if the TCP checksum of a segment, all of which was captured, is right."""
        return _look_up(self._right, seg, checksum_is_right)

    @property
    def are_many(self) -> bool:
        """True if enough are remembered to make it worthwhile to forget some."""
        return len(self._right) + len(self._wrong) > _FEW

    def forget_others(self, segments: Iterable[Segment]) -> None:
        """Forget all segments but these."""
        frames = {seg.frame for seg in segments}
        self._right = {frame: known for frame, known in self._right.items() if frame in frames}
        self._wrong = {frame: known for frame, known in self._wrong.items() if frame in frames}


def _look_up(known: dict[int, bool], seg: Segment, compute: Callable[[Segment], bool]) -> bool:
    """Return what is known about a segment, by its frame; compute it if nothing is."""
    if seg.tcp < 0:
        return False
    found = known.get(seg.frame)
    if found is None:
        found = known[seg.frame] = compute(seg)
    return found
