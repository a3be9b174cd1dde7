"""Why an FPDU was located where it was, and when it was placed and delivered, in words (RFC 5044 §4.3, §6, A.3-A.4)."""

from __future__ import annotations

from collections.abc import Sequence

from scapy_mpa.capture.index import FramePiece
from scapy_mpa.framing.markers import MARKER_LENGTH, Origin, check_markers
from scapy_mpa.framing.profiles import clause
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.labels import StreamReading
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURecord
from scapy_mpa.values.words import plural


class NamingMarker(NamedTuple):
    """A Marker that names the start of its FPDU: its sequence number, the frame that brought it, its FPDUPTR, the
    sequence number FPDUPTR leads back to, and what it counts from."""

    seq: int
    frame: int
    fpduptr: int
    points_to: int
    origin: Origin


class Neighbour(NamedTuple):
    """The FPDU before the one that is explained, and its number in the half connection."""

    number: int
    record: FPDURecord


class Why(NamedTuple):
    """Sentences, the clause behind them, what they rest on, and when the FPDU was placed."""

    sentences: list[str]
    clause: str | None
    previous: Neighbour | None = None
    marker: NamingMarker | None = None
    placed: str = ""

    @property
    def text(self) -> str:
        """The sentences, and the clause."""
        return " ".join(self.sentences) + (f" ({self.clause})" if self.clause else "")


def fpdu_name(record: FPDURecord, number: int) -> str:
    """An FPDU as ``--fpdu`` takes it: its number counts from 0 in its half connection."""
    return f"{record.connection}/{record.direction}/{number}"


def why_located(
    connection: Connection,
    record: FPDURecord,
    previous: Neighbour | None,
    octets: bytes,
    pieces: Sequence[FramePiece],
    stream: StreamReading,
) -> Why:
    """Why an FPDU, whose octets and frames these are, was located where it was."""
    if record.deviation is not None:
        return _why_deviating(connection, record, previous)
    marker = _first_to_name(record, octets, pieces, stream)
    profile = connection.profile.name
    if record.located_by == "start":
        return Why([_start(connection, record)], clause(profile, "receiver"), None, marker)
    if record.located_by == "length" and previous is not None:
        return Why([_length(connection, previous, record)], clause(profile, "receiver"), previous, marker)
    no_length = _why_not_by_length(previous, record)
    if record.located_by == "marker" and marker is not None:
        return Why([no_length, _marker(marker)], clause(profile, "markers"), previous, marker)
    sentences = [no_length]
    if stream.seq_start is not None:
        sentences.append("None of its Markers points to this start." if record.markers else "It holds no Marker.")
    confirmed = "its CRC confirms it" if record.crc == "good" else "the FPDUs around it support it"
    sentences.append(f"So its start was found by searching, and {confirmed}; a live receiver could not have done that.")
    return Why(sentences, None, previous, marker)


def _why_deviating(connection: Connection, record: FPDURecord, previous: Neighbour | None) -> Why:
    """The same where the sender deviates, so that a receiver on the wire would have stopped."""
    from scapy_mpa.report.deviating import deviations_in_words

    profile = connection.profile.name
    by = f"Its sender deviates ({deviations_in_words(record.deviation or '')}), so it is read accordingly."
    if record.located_by == "start":
        return Why([_start(connection, record), by], clause(profile, "receiver"))
    if record.located_by == "length" and previous is not None:
        return Why([_length(connection, previous, record), by], clause(profile, "receiver"), previous)
    no_length = _why_not_by_length(previous, record)
    if record.located_by == "marker":
        return Why([no_length, "A Marker in it points to its start.", by], clause(profile, "markers"), previous)
    return Why([no_length, "So its start was found by searching.", by], None, previous)


def why_placed(connection: Connection, record: FPDURecord) -> str:
    """Return a sentence that says when an FPDU was complete, placed and delivered."""
    startup = [] if connection.inferred else [connection.request_frame or 0, connection.reply_frame or 0]
    complete = max(record.frames[-1], *startup, 0)
    placed, delivered = record.placed_frame, record.delivered_frame
    if placed is None:
        return f"complete at frame {complete}; neither placed nor delivered, because its CRC is bad"
    if connection.lifecycle.came_after_reset(placed):
        after = f"after the RST of frame {connection.lifecycle.reset_frame}"
        return f"complete at frame {complete}, {after}: its receiver was gone, so nobody placed it"
    said = f"complete and placed at frame {placed}"
    if placed > complete:
        said = f"complete at frame {complete}, but placed only at frame {placed}, when the FPDU before it was placed"
    if delivered is None:
        return f"{said}, never delivered: octets before it were not captured"
    if delivered <= placed:
        return f"complete, placed and delivered at frame {placed}" if placed == complete else f"{said}, delivered then"
    late = _milliseconds(connection, record, delivered)
    return f"{said}, delivered at frame {delivered}{late}, when the octets before it had arrived"


def _milliseconds(connection: Connection, record: FPDURecord, delivered: int) -> str:
    found = connection.index.segments([delivered])
    return f" ({(found[0].time - record.time_ns) / 1e6:.3f} ms later)" if found else ""


def _first_to_name(
    record: FPDURecord, octets: bytes, pieces: Sequence[FramePiece], stream: StreamReading
) -> NamingMarker | None:
    """The Marker that names the start of an FPDU and was captured first."""
    phase = stream.phase(record.seq)
    if phase is None or not record.markers:
        return None
    origin = stream.profile.fpduptr_origin
    other: Origin = "first-octet" if origin == "header" else "header"
    found: list[NamingMarker] = []
    for check in check_markers(octets, phase, origin):
        if check.verdict == "bad":
            continue
        at = check.marker_offset - phase
        frame = max((piece.frame for piece in pieces if piece.first < at + MARKER_LENGTH and at < piece.end), default=0)
        seq, fpduptr = record.seq + at & SEQ_MASK, check.fpduptr & ~3
        counted = origin if check.verdict == "good" else other
        found.append(NamingMarker(seq, frame, fpduptr, seq - fpduptr & SEQ_MASK, counted))
    return min(found, key=lambda marker: marker.frame, default=None)


def _start(connection: Connection, record: FPDURecord) -> str:
    frame = connection.request_frame if record.direction == "initiator" else connection.reply_frame
    seq = connection.request_seq if record.direction == "initiator" else connection.reply_seq
    kind = "MPA Request" if record.direction == "initiator" else "MPA Reply"
    if frame is None or seq is None:
        return "By the start: Full Operation of this direction begins here, as far as could be inferred."
    return (
        f"By the start: Full Operation of this direction begins here, right after the {kind} (sequence {seq}, frame "
        f"{frame}), and so does the first FPDU."
    )


def _length(connection: Connection, previous: Neighbour, record: FPDURecord) -> str:
    number, before = previous
    frame = before.placed_frame
    was = "complete" if frame is not None and connection.lifecycle.came_after_reset(frame) else "placed"
    markers = f" and {plural(before.markers, 'Marker')}" if before.markers else ""
    return (
        f"By length: the FPDU before it, {fpdu_name(before, number)}, was {was} at frame {frame} and "
        f"ends where this one begins: {before.seq} + {before.wire_length} octets (ULPDU_Length {before.ulpdu_length}, "
        f"with PAD, CRC{markers}) = {record.seq}."
    )


def _why_not_by_length(previous: Neighbour | None, record: FPDURecord) -> str:
    if previous is None:
        return "No FPDU before it was captured, so no length leads to it."
    number, before = previous
    distance = record.seq - before.seq - before.wire_length & SEQ_MASK
    name = fpdu_name(before, number)
    if distance:
        return (
            f"{distance} octets between it and the FPDU before it, {name}, hold no located FPDU: no length leads to it."
        )
    if before.placed_frame is None:
        return f"The FPDU before it, {name}, has a bad CRC: its length proves nothing."
    return f"The FPDU before it, {name}, was placed only at frame {before.placed_frame}: its length came too late."


def _marker(marker: NamingMarker) -> str:
    said = f"By Marker: the Marker at sequence {marker.seq} (frame {marker.frame}) has FPDUPTR {marker.fpduptr}"
    if not marker.fpduptr:
        return f"{said}: an FPDU begins with it."
    what = "its ULPDU_Length" if marker.origin == "header" else "its first octet, from which the drafts count"
    return f"{said}: that many octets earlier, at sequence {marker.points_to}, is {what}."
