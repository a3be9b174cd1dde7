"""pcapng as it is written, read by Scapy and by our own reader."""

from __future__ import annotations

import io
from typing import Any, Literal

import pytest
from scapy.utils import RawPcapNgReader

from scapy_mpa.craft.packets import ACK, Endpoint, FrameMaker
from scapy_mpa.craft.pcapngfile import PcapngWriter
from tests.capture.frames import read, told

FRAMES = FrameMaker(
    Endpoint("10.0.0.1", 1, bytes.fromhex("020000000001")), Endpoint("10.0.0.2", 2, bytes.fromhex("020000000002"))
)
TIME = 1_700_000_000_123_456_789
PACKETS = [
    (TIME + index, FRAMES.frame(bytes(range(size)), seq=index, ack=0, flags=ACK, window=1))
    for index, size in enumerate([0, 1, 2, 3, 4, 100])
]


def written(byteorder: Literal["little", "big"] = "little", snaplen: int = 262144) -> bytes:
    file = io.BytesIO()
    assert PcapngWriter(file, byteorder=byteorder, snaplen=snaplen).write(PACKETS) == len(PACKETS)
    return file.getvalue()


@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_scapy_reads_what_was_written(byteorder: Literal["little", "big"]) -> None:
    found: list[tuple[bytes, Any]] = list(RawPcapNgReader(io.BytesIO(written(byteorder))))  # type: ignore[arg-type]
    assert [octets for octets, _ in found] == [octets for _, octets in PACKETS]
    assert [meta.wirelen for _, meta in found] == [len(octets) for _, octets in PACKETS]
    assert [(meta.tshigh << 32) + meta.tslow for _, meta in found] == [time for time, _ in PACKETS]
    assert {(meta.tsresol, meta.linktype) for _, meta in found} == {(10**9, 1)}


@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_the_reader_agrees(byteorder: Literal["little", "big"]) -> None:
    assert [told(seg)["time"] for seg in read(written(byteorder))] == [time for time, _ in PACKETS]


def test_octets_beyond_the_snap_length_are_cut_off() -> None:
    assert [(len(told(seg)["payload"]), seg[10]) for seg in read(written(snaplen=56))] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (2, 3),
        (2, 4),
        (2, 100),
    ]
