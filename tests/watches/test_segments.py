"""Rules about segments: alignment, tiny ones, retransmissions that cut FPDUs, another path, and what explains them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scapy_mpa.craft.ulpdus import send
from scapy_mpa.receiver.values import Breach
from scapy_mpa.values.pathmtu import PathMTUMessage, PathMTUMessages
from scapy_mpa.watches.counts import Counts
from scapy_mpa.watches.segments import SegmentWatch
from tests.watches.values import SECOND, arrival, fpdus


def received(cuts: list[int], idle: int = SECOND, fits: bool = True, mtu: int = 0) -> tuple[list[Breach], Counts]:
    """Return what segments that end at ``cuts`` break, ``idle`` nanoseconds after one another."""
    told = PathMTUMessages()
    if mtu:
        told.take(PathMTUMessage(1, 1, 1, mtu, 1500, "10.0.0.9"))
    counts, watch, found = Counts(), SegmentWatch(told if mtu else None), list[Breach]()
    sent = iter(fpdus([send(msn, bytes(486)) for msn in range(1, 1 + cuts[-1] // 512)]))
    fpdu = next(sent, None)
    for frame, (start, end) in enumerate(pairwise((0, *cuts)), 1):
        one = arrival(frame, start, end, time=1 + frame * idle)
        counts.arrived(one)
        found += watch.arrived(one)
        while fpdu is not None and fpdu.end <= end:
            counts.passed(fpdu, frame)
            fpdu = next(sent, None)
        for segment in counts.judged():
            found += watch.unaligned(segment)
    for segment in counts.finish(None, is_cut=False):
        found += watch.unaligned(segment)
    return [*found, *watch.finish(counts, fits, (99, 99))], counts


#: Where FPDUs of 512 octets end.
ALIGNED = list(range(512, 512 * 21, 512))


@pytest.mark.parametrize(("count", "fits", "rules"), [(16, True, ["alignment"]), (15, True, []), (16, False, [])])
def test_alignment(count: int, fits: bool, rules: list[str]) -> None:
    cuts = list(range(450, 450 + 450 * count, 450))
    assert [one.rule for one in received(cuts, fits=fits)[0]] == rules
    assert received(ALIGNED[:count])[0] == []


@pytest.mark.parametrize(("idle", "rules"), [(200_000_000, ["alignment-lost"]), (199_999_999, [])])
def test_alignment_that_is_lost_after_a_pause(idle: int, rules: list[str]) -> None:
    cuts = [*ALIGNED[:10], *(512 * 10 + 300 + 512 * n for n in range(10))]
    found, _ = received(cuts, idle)
    assert [one.rule for one in found] == rules
    if rules:
        assert found[0].detail == "9 segments after a pause, none of which begins with an FPDU"
        assert found[0].frame == 12


@pytest.mark.parametrize(
    ("size", "count", "largest", "rules"),
    [
        (128, 16, 512, ["attack-path-mtu"]),
        (128, 15, 512, []),
        (129, 16, 512, []),
        (128, 16, 511, []),
    ],
)
def test_segments_that_become_tiny(size: int, count: int, largest: int, rules: list[str]) -> None:
    watch, counts, found = SegmentWatch(), Counts(), list[Breach]()
    cuts = [0, largest, *(largest + 200 + size * n for n in range(count + 1)), 9000]
    for frame, (start, end) in enumerate(pairwise(cuts), 1):
        counts.arrived(arrival(frame, start, end))
        if end < 9000:
            found += watch.arrived(arrival(frame, start, end))
    first, second = fpdus((send(1, bytes(largest - 26)), send(2, bytes(9000 - largest))))
    for fpdu in (first.replace(end=largest), second.replace(offset=largest, end=9000)):
        counts.passed(fpdu, 9)
    for segment in counts.judged():
        found += watch.unaligned(segment)
    assert [one.rule for one in found] == rules


def test_a_retransmission_that_cuts_an_fpdu() -> None:
    watch, counts = SegmentWatch(), Counts()
    counts.arrived(arrival(1, 0, 216))
    for fpdu in fpdus([send(msn, bytes(84)) for msn in (1, 2)]):
        counts.passed(fpdu, 1)
    counts.arrived(arrival(2, 60, 216, new=0))
    counts.arrived(arrival(3, 215, 216, new=0))  # a keep-alive
    found = [breach for segment in counts.judged() for breach in watch.unaligned(segment)]
    assert [(one.rule, one.frame, one.detail) for one in found] == [
        ("alignment-retransmission", 2, "repeats frame 1 from its octet 60, in the middle of an FPDU")
    ]


def test_packets_that_come_another_way() -> None:
    watch = SegmentWatch()
    found = [
        breach
        for frame, limit in enumerate((-1, 64, 64, -1, 59, 59), 1)
        for breach in watch.arrived(arrival(frame, 0, 9, limit=limit))
    ]
    assert [(one.rule, one.frame, one.detail) for one in found] == [
        ("attack-hijack", 5, "TTL or Hop Limit 59, previously 64")
    ]


@pytest.mark.parametrize(("mtu", "explains"), [(400, True), (1500, False)])
def test_a_smaller_path_mtu_explains(mtu: int, explains: bool) -> None:
    (found,) = received(list(range(450, 450 * 21, 450)), mtu=mtu)[0]
    assert found.detail.endswith(f"frame 1 reports a path MTU of {mtu}") == explains
