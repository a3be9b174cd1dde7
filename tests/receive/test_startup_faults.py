"""Each startup frame wrong in one field or by its lengths: it is reported, FPDUs are found, its acceptance is told."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from scapy_mpa import analyze
from scapy_mpa.framing.role import ROLES
from tests.receive.startup_faults import BEHIND, Fault, Made, faults, make

_LIMIT = 512
_ACCEPTED = ({"startup-invalid-answered", "startup-not-closed", "startup-reply-first"}, {"startup-not-closed"})
#: What is remarkable beside the fault: FPDUs here are longer than a segment, and octets that are none end anywhere.
_OTHER = {"fpdu-above-emss"}
_NO_FPDUS = {"connection-lost", "marker-first", "marker-length", "fpdu-format", "error-closed"}
#: What is said of a frame that its peer may accept.
_REMARKS = {
    "flag-0x10": {"startup-enhanced-revision"},
    "flag-r": {"startup-request-r"},
    "rev-0": {"rnic-foreign-revision", "rnic-parameters", "rnic-version"},
    "rev-3": {"startup-revision", "startup-revision-differs"},
    "rev-255": {"startup-revision", "startup-revision-differs"},
}
_FAULTS = [pytest.param(side, one, id=f"{ROLES[side]}-{one.name}") for side in (0, 1) for one in faults(side)]
_LAYOUTS = [((0, 0), True), ((1, 1), True), ((1, 0), False), ((0, 1), False), ((0, 0), False)]


class Found(NamedTuple):
    """Rules by the side that broke them, FPDUs of both, and the sentence about the connection."""

    rules: tuple[set[str], set[str]]
    fpdus: tuple[int, int]
    verdict: str


def _found(made: Made, folder: Path) -> Found:
    path = folder / "made.pcap"
    path.write_bytes(made.octets)
    report = analyze(path)
    (connection,) = report.connections
    assert not report.findings
    rules: tuple[set[str], set[str]] = set(), set()
    for one in connection.findings:
        assert one.direction is not None
        rules[ROLES.index(one.direction)].add(one.rule.id)
    return Found(rules, (connection.initiator.counts.fpdus, connection.responder.counts.fpdus), connection.verdict)


def _broken_by(fault: Fault) -> set[str]:
    """Return the rules for which a receiver closes that a frame breaks."""
    rules = set()
    if fault.key is not None:
        rules.add("startup-role" if fault.name == "key-other" else "startup-key")
    if fault.declared != fault.sent:
        rules.add("startup-pd-length")
    if fault.declared > _LIMIT:
        rules.add("startup-private-data-limit")
    return rules


@pytest.mark.parametrize("opener", [0, 1])
@pytest.mark.parametrize("layout", _LAYOUTS, ids=str)
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize(
    ("side", "fault"),
    [(side, one) for side in (0, 1) for one in faults(side)],
    ids=lambda one: getattr(one, "name", str(one)),
)
def test_a_wrong_frame(
    side: int, fault: Fault, behind: str, layout: tuple[tuple[int, int], bool], opener: int, tmp_path: Path
) -> None:
    made = make(fault, side, behind, *layout, opener)
    found, broken = _found(made, tmp_path), _broken_by(fault)
    assert found.fpdus == made.fpdus
    # Octets are missing that a frame counts: the rest of it is not known.
    unknown = {"startup-private-data-limit"} if fault.declared > fault.sent and behind != "FPDUs" else set()
    assert broken - unknown <= found.rules[side]
    remarks = _REMARKS.get(fault.name, {"startup-reserved-bits"} if fault.name.startswith("flag") else set())
    told = _ACCEPTED[side]
    if broken and (side == 0 or behind == "FPDUs"):
        assert found.rules[1 - side] & told
    frame = ("the Responder accepted the Request", "the Initiator accepted the Reply")[side]
    assert (f"{frame} although it is invalid: " in found.verdict) == bool(broken and behind == "FPDUs")
    others = _OTHER | (_NO_FPDUS if behind == "octets" else set())
    assert found.rules[side] <= broken | remarks | others
    assert found.rules[1 - side] <= remarks | others | (told if broken else set())


@pytest.mark.parametrize("opener", [0, 1])
@pytest.mark.parametrize("layout", _LAYOUTS, ids=str)
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("sent", [0, 1, 4, 100, 511, 512])
def test_a_right_frame(sent: int, side: int, layout: tuple[tuple[int, int], bool], opener: int, tmp_path: Path) -> None:
    made = make(Fault("right", declared=sent, sent=sent), side, "FPDUs", *layout, opener)
    found = _found(made, tmp_path)
    assert found.fpdus == made.fpdus
    assert found.rules[0] | found.rules[1] <= _OTHER
