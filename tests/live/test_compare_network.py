"""``compare`` on what tcpdump captured on both sides of a bad network: the relay's tally is the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from scapy_mpa.compare.comparison import compare
from scapy_mpa.framing.role import ROLES
from tests.live.relay import HOSTS, Network, Weather, needs_network
from tests.live.test_bad_network import BAD, TALKS, converse

REPEATING = Weather(repeat=0.3, later=0.003, delay=0.001, spared=6)
LOSING = Weather(loss=0.08, delay=0.002, spared=6)


@needs_network("tcpdump")
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    "weather", [Weather(delay=0.002), REPEATING, LOSING, BAD], ids=["good", "twice", "loss", "bad"]
)
def test_both_taps_of_the_relay(weather: Weather, version: int, tmp_path: Path) -> None:
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with Network(weather, seed=11) as network:
            converse(network, TALKS["rping"], version, folder)
            tally = network.relay.tally
        found = compare(str(folder / "a.pcap"), str(folder / "b.pcap"))
        (one,) = found.connections
        # A tap on a busy machine may drop what the other one has: then it is tried again.
        if not sum(one.halves[direction].counts["unknown"] for direction in ROLES):
            break
    assert found.clock is not None
    # Both are captured by one clock; what a packet takes differs by what the machine had to do.
    assert abs(found.clock.offset) <= found.clock.error + 1_000_000
    for direction, host in zip(ROLES, HOSTS, strict=True):
        half = one.halves[direction]
        counts = half.counts
        assert half.sender_tap == HOSTS.index(host)
        assert not half.changes and not counts["cut"] + counts["joined"] + counts["recut"] + counts["unknown"]
        # A RST may come twice, or not at all, as anything else.
        assert not [one for one in half.remarks() if "RST" not in one]
        # The tally counts acknowledgements too, which have no octets.
        assert counts["lost"] + counts["not-captured"] <= tally[host].lost
        assert counts["repeated"] <= tally[host].repeated
        sent, received = half.segments
        assert received == sent - counts["lost"] - counts["not-captured"] + counts["repeated"]
        assert half.delays is not None
        assert half.delays[0] >= 0
    total = {kind: sum(one.halves[direction].counts[kind] for direction in ROLES) for kind in ("lost", "repeated")}
    assert bool(total["repeated"]) == bool(weather.repeat) or weather == BAD
    assert not (total["lost"] and not weather.loss)
