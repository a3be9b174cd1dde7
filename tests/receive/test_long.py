"""A half connection of 9 GiB, made on the fly: sequence numbers wrap twice, and every FPDU is where it belongs.

The stream repeats one segment's octets, so that nothing but its length is large: whole FPDUs, and with Markers
each as long as a multiple of the distance between two of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice

import pytest

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.analyzer.connection import FullOperation, Listener
from scapy_mpa.craft.stream import LaidFPDU
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.values.records import FPDURecord, FPDURow, record_of
from scapy_mpa.values.segment import Segment, reverse_key, segment
from tests.laying import lay_stream
from tests.receive.cases import feed, only, placing, started

GIB = 1 << 30
LENGTH = 9 * GIB
KEY = bytes((10, 0, 0, 1, 10, 0, 0, 2, 0x9C, 0x40, 0x1D, 0x2F))
ISN = 0xDEADBEEF
REQUEST = startup_frame("request", c=1).encode()
SEQ_START = (ISN + 1 + len(REQUEST)) % 2**32
#: ULPDU_Length of FPDUs of 127 * 512 octets with Markers, and of 64768 without.
ULPDU_LENGTH = {True: 127 * 508 - 6, False: 64762}
FPDUS_PER_SEGMENT = 16

Order = Callable[[Iterator[int]], Iterable[int]]


class Long(Listener):
    """The Initiator's half connection, in segments of equal content, and what is told of it."""

    wants_octets = False

    def __init__(self, markers: bool, *, shift: int = 0) -> None:
        self.ulpdu_length = ULPDU_LENGTH[markers]
        ulpdu = (b"\xc1\x40" + b"payload " * 8192)[: self.ulpdu_length]
        octets, self.laid = lay_stream([ulpdu] * FPDUS_PER_SEGMENT, markers=markers)
        assert markers is False or len(octets) % 512 == 0
        self.size = len(octets)
        self.segments = -(-LENGTH // self.size)
        # `shift`: the segments begin so many octets before the FPDUs do.
        self.twice, self.shift = memoryview(octets * 2), shift
        self.last: deque[FPDURecord] = deque(maxlen=FPDUS_PER_SEGMENT)
        self.told = 0
        self.receiver = Analyzer(listener=self)
        self.frames = count(3)
        reply = startup_frame("reply", m=int(markers), c=1).encode()
        self.receiver.feed(
            [
                segment(1, KEY, ISN + 1, REQUEST, ack=101),
                segment(2, reverse_key(KEY), 101, reply, ack=SEQ_START),
            ]
        )

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], _octets: bytes) -> None:
        self.told += 1
        self.last.append(record_of(row, frames, 0, operation.direction))

    def segment(self, number: int) -> Segment:
        """Segment `number` of the stream; the first is shorter and there is one more if they are shifted."""
        start = max(number * self.size - self.shift, 0)
        end = min((number + 1) * self.size - self.shift, self.segments * self.size)
        at = start % self.size
        frame = next(self.frames)
        seq = (SEQ_START + start) % 2**32
        return Segment(frame, frame * 1000, KEY, seq, 0, 0x10, self.twice, at, at + end - start, -1, end - start)

    def feed(self, order: Order = iter) -> FullOperation:
        """Hand the receiver the whole stream, a block at a time, as a reader of captures does."""
        numbers = iter(order(iter(range(self.segments + bool(self.shift)))))
        while block := list(islice(numbers, 64)):
            self.receiver.feed(self.segment(number) for number in block)
            self.receiver.release()
        self.receiver.finish()
        (mpa,) = self.receiver.connections
        assert placing(mpa.findings) == []
        return mpa.operations["initiator"]

    def check(self, operation: FullOperation) -> None:
        """All FPDUs were found, and the last ones lie where 9 GiB of them end."""
        counts, fpdus = operation.counts, self.segments * FPDUS_PER_SEGMENT
        assert (counts.stream_octets, counts.missing_octets) == (self.segments * self.size, 0)
        assert counts.fpdus == counts.placed == counts.delivered == self.told == fpdus
        assert counts.ulpdu_octets == fpdus * self.ulpdu_length
        assert counts.marker_count == self.segments * sum(f.markers for f in self.laid)
        last = (self.segments - 1) * self.size
        assert last > 2 * 2**32
        assert [(r.seq, r.header_seq, r.wire_length) for r in sorted(self.last, key=self._offset)] == [
            ((SEQ_START + last + f.offset) % 2**32, (SEQ_START + last + f.header_offset) % 2**32, f.wire_length)
            for f in self.laid
        ]

    def _offset(self, record: FPDURecord) -> int:
        return (record.seq - SEQ_START) % 2**32


def near_wraps(size: int, number: int) -> bool:
    """Return True if a segment lies where sequence numbers, or offsets modulo 2^31 or 2^32, begin again."""
    places = [k * 2**31 for k in range(1, 6)] + [k * 2**32 - SEQ_START for k in (1, 2, 3)]
    return any(abs(number * size - place) < 4 * size for place in places)


@pytest.mark.parametrize("markers", [False, True], ids=["plain", "markers"])
def test_in_order(markers: bool) -> None:
    long = Long(markers)
    operation = long.feed()
    long.check(operation)
    counts = operation.counts
    assert counts.segments == counts.header_aligned_segments == counts.fpdu_aligned_segments == long.segments
    assert counts.out_of_order_segments == counts.retransmitted_segments == counts.placed_out_of_order == 0
    assert {r.located_by for r in long.last} == {"length"}
    assert [r.delivered_frame for r in long.last] == [r.placed_frame for r in long.last]


@pytest.mark.parametrize("markers", [False, True], ids=["plain", "markers"])
def test_reordered_and_repeated_at_each_wrap(markers: bool) -> None:
    long = Long(markers, shift=1000)

    def order(numbers: Iterator[int]) -> Iterator[int]:
        for number in numbers:
            if not near_wraps(long.size, number):
                yield number
                continue
            group = [number, *islice(numbers, 2)]
            yield from reversed(group)
            yield group[-1]

    operation = long.feed(order)
    long.check(operation)
    counts = operation.counts
    groups = counts.retransmitted_segments
    assert groups >= 8
    assert counts.segments == long.segments + 1 + groups
    assert counts.out_of_order_segments == 2 * groups
    assert counts.header_aligned_segments == 1
    # With Markers all FPDUs of the two early segments are placed at once, but the one that begins before both.
    assert counts.placed_out_of_order == (31 * groups if markers else 0)


def test_a_gap_three_gibibytes_on_is_not_taken_for_acknowledged() -> None:
    long = Long(False)
    gap = 3 * GIB // long.size
    for start in range(0, gap + 4, 64):
        numbers = range(start, min(start + 64, gap + 4))
        long.receiver.feed(long.segment(number) for number in numbers if number != gap)
        long.receiver.release()
    long.receiver.finish()
    (mpa,) = long.receiver.connections
    assert [(found.rule.id, found.count) for found in placing(mpa.findings)] == [("gap", 1)]
    assert mpa.operations["initiator"].counts.missing_octets == long.size


def test_laid_fpdus_repeat() -> None:
    """What the other tests rest on: with Markers, too, each FPDU of the pattern has the same octets."""
    for markers in (False, True):
        octets, laid = lay_stream([bytes(ULPDU_LENGTH[markers])] * 3, markers=markers)
        assert len({octets[f.offset : f.end] for f in laid}) == 1
        assert all(isinstance(f, LaidFPDU) and f.offset % 512 == 0 for f in laid if markers)


def test_octets_that_were_cut_off_are_searched_far() -> None:
    """256 MiB behind a gap, in one segment of which a snapshot length left nothing: no FPDU can be found in it."""
    talk = started()
    talk.say("a", talk.lay("a", 100), lost=True)
    talk.say("a", b"x")
    seg = talk.segments.pop()
    talk.segments.append(seg.replace(length=1 << 28, end=seg.start))
    receiver = feed([talk.segments])
    assert [found.rule.id for found in only(receiver).findings.sorted() if found.severity == "error"] == []
    assert only(receiver).operations["initiator"].counts.fpdus == 0
