"""RDMA Reads under way against ORD, whichever FPDUs the receiver hands out first; answers after an error."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scapy_mpa.craft.ulpdus import READ_REQUEST, READ_RESPONSE, read_request_body, send, tagged, untagged
from scapy_mpa.receiver.values import Breach
from scapy_mpa.receiver.window import Layout
from scapy_mpa.watches.fpdus import FPDUWatch
from scapy_mpa.watches.reads import ReadWatch
from tests.watches.values import altered, fpdus


def request(msn: int) -> bytes:
    return untagged(READ_REQUEST, 1, msn, read_request_body(1, 4096, 100, 2, 8192))


ANSWER = tagged(READ_RESPONSE, 1, 4096, bytes(100))


def reading(depth: int, events: Sequence[tuple[str, int]], has_hole: bool = False) -> list[Breach]:
    """Hand out Requests ("?") and answers ("!") of these frames in this order; return what the requester breaks."""
    requester, responder = FPDUWatch(Layout(False, True), True), FPDUWatch(Layout(False, True), True)
    watch = ReadWatch(requester, responder, depth)
    requests = iter(fpdus([request(msn) for msn in range(1, 9)]))
    answers = iter(fpdus([ANSWER] * 9))
    found: list[Breach] = []
    for kind, frame in events:
        fpdu = next(requests if kind == "?" else answers).replace(frames=(frame,), known=(frame, frame))
        assert (requester if kind == "?" else responder).passed(fpdu) == ()
        found += watch.requested(fpdu, has_hole) if kind == "?" else watch.answered(fpdu)
    return [*found, *watch.finish()]


@pytest.mark.parametrize(
    ("depth", "events", "frames"),
    [
        (1, [("?", 1), ("?", 2)], [2]),
        (2, [("?", 1), ("?", 2)], []),
        (1, [("?", 1), ("!", 2), ("?", 3), ("!", 4), ("?", 5)], []),
        # The answer of frame 2 is handed out late.
        (1, [("?", 1), ("?", 3), ("!", 2)], []),
        (1, [("?", 1), ("?", 3), ("!", 4), ("?", 5)], [3, 5]),
        (1, [("?", 1), ("?", 2), ("?", 3)], [2, 3]),
    ],
)
def test_more_reads_than_the_peer_has_room_for(depth: int, events: list[tuple[str, int]], frames: list[int]) -> None:
    found = reading(depth, events)
    assert [one.frame for one in found] == frames
    if frames:
        assert found[0].detail == f"2 RDMA Reads outstanding, with an ORD of {depth}"
    assert reading(depth, events, has_hole=True) == []


def test_requests_that_nobody_answers_are_reported_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scapy_mpa.watches.reads.MOST_DOUBTFUL", 2)
    requester = FPDUWatch(Layout(False, True), True)
    watch = ReadWatch(requester, FPDUWatch(Layout(False, True), True), 1)
    found = []
    for fpdu in fpdus([request(msn) for msn in range(1, 5)]):
        requester.passed(fpdu)
        found.append([one.frame for one in watch.requested(fpdu, False)])
    assert found == [[], [], [], [2]]
    assert [one.frame for one in watch.finish()] == [3, 4]


@pytest.mark.parametrize("answers", [1, 2])
def test_an_answer_to_a_request_that_came_after_an_error(answers: int) -> None:
    requester, responder = FPDUWatch(Layout(False, True), True), FPDUWatch(Layout(False, True), True)
    watch = ReadWatch(requester, responder, None)
    first, bad, last = fpdus([request(1), send(1, bytes(9)), request(2)])
    for fpdu in (first, altered(bad, 8, b"\xff", is_bad=True), last):
        requester.passed(fpdu)
        assert not watch.requested(fpdu, False)
    found: list[Breach] = []
    for fpdu in fpdus([ANSWER] * answers, frame=4):
        responder.passed(fpdu)
        found += [*watch.answered(fpdu), *watch.answer_after_error(fpdu)]
    assert [(one.rule, one.frame, one.detail) for one in found] == (
        [] if answers == 1 else [("error-passed", 5, "an answer to a request that came after the error of frame 2")]
    )
