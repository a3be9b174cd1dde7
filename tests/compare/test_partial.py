"""Taps of which one holds only a part: what it was not there to capture was not lost, and no Markers are guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

from scapy_mpa.compare.comparison import Comparison, compare
from scapy_mpa.compare.half import ComparedHalf, Kind
from scapy_mpa.compare.text import comparison_lines
from scapy_mpa.craft.conversation import Conversation
from tests.capture.convert import FORMATS, Record, Recorded, recorded
from tests.compare.pairs import Taps, conversation, taps
from tests.compare.test_compare import SCHEMA

PCAP = "pcap, nanoseconds, big-endian"
#: What a capture that lacks something gives no reason for.
ACCUSATIONS: tuple[Kind, ...] = ("changed", "cut", "joined", "recut", "lost", "repeated", "reordered", "delayed")


def keep(path: Path, change: Callable[[list[Record]], list[Record]]) -> None:
    of = recorded(path)
    path.write_bytes(FORMATS[PCAP](Recorded(of.link_type, change(of.records))))


def both_orders(pair: Taps) -> Iterator[Comparison]:
    for one, other in ((pair.first, pair.second), (pair.second, pair.first)):
        found = compare(str(one), str(other))
        jsonschema.validate(found.as_dict(), SCHEMA)
        yield found


def nobody_is_accused(found: Comparison) -> list[ComparedHalf]:
    halves = [half for one in found.connections for half in one.halves.values()]
    for half in halves:
        assert half.is_compared and not [*half.remarks()]
        assert [kind for kind in ACCUSATIONS if half.counts[kind]] == []
    return halves


def elsewhere(records: list[Record], since: int = 0) -> list[Record]:
    """The same records from other ports, after ``since`` nanoseconds."""
    ports = {b"\x9c\x40": b"\x9c\x41"}
    return [
        (time + since, one[:34] + b"".join(ports.get(port, port) for port in (one[34:36], one[36:38])) + one[38:], wire)
        for time, one, wire in records
    ]


@pytest.mark.parametrize("part", [slice(0, 40), slice(40, None), slice(20, 60)], ids=["end", "head", "middle"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_tap_that_was_not_there(part: slice, which: int, tmp_path: Path) -> None:
    pair = taps(conversation(), [], tmp_path)
    keep((pair.first, pair.second)[which], lambda records: records[part])
    for found in both_orders(pair):
        halves = nobody_is_accused(found)
        assert sum(half.counts["not-captured"] for half in halves) > 0 < sum(half.counts["unknown"] for half in halves)
        for half in halves:
            here, there = half.segments
            assert half.counts["not-captured"] - half.counts["unknown"] == here - there


def test_what_the_sender_s_tap_saw_acknowledged(tmp_path: Path) -> None:
    """The receiver's tap goes on with another connection, so that the time alone would not tell."""
    pair = taps(conversation(), [], tmp_path)
    for path, last in ((pair.first, None), (pair.second, 40)):
        keep(path, lambda records, last=last: records[:last] + elsewhere(records, 10**9))  # type: ignore[misc]
    found = compare(str(pair.first), str(pair.second))
    assert len(found.connections) == 2
    half = found.connections[0].halves["initiator"]
    assert half.counts["not-captured"] == half.segments[0] - half.segments[1] > 0 == half.counts["lost"]
    assert "not captured at the receiver's tap, and acknowledged" in "\n".join(comparison_lines(found))


def test_what_nobody_acknowledged_is_lost(tmp_path: Path) -> None:
    """The receiver's tap captured what came before and after."""
    pair = taps(conversation(), ["lose:probability=0.2"], tmp_path)
    found = compare(str(pair.first), str(pair.second))
    assert all(half.counts["lost"] == pair.truth[role].lost for role, half in found.connections[0].halves.items())
    assert any(one.lost for one in pair.truth.values())


def silent(c: int, m: tuple[int, int]) -> Conversation:
    """A conversation in which the Responder sends little, and early."""
    made = Conversation(seed=7, delay=0.001, c=(c, c), m=m).start()
    made.send("initiator", b"q" * 60).send("responder", b"a" * 90)
    for number in range(8):
        made.send("initiator", bytes([number + 1]) * (70 + 60 * number))
    return made.close()


@pytest.mark.parametrize("m", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("c", [0, 1])
def test_markers_are_not_guessed(c: int, m: tuple[int, int], tmp_path: Path) -> None:
    """Wherever a capture begins or ends, it shows the Markers that there are, or none of them are known."""
    pair = taps(silent(c, m), [], tmp_path)
    records = recorded(pair.second).records
    for first in range(len(records)):
        for end in (len(records), first + 5):
            keep(pair.second, lambda _, first=first, end=end: records[first:end])  # type: ignore[misc]
            for found in both_orders(pair):
                for one in found.connections:
                    # Markers are in what goes to whom asked for them (RFC 5044 §7.1.1).
                    # A capture from the middle on takes the first to send for the Initiator.
                    asked = m[::-1] if one.name[0].startswith("10.0.0.1") else m
                    for half, flag in zip(one.halves.values(), asked, strict=True):
                        assert {*half.markers} <= {bool(flag), None}
                nobody_is_accused(found)


def test_a_capture_that_begins_after_the_responder_s_last_octets(tmp_path: Path) -> None:
    pair = taps(silent(1, (1, 1)), [], tmp_path)
    last = max(
        n
        for n, (_, one, wire) in enumerate(recorded(pair.second).records)
        if one[26:30] == b"\x0a\0\0\x02" and wire > 74
    )
    keep(pair.second, lambda records: records[last + 1 :])
    found = compare(str(pair.first), str(pair.second))
    nobody_is_accused(found)
    half = found.connections[0].halves["responder"]
    # The Reply and one FPDU; the second capture is the nearer to the Responder where the times can tell.
    assert (sorted(half.segments), half.counts["unknown"] + half.counts["not-captured"]) == ([0, 2], 2)
    assert sorted(map(str, half.markers)) == ["None", "True"]


@pytest.mark.parametrize("octets", range(54, 74, 3))
@pytest.mark.parametrize("end", [5, 8, None])
def test_a_startup_frame_that_is_cut(octets: int, end: int | None, tmp_path: Path) -> None:
    """It does not say whether the other side's FPDUs have Markers; some captures end before there are any."""
    for key in (b"MPA ID Req", b"MPA ID Rep"):
        pair = taps(silent(1, (1, 1)), [], tmp_path)
        keep(
            pair.second,
            lambda records, key=key: [  # type: ignore[misc]
                (time, one[:octets] if key in one else one, wire) for time, one, wire in records[:end]
            ],
        )
        for found in both_orders(pair):
            nobody_is_accused(found)
