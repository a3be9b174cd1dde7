"""RDMAPEndpoint: two of them, and one against what the specifications and the catalogue of malformed cases say."""

from __future__ import annotations

import io
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_mpa.catalogue.malformed import Malformed
from scapy_mpa.catalogue.named import NAMED
from scapy_mpa.catalogue.table import CASES
from scapy_mpa.craft import ulpdus
from scapy_mpa.craft.messages import RAW, Message
from scapy_mpa.craft.ulpdus import (
    AtomicRequest,
    atomic_request_body,
    rdma_write,
    read_request_body,
    send,
    tagged,
    terminate_body,
    untagged,
)
from scapy_mpa.framing.ddp import TaggedHeader, UntaggedHeader, decode_terminate, error_meaning, quoted_header
from scapy_mpa.live.buffers import Access
from scapy_mpa.live.rdmap import (
    AtomicCompleted,
    ImmediateDelivered,
    RDMAPEndpoint,
    RDMAPError,
    RDMAPUsageError,
    ReadCompleted,
    RequestTaken,
    SendDelivered,
    TerminateReceived,
    WritePlaced,
    after_atomic,
)
from scapy_mpa.probe.expectations import choices
from scapy_mpa.reading.found import FoundFPDUs
from tests.live.pairs import drain, endpoint, exchange
from tests.sampling import examples

LAST = (1 << 64) - 1


# --- two endpoints ---


@pytest.mark.parametrize("mulpdu", [19, 64, 1400, 64768])
@pytest.mark.parametrize("size", [0, 1, 46, 47, 5000])
def test_sends_of_four_kinds(mulpdu: int, size: int) -> None:
    one, two = endpoint(mulpdu), endpoint(mulpdu)
    payload = random.Random(size).randbytes(size)
    two.register(bytearray(8), stag=0x77)
    two.register(bytearray(8), stag=0x78)
    one.send(payload)
    one.send(payload, solicited=True)
    one.send(payload, invalidate=0x77)
    one.send(payload, solicited=True, invalidate=0x78)
    _, events = exchange(one, two)
    assert events == [
        SendDelivered(1, payload),
        SendDelivered(2, payload, True),
        SendDelivered(3, payload, False, 0x77),
        SendDelivered(4, payload, True, 0x78),
    ]
    assert not two.buffers


def test_more_sends_than_buffers_arrive_because_each_makes_room() -> None:
    one, two = endpoint(), endpoint(receive_buffers=2)
    for number in range(100):
        one.send(b"%d" % number)
    _, events = exchange(one, two)
    assert [event.payload for event in events if isinstance(event, SendDelivered)] == [b"%d" % n for n in range(100)]


@pytest.mark.parametrize("mulpdu", [15, 100, 64768])
def test_writes_are_placed_and_nothing_beside(mulpdu: int) -> None:
    one, two = endpoint(mulpdu), endpoint(mulpdu)
    buffer = two.register(bytearray(b"." * 300), to=LAST - 299)
    one.write(buffer.stag, buffer.to + 100, b"x" * 100)
    one.write(0, 0, b"")
    _, events = exchange(one, two)
    assert bytes(buffer.octets) == b"." * 100 + b"x" * 100 + b"." * 100
    assert all(isinstance(event, WritePlaced) for event in events)
    assert events[-2:] == [
        WritePlaced(buffer.stag, buffer.to + 199 - (99 % max(1, mulpdu - 14)), 1 + 99 % (mulpdu - 14), True)
        if mulpdu > 15
        else WritePlaced(buffer.stag, buffer.to + 199, 1, True),
        WritePlaced(0, 0, 0, True),
    ]


@pytest.mark.parametrize("size", [0, 1, 1000, 70000])
@pytest.mark.parametrize("order", [1, 3])
def test_reads(size: int, order: int) -> None:
    one, two = endpoint(ord=order), endpoint(ird=order)
    source = two.register(bytearray(random.Random(size).randbytes(size)))
    sinks = [one.register(bytearray(size)) for _ in range(5)]
    for sink in sinks:
        one.read(sink, size, source.stag, 0)
    one.send(b"behind them")
    events, others = exchange(one, two)
    assert events == [ReadCompleted(sink.stag, 0, size) for sink in sinks]
    assert all(sink.octets == source.octets for sink in sinks)
    assert others[-1] == SendDelivered(1, b"behind them")
    assert others.count(RequestTaken("RDMA Read Request", source.stag, 0, size)) == 5


def test_no_more_requests_are_under_way_than_ord() -> None:
    one, two = endpoint(ord=2), endpoint()
    sink, source = one.register(bytearray(4)), two.register(bytearray(4))
    for _ in range(5):
        one.read(sink, 4, source.stag, 0)
    assert len(drain(one)) == 2
    assert (one.under_way, one.waits) == (2, 3)


def test_answers_pass_requests_that_wait() -> None:
    """Both sides have as many Requests under way as they may, and want more: neither waits for the other for ever."""
    one, two = endpoint(ord=1, ird=1), endpoint(ord=1, ird=1)
    buffers = one.register(bytearray(3000)), two.register(bytearray(3000))
    for _ in range(20):
        one.read(buffers[0], 3000, buffers[1].stag, 0)
        two.read(buffers[1], 3000, buffers[0].stag, 0)
    events = exchange(one, two)
    assert [sum(isinstance(event, ReadCompleted) for event in side) for side in events] == [20, 20]


def test_an_answer_does_not_come_into_the_middle_of_a_message() -> None:
    one, two = endpoint(100), endpoint(100)
    buffer = one.register(bytearray(50))
    one.send(b"x" * 300)
    first = one.next_ulpdu()
    assert first is not None
    one.receive(untagged(ulpdus.READ_REQUEST, 1, 1, read_request_body(1, 0, 50, buffer.stag, 0)))
    opcodes = [ulpdu[1] & 15 for ulpdu in (first, *drain(one))]
    assert opcodes == [ulpdus.SEND] * 4 + [ulpdus.READ_RESPONSE]
    assert not two.waits


def test_immediate_data() -> None:
    one, two = endpoint(), endpoint()
    one.immediate(b"12345678")
    one.send(b"between")
    one.immediate(b"abcdefgh", solicited=True)
    assert exchange(one, two)[1] == [
        ImmediateDelivered(b"12345678"),
        SendDelivered(2, b"between"),
        ImmediateDelivered(b"abcdefgh", True),
    ]
    with pytest.raises(RDMAPUsageError, match="8 octets, not 3"):
        one.immediate(b"abc")


def test_atomic_operations() -> None:
    one, two = endpoint(), endpoint()
    buffer = two.register(bytearray(24), to=0x100)
    buffer.put(0x108, (5).to_bytes(8, "big"))
    ids = [
        one.atomic(ulpdus.FETCH_ADD, buffer.stag, 0x108, 3),
        one.atomic(ulpdus.CMP_SWAP, buffer.stag, 0x108, 100, compare=8),
        one.atomic(ulpdus.CMP_SWAP, buffer.stag, 0x108, 200, compare=8),
        one.atomic(ulpdus.FETCH_ADD, buffer.stag, 0x108, LAST),
    ]
    events, _ = exchange(one, two)
    assert events == [AtomicCompleted(number, value) for number, value in zip(ids, (5, 8, 100, 100), strict=True)]
    assert bytes(buffer.octets) == bytes(8) + (99).to_bytes(8, "big") + bytes(8)


def by_rfc7306(before: int, data: int, mask: int) -> int:
    """FetchAdd as the pseudocode of RFC 7306 §5.1.1 has it, bit by bit."""
    carry = after = 0
    for bit in range(64):
        total = carry + (before >> bit & 1) + (data >> bit & 1)
        carry = total >> 1
        after |= (total & 1) << bit
        carry = carry if not mask >> bit & 1 else 0
    return after


@given(*[st.integers(0, LAST)] * 3)
@settings(max_examples=examples(200))
def test_fetch_add_is_that_of_the_pseudocode(before: int, data: int, mask: int) -> None:
    asked = AtomicRequest(ulpdus.FETCH_ADD, 1, 2, 0, data, mask, 0, 0)
    assert after_atomic(asked, before) == by_rfc7306(before, data, mask)


@given(*[st.integers(0, LAST)] * 5)
@settings(max_examples=examples(100))
def test_cmp_swap_is_that_of_the_pseudocode(before: int, data: int, mask: int, compare: int, compared: int) -> None:
    asked = AtomicRequest(ulpdus.CMP_SWAP, 1, 2, 0, data, mask, compare, compared)
    swapped = before & ~mask & LAST | data & mask
    assert after_atomic(asked, before) == (before if (compare ^ before) & compared else swapped)


def test_a_terminate_ends_both_sides() -> None:
    one, two = endpoint(), endpoint()
    one.send(b"never said")
    one.terminate(0, 2, 7)
    (event,) = exchange(one, two)[1]
    assert isinstance(event, TerminateReceived)
    assert event.terminate is not None
    assert (event.terminate.layer, event.terminate.etype, event.terminate.code, event.quoted) == (0, 2, 7, None)
    assert one.is_ended
    assert two.is_ended
    assert two.receive(send(1, b"late")) == []
    with pytest.raises(RDMAPUsageError, match="was ended"):
        two.send(b"late")


def test_version_0_of_the_rdma_consortium() -> None:
    one, two = endpoint(version=0), endpoint(version=0)
    one.send(b"old")
    ulpdu = one.next_ulpdu()
    assert ulpdu is not None
    assert ulpdu[0] & 3 == ulpdu[1] >> 6 == 0
    assert two.receive(ulpdu) == [SendDelivered(1, b"old")]


@pytest.mark.parametrize(("stag", "to", "size"), [(1, 0, 1), (1 << 32, 0, 1), (-1, 0, 1), (2, LAST, 2), (2, -1, 1)])
def test_what_cannot_be_registered(stag: int, to: int, size: int) -> None:
    one = endpoint()
    one.register(bytearray(1), stag=1)
    with pytest.raises(RDMAPUsageError):
        one.register(bytearray(size), stag=stag, to=to)


# --- what is refused ---

READ, WRITE, BOTH = 0x10, 0x20, 0x30


def prepared() -> RDMAPEndpoint:
    """With three buffers of 100 octets, one at the end of all Tagged Offsets."""
    rdmap = endpoint(receive_buffers=4, receive_size=1000, ird=2)
    rdmap.register(bytearray(100), stag=READ, to=0x1000, access=Access.READ)
    rdmap.register(bytearray(100), stag=WRITE, to=0x1000, access=Access.WRITE)
    rdmap.register(bytearray(100), stag=BOTH, to=LAST - 99, access=Access.READ | Access.WRITE | Access.ATOMIC)
    return rdmap


def read_request(stag: int, to: int, size: int, msn: int = 1) -> bytes:
    return untagged(ulpdus.READ_REQUEST, 1, msn, read_request_body(7, 0, size, stag, to))


def atomic_request(stag: int, to: int, operation: int = ulpdus.FETCH_ADD) -> bytes:
    return untagged(ulpdus.ATOMIC_REQUEST, 1, 1, atomic_request_body(operation, 1, stag, to, 1, 0, 0, 0))


REFUSED: dict[str, tuple[tuple[int, int, int], bytes]] = {
    "write to no STag": ((1, 1, 0), rdma_write(1, 0, b"x")),
    "write where reading is allowed": ((1, 1, 0), rdma_write(READ, 0x1000, b"x")),
    "write before the buffer": ((1, 1, 1), rdma_write(WRITE, 0xFFF, b"xx")),
    "write over its end": ((1, 1, 1), rdma_write(WRITE, 0x1063, b"xx")),
    "write far behind": ((1, 1, 1), rdma_write(WRITE, LAST, b"x")),
    "write over 2^64": ((1, 1, 3), rdma_write(BOTH, LAST, b"xx")),
    "response without a request": ((0, 2, 6), tagged(ulpdus.READ_RESPONSE, WRITE, 0x1000, b"x")),
    "read of no STag": ((0, 1, 0), read_request(1, 0, 1)),
    "read where writing is allowed": ((0, 1, 2), read_request(WRITE, 0x1000, 1)),
    "read before the buffer": ((0, 1, 1), read_request(READ, 0xFFF, 2)),
    "read over its end": ((0, 1, 1), read_request(READ, 0x1000, 101)),
    "read of 4 GiB": ((0, 1, 1), read_request(READ, 0x1000, 0xFFFFFFFF)),
    "read over 2^64": ((0, 1, 4), read_request(BOTH, LAST, 2)),
    "atomic on no STag": ((0, 1, 0), atomic_request(1, 0)),
    "atomic where it is not allowed": ((0, 1, 2), atomic_request(READ, 0x1000)),
    "atomic over the end": ((0, 1, 4), atomic_request(BOTH, LAST - 6)),
    "atomic that is not aligned": ((0, 2, 7), atomic_request(BOTH, LAST - 10)),
    "atomic operation 1": ((0, 2, 6), atomic_request(BOTH, LAST - 7, 1)),
    "atomic of 51 octets": ((0, 2, 7), atomic_request(BOTH, 0)[:-1]),
    "atomic response without a request": ((1, 2, 2), untagged(ulpdus.ATOMIC_RESPONSE, 3, 1, bytes(12))),
    "send of more than the buffer": ((1, 2, 5), send(1, bytes(1001))),
    "send beyond the last buffer": ((1, 2, 2), send(5, b"x")),
    "send with half of all MSNs left out": ((1, 2, 3), send(0x80000001, b"x")),
    "immediate data of 9 octets": ((0, 2, 7), untagged(ulpdus.IMMEDIATE, 0, 1, bytes(9))),
    "invalidate no STag": ((0, 1, 0), untagged(ulpdus.SEND_INVALIDATE, 0, 1, b"", invalidate=1)),
    "invalidate what must not be": ((0, 1, 9), untagged(ulpdus.SEND_INVALIDATE, 0, 1, b"", invalidate=READ)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_quoted_by_a_terminate(name: str) -> None:
    expected, ulpdu = REFUSED[name]
    rdmap = prepared()
    before = {stag: bytes(buffer.octets) for stag, buffer in rdmap.buffers.items()}
    with pytest.raises(RDMAPError) as caught:
        rdmap.receive(ulpdu)
    assert caught.value.reason[:3] == expected
    assert caught.value.clause.startswith("RFC ")
    assert error_meaning(*expected) in str(caught.value)
    (answer,) = drain(rdmap)
    said = decode_terminate(answer)
    assert said is not None
    assert (said.layer, said.etype, said.code, said.m, said.d) == (*expected, 1, 1)
    # RFC 5040 §4.8: the Read Request comes back where it could not be done.
    is_read = name.startswith("read")
    assert said.r == is_read
    quoted = quoted_header(answer)
    assert isinstance(quoted, TaggedHeader if ulpdu[0] & 0x80 else UntaggedHeader)
    header = 14 if ulpdu[0] & 0x80 else 18
    body = answer[18 + 4 :]
    assert body[:2] == len(ulpdu).to_bytes(2, "big")
    assert body[2:] == ulpdu[:header] + (ulpdu[18:] if is_read else b"")
    assert {stag: bytes(buffer.octets) for stag, buffer in rdmap.buffers.items()} == before
    assert rdmap.receive(send(1, b"x")) == []
    assert drain(rdmap) == []


ALLOWED: dict[str, bytes] = {
    "write of the first octet": rdma_write(WRITE, 0x1000, b"x"),
    "write of the last octet": rdma_write(WRITE, 0x1063, b"x"),
    "write up to 2^64": rdma_write(BOTH, LAST - 99, bytes(100)),
    "write of no octet to nowhere": rdma_write(1, LAST, b""),
    "read of all": read_request(READ, 0x1000, 100),
    "read of no octet from nowhere": read_request(1, LAST, 0),
    "atomic in the last word": atomic_request(BOTH, LAST - 7),
    "send in the last buffer": send(4, b"x"),
    "send as long as the buffer": send(1, bytes(1000)),
    "send with reserved bits": bytes((send(1, b"x")[0] | 0x3C, send(1, b"x")[1] | 0x30)) + send(1, b"x")[2:],
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_just_allowed(name: str) -> None:
    rdmap = prepared()
    rdmap.receive(ALLOWED[name])
    assert not rdmap.is_ended


def test_as_many_requests_as_ird_wait_and_no_more() -> None:
    rdmap = prepared()
    for msn in (1, 2):
        rdmap.receive(read_request(READ, 0x1000, 100, msn))
    with pytest.raises(RDMAPError, match="no buffer available"):
        rdmap.receive(read_request(READ, 0x1000, 100, 3))


def test_an_answer_that_was_sent_makes_room_for_another_request() -> None:
    rdmap = prepared()
    for msn in range(1, 50):
        rdmap.receive(read_request(READ, 0x1000, 100, msn))
        assert len(drain(rdmap)) == 1


def test_a_response_stays_within_its_request() -> None:
    for to, size, last in ((0x20, 5, False), (0x1F, 1, False), (0x2A, 1, False), (0x20, 9, True), (0x20, 11, True)):
        rdmap = endpoint()
        sink = rdmap.register(bytearray(100), stag=9, to=0)
        rdmap.read(sink, 10, 1, 0, sink_to=0x20)
        drain(rdmap)
        response = tagged(ulpdus.READ_RESPONSE, 9, to, bytes(size), last=last)
        if (to, size, last) == (0x20, 5, False):
            assert rdmap.receive(response) == []
            continue
        with pytest.raises(RDMAPError):
            rdmap.receive(response)


def test_a_broken_terminate_is_not_answered() -> None:
    rdmap = endpoint()
    with pytest.raises(RDMAPError):
        rdmap.receive(untagged(ulpdus.TERMINATE, 2, 2, terminate_body(0, 2, 6)))
    assert drain(rdmap) == []


def test_a_raw_ulpdu_goes_as_it_is() -> None:
    one = endpoint()
    one.say(Message(RAW, b"\xff\xfe"))
    assert drain(one) == [b"\xff\xfe"]


# --- the catalogue ---

DDP_CASES = [name for name, case in CASES.items() if case.area == "ddp"]


#: What the endpoint says where a case leaves a choice, or where no clause names a code.
OTHERWISE: dict[str, tuple[tuple[int, int, int], str]] = {
    **dict.fromkeys(("ddp-untagged-short", "ddp-tagged-short"), ((0, 2, 7), "it is not acted on")),
    # It may be taken.
    **dict.fromkeys(("mo-too-large", "mo-not-0"), ((1, 2, 4), "TCP brings segments in order: octets are missing")),
    "opcode-changes": ((0, 2, 6), "the first segment tells the kind of a Send"),
    # RFC 5040 §5.2.2: the Data Sink may validate them.
    "read-response-other-stag": ((1, 1, 0), "it compares STags"),
    "read-responses-out-of-order": ((1, 1, 0), "it compares STags"),
    "read-response-other-to": ((1, 1, 1), "it compares TOs"),
    "read-response-too-long": ((1, 1, 1), "it compares TOs"),
    "read-response-too-short": ((0, 2, 7), "it counts octets"),
    # RFC 5041 §7.1: DDP checks MSN before RDMAP sees an answer, and has a buffer for each Request under way.
    **dict.fromkeys(("atomic-response-unasked", "atomic-response-twice"), ((1, 2, 2), "there is no buffer for it")),
    **dict.fromkeys((f"atomic-opcode-{code}" for code in (1, 3, 15)), ((0, 2, 6), "RFC 7306 §5.2.1, §1.1")),
}
#: Cases about the last octets that a TO reaches.
AT_THE_END = ("to-up-to-the-last", "to-wraps", "to-wraps-in-a-message")


def _said(name: str, tmp_path: Path) -> list[tuple[str, bytes]]:
    """Return who sends what in a case."""
    file = io.BytesIO()
    Malformed(name).captured.write(file)
    path = tmp_path / "case.pcap"
    path.write_bytes(file.getvalue())
    with FoundFPDUs(str(path)) as found:
        return [(one.record.direction, one.decoded.ulpdu) for one in found]


def _asks(ulpdu: bytes) -> bool:
    return not ulpdu[0] & 0x80 and ulpdu[1] & 15 in (ulpdus.READ_REQUEST, ulpdus.ATOMIC_REQUEST)


@pytest.mark.parametrize("name", DDP_CASES)
def test_the_catalogue_says_what_becomes_of_a_case(name: str, tmp_path: Path) -> None:
    """The endpoint is the peer of whoever the case is about: it asks, and is told, what is in the case."""
    case, peer = CASES[name], CASES[name].peer
    name = name.removesuffix("-of-the-responder")
    rdmap = endpoint()
    rdmap.register(bytearray(NAMED.length), stag=NAMED.stag, to=NAMED.to)
    # What the cases write to and ask for, where they leave open whether it is there.
    at_end = name in AT_THE_END
    rdmap.register(bytearray(300 if at_end else 8192), stag=1, to=(1 << 64) - 300 if at_end else 0)
    rdmap.register(bytearray(16384), stag=2)
    rdmap.register(bytearray(60), stag=3)
    rdmap.register(bytearray(8), stag=0x1234)
    if name == "atomic-request-alone":
        rdmap.register(bytearray(8), stag=0)
    error = None
    for direction, ulpdu in _said(case.name, tmp_path):
        if direction == case.by:
            try:
                rdmap.receive(ulpdu)
            except RDMAPError as raised:
                error = raised
        elif _asks(ulpdu):
            rdmap.say(Message(ulpdu[1] & 15, ulpdu[18:]))
            assert drain(rdmap) == [ulpdu]
    expected = (peer.layer, peer.etype, peer.code) if peer.reaction == "terminate" else None
    if name in OTHERWISE:
        assert "terminate" in choices(case)
        assert expected != OTHERWISE[name][0], "it does what the case says"
        expected = OTHERWISE[name][0]
    assert (error.reason[:3] if error is not None else None) == expected
    assert rdmap.terminate_sent == expected


# --- hostile ---


@given(st.lists(st.binary(max_size=80), max_size=8))
@settings(max_examples=examples(300))
def test_any_octets_end_the_stream_or_are_taken(octets: list[bytes]) -> None:
    rdmap = prepared()
    for ulpdu in octets:
        try:
            rdmap.receive(ulpdu)
        except RDMAPError:
            assert rdmap.is_ended
    assert len(drain(rdmap)) <= 3


def _opcodes(seed: int) -> bytes:
    """A segment that is nearly right."""
    rng = random.Random(seed)
    opcode = rng.randrange(12)
    size = rng.choice((0, 1, 8, 12, 28, 52, 100))
    if opcode in (0, 2):
        return tagged(opcode, rng.choice((READ, WRITE, BOTH)), 0x1000 + rng.randrange(100), bytes(size))
    queue = rng.choice((0, 0, 1, 2, 3))
    return untagged(opcode, queue, rng.randrange(1, 6), bytes(size), message_offset=rng.choice((0, 0, size)))


@pytest.mark.parametrize("seed", range(300))
def test_segments_that_are_nearly_right(seed: int) -> None:
    rdmap = prepared()
    for number in range(8):
        try:
            rdmap.receive(_opcodes(1000 * seed + number))
        except RDMAPError:
            break
    assert len(drain(rdmap)) <= 10


def _endless(kind: str) -> Callable[[int], bytes]:
    """A peer that never ends its messages."""
    if kind == "sends without L":
        return lambda number: send(1 + number % 4, bytes(900), last=False)
    if kind == "writes without L":
        return lambda number: rdma_write(WRITE, 0x1000, bytes(100), last=False)
    return lambda number: send(number + 1, bytes(900))


@pytest.mark.parametrize("kind", ["sends without L", "writes without L", "sends"])
def test_memory_is_bounded(kind: str) -> None:
    rdmap, made = prepared(), _endless(kind)
    for number in range(50):
        rdmap.receive(made(number))
    tracemalloc.start()
    try:
        for number in range(50, 2000):
            rdmap.receive(made(number))
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


def test_a_flood_of_read_requests_costs_no_memory() -> None:
    """As many as IRD wait, and none of them holds the octets that it asks for."""
    rdmap = endpoint(ird=8)
    rdmap.register(bytearray(1 << 20), stag=1)
    tracemalloc.start()
    try:
        for msn in range(1, 9):
            rdmap.receive(untagged(ulpdus.READ_REQUEST, 1, msn, read_request_body(1, 0, 1 << 20, 1, 0)))
        assert tracemalloc.get_traced_memory()[1] < 100_000
        with pytest.raises(RDMAPError):
            rdmap.receive(untagged(ulpdus.READ_REQUEST, 1, 9, read_request_body(1, 0, 1 << 20, 1, 0)))
    finally:
        tracemalloc.stop()
