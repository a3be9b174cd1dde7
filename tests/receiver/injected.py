"""Segments put into a captured conversation that its receivers would drop, or never saw.

One kind for each reason to drop a segment (RFC 9293 §3.10.7, RFC 7323 §5.3, RFC 5961 §3 to §5). Each is made from what
the tap had captured before, and says by what the capture shows that it is foreign; if by nothing, the draw cannot be
judged (`Injection.shown_by` is empty).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from tests.receiver.network import State, Tapped
from tests.receiver.script import MPA, Stream
from tests.receiver.truth import FirstFrames
from tests.receiver.wire import ACK, FIN, RST, SYN, TCPSegment, encode_fpdu, send, startup_frame

#: The largest window (RFC 7323 §2.3): 65535 shifted by 14.
LARGEST_WINDOW = 65535 << 14


class Injection(NamedTuple):
    """A segment to be captured before the one at `place`."""

    place: int
    segment: TCPSegment
    #: "drop-reason": a rule of TCP that the captured ACKs suffice for; "crc": it makes FPDUs invalid; "first": the
    #: octets had been captured before; "place": no stream is where it is; "handshake": a SYN tells where the stream is.
    shown_by: frozenset[str]


class View(NamedTuple):
    """What the tap has captured of a direction before a place: of its sender, and of its receiver's answers."""

    #: The acknowledgement and window that the sender sent last.
    ack: int
    window: int
    #: The highest acknowledgement and right edge that its receiver sent; the highest timestamp it echoed (-1: none).
    acknowledged: int
    right_edge: int
    echoed: int


class Scene:
    """A captured conversation, for those that put something into it.

    Args:
        mode: "all", "no-acks" (no segment without octets), "initiator" or "responder" (that side's segments alone).
        shifts: shift counts of the windows of both sides in use.
    """

    def __init__(
        self, captured: list[Tapped], streams: tuple[Stream, Stream], mpa: MPA, mode: str, rng: random.Random,
        shifts: tuple[int, int], clocks: tuple[tuple[int, int], float],
    ) -> None:  # fmt: skip
        self.captured, self.streams, self.mpa, self.mode, self.rng = captured, streams, mpa, mode, rng
        self.has_syn = any(one.segment.flags & SYN for one in captured)
        #: Where the SYNs were not captured, nobody knows the shift: windows may be as large as can be.
        self.shifts = shifts if self.has_syn else (14, 14)
        self.clocks, self.tick = clocks
        self.has_timestamps = captured[-1].segment.timestamps is not None
        self.has_gaps = tuple(len(stream.runs) > 1 for stream in streams)
        self.covered = [self._covered(side, len(captured)) for side in (0, 1)]

    def below(self, most: int) -> int:
        """Return a random number in [0, most)."""
        return int(self.rng.random() * most)

    def octets(self, count: int) -> bytes:
        return self.rng.getrandbits(8 * count).to_bytes(count, "big") if count else b""

    def _covered(self, side: int, place: int) -> FirstFrames:
        """Return which octets of a side were captured undamaged before a place."""
        found = FirstFrames()
        for one in self.captured[:place]:
            if one.segment.side == side and one.segment.payload and not one.kind:
                found.add(one.segment.seq, one.segment.end, 0)
        return found

    def was_captured(self, side: int, place: int, start: int, end: int) -> bool:
        return self._covered(side, place).has(start, end)

    def view(self, place: int, side: int) -> View:
        ack = window = acknowledged = edge = 0
        echoed = -1
        for one in self.captured[:place]:
            segment = one.segment
            if segment.side == side:
                ack, window = max(ack, segment.ack), segment.window
            elif segment.flags & ACK:
                shift = 0 if segment.flags & SYN else self.shifts[segment.side]
                acknowledged = max(acknowledged, segment.ack)
                edge = max(edge, segment.ack + (segment.window << shift))
                if segment.timestamps:
                    echoed = max(echoed, segment.timestamps[1])
        return View(ack, window, acknowledged, edge, echoed)

    def state(self, place: int, side: int) -> State:
        """Return what a host knew at a place."""
        return self.captured[min(place, len(self.captured) - 1)].states[side]

    def segment(self, place: int, side: int, seq: int, payload: bytes, flags: int = ACK) -> TCPSegment:
        """Return a segment that this side could have sent at this place but for its number and octets."""
        view = self.view(place, side)
        stamps = None
        if self.has_timestamps:
            now = self.captured[min(place, len(self.captured) - 1)].time
            echo = max(self.state(place, side).ts_recent, 0)
            stamps = (self.clocks[side] + int(now / self.tick), echo if flags & ACK else 0)
        # After the handshake its sender has acknowledged the SYN, whether or not that was captured before.
        return TCPSegment(side, seq, max(view.ack, 1), flags, view.window, payload, stamps)

    def after_handshake(self) -> int:
        """Return the first place at which an injected segment is after the handshake."""
        octets = (index for index, one in enumerate(self.captured) if one.segment.payload)
        return next(octets, len(self.captured))

    def any_place(self) -> int:
        low = self.after_handshake()
        return low + self.below(len(self.captured) - low + 1)

    def side(self) -> int:
        """Return a side whose segments are captured."""
        return {"initiator": 0, "responder": 1}.get(self.mode, self.below(2))

    @property
    def has_acks(self) -> bool:
        return self.mode == "all"

    def shown(self, side: int, start: int, is_forged: bool, *reasons: str) -> frozenset[str]:
        """Return `reasons`, and "crc" if octets at `start` make FPDUs invalid."""
        is_invalid = self.mpa.crc and not is_forged and start >= self.streams[side].begin
        return frozenset(reasons) | (frozenset(("crc",)) if is_invalid else frozenset())

    def forged_fpdu(self, side: int, offset: int, ulpdu_length: int) -> bytes:
        """Return a valid FPDU for this offset of Full Operation."""
        ulpdu = send(1 + self.below(1000), self.octets(max(0, ulpdu_length - 18)))[:ulpdu_length]
        return encode_fpdu(ulpdu, offset, "Send", markers=self.mpa.markers(side), crc=self.mpa.crc)[0]

    def rival(self, place: int, side: int, low: int, is_later: bool) -> tuple[int, bytes, bool] | None:
        """Return number, octets, and whether they are a valid FPDU, of a rival of real octets from `low` on.

        The real octets are captured at `place` or later, or (`not is_later`) all of them before it.
        """
        around = self.captured[place:] if is_later else self.captured[:place]
        real = [
            one.segment for one in around
            if one.segment.side == side and one.segment.payload and not one.kind and one.segment.seq >= low
        ]  # fmt: skip
        if not real:
            return None
        nearest = real[:8] if is_later else real[-8:]
        chosen = nearest[self.below(len(nearest))]
        stream, begin = self.streams[side], self.streams[side].begin
        if self.rng.random() < 0.4:
            for fpdu in stream.fpdus:
                start, end = begin + fpdu.start, begin + fpdu.end
                is_here = chosen.seq <= start < chosen.end and end - start < 1400
                if is_here and self._has(place, side, start, end, is_later):
                    return start, self.forged_fpdu(side, fpdu.start, fpdu.ulpdu_length), True
        start = chosen.seq + self.below(len(chosen.payload))
        end = start + 1 + self.below(chosen.end - start)
        octets = bytearray(self.octets(end - start))
        # Another octet for certain: a copy that is equal is no rival.
        octets[0] = chosen.payload[start - chosen.seq] ^ 0x55
        return (start, bytes(octets), False) if self._has(place, side, start, end, is_later) else None

    def _has(self, place: int, side: int, start: int, end: int, is_later: bool) -> bool:
        return self.covered[side].has(start, end) if is_later else self.was_captured(side, place, start, end)


def beyond_window(scene: Scene) -> Injection | None:
    """Octets beyond RCV.NXT + RCV.WND, where the stream comes later (RFC 9293 §3.10.7.4)."""
    place, side = scene.any_place(), scene.side()
    edge = max(scene.view(place, side).right_edge, scene.state(place, 1 - side).right_edge)
    rival = scene.rival(place, side, edge + 1, True)
    if rival is None:
        return None
    seq, octets, is_forged = rival
    reasons = ("drop-reason",) if scene.has_acks else ()
    return Injection(place, scene.segment(place, side, seq, octets), scene.shown(side, seq, is_forged, *reasons))


def far_beyond_window(scene: Scene) -> Injection | None:
    """Octets so far beyond the window that the stream never comes there."""
    place, side = scene.any_place(), scene.side()
    stream = scene.streams[side]
    if scene.has_gaps[side]:
        return None
    edge = max(scene.view(place, side).right_edge, scene.state(place, 1 - side).right_edge)
    seq = max(edge, stream.end + (16 << 20 if scene.has_syn else LARGEST_WINDOW))
    seq += (4096, 100_000_000, 700_000_000)[scene.below(3)]
    is_forged = scene.rng.random() < 0.5
    seq += -(seq - stream.begin) % 4
    octets = scene.forged_fpdu(side, seq - stream.begin, 40 + scene.below(1000)) if is_forged else scene.octets(400)
    reasons = ("drop-reason",) if scene.has_acks else ()
    return Injection(place, scene.segment(place, side, seq, octets), scene.shown(side, seq, is_forged, *reasons))


def wrong_ack(scene: Scene) -> Injection | None:
    """In the window, but it acknowledges what its receiver never sent, or long ago (RFC 5961 §5)."""
    place, side = scene.any_place(), scene.side()
    rival = scene.rival(place, side, scene.state(place, 1 - side).rcv_nxt, True)
    if rival is None or scene.has_gaps[1 - side] or scene.mode in ("initiator", "responder"):
        return None
    seq, octets, is_forged = rival
    away = (1 << 27) + scene.below((1 << 31) - (1 << 28))
    segment = scene.segment(place, side, seq, octets)
    segment = segment._replace(ack=segment.ack + (away if scene.rng.random() < 0.5 else -away))
    return Injection(place, segment, scene.shown(side, seq, is_forged, "drop-reason"))


def old_timestamp(scene: Scene) -> Injection | None:
    """In the window, but TSval is older than TS.Recent by more than a tick (RFC 7323 §5.3)."""
    place, side = scene.any_place(), scene.side()
    rival = scene.rival(place, side, scene.state(place, 1 - side).rcv_nxt, True)
    recent = scene.view(place, side).echoed
    if rival is None or not scene.has_timestamps or recent <= 0:
        return None
    seq, octets, is_forged = rival
    segment = scene.segment(place, side, seq, octets)
    age = (2, 3, 1000, 1_000_000, (1 << 31) - (1 << 20))[scene.below(5)]
    segment = segment._replace(timestamps=(recent - age, segment.timestamps[1] if segment.timestamps else 0))
    reasons = ("drop-reason",) if scene.has_acks else ()
    return Injection(place, segment, scene.shown(side, seq, is_forged, *reasons))


def later_rival(scene: Scene) -> Injection | None:
    """Other octets in place of some that were captured before: only that it comes later shows that it is foreign."""
    place, side = scene.any_place(), scene.side()
    rival = scene.rival(place, side, 1, False)
    if rival is None:
        return None
    seq, octets, is_forged = rival
    return Injection(place, scene.segment(place, side, seq, octets), scene.shown(side, seq, is_forged, "first"))


def behind_fin(scene: Scene) -> Injection | None:
    """Octets at or behind the FIN, once it and all before it were captured (RFC 9293 §3.10.7.4, eighth)."""
    side = scene.side()
    stream = scene.streams[side]
    fins = [at for at, one in enumerate(scene.captured) if one.segment.flags & FIN and one.segment.side == side]
    if not fins or scene.has_gaps[side]:
        return None
    places = [at for at in range(fins[0] + 1, len(scene.captured) + 1) if scene.was_captured(side, at, 1, stream.end)]
    if not places:
        return None
    # At once, before the peer acknowledges the FIN, or later.
    place = places[0] if scene.rng.random() < 0.3 else places[scene.below(len(places))]
    seq = stream.end + (0, 0, 1, 1 + scene.below(2000))[scene.below(4)]
    is_forged = scene.rng.random() < 0.7
    octets = scene.octets(200)
    if is_forged:
        octets = scene.forged_fpdu(side, stream.end - stream.begin, 30 + scene.below(300))
    reasons = ("drop-reason",) if scene.has_acks else ()
    return Injection(place, scene.segment(place, side, seq, octets), scene.shown(side, seq, is_forged, *reasons))


def keep_alive(scene: Scene) -> Injection | None:
    """A keep-alive: no octet, or one of garbage, at SND.UNA - 1 (RFC 9293 §3.8.4)."""
    place, side = scene.any_place(), scene.side()
    una = scene.state(place, side).snd_una
    if una <= 2 or not scene.was_captured(side, place, una - 1, una):
        return None
    octets = scene.octets(scene.below(2))
    return Injection(place, scene.segment(place, side, una - 1, octets), frozenset(("first",)))


def forged_syn(scene: Scene) -> Injection | None:
    """A SYN or SYN-ACK of nobody, far from the connection (RFC 5961 §4)."""
    place, side = scene.below(len(scene.captured) + 1), scene.side()
    flags = SYN | (ACK if scene.rng.random() < 0.3 else 0)
    segment = scene.segment(place, side, _far_from(scene, side), b"", flags)
    return Injection(place, segment._replace(ack=_far_from(scene, 1 - side), mss=1460), frozenset(("place",)))


def near_syn(scene: Scene) -> Injection | None:
    """A SYN in the window of the established connection (RFC 5961 §4: a challenge ACK, nothing else)."""
    place, side = scene.any_place(), scene.side()
    seq = scene.state(place, 1 - side).rcv_nxt + scene.below(3000)
    segment = scene.segment(place, side, seq, b"", SYN)._replace(ack=0, mss=1460)
    return Injection(place, segment, frozenset(("place",)))


def forged_rst(scene: Scene) -> Injection | None:
    """A RST far outside the window (RFC 5961 §3)."""
    place, side = scene.below(len(scene.captured) + 1), scene.side()
    return Injection(place, scene.segment(place, side, _far_from(scene, side), b"", RST), frozenset(("place",)))


def old_startup_frame(scene: Scene) -> Injection | None:
    """A late duplicate of a startup frame of an earlier connection between the same ports.

    Its numbers lie outside of what its receiver accepts; between SYN and SYN-ACK it does not acknowledge ISS + 1.
    """
    side = scene.side()
    place = scene.any_place()
    if scene.has_syn and scene.rng.random() < 0.6:
        place = 1 + scene.below(scene.after_handshake())
    rng = scene.rng
    frame = startup_frame(
        side == 0, markers=rng.random() < 0.5, crc=rng.random() < 0.5, private_data=scene.octets(scene.below(40))
    )
    back = (10_000, 1_000_000, 100_000_000, 1_500_000_000)[scene.below(4)]
    segment = scene.segment(place, side, -back - scene.below(5000), frame)
    old = None
    if segment.timestamps is not None:
        old = (segment.timestamps[0] - 60_000, max(0, segment.timestamps[1] - 60_000))
    segment = segment._replace(ack=-back - scene.below(5000), timestamps=old)
    shown_by = frozenset(("handshake",)) if scene.has_syn else frozenset[str]()
    return Injection(place, segment, shown_by)


def _far_from(scene: Scene, side: int) -> int:
    """Return a number that is far from all that a direction sends."""
    return scene.streams[side].end % (1 << 32) + (1 << 30) + scene.below(1 << 30) if not scene.has_gaps[side] else (
        -(1 << 28) - scene.below(1 << 28))  # fmt: skip


KINDS: dict[str, Callable[[Scene], Injection | None]] = {
    "window": beyond_window,
    "far": far_beyond_window,
    "ack": wrong_ack,
    "paws": old_timestamp,
    "rival": later_rival,
    "fin": behind_fin,
    "keep-alive": keep_alive,
    "syn": forged_syn,
    "near-syn": near_syn,
    "rst": forged_rst,
    "old-startup": old_startup_frame,
}
