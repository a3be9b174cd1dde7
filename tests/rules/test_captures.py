"""Real captures and scenarios raise what is wrong in them, and nothing else of severity warning or error.

The table is the column "what is wrong with it" of pcaps/README.md, in the ids of rules.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa import analyze, craft, iter_fpdus
from scapy_mpa.craft.scenario import load, shipped
from scapy_mpa.reading.analysis import PlacedFPDUs
from tests.conftest import PCAPS, captures

CAPTURES = {path.stem: path for path in captures()}

#: (rule, severity, connection, direction, count, first frame)
Row = tuple[str, str, int, str, int, int]

PAD = "pad", "warning"
FIRST = "startup-responder-first", "warning"
LAYOUT = "terminate-layout", "warning"
TERMINATE = "terminate", "warning"
UNACKNOWLEDGED = "teardown-unacknowledged", "warning"
ORIGIN = "fpduptr-origin", "warning"


def pads(frame: int) -> set[Row]:
    """Two FPDUs with a ULPDU of 20 octets and PAD ``00 40``, one from each side."""
    return {(*PAD, 0, "initiator", 1, frame), (*PAD, 0, "responder", 1, frame + 1)}


WRONG: dict[str, set[Row]] = {
    # The user-space stack numbers MSN across queues.
    "crc-only": {
        (*FIRST, 0, "responder", 1, 8),
        ("ddp-msn", "error", 0, "initiator", 9, 282),
        ("ddp-msn", "error", 0, "responder", 9, 369),
    },
    "second-connection-not-mpa": {(*FIRST, 0, "responder", 1, 15)},
    "siw-terminate": {
        (*FIRST, 0, "responder", 1, 8),
        (*LAYOUT, 0, "responder", 1, 17),
        (*TERMINATE, 0, "responder", 1, 17),
        (*UNACKNOWLEDGED, 0, "initiator", 1, 20),
    },
    "siw-three-in-a-row": {
        (*rule, n, "responder", 1, frame) for n, frame in enumerate((13, 27, 41)) for rule in (LAYOUT, TERMINATE)
    },
    "siw-rejected": {("startup-rejected", "warning", 1, "responder", 1, 13)},
    "siw-no-listener": {("tcp-refused", "note", -1, "", 1, 2)},
    "suiw-two-hosts": {(*UNACKNOWLEDGED, 0, "initiator", 1, 14)},
    "siw-eight-connections": {(*FIRST, n, "responder", 1, 57 + 40 * n) for n in range(8)},
    "siw-client-killed": pads(19) | {(*UNACKNOWLEDGED, 1, "initiator", 1, 1433)},
    "siw-crc-netem-read": pads(14),
    "siw-crc-packed": pads(14),
    "siw-netem-send": pads(14),
    "siw-read-64": pads(14),
    "siw-small-window": pads(15),
    "markers-draft-origin": {(*ORIGIN, 0, "initiator", 2, 8), (*ORIGIN, 0, "responder", 1, 73)},
    # It begins in the middle, so that the README says nothing of PAD; what was never captured is a gap.
    "siw-midstream-crc": {
        ("gap", "warning", 0, "initiator", 1, 1586),
        (*PAD, 1, "initiator", 1, 352),
        (*PAD, 1, "responder", 1, 353),
    },
}
#: Of those whose sender deviates, what is wrong besides.
FAULTY: dict[str, set[Row]] = {
    "faulty-fpduptr-and-spacing": {(*FIRST, 0, "responder", 1, 8)},
    "faulty-pad": {(*FIRST, 0, "responder", 1, 15)},
    "faulty-no-crc-field": set(),
}
#: Notes that every analysis of the capture has to make.
NOTED: dict[str, set[tuple[str, str | None]]] = {
    "crc-only": {
        ("rnic-parameters", "initiator"), ("rnic-foreign-revision", "responder"),
        # The user-space stack has 32 octets in a Read Request.
        ("rdmap-read-request", "initiator"), ("rdmap-read-request", "responder"),
    },
    "siw-rev0": {("rnic-parameters", "initiator"), ("rnic-parameters", "responder")},
    "markers-aligned": {("fpdu-above-emss", "responder")},
    "markers-packed": set(),
    "siw-rping": set(),
    "siw-nfs4": set(),
    "siw-netem-send": set(),
    "siw-eight-connections": set(),
    "siw-three-in-a-row": set(),
    # SoftUiWarp leaves the STag of the RDMA Write before in the header of a Send.
    "faulty-pad": {("ddp-reserved", "responder")},
}  # fmt: skip

NAMES = [name for name in CAPTURES if name not in FAULTY]


def graves(report: Any) -> set[Row]:
    return {
        (found.rule.id, found.severity, connection.number, found.direction, found.count, found.frame)
        for connection in report.connections
        for found in connection.findings
        if found.severity != "note"
    } | {(found.rule.id, found.severity, -1, "", found.count, found.frame) for found in report.findings}


@pytest.mark.parametrize("name", NAMES)
def test_a_capture_is_as_its_readme_says(name: str) -> None:
    assert graves(analyze(CAPTURES[name], fpdus=False)) == WRONG.get(name, set())


@pytest.mark.parametrize("name", FAULTY)
def test_a_deviating_sender_does_not_hide_the_rest(name: str) -> None:
    assert graves(analyze(CAPTURES[name], fpdus=False)) >= FAULTY[name]


@pytest.mark.parametrize("name", NOTED)
def test_notes_are_few(name: str) -> None:
    report = analyze(CAPTURES[name], fpdus=False)
    notes = {(found.rule.id, found.direction) for found in report.all_findings() if found.severity == "note"}
    assert notes == NOTED[name]


def test_both_ways_to_read_a_capture_say_the_same() -> None:
    path = PCAPS / "siw-terminate.pcap"
    placed = PlacedFPDUs(path)
    assert list(placed) == list(iter_fpdus(path))
    assert graves(placed.report) == graves(analyze(path)) == WRONG["siw-terminate"]


# --- scenarios ---


def crafted(name: str) -> Any:
    file = io.BytesIO()
    load(name).traffic(()).write(file)
    file.seek(0)
    return analyze(file, fpdus=False)


#: What is wrong in scenarios because of their impairments, or how they end: rules, and how often.
IMPAIRED: dict[str, set[tuple[str, int]]] = {
    "corrupted-by-a-middlebox": {("crc", 3)},
    "injected-segments": {("overlap", 1)},
    "ended-by-terminate": {("terminate", 1)},
    "every-message": {("terminate", 1)},
    "rfc6581-no-matching-rtr": {("terminate", 1)},
    "smb-direct-send-too-long": {("terminate", 1)},
    "startup-rejected": {("startup-rejected", 1)},
}


@pytest.mark.parametrize("name", [name for name in shipped() if "figure-1" not in name])
def test_a_scenario_is_clean(name: str) -> None:
    broken = {(rule, count) for rule, _, _, _, count, _ in graves(crafted(name))}
    assert broken == IMPAIRED.get(name, set())


SCENARIOS = Path(craft.__file__).with_name("scenarios")


@pytest.mark.parametrize("figure", [15, 16, 17])
def test_each_cell_gets_the_verdict_of_its_figure(figure: int) -> None:
    """Where the cell says close, or one side adapts, Rev 0 met a later Rev; and nothing is wrong anywhere."""
    name = f"rfc5044-figure-{figure}"
    cells = re.findall(r'title = "(.+) M=\d, (.+) M=\d: (.*)"', (SCENARIOS / f"{name}.toml").read_text())
    report = crafted(name)
    assert graves(report) == set()
    for connection, (initiator, responder, verdict) in zip(report.connections, cells, strict=True):
        told = {(found.rule.id, found.direction) for found in connection.findings}
        foreign = (
            ("RDMAC" in (initiator, responder))
            and initiator != responder
            and not (
                # A permissive RNIC answers an RDMA Consortium one as such: Rev 0 by Rev 0.
                initiator == "RDMAC" and responder == "IETF permissive"
            )
        )
        assert told == ({("rnic-foreign-revision", "responder")} if foreign else set())
        assert verdict != "close" or (foreign and not connection.initiator.counts.fpdus)
