"""What one frame of the capture carried of an MPA connection: ``scapy-mpa show --frame``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scapy_mpa.framing.profiles import clause
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.fields import Field
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.report.items import Frame, Item, ItemPart, Shown
from scapy_mpa.report.labels import StreamReading, fpdu_fields, unknown_fields
from scapy_mpa.report.model import Report
from scapy_mpa.report.show import (
    NotFound,
    NumberedFPDU,
    findings_in,
    fpdu_item,
    places,
    startup_item,
    startup_of,
    stream_of,
)
from scapy_mpa.report.why import Neighbour, Why, fpdu_name
from scapy_mpa.values.records import FPDURecord
from scapy_mpa.values.segment import (
    SYN,
    Segment,
    checksum_is_wrong,
    endpoints,
)
from scapy_mpa.values.words import plural


def show_frame(report: Report, frame: int) -> Shown:
    """Return everything that the TCP segment of a frame carried of its MPA connection, in the order of its octets.

    Raises as :func:`show_fpdu` does.
    """
    if not report.connections:
        raise NotFound("there is no MPA connection")
    segments = report.connections[0].index.segments([frame])
    if not segments:
        raise NotFound(f"frame {frame} holds no TCP segment, or a fragment of one that another frame completes")
    (seg,) = segments
    found = _half_of(report, seg)
    if found is None:
        raise NotFound("frame {}: {} > {} is not an MPA connection".format(frame, *endpoints(seg.key)))
    connection, direction = found
    half = connection.half(direction)
    begin, size = seg.seq + bool(seg.flags & SYN), seg.end - seg.start
    items: list[Item] = []
    startup = startup_of(connection, direction)
    if startup is not None and _overlap(begin, size, startup[1], startup[0].wire_length):
        items.append(_in_frame(startup_item(connection, direction), seg))
    before = None
    for place in _overlapping(half, seg.frame, begin, size):
        if place.is_inside:
            items.append(_in_frame(fpdu_item(connection, direction, place), seg))
        else:
            before = place
    items += _unlocated(connection, direction, seg, items, before)
    return Shown(sorted(items, key=lambda item: item.part.at if item.part else 0), Frame(seg, connection, direction))


def _overlapping(half: HalfConnection, frame: int, begin: int, size: int) -> list[NumberedFPDU]:
    """The FPDUs that share octets with a segment, after the last one that ends before it (``is_inside`` is False).

    Sequence numbers repeat after 4 GiB: of several places in the stream the one counts whose frames are nearest.
    """
    #: By where the segment would begin, the FPDUs that it overlaps there, and the last one before.
    inside: dict[int, list[NumberedFPDU]] = {}
    before: dict[int, NumberedFPDU] = {}
    for place in places(half):
        distance = seq_diff(place.record.seq, begin)
        start = place.offset - distance
        if distance + place.record.wire_length <= 0:
            before[start] = place
        elif distance < size:
            inside.setdefault(start, []).append(place)

    def how_far(start: int) -> int:
        there = [*inside.get(start, ()), *([before[start]] if start in before else [])]
        return min(_distance(place.record, frame) for place in there)

    start = min((*inside, *before), key=how_far, default=0)
    last = [before[start]._replace(is_inside=False)] if start in before else []
    return [*last, *inside.get(start, ())]


def _distance(record: FPDURecord, frame: int) -> int:
    return 0 if frame in record.frames else min(abs(frame - brought) for brought in record.frames) + 1


# --- frames ---


def _half_of(report: Report, seg: Segment) -> tuple[Connection, Role] | None:
    """The half connection of a segment: of several on the same addresses and ports the one of its time."""
    there = [
        (connection, direction)
        for connection in report.connections
        for direction in ROLES
        if connection.half(direction).key == seg.key and not connection.is_foreign(seg)
    ]
    begun = [found for found in there if _first_frame(found[0]) <= seg.frame]
    return begun[-1] if begun else there[0] if there else None


def _first_frame(connection: Connection) -> int:
    startup = [frame for frame in (connection.request_frame, connection.reply_frame) if frame is not None]
    if startup:
        return min(startup)
    halves = connection.initiator, connection.responder
    return min((record.frames[0] for half in halves for record in [next(iter(half.fpdus), None)] if record), default=0)


def _overlap(seq: int, size: int, other: int, length: int) -> bool:
    return (other - seq & SEQ_MASK) < size or (size > 0 and (seq - other & SEQ_MASK) < length)


def _in_frame(item: Item, seg: Segment) -> Item:
    """Return the item with what a segment carried of it."""
    begin, size = seg.seq + bool(seg.flags & SYN), seg.end - seg.start
    start = seq_diff(item.seq, begin)
    at, end = max(0, start), min(size, start + len(item.octets))
    first, last = at - start, end - start
    own = ((max(piece.first, first), min(piece.end, last)) for piece in item.pieces if piece.frame == seg.frame)
    brought = bytes(seg.buffer[seg.start + at : seg.start + end])
    differs = brought != item.octets[first:last]
    new = tuple(piece for piece in own if piece[0] < piece[1])
    return replace(item, part=ItemPart(first, last, at, new, differs))


def _unlocated(
    connection: Connection, direction: Role, seg: Segment, items: list[Item], before: NumberedFPDU | None
) -> Iterator[Item]:
    """Yield the parts of a segment that belong to no located FPDU or startup frame."""
    begin, size = seg.seq + bool(seg.flags & SYN), seg.end - seg.start
    covered = sorted((item.part.at, item.part.at + item.part.end - item.part.first) for item in items if item.part)
    at = 0
    for first, end in (*covered, (size, size)):
        if at < first:
            octets = bytes(seg.buffer[seg.start + at : seg.start + first])
            item = _octets(connection, direction, seg, begin + at & SEQ_MASK, octets, items, before)
            yield replace(item, part=ItemPart(0, len(octets), at, ((0, len(octets)),)))
        at = max(at, end)


def _octets(
    connection: Connection,
    direction: Role,
    seg: Segment,
    seq: int,
    octets: bytes,
    items: list[Item],
    before: NumberedFPDU | None,
) -> Item:
    half = connection.half(direction)
    stream = stream_of(connection, half)
    startup = startup_of(connection, direction)
    fields = unknown_fields(octets, seq, stream._replace(seq_start=None))
    last = _last_before(seq, items, before)
    distance = None if last is None else seq - last.record.seq - last.record.wire_length & SEQ_MASK
    rule = clause(connection.profile.name, "receiver")
    if startup is not None and seq_diff(startup[1], seq) >= 0:
        sentence = f"They come before the {'MPA Request' if direction == 'initiator' else 'MPA Reply'}: streaming data."
        rule = clause(connection.profile.name, "startup-frame")
    elif half.seq_start is None:
        sentence = "Full Operation was not entered, so there are no FPDUs."
        rule = clause(connection.profile.name, "startup-rules")
    elif not distance and (last is not None or seq == half.seq_start):
        reason = (
            f"by the length of {fpdu_name(last.record, last.number)} before it" if last is not None else "the first one"
        )
        lacks = "not all of it was captured"
        if checksum_is_wrong(seg):
            lacks = "the TCP checksum of this frame is wrong"
        elif seg.end - seg.start < seg.length:
            lacks = "the capture cut this frame"
        sentence = f"An FPDU begins here, {reason}; but {lacks}."
        if last is not None and last.record.crc == "bad":
            sentence = f"An FPDU may begin here, {reason}; but its CRC would be bad, and nothing else supports it."
        fields = _supposed(octets, seq, stream)
    else:
        where = ""
        if last is not None and distance is not None:
            where = f", {plural(distance, 'octet')} behind the end of {fpdu_name(last.record, last.number)}"
        sentence = (
            f"No FPDU was located here{where}: none that holds these octets was captured in full, or none was found."
        )
        fields = unknown_fields(octets, seq, stream)
    findings = findings_in(connection, direction, seq, len(octets), {seg.frame}, tuple(fields))
    return Item("octets", connection, direction, seq, octets, (), tuple(fields), Why([sentence], rule), findings)


def _supposed(octets: bytes, seq: int, stream: StreamReading) -> list[Field]:
    """Return the fields of an FPDU that may begin here, and what follows it; none of them is an error."""
    fields = [field._replace(severity=None) for field in fpdu_fields(octets, seq, stream)]
    end = fields[-1].offset + fields[-1].length
    if end < len(octets):
        rest = unknown_fields(octets[end:], seq + end & SEQ_MASK, stream)
        fields += [field._replace(offset=field.offset + end) for field in rest]
    return fields


def _last_before(seq: int, items: list[Item], before: NumberedFPDU | None) -> Neighbour | None:
    """The FPDU that ends last before a sequence number."""
    ends = [Neighbour(item.number, item.record) for item in items if item.record is not None]
    if before is not None:
        ends.append(Neighbour(before.number, before.record))

    def behind(found: Neighbour) -> int:
        return seq_diff(seq, found.record.seq + found.record.wire_length)

    ends = [found for found in ends if behind(found) >= 0]
    return min(ends, key=behind, default=None)
