"""How each kind of sender segments what it lays (RFC 5044 §5.1, A.1, A.2, A.4)."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.segmentation import (
    SEGMENTATIONS,
    Segmentation,
    dynamic_mulpdu,
    largest_ulpdu,
    segmentation,
)
from scapy_mpa.craft.segments import Cut
from scapy_mpa.craft.stream import LaidFPDU
from scapy_mpa.framing import MIN_MULPDU, mulpdu, plain_length, wire_length
from tests.laying import lay_stream

EMSS = 1460


def laid(*sizes: int, markers: bool = True) -> list[LaidFPDU]:
    return lay_stream([bytes(size) for size in sizes], markers=markers)[1]


def cut(kind: object, fpdus: list[LaidFPDU], emss: int = EMSS) -> list[Cut]:
    return segmentation(kind).cuts(fpdus, emss, Random(1))


@given(
    st.sampled_from(sorted(SEGMENTATIONS)),
    st.lists(st.integers(14, 4000), min_size=1, max_size=20),
    st.integers(76, 9000),
    st.booleans(),
)
def test_the_segments_cover_the_fpdus_once_in_order(kind: str, sizes: list[int], emss: int, markers: bool) -> None:
    fpdus = laid(*sizes, markers=markers)
    cuts = cut(kind, fpdus, emss)
    assert cuts[0][0] == fpdus[0].offset and cuts[-1][1] == fpdus[-1].end
    assert all(one[1] == other[0] for one, other in pairwise(cuts))
    assert all(0 < end - start <= (65535 if kind == "super" else emss) for start, end in cuts)


SIZES = [1000, 30, 30, 30, 5000, 400, 400, 1400]


@pytest.mark.parametrize("kind", ["aligned", "packed", "dynamic"])
def test_an_optimized_sender_begins_segments_with_fpdus_that_fit(kind: str) -> None:
    fpdus = laid(*SIZES)
    starts = {start for start, _ in cut(kind, fpdus)}
    assert {fpdu.offset for fpdu in fpdus} >= {start for start in starts if not inside(fpdus, start, 5000)}
    assert fpdus[4].offset in starts
    if kind == "aligned":
        assert starts >= {fpdu.offset for fpdu in fpdus}


def inside(fpdus: list[LaidFPDU], offset: int, size: int) -> bool:
    """Return True if an offset lies inside an FPDU with a ULPDU of so many octets."""
    return any(fpdu.offset < offset < fpdu.end for fpdu in fpdus if fpdu.ulpdu_length == size)


def test_a_layered_sender_fills_segments_and_cuts_anywhere() -> None:
    fpdus = laid(*SIZES)
    cuts = cut("stream", fpdus)
    assert {end - start for start, end in cuts[:-1]} == {EMSS}
    assert [end - start for start, end in cut("unaligned", fpdus)][:2] == [EMSS // 2 + 1, EMSS]
    assert not {start for start, _ in cut("unaligned", fpdus)[1:]} & {fpdu.offset for fpdu in fpdus}


def test_a_small_window_is_filled_exactly() -> None:
    sizes = [end - start for start, end in cut({"kind": "window", "longest": 3968}, laid(20000))]
    assert sizes[:6] == [1460, 1460, 1048] * 2
    conversation = Conversation(segmentation=({"kind": "window", "longest": 4000}, "aligned"), m=(0, 1))
    packets = list(conversation.write("initiator", 30000).write("responder", 9000).sending().packets())
    edge, filled, small, updates = 0, 0, 0, 0
    for packet in packets:
        if packet.half.role == "responder":
            if packet.ack is not None:
                # The room that was told is never taken back.
                assert 0 <= packet.window <= 4000 and packet.ack + packet.window >= edge
                updates += not packet.payload and packet.ack + packet.window > edge
                edge = packet.ack + packet.window
        else:
            assert packet.window == 2048 and (packet.ack is None or packet.end <= edge)
            filled += packet.end == edge
            small += packet.end == edge and len(packet.payload) == 4000 - 2 * 1448
    # 31 thousand octets of stream fill it seven times; the segment that does is short, however much is to be sent.
    assert filled == small == 7 and updates >= 7
    assert packets[1].options[-1] == 0 and packets[0].options[-1] == 7


@pytest.mark.parametrize("size", [3000, 4000, 5000])
def test_with_nagle_a_short_segment_waits_for_the_acknowledgement(size: int) -> None:
    packets = list(Conversation(segmentation="stream").ulpdu("initiator", size).close("none").sending().packets())
    last = next(index for index in reversed(range(len(packets))) if packets[index].payload)
    before, short = packets[last - 1 : last + 1]
    assert len(short.payload) < 1448 and before.half.role == "responder" and before.ack == short.start


def test_the_crc_of_every_fpdu_may_be_alone() -> None:
    fpdus = laid(*SIZES)
    assert set(cut("crc-alone", fpdus)) >= {(fpdu.end - 4, fpdu.end) for fpdu in fpdus}
    large = {fpdu for fpdu in fpdus if fpdu.wire_length >= 100}
    alone = {end for start, end in cut({"kind": "crc-alone", "shortest": 100}, fpdus) if end - start == 4}
    assert {fpdu.end for fpdu in large} == alone and len(fpdus) > len(large) > 0


def test_sizes_of_segments_cut_anywhere() -> None:
    fpdus = laid(20000)
    assert {end - start for start, end in cut("tiny", fpdus)} == set(range(1, 9))
    sizes = {end - start for start, end in cut({"kind": "random", "shortest": 100, "longest": 120}, fpdus)[:-1]}
    assert min(sizes) >= 100 and max(sizes) <= 120
    assert segmentation("super").cuts(laid(60000, 60000), EMSS, Random(1))[0] == (0, 65435 // EMSS * EMSS)


@pytest.mark.parametrize("kind", sorted(SEGMENTATIONS))
def test_startup_frames_are_cut_only_by_what_cuts_anything(kind: str) -> None:
    cuts = Segmentation(kind, longest=8).startup_cuts(20, EMSS, Random(1))
    assert cuts[0][0] == 0 and cuts[-1][1] == 20
    assert (len(cuts) > 1) == (kind in ("random", "tiny"))


# --- dynamic MULPDU ---


@given(st.integers(0, 3000), st.integers(0, 4000), st.booleans())
def test_the_largest_ulpdu_fits_and_no_larger_one_does(room: int, quarter: int, markers: bool) -> None:
    offset = 4 * quarter
    if markers and 0 < offset % 512 < 4:
        return
    length = largest_ulpdu(room, offset, markers)

    def octets(ulpdu_length: int) -> int:
        return wire_length(ulpdu_length, offset) if markers else plain_length(ulpdu_length)

    assert octets(length) <= room or length == 0
    assert octets(length + 1) > room


@given(st.integers(200, 9000), st.integers(0, 9000), st.integers(0, 500), st.booleans())
def test_a_dynamic_mulpdu_is_never_below_128(emss: int, used: int, quarter: int, markers: bool) -> None:
    offset = 512 * quarter
    limit = dynamic_mulpdu(used, emss, offset, markers)
    assert limit >= MIN_MULPDU
    assert limit == mulpdu(emss, markers) or limit <= emss - used


@pytest.mark.parametrize("m", [(0, 0), (1, 1)])
def test_a_dynamic_mulpdu_fills_segments(m: tuple[int, int]) -> None:
    shares = {}
    for kind in ("packed", "dynamic"):
        conversation = Conversation(segmentation=kind, m=m, timestamps=False)
        for _ in range(10):
            conversation.write("initiator", 3000)
        packets = [one for one in conversation.sending().packets() if one.in_operation and one.payload]
        starts = {one.half.origin + fpdu.offset for one in packets[:1] for fpdu in one.half.laid if one.half.origin}
        assert all(packet.start in starts for packet in packets), kind
        assert all(len(packet.payload) <= EMSS for packet in packets)
        shares[kind] = sum(len(packet.payload) for packet in packets[:-1]) / (EMSS * (len(packets) - 1))
    assert shares["packed"] < 0.9 < 0.98 < shares["dynamic"]
