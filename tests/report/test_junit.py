"""``analyze --junit``: a test a connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_command import run
from tests.conftest import PCAPS

junitparser = pytest.importorskip("junitparser")


@pytest.mark.parametrize(
    ("capture", "fail_on", "failed"),
    [
        ("markers-reordered.pcap", "error", []),
        ("markers-reordered.pcap", "note", ["alignment", "alignment"]),
        ("markers-draft-origin.pcap", "warning", ["fpduptr-origin", "fpduptr-origin"]),
        ("markers-draft-origin.pcap", "never", []),
        ("siw-terminate.pcap", "error", []),
    ],
)
def test_a_connection_fails_for_its_findings(capture: str, fail_on: str, failed: list[str], tmp_path: Path) -> None:
    file = tmp_path / "found.xml"
    done = run("analyze", str(PCAPS / capture), "--junit", str(file), "--fail-on", fail_on)
    assert done.returncode == bool(failed)
    (suite,) = junitparser.JUnitXml.fromfile(str(file))
    of_capture, connection = suite
    assert of_capture.name == "capture" and of_capture.is_passed
    assert connection.name.startswith("connection 0: ")
    assert [one.type for one in connection.result] == failed
    assert all("expected: " in one.text for one in connection.result)
    assert bool(suite.failures) == bool(failed)


@pytest.mark.parametrize("words", [("--junit", "-"), ("--junit", "nowhere/x.xml"), ("--junit", "x.xml", "--follow")])
def test_what_cannot_be_written_is_said_before(words: tuple[str, ...]) -> None:
    assert run("analyze", str(PCAPS / "faulty-pad.pcap"), *words).returncode == 2
