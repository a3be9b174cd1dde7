"""Every scenario that is shipped, under every impairment: the analysis finds the FPDUs of the truth and no others."""

from __future__ import annotations

import hashlib
import io
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from scapy_mpa import analyze
from scapy_mpa.craft.impairments import IMPAIRMENTS
from scapy_mpa.craft.scenario import Scenario, load, shipped
from scapy_mpa.craft.truth import Truth
from scapy_mpa.framing.crc import crc32c, crc_field
from scapy_mpa.report.model import Report
from scapy_mpa.values.assumptions import NOTHING, parse_assumptions

#: Segments that their receiver drops for a CRC.
DROPPED = ("corrupt:repaired=true,dropped=true",)
DROPPED_AND_CUT = ("corrupt:repaired=true,dropped=true,resegment=true", "reorder", "duplicate")
#: Each kind by itself, what changes a kind's nature, and several at once.
IMPAIRED: list[tuple[str, ...]] = [
    (),
    *((kind,) for kind in IMPAIRMENTS),
    ("lose:retransmit=false",),
    ("lose:resegment=true",),
    ("corrupt:repaired=true",),
    DROPPED,
    DROPPED_AND_CUT,
    ("offload:mode=zero",),
    ("fragment:reverse=true", "capture-loss"),
    ("lose", "reorder", "retransmit", "duplicate"),
    ("corrupt", "offload", "reorder", "jitter"),
]
#: Octets that never come, or packets that do not.
LOSSES = {"snap", "cut", "capture-loss", "lose:retransmit=false"}

#: FPDUs of a capture without startup frames that need not convince anybody that they are any.
TOO_FEW = 4

#: What the receiver does not find yet, with the reason.
KNOWN: dict[str, str] = {}
#: The same under some impairments.
KNOWN_IMPAIRED = {
    ("injected-segments", ("capture-loss",)): "where the capture lost octets, forged ones stand for them",
    ("injected-segments", ("cut",)): "what is captured first is forged, and nothing is known that speaks against it",
    ("injected-segments", ("snap",)): "octets that were cut off equal any, so that forged ones stand for them",
    ("begins-in-the-middle", ("snap",)): "too little is left to be believed",
    ("holes-in-the-capture", DROPPED_AND_CUT): "behind a gap no copy is tried where an FPDU is searched for",
}
#: Pairs that are left out, in any order.
KNOWN_PAIRS = {
    frozenset(("snap", "cut")): "too little is left to be believed",
    frozenset(("corrupt", "cut")): "a damaged segment is withdrawn whole before it is known what stood in it",
}


def records_of(report: Report) -> list[dict[str, Any]]:
    return [
        fpdu.as_dict()
        for connection in report.connections
        for half in (connection.initiator, connection.responder)
        for fpdu in half.fpdus
    ]


def crafted(scenario: Scenario, impairments: Sequence[str], **options: Any) -> tuple[Report, list[dict[str, Any]]]:
    """A capture analysed, and the truth about it."""
    file, truth = io.BytesIO(), Truth()
    scenario.traffic(impairments).write(file, truth=truth, **options)
    file.seek(0)
    # The draft without startup frames is told, or hardly known.
    profile = scenario.conversations[0].setup.profile
    assumptions = parse_assumptions((), profile) if profile == "culley-02" else NOTHING
    return analyze(file, assumptions=assumptions), list(truth.records())


def differences(found: list[dict[str, Any]], true: list[dict[str, Any]], is_lossy: bool) -> list[str]:
    """Return where the analysis and the truth disagree."""
    if is_lossy and not found and len(true) <= TOO_FEW:
        return []
    said: list[str] = []
    names = sorted({(record["connection"], record["direction"]) for record in (*found, *true)})
    for name in names:
        mine, theirs = (
            {record["seq"]: record for record in records if (record["connection"], record["direction"]) == name}
            for records in (found, true)
        )
        both = (*mine.values(), *theirs.values())
        bare = not any(one["crc"] in ("good", "bad") or one["markers"] for one in both)
        if bare and is_lossy:
            # How many headers in a row convince the receiver is its own affair, so it may find fewer.
            theirs = {seq: record for seq, record in theirs.items() if seq in mine}
            for records in (mine, theirs):
                # Delivery counts from the first that it finds, where the capture begins in the middle.
                unsure = {"located_by": "", "delivered_frame": None}
                records.update({seq: {**record, **unsure} for seq, record in records.items()})
        said += [f"{name}: {seq} is missing" for seq in theirs if seq not in mine]
        said += [f"{name}: {seq} should not be there" for seq in mine if seq not in theirs]
        said += [
            f"{name}: {seq}: {key} is {mine[seq][key]}, not {value}"
            for seq, record in theirs.items()
            if seq in mine
            for key, value in record.items()
            if mine[seq][key] != value
        ]
    return said or ([] if found == true or is_lossy else ["the order differs"])


def is_lossy(scenario: Scenario, impairments: Iterable[str]) -> bool:
    own = {one.kind for one in scenario.impairments}
    return bool((own | set(impairments)) & LOSSES)


@pytest.mark.parametrize("name", shipped())
def test_the_analysis_finds_what_the_truth_says(name: str) -> None:
    scenario, problems = load(name, seed=1), []
    for impairments in IMPAIRED:
        report, true = crafted(scenario, impairments)
        found = differences(records_of(report), true, is_lossy(scenario, impairments))
        if (name, impairments) in KNOWN_IMPAIRED:
            assert found, f"it is found now: take {name}, {', '.join(impairments)} off the list"
            continue
        problems += [f"{', '.join(impairments) or 'unimpaired'}: {one}" for one in found[:3]]
    if name in KNOWN:
        assert problems, "it is found now: take it off the list"
        pytest.xfail(KNOWN[name])
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", shipped())
def test_the_analysis_finds_what_the_truth_says_of_pairs(name: str) -> None:
    if name in KNOWN:
        pytest.skip(KNOWN[name])
    scenario, problems = load(name, seed=1), []
    for pair in itertools.permutations(IMPAIRMENTS, 2):
        if frozenset(pair) not in KNOWN_PAIRS and not any((name, (kind,)) in KNOWN_IMPAIRED for kind in pair):
            report, true = crafted(scenario, pair)
            found = differences(records_of(report), true, is_lossy(scenario, pair))
            problems += [f"{', '.join(pair)}: {one}" for one in found[:3]]
    assert not problems, "\n".join(problems)


#: Scenarios in which a connection ends before its work does, and the rules that say so.
ENDED_EARLY = {
    "ended-by-terminate": {"terminate"},
    "every-message": {"terminate"},
    "rfc6581-no-matching-rtr": {"terminate"},
    "smb-direct-send-too-long": {"terminate"},
    "startup-rejected": {"startup-rejected"},
}


#: Scenarios in which nothing is impaired, or fragmented at most: what other impairments do shows.
UNIMPAIRED = [name for name in shipped() if {one.kind for one in load(name).impairments} <= {"fragment"}]


@pytest.mark.parametrize("name", UNIMPAIRED)
def test_a_scenario_that_is_not_impaired_is_clean(name: str) -> None:
    scenario = load(name)
    report, true = crafted(scenario, ())
    found = {(one.severity, one.rule.id) for connection in report.connections for one in connection.findings}
    if name in KNOWN:
        assert any(severity == "error" for severity, _ in found), "it is clean now: take it off the list"
        pytest.xfail(KNOWN[name])
    # What notes there are is a matter of tests/rules.
    assert {rule for severity, rule in found if severity != "note"} == ENDED_EARLY.get(name, set())
    assert not report.findings
    assert len(report.connections) == len(scenario.conversations)
    assert true or name in ("startup-rejected",)


@pytest.mark.parametrize("name", shipped())
def test_a_scenario_says_what_it_is(name: str) -> None:
    scenario = load(name)
    assert scenario.title and scenario.title[-1] != "."
    assert all(scenario.titles) or len(set(scenario.titles)) == 1


#: The last octets of the last FPDU of the Initiator: CRCs printed in the specifications.
CRCS = {
    "rfc5044-figure-5": "52239983",
    "rfc5044-figure-6": "84925898",
    "rddp-01-figure-5": "4c86b384",
    "rddp-01-figure-6": "a19cd103",
}


@pytest.mark.parametrize(("name", "crc"), CRCS.items())
def test_the_figures_have_the_crc_that_is_printed(name: str, crc: str) -> None:
    packets = list(load(name).traffic().packets())
    last = [packet for packet in packets if packet.in_operation and packet.payload][-1]
    half = last.half
    assert last.payload[-4:].hex() == crc
    fpdu = half.laid[-1]
    assert (fpdu.offset, fpdu.ulpdu_length, fpdu.markers) == ((0, 42, 1) if name.endswith("5") else (0x1EC, 42, 1))


def test_figure_4_has_its_marker_where_it_is_drawn() -> None:
    packets = list(load("rfc5044-figure-4").traffic().packets())
    last = [packet for packet in packets if packet.in_operation and packet.payload][-1].payload
    assert len(last) == 2 + 10 + 4 + 6 + 2 + 4
    assert last[:2].hex() == "0010" and last[12:16].hex() == "0000000c" and last[22:24].hex() == "0000"
    assert last[-4:] == crc_field(crc32c(last[:-4]))


#: SHA-256 of captures and truths, by scenario: the same on every Python.
DIGESTS = {
    "lossy-network": "f2a77ca5751e80da437f0d0c56ba5a87d6b3293ac9ce535e6b79ee98f1f81292",
    "corrupted-by-a-middlebox": "76758b69ac7742fe7ad7ee73c24ad637487e53455d42a637bb5fe6686d4abea9",
    "many-connections": "077b32cc678a5aca1ba035cae1b6b04cad68e562f8eed99d1bf49b94f5bc2bc9",
    "middlebox": "d5e9e00c931ef15a8625470ecc5ed7a308689efb85684e42b091d147769c867f",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_the_same_seed_gives_the_same_octets_on_every_python(name: str) -> None:
    digest = hashlib.sha256()
    for format in ("pcap", "pcapng"):
        file, truth = io.BytesIO(), Truth()
        load(name, seed=3).traffic(IMPAIRMENTS).write(file, format, truth)
        digest.update(file.getvalue())
        digest.update(repr(list(truth.records())).encode())
    assert digest.hexdigest() == DIGESTS[name]


def test_another_seed_gives_other_octets() -> None:
    one, two = (list(load("middlebox", seed=seed).traffic().packets()) for seed in (1, 2))
    assert [packet.payload for packet in one] != [packet.payload for packet in two]
