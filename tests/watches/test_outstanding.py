"""Which Response answers which Request, whatever was read first."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scapy_mpa.craft.ulpdus import READ_REQUEST, READ_RESPONSE, read_request_body, send, tagged, untagged
from scapy_mpa.receiver.values import Breach
from scapy_mpa.watches.ddp import MOST_RELATED, DDPWatch, Request, Response, ulpdu_of
from scapy_mpa.watches.outstanding import Outstanding
from tests.watches.values import fpdus

FIRST_LENGTH = 52  # of the FPDU of a Read Request


def request(msn: int, stag: int = 1, size: int = 100) -> bytes:
    return untagged(READ_REQUEST, 1, msn, read_request_body(stag, 0, size, 2, 0))


def response(stag: int = 1, size: int = 100) -> bytes:
    return tagged(READ_RESPONSE, stag, 0, bytes(size))


def passed(ulpdus: Sequence[bytes], frame: int) -> tuple[DDPWatch, list[Request | Response]]:
    watch = DDPWatch(True)
    for one in fpdus(ulpdus, frame=frame):
        assert watch.passed(one, ulpdu_of(one)) == ()
    return watch, [one for one in watch.related if isinstance(one, Request | Response)]


def judged(
    requests: Sequence[bytes], answers: Sequence[bytes], acknowledged: int, *, first: str = "requests", frame: int = 1
) -> list[Breach]:
    """Hand out Requests, of frames from ``frame`` on, and answers, of frames from 5 on."""
    requester, asked = passed(requests, frame)
    responder, answered = passed(answers, 5)
    outstanding = Outstanding(requester, responder, True)
    found: list[Breach] = []
    for kind in ("requests", "answers") if first == "requests" else ("answers", "requests"):
        for one in asked if kind == "requests" else answered:
            if isinstance(one, Request):
                outstanding.requested(one)
            else:
                outstanding.answered(one, acknowledged)
        found += outstanding.judge()
    return [*found, *outstanding.finish()]


def test_an_answer_waits_until_its_request_is_read() -> None:
    requester, asked = passed([], 1)[0], passed([request(1)], 1)[1]
    responder, answered = passed([response()], 5)
    outstanding = Outstanding(requester, responder, True)
    (one,), (answer,) = asked, answered
    assert isinstance(one, Request) and isinstance(answer, Response)
    outstanding.answered(answer, FIRST_LENGTH)
    assert outstanding.judge() == []
    outstanding.requested(one)
    assert outstanding.judge() == []
    assert outstanding.judge() == ()


@pytest.mark.parametrize(("acknowledged", "frame", "rules"), [
    (FIRST_LENGTH, 1, []),
    # Its sender had not got the Request, and it came later.
    (0, 9, ["read-response-unasked"]),
    # It is the order of the capture, or of the acknowledgements, that is wrong.
    (FIRST_LENGTH, 9, []),
    (0, 1, []),
])  # fmt: skip
def test_a_request_that_its_sender_had_not_got(acknowledged: int, frame: int, rules: list[str]) -> None:
    assert [one.rule for one in judged([request(1)], [response()], acknowledged, frame=frame)] == rules


@pytest.mark.parametrize("acknowledged", [0, FIRST_LENGTH])
@pytest.mark.parametrize(
    ("sizes", "answered", "rules"),
    [
        ((0,), (0,), []),
        ((0,), (64,), ["read-response-differs"]),
        ((0,), (0, 0), ["read-response-unasked"]),
        ((0, 100), (100,), []),
        ((0, 100), (0, 100), []),
        ((0, 100), (64,), ["read-response-differs"]),
        ((100, 0), (100, 64), ["read-response-differs"]),
    ],
)
def test_a_first_read_of_no_octets(
    sizes: Sequence[int], answered: Sequence[int], rules: list[str], acknowledged: int
) -> None:
    """Nobody has to answer it (RFC 6581 §9.2), but who does so does it rightly."""
    asked = [request(msn, size=size) for msn, size in enumerate(sizes, 1)]
    found = judged(asked, [response(size=size) for size in answered], acknowledged)
    assert [one.rule for one in found] == rules


def test_losses_of_either_direction_end_it() -> None:
    for of_requester in (True, False):
        requester, asked = passed([request(1)], 1)
        responder, answered = passed([response(9)], 5)
        outstanding = Outstanding(requester, responder, True)
        (one,), (answer,) = asked, answered
        assert isinstance(one, Request) and isinstance(answer, Response)
        outstanding.requested(one)
        gap = fpdus([send(1, b"")], offset=1 << 20)[0]
        (requester if of_requester else responder).passed(gap, ulpdu_of(gap))
        outstanding.answered(answer, FIRST_LENGTH)
        assert outstanding.judge() == () and not outstanding.is_known
        assert outstanding.unanswered((responder.end, 9, 9), 10, lambda _: 1) == ()


def test_what_began_before_the_capture_is_not_judged() -> None:
    outstanding = Outstanding(DDPWatch(False), DDPWatch(False), False)
    answer = passed([response()], 5)[1][0]
    assert isinstance(answer, Response)
    outstanding.answered(answer, 0)
    assert outstanding.judge() == ()


def test_messages_that_nobody_takes_are_bounded() -> None:
    watch, _ = passed([request(msn) for msn in range(1, MOST_RELATED + 9)], 1)
    assert len(watch.related) == MOST_RELATED


@pytest.mark.parametrize(
    ("asker_closed", "acknowledged", "said", "is_reported"),
    [
        (20, 2, 0, True),  # the responder closed first
        (20, 12, 0, False),  # and had not got it
        (8, 2, 0, False),  # the requester did not wait
        (8, 2, 6, True),  # the responder said something else
        (8, 7, 6, False),  # before it got it
        (8, 2, 9, False),  # after the requester had closed
    ],
)
def test_a_request_is_never_answered(asker_closed: int, acknowledged: int, said: int, is_reported: bool) -> None:
    requester, (one,) = passed([request(1)], 1)
    responder, _ = passed([send(1, b"")] if said else [], said)
    outstanding = Outstanding(requester, responder, True)
    assert isinstance(one, Request)
    outstanding.requested(one)
    found = outstanding.unanswered((responder.end, 10, 10), asker_closed, lambda _: acknowledged)
    assert [breach.rule for breach in found] == ["request-unanswered"] * is_reported
    assert outstanding.unanswered((responder.end + 4, 10, 10), asker_closed, lambda _: acknowledged) == ()
