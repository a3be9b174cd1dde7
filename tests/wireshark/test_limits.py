"""pcaps/wireshark-limits/: a capture for each of Wireshark's limits with Markers, and what tshark makes of it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from scapy_mpa import analyze, crosscheck
from scapy_mpa.craft.scenario import parse
from scapy_mpa.wireshark.limits import LIMITS, SEEN_IN
from scapy_mpa.wireshark.tshark import find_tshark
from tests.conftest import PCAPS, REPO
from tests.wireshark.tshark import fields, needs_tshark

FOLDER = PCAPS / "wireshark-limits"
CAPTURES = sorted(FOLDER.glob("*.pcap"))
PAGE = REPO / "docs" / "upstream.md"

#: Frame, ULPDU_Lengths and FPDUPTRs as tshark 4.0.17 prints them, for each frame in which it finds FPDUs.
TSHARK_PRINTS: dict[str, list[list[str]]] = {
    "markers-behind": [["7", "58", ""]],
    "markers-both": [["7", "58", "0"]],
    "markers-grid": [],
    "markers-misread": [["7", "0,0", ""]],
    "markers-segments": [],
    "markers-shared-segment": [],
    "markers-two": [["6", "618", "0,508"]],
}
#: Limits other than its own that a capture shows too.
ALSO = {
    "markers-behind": {"markers-grid"},
    "markers-grid": {"markers-shared-segment"},
    "markers-misread": {"markers-behind"},
    "markers-segments": {"markers-shared-segment"},
}


def test_each_limit_with_markers_has_a_capture() -> None:
    names = [limit for limit in LIMITS if limit.startswith("markers-")]
    assert sorted(names) == [capture.stem for capture in CAPTURES] == sorted(TSHARK_PRINTS)
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in names if f"pcaps/wireshark-limits/{name}.pcap" not in page] == []


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_its_scenario_makes_it_again(capture: Path) -> None:
    made = io.BytesIO()
    scenario = capture.with_suffix(".toml")
    parse(scenario.read_text(encoding="utf-8"), scenario.stem).traffic().write(made)
    assert made.getvalue() == capture.read_bytes()


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_nothing_is_wrong_with_it(capture: Path) -> None:
    report = analyze(capture)
    assert 10 <= report.packets <= 13
    (connection,) = report.connections
    assert [one.rule.id for one in connection.findings if one.severity != "note"] == []
    for half in (connection.initiator, connection.responder):
        assert half.counts.missing_octets == half.counts.crc_errors == half.counts.out_of_order_segments == 0


@needs_tshark
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_it_shows_the_limit_that_it_is_named_after(capture: Path) -> None:
    result = crosscheck(capture)
    assert result.unexplained == 0 and result.startup_agreed == 2
    if result.version != SEEN_IN:
        pytest.skip(f"the limits are those of tshark {SEEN_IN}")
    assert {limit for _, limit in result.counts} == {capture.stem} | ALSO.get(capture.stem, set())


@needs_tshark
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_tshark_prints_this(capture: Path) -> None:
    if find_tshark().version_text != SEEN_IN:
        pytest.skip(f"this is what tshark {SEEN_IN} prints")
    names = ("frame.number", "iwarp_mpa.ulpdulength", "iwarp_mpa.marker_fpduptr")
    assert fields(capture, *names, arguments=("-Y", "iwarp_mpa.fpdu")) == TSHARK_PRINTS[capture.stem]
