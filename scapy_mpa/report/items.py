"""The values that ``scapy-mpa show`` shows: an FPDU, a startup frame, or octets of neither, with all that is said about
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from scapy_mpa.capture.index import FramePiece, take_out
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.fields import Field
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.report.model import Report
from scapy_mpa.report.why import Why, fpdu_name
from scapy_mpa.rules.findings import Finding
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURecord
from scapy_mpa.values.segment import (
    ACK_FLAG,
    FIN,
    RST,
    SYN,
    Segment,
    checksum_is_wrong,
    endpoints,
)

SCHEMA_VERSION = 1


class ItemPart(NamedTuple):
    """The part of an item that a frame carried: its octets [first, end), which begin at ``at`` in the segment.

    ``new`` are the ranges among them that no earlier frame had brought; ``differs`` tells that the others are not the
    octets that were kept.
    """

    first: int
    end: int
    at: int
    new: tuple[tuple[int, int], ...]
    differs: bool = False


@dataclass(frozen=True)
class Item:
    """One thing shown.

    ``octets`` are all of it, zero where the capture cut them; ``pieces`` say which frame first brought which; ``part``
    is what of it the frame asked for brought. ``record`` and ``number`` are an FPDU's, ``startup`` a startup frame's.
    """

    kind: Literal["fpdu", "startup", "octets"]
    connection: Connection
    direction: Role
    seq: int
    octets: bytes
    pieces: tuple[FramePiece, ...]
    fields: tuple[Field, ...]
    why: Why
    findings: tuple[Finding, ...]
    record: FPDURecord | None = None
    number: int = 0
    startup: StartupFrame | None = None
    part: ItemPart | None = None

    @property
    def name(self) -> str:
        """Its name: for an FPDU, as ``--fpdu`` takes it."""
        if self.record is not None:
            return fpdu_name(self.record, self.number)
        if self.startup is not None:
            return f"MPA {'Request' if self.startup.kind == 'request' else 'Reply'}"
        return "octets"

    @property
    def cut(self) -> list[tuple[int, int]]:
        """The ranges of its octets that a snapshot length cut off, ascending."""
        left = [(0, len(self.octets))] if self.record is not None and self.record.crc == "cut" else []
        for piece in self.pieces:
            take_out(left, piece.first, piece.end)
        return left

    @property
    def has_error(self) -> bool:
        """True if something in it is an error."""
        said = (*(field.severity for field in self.fields), *(found.severity for found in self.findings))
        return "error" in said

    @property
    def half(self) -> HalfConnection:
        """The half connection it belongs to."""
        return self.connection.half(self.direction)

    @property
    def ends(self) -> tuple[str, str]:
        """Sender and receiver."""
        return endpoints(self.half.key)

    def layer(self, layer: str) -> dict[str, int | str] | None:
        """The values of a layer, by name; None if there are none."""
        shown = (part for field in self.fields if field.layer == layer and not field.continued for part in field.parts)
        return {part.name: part.value for part in shown} or None

    def as_dict(self) -> dict[str, Any]:
        """The item with the keys of the JSON."""
        why, part = self.why, self.part
        source, destination = self.ends
        marker, previous = why.marker, why.previous
        return {
            "kind": self.kind,
            "connection": self.connection.number,
            "direction": self.direction,
            "sender": source,
            "receiver": destination,
            "profile": self.connection.profile.name,
            "seq": self.seq,
            "length": len(self.octets),
            "number": self.number if self.record is not None else None,
            "fpdu": self.record.as_dict() if self.record is not None else None,
            "startup": self.startup.kind if self.startup is not None else None,
            "pieces": [
                {"frame": piece.frame, "offset": piece.first, "length": piece.end - piece.first}
                for piece in self.pieces
            ],
            "part": None
            if part is None
            else {
                "offset": part.first,
                "length": part.end - part.first,
                "at": part.at,
                "new": [{"offset": first, "length": end - first} for first, end in part.new],
                "differs": part.differs,
            },
            "why": {
                "text": " ".join(why.sentences),
                "placed": why.placed or None,
                "clause": why.clause,
                "previous": None
                if previous is None
                else {
                    "number": previous.number,
                    "seq": previous.record.seq,
                    "wire_length": previous.record.wire_length,
                    "placed_frame": previous.record.placed_frame,
                },
                "marker": None if marker is None else marker._asdict(),
            },
            "findings": [found.as_dict() for found in self.findings],
            "fields": [self._field_as_dict(field) for field in self.fields],
            "ddp": self.layer("DDP"),
            "rdmap": self.layer("RDMAP"),
        }

    def _field_as_dict(self, field: Field) -> dict[str, Any]:
        return {
            "offset": field.offset,
            "seq": self.seq + field.offset & SEQ_MASK,
            "length": field.length,
            "layer": field.layer,
            "name": field.name,
            "value": field.value,
            "label": field.label,
            "continued": field.continued,
            "severity": field.severity,
            "octets": self.octets[field.offset : field.offset + field.length].hex(),
        }


@dataclass(frozen=True)
class Frame:
    """A frame of the capture, and what its segment carried of an MPA connection."""

    segment: Segment
    connection: Connection
    direction: Role

    @property
    def checksum_is_wrong(self) -> bool:
        """True if its TCP checksum shows that the receiver dropped it."""
        return checksum_is_wrong(self.segment)

    @property
    def meanings(self) -> list[str]:
        """What it is to its TCP connection (RFC 9293 §3.5, §3.6), a line each; nothing of one with octets alone."""
        seg, life = self.segment, self.connection.lifecycle
        whose, end = f"the {self.direction.capitalize()}", life.half(self.direction)
        said = []
        if seg.flags & SYN:
            said.append(f"SYN: {whose} {'accepts' if seg.flags & ACK_FLAG else 'opens'} the TCP connection")
        if seg.flags & FIN:
            is_first = end.closed_frame in (None, seg.frame)
            first = ", as the first of both" if life.ended == "fin" and life.ended_frame == seg.frame else ""
            said.append(
                f"FIN: {whose} closes its side{first}" if is_first else f"FIN: {whose} closed its side before this"
            )
        if seg.flags & RST:
            first = (
                f"; the first RST is in frame {life.reset_frame}" if life.reset_frame not in (None, seg.frame) else ""
            )
            said.append(f"RST: {whose} aborts the connection{first}")
        if not said and not seg.length:
            said.append("it only acknowledges")
        if said and seg.frame in (life.ended_frame, life.reset_frame):
            said.append(f"how the connection ended: {self.connection.verdict}")
        return said

    def as_dict(self) -> dict[str, Any]:
        """The frame with the keys of the JSON."""
        seg = self.segment
        return {
            "frame": seg.frame,
            "time": seg.time / 1_000_000_000,
            "connection": self.connection.number,
            "direction": self.direction,
            "seq": seg.seq,
            "length": seg.length,
            "captured": seg.end - seg.start,
            "checksum_is_wrong": self.checksum_is_wrong,
            "meanings": self.meanings,
        }


class Shown(NamedTuple):
    """The items that were found, and the frame, if one was asked for."""

    items: list[Item]
    frame: Frame | None = None

    @property
    def has_error(self) -> bool:
        """True if something in it is an error."""
        return any(item.has_error for item in self.items)

    def as_dict(self, report: Report) -> dict[str, Any]:
        """Return what ``scapy-mpa show --format json`` prints."""
        return {
            "schema": SCHEMA_VERSION,
            "captures": report.captures,
            "frame": self.frame.as_dict() if self.frame is not None else None,
            "items": [item.as_dict() for item in self.items],
        }
