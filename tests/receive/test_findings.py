"""What the findings of a connection say: gathered, placed, with the clause of its specification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scapy_mpa.craft.packets import ACK, FIN
from scapy_mpa.craft.ulpdus import send
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.report.text import finding_lines
from scapy_mpa.rules.findings import Findings
from scapy_mpa.rules.table import RULES, SEVERITIES
from tests.receive.cases import REQUEST, Side, Talk, expected, follow, only, placing, seen, started
from tests.receive.test_tcp import add, damaged, spoil
from tests.receive.test_truth import analysed

CLAUSES = {
    # rule: in rddp-01, RFC 5044 and RFC 6581
    "connection-lost": ("draft-ietf-rddp-mpa-01 §7", "RFC 5044 §8", "RFC 5044 §8"),
    "crc": ("draft-ietf-rddp-mpa-01 §5.2", "RFC 5044 §4.4", "RFC 5044 §4.4"),
    "marker-length": ("draft-ietf-rddp-mpa-01 §5.1", "RFC 5044 §4.3", "RFC 5044 §4.3"),
    "startup-frame": ("draft-ietf-rddp-mpa-01 §6.1.1", "RFC 5044 §7.1.1", "RFC 6581 §6"),
    "fpduptr-origin": ("draft-ietf-rddp-mpa-01 §4.1", "RFC 5044 §4.2", "RFC 5044 §4.2"),
    "overlap": ("RFC 9293 §3.7",) * 3,
    "gap": ("RFC 9293 §3.4",) * 3,
    "capture-gap": ("RFC 9293 §3.4",) * 3,
    "tcp-checksum": ("RFC 9293 §3.1",) * 3,
    "terminate": ("RFC 5040 §4.8",) * 3,
    "capture-cut": (None,) * 3,
}
SEVERITY = {
    "connection-lost": ("error", 1), "crc": ("error", 2), "marker-length": ("error", 3),
    "startup-frame": ("error", 4), "fpduptr-origin": ("warning", None), "overlap": ("warning", None),
    "gap": ("warning", None), "capture-gap": ("note", None), "tcp-checksum": ("note", None),
    "terminate": ("warning", None), "capture-cut": ("note", None),
}  # fmt: skip


def terminate(layout: str) -> bytes:
    """A Terminate that says: DDP, tagged buffer error, invalid STag; with M and D."""
    control = b"\x11\x00\xc0\x00" if layout == "rfc5040" else b"\x11\x00\x03\x00"
    ulpdu = bytearray(send(1, control + bytes(16)))
    ulpdu[1] = ulpdu[1] & 0xF0 | 7
    ulpdu[9] = 2  # QN
    return bytes(ulpdu)


def break_rule(rule: str, talk: Talk) -> tuple[Side, int, int]:
    """Break a rule as `a`; returns the direction's side, the frame at which it shows, and the place's sequence."""
    octets = talk.lay("a", 700, 700, 700)
    origin = talk.origin["a"]
    second = talk.laid["a"][1]
    if rule == "crc":
        return "a", talk.say("a", spoil(octets, second)), origin + second.offset
    if rule == "connection-lost":
        talk.say("a", octets[:-1])
        return "a", talk.say("a", flags=FIN | ACK), origin + talk.laid["a"][2].offset
    if rule == "overlap":
        talk.say("a", octets)
        return "a", talk.at("a", 800, damaged(octets[800:900], 50)), origin + 850
    if rule in ("gap", "capture-gap"):
        talk.say("a", octets[:800])
        talk.next["a"] += 100
        frame = talk.say("a", octets[900:])
        talk.say("b", ack=talk.next["a"] if rule == "capture-gap" else origin + 800)
        return "a", frame, origin + 800
    if rule == "tcp-checksum":
        frame = talk.at("a", 0, damaged(octets, 900), checksum="wrong")
        talk.at("a", 0, octets)
        # The receiver dropped the segment, which begins here.
        return "a", frame, origin
    if rule == "capture-cut":
        frame = talk.at("a", 0, octets, captured=800)
        talk.at("a", 0, octets)
        return "a", frame, origin + 800
    if rule == "terminate":
        offset = talk.streams["a"].offset
        last = encode_fpdu(terminate("rfc5040"), offset if talk.streams["a"].dialect.markers else None, crc=talk.crc)
        add(talk, "a", last, len(terminate("rfc5040")))
        return "a", talk.say("a", octets + last), origin + offset
    raise AssertionError(rule)


@pytest.mark.parametrize("rev", [0, 1, 2])
@pytest.mark.parametrize("rule", [r for r in CLAUSES if r not in ("marker-length", "startup-frame", "fpduptr-origin")])
@pytest.mark.parametrize("markers", [False, True])
def test_a_finding_in_full(rule: str, rev: int, markers: bool) -> None:
    origin: Any = "first-octet" if rev == 0 else "header"
    talk = started(rev=rev, m=(int(markers), int(markers)), origin=origin)
    side, frame, seq = break_rule(rule, talk)
    mpa = only(follow(talk.segments))
    (finding,) = placing(mpa.findings)
    severity, code = SEVERITY[rule]
    told = finding.as_dict()
    detail = told.pop("detail")
    assert detail
    assert told == {
        "rule": rule,
        "clause": CLAUSES[rule][rev],
        "requirement": RULES[rule].requirement or None,
        "code": code,
        "severity": severity,
        "count": 1,
        "direction": "initiator" if side == "a" else "responder",
        "frame": frame,
        "last_frame": frame,
        "time": float(frame),
        "seq": seq,
        "expected": RULES[rule].expected,
        "seen": detail,
    }


@pytest.mark.parametrize("rule", ["marker-length", "startup-frame", "fpduptr-origin"])
@pytest.mark.parametrize("rev", [0, 1, 2])
def test_clauses_and_severities_of_the_others(rule: str, rev: int) -> None:
    findings = Findings()
    findings.profile = ("rddp-01", "rfc5044", "rfc6581")[rev]
    findings.add(rule, "initiator", 3, 4_500_000_000, 5, "detail")
    (finding,) = findings.sorted()
    assert finding.clause == CLAUSES[rule][rev]
    assert (finding.severity, finding.rule.code) == SEVERITY[rule]
    assert finding.as_dict()["time"] == 4.5


def test_findings_are_gathered() -> None:
    findings = Findings()
    findings.add("crc", "initiator", 7, 7_000_000_000, 70, "second")
    findings.add("crc", "initiator", 9, 9_000_000_000, 90, "third")
    findings.add("crc", "responder", 8, 8_000_000_000, 80, "other direction")
    findings.add("crc", "initiator", 5, 5_000_000_000, 50, "first")
    findings.add("gap", "initiator", 1, 1_000_000_000, 10, "gap")
    findings.add("terminate", None, 2, 2_000_000_000, 20, "said")
    told = [(f.rule.id, f.direction, f.count, f.frame, f.last_frame, f.seq, f.detail) for f in findings.sorted()]
    assert told == [
        ("crc", "initiator", 3, 5, 9, 50, "first"),
        ("crc", "responder", 1, 8, 8, 80, "other direction"),
        ("gap", "initiator", 1, 1, 1, 10, "gap"),
        ("terminate", None, 1, 2, 2, 20, "said"),
    ]


def test_the_profile_known_last_judges_all() -> None:
    """The Reply decides the profile, also for what the Request's frame broke before."""
    findings = Findings()
    findings.add("crc", "initiator", 1, 0, 0, "")
    findings.profile = "rddp-01"
    findings.add("crc", "responder", 2, 0, 0, "")
    assert {f.clause for f in findings.sorted()} == {"draft-ietf-rddp-mpa-01 §5.2"}


def test_every_rule_can_be_told() -> None:
    for rule in RULES.values():
        assert rule.severity in SEVERITIES
        assert rule.code in (None, 1, 2, 3, 4, 6, 7)
        assert rule.requirement in ("", "MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY")
        assert not (rule.topic and rule.clause)
        for profile in ("culley-02", "rddp-01", "rfc5044", "rfc6581"):
            findings = Findings()
            findings.profile = profile
            findings.add(rule.id, None, 1, 0, 0, "")
            (finding,) = findings.sorted()
            assert finding.clause is None or "§" in finding.clause
    assert {rule.code for rule in RULES.values() if rule.severity == "error"} >= {1, 2, 3, 4}


def test_what_was_expected_and_seen_is_of_the_first_breach() -> None:
    findings = Findings()
    findings.add("pad", "initiator", 7, 0, 0, "the later", expected="PAD 00", seen="PAD 40")
    (finding,) = findings.sorted()
    assert (finding.expected, finding.seen) == ("PAD 00", "PAD 40")
    findings.add("pad", "initiator", 9, 0, 0, "the last", expected="PAD 0000", seen="PAD 8000")
    assert (finding.frame, finding.expected, finding.seen) == (7, "PAD 00", "PAD 40")
    findings.add("pad", "initiator", 5, 0, 0, "the first")
    assert (finding.frame, finding.expected, finding.seen) == (5, RULES["pad"].expected, "the first")
    assert (finding.as_dict()["expected"], finding.as_dict()["seen"]) == (RULES["pad"].expected, "the first")


def test_the_text_has_what_was_seen_only_where_it_says_more() -> None:
    findings = Findings()
    findings.add("pad", None, 7, 0, 0, "PAD is not zero", expected="PAD 00", seen="PAD 40")
    findings.add("crc", None, 8, 0, 0, "CRC 1, computed 2")
    crc, pad = findings.sorted()
    assert list(finding_lines(pad)) == [
        "  warning pad: frame 7: PAD is not zero",
        "    expected: PAD 00 (RFC 5044 §4.1, MUST)",
        "    seen: PAD 40",
    ]
    assert len(list(finding_lines(crc))) == 2


def test_many_of_a_kind_are_one_finding() -> None:
    talk = started()
    octets = talk.lay("a", *[100] * 30)
    for fpdu in talk.laid["a"][::3]:
        octets = spoil(octets, fpdu)
    for at in range(0, len(octets), 108):
        talk.at("a", at, octets[at : at + 108])
    receiver = follow(talk.segments)
    (finding,) = only(receiver).findings.sorted()
    assert (finding.rule.id, finding.count, finding.frame, finding.last_frame) == ("crc", 10, 6, 6 + 27)
    # The error is known where the bad FPDU is complete, not where the next confirms it.
    assert [row["crc"] for row in seen(receiver)] == ["bad", "good", "good"] * 10


# --- Terminate ---


@pytest.mark.parametrize("layout", ["rfc5040", "siw"])
@pytest.mark.parametrize("m", [(0, 0), (1, 1)])
@pytest.mark.parametrize("split", [False, True])
def test_terminate_in_both_layouts(layout: str, m: tuple[int, int], split: bool) -> None:
    talk = started(m=m)
    octets = talk.lay("a", 480)
    offset = talk.streams["a"].offset
    last = encode_fpdu(terminate(layout), offset if m[1] else None)
    add(talk, "a", last, len(terminate(layout)))
    frame = talk.say("a", octets)
    if split:
        talk.say("a", last[:30])
        last = last[30:]
    frame = talk.say("a", last)
    receiver = follow(talk.segments)
    assert seen(receiver) == expected(talk)
    found = {f.rule.id: f for f in placing(only(receiver).findings)}
    assert set(found) == ({"terminate"} if layout == "rfc5040" else {"terminate", "terminate-layout"})
    told = found["terminate"]
    assert (told.frame, told.seq, told.severity) == (frame, talk.origin["a"] + offset, "warning")
    assert "DDP tagged buffer error: invalid STag" in told.detail
    assert "layer 1" in told.detail
    assert "etype 1" in told.detail


@pytest.mark.parametrize(("name", "count"), [("siw-terminate", 1), ("siw-three-in-a-row", 3)])
def test_terminates_of_siw(name: str, count: int, pcap: Any) -> None:
    path: Path = pcap(name)
    receiver = analysed(path)
    told = [
        (finding.rule.id, finding.severity, finding.detail)
        for mpa in receiver.connections
        for finding in mpa.findings.sorted()
        if finding.rule.id.startswith("terminate")
    ]
    assert [rule for rule, *_ in told if rule == "terminate"] == ["terminate"] * count
    assert [rule for rule, *_ in told if rule == "terminate-layout"] == ["terminate-layout"] * count
    for rule, severity, detail in told:
        assert severity == "warning"
        if rule == "terminate":
            assert detail.startswith(("RDMAP", "DDP", "LLP", "MPA"))
        else:
            assert "siw" in detail


def test_a_terminate_whose_crc_is_bad_says_nothing() -> None:
    talk = started()
    talk.say("a", talk.lay("a", 30))
    last = encode_fpdu(terminate("rfc5040"))
    talk.say("a", last[:-1] + bytes([last[-1] ^ 1]))
    assert [f.rule.id for f in only(follow(talk.segments)).findings.sorted()] == ["crc"]


def test_findings_of_no_connection() -> None:
    talk = Talk().open()
    frame = talk.say("a", b"MPA ID Req Fram!" + REQUEST[16:])
    talk.say("a", flags=FIN | ACK)
    receiver = follow(talk.segments)
    (finding,) = receiver.findings.sorted()
    assert (finding.direction, finding.frame, finding.severity) == (None, frame, "error")
    assert finding.detail.startswith("10.0.0.1:40000 > 10.0.0.2:7471: no startup frame")
    assert receiver.connections == []
