"""Files of security associations: what is understood, what is refused, which packet is of which."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from scapy_mpa.errors import MPAError
from scapy_mpa.ipsec.associations import Associations, line_of

KEY = "0x" + "11" * 16
LINE = f'"IPv4","10.0.0.1","10.0.0.2","0x00001001","AES-CBC [RFC3602]","{KEY}","HMAC-SHA-256-128 [RFC4868]","0x22"'


def loaded(tmp_path: Path, *lines: str) -> Associations:
    path = tmp_path / "esp_sa"
    path.write_text("# a comment\n\n" + "\n".join(lines) + "\n")
    return Associations.load(path)


def of(first: str, second: str) -> bytes:
    return ip_address(first).packed + ip_address(second).packed


def test_a_line_is_read_as_it_is_written(tmp_path: Path) -> None:
    found = loaded(tmp_path, LINE)
    (one,) = found.all
    assert (one.key, one.integrity_key, one.extended) == (b"\x11" * 16, b"\x22", False)
    assert line_of(one) == LINE
    assert found.lines == (LINE,)


@pytest.mark.parametrize(
    ("fields", "addresses", "spi", "fits"),
    [
        ('"IPv4","10.0.0.1","10.0.0.2","0x1001"', of("10.0.0.1", "10.0.0.2"), 0x1001, True),
        ('"IPv4","10.0.0.1","10.0.0.2","4097"', of("10.0.0.1", "10.0.0.2"), 0x1001, True),
        ('"IPv4","10.0.0.1","10.0.0.2","0x1001"', of("10.0.0.2", "10.0.0.1"), 0x1001, False),
        ('"IPv4","10.0.0.1","10.0.0.2","0x1001"', of("10.0.0.1", "10.0.0.2"), 0x1002, False),
        ('"IPv4","*","*","*"', of("1.2.3.4", "5.6.7.8"), 0xFFFFFFFF, True),
        ('"IPv4","*","*","*"', of("fd00::1", "fd00::2"), 1, False),
        ('"IPv4","10.0.0.0/8","*","0x0000*"', of("10.9.8.7", "1.1.1.1"), 0xFFFF, True),
        ('"IPv4","10.0.0.0/8","*","0x0000*"', of("11.9.8.7", "1.1.1.1"), 0xFFFF, False),
        ('"IPv4","10.0.0.0/8","*","0x0000*"', of("10.9.8.7", "1.1.1.1"), 0x10000, False),
        ('"IPv6","fd00::/16","fd00::2","0x1"', of("fd00::1", "fd00::2"), 1, True),
    ],
)
def test_which_packet_is_of_it(tmp_path: Path, fields: str, addresses: bytes, spi: int, fits: bool) -> None:
    found = loaded(tmp_path, f'{fields},"NULL","","NULL",""')
    assert found.index_of(addresses, spi) == (0 if fits else None)


def test_the_first_that_fits_counts_and_little_is_remembered(tmp_path: Path) -> None:
    found = loaded(tmp_path, '"IPv4","*","*","0x1","NULL","","NULL",""', '"IPv4","*","*","*","NULL","","NULL",""')
    addresses = of("1.2.3.4", "5.6.7.8")
    assert [found.index_of(addresses, spi) for spi in (1, 2)] == [0, 1]
    for spi in range(5000):
        found.index_of(addresses, spi)
    assert len(found._known) <= 4096


def test_extended_sequence_numbers(tmp_path: Path) -> None:
    (one,) = loaded(tmp_path, f'{LINE},"64-bit","0x5"').all
    assert (one.extended, one.high) == (True, 5)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('"IPv4","*"', "line 3: 2 fields"),
        (LINE.replace("IPv4", "IPX"), "neither IPv4 nor IPv6"),
        (LINE.replace("10.0.0.1", "fd00::1"), "not an IPv4 address"),
        (LINE.replace("10.0.0.1", "10.0.0"), "does not appear to be"),
        (LINE.replace("0x00001001", "0x100001001"), "not a 32-bit number"),
        (LINE.replace("AES-CBC", "ROT13"), "is not supported"),
        (LINE.replace("SHA-256-128", "SHA-3"), "is not supported"),
        (LINE.replace(KEY, "0x11"), "this one has 1"),
        (LINE.replace(KEY, "0x1"), "hexadecimal digits"),
        (f'{LINE},"16-bit",""', "neither 32-bit nor 64-bit"),
        ("# nothing", "0 security associations"),
        ('"IPv4', "line 3"),
    ],
)
def test_what_is_refused(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(MPAError) as caught:
        loaded(tmp_path, line)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("octets", [b"\xff\xfe\x00", b"", bytes(5 << 20)], ids=["no text", "empty", "long"])
def test_files_that_are_none(tmp_path: Path, octets: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(octets)
    with pytest.raises(MPAError):
        Associations.load(path)
    with pytest.raises(MPAError):
        Associations.load(tmp_path)
