"""Startup frames that are wrong and whose peer took them all the same, and what else a peer let pass.

The captures in `accepted/` were made by hand, octet by octet; how many FPDUs each holds is known from that.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from scapy_mpa import analyze
from scapy_mpa.report.text import report_lines
from scapy_mpa.values.assumptions import Assumptions

ACCEPTED = Path(__file__).parent / "accepted"
_PD_LENGTH, _LIMIT = ("startup-pd-length", "initiator"), ("startup-private-data-limit", "initiator")
_ANSWERED = "startup-invalid-answered", "responder"


class Case(NamedTuple):
    """A capture: the FPDUs of both directions, and its findings as pairs of rule and direction."""

    name: str
    fpdus: tuple[int, int]
    findings: frozenset[tuple[str, str]]
    text: str = ""
    profile: str | None = None


def case(name: str, fpdus: tuple[int, int], *findings: tuple[str, str], text: str = "", profile: str = "") -> Case:
    return Case(name, fpdus, frozenset(findings), text, profile or None)


TABLE = [
    case("pd-declared-65535-sent-0", (3, 0), _PD_LENGTH, _LIMIT, _ANSWERED, text="PD_Length 65535 with 0 octets"),
    case("pd-declared-600-sent-100", (3, 0), _PD_LENGTH, _LIMIT, _ANSWERED, text="PD_Length 600 with 100 octets"),
    case(
        "rep-pd-declared-300-sent-100", (3, 0), ("startup-pd-length", "responder"), ("startup-not-closed", "initiator"),
        text="PD_Length 300 with 100 octets",
    ),
    case("lax-reply-key", (10, 10), ("startup-key", "responder"), ("startup-not-closed", "initiator")),
    case("lax-request-pd-excess", (10, 10), _PD_LENGTH, _ANSWERED, ("startup-not-closed", "responder")),
    case(
        "lax-reply-is-request", (10, 10), ("startup-role", "responder"), ("startup-not-closed", "initiator"),
        text="10+10 FPDUs",
    ),
    case("K-culley-delayed", (6, 6)),
    case("K-culley-delayed", (6, 6), profile="culley-02"),
    case("K-culley-one-direction", (6, 0)),
    case("K-culley-one-direction", (6, 0), profile="culley-02"),
    case(
        "crc-zlib", (11, 11), ("deviating-sender", "initiator"), ("deviating-sender", "responder"),
        text="the CRC-32 of zlib in place of CRC32c: explains 11 of 11 FPDUs",
    ),
    case(
        "one-bad-crc-traffic-goes-on", (59, 59), ("crc", "initiator"), ("error-went-on", "responder"),
        text="4,536 octets in frames 17 to 123, after the error of frame 14 was acknowledged",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", TABLE, ids=lambda case: f"{case.name}-{case.profile or 'any'}")
def test_what_a_peer_accepted(case: Case) -> None:
    report = analyze(ACCEPTED / f"{case.name}.pcap", assumptions=Assumptions(profile=case.profile))
    (connection,) = report.connections
    assert (connection.initiator.counts.fpdus, connection.responder.counts.fpdus) == case.fpdus
    assert {(one.rule.id, one.direction) for one in connection.findings} == case.findings
    assert not report.findings
    assert case.text in "\n".join(report_lines(report))
