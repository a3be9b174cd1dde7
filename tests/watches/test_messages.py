"""Messages that were not acknowledged, and the one that a Terminate quotes."""

from __future__ import annotations

import pytest

from scapy_mpa.craft.ulpdus import atomic_request_body, rdma_write, send, untagged
from scapy_mpa.framing.ddp import decode_ddp
from scapy_mpa.receiver.window import Layout
from scapy_mpa.values.lifecycle import Quoted, Terminated
from scapy_mpa.watches.ddp import ulpdu_of
from scapy_mpa.watches.fpdus import FoundTerminate, FPDUWatch
from scapy_mpa.watches.messages import MessageWatch, terminated
from tests.watches.values import fpdus, watched

#: A Send, an RDMA Write of three DDP Segments, a Send of two that is not complete.
ULPDUS = (
    send(1, bytes(10)),
    rdma_write(7, 0, bytes(200), last=False),
    rdma_write(7, 200, bytes(200), last=False),
    rdma_write(7, 400, bytes(50)),
    send(2, bytes(300), last=False),
)
FPDUS = fpdus(ULPDUS)
ENDS = [fpdu.end for fpdu in FPDUS]


def watching() -> MessageWatch:
    watch = MessageWatch()
    for fpdu in FPDUS:
        watch.passed(fpdu, ulpdu_of(fpdu))
    return watch


@pytest.mark.parametrize(
    ("acknowledged", "end", "count"),
    [
        (None, ENDS[4], 0),
        (0, ENDS[4], 3),
        (ENDS[0], ENDS[4], 2),
        (ENDS[2], ENDS[4], 2),
        (ENDS[3], ENDS[4], 1),
        (ENDS[4], ENDS[4], 0),
        (ENDS[4], ENDS[4] + 9, 1),
    ],
)
def test_messages_not_acknowledged(acknowledged: int | None, end: int, count: int) -> None:
    watch = watching()
    watch.acknowledged = acknowledged
    assert watch.unacknowledged(end) == count


@pytest.mark.parametrize(
    ("number", "quoted"),
    [
        (0, Quoted(10, True, 1, 1, 1)),
        (2, Quoted(450, True, 2, 4, 3)),
        (4, Quoted(300, False, 5, 5, 1)),
    ],
)
def test_the_message_that_a_terminate_quotes(number: int, quoted: Quoted) -> None:
    ulpdu = ULPDUS[number]
    size = 14 if ulpdu[0] & 0x80 else 18
    body = b"\x11\x00\xc0\x00" + len(ulpdu).to_bytes(2, "big") + ulpdu[:size]
    watch = FPDUWatch(Layout(False, True), True)
    watched(fpdus((untagged(7, 2, 1, body),), frame=9), watch)
    assert watch.terminate is not None
    found = terminated(watch.terminate, watching())
    assert (found.frame, found.message) == (9, quoted)
    assert found.said is not None
    header = decode_ddp(ulpdu)
    assert header is not None
    assert watching().quoted(header) == quoted


@pytest.mark.parametrize(("to", "misaligned"), [(0x34, 0x34), (0x38, None)])
def test_an_atomic_that_is_not_aligned(to: int, misaligned: int | None) -> None:
    """Named also where the Terminate for an error of the RDMAP Stream quotes nothing (RFC 7306 §8.2)."""
    ulpdu = untagged(10, 1, 1, atomic_request_body(0, 17, 0x22, to, 1, 0, 0, 0))
    watch = MessageWatch()
    for fpdu in fpdus((ulpdu,), frame=6):
        watch.passed(fpdu, ulpdu_of(fpdu))

    def of(terminate: bytes, frame: int) -> Terminated:
        return terminated(FoundTerminate(terminate, 0, (frame, frame), len(terminate)), watch)

    quoted = of(untagged(7, 2, 1, b"\x02\x07\xc0\x00\x00\x46" + ulpdu[:18]), 9).message
    assert quoted == Quoted(52, True, 6, 6, 1, misaligned)
    alone = of(untagged(7, 2, 1, b"\x02\x07\x00\x00"), 9).message
    assert alone == (quoted if misaligned is not None else None)
    assert of(untagged(7, 2, 1, b"\x02\x07\x00\x00"), 5).message is None
    assert of(untagged(7, 2, 1, b"\x02\x06\x00\x00"), 9).message is None


@pytest.mark.parametrize(
    ("ulpdu", "is_lacking"),
    [
        (ULPDUS[0], False),
        (ULPDUS[2], False),
        (send(3, b""), True),
        (send(2, b"", message_offset=300), True),
        (untagged(4, 0, 1, b""), True),
        (rdma_write(7, 100, b""), True),
        (rdma_write(8, 0, b""), True),
    ],
)
def test_a_header_that_was_never_sent(ulpdu: bytes, is_lacking: bool) -> None:
    header = decode_ddp(ulpdu)
    assert header is not None and (watching().lengths_of(header) == []) == is_lacking


@pytest.mark.parametrize(
    ("ulpdu", "markers", "lengths"),
    [
        # Of 28 octets: the segment, its payload by either header, by that of a Read Request; the FPDU.
        (send(1, bytes(10)), False, {28, 14, 10, 0xFFEE, 36}),
        (send(1, bytes(10)), True, {28, 14, 10, 0xFFEE, 36, 40}),
        # The message so far has 310 octets.
        (send(1, bytes(10), message_offset=300), False, {28, 14, 10, 0xFFEE, 310, 36}),
        (untagged(1, 1, 1, bytes(28)), False, {46, 32, 28, 0, 52}),
        (rdma_write(7, 0, bytes(50)), False, {64, 50, 46, 18, 72}),
    ],
)
def test_lengths_that_a_segment_may_be_said_to_have(ulpdu: bytes, markers: bool, lengths: set[int]) -> None:
    watch, header = MessageWatch(), decode_ddp(ulpdu)
    for fpdu in fpdus((ulpdu,), markers):
        watch.passed(fpdu, ulpdu_of(fpdu))
    assert header is not None
    found = watch.lengths_of(header)
    assert found is not None and found[0] == len(ulpdu) and set(found) == lengths


def test_a_header_that_may_have_been_sent_before() -> None:
    """Messages of a queue are counted: of one beyond those kept it is known that it was not sent."""
    watch = MessageWatch()
    for fpdu in fpdus([send(msn, b"") for msn in range(1, 600)]):
        watch.passed(fpdu, ulpdu_of(fpdu))
        watch.acknowledged = fpdu.end
    assert not watch.has_all
    for ulpdu, is_lacking in (
        (send(600, b""), True), (send(5, b""), False), (send(599, b""), False), (rdma_write(7, 0, b""), False),
        (untagged(1, 1, 1, bytes(28)), False),
    ):  # fmt: skip
        header = decode_ddp(ulpdu)
        assert header is not None and (watch.lengths_of(header) == []) == is_lacking


def test_what_is_acknowledged_is_kept_for_a_while() -> None:
    """The last 256 FPDUs may be quoted."""
    watch = MessageWatch()
    sent = fpdus([send(msn, b"") for msn in range(1, 600)])
    for fpdu in sent:
        watch.passed(fpdu, ulpdu_of(fpdu))
        watch.acknowledged = fpdu.end
    found = [decode_ddp(ulpdu_of(fpdu)) for fpdu in sent[-257:]]
    assert [header is not None and watch.quoted(header) is not None for header in found[:2]] == [False, True]


@pytest.mark.parametrize(("most", "messages"), [(300, 300), (301, 301), (302, 301)])
def test_what_is_not_acknowledged_is_kept(most: int, messages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more FPDUs than may be kept messages are counted as far as they are."""
    monkeypatch.setattr("scapy_mpa.watches.messages.MOST_KEPT", most)
    watch = MessageWatch()
    watch.acknowledged = 0
    sent = fpdus([send(msn, b"") for msn in range(1, 302)])
    for fpdu in sent:
        watch.passed(fpdu, ulpdu_of(fpdu))
    assert watch.unacknowledged(sent[-1].end) == messages
