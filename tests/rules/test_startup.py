"""Rules of the Startup Phase: frames, their order, and what follows which."""

from __future__ import annotations

import pytest

from scapy_mpa.craft.packets import ACK, FIN, RST
from scapy_mpa.craft.ulpdus import READ_REQUEST, TERMINATE, rdma_write, read_request_body, send, untagged
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.startup import EnhancedData, StartupFrame, startup_frame
from tests.receive.cases import REPLY, REQUEST, Side, Talk, feed
from tests.rules.talks import begun, findings, put, told

Told = set[tuple[str, str | None]]


def negotiated(request: bytes, reply: bytes | None, *ulpdus: bytes, markers: str = "", crc: bool = True) -> Talk:
    """A talk with these frames, and the first FPDU of the Initiator, and of the Responder if there are two."""
    talk = Talk().open()
    talk.greet("a", request)
    if reply is not None:
        talk.greet("b", reply)
        talk.operate(crc=crc, markers=markers)
        sides: tuple[Side, Side] = ("a", "b")
        for side, ulpdu in zip(sides, ulpdus, strict=False):
            put(talk, side, ulpdu)
    return talk


def plain(kind: str, **fields: object) -> bytes:
    return startup_frame(kind, **{"c": 1, **fields}).encode()  # type: ignore[arg-type]


def enhanced(kind: str, *, res: int = 0, rev: int = 2, **data: int) -> bytes:
    depths = {"ird": 4, "ord": 4, **data}
    return startup_frame(kind, c=1, rev=rev, res=res, enhanced=EnhancedData(**depths)).encode()  # type: ignore[arg-type]


FIRST = send(1, bytes(20))
ANSWER = send(1, bytes(20))
RTR_WRITE = rdma_write(0, 0, b"")
RTR_READ = untagged(READ_REQUEST, 1, 1, read_request_body(0, 0, 0, 0, 0))


def version_0(ulpdu: bytes) -> bytes:
    return bytes((ulpdu[0] & ~3, ulpdu[1] & 0x3F)) + ulpdu[2:]


# (what is told, Request, Reply, first ULPDUs): each broken once, or remarkable once.
FRAMES: tuple[tuple[Told, bytes, bytes, tuple[bytes, ...]], ...] = (
    (set(), plain("request"), plain("reply"), (FIRST, ANSWER)),
    ({("startup-reserved-bits", "initiator")}, plain("request", res=1), plain("reply"), (FIRST, ANSWER)),
    ({("startup-reserved-bits", "responder")}, plain("request"), plain("reply", res=8), (FIRST, ANSWER)),
    ({("startup-request-r", "initiator")}, plain("request", r=1), plain("reply"), (FIRST, ANSWER)),
    ({("startup-enhanced-revision", "initiator")}, plain("request", s=1, rev=1), plain("reply"), (FIRST, ANSWER)),
    ({("startup-revision-differs", "responder")}, plain("request", rev=2), plain("reply"), (FIRST, ANSWER)),
    (
        {("startup-revision", "initiator"), ("startup-revision-differs", "responder")},
        plain("request", rev=3), plain("reply", rev=2), (FIRST, ANSWER),
    ),
    (set(), plain("request", rev=2), plain("reply", rev=2), (FIRST, ANSWER)),
    # RNICs
    (
        {("rnic-parameters", "initiator"), ("rnic-parameters", "responder")},
        plain("request", rev=0), plain("reply", rev=0), (FIRST, ANSWER),
    ),
    (set(), plain("request", rev=0, m=1), plain("reply", rev=0, m=1), (version_0(FIRST), version_0(ANSWER))),
    (
        {("rnic-version", "initiator"), ("rnic-version", "responder")},
        plain("request", rev=0, m=1), plain("reply", rev=0, m=1), (FIRST, ANSWER),
    ),
    ({("rnic-foreign-revision", "responder")}, plain("request", rev=0, m=1), plain("reply", m=1), (FIRST, ANSWER)),
    (
        {("rnic-version", "responder"), ("rnic-version-mixed", "responder")},
        plain("request"), plain("reply"), (FIRST, version_0(ANSWER)),
    ),
    # RFC 6581
    (set(), enhanced("request"), enhanced("reply"), (FIRST, ANSWER)),
    ({("enhanced-reply", "responder")}, enhanced("request"), plain("reply", rev=2), (FIRST, ANSWER)),
    (
        {("enhanced-reply", "responder")},
        plain("request", rev=2), enhanced("reply"), (FIRST, ANSWER),
    ),
    ({("enhanced-unused", "initiator")}, enhanced("request", ird=0x3FFF, ord=0x3FFF),
     enhanced("reply", ird=0x3FFF, ord=0x3FFF), (FIRST, ANSWER)),
    ({("enhanced-control-flags", "initiator")}, enhanced("request", c=1), enhanced("reply"), (FIRST, ANSWER)),
    ({("enhanced-connection-model", "responder")}, enhanced("request", a=1, c=1), enhanced("reply"), (RTR_WRITE,)),
    (set(), enhanced("request", a=1, c=1), enhanced("reply", a=1, c=1), (RTR_WRITE, ANSWER)),
    ({("rtr", "initiator")}, enhanced("request", a=1, c=1), enhanced("reply", a=1, c=1), (FIRST, ANSWER)),
    (
        {("rtr-none-offered", "initiator"), ("rtr-not-closed", "initiator")},
        enhanced("request", a=1), enhanced("reply", a=1, c=1), (FIRST, ANSWER),
    ),
    (
        {("rtr-none", "responder"), ("rtr-not-closed", "initiator")},
        enhanced("request", a=1, c=1), enhanced("reply", a=1), (FIRST, ANSWER),
    ),
    (
        {("rtr-not-closed", "initiator")},
        enhanced("request", a=1, c=1), enhanced("reply", a=1, d=1), (FIRST, ANSWER),
    ),
    (
        {("terminate", "initiator")},
        enhanced("request", a=1, c=1), enhanced("reply", a=1, d=1), (untagged(TERMINATE, 2, 1, b"\x20\x07\0\0"),),
    ),
    (
        {("terminate", "initiator"), ("terminate-code", "initiator")},
        enhanced("request", a=1, c=1), enhanced("reply", a=1, d=1), (untagged(TERMINATE, 2, 1, b"\x20\x06\0\0"),),
    ),
    (
        {("rtr-read-depth", "responder"), ("ird-ord-responder-ird", "responder"), ("ird-ord-exceeded", "initiator")},
        enhanced("request", a=1, d=1), enhanced("reply", a=1, d=1, ird=0), (RTR_READ, ANSWER),
    ),
    ({("ird-ord-responder-ord", "responder")}, enhanced("request", ird=2), enhanced("reply", ord=3), (FIRST, ANSWER)),
    (set(), enhanced("request", ird=2), enhanced("reply", ord=2), (FIRST, ANSWER)),
    ({("ird-ord-responder-ird", "responder")}, enhanced("request", ord=3), enhanced("reply", ird=2), (FIRST, ANSWER)),
    (
        {("ird-ord-not-negotiated", "responder")},
        enhanced("request", ord=0x3FFF), enhanced("reply", ird=2), (FIRST, ANSWER),
    ),
    (
        {("ird-ord-byte-order", "initiator"), ("ird-ord-byte-order", "responder")},
        enhanced("request", ird=0x100, ord=0x400), enhanced("reply", ird=0x400, ord=0x100), (FIRST, ANSWER),
    ),
    (set(), enhanced("request", ird=0x100, ord=0x80), enhanced("reply", ird=0x80, ord=0x100), (FIRST, ANSWER)),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(FRAMES)))
def test_what_frames_and_first_fpdus_break(number: int) -> None:
    rules, request, reply, ulpdus = FRAMES[number]
    markers = ("b" if request[16] & 0x80 else "") + ("a" if reply[16] & 0x80 else "")
    talk = Talk().open()
    frames = {"initiator": talk.greet("a", request), "responder": talk.greet("b", reply)}
    talk.operate(markers=markers, origin="first-octet" if reply[17] == 0 else "header")
    first = {}
    sides: tuple[Side, Side] = ("a", "b")
    for side, ulpdu in zip(sides, ulpdus, strict=False):
        first["initiator" if side == "a" else "responder"] = put(talk, side, ulpdu)
    found = findings(feed([talk.segments]))
    assert {(one.rule.id, one.direction) for one in found} == rules
    for one in found:
        assert one.direction is not None
        assert one.frame in (frames[one.direction], first.get(one.direction))
        assert one.count == 1 and one.detail


# --- frames that end in close ---


@pytest.mark.parametrize(("size", "rules"), [(512, set()), (513, {("startup-private-data-limit", "initiator")})])
def test_private_data_above_the_limit(size: int, rules: Told) -> None:
    talk = negotiated(plain("request", private_data=bytes(size)), None)
    talk.say("b", flags=FIN | ACK)
    assert told(talk) == rules | ({("startup-unanswered", "responder")} if size == 512 else set())


def test_an_invalid_request_is_answered() -> None:
    talk = negotiated(plain("request", private_data=bytes(600)), REPLY, FIRST, ANSWER)
    assert told(talk) == {
        ("startup-private-data-limit", "initiator"),
        ("startup-invalid-answered", "responder"),
        ("startup-not-closed", "responder"),
    }


@pytest.mark.parametrize("closes", [True, False])
def test_an_invalid_request_and_no_close(closes: bool) -> None:
    talk = negotiated(startup_frame("request", rev=2, s=1, private_data=b"ab").encode(), None)
    talk.say("b")
    if closes:
        talk.say("b", flags=RST | ACK)
    for _ in range(12):
        talk.say("a")
    late = set() if closes else {("startup-not-closed", "responder")}
    assert told(talk) == {("startup-enhanced-data", "initiator")} | late


@pytest.mark.parametrize("kind", ["request", "reply"])
@pytest.mark.parametrize(("kept", "rule"), [(17, "startup-frame"), (25, "startup-pd-length")])
def test_a_frame_that_ends_too_soon(kind: str, kept: int, rule: str) -> None:
    talk = Talk().open()
    if kind == "reply":
        talk.greet("a", REQUEST)
    side: Side = "a" if kind == "request" else "b"
    talk.say(side, startup_frame(kind, private_data=bytes(40)).encode()[:kept])  # type: ignore[arg-type]
    talk.say(side, flags=FIN | ACK)
    assert (rule, "responder" if kind == "reply" else "initiator") in told(talk)


def test_pd_length_that_is_too_small() -> None:
    request = StartupFrame("request", 0, 1, 0, 0, 0, 1, 4, b"all of this, to its end, is private data").encode()
    talk = Talk().open()
    talk.say("a", request)
    talk.say("b", REPLY)
    assert told(talk) == {("startup-pd-length", "initiator"), ("startup-invalid-answered", "responder")}


def test_pd_length_that_is_too_large() -> None:
    """The rest of the Private Data seems to come after the Reply, which acknowledged all there is."""
    request = StartupFrame("request", 0, 1, 0, 0, 0, 1, 60, b"short").encode()
    talk = Talk().open()
    talk.say("a", request)
    talk.say("b", REPLY)
    talk.say("a", bytes(100))
    assert {("startup-pd-length", "initiator"), ("startup-reply-first", "responder")} & told(talk)


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("then", [b"", b"as was said", bytes(100)])
def test_octets_behind_a_frame_that_are_no_fpdu(side: Side, then: bytes) -> None:
    """They are few; what they are is told by all that follows them."""
    frame = StartupFrame("request" if side == "a" else "reply", 0, 1, 0, 0, 0, 1, 4, b"all of this").encode()
    talk = Talk().open()
    talk.say("a", frame if side == "a" else REQUEST)
    talk.say("b", frame if side == "b" else REPLY)
    talk.say("a" if side == "b" else "b")
    talk.say(side, then * 9)
    who = "initiator" if side == "a" else "responder"
    found = told(talk)
    # Seven octets alone may be the beginning of anything.
    assert (("startup-pd-length", who) in found) == bool(then)
    assert not then or not {rule for rule, _ in found} & {"startup-fpdu-before-reply", "startup-responder-first"}


def test_pd_length_of_the_reply_that_is_too_large() -> None:
    """The Initiator takes what there is for the whole, and the Responder's first FPDU seems to be Private Data."""
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.greet("b", StartupFrame("reply", 0, 1, 0, 0, 0, 1, 12, b"hell").encode())
    talk.operate()
    put(talk, "a", FIRST)
    put(talk, "b", ANSWER)
    found = told(talk)
    assert ("startup-pd-length", "responder") in found
    assert not {rule for rule, who in found if who == "initiator"} & {"startup-fpdu-before-reply", "startup-pd-length"}


@pytest.mark.parametrize(
    "key", [b"MPA ID Req Framf", b"mpa id req frame", b"MPA ID Req\0\0\0\0\0\0", b"MPA ID Frame Req"]
)
@pytest.mark.parametrize("answered", [True, False])
def test_a_key_that_is_nearly_right(key: bytes, answered: bool) -> None:
    talk = Talk().open()
    frame = talk.greet("a", key + REQUEST[16:])
    is_nearly_right = key[:10].upper() == b"MPA ID REQ" and key[10:] != bytes(6)
    if not answered:
        talk.say("b", flags=RST | ACK)
        found = feed([talk.segments]).findings.sorted()
        assert [(one.rule.id, one.frame) for one in found] == ([("startup-key", frame)] if is_nearly_right else [])
        return
    talk.greet("b", REPLY)
    talk.operate()
    put(talk, "a", FIRST)
    put(talk, "b", ANSWER)
    wrong = {("startup-key", "initiator"), ("startup-invalid-answered", "responder")}
    assert told(talk) == (wrong if is_nearly_right else {("startup-reply-first", "responder")})


def test_a_request_that_is_repeated_otherwise() -> None:
    """Who sees the second copy first takes other Private Data for it."""
    for octets, rules in ((b"data", set()), (b"Data", {("overlap", "initiator")})):
        talk = Talk().open()
        seq = talk.next["a"]
        talk.greet("a", plain("request", private_data=b"data"))
        talk.put("a", seq, plain("request", private_data=octets))
        talk.greet("b", REPLY)
        talk.operate()
        put(talk, "a", FIRST)
        assert told(talk) == rules


def test_text_that_begins_like_a_key() -> None:
    talk = Talk().open()
    talk.say("a", b"MPA ID Req Frames are what this is about")
    talk.say("b", flags=FIN | ACK)
    assert not feed([talk.segments]).findings.sorted()


def test_both_in_the_same_role() -> None:
    for kinds, rule in ((("request", "request"), "startup-role"), (("request", "reply"), None)):
        talk = Talk().open()
        talk.greet("a", plain(kinds[0]))
        talk.greet("b", plain(kinds[1]))
        assert {one for one, _ in told(talk) if one == "startup-role"} == ({rule} if rule else set())


def test_something_else_in_place_of_the_reply() -> None:
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.say("b", b"HTTP/1.1 400 Bad Request\r\n\r\n")
    talk.say("a", flags=RST | ACK)
    assert told(talk) == {("startup-key", "responder")}


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", plain("request"), REPLY[:17]])
def test_an_answer_that_is_no_reply_is_no_silence(answer: bytes) -> None:
    """The Initiator closes, as it has to: nobody was left waiting."""
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.say("b", answer)
    talk.say("a", flags=FIN | ACK)
    talk.say("b", flags=FIN | ACK)
    rules = {rule for rule, _ in told(talk)}
    assert "startup-unanswered" not in rules
    assert rules & {"startup-key", "startup-role", "startup-frame"}


@pytest.mark.parametrize(
    ("behind", "apart", "rule"),
    [
        (bytes(36), False, "startup-pd-length"),
        (encode_fpdu(FIRST), False, "startup-fpdu-before-reply"),
        (encode_fpdu(FIRST), True, "startup-fpdu-before-reply"),
    ],
)
def test_what_is_behind_a_request_is_why_its_receiver_closes(behind: bytes, apart: bool, rule: str) -> None:
    """Not the Responder's fault, who must close (RFC 5044 §7.1.2, rules 2 and 9)."""
    talk = Talk().open()
    for part in (REQUEST, behind) if apart else (REQUEST + behind,):
        talk.say("a", part)
    talk.say("b", flags=FIN | ACK)
    assert told(talk) == {(rule, "initiator")}


def test_private_data_that_is_not_counted_is_no_fpdu_that_was_lost() -> None:
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.say("b", StartupFrame("reply", 0, 1, 0, 0, 0, 1, 4, bytes(range(40))).encode())
    talk.close()
    assert told(talk) == {("startup-pd-length", "responder")}


@pytest.mark.parametrize(("octet", "rules"), [(0xC0, {("overlap", "initiator")}), (0x40, set())])
def test_a_request_that_is_repeated(octet: int, rules: Told) -> None:
    """With M it would ask for something else."""
    talk = Talk().open()
    seq = talk.next["a"]
    talk.greet("a", REQUEST)
    talk.put("a", seq, REQUEST[:16] + bytes((octet,)) + REQUEST[17:])
    talk.greet("b", REPLY)
    talk.operate()
    put(talk, "a", FIRST)
    put(talk, "b", ANSWER)
    assert told(talk) == rules


def test_the_version_that_was_not_agreed_on_is_the_wrong_one() -> None:
    talk = negotiated(plain("request"), plain("reply"), version_0(FIRST), ANSWER)
    assert told(talk) == {("rnic-version", "initiator"), ("rnic-version-mixed", "initiator")}


# --- their order ---


def test_a_reply_before_the_request_was_received() -> None:
    for early in (True, False):
        talk = Talk().open()
        begin = talk.next["a"]
        talk.greet("a", REQUEST)
        talk.greet("b", REPLY, ack=begin if early else None)
        talk.operate()
        put(talk, "a", FIRST)
        assert told(talk) == ({("startup-reply-first", "responder")} if early else set())


@pytest.mark.parametrize("before", [b"", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_reply_without_a_request(before: bytes) -> None:
    talk = Talk().open()
    if before:
        talk.say("a", before)
    talk.greet("b", REPLY)
    assert told(talk) == {("startup-reply-first", "responder")}


def test_a_reply_before_all_of_the_request() -> None:
    """Who answers what has not come cannot have looked at PD_Length."""
    talk = Talk().open()
    talk.greet("b", REPLY)
    talk.greet("a", REQUEST)
    talk.operate()
    put(talk, "a", FIRST)
    assert told(talk) == {("startup-reply-first", "responder")}


def test_the_clause_of_a_rule_is_of_a_specification_that_has_it() -> None:
    """The Reply has Rev 1; that an enhanced Request gets an enhanced Reply is RFC 6581's all the same."""
    talk = negotiated(enhanced("request"), plain("reply"), FIRST, ANSWER)
    found = {one.rule.id: one.clause for one in findings(feed([talk.segments]))}
    assert found == {"enhanced-reply": "RFC 6581 §10", "startup-revision-differs": "RFC 5044 §7.1.1"}


@pytest.mark.parametrize("received", [True, False])
def test_octets_before_the_reply(received: bool) -> None:
    talk = Talk().open()
    begin = talk.next["a"]
    talk.greet("a", REQUEST)
    talk.say("b", b"one moment", ack=None if received else begin)
    talk.greet("b", REPLY)
    talk.operate()
    put(talk, "a", FIRST)
    rule = "startup-octets-before-reply" if received else "startup-stream-data"
    assert told(talk) == {(rule, "responder")}


@pytest.mark.parametrize("received", [True, False])
def test_octets_before_the_reply_in_its_segment(received: bool) -> None:
    talk = Talk().open()
    begin = talk.next["a"]
    talk.greet("a", REQUEST)
    talk.say("b", b"junk", ack=None if received else begin)
    talk.greet("b", b"more" + REPLY)
    talk.operate()
    put(talk, "a", FIRST)
    found = findings(feed([talk.segments]))
    details = {"startup-octets-before-reply": "8 octets between the Request and the Reply"}
    if not received:
        details = {"startup-octets-before-reply": "4 octets between the Request and the Reply"}
    assert {one.rule.id: one.detail for one in found} == details


def test_the_responder_is_not_accused_behind_a_damaged_fpdu() -> None:
    """Of an FPDU whose CRC is bad nobody knows where it ends: its ULPDU_Length may count too much."""
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.greet("b", REPLY)
    talk.operate()
    octets, _ = talk.streams["a"].lay([FIRST])
    length = int.from_bytes(octets[:2], "big") + 4
    talk.say("a", length.to_bytes(2, "big") + octets[2:])
    put(talk, "b", ANSWER)
    talk.say("a", bytes(400))
    assert "startup-responder-first" not in {rule for rule, _ in told(talk)}


@pytest.mark.parametrize("received", [True, False])
def test_an_fpdu_before_the_reply(received: bool) -> None:
    """By what its sender had received, not by the order of capture."""
    talk = Talk().open()
    talk.greet("a", REQUEST)
    begin = talk.next["b"]
    talk.greet("b", REPLY)
    talk.operate()
    octets, _ = talk.streams["a"].lay([FIRST])
    talk.say("a", octets, ack=None if received else begin)
    assert told(talk) == (set() if received else {("startup-fpdu-before-reply", "initiator")})


@pytest.mark.parametrize("received", [True, False])
@pytest.mark.parametrize("captured_first", ["a", "b"])
def test_the_responders_fpdu_before_the_initiators(captured_first: Side, received: bool) -> None:
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.greet("b", REPLY)
    talk.operate()
    talk.say("a")
    one, two = talk.streams["a"].lay([FIRST])[0], talk.streams["b"].lay([ANSWER])[0]
    seq = dict(talk.next)
    ack = (seq["a"] + len(one)) & 0xFFFFFFFF if received else seq["a"]
    if captured_first == "a":
        talk.put("a", seq["a"], one)
    frame = talk.put("b", seq["b"], two, ack=ack)
    if captured_first == "b":
        talk.put("a", seq["a"], one, ack=seq["b"])
    found = findings(feed([talk.segments]))
    assert [(each.rule.id, each.direction, each.frame) for each in found] == (
        [] if received else [("startup-responder-first", "responder", frame)]
    )


@pytest.mark.parametrize("acknowledged", [True, False])
def test_streaming_data_under_way(acknowledged: bool) -> None:
    talk = Talk().open()
    talk.say("a", b"let us speak MPA")
    if acknowledged:
        talk.say("b")
    talk.greet("a", REQUEST)
    talk.greet("b", REPLY)
    assert told(talk) == (set() if acknowledged else {("startup-stream-data", "initiator")})


@pytest.mark.parametrize("how", ["closed", "silent", "soon over", "not received"])
def test_a_request_that_is_not_answered(how: str) -> None:
    talk = Talk().open()
    talk.greet("a", REQUEST)
    if how != "not received":
        talk.say("b")
    if how == "closed":
        talk.say("b", flags=RST | ACK)
    if how in ("silent", "not received"):
        for _ in range(12):
            talk.say("a", ack=talk.next["b"])
    expected = {("startup-unanswered", "responder")} if how in ("closed", "silent") else set()
    assert told(talk) == expected


@pytest.mark.parametrize("crc", [0, 1])
@pytest.mark.parametrize("after", ["FPDUs", "streaming"])
def test_after_a_rejection(after: str, crc: int) -> None:
    talk = Talk().open()
    talk.greet("a", plain("request", c=crc))
    talk.greet("b", plain("reply", c=crc, r=1))
    talk.operate(crc=bool(crc))
    if after == "FPDUs":
        frame = put(talk, "a", FIRST)
        put(talk, "b", ANSWER)
    else:
        talk.say("a", b"then without MPA, as we did before")
        talk.say("b", b"as you like")
    found = {(one.rule.id, one.direction): one.frame for one in findings(feed([talk.segments]))}
    rejected = {("startup-rejected", "responder"): 5}
    if after == "FPDUs":
        rule = "startup-fpdu-after-rejection"
        assert found == {(rule, "initiator"): frame, (rule, "responder"): frame + 1} | rejected
    else:
        assert found == rejected


def test_nothing_is_wrong_with_what_is_right() -> None:
    for m in ((0, 0), (0, 1), (1, 0), (1, 1)):
        talk = begun(m=m)
        put(talk, "a", send(2, bytes(400)), rdma_write(1, 0, bytes(50)))
        put(talk, "b", send(2, bytes(400)))
        assert told(talk.close()) == set()
