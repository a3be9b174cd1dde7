"""The two ways to read a capture from Python: :func:`analyze` and :func:`iter_fpdus`."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.analyzer.connection import FullOperation
from scapy_mpa.capture import reader
from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.index import FrameIndex, is_pipe
from scapy_mpa.capture.joining import Joining, sources_of
from scapy_mpa.capture.named import CaptureSource
from scapy_mpa.capture.notes import Note
from scapy_mpa.reading.part import ReportPart
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.context import HalfContext
from scapy_mpa.report.model import Report
from scapy_mpa.report.unfinished import report_unfinished
from scapy_mpa.rules.findings import Finding, Findings
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.records import FPDURecord, FPDURow, record_of
from scapy_mpa.values.segment import Segment, addresses_of

if TYPE_CHECKING:
    from scapy_mpa.capture.streams import Streams
    from scapy_mpa.ipsec.associations import Associations
    from scapy_mpa.reading.shares import Share


class Selection(NamedTuple):
    """Which segments are looked at: frames (first, last), TCP ports, IP addresses (their octets); None takes all."""

    frames: tuple[int, int | None] | None = None
    ports: tuple[int, ...] | None = None
    hosts: tuple[bytes, ...] | None = None

    def of(self, segments: list[Segment]) -> list[Segment]:
        """The selected segments."""
        if self.frames is not None:
            first, last = self.frames
            segments = [seg for seg in segments if seg.frame >= first and (last is None or seg.frame <= last)]
        if self.ports is not None:
            ports = {port.to_bytes(2, "big") for port in self.ports}
            segments = [seg for seg in segments if seg.key[-2:] in ports or seg.key[-4:-2] in ports]
        if self.hosts is not None:
            hosts = set(self.hosts)
            segments = [seg for seg in segments if not hosts.isdisjoint(addresses_of(seg.key))]
        return segments

    def takes(self, key: bytes) -> bool:
        """Whether the ports and addresses of a key are selected."""
        ports = {int.from_bytes(key[-4:-2], "big"), int.from_bytes(key[-2:], "big")}
        return (self.ports is None or not ports.isdisjoint(self.ports)) and (
            self.hosts is None or not {*addresses_of(key)}.isdisjoint(self.hosts)
        )


#: So many blocks are read before what was placed in the first of them is yielded.
_LAG = 8

EVERYTHING = Selection()


def analyze(
    capture: CaptureSource | Sequence[CaptureSource],
    *,
    fpdus: bool = True,
    selection: Selection = EVERYTHING,
    assumptions: Assumptions = NOTHING,
    limits: Limits = DEFAULT_LIMITS,
    jobs: int = 1,
    joining: Joining = "auto",
    esp: Associations | str | os.PathLike[str] | None = None,
) -> Report:
    """Analyse a capture, or several as one.

    Args:
        capture: A path or an open binary file, or a list of them; also a folder, or a pattern such as ``day/*.pcapng``.
            Or octets without packets: :class:`~scapy_mpa.capture.streams.Streams`.
        fpdus: Whether the half connections of the report hold a record of every FPDU (about 50 octets each); without,
            counts and findings only.
        selection: What is looked at.
        assumptions: What cannot be known from the capture.
        limits: How much is held back.
        jobs: How many processes divide the connections among them, each within the limits; with more than one,
            captures must be named files.
        joining: How several captures become one: ``follow`` reads one after the other, ``merge`` by time, ``auto``
            follows files whose times follow one another, and merges those that overlap.
        esp: The keys of what travels under ESP: the file in which Wireshark keeps security associations (esp_sa).

    Raises:
        CaptureError: Nothing of a capture can be read.
        MPAError: The file of keys cannot be used, or what decrypts is not installed.
    """
    capture = sources_of(capture, joining, limits, _associations(esp))
    read = partial(_part, capture, fpdus, selection, assumptions, limits)
    if jobs == 1:
        found = [read(None)]
    else:
        from scapy_mpa.reading.shares import parts

        found = parts(capture, jobs, read)
    return report_of(found, FrameIndex(capture, limits=limits, begins=found[0].begins))


def _associations(esp: Associations | str | os.PathLike[str] | None) -> Associations | None:
    if esp is None:
        return None
    from scapy_mpa.ipsec.associations import as_associations

    return as_associations(esp)


def _part(
    capture: CaptureSource | Sequence[CaptureSource],
    fpdus: bool,
    selection: Selection,
    assumptions: Assumptions,
    limits: Limits,
    share: Share | None,
) -> ReportPart:
    """What is found of a share of the TCP connections, or of all of them; the rest is as :func:`analyze` has it."""
    return _read(Analyzer(records=fpdus, assumptions=assumptions, limits=limits), capture, selection, share)


def read_into(
    receiver: Analyzer,
    capture: CaptureSource | Sequence[CaptureSource],
    selection: Selection = EVERYTHING,
    see: Callable[[Sequence[Segment]], None] | None = None,
) -> Report:
    """Hand a receiver a whole capture, as :func:`analyze` does; returns the report.

    Its connections are in the order of those that the receiver has then. ``see`` is shown the segments of each block
    before the receiver is.
    """
    capture = sources_of(capture, limits=receiver.limits)
    part = _read(receiver, capture, selection, None, see)
    return report_of([part], FrameIndex(capture, limits=receiver.limits, begins=part.begins))


def _read(
    receiver: Analyzer,
    capture: CaptureSource | Sequence[CaptureSource],
    selection: Selection,
    share: Share | None,
    see: Callable[[Sequence[Segment]], None] | None = None,
) -> ReportPart:
    with Captures(capture, limits=receiver.limits) as captures:
        released = 0
        for segments in captures.batches():
            selected = segments if selection is EVERYTHING else selection.of(segments)
            if see is not None:
                see(selected)
            if share is None:
                receiver.feed(selected)
            else:
                receiver.feed(share.of(selected))
                receiver.pass_time(selected[-1:])
            # Small files and pipes come in small blocks: what is at hand must not depend on that.
            if captures.octets - released >= reader.BLOCK_SIZE // 2:
                receiver.release()
                released = captures.octets
    if captures.octets > released:
        receiver.release()
    receiver.finish()
    part = part_of(receiver, FrameIndex(capture, limits=receiver.limits))
    return part._replace(
        captures=captures.names,
        packets=captures.packets,
        notes=captures.notes,
        damage=captures.damage,
        begins=captures.begins,
    )


def part_of(receiver: Analyzer, index: FrameIndex) -> ReportPart:
    """What a receiver found that has come to its end; of the captures nothing is said yet."""
    connections = [(mpa.order, Connection(mpa, index, receiver.assumptions)) for mpa in receiver.connections]
    return ReportPart([], 0, receiver.tcp_connections, connections, receiver.findings.sorted(), [], [])


def report_of(parts: Sequence[ReportPart], index: FrameIndex) -> Report:
    """All parts as one report; the first one says what was read."""
    first = parts[0]
    numbered = sorted((one for part in parts for one in part.connections), key=lambda one: one[0])
    connections = [connection for _, connection in numbered]
    for number, connection in enumerate(connections):
        connection.take_number(number, index)
    findings = Findings()
    for found in sorted((found for part in parts for found in part.findings), key=lambda found: found.frame):
        findings.merge(found)
    report_unfinished(connections, findings)
    _report_notes(first.notes, findings)
    return Report(
        first.captures,
        first.packets,
        sum(part.tcp_connections for part in parts),
        connections,
        _without_packets(connections, findings.sorted(), index.streams),
        first.damage,
        index,
    )


def _report_notes(notes: Sequence[Note], findings: Findings) -> None:
    """Have the report say what reading the captures left to be said."""
    for note in notes:
        findings.add(
            note.rule, None, note.frame, note.time, 0, note.detail, count=note.times, last_frame=note.last_frame
        )


def _without_packets(
    connections: Sequence[Connection], findings: list[Finding], streams: Streams | None
) -> list[Finding]:
    """The findings of no connection; of octets without packets, without what these cannot show, as of connections."""
    if streams is None:
        return findings
    from scapy_mpa.rules.octets import NEED_BOTH, NEED_PACKETS

    hidden = NEED_PACKETS if len(streams) > 1 else NEED_PACKETS | NEED_BOTH
    for connection in connections:
        connection.findings = [found for found in connection.findings if found.rule.id not in hidden]
    return [found for found in findings if found.rule.id not in hidden]


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
        joining: Joining = "auto",
        esp: Associations | str | os.PathLike[str] | None = None,
    ) -> None:
        capture = sources_of(capture, joining, limits, _associations(esp))
        self._captures = Captures(capture, limits=limits)
        self._index = FrameIndex(capture, limits=limits)
        self._contexts: dict[FullOperation, HalfContext] = {}
        self._selection = selection
        self._assumptions = assumptions
        self._limits = limits
        #: What has been placed and not been yielded yet: the frame, and what its record is made of.
        self._placed: list[tuple[int, FullOperation, FPDURow, tuple[int, ...]]] = []
        self._report: Report | None = None

    def __iter__(self) -> Iterator[FPDURecord]:
        """Read the capture; raises :class:`~scapy_mpa.errors.CaptureError` if no packet of it can be read."""
        receiver = Analyzer(sink=self._sink, assumptions=self._assumptions, limits=self._limits)
        # What must be looked for is found late: as long as it is not too late, it still comes in its turn.
        lag: deque[tuple[int, int]] = deque()
        # Who listens to a pipe wants each FPDU now.
        most = 0 if any(map(is_pipe, self._captures.sources)) else _LAG * reader.BLOCK_SIZE
        with self._captures as captures:
            released = 0
            for segments in captures.batches():
                receiver.feed(self._selection.of(segments))
                if captures.octets - released >= reader.BLOCK_SIZE // 2:
                    receiver.release()
                    released = captures.octets
                lag.append((captures.octets, captures.packets))
                last = 0
                while lag and captures.octets - lag[0][0] >= most:
                    last = lag.popleft()[1]
                if last:
                    yield from self._until(last)
        if captures.octets > released:
            receiver.release()
        receiver.finish()
        self._index.begins = captures.begins
        yield from self._until(captures.packets)
        connections = [Connection(mpa, self._index, self._assumptions) for mpa in receiver.connections]
        report_unfinished(connections, receiver.findings)
        _report_notes(captures.notes, receiver.findings)
        self._report = Report(
            captures.names,
            captures.packets,
            receiver.tcp_connections,
            connections,
            _without_packets(connections, receiver.findings.sorted(), self._index.streams),
            captures.damage,
            self._index,
        )

    @property
    def report(self) -> Report:
        """The report without FPDUs; raises RuntimeError before the last FPDU has been taken."""
        if self._report is None:
            raise RuntimeError("the capture has not been read to its end")
        return self._report

    def _sink(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...]) -> None:
        self._placed.append((row.placed or frames[-1], operation, row, frames))

    def _until(self, frame: int) -> Iterator[FPDURecord]:
        """Yield the records of what was placed at this frame or before."""
        placed = self._placed
        placed.sort(key=_frame)
        count = bisect_right(placed, frame, key=_frame)
        ready, self._placed = placed[:count], placed[count:]
        for _, operation, row, frames in ready:
            if operation.is_replaced:
                continue  # it was misread
            context = self._contexts.get(operation)
            if context is None:
                context = self._contexts[operation] = HalfContext(self._index, operation)
            yield record_of(row, frames, operation.mpa.number, operation.direction, context, operation.deviation)


def _frame(placed: tuple[int, FullOperation, FPDURow, tuple[int, ...]]) -> int:
    return placed[0]


def iter_fpdus(
    capture: CaptureSource | Sequence[CaptureSource],
    *,
    selection: Selection = EVERYTHING,
    assumptions: Assumptions = NOTHING,
    limits: Limits = DEFAULT_LIMITS,
    joining: Joining = "auto",
    esp: Associations | str | os.PathLike[str] | None = None,
) -> Iterator[FPDURecord]:
    """Yield the FPDUs of a capture, or of several as one, in the order of placement.

    Memory is bounded whatever the size of the capture. A record says what is known when it is yielded:
    ``delivered_frame`` is None if it is delivered later, and a bad CRC before it that shows later is not in
    ``after_error`` yet. What is found late (an FPDU with a bad CRC, one that had to be looked for, those of a
    connection whose startup frames were not captured) comes in its turn if its frame is among the last 4 MiB of the
    capture, else when it is found.

    Args:
        capture: As :func:`analyze` takes it.
        selection: What is looked at.
        assumptions: What cannot be known from the capture.
        limits: How much is held back.
        joining: As :func:`analyze` takes it.
        esp: As :func:`analyze` takes it.

    Raises:
        CaptureError: Nothing of a capture can be read.
    """
    return iter(PlacedFPDUs(capture, selection, assumptions, limits, joining, esp))
