"""FPDUs taken out of a stream as if they had never been sent: what follows moves up, and nothing is missing.

Frames that are left out leave a gap, after which FPDUs can only be found by Markers or by searching. Without Markers a
gap can be closed: sequence numbers after it are lowered, and so is what the peer acknowledges. What is taken out are
runs of whole FPDUs in whole segments: between two places at which an FPDU begins, and that no segment covers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final

from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.packet import segment_in
from scapy_mpa.framing.ddp import LAST
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff
from scapy_mpa.reading.rewritten import CapturedFrame
from scapy_mpa.report.connection import Connection
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.segment import ACK_FLAG, PATH_MTU, SYN, Segment, checksum_is_right, checksum_is_wrong

_NUMBERS: Final = Struct(">II")
_SEQ_AT, _CHECKSUM_AT, _OPTIONS_AT = 4, 16, 20
_SACK, _SACK_EDGE = 5, 4


class WholeRun(NamedTuple):
    """Whole FPDUs of a half connection, the octets [start, end) of its stream, and the frames that brought them.

    ``ends_message``: the last of them is the last DDP Segment of its message (RFC 5041 §4.1).
    """

    direction: Role
    start: int
    end: int
    frames: tuple[int, ...]
    ends_message: bool


class Closing:
    """One connection from which runs of FPDUs can be removed.

    Args:
        connection: With its FPDUs.
        frames: All frames that are left of the capture, by number.
    """

    def __init__(self, connection: Connection, frames: dict[int, CapturedFrame]) -> None:
        self._starts = {role: connection.half(role).seq_start for role in ROLES}
        self._roles: dict[bytes, Role] = {connection.half(role).key: role for role in ROLES}
        #: The segment of each frame, whose octets are those of the frame.
        self._segments = {
            number: seg
            for number, frame in frames.items()
            if (seg := _segment_of(number, frame)) is not None and seg.key in self._roles
        }
        self.runs = [run for role in ROLES for run in self._runs_of(connection, role)]
        self._take({role: [] for role in ROLES})

    def _runs_of(self, connection: Connection, role: Role) -> Iterator[WholeRun]:
        half = connection.half(role)
        if half.markers or half.seq_start is None or half.dialect is not None:
            return
        brought: list[tuple[int, int, int]] = []
        for number, seg in self._segments.items():
            if self._roles[seg.key] == role and seg.length:
                start = seq_diff(seg.seq, half.seq_start)
                brought.append((start, start + seg.length, number))
        places = sorted({seq_diff(one.seq, half.seq_start) for one in half.fpdus})
        brought.sort()
        last = max((seq_diff(one.seq, half.seq_start) + one.wire_length for one in half.fpdus), default=0)
        for start, end in pairwise(_uncovered(places if last in places else [*places, last], brought)):
            there = brought[bisect_left(brought, (start,)) : bisect_left(brought, (end,))]
            frames = tuple(sorted(number for _, behind, number in there if behind <= end))
            control = places[bisect_left(places, end) - 1] + LENGTH_FIELD_LENGTH
            yield WholeRun(role, start, end, frames, bool(self._octet(there, control) & LAST))

    def _octet(self, brought: Sequence[tuple[int, int, int]], at: int) -> int:
        """Return the octet at a place of a stream, 0 if none of these segments has it."""
        for start, _, number in brought:
            seg = self._segments[number]
            if start <= at < start + seg.end - seg.start:
                return seg.buffer[seg.start + at - start]
        return 0

    def messages(self) -> list[tuple[WholeRun, ...]]:
        """Return the runs as whole messages, in the order in which these began to be captured."""
        found: list[tuple[WholeRun, ...]] = []
        for role in ROLES:
            message: list[WholeRun] = []
            for run in self.runs:
                if run.direction == role:
                    message.append(run)
                    if run.ends_message:
                        found.append(tuple(message))
                        message = []
            if message:
                found.append(tuple(message))
        return sorted(found, key=lambda runs: min(runs[0].frames, default=0))

    def without(self, runs: Sequence[WholeRun], frames: dict[int, CapturedFrame]) -> dict[int, CapturedFrame]:
        """Return the frames that are left if only some of the runs are, with other numbers in TCP's headers."""
        kept = {(run.direction, run.start) for run in runs}
        out = [run for run in self.runs if (run.direction, run.start) not in kept]
        self._take({role: [run for run in out if run.direction == role] for role in ROLES})
        gone = {number for run in out for number in run.frames}
        return {number: self._moved_frame(number, frame) for number, frame in frames.items() if number not in gone}

    def _take(self, taken: dict[Role, list[WholeRun]]) -> None:
        self._taken = taken
        #: Where each run that is out begins, and how many octets are out before it; at the end all that are.
        self._places = {role: [run.start for run in runs] for role, runs in taken.items()}
        self._lower = {
            role: [*accumulate((one.end - one.start for one in runs), initial=0)] for role, runs in taken.items()
        }

    def moved(self, direction: str, seq: int) -> int:
        """Return where a sequence number of the original is now."""
        role: Role = "initiator" if direction == "initiator" else "responder"
        start = self._starts[role]
        if start is None or not self._taken[role]:
            return seq
        offset = seq_diff(seq, start)
        before = bisect_right(self._places[role], offset)
        lower = self._lower[role][before]
        if before:
            lower -= max(0, self._taken[role][before - 1].end - offset)
        return seq - lower & SEQ_MASK

    def _moved_frame(self, number: int, frame: CapturedFrame) -> CapturedFrame:
        seg = self._segments.get(number)
        if seg is None or not any(self._taken.values()):
            return frame
        role = self._roles[seg.key]
        peer = peer_of(role)
        octets = bytearray(frame.octets)
        ack = self.moved(peer, seg.ack) if seg.flags & ACK_FLAG else seg.ack
        header = slice(seg.tcp, seg.start)
        before = _sum(octets[header])
        _NUMBERS.pack_into(octets, seg.tcp + _SEQ_AT, self.moved(role, seg.seq), ack)
        self._move_sack(octets, seg, peer)
        if checksum_is_right(seg) or checksum_is_wrong(seg):
            at = seg.tcp + _CHECKSUM_AT
            found = octets[at] << 8 | octets[at + 1]
            changed = (found + before - _sum(octets[header])) % 0xFFFF or 0xFFFF
            octets[at : at + 2] = changed.to_bytes(2, "big")
        return frame._replace(octets=bytes(octets))

    def _move_sack(self, octets: bytearray, seg: Segment, peer: Role) -> None:
        """Lower the edges in a SACK option (RFC 2018 §3)."""
        at = seg.tcp + _OPTIONS_AT
        while at + 1 < seg.start and octets[at]:
            size = 1 if octets[at] == 1 else max(2, octets[at + 1])
            if octets[at] == _SACK:
                for edge in range(at + 2, min(at + size, seg.start) - _SACK_EDGE + 1, _SACK_EDGE):
                    value = int.from_bytes(octets[edge : edge + _SACK_EDGE], "big")
                    octets[edge : edge + _SACK_EDGE] = self.moved(peer, value).to_bytes(_SACK_EDGE, "big")
            at += size


def _segment_of(number: int, frame: CapturedFrame) -> Segment | None:
    """Return the TCP segment in a frame; None if there is none, or it is fragmented or encrypted."""
    size = len(frame.octets)
    octets = memoryview(frame.octets)
    seg = segment_in(
        number, frame.time, frame.link_type, octets, 0, size, max(size, frame.wire), Fragments(), waits=True
    )
    if seg is None or seg.flags & (PATH_MTU | SYN) or seg.tcp < 0 or seg.buffer is not octets:
        return None
    return seg


def _uncovered(places: Sequence[int], brought: Sequence[tuple[int, int, int]]) -> Iterator[int]:
    """Yield the places, ascending, at which no segment begins before and ends after."""
    index, reach = 0, 0
    for at in places:
        while index < len(brought) and brought[index][0] < at:
            reach = max(reach, brought[index][1])
            index += 1
        if reach <= at:
            yield at


def _sum(octets: bytes | bytearray) -> int:
    return int.from_bytes(octets, "big") % 0xFFFF
