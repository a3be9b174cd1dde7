"""Connections without startup frames: what is inferred, what is told, what is not believed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.analyzer.connection import CapturedConnection
from scapy_mpa.framing.markers import Origin
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.values.assumptions import Assumptions, parse_assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits, parse_limits
from scapy_mpa.values.segment import Segment
from tests.receive.cases import REPLY, Side, Talk, broken, placing, started

SIDES: tuple[Side, ...] = ("a", "b")


def received(segments: list[Segment], **options: Any) -> Analyzer:
    receiver = Analyzer(records=True, **options)
    receiver.feed(segments)
    receiver.finish()
    return receiver


def only(segments: list[Segment], **options: Any) -> CapturedConnection:
    (mpa,) = received(segments, **options).connections
    return mpa


def rows(mpa: CapturedConnection, direction: Role) -> list[tuple[int, int, int]]:
    """Sequence number, wire length and ULPDU_Length of each FPDU."""
    log = mpa.operations[direction].log
    assert log is not None
    return [(row.seq, row[2], row[3]) for row, _ in log.rows()]


def laid(talk: Talk, side: Side, since: int = 0) -> list[tuple[int, int, int]]:
    """The same of the FPDUs that a side sent from an offset on."""
    return [
        ((talk.origin[side] + fpdu.offset) % 2**32, fpdu.wire_length, fpdu.ulpdu_length)
        for fpdu in talk.laid[side]
        if fpdu.offset >= since
    ]


def without_startup(origin: Origin = "first-octet", markers: str = "ab", crc: bool = True) -> Talk:
    """A talk in which Full Operation begins right behind the SYN, as the first draft has it."""
    talk = Talk().open()
    for side in SIDES:
        talk.startup[side] = talk.next[side], talk.next[side]
    talk.operate(markers=markers, crc=crc, origin=origin)
    for _ in range(3):
        for side in SIDES:
            talk.say(side, talk.lay(side, 40, 600))
    return talk.close()


# --- culley-02 ---


@pytest.mark.parametrize("assumptions", [Assumptions(), Assumptions(profile="culley-02")])
def test_full_operation_from_the_first_octet_is_the_first_draft(assumptions: Assumptions) -> None:
    talk = without_startup()
    mpa = only(talk.segments, assumptions=assumptions)
    assert mpa.profile.name == "culley-02"
    assert mpa.inferred
    assert mpa.crc
    for side, direction in zip(SIDES, ROLES, strict=True):
        assert mpa.markers(direction)
        assert rows(mpa, direction) == laid(talk, side)
        log = mpa.operations[direction].log
        assert log is not None
        assert [row[5] >> 2 & 3 for row, _ in log.rows()] == [0, 1, 1, 1, 1, 1]
    assert broken(mpa.findings) == []


def test_told_to_be_the_first_draft_a_single_fpdu_is_enough() -> None:
    talk = Talk().open()
    for side in SIDES:
        talk.startup[side] = talk.next[side], talk.next[side]
    talk.operate(markers="ab", origin="first-octet")
    # Neither DDP nor anything else is in it.
    talk.say("b", talk.lay("b", 3))
    assert received(talk.segments).connections == []
    mpa = only(talk.segments, assumptions=Assumptions(profile="culley-02"))
    assert mpa.keys["initiator"] == talk.keys["b"]
    assert rows(mpa, "initiator") == laid(talk, "b")


def test_startup_frames_behind_a_syn_are_no_fpdus() -> None:
    talk = started(m=(1, 1))
    for side in SIDES:
        talk.say(side, talk.lay(side, 100, 200))
    mpa = only(talk.segments)
    assert mpa.profile.name == "rfc5044"
    assert not mpa.inferred


# --- in the middle ---


def midstream(markers: str, crc: bool, count: int = 6, origin: Origin = "header") -> tuple[Talk, list[Segment]]:
    """A talk, and its segments from the middle on; what the other segments brought is not in ``laid`` any more."""
    talk = started(m=(int("b" in markers), int("a" in markers)), c=(int(crc), 0), origin=origin)
    for side in SIDES:
        talk.say(side, talk.lay(side, 300, 700))
    first = len(talk.segments)
    for side in SIDES:
        talk.laid[side].clear()
    for _ in range(count):
        for side in SIDES:
            talk.say(side, talk.lay(side, 60, 900, 1200, 33))
    return talk, talk.segments[first:]


@pytest.mark.parametrize("markers", ["", "a", "b", "ab"])
@pytest.mark.parametrize("crc", [True, False])
def test_everything_behind_the_cut_is_found(markers: str, crc: bool) -> None:
    talk, segments = midstream(markers, crc)
    mpa = only(segments)
    assert mpa.inferred
    assert mpa.crc is crc
    for side, direction in zip(SIDES, ROLES, strict=True):
        assert mpa.markers(direction) is (side in markers)
        found, sent = rows(mpa, direction), laid(talk, side)
        # The first ones may lie before the first Marker.
        assert found
        assert found == sent[len(sent) - len(found) :]
        assert len(found) >= len(sent) - 1
        inference = mpa.inferences[direction]
        assert inference is not None
        assert 0 < inference.confirmations <= len(sent)
    assert broken(mpa.findings) == []


def test_who_sent_the_first_data_is_called_the_initiator() -> None:
    talk, segments = midstream("", True)
    assert only(segments).keys["initiator"] == talk.keys["a"]
    assert only(segments[1:]).keys["initiator"] == talk.keys["b"]


def test_fpduptr_that_counts_as_the_drafts_have_it_is_the_second_draft() -> None:
    talk = started(m=(1, 1), origin="first-octet")
    for side in SIDES:
        # An FPDU that begins with a Marker and holds another: there the origins differ.
        talk.say(side, talk.lay(side, 502, 1400, 514, 1400))
    mpa = only(talk.segments[5:])
    assert mpa.profile.name == "rddp-01"
    assert broken(mpa.findings) == []


def test_what_was_sent_before_may_come_later() -> None:
    _, segments = midstream("ab", True)
    late = [*segments[2:4], *segments[:2], *segments[4:]]
    renumbered = [seg.replace(frame=n, time=n * 1000) for n, seg in enumerate(late, 1)]
    assert [rows(only(renumbered), d) for d in ("initiator", "responder")] == [
        rows(only(segments), d) for d in ("initiator", "responder")
    ]


def test_a_half_connection_that_says_little_is_followed_when_the_other_says_enough() -> None:
    talk = started(m=(1, 1))
    for side in SIDES:
        talk.say(side, talk.lay(side, 700))
    first = len(talk.segments)
    for _ in range(40):
        talk.say("a", talk.lay("a", 1200, 1200))
    talk.laid["b"].clear()
    talk.say("b", talk.lay("b", 20))
    talk.say("b", talk.lay("b", 1000, 1000))
    mpa = only(talk.segments[first:])
    assert mpa.markers("responder")
    # The first one holds no Marker, and none is before it.
    assert rows(mpa, "responder") == laid(talk, "b")[1:]
    # Until enough was sent to hold a Marker, none is not known to be missing.
    talk = started()
    first = len(talk.segments)
    for _ in range(40):
        talk.say("a", talk.lay("a", 1200, 1200))
        talk.say("b", talk.lay("b", 20))
    mpa = only(talk.segments[first:])
    assert not mpa.markers("responder")
    assert rows(mpa, "responder") == laid(talk, "b")


def test_delivery_counts_from_the_first_fpdu_located() -> None:
    talk, segments = midstream("", True)
    # A hole before the first FPDU that is found is none in the delivered stream.
    mpa = only(segments)
    assert all(operation.counts.undelivered == 0 for operation in mpa.operations.values())
    _, segments = midstream("a", True)
    sent = [seg for seg in segments if seg[2] == talk.keys["a"]]
    lost = [seg for seg in segments if seg is not sent[2]]
    counts = only(lost).operations["initiator"].counts
    assert counts.undelivered > 0
    assert counts.missing_octets == sent[2][10]


@pytest.mark.parametrize("seed", range(40))
def test_random_octets_are_no_fpdus(seed: int) -> None:
    rng = random.Random(seed)
    talk = Talk()
    fill = rng.choice([bytes(1), b"\xff", b"\0\0\0\x08", b"\0\x20\x41\x43", None])
    for _ in range(60):
        side = rng.choice(SIDES)
        size = rng.randrange(1, 1448)
        talk.say(side, rng.randbytes(size) if fill is None or rng.random() < 0.2 else (fill * size)[:size])
    assert received(talk.segments).connections == []


def test_one_fpdu_alone_is_too_little_without_an_untagged_header() -> None:
    talk = started()
    talk.streams["a"].lay([])
    talk.say("a", talk.lay("a", 14))
    assert received(talk.segments[5:]).connections == []


def test_damaged_segments_do_not_hide_what_the_octets_are() -> None:
    """The receiver dropped them, and the sender brought their octets again."""
    talk = started(m=(1, 1))
    first = len(talk.segments)
    octets = talk.lay("a", *[1000] * 12)
    for at in range(talk.laid["a"][0].end + 50, len(octets), 700):
        piece = octets[at : at + 700]
        if at // 700 % 2:
            talk.at("a", at, bytes(octet ^ 0x55 for octet in piece), checksum="wrong")
        talk.at("a", at, piece)
    mpa = only(talk.segments[first:])
    assert rows(mpa, "initiator") == laid(talk, "a")[2:]
    assert {rule for rule, *_ in broken(mpa.findings)} <= {"tcp-checksum"}


# --- told ---


def test_told_where_it_begins_nothing_need_be_inferred() -> None:
    talk = started(m=(0, 0), c=(0, 0))
    for side in SIDES:
        talk.say(side, talk.lay(side, 3, 5, 300))
    segments = talk.segments[5:]
    assert received(segments).connections == []
    told = Assumptions(crc=False, markers="none", start=(talk.origin["a"], talk.origin["b"]))
    mpa = only(segments, assumptions=told)
    assert mpa.inferred
    for side, direction in zip(SIDES, ROLES, strict=True):
        assert rows(mpa, direction) == laid(talk, side)


def test_told_where_it_begins_in_vain_is_said() -> None:
    talk, segments = midstream("", True)
    receiver = received(segments, assumptions=Assumptions(start=(4711,)))
    (found,) = placing(receiver.findings)
    assert (found.rule.id, found.severity, found.seq) == ("assumption", "note", 4711)
    assert len(receiver.connections) == 1
    begin = segments[0].seq
    told = received(segments, assumptions=Assumptions(crc=True, markers="none", start=(begin,)))
    assert placing(told.findings) == []
    assert rows(told.connections[0], "initiator") == laid(talk, "a")


def test_told_markers_and_crc_count_where_no_startup_frame_speaks() -> None:
    talk = Talk()
    talk.greet("b", REPLY)
    talk.startup["a"] = talk.next["a"], talk.next["a"]
    talk.operate(markers="b", crc=True)
    talk.say("b", talk.lay("b", 40)[:30])
    assert only(talk.segments).markers("responder") is True
    assert only(talk.segments, assumptions=Assumptions(markers="none")).markers("responder") is False
    begun = started(m=(1, 1))
    mpa = only(begun.segments, assumptions=Assumptions(markers="none", crc=False))
    assert mpa.markers("initiator")
    assert mpa.crc


def test_a_told_profile_judges() -> None:
    talk = started(m=(1, 1), origin="first-octet")
    talk.say("a", talk.lay("a", 502, 1400, 514, 1400))
    assert {rule for rule, *_ in broken(only(talk.segments).findings)} == {"fpduptr-origin"}
    mpa = only(talk.segments, assumptions=Assumptions(profile="rddp-01"))
    assert broken(mpa.findings) == []
    assert mpa.profile.name == "rddp-01"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), Assumptions()),
        (("markers=yes",), Assumptions(markers="both")),
        (("markers=responder, crc=no", "start=7"), Assumptions(markers="responder", crc=False, start=(7,))),
        (("start=1,start=4294967295",), Assumptions(start=(1, 4294967295))),
    ],
)
def test_assumptions_are_parsed(texts: tuple[str, ...], expected: Assumptions) -> None:
    assert parse_assumptions(texts) == expected


@pytest.mark.parametrize(
    "text", ["markers", "markers=maybe", "crc=", "start=-1", "start=4294967296", "start=²", "", "m=1"]
)
def test_other_assumptions_are_refused(text: str) -> None:
    with pytest.raises(Exception, match="cannot be assumed"):
        parse_assumptions((text,))


# --- the Request alone ---


@pytest.mark.parametrize("m", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_a_reply_that_was_not_captured_is_inferred(m: tuple[int, int]) -> None:
    talk = started(m=m)
    for side in SIDES:
        talk.say(side, talk.lay(side, 100, 700, 30, 1300))
    reply = talk.segments[4]
    mpa = only([seg for seg in talk.segments if seg is not reply])
    assert mpa.inferred
    assert mpa.request is not None
    for side, direction in zip(SIDES, ROLES, strict=True):
        assert mpa.markers(direction) is bool(m[1 if side == "a" else 0])
        found = rows(mpa, direction)
        assert found
        assert set(found) <= set(laid(talk, side))
    assert rows(mpa, "initiator") == laid(talk, "a")


@pytest.mark.parametrize("isn", [5000, 0x80000000, 0xFFFFFF00])
@pytest.mark.parametrize("m", [(0, 0), (1, 1)])
def test_what_the_request_says_of_markers_counts_where_the_responder_was_heard_late(
    m: tuple[int, int], isn: int
) -> None:
    talk = Talk(isn=(1000, isn)).open().startup_phase(m=m)
    for side in SIDES:
        for _ in range(8):
            talk.say(side, talk.lay(side, 30, 40, 50, 60, 70))
    lost = [talk.segments[1], talk.segments[4]]
    mpa = only([seg for seg in talk.segments if not any(seg is one for one in lost)])
    assert mpa.markers("responder") is bool(m[0])
    found, sent = rows(mpa, "responder"), laid(talk, "b")
    assert found == sent[len(sent) - len(found) :]
    assert len(found) >= len(sent) - 1
    assert broken(mpa.findings) == []


@pytest.mark.parametrize("markers", ["", "a"])
def test_one_direction_with_its_request_is_enough(markers: str) -> None:
    talk = started(m=(0, len(markers)))
    talk.say("a", talk.lay("a", 100, 700, 30, 1300))
    mpa = only([seg for seg in talk.segments if seg[2] == talk.keys["a"]])
    assert rows(mpa, "initiator") == laid(talk, "a")
    assert mpa.markers("initiator") is bool(markers)


def test_a_key_in_a_ulpdu_hides_nothing_of_what_came_before() -> None:
    talk = started()
    first = len(talk.segments)
    for number in range(20):
        talk.say("a", talk.lay("a", 300, 300))
        if number == 10:
            octets = talk.lay("a", 400)
            talk.say("a", octets[:100])
            talk.say("a", startup_frame("reply", c=1).encode() + octets[120:])
        talk.say("b", talk.lay("b", 200))
    mpa = only(talk.segments[first:])
    assert mpa.inferred
    assert len(rows(mpa, "initiator")) >= 40
    assert rows(mpa, "responder") == laid(talk, "b")


def test_a_syn_captured_late_belongs_to_what_was_inferred() -> None:
    talk, segments = midstream("", True, count=80)
    assert len(received(segments).connections) == 1
    late = [*segments[:100], talk.segments[1], *segments[100:]]
    renumbered = [seg.replace(frame=n, time=n * 10**9) for n, seg in enumerate(late, 1)]
    assert len(received(renumbered).connections) == 1


def test_fpdus_in_place_of_the_reply_are_no_reply_lost() -> None:
    """They are read where octets show them, whatever is wrong with the startup frames."""
    talk = Talk().open()
    talk.greet("a", startup_frame("request", c=1).encode())
    talk.startup["b"] = talk.next["b"], talk.next["b"]
    talk.operate()
    talk.say("b", talk.lay("b", 100, 700, 30))
    mpa = only(talk.segments)
    assert rows(mpa, "responder") == laid(talk, "b")
    assert ("startup-key", "responder") in {entry[:2] for entry in broken(mpa.findings)}


# --- Figure 16 ---


@pytest.mark.parametrize("markers", ["a", "ab"])
def test_an_rdmac_responder_may_send_markers_that_nobody_asked_for(markers: str) -> None:
    talk = Talk().open()
    talk.greet("a", startup_frame("request", rev=1).encode())
    talk.greet("b", startup_frame("reply", m=1, c=1, rev=0).encode())
    talk.operate(markers=markers, crc=True, origin="first-octet")
    for side in SIDES:
        talk.say(side, talk.lay(side, 100, 700, 30))
    mpa = only(talk.segments)
    for side, direction in zip(SIDES, ROLES, strict=True):
        assert mpa.markers(direction) is (side in markers)
        assert rows(mpa, direction) == laid(talk, side)
    assert broken(mpa.findings) == []


# --- limits ---


def test_limits_are_parsed() -> None:
    assert parse_limits([]) == DEFAULT_LIMITS
    assert parse_limits(["held_octets=64M", "connections = 2k"]) == Limits(held_octets=64 << 20, connections=2048)


@pytest.mark.parametrize("text", ["held_octets", "held_octets=0", "held_octets=-1", "other=1", "connections=1T", ""])
def test_other_limits_are_refused(text: str) -> None:
    with pytest.raises(Exception, match=r"is not a limit|1 or more"):
        parse_limits([text])


def limit_findings(receiver: Analyzer) -> list[str]:
    found = [*placing(receiver.findings), *(one for mpa in receiver.connections for one in placing(mpa.findings))]
    return [finding.detail for finding in found if finding.rule.id == "limit"]


def test_more_segments_held_back_than_may_be() -> None:
    talk = started()
    octets = talk.lay("a", *[100] * 60)
    for at in range(20, len(octets), 40):
        talk.at("a", at, octets[at : at + 20])
    assert limit_findings(received(talk.segments)) == []
    (detail,) = limit_findings(received(talk.segments, limits=Limits(held_segments=50)))
    assert "held_segments" in detail


def test_more_octets_held_back_in_all_than_may_be() -> None:
    tap = Talk().tap
    talks = []
    for number in range(6):
        talk = Talk(tap, isn=(1000 * number, 5000))
        talk.keys = {"a": bytes([10, 0, 0, number]) + talk.keys["a"][4:], "b": b""}
        talk.keys["b"] = talk.keys["a"][4:8] + talk.keys["a"][:4] + talk.keys["a"][10:] + talk.keys["a"][8:10]
        talks.append(talk.open().startup_phase())
    for talk in talks:
        octets = talk.lay("a", *[1400] * 20)
        talk.at("a", 1412, octets[1412:])
    receiver = Analyzer(records=True, limits=Limits(total_octets=100_000))
    receiver.feed(tap.segments)
    receiver.release()
    receiver.finish()
    assert any("total_octets" in detail for detail in limit_findings(receiver))
    # What is behind the gap given up is found none the less.
    assert all(mpa.operations["initiator"].counts.fpdus >= 18 for mpa in receiver.connections)


def test_more_mpa_connections_than_are_kept() -> None:
    tap = Talk().tap
    for number in range(5):
        Talk(tap, isn=(100 * number, 50)).open().startup_phase().close()
    receiver = received(tap.segments, limits=Limits(mpa_connections=3))
    assert len(receiver.connections) == 3
    assert any("mpa_connections" in detail for detail in limit_findings(receiver))


def test_more_findings_than_are_kept() -> None:
    tap = Talk().tap
    for number in range(5):
        talk = Talk(tap, isn=(100 * number, 50)).open()
        talk.greet("a", startup_frame("request", private_data=bytes(513)).encode())
        talk.greet("b", startup_frame("reply", private_data=bytes(513)).encode())
        talk.close()
    receiver = received(tap.segments, limits=Limits(findings=4))
    assert sum(len(placing(mpa.findings)) for mpa in receiver.connections) == 4
    assert any("(findings)" in detail for detail in limit_findings(receiver))
