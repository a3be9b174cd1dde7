"""The octets of an FPDU whose sender deviates, read and field by field, by its dialect (framing/dialect.py).

What the sender does wrong everywhere is reported once, by a finding; here its fields are where it puts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scapy_mpa.framing.crc import CRC_LENGTH
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import (
    FPDUPlace,
    crc_agrees,
    crc_of,
    fpduptr_at,
    marker_agrees,
    read_fpdu,
    right_fpduptr,
    ulpdu_of,
    without_markers,
)
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH, MARKER_LENGTH
from scapy_mpa.framing.senders import BY_NAME
from scapy_mpa.report.fields import Field, FieldValue, one
from scapy_mpa.report.ulpdu import ulpdu_fields


def deviations_in_words(names: str) -> str:
    """Return the words for the deviations of a record, whose names are joined by +."""
    return ", and ".join(BY_NAME[name].text for name in names.split("+"))


def deviating_fields(octets: bytes, offset: int, number: int, dialect: Dialect) -> list[Field]:
    """The fields of FPDU ``number``, from 0, of a half connection, which begins at an offset; its octets are these."""
    fpdu = read_fpdu(dialect, octets, offset, dialect.due_behind(offset, number))
    if fpdu is None or fpdu.end - offset != len(octets):
        return [Field(0, len(octets), "payload", "octets")]
    plain = without_markers(fpdu, octets, fpdu.offset, fpdu.end)
    field = int.from_bytes(plain[:LENGTH_FIELD_LENGTH], "big")
    length = one(0, LENGTH_FIELD_LENGTH, "MPA", "ULPDU_Length", field)
    if field != fpdu.ulpdu_length:
        length = length._replace(note=f"of a ULPDU of {fpdu.ulpdu_length} octets")
    at = LENGTH_FIELD_LENGTH
    fields = [length]
    fields += (
        found._replace(offset=found.offset + at) for found in ulpdu_fields(ulpdu_of(fpdu, octets), fpdu.ulpdu_length)
    )
    at += fpdu.ulpdu_length
    if fpdu.pad:
        note = "not zero" if any(plain[at : at + fpdu.pad]) else "zero"
        fields.append(Field(at, fpdu.pad, "MPA", "PAD", note=note))
    if dialect.crc_field:
        fields.append(_crc_field(at + fpdu.pad, fpdu, octets, dialect))
    starts = [marker - offset for marker in fpdu.markers]
    laid = [piece for found in fields for piece in _laid(found, starts)]
    laid += (_marker_field(fpdu, octets, marker, dialect) for marker in fpdu.markers)
    return sorted(laid, key=lambda found: found.offset)


def _crc_field(at: int, fpdu: FPDUPlace, octets: bytes, dialect: Dialect) -> Field:
    stored = int.from_bytes(without_markers(fpdu, octets, fpdu.crc_at, fpdu.end), dialect.crc_order)
    field = one(at, CRC_LENGTH, "MPA", "CRC", stored, digits=8)
    if not dialect.crc:
        return field._replace(note="not in use")
    if crc_agrees(dialect, fpdu, octets):
        return field._replace(note="good, as its sender computes it")
    right = int.from_bytes(crc_of(dialect, fpdu, octets), dialect.crc_order)
    return field._replace(note=f"BAD, its sender would compute {right:#010x}", severity="error")


def _marker_field(fpdu: FPDUPlace, octets: bytes, marker: int, dialect: Dialect) -> Field:
    at = marker - fpdu.offset
    reserved, fpduptr = octets[at : at + 2], fpduptr_at(dialect, fpdu, octets, marker)
    parts = FieldValue("RESERVED", int.from_bytes(reserved, "big")), FieldValue("FPDUPTR", fpduptr)
    if marker_agrees(dialect, fpdu, octets, marker):
        says = "an FPDU begins here" if not at else "right, as its sender writes it"
        return Field(at, MARKER_LENGTH, "MPA", "Marker", parts, says)
    says = f"WRONG, expected {right_fpduptr(fpdu, marker, dialect.origin)}"
    return Field(at, MARKER_LENGTH, "MPA", "Marker", parts, says, "error")


def _laid(field: Field, markers: Sequence[int]) -> Iterator[Field]:
    """A field, whose offset counts no Markers, with the Markers among its octets: in pieces."""
    at, left = _on_wire(field.offset, markers), field.length
    continued = False
    while left:
        room = min((marker - at for marker in markers if marker > at), default=left)
        length = min(left, room)
        yield field._replace(offset=at, length=length, continued=continued)
        left -= length
        at += length + MARKER_LENGTH
        continued = True


def _on_wire(at: int, markers: Iterable[int]) -> int:
    for marker in markers:
        if at >= marker:
            at += MARKER_LENGTH
    return at
