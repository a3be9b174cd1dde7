"""The catalogue and the endpoint: for what the analysis finds in a capture, the endpoint raises the same rule.

What the side sends that a case is about is handed to an endpoint in the other role.  Rules of severity "error" are
raised with their clause, the others become events, and the endpoint does what the table says a conforming peer does.
"""

from __future__ import annotations

import pytest

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.table import CASES
from scapy_mpa.craft.sent import Repairable
from scapy_mpa.framing.ddp import decode_terminate
from scapy_mpa.framing.fpdu import decode_fpdu
from scapy_mpa.live.events import PeerDeviated, Rejected, StreamDataReceived
from scapy_mpa.rules.table import GROUPS, RULES
from tests.catalogue.test_closed_loop import made
from tests.live.playing import Played, play

AREAS = ("startup", "negotiation", "fpdu", "markers", "alignment", "teardown")
ALL = [
    (name, left) for name, case in CASES.items() if case.area in AREAS for left in (None, *case.left)
]  # fmt: skip

#: Rules that are not for an endpoint to see, and why.
NOT_MPA = {
    **{rule.id: "DDP and RDMAP look into ULPDUs" for rule in GROUPS["DDP and RDMAP"]},
    **{rule.id: "TCP hands over octets, not segments" for rule in (*GROUPS["Alignment"], *GROUPS["TCP and attacks"])},
    **dict.fromkeys(("mulpdu", "mulpdu-filled", "mulpdu-minimum"), "TCP hands over octets, not segments"),
    **dict.fromkeys(("rnic-version", "rnic-version-mixed", "ird-ord-exceeded"), "DDP and RDMAP look into ULPDUs"),
    **dict.fromkeys(
        (
            "terminate",
            "terminate-layout",
            "terminate-headers",
            "terminate-reserved",
            "terminate-quote",
            "terminate-length",
            "terminate-last",
        ),
        "DDP and RDMAP look into ULPDUs",
    ),
    "deviating-sender": "of a whole capture; a receiver stops at the first CRC or Marker, if that tells",
    "fpdu-format": "what follows an error is not looked at",
    "marker-agree": "one Marker that disagrees ends it",
    "startup-rejected": "it has an event of its own",
    "teardown-unacknowledged": "TCP knows",
}

#: Cases in which the endpoint raises another rule than the analysis finds (None: none), and why.
OTHERWISE: dict[str, tuple[str | None, str]] = {
    **dict.fromkeys(
        [f"terminate-{what}{by}" for what in ("layer-3", "type-3", "code-8") for by in ("", "-of-the-responder")],
        (None, "what a Terminate says is for RDMAP, but after a failed negotiation"),
    ),
    "request-key-last-octet": ("startup-key", "the analysis cannot tell that it is MPA"),
    "request-of-7-octets": ("startup-frame", "the analysis cannot tell that it is MPA"),
    "octets-before-reply": ("startup-key", "they are read as the Key of the Reply"),
    "reply-before-request": (None, "it cannot tell, and the Reply is valid"),
    "reply-without-request": (None, "it did send a Request here"),
    "fpdu-before-reply": (None, "its Reply was on its way, and it cannot tell"),
    "unanswered-closed": ("startup-unanswered", "nothing is left to be tolerated"),
    "unanswered-reset": ("startup-unanswered", "nothing is left to be tolerated"),
    "unanswered-silent": ("startup-timeout", "nothing is left to be tolerated"),
    "fpdu-after-rejection": (None, "it has left MPA: octets are the ULP's"),
    "rejected-by-who-goes-on": (None, "it has left MPA: octets are the ULP's"),
    "rev-0-answered-by-rev-1": ("startup-frame", "an implementation of the draft takes no other Rev"),
    "rev-1-answered-by-rev-0": ("rnic-foreign-revision", "it is not permissive"),
    "rtr-no-match": ("", "nobody breaks a rule, and they cannot work together"),
    "streaming-data-under-way": (None, "of TCP's order"),
    "peer-gone": (None, "TCP does not say so within the capture"),
    "rst-in-answer": (None, "the RST takes what had not been read"),
    "file-that-begins-like-a-request": ("startup-pd-length", "it speaks nothing but MPA"),
    "length-65535-of-78": ("connection-lost", "it waits for as many octets; the analysis finds the FPDUs in them"),
    "culley-02-late": ("connection-lost", "without startup frames it cannot tell where Full Operation begins"),
}  # fmt: skip

#: What the endpoint reports and the analysis does not.
ALSO_TOLERATED = {"rst-and-fpdus", "rst-outside-the-window", "terminate-then-rst"}

_DEVIATING = {"crc", "marker-length", "marker-absent", "marker-unasked", "marker-first"}


def what_was_expected(case: Case, left: Repairable | None) -> tuple[set[str], set[str]]:
    """The rules that are raised, one of them, and those that become events."""
    rules = {one.rule for one in case.raised(left) if one.direction == case.by}
    rules -= NOT_MPA.keys()
    errors = {rule for rule in rules if RULES[rule].severity == "error"}
    return errors, rules - errors


@pytest.mark.parametrize(("name", "left"), ALL, ids=lambda value: str(value or "repaired"))
def test_the_endpoint_raises_what_the_analysis_finds(name: str, left: Repairable | None) -> None:
    case = CASES[name]
    played = play(made(name, left))
    raised = played.error.rule if played.error is not None else None
    errors, tolerated = what_was_expected(case, left)
    events = {event.rule for event in played.events if isinstance(event, PeerDeviated)}
    if name in OTHERWISE:
        assert raised == OTHERWISE[name][0]
        return
    if any(one.rule == "deviating-sender" for one in case.raised(left)):
        assert raised in _DEVIATING | {None}
        return
    if errors:
        assert raised in errors
    else:
        assert raised is None
        if name not in ALSO_TOLERATED:
            assert events == tolerated
    assert events <= tolerated | {"teardown-reset"}
    _does_what_it_must(case, left, played)


def _does_what_it_must(case: Case, left: Repairable | None, played: Played) -> None:
    """The endpoint's own half connection, against what the catalogue says of a conforming peer."""
    endpoint, error, reaction = played.endpoint, played.error, case.outcome(left).peer
    queued = endpoint.data_to_send()
    if error is None:
        assert not endpoint.must_close or "rst" in case.name
        return
    assert endpoint.state == "failed"
    assert not endpoint.may_send
    assert endpoint.must_close
    assert (error.clause, error.requirement) != ("", "") or error.code is not None
    if reaction.reaction == "terminate":
        assert case.outcome(left).raises
        markers = endpoint.agreement is not None and queued and queued[-1][:2] == b"\0\0"
        fpdu = None if markers else decode_fpdu(queued[-1])
        if fpdu is not None:
            terminate = decode_terminate(fpdu.ulpdu)
            assert terminate is not None
            told = terminate.layer, terminate.etype, terminate.code
            assert told == (reaction.layer, reaction.etype, reaction.code)
    elif reaction.reaction in ("close", "stop", "wait", "lose"):
        assert queued == []
    if reaction.reaction == "close":
        assert error.code == 4
    if reaction.reaction == "lose":
        assert error.code == 1


@pytest.mark.parametrize("name", ["crc-zero", "two-initiators", "request-private-data-513", "fpduptr-4-more-at-12"])
def test_the_clause_is_that_of_the_finding(name: str) -> None:
    malformed = made(name, None)
    error = play(malformed).error
    assert error is not None
    finding = malformed.finding_of(error.rule)
    assert finding is not None
    assert (error.clause, error.code) == (finding.rule.clause_in(finding.profile), finding.code)
    assert error.clause in str(error)


@pytest.mark.parametrize("name", ["fpdu-after-rejection", "rejected-by-who-goes-on", "streaming-data-after-rejection"])
def test_octets_after_a_rejection_are_the_ulps(name: str) -> None:
    played = play(made(name, None))
    kinds = [type(event) for event in played.events]
    assert Rejected in kinds
    assert kinds.index(Rejected) < kinds.index(StreamDataReceived)
    assert not played.endpoint.must_close


def test_the_tables_hold_no_case_that_is_gone() -> None:
    assert OTHERWISE.keys() | ALSO_TOLERATED <= CASES.keys()
    assert NOT_MPA.keys() <= RULES.keys()
