"""Rules of single FPDUs over values: CRC, PAD, Markers, lengths, Terminates, the first ones."""

from __future__ import annotations

import struct

import pytest

from scapy_mpa.craft.ulpdus import rdma_write, rdma_write_message, send, untagged
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.mulpdu import mulpdu
from scapy_mpa.receiver.values import Contradiction
from scapy_mpa.receiver.window import Layout
from scapy_mpa.values.records import CUT, UNCHECKED
from scapy_mpa.watches.fpdus import FPDUWatch
from tests.watches.values import altered, fpdus, located, rules, watched


@pytest.mark.parametrize("markers", [False, True])
@pytest.mark.parametrize("size", range(19, 23))
def test_pad(size: int, markers: bool) -> None:
    offset = 0
    # A few FPDUs lead to each place of a Marker, between PAD and CRC too.
    for msn in range(2, 200):
        ulpdu = send(msn, b"\xff" * (size - 18))
        for at in range(-(size + 2) % 4):
            pad = bytearray(-(size + 2) % 4)
            pad[at] = 0x40
            octets = encode_fpdu(ulpdu, offset if markers else None, pad=bytes(pad))
            watch = FPDUWatch(Layout(markers, True), False)
            (breach,) = watch.passed(located(octets, offset, ulpdu, 1, markers))
            assert (breach.rule, breach.detail) == ("pad", f"PAD of a ULPDU of {size} octets: {pad.hex(' ')}")
        octets = encode_fpdu(ulpdu, offset if markers else None)
        assert FPDUWatch(Layout(markers, True), False).passed(located(octets, offset, ulpdu, 1, markers)) == ()
        offset += len(octets)


@pytest.mark.parametrize(
    ("reserved", "fpduptr", "broken"),
    [
        (0, 508, set()),
        (1, 508, {"marker-reserved"}),
        (0, 510, {"fpduptr-low-bits"}),
        (0, 512, {"fpduptr-origin"}),
        (0, 600, {"marker-length", "marker-agree"}),
    ],
)
def test_markers(reserved: int, fpduptr: int, broken: set[str]) -> None:
    (first,) = fpdus((send(1, bytes(600)),), markers=True)
    watch = FPDUWatch(Layout(True, True), True)
    assert rules(watch.passed(altered(first, 512, struct.pack("!HH", reserved, fpduptr)))) == broken
    assert watch.first_error == ((1, 0) if "marker-length" in broken else None)


def test_markers_that_disagree_among_themselves() -> None:
    (first,) = fpdus((send(1, bytes(1200)),), markers=True)
    assert rules(watched([altered(first, 512, struct.pack("!HH", 0, 512))], markers=True)) == {
        "fpduptr-origin", "marker-agree",
    }  # fmt: skip


def test_the_drafts_origin_is_right_under_the_drafts() -> None:
    (first,) = fpdus((send(1, bytes(600)),), markers=True)
    drafts = altered(first, 512, struct.pack("!HH", 0, 512))
    assert FPDUWatch(Layout(True, True), True, origin="first-octet").passed(drafts) == ()
    assert rules(FPDUWatch(Layout(True, True), True, origin="first-octet").passed(first)) == {"fpduptr-origin"}


def test_a_marker_that_contradicts_a_length_without_crc() -> None:
    (first,) = fpdus((send(1, bytes(600)),), markers=True)
    watch = FPDUWatch(Layout(True, False), True)
    found = altered(first, 512, struct.pack("!HH", 0, 400)).replace(crc=UNCHECKED)
    assert rules(watch.passed(found)) == {"marker-agree"}
    breach = watch.contradicted(Contradiction(0, 512, 400, (3, 4)))
    detail = "Marker 512 octets into the FPDU: FPDUPTR 400, expected 508"
    assert breach[:5] == ("marker-length", 0, 3, 4, detail)
    assert watch.first_error == (3, 0)


def test_a_bad_crc() -> None:
    first, second, third = fpdus((send(1, b""), send(2, bytes(9)), send(4, b"")))
    watch = FPDUWatch(Layout(False, True), True)
    breaches = watched((first, altered(second, 9, b"\xff", is_bad=True), third), watch)
    assert [(one.rule, one.frame) for one in breaches] == [("crc", 2)]
    assert breaches[0].detail == "FPDU with a ULPDU of 27 octets: CRC mismatch"
    assert watch.first_error == (2, second.offset)


def test_ulpdu_length_by_itself() -> None:
    assert rules(watched(fpdus((send(1, b""), b"", send(2, b""))))) == {"ulpdu-length-zero"}
    largest = 64768 - 14
    assert watched(fpdus((rdma_write(1, 0, bytes(largest)),))) == []
    assert rules(watched(fpdus((rdma_write(1, 0, bytes(largest + 1)),)))) == {"ulpdu-length-limit"}


@pytest.mark.parametrize("markers", [False, True])
def test_lengths_against_emss(markers: bool) -> None:
    emss = 1000
    fits = mulpdu(emss, markers)
    for ulpdu_length, rule in (
        (fits, None),
        (fits + 4 if markers else fits + 600, "mulpdu"),
        (1600, "fpdu-above-emss"),
    ):
        watch = FPDUWatch(Layout(markers, True), True, emss)
        # Where only one Marker falls into it, the FPDU is no longer than a segment.
        found = fpdus((send(1, bytes(ulpdu_length - 18)),), markers, offset=8)
        is_longer = found[0].end - found[0].offset > emss
        broken = rules(watched(found, watch)) | rules(watch.sizes.finish(watch.ddp, emss))
        assert broken == (set() if rule is None else {"fpdu-above-emss" if is_longer else rule})


@pytest.mark.parametrize(("longest_segment", "is_known"), [(536, True), (535, False), (600, False)])
def test_lengths_against_the_longest_segment(longest_segment: int, is_known: bool) -> None:
    """Where no SYN was captured; no host announces less than 536 octets."""
    watch = FPDUWatch(Layout(False, True), True)
    assert watched(fpdus((send(1, bytes(600 - 24)),)), watch) == []
    assert rules(watch.sizes.finish(watch.ddp, longest_segment)) == ({"fpdu-above-emss"} if is_known else set())


@pytest.mark.parametrize("longest", [900, 300])
def test_parts_of_messages_that_do_not_fill_a_segment(longest: int) -> None:
    watch = FPDUWatch(Layout(False, True), True, 1000)
    assert watched(fpdus(rdma_write_message(1, 0, bytes(4000), longest)), watch) == []
    assert rules(watch.sizes.finish(watch.ddp, 1000)) == ({"mulpdu-filled"} if longest == 300 else set())


@pytest.mark.parametrize("control", [b"\x01\x00", b"\x11\x01", b"\x11\x04", b"\x12\x02"])
def test_a_terminate_that_names_a_buffer_accuses_nobody_of_an_attack(control: bytes) -> None:
    watch = FPDUWatch(Layout(False, True), True)
    ulpdu = untagged(7, 2, 1, control + bytes(2))
    breaches = watched(fpdus((ulpdu,)), watch)
    assert [one.rule for one in breaches] == ["terminate"]
    assert watch.terminate is not None and watch.terminate[:2] == (ulpdu, 0)


#: An error of DDP, laid out as siw does, that quotes the header of a Send; RDMAP's, which quotes a Read Request's.
SIW = b"\x21\x02\x03\x00\x00\x59" + send(1, b"")
READ_REQUEST = b"\x00\x01\xe0\x00\x00\x2e" + untagged(1, 1, 1, bytes(28))
#: The opcode that is quoted, that of an Atomic Request, decides whether R may be set (RFC 7306 §8.1).
ATOMIC = b"\x12\x02\xe0\x00\x00\x2e" + untagged(10, 1, 1, bytes(28))


@pytest.mark.parametrize("markers", [False, True])
@pytest.mark.parametrize("body", [SIW, READ_REQUEST, ATOMIC])
def test_a_terminate_that_the_capture_cut(body: bytes, markers: bool) -> None:
    """Its control word says the same; nothing is said of octets that are not there."""
    (fpdu,) = fpdus((untagged(7, 2, 1, body),), markers)
    whole = watched((fpdu,), markers=markers)
    assert "terminate" in rules(whole)
    first = fpdu.header - fpdu.offset + 2
    for size in range(first, len(fpdu.octets)):
        watch = FPDUWatch(Layout(markers, True), True)
        found = watched((fpdu.replace(octets=fpdu.octets[:size], crc=CUT),), watch)
        is_read = size >= first + 18 + 4
        assert {breach[:5] for breach in found} <= {breach[:5] for breach in whole}
        assert ("terminate" in rules(found), watch.terminate is not None) == (is_read, is_read)
        assert rules(found) == (rules(whole) if size >= first + 18 + 4 + 2 + 2 else rules(found))


def test_a_cut_fpdu_with_a_header_that_ddp_does_not_send_is_no_terminate() -> None:
    (fpdu,) = fpdus((untagged(7, 0, 1, SIW),))
    watch = FPDUWatch(Layout(False, False), True)
    assert watched((fpdu.replace(octets=fpdu.octets[:40], crc=CUT),), watch) == [] and watch.terminate is None


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize(
    ("sent", "asked", "rule"), [(False, True, "marker-absent"), (True, False, "marker-unasked"), (True, True, None)]
)
def test_the_first_octets_are_not_as_agreed_on(sent: bool, asked: bool, rule: str | None, crc: bool) -> None:
    octets = encode_fpdu(send(1, bytes(100)), 0 if sent else None)
    found = FPDUWatch(Layout(asked, crc), True).wrong_beginning(octets, (1, 2))
    assert [one.rule for one in found] == ([rule] if rule else [])


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("fpduptr", [4, 0x8000, 0x4143])
def test_the_first_marker_is_not_zero(fpduptr: int, crc: bool) -> None:
    """Also where it looks like a ULPDU_Length of 0 and control octets."""
    octets = bytearray(encode_fpdu(send(1, bytes(100)), 0))
    octets[2:4] = fpduptr.to_bytes(2, "big")
    assert rules(FPDUWatch(Layout(True, crc), True).wrong_beginning(octets, (1, 2))) == {"marker-first"}


def test_the_first_send() -> None:
    watch = FPDUWatch(Layout(True, True), True)
    watched(fpdus((rdma_write(1, 0, b""), send(1, b""), send(2, bytes(100)), send(3, b"x")), markers=True), watch)
    assert watch.first is not None
    assert (watch.first.ulpdu, watch.first.end, watch.first.is_doubtful) == (rdma_write(1, 0, b""), 24, False)
    assert watch.first_send == (bytes(78), 100)
