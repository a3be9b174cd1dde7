"""The four kinds of classic pcap file, octet for octet."""

from __future__ import annotations

import io
from typing import Literal

import pytest

from scapy_mpa.craft.pcapfile import PcapWriter

PACKETS = [(1_700_000_000_123_456_789, b"abc"), (1_700_000_001_000_000_999, b"defghi")]


@pytest.mark.parametrize(
    ("byteorder", "nanoseconds", "magic", "fractions"),
    [
        ("little", False, "d4c3b2a1", (123456, 0)),
        ("big", False, "a1b2c3d4", (123456, 0)),
        ("little", True, "4d3cb2a1", (123456789, 999)),
        ("big", True, "a1b23c4d", (123456789, 999)),
    ],
)
def test_written_files(
    byteorder: Literal["little", "big"], nanoseconds: bool, magic: str, fractions: tuple[int, int]
) -> None:
    file = io.BytesIO()
    assert PcapWriter(file, byteorder=byteorder, nanoseconds=nanoseconds, linktype=113, snaplen=4).write(PACKETS) == 2

    def words(width: int, *values: int) -> bytes:
        return b"".join(value.to_bytes(width, byteorder) for value in values)

    assert file.getvalue() == (
        bytes.fromhex(magic)
        + words(2, 2, 4)
        + words(4, 0, 0, 4, 113)
        + words(4, 1_700_000_000, fractions[0], 3, 3)
        + b"abc"
        + words(4, 1_700_000_001, fractions[1], 4, 6)
        + b"defg"
    )
