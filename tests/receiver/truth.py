"""Rows of ``fpdus`` for one direction, from which captured segment brought which octets alone.

The formulas are those of the design (*Place*, *located_by*, *Gaps*): no stream is followed, there is only the first
frame of each octet. Offsets count from the first octet of Full Operation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tests.receiver.wire import FPDU

#: The frame of an octet that no frame brings.
NEVER = 1 << 62

Row = dict[str, Any]


class FirstFrames:
    """The first frame of each octet; ranges are added in the order of capture."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ranges: list[tuple[int, int, int]] = []

    def _touching(self, start: int, end: int) -> slice:
        low = bisect_left(self._starts, start)
        if low and self._ranges[low - 1][1] > start:
            low -= 1
        return slice(low, bisect_left(self._starts, end))

    def add(self, start: int, end: int, frame: int) -> None:
        """Note that `frame` brought [start, end); octets that had come before keep their frame."""
        place, at = self._touching(start, end), start
        new: list[tuple[int, int, int]] = []
        for known in self._ranges[place]:
            if at < known[0]:
                new.append((at, known[0], frame))
            new.append(known)
            at = max(at, known[1])
        if at < end:
            new.append((at, end, frame))
        self._ranges[place] = new
        self._starts[place] = [one[0] for one in new]

    def frames(self, start: int, end: int) -> set[int]:
        """Return the frames that brought [start, end), NEVER among them if some octets did not come."""
        found, at = set[int](), start
        for low, high, frame in self._ranges[self._touching(start, end)]:
            if low > at:
                found.add(NEVER)
            found.add(frame)
            at = high
        return found if at >= end else found | {NEVER}

    def has(self, start: int, end: int) -> bool:
        """True if every octet of [start, end) came."""
        return NEVER not in self.frames(start, end)


class Copy(NamedTuple):
    """The octets [start, end) as `frame` brought them.

    `changed` are the offsets of octets that were damaged although the TCP checksum was right (RFC 5044 §8).
    """

    frame: int
    start: int
    end: int
    changed: tuple[int, ...] = ()


def accepted(copies: Sequence[Copy], fpdus: Sequence[FPDU]) -> list[Copy]:
    """Return what the receiver accepted of each copy, in the order of capture.

    A receiver that finds a bad CRC may drop the segment and let TCP bring it again (RFC 5044 §8). What the damaged
    copy has in common, within the bad FPDU, with the first copy that brings the damaged octet, and no damaged one of
    this FPDU, counts for the latter; so does what came between the two. If such a copy came before, the damaged one was
    a duplicate.
    """
    if not any(copy.changed for copy in copies):
        return list(copies)
    parts = [[copy] for copy in copies]
    ends = [fpdu.end for fpdu in fpdus]
    for index, copy in enumerate(copies):
        for at in copy.changed:
            fpdu = fpdus[bisect_left(ends, at + 1)]
            intact = [
                other for other, c in enumerate(copies)
                if c.start <= at < c.end and not any(fpdu.start <= place < fpdu.end for place in c.changed)
            ]  # fmt: skip
            if not intact or intact[0] < index:
                continue
            good = copies[intact[0]]
            low, high = max(fpdu.start, copy.start, good.start), min(fpdu.end, copy.end, good.end)
            for between in range(index, intact[0]):
                parts[between] = [piece for part in parts[between] for piece in _without(part, low, high)]
    return [part for pieces in parts for part in pieces]


def _without(copy: Copy, low: int, high: int) -> Iterable[Copy]:
    """Yield what is left of a copy without [low, high)."""
    for start, end in ((copy.start, min(copy.end, low)), (max(copy.start, high), copy.end)):
        if start < end:
            yield copy._replace(start=start, end=end)


class Half(NamedTuple):
    """One direction in Full Operation, as its sender sent it and as its startup frames agreed."""

    fpdus: Sequence[FPDU]
    #: Indices of FPDUs in front of which the capture lacks octets of FPDUs that nobody knows.
    behind_gap: frozenset[int]
    markers: bool
    crc: bool
    #: TCP sequence number of offset 0.
    seq: int


def rows_of(half: Half, copies: Sequence[Copy], startup: int, connection: int, direction: str) -> list[Row]:
    """Return the rows; `startup` is the frame by which all captured startup frames were complete."""
    first = FirstFrames()
    for copy in accepted(copies, half.fpdus):
        first.add(copy.start, copy.end, copy.frame)
    rows: list[Row] = []
    placed_before, delivered = NEVER, startup
    for index, fpdu in enumerate(half.fpdus):
        frames = first.frames(fpdu.start, fpdu.end)
        complete = max(startup, *frames)
        if index in half.behind_gap:
            placed_before = delivered = NEVER
        is_scanned = index > 0 and placed_before == NEVER and half.crc and not half.markers
        if index == 0 or fpdu.markers or is_scanned:
            placed = complete
        else:
            placed = max(complete, placed_before)
        delivered = max(delivered, complete)
        if placed != NEVER:
            located_by = "length" if placed_before <= placed else "marker" if fpdu.markers else "scan"
            if index == 0:
                located_by = "start"
            rows.append(
                {
                    "connection": connection,
                    "direction": direction,
                    "seq": (half.seq + fpdu.start) & 0xFFFFFFFF,
                    "header_seq": (half.seq + fpdu.header) & 0xFFFFFFFF,
                    "ulpdu_length": fpdu.ulpdu_length,
                    "wire_length": fpdu.end - fpdu.start,
                    "markers": fpdu.markers,
                    "crc": "good" if half.crc else "unchecked",
                    "located_by": located_by,
                    "frames": sorted(frames),
                    "placed_frame": placed,
                    "delivered_frame": None if delivered == NEVER else delivered,
                    "after_error": False,
                    "opcode": fpdu.opcode,
                }
            )
        placed_before = placed
    return rows
