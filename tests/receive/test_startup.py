"""The Startup Phase: every way into Full Operation, and what is none (RFC 5044 §7.1, RFC 6581)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest

from scapy_mpa.craft.packets import ACK, FIN, RST, SYN, Endpoint
from scapy_mpa.framing.startup import EnhancedData, StartupFrame, startup_frame
from scapy_mpa.values.segment import Segment, endpoints
from tests.receive.cases import (
    REPLY,
    REQUEST,
    Side,
    Talk,
    Tap,
    broken,
    check,
    codes,
    cut_small,
    errors,
    expected,
    feed,
    follow,
    only,
    records,
    renumbered,
    seen,
    started,
)

PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>RFC 5044: the Key is 'MPA ID Req Frame' or "
    b"'MPA ID Rep Frame', and nothing else will do.</p>" + b"<p>So much for MPA.</p>" * 40
)
MARKERS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def converse(talk: Talk) -> Talk:
    """A few FPDUs both ways."""
    talk.say("a", talk.lay("a", 30, 700, 64))
    talk.say("b", talk.lay("b", 20, 600))
    talk.say("a", talk.lay("a", 44))
    return talk


def streaming(count: int, size: int = 1400, seed: int = 1) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.getrandbits(8 * size).to_bytes(size, "big") for _ in range(count)]


# --- ways into Full Operation ---


@pytest.mark.parametrize("m", MARKERS)
@pytest.mark.parametrize("c", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_immediate(m: tuple[int, int], c: tuple[int, int]) -> None:
    mpa = check(converse(started(m=m, c=c)))
    assert broken(mpa.findings) == []
    assert mpa.crc == any(c)
    assert mpa.operations["initiator"].markers == bool(m[1])
    assert mpa.operations["responder"].markers == bool(m[0])
    assert mpa.request is not None
    assert mpa.reply is not None
    assert (mpa.request.frame, mpa.reply.frame) == (4, 5)
    assert (mpa.initiator, mpa.responder) == ("10.0.0.1:40000", "10.0.0.2:7471")
    assert (mpa.inferred, mpa.rejected, mpa.profile.name) == (False, False, "rfc5044")


@pytest.mark.parametrize("count", [1, 2, 200])
@pytest.mark.parametrize("syn", [True, False])
def test_after_streaming_data(count: int, syn: bool) -> None:
    talk = Talk()
    if syn:
        talk.open()
    for octets in streaming(count):
        talk.say("a", octets)
        talk.say("b", octets[:100])
    check(converse(talk.startup_phase(m=(1, 1))), ways=count < 10)


@pytest.mark.parametrize("message", [b"last words", b"MPA", b"M", b"MPA ID R", b"MPA ID Resume", bytes(3000)])
def test_after_a_last_streaming_message_of_the_responder(message: bytes) -> None:
    talk = Talk().open()
    talk.say("a", b"upgrade?")
    talk.greet("a", REQUEST)
    cut_small(talk, "b", message, 1400)
    talk.greet("b", REPLY)
    assert broken(check(converse(talk.operate())).findings) == []


def test_streaming_data_and_the_request_share_a_segment() -> None:
    talk = Talk().open()
    before = b"GO MPA\r\n"
    talk.next["a"] += len(before)
    talk.begin("a", REQUEST)
    talk.next["a"] -= len(before)
    talk.say("a", before + REQUEST)
    talk.greet("b", REPLY)
    check(converse(talk.operate()))


@pytest.mark.parametrize("cut", range(1, len(REQUEST)))
def test_a_key_cut_by_segments(cut: int) -> None:
    talk = Talk().open()
    for octets in streaming(3):
        talk.say("a", octets)
    before = b"and now "
    talk.next["a"] += len(before)
    talk.begin("a", REQUEST)
    talk.next["a"] -= len(before)
    talk.say("a", before + REQUEST[:cut])
    talk.say("a", REQUEST[cut:])
    talk.greet("b", REPLY, cuts=(cut,))
    check(converse(talk.operate()))


@pytest.mark.parametrize("syn", [True, False])
def test_startup_frames_in_single_octets(syn: bool) -> None:
    talk = Talk()
    if syn:
        talk.open()
    talk.greet("a", REQUEST, cuts=range(1, len(REQUEST)))
    talk.greet("b", REPLY, cuts=range(1, len(REPLY)))
    check(converse(talk.operate()))


@pytest.mark.parametrize("seed", range(20))
def test_everything_in_any_order(seed: int) -> None:
    """Streaming data, single octets of both startup frames, and FPDUs, captured in any order."""
    rng = random.Random(seed)
    talk = Talk(isn=(0xFFFFFFF0, 0xFFFFFFFF)).open()
    talk.say("a", b"streaming data of a")
    talk.say("b", b"of b")
    request = startup_frame("request", m=1, private_data=b"private").encode()
    talk.greet("a", request, cuts=range(1, len(request)))
    talk.say("b", b"yes")
    reply = startup_frame("reply", m=1, c=1).encode()
    talk.greet("b", reply, cuts=range(3, len(reply), 4))
    talk.operate(markers="ab")
    for side in ("a", "b"):
        cut_small(talk, side, talk.lay(side, 100, 600, 20, 1200), 150)
    opening, rest = talk.segments[:3], talk.segments[3:]
    rng.shuffle(rest)
    # Within a second: what the peer has acknowledged is given up three seconds later.
    segments = renumbered(opening + rest, step=10_000_000)
    mpa = check(talk, segments)
    assert mpa.request is not None
    assert mpa.request.startup.private_data == b"private"
    assert not any(rule.startswith("startup-") for rule, *_ in broken(mpa.findings))


@pytest.mark.parametrize("seed", range(10))
def test_duplicates_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    talk = Talk().open()
    talk.greet("a", REQUEST, cuts=(4, 17))
    talk.greet("b", REPLY, cuts=(9,))
    converse(talk.operate())
    opening, rest = talk.segments[:3], talk.segments[3:] * 2
    rng.shuffle(rest)
    check(talk, renumbered(opening + rest))


@pytest.mark.parametrize("m", MARKERS)
def test_frames_that_share_a_segment_with_fpdus(m: tuple[int, int]) -> None:
    request, reply = (
        startup_frame("request", m=m[0], c=1).encode(),
        startup_frame("reply", m=m[1]).encode(),
    )
    talk = Talk().open()
    talk.begin("a", request)
    talk.begin("b", reply)
    # SeqStart is known before anything is sent.
    talk.operate(markers="b" * m[0] + "a" * m[1])
    of_a, of_b = talk.lay("a", 30, 700), talk.lay("b", 30, 700, 40)
    talk.say("a", request + of_a[:-5])
    talk.say("b", reply + of_b[:760])
    talk.say("a", of_a[-5:])
    talk.say("b", of_b[760:])
    mpa = check(talk)
    assert mpa.reply is not None
    assert mpa.reply.frame == 5


def test_fpdus_behind_a_request_are_no_private_data() -> None:
    """Its segment ends where an FPDU does, as if it ended with Private Data that PD_Length does not count."""
    talk = Talk().open()
    request = startup_frame("request", c=1).encode()
    talk.begin("a", request)
    talk.begin("b", REPLY)
    talk.operate()
    first, second = talk.lay("a", 30, 1), talk.lay("a", 300)
    talk.say("a", request + first)
    talk.say("b", REPLY)
    talk.say("a", second)
    mpa = check(talk)
    assert mpa.request is not None
    assert mpa.request.startup.private_data == b""
    assert "startup-pd-length" not in {rule for rule, *_ in broken(mpa.findings)}


@pytest.mark.parametrize("damaged", [False, True])
def test_a_startup_frame_captured_after_many_fpdus(damaged: bool) -> None:
    """The SYN was captured, so octets are known to be missing: nothing is inferred before they have come."""
    talk = Talk().open()
    talk.say("a", b"streaming" if damaged else b"")
    talk.greet("a", REQUEST)
    talk.greet("b", REPLY)
    talk.operate()
    for _ in range(20):
        talk.say("b", talk.lay("b", 900))
    request = next(seg for seg in talk.segments if bytes(seg.buffer[seg.start : seg.end]) == REQUEST)
    rest = [seg for seg in talk.segments if seg is not request]
    check(talk, renumbered([*rest[:20], request, *rest[20:]], step=1_000_000), ways=False)


def test_the_initiator_need_not_have_sent_the_syn() -> None:
    talk = Talk().open()
    talk.greet("b", startup_frame("request", m=1, c=1).encode())
    talk.greet("a", startup_frame("reply").encode())
    talk.operate(markers="a", initiator="b")
    talk.say("b", talk.lay("b", 30, 700))
    talk.say("a", talk.lay("a", 30, 700))
    mpa = check(talk)
    assert mpa.initiator == "10.0.0.2:7471"
    assert broken(mpa.findings) == []


@pytest.mark.parametrize("m", MARKERS)
def test_without_syn(m: tuple[int, int]) -> None:
    assert broken(check(converse(Talk().startup_phase(m=m))).findings) == []


def test_sequence_numbers_wrap_in_the_startup_frame() -> None:
    for behind in (0, 1, 19, 20, 21):
        check(converse(Talk(isn=(2**32 - behind - 1, 2**32 - behind - 1)).open().startup_phase(m=(1, 1))))


@pytest.mark.parametrize("syn", [True, False])
@pytest.mark.parametrize("m", MARKERS)
def test_reply_captured_before_the_request(m: tuple[int, int], syn: bool) -> None:
    talk = Talk()
    if syn:
        talk.open()
    converse(talk.startup_phase(m=m))
    segments = talk.segments
    first = 3 if syn else 0
    segments[first], segments[first + 1] = segments[first + 1], segments[first]
    mpa = check(talk, renumbered(segments))
    assert mpa.inferred is False
    assert broken(mpa.findings) == []


def test_request_captured_last() -> None:
    """All FPDUs wait for it, and are placed at its frame."""
    talk = Talk().open()
    request = startup_frame("request", m=1, c=1).encode()
    talk.greet("a", request)
    talk.greet("b", REPLY)
    converse(talk.operate(markers="b"))
    late = talk.segments.pop(3)
    segments = renumbered([*talk.segments, late])
    mpa = check(talk, segments)
    assert {record.placed_frame for record in records(follow(segments))} == {len(segments)}
    assert mpa.request is not None
    assert mpa.request.frame == len(segments)


# --- a startup frame that was never captured ---


@pytest.mark.parametrize("syn", [True, False])
@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize("m", MARKERS)
def test_reply_only(m: tuple[int, int], crc: bool, syn: bool) -> None:
    """Its sender is the Responder; its M says what the Initiator sends, the rest is read off the octets."""
    talk = Talk()
    if syn:
        talk.open()
    talk.greet("a", startup_frame("request", m=m[0], c=crc).encode(), lost=True)
    reply = talk.greet("b", startup_frame("reply", m=m[1]).encode())
    converse(talk.operate(markers="b" * m[0] + "a" * m[1], crc=crc))
    mpa = check(talk, floor=reply)
    assert mpa.inferred is True
    assert mpa.request is None
    assert mpa.reply is not None
    assert (mpa.initiator, mpa.responder) == ("10.0.0.1:40000", "10.0.0.2:7471")
    assert errors(follow(talk.segments)) == []


@pytest.mark.parametrize("m", MARKERS)
def test_reply_only_and_one_side_is_silent(m: tuple[int, int]) -> None:
    for silent in ("a", "b"):
        talk = Talk().open()
        talk.greet("a", startup_frame("request", m=m[0], c=1).encode(), lost=True)
        reply = talk.greet("b", startup_frame("reply", c=1, m=m[1]).encode())
        talk.operate(markers="b" * m[0] + "a" * m[1])
        other = talk.peer(silent)
        talk.say(other, talk.lay(other, 30, 700, 20))
        talk.say(other, talk.lay(other, 50))
        assert check(talk, floor=reply).inferred is True


def test_reply_only_and_responder_sent_long_fpdus_in_small_segments() -> None:
    talk = Talk().open()
    talk.greet("a", startup_frame("request", m=1, c=1).encode(), lost=True)
    reply = talk.greet("b", REPLY)
    talk.operate(markers="b")
    cut_small(talk, "b", talk.lay("b", 5000, 30), 400)
    assert check(talk, floor=reply).inferred is True


def test_request_only() -> None:
    talk = Talk().open()
    talk.greet("a", REQUEST)
    mpa = only(follow(talk.segments))
    assert mpa.request is not None
    assert mpa.reply is None
    assert mpa.operations == {}
    assert broken(mpa.findings) == []
    assert mpa.inferred is False


@pytest.mark.parametrize("syn", [True, False])
def test_reply_lost_by_the_capture(syn: bool) -> None:
    """Octets that were not captured may have been the Reply: no error can be told from what follows them."""
    talk = Talk()
    if syn:
        talk.open()
    talk.greet("a", REQUEST)
    talk.greet("b", REPLY, lost=True)
    converse(talk.operate())
    receiver = follow(talk.segments)
    assert only(receiver).request is not None
    assert errors(receiver) == []


# --- rejected, and other ends ---


def test_rejected() -> None:
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.greet("b", startup_frame("reply", r=1, private_data=b"no").encode())
    talk.close()
    mpa = only(follow(talk.segments))
    assert (mpa.rejected, mpa.operations) == (True, {})
    assert mpa.reply is not None
    assert broken(mpa.findings) == [("startup-rejected", "responder", mpa.reply.frame, 1)]
    assert mpa.reply.startup.private_data == b"no"


@pytest.mark.parametrize("between", [b"", b"so let us go on streaming", bytes(100_000)], ids=len)
def test_rejected_and_asked_again(between: bytes) -> None:
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.greet("b", startup_frame("reply", r=1).encode())
    cut_small(talk, "a", between, 1400)
    cut_small(talk, "b", between, 1400)
    converse(talk.startup_phase(m=(1, 1)))
    receiver = follow(talk.segments, ways=len(between) < 1000)
    first, second = receiver.connections
    assert (first.number, first.rejected, second.number, second.rejected) == (0, True, 1, False)
    assert seen(receiver) == expected(talk, connection=1)
    assert errors(receiver) == []


def test_rejected_reply_captured_before_its_request() -> None:
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.greet("b", startup_frame("reply", r=1).encode())
    talk.segments[3:] = talk.segments[4], talk.segments[3]
    mpa = only(follow(renumbered(talk.segments)))
    assert mpa.rejected
    assert mpa.request is not None


def test_rejection_without_its_request() -> None:
    talk = Talk().open()
    talk.greet("a", REQUEST, lost=True)
    talk.greet("b", startup_frame("reply", r=1).encode())
    talk.close()
    mpa = only(follow(talk.segments))
    assert mpa.rejected
    assert mpa.operations == {}
    assert errors(follow(talk.segments)) == []


def test_request_answered_by_a_request() -> None:
    talk = Talk().open()
    talk.greet("a", REQUEST)
    last = talk.greet("b", REQUEST)
    mpa = only(follow(talk.segments))
    assert broken(mpa.findings) == [("startup-role", "responder", last, 1)]
    assert codes(mpa.findings) == {4}
    assert mpa.operations == {}


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(20), b"MPA ID Reg Frame" + bytes(4)])
@pytest.mark.parametrize("syn", [True, False])
def test_request_answered_by_something_else(answer: bytes, syn: bool) -> None:
    talk = Talk()
    if syn:
        talk.open()
    talk.greet("a", REQUEST)
    last = talk.say("b", answer)
    talk.close()
    mpa = only(follow(talk.segments))
    assert broken(mpa.findings) == [("startup-key", "responder", last, 1)]
    assert codes(mpa.findings) == {4}


@pytest.mark.parametrize("end", [FIN | ACK, RST | ACK, RST])
@pytest.mark.parametrize("ends", ["a", "b"])
@pytest.mark.parametrize("have", [8, 9, 10, 15, 16, 19, 20, 25])
def test_end_inside_a_request(end: int, ends: Side, have: int) -> None:
    request = startup_frame("request", private_data=bytes(30)).encode()
    talk = Talk().open()
    last = talk.say("a", request[:have])
    frame = talk.say(ends, flags=end)
    mpa = only(follow(talk.segments))
    assert broken(mpa.findings) == [("startup-frame" if have < 20 else "startup-pd-length", "initiator", frame, 1)]
    assert codes(mpa.findings) == {4}
    assert (mpa.request, mpa.reply, mpa.order, mpa.initiator) == (None, None, last, "10.0.0.1:40000")
    assert mpa.part is not None
    assert (mpa.part.octets, mpa.part.kind, mpa.part.frame) == (request[:have], "request", last)
    (found,) = mpa.findings.sorted()
    how = "RST" if end & RST else "FIN" if ends == "a" else "FIN of the peer"
    assert found.detail == f"{how} after {have} of {'20 or more' if have < 20 else 50} octets of an MPA Request"


@pytest.mark.parametrize("end", [FIN | ACK, RST | ACK])
@pytest.mark.parametrize("have", [1, 8, 16, 19, 20, 25])
def test_end_inside_a_reply(end: int, have: int) -> None:
    reply = startup_frame("reply", private_data=bytes(30)).encode()
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.say("b", reply[:have])
    frame = talk.say("b", flags=end)
    mpa = only(follow(talk.segments))
    rule = "startup-frame" if have < 20 else "startup-pd-length"
    assert broken(mpa.findings) == [(rule, "responder", frame, 1)]


@pytest.mark.parametrize("have", [10, 18, 25])
def test_half_a_reply_whose_request_was_not_captured(have: int) -> None:
    talk = Talk().open()
    talk.say("a", REQUEST, lost=True)
    last = talk.say("b", startup_frame("reply", private_data=bytes(30)).encode()[:have])
    frame = talk.say("b", flags=RST)
    mpa = only(follow(talk.segments))
    rule = "startup-frame" if have < 20 else "startup-pd-length"
    assert broken(mpa.findings) == [(rule, "responder", frame, 1)]
    assert (mpa.order, mpa.responder) == (last, "10.0.0.2:7471")


@pytest.mark.parametrize("seconds", [9, 10, 3600])
def test_a_request_that_is_never_finished(seconds: int) -> None:
    """The capture goes on for some time without more of it, or of the connection."""
    talk = Talk().open()
    talk.say("a", REQUEST[:10])
    for _ in range(seconds):
        Talk(talk.tap, a=Endpoint("10.0.0.9", 9, bytes(6))).say("a", b"x")
    mpa = only(follow(talk.segments))
    late = [("startup-frame", "initiator", 4 + seconds, 1)] if seconds >= 10 else []
    assert broken(mpa.findings) == late
    assert [found.detail for found in mpa.findings.sorted()] == [
        f"no more for {seconds}.000 s after 10 of 20 or more octets of an MPA Request" for _ in late
    ]


def test_end_of_the_capture_inside_a_startup_frame() -> None:
    talk = Talk().open()
    talk.say("a", REQUEST[:18])
    mpa = only(follow(talk.segments))
    assert (mpa.request, broken(mpa.findings), mpa.order) == (None, [], 4)
    talk.say("a", REQUEST[18:])
    talk.say("b", REPLY[:18])
    assert broken(only(follow(talk.segments)).findings) == []


@pytest.mark.parametrize("end", [FIN | ACK, RST, None])
@pytest.mark.parametrize(
    ("before", "said", "syn"),
    [
        (b"", REQUEST[:7], True),
        (b"", b"MPA ID R.", True),
        (b"", b"MPA ID Request", True),
        (b"", REQUEST[:17], False),
        (b"upgrade?", REQUEST[:8], True),
        (b"upgrade?", REQUEST[:17], True),
        (b"the Key is ", REQUEST[:16] + b"\n", True),
        (b"the Key is ", REQUEST[:16] + b", which nothing else is", True),
        (b"", REQUEST[:16] + b", which nothing else is", False),
    ],
)
def test_too_little_for_a_request(before: bytes, said: bytes, syn: bool, end: int | None) -> None:
    """Fewer octets than prove anything, or text about MPA."""
    talk = Talk()
    if syn:
        talk.open()
    if before:
        talk.say("a", before)
    talk.say("a", said)
    if end is not None:
        talk.say("a", flags=end)
    receiver = follow(talk.segments)
    assert (receiver.connections, receiver.findings.sorted()) == ([], [])


@pytest.mark.parametrize("cuts", [(), (1,), range(1, 18)])
@pytest.mark.parametrize("before", [b"upgrade?", b"MPA ID Re", bytes(3000)])
def test_half_a_request_behind_streaming_data(before: bytes, cuts: Sequence[int]) -> None:
    talk = Talk().open()
    talk.say("a", before)
    talk.greet("a", REQUEST[:18], cuts=cuts)
    last = len(talk.segments)
    frame = talk.say("b", flags=FIN | ACK)
    mpa = only(follow(talk.segments))
    assert broken(mpa.findings) == [("startup-frame", "initiator", frame, 1)]
    assert mpa.order == last


def test_a_request_of_which_the_capture_lost_the_end() -> None:
    """The peer acknowledges octets that were not captured: nobody knows what they were."""
    talk = Talk().open()
    talk.say("a", REQUEST[:12])
    talk.say("a", REQUEST[12:], lost=True)
    talk.say("b")
    talk.say("b", flags=RST)
    receiver = follow(talk.segments)
    assert (receiver.connections, receiver.findings.sorted()) == ([], [])


@pytest.mark.parametrize("end", [FIN | ACK, RST | ACK])
@pytest.mark.parametrize("have", [16, 18, 20, 100])
@pytest.mark.parametrize("whose", ["request", "reply"])
def test_a_startup_frame_that_the_capture_cut(whose: str, have: int, end: int) -> None:
    """A cut of the snap length is none of the peer's making."""
    talk = Talk().open()
    frames = {kind: startup_frame(kind, private_data=bytes(300)).encode() for kind in ("request", "reply")}
    talk.greet("a", frames["request"], captured=have if whose == "request" else None)
    talk.greet("b", frames["reply"], captured=have if whose == "reply" else None)
    talk.say("a", flags=end)
    talk.say("b", flags=end)
    assert errors(follow(talk.segments)) == []


@pytest.mark.parametrize("end", [FIN | ACK, RST | ACK])
def test_a_startup_frame_of_which_the_capture_lost_a_part(end: int) -> None:
    talk = Talk().open()
    request = startup_frame("request", private_data=bytes(300)).encode()
    talk.say("a", request[:100])
    talk.say("a", request[100:200], lost=True)
    talk.say("a", request[200:])
    talk.say("b")
    talk.say("a", flags=end)
    assert errors(follow(talk.segments)) == []


# --- what looks like a Key and is none ---

ALMOST = b"MPA ID Req Fra"


def test_an_almost_key_right_before_the_request_captured_out_of_order() -> None:
    """Its last octet comes after the Request, and shows that it is none."""
    talk = Talk().open()
    first = talk.next["a"]
    talk.next["a"] += len(ALMOST)
    talk.put("a", first, ALMOST[:-1])
    talk.greet("a", REQUEST)
    talk.put("a", first + len(ALMOST) - 1, ALMOST[-1:])
    talk.greet("b", REPLY)
    mpa = check(converse(talk.operate()))
    assert mpa.request is not None
    assert broken(mpa.findings) == []


@pytest.mark.parametrize("beginning", [b"M", b"MPA", b"MPA ID Re", ALMOST, REQUEST[:16]])
@pytest.mark.parametrize("side", ["a", "b"])
def test_a_beginning_of_a_key_whose_rest_the_capture_lost(side: Side, beginning: bytes) -> None:
    """What may have been a startup frame does not hide the one that comes later."""
    talk = Talk().open()
    talk.say(side, b"streaming " + beginning)
    talk.say(side, bytes(500), lost=True)
    talk.say(side, b"more of it")
    talk.greet("a", REQUEST)
    talk.greet("b", REPLY)
    mpa = check(converse(talk.operate()))
    assert mpa.request is not None
    assert mpa.reply is not None
    assert errors(follow(talk.segments)) == []


# --- segments that the receiver dropped ---


@pytest.mark.parametrize(
    ("side", "at"),
    # A whole Reply ends the Startup Phase at once: what follows it is not compared with it any more.
    [*(("a", at) for at in (0, 5, 15, 16, 17, 19, 25)), *(("b", at) for at in (0, 5, 15, 19))],
)
def test_a_startup_frame_damaged_on_its_way(side: Side, at: int) -> None:
    """Its TCP checksum is wrong, and the retransmission differs: the first copy was dropped."""
    frames = {
        "a": startup_frame("request", c=1, private_data=bytes(10)).encode(),
        "b": startup_frame("reply", c=1, private_data=bytes(10)).encode(),
    }
    talk = Talk().open()
    dropped = 0
    for one in frames:
        frame = frames[one]
        if one == side:
            bad = frame[:at] + bytes([frame[at] ^ 0x40]) + frame[at + 1 :]
            dropped = talk.put(side, talk.next[side], bad, checksum="wrong")
        talk.greet(one, frame)  # type: ignore[arg-type]
    converse(talk.operate())
    receiver = follow(talk.segments)
    assert seen(receiver) == expected(talk, dropped=[dropped])
    assert errors(receiver) == []
    mpa = only(receiver)
    assert mpa.request is not None
    assert mpa.reply is not None
    assert (mpa.request.startup.encode(), mpa.reply.startup.encode()) == (frames["a"], frames["b"])


def test_a_startup_frame_repeated_with_other_boundaries() -> None:
    """Also together with what follows it."""
    talk = Talk().open()
    request = startup_frame("request", m=1, c=1, private_data=bytes(30)).encode()
    first = talk.next["a"]
    talk.greet("a", request, cuts=(30,))
    talk.greet("b", REPLY)
    talk.operate(markers="b")
    octets = talk.lay("a", 100, 200)
    talk.put("a", first, request)
    talk.put("a", first + 40, request[40:] + octets[:50])
    talk.put("a", first, request + octets)
    talk.next["a"] = first + len(request + octets)
    talk.say("b", talk.lay("b", 700))
    check(talk)


@pytest.mark.parametrize("whole", [True, False])
def test_the_request_comes_with_the_syn(whole: bool) -> None:
    """TCP Fast Open (RFC 7413)."""
    talk = Talk()
    cut = len(REQUEST) if whole else 7
    talk.put("a", talk.next["a"], REQUEST[:cut], flags=SYN, ack=0)
    talk.next["a"] += 1
    talk.begin("a", REQUEST)
    talk.next["a"] += cut
    talk.say("b", flags=SYN | ACK)
    talk.say("a", REQUEST[cut:])
    talk.greet("b", REPLY)
    converse(talk.operate())
    receiver = follow(talk.segments)
    assert [row["placed_frame"] for row in seen(receiver)] == [
        row["placed_frame"]
        for row in expected(talk, floor=only(receiver).reply.frame)  # type: ignore[union-attr]
    ]
    assert errors(receiver) == []


def test_both_sides_open_at_once() -> None:
    talk = Talk()
    talk.say("a", flags=SYN, ack=0)
    talk.say("b", flags=SYN, ack=0)
    talk.put("a", 1000, flags=SYN | ACK)
    talk.put("b", 5000, flags=SYN | ACK)
    assert broken(check(converse(talk.startup_phase(m=(1, 1)))).findings) == []


# --- several connections on one 4-tuple ---


def by_close(talk: Talk) -> None:
    talk.close()


def by_rst(talk: Talk) -> None:
    talk.say("b", flags=RST | ACK)


def by_nothing(talk: Talk) -> None:
    pass


@pytest.mark.parametrize("close", [by_close, by_rst, by_nothing])
@pytest.mark.parametrize("first_syn", [True, False])
def test_one_after_another_on_one_4_tuple(close: Callable[[Talk], None], first_syn: bool) -> None:
    tap = Tap()
    talks = []
    parts: list[list[Segment]] = []
    for number, m in enumerate(MARKERS):
        before = len(tap.segments)
        talk = Talk(tap, isn=(1000 + 70_000 * number, 5000 + 90_000 * number))
        if number or first_syn:
            talk.open()
        close(converse(talk.startup_phase(m=m)))
        talks.append(talk)
        parts.append(tap.segments[before:])
    receiver = follow(tap.segments)
    wanted = [expected(talks[n], parts[n], connection=n) for n in range(4)]
    assert seen(receiver) == list(itertools.chain(*wanted))
    assert [mpa.number for mpa in receiver.connections] == [0, 1, 2, 3]
    assert errors(receiver) == []


@pytest.mark.parametrize("isn", [(1000, 5000), (1100, 5100), (900, 4900), (2**31 + 1000, 2**31 + 5000)])
def test_syn_and_ack_captured_before_syn(isn: tuple[int, int]) -> None:
    tap = Tap()
    first = Talk(tap, isn=(3000, 7000)).open()
    converse(first.startup_phase()).close()
    split = len(tap.segments)
    second = Talk(tap, isn=isn).open()
    converse(second.startup_phase(m=(1, 1)))
    segments = tap.segments
    segments[split], segments[split + 1] = segments[split + 1], segments[split]
    segments = renumbered(segments)
    receiver = follow(segments)
    assert seen(receiver) == (expected(first, segments[:split]) + expected(second, segments[split:], connection=1))
    assert errors(receiver) == []


@pytest.mark.parametrize("place", range(1, 9))
def test_a_repeated_syn_changes_nothing(place: int) -> None:
    talk = converse(started(m=(1, 1)))
    for syn in (0, 1):
        segments = talk.segments[:]
        segments.insert(max(place, syn + 1), segments[syn])
        check(talk, renumbered(segments))


def test_a_connection_that_was_refused_and_then_accepted() -> None:
    """SYN, RST, and a SYN once more, with the number it had."""
    talk = Talk()
    talk.say("a", flags=SYN, ack=0)
    talk.say("b", flags=RST | ACK)
    talk.next = {"a": 1000, "b": 5000}
    converse(talk.open().startup_phase())
    mpa = check(talk)
    assert broken(mpa.findings) == []


@pytest.mark.parametrize("close", [by_close, by_rst])
@pytest.mark.parametrize("isn", [(1_000_000, 2_000_000), (2**31 + 1000, 2**31 + 5000), (3_000_000_000, 9)])
def test_one_after_another_and_the_handshakes_were_not_captured(
    close: Callable[[Talk], None], isn: tuple[int, int]
) -> None:
    """A Request on a connection that is closed begins another."""
    tap = Tap()
    first = Talk(tap)
    close(converse(first.startup_phase()))
    split = len(tap.segments)
    second = Talk(tap, isn=isn)
    close(converse(second.startup_phase(m=(1, 1))))
    receiver = follow(tap.segments)
    wanted = expected(first, tap.segments[:split]) + expected(second, tap.segments[split:], connection=1)
    assert seen(receiver) == wanted
    assert errors(receiver) == []


def test_late_segments_after_the_end_belong_to_the_old_connection() -> None:
    talk = started(m=(1, 1))
    octets = talk.lay("a", 300, 700)
    talk.at("a", 0, octets[:600])
    talk.next["a"] += len(octets) - 600
    talk.close()
    talk.at("a", 600, octets[600:])
    talk.at("a", 0, octets[:200])
    assert broken(check(talk).findings) == []


# --- what the frames say ---


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 100, 511, 512])
@pytest.mark.parametrize("rev", [0, 1, 2])
def test_private_data(length: int, rev: int) -> None:
    data = bytes(i % 251 for i in range(length))
    talk = Talk().open()
    talk.greet("a", startup_frame("request", rev=rev, private_data=data).encode())
    talk.greet("b", startup_frame("reply", rev=rev, private_data=data[::-1]).encode(), cuts=(20,))
    converse(talk.operate(crc=False))
    mpa = check(talk)
    assert mpa.request is not None
    assert mpa.reply is not None
    assert mpa.request.startup.private_data == data
    assert mpa.reply.startup.private_data == data[::-1]
    assert mpa.profile.name == ("rddp-01", "rfc5044", "rfc6581")[rev]
    assert broken(mpa.findings) == []


@pytest.mark.parametrize(("rev", "length", "bad"), [(0, 600, 0), (0, 65535, 0), (1, 513, 1), (1, 600, 1), (2, 600, 1)])
def test_too_much_private_data(rev: int, length: int, bad: bool) -> None:
    """It is error code 4, and the analysis goes on."""
    talk = Talk().open()
    request = startup_frame("request", rev=rev, private_data=bytes(length)).encode()
    last = talk.greet("a", request, cuts=range(1400, len(request), 1400))
    talk.greet("b", startup_frame("reply", rev=rev).encode())
    converse(talk.operate(crc=False))
    mpa = check(talk)
    told = broken(mpa.findings)
    assert (("startup-private-data-limit", "initiator", last, 1) in told) == bad
    # The Reply and the FPDU that come all the same are the Responder's fault.
    assert [rule for rule, who, *_ in told if who == "initiator"] == ["startup-private-data-limit"] * bad
    assert codes(mpa.findings) == ({4} if bad else set())


def test_enhanced_data() -> None:
    talk = Talk().open()
    asked, given = EnhancedData(a=1, b=1, c=1, d=1, ird=32, ord=16), EnhancedData(a=1, c=1, ird=16, ord=1)
    talk.greet("a", startup_frame("request", c=1, enhanced=asked, private_data=b"ulp").encode())
    talk.greet("b", startup_frame("reply", c=1, enhanced=given).encode())
    mpa = check(converse(talk.operate()))
    assert mpa.request is not None
    assert mpa.reply is not None
    assert (mpa.request.startup.enhanced, mpa.reply.startup.enhanced) == (asked, given)
    assert mpa.request.startup.pd_length == 7
    assert mpa.profile.name == "rfc6581"
    assert [rule for rule, *_ in broken(mpa.findings)] == ["rtr"]  # there is no RTR message in what follows


@pytest.mark.parametrize("length", [0, 3])
def test_s_without_room_for_enhanced_data(length: int) -> None:
    talk = Talk().open()
    frame = talk.greet("a", startup_frame("request", rev=2, s=1, private_data=bytes(length)).encode())
    talk.greet("b", startup_frame("reply", rev=2).encode())
    mpa = check(converse(talk.operate(crc=False)))
    told = broken(mpa.findings)
    assert [found for found in told if found[1] == "initiator"] == [("startup-enhanced-data", "initiator", frame, 1)]


@pytest.mark.parametrize(
    ("request_rev", "reply_rev", "profile"),
    [(0, 1, "rfc5044"), (2, 1, "rfc5044"), (1, 2, "rfc6581"), (1, 7, "rfc6581")],
)
def test_the_reply_decides_the_profile(request_rev: int, reply_rev: int, profile: str) -> None:
    talk = Talk().open()
    talk.greet("a", startup_frame("request", c=1, rev=request_rev).encode())
    talk.greet("b", startup_frame("reply", c=1, rev=reply_rev).encode())
    assert check(converse(talk.operate())).profile.name == profile


def test_reserved_bits_are_kept_and_change_nothing() -> None:
    frame = StartupFrame("request", 0, 1, 1, 1, 0x0F, 1, 0, b"")
    talk = Talk().open()
    talk.greet("a", frame.encode())
    talk.greet("b", REPLY)
    mpa = check(converse(talk.operate()))
    assert mpa.request is not None
    assert mpa.request.startup == frame
    rules = {"startup-reserved-bits", "startup-request-r", "startup-enhanced-revision"}
    assert {rule for rule, *_ in broken(mpa.findings)} == rules


# --- what is no MPA ---


def say_http(talk: Talk) -> None:
    talk.say("a", b"GET / HTTP/1.1\r\nHost: example.net\r\n\r\n")
    cut_small(talk, "b", PAGE, 1400)


def say_page_in_small_segments(talk: Talk) -> None:
    for size in (1, 7, 100):
        cut_small(talk, "b", PAGE, size)


def say_page_cut_at_the_key(talk: Talk) -> None:
    """A segment begins with the text of the Key, which makes it none."""
    at = PAGE.index(b"MPA ID")
    talk.say("b", PAGE[:at])
    talk.say("b", PAGE[at:])
    talk.say("b", PAGE * 20)


def say_keys_and_nothing(talk: Talk) -> None:
    words = b"MPA ID Req Fram, MPA ID Re, MPA ID Rep frame, MPA ID Req FrameMPA ID Rep Frame; "
    cut_small(talk, "b", words * 900, 1400)


def say_random(talk: Talk) -> None:
    for octets in streaming(40):
        talk.say("a", octets)
        talk.say("b", octets[::-1])


def say_zeros(talk: Talk) -> None:
    cut_small(talk, "a", bytes(300_000), 1400)


def say_almost_keys(talk: Talk) -> None:
    for size in range(1, 16):
        talk.say("a", REQUEST[:size])


@pytest.mark.parametrize("syn", [True, False])
@pytest.mark.parametrize("close", [by_close, by_rst, by_nothing])
@pytest.mark.parametrize(
    "say",
    [
        say_http,
        say_page_in_small_segments,
        say_page_cut_at_the_key,
        say_keys_and_nothing,
        say_random,
        say_zeros,
        say_almost_keys,
    ],
)
def test_foreign_traffic(say: Callable[[Talk], None], close: Callable[[Talk], None], syn: bool) -> None:
    talk = Talk()
    if syn:
        talk.open()
    say(talk)
    close(talk)
    receiver = follow(talk.segments, ways=False)
    assert receiver.connections == []
    assert errors(receiver) == []


def test_foreign_traffic_in_any_order_is_not_held() -> None:
    talk = Talk().open()
    cut_small(talk, "a", b"".join(streaming(300)), 1400)
    rest = talk.segments[3:]
    random.Random(5).shuffle(rest)
    del rest[::7]
    receiver = feed([[seg] for seg in talk.segments[:3] + rest])
    assert (receiver.connections, receiver.findings.sorted()) == ([], [])


def test_a_thousand_flows() -> None:
    """Only the one that is MPA makes a connection."""
    tap = Tap()
    rng = random.Random(3)
    talks = [
        Talk(tap, a=Endpoint(f"10.1.{n >> 8}.{n & 255}", 1024 + n, bytes(6)), isn=(rng.getrandbits(32), n))
        for n in range(1000)
    ]
    for talk in talks:
        talk.open()
    for _ in range(3):
        for talk in talks:
            if talk is not talks[500]:
                talk.say("a", rng.getrandbits(800).to_bytes(100, "big"))
                talk.say("b", PAGE)
    mpa_talk = converse(talks[500].startup_phase())
    for talk in talks:
        talk.close()
    receiver = follow(tap.segments, ways=False)
    assert seen(receiver) == expected(mpa_talk)
    assert only(receiver).initiator == f"10.1.1.{500 - 256}:1524"


# --- numbers ---


def test_numbered_by_the_frame_that_completes_the_request() -> None:
    tap = Tap()
    one, two, three = (
        Talk(tap, a=Endpoint("10.0.0.1", port, bytes(6)), isn=(port, 2 * port)).open() for port in (41, 42, 43)
    )
    one.begin("a", REQUEST)
    one.say("a", REQUEST[:10])
    two.greet("a", REQUEST)
    three.greet("a", REQUEST)
    three.greet("b", REPLY)
    three.operate().say("a", three.lay("a", 30))
    one.say("a", REQUEST[10:])
    one.greet("b", REPLY)
    two.greet("b", REPLY)
    one.operate().say("a", one.lay("a", 31))
    two.operate().say("a", two.lay("a", 32))
    receiver = follow(tap.segments)
    assert [mpa.initiator for mpa in receiver.connections] == ["10.0.0.1:42", "10.0.0.1:43", "10.0.0.1:41"]
    assert [record.ulpdu_length for record in records(receiver)] == [32, 30, 31]
    assert [record.connection for record in records(receiver)] == [0, 1, 2]


def test_without_a_request_numbered_by_the_reply() -> None:
    tap = Tap()
    one, two = (Talk(tap, a=Endpoint("10.0.0.1", port, bytes(6)), isn=(9, 9)).open() for port in (41, 42))
    one.greet("a", REQUEST, lost=True)
    one.greet("b", REPLY)
    two.greet("a", REQUEST)
    two.greet("b", REPLY)
    two.operate().say("a", two.lay("a", 32))
    one.operate().say("a", one.lay("a", 31))
    receiver = follow(tap.segments)
    assert [(mpa.number, mpa.initiator) for mpa in receiver.connections] == [(0, "10.0.0.1:41"), (1, "10.0.0.1:42")]
    assert [record.ulpdu_length for record in records(receiver)] == [31, 32]


def test_ipv6() -> None:
    """Keys of IPv6 are longer; all else is the same."""
    key = bytes(15) + b"\1" + bytes(15) + b"\2" + b"\x9c\x40\x1d\x2f"
    assert endpoints(key) == ("[::1]:40000", "[::2]:7471")
