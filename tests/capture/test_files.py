"""Several captures as one, captures under other link layers, and what Scapy reads in them."""

from __future__ import annotations

import io
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa.capture.files import Captures
from tests.capture.frames import analysed, capture, ethernet, fpdus, linked, pcap_records, read, with_vlans
from tests.conftest import PCAPS, captures
from tests.receive.cases import errors, summary

ARP = bytes(12) + b"\x08\x06" + bytes(28)
SECOND = 1_000_000_000
SHIPPED = sorted(PCAPS.glob("*.pcap"))


def ids(path: Path) -> str:
    return path.stem


def timed(*times: int, first: int = 0) -> list[tuple[int, bytes]]:
    return [(time * SECOND, ethernet(b"p", seq=first + n)) for n, time in enumerate(times)]


def order(*files: list[tuple[int, bytes]]) -> list[tuple[int, int]]:
    """(frame, sequence number) in the order of the merge."""
    return [(seg[0], seg[3]) for seg in read(*(capture(packets) for packets in files))]


@pytest.mark.parametrize(
    ("files", "merged"),
    [
        (([1, 3, 5], [2, 4, 6]), [0, 100, 1, 101, 2, 102]),
        (([2, 4, 6], [1, 3, 5]), [100, 0, 101, 1, 102, 2]),
        (([1, 1], [1, 1]), [0, 1, 100, 101]),
        (([1, 2], [1, 2], [1, 2]), [0, 100, 200, 1, 101, 201]),
        # Never re-sorted within a file: what is late is taken when it is at the head.
        (([5, 1, 6], [2, 3, 7]), [100, 101, 0, 1, 2, 102]),
        (([9, 1], [5]), [100, 0, 1]),
        (([], [1]), [100]),
        (([1], []), [0]),
        (([4, 5], [1, 2, 3], [6]), [100, 101, 102, 0, 1, 200]),
    ],
)
def test_merged_by_time_at_their_heads(files: tuple[list[int], ...], merged: list[int]) -> None:
    made = [timed(*times, first=100 * n) for n, times in enumerate(files)]
    assert order(*made) == list(enumerate(merged, 1))


def test_every_record_has_a_frame_number_and_a_time() -> None:
    """What is no TCP counts, and holds back what stands behind it."""
    one = [(3 * SECOND, ARP), (1 * SECOND, ethernet(seq=1)), (1 * SECOND, ARP), (2 * SECOND, ethernet(seq=2))]
    two = [(2 * SECOND, ethernet(seq=3)), (4 * SECOND, ARP), (5 * SECOND, ethernet(seq=4))]
    assert order(one, two) == [(1, 3), (3, 1), (5, 2), (7, 4)]
    with Captures([io.BytesIO(capture(one)), io.BytesIO(capture(two))]) as opened:
        list(opened.batches())
        assert opened.packets == 7


def test_captures_of_different_kinds_are_merged() -> None:
    nanoseconds = capture([(SECOND + 1, ethernet(seq=1)), (SECOND + 3, ethernet(seq=2))], unit=1, order=">")
    cooked = capture(
        [(SECOND, linked(113, ethernet(seq=3))), (2 * SECOND, linked(113, ethernet(seq=4)))], link_type=113
    )
    assert [(seg[0], seg[3]) for seg in read(nanoseconds, cooked)] == [(1, 3), (2, 1), (3, 2), (4, 4)]


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("name", ["markers-reordered", "siw-three-in-a-row", "siw-terminate"])
def test_a_capture_dealt_out_and_merged_again(name: str, count: int) -> None:
    """Each record in some file, in order: the merge is the capture, if no two times are the same."""
    link_type, packets = pcap_records(PCAPS / f"{name}.pcap")
    rng = random.Random(count)
    frames = [(n * 1000, frame) for n, (_, frame, _) in enumerate(packets)]
    hands: list[list[tuple[int, bytes]]] = [[] for _ in range(count)]
    for packet in frames:
        hands[rng.randrange(count)].append(packet)
    whole = capture(frames, link_type=link_type)
    merged = [capture(hand, link_type=link_type) for hand in hands]
    assert summary(analysed(*merged)) == summary(analysed(whole))


def test_damage_of_each_is_told() -> None:
    one, two = capture(timed(1, 2, 3)), capture(timed(1, 2, 3, first=9))
    with Captures([io.BytesIO(one[:-3]), io.BytesIO(two)]) as opened:
        assert len([seg for batch in opened.batches() for seg in batch]) == 5
        assert len(opened.damage) == 1


def test_names() -> None:
    path = PCAPS / "siw-rev0.pcap"
    with Captures([path, str(path)]) as opened:
        assert opened.names == [str(path), str(path)]
    with path.open("rb") as file, Captures(file) as opened:
        assert opened.names == [str(path)]
        assert len([seg for batch in opened.batches() for seg in batch]) == 13
        assert opened.packets == 13
    with Captures(io.BytesIO(path.read_bytes())) as opened:
        assert opened.names == ["<file>"]


def test_files_are_closed() -> None:
    path = PCAPS / "siw-rev0.pcap"
    with path.open("rb") as file:
        with Captures([file, path]) as opened:
            list(opened.batches())
        assert not file.closed  # the caller opened it


# --- under other link layers ---


def ethernet_frames(path: Path) -> list[tuple[int, bytes, int]]:
    """The packets of a shipped capture as Ethernet frames without tags: (time, octets, wire length)."""
    link_type, packets = pcap_records(path)
    found = []
    for time, frame, wire in packets:
        if link_type == 276:
            plain = bytes(12) + frame[:2] + frame[20:]
        else:
            assert link_type == 1
            plain = frame
            while plain[12:14] == b"\x81\x00":
                plain = plain[:12] + plain[16:]
        found.append((time, plain, wire + len(plain) - len(frame)))
    return found


@pytest.mark.parametrize("link_type", [0, 1, 12, 101, 108, 113, 276, "vlan", "two vlans"])
@pytest.mark.parametrize("path", SHIPPED, ids=ids)
def test_linked_anew_a_capture_says_the_same(path: Path, link_type: int | str) -> None:
    packets = ethernet_frames(path)
    if link_type == "vlan":
        made = [with_vlans(frame, (0x8100, 7)) for _, frame, _ in packets]
    elif link_type == "two vlans":
        made = [with_vlans(frame, (0x88A8, 7), (0x8100, 8)) for _, frame, _ in packets]
    else:
        made = [linked(int(link_type), frame) for _, frame, _ in packets]
    wires = [wire + len(new) - len(old) for new, (_, old, wire) in zip(made, packets, strict=True)]
    number = 1 if isinstance(link_type, str) else link_type
    times = [(time, frame) for (time, _, _), frame in zip(packets, made, strict=True)]
    again = capture(times, link_type=number, unit=1, order=">", wire_lengths=wires)
    assert summary(analysed(again)) == summary(analysed(path))


@pytest.mark.parametrize("link_type", [228, 229])
def test_raw_ip_of_one_version(link_type: int) -> None:
    name = "siw-rping" if link_type == 228 else "siw-rping-ipv6"
    packets = [p for p in ethernet_frames(PCAPS / f"{name}.pcap") if p[1][12:14] in (b"\x08\x00", b"\x86\xdd")]
    plain = capture([(time, frame) for time, frame, _ in packets])
    raw = capture([(time, frame[14:]) for time, frame, _ in packets], link_type=link_type)
    assert fpdus(raw) == fpdus(plain)
    assert len(fpdus(raw)) == 35


# --- an independent reader ---


def scapy_segments(path: Path) -> list[tuple[int, int, int, int, int, bytes]]:
    """(frame, ports, seq, ack, payload) of each TCP segment as Scapy reads it."""
    from scapy.layers.inet import IP, TCP
    from scapy.layers.inet6 import IPv6
    from scapy.utils import PcapReader

    found = []
    with PcapReader(str(path)) as reader:
        for frame, packet in enumerate(reader, 1):
            if TCP not in packet:
                continue
            tcp: Any = packet[TCP]
            if IP in packet:
                length = packet[IP].len - packet[IP].ihl * 4 - tcp.dataofs * 4
            else:
                length = packet[IPv6].plen - tcp.dataofs * 4
            payload = bytes(tcp.payload)[:length]
            found.append((frame, tcp.sport, tcp.dport, tcp.seq, tcp.ack, payload))
    return found


@pytest.mark.parametrize("path", SHIPPED, ids=ids)
def test_scapy_reads_the_same_octets(path: Path) -> None:
    got = []
    with Captures(path) as opened:
        for batch in opened.batches():
            for frame, _, key, seq, ack, _, octets, start, end, _, _ in batch:
                ports = int.from_bytes(key[-4:-2], "big"), int.from_bytes(key[-2:], "big")
                got.append((frame, *ports, seq, ack, bytes(octets[start:end])))
    assert got == scapy_segments(path)
    assert got


def test_all_at_once() -> None:
    """Captures of different hosts and days in one: each connection says what it says alone."""
    paths = [path for path in captures() if "faulty" not in path.stem][:12]
    together = analysed(*paths)
    assert errors(together) == []
    alone = sum(len(fpdus(path)) for path in paths)
    assert sum(operation.counts.fpdus for mpa in together.connections for operation in mpa.operations.values()) == alone


# --- rotated files ---


@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
@pytest.mark.parametrize("path", SHIPPED, ids=ids)
def test_ten_rotated_files_are_one_capture(path: Path, kind: str, tmp_path: Path) -> None:
    count = -(-len(pcap_records(path)[1]) // 10)
    subprocess.run(["editcap", "-F", kind, "-c", str(count), path, tmp_path / "part"], check=True)
    parts = sorted(tmp_path.iterdir())
    assert 1 < len(parts) <= 10
    assert summary(analysed(*parts)) == summary(analysed(path))
