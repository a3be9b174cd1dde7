"""Segments put into a captured conversation that a TCP receiver would not take at that moment.

Each kind is one function: in goes where and when, out comes the segment, or None where there can be none (no older
timestamp in a connection without timestamps). Where the window lies, what is acknowledged and which timestamp is old is
read off the capture (`Scene.view`). Whether TCP would take a segment is asked again in `is_taken`, which knows nothing
of that: it looks at what the simulated receiver itself knew at that time, and follows RFC 9293 §3.10.7.4 word by word.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.receive.conversing import ACK, FIN, RST, SYN, Captured, Known, Plan, Seg, World, lay_fpdu, send_message

#: Seconds after which a segment that passed the observer has surely arrived.
_UNDER_WAY = 0.08
_HALF = 1 << 31


class View(NamedTuple):
    """What the observer knows of one direction before a place in the capture; relative sequence numbers.

    `acked`, `edge`: the highest acknowledgement by the peer and the right edge of its window. `sent`: behind what its
    sender sent. `stamp`: the youngest timestamp that the peer echoed, which is its TS.Recent; -1: none. `latest`: the
    youngest that was sent. `numbers`: all acknowledgement numbers of the peer.
    """

    acked: int
    edge: int
    sent: int
    stamp: int
    latest: int
    window: int
    numbers: frozenset[int]


class Scene:
    """A conversation as captured, and an earlier one on the same addresses and ports."""

    def __init__(self, world: World, earlier: World) -> None:
        self.world, self.plan = world, world.plan
        self.captured = world.captured
        self.earlier = earlier
        self.lasting = [self._final_edge(side) for side in (0, 1)]

    def _final_edge(self, side: int) -> int:
        return max(known.edge for known in self.world.hosts[1 - side].history)

    def shift(self, side: int) -> int:
        """Shift count of the windows that `side` advertises."""
        mine, other = self.plan.scale[side], self.plan.scale[1 - side]
        return 0 if mine is None or other is None else mine

    def view(self, at: int, side: int) -> View:
        """Of the direction of `side`, before `captured[at]`."""
        acked = edge = sent = window = 0
        stamp = latest = -1
        numbers = set()
        for _, seg, _ in self.captured[:at]:
            if seg.side == side:
                sent = max(sent, seg.end)
                latest = max(latest, seg.stamps[0]) if seg.stamps else latest
            elif seg.flags & ACK:
                numbers.add(seg.ack)
                acked = max(acked, seg.ack)
                shift = 0 if seg.flags & SYN else self.shift(seg.side)
                edge = max(edge, seg.ack + (seg.window << shift))
                window = seg.window
                stamp = max(stamp, seg.stamps[1]) if seg.stamps else stamp
        return View(acked, edge, sent, stamp, latest, window, frozenset(numbers))

    def time(self, at: int, part: float) -> float:
        """Between two captured segments."""
        before = self.captured[at - 1].time
        after = self.captured[at].time if at < len(self.captured) else before + 0.01
        return before + (after - before) * part

    def states(self, side: int, time: float) -> Sequence[Known]:
        """What the receiver of `side`'s segments may know when one arrives that the observer saw at `time`."""
        history = self.world.hosts[1 - side].history
        times = [known.time for known in history]
        first = max(0, bisect_right(times, time) - 1)
        return history[first : max(first + 1, bisect_right(times, time + _UNDER_WAY))]

    def first_place(self) -> int:
        """Behind the SYN of either side."""
        return 1 + next(i for i, one in enumerate(self.captured) if one.seg.side == 1 and one.seg.flags & SYN)

    def last_place(self) -> int:
        """Before the first segment that ends the connection, else behind the last."""
        ends = [i for i, one in enumerate(self.captured) if one.seg.flags & (FIN | RST)]
        return ends[0] if ends else len(self.captured)

    def startup_frames(self) -> list[int]:
        """The places behind which each startup frame is complete."""
        places = []
        for side in (0, 1):
            begin = self.world.script.begins[side]
            got: set[int] = set()
            for i, (_, seg, _) in enumerate(self.captured):
                if seg.side == side:
                    got.update(range(seg.seq, min(seg.seq + len(seg.payload), begin + 1)))
                if seg.payload and len(got) >= begin:
                    places.append(i + 1)
                    break
        return places


class Place(NamedTuple):
    """Where a segment is put: before `captured[at]`, in the direction of `side`."""

    scene: Scene
    at: int
    side: int
    rng: random.Random

    @property
    def view(self) -> View:
        return self.scene.view(self.at, self.side)

    @property
    def other(self) -> View:
        return self.scene.view(self.at, 1 - self.side)

    def pick(self, *values: int) -> int:
        return values[self.rng.randrange(len(values))]

    def octets(self, length: int) -> bytes:
        return self.rng.getrandbits(8 * length).to_bytes(length, "big")

    def stamps(self, back: int = 0) -> tuple[int, int] | None:
        """As the sender itself would give them now; or an older TSval."""
        if not self.scene.plan.timestamps:
            return None
        return (max(self.view.latest, 0) - back) & 0xFFFFFFFF, max(self.view.stamp, 0)

    def make(self, seq: int, payload: bytes = b"", flags: int = ACK, **more: object) -> Seg:
        """A segment as its sender might send it now, but for what is given."""
        values = {
            "ack": self.other.sent,
            "window": self.other.window or 512,
            "stamps": None if flags & SYN else self.stamps(),
            **more,
        }
        return Seg(self.side, seq, flags=flags, payload=payload, **values)  # type: ignore[arg-type]

    # --- where ---

    def far(self) -> int:
        """A number ahead of every window of the conversation."""
        span = self.pick(0, 1, 1 << 10, 1 << 16, 1 << 20, 100_000_000, 1_000_000_000, 2_000_000_000)
        return min(self.scene.lasting[self.side] + span + self.rng.randrange(1000), _HALF - (1 << 24))

    def near(self) -> int:
        """A number just ahead of the window there is now."""
        time = self.scene.time(self.at, 1.0)
        edge = max(self.view.edge, *(known.edge for known in self.scene.states(self.side, time)))
        return edge + self.pick(0, 1, 100, 1000)

    def old(self, length: int) -> int:
        """A number before the SYN's, with this many behind it."""
        span = self.pick(0, 1, 1 << 10, 1 << 20, 100_000_000, 2_000_000_000)
        return max(-length - span - self.rng.randrange(1000), -_HALF + (1 << 24))

    def inside(self, length: int) -> int | None:
        """A number from the next that is not acknowledged on, `length` octets before the window ends."""
        view = self.view
        room = min(view.edge - length, view.acked + 3000) - view.acked
        return (
            None if room < 1 else view.acked + self.pick(0, 0, self.rng.randrange(room), view.sent - view.acked) % room
        )

    # --- what ---

    def junk(self) -> bytes:
        return self.octets(self.pick(2, 8, 20, 100, self.scene.plan.mss))

    def fpdu(self) -> bytes:
        """An FPDU with a good CRC that nobody sent."""
        begin = self.scene.world.script.begins[self.side]
        start = max(0, self.view.acked - 1 - begin)
        start -= start % 4
        return lay_fpdu(send_message(99, self.pick(18, 40, 200), self.rng), start, False, True)[0]

    def content(self, kinds: int = 6) -> bytes:
        """Octets as they may come by mistake or in malice; of the first three `kinds`, none that were really sent."""
        script = self.scene.world.script
        which = self.rng.randrange(kinds)
        if which < 2:
            return self.junk()
        if which == 2:
            return self.fpdu()
        if which == 3:
            return script.octets[self.side][: script.begins[self.side]]
        if which == 4:
            stream = script.octets[self.side]
            first = self.rng.randrange(len(stream))
            return stream[first : first + self.scene.plan.mss]
        return bytes(self.pick(4, 64, 512))


Maker = Callable[[Place], "Seg | None"]


class Kind(NamedTuple):
    """`is_told`: a finding has to name its frame. `answer`: by whom it may be answered at once ("ack": a challenge)."""

    name: str
    make: Maker
    is_told: bool = True
    answer: str = ""


KINDS: dict[str, Kind] = {}


def kind(name: str, *, is_told: bool = True, answer: str = "") -> Callable[[Maker], Maker]:
    def register(make: Maker) -> Maker:
        KINDS[name] = Kind(name, make, is_told, answer)
        return make

    return register


# --- octets outside the window ---


@kind("data-far-ahead")
def _far(place: Place) -> Seg:
    return place.make(place.far(), place.content())


@kind("data-near-ahead")
def _near(place: Place) -> Seg:
    return place.make(place.near(), place.content())


@kind("data-before-syn")
def _before_syn(place: Place) -> Seg:
    octets = place.content()
    return place.make(place.old(len(octets)), octets)


@kind("data-equal-acknowledged", is_told=False)
def _equal(place: Place) -> Seg | None:
    acked = min(place.view.acked, place.scene.world.hosts[place.side].last)
    if acked < 2:
        return None
    first = 1 + place.rng.randrange(acked - 1)
    return place.make(first, place.scene.world.script.octets[place.side][first - 1 : acked - 1][: place.scene.plan.mss])


@kind("data-other-acknowledged")
def _other(place: Place) -> Seg | None:
    stream = place.scene.world.script.octets[place.side]
    begin = 1 + place.scene.world.script.begins[place.side]
    acked = min(place.view.acked, len(stream) + 1)
    if acked - begin < 4:
        return None
    first = begin + place.rng.randrange(acked - begin - 2)
    true = stream[first - 1 : acked - 1][: place.scene.plan.mss]
    forged = place.octets(len(true))
    return place.make(first, bytes([true[0] ^ 0x5A]) + forged[1:])


@kind("data-over-startup")
def _over_startup(place: Place) -> Seg | None:
    """Other octets where the startup frame was acknowledged, and nothing behind it."""
    begin = 1 + place.scene.world.script.begins[place.side]
    if place.view.acked < begin:
        return None
    true = place.scene.world.script.octets[place.side][: begin - 1]
    first = place.pick(0, 4, 16)
    return place.make(1 + first, bytes(octet ^ 0x41 for octet in true[first:]))


# --- an old timestamp, a wrong checksum ---


@kind("data-old-timestamp")
def _old_stamp(place: Place) -> Seg | None:
    return _aged(place, place.content())


@kind("fin-old-timestamp")
def _old_fin(place: Place) -> Seg | None:
    return _aged(place, b"", FIN | ACK)


def _aged(place: Place, octets: bytes, flags: int = ACK) -> Seg | None:
    at, stamp = place.inside(len(octets) or 1), place.view.stamp
    if at is None or stamp < 2 or not place.scene.plan.timestamps:
        return None
    # One that is older by a tick is accepted (DESIGN: copies with doubts).
    old = max(0, stamp - place.pick(2, 100, 10**6, 10**9))
    return place.make(at, octets, flags, stamps=(old, 0))


@kind("data-wrong-checksum")
def _checksum(place: Place) -> Seg | None:
    # Where the octets are those that were sent, a wrong checksum shows nowhere.  Where CRCs are in use it is looked at
    # only when one fails (DESIGN: checksums): an FPDU with a good one counts.
    octets = place.junk() if place.scene.plan.crc else place.content(3)
    at = place.inside(len(octets))
    return None if at is None else place.make(at, octets, checksum="wrong")


@kind("fin-wrong-checksum")
def _checksum_fin(place: Place) -> Seg | None:
    return place.make(place.view.sent, flags=FIN | ACK, checksum="wrong")


@kind("rst-wrong-checksum")
def _checksum_rst(place: Place) -> Seg | None:
    return place.make(place.view.acked, flags=RST | ACK, checksum="wrong")


@kind("syn-wrong-checksum")
def _checksum_syn(place: Place) -> Seg | None:
    return place.make(place.far(), flags=SYN, ack=0, shift=7, checksum="wrong")


# --- segments of an earlier connection ---


def _late(place: Place, wanted: Callable[[Seg], object]) -> Seg | None:
    """One of the earlier connection that this one's receiver finds outside its window."""
    earlier, plan = place.scene.earlier, place.scene.plan
    found = [seg for _, seg, _ in earlier.captured if seg.side == place.side and wanted(seg)]
    if not found:
        return None
    seg = found[place.rng.randrange(len(found))]
    side = place.side
    seq = (earlier.plan.isn[side] + seg.seq - plan.isn[side] + _HALF) % (1 << 32) - _HALF
    ack = (earlier.plan.isn[1 - side] + seg.ack - plan.isn[1 - side] + _HALF) % (1 << 32) - _HALF
    return seg._replace(seq=seq, ack=ack)


@kind("late-startup")
def _late_startup(place: Place) -> Seg | None:
    return _late(place, lambda seg: seg.seq == 1 and seg.payload)


@kind("late-data")
def _late_data(place: Place) -> Seg | None:
    begin = place.scene.earlier.script.begins[place.side]
    return _late(place, lambda seg: seg.seq > begin and seg.payload)


@kind("late-fin")
def _late_fin(place: Place) -> Seg | None:
    return _late(place, lambda seg: seg.flags & FIN)


@kind("late-rst")
def _late_rst(place: Place) -> Seg | None:
    return _late(place, lambda seg: seg.flags & RST)


@kind("late-syn", answer="ack")
def _late_syn(place: Place) -> Seg | None:
    return _late(place, lambda seg: seg.flags & (SYN | ACK) == SYN)


@kind("late-syn-ack", answer="ack")
def _late_syn_ack(place: Place) -> Seg | None:
    return _late(place, lambda seg: seg.flags & (SYN | ACK) == SYN | ACK)


# --- forged SYN, FIN, RST ---


def _syn(place: Place, seq: int | None, flags: int = SYN) -> Seg | None:
    if seq is None:
        return None
    ack = place.other.sent if flags & ACK else 0
    return place.make(seq, b"", flags, ack=ack, shift=place.pick(0, 7, 14), stamps=place.stamps())


@kind("syn-ahead", answer="ack")
def _syn_ahead(place: Place) -> Seg | None:
    return _syn(place, place.far())


@kind("syn-behind", answer="ack")
def _syn_behind(place: Place) -> Seg | None:
    return _syn(place, place.old(1))


@kind("syn-inside", answer="ack")
def _syn_inside(place: Place) -> Seg | None:
    return _syn(place, place.inside(1))


@kind("syn-acknowledged", answer="ack")
def _syn_acked(place: Place) -> Seg | None:
    """Among numbers that were acknowledged; not the number of the real SYN."""
    acked = place.view.acked
    return _syn(place, 1 + place.rng.randrange(acked - 1) if acked > 1 else None)


@kind("syn-ack-ahead", answer="ack")
def _syn_ack_ahead(place: Place) -> Seg | None:
    return _syn(place, place.far(), SYN | ACK)


@kind("syn-ack-inside", answer="ack")
def _syn_ack_inside(place: Place) -> Seg | None:
    return _syn(place, place.inside(1), SYN | ACK)


@kind("fin-ahead")
def _fin_ahead(place: Place) -> Seg:
    return place.make(place.pick(place.far(), place.near()), flags=FIN | ACK)


@kind("fin-behind")
def _fin_behind(place: Place) -> Seg:
    return place.make(place.old(1), flags=FIN | ACK)


@kind("fin-acknowledged")
def _fin_acked(place: Place) -> Seg | None:
    """A FIN among numbers that were acknowledged."""
    acked = place.view.acked
    return place.make(1 + place.rng.randrange(acked - 1), flags=FIN | ACK) if acked > 1 else None


@kind("fin-ahead-with-data")
def _fin_data(place: Place) -> Seg:
    return place.make(place.far(), place.content(), FIN | ACK)


@kind("rst-ahead")
def _rst_ahead(place: Place) -> Seg:
    return place.make(place.pick(place.far(), place.near()), flags=place.pick(RST, RST | ACK))


@kind("rst-behind")
def _rst_behind(place: Place) -> Seg:
    return place.make(place.old(0) - 1, flags=place.pick(RST, RST | ACK))


@kind("rst-acknowledged")
def _rst_acked(place: Place) -> Seg | None:
    """A RST behind the window, at a number that no segment of its receiver acknowledged."""
    acked = place.view.acked
    free = [number for number in range(2, acked) if number not in place.view.numbers]
    return place.make(free[place.rng.randrange(len(free))], flags=place.pick(RST, RST | ACK)) if free else None


@kind("rst-ahead-with-data")
def _rst_data(place: Place) -> Seg:
    return place.make(place.far(), place.content(), RST | ACK)


# --- forged acknowledgements ---


def _wide(place: Place, seq: int, ack: int) -> Seg:
    return place.make(seq, ack=ack, window=place.pick(0, 512, 65535))


@kind("ack-ahead")
def _ack_ahead(place: Place) -> Seg:
    sent = place.other.sent
    return _wide(place, place.pick(place.far(), place.near() + 1), place.pick(sent, sent + 1000, sent + 10**8, 1))


@kind("ack-behind")
def _ack_behind(place: Place) -> Seg:
    sent = place.other.sent
    return _wide(place, place.old(0) - 1, place.pick(sent, sent + 1000, sent + 10**8, 1))


@kind("ack-of-never-sent", is_told=False)
def _ack_never(place: Place) -> Seg:
    """In order, but for octets that the other side never sends; a capture that lacks their segments looks the same."""
    last = place.scene.world.hosts[1 - place.side].last
    return _wide(place, place.view.sent, last + 1 + place.pick(1, 100, 5000, 10**6, 10**9))


@kind("ack-of-not-yet-sent", is_told=False)
def _ack_early(place: Place) -> Seg | None:
    """For octets that the other side sends later; where a capture lacks frames, it looks the same."""
    time = place.scene.time(place.at, 1.0)
    sent = max(place.other.sent, *(known.sent for known in place.scene.states(place.side, time)))
    last = place.scene.world.hosts[1 - place.side].last
    return _wide(place, place.view.sent, sent + 1 + place.rng.randrange(last - sent)) if sent < last else None


#: Not in the table and the properties: what RFC 9293 drops too, though few captures have it.
MORE: dict[str, Kind] = {}


def _with_unsent_ack(place: Place) -> Seg | None:
    octets, at = place.content(), place.inside(600)
    time = place.scene.time(place.at, 1.0)
    sent = max(place.other.sent, *(known.sent for known in place.scene.states(place.side, time)))
    return None if at is None else place.make(at, octets, ack=sent + place.pick(1, 10**6, 10**9))


MORE["data-that-acknowledges-never-sent"] = Kind("data-that-acknowledges-never-sent", _with_unsent_ack)


def is_taken(seg: Seg, known: Known, *, has_stamps: bool) -> bool:
    """Return True if a receiver that knows this takes anything of a segment (RFC 9293 §3.10.7.4, RFC 5961 §3 to §5).

    The second opinion: the receiver's own numbers, the standard's own order.
    """
    if seg.checksum != "right":
        return False
    # RFC 7323 §5.3 R1, before anything else.
    if has_stamps and seg.stamps and not seg.flags & RST and seg.stamps[0] < known.stamp:
        return False
    length, window = seg.end - seg.seq, known.edge - known.next
    if length == 0 and window == 0:
        acceptable = seg.seq == known.next
    elif length == 0:
        acceptable = known.next <= seg.seq < known.next + window
    elif window == 0:
        acceptable = False
    else:
        last = seg.seq + length - 1
        acceptable = known.next <= seg.seq < known.next + window or known.next <= last < known.next + window
        acceptable = acceptable or (seg.seq < known.next and last >= known.next + window)
    if not acceptable:
        return False
    if seg.flags & RST:
        return True
    # A SYN is answered by a challenge (RFC 5961 §4); a segment without ACK is dropped; so is one that
    # acknowledges what was never sent.
    return not seg.flags & SYN and bool(seg.flags & ACK) and seg.ack <= known.sent


def put_in(scene: Scene, name: str, at: int, side: int, rng: random.Random) -> list[Captured] | None:
    """A segment of a kind, and its answer if it gets one; None where there can be none here.

    Raises AssertionError if TCP would take it after all: then the kind is wrong.
    """
    chosen = {**KINDS, **MORE}[name]
    place = Place(scene, at, side, rng)
    seg = chosen.make(place)
    if seg is None:
        return None
    time = scene.time(at, rng.random())
    states = scene.states(side, scene.time(at, 0.0))
    taken = any(is_taken(seg, known, has_stamps=scene.plan.timestamps) for known in states)
    if taken and name.startswith("late-"):
        # The numbers of two connections may meet.
        return None
    assert not taken, f"{name} at {at} of side {side} would be taken: {seg}"
    made = [Captured(time, seg, name)]
    if chosen.answer and rng.random() < 0.5 and scene.view(at, 1 - side).sent:
        mine = scene.view(at, 1 - side)
        answer = Seg(1 - side, mine.sent, place.view.acked, ACK, max(place.view.window, 1))
        if scene.plan.timestamps:
            answer = answer._replace(stamps=(max(mine.latest, 0), max(place.view.stamp, 0)))
        made.append(Captured(time, answer, "answer"))
    return made


def earlier_plan(plan: Plan, rng: random.Random) -> Plan:
    """A conversation of before, between the same ends."""
    away = rng.choice((200_000, 100_000_000, 1_000_000_000, 2_000_000_000, -200_000, -100_000_000, -1_000_000_000))
    back = rng.choice((10_000, 10**6))
    return plan._replace(
        seed=plan.seed + 1,
        isn=((plan.isn[0] + away) % (1 << 32), (plan.isn[1] + away) % (1 << 32)),
        clock=(plan.clock[0] - back, plan.clock[1] - back),
        sizes=((60, 300, 120), (100, 40)),
        lost=(0.0, 0.0),
        end=rng.choice(("fin", "rst")),
    )
