"""The clocks of two taps: by how much they differ, and how fast that changes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.compare.clock import clock_of
from scapy_mpa.compare.comparison import compare
from scapy_mpa.compare.text import comparison_lines
from tests.capture.convert import FORMATS, Recorded, recorded
from tests.cli.test_command import invoke
from tests.compare.pairs import AHEAD, WAY, conversation, taps
from tests.compare.test_compare import SCHEMA

PCAP = "pcap, nanoseconds, big-endian"
SECOND = 1_000_000_000
START = 1_790_000_000 * SECOND

Way = list[tuple[int, int]]


def ways(seconds: float, rate: float, queue: int, seed: int, count: int = 400) -> tuple[Way, Way]:
    """Segments of both sides over some seconds; each takes a way of 1 ms and waits in a queue."""
    rng = random.Random(seed)
    found: tuple[Way, Way] = ([], [])
    for number in range(count):
        time = START + int(seconds * SECOND * number / count)
        ahead = AHEAD + round(rate * (time - START))
        # Queues are empty now and then, and very long now and then.
        wait = 0 if rng.random() < 0.3 else int(queue * rng.random() * (20 if rng.random() < 0.05 else 1))
        found[number & 1].append((time, ahead + (WAY + wait) * (-1 if number & 1 else 1)))
    return found


@pytest.mark.parametrize("rate", [2e-4, 5e-5, 2e-5, -3e-5, -1e-4])
@pytest.mark.parametrize("queue", [0, 100_000, 2_000_000])
def test_a_drift_is_found(rate: float, queue: int) -> None:
    clock, nearer = clock_of(ways(60, rate, queue, 7))
    assert clock is not None and nearer == 0 and clock.drift is not None
    assert abs(clock.drift.rate - rate) <= clock.drift.error < abs(rate) / 4
    for time in (START, START + 30 * SECOND, START + 60 * SECOND):
        assert abs(clock.at(time) - (AHEAD + rate * (time - START))) <= clock.error
    assert abs(clock.error - WAY) < 200_000


@given(
    seconds=st.floats(0.001, 500),
    queue=st.integers(0, 5_000_000),
    seed=st.integers(0, 1000),
    count=st.integers(2, 500),
    grows=st.booleans(),
)
def test_none_is_found_where_there_is_none(seconds: float, queue: int, seed: int, count: int, grows: bool) -> None:
    """Whatever waits in queues, and where the queue of one way grows the other way says that it is no drift."""
    there, back = ways(seconds, 0, queue, seed, count)
    if grows:
        there = [(time, delay + (time - START) // 1000) for time, delay in there]
    clock, _ = clock_of((there, back))
    assert clock is not None and clock.is_known
    assert clock.drift is None or grows or abs(clock.drift.rate) * seconds * SECOND < 5_000_000
    assert abs(clock.at(START) - AHEAD) <= clock.error + (0 if clock.drift is None else 6_000_000)


def test_few_segments_and_one_way_say_nothing() -> None:
    there, back = ways(60, 1e-4, 0, 1)
    for some in ((there, []), ([], back), (there[:4], back[:4])):
        clock, _ = clock_of(some)
        assert clock is not None and clock.drift is None
    assert clock_of(([], [])) == (None, 0)


@pytest.mark.parametrize("rate", [0.0, 1e-4, -1e-4])
def test_captures(rate: float, tmp_path: Path) -> None:
    """What the clocks drift is said, and is no delay."""
    pair = taps(conversation(delay=0.5), [], tmp_path)
    first = recorded(pair.first)
    drift(pair.second, rate)
    pair.first.write_bytes(FORMATS[PCAP](first))
    span = (first.records[-1][0] - first.records[0][0]) / SECOND
    assert span > 1
    for one, other, sign in ((pair.first, pair.second, 1), (pair.second, pair.first, -1)):
        found = compare(str(one), str(other), late=0.0002)
        jsonschema.validate(found.as_dict(), SCHEMA)
        assert found.clock is not None and found.is_same
        text = "\n".join(comparison_lines(found))
        if rate:
            assert found.clock.drift is not None and abs(found.clock.drift.rate - sign * rate) < abs(rate) / 10
            assert f"it gains {1e6 * found.clock.drift.rate:+.3f} microseconds a second" in text
        else:
            assert found.clock.drift is None and "gains" not in text


def drift(path: Path, rate: float) -> None:
    """Have the clock of a capture gain so many seconds a second."""
    of = recorded(path)
    begin = of.records[0][0]
    moved = [(time + round(rate * (time - begin)), octets, wire) for time, octets, wire in of.records]
    path.write_bytes(FORMATS[PCAP](Recorded(of.link_type, moved)))


@pytest.mark.parametrize("rate", [2e-4, -1e-4, -9e-4])
@pytest.mark.parametrize("role", ["initiator", "responder"])
@pytest.mark.parametrize("arrives", [0, 1])
@pytest.mark.parametrize("both", [True, False])
def test_copies_are_told_apart_under_a_drift(rate: float, role: str, arrives: int, both: bool, tmp_path: Path) -> None:
    """One of two copies 0.2 ms apart was lost, at the end, when the clocks have drifted further than that."""
    pair = taps(conversation(delay=0.5), [], tmp_path)
    near, far = (pair.first, pair.second) if role == "initiator" else (pair.second, pair.first)
    source = b"\x0a\0\0\x01" if role == "initiator" else b"\x0a\0\0\x02"
    for path in (near, far):
        of = recorded(path)
        ours = [one for one in of.records if one[1][26:30] == source and one[2] > 1000]
        time, *rest = ours[-2]
        copies = [(time, *rest), (time + 200_000, *rest)]
        kept = copies if path == near else [copies[arrives]]
        left = [one for one in of.records if one is not ours[-2] and (both or one[1][26:30] == source)] + kept
        path.write_bytes(FORMATS[PCAP](Recorded(of.link_type, sorted(left))))  # type: ignore[arg-type]
    frames = [n for n, one in enumerate(recorded(near).records, 1) if one[1] == rest[0]]
    drift(pair.second, rate)
    # Only two directions show which tap is the nearer to the sender; else it is the first to the Initiator.
    orders = ((pair.first, pair.second), (pair.second, pair.first))
    for one, other in orders if both else orders[:1]:
        found = compare(str(one), str(other))
        assert found.clock is not None and (found.clock.drift is not None) == both
        (event,) = found.connections[0].halves[role].events  # type: ignore[index]
        assert (event.kind, event.sent_frames) == ("lost", (frames[1 - arrives],))


def test_ports_hosts_and_limits(tmp_path: Path) -> None:
    pair = taps(conversation(), [], tmp_path)
    files = [str(pair.first), str(pair.second)]
    plain = invoke("compare", *files)
    for more in (["--port", "7471"], ["--host", "10.0.0.1"], ["--limit", "held_octets=100000"]):
        assert invoke("compare", *files, *more).stdout == plain.stdout
    mapped = invoke("compare", *files, "--map", "10.0.0.1=10.0.0.1", "--host", "10.0.0.1", "--port", "40000")
    assert mapped.stdout == plain.stdout
    for left in (["--port", "1"], ["--host", "10.0.0.9"], ["--port", "1", "--map", "10.0.0.1=10.0.0.1"]):
        done = invoke("compare", *files, *left)
        assert done.stdout == "no MPA connection is in both captures\n"
        assert done.stderr.startswith("scapy-mpa: no connection matches --")
    assert invoke_status(*files, "--limit", "nothing=3") == 2


def invoke_status(*arguments: str) -> int:
    from tests.cli.test_command import run

    return run("compare", *arguments).returncode


def test_acknowledgements_are_counted(tmp_path: Path) -> None:
    pair = taps(conversation(), [], tmp_path)
    found = compare(str(pair.first), str(pair.second))
    halves = found.connections[0].halves.values()
    assert all(one.acknowledgements[0] == one.acknowledgements[1] for one in halves)
    assert any(one.acknowledgements[0] for one in halves)
    of = recorded(pair.second)
    # Those without octets are the shortest packets but for SYN and FIN.
    shortest = min(wire for _, _, wire in of.records)
    acks = [n for n, (_, octets, wire) in enumerate(of.records) if wire == shortest and octets[47] == 0x10]
    assert len(acks) > 2
    left = [record for n, record in enumerate(of.records) if n not in acks[:2]]
    pair.second.write_bytes(FORMATS[PCAP](Recorded(of.link_type, left)))
    found = compare(str(pair.first), str(pair.second))
    lost = sum(one.acknowledgements[0] - one.acknowledgements[1] for one in found.connections[0].halves.values())
    assert abs(lost) == 2 and not found.is_same
    assert "acknowledgements without octets at " in "\n".join(comparison_lines(found))
    assert json.dumps(found.as_dict())
