"""Floods of segments: twice as many take at most 2.2 times the work, and what is held stays within the limits."""

from __future__ import annotations

import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import pytest

from scapy_mpa.receiver.receiver import Receiver
from scapy_mpa.stream.copies import MOST_RIVALS
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.segment import Segment
from tests.conftest import REPO
from tests.receiver.talk import BEGIN, Talk, rejected, stream
from tests.receiver.wire import ACK, FIN, RST, SYN, startup_frame
from tests.work import lines_run

#: Twice the segments run at most so many times the lines.
MOST_GROWTH = 2.2
FEW = Limits(held_octets=6000, held_segments=60)
#: Octets that any flood takes with these limits: a limit is met with 2,500 FPDUs without ULPDU, 500 octets each.
MOST_MEMORY = 2_500_000
#: Octets of the longest segments of all floods.
LONGEST = 1400

Segments = list[Segment]


class Flood(NamedTuple):
    """``make(n)`` returns some n segments; ``segments`` is how many show how work grows."""

    make: Callable[[int], Segments]
    segments: int


def begun(*, markers: bool = False, crc: bool = True, shift: int | None = 14) -> Talk:
    return Talk().open(shift).start(markers=markers, crc=crc)


def noise(octets: int, seed: int = 1) -> bytes:
    return random.Random(seed).getrandbits(8 * octets).to_bytes(octets, "big")


# --- what the receiver of the octets sends ---


def acks(count: int) -> Segments:
    """Each acknowledges one more octet, none of which was captured."""
    talk = begun()
    for at in range(count):
        talk.put(1, BEGIN, ack=BEGIN + at)
    return talk.segments


def repeated_acks(count: int) -> Segments:
    talk = begun()
    for _ in range(count):
        talk.put(1, BEGIN)
    return talk.segments


def wild_acks(count: int) -> Segments:
    talk, rng = begun(), random.Random(1)
    for _ in range(count):
        talk.put(1, BEGIN, ack=rng.getrandbits(32))
    return talk.segments


def sacks(order: str, timestamps: bool, count: int) -> Segments:
    """Ranges that do not touch."""
    talk = begun()
    for at in order_of(count, order):
        low = BEGIN + 1000 + 2000 * at
        talk.put(1, BEGIN, sacks=((low, low + 1000),), timestamps=(100, 100) if timestamps else None)
    return talk.segments


def order_of(count: int, order: str) -> list[int]:
    if order == "random":
        return random.Random(1).sample(range(count), count)
    return list(range(count))[:: -1 if order == "reverse" else 1]


def acked_data(count: int) -> Segments:
    """Octets of FPDUs, and the ACK of each segment."""
    talk, (octets, _) = begun(), stream(*[100] * (count // 2))
    for at in range(0, len(octets), 128):
        talk.put(0, BEGIN + at, octets[at : at + 128]).put(1, BEGIN, ack=BEGIN + at + 128)
    return talk.segments


# --- octets that overlap ---


def overlaps(step: int, markers: bool, count: int) -> Segments:
    """Each segment overlaps those before with other octets."""
    talk, data = begun(markers=markers), noise(60)
    for at in range(count):
        talk.put(0, BEGIN + 1000 + at * step, data)
    return talk.segments


def rivals(count: int) -> Segments:
    """The same octets, others each time."""
    talk = begun()
    for seed in range(count):
        talk.put(0, BEGIN, noise(200, seed))
    return talk.segments


def scattered_rivals(count: int) -> Segments:
    """Parts of one long FPDU that is not complete, each of other octets, then the rest of it."""
    talk, (octets, _) = begun(), stream(16_000)
    talk.bring(octets[:8000], 100)
    for number in range(count):
        talk.put(0, BEGIN + number % 80 * 100 + number % 7, noise(90, number))
    return talk.segments


def rivals_of_a_header(count: int) -> Segments:
    """The header of a long FPDU is contested, and so is what comes of it."""
    talk, (octets, _) = begun(), stream(60_000)
    for seed in range(12):
        talk.put(0, BEGIN, noise(8, seed))
    for at in range(count // 2):
        talk.put(0, BEGIN + 8 + 8 * at, octets[8 * at : 8 * at + 8]).put(0, BEGIN + 8 + 8 * at, noise(8, at))
    return talk.segments


def duplicates(count: int) -> Segments:
    talk, (octets, _) = begun(), stream(100)
    for _ in range(count):
        talk.put(0, BEGIN, octets)
    return talk.segments


# --- holes ---


def holes(order: str, markers: bool, crc: bool, count: int) -> Segments:
    talk, (octets, _) = begun(markers=markers, crc=crc), stream(100, markers=markers, crc=crc)
    for at in order_of(count, order):
        talk.put(0, BEGIN + 512 * (at + 2), octets)
    return talk.segments


def far_runs(count: int) -> Segments:
    """Beyond the window and behind a hole, octets that nobody acknowledges."""
    talk = begun(shift=None)
    talk.put(1, BEGIN, window=1000)
    for at in range(count):
        talk.put(0, BEGIN + 300_000 + at, b"x").put(1, BEGIN, window=1000)
    return talk.segments


def one_octet(order: str, markers: bool, crc: bool, count: int) -> Segments:
    talk, (octets, _) = begun(markers=markers, crc=crc), stream(*[700] * (count // 700 + 1), markers=markers, crc=crc)
    for at in order_of(count, order):
        talk.put(0, BEGIN + at, octets[at : at + 1])
    return talk.segments


def one_octet_of_long(markers: bool, crc: bool, count: int) -> Segments:
    talk, (octets, _) = begun(markers=markers, crc=crc), stream(60_000, markers=markers, crc=crc)
    return talk.bring(octets[:count], 1).segments


def filled_hole(count: int) -> Segments:
    """Short FPDUs after a hole that the last segment fills."""
    talk, (octets, _) = begun(markers=True), stream(*[20] * (40 * count), markers=True)
    talk.bring(octets[1400:], 1400, at=BEGIN + 1400)
    return talk.put(0, BEGIN, octets[:1400]).segments


# --- what is wrong ---


def bad_fpdus(acknowledged: bool, count: int) -> Segments:
    talk, at = begun(), BEGIN
    damaged = bytearray(stream(100)[0])
    damaged[30] ^= 1
    for number in range(count):
        talk.put(0, at, bytes(damaged))
        at += len(damaged)
        if acknowledged and number % 4 == 0:
            talk.put(1, BEGIN, ack=at)
    return talk.segments


def random_octets(markers: bool, crc: bool, count: int) -> Segments:
    talk, at = begun(markers=markers, crc=crc), BEGIN
    for number in range(count):
        talk.put(0, at, noise(300, number))
        at += 300
        talk.put(1, BEGIN, ack=at)
    return talk.segments


def contradictions(size: int, count: int) -> Segments:
    """Without CRC, Markers that name no start, or none that agrees with another."""
    octets = bytearray(stream(*[1000] * (count * size // 1000 + 1), markers=True, crc=False)[0][: size * count])
    for marker in range(0, len(octets) - 3, 512):
        octets[marker + 2 : marker + 4] = (marker * 7 & 0xFFFC).to_bytes(2, "big")
    return begun(markers=True, crc=False).bring(bytes(octets), size).segments


def zeros(markers: bool, crc: bool, count: int) -> Segments:
    return begun(markers=markers, crc=crc).bring(bytes(300 * count), 300).segments


# --- connections ---


def keys(size: int, count: int) -> Segments:
    octets = b"MPA ID Req Fram" * (size * count // 15 + 1)
    return Talk().open().bring(octets[: size * count], size, at=1).segments


def long_request(count: int) -> Segments:
    """The Private Data of a Request, octet by octet."""
    octets = b"MPA ID Req Frame" + bytes((0x40, 1, 0xFF, 0xFF)) + bytes(count)
    return Talk().open().bring(octets[:count], 1, at=1).segments


def request_alone(size: int, count: int) -> Segments:
    """A Request without a Reply, and octets after it."""
    talk = Talk().open()
    talk.put(0, 1, startup_frame(True, markers=False, crc=True))
    return talk.bring(noise(size * count), size).segments


def other_protocol(size: int, count: int) -> Segments:
    return Talk().open().bring(noise(size * count), size, at=1).segments


def syns(flags: int, count: int) -> Segments:
    talk = begun()
    for number in range(count):
        talk.put(0, number * 7_919_999, flags=flags, ack=number * 99_991)
    return talk.segments


def connections(count: int) -> Segments:
    """Connections with startup frames, one after the other on the same ports."""
    segments: Segments = []
    for number in range(count // 5):
        talk = Talk((number * 70_001, number * 90_001)).open().start()
        segments += [seg.replace(frame=len(segments) + at) for at, seg in enumerate(talk.segments, 1)]
    return segments


def resets(count: int) -> Segments:
    talk = begun().bring(stream(60_000)[0][:1000], 1)
    for number in range(count):
        talk.put(0, BEGIN + number * 977, flags=RST)
    return talk.segments


def fins(count: int) -> Segments:
    talk = begun()
    for number in range(count):
        talk.put(0, BEGIN + number, b"", FIN | ACK)
    return talk.segments


def rejections(order: str, count: int) -> Segments:
    return rejected(count, order).segments


def unfinished_request(count: int) -> Segments:
    """The Request counts more octets than come, and is answered."""
    request = startup_frame(True, markers=False, crc=True)[:18] + b"\xff\xff"
    talk = Talk().open().put(0, 1, request, ack=1).put(1, 1, startup_frame(False, markers=False, crc=True))
    return talk.bring(bytes(20 * count), 20).segments


FLOODS: dict[str, Flood] = {
    "ACKs": Flood(acks, 1000),
    "ACKs again": Flood(repeated_acks, 1000),
    "ACKs of anything": Flood(wild_acks, 1000),
    "data and ACKs": Flood(acked_data, 600),
    "rivals": Flood(rivals, 300),
    "rivals of parts": Flood(scattered_rivals, 600),
    "rivals of a header": Flood(rivals_of_a_header, 400),
    "duplicates": Flood(duplicates, 1000),
    "octets beyond the window": Flood(far_runs, 1500),
    "a hole filled": Flood(filled_hole, 20),
    "bad FPDUs": Flood(partial(bad_fpdus, False), 400),
    "bad FPDUs acknowledged": Flood(partial(bad_fpdus, True), 400),
    "contradictions": Flood(partial(contradictions, 1400), 100),
    "contradictions in short segments": Flood(partial(contradictions, 5), 1000),
    "a long Request": Flood(long_request, 600),
    "a Request alone": Flood(partial(request_alone, 100), 300),
    "one-octet segments after a Request": Flood(partial(request_alone, 1), 600),
    "a Request that is not finished": Flood(unfinished_request, 600),
    "rejections in turn": Flood(partial(rejections, "in turn"), 200),
    "rejections after all Requests": Flood(partial(rejections, "Requests first"), 300),
    "rejections in long segments": Flood(partial(rejections, "packed"), 400),
    "SYNs": Flood(partial(syns, SYN), 500),
    "SYN-ACKs": Flood(partial(syns, SYN | ACK), 500),
    "connections on the same ports": Flood(connections, 300),
    "RSTs": Flood(resets, 600),
    "FINs": Flood(fins, 1000),
}
for _order in ("ascending", "reverse", "random"):
    for _stamped in (False, True):
        FLOODS[f"SACKs {_order}, {'with' * _stamped or 'without'} timestamps"] = Flood(
            partial(sacks, _order, _stamped), 600
        )
    for _markers, _crc in ((True, True), (True, False), (False, True), (False, False)):
        _as = f"M={_markers:d} C={_crc:d}"
        FLOODS[f"holes {_order}, {_as}"] = Flood(partial(holes, _order, _markers, _crc), 300)
        FLOODS[f"one-octet segments {_order}, {_as}"] = Flood(partial(one_octet, _order, _markers, _crc), 700)
for _markers, _crc in ((True, True), (True, False), (False, True), (False, False)):
    _as = f"M={_markers:d} C={_crc:d}"
    FLOODS[f"octets of one long FPDU, {_as}"] = Flood(partial(one_octet_of_long, _markers, _crc), 1000)
    FLOODS[f"random octets, {_as}"] = Flood(partial(random_octets, _markers, _crc), 100)
    FLOODS[f"zeros, {_as}"] = Flood(partial(zeros, _markers, _crc), 300)
for _step in (1, 3, 59):
    FLOODS[f"overlaps by {60 - _step} octets"] = Flood(partial(overlaps, _step, False), 200)
FLOODS["overlaps with Markers"] = Flood(partial(overlaps, 3, True), 200)
for _size in (1, 100):
    FLOODS[f"Keys in segments of {_size}"] = Flood(partial(keys, _size), 600)
    FLOODS[f"another protocol in segments of {_size}"] = Flood(partial(other_protocol, _size), 600)


def work(segments: Iterable[Segment], limits: Limits) -> int:
    """Count the lines that a receiver runs for segments."""
    receiver = Receiver(limits=limits)

    def receive() -> None:
        receiver.feed(segments)
        receiver.finish()

    return lines_run(receive)


@pytest.mark.uncompiled
@pytest.mark.parametrize("name", FLOODS)
def test_work_is_linear(name: str) -> None:
    flood = FLOODS[name]
    once, twice = flood.make(flood.segments), flood.make(2 * flood.segments)
    assert work(twice, DEFAULT_LIMITS) <= MOST_GROWTH * work(once, DEFAULT_LIMITS)


@pytest.mark.uncompiled
@pytest.mark.parametrize("name", FLOODS)
def test_work_is_linear_beyond_limits(name: str) -> None:
    flood = FLOODS[name]
    once, twice = flood.make(2 * flood.segments), flood.make(4 * flood.segments)
    assert work(twice, FEW) <= MOST_GROWTH * work(once, FEW)


def receive_and_take(receiver: Receiver, segments: Segments) -> None:
    """Receive segments, and take what became of them, as an owner does; see that no more is held than may be."""
    for seg in segments:
        mpa = receiver.receive(seg)
        if mpa is None:
            continue
        mpa.arrivals = [[], []]
        for reader in mpa.readers:
            if reader is not None:
                reader.take_passed()
                reader.final, reader.left_out = [], []
                reader.rivals, reader.contradictions = [], []
        for half in mpa.connection.halves:
            # Of the last two segments more may be held: one ends the search for deviations, the next one relieves.
            assert half.copies.held <= FEW.held_octets + 2 * (MOST_RIVALS + 1) * LONGEST
            assert len(half.copies) <= FEW.held_segments + 2 * LONGEST


def peak(segments: Segments) -> int:
    """Return the octets that a receiver takes at most."""
    receiver = Receiver(limits=FEW)
    tracemalloc.start()
    try:
        receive_and_take(receiver, segments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


#: Floods of connections, each of which is kept for the report.
CONNECTIONS = "connections on the same ports", "rejections"


@pytest.mark.parametrize("name", [name for name in FLOODS if not name.startswith(CONNECTIONS)])
def test_memory_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes, one connection takes no more than that while the limits are tight."""
    monkeypatch.setattr("scapy_mpa.stream.peer_state.MOST_ACKNOWLEDGED", 500)
    monkeypatch.setattr("scapy_mpa.stream.recent.MOST_OCTETS", 20_000)
    flood = FLOODS[name]
    assert peak(flood.make(4 * flood.segments)) < MOST_MEMORY


_FEED = """
import resource
from scapy_mpa.receiver.receiver import Receiver
from scapy_mpa.values.limits import DEFAULT_LIMITS
from tests.receiver.test_floods import behind_a_hole
receiver = Receiver(limits=DEFAULT_LIMITS._replace(held_octets=16 << 20))
octets = 0
for number, segment in enumerate(behind_a_hole(64 << 20)):
    receiver.receive(segment)
    if number == 100:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""


def behind_a_hole(octets: int) -> Iterator[Segment]:
    """Yield the segments of so many octets behind a hole, one by one."""
    yield from begun().segments
    for at in range(0, octets, 1400):
        talk = Talk()
        yield talk.put(0, BEGIN + 1400 + at, noise(1400, at)).segments[0].replace(frame=7 + at // 1400)


def test_resident_memory() -> None:
    """Where 16 MiB may be held, the process grows by less than three times that: segments of 1400 octets."""
    run = subprocess.run([sys.executable, "-c", _FEED], cwd=REPO, capture_output=True, text=True, check=True)
    assert int(run.stdout) < 3 * (16 << 20)
