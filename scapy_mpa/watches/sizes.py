"""The lengths of FPDUs against what a segment holds (RFC 5044 §4.5, §5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.mulpdu import MAX_MULPDU, mulpdu
from scapy_mpa.receiver.values import Breach, LocatedFPDU
from scapy_mpa.watches.ddp import DDPWatch

#: Segments shorter than this do not show EMSS: no host announces less (RFC 879).
SMALLEST_EMSS: Final = 536


class SizeWatch:
    """The sizes of the FPDUs in one direction.

    EMSS is what both SYNs announce, less the octets of TCP options in each segment; where they were not captured, the
    longest segment, known at the end.  An FPDU whose ULPDU is longer than ``longest`` goes to :meth:`grew`.

    Args:
        emss: octets that a segment holds, 0 if that is not known.
        markers: whether there are Markers.
        said_of_long: what the startup frames say about FPDUs longer than a segment, to be added to a finding.
    """

    __slots__ = ("_at", "_emss", "_limit", "_longest_fpdu", "_markers", "_said_of_long", "longest")

    def __init__(self, emss: int, markers: bool, said_of_long: str = "") -> None:
        self._emss = emss
        self._markers = markers
        self._said_of_long = said_of_long
        self._limit = mulpdu(emss, markers) if emss else MAX_ULPDU_LENGTH
        self.longest = self._longest_fpdu = 0
        self._at = 0, 0, 0

    def grew(self, fpdu: LocatedFPDU) -> Sequence[Breach]:
        """Judge an FPDU with the longest ULPDU so far; every one above MULPDU counts as such."""
        ulpdu_length, length = fpdu.ulpdu_length, fpdu.end - fpdu.offset
        self.longest = min(ulpdu_length, self._limit)
        place = fpdu.offset, *fpdu.known
        if length > self._longest_fpdu:
            self._longest_fpdu, self._at = length, place
        if not self._limit < ulpdu_length <= MAX_MULPDU:
            return ()
        if length > self._emss:
            detail = f"an FPDU of {length:,} octets, but a segment holds {self._emss:,}{self._said_of_long}"
            return (Breach("fpdu-above-emss", *place, detail),)
        detail = f"a ULPDU of {ulpdu_length:,} octets, but MULPDU is {self._limit:,} for an EMSS of {self._emss:,}"
        return (Breach("mulpdu", *place, detail),)

    def fits(self, longest_segment: int) -> bool:
        """Return True if every FPDU fits into a segment."""
        return self._longest_fpdu <= (self._emss or longest_segment)

    def finish(self, ddp: DDPWatch, longest_segment: int) -> list[Breach]:
        """Judge what only the longest segment, in octets, shows."""
        breaches = []
        if not self._emss and SMALLEST_EMSS <= longest_segment < self._longest_fpdu:
            size = f"an FPDU of {self._longest_fpdu:,} octets"
            detail = f"{size}, but no segment has more than {longest_segment:,}{self._said_of_long}"
            breaches.append(Breach("fpdu-above-emss", *self._at, detail))
        # The path may hold less than the SYNs announce.
        limit = mulpdu(min(self._emss, longest_segment), self._markers) if ddp.longest_part > 0 else 0
        if self._emss and 0 < ddp.longest_part < limit // 2:
            detail = f"no DDP Segment of a message is longer than {ddp.longest_part:,} octets, but MULPDU is {limit:,}"
            breaches.append(Breach("mulpdu-filled", *ddp.first_part, detail))
        return breaches
