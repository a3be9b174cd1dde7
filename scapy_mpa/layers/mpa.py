"""MPA's layers, and the two functions that make Scapy packets out of octets that something else located.

The startup frames are in ``startup``, ``FPDU`` and ``Marker`` in ``fpdu``, DDP in ``ddp``, RDMAP in ``rdmap``, and how
they are found in TCP payloads in ``binding``.
"""

from __future__ import annotations

from scapy_mpa.framing import Origin
from scapy_mpa.layers.fpdu import FPDU, Marker, fpdu_of
from scapy_mpa.layers.startup import MPAReply, MPARequest, startup_packet

__all__ = ["FPDU", "MPAReply", "MPARequest", "Marker", "fpdu_packet", "startup_packet"]


def fpdu_packet(octets: bytes, marker_offset: int | None, crc: bool | None = None, origin: Origin = "header") -> FPDU:
    """The packet of one FPDU out of all its octets on the wire, Markers included; ``bytes()`` of it are the octets.

    ``marker_offset``: octets from its first octet to the first Marker position, None in a stream without Markers.
    ``crc``: whether CRCs are in use, None if that is not known. ``origin``: what FPDUPTR counts from, should the
    Markers be computed anew.
    """
    packet = fpdu_of(octets, marker_offset, origin, crc)
    assert isinstance(packet, FPDU)
    return packet
