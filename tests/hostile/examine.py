"""What must hold for any octets that are given to the analysis.

:func:`examine` reads a capture as ``analyze`` and as ``fpdus`` do, prints both in every form, and compares. It raises
:class:`Violation` for what must not be, and lets every exception through that is no ``CaptureError``.
"""

from __future__ import annotations

import gc
import io
import json
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from time import process_time
from typing import Any, NamedTuple

from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.crc import crc32c
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff
from scapy_mpa.reading.analysis import PlacedFPDUs, analyze
from scapy_mpa.reading.query import query_of
from scapy_mpa.report.fpdus import FORMATS
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.report.model import Report
from scapy_mpa.report.text import report_lines
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.records import FPDURecord

#: Seconds of CPU time for each octet of a capture, and octets that every capture may count as.
SECONDS_AN_OCTET, FEWEST_OCTETS = 1 / 100_000, 2_000
#: Octets of memory for a capture (its size, and what does not depend on it): ten thousand small segments out of order.
MEMORY_AN_OCTET, MEMORY = 64, 4 << 20

#: Limits that captures of a few packets meet.
TIGHT = Limits(
    held_octets=3000,
    held_segments=8,
    connections=2,
    mpa_connections=2,
    findings=4,
    datagrams=2,
    fragment_octets=2000,
)

#: With a limit for all connections together.
TIGHT_IN_ALL = TIGHT._replace(total_octets=4000)


class Violation(AssertionError):
    """Something that must hold for every capture does not hold."""


class Examined(NamedTuple):
    """What came of a capture: CPU seconds of the slower pass, packets, connections, FPDUs; whether it was refused; what
    senders are said to do wrong."""

    seconds: float
    packets: int = 0
    connections: int = 0
    fpdus: int = 0
    refused: bool = False
    deviations: frozenset[str] = frozenset()


def examine(
    captures: Sequence[bytes],
    *,
    limits: Limits = DEFAULT_LIMITS,
    assumptions: Assumptions = NOTHING,
    octets_again: bool = False,
) -> Examined:
    """Read captures (merged, if several) in both ways; with ``octets_again``, the octets of every FPDU too."""
    began = process_time()
    report = refusal = None
    try:
        report = analyze([io.BytesIO(octets) for octets in captures], limits=limits, assumptions=assumptions)
    except CaptureError as error:
        refusal = str(error)
    between = process_time()
    fpdus = None
    try:
        # What cannot be opened is refused at once, what turns out to hold nothing at its end.
        given = query_of([io.BytesIO(octets) for octets in captures], limits=limits, assumptions=assumptions)
        fpdus = PlacedFPDUs(given)
        placed = list(fpdus)
    except CaptureError as error:
        if str(error) != refusal:
            raise Violation(f"analyze: {refusal}; fpdus: {error}") from error
    seconds = max(between - began, process_time() - between)
    if report is None:
        return Examined(seconds, refused=True)
    if refusal is not None or fpdus is None:
        raise Violation(f"analyze: {refusal}; fpdus did not refuse")
    began = process_time()
    _printed(report)
    seconds += process_time() - began
    halves = [half for connection in report.connections for half in (connection.initiator, connection.responder)]
    for half in halves:
        _check_half(half, report.packets)
    stream = [record for half in halves for record in half.fpdus]
    # Who gives up octets to keep all together below a limit depends on the memory that what is held takes: not the same
    # in both passes.
    is_same = limits.total_octets == DEFAULT_LIMITS.total_octets
    if is_same:
        _check_order(report, placed)
    are_all = _has_all_findings(report) and _has_all_findings(fpdus.report)
    # Verdicts name findings: which ones there is room for depends on when what is held is given up.
    held, usual = (limits.held_octets, limits.held_segments), (DEFAULT_LIMITS.held_octets, DEFAULT_LIMITS.held_segments)
    is_same = is_same and (are_all or held == usual)
    if is_same and _comparable(fpdus.report, are_all) != _comparable(report, are_all):
        raise Violation("the reports differ")
    if octets_again:
        for record in stream:
            _check_octets(record)
    deviations = frozenset(half.deviation for half in halves if half.deviation is not None)
    return Examined(seconds, report.packets, len(report.connections), len(stream), deviations=deviations)


#: What is seen of segments in passing, where nothing is out of order, and what the limits did.
_SEEN_IN_PASSING = {"alignment", "alignment-lost", "alignment-retransmission", "attack-path-mtu", "limit"}


def _comparable(report: Report, are_all: bool) -> dict[str, object]:
    """The report without what may depend on whether segments beyond a hole are looked at, or wait.

    Of several findings of one frame it is chance which are the first, and so which are kept if not ``are_all``. A
    segment that was dropped, its TCP checksum being wrong, may have been the highest for a while.
    """
    told: dict[str, Any] = report.as_dict()
    rules = told["summary"].pop("rules")
    if are_all:
        told["summary"]["rules"] = [one for one in rules if one["rule"] not in _SEEN_IN_PASSING]
    for part in (told, *told["connections"]):
        part["findings"] = [one for one in part["findings"] if are_all and one["rule"] not in _SEEN_IN_PASSING]
        for one in part["findings"]:
            if one["rule"] == "deviating-sender":
                # What put it in doubt first is not the same for who looks at every segment.
                del one["frame"], one["last_frame"], one["time"]
        part["findings"].sort(key=lambda one: (one["rule"], one["direction"] or ""))
    for connection in told["connections"]:
        if not are_all or any(one["rule"] == "tcp-checksum" for one in connection["findings"]):
            for half in connection["halves"].values():
                half.pop("out_of_order_segments")
    return told


def _has_all_findings(report: Report) -> bool:
    """Return True if there were no more findings than are kept."""
    return not any(found.rule.id == "limit" and found.detail.endswith("(findings)") for found in report.findings)


def seconds_allowed(size: int) -> float:
    """CPU seconds that a capture of so many octets may take: a second for 100 kB."""
    return max(size, FEWEST_OCTETS) * SECONDS_AN_OCTET


def memory_taken(captures: Sequence[bytes]) -> int:
    """The most octets of memory that analysing them takes at a time."""
    gc.collect()
    tracemalloc.start()
    try:
        analyze([io.BytesIO(octets) for octets in captures])
    except CaptureError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def memory_allowed(size: int) -> int:
    """Octets of memory that a capture of so many octets may take."""
    return MEMORY + MEMORY_AN_OCTET * size


def _printed(report: Report) -> None:
    """Print all there is, in every form."""
    json.loads(json.dumps(report.as_dict()))
    "\n".join(report_lines(report)).encode()
    for connection in report.connections:
        for half in (connection.initiator, connection.responder):
            for write in FORMATS.values():
                for _ in write(half.fpdus):
                    pass


def _check_half(half: HalfConnection, packets: int) -> None:
    records, counts = list(half.fpdus), half.counts
    told = counts.fpdus, counts.crc_errors, counts.marker_count, counts.ulpdu_octets, counts.placed, counts.delivered
    counted = (
        len(records),
        sum(record.crc == "bad" for record in records),
        sum(record.markers for record in records),
        sum(record.ulpdu_length for record in records),
        sum(record.placed_frame is not None for record in records),
        sum(record.delivered_frame is not None for record in records),
    )
    if told != counted:
        raise Violation(f"counts {told}, records {counted}")
    if not counts.segments >= counts.header_aligned_segments >= counts.fpdu_aligned_segments:
        raise Violation(
            f"{counts.header_aligned_segments} of {counts.segments} segments begin with an FPDU, "
            f"{counts.fpdu_aligned_segments} hold whole ones"
        )
    for record in records:
        _check_record(record, packets)
    for before, record in pairwise(records):
        overlap = (before.seq + before.wire_length - record.seq) & SEQ_MASK
        # A bad one may have any length.
        if 0 < overlap < 1 << 20 and before.crc != "bad":
            raise Violation(f"{before} overlaps {record}")


def _check_record(record: FPDURecord, packets: int) -> None:
    frames, placed, delivered = record.frames, record.placed_frame, record.delivered_frame
    if not frames or list(frames) != sorted(set(frames)) or not 1 <= frames[0] <= frames[-1] <= packets:
        raise Violation(f"frames: {record}")
    if (placed is None) != (record.crc == "bad") or (delivered is not None and placed is None):
        raise Violation(f"placed and bad, or neither: {record}")
    if placed is not None and not frames[-1] <= placed <= (delivered or packets) <= packets:
        raise Violation(f"placed out of time: {record}")
    if record.deviation is None and record.wire_length != (record.ulpdu_length + 9 & ~3) + 4 * record.markers:
        raise Violation(f"lengths: {record}")


def _check_order(report: Report, placed: list[FPDURecord]) -> None:
    """The same FPDUs in both orders, as far as a record that is yielded at once can know.

    What it cannot: what was located before it, later; that a Request still comes, by which connections are numbered.
    """
    for connection in report.connections:
        if any(found.rule.id == "marker-length" for found in connection.findings):
            return  # where Markers and lengths disagree and no CRC decides, what comes later decides who was right
    if not _has_all_findings(report):
        return  # they may disagree somewhere
    stream = [
        record
        for connection in report.connections
        for half in (connection.initiator, connection.responder)
        for record in half.fpdus
    ]
    one, other = (
        Counter(
            record._replace(connection=0, delivered_frame=None, after_error=False, located_by="scan")
            for record in records
        )
        for records in (stream, placed)
    )
    # Where FPDUs overlap that all have a good CRC, those count that lengths lead to, which may come later.
    early = [
        record for record in other - one if record.crc != "good" or not any(_overlap(record, each) for each in stream)
    ]
    if one - other or early:
        raise Violation(f"only in stream order: {[*(one - other)][:3]}; only in order of placement: {early[:3]}")


def _overlap(one: FPDURecord, other: FPDURecord) -> bool:
    """Whether two FPDUs of a direction have an octet in common."""
    ahead = seq_diff(other.seq, one.seq)
    return one.direction == other.direction and -other.wire_length < ahead < one.wire_length


def _check_octets(record: FPDURecord) -> None:
    """The octets are the FPDU that the record tells of, or cannot be had."""
    try:
        octets = record.octets()
    except CaptureError:
        return
    if record.crc == "cut":
        # DESIGN, "Cut octets": it is listed, and its octets are those before the first that was cut off.
        if len(octets) >= record.wire_length:
            raise Violation(f"{len(octets)} octets of an FPDU that was cut: {record}")
        return
    if len(octets) != record.wire_length:
        raise Violation(f"{len(octets)} octets: {record}")
    if record.deviation is not None:
        return  # its CRC is whatever its sender makes of it
    is_good = crc32c(octets[:-4]) == int.from_bytes(octets[-4:], "little")
    if record.crc != "unchecked" and is_good != (record.crc == "good"):
        raise Violation(f"CRC: {record}")
