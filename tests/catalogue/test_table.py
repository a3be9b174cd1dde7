"""The table of cases: what its rows must be, and that it covers every rule and both sides of every limit."""

from __future__ import annotations

import re

import pytest

from scapy_mpa.catalogue.baseline import BASELINES
from scapy_mpa.catalogue.case import AREAS, Case, clause_of
from scapy_mpa.catalogue.peer import REACTIONS
from scapy_mpa.catalogue.table import CASES, UnknownCase, chosen, example_of, examples_of, named
from scapy_mpa.probe.reach import reach_of
from scapy_mpa.rules.memory import MEMORY_RULES
from scapy_mpa.rules.rdmap import RDMAP_RULES
from scapy_mpa.rules.table import RULES
from tests.rules.test_table import NOT_RAISED

each = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def ids(texts: tuple[str, ...]) -> set[str]:
    return {text.partition("@")[0] for text in texts}


@each
def test_a_row_is_well_formed(case: Case) -> None:
    assert re.fullmatch(r"[a-z0-9]+([-+][a-z0-9]+)*", case.name)
    assert case.purpose[0].isupper() and not case.purpose.endswith(".") and "\n" not in case.purpose
    assert case.baseline in BASELINES and case.area in AREAS
    assert set(case.rules) <= set(RULES)
    assert {RULES[rule].observable for rule in case.tests} <= {"endpoint"}
    assert {RULES[rule].observable for rule in (*ids(case.raises), *case.breaks)} <= {"capture"}
    assert not ids(case.raises) & set(case.breaks)
    assert re.fullmatch(r"(RFC \d+|draft-[a-z0-9-]+) §[A-C0-9.]+", clause_of(case)) or (
        case.area == "capture" and not clause_of(case)
    )
    for left in (None, *case.left):
        outcome = case.outcome(left)
        assert len(set(outcome.raises)) == len(outcome.raises)
        assert {text.partition("@")[2] for text in outcome.raises} <= {"", "peer", "initiator", "responder", "capture"}
        # A capture shows what the peer must do; that it sends a Terminate is a note.
        terminates = outcome.peer.reaction == "terminate"
        assert outcome.peer.reaction in REACTIONS
        if terminates and case.name not in ("error-closed", "error-passed", "error-went-on"):
            assert "terminate@peer" in outcome.raises
        assert terminates == ("layer" in outcome.peer.as_dict())
        if outcome.peer.reaction in ("close", "stop", "lose"):
            assert outcome.raises or case.breaks


def test_an_error_is_nothing_that_a_peer_takes() -> None:
    """Where the analysis says error of who the case is about, a conforming peer does not go on as if nothing were."""
    for case in CASES.values():
        grave = {rule for rule, direction in case.raised() if direction == case.by and RULES[rule].severity == "error"}
        if case.peer.reaction in ("accept", "ignore"):
            # Of some it may be able to make sense all the same; that is said.
            assert not grave or case.peer.says not in {CASES["no-end"].peer.says}, case.name


def test_what_a_peer_may_do_instead_is_said() -> None:
    """RFC 6581 §9.1: an Initiator may raise its IRD; RFC 5044 §3: MPA need not take more than MULPDU, and may."""
    chosen = {case.name: case.peer for case in CASES.values() if case.peer.otherwise}
    assert "ord-above-ird" in chosen and "ulpdu-length-64769" in chosen and "crc-zero" not in chosen
    for peer in chosen.values():
        assert peer.says.endswith(f"). {peer.otherwise}") and peer.short.endswith(f"). {peer.otherwise}")


def test_nobody_waits_on_a_connection_that_is_gone() -> None:
    assert [CASES[f"unanswered-{how}"].peer.reaction for how in ("closed", "reset", "silent")] == [
        "lose",
        "lose",
        "wait",
    ]


def test_a_key_that_is_not_expected_closes() -> None:
    """RFC 5044 §7.1.2, rule 5, whichever side it comes from."""
    for name in ("two-initiators", "two-responders", "request-key-last-octet", "reply-key-last-octet"):
        assert CASES[name].peer.reaction == "close"


@pytest.mark.parametrize(
    ("name", "clause"),
    [("crc-zero", "§4.4"), ("no-crc-field", "§4.4"), ("no-pad", "§4.1"), ("markers-from-syn", "§4.3")],
)
def test_the_clause_is_that_of_what_a_sender_does_wrong(name: str, clause: str) -> None:
    assert clause_of(CASES[f"deviating-{name}"]) == f"RFC 5044 {clause}"


#: What travels under ESP is not the catalogue's: tests/capture/test_esp.py raises each of these.
UNDER_ESP = {"esp", "esp-sa", "esp-integrity", "esp-payload", "esp-replay"}
#: Nor are several captures: tests/capture/test_twice.py raises each of these.
OF_SEVERAL_CAPTURES = {"capture-taps", "capture-twice"}


@pytest.mark.parametrize("rule", sorted({*RULES} - UNDER_ESP - OF_SEVERAL_CAPTURES))
def test_every_rule_has_a_case(rule: str) -> None:
    raising = [case for case in CASES.values() if rule in ids(case.raises)]
    if RULES[rule].observable == "endpoint":
        assert any(rule in case.tests for case in CASES.values())
    elif rule in NOT_RAISED:
        assert not raising and any(rule in case.breaks for case in CASES.values())
    else:
        assert raising
    assert example_of(rule) == examples_of(rule)[0]


@pytest.mark.parametrize(
    "names",
    [
        [f"request-private-data-{n}" for n in (0, 1, 255, 256, 257, 511, 512, 513, 65535)],
        [f"reply-private-data-{n}" for n in (0, 1, 255, 256, 257, 511, 512, 513, 65535)],
        ["ulpdu-length-0-write", "ulpdu-length-1-write", "ulpdu-length-13-write", "ulpdu-length-14-write",
         "ulpdu-length-17-send", "ulpdu-length-18-send", "ulpdu-length-mulpdu", "ulpdu-length-mulpdu-and-1"],
        [f"ulpdu-length-{n}{markers}" for n in (64768, 64769, 65535) for markers in ("", "-markers")],
        [f"pad-{n}" for n in range(4)],
        [f"marker-at-{n}" for n in range(0, 28, 4)],
        [f"marker-before-crc-pad-{n}" for n in range(4)],
    ],
)  # fmt: skip
def test_every_limit_has_both_its_sides(names: list[str]) -> None:
    assert set(names) <= set(CASES)


@pytest.mark.parametrize("rule", [rule.id for rule in (*RDMAP_RULES, *MEMORY_RULES) if rule.severity == "error"])
def test_both_sides_break_the_rules_of_rdmap_and_memory(rule: str) -> None:
    """Each of them can be sent to an Initiator and to a Responder, on a live connection."""
    broken = [case for case in CASES.values() if rule in (*ids(case.raises), *case.breaks)]
    assert {case.by for case in broken if reach_of(case).carriage == "tcp"} == {"initiator", "responder"}


def test_there_are_enough() -> None:
    assert len(CASES) >= 150
    assert {case.area for case in CASES.values()} == set(AREAS)


def test_cases_are_chosen() -> None:
    assert {case.area for case in chosen(areas=["tcp"])} == {"tcp"}
    assert all("pad" in case.rules for case in chosen(["pad"]))
    assert [case.name for case in chosen(["marker-first"])] == ["marker-first-not-zero"]
    assert chosen(["marker-first"], ["tcp"]) == []
    assert chosen() == list(CASES.values())
    assert example_of("crc") == CASES["crc-ulpdu-octet"]


def test_an_unknown_case_says_what_is_near_it() -> None:
    with pytest.raises(UnknownCase, match=r"there is no case 'marker-at-5'; similar: marker-at-"):
        named("marker-at-5")
