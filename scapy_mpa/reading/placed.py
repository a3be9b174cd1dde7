"""The records of FPDUs in the order of placement, while captures are read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from scapy_mpa.analyzer.connection import CapturedConnection, FullOperation, Listener
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.report.context import HalfContext
from scapy_mpa.values.records import FPDURecord, FPDURow, record_of


class PlacedRecords(Listener):
    """Keeps what was placed until it is taken.

    Args:
        index: finds the octets of frames.
    """

    wants_octets = False

    def __init__(self, index: FrameIndex) -> None:
        self._index = index
        #: The frame at which it was placed, and what its record is made of.
        self._placed: list[tuple[int, FullOperation, FPDURow, tuple[int, ...]]] = []
        #: Where the octets of each half connection's FPDUs are, by connection.
        self._contexts: dict[CapturedConnection, dict[FullOperation, HalfContext]] = {}

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], _octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        self._placed.append((row.placed or frames[-1], operation, row, frames))

    def forget(self, mpa: CapturedConnection) -> None:
        """Release a connection that is over."""
        self._contexts.pop(mpa, None)

    def take(self, frame: int | None = None) -> Iterator[FPDURecord]:
        """Yield the records of what was placed at this frame or before, of all that was placed without one."""
        placed = self._placed
        placed.sort(key=_frame)
        count = len(placed) if frame is None else bisect_right(placed, frame, key=_frame)
        ready, self._placed = placed[:count], placed[count:]
        for _, operation, row, frames in ready:
            if operation.is_replaced:
                continue  # it was misread
            mpa = operation.mpa
            contexts = self._contexts.setdefault(mpa, {})
            context = contexts.get(operation)
            if context is None:
                context = contexts[operation] = HalfContext(self._index, operation)
            yield record_of(row, frames, mpa.number, operation.direction, context, operation.deviation)


def _frame(placed: tuple[int, FullOperation, FPDURow, tuple[int, ...]]) -> int:
    return placed[0]
