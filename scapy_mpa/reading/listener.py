"""Listeners that receive every FPDU while a capture is read, and what is needed to describe it once the report is
complete.

It hears of each at once, when it is not known yet whether its sender deviates. So if reading a capture leaves a doubt
of that, and only then, an analysis examines it, and if it finds senders that deviate, the capture is read again with
what is known about them. Where nothing can be read again the first reading stands, and :attr:`CaptureListener.remark`
says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.analyzer.connection import Deviations, FullOperation, Listener
from scapy_mpa.capture.index import FrameIndex, rewind
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.role import ROLES
from scapy_mpa.reading.analysis import analyze, part_read, report_of
from scapy_mpa.reading.onepass import Pass
from scapy_mpa.reading.query import Query
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report
from scapy_mpa.rules.findings import Findings, Quota
from scapy_mpa.values.records import FPDURow

#: What a listener says about a capture that it would have to read again.
READ_ONCE: Final = "whether a sender deviates was not checked: the capture can be read only once"


class CaptureListener(Listener):
    """Listens to captures, which are read again if it takes that.

    Connections have a number of their own while the capture is read, for which :meth:`connect` finds those of the
    report; directions are 0 and 1, as in :data:`~scapy_mpa.report.half.DIRECTIONS`. ``report`` is the report without
    FPDUs, ``remark`` a line that says what was not examined, if there is anything.
    """

    report: Report

    def __init__(self) -> None:
        self.remark: str | None = None
        self.begin()

    def begin(self) -> None:
        """Forget what was received, if anything was: a capture is read, perhaps again."""
        self._serials: dict[int, int] = {}
        # They are kept so that no other one gets the identity of one that is gone.
        self._mpas: list[object] = []
        #: The connections of the report by their number here; None for one that the report has not.
        self.connections: list[Connection | None] = []

    def read(self, query: Query, make_findings: Callable[[Quota | None], Findings] = Findings) -> Analyzer:
        """Read captures, and again if it takes what an analysis finds out of senders.

        Raises as :func:`scapy_mpa.analyze` does.
        """

        def feed(one: Pass) -> Sequence[Connection]:
            part = part_read(one)
            self.report = report_of([part], FrameIndex(query.sources, limits=query.limits, begins=part.begins))
            return self.report.connections

        def look() -> Deviations:
            try:
                rewind(query.sources)
            except CaptureError:
                self.remark = READ_ONCE
                return {}
            report = analyze(query, fpdus=False)
            if report.deviations:
                rewind(query.sources)
            return report.deviations

        return self.hear(feed, look, query, make_findings)

    def hear(
        self,
        feed: Callable[[Pass], Sequence[Connection]],
        look: Callable[[], Deviations],
        query: Query,
        make_findings: Callable[[Quota | None], Findings] = Findings,
    ) -> Analyzer:
        """Receive what a pass yields, and again if that needs what an analysis finds out about senders.

        ``feed`` has a pass take all segments, and returns its connections as a report has them, in its order; ``look``
        finds out, by reading the same segments, in what the senders deviate.
        """

        def read(deviations: Deviations) -> Analyzer:
            one = Pass(query, [self], make_findings=make_findings, deviations=deviations)
            self.connect(one.analyzer, feed(one))
            return one.analyzer

        receiver = read({})
        if receiver.has_doubt:
            deviations = look()
            if deviations:
                self.begin()
                receiver = read(deviations)
        return receiver

    def where(self, operation: FullOperation, row: FPDURow) -> tuple[int, int, int]:
        """Connection, direction and stream offset of an FPDU."""
        side = ROLES.index(operation.direction)
        return self.serial(operation.mpa), side, operation.offset_of(row.seq)

    def serial(self, mpa: object) -> int:
        """The number of a connection here."""
        serial = self._serials.get(id(mpa))
        if serial is None:
            serial = self._serials[id(mpa)] = len(self._mpas)
            self._mpas.append(mpa)
        return serial

    def connect(self, receiver: Analyzer, connections: Sequence[Connection]) -> None:
        """All was read; ``connections`` are those of the receiver as a report has them."""
        there = dict(zip(map(id, receiver.connections), connections, strict=True))
        self.connections = [there.get(id(mpa)) for mpa in self._mpas]
        self._mpas, self._serials = [], {}
