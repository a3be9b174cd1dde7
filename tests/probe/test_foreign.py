"""Peers that share no code with ours: conforming ones are never accused, and each fault is found, by its own clause."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from scapy_mpa.framing.startup import EnhancedData
from scapy_mpa.probe.aim import Live
from scapy_mpa.probe.carrier import Acceptor, Connector
from scapy_mpa.probe.choice import chosen
from scapy_mpa.probe.exchange import Terms
from scapy_mpa.probe.fitting import Clean
from scapy_mpa.probe.judge import BAD
from scapy_mpa.probe.run import ProbeRun, Result, RunSettings, peers
from scapy_mpa.probe.target import Responder
from tests.probe.foreign import ForeignInitiator, Kind, foreign_responder
from tests.probe.peers import HOST

BUFFER = (0x1000, 1 << 20, 1 << 16)
TIMEOUT = 0.3
_ALL = peers(chosen(), "responder")
#: How conforming implementations differ.
WAYS: list[dict[str, Any]] = [
    {"m": m, "c": c, "strict": strict, "ulp": ulp, "enhanced": enhanced, "ird": ird, "pieces": pieces,
     "says_why": says_why, "buffer": buffer}
    for m, c, strict, ulp, enhanced, ird, pieces, says_why, buffer in product(
        (0, 1), (1, 0), (True, False), ("quiet", "closing", "echo"), (False, True), (8, 0), (False, True),
        (True, False), (None, BUFFER),
    )
]  # fmt: skip
#: Each way gets another part of the cases.
_PARTS = 32


def probed(
    kind: Kind, cases: Any, *, knows_buffer: bool = False, strict: bool = False
) -> tuple[ProbeRun, list[Result]]:
    """The run of these cases against a Responder of this kind, and its results."""
    terms = Terms(TIMEOUT, live=Live(*BUFFER, is_kept=False) if knows_buffer and kind.buffer is not None else None)
    with foreign_responder(kind) as port:
        run = ProbeRun(Responder(Connector(HOST, port, TIMEOUT)), RunSettings(terms, strict=strict, recovery=5))
        return run, [*run.results(cases)]


@pytest.mark.parametrize("number", range(len(WAYS)))
def test_a_conforming_peer_is_not_accused(number: int) -> None:
    run, results = probed(Kind(**WAYS[number]), _ALL[number % _PARTS :: _PARTS], knows_buffer=bool(number % 2))
    assert not [(one.case.name, one.judgement) for one in results if one.judgement.verdict in BAD]
    assert not run.deviations.found


_INITIATORS = peers(chosen(), "initiator")


@pytest.mark.parametrize("number", range(0, len(WAYS), 12))
def test_a_conforming_initiator_is_not_accused(number: int) -> None:
    with Acceptor(HOST, 0, TIMEOUT) as acceptor:
        target = ForeignInitiator(acceptor, Kind(**WAYS[number]))
        run = ProbeRun(target, RunSettings(Terms(TIMEOUT)))
        results = [*run.results(_INITIATORS[number // 12 % _PARTS :: _PARTS])]
        target.close()
    assert not [(one.case.name, one.judgement) for one in results if one.judgement.verdict in BAD]
    assert not run.deviations.found


#: Each fault: how the peer is otherwise, cases that find it, and the clauses that it breaks; none: no clause forbids
#: it, or nothing of it can be seen.
_STARTUP, _FORMAT, _MARKERS, _CRC = "RFC 5044 §7.1.2", "RFC 5044 §7.1.1", "RFC 5044 §4.3", "RFC 5044 §4.4"
_FPDU, _RECEIVER, _ERRORS = "RFC 5044 §4.1", "RFC 5044 §6", "RFC 5044 §8"
_DEPTHS, _MODELS = "RFC 6581 §9.1", "RFC 6581 §9.2"
_FORM, _CONTROL, _UNTAGGED, _TAGGED = "RFC 5044 §4.2", "RFC 5041 §4.1", "RFC 5041 §4.3", "RFC 5041 §7.1"
_LENGTHS, _READS, _READS_CHECKED = "RFC 5041 §5.2", "RFC 5040 §5.2", "RFC 5040 §7.2"
_SURFACING, _TERMINATES = "RFC 5040 §7.1", "RFC 5040 §4.8"
_ANSWERS, _MESSAGE = "RFC 5040 §5.2.2", "RFC 5040 §4.1"
_ECHO, _BUFFERED = {"ulp": "echo"}, {"buffer": BUFFER}
FAULTS: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    # Startup frames.
    "own-pd-length-more": ({}, "valid-m0-c1", (_FORMAT,)),
    "any-key": ({}, "request-key-*", (_STARTUP, _FORMAT)),
    "either-key": ({}, "two-responders request-role-answered", (_STARTUP,)),
    "any-private-data": ({}, "*-private-data-513", (_STARTUP,)),
    "answers-before-private-data": ({}, "request-of-*-octets", (_STARTUP,)),
    "stays-open": ({}, "request-key-last-octet", (_STARTUP,)),
    "checks-reserved": ({}, "request-reserved-bit-*", (_FORMAT,)),
    "checks-r": ({}, "request-r", (_FORMAT,)),
    "whole-request": ({}, "valid-request-cut-in-private-data request-octet-by-octet", (_STARTUP,)),
    "at-most-256": ({}, "*-private-data-5??", (_STARTUP,)),
    "echoes-reserved": ({}, "request-reserved-bit-*", (_FORMAT,)),
    "sends-reserved": ({}, "crc-zero", (_FORMAT,)),
    "replies-request-key": ({}, "valid-m0-c1", (_STARTUP,)),
    "rev-7": ({}, "valid-m0-c1", (_FORMAT,)),
    "speaks-first": ({}, "valid-m0-c1", (_STARTUP,)),
    "own-private-data-513": ({}, "valid-m0-c1", (_FORMAT,)),
    "closes-after-reply": ({}, "valid-m0-c1", ()),
    "rejects-markers": ({}, "valid-m1-c1", (_MARKERS,)),
    "any-rev": ({}, "rev-3 rev-255", ()),
    # RFC 6581.
    "enhanced-unasked": ({"enhanced": True}, "valid-m0-c1", ("RFC 6581 §10",)),
    "answers-plainly": ({"enhanced": True}, "valid-ird-8-ord-8", ("RFC 6581 §10",)),
    "ord-above-ird": ({"enhanced": True}, "valid-ird-1-ord-1", (_DEPTHS,)),
    "answers-3fff-by-a-depth": ({"enhanced": True}, "valid-ird-8-ord-16383", (_DEPTHS,)),
    "ird-below-ord": ({"enhanced": True}, "valid-ird-8-ord-8", ()),
    "drops-a": ({"enhanced": True}, "valid-rtr-c", (_MODELS,)),
    "flags-without-a": ({"enhanced": True}, "valid-ird-8-ord-8", (_MODELS,)),
    "depths-in-host-order": ({"enhanced": True}, "valid-ird-1-ord-1", ("RFC 6581 §9", _DEPTHS)),
    # Markers that the peer sends; without --buffer.
    "no-markers-though-asked": ({}, "valid-m1-c1", (_MARKERS,)),
    "fpduptr-always-0": ({}, "valid-reads-with-markers", (_MARKERS,)),
    "fpduptr-4-more": ({}, "valid-reads-with-markers", (_MARKERS,)),
    "fpduptr-little-endian": ({}, "valid-reads-with-markers", (_MARKERS, _FORM)),
    "fpduptr-from-marker": (_ECHO, "valid-sends-with-markers", (_FORM,)),
    "second-marker-0": (_ECHO, "valid-sends-with-markers", (_MARKERS,)),
    "spacing-516": ({}, "valid-reads-with-markers", (_MARKERS,)),
    "marker-only-first": ({}, "valid-reads-with-markers", (_MARKERS, _CRC)),
    "marker-not-in-crc": ({}, "valid-m1-c1", (_MARKERS, _CRC)),
    "marker-reserved": ({}, "valid-m1-c1", (_FORM,)),
    "markers-unasked": ({}, "valid-read-of-nothing", (_FORMAT,)),
    # FPDUs that it sends.
    "crc-big-endian": ({}, "valid-read-of-nothing", (_CRC,)),
    "crc-from-zero": ({}, "valid-read-of-nothing", (_CRC,)),
    "length-counts-pad": (_BUFFERED, "valid-read-of-1", (_ANSWERS,)),
    "length-little-endian": ({}, "valid-read-of-nothing", (_FPDU, _CRC)),
    "pad-not-zero": (_ECHO, "valid-sends-of-every-pad", (_FPDU,)),
    "no-pad": (_ECHO, "valid-sends-of-every-pad", (_FPDU, _CRC)),
    # DDP Segments and messages that it sends.
    "msn-from-0": (_ECHO, "valid-sends-of-every-pad", (_UNTAGGED,)),
    "msn-always-1": (_ECHO, "valid-sends-of-every-pad", (_UNTAGGED,)),
    "sends-ddp-reserved": ({}, "valid-read-of-nothing", (_CONTROL,)),
    "sends-dv-0": ({}, "valid-read-of-nothing", (_CONTROL,)),
    "sends-rdmap-reserved": (_ECHO, "valid-sends-of-every-pad", (_CONTROL, "RFC 5040 §4.1")),
    "sends-rv-0": (_ECHO, "valid-sends-of-every-pad", (_CONTROL,)),
    "no-l": ({}, "valid-read-of-nothing", (_CONTROL, _READS)),
    "never-answers": ({}, "valid-read-of-nothing", (_READS,)),
    "answers-to-elsewhere": (_BUFFERED, "valid-read-of-64", (_ANSWERS, _READS)),
    "answers-another-stag": (_BUFFERED, "valid-read-of-64", (_ANSWERS, _READS)),
    "answers-too-short": (_BUFFERED, "valid-read-of-64", (_ANSWERS, _READS)),
    "answers-too-long": (_BUFFERED, "valid-read-of-64", (_ANSWERS, _READS)),
    "writes-past": ({}, "valid-memory-named", (_TAGGED,)),
    "reads-past": ({}, "valid-memory-named", (_TAGGED, "RFC 5040 §7.2")),
    # Terminates that it sends.
    "no-terminate": ({}, "opcode-12 write-to-unknown-stag", (_SURFACING,)),
    "wrong-terminate": ({}, "crc-zero opcode-12", (_TERMINATES,)),
    "terminate-lsb-first": ({}, "crc-zero", (_TERMINATES,)),
    "terminate-reserved": ({}, "crc-zero", (_TERMINATES,)),
    "terminate-wrong-length": ({}, "msn-0 write-to-unknown-stag", (_TERMINATES,)),
    "terminate-quotes-wrong": ({}, "msn-0 write-to-unknown-stag", (_TERMINATES,)),
    "terminate-without-header": ({}, "msn-0", (_TERMINATES,)),
    "terminate-on-queue-0": ({}, "crc-zero", ("RFC 5040 §5.4", _TERMINATES, "RFC 5040 §4.1")),
    "terminates-twice": ({}, "crc-zero", ("RFC 5040 §5.4", _TERMINATES, _UNTAGGED)),
    "sends-after-terminate": ({}, "crc-zero", ("RFC 5040 §5.4", _TERMINATES)),
    "terminates-unheard": ({}, "crc-first-fpdu", (_STARTUP,)),
    # FPDUs that it receives.
    "no-crc-check": ({}, "crc-*-octet", (_CRC,)),
    "ddp-before-crc": ({}, "crc-first-fpdu crc-zero fpdu-4-zeros-behind markers-not-asked deviating-no-pad", (_CRC,)),
    "passes-after-error": ({}, "crc-ulpdu-octet error-passed", (_CRC, _ERRORS)),
    "checks-crc-always": ({"c": 0}, "valid-m0-c0", (_FORMAT,)),
    "one-segment-an-fpdu": ({}, "valid-fpdu-cut-9 fpdu-cut-in-length fpdus-in-one-segment", (_RECEIVER,)),
    "acts-early": ({}, "read-without-its-last-octet", (_RECEIVER,)),
    "pad-on-top": ({}, "valid-m0-c1", (_FORMAT,)),
    "checks-pad": ({}, "pad-0040", (_FPDU,)),
    "checks-marker-reserved": ({"m": 1}, "marker-reserved-*", (_FORM,)),
    "low-bits-count": ({"m": 1}, "fpduptr-low-bits-?", (_FORM,)),
    # What it makes of DDP and RDMAP.
    "checks-ddp-reserved": ({}, "ddp-reserved-bits", (_CONTROL,)),
    "checks-rdmap-reserved": ({}, "rdmap-reserved-bits", (_MESSAGE,)),
    "checks-rsvdulp": ({}, "send-with-invalidate-stag", (_MESSAGE,)),
    "any-dv": ({}, "ddp-version-2", (_TAGGED,)),
    "any-rv": ({}, "rdmap-version-?", (_READS_CHECKED,)),
    "any-opcode": ({}, "opcode-12", (_READS_CHECKED,)),
    "any-queue": ({}, "queue-4294967295", (_TAGGED,)),
    "any-msn": ({}, "msn-twice msn-0", (_TAGGED,)),
    "any-mo": ({}, "mo-passes-2-32", (_TAGGED,)),
    "any-stag": (_BUFFERED, "*-unknown-stag", (_TAGGED, _READS_CHECKED)),
    "no-bounds": (_BUFFERED, "write-past-the-buffer read-past-the-buffer", (_TAGGED, _READS_CHECKED)),
    "no-wrap-check": (_BUFFERED, "to-wraps", ()),
    "keeps-invalidated": (_BUFFERED, "*-to-invalidated *-from-invalidated", (_TAGGED, _READS_CHECKED)),
    "checks-stag-of-nothing": ({}, "write-of-nothing read-of-nothing", (_LENGTHS,)),
    "any-read-request": ({}, "read-request-of-*", ()),
    "delivers-at-once": ({}, "msn-of-another-queue", ("RFC 5041 §5.4",)),
}


#: The same of an Initiator.
OF_INITIATORS: dict[str, tuple[str, tuple[str, ...]]] = {
    "rev-7": ("valid-reply-m0-c1", (_FORMAT,)),
    "sends-reserved": ("valid-reply-m0-c1", (_FORMAT,)),
    "own-private-data-513": ("valid-reply-m0-c1", (_FORMAT,)),
    "any-key": ("reply-key-*", (_STARTUP, _FORMAT)),
    "any-private-data": ("reply-private-data-513", (_STARTUP,)),
    "speaks-before-reply": ("valid-reply-m0-c1", (_STARTUP,)),
    "no-markers-though-asked": ("valid-reply-m1-c1", (_MARKERS,)),
    "fpduptr-always-0": ("valid-responder-reads-with-markers", (_MARKERS,)),
    "pad-not-zero": ("valid-reply-m0-c1", (_FPDU,)),
    "no-crc-check": ("crc-of-the-responder", (_CRC,)),
    "any-msn": ("msn-twice-of-the-responder", (_TAGGED,)),
    "writes-past": ("valid-responder-names-memory", (_TAGGED,)),
}


@pytest.mark.parametrize("fault", OF_INITIATORS)
def test_a_fault_of_an_initiator_is_found(fault: str) -> None:
    names, clauses = OF_INITIATORS[fault]
    with Acceptor(HOST, 0, TIMEOUT) as acceptor:
        target = ForeignInitiator(acceptor, Kind(faults=frozenset((fault,))))
        run = ProbeRun(target, RunSettings(Terms(TIMEOUT)))
        results = [*run.results(peers(chosen(names.split()), "initiator"))]
        target.close()
    found = run.deviations.found.values()
    assert {one.clause for one in found} <= {*clauses}, found
    assert any(one.judgement.verdict in BAD for one in results), [one.judgement for one in results]


_ASKS = Clean(enhanced=EnhancedData(ird=8, ord=8))


def test_depths_are_no_private_data_that_may_be_refused() -> None:
    """Whoever rejects Markers does so too where each Request has an IRD and an ORD."""
    cases = chosen(["valid-m?-c1", "valid-private-data-64"])
    with foreign_responder(Kind(enhanced=True, faults=frozenset(("rejects-markers",)))) as port:
        run = ProbeRun(Responder(Connector(HOST, port, TIMEOUT)), RunSettings(Terms(TIMEOUT, clean=_ASKS), recovery=5))
        verdicts = {one.case.name: one.judgement.verdict for one in run.results(cases)}
    assert verdicts == {"valid-m0-c1": "pass", "valid-m1-c1": "fail", "valid-private-data-64": "pass"}


@pytest.mark.parametrize("clean", [Clean(), _ASKS])
def test_a_responder_may_reject_an_ird_that_its_upper_layer_finds_too_low(clean: Clean) -> None:
    """RFC 6581 §9.1; one that rejects what it has accepted in a clean connection has no such reason."""
    with foreign_responder(Kind(enhanced=True, least_ird=4)) as port:
        settings = RunSettings(Terms(TIMEOUT, clean=clean), recovery=5)
        run = ProbeRun(Responder(Connector(HOST, port, TIMEOUT)), settings)
        results = [*run.results(chosen(["valid-ird-*", "valid-m0-c1"]))]
    assert not run.deviations.found
    rejected = {one.case.name for one in results if one.judgement.verdict == "allowed"}
    assert (
        {"valid-ird-0-ord-0", "valid-ird-1-ord-1"}
        <= rejected
        <= {"valid-ird-0-ord-0", "valid-ird-1-ord-1", "valid-ird-0-ord-1", "valid-ird-1-ord-0"}
    )


@pytest.mark.parametrize("names", ["*read*of-nothing* rtr-read", "valid-read*", "valid-m0-c1 crc-zero"])
def test_no_more_rdma_reads_are_under_way_than_was_agreed_on(names: str) -> None:
    """RFC 6581 §9.1: a peer that has room for one may end the stream at a second one before it has answered."""
    clean = Clean(enhanced=EnhancedData(ird=1, ord=1))
    with foreign_responder(Kind(enhanced=True, ird=1, one_read=True)) as port:
        run = ProbeRun(Responder(Connector(HOST, port, TIMEOUT)), RunSettings(Terms(TIMEOUT, clean=clean), recovery=5))
        results = [*run.results(peers(chosen(names.split()), "responder"))]
    assert not run.deviations.found
    assert {one.judgement.verdict for one in results} <= {"pass", "unsupported"}
    assert results[0].judgement.verdict == "pass"


def test_what_is_wrong_before_the_crc_is_one_deviation() -> None:
    _, names, _ = FAULTS["ddp-before-crc"]
    run, _ = probed(Kind(faults=frozenset(("ddp-before-crc",))), peers(chosen(names.split()), "responder"))
    (found,) = run.deviations.found.values()
    assert (found.name, found.clause, {*found.cases}) == ("unchecked-crc", _CRC, {*names.split()})


def test_what_is_answered_when_it_is_asked_again_is_no_deviation() -> None:
    """A slow machine is not slow twice: nothing of the first time counts."""
    kind = Kind()
    with foreign_responder(kind) as port:
        run = ProbeRun(Responder(Connector(HOST, port, TIMEOUT)), RunSettings(Terms(TIMEOUT), recovery=5))
        results = run.results(chosen(["valid-read-of-nothing", "valid-m0-c1"]))
        given = run._given
        times: list[str] = []

        def second_time(case: Any) -> Result:
            kind.faults = frozenset(() if times else ("never-answers",))
            times.append(case.name)
            result = given(case)
            kind.faults = frozenset()
            return result

        run._given = second_time  # type: ignore[method-assign]
        assert [one.judgement.verdict for one in results] == ["pass", "pass"]
    assert times == ["valid-m0-c1", "valid-m0-c1", "valid-read-of-nothing"]
    assert not run.deviations.found


#: What only SHOULD not be, which --strict finds.
SHOULD: dict[str, tuple[str, tuple[str, ...]]] = {
    "no-terminate-of-ddp": ("msn-twice queue-4294967295 write-to-unknown-stag", (_TAGGED,)),
    "silent-after-error": ("msn-twice crc-last-octet deviating-length-with-crc", (_TAGGED, _CRC)),
    "quotes-in-an-error-of-mpa": ("crc-zero", (_TERMINATES,)),
}


@pytest.mark.parametrize("fault", SHOULD)
def test_what_should_not_be_is_found_by_strict(fault: str) -> None:
    names, clauses = SHOULD[fault]
    cases, kind = peers(chosen(names.split()), "responder"), Kind(faults=frozenset((fault,)))
    run, results = probed(kind, cases)
    assert not run.deviations.found
    assert not [one.judgement for one in results if one.judgement.verdict in BAD]
    run, results = probed(kind, cases, strict=True)
    assert {one.clause for one in run.deviations.found.values()} == {*clauses}
    assert {one.judgement.verdict for one in results} <= {*BAD, "pass"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_its_clause(fault: str) -> None:
    ways, names, clauses = FAULTS[fault]
    for _ in range(3):
        run, results = probed(Kind(**ways, faults=frozenset((fault,))), peers(chosen(names.split()), "responder"),
                              knows_buffer=True)  # fmt: skip
        found = run.deviations.found.values()
        # On a busy machine a peer may get at once what was sent in parts.
        if found or fault != "whole-request":
            break
    assert {one.clause for one in found} <= {*clauses}, found
    assert bool(clauses) == any(one.judgement.verdict in BAD for one in results), [one.judgement for one in results]
