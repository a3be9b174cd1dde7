"""What a ULPDU says about itself."""

from __future__ import annotations

import pytest

from scapy_mpa.framing import (
    OPCODE_NAMES,
    TaggedHeader,
    Terminate,
    UntaggedHeader,
    decode_ddp,
    decode_terminate,
    opcode_name,
)
from scapy_mpa.framing.ddp import quoted_header


@pytest.mark.parametrize(
    ("opcode", "name"),
    [
        (0, "RDMA Write"),
        (1, "RDMA Read Request"),
        (2, "RDMA Read Response"),
        (3, "Send"),
        (4, "Send with Invalidate"),
        (5, "Send with SE"),
        (6, "Send with SE and Invalidate"),
        (7, "Terminate"),
        (8, "Immediate Data"),
        (9, "Immediate Data with SE"),
        (10, "Atomic Request"),
        (11, "Atomic Response"),
        (12, None),
        (15, None),
    ],
)
def test_opcode_name(opcode: int, name: str | None) -> None:
    assert opcode_name(bytes((0x41, 0x40 | opcode))) == OPCODE_NAMES[opcode] == name


@pytest.mark.parametrize("ulpdu", [b"", b"\x41"])
def test_no_opcode_in_less_than_two_octets(ulpdu: bytes) -> None:
    assert opcode_name(ulpdu) is None
    assert decode_ddp(ulpdu) is None
    assert len(OPCODE_NAMES) == 16


def test_tagged() -> None:
    ulpdu = bytes.fromhex("c142 f1bed700 00007f0ef8000e00") + b"data"
    assert decode_ddp(ulpdu) == TaggedHeader(True, 1, 1, 2, 0xF1BED700, 0x00007F0EF8000E00, 4)
    assert decode_ddp(bytes.fromhex("8000") + bytes(12)) == TaggedHeader(False, 0, 0, 0, 0, 0, 0)
    assert decode_ddp(ulpdu[:13]) is None


def test_untagged() -> None:
    ulpdu = bytes.fromhex("0146 00000102 00000003 00000004 00000005") + b"data"
    assert decode_ddp(memoryview(ulpdu)) == UntaggedHeader(False, 1, 1, 6, 0x102, 3, 4, 5, 4)
    assert decode_ddp(ulpdu[:17]) is None


HEADER = "4147 00000000 00000002 00000001 00000000"

#: A DDP Segment Length and a tagged header, as siw quotes them with M and D.
QUOTED = "0010" + "c140" + "00" * 12

TERMINATES = [
    # RFC 5040's layout
    ("20020000", (2, 0, 2, 0, 0, 0, "rfc5040", "LLP MPA error: CRC does not match")),
    ("20060000", (2, 0, 6, 0, 0, 0, "rfc5040", "LLP MPA error: insufficient IRD resources")),
    ("20070000", (2, 0, 7, 0, 0, 0, "rfc5040", "LLP MPA error: no matching RTR option")),
    ("0100e000", (0, 1, 0, 1, 1, 1, "rfc5040", "RDMAP remote protection error: invalid STag")),
    ("0206c000", (0, 2, 6, 1, 1, 0, "rfc5040", "RDMAP remote operation error: unexpected opcode")),
    ("01ff0000", (0, 1, 0xFF, 0, 0, 0, "rfc5040", "RDMAP remote protection error: unspecified")),
    (
        "1202c000",
        (1, 2, 2, 1, 1, 0, "rfc5040", "DDP untagged buffer error: invalid MSN, no buffer available"),
    ),
    ("1101c000", (1, 1, 1, 1, 1, 0, "rfc5040", "DDP tagged buffer error: base or bounds violation")),
    ("00000000", (0, 0, 0, 0, 0, 0, "rfc5040", "RDMAP local catastrophic error")),
    ("10000000", (1, 0, 0, 0, 0, 0, "rfc5040", "DDP local catastrophic error")),
    # siw's layout, told by what is a defined error
    ("02020000", (2, 0, 2, 0, 0, 0, "siw", "LLP MPA error: CRC does not match")),
    ("02040000", (2, 0, 4, 0, 0, 0, "siw", "LLP MPA error: invalid startup frame")),
    ("21020300" + QUOTED, (1, 2, 2, 1, 1, 0, "siw", "DDP untagged buffer error: invalid MSN, no buffer available")),
    ("20080300" + QUOTED, (0, 2, 8, 1, 1, 0, "siw", "RDMAP remote operation error: catastrophic error, global")),
    # defined in both: M, D, R tell
    ("11010300" + QUOTED, (1, 1, 1, 1, 1, 0, "siw", "DDP tagged buffer error: base or bounds violation")),
    ("10000700" + QUOTED, (0, 1, 0, 1, 1, 1, "siw", "RDMAP remote protection error: invalid STag")),
    ("11018700", (1, 1, 1, 1, 0, 0, "rfc5040", "DDP tagged buffer error: base or bounds violation")),
    ("1000c000", (1, 0, 0, 1, 1, 0, "rfc5040", "DDP local catastrophic error")),
    ("02060300" + QUOTED, (2, 0, 6, 1, 1, 0, "siw", "LLP MPA error: insufficient IRD resources")),
    ("02060000", (0, 2, 6, 0, 0, 0, "rfc5040", "RDMAP remote operation error: unexpected opcode")),
    # defined in neither
    ("53090000", (5, 3, 9, 0, 0, 0, "rfc5040", "layer 5 error type 3, code 9")),
    ("53090300" + QUOTED, (3, 5, 9, 1, 1, 0, "siw", "layer 3 error type 5, code 9")),
    # siw quotes a header in such errors; without one they are RFC 5040's, undefined or with reserved bits
    ("20080000", (2, 0, 8, 0, 0, 0, "rfc5040", "LLP MPA error: code 8")),
    ("00000400", (0, 0, 0, 0, 0, 0, "rfc5040", "RDMAP local catastrophic error")),
    ("11010700", (1, 1, 1, 0, 0, 0, "rfc5040", "DDP tagged buffer error: base or bounds violation")),
    ("21060000", (1, 2, 6, 0, 0, 0, "siw", "DDP untagged buffer error: invalid DDP version")),
    ("20630000", (2, 0, 0x63, 0, 0, 0, "rfc5040", "LLP MPA error: code 99")),
]


@pytest.mark.parametrize(("control", "expected"), TERMINATES)
def test_terminate(control: str, expected: tuple[object, ...]) -> None:
    terminate = decode_terminate(bytes.fromhex(HEADER + control))
    assert isinstance(terminate, Terminate)
    assert tuple(terminate) == expected


# ULPDUs of Terminates that a Linux 6.1 siw sent: after a Send without a buffer, and after bad writes.
CAPTURED = [
    (
        "4147000000000000000200000001000000002102030000590143000000000000000000000001000000000000",
        (1, 2, 2, "siw"),
    ),
    ("4147000000000000000200000001000000001101030003e9c142f1bed70000007f0ef8000e00", (1, 1, 1, "siw")),
    ("4147000000000000000200000001000000001101030003eac1423ee5d70000007f0ef8000e00", (1, 1, 1, "siw")),
]


@pytest.mark.parametrize(("ulpdu", "expected"), CAPTURED)
def test_captured(ulpdu: str, expected: tuple[object, ...]) -> None:
    terminate = decode_terminate(memoryview(bytes.fromhex(ulpdu)))
    assert terminate is not None
    assert (terminate.layer, terminate.etype, terminate.code, terminate.layout) == expected
    assert (terminate.m, terminate.d, terminate.r) == (1, 1, 0)


def test_a_terminate_that_the_capture_cut() -> None:
    """Its length says whether a header may follow, as siw's layout has it; a header of which octets lack is none."""
    octets = bytes.fromhex(CAPTURED[0][0])
    whole, cut = decode_terminate(octets), octets[:28]
    assert decode_terminate(cut, len(octets)) == whole != decode_terminate(cut)
    assert quoted_header(octets) is not None and quoted_header(cut, len(octets)) is None
    assert decode_terminate(octets[:21], len(octets)) is None


@pytest.mark.parametrize(
    "ulpdu",
    [
        "",
        HEADER,
        HEADER + "200200",  # one octet short
        HEADER.replace("4147", "4143") + "20020000",  # a Send
        HEADER.replace("4147", "c147") + "20020000",  # tagged
    ],
)
def test_no_terminate(ulpdu: str) -> None:
    assert decode_terminate(bytes.fromhex(ulpdu)) is None
