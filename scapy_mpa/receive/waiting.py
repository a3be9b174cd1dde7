"""Segments that wait until it is known what they are, and when that is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scapy_mpa.framing.markers import LONGEST_FPDU
from scapy_mpa.infer.evidence import may_begin_with_fpdu
from scapy_mpa.infer.inference import Budget, Run, infer, is_enough
from scapy_mpa.receive.reassembly import PIECE_WEIGHT, Reassembly
from scapy_mpa.values.segment import Segment, small_copy

#: As many octets, at the beginning of a TCP connection, are looked at before more may be FPDUs.
FIRST_LOOK = 24
#: How long (nanoseconds) octets wait before they are looked at: what was sent before may come later.
_TIME = 3_000_000_000
#: After so many octets that were no FPDUs some are looked at again; each time four times as many pass.
_FIRST_PAUSE = 1 << 20


class Waiting:
    """Segments that wait, in the order of capture.

    Attributes:
        octets: the memory they take, near enough.
        acks: what their receiver had acknowledged when each came, by frame.
    """

    __slots__ = ("_released", "acks", "octets", "segments")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self.segments = [*segments]
        self.octets = sum(map(_weight, self.segments)) if self.segments else 0
        self.acks: dict[int, int] = {}
        #: How many of the segments are known to have a buffer of their own.
        self._released = 0

    def __len__(self) -> int:
        return len(self.segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def replace(self, segments: Iterable[Segment] = ()) -> None:
        """These wait now, and no others."""
        if not segments and not self.segments:
            return
        self.segments = list(segments)
        self.octets = sum(map(_weight, self.segments))
        self.acks = {seg.frame: self.acks[seg.frame] for seg in self.segments if seg.frame in self.acks}
        self._released = 0

    def add(self, seg: Segment, ack: int) -> None:
        """One more waits; its receiver had sent this acknowledgement number, -1 if none."""
        self.segments.append(seg)
        self.acks.setdefault(seg.frame, ack)
        self.octets += _weight(seg)

    def pop(self) -> Segment:
        """The one that came last waits no longer."""
        seg = self.segments.pop()
        self.octets -= _weight(seg)
        self._released = min(self._released, len(self.segments))
        return seg

    def release(self, copies: dict[int, Segment]) -> None:
        """The block of the capture that segments lie in goes: they get buffers of their own, shared by ``copies``."""
        for at in range(self._released, len(self.segments)):
            self.segments[at] = small_copy(self.segments[at], copies)
        self._released = len(self.segments)


def lay(segments: Iterable[Segment], stream: Reassembly) -> Reassembly:
    """Put what segments bring in order, in ``stream``, which is returned."""
    for seg in segments:
        start = stream.offset_of(seg.seq)
        stream.commit(seg, start, start + seg.end - seg.start)
    return stream


def _weight(seg: Segment) -> int:
    return seg.end - seg.start + PIECE_WEIGHT


class Decision:
    """Whether the octets of a half connection without startup frame may be FPDUs, as far as it is decided.

    Args:
        is_open: they may be.
        begins_anywhere: the user told that Full Operation begins without startup frames.
    """

    __slots__ = ("_begins_anywhere", "_next_try", "_passing", "_pause", "_since", "is_open")

    def __init__(self, is_open: bool, begins_anywhere: bool) -> None:
        self.is_open = is_open
        self._begins_anywhere = begins_anywhere
        #: The time (nanoseconds) of the first octets that wait, and how many octets are tried next.
        self._since: int | None = None
        self._next_try = FIRST_LOOK
        #: Octets that pass before some are looked at again, and those that still have to.
        self._pause = self._passing = _FIRST_PAUSE

    def look_at_beginning(self, stream: Reassembly) -> None:
        """Look at the first octets of the TCP connection, once, when they are there."""
        if not self.is_open or not stream.anchored or self._next_try != FIRST_LOOK:
            return
        if stream.next - stream.base >= FIRST_LOOK:
            if self.begins_like_fpdu(stream):
                self._next_try += 1
            else:
                self.against()

    def begins_like_fpdu(self, stream: Reassembly) -> bool:
        """Whether the first octets of the TCP connection may be those of an FPDU, with a Marker or without."""
        if self._begins_anywhere:
            return True
        return may_begin_with_fpdu(stream.read(stream.base, min(stream.next, stream.base + LONGEST_FPDU)))

    def is_due(self, octets: int, now: int, at_once: bool) -> bool:
        """Whether so many octets are to be looked at: twice as many as last time wait, ``at_once`` or for long.

        ``now`` is in nanoseconds.
        """
        if self._since is None:
            self._since = now
        return (at_once or now - self._since >= _TIME) and self._is_enough(octets)

    def follows_fpdus(self, stream: Reassembly, first: int, offset: int, budget: Budget) -> bool:
        """Whether the octets from ``first`` to a Key at ``offset`` are FPDUs, so that the Key may be in a ULPDU."""
        if stream.anchored or not self._is_enough(offset - first):
            return False
        inferred = infer([Run(first, stream.read(first, offset))], budget)
        return inferred is not None and is_enough((inferred,))

    def _is_enough(self, octets: int) -> bool:
        """Whether these are twice as many octets as were looked at last."""
        if octets < self._next_try:
            return False
        self._next_try = 2 * octets
        return True

    def against(self) -> None:
        """The octets are no FPDUs: let them pass for a while."""
        if self.is_open:
            self.is_open = False
            self._passing = self._pause
            self._pause *= 4

    def passes(self, octets: int) -> bool:
        """Let so many octets pass; False when some are to be looked at again, by the next ones on."""
        self._passing -= octets
        if self._passing < 0:
            self.is_open = True
            self._since = None
        return self._passing >= 0
