"""What an analysis must find in a capture, computed from what was sent and from the packets as they were written to it.

The receiver has no part in this: where each FPDU lies is known from its sender, which octets each frame brought
from the packets. ``Truth`` takes note of the packets one by one and gives, at the end, a record with the keys of
``scapy-mpa fpdus`` for every FPDU that can be found. The definitions:

* complete(k): the first frame by which every octet of FPDU k, and both startup frames, have been captured.
* placed(k): complete(k) if it is the first one, or holds a Marker; if not, also not before placed(k - 1). Where the
  CRC of k is bad nothing is placed, and k + 1 has to be found on its own; if that is bad too, what follows it has to
  show that it was one. Behind octets that no frame brings, FPDUs are found by the next Marker; in a stream without
  Markers by searching.
* delivered(k): the last complete(j) for j up to k; none after octets that no frame brings.

Octets that a snapshot length cut off were on the wire: they count as captured. An FPDU with some of them is found if
its ULPDU_Length is in the file, by a Marker only if that is too, or if it begins and ends with segments; nothing is
known about its CRC.

A segment whose TCP checksum is wrong was dropped whole by its receiver: other copies count, wherever there are some.
Octets that no other frame brings still belong to the connection, so that an FPDU with them may be bad; that is no
error of MPA's where a SYN shows that TCP checksums were captured as they were on the wire.

A segment with a bad CRC under a right TCP checksum may have been dropped too (RFC 5044 §8). If its octets come again,
right this time and before the peer has acknowledged them, the FPDU is good: complete reckons with the copy that was
taken. Octets of other FPDUs in the same segment count at once. See ``takencopies``.

Behind octets that no frame brings, in a stream with neither Markers nor CRCs, FPDUs can only be found by chains of
lengths and headers that agree. All that are there are listed; how long a chain must be is for a receiver to choose,
and so is how many FPDUs it takes to believe in a connection whose startup frames were not captured.

The damage of ``impairments`` falls on ULPDUs and CRC fields alone. Where a length or a Marker is damaged, what a
receiver can find is nothing that a sender could know. Nor is anything known about FPDUs that were altered on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scapy_mpa.craft.capturedhalf import NEVER, CapturedHalf
from scapy_mpa.craft.packets import SYN
from scapy_mpa.craft.takencopies import Acknowledged, Captured
from scapy_mpa.craft.tcppacket import IPFragment, SentHalf, TcpPacket
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import STARTUP_HEADER_LENGTH


class Truth:
    """Takes note of every packet that is written to a capture, in order, beginning with frame 1."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._captured: dict[SentHalf, list[Captured]] = {}
        #: The frames that acknowledge octets of a half, and up to where.
        self._acknowledged: dict[SentHalf, list[tuple[int, int]]] = {}
        #: The half that sent the first data segment, by connection.
        self._first: dict[int, SentHalf] = {}
        #: The halves whose SYN was captured.
        self._synchronized: set[SentHalf] = set()
        #: Those whose SYN had its checksum.
        self._checked: set[SentHalf] = set()
        self._fragments: dict[tuple[SentHalf, int, int], dict[int, tuple[IPFragment, int]]] = {}

    def note(self, packet: TcpPacket, captured: int | None = None, tick: int = 1) -> None:
        """A packet is the next frame of the capture, which kept ``captured`` octets of it (None: all).

        It counts time in ticks of this many nanoseconds.
        """
        self._times.append(packet.time - packet.time % tick)
        if packet.is_injected:
            return
        if packet.flags & SYN:
            self._synchronized.add(packet.half)
            if packet.checksum == "right" and (captured is None or captured >= packet.headers):
                self._checked.add(packet.half)
        if packet.piece is not None:
            self._note_fragment(packet, packet.piece, captured)
        else:
            kept = len(packet.payload)
            if captured is not None:
                kept = min(kept, captured - packet.headers)
            self._note_segment(packet, kept)

    def _note_fragment(self, packet: TcpPacket, piece: IPFragment, captured: int | None) -> None:
        """Count a datagram at the fragment that completes it."""
        key = packet.half, piece.identification, packet.start
        pieces = self._fragments.setdefault(key, {})
        length = piece.end - piece.start
        if captured is not None:
            frames = packet.half.frames
            header = frames.tcp_at + (8 if frames.ip_version == 6 else 0)
            length = max(min(length, captured - header), 0)
        pieces.setdefault(piece.start, (piece, length))
        if sum(one.end - one.start for one, _ in pieces.values()) < piece.total:
            return
        del self._fragments[key]
        kept = 0
        for _, (one, length) in sorted(pieces.items()):
            kept += length
            if length < one.end - one.start:
                break
        self._note_segment(packet, kept - (piece.total - len(packet.payload)))

    def _note_segment(self, packet: TcpPacket, kept: int) -> None:
        half = packet.half
        if kept < 0:
            return
        if packet.ack is not None:
            self._acknowledged.setdefault(half.peer, []).append((len(self._times), packet.ack))
        if not packet.payload:
            return
        self._first.setdefault(half.connection, half)
        damage = tuple(packet.start + index for index, _ in packet.damage if index < kept)
        # Of a segment that was cut nobody knows whether its checksum is right.
        is_dropped = packet.shows_damage and kept == len(packet.payload)
        self._captured.setdefault(half, []).append(
            Captured(len(self._times), packet.start, packet.end, damage, is_dropped, packet.start + kept)
        )

    def records(self) -> Iterator[dict[str, Any]]:
        """The FPDUs that are to be found, ordered as ``scapy-mpa fpdus`` orders them."""
        found = []
        for connection, first in self._first.items():
            told = _ConnectionTruth(first, self._captured, self._acknowledged, self._synchronized, self._checked)
            if told.order < NEVER:
                found.append((told.order, connection, told))
        for number, (_, _, told) in enumerate(sorted(found, key=lambda entry: entry[:2])):
            for direction, half in told.halves.items():
                for record in half.records(self._times):
                    yield {"connection": number, "direction": direction, **record}


class _ConnectionTruth:
    """One connection; ``order`` is the frame that determines its number."""

    def __init__(
        self,
        first: SentHalf,
        captured: dict[SentHalf, list[Captured]],
        acknowledged: dict[SentHalf, list[tuple[int, int]]],
        synchronized: set[SentHalf],
        checked: set[SentHalf],
    ) -> None:
        sides: dict[Role, SentHalf] = {half.role: half for half in (first, first.peer)}
        self.halves: dict[Role, CapturedHalf] = {}
        has_startup = any(half.startup is not None for half in sides.values())
        frames = {role: _startup_frame(sides[role], captured.get(sides[role], [])) for role in ROLES}
        request, reply = frames["initiator"], frames["responder"]
        self.order = min(request, NEVER)
        if request == NEVER:
            self.order = reply
        if has_startup and reply < NEVER:
            floor = reply if request == NEVER else max(request, reply)
            anchored = set(sides.values())
        elif has_startup and request < NEVER:
            return
        else:
            # It begins in the middle, or has no startup frames: the side that sends first is called the Initiator.
            sides = {"initiator": first, "responder": first.peer}
            # Without startup frames Full Operation may begin with the first octet after SYN.
            floor = 0
            anchored = {
                half for half in sides.values() if not has_startup and half.origin == 0 and half in synchronized
            }
        for role in ROLES:
            half = sides[role]
            if half.origin is not None:
                said = Acknowledged(acknowledged.get(half, []))
                self.halves[role] = CapturedHalf(
                    half, captured.get(half, []), said, floor, half in anchored, half in checked
                )
        if self.order == NEVER:
            self.order = min((half.first_placed for half in self.halves.values()), default=NEVER)


def _startup_frame(half: SentHalf, captured: list[Captured]) -> int:
    """The frame by which the startup frame of a half was captured: its header, and any octets of its Private Data."""
    if half.startup is None:
        return NEVER
    start, end = half.startup
    header = min(end, start + STARTUP_HEADER_LENGTH)
    missing = [(start, header), (header, end)]
    for segment in captured:
        missing = [
            part
            for start, end in missing
            for part in (
                (start, min(end, segment.start)),
                (max(start, segment.kept if start < header else segment.end), end),
            )
            if part[0] < part[1]
        ]
        if not missing:
            return segment.frame
    return NEVER
