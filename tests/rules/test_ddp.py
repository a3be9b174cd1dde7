"""Rules of DDP and RDMAP: each broken by one sender, and kept by its twin."""

from __future__ import annotations

import random
from contextlib import ExitStack
from itertools import accumulate, compress, pairwise, product
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.craft.ulpdus import (
    ATOMIC_REQUEST,
    READ_REQUEST,
    READ_RESPONSE,
    SEND,
    TERMINATE,
    rdma_write,
    read_request_body,
    send,
    tagged,
    terminate_body,
    untagged,
)
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.startup import EnhancedData, startup_frame
from scapy_mpa.receiver.fpdus import FPDUReader
from scapy_mpa.watches.ddp import DDPWatch
from tests.receive.cases import Talk, feed
from tests.rules.talks import HOWS, How, begun, findings, put, told
from tests.sampling import examples

Ulpdus = tuple[bytes, ...]


def read_request(msn: int, body: bytes | None = None) -> bytes:
    return untagged(READ_REQUEST, 1, msn, body or read_request_body(1, 4096, 100, 2, 8192))


def reserved(ulpdu: bytes) -> bytes:
    return bytes((ulpdu[0] | 0x04,)) + ulpdu[1:]


HOST_ORDER = b"".join(
    int.from_bytes(part, "little").to_bytes(len(part), "big")
    for part in ((1).to_bytes(4, "big"), (0x7F1234561010).to_bytes(8, "big"), (64).to_bytes(4, "big"),
                 (2).to_bytes(4, "big"), (0x7F1234571010).to_bytes(8, "big"))
)  # fmt: skip

# (rule, ULPDUs of the Initiator that break it, ULPDUs that do not); a Send of MSN 1 went before.
CASES: tuple[tuple[str, Ulpdus, Ulpdus], ...] = (
    ("ddp-header", (b"\xc1\x40" + bytes(9),), (rdma_write(1, 0, b""),)),
    ("ddp-header", (send(2, b"")[:16],), (send(2, b""),)),
    ("ddp-version", (untagged(SEND, 0, 2, b"late", version=0),), (untagged(SEND, 0, 2, b"late", version=1),)),
    ("ddp-version", (b"\x41\x03" + send(2, b"")[2:],), (send(2, b""),)),
    ("ddp-opcode", (untagged(12, 0, 2, b""),), (untagged(6, 0, 2, b""),)),
    ("ddp-opcode", (tagged(SEND, 1, 0, bytes(20)),), (tagged(0, 1, 0, bytes(20)),)),
    ("ddp-queue", (untagged(SEND, 1, 1, b""),), (untagged(SEND, 0, 2, b""),)),
    ("ddp-queue", (untagged(READ_REQUEST, 0, 2, bytes(28)),), (untagged(READ_REQUEST, 1, 1, bytes(28)),)),
    ("ddp-msn", (send(3, b""),), (send(2, b""),)),
    ("ddp-msn", (send(2, b""), send(2, b"")), (send(2, b""), send(3, b""))),
    ("ddp-msn", (read_request(2),), (read_request(1),)),
    (
        "ddp-mo",
        (send(2, bytes(200), last=False), send(2, b"rest", message_offset=201)),
        (send(2, bytes(200), last=False), send(2, b"rest", message_offset=200)),
    ),
    ("ddp-mo", (send(2, b"rest", message_offset=7),), (send(2, b"rest"),)),
    (
        "ddp-last",
        (send(2, bytes(200), last=False), send(3, b"next")),
        (send(2, bytes(200), last=False), send(2, b"rest", message_offset=200), send(3, b"next")),
    ),
    (
        "ddp-last",
        (send(2, bytes(200)), send(2, b"rest", message_offset=200)),
        (send(2, bytes(200)), send(3, b"rest")),
    ),
    (
        "ddp-last",
        (rdma_write(1, 0, bytes(200), last=False), rdma_write(2, 0, b"other")),
        (rdma_write(1, 0, bytes(200), last=False), rdma_write(1, 200, b"rest"), rdma_write(2, 0, b"other")),
    ),
    (
        "ddp-last",
        (rdma_write(1, 0, bytes(200), last=False), rdma_write(1, 201, bytes(200), last=False), rdma_write(1, 401, b"")),
        (rdma_write(1, 0, bytes(200), last=False), rdma_write(1, 200, bytes(200), last=False), rdma_write(1, 400, b"")),
    ),
    ("ddp-reserved", (reserved(send(2, b"")),), (send(2, b""),)),
    ("ddp-reserved", (reserved(rdma_write(1, 0, b"")),), (rdma_write(1, 0, b""),)),
    *(
        ("ddp-reserved", (untagged(opcode, queue, msn, body, invalidate=5),), (untagged(opcode, queue, msn, body),))
        for opcode, queue, msn, body in ((3, 0, 2, b""), (5, 0, 2, b""), (1, 1, 1, read_request(1)[18:]))
    ),
    ("ddp-reserved", (untagged(3, 0, 2, b"", invalidate=5),), (untagged(4, 0, 2, b"", invalidate=5),)),
    ("rdmap-read-request", (read_request(1, bytes(32)),), (read_request(1),)),
    ("rdmap-read-request", (read_request(1, HOST_ORDER),), (read_request(1, read_request_body(1, 0, 64, 2, 0)),)),
    (
        "terminate-last",
        (untagged(TERMINATE, 2, 1, terminate_body(0, 2, 6)), send(2, b"")),
        (send(2, b""), untagged(TERMINATE, 2, 1, terminate_body(0, 2, 6))),
    ),
    (
        "terminate-layout",
        (untagged(TERMINATE, 2, 1, b"\x11\x00\x03\x00" + bytes(16)),),
        (untagged(TERMINATE, 2, 1, b"\x11\x00\xc0\x00" + bytes(16)),),
    ),
    (
        "terminate-layout",
        (untagged(TERMINATE, 2, 1, b"\x20\x02\x00"),),
        (untagged(TERMINATE, 2, 1, b"\x20\x02\x00\x00"),),
    ),
    *(
        (rule, (untagged(TERMINATE, 2, 1, bytes.fromhex(wrong)),), (untagged(TERMINATE, 2, 1, bytes.fromhex(right)),))
        for rule, wrong, right in (
            ("terminate-reserved", "00000400", "00000000"),
            ("terminate-reserved", "20021fff", "20020000"),
            ("terminate-code", "30000000", "20010000"),
            ("terminate-code", "03000000", "02060000"),
            ("terminate-code", "20080000", "20070000"),
            ("terminate-layout", "1203c000", "1203c0000012" + send(1, b"").hex()),
            ("terminate-layout", "1203c0000012" + send(1, b"")[:13].hex(), "12060000"),
            ("terminate-headers", "120380000012", "1203c0000012" + send(1, b"").hex()),
            ("terminate-headers", "2001c0000012" + send(1, b"").hex(), "20010000"),
            ("terminate-headers", "0207e000002e" + read_request(1).hex(), "0207c000002e" + read_request(1)[:18].hex()),
            ("terminate-headers", "0100c000002e" + read_request(1)[:18].hex(), "0100e000002e" + read_request(1).hex()),
        )
    ),
    (
        "mulpdu-minimum",
        (rdma_write(1, 0, bytes(113), last=False), rdma_write(1, 113, b"")),
        (rdma_write(1, 0, bytes(114), last=False), rdma_write(1, 114, b"")),
    ),
)  # fmt: skip


def tells(m: tuple[int, int], how: How, ulpdus: Ulpdus) -> set[tuple[str, str | None]]:
    talk = begun(m=m)
    for ulpdu in ulpdus:
        put(talk, "a", ulpdu, how=how)
    # A Terminate tells of itself.
    return {(rule, who) for rule, who in told(talk) if rule != "terminate"}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("m", [(0, 0), (1, 1)])
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number][0]}-{number}")
def test_each_is_told_of_its_sender_and_of_no_other(number: int, m: tuple[int, int], how: How) -> None:
    rule, wrong, right = CASES[number]
    assert tells(m, how, wrong) == {(rule, "initiator")}
    assert tells(m, how, right) == set()


@pytest.mark.parametrize("m", [(0, 0), (1, 1)])
def test_where_and_when(m: tuple[int, int]) -> None:
    talk = begun(m=m)
    put(talk, "a", send(2, b""))
    seq = talk.next["a"]
    frame = put(talk, "a", send(4, b""))
    put(talk, "a", send(4, b""), send(5, b""))
    (found,) = findings(feed([talk.segments]))
    assert (found.rule.id, found.frame, found.last_frame, found.count) == ("ddp-msn", frame, frame + 1, 2)
    leading = 4 * (bool(m[1]) and not (seq - talk.origin["a"]) % 512)
    assert (found.seq - seq) % 2**32 in (0, leading)
    assert found.detail == "MSN 4 of queue 0 after 2"


def test_what_is_missing_is_not_held_against_the_sender() -> None:
    """Behind a gap neither MSN nor what message is under way is known."""
    talk = begun(m=(1, 1))
    put(talk, "a", send(2, bytes(400), last=False))
    talk.next["a"] += len(talk.streams["a"].lay([send(2, bytes(2000), message_offset=400), send(3, b"")])[0])
    put(talk, "a", send(4, bytes(1200)))
    put(talk, "a", send(5, b""))
    assert told(talk) == {("gap", "initiator")}


TERMINATED = untagged(TERMINATE, 2, 1, terminate_body(0, 0, 0))


def messages(rng: random.Random, count: int) -> list[bytes]:
    """ULPDUs of so many messages, nearly all of which are as they should be."""
    ulpdus: list[bytes] = []
    msn, to = 2, 0
    often = rng.choice((0.05, 0.4))
    # A sender of small RDMA Writes, one of long ones, or one of everything.
    small, long = rng.choice(((0.9, 0.05), (0.02, 0.9), (0.02, 0.9), (0.3, 0.35)))
    sizes = rng.sample(range(64), rng.choice((1, 2, 9)))
    for _ in range(count):
        # Most are alike, as those of an application are.
        size = rng.choice((200, 200, 200, 202, 400, 90, 14, 0))
        stag, odd = rng.choice((1, 1, 2)), rng.random() < often
        if rng.random() < small:
            ulpdus += [rdma_write(stag, to, rng.randbytes(rng.choice(sizes))) for _ in range(rng.randrange(1, 9))]
            if rng.random() < often / 10:
                sizes.append(rng.randrange(2000))
        elif rng.random() < long / (1 - small):
            if rng.random() < 0.3:
                to = rng.choice((0, 4096, 2**64 - 300))
            parts = rng.choice((1, 2, 2, 3, 4))
            if long > 0.5:
                size = rng.choice((200, 200, 200, 202))
            for part in range(parts):
                last = (part == parts - 1) != (odd and rng.random() < 0.3)
                here, wrong = stag + (odd and rng.random() < 0.2), odd and rng.random() < 0.3
                ulpdus.append(rdma_write(here, (to + wrong) % 2**64, bytes(size), last=last))
                to = (to + size) % 2**64
                if odd and rng.random() < 0.2:
                    ulpdus.append(send(msn, bytes(size), last=rng.random() < 0.5))
        elif rng.random() < 0.8:
            msn += odd and rng.random() < 0.5
            last, mo = not (odd and rng.random() < 0.3), int(odd and rng.random() < 0.2)
            queue = int(odd and rng.random() < 0.2)
            ulpdus.append(
                untagged(rng.choice((SEND, SEND, 4, 5, 6, 8, 9)), queue, msn, bytes(size), last=last, message_offset=mo)
            )
            msn += last or rng.random() < 0.5
        else:
            rare = read_request(1), reserved(rdma_write(1, to, bytes(9))), rdma_write(1, 7, b""), TERMINATED
            ulpdus.append(rng.choice(rare[: 4 if rng.random() < 0.3 else 3]))
    return ulpdus


def padded(rng: random.Random, stream: HalfStream, ulpdu: bytes, often: float) -> bytes:
    """An FPDU, which the stream goes on with, whose PAD need not be zero."""
    pad = rng.randbytes(-(len(ulpdu) + 2) % 4) if rng.random() < often else None
    octets = encode_fpdu(ulpdu, stream.offset if stream.dialect.markers else None, crc=stream.dialect.crc, pad=pad)
    stream.lay([ulpdu])
    return octets


#: What follows FPDUs that are as expected without looking into them, or reads many at once: each may be left out.
SHORT_CUTS: tuple[tuple[type, str, object], ...] = (
    (DDPWatch, "_expected", property(lambda _: -1, lambda *_: None)),
    (FPDUReader, "_read_run", lambda *_: True),
    (FPDUReader, "_read_plain", lambda _, _data, _start, at, *_args: at),
)


@pytest.mark.uncompiled
@settings(max_examples=examples(150), deadline=None)
@given(
    st.randoms(use_true_random=False),
    st.integers(1, 30),
    st.booleans(),
    st.sampled_from(("whole", "packed", "cut", "late")),
)
def test_what_short_cuts_see_is_what_is_seen_without_them(
    rng: random.Random, count: int, markers: bool, how: str
) -> None:
    talk = begun(m=(markers, markers))
    often = rng.choice((0, 0, 0.05, 0.5))
    fpdus = [padded(rng, talk.streams["a"], ulpdu, often) for ulpdu in messages(rng, count)]
    octets, cuts = b"".join(fpdus), list(accumulate(map(len, fpdus)))
    if how == "packed":
        share = rng.choice((0.1, 0.4))
        cuts = [at for at in cuts if rng.random() < share]
    elif how == "cut":
        cuts += [rng.randrange(len(octets)) for _ in range(count)]
    segments = list(pairwise(sorted({0, *cuts, len(octets)})))
    if how == "late":
        for at in range(0, len(segments) - 1, 3):
            segments[at : at + 2] = segments[at : at + 2][::-1]
    seq = talk.next["a"]
    for start, end in segments:
        talk.put("a", seq + start, octets[start:end])

    def seen(*, records: bool = True) -> list[tuple[object, ...]]:
        receiver = feed([talk.segments], records=records)
        said = [
            (one.rule.id, one.direction, one.frame, one.last_frame, one.count, one.detail) for one in findings(receiver)
        ]
        known = []
        for operation in (one for mpa in receiver.connections for one in mpa.operations.values()):
            ddp = operation.fpdus.ddp
            known.append((ddp.longest_part, ddp.first_part, ddp.requests, ddp.answers, ddp.losses, ddp.terminated))
        return [*said, *known]

    by_short_cuts = seen(records=False)
    for chosen in product((False, True), repeat=len(SHORT_CUTS)):
        with ExitStack() as stack:
            for kind, name, instead in compress(SHORT_CUTS, chosen):
                stack.enter_context(patch.object(kind, name, instead))
            assert seen(records=False) == by_short_cuts
            assert seen() == by_short_cuts


def test_a_write_after_the_terminate_with_which_it_came() -> None:
    """Both are read before any of the two is judged."""
    talk = begun(m=(False, False))
    writes = [rdma_write(1, to, bytes(200)) for to in (0, 200, 400)]
    for ulpdu in (*writes[:2], TERMINATED, writes[2]):
        put(talk, "a", ulpdu)
    for records in (False, True):
        found = findings(feed([talk.segments[:-2], talk.segments[-2:]], records=records))
        assert [one.rule.id for one in found].count("terminate-last") == 1


@pytest.mark.parametrize("between", [(), (1,), (2,)])
@pytest.mark.parametrize("markers", [0, 1])
def test_a_message_begins_like_one_long_before(markers: int, between: tuple[int, ...]) -> None:
    """What a whole segment repeats but for TO is taken at once, also where another message lay between."""

    def write(stag: int, to: int, *, last: bool) -> bytes:
        return rdma_write(stag, to, bytes(200), last=last)

    talk = begun(m=(markers, markers))
    for to in (0, 200, 400):
        put(talk, "a", write(1, to, last=False))
    put(talk, "a", write(1, 600, last=True))
    for stag in between:
        put(talk, "a", write(stag, 5000, last=False), write(stag, 5200, last=True))
    put(talk, "a", write(1, 0, last=False))
    put(talk, "a", write(1, 200, last=True))
    assert not findings(feed([talk.segments], records=False))
    put(talk, "a", write(1, 0, last=False))
    frame = put(talk, "a", write(1, 201, last=False))
    assert [(one.rule.id, one.frame) for one in findings(feed([talk.segments], records=False))] == [("ddp-last", frame)]


def reading(ord_: int, answered: bool, count: int = 2) -> Talk:
    """The Initiator asks for ``count`` RDMA Reads, and waits for each answer or does not."""
    talk = Talk().open()
    talk.greet("a", startup_frame("request", c=1, rev=2, enhanced=EnhancedData(ird=8, ord=8)).encode())
    talk.greet("b", startup_frame("reply", c=1, rev=2, enhanced=EnhancedData(ird=ord_, ord=8)).encode())
    talk.operate()
    for msn in range(1, count + 1):
        put(talk, "a", read_request(msn))
        if answered:
            put(talk, "b", tagged(READ_RESPONSE, 1, 4096, bytes(100)))
    return talk


def test_more_rdma_reads_than_the_peer_has_room_for() -> None:
    remark = ("ird-ord-responder-ird", "responder")  # the Initiator comes down to it
    assert told(reading(1, answered=False)) == {remark, ("ird-ord-exceeded", "initiator")}
    assert told(reading(1, answered=True, count=5)) == {remark}
    assert told(reading(2, answered=False)) == {remark}
    # What is waited for may be an answer.
    talk = reading(1, answered=False, count=1)
    early = talk.streams["b"].lay([tagged(READ_RESPONSE, 1, 4096, bytes(100))])[0]
    seq = talk.next["b"]
    talk.put("b", seq + 20, early[20:])
    put(talk, "a", read_request(2))
    talk.put("b", seq, early[:20])
    assert told(talk) == {remark}


@pytest.mark.parametrize(
    ("opcodes", "names"),
    [((1, 1), "RDMA Reads"), ((10, 10), "Atomics"), ((10, 1), "RDMA Reads and Atomics")],
)
def test_atomics_are_not_called_reads(opcodes: tuple[int, int], names: str) -> None:
    talk = reading(1, answered=False, count=0)
    for msn, opcode in enumerate(opcodes, 1):
        put(talk, "a", read_request(msn) if opcode == READ_REQUEST else untagged(ATOMIC_REQUEST, 1, msn, bytes(52)))
    (found,) = (one for one in findings(feed([talk.segments])) if one.rule.id == "ird-ord-exceeded")
    assert found.detail == f"2 {names} outstanding, with an ORD of 1"


@pytest.mark.parametrize("stops", [True, False])
def test_a_request_after_an_error_is_answered(stops: bool) -> None:
    talk = begun()
    put(talk, "a", read_request(1))
    put(talk, "b", tagged(READ_RESPONSE, 1, 4096, bytes(100)))
    bad = bytearray(talk.streams["a"].lay([send(2, bytes(50))])[0])
    bad[30] ^= 1
    talk.say("a", bytes(bad))
    put(talk, "a", read_request(2))
    frame = 0
    if not stops:
        frame = put(talk, "b", tagged(READ_RESPONSE, 1, 4096, bytes(100)))
    found = {one.rule.id: one for one in findings(feed([talk.segments]))}
    assert set(found) == {"crc"} | (set() if stops else {"error-passed"})
    if not stops:
        assert (found["error-passed"].direction, found["error-passed"].frame) == ("responder", frame)
