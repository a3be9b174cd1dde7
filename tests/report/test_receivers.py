"""What a watched receiver would have done, against the captures in which it did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scapy_mpa import Malformed, analyze
from scapy_mpa.cli import cli
from scapy_mpa.report.receivers import RECEIVERS, Habit, would_do

FOLDER = Path(__file__).parents[2] / "pcaps" / "siw-deviations"


@pytest.mark.parametrize("habit", RECEIVERS["siw"], ids=lambda habit: habit.evidence)
def test_each_habit_is_what_the_real_one_did(habit: Habit) -> None:
    """It is found in its capture, and there the receiver has, or has not, ended the connection."""
    (connection,) = analyze(FOLDER / f"{habit.evidence}.pcapng").connections
    assert habit in [one.habit for one in would_do(connection, "siw")]
    receiver = "responder" if habit.by != "responder" else "initiator"
    said = {one.rule.id for one in connection.findings if one.direction == receiver}
    ended = bool({"terminate", "startup-rejected", "startup-unanswered"} & said) or connection.reply is None
    assert ended or not habit.ends


def test_nothing_is_said_after_the_end(tmp_path: Path) -> None:
    """Of two errors the first ends it; what was received before is said."""
    capture = tmp_path / "a.pcap"
    Malformed("crc-two-in-a-row").write(str(capture))
    (connection,) = analyze(capture).connections
    assert [one.habit.sent for one in would_do(connection, "siw")] == ["crc"]


def test_the_command_has_it_as_text_and_as_json() -> None:
    capture = str(FOLDER / "crc-zero.pcapng")
    text = CliRunner().invoke(cli, ["analyze", capture, "--receiver", "siw"]).output
    assert "siw as responder, at frame 8: crc: sends a Terminate" in text
    values = json.loads(CliRunner().invoke(cli, ["analyze", capture, "--receiver", "siw", "--format", "json"]).stdout)
    (connection,) = values["connections"]
    assert connection["receiver"]["name"] == "siw"
    assert [(one["sent"], one["ends"]) for one in connection["receiver"]["would"]] == [("crc", True)]
    assert "receiver" not in json.loads(CliRunner().invoke(cli, ["analyze", capture, "--format", "json"]).stdout)
    assert CliRunner().invoke(cli, ["analyze", capture, "--receiver", "siw", "--summary"]).exit_code == 2
