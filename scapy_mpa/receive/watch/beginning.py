"""What the first octets of Full Operation are, where they are no FPDU as the startup frames announce it.

With Markers the stream begins with one of zero; without, with a ULPDU_Length (RFC 5044 §4.3, §7.1.1).
"""

from __future__ import annotations

from scapy_mpa.framing.fpdu import decode_fpdu
from scapy_mpa.framing.markers import LONGEST_FPDU, MARKER_LENGTH
from scapy_mpa.receive.evidence import HEADER_OCTETS, header_at

#: So many first octets tell what they are.
LOOKED_AT = LONGEST_FPDU
_NO_MARKER = bytes(MARKER_LENGTH)


def wrong_beginning(octets: bytes, markers: bool, crc: bool) -> tuple[str, str] | None:
    """The rule that the first octets break, with details; None if they tell nothing."""
    begins = f"the first octets are {octets[:MARKER_LENGTH].hex(' ')}"
    if markers and is_fpdu(octets, None, crc):
        return "marker-absent", f"the first FPDU is one without Markers: {begins}"
    if markers and len(octets) >= MARKER_LENGTH and octets[2:MARKER_LENGTH] != bytes(2):
        return "marker-first", f"no Marker of zero: {begins}"
    if not markers and octets[:MARKER_LENGTH] == _NO_MARKER and is_fpdu(octets, 0, crc):
        return "marker-unasked", f"a Marker before the first FPDU: {begins}"
    return None


def begins_with_header(ulpdu: bytes, ulpdu_length: int) -> bool:
    """Whether a ULPDU of which these are the first octets begins with a header that DDP would send."""
    return header_at(ulpdu[:HEADER_OCTETS].ljust(HEADER_OCTETS, b"\0"), 0, ulpdu_length) is not None


def is_fpdu(octets: bytes, offset: int | None, crc: bool) -> bool:
    """Whether octets begin with an FPDU, without Markers where ``offset`` is None."""
    header = 0 if offset is None else MARKER_LENGTH
    fpdu = decode_fpdu(octets[:LOOKED_AT], offset)
    if fpdu is not None and crc:
        return bool(fpdu.crc_good)
    ulpdu = octets[header + 2 : header + 2 + HEADER_OCTETS]
    if crc or len(ulpdu) < HEADER_OCTETS:
        return False
    return begins_with_header(ulpdu, octets[header] << 8 | octets[header + 1])
