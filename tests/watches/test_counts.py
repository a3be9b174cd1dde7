"""What is counted of FPDUs and segments, and how segments lie to FPDUs."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scapy_mpa.craft.ulpdus import send
from scapy_mpa.receiver.values import Gap, LeftOut
from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.values.records import BAD
from scapy_mpa.watches.counts import Counts, UnalignedSegment
from tests.watches.values import altered, arrival, fpdus

#: Three FPDUs of 108 octets: [0, 108), [108, 216), [216, 324).
FIRST, SECOND, THIRD = fpdus([send(msn, bytes(84)) for msn in (1, 2, 3)])
END = THIRD.end


def nonzero(counts: Counts) -> dict[str, int]:
    return {key: value for key, value in counts.as_dict().items() if value}


def test_what_is_counted_of_fpdus() -> None:
    counts = Counts()
    counts.passed(FIRST, 1)
    counts.passed(altered(SECOND, 40, b"x", is_bad=True), 0)
    counts.passed(THIRD, 9)
    counts.passed(fpdus([send(4, b"")], offset=END)[0], 0)
    assert nonzero(counts) == {
        "fpdus": 4, "placed": 3, "delivered": 2, "placed_out_of_order": 2, "crc_errors": 1,
        "ulpdu_octets": 3 * 102 + 18,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("cuts", "aligned", "whole", "parts"),
    [
        ((108, 216), 3, 3, []),
        ((216,), 2, 2, []),
        ((), 1, 1, []),
        ((50, 108, 216), 3, 2, [False]),
        ((30, 50, 108), 2, 1, [True, False]),
        ((50, 158), 1, 0, [False, False]),
    ],
)
def test_how_segments_lie(cuts: tuple[int, ...], aligned: int, whole: int, parts: list[bool]) -> None:
    counts, unaligned = Counts(), list[UnalignedSegment]()
    edges = (0, *cuts, END)
    for frame, (start, end) in enumerate(pairwise(edges), 1):
        counts.arrived(arrival(frame, start, end))
        # Nothing is known before the FPDUs are.
        unaligned += counts.judged()
    assert not unaligned
    for fpdu in (FIRST, SECOND, THIRD):
        counts.passed(fpdu, 9)
        unaligned += counts.judged()
    assert (counts.segments, counts.header_aligned_segments) == (len(edges) - 1, aligned)
    assert counts.fpdu_aligned_segments == whole
    assert [one.is_part for one in unaligned] == parts


def test_a_segment_that_begins_an_fpdu_which_is_never_complete() -> None:
    counts = Counts()
    counts.passed(FIRST, 1)
    counts.arrived(arrival(2, 108, 150))
    counts.arrived(arrival(3, 216, 324))
    counts.lost(Gap(150, 216, False, (9, 9)))
    counts.passed(THIRD, 0)
    assert list(counts.judged()) == []
    assert (counts.cut_fpdus, counts.missing_octets, counts.header_aligned_segments) == (1, 66, 2)
    counts.arrived(arrival(4, 324, 330))
    assert list(counts.finish((324, 330), is_cut=False)) == []
    assert (counts.cut_fpdus, counts.header_aligned_segments, counts.unlocated_octets) == (1, 3, 0)


def test_a_retransmission_in_the_middle_of_an_fpdu() -> None:
    counts = Counts()
    counts.arrived(arrival(1, 0, 216))
    for fpdu in (FIRST, SECOND):
        counts.passed(fpdu, 1)
    counts.arrived(arrival(2, 108, 216, new=0))
    counts.arrived(arrival(3, 60, 216, new=0))
    (found,) = counts.judged()
    assert (found.frame, found.repeats) == (3, (0, 1))
    assert (counts.retransmitted_segments, counts.header_aligned_segments) == (2, 2)


def test_what_is_too_old_or_too_much_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scapy_mpa.watches.counts.REMEMBERED", 2)
    monkeypatch.setattr("scapy_mpa.watches.counts.MOST_UNJUDGED", 2)
    counts = Counts()
    sent = fpdus([send(msn, b"") for msn in range(1, 6)])
    for fpdu in sent:
        counts.passed(fpdu, 1)
    for fpdu in (sent[0], sent[4], sent[4]):
        counts.arrived(arrival(1, fpdu.offset, fpdu.end, new=0))
    assert [one.start for one in counts.judged()] == [0]
    assert (counts.segments, counts.header_aligned_segments) == (3, 1)


def test_what_is_remembered_of_bad_fpdus_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scapy_mpa.watches.counts.REMEMBERED", 2)
    counts = Counts()
    for fpdu in fpdus([send(msn, b"") for msn in range(1, 50)]):
        counts.passed(fpdu.replace(crc=BAD), 0)
    assert max(len(counts._starts), len(counts._ends)) <= 4


def test_octets() -> None:
    counts = Counts()
    counts.arrived(arrival(1, -20, 108))  # the startup frame and the first FPDU
    counts.arrived(arrival(2, 216, 324))
    counts.arrived(arrival(3, 108, 150, late=True))
    counts.arrived(arrival(4, 900, 1000))
    counts.left_out(LeftOut(900, 1000, 4, 4, DropReason.OVERWINDOW, 800))
    counts.passed(FIRST, 1)
    list(counts.finish((108, 150), is_cut=True))
    assert (counts.stream_octets, counts.unlocated_octets) == (258, 108)
    assert (counts.out_of_order_segments, counts.segments, counts.cut_fpdus) == (1, 3, 1)
