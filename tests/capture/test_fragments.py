"""IP fragments put together again (RFC 791 §3.2, RFC 8200 §4.5, RFC 5722)."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.fragments import LIFETIME, Datagram, Fragment, Fragments
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.errors import CaptureError
from tests.capture.frames import A, B, analysed, capture, changed, changes, ethernet, fpdus, read, survives, told
from tests.capture.test_files import ethernet_frames
from tests.capture.tunnels import MAC, TUNNELS, in_fragments, ip4, outer4, tunnelled, vxlan
from tests.conftest import PCAPS

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


def damage_of(packets: list[bytes]) -> tuple[list[int], list[str]]:
    import io

    with Captures(io.BytesIO(capture(packets))) as opened:
        return [seg[0] for batch in opened.batches() for seg in batch], opened.damage


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
    frames, damage = damage_of(made)
    assert frames == [len(made)]
    assert damage == ["1 datagram dropped, because their IP fragments overlap"]


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
    assert damage_of([*made, ethernet()]) == ([len(made) + 1], [])


def test_the_identification_is_used_again() -> None:
    late = [(0, fragment(0, TCP[:80])), (LIFETIME + 1000, fragment(0, b"\x51" * 80))]
    late += [(LIFETIME + 1000, fragment(80, TCP[80:], False))]
    assert [told(seg)["tcp"] for seg in read(capture(late))] == [b"QQQQ"]


def test_what_a_segment_of_fragments_says_when_it_is_to_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "fragments.pcap"
    path.write_bytes(capture(in_fragments(ethernet(bytes(100)), 40, 9)))
    index = FrameIndex(path)
    with pytest.raises(CaptureError, match="IP fragments"):
        index.segments([3])
    index.close()


# --- bounds ---


def piece(key: int, offset: int = 0, size: int = 8, more: bool = True) -> Fragment:
    return Fragment(key.to_bytes(4, "big"), 6, offset, more, memoryview(bytes(size)), size)


def test_no_more_than_so_many_datagrams() -> None:
    fragments = Fragments(datagram_limit=10)
    for key in range(1000):
        assert fragments.add(piece(key), 0) is None
    assert fragments.given_up == 990
    assert fragments.add(piece(5, 8, more=False), 0) is None
    assert fragments.add(piece(999, 8, more=False), 0) == Datagram(6, bytes(16), 16)
    assert fragments.told() == ["991 datagrams in IP fragments dropped, because too many were incomplete"]


def test_no_more_than_so_many_octets() -> None:
    fragments = Fragments(octet_limit=100_000)
    for key in range(100):
        assert fragments.add(piece(key, 8, 8000), 0) is None
    assert 85 < fragments.given_up < 95
    for offset in range(16, 60_000, 8):  # one datagram alone
        fragments.add(piece(1000, offset), 0)
    assert fragments.given_up > 99


def test_a_flood_takes_little_time() -> None:
    rng = random.Random(1)
    began = time.process_time()
    fragments = Fragments()
    for offset in rng.sample(range(8, 65520, 8), 8000):
        fragments.add(piece(1, offset), 0)
    for key in range(50_000):
        fragments.add(piece(key, rng.randrange(0, 60_000, 8)), 0)
    assert time.process_time() - began < 2


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(1, 4), st.booleans()), max_size=60))
def test_any_fragments(made: list[tuple[int, int, int, bool]]) -> None:
    """A datagram is whole or it is not there."""
    fragments = Fragments(datagram_limit=3, octet_limit=3000)
    text = bytes(range(8 * 16))
    for key, offset, size, more in made:
        octets = memoryview(text)[8 * offset : 8 * (offset + size)]
        found = fragments.add(Fragment(bytes([key]), 6, 8 * offset, more, octets, len(octets)), 0)
        if found is not None:
            assert not more or offset == 0 or found.length
            assert found.octets == text[: found.length]


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
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
