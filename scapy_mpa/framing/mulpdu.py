"""MULPDU: the largest ULPDU that one TCP segment takes (RFC 5044 §4.5 and §3)."""

from __future__ import annotations

from scapy_mpa.framing.crc import CRC_LENGTH
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH

#: MULPDU never shrinks below this, however small the EMSS (RFC 5044 §4.5).
MIN_MULPDU = 128

#: MULPDU is never above this: its FPDU still fits an IP datagram (RFC 5044 §3).
MAX_MULPDU = MAX_ULPDU_LENGTH

_OVERHEAD = LENGTH_FIELD_LENGTH + CRC_LENGTH


def mulpdu(emss: int, markers: bool) -> int:
    """The Maximum ULPDU in octets for segments of at most ``emss`` octets, with or without Markers.

    With Markers, there is room for as many as can fall into a segment, wherever it begins. The result is within
    MIN_MULPDU and MAX_MULPDU; at an EMSS too small for MIN_MULPDU, the FPDU no longer fits into its segment. RFC 5044
    §4.5.
    """
    marker_octets = 4 * -(-emss // 512) if markers else 0
    return max(MIN_MULPDU, min(MAX_MULPDU, emss - (_OVERHEAD + marker_octets + emss % 4)))
