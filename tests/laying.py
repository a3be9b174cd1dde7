"""Whole streams at once, for tests: the package lays them piece by piece."""

from __future__ import annotations

from collections.abc import Iterable

from scapy_mpa.craft.stream import HalfStream, LaidFPDU
from scapy_mpa.framing.dialect import Dialect, DialectWriter, SpokenFPDU
from scapy_mpa.framing.markers import Octets, Origin


def lay_stream(
    ulpdus: Iterable[bytes], *, markers: bool, crc: bool = True, origin: Origin = "header"
) -> tuple[bytes, list[LaidFPDU]]:
    """A whole half connection at once: its octets and the places of its FPDUs."""
    return HalfStream(markers=markers, crc=crc, origin=origin).lay(ulpdus)


def lay_dialect(dialect: Dialect, ulpdus: Iterable[Octets]) -> tuple[bytes, list[SpokenFPDU]]:
    """The same in a dialect."""
    writer = DialectWriter(dialect)
    written = [writer.write(ulpdu) for ulpdu in ulpdus]
    return b"".join(octets for octets, _ in written), [fpdu for _, fpdu in written]
