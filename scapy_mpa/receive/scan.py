"""How the FPDUs of a half connection are laid out: what their reader has to know besides the octets (RFC 5044 §4)."""

from __future__ import annotations

from typing import NamedTuple

from scapy_mpa.framing.markers import Origin


class Layout(NamedTuple):
    """How FPDUs are laid out.

    Attributes:
        markers: whether there are Markers.
        crc: whether the CRC field is in use.
        origin: what FPDUPTR counts from.
    """

    markers: bool
    crc: bool
    origin: Origin
