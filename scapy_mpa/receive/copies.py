"""Copies of the same octets that differ, and what a half connection says it sent (DESIGN: rival copies, checksums).

A copy equal to what is held is a repeat.  Of two that differ, the one whose TCP checksum is wrong was dropped by the
real receiver; if both may be right, :mod:`~scapy_mpa.receive.rivals` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scapy_mpa.receive.located import Breach
from scapy_mpa.receive.placing import DROPPED
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.receive.scan import Layout
from scapy_mpa.receive.settlement import Settlement
from scapy_mpa.tcp.half import Half
from scapy_mpa.values.segment import Segment
from scapy_mpa.watch.conflicts import conflict_of, consumed_between
from scapy_mpa.watch.segments import is_good_fpdu

#: So far behind the last octet captured an RST is believed to tell what was sent.
MOST_UNSEEN = 1 << 24
#: No segment is longer on the wire; a longer one was cut into several after it was captured.
LARGEST_SEGMENT = 9216


class Verdict(NamedTuple):
    """What becomes of a segment that repeats octets.

    Attributes:
        takes: whether what it brings that is new may be held.
        dropped: the segments that the receiver dropped for their TCP checksum, by the offset at which they differ.
        breaches: what is to be reported.
        rival: the first offset at which it differs from another whose checksum may be right, and that one.
    """

    takes: bool
    dropped: Sequence[tuple[int, Segment]] = ()
    breaches: Sequence[Breach] = ()
    rival: tuple[int, Segment] | None = None


_TAKEN = Verdict(True)


class Copies:
    """The copies of octets of one half connection."""

    __slots__ = ("_layout", "_reassembly", "_settlement")

    def __init__(self, reassembly: Reassembly, layout: Layout, settlement: Settlement) -> None:
        self._reassembly = reassembly
        self._layout = layout
        self._settlement = settlement

    def judge(self, seg: Segment, start: int, end: int, keep_alive: bool) -> Verdict:
        """Whether a segment may be held, whose octets are [start, end).

        Args:
            seg: the segment.
            start: its first offset.
            end: the offset behind its last octet.
            keep_alive: whether it may be one, which may bring an octet of anything (RFC 9293 §3.8.4).
        """
        reassembly, is_wrong = self._reassembly, self._reassembly.checksums.is_wrong
        conflict = conflict_of(reassembly, seg, start, end) if start < reassembly.highest else None
        if conflict is None:
            return _TAKEN
        if not keep_alive and is_wrong(seg):
            return Verdict(False, (), (Breach("tcp-checksum", start, seg.frame, seg.time, DROPPED),))
        damaged = conflict.damaged()
        dropped: dict[int, tuple[int, Segment]] = {}
        if damaged:
            # The receiver dropped the damaged ones all, be the octets that are held of them right or not.
            around = reassembly.pieces_of(max(start, reassembly.base), end)
            dropped = {id(piece.seg): (piece.start, piece.seg) for piece in around if is_wrong(piece.seg)}
            dropped.update({id(other): (offset, other) for offset, other in damaged})
        return Verdict(True, list(dropped.values()), (), conflict.rival())

    def injection(self, seg: Segment, rival: tuple[int, Segment], part: int | None) -> list[Breach]:
        """Of two copies that differ, each with a TCP checksum that is right: does one fit no FPDU?

        ``part`` is where an FPDU begins of which a part is held, None if there is none.
        """
        offset, other = rival
        if not self._layout.crc or not all(map(self._reassembly.checksums.is_right, (seg, other))):
            return []
        settlement = self._settlement
        first = settlement.start_before(offset)
        if part is not None and first < part <= offset:
            first = part  # what is held has not become an FPDU
        is_good = self._has_good_fpdu(seg, first)
        # Of an FPDU in several segments it is only known that it was passed.
        is_passed = not is_good and not settlement.counts.crc_errors and offset < self._reassembly.base
        was_good = self._has_good_fpdu(other, first) or is_passed
        if is_good and was_good:
            detail = f"frames {other.frame} and {seg.frame} brought different FPDUs, both with good CRCs"
        elif is_good or was_good:
            bad, good = (other, seg) if is_good else (seg, other)
            detail = f"the octets of frame {bad.frame} fit TCP but no FPDU, unlike those of frame {good.frame}"
        else:
            return []
        return [Breach("attack-injection", offset, seg.frame, seg.time, detail)]

    def _has_good_fpdu(self, seg: Segment, offset: int) -> bool:
        """Whether a segment holds, from an offset of the half connection on, an FPDU whose CRC is good."""
        start = self._reassembly.offset_of(seg.seq)
        octets = seg.buffer[seg.start + max(offset - start, 0) : seg.end]
        return start <= offset and is_good_fpdu(octets, offset, self._layout.markers)

    def cut_of_repeat(self, seg: Segment, start: int, end: int) -> str:
        """A retransmission: how it cuts an FPDU where the segment before did not; "" if it does not."""
        reassembly = self._reassembly
        consumed, _ = consumed_between(reassembly, start, min(end, reassembly.base))
        for first, other in consumed:
            if first < start < first + other.length <= first + LARGEST_SEGMENT and self._settlement.begins_at(first):
                return f"repeats frame {other.frame} from its octet {start - first}, in the middle of an FPDU"
        return ""


class SentOctets:
    """What one side sent, captured or not: by what it says, and by what its peer acknowledges.

    Args:
        half: the direction of the TCP connection.
        reassembly: its octets.
    """

    __slots__ = ("_acknowledged", "_half", "_last_ack", "_looked_at", "_reassembly", "_wire_end", "not_sent")

    def __init__(self, half: Half, reassembly: Reassembly) -> None:
        self._half = half
        self._reassembly = reassembly
        #: The peer's acknowledgement number that was looked at last, the offset it means, and what was in order then.
        self._last_ack = -1
        self._acknowledged = self._looked_at = 0
        #: The end of the farthest packet that the capture cut.
        self._wire_end = 0
        #: Octets between the FIN and others that came with sequence numbers beyond it.
        self.not_sent = 0

    def acknowledged(self) -> int:
        """The offset up to which the peer has acknowledged, as far as was captured."""
        ack = self._half.peer.ack_then
        if ack > 0 and ack != self._last_ack:
            # Looked at long before it can be more than a window away.
            self._last_ack, self._acknowledged = ack, self._reassembly.offset_of(ack)
        self._looked_at = self._reassembly.next
        return self._acknowledged

    def is_acknowledged(self, start: int, end: int) -> bool:
        """Whether the peer has said that it has all octets between two offsets."""
        peer = self._half.peer
        if self.acknowledged() >= end or peer.is_looking_back:
            return self._acknowledged >= end
        return bool(peer.sacked) and peer.has(*map(self._reassembly.seq_of, (start, end)))

    def keep_up(self) -> None:
        """Look at the acknowledgement number before the octets in order leave it too far behind."""
        if self._reassembly.next - self._looked_at > MOST_UNSEEN:
            self.acknowledged()

    def cut_at(self, wire_end: int) -> None:
        """The capture cut a packet whose octets ended there."""
        self._wire_end = max(self._wire_end, wire_end)

    @property
    def has_unseen(self) -> bool:
        """Whether the peer acknowledged octets of which no frame knows."""
        next_ = self._reassembly.next
        return next_ + 1 < self.acknowledged() < next_ + MOST_UNSEEN

    def end(self) -> int:
        """The end of what this side says it sent: by its FIN, its RST and packets that were cut."""
        reassembly, half = self._reassembly, self._half
        end = max(self._wire_end, reassembly.next)
        if half.fin is not None:
            return max(end, reassembly.offset_of(half.fin[0]))
        # A FIN takes a sequence number too, and may not have been captured.
        rst = reassembly.offset_of(half.rst[0]) - 1 if half.rst is not None else 0
        return max(end, rst) if rst < reassembly.next + MOST_UNSEEN else end

    def gap(self, start: int, end: int, when: tuple[int, int]) -> list[Breach]:
        """What [start, end) is that no frame brought."""
        fin, breaches = self._half.fin, []
        if fin is not None and (self.not_sent or start <= self._reassembly.offset_of(fin[0]) < end):
            # The octets beyond are none of this half connection.
            detail = f"octets after the FIN of frame {fin[1]}, which ends the half connection"
            breaches.append(Breach("outside-window", end, *when, detail))
            sent = max(start, self._reassembly.offset_of(fin[0]))
            self.not_sent += end - sent
            end = sent
            if start == end:
                return breaches
        detail = f"{end - start} octets were not captured"
        acknowledged = self.is_acknowledged(start, end)
        if acknowledged:
            detail += ", though the peer acknowledged them"
        breaches.append(Breach("capture-gap" if acknowledged else "gap", start, *when, detail))
        return breaches
