"""What hears of every FPDU while a capture is read, and what it takes to tell of it when the whole report is there."""

from __future__ import annotations

from collections import deque

from scapy_mpa.receive.half import Direction
from scapy_mpa.receive.mpa import CapturedConnection, FoundFrame
from scapy_mpa.receive.operation import FullOperation
from scapy_mpa.receive.receiver import Receiver
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import DIRECTIONS
from scapy_mpa.report.model import Report
from scapy_mpa.values.records import FPDURow


class Listener:
    """The sink and the observer of a receiver.

    Connections have a number of their own while the capture is read, for which :meth:`connect` finds those of the
    report; directions are 0 and 1, as in :data:`~scapy_mpa.report.half.DIRECTIONS`.
    """

    def __init__(self) -> None:
        self._frames: deque[tuple[int, ...]] = deque()
        self._serials: dict[int, int] = {}
        # They are kept so that no other one gets the identity of one that is gone.
        self._mpas: list[object] = []
        #: The connections of the report by their number here; None for one that the report has not.
        self.connections: list[Connection | None] = []

    def sink(self, _operation: FullOperation, _row: FPDURow, frames: tuple[int, ...]) -> None:
        """Take the frames of what :meth:`placed` is told next, in the same order."""
        self._frames.append(frames)

    def startup(self, mpa: CapturedConnection, direction: Direction, found: FoundFrame) -> None:
        """A startup frame is complete; the report has it too."""

    def placed(self, operation: FullOperation, row: FPDURow, octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        raise NotImplementedError

    def delivered(self, operation: FullOperation, row: FPDURow) -> None:
        """An FPDU that was placed at an earlier frame is delivered now."""
        raise NotImplementedError

    def next_frames(self) -> tuple[int, ...]:
        """The frames of the FPDU that :meth:`placed` is told of."""
        return self._frames.popleft()

    def where(self, operation: FullOperation, row: FPDURow) -> tuple[int, int, int]:
        """Connection, direction and stream offset of an FPDU."""
        side = DIRECTIONS.index(operation.direction)
        return self.serial(operation.mpa), side, operation.reassembly.offset_of(row.seq)

    def serial(self, mpa: object) -> int:
        """The number of a connection here."""
        serial = self._serials.get(id(mpa))
        if serial is None:
            serial = self._serials[id(mpa)] = len(self._mpas)
            self._mpas.append(mpa)
        return serial

    def connect(self, receiver: Receiver, report: Report) -> None:
        """The capture has been read."""
        there = dict(zip(map(id, receiver.connections), report.connections, strict=True))
        self.connections = [there.get(id(mpa)) for mpa in self._mpas]
        self._mpas, self._serials = [], {}
