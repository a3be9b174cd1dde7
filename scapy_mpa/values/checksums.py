"""Whether the TCP checksums of the segments of a half connection are right: each is computed once.

A checksum is looked at only where copies differ or an FPDU is bad, but there again and again: for each copy that comes.
"""

from __future__ import annotations

from collections.abc import Iterable

from scapy_mpa.values.segment import Segment, checksum_is_right, checksum_is_wrong

#: So many are remembered before it is asked which segments are still there.
_FEW = 1024


class Checksums:
    """The TCP checksums of segments, by their frames: what is copied out of a block of the capture stays known."""

    __slots__ = ("_right", "_wrong")

    def __init__(self) -> None:
        self._right: dict[int, bool] = {}
        self._wrong: dict[int, bool] = {}

    def is_wrong(self, seg: Segment) -> bool:
        """Whether a receiver would have dropped this segment for its TCP checksum."""
        if seg.tcp < 0:
            return False
        known = self._wrong.get(seg.frame)
        if known is None:
            known = self._wrong[seg.frame] = checksum_is_wrong(seg)
        return known

    def is_right(self, seg: Segment) -> bool:
        """Whether the TCP checksum of a segment, all of which was captured, is right."""
        if seg.tcp < 0:
            return False
        known = self._right.get(seg.frame)
        if known is None:
            known = self._right[seg.frame] = checksum_is_right(seg)
        return known

    def forget_others(self, segments: Iterable[Segment]) -> None:
        """No other segments than these are at hand any more."""
        if len(self._right) + len(self._wrong) > _FEW:
            frames = {seg.frame for seg in segments}
            self._right = {frame: known for frame, known in self._right.items() if frame in frames}
            self._wrong = {frame: known for frame, known in self._wrong.items() if frame in frames}
