"""The octets of an FPDU or a startup frame, field by field (RFC 5044 §4 and §7.1.1, RFC 6581 §9).

In: octets, all of them or as many as were captured. Out: :class:`~scapy_mpa.report.fields.Field`, one for each run of
octets that means one thing, in the order of the stream. A Marker divides the field it falls into in two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scapy_mpa.framing.crc import CRC_LENGTH, crc32c, crc_from_field
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import (
    LENGTH_FIELD_LENGTH,
    MARKER_INTERVAL,
    MARKER_LENGTH,
    check_markers,
    marker_count,
    marker_positions,
    pad_length,
    plain_length,
    remove_markers,
)
from scapy_mpa.framing.profiles import Profile
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import (
    ENHANCED_DATA_LENGTH,
    KEY_LENGTH,
    NOT_NEGOTIATED,
    STARTUP_HEADER_LENGTH,
    StartupFrame,
)
from scapy_mpa.report.fields import Field, FieldValue, one
from scapy_mpa.report.ulpdu import ReadSend, ulpdu_fields
from scapy_mpa.rules.table import Severity
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.words import plural


class StreamReading(NamedTuple):
    """What it takes to read octets of a half connection: the sequence number of SeqStart, None without Markers; whether
    CRCs are in use; the specification; what reads the upper layer's header of a Send, None if there is none."""

    seq_start: int | None
    crc: bool
    profile: Profile
    read_send: ReadSend | None = None

    def phase(self, seq: int) -> int | None:
        """The stream offset at a sequence number, modulo the distance of Markers; None without Markers."""
        if self.seq_start is None:
            return None
        phase = (seq - self.seq_start & SEQ_MASK) % MARKER_INTERVAL
        return None if 0 < phase < MARKER_LENGTH else phase  # no FPDU can begin inside a Marker


def fpdu_fields(octets: bytes, seq: int, stream: StreamReading) -> list[Field]:
    """The fields of the FPDU that begins with these octets, at a sequence number; it may be cut anywhere."""
    phase = stream.phase(seq)
    plain = octets if phase is None else remove_markers(octets, phase)
    if len(plain) < LENGTH_FIELD_LENGTH:
        return unknown_fields(octets, seq, stream)
    ulpdu_length = int.from_bytes(plain[:LENGTH_FIELD_LENGTH], "big")
    length = one(0, LENGTH_FIELD_LENGTH, "MPA", "ULPDU_Length", ulpdu_length)
    if ulpdu_length > MAX_ULPDU_LENGTH:
        length = length._replace(note=f"above the limit of {MAX_ULPDU_LENGTH}", severity="error")
    elif not ulpdu_length:
        length = length._replace(note="a ULPDU holds at least one octet", severity="warning")
    ulpdu_end = LENGTH_FIELD_LENGTH + ulpdu_length
    fields = [
        length,
        *_moved(
            ulpdu_fields(plain[LENGTH_FIELD_LENGTH:ulpdu_end], ulpdu_length, stream.read_send), LENGTH_FIELD_LENGTH
        ),
    ]
    end = plain_length(ulpdu_length)
    if pad_length(ulpdu_length):
        pad = plain[ulpdu_end : end - CRC_LENGTH]
        zero = Field(ulpdu_end, pad_length(ulpdu_length), "MPA", "PAD", note="zero")
        fields.append(zero._replace(note="not zero", severity="warning") if any(pad) else zero)
    if len(plain) >= end:
        covered = octets[: _on_wire(end - CRC_LENGTH, phase)]
        fields.append(_crc_field(end - CRC_LENGTH, plain[end - CRC_LENGTH : end], covered, stream.crc))
    else:
        fields.append(Field(end - CRC_LENGTH, CRC_LENGTH, "MPA", "CRC"))
    laid = [piece for field in fields for piece in _laid(field, phase, len(plain))]
    if phase is not None:
        wire_end = _on_wire(end - 1, phase) + 1
        laid += _marker_fields(octets[:wire_end], seq, phase, stream, in_fpdu=True)
    return sorted(laid, key=lambda field: field.offset)


def unknown_fields(octets: bytes, seq: int, stream: StreamReading) -> list[Field]:
    """Octets in which no FPDU was located; where Markers are in use, these are still known."""
    phase = None
    if stream.seq_start is not None:
        phase = (seq - stream.seq_start & SEQ_MASK) % MARKER_INTERVAL
    if phase is None:
        return [Field(0, len(octets), "payload", "octets")]
    fields = list(_marker_fields(octets, seq, phase, stream, in_fpdu=False))
    edges = [0, *(edge for field in fields for edge in (field.offset, field.offset + MARKER_LENGTH)), len(octets)]
    between = [
        Field(first, end - first, "payload", "octets")
        for first, end in zip(edges[::2], edges[1::2], strict=True)
        if first < end
    ]
    return sorted((*fields, *between), key=lambda field: field.offset)


# --- MPA ---


def _crc_field(at: int, octets: bytes, covered: bytes, in_use: bool) -> Field:
    stored, computed = crc_from_field(octets), crc32c(covered)
    field = one(at, CRC_LENGTH, "MPA", "CRC", stored, digits=8)
    if not in_use:
        return field._replace(note="not in use")
    if stored == computed:
        return field._replace(note="good")
    return field._replace(note=f"BAD, the CRC of these octets is {computed:#010x}", severity="error")


def _marker_fields(octets: bytes, seq: int, phase: int, stream: StreamReading, in_fpdu: bool) -> Iterator[Field]:
    origin = stream.profile.fpduptr_origin
    checks = {check.marker_offset - phase: check for check in check_markers(octets, phase, origin)}
    for position in marker_positions(phase, phase + len(octets)):
        at = position - phase
        if at not in checks:
            yield Field(at, len(octets) - at, "MPA", "Marker", note="cut")
            continue
        check = checks[at]
        parts = FieldValue("RESERVED", check.reserved), FieldValue("FPDUPTR", check.fpduptr)
        target = seq + at - (check.fpduptr & ~3) & SEQ_MASK
        says = f"{'the' if in_fpdu else 'an'} FPDU begins {check.fpduptr & ~3} octets earlier, at sequence {target}"
        severity: Severity | None = None
        if not check.fpduptr & ~3:
            says = "an FPDU begins here"
        if in_fpdu and check.verdict == "good":
            says += "; right"
        elif in_fpdu and check.verdict == "bad":
            says += f"; WRONG, expected {check.expected}"
            severity = "error"
        elif in_fpdu and check.verdict == "other-origin":
            counted = "its first octet, as in the drafts" if origin == "header" else "its ULPDU_Length, as in RFC 5044"
            says += f"; counted from {counted}, expected {check.expected}"
            severity = "warning"
        yield Field(at, MARKER_LENGTH, "MPA", "Marker", parts, says, severity)


def _on_wire(at: int, phase: int | None) -> int:
    """Return the wire position of octet ``at`` of an FPDU, which counts octets without Markers."""
    return at if phase is None else at + MARKER_LENGTH * marker_count(phase, at + 1)


def _laid(field: Field, phase: int | None, captured: int) -> Iterator[Field]:
    """A field, as far as it was captured, with the Markers among its octets: in pieces."""
    at, end = field.offset, min(field.offset + field.length, captured)
    cut = end < field.offset + field.length
    while at < end:
        wire = _on_wire(at, phase)
        room = end - at if phase is None else MARKER_INTERVAL - (phase + wire) % MARKER_INTERVAL
        length = min(end - at, room)
        note = "cut" if cut and field.layer != "payload" else field.note
        yield field._replace(offset=wire, length=length, continued=at > field.offset, note=note)
        at += length


def _moved(fields: Iterable[Field], by: int) -> Iterator[Field]:
    return (field._replace(offset=field.offset + by) for field in fields)


# --- startup frames ---


def startup_fields(octets: bytes, startup: StartupFrame) -> list[Field]:
    """The fields of a startup frame, whose octets these are (RFC 5044 §7.1.1, RFC 6581 §9)."""
    kind = "Request" if startup.kind == "request" else "Reply"
    flags = (
        FieldValue("M", startup.m, "requires Markers in what it receives" if startup.m else "does not require Markers"),
        FieldValue("C", startup.c, "prefers CRCs" if startup.c else "does not ask for CRCs"),
        FieldValue("R", startup.r, "rejected" if startup.r and kind == "Reply" else ""),
        FieldValue("S", startup.s, "enhanced data follows" if startup.enhanced else ""),
        FieldValue("Res", startup.res, startup.res_name),
    )
    fields = [
        one(0, KEY_LENGTH, "MPA", "Key", octets[:KEY_LENGTH].decode("latin-1"), f"MPA {kind}"),
        Field(KEY_LENGTH, 1, "MPA", "flags", flags),
        one(KEY_LENGTH + 1, 1, "MPA", "Rev", startup.rev),
        one(KEY_LENGTH + 2, 2, "MPA", "PD_Length", startup.pd_length),
    ]
    at = STARTUP_HEADER_LENGTH
    data = startup.enhanced
    if data is not None:
        ird = FieldValue("IRD", data.ird, "left to the ULP" if data.ird == NOT_NEGOTIATED else "")
        ord_ = FieldValue("ORD", data.ord, "left to the ULP" if data.ord == NOT_NEGOTIATED else "")
        first = (
            FieldValue("A", data.a, "peer-to-peer" if data.a else ""),
            FieldValue("B", data.b, _rtr(data.b, "Send")),
            ird,
        )
        second = (
            FieldValue("C", data.c, _rtr(data.c, "RDMA Write")),
            FieldValue("D", data.d, _rtr(data.d, "RDMA Read")),
            ord_,
        )
        fields += [
            Field(at, 2, "MPA", "enhanced data", first),
            Field(at + 2, 2, "MPA", "enhanced data", second),
        ]
        at += ENHANCED_DATA_LENGTH
    if at < len(octets):
        note = plural(len(octets) - at, "octet") + (" of the ULP" if data is not None else "")
        fields.append(Field(at, len(octets) - at, "payload", "Private Data", note=note))
    return fields


def _rtr(flag: int, message: str) -> str:
    return f"RTR by zero-length {message}" if flag else ""
