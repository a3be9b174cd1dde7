"""A reduced capture shows the same finding in far fewer packets, and accuses nobody of anything else."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from click import UsageError
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa import MPAError, analyze, iter_messages
from scapy_mpa.capture.files import Captures
from scapy_mpa.reading.rewritten import CapturedFrame, write_frames
from scapy_mpa.reduce.closing import Closing
from scapy_mpa.reduce.fewest import fewest
from scapy_mpa.reduce.goal import accusations
from scapy_mpa.reduce.reduction import Reduced, reduce
from scapy_mpa.report.model import Report
from scapy_mpa.values.segment import checksum_is_wrong
from tests.cli.test_command import invoke, run
from tests.conftest import named

#: Captures in which one connection has a finding of the rule, which any of them shows.
LARGE = [
    ("siw-client-killed", "pad"),
    ("siw-netem-send", "pad"),
    ("siw-crc-netem-read", "pad"),
    ("siw-read-64", "pad"),
    ("siw-small-window", "pad"),
    ("siw-crc-packed", "pad"),
    ("siw-eight-connections", "startup-responder-first"),
    ("markers-lossy", "placement-early"),
    ("markers-aligned", "fpdu-above-emss"),
    ("markers-draft-origin", "fpduptr-origin"),
    ("crc-only", "ddp-msn"),
]


def reduced(path: Path, rule: str | None, **options: bool | int) -> tuple[Reduced, Report, Report]:
    out = io.BytesIO()
    done = reduce(path, out, rule=rule, **options)  # type: ignore[arg-type]
    out.seek(0)
    return done, analyze(path, fpdus=False), analyze(out, fpdus=False)


@pytest.mark.parametrize(("name", "rule"), LARGE)
def test_at_most_a_tenth_of_the_packets_shows_a_finding(name: str, rule: str) -> None:
    done, before, after = reduced(named(name), rule)
    assert done.is_least and done.frames == after.packets <= before.packets / 10
    assert rule in {found.rule.id for found in after.all_findings()}
    assert accusations(after) <= accusations(before)
    (connection,) = after.connections
    assert connection.initiator.key in {
        key for one in before.connections for key in (one.initiator.key, one.responder.key)
    }


def test_it_is_the_same_finding() -> None:
    _, before, after = reduced(named("siw-client-killed"), "pad")
    (old, *_), (new,) = ([one for one in report.all_findings() if one.rule.id == "pad"] for report in (before, after))
    assert (old.detail, old.direction, old.severity) == (new.detail, new.direction, new.severity)


def test_how_a_connection_ended() -> None:
    path = named("siw-terminate")
    done, before, after = reduced(path, None)
    (old,), (new,) = before.connections, after.connections
    assert done.frames < done.before and new.lifecycle.ended == old.lifecycle.ended == "terminate"
    assert (
        "found no buffer" in new.verdict and "1 message of the Initiator not fully acknowledged (1,448 " in new.verdict
    )
    # Less will do if any Terminate of the Responder does.
    loose, _, other = reduced(path, None, is_loose=True)
    assert loose.frames <= done.frames
    assert (other.connections[0].lifecycle.ended, other.connections[0].lifecycle.ended_by) == ("terminate", "responder")


def test_how_a_long_connection_ended_takes_few_tests() -> None:
    """Messages that were acknowledged go together: those that were not, and the RSTs, are what the verdict is about."""
    done, before, after = reduced(named("siw-client-killed"), None, tests=100)
    (old,) = (one for one in before.connections if one.lifecycle.reset_frame)
    (new,) = after.connections
    (before_reset,), (after_reset,) = (
        [found for found in one.findings if found.rule.id == "teardown-unacknowledged"] for one in (old, new)
    )
    said, _, other = before_reset.detail.partition(" (RST, frame ")
    assert other and after_reset.detail.startswith(said) and accusations(after) <= accusations(before)
    assert done.tests <= 100 and done.frames == after.packets < before.packets / 8


@pytest.mark.parametrize("name", ["siw-client-killed", "siw-rping"])
def test_messages_are_whole(name: str) -> None:
    path = named(name)
    with Captures(path) as captures:
        frames = {number: CapturedFrame(*one) for number, one in enumerate(captures.readers[0].records(), 1)}
    for connection in analyze(path).connections:
        closing = Closing(connection, frames)
        segments = [sum(len(run.frames) for run in message) for message in closing.messages()]
        rows = [row for row in iter_messages(path) if row.connection == connection.number]
        assert segments == [row.segments for row in rows]


def test_what_is_tried_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("scapy_mpa.cli.reduce._INTERVAL", 0.0)
    result = invoke("reduce", str(named("siw-terminate")), str(tmp_path / "few.pcap"), "--verdict", "--tests", "40")
    told = re.findall(r"^scapy-mpa: fewer (\w+), (\d+) packets? left after (\d+) of 40 tests$", result.stderr, re.M)
    assert [int(number) for _, _, number in told] == [*range(3, len(told) + 3)]  # two find out whether it can be done
    assert {"connections", "acknowledgements", "messages", "frames"} <= {what for what, _, _ in told}
    left = [int(number) for _, number, _ in told]
    assert left == sorted(left, reverse=True) and f": {left[-1]} of " in result.stdout


def test_the_connection_that_is_asked_for() -> None:
    path = named("siw-three-in-a-row")
    _, before, after = reduced(path, "terminate", connection=2)
    # All three have the same addresses and ports; the finding says which it is.
    (old,) = (one for one in before.connections[2].findings if one.rule.id == "terminate")
    (new,) = (one for one in after.all_findings() if one.rule.id == "terminate")
    assert old.seq == new.seq


def test_tests_are_limited() -> None:
    done, _, after = reduced(named("siw-client-killed"), "pad", tests=5)
    assert done.tests == 5 and not done.is_least and "pad" in accusations(after)


def test_fpdus_that_are_left_out_leave_no_gap() -> None:
    for name in ("siw-rping", "siw-rping-ipv6", "siw-nvme", "siw-netem-send"):
        path = named(name)
        with Captures(path) as captures:
            frames = {number: CapturedFrame(*one) for number, one in enumerate(captures.readers[0].records(), 1)}
        report = analyze(path)
        connection = max(report.connections, key=lambda one: one.fpdu_count)
        closing = Closing(connection, frames)
        assert len(closing.runs) > 5
        left = closing.without(closing.runs[::2], frames)
        out = io.BytesIO()
        with Captures(path) as captures:
            write_frames(captures.readers[0], left.values(), out)
        out.seek(0)
        with Captures(io.BytesIO(out.getvalue())) as captures:
            assert not any(checksum_is_wrong(seg) for batch in captures.batches() for seg in batch)
        found = next(one for one in analyze(out).connections if one.initiator.key == connection.initiator.key)
        for role in ("initiator", "responder"):
            counts = found.half(role).counts
            assert not counts.missing_octets and not counts.unlocated_octets
            taken = sum(run.end - run.start for run in closing.runs[1::2] if run.direction == role)
            assert counts.stream_octets == connection.half(role).counts.stream_octets - taken


def test_the_command(tmp_path: Path) -> None:
    path, out = str(named("siw-read-64")), str(tmp_path / "few.pcap")
    result = run("reduce", path, out, "--rule", "pad")
    assert result.stdout.startswith(f"{out}: ") and "of 987 packets" in result.stdout and not result.stderr
    result = run("reduce", path, out, "--rule", "pad", "--tests", "3")
    assert "stopped after 3 tests" in result.stderr
    for words in ([], ["--rule", "pad", "--verdict"], ["--rule", "none"], ["--verdict", "--port", "1"]):
        with pytest.raises(UsageError):
            invoke("reduce", path, out, *words)
    with pytest.raises(MPAError, match="there are some of pad"):
        invoke("reduce", path, out, "--rule", "crc")


@given(st.lists(st.integers(), max_size=60, unique=True), st.data())
def test_no_item_can_be_left_out(items: list[int], data: st.DataObject) -> None:
    needed = set(data.draw(st.lists(st.sampled_from(items), max_size=5))) if items else set()
    assert fewest(items, needed.issubset) == [one for one in items if one in needed]


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_what_is_left_always_holds(items: list[bool]) -> None:
    numbered = [*enumerate(items)]

    def has_two(some: list[tuple[int, bool]]) -> bool:
        return sum(value for _, value in some) % 3 == sum(items) % 3

    left = fewest(numbered, has_two)
    assert has_two(left) and left == sorted(left)
    assert not any(has_two(left[:at] + left[at + 1 :]) for at in range(len(left)))
