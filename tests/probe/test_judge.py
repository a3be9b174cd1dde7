"""Verdicts: what was seen of a case, and what is made of it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.craft.ulpdus import READ_RESPONSE, TERMINATE, rdma_write, tagged, terminate_body, untagged
from scapy_mpa.framing.startup import REPLY_KEY, startup_frame
from scapy_mpa.live.errors import RemoteProtocolError
from scapy_mpa.probe.choice import all_cases
from scapy_mpa.probe.deviations import Deviations, are_known
from scapy_mpa.probe.expectations import CAPTURE_ONLY, TABLE, expectation_of
from scapy_mpa.probe.judge import VERDICTS, Judge, Spoken, difference, expected_words, seen_words
from scapy_mpa.probe.seen import ECHO_STAG, SeenFPDU, SeenPeer, Watcher

REPLY, REJECTION = startup_frame("reply", c=1), startup_frame("reply", c=1, r=1)
#: A Terminate as Linux siw lays it out: layer 2, type 0, code 2.
SIW = bytes.fromhex("02020000")


def terminate(layer: int, etype: int, code: int) -> bytes:
    return untagged(TERMINATE, 2, 1, terminate_body(layer, etype, code))


def seen(*ulpdus: bytes, **values: Any) -> SeenPeer:
    return SeenPeer(
        frame=values.pop("frame", REPLY), fpdus=[SeenFPDU(one, 0.1) for one in ulpdus], seconds=0.3, **values
    )


NOTHING = seen(frame=None)
REQUEST = startup_frame("request", c=1)
#: The answer to the RDMA Read that follows a case.
ECHO = tagged(READ_RESPONSE, ECHO_STAG, 0, b"")
#: Segments that bring nothing that is new, or that no TCP takes.
DROPPED = (
    "overlap-head-second", "overlap-tail-second", "overlap-wraps-second", "overlap-second-differs",
    "octets-acknowledged", "octets-old", "late-octets", "rst-outside-the-window", "tcp-checksum-then-right",
    "fragments-overlap",
)  # fmt: skip
#: Name of a case, what was seen of it, what our side says beside it, verdict, and a word of the reason.
ROWS: list[tuple[str, SeenPeer, Spoken, str, str]] = [
    # Errors of MPA: a Terminate; its ULP may close without one; TCP may have dropped it.
    ("crc-zero", seen(terminate(2, 0, 2), end="fin"), Spoken(), "pass", ""),
    ("crc-zero", seen(terminate(2, 0, 3), end="fin"), Spoken(), "fail", "another Terminate"),
    # That MPA tells its code is a SHOULD; another code is another error.
    ("crc-zero", seen(terminate(0, 0, 0), end="fin"), Spoken(), "allowed", "SHOULD"),
    ("crc-zero", seen(terminate(1, 0, 0)), Spoken(), "allowed", "SHOULD"),
    ("rtr-no-match", seen(terminate(0, 0, 0), frame=REQUEST), Spoken(), "fail", "another Terminate"),
    ("crc-zero", seen(untagged(TERMINATE, 2, 1, SIW)), Spoken(), "fail", "least significant"),
    ("crc-zero", seen(end="fin"), Spoken(), "allowed", "ULP"),
    ("crc-zero", seen(end="rst"), Spoken(), "allowed", "ULP"),
    ("crc-zero", seen(unacknowledged=84), Spoken(), "allowed", "§8"),
    # No clause says when it is closed; but nothing more is passed on.
    ("crc-zero", seen(unacknowledged=0), Spoken(), "allowed", "no clause says when"),
    ("crc-zero", seen(rdma_write(1, 0, b"")), Spoken(), "allowed", "no clause says when"),
    ("crc-zero", seen(ECHO), Spoken(), "fail", "has not noticed"),
    ("crc-zero", seen(ECHO, terminate(2, 0, 2)), Spoken(), "pass", ""),
    ("crc-first-fpdu", seen(), Spoken(), "allowed", "no clause says when"),
    ("deviating-length-with-crc", seen(), Spoken(), "allowed", "no clause says when"),
    ("deviating-length-with-crc", seen(ECHO), Spoken(), "fail", "has not noticed"),
    # A Marker that disagrees need not be noticed.
    ("fpduptr-4-more-at-12", seen(ECHO), Spoken(), "allowed", "accepts"),
    ("crc-first-fpdu", seen(end="fin"), Spoken(), "pass", ""),
    ("crc-first-fpdu", seen(terminate(2, 0, 2)), Spoken(), "fail", "no FPDU was valid"),
    ("crc-first-fpdu", seen(terminate(2, 0, 2)), Spoken(is_heard=True), "pass", ""),
    # Of what DDP finds there should be one, of what RDMAP finds there has to be.
    ("msn-0", seen(terminate(1, 2, 3)), Spoken(), "pass", ""),
    ("msn-0", seen(end="fin"), Spoken(), "allowed", "SHOULD"),
    ("msn-0", seen(), Spoken(), "allowed", "no clause says when"),
    ("msn-0", seen(ECHO), Spoken(), "fail", "has not noticed"),
    ("queue-4294967295", seen(end="rst"), Spoken(), "allowed", "SHOULD"),
    ("write-to-unknown-stag", seen(end="fin"), Spoken(), "allowed", "SHOULD"),
    ("opcode-12", seen(end="fin"), Spoken(), "fail", "without a Terminate"),
    ("opcode-12", seen(), Spoken(), "no answer", "no Terminate"),
    ("read-from-unknown-stag", seen(end="fin"), Spoken(), "fail", "without a Terminate"),
    # No clause says which error it is; but it is one.
    ("queue-send-1", seen(terminate(1, 2, 1)), Spoken(sends=True), "allowed", "says the same"),
    ("queue-send-1", seen(end="fin"), Spoken(), "fail", "without a Terminate"),
    ("queue-send-1", seen(ECHO), Spoken(), "fail", "has not noticed"),
    # A receiver takes what its sender SHOULD not send so.
    ("alignment-lost", seen(end="fin"), Spoken(), "fail", "closes"),
    ("mulpdu-half-filled", seen(end="fin"), Spoken(), "fail", "closes"),
    ("rst-believed", seen(end="rst"), Spoken(), "pass", ""),
    ("rst-and-fpdus", seen(end="rst"), Spoken(), "pass", ""),
    ("fin-believed", seen(end="fin"), Spoken(), "pass", ""),
    # What only its sender must not do.
    ("queue-terminate-0", seen(terminate(0, 2, 6)), Spoken(terminate=True), "pass", ""),
    ("queue-terminate-0", seen(end="fin"), Spoken(terminate=True), "allowed", "allowed"),
    ("queue-terminate-0", seen(), Spoken(terminate=True), "allowed", "allowed"),
    ("read-request-of-32", seen(tagged(READ_RESPONSE, 1, 0, b"")), Spoken(asks=True), "allowed", "accepts"),
    ("read-request-of-27", seen(tagged(READ_RESPONSE, 1, 0, b"")), Spoken(asks=True), "fail", "must refuse"),
    ("terminate-2-0-04", seen(terminate(0, 2, 6)), Spoken(terminate=True), "allowed", "where any is allowed"),
    ("terminate-quotes-another-msn", seen(terminate(0, 2, 7)), Spoken(terminate=True), "allowed", "any"),
    ("msn-0", seen(terminate(1, 2, 2)), Spoken(sends=True), "allowed", "no buffer"),
    ("opcode-12", seen(terminate(0, 2, 6)), Spoken(), "pass", ""),
    # It may be read both ways; in one of them it is right.
    ("opcode-12", seen(untagged(TERMINATE, 2, 1, bytes.fromhex("20060000"))), Spoken(), "fail", "least significant"),
    ("atomic-request-alone", seen(terminate(0, 2, 6)), Spoken(), "unsupported", "RFC 7306"),
    ("atomic-request-alone", seen(untagged(TERMINATE, 2, 1, bytes.fromhex("20060000"))), Spoken(), "unsupported", ""),
    ("read-request-in-host-order", seen(terminate(1, 1, 0)), Spoken(), "allowed", "says the same"),
    ("ulpdu-length-64769", seen(), Spoken(), "allowed", "allowed"),
    # What a receiver has to take.
    ("pad-0040", seen(), Spoken(), "pass", ""),
    ("pad-0040", seen(terminate(2, 0, 2)), Spoken(), "fail", "CRC"),
    # Whatever the layout of its Terminate: that it ends the stream is worse.
    ("pad-0040", seen(untagged(TERMINATE, 2, 1, SIW)), Spoken(), "fail", "ends the stream with a Terminate: LLP"),
    ("pad-0040", seen(terminate(1, 1, 0)), Spoken(tagged=True), "allowed", "buffer"),
    ("pad-0040", seen(terminate(1, 1, 0)), Spoken(), "fail", "STag"),
    ("pad-0040", seen(end="fin"), Spoken(), "fail", "closes"),
    ("fpdu-cut-in-length", seen(end="rst"), Spoken(), "fail", "resets"),
    ("ulpdu-length-0-write", seen(end="fin"), Spoken(), "allowed", "allowed"),
    ("terminate-0-2-06", seen(end="fin"), Spoken(terminate=True), "pass", ""),
    # SHOULD is no MUST, but for who asks.
    ("ulpdu-length-mulpdu-and-1", seen(end="fin"), Spoken(), "allowed", "SHOULD"),
    # A Marker of a segment that comes in order need not be checked.
    ("fpduptr-4-more-at-12", seen(unacknowledged=0), Spoken(), "allowed", "accepts"),
    # Startup frames.
    ("request-private-data-513", seen(frame=None, end="fin"), Spoken(), "pass", ""),
    ("request-private-data-513", seen(frame=None, end="rst"), Spoken(), "pass", ""),
    ("request-private-data-513", NOTHING, Spoken(), "no answer", "does not close"),
    ("request-private-data-513", seen(), Spoken(), "fail", "answers a Request"),
    ("request-private-data-513", seen(frame=REJECTION, end="fin"), Spoken(), "allowed", "rejects"),
    ("request-private-data-513", seen(frame=REJECTION), Spoken(), "fail", "does not close"),
    ("request-of-20-octets", NOTHING, Spoken(), "pass", ""),
    ("request-of-20-octets", seen(frame=None, end="fin"), Spoken(), "allowed", "allowed"),
    ("request-of-20-octets", seen(), Spoken(), "fail", "not whole"),
    ("request-reserved-bit-0x01", seen(frame=None, end="fin", waits_for="startup"), Spoken(), "fail", "instead of"),
    ("request-reserved-bit-0x01", seen(frame=None, waits_for="startup"), Spoken(), "no answer", "missing"),
    ("rev-3", seen(frame=None, end="fin", waits_for="startup"), Spoken(), "allowed", "allowed"),
    ("rev-0-private-data-513", seen(frame=None, end="fin"), Spoken(rev_0=True), "unsupported", "Rev 0"),
    ("private-data-rejected", seen(frame=REJECTION), Spoken(), "pass", ""),
    ("private-data-rejected", seen(), Spoken(), "allowed", "ULP"),
    ("streaming-data-after-rejection", seen(frame=REJECTION, end="fin"), Spoken(rejection=True), "allowed", "closes"),
    ("streaming-data-after-rejection", seen(frame=REJECTION), Spoken(rejection=True), "pass", ""),
    ("valid-startup", seen(frame=REJECTION), Spoken(), "fail", "rejects"),
    ("valid-private-data-64", seen(frame=REJECTION), Spoken(private_data=True), "allowed", "Private Data"),
    # A Reply of another kind: an Initiator may end the connection for it, with a Terminate or at once.
    *(
        (name, found, Spoken(), verdict, "")
        for name in ("enhanced-answered-plainly", "enhanced-answered-by-rev-1", "plain-answered-enhanced")
        for found, verdict in (
            (seen(frame=REQUEST, end="fin", waits_for="fpdu"), "allowed"),
            (seen(terminate(2, 0, 5), frame=REQUEST, end="fin"), "allowed"),
            (seen(frame=REQUEST, waits_for="fpdu"), "unsupported"),
            (seen(frame=REQUEST), "pass"),
        )
    ),
    # What its TCP has to drop: the Read that follows is answered.
    *(
        (name, found, Spoken(), verdict, "")
        for name in DROPPED
        for found, verdict in (
            (seen(), "pass"), (seen(terminate(2, 0, 2), end="fin"), "fail"), (seen(end="rst"), "allowed"),
        )
    ),
    # Forged octets that TCP may have taken.
    ("overlap-head-first", seen(terminate(2, 0, 2)), Spoken(), "allowed", "any"),
    ("overlap-beyond-a-hole-whole-second", seen(terminate(2, 0, 2)), Spoken(), "allowed", "any"),
    ("two-conflicting-retransmissions", seen(terminate(2, 0, 2)), Spoken(), "fail", "CRC"),
    ("two-conflicting-retransmissions", seen(), Spoken(), "pass", ""),
    # Ends.
    ("fin-in-ulpdu", seen(end="fin"), Spoken(), "pass", ""),
    ("fin-in-ulpdu", seen(), Spoken(), "allowed", "no clause"),
    ("msn-left-out", seen(), Spoken(), "pass", ""),
    ("msn-left-out", seen(terminate(1, 2, 3)), Spoken(), "allowed", "allowed"),
    ("msn-of-another-queue", seen(), Spoken(requests=True), "pass", ""),
    ("msn-of-another-queue", seen(tagged(READ_RESPONSE, 0, 0, b"")), Spoken(requests=True), "fail", "before"),
]  # fmt: skip


def judged(name: str, found: SeenPeer, said: Spoken, *, strict: bool = False) -> Any:
    case, control = all_cases()[name], seen()
    return Deviations().count(case, Judge(case, found, said, control, control).judgement(strict=strict))


@pytest.mark.parametrize(("name", "found", "said", "verdict", "word"), ROWS)
def test_rows(name: str, found: SeenPeer, said: Spoken, verdict: str, word: str) -> None:
    judgement = judged(name, found, said)
    assert (judgement.verdict, word in judgement.reason) == (verdict, True), judgement


def test_strict_has_should_count() -> None:
    found = seen(end="fin")
    assert judged("fpdu-above-emss", found, Spoken()).verdict == "fail"
    assert judged("ulpdu-length-mulpdu-and-1", found, Spoken()).verdict == "allowed"
    assert judged("ulpdu-length-mulpdu-and-1", found, Spoken(), strict=True).verdict == "fail"


def test_strict_has_a_terminate_of_ddp_count() -> None:
    for found, verdict, clause in ((seen(end="fin"), "fail", "RFC 5041 §7.1"), (seen(), "no answer", "")):
        judgement = judged("msn-twice", found, Spoken(), strict=True)
        assert (judgement.verdict, judgement.clause) == (verdict, clause)
    assert judged("crc-last-octet", seen(), Spoken(), strict=True).verdict == "no answer"
    assert judged("crc-last-octet", seen(end="fin"), Spoken(), strict=True).verdict == "allowed"
    less = judged("crc-last-octet", seen(terminate(0, 0, 0)), Spoken(), strict=True)
    assert (less.verdict, less.clause) == ("fail", "RFC 5044 §8")


@pytest.mark.parametrize("name", DROPPED)
def test_what_tcp_drops_is_followed_by_a_read_that_has_to_be_answered(name: str) -> None:
    case = all_cases()[name]
    assert Judge(case, seen(), Spoken(), seen(), seen(), is_unanswered=True).judgement().verdict == "no answer"


def test_the_clause_is_the_receivers() -> None:
    clauses = {
        "send-with-invalidate-stag": "RFC 5040 §4.1", "rdmap-reserved-bits": "RFC 5040 §4.1",
        "ddp-reserved-bits": "RFC 5041 §4.1", "ulpdu-length-14-write": "RFC 5041 §5.2",
        "deviating-length-with-crc": "RFC 5044 §4.4", "fragments-overlap": "RFC 791 §3.2",
        "ack-outside-window": "RFC 9293 §3.10.7.4", "late-octets": "RFC 9293 §3.10.7.4",
        "overlap-head-first-no-crc": "RFC 9293 §3.10.7.4", "enhanced-answered-plainly": "RFC 6581 §9.3",
        "queue-terminate-0": "RFC 5040 §5.4", "terminate-then-rst": "RFC 5040 §6.2.1",
    }  # fmt: skip
    assert {name: all_cases()[name].clause for name in clauses} == clauses


def test_each_case_has_a_sentence_and_each_row_a_case() -> None:
    given = {name for name, case in all_cases().items() if case.reach.carriage != "capture"}
    used = {expectation_of(name) for name in given}
    assert CAPTURE_ONLY not in used
    controls = TABLE[1]
    assert used == {*TABLE} - {CAPTURE_ONLY, controls}
    for row in used:
        assert row.means.endswith(".")
        for pattern in row.cases.split():
            assert any(expectation_of(name) is row and fnmatchcase(name, f"{pattern}*") for name in given), pattern


def test_a_deviation_is_one_however_many_cases_show_it() -> None:
    """The first case fails by what is wrong beside it; a later one has its own verdict, and is counted."""
    ledger, cases = Deviations(), [all_cases()[name] for name in ("crc-zero", "crc-ones", "opcode-12")]
    found = [
        ledger.count(case, Judge(case, seen(untagged(TERMINATE, 2, 1, SIW)), Spoken(), seen(), seen()).judgement())
        for case in cases
    ]
    assert [one.verdict for one in found] == ["fail", "pass", "fail"]
    assert [one.counted for one in found] == [("terminate-layout",), (), ("opcode:terminate-2-0-02",)]
    assert ledger.found["terminate-layout"].cases == ["crc-zero", "crc-ones", "opcode-12"]
    assert are_known(found[2].counted, {"opcode:terminate-2-0-02"})
    assert not are_known((), {"opcode:terminate-2-0-02"})


def test_the_first_octet_that_differs() -> None:
    judgement = judged("crc-zero", seen(terminate(2, 0, 3)), Spoken())
    assert judgement.differs == (1, b"\x02", b"\x03")
    siw = judged("crc-zero", seen(untagged(TERMINATE, 2, 1, SIW)), Spoken())
    assert (siw.differs, siw.rule) == ((0, b"\x20\x02", b"\x02\x02"), "terminate-layout")
    assert difference(b"abc", b"abc") is None
    assert difference(b"abc", b"ab") == (2, b"c", b"")


def test_a_wrong_key_is_shown() -> None:
    watcher = Watcher("initiator")
    watcher.take(REPLY_KEY[:-1] + b"X" + bytes(4), 0.1)
    assert watcher.seen.error is not None
    judgement = judged("valid-startup", watcher.seen, Spoken())
    assert (judgement.verdict, judgement.rule, judgement.differs) == ("fail", "startup-key", (15, b"e", b"X"))


def test_a_control_excuses_what_is_no_different() -> None:
    """What a peer does where nothing is wrong says nothing against it elsewhere."""
    ended, well = seen(end="fin"), seen()
    case = all_cases()["pad-0040"]
    assert Judge(case, seen(end="fin"), Spoken(sends=True), well, ended).judgement().verdict == "unsupported"
    assert Judge(case, seen(end="fin"), Spoken(), well, ended).judgement().verdict == "fail"
    assert Judge(case, seen(end="fin"), Spoken(), ended, ended).judgement().verdict == "unsupported"


def test_what_is_not_answered() -> None:
    case = all_cases()["pad-0040"]
    assert Judge(case, seen(), Spoken(), is_unanswered=True).judgement().verdict == "no answer"
    late = Judge(all_cases()["write-placed-late"], seen(), Spoken(tagged=True), is_unanswered=True)
    assert late.judgement().verdict == "no answer"
    silent = Judge(all_cases()["ulpdu-length-0-write"], seen(), Spoken(), is_unanswered=True)
    assert silent.judgement().verdict == "allowed"


ULPDUS = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.builds(terminate, st.integers(0, 3), st.integers(0, 3), st.integers(0, 10)),
        st.just(rdma_write(1, 0, b"x")),
    ),
    max_size=3,
)
ERRORS = st.sampled_from((None, RemoteProtocolError("\x1b[31mred", "startup-key"), RemoteProtocolError("odd")))
CASES = [case for case in all_cases().values() if case.reach.carriage == "tcp"]


@given(
    st.sampled_from(CASES),
    st.sampled_from((None, REPLY, REJECTION, startup_frame("request"))),
    ULPDUS,
    st.sampled_from((None, "fin", "rst")),
    ERRORS,
    st.sampled_from(("", "startup", "fpdu")),
    st.sampled_from((None, 0, 100)),
    st.booleans(),
    st.booleans(),
)
def test_whatever_is_seen_has_a_verdict(
    case: Any,
    frame: Any,
    ulpdus: list[bytes],
    end: Any,
    error: Any,
    waits_for: str,
    unacknowledged: int | None,
    is_cut: bool,
    strict: bool,
) -> None:
    found = seen(
        *ulpdus, frame=frame, end=end, error=error, waits_for=waits_for, unacknowledged=unacknowledged, is_cut=is_cut
    )
    judgement = Judge(case, found, Spoken(), seen()).judgement(strict=strict)
    assert judgement.verdict in VERDICTS
    assert judgement.reason or judgement.verdict == "pass"
    assert expected_words(case.case)
    assert seen_words(found)


@given(st.lists(st.binary(max_size=80), max_size=8), st.booleans(), st.booleans())
def test_octets_of_a_peer_never_harm(pieces: list[bytes], has_frame: bool, is_reply: bool) -> None:
    watcher = Watcher("initiator" if is_reply else "responder")
    if has_frame:
        watcher.begin(startup_frame("request" if is_reply else "reply", c=1), 0.0)
        watcher.take(startup_frame("reply" if is_reply else "request", c=1).encode(), 0.0)
    for octets in pieces:
        watcher.take(octets, 0.1)
    watcher.end("FIN")
    assert watcher.seen.total >= sum(map(len, pieces))
    assert len(watcher.seen.octets) <= 1 << 16
    assert seen_words(watcher.seen)
