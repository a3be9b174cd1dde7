"""One direction of a TCP connection, as far as its own segments tell: acknowledgements, SYN, FIN, RST (RFC 9293 §3).

It knows nothing of MPA.  Whoever follows the connection hands it what changes; everybody else only reads.
"""

from __future__ import annotations

from array import array
from typing import TypeAlias

from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff
from scapy_mpa.tcp.ending import Ending
from scapy_mpa.values.options import LARGEST_SHIFT, Announced, announced, emss_of, sacked_by, timestamps_of, window_of
from scapy_mpa.values.pathmtu import PathMTUMessage, PathMTUMessages
from scapy_mpa.values.segment import ACK_FLAG, SYN, Segment

#: A frame and its time in nanoseconds since the epoch.
Moment: TypeAlias = tuple[int, int]

#: No TCP window is larger (RFC 7323 §2.3), so nothing farther ahead can belong to the connection.
MAX_WINDOW = 1 << 30
#: Acknowledgement numbers that are remembered, because a RST answers one of them; ranges acknowledged selectively.
_REMEMBERED, _MOST_SACKED = 64, 15


class Half:
    """What one side of a TCP connection has sent, apart from octets.

    Attributes:
        key: addresses and ports of its segments.
        peer: the other direction of the same connection.
        ack: the highest acknowledgement number it sent, -1 if none.
        edge: the sequence number up to which it lets its peer send: the end of the largest receive window that it
            advertised; -1 if that is not known.
        window: octets of the window that it advertised last.
        sacked: what it acknowledged selectively and ``ack`` does not cover: ranges of sequence numbers.
        stamp: the timestamp of its last segment without octets, -1 if none.
        echo: the timestamp of its peer that it echoed there, -1 if none.
        origin: sequence number of the first octet after its SYN, None if no SYN was captured.
        announced: what its SYN announced, None if that was not captured.
        fin: sequence number of its FIN, frame and time (nanoseconds), None without one.
        rst: the same of the last RST it sent.
        ending: what it did that shows its end.
        path_mtu: what routers say of the path of its packets, None if nothing.
    """

    __slots__ = (
        "_acks",
        "_last",
        "_shift",
        "_then",
        "ack",
        "announced",
        "echo",
        "edge",
        "ending",
        "fin",
        "key",
        "origin",
        "path_mtu",
        "peer",
        "rst",
        "sacked",
        "stamp",
        "window",
    )

    peer: Half

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.ack = -1
        self.edge = -1
        self.window = 0
        self.stamp = self.echo = -1
        self.sacked: list[tuple[int, int]] = []
        self.origin: int | None = None
        self.announced: Announced | None = None
        self.fin: tuple[int, int, int] | None = None
        self.rst: tuple[int, int, int] | None = None
        self.ending = Ending()
        self.path_mtu: PathMTUMessages | None = None
        #: The acknowledgement numbers it sent before the last, the latest ones.
        self._acks = array("q")
        self._shift = LARGEST_SHIFT
        self._then: int | None = None
        #: The last segment without octets, if it was not read yet.
        self._last: Segment | None = None

    def meet(self, peer: Half) -> None:
        """Learn what the other direction is."""
        self.peer = peer

    def leave(self) -> None:
        """The connection is over, and nobody asks for the other direction any more."""
        delattr(self, "peer")

    def acknowledge(self, ack: int) -> None:
        """Its sender acknowledges octets; 0, or a number older than the last, says nothing."""
        if ack and (self.ack <= 0 or (self.ack - ack) & SEQ_MASK > MAX_WINDOW):
            self._acks.append(self.ack)
            if len(self._acks) > 2 * _REMEMBERED:
                del self._acks[:_REMEMBERED]
            self.ack = ack
            if self.sacked:
                self.sacked = [one for one in self.sacked if seq_diff(one[1], ack) > 0]

    @property
    def ack_then(self) -> int:
        """The highest acknowledgement number it had sent when what is received now was captured, -1 if none."""
        return self.ack if self._then is None else self._then

    @property
    def is_looking_back(self) -> bool:
        """Whether what is received now had to wait."""
        return self._then is not None

    def look_back(self, ack: int | None) -> None:
        """What is received now had to wait: then it had sent this number, -1 if none; None if it is over."""
        self._then = ack

    def advertise(self, seg: Segment) -> None:
        """Its sender acknowledges octets, and says how many more it takes, or has taken beyond a hole."""
        self._open_window(seg)
        stamps = timestamps_of(seg)
        if stamps is not None:
            self.stamp = stamps[0]
            self._hear_echo(stamps[1])
        for first, last in sacked_by(seg):
            self._sack(first, last)

    def keep_last(self, seg: Segment) -> None:
        """A segment without octets came; what else it says is read when somebody wants to know."""
        frame, time, key, seq, ack, flags, buffer, start, _, tcp, length = seg
        self._last = None
        if tcp >= 0:
            header = memoryview(bytes(buffer[tcp:start]))
            self._last = Segment(frame, time, key, seq, ack, flags, header, len(header), len(header), 0, length)

    @property
    def has_unread(self) -> bool:
        """Whether the last segment without octets was not read yet."""
        return self._last is not None

    def read_last(self) -> Segment | None:
        """Read what the last segment without octets says, and return it; None if that was done before."""
        seg, self._last = self._last, None
        if seg is None or seg.ack != self.ack:
            return None
        self.advertise(seg)
        return seg

    def hear(self, seg: Segment) -> None:
        """A segment with octets was taken: it may say again what it acknowledges, and offer more."""
        if seg.ack == self.ack and seg.flags & ACK_FLAG:
            self._open_window(seg)
        stamps = timestamps_of(seg)
        if stamps is not None:
            self._hear_echo(stamps[1])

    def _hear_echo(self, echo: int) -> None:
        """A timestamp is echoed; what is looked at last need not have been sent last."""
        if self.echo < 0 or seq_diff(echo, self.echo) > 0:
            self.echo = echo

    def _open_window(self, seg: Segment) -> None:
        window = window_of(seg)
        if window is None or (not window and self.edge < 0):
            return  # who never offers anything has no window worth the name, or a tool made the packets
        self.window = window << (0 if seg.flags & SYN else self._shift)
        edge = (seg.ack + self.window) & SEQ_MASK
        # A receiver should not take back what it offered, and its peer need not have heard of it (RFC 9293 §3.8.6).
        if self.edge < 0 or seq_diff(edge, self.edge) > 0:
            self.edge = edge

    def _sack(self, first: int, last: int) -> None:
        """It has octets beyond a hole; what lies below its acknowledgement is a duplicate (RFC 2883)."""
        if not 0 < seq_diff(last, first) <= MAX_WINDOW or not 0 <= seq_diff(first, self.ack) <= MAX_WINDOW:
            return
        kept = []
        for one in self.sacked:
            if seq_diff(one[0], last) > 0 or seq_diff(first, one[1]) > 0:
                kept.append(one)
            else:
                first = first if seq_diff(first, one[0]) <= 0 else one[0]
                last = last if seq_diff(last, one[1]) >= 0 else one[1]
        self.sacked = [*kept[-_MOST_SACKED:], (first, last)]

    def has_acknowledged(self, ack: int) -> bool:
        """Whether it sent this acknowledgement number, lately."""
        return ack == self.ack or ack in self._acks[-_REMEMBERED:]

    def has(self, start: int, end: int) -> bool:
        """Whether it said that it has all octets between these sequence numbers."""
        if self.ack > 0 and 0 <= seq_diff(self.ack, end) <= MAX_WINDOW:
            return True
        return any(seq_diff(first, start) <= 0 and seq_diff(last, end) >= 0 for first, last in self.sacked)

    def synchronize(self, origin: int) -> None:
        """Its SYN was captured: octets begin at this sequence number."""
        self.origin = origin

    def announce(self, syn: Segment) -> None:
        """Its SYN was captured."""
        self.announced = announced(syn) or self.announced
        self.window = window_of(syn) or 0
        self.agree()
        self.peer.agree()

    def agree(self) -> None:
        """Learn from what both sides announced how its windows are scaled: only if both do (RFC 7323 §2.2)."""
        mine, theirs = self.announced, self.peer.announced
        if (mine is not None and mine.shift is None) or (theirs is not None and theirs.shift is None):
            self._shift = 0
        elif mine is not None and mine.shift is not None:
            self._shift = mine.shift

    def finish(self, seg: Segment) -> None:
        """A FIN came; the first one at a sequence number counts."""
        fin = (seg.seq + seg.length) & SEQ_MASK
        if self.fin is None or self.fin[0] != fin:
            self.fin = fin, seg.frame, seg.time

    def take_back_fin(self) -> None:
        """Octets at its number show that the FIN was none of its sender."""
        self.fin = None

    def reset(self, seg: Segment) -> None:
        """A RST came."""
        self.rst = seg.seq, seg.frame, seg.time
        self.ending.reset(seg)

    def learn_path_mtu(self, message: PathMTUMessage) -> None:
        """A router says what its path takes."""
        self.path_mtu = self.path_mtu or PathMTUMessages()
        self.path_mtu.take(message)

    def take_back_rst(self) -> None:
        """Its sender goes on: the RST was none of its own."""
        self.rst = None
        self.ending.take_back_resets()

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
