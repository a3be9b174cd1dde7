"""Whole streams at once, for tests: the package lays them piece by piece."""

from __future__ import annotations

from collections.abc import Iterable

from scapy_mpa.craft.stream import HalfStream, LaidFPDU
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import FPDUPlace, write_fpdu
from scapy_mpa.framing.markers import Octets, Origin


def lay_stream(
    ulpdus: Iterable[bytes], *, markers: bool, crc: bool = True, origin: Origin = "header"
) -> tuple[bytes, list[LaidFPDU]]:
    """A whole half connection at once: its octets and the places of its FPDUs."""
    return HalfStream(Dialect(markers, crc, origin)).lay(ulpdus)


def lay_dialect(dialect: Dialect, ulpdus: Iterable[Octets]) -> tuple[bytes, list[FPDUPlace]]:
    """The same in a dialect."""
    pieces, places, at, due = [], [], 0, dialect.first_due
    for ulpdu in ulpdus:
        octets, place = write_fpdu(dialect, ulpdu, at, due)
        pieces.append(octets)
        places.append(place)
        at, due = place.end, place.due
    return b"".join(pieces), places
