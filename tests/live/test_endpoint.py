"""Two endpoints in memory: whatever each of them is, both agree, all ULPDUs arrive, and the analysis says the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scapy_mpa import EndpointSettings, LocalProtocolError, MPAEndpoint, RemoteProtocolError
from scapy_mpa.craft import ulpdus
from scapy_mpa.framing import EnhancedData, decode_fpdu, decode_terminate, encode_fpdu, startup_frame
from scapy_mpa.framing.agreement import RnicKind
from scapy_mpa.framing.negotiation import NegotiationOutcome, negotiate
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.live.events import (
    Established,
    Event,
    PeerDeviated,
    Rejected,
    StreamDataReceived,
    StreamEnded,
    ULPDUReceived,
)
from tests.live.combining import pairwise
from tests.live.pair import Cut, Pair, single, whole

_TYPES: dict[str, dict[str, int]] = {
    "plain": {},
    "client-server": {"ird": 2, "ord": 3},
    "send": {"a": 1, "b": 1, "ird": 3, "ord": 3},
    "write": {"a": 1, "c": 1, "ird": 2, "ord": 4},
    "read": {"a": 1, "d": 1, "ird": 4, "ord": 2},
    "any": {"a": 1, "b": 1, "c": 1, "d": 1, "ird": 8, "ord": 8},
}
_SPEAKERS = ("rfc5044", "rfc6581", "rddp-01", "rdmac", "ietf-permissive")

PARAMETERS: dict[str, tuple[Any, ...]] = {
    "initiator": _SPEAKERS,
    "responder": _SPEAKERS,
    "m_initiator": (0, 1),
    "m_responder": (0, 1),
    "c_initiator": (1, 0),
    "c_responder": (0, 1),
    "asked": tuple(_TYPES),
    "offered": tuple(_TYPES),
    "rejects": ("no", "ulp", "ird"),
    "private_data": ((0, 0), (1, 504), (504, 1)),
    "delayed": (False, True),
    "automatic": (True, False),
    "joins": (False, True),
    "single": (False, True),
}
ROWS = pairwise(PARAMETERS)
#: Each that an RFC 6581 Initiator may ask for with each that a Responder of its kind offers.
ENHANCED_ROWS = [
    {
        **{name: values[0] for name, values in PARAMETERS.items()},
        "initiator": "rfc6581",
        "responder": "rfc6581",
        "asked": asked,
        "offered": offered,
        "rejects": rejects,
    }
    for asked in _TYPES
    for offered in _TYPES
    for rejects in ("no", "ird")
]


def settings(row: dict[str, Any], role: Role) -> EndpointSettings:
    """Return the settings of one side of a row."""
    speaker = row[role]
    kind: RnicKind = speaker if speaker in ("rdmac", "ietf-permissive") else "ietf"
    types = _TYPES[row["asked" if role == "initiator" else "offered"]] if speaker in ("rfc6581",) else {}
    return EndpointSettings(
        m=row[f"m_{role}"],
        c=row[f"c_{role}"],
        profile=None if kind != "ietf" else speaker,
        kind=kind,
        enhanced=EnhancedData(**types) if types else None,
        private_data=bytes(row["private_data"][ROLES.index(role)]),
        automatic=row["automatic"] and row["rejects"] != "ulp",
        requires_ord=row["rejects"] == "ird",
        rdmap=True,
    )


def expected(row: dict[str, Any]) -> NegotiationOutcome:
    """Return the required outcome of a row, by RFC 5044 appendix C and RFC 6581."""
    responder = settings(row, "responder").side("responder")._replace(rejects=row["rejects"] == "ulp")
    return negotiate(settings(row, "initiator").side("initiator"), responder)


def met(row: dict[str, Any], cut: Cut | None = None) -> Pair:
    """Both sides of a row, started."""
    cut = cut or (single if row["single"] else whole)
    pair = Pair(settings(row, "initiator"), settings(row, "responder"), cut)
    pair.joins = row["joins"]
    if row["delayed"]:
        pair.initiator.send_streaming(b"let us speak MPA")
        pair.exchange()
        pair.responder.send_streaming(b"so be it")
        pair.exchange()
    pair.start()
    if pair.responder.state == "deciding":
        answer = pair.responder.reject if row["rejects"] == "ulp" else pair.responder.accept
        pair.events["responder"] += answer()
        pair.exchange()
    return pair


SIZES = (0, 1, 2, 3, 100, 200, 490, 600)


def converse(pair: Pair, sizes: tuple[int, ...] = SIZES) -> dict[Role, list[bytes]]:
    """Both sides send Sends with so many octets; returns the ULPDUs of each."""
    said: dict[Role, list[bytes]] = {"initiator": [], "responder": []}
    rtr = next((event.rtr for event in pair.events["initiator"] if isinstance(event, Established)), None)
    for role in ROLES:
        endpoint = pair.endpoints[role]
        assert endpoint.agreement is not None
        msn = 2 if role == "initiator" and rtr == "send" else 1
        for size in sizes:
            version = endpoint.agreement.versions[0]
            ulpdu = ulpdus.untagged(ulpdus.SEND, 0, msn, bytes(size), version=version)
            endpoint.send(ulpdu)
            said[role].append(ulpdu)
            msn += 1
        pair.exchange()
    return said


def streamed(pair: Pair, role: Role) -> bytes:
    """The octets that one of them received outside MPA."""
    return b"".join(event.octets for event in pair.events[role] if isinstance(event, StreamDataReceived))


@pytest.mark.parametrize("row", [*ROWS, *ENHANCED_ROWS], ids=lambda row: "-".join(map(str, row.values())))
def test_pairwise(row: dict[str, Any]) -> None:
    outcome = expected(row)
    pair = met(row)
    if row["delayed"]:
        assert streamed(pair, "responder") == b"let us speak MPA"
        assert streamed(pair, "initiator") == b"so be it"
    assert pair.initiator.request == outcome.request
    assert pair.initiator.reply == outcome.reply or outcome.close is not None
    if outcome.operation is not None:
        _operates(pair, outcome)
    elif outcome.rejected is not None:
        _is_rejected(pair)
    else:
        _closes(pair, outcome)


def _operates(pair: Pair, outcome: NegotiationOutcome) -> None:
    assert pair.errors == {}
    assert pair.initiator.is_established
    assert pair.responder.is_established
    assert pair.initiator.agreement == pair.responder.agreement == outcome.operation
    assert outcome.operation is not None
    if outcome.rtr is not None:
        assert pair.responder.may_send
        (first,) = [event for event in pair.events["responder"] if isinstance(event, ULPDUReceived)]
        assert first.rtr == outcome.rtr
        (event,) = [event for event in pair.events["initiator"] if isinstance(event, Established)]
        assert event.rtr == outcome.rtr
    else:
        assert not pair.responder.may_send
        with pytest.raises(LocalProtocolError) as error:
            pair.responder.send(b"too early")
        assert (error.value.rule, error.value.requirement) == ("startup-responder-first", "MUST")
    said = converse(pair)
    for role in ROLES:
        assert pair.ulpdus(peer_of(role)) == said[role]
    connection = pair.analyzed()
    assert connection.judgement is not None
    assert connection.judgement.operation == outcome.operation
    assert connection.judgement.permitted
    assert [one.rule.id for one in connection.findings if one.rule.severity in ("error", "warning")] == []
    for half, role in ((connection.initiator, "initiator"), (connection.responder, "responder")):
        received = pair.events[peer_of(role)]
        fpdus = [event for event in received if isinstance(event, ULPDUReceived)]
        assert half.counts.fpdus == len(fpdus)
        assert half.counts.ulpdu_octets == sum(len(event.ulpdu) for event in fpdus)


def _is_rejected(pair: Pair) -> None:
    assert pair.errors == {}
    for role in ROLES:
        endpoint = pair.endpoints[role]
        assert (endpoint.state, endpoint.must_close) == ("rejected", False)
        (event,) = [event for event in pair.events[role] if isinstance(event, Rejected)]
        assert event.reply == endpoint.reply
        with pytest.raises(LocalProtocolError) as error:
            endpoint.send(bytes(20))
        assert error.value.rule == "startup-fpdu-after-rejection"
        endpoint.send_streaming(b"then as before")
    pair.exchange()
    for role in ROLES:
        assert streamed(pair, role).endswith(b"then as before")
    assert pair.analyzed().rejected


def _closes(pair: Pair, outcome: NegotiationOutcome) -> None:
    close = outcome.close
    assert close is not None
    error = pair.errors[close.by]
    assert error.code == close.code
    assert pair.endpoints[close.by].must_close
    assert error.clause
    if not close.terminate:
        assert not any(isinstance(event, ULPDUReceived) for role in ROLES for event in pair.events[role])
        return
    (told,) = pair.ulpdus("responder")
    terminate = decode_terminate(told)
    assert terminate is not None
    assert (terminate.layer, terminate.etype, terminate.code) == (2, 0, close.code)


# --- every cut ---

_TEN = [
    *[row for row in ROWS if expected(row).operation is not None][:7],
    *[row for row in ROWS if expected(row).rejected is not None][:1],
    *[row for row in ROWS if expected(row).close is not None][:1],
    *[row for row in ENHANCED_ROWS if expected(row).close is not None][:1],
]


def halves(at: int) -> Cut:
    """Return what cuts octets in two."""
    return lambda octets: (octets[:at], octets[at:])


@pytest.mark.parametrize("number", range(10))
def test_every_cut(number: int) -> None:
    """Each startup frame, streaming message and FPDU is cut in two at each of its octets."""
    row = {**_TEN[number], "joins": False, "private_data": (3, 5)}
    first = None
    for at in range(300):
        pair = met(row, halves(at))
        if pair.responder.is_established and pair.initiator.is_established:
            converse(pair, (10, 100, 200, 250))
        events = {role: _joined(pair.events[role]) for role in ROLES}
        found = events, {role: str(error) for role, error in pair.errors.items()}
        first = first or found
        assert found == first


def _joined(events: list[Event]) -> list[Event]:
    """The same events, streaming data, which has no boundaries, put together."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, StreamDataReceived) and found and isinstance(found[-1], StreamDataReceived):
            found[-1] = StreamDataReceived(found[-1].octets + event.octets)
        else:
            found.append(event)
    return found


# --- draft-culley-iwarp-mpa-02, which has no startup frames ---


@pytest.mark.parametrize("first", ROLES)
def test_without_startup_frames(first: Role) -> None:
    culley = EndpointSettings(profile="culley-02")
    pair = Pair(culley, culley, single)
    pair.start()
    assert pair.wire == []
    assert [*map(pair.kinds, ROLES)] == [["Established"], ["Established"]]
    pair.endpoints[first].send(bytes(1000))
    pair.exchange()
    said = converse(pair, (500, 20))
    assert pair.ulpdus(peer_of(first))[0] == bytes(1000)
    assert pair.ulpdus(first) == said[peer_of(first)]
    # In the second Marker of an FPDU that begins with one, FPDUPTR counts from the first of both (§6.1 of the draft).
    assert pair.wire[0][1][512:516] == bytes((0, 0, 2, 0))


# --- RFC 6581 ---


def test_an_initiator_without_resources_says_so() -> None:
    asks = EndpointSettings(enhanced=EnhancedData(ird=4, ord=4), ird_resources=1)
    pair = Pair(asks, EndpointSettings(enhanced=EnhancedData(ird=4, ord=4)))
    pair.start()
    error = pair.errors["initiator"]
    assert (error.rule, error.clause, error.code) == ("", "RFC 6581 §9.1", 6)
    (told,) = pair.ulpdus("responder")
    terminate = decode_terminate(told)
    assert terminate is not None
    assert (terminate.layer, terminate.etype, terminate.code) == (2, 0, 6)
    assert pair.initiator.must_close


def test_an_initiator_with_resources_takes_a_higher_ord() -> None:
    endpoint = MPAEndpoint("initiator", EndpointSettings(enhanced=EnhancedData(ird=2, ord=2), ird_resources=8))
    endpoint.start(0)
    reply = startup_frame("reply", enhanced=EnhancedData(ird=2, ord=3)).encode()
    events = endpoint.receive(reply, 0)
    assert [event.rule for event in events if isinstance(event, PeerDeviated)] == ["ird-ord-responder-ord"]
    assert endpoint.agreement is not None
    assert endpoint.agreement.depths is not None
    assert endpoint.agreement.depths.initiator_ird == 3


def test_falling_back() -> None:
    """RFC 6581 §10: an enhanced Request that is answered by a close may be tried again as a plain one."""
    asks = EndpointSettings(enhanced=EnhancedData(ird=1, ord=1), falls_back=True, private_data=b"data")
    pair = Pair(asks, EndpointSettings(rev=1))
    pair.start()
    error = pair.errors["responder"]
    assert (error.clause, error.code) == ("RFC 6581 §10", 4)
    assert pair.initiator.fallback is None
    with pytest.raises(RemoteProtocolError, match="startup-unanswered"):
        pair.initiator.receive_eof(0)
    assert pair.initiator.fallback is not None
    again = Pair(pair.initiator.fallback, EndpointSettings(rev=1))
    again.start()
    assert again.initiator.is_established
    assert again.initiator.fallback is None
    assert again.responder.request == startup_frame("request", c=1, private_data=b"data")


# --- time ---


@pytest.mark.parametrize(
    ("role", "seconds", "came"), [("initiator", 10, b""), ("responder", 5, b""), ("responder", 5, b"MPA ID Req Fr")]
)
def test_a_startup_frame_that_does_not_come(role: Role, seconds: float, came: bytes) -> None:
    endpoint = MPAEndpoint(role)
    assert endpoint.deadline is None
    endpoint.start(100)
    assert endpoint.deadline == 100 + seconds
    endpoint.receive(came, 101)
    endpoint.expire(100 + seconds - 0.001)
    with pytest.raises(RemoteProtocolError) as error:
        endpoint.expire(100 + seconds)
    assert (error.value.rule, error.value.clause) == ("startup-timeout", "RFC 5044 §7.1.2")
    assert f"{len(came)} octets" in str(error.value)
    assert endpoint.must_close
    assert endpoint.deadline is None
    endpoint.expire(1000)
    assert endpoint.receive(b"late", 1000) == []


def test_octets_behind_the_deadline_are_too_late() -> None:
    endpoint = MPAEndpoint("responder", EndpointSettings(request_timeout=1))
    endpoint.start(0)
    with pytest.raises(RemoteProtocolError, match="startup-timeout"):
        endpoint.receive(startup_frame("request").encode(), 1)


def test_no_timeout_and_none_after_startup() -> None:
    endpoint = MPAEndpoint("responder", EndpointSettings(request_timeout=None))
    endpoint.start(0)
    assert endpoint.deadline is None
    other_one = MPAEndpoint("responder", EndpointSettings(automatic=False))
    other_one.start(0)
    other_one.receive(startup_frame("request").encode(), 1)
    assert other_one.deadline is None


# --- the end ---


def established(**changes: Any) -> Pair:
    pair = Pair(EndpointSettings(**changes), EndpointSettings(**changes))
    pair.start()
    return pair


def test_a_fin_between_fpdus_is_reported_and_the_other_half_goes_on() -> None:
    pair = established()
    pair.initiator.send(b"last words")
    pair.exchange()
    assert pair.responder.receive_eof(1) == [StreamEnded()]
    pair.responder.send(b"answer")
    pair.exchange()
    assert pair.ulpdus("initiator") == [b"answer"]
    assert pair.responder.receive_eof(2) == []
    with pytest.raises(LocalProtocolError):
        pair.responder.receive(b"more", 3)


@pytest.mark.parametrize("how", ["eof", "reset"])
def test_an_end_inside_an_fpdu_is_code_1(how: str) -> None:
    pair = established(rdmap=True)
    pair.initiator.send(b"first")
    pair.exchange()
    pair.initiator.send(b"second")
    (fpdu,) = pair.initiator.data_to_send()
    assert pair.responder.receive(fpdu[:-1], 0) == []
    with pytest.raises(RemoteProtocolError) as error:
        getattr(pair.responder, f"receive_{how}")(1)
    assert (error.value.rule, error.value.code, error.value.clause) == ("connection-lost", 1, "RFC 5044 §8")
    assert pair.responder.data_to_send() == []
    assert pair.responder.must_close


def test_a_reset_between_fpdus() -> None:
    pair = established()
    events = pair.initiator.receive_reset(0)
    assert events[-1] == StreamEnded("rst")
    assert isinstance(events[0], PeerDeviated)
    assert events[0].rule == "teardown-reset"
    assert pair.initiator.must_close
    assert not pair.initiator.may_send


# --- errors are delivered once (RFC 5044 §8) ---


@pytest.mark.parametrize("rdmap", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_what_comes_before_an_error_counts_and_nothing_after_it(rdmap: bool, split: bool) -> None:
    pair = established(rdmap=rdmap)
    for ulpdu in (b"one", b"two", b"three"):
        pair.initiator.send(ulpdu)
    one, two, three = pair.initiator.data_to_send()
    bad = two[:-1] + bytes((two[-1] ^ 1,))
    if split:
        assert [event.ulpdu for event in pair.responder.receive(one, 0)] == [b"one"]  # type: ignore[union-attr]
    with pytest.raises(RemoteProtocolError) as error:
        pair.responder.receive(bad + three if split else one + bad + three, 0)
    assert (error.value.rule, error.value.code) == ("crc", 2)
    assert [event.ulpdu for event in error.value.events] == ([] if split else [b"one"])  # type: ignore[union-attr]
    assert pair.responder.receive(three, 0) == []
    assert pair.responder.receive_eof(0) == []
    queued = pair.responder.data_to_send()
    if not rdmap:
        # It is the ULP that closes, and that may say why before.
        assert (queued, pair.responder.must_close, pair.responder.may_send) == ([], False, True)
        pair.responder.send(b"last words")
        pair.exchange()
        assert pair.ulpdus("initiator") == [b"last words"]
        return
    assert pair.responder.must_close
    (octets,) = queued
    fpdu = decode_fpdu(octets)
    assert fpdu is not None
    terminate = decode_terminate(fpdu.ulpdu)
    assert terminate is not None
    assert (terminate.layer, terminate.etype, terminate.code) == (2, 0, 2)


def test_a_responder_without_a_valid_fpdu_sends_no_terminate() -> None:
    """Rule 4 of §7.1.2 goes before what RDMAP would like to say."""
    pair = established(rdmap=True)
    with pytest.raises(RemoteProtocolError):
        pair.responder.receive(b"\0\x02hi" + bytes(4), 0)
    assert pair.responder.data_to_send() == []
    assert pair.responder.must_close


def test_a_terminate_of_the_upper_layer() -> None:
    pair = established()
    pair.initiator.terminate(1, 2, 1)
    assert pair.initiator.must_close
    with pytest.raises(LocalProtocolError):
        pair.initiator.send(b"more")
    pair.exchange()
    (told,) = pair.ulpdus("responder")
    terminate = decode_terminate(told)
    assert terminate is not None
    assert (terminate.layer, terminate.etype, terminate.code) == (1, 2, 1)


# --- what you do wrong ---


def test_mulpdu_follows_emss() -> None:
    pair = established(m=1, emss=1460)
    assert pair.initiator.mulpdu == 1460 - (6 + 4 * 3 + 0)
    pair.initiator.send(bytes(pair.initiator.mulpdu))
    pair.initiator.emss = 536
    assert pair.initiator.mulpdu == 536 - (6 + 4 * 2 + 0)
    with pytest.raises(LocalProtocolError) as error:
        pair.initiator.send(bytes(pair.initiator.mulpdu + 1))
    assert (error.value.rule, error.value.clause) == ("mulpdu", "RFC 5044 §4.5")
    pair.initiator.emss = 1 << 20
    assert pair.initiator.mulpdu == 64768
    pair.initiator.send(bytes(64768))
    pair.exchange()
    assert [*map(len, pair.ulpdus("responder"))] == [1442, 64768]


def stream_in_startup(endpoint: MPAEndpoint) -> None:
    endpoint.start(0)
    endpoint.send_streaming(b"x")


#: What is called when, and the rule that it would break.
WRONG: dict[str, tuple[Callable[[MPAEndpoint], object], str]] = {
    "send-before-start": (lambda endpoint: endpoint.send(b"x"), "startup-frame"),
    "accept-nothing": (lambda endpoint: endpoint.accept(), ""),
    "reject-nothing": (lambda endpoint: endpoint.reject(), ""),
    "start-twice": (lambda endpoint: endpoint.start(0) + endpoint.start(0), ""),
    "terminate-before": (lambda endpoint: endpoint.terminate(0, 0, 0), "startup-frame"),
    "stream-in-startup": (stream_in_startup, ""),
    "emss": (lambda endpoint: setattr(endpoint, "emss", 0), ""),
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", WRONG)
def test_what_you_must_not_do(name: str, role: Role) -> None:
    call, rule = WRONG[name]
    endpoint = MPAEndpoint(role)
    with pytest.raises(LocalProtocolError) as error:
        call(endpoint)
    assert error.value.rule == rule


@pytest.mark.parametrize("empty", [True, False])
def test_what_no_fpdu_holds(empty: bool) -> None:
    pair = established()
    with pytest.raises(LocalProtocolError) as error:
        pair.initiator.send(b"" if empty else bytes(1455))
    assert error.value.rule == ("ulpdu-length-zero" if empty else "mulpdu")
    assert pair.initiator.data_to_send() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "toy"},
        {"profile": "rfc793"},
        {"rev": 256},
        {"rev": 1, "profile": "rfc6581"},
        {"rev": 1, "enhanced": EnhancedData()},
        {"enhanced": EnhancedData(ird=0x4000)},
        {"kind": "rdmac", "profile": "culley-02"},
    ],
    ids=str,
)
def test_settings_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        EndpointSettings(**wrong)


def test_private_data_that_is_too_long() -> None:
    with pytest.raises(LocalProtocolError) as error:
        MPAEndpoint("initiator", EndpointSettings(private_data=bytes(513)))
    assert (error.value.rule, error.value.clause) == ("startup-private-data-limit", "RFC 5044 §7.1.1")
    responder = MPAEndpoint("responder", EndpointSettings(automatic=False))
    responder.start(0)
    responder.receive(startup_frame("request").encode(), 0)
    with pytest.raises(LocalProtocolError):
        responder.accept(bytes(513))
    responder.accept(bytes(512))
    assert responder.is_established


def test_a_reply_that_cannot_be_sent_by_itself_leaves_the_choice() -> None:
    """508 octets are what an enhanced Reply has room for; the event is not lost."""
    responder = MPAEndpoint("responder", EndpointSettings(private_data=bytes(510)))
    responder.start(0)
    with pytest.raises(LocalProtocolError) as error:
        responder.receive(startup_frame("request", enhanced=EnhancedData(ird=1, ord=1)).encode(), 0)
    assert [type(event).__name__ for event in error.value.events] == ["RequestReceived"]
    assert [type(event).__name__ for event in responder.accept(bytes(508))] == ["Established"]


def test_a_responder_that_speaks_first_is_reported() -> None:
    pair = established()
    reply_and_fpdu = startup_frame("reply", c=1).encode() + encode_fpdu(b"too early")
    initiator = MPAEndpoint("initiator")
    initiator.start(0)
    events = initiator.receive(reply_and_fpdu, 0)
    assert [type(event).__name__ for event in events] == ["Established", "PeerDeviated", "ULPDUReceived"]
    assert isinstance(events[1], PeerDeviated)
    assert (events[1].rule, events[1].clause) == ("startup-responder-first", "RFC 5044 §7.1.2")
    pair.initiator.send(b"first")
    pair.exchange()
    pair.responder.send(b"in turn")
    pair.exchange()
    assert pair.kinds("initiator") == ["Established", "ULPDUReceived"]
