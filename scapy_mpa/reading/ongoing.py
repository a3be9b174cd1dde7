"""Captures that are analysed while they are written: each MPA connection is reported when it is over, and released.

What it takes of memory follows the connections that are open, not how long it goes on.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final, cast

from scapy_mpa.analyzer.connection import CapturedConnection, Listener
from scapy_mpa.capture import reader
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.capture.ongoing import OngoingCaptures
from scapy_mpa.framing.role import ROLES
from scapy_mpa.reading.onepass import Pass
from scapy_mpa.reading.placed import PlacedRecords
from scapy_mpa.reading.query import Query
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.together import mark_ended_together
from scapy_mpa.rules.findings import Finding, Findings, Quota
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURecord

#: A TCP connection that is over is released after this many nanoseconds: copies of its segments may arrive late.
SETTLED: Final = 2 * reader.NANOSECONDS
#: Connections that are over are looked for after this many seconds, or octets of the capture.
_OFTEN: Final = 0.5
#: This many connections may be released before reference cycles are looked for.
_FEW: Final = 500


class OpenConnection(NamedTuple):
    """An ongoing MPA connection: FPDUs so far, of the Initiator and the Responder, and findings."""

    number: int
    initiator: str
    responder: str
    is_established: bool
    fpdus: tuple[int, int]
    octets: tuple[int, int]
    findings: int


class OngoingAnalysis:
    """Analyses ongoing captures; to be read once.

    Args:
        captures: what is read.
        query: what is examined, assumed and held back; its sources are not read.
        over: is handed each MPA connection that is over; at the end, those that are open too.
        looked: is called now and then, however little comes, when what is over was released.
        lists_fpdus: whether FPDUs are listed.
        listener: hears of every FPDU, if anybody does.
        make_findings: makes the findings of a connection.

    Attributes:
        captures: what is read.
    """

    def __init__(
        self,
        captures: OngoingCaptures,
        query: Query,
        over: Callable[[Connection], None],
        looked: Callable[[], None] | None = None,
        *,
        lists_fpdus: bool = False,
        listener: Listener | None = None,
        make_findings: Callable[[Quota | None], Findings] = Findings,
    ) -> None:
        self.captures = captures
        self._over = over
        self._looked = looked
        self._assumptions = query.assumptions
        self._index = FrameIndex(cast(BinaryIO, _Gone(captures.name)))
        self._placed = PlacedRecords(self._index) if lists_fpdus else None
        self._listeners: list[Listener] = [one for one in (self._placed, listener) if one is not None]
        self._pass = Pass(query, self._listeners, make_findings=make_findings)
        self._receiver = self._pass.analyzer
        #: The time of the last segment (nanoseconds since the epoch), and when it was read (seconds of a clock).
        self._last, self._read_at = 0, time.monotonic()
        #: When what is over was looked for last: seconds of that clock, octets of the captures.
        self._looked_at, self._looked_after = self._read_at, 0
        self._findings: list[Finding] = []
        #: Connections that were released since circles of references were looked for.
        self._let_go = 0
        captures.polling.call(self._look)

    @property
    def tcp_connections(self) -> int:
        """The number of TCP connections found, with or without MPA."""
        return self._receiver.tcp_connections

    @property
    def has_doubt(self) -> bool:
        """True if a sender may deviate that was not examined, because its octets are read once."""
        return self._receiver.has_doubt

    @property
    def findings(self) -> list[Finding]:
        """The findings of no connection; known at the end."""
        return self._findings

    @property
    def open_connections(self) -> Iterator[OpenConnection]:
        """Yield the ongoing MPA connections."""
        for mpa in self._receiver.connections:
            counts = [mpa.operations[side].counts if side in mpa.operations else None for side in ROLES]
            first, second = ((one.fpdus, one.ulpdu_octets) if one is not None else (0, 0) for one in counts)
            yield OpenConnection(
                mpa.number,
                mpa.initiator,
                mpa.responder,
                bool(mpa.operations),
                (first[0], second[0]),
                (first[1], second[1]),
                len(mpa.findings.sorted()),
            )

    def batches(self) -> Iterator[list[FPDURecord]]:
        """Read the captures as they come; yield the FPDUs of each part that is read, as they were placed.

        Where nobody wants FPDUs, the lists are empty. Raises :class:`~scapy_mpa.errors.CaptureError` if nothing can be
        read.
        """
        receiver, captures = self._receiver, self.captures
        for last in self._pass.read(captures):
            if last is not None:
                self._last, self._read_at = last, time.monotonic()
            yield self._taken()
            is_time = time.monotonic() - self._looked_at >= _OFTEN
            if is_time or captures.octets - self._looked_after >= reader.BLOCK_SIZE // 2:
                self._look()
        # Their numbers were printed.
        self._pass.finish(captures.octets, numbers_anew=False)
        yield self._taken()
        self._hand_over(receiver.connections)
        for note in captures.notes:
            receiver.findings.add(
                note.rule, None, note.frame, note.time, 0, note.detail, count=note.times, last_frame=note.last_frame
            )
        self._findings = receiver.findings.sorted()

    def _look(self) -> None:
        """Release what is over."""
        self._looked_at, self._looked_after = time.monotonic(), self.captures.octets
        elapsed = int((self._looked_at - self._read_at) * reader.NANOSECONDS)
        self._hand_over(self._receiver.let_go(self._last + elapsed - SETTLED))
        # A connection and its half connections refer to each other, and the command has nobody look for such circles
        # often. As many are looked through as were released, or a few more.
        if self._let_go > max(_FEW, len(self._receiver.connections)):
            self._let_go = 0
            gc.collect()
        if self._looked is not None:
            self._looked()

    def _hand_over(self, over: Sequence[CapturedConnection]) -> None:
        """Report connections; those of the same hosts that ended together name each other, but no others.

        Nothing is kept of those that were reported before.
        """
        self._let_go += len(over)
        connections = []
        for mpa in over:
            for listener in self._listeners:
                listener.forget(mpa)
            connections.append(Connection(mpa, self._index, self._assumptions))
            mpa.findings.hand_over()
        mark_ended_together(connections)
        for connection in connections:
            self._over(connection)

    def _taken(self) -> list[FPDURecord]:
        """The records of what was placed since the last time."""
        return [] if self._placed is None else [*self._placed.take()]


class _Gone:
    """Stands for a file that was read while it was being written, and cannot be read again."""

    def __init__(self, name: str) -> None:
        self.name = name

    def seek(self, _place: int, /) -> int:
        """Raises OSError."""
        raise OSError("it was read while it was being written")
