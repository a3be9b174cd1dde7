"""Tunnels: the inner TCP segment is what counts."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scapy_mpa.capture.packet import MAX_NESTING
from tests.capture.frames import analysed, capture, changed, changes, ethernet, read, survives, told
from tests.capture.test_files import ethernet_frames
from tests.capture.tunnels import MAC, TUNNELS, gre, ip4, ip6, is_ip, mpls, outer4, tunnelled, vxlan
from tests.conftest import PCAPS
from tests.receive.cases import summary
from tests.sampling import examples
from tests.work import lines_run

SHIPPED = sorted(PCAPS.glob("*.pcap"))


@pytest.mark.parametrize("name", TUNNELS)
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_in_a_tunnel_a_capture_says_the_same(path: Path, name: str) -> None:
    packets = ethernet_frames(path)
    made = [(when, tunnelled(name, frame)) for when, frame, _ in packets]
    wires = [len(new) + wire - len(old) for (_, new), (_, old, wire) in zip(made, packets, strict=True)]
    again = capture(made, unit=1, wire_lengths=wires)
    if any(wire > len(old) for _, old, wire in packets):
        # The lengths in the outer headers are those of the octets that were captured.
        again = capture(made, unit=1)
        assert len(read(again)) <= len(read(path.read_bytes()))
    else:
        assert summary(analysed(again)) == summary(analysed(path))


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("name", TUNNELS)
def test_cut_by_the_snap_length(name: str, version: int) -> None:
    plain = ethernet(bytes(range(200)), version=version)
    frame = tunnelled(name, plain)
    assert is_ip(plain)
    headers = len(frame) - 200
    for cut in range(len(frame)):
        segments = read(capture([frame[:cut]], wire_lengths=[len(frame)]))
        assert len(segments) == (cut >= headers), cut
        for seg in segments:
            assert (told(seg)["length"], told(seg)["seq"]) == (200, 100)
            assert told(seg)["payload"] == bytes(range(cut - headers))


@pytest.mark.parametrize("depth", range(1, 12))
@pytest.mark.parametrize("wrap", [ip4, ip6])
def test_nesting_is_bounded(depth: int, wrap: object) -> None:
    packet = ethernet()[14:]
    protocol = 4
    for _ in range(depth):
        packet = wrap(protocol, packet)  # type: ignore[operator]
        protocol = 4 if wrap is ip4 else 41
    frame = MAC + (b"\x08\x00" if wrap is ip4 else b"\x86\xdd") + packet
    assert len(read(capture([frame]))) == (depth < MAX_NESTING)


@pytest.mark.parametrize(
    "frame",
    [
        outer4(47, b"\0\0\x08"),
        gre(0x4000, 0x0800, bytes(4) + ethernet()[14:]),
        gre(0x0002, 0x0800, ethernet()[14:]),
        gre(0x0001, 0x0800, ethernet()[14:]),
        gre(0, 0x0806, ethernet()[14:]),
        gre(0x1000, 0x22EB, bytes(11)),
        outer4(17, struct.pack("!HHHH", 1, 4791, 0, 0) + b"\x08" + bytes(7) + ethernet()),
        outer4(17, struct.pack("!HHHH", 1, 4789, 0, 0) + b"\x00" + bytes(7) + ethernet()),
        outer4(17, struct.pack("!HHHH", 1, 4789, 0, 0)),
        MAC + b"\x88\x64\x11\xa7\0\1\0\x20\0\x21" + ethernet()[14:],
        MAC + b"\x88\x64\x11\0\0\1\0\x20\xc0\x21" + ethernet()[14:],
        MAC + b"\x88\x47" + bytes(4) * 20,
        mpls(1, b"\x50" + bytes(40)),
        mpls(2, b""),
    ],
)
def test_no_segment_inside(frame: bytes) -> None:
    assert [seg[0] for seg in read(capture([frame, ethernet(), frame]))] == [2]


def test_padding_behind_an_inner_packet_is_not_payload() -> None:
    frame = vxlan(ethernet(b"x") + bytes(20)) + bytes(10)
    (seg,) = read(capture([frame]))
    assert (told(seg)["payload"], told(seg)["length"]) == (b"x", 1)


@pytest.mark.uncompiled
def test_endless_labels_and_tags_take_no_time() -> None:
    frames = [MAC + b"\x88\x47" + bytes(1_000_000), MAC + b"\x81\x00" * 500_000, MAC + b"\x88\x64" * 100_000]
    assert lines_run(lambda: read(capture(frames))) < 5_000_000
    assert read(capture(frames)) == []


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(sorted(TUNNELS)), min_size=1, max_size=5), st.sampled_from([4, 6]), changes)
def test_any_damage_in_nested_tunnels(names: list[str], version: int, how: list[tuple[str, float, int, int]]) -> None:
    frame = ethernet(version=version)
    for name in names:
        frame = tunnelled(name, frame)
    survives(capture([frame, changed(frame, how), frame]))
