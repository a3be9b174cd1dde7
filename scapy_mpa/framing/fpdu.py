"""FPDUs: ULPDU_Length, ULPDU, PAD and CRC, with the Markers that fall among them (RFC 5044 §4.1 to §4.4).

``encode_fpdu`` goes from a ULPDU to octets of the stream, ``decode_fpdu`` back. Both take the stream offset at
which the FPDU begins (see ``markers``), or None in a stream without Markers.

The CRC covers everything of the FPDU that comes before the CRC field, Markers included: a leading Marker, and
one that falls between PAD and CRC, are both part of this FPDU (RFC 5044 §4.4).
"""

from __future__ import annotations

from typing import NamedTuple

from scapy_mpa.errors import FramingError
from scapy_mpa.framing.crc import CRC_LENGTH, crc32c, crc_field
from scapy_mpa.framing.markers import (
    MARKER_INTERVAL,
    MARKER_LENGTH,
    Octets,
    Origin,
    decode_marker,
    header_offset,
    insert_markers,
    marker_count,
    marker_positions,
    plain_length,
    remove_markers,
    require_fpdu_offset,
)

#: The largest ULPDU that may be handed to MPA, in octets (RFC 5044 §3).
MAX_ULPDU_LENGTH = 64768

#: Octets of the ULPDU_Length field (RFC 5044 §4.1).
LENGTH_FIELD_LENGTH = 2

_MAX_FIELD = 0xFFFF


class Fpdu(NamedTuple):
    """One FPDU as it was found in the stream. Lengths in octets."""

    ulpdu_length: int
    ulpdu: bytes
    pad: bytes
    #: The value in the CRC field.
    crc: int
    #: None if it was not checked.
    crc_good: bool | None
    #: (stream offset, RESERVED, FPDUPTR) of each Marker, as sent.
    markers: tuple[tuple[int, int, int], ...]
    #: Markers, PAD and CRC included.
    wire_length: int


def pad_length(ulpdu_length: int) -> int:
    """Octets of PAD (0 to 3) after a ULPDU of ``ulpdu_length`` octets (RFC 5044 §4.1)."""
    return -(LENGTH_FIELD_LENGTH + ulpdu_length) % 4


def encode_fpdu(
    ulpdu: Octets,
    offset: int | None = None,
    *,
    origin: Origin = "header",
    crc: bool | int = True,
    pad: Octets | None = None,
    ulpdu_length: int | None = None,
    allow_oversize: bool = False,
) -> bytes:
    """The octets of an FPDU that carries ``ulpdu`` and begins at stream ``offset`` (None: no Markers).

    What is None is computed; what is given is sent as it is, right or wrong (RFC 5044 §3, §4.1 to §4.4).

    Args:
        ulpdu: What it carries.
        offset: Octets from SeqStart to its first; None: no Markers.
        origin: What FPDUPTR counts from.
        crc: True computes it over what is sent, False leaves the field zero (CRCs not in use), a number is sent as
            the value.
        pad: In place of the right one.
        ulpdu_length: In place of the right one.
        allow_oversize: Whether a ULPDU may be above MAX_ULPDU_LENGTH, and FPDUPTR, which is then sent modulo 2^16,
            above 65535.

    Raises:
        FramingError: The ULPDU is too long or FPDUPTR too large, a length does not fit the ULPDU_Length field, or
            ``offset`` is inside a Marker.
    """
    length = len(ulpdu) if ulpdu_length is None else ulpdu_length
    if not 0 <= length <= _MAX_FIELD:
        raise FramingError(f"ULPDU_Length {length} does not fit its 16 bits")
    if len(ulpdu) > MAX_ULPDU_LENGTH and not allow_oversize:
        raise FramingError(f"a ULPDU of {len(ulpdu)} octets is above the limit of {MAX_ULPDU_LENGTH}")
    if pad is None:
        pad = bytes(pad_length(len(ulpdu)))
    covered = b"".join((length.to_bytes(LENGTH_FIELD_LENGTH, "big"), ulpdu, pad))
    if offset is None:
        return covered + crc_field(_crc_value(crc, covered))

    require_fpdu_offset(offset)
    body_length = len(covered) + CRC_LENGTH
    if not allow_oversize:
        end = offset + body_length + MARKER_LENGTH * marker_count(offset, body_length)
        counted_from = header_offset(offset) if origin == "header" else offset
        if any(position - counted_from > _MAX_FIELD for position in marker_positions(offset, end)):
            raise FramingError(f"FPDUPTR would pass {_MAX_FIELD}: a ULPDU of {len(ulpdu)} octets is too large")
    wire = bytearray(insert_markers(covered + bytes(CRC_LENGTH), offset, origin))
    field = len(covered) + MARKER_LENGTH * marker_count(offset, len(covered) + 1)
    value = crc_field(_crc_value(crc, memoryview(wire)[:field]))
    if len(wire) - field == CRC_LENGTH:
        wire[field:] = value
    else:  # A wrong PAD can make a Marker split the CRC field, which no conformant FPDU does.
        for i, octet in enumerate(value):
            wire[len(covered) + i + MARKER_LENGTH * marker_count(offset, len(covered) + i + 1)] = octet
    return bytes(wire)


def _crc_value(crc: bool | int, covered: Octets) -> int:
    if crc is True:
        return crc32c(covered)
    return 0 if crc is False else crc


def decode_fpdu(octets: Octets, offset: int | None = None, *, check_crc: bool = True) -> Fpdu | None:
    """The FPDU at the beginning of ``octets``, which begin at stream ``offset`` (None: no Markers).

    None if more octets are needed; octets after the FPDU are not looked at. PAD, RESERVED and FPDUPTR are
    returned as sent, and judged elsewhere. Raises FramingError only for an ``offset`` at which no FPDU can
    begin. RFC 5044 §4.
    """
    if offset is None:
        return _decode_plain(octets, check_crc)
    require_fpdu_offset(offset)
    header = header_offset(offset) - offset
    length_field = octets[header : header + LENGTH_FIELD_LENGTH]
    if (offset + header) % MARKER_INTERVAL == MARKER_INTERVAL - 1:
        # Only where FPDUs are not multiples of 4 octets: a Marker stands inside ULPDU_Length.
        length_field = remove_markers(octets[: LENGTH_FIELD_LENGTH + MARKER_LENGTH], offset)
    if len(length_field) < LENGTH_FIELD_LENGTH:
        return None
    ulpdu_length = int.from_bytes(length_field, "big")
    body_length = plain_length(ulpdu_length)
    count = marker_count(offset, body_length)
    length = body_length + MARKER_LENGTH * count
    if len(octets) < length:
        return None
    wire = memoryview(octets)[:length]
    body = remove_markers(wire, offset) if count else bytes(wire)
    covered = length - CRC_LENGTH - (MARKER_LENGTH if _splits_crc(offset + length) else 0)
    crc = int.from_bytes(body[-CRC_LENGTH:], "little")
    return Fpdu(
        ulpdu_length,
        body[LENGTH_FIELD_LENGTH : LENGTH_FIELD_LENGTH + ulpdu_length],
        body[LENGTH_FIELD_LENGTH + ulpdu_length : -CRC_LENGTH],
        crc,
        crc32c(wire[:covered]) == crc if check_crc else None,
        tuple(
            (position, *decode_marker(wire[position - offset : position - offset + MARKER_LENGTH]))
            for position in marker_positions(offset, offset + length)
        ),
        length,
    )


def _splits_crc(end: int) -> bool:
    """Does a Marker stand inside the CRC field that ends before ``end``? Only off the 4-octet grid."""
    return MARKER_LENGTH < end % MARKER_INTERVAL < MARKER_LENGTH + CRC_LENGTH


def _decode_plain(octets: Octets, check_crc: bool) -> Fpdu | None:
    if len(octets) < LENGTH_FIELD_LENGTH:
        return None
    ulpdu_length = octets[0] << 8 | octets[1]
    length = plain_length(ulpdu_length)
    if len(octets) < length:
        return None
    ulpdu_end = LENGTH_FIELD_LENGTH + ulpdu_length
    field = length - CRC_LENGTH
    crc = int.from_bytes(octets[field:length], "little")
    return Fpdu(
        ulpdu_length,
        bytes(octets[LENGTH_FIELD_LENGTH:ulpdu_end]),
        bytes(octets[ulpdu_end:field]),
        crc,
        crc32c(memoryview(octets)[:field]) == crc if check_crc else None,
        (),
        length,
    )
