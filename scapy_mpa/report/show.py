"""Finding what ``scapy-mpa show`` is asked for: an FPDU by its number, or what holds a sequence number.

:mod:`scapy_mpa.report.frame` finds what a frame of the capture brought.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from scapy_mpa.capture.index import FramePiece, captured_end
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.profiles import clause
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import StartupFrame, startup_frame_problems
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.context import is_right
from scapy_mpa.report.deviating import deviating_fields
from scapy_mpa.report.fields import Field
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.report.items import Item, Shown
from scapy_mpa.report.labels import StreamReading, fpdu_fields, startup_fields, unknown_fields
from scapy_mpa.report.model import Report
from scapy_mpa.report.why import Neighbour, Why, fpdu_name, why_located, why_placed
from scapy_mpa.rules.findings import Finding
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURecord
from scapy_mpa.values.words import plural

#: Frames before the one that completed a startup frame in which the rest of it is looked for.
_STARTUP_FRAMES = 4096
#: What the fields of an FPDU show, by the rule that is broken then: (name, severity) of the field.
_SHOWN_BY = {
    ("CRC", "error"): "crc",
    ("Marker", "error"): "marker-length",
    ("Marker", "warning"): "fpduptr-origin",
    ("ULPDU_Length", "error"): "ulpdu-length-limit",
    ("ULPDU_Length", "warning"): "ulpdu-length-zero",
    ("Terminate control", "warning"): "terminate-layout",
    ("PAD", "warning"): "pad",
}


class NotFound(MPAError):
    """The capture does not hold what was asked for."""


# --- what was asked for ---


def show_fpdu(report: Report, connection: int, direction: Role, number: int) -> Shown:
    """The FPDU with this number, from 0, in the stream of a half connection.

    Raises :class:`NotFound` if there is none, and :class:`~scapy_mpa.errors.CaptureError` as
    :meth:`FPDURecord.octets` does.
    """
    found = [one for one in report.connections if one.number == connection]
    if not found:
        raise NotFound(f"there is no MPA connection {connection}")
    half = found[0].half(direction)
    for place in places(half):
        if place.number == number:
            return Shown([fpdu_item(found[0], direction, place)])
    there = f"its FPDUs are 0 to {len(half.fpdus) - 1}" if half.fpdus else "no FPDU of it was located"
    raise NotFound(f"there is no FPDU {connection}/{direction}/{number}: {there}")


def show_seq(report: Report, seq: int, directions: Sequence[Role] = ROLES) -> Shown:
    """The FPDUs and startup frames that hold a TCP sequence number. Raises as :func:`show_fpdu` does."""
    items: list[Item] = []
    nearest: tuple[int, str] | None = None
    for connection in report.connections:
        for direction in directions:
            startup = startup_of(connection, direction)
            if startup is not None and (seq - startup[1] & SEQ_MASK) < startup[0].wire_length:
                items.append(startup_item(connection, direction))
            for place in places(connection.half(direction)):
                distance = seq - place.record.seq & SEQ_MASK
                if distance < place.record.wire_length:
                    items.append(fpdu_item(connection, direction, place))
                behind = distance - place.record.wire_length
                if 0 <= behind < (nearest[0] if nearest is not None else 1 << 20):
                    nearest = behind, fpdu_name(place.record, place.number)
    if not items:
        hint = f"; {nearest[1]} ends {plural(nearest[0] + 1, 'octet')} before" if nearest is not None else ""
        raise NotFound(f"no FPDU or startup frame that was located holds the sequence number {seq}{hint}")
    return Shown(items)


# --- FPDUs ---


class NumberedFPDU(NamedTuple):
    """An FPDU, its number in the half connection, its offset without wrapping, and the one before it."""

    number: int
    record: FPDURecord
    offset: int
    previous: Neighbour | None
    is_inside: bool = True


def places(half: HalfConnection) -> Iterator[NumberedFPDU]:
    """The FPDUs of a half connection, in the order of the stream."""
    previous: Neighbour | None = None
    offset, seq = 0, half.seq_start or 0
    for number, record in enumerate(half.fpdus):
        offset += record.seq - seq & SEQ_MASK
        seq = record.seq
        yield NumberedFPDU(number, record, offset, previous)
        previous = Neighbour(number, record)


def fpdu_item(connection: Connection, direction: Role, place: NumberedFPDU) -> Item:
    """Return an FPDU with all that is said about it. Raises :class:`~scapy_mpa.errors.CaptureError` if it cannot be
    read again.
    """
    record, half = place.record, connection.half(direction)
    stream = stream_of(connection, half)
    is_cut = record.crc == "cut"
    octets, pieces = connection.index.pieces(
        record.frames, record.seq, record.wire_length, is_right(record), is_cut=is_cut
    )
    beginning = octets[: captured_end(pieces)]
    if half.dialect is not None:
        fields = tuple(deviating_fields(beginning, place.offset, place.number, half.dialect))
    else:
        fields = tuple(fpdu_fields(beginning, record.seq, stream))
    if is_cut:
        fields += tuple(_fields_behind(len(beginning), octets, pieces, record.seq, stream))
    why = why_located(connection, record, place.previous, beginning, pieces, stream)
    placed = f"It was {why_placed(connection, record)}."
    if is_cut:
        placed += " The capture cut it" + (", so its CRC cannot be checked." if connection.crc else ".")
    why = why._replace(placed=placed)
    frames = {*record.frames, *(frame for frame in (record.placed_frame, record.delivered_frame) if frame)}
    return Item(
        "fpdu",
        connection,
        direction,
        record.seq,
        octets,
        tuple(pieces),
        fields,
        why,
        findings_in(connection, direction, record.seq, len(octets), frames, fields),
        record,
        place.number,
    )


def _fields_behind(
    cut_at: int, octets: bytes, pieces: Sequence[FramePiece], seq: int, stream: StreamReading
) -> Iterator[Field]:
    """The fields of what was captured of an FPDU after the first octet that was not: Markers, and others."""
    for piece in pieces:
        if piece.first >= cut_at:
            for field in unknown_fields(octets[piece.first : piece.end], seq + piece.first & SEQ_MASK, stream):
                yield field._replace(offset=field.offset + piece.first, severity=None)


def stream_of(connection: Connection, half: HalfConnection) -> StreamReading:
    """Return what is needed to read octets of a half connection."""
    upper, is_initiator = connection.upper_layer, half is connection.initiator
    read_send = partial(upper.header, is_from_initiator=is_initiator)
    return StreamReading(half.seq_start if half.markers else None, connection.crc, connection.profile, read_send)


def findings_in(
    connection: Connection,
    direction: Role,
    seq: int,
    length: int,
    frames: set[int],
    fields: tuple[Field, ...],
) -> tuple[Finding, ...]:
    """Return the findings in these octets; for a rule broken often only one place is known, so the fields show the
    others.
    """
    broken = {_SHOWN_BY.get((field.name, field.severity or "")) for field in fields}
    found = []
    for finding in connection.findings:
        if finding.direction not in (None, direction):
            continue
        lies_here = finding.frame in frames and (finding.seq - seq & SEQ_MASK) < length
        one_of_many = finding.rule.id in broken and any(
            finding.frame <= frame <= finding.last_frame for frame in frames
        )
        if lies_here or one_of_many:
            found.append(finding)
    return tuple(found)


# --- startup frames ---


def startup_of(connection: Connection, direction: Role) -> tuple[StartupFrame, int, int] | None:
    """The startup frame of a direction, its sequence number, and the frame that completed it."""
    startup, seq, frame = (
        (connection.request, connection.request_seq, connection.request_frame)
        if direction == "initiator"
        else (connection.reply, connection.reply_seq, connection.reply_frame)
    )
    return None if startup is None or seq is None or frame is None else (startup, seq, frame)


def startup_item(connection: Connection, direction: Role) -> Item:
    """Return the startup frame of a direction, which must exist, with all that is said about it."""
    found = startup_of(connection, direction)
    assert found is not None
    startup, seq, frame = found
    octets = startup.encode()
    pieces = tuple(_startup_pieces(connection, direction, seq, len(octets), frame))
    fields = tuple(startup_fields(octets, startup))
    problems = [f"It is invalid: {problem.text}." for problem in startup_frame_problems(startup)]
    why = Why(
        [f"By its Key, 16 octets at sequence {seq}. It was complete at frame {frame}.", *problems],
        clause(connection.profile.name, "startup-frame"),
    )
    frames = {frame, *(piece.frame for piece in pieces)}
    findings = findings_in(connection, direction, seq, len(octets), frames, fields)
    return Item("startup", connection, direction, seq, octets, pieces, fields, why, findings, startup=startup)


def startup_frames(connection: Connection, direction: Role) -> list[int]:
    """Return the frames that carried the startup frame of a direction, as far as they are found; none if there is
    none.
    """
    found = startup_of(connection, direction)
    if found is None:
        return []
    startup, seq, frame = found
    pieces = _startup_pieces(connection, direction, seq, startup.wire_length, frame)
    return sorted({frame, *(piece.frame for piece in pieces)})


def _startup_pieces(connection: Connection, direction: Role, seq: int, length: int, frame: int) -> list[FramePiece]:
    """Return the frames that carried a startup frame: the one that completed it, and as many before it as needed."""
    return connection.index.latest_pieces(frame, _STARTUP_FRAMES, connection.half(direction).key, seq, length)
