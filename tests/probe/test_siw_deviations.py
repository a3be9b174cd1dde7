"""pcaps/siw-deviations/: what a real siw did in cases of probe, as docs/interop.md lists it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scapy_mpa import analyze
from scapy_mpa.probe.choice import all_cases

REPO = Path(__file__).parents[2]
FOLDER = REPO / "pcaps" / "siw-deviations"
CAPTURES = sorted(FOLDER.glob("*.pcapng"))

#: What our analysis says of the connection, and rules that siw breaks in it.
SHOWN = {
    "crc-zero": ("CRC error in frame 8, then a Terminate from the receiver", {"terminate-layout"}),
    "opcode-12": ("the Responder terminated it", {"terminate"}),
    "crc-first-fpdu": ("the Responder terminated it", {"terminate-layout"}),
    "request-private-data-257": ("the Responder did not answer the Request", {"startup-unanswered"}),
    "valid-m1-c1": ("rejected by the Responder", {"startup-rejected"}),
    "valid-fpdu-cut-18": ("the Responder terminated it at frame 14: LLP MPA error: CRC does not match", {"terminate"}),
    "crc-split-over-segments": ("the Responder terminated it at frame 18: LLP MPA error: CRC", {"terminate"}),
    "valid-ird-8-ord-16383": ("the Initiator closed", {"ird-ord-not-negotiated"}),
    "rev-0-without-m-and-c": ("the Responder terminated it", {"terminate"}),
    "length-0-of-78": ("CRC error in frame 8, then a Terminate from the receiver", {"terminate"}),
    "fpdu-4-zeros-behind": ("the Responder terminated it", {"terminate"}),
    "opcode-send-tagged": ("the Responder terminated it", {"terminate"}),
    "opcode-write-untagged": ("the Responder terminated it", {"terminate"}),
    "queue-send-1": ("the Responder terminated it", {"terminate"}),
    "queue-read-request-0": ("the Responder terminated it", {"terminate"}),
    "to-wraps": ("the Responder terminated it", {"terminate"}),
    "reply-s-with-pd-length-3": ("the Responder closed", set()),
    "control-flag-a-in-the-reply-alone": ("the Responder closed", set()),
    "request-reserved-bit-0x01": ("the Responder closed", {"startup-reserved-bits"}),
    "request-s-of-rev-1": ("the Responder closed", {"startup-enhanced-revision"}),
    "ord-reached": ("the Responder terminated it at frame 9", {"terminate-layout", "terminate-quote"}),
}


def test_each_is_listed_and_is_a_case() -> None:
    page = (REPO / "docs" / "interop.md").read_text(encoding="utf-8")
    listed = {
        name for row in re.findall(r"^\|.*\| ((?:`[^`]+`(?:, )?)+) \|$", page, re.M) for name in row.split("`")[1::2]
    }
    names = {path.stem for path in CAPTURES}
    assert names == set(SHOWN) == listed & names
    assert names <= set(all_cases())


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_what_siw_did_shows(path: Path) -> None:
    (connection,) = analyze(path).connections
    sentence, rules = SHOWN[path.stem]
    assert connection.verdict.startswith(sentence)
    side = "initiator" if all_cases()[path.stem].reach.role == "initiator" else "responder"
    assert rules <= {one.rule.id for one in connection.findings if one.direction == side}
