"""How long ULPDUs and FPDUs are, against what a segment takes (RFC 5044 §4.5, §5.1).

EMSS is what both SYNs announce, without the octets that TCP's options take of each segment; where they were not
captured, the longest segment of the half connection, looked at when nothing more comes.
"""

from __future__ import annotations

from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.mulpdu import MAX_MULPDU, mulpdu
from scapy_mpa.receive.watch.ddp import DDPWatch, Find

#: A half connection none of whose segments holds so much does not show its EMSS: no host announces less (RFC 879).
SMALLEST_EMSS = 536


class SizeWatch:
    """The lengths of the FPDUs of one half connection; breaches are handed to ``find``.

    ``emss`` is in octets, 0 if it is not known.  A ULPDU of more than ``longest`` octets has to be told to
    :meth:`grows`.
    """

    __slots__ = ("_at", "_emss", "_find", "_limit", "_longest_fpdu", "_markers", "longest")

    def __init__(self, find: Find, emss: int, markers: bool) -> None:
        self._find = find
        self._emss = emss
        self._markers = markers
        self._limit = mulpdu(emss, markers) if emss else MAX_ULPDU_LENGTH
        self.longest = 0
        self._longest_fpdu = 0
        self._at = 0, 0, 0

    def grows(self, ulpdu_length: int, wire_length: int, offset: int, frame: int, time: int) -> None:
        """An FPDU of ``wire_length`` octets, at ``offset`` of the stream, has the longest ULPDU so far."""
        self.longest = min(ulpdu_length, self._limit)
        if wire_length > self._longest_fpdu:
            self._longest_fpdu, self._at = wire_length, (offset, frame, time)
        if ulpdu_length > self._limit and ulpdu_length <= MAX_MULPDU:
            self._judge(ulpdu_length, wire_length, offset, frame, time)

    def _judge(self, ulpdu_length: int, wire_length: int, offset: int, frame: int, time: int) -> None:
        if wire_length > self._emss:
            detail = f"an FPDU of {wire_length} octets, where a segment takes {self._emss}"
            self._find("fpdu-above-emss", offset, frame, time, detail)
        else:
            detail = f"a ULPDU of {ulpdu_length} octets, where MULPDU is {self._limit} for an EMSS of {self._emss}"
            self._find("mulpdu", offset, frame, time, detail)

    def fits(self, longest_segment: int) -> bool:
        """Whether every FPDU fits into a segment."""
        return self._longest_fpdu <= (self._emss or longest_segment)

    def finish(self, ddp: DDPWatch, longest_segment: int) -> None:
        """Nothing more comes; ``longest_segment`` is in octets."""
        if not self._emss and SMALLEST_EMSS <= longest_segment < self._longest_fpdu:
            detail = f"an FPDU of {self._longest_fpdu} octets, where no segment has more than {longest_segment}"
            self._find("fpdu-above-emss", *self._at, detail)
        # The path may take less than the SYNs say.
        limit = mulpdu(min(self._emss, longest_segment), self._markers)
        if self._emss and 0 < ddp.longest_part < limit // 2:
            detail = f"no part of a message is longer than {ddp.longest_part} octets, where MULPDU is {limit}"
            self._find("mulpdu-filled", *ddp.first_part, detail)
