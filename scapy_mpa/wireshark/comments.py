"""The comment on a frame, out of what there is to say about it and the segment that it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from scapy_mpa.framing.markers import MARKER_LENGTH, expected_fpduptr, marker_positions
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.labels import StreamReading
from scapy_mpa.report.lifecycle import lifecycle_line
from scapy_mpa.values.records import FPDURecord
from scapy_mpa.values.segment import SYN, Segment
from scapy_mpa.values.words import plural
from scapy_mpa.wireshark.notes import MOST_TOLD, Dated, FrameNotes, HalfNotes, NotedHalf

#: What every line begins with, so that Wireshark's filter ``frame.comment contains "mpa"`` finds it.
_PREFIX = "mpa"
#: How a line of ours continues: a connection, or the severity of a finding.
_OURS = re.compile(rf"{_PREFIX} (#\d+( initiator| responder)?: |(error|warning|note) )")
ByteOrder: TypeAlias = Literal["big", "little"]
_LOCATED = {
    "start": "first FPDU, located by the start",
    "length": "located by length",
    "marker": "located by Marker",
    "scan": "located by searching",
}
#: This many octets of the detail of a finding are printed: it may quote what was captured.
_LONGEST_DETAIL = 400


def comment(notes: FrameNotes, seg: Segment | None, *, so_far: bool = False) -> str:
    """A line for each thing there is to say; ``seg`` is the TCP segment of the frame, None if it has none.

    ``so_far``: what follows the frame may not be known.
    """
    lines = [line for half in notes.halves for line in _half(half, notes.frame, seg, so_far=so_far)]
    lines += [_lifecycle(connection, notes.frame) for connection in notes.lives]
    lines += [finding(dated) for dated in notes.findings]
    return ours(lines)


def ours(lines: Iterable[str]) -> str:
    """Lines as those of a comment of ours."""
    return "\n".join(f"{_PREFIX} {line}" for line in lines)


def is_ours(text: str) -> bool:
    """Return True if a comment was written by :func:`comment`: annotating a capture again replaces it."""
    return all(_OURS.match(line) for line in text.split("\n"))


def _half(notes: HalfNotes, frame: int, seg: Segment | None, *, so_far: bool) -> Iterator[str]:
    half = notes.half
    name = f"#{half.connection} {half.direction}"
    own = seg if seg is not None and seg.key == half.key else None
    if notes.startup:
        yield f"{name}: {_startup(half.startup) if half.startup is not None else 'startup frame'}"
    delivered = {delivery.seq: delivery.delivered for delivery in notes.deliveries if delivery.placed == frame}
    for record, *_ in notes.fpdus:
        yield f"{name}: {_fpdu(half, record, frame, own, delivered.get(record.seq), so_far=so_far)}"
    if notes.fpdu_count > len(notes.fpdus):
        yield f"{name}: {plural(notes.fpdu_count - len(notes.fpdus), 'FPDU')} more"
    if own is not None and notes.fpdus:
        yield from (f"{name}: {line}" for line in _markers(notes, own))
    late = [delivery for delivery in notes.deliveries if delivery.delivered == frame]
    if late:
        told = ", ".join(f"seq {delivery.seq} (placed at frame {delivery.placed})" for delivery in late)
        more = notes.delivery_count - len(notes.deliveries)
        yield f"{name}: delivers what was placed before: {told}" + (f" and {more} more" if more else "")


def _lifecycle(connection: Connection, frame: int) -> str:
    """Return the duration at the first frame, and what became of the connection at the frame that ended it, or the
    last.
    """
    life = connection.lifecycle
    if frame == (life.ended_frame or life.last[0]):
        return f"#{connection.number}: {connection.verdict}"
    return f"#{connection.number}: begins here: {lifecycle_line(connection, connection.upper_layer.protocol)}"


def _startup(startup: StartupFrame) -> str:
    flags = " ".join(f"{name} {value}" for name, value in zip("MCRS", startup[1:5], strict=True))
    kind = "Request" if startup.kind == "request" else "Reply"
    said = f"MPA {kind} complete: {flags}, Rev {startup.rev}, PD_Length {startup.pd_length}"
    data = startup.enhanced
    return said if data is None else f"{said}, IRD {data.ird}, ORD {data.ord}"


def _fpdu(
    half: NotedHalf, record: FPDURecord, frame: int, seg: Segment | None, delivered: int | None, *, so_far: bool
) -> str:
    markers = f", {plural(record.markers, 'Marker')}" if record.markers else ""
    deviating = ", deviating" if record.deviation is not None else ""
    what = f"FPDU seq {record.seq} ({record.opcode or 'no message'}, ULPDU {record.ulpdu_length}{markers}{deviating})"
    said = f"{what} {_part(record, seg)}; {_LOCATED[record.located_by]}, CRC {record.crc}"
    if record.placed_frame is None:
        return f"{said}, never placed"
    if half.reset_frame is not None and record.placed_frame > half.reset_frame:
        return f"{said}, after the RST of frame {half.reset_frame}: nobody placed it"
    if record.placed_frame != frame:
        return f"{said}, placed at frame {record.placed_frame}"
    if record.delivered_frame is not None or delivered is not None:
        when = delivered if delivered is not None else record.delivered_frame
        return (
            f"{said}, placed and delivered here" if when == frame else f"{said}, placed here, delivered at frame {when}"
        )
    return f"{said}, placed here, not delivered{' so far' if so_far else ''}: octets before it are missing"


def _part(record: FPDURecord, seg: Segment | None) -> str:
    """Return which part of an FPDU is in a segment."""
    if seg is None:
        return "is complete"
    start = seq_diff(record.seq, _first(seg))
    end, size = start + record.wire_length, seg.length
    if end <= 0 or start >= size:
        return "is complete"
    if start >= 0:
        return "begins and ends" if end <= size else "begins"
    return "ends" if end <= size else "goes on"


def _markers(notes: HalfNotes, seg: Segment) -> Iterator[str]:
    """The Markers of the segment that stand in FPDUs that were located."""
    half = notes.half
    if not half.markers:
        return
    stream = StreamReading(half.seq_start, half.crc, half.profile)
    begin, size = _first(seg), seg.end - seg.start
    order: ByteOrder = half.dialect.fpduptr_order if half.dialect is not None else "big"
    told = 0
    for record, deviating, *_ in notes.fpdus:
        start = seq_diff(record.seq, begin)
        for position, expected in _expected(record, deviating, stream):
            at = start + position
            if at < 0 or at + MARKER_LENGTH > size:
                continue
            told += 1
            if told > MOST_TOLD:
                continue
            octets = bytes(seg.buffer[seg.start + at : seg.start + at + MARKER_LENGTH])
            fpduptr = int.from_bytes(octets[2:], order)
            target = f"back to seq {begin + at - (fpduptr & ~3) & SEQ_MASK}" if fpduptr & ~3 else "an FPDU begins here"
            said = f"Marker seq {begin + at & SEQ_MASK}, FPDUPTR {fpduptr}: {target}"
            if all(fpduptr & ~3 != one & ~3 for one in expected):
                said += f", expected {expected[0]}"
            yield said
    if told > MOST_TOLD:
        yield f"{plural(told - MOST_TOLD, 'Marker')} more"


def _expected(
    record: FPDURecord, deviating: tuple[int, ...] | None, stream: StreamReading
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield at which octets of an FPDU its Markers stand, and what FPDUPTR may be there, the likeliest first.

    ``deviating`` says where, if its sender deviates: then it may count from either origin.
    """
    if deviating is not None:
        header = record.header_seq - record.seq & SEQ_MASK
        for at in deviating:
            yield at, (max(0, at - header), at)
        return
    phase = stream.phase(record.seq)
    if phase is not None:
        origin = stream.profile.fpduptr_origin
        for position in marker_positions(phase, phase + record.wire_length):
            yield position - phase, (expected_fpduptr(position, phase, origin),)


def _first(seg: Segment) -> int:
    """The sequence number of the first octet: a SYN takes the one before (RFC 9293 §3.4)."""
    return seg.seq + bool(seg.flags & SYN) & SEQ_MASK


def finding(dated: Dated) -> str:
    """A finding in a line: severity, rule, who broke it, and what was seen."""
    detail = dated.detail if len(dated.detail) <= _LONGEST_DETAIL else f"{dated.detail[:_LONGEST_DETAIL]}..."
    who = f" {dated.direction}" if dated.direction is not None else ""
    times = f" ({dated.times} times)" if dated.times > 1 else ""
    return f"{dated.rule.severity} {dated.rule.id}{who}{times}: {detail}"
