"""The two ways to read a capture from Python: :func:`analyze` and :func:`iter_fpdus`."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.capture import reader
from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.index import FrameIndex, is_pipe
from scapy_mpa.capture.joining import Joining
from scapy_mpa.capture.notes import Note
from scapy_mpa.reading.onepass import Pass
from scapy_mpa.reading.part import ReportPart
from scapy_mpa.reading.placed import PlacedRecords
from scapy_mpa.reading.query import EVERYTHING, Asked, Query, Selection, query_of
from scapy_mpa.report.connection import Connection, mark_twins
from scapy_mpa.report.model import Report
from scapy_mpa.report.together import mark_ended_together, report_buffers_not_offered
from scapy_mpa.report.unfinished import report_unfinished
from scapy_mpa.rules.findings import Finding, Findings
from scapy_mpa.system.cycles import goes_with_process, looking_seldom
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.records import FPDURecord

if TYPE_CHECKING:
    from scapy_mpa.capture.streams import Streams
    from scapy_mpa.ipsec.associations import Associations
    from scapy_mpa.reading.shares import Share


#: This many blocks are read before what was placed in the first of them is yielded.
_LAG = 8


def analyze(
    capture: Query | Asked,
    *,
    fpdus: bool = True,
    selection: Selection = EVERYTHING,
    assumptions: Assumptions = NOTHING,
    limits: Limits = DEFAULT_LIMITS,
    jobs: int = 1,
    joining: Joining = "auto",
    esp: Associations | str | os.PathLike[str] | None = None,
    udp_ports: Mapping[int, str] | None = None,
) -> Report:
    """Analyse a capture, or several as one.

    Until it returns, the threshold of Python's collector (:func:`gc.set_threshold`) is raised: the objects made here
    form no cycles, and looking for some would take a quarter of the time.

    Args:
        capture: A path or an open binary file, or a list of them; also a folder, or a pattern such as ``day/*.pcapng``.
            Or octets without packets: :class:`~scapy_mpa.capture.streams.Streams`; or Scapy packets, from ``rdpcap`` or
            any iterable; or a query (:func:`~scapy_mpa.reading.query.query_of`), which then replaces the arguments
            below.
        fpdus: Whether the half connections of the report hold a record of every FPDU (about 50 octets each), or only
            counts and findings.
        selection: What is examined.
        assumptions: What cannot be known from the capture.
        limits: How much is held back.
        jobs: How many processes share the connections, each within the limits; with more than one, captures must be
            named files.
        joining: How to combine several captures: ``follow`` reads one after the other, ``merge`` by time, ``auto``
            follows files whose times follow one another, and merges those that overlap.
        esp: The keys of ESP traffic: the file in which Wireshark keeps security associations (esp_sa).
        udp_ports: UDP ports of tunnels besides the usual ones: ``vxlan``, ``vxlan-gpe`` or ``geneve`` by port.

    Raises:
        CaptureError: Nothing of a capture can be read.
        MPAError: The file of keys cannot be used, or the decryption library is not installed.
    """
    query = query_of(capture, selection, assumptions, limits, joining, esp, udp_ports)
    read = partial(_part, query, fpdus)
    with looking_seldom():
        if jobs == 1:
            found = [read(None)]
        else:
            from scapy_mpa.reading.shares import parts

            found = parts(query.sources, jobs, read)
        return report_of(found, FrameIndex(query.sources, limits=query.limits, begins=found[0].begins))


def _part(query: Query, fpdus: bool, share: Share | None) -> ReportPart:
    """Return the findings of a share of the TCP connections, or of all of them."""
    return part_read(Pass(query, records=fpdus), share, is_heard=False)


def part_read(one: Pass, share: Share | None = None, *, is_heard: bool = True) -> ReportPart:
    """Read the captures of a pass, or its share of them; return what it found.

    Unless somebody hears of connections (``is_heard``), only what the report says is kept of those that are over.
    """
    query = one.query
    captures, index = Captures(query.sources, limits=query.limits), FrameIndex(query.sources, limits=query.limits)
    over: list[tuple[int, Connection]] = []
    for _ in one.read(captures, share):
        if not is_heard:
            over += _handed_over(one.analyzer, index)
    one.finish(captures.octets)
    if not is_heard:
        over += _handed_over(one.analyzer, index, lets_go=not goes_with_process())
    return part_of(one.analyzer, index, captures, over)


def _handed_over(analyzer: Analyzer, index: FrameIndex, lets_go: bool = True) -> Iterator[tuple[int, Connection]]:
    """Yield the connections that are over with the frames that they are numbered by, and release the rest of each."""
    over = analyzer.hand_over()[::-1]
    while over:
        mpa = over.pop()
        yield mpa.order, Connection(mpa, index, analyzer.assumptions)
        if lets_go:
            mpa.let_go()


def part_of(
    receiver: Analyzer,
    index: FrameIndex,
    captures: Captures | None = None,
    over: Sequence[tuple[int, Connection]] = (),
) -> ReportPart:
    """Return what a receiver found once it has reached the end of these captures; without them, nothing is said about
    them yet.

    ``over`` are connections that it has handed over before.
    """
    connections = [*over]
    connections += [(mpa.order, Connection(mpa, index, receiver.assumptions)) for mpa in receiver.connections]
    found = receiver.tcp_connections, connections, receiver.findings.sorted()
    if captures is None:
        return ReportPart([], 0, *found, [], [])
    return ReportPart(
        captures.names, captures.packets, *found, captures.notes, captures.damage, captures.begins, captures.services
    )


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
    mark_twins(connections)
    if first.services:
        for connection in connections:
            connection.take_service(first.services)
    report_unfinished(connections, findings)
    mark_ended_together(connections)
    report_buffers_not_offered(connections, findings)
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
    """Add what was noted while the captures were read to the report."""
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

    def __init__(self, capture: Query | Asked) -> None:
        self._query = query = query_of(capture)
        self._captures = Captures(query.sources, limits=query.limits)
        self._index = FrameIndex(query.sources, limits=query.limits)
        self._report: Report | None = None

    def __iter__(self) -> Iterator[FPDURecord]:
        """Read the capture; raises :class:`~scapy_mpa.errors.CaptureError` if no packet of it can be read."""
        placed, captures = PlacedRecords(self._index), self._captures
        one = Pass(self._query, [placed])
        # What must be looked for is found late: as long as it is not too late, it still comes in order.
        lag: deque[tuple[int, int]] = deque()
        # Who listens to a pipe wants each FPDU now.
        most = 0 if any(map(is_pipe, self._captures.sources)) else _LAG * reader.BLOCK_SIZE
        for _ in _steps(one.read(captures)):
            lag.append((captures.octets, captures.packets))
            last = 0
            while lag and captures.octets - lag[0][0] >= most:
                last = lag.popleft()[1]
            if last:
                yield from placed.take(last)
        one.finish(captures.octets)
        self._index.begins = captures.begins
        yield from placed.take()
        self._report = report_of([part_of(one.analyzer, self._index, captures)], self._index)

    @property
    def report(self) -> Report:
        """The report without FPDUs; raises RuntimeError before the last FPDU has been taken."""
        if self._report is None:
            raise RuntimeError("the capture has not been read to its end")
        return self._report


def _steps(reading: Iterator[object]) -> Iterator[None]:
    """Take the steps of a reading one by one: only while one is taken does the interpreter look seldom for cycles."""
    while True:
        with looking_seldom():
            if next(reading, reading) is reading:
                return
        yield


def iter_fpdus(
    capture: Query | Asked,
    *,
    selection: Selection = EVERYTHING,
    assumptions: Assumptions = NOTHING,
    limits: Limits = DEFAULT_LIMITS,
    joining: Joining = "auto",
    esp: Associations | str | os.PathLike[str] | None = None,
    udp_ports: Mapping[int, str] | None = None,
) -> Iterator[FPDURecord]:
    """Yield the FPDUs of a capture, or of several as one, in the order of placement.

    Memory is bounded, whatever the size of the capture. A record says what is known when it is yielded:
    ``delivered_frame`` is None if it is delivered later, and an earlier bad CRC that shows only later is not in
    ``after_error`` yet. What is found late (an FPDU with a bad CRC, one that had to be searched for, those of a
    connection whose startup frames were not captured) comes in order if its frame is among the last 4 MiB of the
    capture, else when it is found. While the capture is read, not between two FPDUs, the threshold of Python's
    collector is raised, as :func:`analyze` does.

    Args:
        capture: As :func:`analyze` takes it.
        selection: What is examined.
        assumptions: What cannot be known from the capture.
        limits: How much is held back.
        joining: As :func:`analyze` takes it.
        esp: As :func:`analyze` takes it.
        udp_ports: As :func:`analyze` takes it.

    Raises:
        CaptureError: Nothing of a capture can be read.
    """
    return iter(PlacedFPDUs(query_of(capture, selection, assumptions, limits, joining, esp, udp_ports)))
