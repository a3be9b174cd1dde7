"""When each frame of a capture was captured, and what it acknowledged.

Both are looked up by the frame's number, in memory as long as it is recent, else in a file.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import attrgetter
from typing import Literal

from scapy_mpa.system.temporary import MemoryFirst
from scapy_mpa.values.segment import Segment

#: Times in memory: of at least this many frames, and of twice as many at most.
_RECENT = 1 << 16
#: Octets kept in memory before the others go into a file.
_HELD_OCTETS = 1 << 20
_OCTETS = array("q").itemsize


class FrameTimes:
    """The times of frames, in nanoseconds since the epoch, or another number of their segments.

    Args:
        keeps_all: whether older ones go into a file; else nothing is known about them then.
        field: the name of the number in a segment.
    """

    def __init__(self, *, keeps_all: bool = True, field: Literal["time", "ack"] = "time") -> None:
        self._number_of = attrgetter(field)
        self._file = MemoryFirst(max_size=_HELD_OCTETS) if keeps_all else None
        #: Of the frames from ``_first`` on; 0 where nothing of a frame is known.
        self._times = array("q")
        self._first = 1

    def see(self, segments: Sequence[Segment]) -> None:
        """Segments were captured, in the order of their frames."""
        times, end, number_of = self._times, self._first + len(self._times), self._number_of
        for seg in segments:
            frame = seg.frame
            if frame >= end:
                if frame > end:
                    times.frombytes(bytes(_OCTETS * (frame - end)))
                times.append(number_of(seg))
                end = frame + 1
        if len(times) > 2 * _RECENT:
            if self._file is not None:
                self._file.seek(_OCTETS * (self._first - 1))
                self._file.write(times[:-_RECENT].tobytes())
            self._first = end - _RECENT
            del times[:-_RECENT]

    def at(self, frame: int) -> int:
        """The time of a frame that was seen; 0 for any other."""
        index = frame - self._first
        if index >= 0:
            return self._times[index] if index < len(self._times) else 0
        if self._file is None:
            return 0
        self._file.seek(_OCTETS * (frame - 1))
        found = array("q")
        found.frombytes(self._file.read(_OCTETS))
        return found[0]

    def close(self) -> None:
        """Release everything."""
        if self._file is not None:
            self._file.close()
