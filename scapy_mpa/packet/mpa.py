"""MPA's layers, and the two functions that make Scapy packets out of octets that something else located.

The startup frames are in ``startup``, ``FPDU`` and ``Marker`` in ``fpdu``, DDP in ``ddp``, RDMAP in ``rdmap``, and how
they are found in TCP payloads in ``binding``.
"""

from __future__ import annotations

from scapy.config import conf
from scapy.packet import Packet

from scapy_mpa.framing import Origin
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import crc_octets, read_fpdu, ulpdu_of, without_markers
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH
from scapy_mpa.packet.fpdu import FPDU, Marker, fpdu_of
from scapy_mpa.packet.startup import MPAReply, MPARequest, startup_packet

__all__ = ["FPDU", "MPAReply", "MPARequest", "Marker", "deviating_packet", "fpdu_packet", "startup_packet"]


def fpdu_packet(
    octets: bytes,
    marker_offset: int | None,
    crc: bool | None = None,
    origin: Origin = "header",
    upper: type[Packet] | None = None,
) -> FPDU:
    """The packet of one FPDU out of all its octets on the wire, Markers included; ``bytes()`` of it are the octets.

    ``marker_offset``: octets from its first octet to the first Marker position, None in a stream without Markers.
    ``crc``: whether CRCs are in use, None if that is not known. ``origin``: what FPDUPTR counts from, should the
    Markers be computed again. ``upper``: the layer of what a Send in it carries, such as ``NVMeConnect``.
    """
    packet = fpdu_of(octets, marker_offset, origin, crc, upper)
    assert isinstance(packet, FPDU)
    return packet


def deviating_packet(dialect: Dialect, octets: bytes, offset: int, due: int) -> Packet:
    """The packet of one FPDU whose sender deviates, at a place of the stream, out of all its octets on the wire.

    Fields have what was sent, wherever it stands; ``bytes()`` of it are the octets without Markers, and its CRC is not
    judged. Raw if the octets are no FPDU of the dialect.
    """
    fpdu = read_fpdu(dialect, octets, offset, due)
    if fpdu is None or fpdu.end - offset != len(octets):
        return conf.raw_layer(octets)
    plain = without_markers(fpdu, octets, fpdu.header, fpdu.crc_at)
    ulpdu = ulpdu_of(fpdu, octets)
    packet = FPDU(
        ulpdu_length=int.from_bytes(plain[:LENGTH_FIELD_LENGTH], "big"),
        pad=plain[LENGTH_FIELD_LENGTH + len(ulpdu) :],
        crc=crc_octets(fpdu, octets),
        crc_in_use=False,
    )
    packet.do_dissect_payload(ulpdu)
    return packet
