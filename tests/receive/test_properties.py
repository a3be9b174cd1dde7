"""Any segmentation, order and repetition of a connection gives the FPDUs that `reference` computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.framing.markers import MARKER_INTERVAL
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import EnhancedData, startup_frame
from scapy_mpa.receiver.connection import FIRST_LOOK
from scapy_mpa.receiver.fpdus import FPDUChain, FPDUReader
from scapy_mpa.values.records import record_of
from scapy_mpa.values.segment import ACK_FLAG, FIN, PSH, SYN, Segment, reverse_key, segment
from tests.laying import lay_stream
from tests.receive.cases import PlacedRows
from tests.receive.reference import NEVER, OPCODES, Captured, Sent, Told, first_frames, tell
from tests.sampling import examples

DIRECTIONS = ROLES
KEY = bytes((10, 0, 0, 1, 10, 0, 0, 2)) + (40000).to_bytes(2, "big") + (7471).to_bytes(2, "big")
POOL = Random(5044).getrandbits(8 * (1 << 17)).to_bytes(1 << 17, "big")

#: The findings that damage to a stream makes; rules about what an endpoint should not have sent are another matter.
DAMAGE = {
    "capture-cut", "capture-gap", "connection-lost", "crc", "fpduptr-origin", "gap", "limit", "marker-length",
    "outside-window", "overlap", "startup-enhanced-data", "startup-frame", "startup-key",
    "startup-private-data-limit", "startup-role", "tcp-checksum", "ulpdu-length-limit",
}  # fmt: skip


# --- what is sent ---


@dataclass
class Side:
    """One half connection: streaming data, a startup frame, and Full Operation, whose first octet has offset 0."""

    direction: Role
    isn: int
    streaming: bytes
    startup: bytes
    crc: bool
    octets: bytes
    sent: list[Sent]

    @property
    def low(self) -> int:
        return -len(self.startup) - len(self.streaming)

    @property
    def seq_start(self) -> int:
        return (self.isn + 1 - self.low) % 2**32

    @property
    def key(self) -> bytes:
        return KEY if self.direction == "initiator" else reverse_key(KEY)

    def read(self, start: int, end: int) -> bytes:
        whole = self.streaming + self.startup + self.octets
        return whole[start - self.low : end - self.low]


def laid(ulpdus: Sequence[bytes], *, markers: bool, crc: bool, rev: int) -> tuple[bytes, list[Sent]]:
    octets, fpdus = lay_stream(ulpdus, markers=markers, crc=crc, origin="header" if rev else "first-octet")
    sent = [
        Sent(
            f.offset,
            f.header_offset,
            f.ulpdu_length,
            f.end,
            f.markers,
            OPCODES[ulpdu[1] & 15] if len(ulpdu) > 1 else None,
            f.markers > 0,
        )
        for f, ulpdu in zip(fpdus, ulpdus, strict=True)
    ]
    return octets, sent


LENGTHS = st.one_of(
    st.integers(1, 64),
    st.builds(lambda k, d: max(1, MARKER_INTERVAL * k + d), st.integers(1, 3), st.integers(-24, 24)),
    st.integers(65, 3000),
)
LONG = st.one_of(st.integers(3000, 20000), st.sampled_from([64768, 64767, 65000 - 512, 32768]))


@st.composite
def ulpdus(draw: st.DrawFn, most: int) -> list[bytes]:
    lengths = draw(st.lists(LENGTHS, max_size=most))
    if draw(st.integers(0, 24)) == 24:
        lengths.insert(draw(st.integers(0, len(lengths))), draw(LONG))
    fill = draw(st.sampled_from([POOL, bytes(1 << 17), b"\xff" * (1 << 17)]))
    place = draw(st.integers(0, 1 << 15))
    found = []
    for length in lengths:
        # A Terminate is read by another layer.
        opcode = draw(st.sampled_from([0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 15]))
        found.append((bytes((0x41, 0x40 | opcode)) + fill[place : place + length])[:length])
        place += length % 977
    return found


@st.composite
def sides(draw: st.DrawFn, most: int = 12, crc: bool | None = None, markers: bool | None = None) -> list[Side]:
    """Both half connections of a connection; `crc`, `markers` (of the Initiator's) as told, else anything."""
    rev = draw(st.integers(0, 2))
    flag = st.integers(0, 1)
    m = {"request": draw(flag), "reply": draw(flag) if markers is None else int(markers)}
    c = {"request": draw(flag) if crc is None else int(crc), "reply": draw(flag) if crc is None else 0}
    enhanced = EnhancedData(ird=draw(st.integers(0, 16))) if rev == 2 and draw(st.booleans()) else None
    isns = st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - 5000, 2**32 - 1))
    both = []
    for direction, mine, other in zip(ROLES, ("request", "reply"), ("reply", "request"), strict=True):
        frame = startup_frame(
            "request" if mine == "request" else "reply",
            m=m[mine],
            c=c[mine],
            rev=rev,
            private_data=draw(st.binary(max_size=40).filter(lambda octets: b"MPA" not in octets)),
            enhanced=enhanced,
        )
        streaming = draw(st.sampled_from([b"", b"", b"HELO " * 9]))
        octets, sent = laid(draw(ulpdus(most)), markers=bool(m[other]), crc=bool(c["request"] or c["reply"]), rev=rev)
        both.append(Side(direction, draw(isns), streaming, frame.encode(), bool(any(c.values())), octets, sent))
    return both


# --- what is captured of it ---


@dataclass
class Scene:
    """A capture of one connection: segments in the order of capture, and which octets each of them brought."""

    sides: list[Side]
    segments: list[Segment] = field(default_factory=list)
    captured: dict[str, list[Captured]] = field(default_factory=lambda: {"initiator": [], "responder": []})
    frame: int = 0

    def capture(
        self,
        side: Side,
        start: int,
        end: int,
        *,
        ack: int,
        flags: int = ACK_FLAG,
        step: int = 1,
        damage: tuple[int, ...] = (),
    ) -> None:
        """Capture octets [start, end) of a side; those at the offsets in `damage` are others than were sent."""
        self.frame += step
        seq = (side.seq_start + start) % 2**32
        octets = bytearray(side.read(start, end))
        for at in damage:
            octets[at - start] ^= 0x41
        self.segments.append(
            segment(self.frame, side.key, seq, bytes(octets), ack=ack, flags=flags, time=time_ns(self.frame))
        )
        self.captured[side.direction].append(Captured(self.frame, start, end, damage))

    @property
    def needs_syns(self) -> bool:
        """True if FPDUs may be inferred of what is held, copies included, before a startup frame comes late.

        A SYN says that one may still come.
        """
        return sum(len(side.octets) for side in self.sides) >= FIRST_LOOK // 2

    def capture_syns(self) -> None:
        """Capture the SYN of each side."""
        initiator, responder = self.sides
        for side, ack, flags in ((initiator, 0, SYN), (responder, initiator.isn + 1, SYN | ACK_FLAG)):
            self.frame += 1
            self.segments.append(
                segment(self.frame, side.key, side.isn, ack=ack % 2**32, flags=flags, time=time_ns(self.frame))
            )

    def told(self, side: Side) -> Told:
        startup = max(max(first_frames(self.captured[s.direction], -len(s.startup), 0)) for s in self.sides)
        assert startup < NEVER
        return tell(
            side.sent,
            self.captured[side.direction],
            startup=startup,
            seq_start=side.seq_start,
            crc=side.crc,
            time=lambda frame: time_ns(frame) / 1_000_000_000,
            direction=side.direction,
        )


def time_ns(frame: int) -> int:
    """A time for each frame; clocks of captures sometimes go back."""
    return 1_700_000_000_000_000_000 + frame * 1000 + (-7000 if frame % 5 == 0 else 0)


def cut(rng: Random, side: Side) -> list[tuple[int, int]]:
    """The half connection in segments, somehow."""
    low, start, end = side.low, -len(side.startup), len(side.octets)
    edges = {low, start, end}
    for _ in range(rng.choice([0, 0, 1, 5])):
        edges.add(rng.randint(start, 0))
    if rng.randint(0, 2):
        edges.add(0)
    if rng.randint(0, 12) == 12:
        edges.update(range(start, 0))
    style = rng.choice(["emss", "aligned", "packed", "random", "octets"])
    boundaries = [f.offset for f in side.sent]
    if style == "emss":
        emss = max(rng.choice([1, 7, 100, 512, 536, 1460, 9000, 65535]), end // 60 + 1)
        edges.update(range(rng.choice([0, start]), end, emss))
    elif style == "aligned":
        edges.update(boundaries)
    elif style == "packed":
        edges.update(b for b in boundaries if rng.randint(0, 1))
    else:
        edges.update(rng.randint(0, end) for _ in range(rng.randint(0, 20)))
        if style == "octets":
            middle = rng.choice([0, *boundaries, *range(0, end, MARKER_INTERVAL)])
            edges.update(range(max(middle - 8, start), min(middle + 12, end)))
    places = sorted(edges)
    return list(pairwise(places))


def repeated(rng: Random, side: Side, cuts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Retransmissions, with the boundaries of the first transmission or others."""
    found = []
    for _ in range(rng.choice([0, 0, 1, 4])):
        if rng.randint(0, 1):
            found.append(rng.choice(cuts))
        else:
            a, b = rng.randint(-len(side.startup), len(side.octets)), rng.randint(0, 3000)
            found.append((a, min(a + b, len(side.octets))))
    return [(a, b) for a, b in found if a < b]


Planned = tuple[int, int, int, bool]  # side, start, end, repeated


def ordered(rng: Random, both: Sequence[Side], repeats: bool = True) -> list[Planned]:
    """The segments of both sides in some order of capture."""
    plan: list[tuple[float, Planned]] = []
    extra: list[Planned] = []
    for index, side in enumerate(both):
        cuts = cut(rng, side)
        for number, (a, b) in enumerate(cuts):
            # Startup frames cross the wire first, the Request before the Reply.
            place = index if a < 0 else 2 + number / len(cuts)
            plan.append((place, (index, a, b, False)))
        if repeats:
            extra += [(index, a, b, True) for a, b in repeated(rng, side, cuts)]
    items = [item for _, item in sorted(plan, key=lambda pair: pair[0])]
    for item in extra:
        items.insert(rng.randint(0, len(items)), item)
    order = rng.choice(["sent", "local", "local", "any"])
    if order == "local":
        for _ in range(rng.randint(1, 6)):
            at = rng.randint(0, max(len(items) - 1, 0))
            items.insert(rng.randint(at, min(at + 8, len(items) - 1)), items.pop(at))
    elif order == "any":
        rng.shuffle(items)
    return items


def ack_of(rng: Random, both: Sequence[Side], planned: Planned) -> int:
    """An acknowledgement number that the sender of a segment may have put in it."""
    index, start, _, again = planned
    peer = both[1 - index]
    most = len(peer.octets)
    if start < 0 and not again:
        # The Reply acknowledges the Request, and no FPDU can have been sent before it.
        offset = 0 if index else -len(peer.startup)
    else:
        offset = rng.randint(0, most) if rng.randint(0, 1) else 0
    return (peer.seq_start + offset) % 2**32


def captured(rng: Random, both: list[Side], plan: Iterable[Planned], *, fin: bool = True, acks: bool = True) -> Scene:
    """The capture of a plan; with or without SYN."""
    scene = Scene(both)
    if rng.randint(0, 1) or scene.needs_syns:
        scene.capture_syns()
    for planned in plan:
        index, start, end, _ = planned
        side = both[index]
        flags = ACK_FLAG | rng.choice([0, PSH])
        if fin and end == len(side.octets) and start >= 0:
            flags |= rng.choice([0, FIN])
        step = rng.choice([1, 1, 1, 2, 250, 255, 256, 257, 70000])
        # Without, each acknowledges what came before the peer's first octet.
        ack = ack_of(rng, both, planned) if acks else (both[1 - index].isn + 1) % 2**32
        scene.capture(side, start, end, ack=ack, flags=flags, step=step)
    return scene


RANDOM = st.randoms(use_true_random=False)


@st.composite
def scenes(draw: st.DrawFn, most: int = 12, crc: bool | None = None, markers: bool | None = None) -> Scene:
    both = draw(sides(most, crc, markers))
    rng = draw(RANDOM)
    return captured(rng, both, ordered(rng, both))


# --- what is received ---


def receiver_of(scene: Scene, **kwargs: Any) -> Analyzer:
    receiver = Analyzer(records=True, **kwargs)
    receiver.feed(scene.segments)
    receiver.finish()
    return receiver


def records_of(receiver: Analyzer, direction: Role) -> list[dict[str, Any]]:
    (mpa,) = receiver.connections
    operation = mpa.operations[direction]
    assert operation.log is not None
    return [record_of(row, frames, mpa.number, operation.direction).as_dict() for row, frames in operation.log.rows()]


def counters_of(receiver: Analyzer, direction: Role, like: Iterable[str]) -> dict[str, int]:
    (mpa,) = receiver.connections
    counts = mpa.operations[direction].counts
    return {name: getattr(counts, name) for name in like}


def findings_of(receiver: Analyzer) -> list[dict[str, object]]:
    assert not receiver.findings.sorted()
    (mpa,) = receiver.connections
    # How segments lie, and where that shows first, is told of what comes in order.
    return [found.as_dict() for found in mpa.findings.sorted() if not found.rule.id.startswith(("alignment", "attack"))]


def damage(receiver: Analyzer) -> list[tuple[object, ...]]:
    """Rule, direction, count and frame of what damage made; a retransmission without an answer is no damage."""
    return sorted(
        (f["rule"], f["direction"], f["count"], f["frame"])
        for f in findings_of(receiver)
        if f["rule"] in DAMAGE and "retransmissions of octets" not in str(f["detail"])
    )


def agree(scene: Scene, receiver: Analyzer, dropped: int = 0) -> None:
    """The receiver says of every half connection what the reference says.

    Of equal copies the first one counts: octets of a segment of which a part was ``dropped`` may.
    """
    for side in scene.sides:
        told = scene.told(side)
        records = records_of(receiver, side.direction)
        for record, expected in zip(records, told.records, strict=True):
            if dropped not in expected["frames"]:
                record["frames"] = [frame for frame in record["frames"] if frame != dropped]
        assert records == told.records
        assert counters_of(receiver, side.direction, told.counters) == told.counters


def everything(receiver: Analyzer) -> list[Any]:
    """All that a receiver found, to compare it with another."""
    (mpa,) = receiver.connections
    counts = [mpa.operations[direction].counts for direction in DIRECTIONS]
    # Where it looks first depends on when it was asked.
    numbers = [{name: getattr(count, name) for name in count.__slots__ if name != "_near"} for count in counts]
    return [[records_of(receiver, direction) for direction in DIRECTIONS], numbers, findings_of(receiver)]


TOO_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


@settings(max_examples=examples(300), suppress_health_check=TOO_SLOW)
@given(scenes())
def test_any_segmentation_order_and_repetition_gives_the_reference(scene: Scene) -> None:
    receiver = receiver_of(scene)
    agree(scene, receiver)
    assert damage(receiver) == []


# --- the fast path ---


def slowly() -> Any:
    """While it lasts, every FPDU is read as if something about it were remarkable."""

    def none_is_plain(self: FPDUReader, chain: FPDUChain) -> bool:
        return True

    return patch.object(FPDUReader, "_read_run", none_is_plain)


@pytest.mark.uncompiled
@settings(max_examples=examples(80), suppress_health_check=TOO_SLOW)
@given(scenes())
def test_the_slow_path_alone_gives_the_same(scene: Scene) -> None:
    fast = everything(receiver_of(scene))
    with slowly():
        assert everything(receiver_of(scene)) == fast


@settings(max_examples=examples(40), suppress_health_check=TOO_SLOW)
@given(scenes())
def test_counts_do_not_depend_on_records(scene: Scene) -> None:
    receiver = Analyzer()
    receiver.feed(scene.segments)
    receiver.finish()
    for side in scene.sides:
        told = scene.told(side)
        assert counters_of(receiver, side.direction, told.counters) == told.counters
    assert findings_of(receiver) == findings_of(receiver_of(scene))


# --- records as they are placed ---


def yielded(scene: Scene) -> tuple[Analyzer, list[dict[str, Any]]]:
    """A receiver and what its listener was handed, in that order."""
    listener = PlacedRows()
    receiver = receiver_of(scene, listener=listener)
    found = [record_of(row, frames, 0, operation.direction) for operation, row, frames in listener.rows]
    return receiver, [record.as_dict() for record in found]


def same_to_the_listener(scene: Scene) -> None:
    """The listener is handed what the log holds, each FPDU once it is final; delivered_frame is None where it is later.

    An FPDU may be final later than it was placed: iter_fpdus puts them in the order of placement, within a limit.
    """
    receiver, found = yielded(scene)

    def place(record: dict[str, Any]) -> tuple[str, int]:
        side = scene.sides[DIRECTIONS.index(record["direction"])]
        return record["direction"], (record["seq"] - side.seq_start) % 2**32

    logged = [record for direction in DIRECTIONS for record in records_of(receiver, direction)]
    for record, expected in zip(sorted(found, key=place), logged, strict=True):
        if record["delivered_frame"] is None and expected["placed_frame"] != expected["delivered_frame"]:
            expected = {**expected, "delivered_frame": None}
        if record["located_by"] == "marker" and expected["located_by"] == "length":
            # The FPDU before it was not final yet.
            expected = {**expected, "located_by": "marker"}
        assert record == expected


@settings(max_examples=examples(80), suppress_health_check=TOO_SLOW)
@given(scenes())
def test_the_listener_is_handed_the_same(scene: Scene) -> None:
    same_to_the_listener(scene)


# --- letting go of the capture ---


def in_batches(rng: Random, scene: Scene, receiver: Analyzer) -> None:
    """Feed a capture block by block; what a block held is gone when the one after it has been released."""
    rest = list(scene.segments)
    before = bytearray()
    while rest:
        batch, rest = rest[: (size := rng.choice([1, 2, 5, 20]))], rest[size:]
        block = bytearray(1 << 17 | 1)
        places = []
        for seg in batch:
            places.append(len(block))
            block += seg.buffer[seg.start : seg.end]
        view = memoryview(block)
        receiver.feed(
            seg.replace(buffer=view, start=at, end=at + seg.end - seg.start)
            for seg, at in zip(batch, places, strict=True)
        )
        receiver.release()
        before[:] = b"\xa5" * len(before)
        before = block


@settings(max_examples=examples(80), suppress_health_check=TOO_SLOW)
@given(scenes(), RANDOM)
def test_batches_with_release_give_the_same(scene: Scene, rng: Random) -> None:
    receiver = Analyzer(records=True)
    in_batches(rng, scene, receiver)
    receiver.finish()
    assert everything(receiver) == everything(receiver_of(scene))
