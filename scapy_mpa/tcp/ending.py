"""How one direction of a TCP connection ends: its RSTs, and octets that were sent again and again (RFC 9293 §3.8.3).

Who watches a connection hands it what happens; the facts are read when nothing more comes.
"""

from __future__ import annotations

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.values.segment import Segment

#: So many retransmissions of the same octets, none of them acknowledged, were in vain: RFC 9293 §3.8.3 has a sender
#: tell IP that something is wrong after three.
FEWEST_IN_VAIN = 3


class Ending:
    """What one direction of a TCP connection did that shows its end.

    Attributes:
        resets: how many RSTs that count it sent.
        first_reset: sequence number, frame and time (nanoseconds) of the first of these, None without one.
        again: how often the first octets that its peer had not acknowledged were sent again, and that number not
            having changed since.
        again_frame: the frame of the first of these.
        again_last: frame and time (nanoseconds) of the last of these.
    """

    __slots__ = ("_again_at", "again", "again_frame", "again_last", "first_reset", "resets")

    def __init__(self) -> None:
        self.resets = 0
        self.first_reset: tuple[int, int, int] | None = None
        self.again = self.again_frame = 0
        self.again_last = 0, 0
        #: The first sequence number that its peer had not acknowledged then.
        self._again_at = -1

    def reset(self, seg: Segment) -> None:
        """A RST that counts was sent."""
        self.resets += 1
        if self.first_reset is None:
            self.first_reset = seg.seq, seg.frame, seg.time

    def take_back_resets(self) -> None:
        """They were none of its sender."""
        self.resets, self.first_reset = 0, None

    def see_again(self, seg: Segment, acknowledged: int) -> None:
        """A segment, not the next one in order, holds the first octet that was not acknowledged."""
        if self._again_at != acknowledged:
            self._again_at, self.again, self.again_frame = acknowledged, 0, seg.frame
        self.again += 1
        self.again_last = seg.frame, seg.time

    def was_in_vain(self, acknowledged: int) -> bool:
        """Whether the first octets that were not acknowledged at the end were sent again often enough to tell."""
        return self._again_at == acknowledged & SEQ_MASK and self.again >= FEWEST_IN_VAIN
