"""Full Operation begun without startup frames: with which stream, from which octet on, with Markers or without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.framing.markers import MARKER_INTERVAL
from scapy_mpa.receive.inference import FEWEST_HEADERS, Inferred, Run, infer
from scapy_mpa.receive.half import Direction, MAX_WINDOW
from scapy_mpa.receive.operation import FullOperation
from scapy_mpa.receive.segment import SEQ_MASK, checksum_is_wrong
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.receive.waiting import lay

if TYPE_CHECKING:
    from scapy_mpa.receive.tcp import Half, MPAConnection

#: What comes before the octets captured first, by so much, is not waited for.
_LOWEST = 1 << 20


class Waited:
    """The segments that wait in a half connection, put in order."""

    def __init__(self, half: Half) -> None:
        phase = half.phase
        assert not isinstance(phase, FullOperation)
        self.half = half
        self.waiting = phase.waiting
        #: The offset of the first octet after the SYN, None if that was not captured.
        self.begin: int | None = None
        self.stream = Reassembly(phase.origin, False)
        if half.origin is not None:
            self.begin = self.stream.offset_of(half.origin)
        # What the receiver dropped says nothing, unless there is nothing else: no checksum of a capture may be right.
        right = [seg for seg in self.waiting if not checksum_is_wrong(seg)]
        lay(right if 2 * len(right) >= len(self.waiting) else self.waiting, self.stream)
        self.runs = [Run(start, self.stream.read(start, end)) for start, end in self.stream.beyond]

    def infer(self, markers: bool | None, crc: bool | None, fewest: int = FEWEST_HEADERS) -> Inferred | None:
        """What the octets say, given what is known."""
        return infer(self.runs, self.half.connection.receiver.budget, markers, crc, fewest)

    def begins(self, near: int | None) -> int | None:
        """The first octet that belongs to it: not far from the one at ``near``; None if there is none."""
        found: int | None = None
        for start, end in reversed(self.stream.beyond):
            if found is not None and found - end > _LOWEST:
                break
            if near is None or start <= near or found is not None:
                found = start
        return found

    def told_start(self) -> int | None:
        """The offset at which Full Operation begins as the user told, if its octet is among these."""
        receiver = self.half.connection.receiver
        for seq in receiver.assumptions.start:
            offset = self.stream.offset_of(seq)
            if any(run.offset <= offset < run.offset + len(run.octets) for run in self.runs):
                receiver.starts_found.add(seq)
                return offset
        return self.begin if receiver.assumptions.begins_behind_syn else None


def begun_at_syn(waited: Waited, inferred: Inferred) -> bool:
    """Whether Full Operation, as inferred, begins with the first octet after the SYN, as the first draft has it."""
    if waited.begin is None or not inferred.markers or not inferred.crc:
        return False
    return inferred.first == waited.begin and (waited.begin - inferred.grid) % MARKER_INTERVAL == 0


def enter(
    mpa: MPAConnection,
    direction: Direction,
    waited: Waited,
    inferred: Inferred | None,
    start: int | None,
    has_markers: bool | None = None,
) -> None:
    """Begin Full Operation of one half connection, and receive what waited.

    ``inferred`` is what it was inferred to be, ``start`` the offset at which Full Operation begins, if that is told;
    ``has_markers`` whether it holds Markers, if a startup frame says so.
    """
    half, stream = waited.half, waited.stream
    assumed = half.connection.receiver.assumptions
    markers = inferred.markers if inferred is not None else bool(assumed.markers_of(direction))
    if start is None and inferred is not None and begun_at_syn(waited, inferred):
        start = waited.begin
    if start is not None:
        begun = Reassembly(stream.seq_of(start), True)
        operation = half.connection.operation(mpa, direction, begun, markers, (0, 0), 0)
    else:
        first = waited.begins(inferred.first if inferred is not None else None)
        if first is None:
            first = waited.begin or 0
        # Offsets count from a place before anything that can still come, where a Marker stands or could stand.
        shift = MAX_WINDOW
        if inferred is not None and inferred.markers:
            shift += (first - inferred.grid) % MARKER_INTERVAL
        begun = Reassembly((stream.seq_of(first) - shift) & SEQ_MASK, True, shift)
        # What may hold Markers, nobody knows where, is not searched: where one stands an FPDU would be wrong.
        known = inferred is not None or assumed.markers_of(direction) is not None or has_markers is False
        known = known or (mpa.crc and has_markers is None)
        operation = half.connection.operation(mpa, direction, begun, markers, (0, 0), None, may_search=known)
    mpa.inferences[direction] = inferred
    operation.replay(waited.waiting.segments)
