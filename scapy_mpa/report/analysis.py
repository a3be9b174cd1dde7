"""The two ways to read a capture from Python: :func:`analyze` and :func:`iter_fpdus`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from scapy_mpa.capture.files import Captures, CaptureSource
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.receive.assumptions import NOTHING, Assumptions
from scapy_mpa.receive.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.receive.operation import FullOperation
from scapy_mpa.receive.receiver import Receiver
from scapy_mpa.receive.records import FPDURecord, Row, record_of
from scapy_mpa.receive.segment import FRAME, KEY, Segment
from scapy_mpa.report.context import HalfContext
from scapy_mpa.report.model import Connection, Report


class Selection(NamedTuple):
    """Which segments of a capture are looked at: frames (first, last), and TCP ports; None takes all."""

    frames: tuple[int, int | None] | None = None
    ports: tuple[int, ...] | None = None

    def of(self, segments: list[Segment]) -> Iterable[Segment]:
        """The selected segments."""
        if self.frames is not None:
            first, last = self.frames
            segments = [seg for seg in segments if seg[FRAME] >= first and (last is None or seg[FRAME] <= last)]
        if self.ports is not None:
            ports = {port.to_bytes(2, "big") for port in self.ports}
            segments = [seg for seg in segments if seg[KEY][-2:] in ports or seg[KEY][-4:-2] in ports]
        return segments


EVERYTHING = Selection()


def analyze(
    capture: CaptureSource | Sequence[CaptureSource],
    *,
    fpdus: bool = True,
    selection: Selection = EVERYTHING,
    assumptions: Assumptions = NOTHING,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """Analyse a capture, or several merged by time.

    ``capture`` is a path or an open binary file, or a list of them.  With ``fpdus`` the half connections of the
    report hold a record of every FPDU (about 50 octets each); without, counts and findings only.  ``selection`` says
    what is looked at, ``assumptions`` what cannot be known from it, ``limits`` how much is held back.  Raises
    :class:`~scapy_mpa.errors.CaptureError` for a capture of which nothing can be read.
    """
    receiver = Receiver(records=fpdus, assumptions=assumptions, limits=limits)
    with Captures(capture) as captures:
        for segments in captures.batches():
            receiver.feed(segments if selection is EVERYTHING else selection.of(segments))
            receiver.release()
    receiver.finish()
    index = FrameIndex(capture)
    return Report(
        captures.names,
        captures.packets,
        receiver.tcp_connections,
        [Connection(mpa, index) for mpa in receiver.connections],
        receiver.findings.sorted(),
        captures.damage,
    )


class PlacedFPDUs:
    """The FPDUs of a capture one by one, in the order of placement, in bounded memory.

    Iterate once; ``report`` is the report without FPDUs, after the last one.
    """

    def __init__(
        self,
        capture: CaptureSource | Sequence[CaptureSource],
        selection: Selection = EVERYTHING,
        assumptions: Assumptions = NOTHING,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._captures = Captures(capture)
        self._index = FrameIndex(capture)
        self._contexts: dict[int, HalfContext] = {}
        self._selection = selection
        self._assumptions = assumptions
        self._limits = limits
        self._placed: list[FPDURecord] = []
        self._report: Report | None = None

    def __iter__(self) -> Iterator[FPDURecord]:
        """Read the capture; raises :class:`~scapy_mpa.errors.CaptureError` if no packet of it can be read."""
        placed = self._placed
        receiver = Receiver(sink=self._sink, assumptions=self._assumptions, limits=self._limits)
        with self._captures as captures:
            for segments in captures.batches():
                receiver.feed(self._selection.of(segments))
                receiver.release()
                yield from placed
                placed.clear()
        receiver.finish()
        yield from placed
        self._report = Report(
            captures.names,
            captures.packets,
            receiver.tcp_connections,
            [Connection(mpa, self._index) for mpa in receiver.connections],
            receiver.findings.sorted(),
            captures.damage,
        )

    @property
    def report(self) -> Report:
        """The report without FPDUs; raises RuntimeError before the last FPDU has been taken."""
        if self._report is None:
            raise RuntimeError("the capture has not been read to its end")
        return self._report

    def _sink(self, operation: FullOperation, row: Row, frames: tuple[int, ...]) -> None:
        context = self._contexts.get(id(operation))
        if context is None:
            context = self._contexts[id(operation)] = HalfContext(self._index, operation)
        self._placed.append(record_of(row, frames, operation.mpa.number, operation.direction, context))


def iter_fpdus(
    capture: CaptureSource | Sequence[CaptureSource],
    *,
    selection: Selection = EVERYTHING,
    assumptions: Assumptions = NOTHING,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[FPDURecord]:
    """Yield the FPDUs of a capture, or of several merged by time, in the order of placement.

    Memory is bounded whatever the size of the capture.  A record says what is known when it is yielded:
    ``delivered_frame`` is None if it is delivered later, and a bad CRC before it that shows later is not in
    ``after_error`` yet.  An FPDU with a bad CRC is yielded when that is known, and those of a connection whose Request
    was not captured at its end.  Raises :class:`~scapy_mpa.errors.CaptureError` as :func:`analyze` does.
    """
    return iter(PlacedFPDUs(capture, selection, assumptions, limits))
