"""Compiled twins say what the loops in Python say: of captures, shipped and mutated, and with every octet changed."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.report.analysis import analyze
from scripts.benchmark import write_capture
from scripts.fuzz_captures import captures_of
from tests.capture.blocks import capture_ng
from tests.capture.frames import MAGICS, capture, ethernet, linked, pcap_records, read, told
from tests.compiled.twins import Twins, assert_same, built, of_package, used
from tests.conftest import PCAPS

#: Mutated captures that are looked at.
CASES = 120


@pytest.fixture(scope="session")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    found = of_package() or built(tmp_path_factory.mktemp("twins"))
    if found is None:
        pytest.skip("no C compiler, or no headers of Python")
    return found


@pytest.fixture(scope="session")
def follows(twins: Twins) -> Twins:
    """The twins, all of them."""
    if twins["fpdus_in_order"] is None:
        pytest.skip("the processor has no instruction for CRC32c")
    return twins


@pytest.mark.parametrize("path", sorted(PCAPS.glob("*.pcap")), ids=lambda path: path.stem)
def test_shipped_captures(twins: Twins, path: Path) -> None:
    octets = path.read_bytes()
    assert_same(twins, [octets])
    link_type, packets = pcap_records(path)
    assert_same(twins, [capture_ng(packets, link_type)])


def test_mutated_captures(twins: Twins) -> None:
    for number in range(CASES):
        assert_same(twins, [made.octets for made in captures_of(2, number)])


@pytest.mark.parametrize("scenario", ["plain", "markers", "reordered", "small"])
def test_captures_of_the_benchmark(follows: Twins, tmp_path: Path, scenario: str) -> None:
    """They say the same, and do most of the work."""
    taken = {"packets": 0, "fpdus": 0}

    def counted_segments(*arguments: Any) -> Any:
        found = follows["segments_in_order"](*arguments)
        taken["packets"] += found[0]
        taken["fpdus"] += found[2]
        return found

    def counted_fpdus(*arguments: Any) -> Any:
        found = follows["fpdus_in_order"](*arguments)
        taken["fpdus"] += found[1]
        return found

    made = write_capture(scenario, tmp_path / "made.pcap", 1_000_000, seed=1)
    octets = Path(made.path).read_bytes()
    assert_same(follows, [octets])
    with used(follows | {"segments_in_order": counted_segments, "fpdus_in_order": counted_fpdus}):
        assert analyze(made.path, fpdus=False).packets == made.packets
    if scenario != "reordered":
        assert taken["packets"] > 0.8 * made.packets
        assert taken["fpdus"] > 0.8 * made.fpdus


def frames(link_type: int) -> list[bytes]:
    """Ordinary ones, and some that are not."""
    plain = [ethernet(b"payload"), ethernet(b""), ethernet(bytes(40), version=6), ethernet(b"x", options=b"\1" * 8)]
    return [linked(link_type, frame) for frame in plain] + [b"", bytes(20)]


@pytest.mark.parametrize(("link_type", "order"), [(1, "<"), (1, ">"), (113, "<"), (276, ">"), (101, "<")])
def test_every_octet_of_a_record_changed(twins: Twins, link_type: int, order: str) -> None:
    for frame in frames(link_type):
        packets = [(7_000_001_000, frame), (7_000_002_000, frame), (7_000_003_000, frame)]
        files = [
            capture(packets, link_type=link_type, order=order),
            capture_ng([(time, octets, len(octets)) for time, octets in packets], link_type, order),
        ]
        for octets in files:
            # The second packet and what stands before it; what the file begins with has tests of its own.
            second = octets.rindex(frame, 0, octets.rindex(frame)) if frame else len(octets)
            for at in range(max(second - 32, 60), min(second + 80, len(octets))):
                for value in {octets[at] ^ 1, octets[at] ^ 0x80, 255}:
                    changed = octets[:at] + bytes([value]) + octets[at + 1 :]
                    with used(twins):
                        by_twin = [*map(told, read(changed))]
                    with used(None):
                        assert [*map(told, read(changed))] == by_twin


@pytest.mark.parametrize("unit", [1000, 1])
def test_time_is_reckoned_without_overflow(twins: Twins, unit: int) -> None:
    """The last second that a record can name, and as much of a fraction."""
    octets = bytearray(capture([ethernet()], unit=unit))
    octets[24:32] = b"\xff" * 8
    with used(twins):
        (seg,) = read(bytes(octets))
    assert seg[1] == 0xFFFFFFFF * (1_000_000_000 + unit)
    assert MAGICS["<", unit] == bytes(octets[:4])


WRITE = bytes.fromhex("c140")
EXPECTED = (0xC140, False, 0, 0, 65535)


@pytest.mark.parametrize("phase", [None, 0, 4, 16, 100, 480, 484, 488, 492, 496, 500, 504, 508])
@pytest.mark.parametrize("length", [2, 14, 15, 16, 17, 480, 500, 1000, 1024, 1026, 9000, 64768])
def test_each_octet_of_an_fpdu_counts(follows: Twins, phase: int | None, length: int) -> None:
    """An FPDU is taken as a whole, at every place among Markers; not if any octet of it is another one."""
    octets = encode_fpdu(WRITE + bytes(length - 2), phase)
    layout, shift = (0, 0) if phase is None else (1, phase)
    header = 4 if phase == 0 else 0
    is_cut = phase is not None and -(phase + header) & 511 < 16
    expected = (0, 0) if is_cut else (len(octets), 1)

    def taken(octets: bytes, crc_used: bool = True) -> tuple[int, int]:
        starts = array("q")
        found: list[int] = []
        at, fpdus, ulpdu_octets, _, _ = follows["fpdus_in_order"](
            octets, 0, len(octets), shift, starts, found, crc_used, layout, EXPECTED, 0
        )
        assert starts.tolist() == [shift] * fpdus
        assert found == [length] * fpdus
        assert ulpdu_octets == length * fpdus
        return at, fpdus

    assert taken(octets) == expected
    assert taken(octets + octets[:3])[1] == expected[1]
    for at in {*range(min(len(octets), 24)), *range(max(len(octets) - 12, 0), len(octets)), *range(0, len(octets), 97)}:
        changed = bytearray(octets)
        changed[at] ^= 0x10
        assert taken(bytes(changed)) == (0, 0)
    for cut in (0, 1, 3, 4, 7, len(octets) - 4, len(octets) - 1):
        assert taken(octets[:cut]) == (0, 0)


def test_to_does_not_wrap_unseen(follows: Twins) -> None:
    """TO counts modulo 2^64; where it wraps, Python looks."""
    begin = (1 << 64) - 208

    def write(to: int) -> bytes:
        return encode_fpdu(WRITE + (7).to_bytes(4, "big") + to.to_bytes(8, "big") + bytes(100), None)

    octets = write(begin) + write(begin + 100) + write(begin + 200)
    expected = 0xC140, True, 7, 14, 200
    at, fpdus, _, _, to = follows["fpdus_in_order"](
        octets, 0, len(octets), 0, array("q"), None, True, 0, expected, begin
    )
    assert (at, fpdus, to) == (len(octets) // 3, 1, begin + 100)
