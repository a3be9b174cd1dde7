"""One line per frame, as people paste them into reports: when, who, and what the frame means to MPA.

The capture is read twice, as for comments: once to learn what there is to say about each frame, once to say it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from scapy_mpa.capture.files import Captures
from scapy_mpa.framing.ddp import (
    TAGGED_HEADER_LENGTH,
    UNTAGGED_HEADER_LENGTH,
    TaggedHeader,
    UntaggedHeader,
    decode_ddp,
)
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import NOT_NEGOTIATED, StartupFrame
from scapy_mpa.reading.query import Query
from scapy_mpa.report.connection import Connection
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.segment import ACK_FLAG, FIN, PSH, RST, SYN, Segment, endpoints
from scapy_mpa.values.startup import startup_fields
from scapy_mpa.values.words import plural
from scapy_mpa.wireshark.comments import finding
from scapy_mpa.wireshark.notes import CaptureNotes, FrameNotes, HalfNotes, NotedFPDU

_SECOND = 1_000_000_000
_FLAGS = ((SYN, "SYN"), (FIN, "FIN"), (RST, "RST"), (PSH, "PSH"), (ACK_FLAG, "ACK"))
_INVALIDATING = frozenset((4, 6))


class FrameLine(NamedTuple):
    """A frame of an MPA connection, and what there is to say about it; ``notes`` is None if it is nothing."""

    segment: Segment
    connection: Connection
    direction: Role
    notes: FrameNotes | None

    @property
    def half(self) -> HalfNotes | None:
        """What the frame means to the direction that sent it."""
        if self.notes is None:
            return None
        whose = self.connection.number, self.direction
        halves = self.notes.halves
        return next((one for one in halves if (one.half.connection, one.half.direction) == whose), None)

    def text(self) -> str:
        """The line: frame, time of day (UTC), addresses, flags, octets of payload; in brackets what it is to MPA."""
        seg = self.segment
        source, destination = endpoints(seg.key)
        clock = datetime.fromtimestamp(seg.time // _SECOND, timezone.utc).strftime("%H:%M:%S")
        flags = " ".join(name for bit, name in _FLAGS if seg.flags & bit)
        said = f"{seg.frame} {clock}.{seg.time % _SECOND // 1000:06} {source} > {destination} {flags}"
        said += f" seq {seg.seq} len {seg.length}"
        return said + "".join(f" [mpa: {one}]" for one in self.said())

    def said(self) -> Iterator[str]:
        """Yield what the frame is to MPA."""
        if self.notes is None:
            return
        half = self.half
        if half is not None:
            startup = self.startup
            if startup is not None:
                yield startup_words(startup)
            yield from (fpdu_words(one, self.segment.frame) for one in half.fpdus)
            if half.fpdu_count > len(half.fpdus):
                yield f"{plural(half.fpdu_count - len(half.fpdus), 'FPDU')} more"
        yield from map(finding, self.notes.findings)
        life = self.connection.lifecycle
        if self.connection in self.notes.lives and self.segment.frame == (life.ended_frame or life.last[0]):
            yield self.connection.verdict

    @property
    def startup(self) -> StartupFrame | None:
        """The startup frame that the frame completes, None if it completes none."""
        half = self.half
        return half.half.startup if half is not None and half.startup else None

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON lines."""
        seg, half, startup = self.segment, self.half, self.startup
        source, destination = endpoints(seg.key)
        dated = self.notes.findings if self.notes is not None else []
        return {
            "frame": seg.frame,
            "time": seg.time / _SECOND,
            "connection": self.connection.number,
            "direction": self.direction,
            "sender": source,
            "receiver": destination,
            "flags": [name for bit, name in _FLAGS if seg.flags & bit],
            "seq": seg.seq,
            "ack": seg.ack,
            "octets": seg.length,
            "startup": None if startup is None else {"kind": startup.kind, **startup_fields(startup)},
            "fpdus": [fpdu_as_dict(one) for one in half.fpdus] if half is not None else [],
            "fpdu_count": half.fpdu_count if half is not None else 0,
            "findings": [
                {
                    "rule": one.rule.id,
                    "severity": one.rule.severity,
                    "direction": one.direction,
                    "count": one.times,
                    "detail": one.detail,
                }
                for one in dated
            ],
        }


def frame_lines(
    query: Query, notes: CaptureNotes, *, directions: Sequence[Role] = ROLES, acks: bool = False
) -> Iterator[FrameLine]:
    """Yield the frames of the connections that are left in the report of ``notes``, in the order of the capture.

    Those that carry nothing but an acknowledgement come if ``acks`` is set, or if there is something to say about them.
    Raises :class:`~scapy_mpa.errors.CaptureError` if a capture cannot be read again.
    """
    halves: dict[bytes, list[tuple[Connection, Role]]] = {}
    for connection in notes.report.connections:
        for direction in ROLES:
            halves.setdefault(connection.half(direction).key, []).append((connection, direction))
    there: Iterator[FrameNotes] = iter(notes)
    waiting = next(there, None)
    with Captures(query.sources, limits=query.limits) as captures:
        for segments in captures.batches():
            for seg in query.selection.of(segments):
                found = _half_of(halves.get(seg.key, ()), seg)
                while waiting is not None and waiting.frame < seg.frame:
                    waiting = next(there, None)
                said = waiting if waiting is not None and waiting.frame == seg.frame else None
                if found is None or found[1] not in directions:
                    continue
                if said is not None or acks or seg.length or seg.flags & (SYN | FIN | RST):
                    yield FrameLine(seg, *found, said)


def _half_of(halves: Sequence[tuple[Connection, Role]], seg: Segment) -> tuple[Connection, Role] | None:
    """The half connection of a segment: of several on the same addresses and ports the one of its time."""
    for connection, direction in reversed(halves):
        if connection.lifecycle.first[0] <= seg.frame and not connection.is_foreign(seg):
            return connection, direction
    return None


# --- what is in the brackets ---


def startup_words(startup: StartupFrame) -> str:
    """A startup frame: its flags, its revision, what it negotiates."""
    name = "Request" if startup.kind == "request" else "Reply"
    said = f"{name} M{startup.m} C{startup.c} rev {startup.rev} pd {startup.pd_length}"
    if startup.r:
        said += " rejected" if startup.kind == "reply" else " R1"
    data = startup.enhanced
    if data is None:
        return said
    said += f" enhanced ird {_depth(data.ird)} ord {_depth(data.ord)}"
    types = [name for name, flag in (("send", data.b), ("write", data.c), ("read", data.d)) if flag]
    return f"{said} peer-to-peer {' '.join(types) or 'no'} RTR" if data.a else said


def _depth(depth: int) -> str:
    return "not negotiated" if depth == NOT_NEGOTIATED else str(depth)


def fpdu_words(noted: NotedFPDU, frame: int) -> str:
    """An FPDU: its message, where that goes, octets of payload; its CRC and its frame where they are remarkable."""
    record, header = noted.record, decode_ddp(noted.header)
    said = record.opcode or "FPDU"
    if isinstance(header, TaggedHeader):
        octets = record.ulpdu_length - TAGGED_HEADER_LENGTH
        said += f" STag {header.stag:#010x} TO {header.to:#x} {octets} octets"
    elif header is not None:
        place = f" MO {header.mo}" if header.mo else ""
        said += f" MSN {header.msn}{place} {record.ulpdu_length - UNTAGGED_HEADER_LENGTH} octets"
    else:
        said += f" ULPDU {record.ulpdu_length} octets"
    if header is not None and not header.last:
        said += " (more)"
    if isinstance(header, UntaggedHeader) and header.opcode in _INVALIDATING:
        said += f", invalidates STag {header.rsvdulp:#010x}"
    if noted.upper:
        said += f", {noted.upper}"
    if record.markers:
        said += f", {plural(record.markers, 'Marker')}"
    if record.crc in ("bad", "cut"):
        said += f", CRC {record.crc}"
    if record.placed_frame is None:
        return f"{said}, never placed"
    return said if record.placed_frame == frame else f"{said}, part; placed at frame {record.placed_frame}"


def fpdu_as_dict(noted: NotedFPDU) -> dict[str, Any]:
    """The keys of an FPDU in the JSON lines."""
    record, header = noted.record, decode_ddp(noted.header)
    tagged = header if isinstance(header, TaggedHeader) else None
    untagged = header if isinstance(header, UntaggedHeader) else None
    return {
        "seq": record.seq,
        "opcode": record.opcode,
        "ulpdu_length": record.ulpdu_length,
        "markers": record.markers,
        "crc": record.crc,
        "placed_frame": record.placed_frame,
        "stag": tagged.stag if tagged is not None else None,
        "to": tagged.to if tagged is not None else None,
        "qn": untagged.qn if untagged is not None else None,
        "msn": untagged.msn if untagged is not None else None,
        "mo": untagged.mo if untagged is not None else None,
        "last": header.last if header is not None else None,
        "ulp": noted.upper or None,
    }
