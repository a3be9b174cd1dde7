"""Rules of the Startup Phase over values: each broken once, and not broken."""

from __future__ import annotations

from typing import Any

import pytest

from scapy_mpa.craft.ulpdus import send
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.startup import Kind, startup_frame
from scapy_mpa.receiver.startup import FoundFrame, OtherOctets
from scapy_mpa.receiver.window import Layout
from scapy_mpa.stream.connection import Reset, Retransmissions
from scapy_mpa.stream.copies import Rival
from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.values.startup import PartOfFrame
from scapy_mpa.watches.fpdus import FirstFPDU
from scapy_mpa.watches.gaps import DROPPED
from scapy_mpa.watches.lifecycle import DirectionEnd
from scapy_mpa.watches.startup import (
    PATIENCE,
    StartupFindings,
    StartupPhase,
    StartupSide,
    copies_of_frame,
    garbled_key,
    judge_startup,
    many_unfinished,
    start_not_found,
    startup_events,
)
from tests.watches.values import SECOND, arrival, changed

#: Sequence numbers of the first octets of both sides.
A, B = 1001, 5001
NOW = 100, 100 * SECOND
#: A frame of 20 octets was sent, and acknowledged.
END = DirectionEnd((20, 20 * SECOND), None, (), 0, Retransmissions(), 0, 20, 20, is_in_operation=False)
FIN, PEER_FIN = (20, 30, 30 * SECOND), (20, 31, 31 * SECOND)
PLAIN = Layout(False, True)
ULPDU = send(1, bytes(20))


def found(kind: Kind, frame: int = 4, start: int = 0, ack: int | None = None, **fields: Any) -> FoundFrame:
    """Return a startup frame, and that its sender had received all of the other's before if that came first."""
    startup = startup_frame(kind, **{"c": 1, **fields})
    base, other = (A, B) if kind == "request" else (B, A)
    told = other + (20 if kind == "reply" else 0) if ack is None else ack
    return FoundFrame(startup, start, start + startup.wire_length, frame, frame * SECOND, base + start, told)


REQUEST, REPLY = found("request"), found("reply", 5)


def side(frame: FoundFrame | None = None, *, base: int = A, end: DirectionEnd = END, **values: Any) -> StartupSide:
    return StartupSide(base, end, frame, **values)


def begun(frame: FoundFrame, at: int, ack: int, **values: Any) -> StartupSide:
    """Return a side in Full Operation: offsets count from there, and the first FPDU came with a frame."""
    base, length = frame.end_seq, frame.end - frame.start
    opening = arrival(at, 0, 50, ack=ack)
    fpdu = FirstFPDU(ULPDU, len(ULPDU), 50, (at, at * SECOND), False)
    frame = changed(frame, start=-length, end=0)
    return StartupSide(base, END, frame, **{"opening": opening, "first": fpdu, "fpdus": 1, "layout": PLAIN, **values})


def judged(initiator: StartupSide, responder: StartupSide | None = None, **values: Any) -> StartupFindings:
    return judge_startup(StartupPhase(initiator, side(base=B) if responder is None else responder, **values), NOW)


def told(findings: StartupFindings) -> list[tuple[str, str, int, int, str]]:
    """Return rule, role, frame, offset and detail of each breach."""
    return [(one.rule, role, one.frame, one.offset, one.detail) for role, one in findings.breaches]


def closed(how: str, end: DirectionEnd = END) -> DirectionEnd:
    if how == "FIN":
        return changed(end, fin=FIN)
    reset = Reset(30, 30 * SECOND, 20, "next" if how == "RST" else "outside", 20, None)
    return changed(end, resets=(reset,), reset_count=1)


# --- a part of a frame ---

PART = PartOfFrame(b"MPA ID Req", A, 10, 10 * SECOND)
HEADER = PartOfFrame(startup_frame("request", pd_length=40).encode() + b"data", A, 10, 10 * SECOND)


@pytest.mark.parametrize(
    ("part", "rule", "of"), [(PART, "startup-frame", "20 or more"), (HEADER, "startup-pd-length", 60)]
)
@pytest.mark.parametrize(
    ("mine", "peer", "how", "frame"),
    [
        ("FIN", "", "FIN", 30), ("RST", "", "RST", 30), ("", "FIN", "FIN of the peer", 30), ("", "RST", "RST", 30),
        ("outside", "", "no more for 90.000 s", 100),
    ],
)  # fmt: skip
def test_a_part_of_a_frame(
    part: PartOfFrame, rule: str, of: int | str, mine: str, peer: str, how: str, frame: int
) -> None:
    ends = [closed(one) if one else END for one in (mine, peer)]
    findings = judged(side(part=part, end=ends[0]), side(base=B, end=ends[1]))
    detail = f"{how} after {len(part.octets)} of {of} octets of an MPA Request"
    assert told(findings) == [(rule, "initiator", frame, 0, detail)]


def test_a_part_of_a_frame_to_which_more_may_come() -> None:
    late = PART._replace(time=NOW[1] - PATIENCE + 1)
    assert told(judged(side(part=late))) == []
    assert [rule for rule, *_ in told(judged(side(part=late._replace(time=NOW[1] - PATIENCE))))] == ["startup-frame"]


def test_a_part_of_a_frame_that_is_damaged() -> None:
    """Its receiver dropped it: nothing in it accuses its sender."""
    findings = judged(side(part=HEADER._replace(is_damaged=True), end=closed("FIN")), side(base=B))
    assert told(findings) == [("tcp-checksum", "initiator", 10, 0, DROPPED)]


@pytest.mark.parametrize("role", ROLES)
def test_a_frame_that_is_damaged(role: Role) -> None:
    """Its receiver dropped it, and took another one: what it says accuses neither side."""
    frames = found("request", 4, pd_length=40), found("reply", 5, ack=A + 20)
    sides, at = [side(frame=frames[0]), side(frame=frames[1], base=B)], ROLES.index(role)
    assert {role for _, role, *_ in told(judged(*sides))} == set(ROLES)
    sides[at] = changed(sides[at], frame=changed(frames[at], is_damaged=True))
    assert told(judged(*sides)) == [("tcp-checksum", role, 4 + at, 0, DROPPED)]


# --- Keys and roles ---


def test_something_else_in_place_of_the_reply() -> None:
    other = OtherOctets(0, 6, 6 * SECOND, b"HTTP/1.1 400 Bad")
    detail = "no MPA Reply: it begins with b'HTTP/1.1 400 Bad'"
    expected = [("startup-key", "responder", 6, 0, detail)]
    assert told(judged(side(REQUEST), unexpected=other)) == expected
    part = PartOfFrame(b"MPA", B + 16, 6, 6 * SECOND)
    with_part = judged(side(REQUEST), side(base=B, part=part, end=closed("FIN")), unexpected=other)
    assert [(rule, role) for rule, role, *_ in told(with_part)] == [("startup-frame", "responder")]


@pytest.mark.parametrize(
    ("first", "second", "role", "what"),
    [
        ("request", "request", "responder", "a second MPA Request: both sides are in the same role"),
        ("reply", "reply", "initiator", "an MPA Reply from the Initiator: both sides are in the same role"),
    ],
)
def test_both_in_the_same_role(first: Kind, second: Kind, role: str, what: str) -> None:
    sides = found(first), found(second, 5)
    findings = judged(side(sides[0]), side(sides[1], base=B))
    assert ("startup-role", role, 4 if role == "initiator" else 5, 0, what) in told(findings)
    assert "startup-unanswered" not in {rule for rule, *_ in told(findings)}


def test_both_in_the_same_role_and_fpdus_follow() -> None:
    other = found("request", 5)
    findings = judged(begun(REQUEST, 7, B + 20), begun(changed(other, seq=B), 8, A + 70), is_accepted=True)
    assert [(rule, role, frame) for rule, role, frame, _, _ in told(findings)] == [
        ("startup-role", "responder", 5), ("startup-not-closed", "initiator", 7),
    ]  # fmt: skip


GARBLED = OtherOctets(0, 4, 4 * SECOND, b"MPA ID Req Framf")
_GARBLED = "no startup frame: it begins with b'MPA ID Req Framf'"
_INVALID = "a Reply to something that is not a Request: its Key is different"


def test_a_garbled_key() -> None:
    assert garbled_key(GARBLED)[:5] == ("startup-key", 0, 4, 4 * SECOND, _GARBLED)
    expected = [("startup-key", "initiator", 4, 0, _GARBLED), ("startup-invalid-answered", "responder", 5, 0, _INVALID)]
    assert told(judged(side(garbled=GARBLED), side(REPLY, base=B))) == expected


def test_a_garbled_request_that_was_accepted() -> None:
    request = changed(REQUEST, key=GARBLED.beginning)
    findings = judged(begun(request, 7, B + 20), begun(REPLY, 8, A + 70), is_accepted=True)
    assert [rule for rule, *_ in told(findings)] == ["startup-key", "startup-invalid-answered"]


def test_a_garbled_reply_that_was_accepted() -> None:
    reply = changed(REPLY, key=b"mpa id rep frame")
    findings = judged(begun(REQUEST, 7, B + 20), begun(reply, 8, A + 70), is_accepted=True)
    assert told(findings) == [
        ("startup-key", "responder", 5, -20, "no MPA Reply: it begins with b'mpa id rep frame'"),
        (
            "startup-not-closed", "initiator", 7, 0,
            "an FPDU from the side that must close: the Reply has a different Key",
        ),
    ]  # fmt: skip


def test_garbled_keys_of_both() -> None:
    findings = judged(side(garbled=GARBLED, layout=PLAIN), side(garbled=GARBLED, base=B, layout=PLAIN))
    assert [(rule, role) for rule, role, *_ in told(findings)] == [
        ("startup-key", "initiator"), ("startup-key", "responder"),
    ]  # fmt: skip


# --- their order ---


@pytest.mark.parametrize(
    ("request_ack", "reply_ack", "rules"),
    [
        (B, A + 20, []),
        (B, A, [("startup-reply-first", "responder", "the Reply acknowledges 0 of the 24 octets of the Request")]),
        (
            B + 20, A + 22,
            [
                ("startup-reply-first", "responder", "the Reply acknowledges 22 of the 24 octets of the Request"),
                (
                    "startup-pd-length", "initiator",
                    "PD_Length 4: the last octets of the Request's Private Data were sent after the Reply",
                ),
            ],
        ),
        (B, None, []),
    ],
)  # fmt: skip
def test_what_the_reply_acknowledges(
    request_ack: int, reply_ack: int | None, rules: list[tuple[str, str, str]]
) -> None:
    request = changed(found("request", private_data=b"four" if rules else b""), ack=request_ack)
    findings = judged(side(request), side(changed(REPLY, ack=reply_ack), base=B))
    assert [(rule, role, detail) for rule, role, _, _, detail in told(findings)] == rules


def test_octets_between_request_and_reply() -> None:
    reply = found("reply", 6, 8)
    octets = OtherOctets(0, 5, 5 * SECOND, b"wait")
    findings = told(judged(side(REQUEST), side(reply, base=B), unexpected=octets))
    detail = "8 octets between the Request and the Reply"
    assert findings == [("startup-octets-before-reply", "responder", 5, 0, detail)]
    detail = "8 octets of the Responder were in flight when the Initiator sent its Request"
    findings = told(judged(side(REQUEST), side(reply, base=B)))
    assert findings == [("startup-stream-data", "responder", 6, 8, detail)]


def test_streaming_data_of_the_initiator_under_way() -> None:
    findings = told(judged(side(changed(REQUEST, under_way=16)), side(REPLY, base=B)))
    detail = "16 octets were not acknowledged when the Request was sent"
    assert findings == [("startup-stream-data", "initiator", 4, 0, detail)]


@pytest.mark.parametrize(
    ("ack", "answered", "detail"),
    [
        (A, 0, "the Reply acknowledges no octet, so there was no Request"),
        (A + 30, 30, "the Reply acknowledges 30 octets, and there is no Request in them"),
        (A + 30, 0, None),
    ],
)
def test_a_reply_alone(ack: int, answered: int, detail: str | None) -> None:
    findings = told(judged(side(), side(found("reply", 5, ack=ack), base=B), answered_octets=answered))
    assert findings == ([("startup-reply-first", "responder", 5, 0, detail)] if detail else [])


# --- what follows a Request alone ---

FPDU = encode_fpdu(ULPDU)


@pytest.mark.parametrize(
    ("start", "octets", "ack", "rule", "detail"),
    [
        (
            0, bytes(36), B, "startup-pd-length",
            "PD_Length 0, but 36 more octets, which are not an FPDU, in the same segment",
        ),
        (0, FPDU, B, "startup-fpdu-before-reply", "octets after the Request, before a Reply was received"),
        (20, bytes(36), B, "startup-fpdu-before-reply", "octets after the Request, before a Reply was received"),
        (20, FPDU, B + 20, None, None),
    ],
)  # fmt: skip
def test_octets_after_the_request(start: int, octets: bytes, ack: int, rule: str | None, detail: str | None) -> None:
    opening = arrival(6, start, 20 + len(octets), ack=ack)
    initiator = side(REQUEST, opening=opening, first_octets=octets[:20], end=changed(END, acknowledged=None))
    findings = [(rule, role, detail) for rule, role, _, _, detail in told(judged(initiator))]
    assert findings == ([(rule, "initiator", detail)] if rule else [])


@pytest.mark.parametrize(
    ("responder", "initiator", "frame", "how"),
    [
        ("FIN", "", 30, "FIN after 26.000 s"), ("RST", "", 30, "RST after 26.000 s"),
        ("", "FIN", 30, "FIN after 26.000 s"), ("", "", 100, "no answer after 96.000 s"),
    ],
)  # fmt: skip
def test_a_request_that_is_not_answered(responder: str, initiator: str, frame: int, how: str) -> None:
    mine, peer = (closed(one) if one else END for one in (initiator, responder))
    findings = judged(side(REQUEST, end=mine), side(base=B, end=peer))
    assert told(findings) == [("startup-unanswered", "responder", frame, 0, f"{how}, and no Reply")]


@pytest.mark.parametrize(
    "request_side",
    [
        side(changed(REQUEST, time=NOW[1] - PATIENCE + 1)), side(REQUEST, end=changed(END, acknowledged=None)),
        side(REQUEST, end=changed(END, acknowledged=19)),
    ],
)  # fmt: skip
def test_a_request_to_which_an_answer_may_come(request_side: StartupSide) -> None:
    assert told(judged(request_side)) == []


@pytest.mark.parametrize(("how", "is_open"), [("", True), ("FIN", False), ("RST", False), ("outside", True)])
def test_an_invalid_request_and_no_close(how: str, is_open: bool) -> None:
    request = found("request", private_data=bytes(600))
    end = changed(END, acknowledged=620)
    findings = told(judged(side(request, end=end), side(base=B, end=closed(how) if how else END)))
    open_for = "not closed 96 s later: PD_Length 600 is above 512"
    late = [("startup-not-closed", "responder", 100, 0, open_for)] if is_open else []
    assert findings == [("startup-private-data-limit", "initiator", 4, 0, "PD_Length 600 is above 512"), *late]


# --- the first octets of Full Operation ---


def test_nothing_is_wrong() -> None:
    assert told(judged(begun(REQUEST, 7, B + 20), begun(REPLY, 8, A + 70))) == []
    assert judged(begun(REQUEST, 7, B + 20), begun(REPLY, 8, A + 70)).judgement is not None


@pytest.mark.parametrize("ack", [B, B + 19])
def test_an_fpdu_before_the_reply(ack: int) -> None:
    detail = "an FPDU after the Request, before the Reply was received"
    findings = judged(begun(REQUEST, 7, ack), begun(REPLY, 8, A + 70))
    assert told(findings) == [("startup-fpdu-before-reply", "initiator", 7, 0, detail)]


def test_a_second_frame_in_place_of_the_first_fpdu() -> None:
    again = {kind: startup_frame(kind).encode() for kind in ("request", "reply")}
    findings = judged(begun(REQUEST, 7, B, first_octets=again["request"]), begun(REPLY, 8, A + 70))
    detail = "a second Request before the Reply was received"
    assert told(findings) == [("startup-fpdu-before-reply", "initiator", 7, 0, detail)]
    findings = judged(begun(REQUEST, 7, B + 20), begun(REPLY, 6, A + 20, first_octets=again["reply"]))
    detail = "a second Reply before the first FPDU of the Initiator, which came at frame 7"
    assert told(findings) == [("startup-responder-first", "responder", 6, 0, detail)]


def test_when_the_first_fpdu_was_sent() -> None:
    """Not when it was known to be one, behind both startup frames."""
    known = FirstFPDU(ULPDU, len(ULPDU), 50, (8, 8 * SECOND), False)
    startup = StartupPhase(begun(REQUEST, 7, B, first=known), begun(REPLY, 8, A + 70))
    sent = [(one.frame, one.time) for one in startup_events(startup) if one.what == "first FPDU"]
    assert sent == [(7, 7 * SECOND), (8, 8 * SECOND)]


@pytest.mark.parametrize(
    ("initiator_first", "ack", "is_told"), [(True, A + 20, True), (True, A + 70, False), (False, A + 20, False)]
)
def test_the_responders_fpdu_before_the_initiators(initiator_first: bool, ack: int, is_told: bool) -> None:
    detail = "an FPDU before the first FPDU of the Initiator, which came at frame 7"
    findings = judged(begun(REQUEST, 7, B + 20), begun(REPLY, 6, ack), initiator_first=initiator_first)
    assert told(findings) == ([("startup-responder-first", "responder", 6, 0, detail)] if is_told else [])


@pytest.mark.parametrize("role", ["initiator", "responder"])
@pytest.mark.parametrize(("count", "is_forgotten"), [(0, True), (1, False)])
def test_private_data_that_is_not_counted(role: Role, count: int, is_forgotten: bool) -> None:
    """They are no FPDU that was lost, nor does their receiver break off, unless there are FPDUs besides."""
    other = {"first": None, "fpdus": count, "first_octets": bytes(36)}
    if role == "initiator":
        findings = judged(begun(REQUEST, 7, 0, opening=arrival(6, -20, 36, ack=B), **other), begun(REPLY, 8, A + 70))
    else:
        second = begun(REPLY, 8, 0, opening=arrival(6, -20, 36, ack=A + 20), **other)
        findings = judged(begun(REQUEST, 7, B + 20), second)
    detail = "PD_Length 0, but 36 more octets, which are not an FPDU, in the same segment"
    assert told(findings) == [("startup-pd-length", role, 6, -20, detail)]
    of_sender = {"connection-lost", "fpdu-format", "marker-first", "marker-length"}
    forgotten = [(role, of_sender), (peer_of(role), {"error-closed"})] if is_forgotten else []
    assert [(by, set(rules)) for by, rules in findings.forgotten] == forgotten


def test_the_initiator_takes_a_part_of_the_reply_for_all_of_it() -> None:
    reply = found("reply", 9, private_data=bytes(12), ack=A + 70)
    findings = judged(begun(REQUEST, 7, B + 24), begun(reply, 10, A + 70))
    detail = "PD_Length 12: the last octets of its Private Data were sent after an FPDU"
    assert told(findings) == [("startup-pd-length", "responder", 9, -32, detail)]


def test_what_the_first_fpdu_shows_is_dated_by_it() -> None:
    other = FirstFPDU(bytes((0x40, 0x03)) + ULPDU[2:], len(ULPDU), 50, (8, 8 * SECOND), False)
    findings = judged(begun(REQUEST, 7, B + 20), begun(REPLY, 8, A + 70, first=other))
    assert [(rule, role, frame, offset) for rule, role, frame, offset, _ in told(findings)] == [
        ("rnic-version", "responder", 8, 0), ("rnic-version-mixed", "responder", 8, 0),
    ]  # fmt: skip


def test_fpdus_after_a_rejection() -> None:
    reply = found("reply", 5, r=1)
    sides = side(REQUEST, after_rejection=(7, 7 * SECOND)), side(reply, base=B, after_rejection=(8, 8 * SECOND))
    detail = "an FPDU after a Reply with R"
    assert told(judged(*sides, rejected=True)) == [
        ("startup-fpdu-after-rejection", "initiator", 7, 20, detail),
        ("startup-fpdu-after-rejection", "responder", 8, 20, detail),
    ]


# --- copies, addresses, assumptions ---


@pytest.mark.parametrize(
    ("decided_by", "detail"),
    [
        ("first", "a startup frame differs from its copy in frame 4; the first copy is kept"),
        (
            "acknowledged",
            "octets of a startup frame differ from those in frame 4: this copy came after the peer's answer",
        ),
    ],
)
def test_copies_of_a_frame(decided_by: str, detail: str) -> None:
    octets = startup_frame("request", m=1).encode()
    rival = Rival(0, 20, (4, 4 * SECOND), (9, 9 * SECOND), DropReason.NONE, 16, decided_by, octets, True)
    after = rival._replace(start=20, end=40, differs_at=20)
    breaches = list(copies_of_frame([rival, after], REQUEST))
    assert [(one.rule, one.offset, one.frame, one.detail) for one in breaches] == [("overlap", 0, 9, detail)]


def test_many_connections_with_a_part_of_a_request() -> None:
    assert many_unfinished({}) is None
    parts = {
        "10.0.0.1": [PART._replace(frame=frame) for frame in range(30, 50)],
        "10.0.0.2": [PART._replace(frame=frame) for frame in range(10, 28)],
    }
    found = many_unfinished(parts)
    assert found is not None
    assert (found.first.frame, found.last_frame, found.connections) == (10, 49, 38)
    assert (
        found.detail == "20 connections from 10.0.0.1, each with only part of a Request; 18 from 1 other such addresses"
    )


def test_a_start_that_was_not_found() -> None:
    assert start_not_found(7) == "no half connection without startup frames has the sequence number 7 (start=7)"
