"""Segments that wait until it is known what they are, in the order of capture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scapy_mpa.receive.segment import Segment, small_copy
from scapy_mpa.receive.reassembly import PIECE_WEIGHT, Reassembly


class Waiting:
    """Segments that wait; ``octets`` is the memory they take, near enough."""

    __slots__ = ("_released", "octets", "segments")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self.segments: list[Segment] = []
        self.replace(segments)

    def __len__(self) -> int:
        return len(self.segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def replace(self, segments: Iterable[Segment] = ()) -> None:
        """These wait now, and no others."""
        self.segments = list(segments)
        self.octets = sum(map(_weight, self.segments))
        #: How many of the segments are known to have a buffer of their own.
        self._released = 0

    def add(self, seg: Segment) -> None:
        """One more waits."""
        self.segments.append(seg)
        self.octets += _weight(seg)

    def pop(self) -> Segment:
        """The one that came last waits no longer."""
        seg = self.segments.pop()
        self.octets -= _weight(seg)
        self._released = min(self._released, len(self.segments))
        return seg

    def release(self, copies: dict[int, Segment]) -> None:
        """The block of the capture that segments lie in goes: they get buffers of their own, shared by ``copies``."""
        for at in range(self._released, len(self.segments)):
            self.segments[at] = small_copy(self.segments[at], copies)
        self._released = len(self.segments)


def lay(segments: Iterable[Segment], stream: Reassembly) -> Reassembly:
    """Put what segments bring in order, in ``stream``, which is returned."""
    for seg in segments:
        start = stream.offset_of(seg.seq)
        stream.commit(seg, start, start + seg.end - seg.start)
    return stream


def _weight(seg: Segment) -> int:
    return seg.end - seg.start + PIECE_WEIGHT
