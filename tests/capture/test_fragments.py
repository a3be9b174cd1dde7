"""IP fragments put together again (RFC 791 §3.2, RFC 8200 §4.5, RFC 5722)."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.fragments import LIFETIME, Datagram, Fragment, Fragments
from scapy_mpa.capture.notes import Note
from scapy_mpa.reading.analysis import PlacedFPDUs, analyze
from scapy_mpa.reading.query import query_of
from scapy_mpa.report.model import Report
from scapy_mpa.values.limits import Limits
from tests.capture.frames import A, B, analysed, capture, changed, changes, ethernet, fpdus, read, survives, told
from tests.capture.test_files import ethernet_frames
from tests.capture.tunnels import MAC, TUNNELS, in_fragments, ip4, outer4, tunnelled, vxlan
from tests.conftest import PCAPS
from tests.sampling import examples
from tests.work import lines_run

SHIPPED = sorted(PCAPS.glob("*.pcap"))
WHOLE = [path for path in SHIPPED if all(wire == len(frame) for _, frame, wire in ethernet_frames(path))]


def without_frames(source: object) -> list[dict[str, object]]:
    """The records of a capture, but for the numbers of frames."""
    numbers = ("frames", "placed_frame", "delivered_frame")
    return [{key: value for key, value in row.items() if key not in numbers} for row in fpdus(source)]


@pytest.mark.parametrize("how", ["in order", "reversed", "shuffled", "twice"])
@pytest.mark.parametrize("size", [24, 512, 1000])
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_in_fragments_a_capture_says_the_same(path: Path, size: int, how: str) -> None:
    if size < 100 and path.stat().st_size > 100_000:
        size += 96
    rng = random.Random(size)
    made = []
    for ident, (when, frame, _) in enumerate(ethernet_frames(path)):
        pieces = in_fragments(frame, size, ident % 65536)
        if how == "reversed":
            pieces.reverse()
        elif how == "shuffled":
            rng.shuffle(pieces)
        elif how == "twice":
            pieces = [piece for piece in pieces[:-1] for _ in range(2)] + pieces[-1:]
        made += [(when, piece) for piece in pieces]
    assert without_frames(capture(made, unit=1)) == without_frames(path)


@pytest.mark.parametrize("name", TUNNELS)
@pytest.mark.parametrize("path", WHOLE[:3], ids=lambda path: path.stem)
def test_fragments_in_tunnels_and_tunnels_in_fragments(path: Path, name: str) -> None:
    made: list[tuple[int, bytes]] = []
    for ident, (when, frame, _) in enumerate(ethernet_frames(path)):
        inner = [tunnelled(name, piece) for piece in in_fragments(frame, 48, ident)]
        made += [(when, piece) for n, one in enumerate(inner) for piece in in_fragments(one, 56, ident * 64 + n)]
    assert without_frames(capture(made, unit=1)) == without_frames(path)


@pytest.mark.parametrize("version", [4, 6])
def test_it_counts_at_the_frame_that_completes_it(version: int) -> None:
    pieces = in_fragments(ethernet(bytes(range(100)), version=version), 40, 9)
    frames = [(10, pieces[1]), (20, ethernet(b"other")), (30, pieces[0]), (40, pieces[2]), (50, pieces[2])]
    octets = capture(frames, unit=1)
    first, second = (told(seg) for seg in read(octets))
    assert (first["frame"], first["payload"]) == (2, b"other")
    assert (second["frame"], second["time"], second["payload"]) == (4, 40, bytes(range(100)))
    assert (second["length"], second["seq"]) == (100, 100)


def test_fragments_dealt_out_to_several_captures() -> None:
    pieces = in_fragments(ethernet(bytes(range(200))), 40, 9)
    files = [[(n, piece) for n, piece in enumerate(pieces) if n % 3 == hand] for hand in range(3)]
    (seg,) = read(*(capture(hand, unit=1) for hand in files))
    assert (seg[0], seg[1], told(seg)["payload"]) == (len(pieces), len(pieces) - 1, bytes(range(200)))


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_fragments_that_the_capture_cut(cut: int) -> None:
    """What was captured before the first cut is there."""
    payload = bytes(range(200))
    pieces = in_fragments(ethernet(payload), 80, 9)
    kept = [piece[:-8] if n == cut else piece for n, piece in enumerate(pieces)]
    (seg,) = read(capture(kept, wire_lengths=[len(piece) for piece in pieces]))
    assert told(seg)["length"] == 200
    end = [80, 160, 220][cut] - 8 - 20
    assert told(seg)["payload"] == payload[:end]


def notes_of(packets: list[bytes], *more: bytes, **limits: int) -> tuple[list[int], list[Note]]:
    """The frames that bring segments, and what was noted."""
    files = [io.BytesIO(octets) for octets in (capture(packets), *more)]
    with Captures(files, limits=Limits(**limits)) as opened:
        return [seg[0] for batch in opened.batches(copies=True) for seg in batch], opened.notes


def fragment(offset: int, octets: bytes, more: bool = True, ident: int = 1) -> bytes:
    return MAC + b"\x08\x00" + ip4(6, octets, field=more << 13 | offset // 8, ident=ident)


TCP = ethernet(bytes(100))[34:]  # 120 octets


@pytest.mark.parametrize(
    "pieces",
    [
        [(0, TCP[:80]), (72, TCP[72:])],
        [(0, TCP[:80]), (8, TCP[8:16]), (80, TCP[80:])],
        [(40, TCP[40:80]), (0, TCP[:48]), (80, TCP[80:])],
        [(0, TCP[:80]), (0, b"\1" * 80), (80, TCP[80:])],
        [(80, TCP[80:]), (80, TCP[80:112]), (0, TCP[:80])],
        [(80, TCP[80:]), (0, TCP[:80] + bytes(80))],
    ],
)
def test_overlapping_fragments_are_dropped_and_counted(pieces: list[tuple[int, bytes]]) -> None:
    made = [fragment(offset, octets, offset + len(octets) != 120) for offset, octets in pieces]
    # Those that come later do not make it another one.
    made += [fragment(0, TCP[:80]), fragment(80, TCP[80:], False), ethernet()]
    frames, (note,) = notes_of(made)
    assert frames == [len(made)]
    assert (note.rule, note.times) == ("ip-fragments", 1)
    assert 2 <= note.frame <= len(pieces)
    assert "overlap" in note.detail


def test_overlapping_fragments_in_a_merge_have_its_frame_numbers() -> None:
    ahead = capture([(n, ethernet()) for n in range(5)], unit=1)
    frames, (note,) = notes_of([fragment(0, TCP[:80]), fragment(72, TCP[72:], False)], ahead)
    assert frames == [1, 2, 3, 4, 5]
    assert (note.frame, note.last_frame, note.time) == (7, 7, 2_000_000_000)


@pytest.mark.parametrize(
    "made",
    [
        [fragment(0, TCP[:41]), fragment(48, TCP[48:], False)],
        [fragment(0, TCP[:80])],
        [fragment(80, TCP[80:], False)],
        [fragment(65528, bytes(16), False), fragment(0, TCP[:80])],
        [fragment(0, b""), fragment(80, b"", False)],
        [fragment(0, TCP[:80], ident=1), fragment(80, TCP[80:], False, ident=2)],
    ],
)
def test_no_datagram(made: list[bytes]) -> None:
    assert notes_of([*made, ethernet()]) == ([len(made) + 1], [])


def test_the_identification_is_used_again() -> None:
    late = [(0, fragment(0, TCP[:80])), (LIFETIME + 1000, fragment(0, b"\x51" * 80))]
    late += [(LIFETIME + 1000, fragment(80, TCP[80:], False))]
    assert [told(seg)["tcp"] for seg in read(capture(late))] == [b"QQQQ"]


# --- bounds ---


def piece(key: int, offset: int = 0, size: int = 8, more: bool = True) -> Fragment:
    return Fragment(key.to_bytes(4, "big"), 6, offset, more, memoryview(bytes(size)), size)


def test_no_more_than_so_many_datagrams() -> None:
    fragments = Fragments(Limits(datagrams=10))
    for key in range(1000):
        assert fragments.add(piece(key), key, 5) is None
    assert fragments.add(piece(5, 8, more=False), 1000, 7) is None
    assert fragments.add(piece(999, 8, more=False), 1001, 8) == Datagram(6, bytes(16), 16)
    (note,) = fragments.notes.all()
    assert note[:-1] == ("limit", 10, 1000, 5, 991)
    assert note.detail == "more than 10 datagrams wait for IP fragments (datagrams)"


def test_no_more_than_so_many_octets() -> None:
    fragments = Fragments(Limits(fragment_octets=100_000))
    for key in range(100):
        assert fragments.add(piece(key, 8, 8000), 0, 0) is None
    (note,) = fragments.notes.all()
    assert 85 < note.times < 95
    assert note.detail == "more than 100000 octets of IP fragments wait for others (fragment_octets)"
    for offset in range(16, 60_000, 8):  # one datagram alone
        fragments.add(piece(1000, offset), 0, 0)
    assert fragments.notes.all()[0].times > 99


def test_limits_are_the_callers_and_the_report_says_when_one_bites() -> None:
    made = [fragment(0, TCP[:80], ident=ident) for ident in range(10)]
    assert notes_of(made) == ([], [])
    for limits in ({"datagrams": 4}, {"fragment_octets": 2000}):
        frames, (note,) = notes_of([*made, ethernet()], **limits)
        assert (frames, note.rule, note.last_frame) == ([11], "limit", 10)
        for report in (analyze(io.BytesIO(capture(made)), limits=Limits(**limits)), placed_report(made, limits)):
            (found,) = report.findings
            assert (found.rule.id, found.count, found.frame, found.last_frame) == ("limit", *told_of(note))
            assert (found.severity, found.detail) == ("note", note.detail)


def told_of(note: Note) -> tuple[int, int, int]:
    return note.times, note.frame, note.last_frame


def placed_report(packets: list[bytes], limits: dict[str, int]) -> Report:
    fpdus = PlacedFPDUs(query_of(io.BytesIO(capture(packets)), limits=Limits(**limits)))
    assert list(fpdus) == []
    return fpdus.report


@pytest.mark.uncompiled
def test_a_flood_takes_little_time() -> None:
    rng = random.Random(1)
    fragments = Fragments()
    of_one = [piece(1, offset) for offset in rng.sample(range(8, 65520, 8), 8000)]
    of_many = [piece(key, rng.randrange(0, 60_000, 8)) for key in range(20_000)]
    for pieces in (of_one, of_many):
        assert lines_run(lambda: [fragments.add(one, 0, 0) for one in pieces]) < 60 * len(pieces)  # noqa: B023


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(1, 4), st.booleans()), max_size=60))
def test_any_fragments(made: list[tuple[int, int, int, bool]]) -> None:
    """A datagram is whole or it is not there."""
    fragments = Fragments(Limits(datagrams=3, fragment_octets=3000))
    text = bytes(range(8 * 16))
    for key, offset, size, more in made:
        octets = memoryview(text)[8 * offset : 8 * (offset + size)]
        found = fragments.add(Fragment(bytes([key]), 6, 8 * offset, more, octets, len(octets)), 0, 0)
        if found is not None:
            assert not more or offset == 0 or found.length
            assert found.octets == text[: found.length]


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([4, 6]), st.integers(1, 8), st.booleans(), st.integers(0, 9), changes)
def test_any_damage(version: int, size: int, tunnel: bool, which: int, how: list[tuple[str, float, int, int]]) -> None:
    frame = ethernet(bytes(100), version=version)
    pieces = in_fragments(vxlan(frame) if tunnel else frame, 8 * size, 1)
    which %= len(pieces)
    survives(capture([*pieces[:which], changed(pieces[which], how), *pieces[which:], *pieces]))


def test_addresses_stay() -> None:
    (seg,) = read(capture(in_fragments(ethernet(bytes(100)), 40, 1)))
    receiver = analysed(capture(in_fragments(outer4(4, ethernet()[14:]), 24, 1)))
    assert receiver.tcp_connections <= 1
    assert seg[2][:8] == bytes([10, 0, 0, 1, 10, 0, 0, 2])
    assert (A.port, B.port) == (40000, 7471)
