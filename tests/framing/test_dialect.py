"""FPDUs of senders that deviate: written, and read again; what nobody changed is what encode_fpdu makes."""

from __future__ import annotations

import random
import zlib
from itertools import combinations
from typing import Any

import pytest

from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import (
    FPDUPlace,
    crc_agrees,
    encode_fpdu,
    fpduptr_at,
    read_fpdu,
    right_fpduptr,
    ulpdu_of,
)
from scapy_mpa.framing.senders import BY_NAME, Bases, Candidate, candidates, spoken
from tests.laying import lay_dialect

BASES = Bases(41, 40)
AGREED = [Dialect(markers, crc) for markers in (False, True) for crc in (False, True)]


def ulpdus(seed: int, count: int, most: int) -> list[bytes]:
    rng = random.Random(seed)
    return [bytes(rng.getrandbits(8) for _ in range(1 + int(rng.random() * most))) for _ in range(count)]


@pytest.mark.parametrize("origin", ["header", "first-octet"])
@pytest.mark.parametrize("agreed", AGREED, ids=str)
def test_without_deviations_it_is_the_specification(agreed: Dialect, origin: Any) -> None:
    writer = HalfStream(agreed._replace(origin=origin))
    for ulpdu in ulpdus(1, 100, 1500):
        at = writer.offset
        octets, (fpdu,) = writer.lay((ulpdu,))
        assert octets == encode_fpdu(ulpdu, at if agreed.markers else None, origin=origin, crc=agreed.crc)
        assert (fpdu.offset, fpdu.end, fpdu.ulpdu_length) == (at, at + len(octets), len(ulpdu))


@pytest.mark.parametrize("agreed", AGREED, ids=str)
def test_what_is_written_is_read(agreed: Dialect) -> None:
    """By every deviation, and by any two: the same places, and CRCs and Markers that agree."""
    said = ulpdus(2, 12, 900)
    for candidate in (*candidates(agreed, BASES, 1), *candidates(agreed, BASES, 2)):
        octets, written = lay_dialect(candidate.dialect, said)
        for ulpdu, place, fpdu in zip(said, written, read(candidate, octets), strict=True):
            body = octets[fpdu.offset : fpdu.end]
            assert where(fpdu) == where(place), candidate.name
            assert ulpdu_of(fpdu, body)[: len(ulpdu)] == ulpdu
            assert not agreed.crc or crc_agrees(candidate.dialect, fpdu, body)
            for marker in fpdu.markers:
                assert fpduptr_at(candidate.dialect, fpdu, body, marker) == right_fpduptr(fpdu, marker, "header") & ~3


def read(candidate: Candidate, octets: bytes) -> list[FPDUPlace]:
    found, at, due = [], 0, candidate.dialect.first_due
    while at < len(octets):
        fpdu = read_fpdu(candidate.dialect, octets[at:], at, due)
        assert fpdu is not None
        found.append(fpdu)
        at, due = fpdu.end, fpdu.due
    return found


def where(fpdu: FPDUPlace) -> tuple[Any, ...]:
    return fpdu.offset, fpdu.header, fpdu.markers, fpdu.crc_at, fpdu.end, fpdu.due


def one(name: str, agreed: Dialect = Dialect(True, True), bases: Bases = BASES) -> Dialect:  # noqa: B008
    candidate = spoken(name.split("+"), agreed, bases)
    assert candidate is not None
    return candidate.dialect


#: Name, ULPDUs, and what one finds by hand: the octets [first, last) of the stream in hexadecimal.
CRC_OFF = Dialect(False, False)
BY_HAND: list[tuple[str, Dialect, list[bytes], int, str]] = [
    ("pad-plus-2", CRC_OFF, [b"abc", b"d"], 0, "0003616263" + "00" * 1 + "00000000" + "000164" + "000000" + "00000000"),
    ("no-pad", CRC_OFF, [b"abc", b"d"], 0, "000361626300000000" + "00016400000000"),
    ("no-crc-field", CRC_OFF, [b"abc", b"d"], 0, "0003616263000000" + "00016400"),
    ("length-with-itself", CRC_OFF, [b"abc"], 0, "0005616263000000" + "00000000"),
    ("length-with-itself+length-with-pad", CRC_OFF, [b"abc"], 0, "0008616263000000" + "00000000"),
    ("crc-zero", Dialect(False, True), [b"ab"], 0, "0002616200000000"),
    ("length-little-endian+crc-zero", Dialect(False, True), [b"ab", bytes(256)], 0, "0200616200000000" + "000100"),
    ("length-with-crc+crc-zero", Dialect(False, True), [b"abc", b"d"], 0, "0007616263000000" + "00000000" + "000564"),
    ("length-with-crc+length-with-itself+crc-zero", Dialect(False, True), [b"ab"], 0, "0008616200000000"),
    # FPDUs of 8 octets: the Marker stands behind the CRC of the 63rd or, CRCs not counted, behind the 127th.
    ("markers-not-in-spacing", Dialect(True, False), [b"ab"] * 80, 508, "0002616200000000" + "00000000" + "00026162"),
    ("markers-from-startup-frame", Dialect(True, False), [b"ab"] * 80, 464, "0002616200000000" + "00000000" + "0002"),
    # Half the octets count: from the first Marker's end to the next there are 508, which are 1016 on the wire.
    ("crc-not-in-spacing", Dialect(True, False), [b"ab"] * 140, 1012, "0002616200000000" + "00000000" + "00026162"),
    ("fpduptr-little-endian", Dialect(True, False), [b"\1" * 600], 508, "01010101" + "0000fc01" + "01010101"),
    ("crc-not-in-spacing+fpduptr-little-endian", Dialect(True, False), [b"\1" * 600], 508, "010101010000fc01"),
    # The SYN is 41 octets before SeqStart, so that Markers stand 41 octets before multiples of 512, in any field.
    ("markers-from-syn", Dialect(True, False), [b"\1" * 600], 470, "01" + "000001d7" + "01"),
]


@pytest.mark.parametrize(("name", "agreed", "said", "first", "octets"), BY_HAND, ids=[case[0] for case in BY_HAND])
def test_by_hand(name: str, agreed: Dialect, said: list[bytes], first: int, octets: str) -> None:
    written, _ = lay_dialect(one(name, agreed), said)
    assert written[first : first + len(octets) // 2].hex() == octets


def test_crcs_over_other_octets() -> None:
    """Of the FPDU of RFC 5044's figure 6, which holds a Marker: over all, without it, in the other byte order."""
    from scapy_mpa.framing.crc import crc32c, crc_field

    ulpdu = bytes.fromhex("41430000000000000002000000000000" + "0014") + bytes(25)
    pad = bytes(-(2 + len(ulpdu)) % 4)
    body = len(ulpdu).to_bytes(2, "big") + ulpdu
    lead = bytes(4)
    for name, covered in (
        ("crc-without-markers", body + pad),
        ("crc-without-pad", lead + body),
        ("crc-without-markers+crc-without-pad", body),
        ("crc-without-length", lead + body[2:] + pad),
        ("crc-without-length+crc-without-markers+crc-without-pad", body[2:]),
    ):
        octets, _ = HalfStream(one(name)).lay((ulpdu,))
        assert octets == lead + body + pad + crc_field(crc32c(covered)), name
    value = crc32c(lead + body + pad)
    assert HalfStream(one("crc-not-complemented")).lay((ulpdu,))[0][-4:] == crc_field(value ^ 0xFFFFFFFF)
    assert HalfStream(one("crc-zlib")).lay((ulpdu,))[0][-4:] == crc_field(zlib.crc32(lead + body + pad))
    register = 0
    for octet in lead + body + pad:
        register ^= octet
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    assert HalfStream(one("crc-from-zero")).lay((ulpdu,))[0][-4:] == crc_field(register ^ 0xFFFFFFFF)
    octets, _ = HalfStream(one("crc-big-endian")).lay((ulpdu,))
    assert octets == lead + body + pad + crc_field(crc32c(lead + body + pad))[::-1]


def test_what_does_not_go_together() -> None:
    markers, plain = Dialect(True, True), Dialect(False, False)
    for agreed, names in (
        (markers, "markers-from-syn+markers-from-startup-frame"),
        (markers, "pad-plus-2+no-pad"),
        (markers, "markers-not-asked"),
        (markers, "no-crc-field"),
        (markers, "markers-left-out+fpduptr-little-endian"),
        (plain, "crc-big-endian"),
        (plain, "fpduptr-little-endian"),
        (plain, "crc-zero"),
    ):
        assert spoken(names.split("+"), agreed, BASES) is None, names
    assert spoken(["markers-from-syn"], markers, Bases(None, 20)) is None
    assert one("fpduptr-little-endian+markers-not-asked", plain).markers


def test_candidates_are_all_that_go_together() -> None:
    agreed = Dialect(True, True)
    found = [*candidates(agreed, BASES, 1), *candidates(agreed, BASES, 2)]
    names = {candidate.name for candidate in found}
    possible = {"+".join(pair) for count in (1, 2) for pair in combinations(BY_NAME, count)}
    assert names < possible
    assert len(found) == len(names) > 70
    assert "length-with-pad" not in names, "nothing of it shows"
    assert len({candidate.dialect for candidate in found}) == len(names)
