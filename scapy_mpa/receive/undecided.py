"""Half connections that have not shown yet whether they hold Markers, though there is MPA on the connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.framing.markers import MARKER_LENGTH
from scapy_mpa.receive.entering import Waited, enter
from scapy_mpa.receive.inference import FEWEST_HEADERS, HALF_BITS
from scapy_mpa.receive.half import Direction, MAX_WINDOW
from scapy_mpa.receive.operation import FullOperation
from scapy_mpa.receive.segment import Segment
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.receive.waiting import Waiting, lay

if TYPE_CHECKING:
    from scapy_mpa.receive.tcp import Half

#: Octets that wait in a half connection whose other half has been inferred.
_MOST_UNDECIDED = 256 * 1024


class UndecidedHalf:
    """A half connection of a connection that was inferred, which has not shown yet what it is itself."""

    def __init__(self, half: Half, direction: Direction, waiting: Waiting, has_markers: bool | None = None) -> None:
        self.half = half
        self._has_markers = has_markers
        self.direction: Direction = direction
        self.waiting = waiting
        self.origin = waiting.segments[0].seq if waiting else half.origin or max(half.peer.ack, 0)
        self._next_try = 2 * waiting.octets
        self._touched = False
        half.next_seq = -1

    @property
    def weight(self) -> int:
        """Octets of memory that what waits takes."""
        return self.waiting.octets

    def in_order(self, seg: Segment) -> bool:
        """No segment is taken at a glance."""
        return False

    def receive(self, seg: Segment) -> None:
        """Take any segment with payload."""
        if self.half.connection.begins_anew(self.half, seg):
            return
        if not self._touched:
            self._touched = True
            self.half.connection.receiver.touched.append(self)
        if not self.waiting:
            self.origin = seg.seq
        waiting = self.waiting
        waiting.add(seg)
        if waiting.octets >= self._next_try:
            self._next_try = 2 * waiting.octets
            self.decide(waiting.octets > _MOST_UNDECIDED)

    def decide(self, at_last: bool) -> None:
        """Begin Full Operation if what waits says enough; ``at_last``, with what is likeliest."""
        connection = self.half.connection
        mpa = connection.mpa
        assert mpa is not None
        waited = Waited(self.half)
        assumed = connection.receiver.assumptions
        start = waited.told_start()
        # That there is MPA is known: less will do.
        told = assumed.markers_of(self.direction) if self._has_markers is None else self._has_markers
        inferred = waited.infer(told, mpa.crc, FEWEST_HEADERS - 1)
        if inferred is not None and (inferred.bits < HALF_BITS or not (at_last or inferred.shows_markers)):
            inferred = None
        if inferred is not None or start is not None or at_last:
            enter(mpa, self.direction, waited, inferred, start, self._has_markers)

    def relieve(self, _now: tuple[int, int]) -> None:
        """Too much is held back in all: decide."""
        self.decide(at_last=True)

    def let_go(self) -> None:
        """The TCP connection is over: nothing that waits is read any more."""
        self.waiting.replace()

    def release(self) -> bool:
        """The block of the capture that segments lie in goes; nothing is left to go with the next one."""
        self.waiting.release({})
        self._touched = False
        return False


class AdaptingHalf(UndecidedHalf):
    """What a Responder sends that may be an RDMAC RNIC: whether it holds Markers, its first octets show.

    An RDMAC RNIC sends Markers to whoever goes on after its Reply; the Initiator's M need not have asked for them
    (RFC 5044 appendix C.2.3, Figure 16).  ULPDU_Length is never zero, the first Marker is.
    """

    def __init__(
        self, half: Half, direction: Direction, waiting: Waiting, seq_start: int, floor: tuple[int, int]
    ) -> None:
        super().__init__(half, direction, waiting)
        self._seq_start = seq_start
        self._floor = floor
        self._next_try = 0

    def decide(self, at_last: bool) -> None:
        """Begin Full Operation if its first octets are there; ``at_last``, without."""
        connection = self.half.connection
        mpa = connection.mpa
        assert mpa is not None
        stream = lay(self.waiting, Reassembly(self._seq_start, True))
        if stream.next < MARKER_LENGTH and not at_last:
            return
        markers = stream.next >= MARKER_LENGTH and stream.read(0, MARKER_LENGTH) == bytes(MARKER_LENGTH)
        operation = connection.operation(
            mpa, self.direction, Reassembly(self._seq_start, True), markers, self._floor, 0
        )
        operation.replay(self.waiting.segments)


def finish_undecided(half: Half) -> None:
    """Nothing more comes: begin Full Operation with what is there."""
    if isinstance(half.phase, UndecidedHalf):
        half.phase.decide(at_last=True)
        assert isinstance(half.phase, FullOperation)
