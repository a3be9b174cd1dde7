"""RDMAP messages and what they have to do with each other: each rule broken by one side, and kept by its twin."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scapy_mpa import analyze
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.tcppacket import octets_of
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.craft.ulpdus import (
    ATOMIC_REQUEST,
    ATOMIC_RESPONSE,
    CMP_SWAP,
    FETCH_ADD,
    IMMEDIATE,
    IMMEDIATE_SE,
    READ_REQUEST,
    READ_RESPONSE,
    SEND_INVALIDATE,
    SEND_SE,
    SEND_SE_INVALIDATE,
    TERMINATE,
    atomic_request_body,
    atomic_response_body,
    rdma_write,
    read_request_body,
    send,
    tagged,
    terminate_body,
    untagged,
)
from scapy_mpa.framing.role import ROLES
from scapy_mpa.rules.rdmap import RDMAP_RULES
from tests.craft.test_truth import conversations
from tests.receive.cases import Side, Talk, feed, renumbered
from tests.rules.talks import HOWS, How, begun, findings, put, told
from tests.sampling import examples

#: Who sends which ULPDU, in this order.
Events = tuple[tuple[Side, bytes], ...]

JUDGED = {*(rule.id for rule in RDMAP_RULES), "ddp-unfinished", "ddp-to-wraps", "ddp-msn", "ddp-mo", "ddp-last"}


def read(msn: int, stag: int = 1, size: int = 100, to: int = 4096) -> tuple[Side, bytes]:
    return "a", untagged(READ_REQUEST, 1, msn, read_request_body(stag, to, size, 2, 8192))


def read_in_c(msn: int) -> tuple[Side, bytes]:
    """A Read Request as C lays it out in a host: 32 octets, the lowest ones first."""
    parts = (1, 4, 4), (4096, 8, 8), (100, 4, 4), (2, 4, 4), (8192, 8, 8)
    body = b"".join(value.to_bytes(size, "little") + bytes(4 * (at == 0)) for at, (value, size, _) in enumerate(parts))
    return "a", untagged(READ_REQUEST, 1, msn, body)


def answer(stag: int = 1, size: int = 100, to: int = 4096) -> tuple[Side, bytes]:
    return "b", tagged(READ_RESPONSE, stag, to, bytes(size))


def answer_part(stag: int, size: int, to: int, *, last: bool) -> tuple[Side, bytes]:
    return "b", tagged(READ_RESPONSE, stag, to, bytes(size), last=last)


def atomic(msn: int, request_id: int, to: int = 8192, operation: int = FETCH_ADD) -> tuple[Side, bytes]:
    return "a", untagged(ATOMIC_REQUEST, 1, msn, atomic_request_body(operation, request_id, 2, to, 1, 0, 0, 0))


def atomic_answer(msn: int, request_id: int) -> tuple[Side, bytes]:
    return "b", untagged(ATOMIC_RESPONSE, 3, msn, atomic_response_body(request_id, 5))


def invalidate(msn: int, stag: int) -> tuple[Side, bytes]:
    return "a", untagged(SEND_INVALIDATE, 0, msn, b"done", invalidate=stag)


def immediate(opcode: int, size: int) -> tuple[Side, bytes]:
    return "a", untagged(opcode, 0, 2, bytes(size))


def part(opcode: int, at: int, *, stag: int = 0, last: bool) -> tuple[Side, bytes]:
    """A segment of a Send, which begins at an offset of it."""
    return "a", untagged(opcode, 0, 2, bytes(200), invalidate=stag, message_offset=at, last=last)


def write(stag: int, to: int, size: int, *, last: bool = True) -> tuple[Side, bytes]:
    return "a", rdma_write(stag, to, bytes(size), last=last)


SAID: tuple[Side, bytes] = ("b", send(2, b"something else"))
END = 1 << 64

# (rule, who breaks it, what is said, what is said where nobody breaks it); a Send of each side, MSN 1, went before.
CASES: tuple[tuple[str, str, Events, Events], ...] = (
    ("read-response-unasked", "responder", (answer(),), (read(1), answer())),
    ("read-response-unasked", "responder", (read(1), answer(), answer()), (read(1), answer(), read(2), answer())),
    ("read-response-unasked", "responder", (answer(), read(1), answer()), (read(1), answer())),
    (
        "read-response-unasked",
        "responder",
        (read(1), read(2, 3), answer(), answer(), answer(3)),
        (read(1), read(2), read(3, 3), answer(), answer(), answer(3)),
    ),
    ("read-response-differs", "responder", (read(1), answer(7)), (read(1), answer())),
    ("read-response-differs", "responder", (read(1), answer(to=4097)), (read(1, to=4097), answer(to=4097))),
    ("read-response-differs", "responder", (read(1), answer(size=110)), (read(1, size=110), answer(size=110))),
    ("read-response-differs", "responder", (read(1), answer(size=0)), (read(1, 9, 0, 9), answer(size=0))),
    (
        "read-response-differs",
        "responder",
        (read(1), read(2, 3), answer(3), answer()),
        (read(1), read(2, 3), answer(), answer(3)),
    ),
    (
        "read-response-differs",
        "responder",
        (read(1, size=300), answer_part(1, 200, 4096, last=False), answer_part(1, 101, 4296, last=True)),
        (read(1, size=300), answer_part(1, 200, 4096, last=False), answer_part(1, 100, 4296, last=True)),
    ),
    (
        "ddp-last",
        "responder",
        (read(1, size=300), answer_part(1, 200, 4096, last=False), answer_part(1, 100, 4297, last=True)),
        (read(1, size=300), answer_part(1, 200, 4096, last=False), answer_part(1, 100, 4296, last=True)),
    ),
    # Nothing is said of a Request that is read by guessing.
    ("read-response-differs", "responder", (read(1), read_in_c(2), answer(2), answer()), (read_in_c(1), answer(2))),
    ("request-unanswered", "responder", (read(1), SAID), (read(1), answer(), SAID)),
    ("request-unanswered", "responder", (read(1), read(2, 3), answer(), SAID), (read(1), read(2, 3), answer())),
    ("request-unanswered", "responder", (atomic(1, 7), SAID), (atomic(1, 7), atomic_answer(1, 7), SAID)),
    # The requester closes without waiting.
    ("request-unanswered", "responder", (read(1), SAID), (SAID, read(1))),
    ("request-unanswered", "responder", (read(1), SAID), (read(1),)),
    ("atomic-response", "responder", (atomic(1, 7), atomic_answer(1, 8)), (atomic(1, 8), atomic_answer(1, 8))),
    ("atomic-response", "responder", (atomic_answer(1, 8),), (atomic(1, 8), atomic_answer(1, 8))),
    (
        "atomic-response",
        "responder",
        (atomic(1, 7), atomic(2, 8), atomic_answer(1, 8), atomic_answer(2, 7)),
        (atomic(1, 7), atomic(2, 8), atomic_answer(1, 7), atomic_answer(2, 8)),
    ),
    # Reads and Atomics are answered in an order each.
    (
        "atomic-response",
        "responder",
        (read(1), atomic(2, 8), atomic_answer(1, 8), atomic_answer(2, 8), answer()),
        (read(1), atomic(2, 8), atomic_answer(1, 8), answer()),
    ),
    (
        "atomic-alignment",
        "initiator",
        (atomic(1, 7, 0x34), atomic_answer(1, 7)),
        (atomic(1, 7, 0x38), atomic_answer(1, 7)),
    ),
    *(
        (
            "atomic-opcode",
            "initiator",
            (atomic(1, 7, operation=operation), atomic_answer(1, 7)),
            (atomic(1, 7, operation=CMP_SWAP), atomic_answer(1, 7)),
        )
        for operation in (1, 3)
    ),
    ("immediate-length", "initiator", (immediate(IMMEDIATE, 7),), (immediate(IMMEDIATE, 8),)),
    ("immediate-length", "initiator", (immediate(IMMEDIATE_SE, 9),), (immediate(IMMEDIATE_SE, 8),)),
    (
        "rdmap-message-changes",
        "initiator",
        (part(3, 0, last=False), part(SEND_SE, 200, last=True)),
        (part(SEND_SE, 0, last=False), part(SEND_SE, 200, last=True)),
    ),
    (
        "rdmap-message-changes",
        "initiator",
        (part(SEND_SE_INVALIDATE, 0, stag=5, last=False), part(SEND_SE_INVALIDATE, 200, stag=6, last=True)),
        (part(SEND_SE_INVALIDATE, 0, stag=5, last=False), part(SEND_SE_INVALIDATE, 200, stag=5, last=True)),
    ),
    (
        "rdmap-message-changes",
        "responder",
        (read(1, size=300), answer_part(1, 200, 4096, last=False), ("b", rdma_write(1, 4296, bytes(100)))),
        (
            read(1, size=300), answer_part(1, 200, 4096, last=False), answer_part(1, 100, 4296, last=True),
            ("b", rdma_write(1, 4396, bytes(100))),
        ),
    ),
    (
        "rdmap-message-changes",
        "responder",
        (
            read(1, size=600), answer_part(1, 200, 4096, last=False),
            ("b", rdma_write(1, 4296, bytes(200), last=False)), ("b", rdma_write(1, 4496, bytes(200))),
            read(2), answer(),
        ),
        (
            read(1, size=600), answer_part(1, 200, 4096, last=False), answer_part(1, 400, 4296, last=True), read(2),
            answer(),
        ),
    ),
    (
        "rdmap-message-changes",
        "responder",
        (("b", rdma_write(1, 4096, bytes(200), last=False)), answer_part(1, 100, 4296, last=True)),
        (("b", rdma_write(1, 4096, bytes(200), last=False)), ("b", rdma_write(1, 4296, bytes(100)))),
    ),
    # Elsewhere it is another message.
    (
        "ddp-unfinished",
        "responder",
        (read(1, size=300), answer_part(1, 200, 4096, last=False), ("b", rdma_write(1, 4297, bytes(100)))),
        (read(1, size=200), answer_part(1, 200, 4096, last=True), ("b", rdma_write(1, 4297, bytes(100)))),
    ),
    (
        "ddp-unfinished",
        "initiator",
        (part(3, 0, last=False),),
        (part(3, 0, last=False), part(3, 200, last=True)),
    ),
    ("ddp-unfinished", "initiator", (write(1, 0, 200, last=False),), (write(1, 0, 200, last=False), write(1, 200, 0))),
    # It closes second, with nothing under way.
    (
        "ddp-unfinished",
        "responder",
        (read(1, size=300), answer_part(1, 200, 4096, last=False), ("a", send(2, b""))),
        (read(1, size=300), answer_part(1, 200, 4096, last=False), answer_part(1, 100, 4296, last=True)),
    ),
    ("ddp-to-wraps", "initiator", (write(1, END - 99, 100),), (write(1, END - 100, 100),)),
    ("ddp-to-wraps", "initiator", (write(1, END - 1, 2),), (write(1, END - 1, 0),)),
    (
        "ddp-to-wraps",
        "initiator",
        (write(1, END - 400, 200, last=False), write(1, END - 200, 201)),
        (write(1, END - 400, 200, last=False), write(1, END - 200, 200)),
    ),
    ("stag-invalidated", "initiator", (invalidate(2, 5), write(5, 0, 40)), (invalidate(2, 5), write(6, 0, 40))),
    ("stag-invalidated", "initiator", (invalidate(2, 5), write(5, 0, 40)), (write(5, 0, 40), invalidate(2, 5))),
    ("stag-invalidated", "initiator", (invalidate(2, 5), write(5, 0, 40)), (invalidate(2, 5), SAID, write(5, 0, 40))),
    ("stag-invalidated", "initiator", (invalidate(2, 5), write(5, 0, 40)), (invalidate(2, 5), write(5, 0, 0))),
)  # fmt: skip


def talk_of(events: Events, how: How = "whole", m: tuple[int, int] = (0, 0), *, closes: bool = True) -> Talk:
    """A connection on which this is said, and acknowledged; the Initiator closes it."""
    talk = begun(m=m)
    for side, ulpdu in events:
        put(talk, side, ulpdu, how=how)
        talk.say(Talk.peer(side))
    return talk.close() if closes else talk


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("m", [(0, 0), (1, 1)])
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number][0]}-{number}")
def test_each_is_told_of_who_breaks_it_and_of_no_other(number: int, m: tuple[int, int], how: How) -> None:
    rule, who, wrong, right = CASES[number]
    left_out = {("rdmap-read-request", "initiator")}
    # An answer that never ends answers nothing.
    more = {("request-unanswered", "responder")} if rule == "ddp-unfinished" and who == "responder" else set()
    found = told(talk_of(wrong, how, m)) - left_out
    assert found - more == {(rule, who)}
    assert told(talk_of(right, how, m)) - left_out == set()


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number][0]}-{number}")
def test_where_octets_are_missing_nobody_is_accused_of_what_they_may_have_held(number: int) -> None:
    """Of each frame that is not captured the findings are a part of those of the whole capture."""
    for events in CASES[number][2:]:
        talk = talk_of(events)
        whole = {one for one in told(talk) if one[0] in JUDGED}
        for lost in range(5, len(talk.segments)):
            rest = renumbered([*talk.segments[:lost], *talk.segments[lost + 1 :]])
            found = {(one.rule.id, one.direction) for one in findings(feed([rest])) if one.rule.id in JUDGED}
            assert found <= whole, lost


@pytest.mark.parametrize(
    ("events", "detail"),
    [
        ((read(1), answer(size=110)), "frame 10 answers the Read of frame 8 with 110 octets of 100 asked for"),
        (
            (read(1), answer(size=99, to=1)),
            "frame 10 answers the Read of frame 8 with 99 octets of 100 asked for, at TO 0x1 instead of 0x1000",
        ),
        ((read(1), answer(), answer()), "frame 12 answers the Read of frame 8, which frame 10 has answered"),
        ((answer(),), "frame 8 answers a Read, but none is outstanding"),
        ((read(1), read(2, 3), answer(3)), "frame 12 answers the Read of frame 10 before that of frame 8"),
        ((atomic(1, 7), atomic_answer(1, 8)), "frame 10 answers the Atomic of frame 8 with Request ID 8 instead of 7"),
        ((atomic_answer(1, 8),), "frame 8 answers an Atomic, but none is outstanding"),
        (
            (invalidate(2, 5), write(5, 0, 40)),
            "frame 10 sends an RDMA Write to STag 0x00000005, which frame 8 invalidated",
        ),
        (
            (part(3, 0, last=False), part(SEND_SE, 200, last=True)),
            "frame 10 continues the Send that frame 8 began as a Send with SE",
        ),
        ((write(1, END - 8, 20),), "20 octets of an RDMA Write from TO 0xfffffffffffffff8 on exceed 2^64"),
        ((immediate(IMMEDIATE, 7),), "Immediate Data of 7 octets"),
    ],
)  # fmt: skip
def test_a_sentence_names_both_frames(events: Events, detail: str) -> None:
    (found,) = findings(feed([talk_of(events, closes=False).segments]))
    assert found.detail == detail


def test_what_is_not_known_to_be_over_is_waited_for() -> None:
    for events in ((read(1), SAID), (part(3, 0, last=False), SAID)):
        assert told(talk_of(events, closes=False)) == set()
        reset = talk_of(events, closes=False)
        reset.say("a", flags=4)
        assert not {rule for rule, _ in told(reset)} & JUDGED


@pytest.mark.parametrize("who", ["a", "b"])
def test_a_terminate_explains_what_is_not_answered_and_not_complete(who: Side) -> None:
    terminate: Events = ((who, untagged(TERMINATE, 2, 1, terminate_body(0, 0, 0))),)
    for events in ((read(1), SAID), (part(3, 0, last=False), SAID)):
        assert not {rule for rule, _ in told(talk_of((*events, *terminate)))} & JUDGED


def test_an_answer_captured_before_its_request() -> None:
    """What a tap of both directions may do; TCP says which came first."""
    talk = talk_of((read(1), answer(), read(2, 3), answer(3), atomic(3, 9), atomic_answer(1, 9)))
    for distance in (1, 2, 3):
        for at in range(6, len(talk.segments) - distance - 2):
            order = [*talk.segments]
            order.insert(at, order.pop(at + distance))
            found = {(one.rule.id, one.direction) for one in findings(feed([renumbered(order)]))}
            assert not {rule for rule, _ in found} & JUDGED


def test_more_requests_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scapy_mpa.watches.outstanding.MOST_OUTSTANDING", 3)
    requests = [read(msn) for msn in range(1, 5)]
    assert told(talk_of((*requests[:3], answer(7), SAID))) >= {("read-response-differs", "responder")}
    assert told(talk_of((*requests, answer(7), SAID))) == set()


# --- conversations nobody thought of ---

#: Not what never arrives: a Response to a Request that its sender never got is one that nobody asked for.
IMPAIRMENTS = ["reorder:probability=0.3", "duplicate", "lose", "lose:resegment=true"]
IMPAIRMENTS += ["retransmit", "fragment", "capture-loss", "capture-loss:probability=0.2", "jitter", "snap:length=90"]
IMPAIRMENTS += ["cut:count=7", "corrupt:repaired=true,probability=0.1", "corrupt"]


@st.composite
def talking(draw: st.DrawFn) -> Conversation:
    """A conforming conversation with Reads, Atomics, Immediate Data and Sends that invalidate."""
    made = draw(conversations())
    for _ in range(draw(st.integers(0, 12))):
        role = draw(st.sampled_from(ROLES))
        what = draw(st.sampled_from(["read", "read", "atomic", "invalidate", "immediate", "write"]))
        if what == "atomic":
            made.atomic(role, "fetch-add", data=1, value=2)
        elif what == "invalidate":
            made.send(role, 30, invalidate=draw(st.integers(1, 3)))
        elif what == "immediate":
            made.immediate(role, bytes(8))
        elif what == "write":
            made.write(role, draw(st.integers(0, 3000)), stag=draw(st.integers(10, 12)))
        else:
            made.read(role, draw(st.sampled_from([0, 1, 100, 3000])))
    return made


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(
    talking(), st.lists(st.sampled_from(IMPAIRMENTS), max_size=3), st.integers(0, 8),
    st.randoms(use_true_random=False), st.booleans(),
)  # fmt: skip
def test_nobody_who_conforms_is_accused(
    made: Conversation, impairments: list[str], disorder: int, rng: random.Random, records: bool
) -> None:
    packets = list(Traffic([made], impairments, seed=made.setup.seed).packets())
    # Taps of two directions whose clocks differ.
    order = sorted(range(len(packets)), key=lambda at: at + rng.random() * disorder)
    file = io.BytesIO()
    PcapWriter(file).write([(packets[at].time, octets_of(packets[at])) for at in order])
    file.seek(0)
    # What a middlebox damages, and then repairs, is of its sender as far as octets show.
    if not (any("corrupt:repaired" in one for one in impairments) and not made.setup.crc):
        assert not {found.rule.id for found in analyze(file, fpdus=records).all_findings()} & JUDGED
