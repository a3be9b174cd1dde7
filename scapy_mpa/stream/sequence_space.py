"""Where the sequence numbers of one direction are: 32 bits unwrapped to offsets (RFC 9293 §3.4).

In: sequence and acknowledgement numbers in the order of capture.  Out: offsets, octets since a base.  A number is
unwrapped against the places at which the stream recently was, never against the oldest hole, so a hole of up to 2 GiB
hides nothing behind it, and holes may add up to any size.
"""

from __future__ import annotations

from typing import Final

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.stream.drop_reason import CLOSE, LARGEST_WINDOW, NEAR
from scapy_mpa.stream.peer_state import NOWHERE

#: A sequence number that is ahead by less than half of all lies ahead, else behind (RFC 9293 §3.4).
HALF: Final = 1 << 31
#: Places that are remembered, those met last: one that goes on, and those of strays.
MOST_PLACES: Final = 8


class SequenceSpace:
    """Unwraps the sequence numbers of one direction.

    A place is the offset after the last octet met there.  What lies near no known place begins another, ahead of the
    one met last.  A stray segment begins one, too, but the next segment of the stream is near where the stream was.

    Attributes:
        base: the sequence number of offset 0, None before the first number is known.
        zero: the same, a number.
        last: the place met last.
        others: the other places, that met last first.
    """

    __slots__ = ("base", "last", "others", "zero")

    def __init__(self) -> None:
        self.base: int | None = None
        self.last = self.zero = 0
        self.others: list[int] = []

    def begin(self, seq: int) -> None:
        """Let a sequence number be offset 0."""
        self.base = self.zero = seq & SEQ_MASK
        self.last, self.others = 0, []

    def nearest(self, seq: int) -> tuple[int, int]:
        """Return the distance in octets of a sequence number from the nearest known place, and its offset there."""
        assert self.base is not None
        base, edge = self.zero, self.last
        ahead = ((seq - base - edge + HALF) & SEQ_MASK) - HALF
        best, offset = abs(ahead), edge + ahead
        for edge in self.others:
            ahead = ((seq - base - edge + HALF) & SEQ_MASK) - HALF
            if abs(ahead) < best:
                best, offset = abs(ahead), edge + ahead
        return best, offset

    def distance_from_last(self, seq: int) -> int:
        """Return the signed distance in octets from the place met last."""
        base, last = self.zero, self.last
        return ((seq - base - last + HALF) & SEQ_MASK) - HALF

    def offset_of(self, seq: int, length: int, rcv_wnd: int, acked: int = NOWHERE) -> int:
        """Return the offset of a segment's first octet, and remember that the stream is now after its last one.

        Args:
            seq: its sequence number.
            length: octets of its payload.
            rcv_wnd: the largest window that its receiver is known to have advertised, octets; -1 if none is.
            acked: the offset up to which its receiver acknowledged octets lately, NOWHERE if it is not known.
        """
        base, last = self.zero, self.last
        ahead = ((seq - base - last + HALF) & SEQ_MASK) - HALF
        if -NEAR < ahead < NEAR:
            offset = last + ahead
            self.last = offset + length
            return offset
        offset, index = self._place_far(seq, rcv_wnd, acked)
        edges = [last, *self.others]
        # Where it is far, it may be a stray: the stream may go on where it was.
        if index >= 0 and abs(offset - edges[index]) < NEAR:
            del edges[index]
        self.last, self.others = offset + length, edges[: MOST_PLACES - 1]
        return offset

    def place(self, seq: int, rcv_wnd: int, acked: int) -> int:
        """Return the offset of a segment's first octet, as :meth:`offset_of` would, and remember nothing."""
        ahead = self.distance_from_last(seq)
        return self.last + ahead if -NEAR < ahead < NEAR else self._place_far(seq, rcv_wnd, acked)[0]

    def _place_far(self, seq: int, rcv_wnd: int, acked: int) -> tuple[int, int]:
        """Return the offset of what is not near the place met last, and the index of the place near it, -1 if none is.

        The place met last is 0, others follow.
        """
        base = self.base
        assert base is not None
        # Where the stream was before, it goes on only if what came last is a stray: many holes bring numbers near.
        least = CLOSE if rcv_wnd < 0 else max(CLOSE, min(rcv_wnd, NEAR))
        # What its receiver acknowledged long ago is not sent again.
        lowest = acked - least
        best, offset = -1, 0
        for index, edge in enumerate(self.others, 1):
            distance = ((seq - base - edge + HALF) & SEQ_MASK) - HALF
            if abs(distance) < least and edge >= lowest:
                best, offset, least = index, edge + distance, abs(distance)
        if best >= 0:
            return offset, best
        # What is not within a window behind lies ahead: holes of up to 4 GiB less that window.
        window = LARGEST_WINDOW if rcv_wnd < 0 else rcv_wnd
        ahead = (seq - base - self.last) & SEQ_MASK
        return self.last + (ahead - SEQ_MASK - 1 if ahead > SEQ_MASK - window else ahead), -1

    def shift(self, origin: int) -> None:
        """Count offsets from what is now ``origin``."""
        assert self.base is not None
        self.base = self.zero = (self.base + origin) & SEQ_MASK
        self.last -= origin
        self.others = [edge - origin for edge in self.others]

    def seq_of(self, offset: int) -> int:
        """Return the sequence number of an offset."""
        assert self.base is not None
        return (self.base + offset) & SEQ_MASK
