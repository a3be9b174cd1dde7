"""Which cases each role can be given, and by what."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scapy_mpa.catalogue.table import CASES
from scapy_mpa.craft.changes.table import CHANGES
from scapy_mpa.probe.case import ProbeCase
from scapy_mpa.probe.choice import all_cases
from scapy_mpa.probe.choice import chosen as probe_cases
from scapy_mpa.probe.conformant import conformant_cases
from scapy_mpa.probe.reach import _BY_NAME, reach_of
from scapy_mpa.probe.script import Await, Finish, Send, script_of
from tests.conftest import REPO

#: Some of each kind, looked at one by one.
REVIEWED = {
    "crc-zero": ("responder", "tcp"),
    "fpdu-cut-in-length": ("responder", "tcp"),
    "request-octet-by-octet": ("responder", "tcp"),
    "fin-in-ulpdu": ("responder", "tcp"),
    "rst-in-fpdu": ("responder", "tcp"),
    "fpdu-in-segment-of-request": ("responder", "tcp"),
    "reply-key-first-octet": ("initiator", "tcp"),
    "octets-before-reply": ("initiator", "tcp"),
    "crc-of-the-responder": ("initiator", "tcp"),
    # Segments: their order, copies, numbers, checksums, what is below and beside them.
    "fpdu-late-behind-marker": ("responder", "raw"),
    "overlap-no-crc": ("responder", "raw"),
    "retransmission-of-request": ("responder", "raw"),
    "wrap-in-marker": ("responder", "raw"),
    "tcp-checksum-then-right": ("responder", "raw"),
    "crc-dropped-at-once": ("responder", "raw"),
    "keep-alive": ("responder", "raw"),
    "rst-in-the-window": ("responder", "raw"),
    "rst-and-fpdus": ("responder", "raw"),
    "syn-with-request": ("responder", "raw"),
    "late-request": ("responder", "raw"),
    "late-reply": ("initiator", "raw"),
    "gap": ("responder", "raw"),
    "fragments": ("responder", "raw"),
    "ttl-changes": ("responder", "raw"),
    "path-mtu-of-128": ("responder", "raw"),
    "path-mtu-reported": ("responder", "raw"),
    # What is about a capture, or about what the peer does by itself.
    "capture-gap": ("responder", "capture"),
    "snap-length-100": ("responder", "capture"),
    "link-type-147": ("responder", "capture"),
    "limit-of-50-octets": ("responder", "capture"),
    "captured-from-the-middle": ("responder", "capture"),
    "tcp-checksum-zero": ("responder", "capture"),
    "peer-gone": ("responder", "capture"),
    "rst-in-answer": ("responder", "capture"),
    "nobody-listens": ("responder", "capture"),
    "requests-never-finished": ("responder", "capture"),
    "reply-without-request": ("initiator", "capture"),
}


@pytest.mark.parametrize(("name", "reach"), REVIEWED.items(), ids=str)
def test_reviewed_cases(name: str, reach: tuple[str, str]) -> None:
    found = reach_of(CASES[name])
    assert found[:2] == reach
    assert bool(found.why) == (reach[1] != "tcp")


def test_what_the_kernel_carries_is_one_stream() -> None:
    """The steps of a case are the octets that its side sends, once and in order."""
    count = 0
    for name, case in CASES.items():
        if reach_of(case).carriage != "tcp":
            continue
        steps = script_of(case.plan().sent(), case.by)
        sent = [step for step in steps if isinstance(step, Send)]
        assert [step.at for step in sent] == [sum(len(one.octets) for one in sent[:n]) for n in range(len(sent))], name
        assert not any(isinstance(step, Finish) for step in steps[:-1])
        if case.by == "responder" and sent and not name.startswith("reply-before"):
            assert isinstance(steps[0], Await)
        count += 1
    assert count > 300


def test_areas_of_forged_segments_are_not_for_the_kernel() -> None:
    by_area = Counter((str(case.area), str(reach_of(case).carriage)) for case in CASES.values())
    for area in ("attack", "tcp", "capture"):
        assert by_area[area, "tcp"] == 0
    for area in ("startup", "negotiation", "fpdu", "markers", "alignment", "teardown", "ddp"):
        assert by_area[area, "tcp"] > 15


def test_changes_are_named_as_they_are() -> None:
    """The table of changes that packets do not tell has no name that is gone, and all of what is captured."""
    used = {change.name for case in CASES.values() for change in case.changes}
    assert _BY_NAME.keys() <= used
    assert {name for name in used if CHANGES[name].level == "capture"} <= _BY_NAME.keys()


def test_a_change_is_given_like_a_case() -> None:
    names = ["valid-startup", "pad:octets=hex:01", "hops:ttl=3", "inject:what=data,number=2", "cut:count=3"]
    found = {case.name: case.reach.carriage for case in probe_cases(names)}
    assert found == dict(zip(names, ("tcp", "tcp", "raw", "raw", "capture"), strict=True))


def test_conformant_cases_break_nothing() -> None:
    """Their names are their own, and the analysis finds nothing wrong with them."""
    import io

    from scapy_mpa import analyze

    cases = conformant_cases()
    assert len({case.name for case in cases} | CASES.keys()) == len(cases) + len(CASES)
    for case in (case for case in cases if case.is_conformant):
        assert case.reach.carriage == ("raw" if case.name.startswith("valid-segments-") else "tcp")
        file = io.BytesIO()
        case.case.plan().captured().write(file)
        file.seek(0)
        report = analyze(file, fpdus=False)
        found = [
            one.rule.id
            for one in report.all_findings()
            if one.rule.severity != "note" and one.rule.id not in ("teardown-unacknowledged",)
        ]
        assert not found, (case.name, found)


def test_all_cases_have_a_clause_or_say_nothing() -> None:
    for case in all_cases().values():
        assert isinstance(case, ProbeCase)
        assert case.requirement in ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "REQUIRED", "")
        assert case.clause or not case.rule or case.reach.carriage != "tcp", case.name


def test_the_schema_is_part_of_the_package() -> None:
    assert (Path(REPO) / "scapy_mpa" / "probe" / "probe.schema.json").exists()
    assert '"probe/*.json"' in (Path(REPO) / "pyproject.toml").read_text()
