"""Lays FPDUs in the stream of a half connection, as its sender does (RFC 5044 §4).

ULPDUs go in; the stream's octets come out, and for each FPDU where it lies: the sender's side of the truth,
known without decoding anything. Offsets count stream octets, Markers included, from the first octet of Full
Operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.markers import MARKER_LENGTH, Origin, header_offset, plain_length


class LaidFPDU(NamedTuple):
    """Where one FPDU lies in its half connection, in octets."""

    #: Its first octet, a leading Marker included.
    offset: int
    #: The first octet of its ULPDU_Length.
    header_offset: int
    ulpdu_length: int
    #: Markers, PAD and CRC included.
    wire_length: int
    markers: int

    @property
    def end(self) -> int:
        """The octet after its last."""
        return self.offset + self.wire_length


#: Given where an FPDU lies, its ULPDU and its octets, what is sent in its place; perhaps more octets, or fewer.
Alter = Callable[[LaidFPDU, bytes, bytes], bytes]


class HalfStream:
    """The stream of one half connection, laid piece by piece so that no more of it is held than one wants.

    ``markers``: this direction carries Markers, the first of them at offset 0. ``crc``: the CRC is in use; if
    not, its field is zero. ``origin``: what FPDUPTR counts from, as in ``framing.fpdu.encode_fpdu``. ``alter`` may
    replace the octets of each FPDU, for traffic that is to be malformed.
    """

    __slots__ = ("alter", "crc", "markers", "offset", "origin")

    def __init__(
        self, *, markers: bool, crc: bool = True, origin: Origin = "header", alter: Alter | None = None
    ) -> None:
        self.markers = markers
        self.crc = crc
        self.origin = origin
        self.alter = alter
        self.offset = 0

    def lay(self, ulpdus: Iterable[bytes]) -> tuple[bytes, list[LaidFPDU]]:
        """Append one FPDU for each ULPDU; return their octets and their places."""
        markers, crc, origin, at = self.markers, self.crc, self.origin, self.offset
        pieces: list[bytes] = []
        laid: list[LaidFPDU] = []
        for ulpdu in ulpdus:
            length = len(ulpdu)
            if markers:
                octets = encode_fpdu(ulpdu, offset=at, origin=origin, crc=crc)
                total = len(octets)
                header = header_offset(at)
                count = (total - plain_length(length)) // MARKER_LENGTH
            else:
                octets = encode_fpdu(ulpdu, crc=crc)
                total = len(octets)
                header = at
                count = 0
            place = LaidFPDU(at, header, length, total, count)
            if self.alter is not None:
                octets = self.alter(place, ulpdu, octets)
                total = len(octets)
                place = place._replace(wire_length=total)
            pieces.append(octets)
            laid.append(place)
            at += total
        self.offset = at
        return b"".join(pieces), laid
