"""SYNs: which connection they belong to (RFC 9293 §3.10.7.4, RFC 5961 §4).

In the middle of a connection a SYN may be forged, or late: it is believed when the other side answers it or, where that
side was not captured at all, when its own sender goes on behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.tcp.acceptance import Acceptance
from scapy_mpa.tcp.half import Half
from scapy_mpa.tcp.intake import Intake
from scapy_mpa.values.segment import ACK_FLAG, Segment


class HandshakeOwner(Protocol):
    """The TCP connection that SYNs are for."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is to be expected."""

    @property
    def has_data(self) -> bool:
        """Whether octets were captured."""

    def has_begun_behind(self, half: Half, origin: int) -> bool:
        """Whether a SYN whose first octet is ``origin``, be it captured late, is that of the present connection."""

    def begin_with(self, segments: Sequence[Segment]) -> None:
        """These segments begin another connection on the same addresses and ports."""

    def leave_out(self, intake: Intake, seg: Segment, acceptance: Acceptance) -> None:
        """A segment belongs to nobody."""

    def find(self, rule: str, seg: Segment, detail: str, half: Half | None = None) -> None:
        """Report something about a direction."""


class Handshake:
    """The SYNs of one TCP connection."""

    __slots__ = ("_connection",)

    def __init__(self, connection: HandshakeOwner) -> None:
        self._connection = connection

    def _is_established(self, half: Half) -> bool:
        """Whether a connection is under way, so that another SYN may be forged."""
        if self._connection.has_data:
            return True
        return any(one.origin is not None and one.peer.ack == one.origin for one in (half, half.peer))

    def is_foreign(self, intake: Intake, seg: Segment) -> bool:
        """Whether a SYN belongs to another connection; if so, it has been dealt with."""
        connection, half, peer = self._connection, intake.half, intake.peer
        origin, is_closed = (seg.seq + 1) & SEQ_MASK, connection.is_closed
        is_established = self._is_established(half)
        if not is_closed and not is_established and peer.half.origin is not None:
            return self._is_no_answer(intake, seg)
        is_over = is_closed and not (intake.is_reset_in_doubt or peer.is_reset_in_doubt)
        if is_over or not is_established or connection.has_begun_behind(half, origin):
            return False
        if half.origin is None and intake.segments.may_begin_at(origin):
            return False  # the SYN of this connection, captured late
        if intake.syn is not None and intake.syn.seq == seg.seq:
            self.finish(intake)  # perhaps the same once more
        else:
            self._find_unanswered(intake)
        intake.see_foreign_syn(seg)
        other = peer.syn
        is_answer = seg.flags & ACK_FLAG and other is not None and not other.flags & ACK_FLAG
        is_answer = is_answer and other is not None and seg.ack == (other.seq + 1) & SEQ_MASK
        if other is not None and is_answer and not self._is_earlier(peer, other, intake, seg):
            connection.begin_with([other, seg])
        return True

    def _is_earlier(self, peer: Intake, theirs: Segment, intake: Intake, seg: Segment) -> bool:
        """Whether a SYN and what confirms it are both of an earlier connection.

        Clocks go on from one connection to the next (RFC 7323 §5.2). Without them the numbers tell: nobody begins two
        connections with the same.
        """
        if peer.segments.is_older(theirs) and intake.segments.is_older(seg):
            return True
        return bool(theirs.flags & ACK_FLAG) and peer.segments.was_first(theirs) and intake.segments.was_before(seg.seq)

    def _is_no_answer(self, intake: Intake, seg: Segment) -> bool:
        """Whether a SYN does not belong to a connection that the other side has begun; if so, it was dealt with."""
        half, peer = intake.half, intake.peer
        if not seg.flags & ACK_FLAG:
            return False
        if seg.ack != peer.half.origin:
            self._connection.leave_out(intake, seg, Acceptance.OUTSIDE)
            return True
        if half.origin not in (None, (seg.seq + 1) & SEQ_MASK) and peer.first_syn is not None:
            # This one answers; the one before was none of its own.
            self._connection.begin_with([peer.first_syn, seg])
            return True
        return False

    def is_answer(self, intake: Intake, seg: Segment) -> bool:
        """Whether a segment confirms a SYN that may have been forged, and begins another connection."""
        peer, syn, theirs = intake.peer, intake.syn, intake.peer.syn
        if theirs is not None and seg.ack == (theirs.seq + 1) & SEQ_MASK:
            peer.look()
            own = (syn.seq + 1) & SEQ_MASK if syn is not None else None
            if syn is not None and theirs.ack == seg.seq == own:
                # All three of a handshake came, whatever their clocks say.
                self._connection.begin_with([syn, theirs, seg])
                return True
            if not self._is_earlier(peer, theirs, intake, seg) and not peer.segments.was_sent(seg.ack):
                self._connection.begin_with([theirs, seg])
                return True
        if syn is None or seg.seq != (syn.seq + 1) & SEQ_MASK:
            return False
        is_alone = peer.half.ack < 0 and peer.half.origin is None
        if is_alone:
            self._connection.begin_with([syn, seg])
        return is_alone

    def finish(self, intake: Intake) -> None:
        """Nobody answered the last SYN of a direction in the middle of the connection, if there was one."""
        if self._connection.has_data:
            self._find_unanswered(intake)

    def _find_unanswered(self, intake: Intake) -> None:
        if intake.syn is not None:
            self._connection.find("attack-syn", intake.syn, "a SYN that nobody answered", intake.half)
