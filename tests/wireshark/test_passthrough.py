"""Blocks that are passed through, octet for octet, and the comments that are put into some of them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from scapy_mpa.capture.passthrough import Block, blocks, with_comment, without_comments
from tests.capture.blocks import ENHANCED, OBSOLETE, SIMPLE, block, interface, option, others, packet, section
from tests.capture.convert import COMPRESSED, FORMATS, recorded
from tests.conftest import PCAPS

FRAME = bytes(range(61))


def everything(order: str) -> bytes:
    """A section with every kind of block, packets with all sorts of options, none too."""
    options = option(2, b"\0\0\0\1", order) + option(1, b"said before", order) + option(0, b"", order)
    unended = option(0x0BAD, b"custom!", order)
    packets = [
        packet(FRAME, 5, order, options=each, kind=kind)
        for kind in (ENHANCED, OBSOLETE, SIMPLE)
        for each in (b"", options, unended)
        if kind != SIMPLE or not each
    ]
    head = section(order, option(4, b"hands", order) + option(0, b"", order))
    return b"".join(
        [head, interface(1, order), interface(101, order, tsresol=9), others(order), *packets, others(order)]
    )


def written(octets: bytes, folder: Path) -> Path:
    path = folder / "capture"
    path.write_bytes(octets)
    return path


@pytest.mark.parametrize("octets", [everything("<"), everything(">"), everything("<") + everything(">")])
def test_what_comes_out_is_what_went_in(octets: bytes, tmp_path: Path) -> None:
    found = list(blocks(written(octets, tmp_path)))
    assert b"".join(one.octets for one in found) == octets
    assert sum(one.is_packet for one in found) == 7 * octets.count(b"hands")


@pytest.mark.parametrize("order", "<>")
def test_a_block_that_is_longer_than_what_is_read_at_a_time(order: str, tmp_path: Path) -> None:
    long = block(0x77777777, bytes(range(256)) * 8192, order)
    octets = section(order) + interface(1, order) + long + packet(FRAME, 1, order)
    found = list(blocks(written(octets, tmp_path)))
    assert b"".join(one.octets for one in found) == octets
    assert max(len(one.octets) for one in found) < len(long) and found[-1].is_packet


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", [ENHANCED, OBSOLETE])
def test_a_comment_is_one_option_more(order: str, kind: int) -> None:
    end = option(0, b"", order)
    for options in (b"", option(1, b"said before", order) + end, option(1, b"unended", order)):
        plain = packet(FRAME, 7, order, kind=kind, options=options)
        more = option(1, "mpa: ä".encode(), order) + (options or end)
        assert with_comment(Block(plain, order, True), "mpa: ä") == packet(FRAME, 7, order, kind=kind, options=more)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", [ENHANCED, OBSOLETE])
def test_comments_of_ours_are_taken_out(order: str, kind: int) -> None:
    end, said, flags = option(0, b"", order), option(1, b"said before", order), option(2, b"\0\0\0\1", order)
    ours, past = option(1, b"ours", order), struct.pack(f"{order}HH", 1, 4000) + b"ours"

    def without(options: bytes) -> bytes:
        octets = packet(FRAME, 7, order, kind=kind, options=options)
        return without_comments(Block(octets, order, True), lambda text: text == "ours").octets

    for options, left in (
        (ours + end, end),
        (said + ours + flags + ours + end, said + flags + end),
        (end + ours, end + ours),  # what is behind the end is no option
        (ours + past, past),
        (said + flags, said + flags),
        (b"", b""),
    ):
        assert without(options) == packet(FRAME, 7, order, kind=kind, options=left)


def test_a_comment_that_is_too_long_is_cut_between_characters() -> None:
    commented = with_comment(Block(packet(FRAME), "<", True), "ä" * 40000)
    assert commented is not None
    at = 28 + 64
    code, length = struct.unpack_from("<HH", commented, at)
    assert code == 1 and length < 65536
    assert set(commented[at + 4 : at + 4 + length].decode()) == {"ä"}


def test_a_simple_packet_has_no_room() -> None:
    assert with_comment(Block(packet(FRAME, kind=SIMPLE), "<", True), "mpa") is None


@pytest.mark.parametrize("end", range(1, 44, 3))
def test_a_block_that_is_cut_is_left_out(end: int, tmp_path: Path) -> None:
    octets = section() + interface() + packet(FRAME)
    found = list(blocks(written((octets + packet(FRAME))[: len(octets) + end], tmp_path)))
    assert b"".join(one.octets for one in found) == octets


@pytest.mark.parametrize(
    "damage",
    [struct.pack("<II", 6, 4) + bytes(40), struct.pack("<II", 6, 0xFFFFFFFF) + bytes(40), section()[:8] + bytes(40)],
    ids=["shorter than it can be", "longer than it can be", "without byte-order magic"],
)
def test_damage_ends_it(damage: bytes, tmp_path: Path) -> None:
    octets = section() + interface() + packet(FRAME)
    assert b"".join(one.octets for one in blocks(written(octets + damage, tmp_path))) == octets


@pytest.mark.parametrize("kind", [ENHANCED, 0x0BAD])
def test_a_block_with_two_lengths_ends_it(kind: int, tmp_path: Path) -> None:
    head = section() + interface() + packet(FRAME, 1)
    bad = packet(FRAME, 2) if kind == ENHANCED else block(kind, bytes(8))
    octets = head + bad[:-4] + struct.pack("<I", 12) + packet(FRAME, 3)
    assert b"".join(one.octets for one in blocks(written(octets, tmp_path))) == head


@pytest.mark.parametrize("form", [name for name in FORMATS if "pcapng" in name])
@pytest.mark.parametrize("compression", [None, *COMPRESSED])
def test_compressed_files_are_the_same(form: str, compression: str | None, tmp_path: Path) -> None:
    octets = FORMATS[form](recorded(PCAPS / "siw-rping.pcap"))
    packed = octets if compression is None else COMPRESSED[compression](octets)
    assert b"".join(one.octets for one in blocks(written(packed, tmp_path))) == octets
