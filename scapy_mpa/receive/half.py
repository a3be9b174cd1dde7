"""One direction of a TCP connection, as far as its own segments tell: acknowledgements, SYN, FIN, RST (RFC 9293 §3).

It knows nothing of MPA.  Whoever follows the connection hands it what changes; everybody else only reads.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.values.options import Announced, emss_of
from scapy_mpa.values.segment import Segment

Direction: TypeAlias = Literal["initiator", "responder"]
#: A frame and its time in nanoseconds since the epoch.
Moment: TypeAlias = tuple[int, int]

DIRECTIONS: tuple[Direction, Direction] = ("initiator", "responder")
#: No TCP window is larger (RFC 7323 §2.3), so nothing farther ahead can belong to the connection.
MAX_WINDOW = 1 << 30


class Half:
    """What one side of a TCP connection has sent, apart from octets.

    Attributes:
        key: addresses and ports of its segments.
        peer: the other direction of the same connection.
        ack: the highest acknowledgement number it sent, -1 if none.
        origin: sequence number of the first octet after its SYN, None if no SYN was captured.
        announced: what its SYN announced, None if that was not captured.
        fin: sequence number of its FIN, frame and time (nanoseconds), None without one.
        rst: the same of the last RST it sent.
    """

    __slots__ = ("ack", "announced", "fin", "key", "origin", "peer", "rst")

    peer: Half

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.ack = -1
        self.origin: int | None = None
        self.announced: Announced | None = None
        self.fin: tuple[int, int, int] | None = None
        self.rst: tuple[int, int, int] | None = None

    def meet(self, peer: Half) -> None:
        """Learn what the other direction is."""
        self.peer = peer

    def acknowledge(self, ack: int) -> None:
        """Its sender acknowledges octets; 0, or a number older than the last, says nothing."""
        if ack and (self.ack <= 0 or (self.ack - ack) & SEQ_MASK > MAX_WINDOW):
            self.ack = ack

    def synchronize(self, origin: int) -> None:
        """Its SYN was captured: octets begin at this sequence number."""
        self.origin = origin

    def announce(self, announced: Announced | None) -> None:
        """Its SYN was captured with its options, or without (None)."""
        self.announced = announced or self.announced

    def finish(self, seg: Segment) -> None:
        """A FIN came; the first one at a sequence number counts."""
        fin = (seg.seq + seg.length) & SEQ_MASK
        if self.fin is None or self.fin[0] != fin:
            self.fin = fin, seg.frame, seg.time

    def reset(self, seg: Segment) -> None:
        """A RST came."""
        self.rst = seg.seq, seg.frame, seg.time

    @property
    def emss(self) -> int:
        """The octets that a segment takes, as the SYNs announce it; 0 if they were not captured."""
        return emss_of(self.announced, self.peer.announced)

    @property
    def closed(self) -> tuple[str, Moment] | None:
        """By what this direction was closed, and when (frame, nanoseconds): its FIN, else the last RST of either."""
        if self.fin is not None:
            return "FIN", self.fin[1:]
        resets = [half.rst[1:] for half in (self, self.peer) if half.rst is not None]
        return ("RST", max(resets)) if resets else None

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be expected of the connection: a RST, or a FIN in both directions."""
        peer = self.peer
        return self.rst is not None or peer.rst is not None or (self.fin is not None and peer.fin is not None)
