"""One pass: segments come from captures, shares of them or packets; an analyzer receives them, others listen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.analyzer.connection import CapturedConnection, Deviations, FullOperation, Listener
from scapy_mpa.capture import reader
from scapy_mpa.framing.role import Role
from scapy_mpa.reading.query import EVERYTHING, Query
from scapy_mpa.receiver.plain import PlainRun
from scapy_mpa.receiver.startup import FoundFrame
from scapy_mpa.rules.findings import Findings, Quota
from scapy_mpa.values.records import FPDURow
from scapy_mpa.values.segment import Segment

if TYPE_CHECKING:
    from scapy_mpa.capture.files import Captures
    from scapy_mpa.capture.ongoing import OngoingCaptures
    from scapy_mpa.reading.shares import Share


class _Listeners(Listener):
    """Several who listen to the same analyzer, as one."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners
        self.wants_octets = any(one.wants_octets for one in listeners)
        self.takes_runs = all(one.takes_runs for one in listeners)

    def startup(self, mpa: CapturedConnection, direction: Role, found: FoundFrame) -> None:
        """A startup frame is complete."""
        for one in self._listeners:
            one.startup(mpa, direction, found)

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        for one in self._listeners:
            one.placed(operation, row, frames, octets)

    def placed_run(self, operation: FullOperation, run: PlainRun) -> None:
        """Plain FPDUs were placed."""
        for one in self._listeners:
            one.placed_run(operation, run)

    def delivered(self, operation: FullOperation, row: FPDURow) -> None:
        """An FPDU that was placed at an earlier frame is delivered now."""
        for one in self._listeners:
            one.delivered(operation, row)


class Pass:
    """Segments through an analyzer, once.

    Args:
        query: what is examined, what is assumed, how much is held back.
        listeners: who hears of segments, startup frames and FPDUs; each says what it wants.
        records: whether a row is kept of each FPDU.
        make_findings: makes the findings of a connection.
        deviations: what is known about senders.

    Attributes:
        query: what was asked.
        analyzer: what takes the segments.
    """

    def __init__(
        self,
        query: Query,
        listeners: Sequence[Listener] = (),
        *,
        records: bool = False,
        make_findings: Callable[[Quota | None], Findings] = Findings,
        deviations: Deviations | None = None,
    ) -> None:
        self.query = query
        self.analyzer = Analyzer(
            records=records,
            listener=_Listeners(listeners) if len(listeners) > 1 else next(iter(listeners), None),
            assumptions=query.assumptions,
            limits=query.limits,
            make_findings=make_findings,
            deviations=deviations,
        )
        self._listeners = listeners
        self._released = 0

    def take(self, segments: Sequence[Segment], octets: int, passed: Sequence[Segment] = ()) -> None:
        """Take the next segments; ``octets`` of the captures were read by then.

        The captures are past those in ``passed``, which were not for this pass.
        """
        for listener in self._listeners:
            listener.see(segments)
        self.analyzer.feed(segments)
        self.analyzer.pass_time(passed)
        # Small files and pipes come in small blocks: what is available must not depend on that.
        if octets - self._released >= reader.BLOCK_SIZE // 2:
            self.analyzer.release()
            self._released = octets

    def finish(self, octets: int = 0, *, numbers_anew: bool = True) -> None:
        """Finish: no more octets follow."""
        if octets > self._released:
            self.analyzer.release()
        self.analyzer.finish(numbers_anew=numbers_anew)

    def read(self, captures: Captures | OngoingCaptures, share: Share | None = None) -> Iterator[int | None]:
        """Read captures to their end.

        Yield after each batch the time of the last segment that was selected of it (nanoseconds since the epoch), None
        without any: a batch that somebody keeps would be in memory beside the next one.
        """
        selection = self.query.selection
        with captures:
            for segments in captures.batches():
                selected = segments if selection is EVERYTHING else selection.of(segments)
                if share is None:
                    self.take(selected, captures.octets)
                else:
                    self.take(share.of(selected), captures.octets, selected[-1:])
                yield selected[-1].time if selected else None
