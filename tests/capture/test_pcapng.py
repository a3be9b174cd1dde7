"""pcapng: sections, interfaces, kinds of blocks, times, damage (draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import io
import re
import struct
import subprocess
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.capture.notes import Note
from scapy_mpa.capture.reader import BLOCK_SIZE
from scapy_mpa.errors import CaptureError
from scapy_mpa.reading.analysis import analyze
from tests.capture.blocks import (
    ENHANCED,
    OBSOLETE,
    SIMPLE,
    block,
    capture_ng,
    interface,
    option,
    others,
    packet,
    section,
)
from tests.capture.frames import analysed, capture, changed, changes, ethernet, linked, pcap_records, read, survives
from tests.capture.frames import told as seg_told
from tests.conftest import PCAPS
from tests.receive.cases import summary
from tests.sampling import examples
from tests.work import lines_run

SHIPPED = sorted(PCAPS.glob("*.pcap"))
SMALL = [path for path in SHIPPED if path.stat().st_size < 12_000]
SECOND = 1_000_000_000


def stem(path: Path) -> str:
    return path.stem


def damage_of(octets: bytes) -> tuple[list[int], list[str]]:
    """Frame numbers and lines of damage."""
    with Captures(io.BytesIO(octets)) as opened:
        return [seg[0] for batch in opened.batches(copies=True) for seg in batch], opened.damage


# --- every shipped capture says the same ---


@pytest.mark.parametrize("path", SHIPPED, ids=stem)
def test_converted_by_editcap(path: Path, tmp_path: Path) -> None:
    converted = tmp_path / "capture.pcapng"
    subprocess.run(["editcap", "-F", "pcapng", path, converted], check=True)
    assert summary(analysed(converted)) == summary(analysed(path))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("path", SHIPPED, ids=stem)
def test_written_by_hand(path: Path, order: str) -> None:
    """Either byte order, nanoseconds, options, blocks of no interest, enhanced and obsolete packets in turn."""
    link_type, packets = pcap_records(path)
    octets = capture_ng(packets, link_type, order, kinds=(ENHANCED, OBSOLETE))
    assert summary(analysed(octets)) == summary(analysed(path))


@pytest.mark.parametrize("path", SHIPPED, ids=stem)
def test_sections_and_interfaces(path: Path) -> None:
    """Each packet on one of four interfaces, a new section after every twenty, in the other byte order."""
    link_type, packets = pcap_records(path)
    resolutions = [(6, 1000), (9, 1), (6, 1000), (0x80 | 32, None)]
    octets = b""
    for first in range(0, len(packets), 20):
        order = "<>"[first // 20 % 2]
        octets += section(order)
        for tsresol, _ in resolutions[:3]:
            octets += interface(link_type, order, tsresol=tsresol)
        octets += interface(147, order)
        for number, (time, frame, wire) in enumerate(packets[first : first + 20]):
            index = number % 3
            octets += packet(frame, time // (resolutions[index][1] or 1), order, index=index, wire=wire)
    assert summary(analysed(octets)) == summary(analysed(path))


@pytest.mark.parametrize("path", SMALL, ids=stem)
def test_packets_are_found_again(path: Path) -> None:
    """The index gives the segments that the reader gave, whatever the section."""
    link_type, packets = pcap_records(path)
    octets = b""
    for first in range(0, len(packets), 7):
        order = "<>"[first // 7 % 2]
        octets += section(order) + interface(147, order) + others(order) + interface(link_type, order)
        kinds = (ENHANCED, OBSOLETE)
        for number, (time, frame, wire) in enumerate(packets[first : first + 7]):
            octets += packet(frame, time // 1000, order, index=1, wire=wire, kind=kinds[number % 2])
    with_file = io.BytesIO(octets)
    with Captures(with_file) as opened:
        segments = [seg_told(seg) for batch in opened.batches(copies=True) for seg in batch]
    with_file.seek(0)
    index = FrameIndex(with_file)
    assert [seg_told(seg) for seg in index.segments([row["frame"] for row in segments])] == segments
    assert segments


# --- times ---


@pytest.mark.parametrize(
    ("tsresol", "tsoffset", "ticks", "nanoseconds"),
    [
        (None, None, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
        (6, None, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
        (9, None, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (0, None, 1_700_000_000, 1_700_000_000_000_000_000),
        (3, 1_700_000_000, 7, 1_700_000_000_007_000_000),
        (12, 100, 1_999, 100_000_000_001),
        (0x80, None, 17, 17_000_000_000),
        (0x80 | 20, None, 1 << 19, 500_000_000),
        (0x80 | 32, 5, 3 << 30, 5_750_000_000),
        (9, -1, 1_500_000_000, 500_000_000),
        # What does not fit is the first or the last time there is.
        (9, -5, 1_000_000_000, 0),
        (0, None, (1 << 64) - 1, (1 << 63) - 1),
        (6, (1 << 63) - 1, 0, (1 << 63) - 1),
        (127, None, (1 << 64) - 1, 0),
        (255, None, (1 << 64) - 1, 0),
    ],
)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [ENHANCED, OBSOLETE])
def test_times(tsresol: int | None, tsoffset: int | None, ticks: int, nanoseconds: int, order: str, kind: int) -> None:
    octets = section(order) + interface(1, order, tsresol=tsresol, tsoffset=tsoffset)
    octets += packet(ethernet(), ticks, order, kind=kind) * 2
    assert [seg[1] for seg in read(octets)] == [nanoseconds] * 2


def test_a_simple_packet_has_the_time_of_the_one_before_it() -> None:
    octets = section() + interface(tsresol=9)
    octets += packet(ethernet(), kind=SIMPLE) + packet(ethernet(), 7) + packet(ethernet(), kind=SIMPLE)
    assert [(seg[0], seg[1]) for seg in read(octets)] == [(1, 0), (2, 7), (3, 7)]


def test_each_interface_its_own() -> None:
    octets = section()
    octets += interface(1) + interface(101, tsresol=9) + interface(113, tsresol=3) + interface(276, tsoffset=1)
    frame = ethernet()
    for index, link_type in ((0, 1), (1, 101), (2, 113), (3, 276), (1, 101), (0, 1)):
        octets += packet(linked(link_type, frame), 1_000_000, index=index)
    times = [SECOND, 1_000_000, 1000 * SECOND, 2 * SECOND, 1_000_000, SECOND]
    assert [(seg[1], seg_told(seg)["payload"]) for seg in read(octets)] == [(time, b"payload") for time in times]


# --- lengths ---


@pytest.mark.parametrize("snaplen", [0, 60, 1000])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 100])
def test_a_simple_packet_is_as_long_as_the_snap_length_allows(snaplen: int, length: int) -> None:
    frame = ethernet(bytes(range(length)))
    captured = min(len(frame), snaplen or len(frame))
    octets = section() + interface(snaplen=snaplen)
    octets += block(3, struct.pack("<I", len(frame)) + frame[:captured]) + packet(ethernet())
    first, second = read(octets)
    assert (first[10], seg_told(first)["payload"]) == (length, frame[54:captured])
    assert seg_told(second)["payload"] == b"payload"


@pytest.mark.parametrize("kind", [ENHANCED, OBSOLETE])
def test_cut_packets(kind: int) -> None:
    frame = ethernet(bytes(500))
    (seg,) = read(section() + interface() + packet(frame[:101], kind=kind, wire=len(frame)))
    assert (seg[10], len(seg_told(seg)["payload"])) == (500, 47)


def test_blocks_across_what_is_read_at_a_time() -> None:
    made = [section(), interface()]
    for number in range(2500):
        made.append(packet(ethernet(bytes(number % 1400), seq=number), number))
        if number % 100 == 0:
            made.append(block(0x0BAD, bytes(number * 400)))
    octets = b"".join(made)
    assert len(octets) > 20 * BLOCK_SIZE
    assert [(seg[0], seg[3], seg[10]) for seg in read(octets)] == [(n + 1, n, n % 1400) for n in range(2500)]


def test_a_long_block_of_no_interest_takes_no_memory() -> None:
    octets = section() + interface() + packet(ethernet()) + block(0x0BAD, bytes(30_000_000)) + packet(ethernet())
    file = io.BytesIO(octets)
    tracemalloc.start()
    try:
        with Captures(file) as opened:
            assert [seg[0] for batch in opened.batches(copies=True) for seg in batch] == [1, 2]
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


HEAD = section() + interface()
GOOD = HEAD + packet(ethernet())


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        (packet(ethernet(), index=1), "not described"),
        (section() + packet(ethernet()), "not described"),
        (section() + packet(ethernet(), kind=SIMPLE), "not described"),
        (packet(ethernet(), captured=1000), "claims 1000 octets"),
        (packet(ethernet(), captured=0xFFFFFFFF), "claims 4294967295 octets"),
        (packet(ethernet(), captured=1000, kind=OBSOLETE), "claims 1000 octets"),
        (block(6, bytes(100), length=0), "0 octets long"),
        (block(6, bytes(100), length=24), "24 octets long"),
        (block(6, bytes(100), length=0xFFFFFFF0), "octets long"),
        (block(6, bytes(100), length=0xFFFFFFFF), "octets long"),
        (block(1, bytes(8), length=16), "16 octets long"),
        (block(0x0BAD, bytes(8), length=8), "8 octets long"),
        (block(0x0BAD, bytes(8), length=0xFFFFFFF0), "lacks"),
        (section(major=2), "version 2"),
        (section()[:8] + bytes(20), "byte-order magic"),
        (packet(ethernet())[:-1], "cut after"),
        (packet(ethernet())[:7], "cut after 7"),
    ],
)
def test_damage(octets: bytes, message: str) -> None:
    frames, damage = damage_of(GOOD + octets)
    assert frames == [1]
    assert len(damage) == 1
    assert re.search(message, damage[0]), damage
    assert "damaged after frame 1" in damage[0]


def with_second_length(made: bytes, second: int, order: str = "<") -> bytes:
    """A block that says at its end that it has another length than at its start."""
    return made[:-4] + struct.pack(order + "I", second)


@pytest.mark.parametrize("second", [0, 12, 0xFFFFFFFF])
@pytest.mark.parametrize(
    "made",
    [
        section(),
        section(">"),
        interface(),
        packet(ethernet(seq=9)),
        packet(ethernet(seq=9), kind=SIMPLE),
        packet(ethernet(seq=9), kind=OBSOLETE),
        block(0x0BAD, bytes(8)),
        block(0x0BAD, bytes(3 * BLOCK_SIZE)),
    ],
    ids=["section", "section, big-endian", "interface", "enhanced", "simple", "obsolete", "other", "other, long"],
)
def test_a_block_with_two_lengths_ends_the_file(made: bytes, second: int) -> None:
    """It is not read, nor is anything after it; all before it is, also when frames are looked up, or blocks copied."""
    order = ">" if made[8:12] == b"\x1a\x2b\x3c\x4d" else "<"
    bad = with_second_length(made, second, order)
    good = HEAD + packet(ethernet(seq=1)) * 3
    for after in (b"", good, packet(ethernet()) * 9):
        frames, damage = damage_of(good + bad + after)
        assert frames == [1, 2, 3]
        (line,) = damage
        assert line.endswith(
            f"damaged after frame 3: a block of type {struct.unpack(order + 'I', made[:4])[0]:#x} has two lengths: "
            f"{len(made)} octets at its start, {second} at its end"
        )
        assert len(FrameIndex(io.BytesIO(good + bad + after))) == 3
    assert len(damage_of(good + made + good)[0]) >= 6


def test_the_first_block_with_two_lengths() -> None:
    with pytest.raises(CaptureError, match="a block of type 0xa0d0d0a has two lengths: 28 octets at its start, 7 at"):
        damage_of(with_second_length(section(), 7) + interface() + packet(ethernet()))


@pytest.mark.parametrize("missing", range(1, 12))
def test_a_long_block_that_lacks_its_end(missing: int) -> None:
    octets = GOOD + block(0x0BAD, bytes(3 * BLOCK_SIZE))
    frames, (line,) = damage_of(octets[:-missing])
    assert frames == [1]
    assert line.endswith(f"damaged after frame 1: the last block lacks {missing} octets")
    assert damage_of(octets) == ([1], [])


def test_lengths_without_the_padding() -> None:
    """Some programs leave it out of both."""
    frame = ethernet(bytes(3))
    body = struct.pack("<5I", 0, 0, 1, len(frame), len(frame)) + frame
    length = struct.pack("<I", 12 + len(body))
    short = struct.pack("<I", 6) + length + body + bytes(-len(body) % 4) + length
    assert len(body) % 4 and damage_of(HEAD + short * 2) == ([1, 2], [])
    assert len(damage_of(HEAD + short + with_second_length(short, len(short)))[1]) == 1


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        (section()[:20], "cut after 20 octets"),
        (section(options=bytes(20))[:30], "cut"),
        (section(major=7), "version 7"),
        (section()[:8] + bytes(40), "byte-order magic"),
        (section()[:4] + b"\1\0\0\0" + section()[8:], "claims to be 1 octets long"),
        (section()[:4] + b"\xff\xff\xff\xff" + section()[8:], "octets long"),
        (section() + interface(147) + packet(ethernet()), r"link type 147 \(USER0\) is private"),
        (HEAD + packet(ethernet(), index=3), "no packet can be read"),
    ],
)
def test_refused(octets: bytes, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        damage_of(octets)


def test_an_interface_of_another_kind_is_told() -> None:
    octets = section() + interface(189) + interface(1) + packet(b"usb") + packet(ethernet(), index=1)
    with Captures(io.BytesIO(octets)) as opened:
        assert [seg[0] for batch in opened.batches(copies=True) for seg in batch] == [2]
        assert opened.notes == [Note("link-type", 1, 1, 0, 1, "link type 189 (USB_LINUX) holds no IP")]
    # In a merge too, by its numbers.
    first = section() + interface() + b"".join(packet(ethernet(bytes([n]))) for n in range(3))
    (found,) = analyze([io.BytesIO(first), io.BytesIO(octets)]).findings
    assert (found.rule.id, found.count, found.frame) == ("link-type", 1, 4)


@pytest.mark.uncompiled
def test_many_short_sections_take_neither_time_nor_memory() -> None:
    """Each describes its interfaces anew; those that are over are forgotten."""
    octets = (section() + interface() + packet(ethernet())) * 3000
    frames, damage = damage_of(octets)
    assert (len(frames), damage) == (3000, [])
    index = FrameIndex(io.BytesIO(octets))
    assert [seg[0] for seg in index.segments([1, 3000])] == [1, 3000]
    index.close()
    assert lines_run(lambda: damage_of(octets)) < 200 * 3000


def test_no_packet_at_all() -> None:
    assert damage_of(section()) == ([], [])
    assert damage_of(section() + interface() + others()) == ([], [])


def test_options_that_lie() -> None:
    """An option longer than its block ends them; a wrong size of a known one makes it nothing."""
    for options in (
        option(9, b"\6\6"),
        option(14, b"\1"),
        struct.pack("<HH", 9, 400),
        struct.pack("<HH", 9, 0xFFFF),
        b"\1",
        option(0, b"") + option(9, b"\0"),
    ):
        octets = section() + block(1, struct.pack("<HHI", 1, 0, 0) + options) + packet(ethernet(), 5)
        assert [seg[1] for seg in read(octets)] == [5000]


# --- whatever the octets ---


def as_ng(path: Path) -> bytes:
    link_type, packets = pcap_records(path)
    half = len(packets) // 2
    kinds = (ENHANCED, OBSOLETE, ENHANCED)
    return capture_ng(packets[:half], link_type, kinds=kinds) + capture_ng(packets[half:], link_type, ">", kinds=kinds)


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SMALL), changes)
def test_any_damage(path: Path, how: list[tuple[str, float, int, int]]) -> None:
    survives(changed(as_ng(path), how))


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 2, 3, 4, 5, 6, 0x0A0D0D0A, 0x0BAD]),
            st.binary(max_size=90),
            st.sampled_from([None, None, None, 0, 12, 16, 28, 100, 0x7FFFFFFF, 0xFFFFFFFF]),
            st.sampled_from("<>"),
        ),
        max_size=12,
    )
)
def test_any_blocks(made: list[tuple[int, bytes, int | None, str]]) -> None:
    octets = HEAD + b"".join(block(kind, body, order, length) for kind, body, length, order in made)
    survives(octets)
    file = io.BytesIO(octets)
    index = FrameIndex(file)
    with pytest.raises(CaptureError):
        index.segments(range(1, 100))


@pytest.mark.parametrize("cut", range(0, 2000, 7))
def test_cut_anywhere(cut: int) -> None:
    whole = as_ng(PCAPS / "siw-rev0.pcap")
    segments = [seg_told(seg) for seg in read(whole)]
    try:
        got = [seg_told(seg) for seg in read(whole[:cut])]
    except CaptureError:
        return
    assert got == segments[: len(got)]


def test_merged_with_a_pcap_file() -> None:
    ng = HEAD + packet(ethernet(seq=1), 1_000_000) + packet(ethernet(seq=3), 3_000_000)
    pcap = capture([(2 * SECOND, ethernet(seq=2)), (4 * SECOND, ethernet(seq=4))])
    assert [seg[3] for seg in read(ng, pcap)] == [1, 2, 3, 4]
