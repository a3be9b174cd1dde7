"""Compressed captures, standard input, pipes, and a file that grows."""

from __future__ import annotations

import gzip
import io
import os
import random
import re
import subprocess
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.errors import CaptureError
from scapy_mpa.values.limits import Limits, parse_limits
from tests.capture.blocks import block, capture_ng, interface, packet, section
from tests.capture.frames import analysed, capture, changed, changes, ethernet, pcap_records, read, survives, told
from tests.conftest import PCAPS
from tests.receive.cases import summary
from tests.sampling import examples

SHIPPED = sorted(PCAPS.glob("*.pcap"))
SMALL = [path for path in SHIPPED if path.stat().st_size < 12_000]


def gz(octets: bytes) -> bytes:
    return gzip.compress(octets, mtime=0)


def zst(octets: bytes, level: int = 3) -> bytes:
    return zstandard.ZstdCompressor(level=level).compress(octets)


def zst_streamed(octets: bytes) -> bytes:
    """A frame that does not say how long it is."""
    made = zstandard.ZstdCompressor().compressobj()
    return made.compress(octets) + made.flush()


SKIPPABLE = bytes.fromhex("502a4d18") + (5).to_bytes(4, "little") + b"12345"
HOW = {
    "gzip": gz,
    "gzip members": lambda octets: b"".join(gz(octets[at : at + 999]) for at in range(0, len(octets), 999)),
    "gzip, padded": lambda octets: gz(octets) + bytes(1000),
    "gzip with a name": lambda octets: b"\x1f\x8b\x08\x08" + bytes(6) + b"capture\0" + gz(octets)[10:],
    "zstd": zst,
    "zstd, streamed": zst_streamed,
    "zstd frames": lambda octets: b"".join(zst(octets[at : at + 999]) for at in range(0, len(octets), 999)),
    "zstd, skippable frames": lambda octets: zst(octets[:500]) + SKIPPABLE + zst(octets[500:]) + SKIPPABLE,
    "zstd 19": lambda octets: zst(octets, 19),
}


@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_compressed_a_capture_says_the_same(path: Path, how: str, kind: str) -> None:
    octets = path.read_bytes()
    if kind == "pcapng":
        link_type, packets = pcap_records(path)
        octets = capture_ng(packets, link_type)
    assert summary(analysed(HOW[how](octets))) == summary(analysed(path))


@pytest.mark.parametrize("command", [["gzip", "-c"], ["zstd", "-q", "-c"], ["zstd", "-q", "-c", "--long=27"]])
def test_by_the_commands(command: list[str]) -> None:
    path = PCAPS / "markers-reordered.pcap"
    compressed = subprocess.run([*command, path], check=True, stdout=subprocess.PIPE).stdout
    assert summary(analysed(compressed)) == summary(analysed(path))


@pytest.mark.parametrize("how", [gz, zst])
def test_packets_are_found_again(how: object, tmp_path: Path) -> None:
    path = tmp_path / "compressed"
    path.write_bytes(how((PCAPS / "markers-packed.pcap").read_bytes()))  # type: ignore[operator]
    with Captures(path) as opened:
        segments = [told(seg) for batch in opened.batches(copies=True) for seg in batch]
    index = FrameIndex(path)
    frames = [row["frame"] for row in segments]
    assert [told(seg) for seg in index.segments(reversed(frames))] == segments[::-1]
    assert [told(seg) for seg in index.segments(frames)] == segments
    index.close()


def test_compressed_twice() -> None:
    for first in (gz, zst):
        for second in (gz, zst):
            with pytest.raises(CaptureError, match="compressed twice"):
                read(second(first(capture([ethernet()]))))


@pytest.mark.parametrize("how", [gz, zst])
def test_something_else_compressed(how: object) -> None:
    with pytest.raises(CaptureError, match="not a pcap file"):
        read(how(b"hello, world"))  # type: ignore[operator]
    with pytest.raises(CaptureError, match="empty"):
        read(how(b""))  # type: ignore[operator]


# --- damage ---


def incompressible(count: int) -> bytes:
    rng = random.Random(1)
    return capture([ethernet(rng.getrandbits(8000).to_bytes(1000, "big"), seq=n) for n in range(count)])


def frames_and_damage(octets: bytes) -> tuple[int, list[str]]:
    with Captures(io.BytesIO(octets)) as opened:
        return len([seg for batch in opened.batches(copies=True) for seg in batch]), opened.damage


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_gzip_cut_or_overwritten(part: float) -> None:
    """Every packet before the damage is read."""
    whole = incompressible(300)
    compressed = gz(whole)
    at = int(len(compressed) * part)
    member = zlib.decompressobj(31)
    there = (len(member.decompress(compressed[:at])) - 24) // (16 + 1054)
    frames, (line,) = frames_and_damage(compressed[:at])
    assert abs(frames - there) <= 1
    assert "the gzip data are cut" in line
    frames, (line,) = frames_and_damage(compressed[:at] + b"\xff" * 40 + compressed[at + 40 :])
    assert frames >= there
    assert "damaged after frame" in line  # what is made of wrong octets may not be records


def test_gzip_with_a_wrong_checksum() -> None:
    compressed = bytearray(gz(incompressible(300)))
    compressed[-5] ^= 1
    frames, (line,) = frames_and_damage(bytes(compressed))
    assert frames == 300
    assert "the gzip data are damaged" in line


@pytest.mark.parametrize(("empty", "frames"), [(100_000, 9), (100_001, 3)])
def test_gzip_members_with_nothing_in_them(empty: int, frames: int) -> None:
    octets = capture([ethernet()] * 9)
    half = 24 + (len(octets) - 24) // 3
    found, damage = frames_and_damage(gz(octets[:half]) + gz(b"") * empty + gz(octets[half:]))
    assert found == frames
    assert [line.partition(": ")[2] for line in damage] == (
        ["damaged after frame 3: more than 100000 empty gzip members follow one another"] if frames == 3 else []
    )


@pytest.mark.parametrize("part", [0.5, 0.9, 0.999])
def test_zstd_cut_or_overwritten(part: float) -> None:
    compressed = zst(incompressible(1000))
    at = int(len(compressed) * part)
    frames, (line,) = frames_and_damage(compressed[:at])
    assert 1000 * part - 140 < frames < 1000
    assert "the zstd data are cut" in line
    frames, (line,) = frames_and_damage(compressed + b"garbage")
    assert frames == 1000
    assert "the zstd data are damaged" in line
    frames, (line,) = frames_and_damage(compressed[:-1])
    assert "the zstd data are cut" in line


def test_nothing_but_a_head() -> None:
    for head in (gz(b"x")[:8], zst(b"x" * 100)[:6]):
        with pytest.raises(CaptureError, match="are cut"):
            read(head)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SMALL), st.sampled_from([gz, zst]), changes)
def test_any_damage(path: Path, how: object, damage: list[tuple[str, float, int, int]]) -> None:
    survives(changed(how(path.read_bytes()), damage))  # type: ignore[operator]


def expanding(kind: str, parts: Iterable[bytes]) -> bytes:
    """Octets compressed part by part, of which there may be more than fit in memory."""
    made = zlib.compressobj(9, zlib.DEFLATED, 31) if kind == "gzip" else zstandard.ZstdCompressor().compressobj()
    return b"".join((*map(made.compress, parts), made.flush()))


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_bomb_takes_no_memory(kind: str) -> None:
    """A block of 100 MB that is to be skipped, of next to nothing; the limit is set so that it is no bomb."""
    head = section() + interface() + packet(ethernet())
    octets = expanding(kind, (head, block(0x0BAD, bytes(100_000_000)), packet(ethernet())))
    assert len(octets) < 120_000
    tracemalloc.start()
    try:
        with Captures(io.BytesIO(octets), limits=Limits(decompression=1 << 30)) as opened:
            frames = len([seg for batch in opened.batches(copies=True) for seg in batch])
        assert (frames, opened.damage, opened.notes) == (2, [], [])
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def bomb(kind: str, octets: list[bytes], megabytes: int) -> bytes:
    """Packets, then so many MiB of zeros in blocks that nobody reads: members (frames) of 64 MiB, made in no time."""
    head = section() + interface() + b"".join(map(packet, octets))
    compress = gz if kind == "gzip" else zst
    return compress(head) + expanding(kind, [block(0x0BAD, bytes((64 << 20) - 12))]) * (megabytes // 64)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_ten_gigabytes_of_zeros_end_soon(kind: str) -> None:
    octets = bomb(kind, [ethernet()] * 10, 10_240)
    assert len(octets) < 12_000_000
    with Captures(io.BytesIO(octets)) as opened:
        assert len([seg for batch in opened.batches(copies=True) for seg in batch]) == 10
    (line,) = opened.damage
    assert re.search(rf"damaged after frame 10: \d+ octets of {kind} data expand to \d+.*decomp", line)
    (note,) = opened.notes
    assert (note.rule, note.frame) == ("limit", opened.packets) and "(decompression)" in note.detail


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_zeros_are_no_records(kind: str) -> None:
    """A record of a pcap file that is nothing but zeros is a packet of no octets: there would be 670 million."""
    octets = expanding(kind, [capture([ethernet()] * 10), *[bytes(1 << 20)] * 1024])
    with Captures(io.BytesIO(octets)) as opened:
        assert len([seg for batch in opened.batches(copies=True) for seg in batch]) == opened.packets == 10
    (line,) = opened.damage
    assert line.endswith("nothing but zeros follows frame 10")


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_bomb_behind_a_real_capture_is_found(kind: str) -> None:
    """It is not what the whole file expands to that counts: however much does not, what follows is found."""
    rng = random.Random(3)
    real = [ethernet(rng.randbytes(1000), seq=1000 * number) for number in range(5000)]
    octets = bomb(kind, real, 1024)
    assert len(octets) * 1000 > 1 << 30  # all together not more than a capture of zeros
    with Captures(io.BytesIO(octets), limits=Limits(decompression=1 << 20)) as opened:
        assert len([seg for batch in opened.batches(copies=True) for seg in batch]) == len(real)
    assert "(decompression)" in opened.damage[0] and opened.packets == len(real)


@pytest.mark.parametrize("size", [1448, 8948, 65483])
@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_capture_of_zeros_is_no_bomb(kind: str, size: int) -> None:
    """What a benchmark of RDMA sends, in packets as long as there are: no two headers are alike."""
    rng, seconds, count = random.Random(2), 1_700_000_000, (40 << 20) // size
    head = capture([])

    def parts() -> Iterator[bytes]:
        yield head
        for number in range(count):
            octets = ethernet(bytes(size), seq=number * size)
            yield Struct("<4I").pack(seconds + number // 9, rng.randrange(1_000_000), len(octets), len(octets)) + octets

    compressed = expanding(kind, parts())
    assert len(compressed) * 60 < 40 << 20
    assert frames_and_damage(compressed) == (count, [])


def test_little_is_never_a_bomb() -> None:
    """Up to the limit anything goes, and how much that is can be told."""
    octets = gz(section() + interface() + packet(ethernet()) + block(0x0BAD, bytes(15 << 20)))
    assert frames_and_damage(octets) == (1, [])
    with Captures(io.BytesIO(octets), limits=parse_limits(["decompression=1M"])) as opened:
        assert len([seg for batch in opened.batches(copies=True) for seg in batch]) == 1
    assert "(decompression)" in opened.damage[0] and opened.packets == 1


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_bomb_is_read_again_as_far_as_it_was_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(bomb(kind, [ethernet()] * 10, 1024))
    for limits in (Limits(decompression=100_000), Limits(decompression=5 << 20)):
        with Captures(path, limits=limits) as opened:
            for _ in opened.batches(copies=True):
                pass
        index = FrameIndex(path, limits=limits)
        assert len(index) == opened.packets
        assert len(index.segments([opened.packets, 9, 1])) == 3  # and back
        index.close()


# --- standard input, pipes, files that grow ---


def run(arguments: list[str], given_octets: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "scapy_mpa", *arguments], input=given_octets, capture_output=True, check=False
    )


@pytest.mark.parametrize("how", [bytes, gz, zst], ids=["plain", "gzip", "zstd"])
def test_standard_input(how: object) -> None:
    path = PCAPS / "siw-crc-rping.pcap"
    got = run(["fpdus", "--format", "jsonl", "-"], how(path.read_bytes()))  # type: ignore[operator]
    assert (got.returncode, got.stderr) == (0, b"")
    assert got.stdout == run(["fpdus", "--format", "jsonl", str(path)], b"").stdout
    assert got.stdout.count(b"\n") > 10


def test_empty_standard_input() -> None:
    got = run(["analyze", "-"], b"")
    assert (got.returncode, got.stderr) == (2, b"scapy-mpa: -: the file is empty\n")


def test_a_named_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    octets = (PCAPS / "markers-packed.pcap").read_bytes()
    writer = threading.Thread(target=path.write_bytes, args=(octets,))
    writer.start()
    try:
        assert summary(analysed(path)) == summary(analysed(PCAPS / "markers-packed.pcap"))
    finally:
        writer.join()
    for source in (path, str(path), "-", [path]):
        with pytest.raises(CaptureError, match="a pipe cannot be read again"):
            FrameIndex(source).segments([1])


def test_a_file_that_grows_is_read_to_its_present_end(tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    whole = capture([ethernet()] * 10)
    path.write_bytes(whole[: 24 + 4 * 77])
    with Captures(path) as opened, path.open("ab") as file:
        reader = opened.batches()
        assert len(next(reader)) == 4
        file.write(whole[24 + 4 * 77 : 24 + 7 * 77 + 9])
        file.flush()
        assert [len(batch) for batch in reader] == [3]
        assert opened.damage == [f"{path}: damaged after frame 7: the last record is cut after 9 octets"]
