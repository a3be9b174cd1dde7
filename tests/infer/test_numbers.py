"""Each number of the evidence decides what is told here: right at it, and right beyond it.

Octets are FPDUs that `tests/receiver/wire.py` lays, among octets that are none.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from scapy_mpa.infer.inference import Budget, Inferred, Run, _grids, infer, is_enough
from tests.receiver.wire import crc32c, encode_fpdu, rdma_write, read_request, send

#: A ULPDU_Length and control octets that may be those of a Send; the header behind them is none.
PLAUSIBLE = b"\x40\x00\x40\x43"
#: A Send as the control octets say, on a queue that there is not (RFC 5040 §4.1).
NO_DDP = b"\x41\x43" + bytes((0, 0, 0, 0, 0, 0, 0, 7)) + bytes(range(40))
WRITE = rdma_write(1, 2, b"w" * 40)
READ = read_request(7, (1, 2), 3, (4, 5))


def laid(*ulpdus: bytes, markers: bool = False, crc: bool = True, at: int = 0) -> bytes:
    """FPDUs of these ULPDUs from an offset on."""
    octets = b""
    for ulpdu in ulpdus:
        octets += encode_fpdu(ulpdu, at + len(octets), "", markers=markers, crc=crc)[0]
    return octets


def writes(count: int, buffers: int = 1, size: int = 40) -> list[bytes]:
    """RDMA Writes to buffers in turn, each of which goes on where the last one to its buffer ended."""
    return [rdma_write(0x1000 + n % buffers, 0x100 + size * (n // buffers), b"w" * size) for n in range(count)]


def found(octets: bytes, *, at: int = 0, **known: Any) -> Inferred | None:
    """Return what one run of octets shows."""
    return infer([Run(at, octets)], Budget(), **known)


def bits(octets: bytes, *, at: int = 0, **known: Any) -> int:
    """Return the bits of evidence in one run of octets."""
    one = found(octets, at=at, **known)
    return one.bits if one is not None else 0


def with_markers(*ulpdus: bytes, crc: bool = True) -> Inferred | None:
    """Return what FPDUs with Markers show, the first of which begins at offset 8; every 512 octets then have one
    Marker.
    """
    return found(laid(*ulpdus, markers=True, crc=crc, at=8), at=8, markers=True, crc=crc)


# --- what an FPDU is worth ---


@pytest.mark.parametrize(("length", "worth"), [(0x1E0, 7), (0xFF, 8), (0x20, 8)])
def test_a_length(length: int, worth: int) -> None:
    """A ULPDU_Length of n bits is worth 16 - n, and 8 at most; beside CRC, header and Marker."""
    octets = laid(rdma_write(1, 2, bytes(length - 14)), markers=True, at=508)
    assert bits(octets, at=508, markers=True, crc=True) == 32 + 12 + 12 + worth


@pytest.mark.parametrize(("ulpdu", "worth"), [(READ, 17), (WRITE, 12)], ids=("read", "write"))
def test_a_header_beside_a_crc(ulpdu: bytes, worth: int) -> None:
    """It is worth 17 bits at most."""
    octets = laid(ulpdu, markers=True, at=508)
    assert bits(octets, at=508, markers=True, crc=True) == 32 + worth + 12 + 8


def test_a_marker_before_a_header() -> None:
    """It points nowhere; that its octets are zero is worth four bits, beside CRC, header and length."""
    assert bits(laid(WRITE, markers=True, at=512), at=512, markers=True, crc=True) == 32 + 12 + 8 + 4


@pytest.mark.parametrize("count", [2, 3, 6, 7, 14, 15])
def test_markers_whose_reserved_is_not_zero(count: int) -> None:
    """One of eight Markers may deviate, and one of four to seven; a place before the first octets is counted."""
    most = max((count + 1) // 8, count + 1 >= 4)
    for deviating, is_found in ((most, True), (most + 1, False)):
        octets = b""
        for number in range(count):
            fpdu = bytearray(laid(rdma_write(1, 2, bytes(488)), markers=True, at=8 + len(octets)))
            if number < deviating:
                fpdu[504:506], fpdu[507] = b"\7\7", fpdu[507] | 3
                fpdu[-4:] = struct.pack("<I", crc32c(fpdu[:-4]))
            octets += fpdu
        one = found(octets, at=8, markers=True, crc=True)
        assert (one is not None and one.confirmations == count) is is_found


def test_what_a_marker_costs() -> None:
    """That RESERVED is zero chose the grid, and is paid for: five of the twelve bits of a Marker that points."""
    octets = laid(WRITE, markers=True, at=508)
    one, in_vain = found(octets, at=508, markers=True, crc=True), len(_grids([Run(508, octets)]))
    assert one is not None
    # Each of them has one Marker, which may name either of two places.
    assert one.cost == (2 * in_vain - 1).bit_length() + 5


@pytest.mark.parametrize(
    ("ulpdu", "worth"),
    [
        # T, L, DV, RV and an opcode.
        (rdma_write(0x77, 5, b"w" * 9), 12),
        # The queue, what is reserved and the offset are zero.
        (send(7, b"s" * 9), 9 + 4 * 4),
        # Its queue is 1.
        (READ, 9 + 24 + 2 * 4),
    ],
    ids=("write", "send", "read"),
)
def test_a_header(ulpdu: bytes, worth: int) -> None:
    """Three FPDUs whose CRC field is zero; each but the first has the buffer or the message of the one before."""
    assert bits(laid(*[ulpdu] * 3, crc=False), markers=False, crc=False) == 3 * (worth + 4) + 2 * 16


@pytest.mark.parametrize(("buffers", "worth"), [(8, 16 * (12 + 4) + 8 * (16 + 24)), (9, 16 * (12 + 4))])
def test_headers_that_go_on(buffers: int, worth: int) -> None:
    """Eight Writes that alternate are known to go on; of nine none is compared with the one that it goes on from."""
    assert bits(laid(*writes(16, buffers), crc=False), markers=False, crc=False) == worth


# --- how much is enough ---


def test_bits_of_a_connection() -> None:
    """A half connection is worth 40 bits beyond the places looked at, 24 where nobody counts them; two together 64."""
    half = Inferred(True, True, 0, "header", 1, 32, 0, 100)
    for worth, is_believed in ((64, True), (63, False)):
        assert is_enough([half._replace(bits=worth)]) is is_believed
        assert is_enough([half, half._replace(bits=worth - 32)]) is is_believed
    for cost, is_believed in ((23, True), (24, False)):
        assert is_enough([half._replace(bits=63, cost=cost)]) is is_believed


@pytest.mark.parametrize(("ulpdu", "crc"), [(WRITE, True), (NO_DDP, False)], ids=("44", "32"))
def test_bits_of_a_half_connection(ulpdu: bytes, crc: bool) -> None:
    """A good CRC and a header show that CRC is in use, 44 bits, against any number of headers; a CRC alone does not."""
    octets = laid(ulpdu) + b"\xff" * 40 + laid(*writes(20), crc=False)
    one = found(octets, markers=False)
    assert one is not None
    assert one.crc is crc


@pytest.mark.parametrize(("fpdus", "is_found"), [(2, False), (3, True)])
def test_headers_without_crc_and_markers(fpdus: int, is_found: bool) -> None:
    assert (found(laid(*writes(fpdus), crc=False), markers=False, crc=False) is not None) is is_found


@pytest.mark.parametrize(("fpdus", "is_found"), [(31, False), (32, True)])
def test_headers_that_lead_nowhere(fpdus: int, is_found: bool) -> None:
    """Two FPDUs that none follows put 31 in question, not 32."""
    broken = laid(*writes(2), crc=False) + b"\xff" * 40
    assert (found(broken + laid(*writes(fpdus), crc=False), markers=False, crc=False) is not None) is is_found


@pytest.mark.parametrize(("markers", "crc"), [(True, True), (False, True), (False, False)])
def test_fpdus_that_are_enough(markers: bool, crc: bool) -> None:
    one = found(laid(*writes(100), markers=markers, crc=crc), markers=markers, crc=crc)
    assert one is not None
    assert one.confirmations == 64


@pytest.mark.parametrize(("pointing", "is_found"), [(2, False), (3, True)])
def test_markers_that_point_back(pointing: int, is_found: bool) -> None:
    """Without CRC three Markers are needed that name the start of an FPDU before them."""
    assert (with_markers(*writes(pointing, size=488), crc=False) is not None) is is_found


# --- Markers and FPDUs that are damaged ---


@pytest.mark.parametrize(("damaged", "is_found"), [(2, True), (3, False)])
def test_markers_whose_reserved_is_anything(damaged: int, is_found: bool) -> None:
    """Of sixteen Markers two may have RESERVED other than zero."""
    octets = bytearray(laid(*writes(16, size=488), markers=True, at=8))
    for number in range(damaged):
        octets[504 + 1024 * number] = 0xFF
    one = found(bytes(octets), at=8, markers=True, crc=True)
    assert (one is not None and one.confirmations > 0) is is_found


@pytest.mark.parametrize(("astray", "is_found"), [(4, True), (5, False)])
def test_markers_that_lead_nowhere(astray: int, is_found: bool) -> None:
    """Without CRC one FPDU that is none is allowed to four that are."""
    ulpdus = writes(16 + astray, size=488)
    for number in range(astray):
        ulpdus[4 * number + 1] = b"\xff" * len(ulpdus[0])
    one = with_markers(*ulpdus, crc=False)
    assert (one is not None and one.confirmations > 0) is is_found


@pytest.mark.parametrize(("damaged", "is_found"), [(64, True), (65, False)])
def test_fpdus_in_vain(damaged: int, is_found: bool) -> None:
    """Once 65 FPDUs of the runs before were damaged, and none was good, no more runs are looked at."""
    fpdus = [bytearray(laid(ulpdu, markers=True, at=8)) for ulpdu in writes(damaged + 4, size=488)]
    for fpdu in fpdus[:damaged]:
        fpdu[-1] ^= 1
    after = 8 + 512 * (damaged + 1)
    runs = [Run(8, b"".join(fpdus[:damaged])), Run(after, b"".join(fpdus[damaged:]))]
    one = infer(runs, Budget(), True, True)
    assert (one is not None and one.confirmations > 0) is is_found


# --- how much is looked at ---


@pytest.mark.parametrize(("others", "is_found"), [(4095, True), (4096, False)])
def test_candidates(others: int, is_found: bool) -> None:
    octets = PLAUSIBLE * others + b"\xff" * 4 + laid(*writes(4), crc=False)
    assert (found(octets, markers=False, crc=False) is not None) is is_found


@pytest.mark.parametrize(("others", "is_found"), [(255, True), (256, False)])
def test_runs(others: int, is_found: bool) -> None:
    """The longest 256 runs are looked at."""
    octets = laid(*writes(2))
    runs = [Run(1000 * number, b"\xff" * (len(octets) + 1)) for number in range(others)]
    assert (infer([*runs, Run(1000 * others, octets)], Budget(), False, True) is not None) is is_found


@pytest.mark.parametrize(("before", "is_found"), [(8191, True), (8192, False)])
def test_places(before: int, is_found: bool) -> None:
    """FPDUs whose ULPDU is not DDP are looked for at 8,192 places."""
    assert (found(b"\xff" * before + laid(b"\xff" * 40), markers=False) is not None) is is_found


def test_places_of_a_capture() -> None:
    """FPDUs whose ULPDU is not DDP are looked for at 65,536 places in all: those of eight connections."""
    budget, octets = Budget(), b"\xff" * 8191 + laid(b"\xff" * 40)
    assert [infer([Run(0, octets)], budget, False) is not None for _ in range(9)] == [True] * 8 + [False]
