"""pcap files: byte orders, times, damage, and what is no pcap file at all."""

from __future__ import annotations

import io
import itertools
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scapy_mpa.capture import pcap, pcapng
from scapy_mpa.capture.copying import copy_frames
from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.capture.link import LINK_TYPES
from scapy_mpa.capture.packet import FastPath
from scapy_mpa.capture.reader import BLOCK_SIZE
from scapy_mpa.errors import CaptureError
from tests.capture.blocks import capture_ng
from tests.capture.frames import (
    MAGICS,
    VARIANTS,
    capture,
    changed,
    changes,
    ethernet,
    fpdus,
    linked,
    pcap_records,
    read,
    survives,
    told,
    written,
)
from tests.conftest import PCAPS, captures
from tests.sampling import examples

SMALL = [path for path in sorted(PCAPS.glob("*.pcap")) if path.stat().st_size < 12_000]


def opened(octets: bytes) -> tuple[list[int], Captures]:
    """Frame numbers of all segments, and what was read."""
    with Captures(io.BytesIO(octets)) as source:
        return [seg[0] for batch in source.batches() for seg in batch], source


@pytest.mark.parametrize(("order", "unit"), list(MAGICS))
@pytest.mark.parametrize("nanoseconds", [0, 1_000_000_000, 1_700_000_000_123_456_789, 4_294_967_295_999_999_999])
def test_byte_orders_and_times(order: str, unit: int, nanoseconds: int) -> None:
    (seg,) = read(capture([(nanoseconds, ethernet())], order=order, unit=unit))
    assert told(seg) == {
        "frame": 1,
        "time": nanoseconds // unit * unit,
        "key": bytes([10, 0, 0, 1, 10, 0, 0, 2]) + struct.pack("!HH", 40000, 7471),
        "seq": 100,
        "ack": 200,
        "flags": 0x10,
        "payload": b"payload",
        "length": 7,
        "tcp": struct.pack("!HH", 40000, 7471),
    }


@pytest.mark.parametrize("byteorder", ["little", "big"])
@pytest.mark.parametrize("nanoseconds", [True, False])
def test_what_the_writer_writes_the_reader_reads(byteorder: str, nanoseconds: bool) -> None:
    packets = [(n * 1_000_000, ethernet(bytes(n), seq=n)) for n in range(20)]
    segments = read(written(packets, byteorder=byteorder, nanoseconds=nanoseconds))
    assert [(seg[1], seg[3], seg[10]) for seg in segments] == [(n * 1_000_000, n, n) for n in range(20)]


@pytest.mark.parametrize("bit", range(16, 32))
@pytest.mark.parametrize("link_type", [1, 276])
def test_the_upper_bits_of_the_link_type_are_not_it(bit: int, link_type: int) -> None:
    """FCS length and reserved bits stand above the low 16 (draft-ietf-opsawg-pcap)."""
    assert len(read(capture([linked(link_type, ethernet())], link_type=1 << bit | link_type))) == 1


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_variants(variant: str, order: str) -> None:
    """Those with longer headers say what the ordinary format says, cut anywhere, and when they are read again."""
    packets = [(n * 1_000_000, ethernet(bytes(n), seq=n)) for n in range(30)]
    octets = capture(packets, order=order, variant=variant)
    plain = capture(packets, order=order)
    assert [told(seg) for seg in read(octets)] == [told(seg) for seg in read(plain)]
    index = FrameIndex(io.BytesIO(octets))
    assert [told(seg) for seg in index.segments(range(30, 0, -1))] == [told(seg) for seg in read(plain)][::-1]
    copied = io.BytesIO()
    copy_frames(index, range(1, 31), copied)
    assert copied.getvalue() == plain
    longer = VARIANTS[variant]
    ends = [24 + longer.file_more]
    for _, frame in packets:
        ends.append(ends[-1] + 16 + longer.record_more + len(frame))
    for cut in range(4, ends[3]):
        there = sum(end <= cut for end in ends[1:])
        if there or cut == ends[0]:
            frames, source = opened(octets[:cut])
            assert frames == [*range(1, there + 1)]
            assert len(source.damage) == (cut not in ends)
        else:
            with pytest.raises(CaptureError, match=r"the pcap file header is cut|no packet can be read"):
                opened(octets[:cut])


def test_packets_across_blocks() -> None:
    """Records are cut anywhere by the blocks that are read."""
    packets = [ethernet(bytes([n % 251]) * (n % 1400), seq=n) for n in range(2500)]
    octets = capture(packets)
    assert len(octets) > 1.5 * BLOCK_SIZE
    segments = read(octets)
    assert [(seg[0], seg[3], bytes(seg[6][seg[7] : seg[8]])) for seg in segments] == [
        (n + 1, n, bytes([n % 251]) * (n % 1400)) for n in range(2500)
    ]


class Dribble(io.BytesIO):
    """A file that gives fewer octets than asked for, as a pipe does."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 37))


def test_a_file_that_gives_few_octets_at_a_time() -> None:
    packets = [ethernet(bytes(n), seq=n) for n in range(30)]
    with Captures(Dribble(capture(packets))) as source:
        assert [seg[3] for batch in source.batches() for seg in batch] == list(range(30))


# --- damage ---


@pytest.mark.parametrize("cut", range(1, 16 + 61))
def test_truncated_in_the_last_record(cut: int) -> None:
    octets = capture([ethernet()] * 3)
    frames, source = opened(octets[:-cut])
    assert frames == [1, 2]
    assert source.packets == 2
    if cut < 16 + 61:
        (line,) = source.damage
        assert "after frame 2" in line
        assert str(16 + 61 - cut) in line
    else:
        assert source.damage == []


@pytest.mark.parametrize("order", ["<", ">"])
def test_zeros_in_place_of_records(order: str) -> None:
    """What a program did not come to write, in a file that was made longer before: not packets of no octets."""
    octets = capture([ethernet()] * 3, order=order)
    frames, source = opened(octets + bytes(4096))
    assert (frames, source.packets) == ([1, 2, 3], 3)
    (line,) = source.damage
    assert line.endswith("nothing but zeros follows frame 3")
    assert opened(octets + bytes(4080))[1].packets == 3 + 255


@pytest.mark.parametrize("length", range(1, 24))
def test_truncated_in_the_file_header(length: int) -> None:
    with pytest.raises(CaptureError, match=r"^<file>: ") as raised:
        read(capture([ethernet()])[:length])
    if length >= 4:
        assert f"{length} of 24" in str(raised.value)


def test_nothing_but_the_file_header() -> None:
    frames, source = opened(capture([]))
    assert (frames, source.packets, source.damage) == ([], 0, [])


@pytest.mark.parametrize("length", range(1, 40))
def test_no_packet_can_be_read(length: int) -> None:
    with pytest.raises(CaptureError, match="no packet can be read"):
        opened(capture([ethernet()])[: 24 + length])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("claim", [0xFFFFFFFF, 0x7FFFFFFF, 17 * 1024 * 1024])
@pytest.mark.parametrize("before", [0, 1, 5])
def test_a_record_that_claims_too_much(claim: int, before: int, order: str) -> None:
    octets = capture([ethernet()] * before, order=order)
    octets += struct.pack(order + "IIII", 1, 1, claim, claim) + bytes(100)
    tracemalloc.start()
    try:
        if before:
            frames, source = opened(octets)
            assert frames == list(range(1, before + 1))
            (line,) = source.damage
            assert f"damaged after frame {before}" in line
        else:
            with pytest.raises(CaptureError, match="no packet can be read"):
                opened(octets)
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_record_that_claims_as_much_as_may_be() -> None:
    """It is taken for a packet that is missing its end, and little memory is taken for it."""
    octets = capture([ethernet()]) + struct.pack("<IIII", 1, 1, 16 * 1024 * 1024, 16 * 1024 * 1024) + bytes(100)
    frames, source = opened(octets)
    assert frames == [1]
    assert len(source.damage) == 1


class Failing(io.BytesIO):
    """A file on a disk that fails."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() > 2000:
            raise OSError(5, "Input/output error")
        return super().read(min(size or 0, 1000))


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_of_the_disk_is_damage(count: int) -> None:
    octets = capture([ethernet()] * 100)
    with Captures([Failing(octets) for _ in range(count)]) as source:
        frames = [seg[0] for batch in source.batches() for seg in batch]
    # What both hold counts once.
    assert 20 < len(frames) < 100
    assert len(source.damage) == count
    assert "Input/output error" in source.damage[0]


# --- what is no pcap file ---


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        (b"", "empty"),
        (b"hello, world, this is text and no capture\n", "not a pcap file"),
        (bytes(100), "not a pcap file"),
        (b"\xa1\xb2", "not a pcap file"),
        (capture([ethernet()], link_type=147), r"link type 147 \(USER0\) is private, and not read: .*editcap -T ether"),
        (capture([ethernet()], link_type=162), r"link type 162 \(USER15\) is private"),
        (capture([ethernet()], link_type=105), r"link type 105 \(IEEE802_11\) is not read: tshark .*-U .* converts it"),
        (capture([ethernet()], link_type=201), r"link type 201 \(BLUETOOTH_HCI_H4_WITH_PHDR\) holds no IP$"),
        (capture([ethernet()], link_type=4711), "link type 4711 is not known$"),
    ],
)
def test_refused_with_a_message(octets: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.pcap"
    path.write_bytes(octets)
    with pytest.raises(CaptureError, match=message) as raised:
        Captures(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        Captures(tmp_path / "none.pcap")
    with pytest.raises(CaptureError, match="directory"):
        Captures(str(tmp_path))


def test_a_bad_one_among_good_ones_leaves_nothing_open(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.pcap", tmp_path / "bad.pcap"
    good.write_bytes(capture([ethernet()]))
    bad.write_bytes(b"bad")
    with pytest.raises(CaptureError, match="bad"):
        Captures([good, bad])  # a file left open would be a ResourceWarning


# --- whatever the octets ---


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SMALL), changes)
def test_any_damage_to_a_file(path: Path, how: list[tuple[str, float, int, int]]) -> None:
    survives(changed(path.read_bytes(), how))


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SMALL), changes, st.integers(0, 60))
def test_any_damage_to_packets(path: Path, how: list[tuple[str, float, int, int]], which: int) -> None:
    """The records stay whole, so that what is in them is looked at."""
    link_type, packets = pcap_records(path)
    which %= len(packets)
    frames = [frame for _, frame, _ in packets]
    for index in range(which, len(frames), 7):
        frames[index] = changed(frames[index], how)
    survives(capture(frames, link_type=link_type))


@settings(max_examples=examples(200))
@given(st.sampled_from(sorted(LINK_TYPES)), st.lists(st.binary(max_size=120), max_size=5))
def test_any_octets_as_packets(link_type: int, packets: list[bytes]) -> None:
    survives(capture(packets, link_type=link_type))


@settings(max_examples=examples(200))
@given(st.sampled_from(sorted(LINK_TYPES)), st.integers(0, 60), st.data())
def test_headers_with_any_values(link_type: int, length: int, data: st.DataObject) -> None:
    """A frame in which a few octets of the headers are anything, and that was cut anywhere."""
    version = data.draw(st.sampled_from([4, 6]))
    frame = bytearray(linked(link_type, ethernet(bytes(length), version=version)))
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, 79), st.integers(0, 255)), max_size=4)):
        if at < len(frame):
            frame[at] = value
    cut = data.draw(st.integers(0, len(frame)))
    octets = capture([bytes(frame[:cut])] * 2, link_type=link_type, wire_lengths=[len(frame)] * 2)
    survives(octets)
    for seg in read(octets):
        assert 0 <= seg[8] - seg[7] <= seg[10]


@pytest.mark.parametrize(("link_type", "order"), [(1, "<"), (1, ">"), (113, "<"), (276, ">"), (101, "<")])
def test_what_is_known_at_a_glance(link_type: int, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both loops over records know the ordinary packet as what looks at every other one does, if any octet changes."""
    made = [ethernet(b"payload"), ethernet(b""), ethernet(bytes(40), version=6), ethernet(b"x", options=b"\1" * 8)]
    for whole in [linked(link_type, frame) for frame in made]:
        frames = [whole]
        for at in range(len(whole)):
            for value in {whole[at] ^ 1, whole[at] ^ 0x80, 255}:
                frames.append(whole[:at] + bytes([value]) + whole[at + 1 :])
        packets = [(7_000_000_000 + number * 1000, frame) for number, frame in enumerate(frames)]
        files = [
            capture(packets, link_type=link_type, order=order),
            capture_ng([(time, octets, len(octets)) for time, octets in packets], link_type, order),
        ]
        at_a_glance = [[told(seg) for seg in read(octets)] for octets in files]
        with monkeypatch.context() as patch:
            patch.setattr(pcap, "fast_path", lambda _link_type: FastPath(-1))
            patch.setattr(pcapng, "fast_path", lambda _link_type: FastPath(-1))
            assert [[told(seg) for seg in read(octets)] for octets in files] == at_a_glance
        assert at_a_glance[0] == at_a_glance[1]


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_cut_anywhere_the_rest_is_read(path: Path) -> None:
    octets = path.read_bytes()
    whole = [row["frames"] for row in fpdus(path)]
    for cut in itertools.chain(range(24, 120), range(120, len(octets), 997)):
        try:
            got = [row["frames"] for row in fpdus(octets[:cut])]
        except CaptureError:
            continue
        # Per half connection a capture that ends early gives the beginning of what the whole one gives.
        assert all(frames in whole for frames in got)


def test_all_captures_are_of_a_kind_that_is_read() -> None:
    assert len(captures()) >= 20
