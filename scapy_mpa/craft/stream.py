"""Lays FPDUs in the stream of a half connection, as its sender does (RFC 5044 §4).

ULPDUs go in; the stream's octets come out, and for each FPDU where it lies: the sender's side of the truth,
known without decoding anything. Offsets count stream octets, Markers included, from the first octet of Full
Operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scapy_mpa.errors import FramingError
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH, write_fpdu
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.tuples import NamedTuple


class LaidFPDU(NamedTuple):
    """The position of one FPDU in its half connection, in octets."""

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

    ``dialect`` is what its sender does. ``alter`` may replace the octets of each FPDU, for traffic that is to be
    malformed.
    """

    __slots__ = ("_count", "alter", "dialect", "offset")

    def __init__(self, dialect: Dialect, alter: Alter | None = None) -> None:
        self.dialect = dialect
        self.alter = alter
        self.offset = 0
        self._count = 0

    def lay(self, ulpdus: Iterable[bytes]) -> tuple[bytes, list[LaidFPDU]]:
        """Append one FPDU for each ULPDU; return their octets and their places.

        Where an FPDU that was altered ends inside a Marker, zeros fill that Marker up. Raises FramingError for a ULPDU
        that is too large, where nothing may be malformed.
        """
        dialect, alter, at = self.dialect, self.alter, self.offset
        pieces: list[bytes] = []
        laid: list[LaidFPDU] = []
        for ulpdu in ulpdus:
            if len(ulpdu) > MAX_ULPDU_LENGTH and alter is None:
                raise FramingError(f"a ULPDU of {len(ulpdu)} octets is above the limit of {MAX_ULPDU_LENGTH}")
            inside = at % MARKER_INTERVAL if alter is not None and dialect.markers else 0
            filler = bytes(MARKER_LENGTH - inside if 0 < inside < MARKER_LENGTH else 0)
            begin = at + len(filler)
            octets, fpdu = write_fpdu(dialect, ulpdu, begin, dialect.due_behind(begin, self._count))
            place = LaidFPDU(begin, fpdu.header, len(ulpdu), len(octets), len(fpdu.markers))
            if alter is not None:
                octets = filler + alter(place, ulpdu, octets)
                place = place._replace(offset=at, wire_length=len(octets))
            pieces.append(octets)
            laid.append(place)
            at += len(octets)
            self._count += 1
        self.offset = at
        return b"".join(pieces), laid
