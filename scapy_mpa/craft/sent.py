"""An FPDU that is about to be sent, as changes to it see it, and what they may leave as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from scapy_mpa.framing.crc import CRC_LENGTH, crc32c, crc_field
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.markers import MARKER_LENGTH, Origin, header_offset, marker_positions

#: What a change leaves as it was, if it is asked to: the CRC field, or the length fields.
Repairable: TypeAlias = Literal["crc", "lengths"]


@dataclass(frozen=True)
class SentFPDU:
    """An FPDU that is about to be sent: where it begins in the stream (None: without Markers), and its octets.

    ``crc``: CRCs are in use. ``left`` is what is to be left as it was.
    """

    offset: int | None
    ulpdu: bytes
    octets: bytes
    crc: bool
    origin: Origin
    left: Repairable | None

    @property
    def header(self) -> int:
        """Octets before its ULPDU_Length."""
        return 0 if self.offset is None else header_offset(self.offset) - self.offset

    @property
    def markers(self) -> list[int]:
        """The offsets of its complete Markers, in octets from its first."""
        if self.offset is None:
            return []
        last = len(self.octets) - MARKER_LENGTH
        return [at - self.offset for at in marker_positions(self.offset, self.offset + max(0, last + 1))]

    def laid(
        self, ulpdu: bytes, *, pad: bytes | None = None, ulpdu_length: int | None = None, crc: int | None = None
    ) -> bytes:
        """An FPDU with this ULPDU in its place, and what is given in place of what is right."""
        made = encode_fpdu(
            ulpdu,
            self.offset,
            origin=self.origin,
            crc=self.crc if crc is None else crc,
            pad=pad,
            ulpdu_length=ulpdu_length,
            allow_oversize=True,
        )
        return made[:-CRC_LENGTH] + self.octets[-CRC_LENGTH:] if self.left == "crc" else made

    def sealed(self, octets: bytes) -> bytes:
        """These octets with the right CRC, unless it is to be left."""
        if not self.crc or self.left == "crc":
            return octets
        return octets[:-CRC_LENGTH] + crc_field(crc32c(octets[:-CRC_LENGTH]))


FPDUChange: TypeAlias = Callable[[SentFPDU], bytes]
