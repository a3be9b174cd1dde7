"""Connections at two taps with a NAT between that chooses ports: which is which."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from scapy_mpa.compare.comparison import Comparison, compare
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.tcppacket import octets_of
from tests.compare.pairs import WAY

INSIDE, OUTSIDE = ("10.0.0.1", "10.0.0.2"), ("192.0.2.9", "192.0.2.10")
MAPPING = [f"{one}={other}" for one, other in zip(INSIDE, OUTSIDE, strict=True)]


class Translated(NamedTuple):
    """A connection: its seed, the Initiator's port before and behind the NAT (None: not captured there), its start.

    ``added`` is what the NAT adds to the Initiator's sequence numbers, ``lost`` how many of its first packets the
    capture behind the NAT lacks.
    """

    seed: int
    before: int | None
    behind: int | None
    start: int = 0
    added: int = 0
    lost: int = 0


def packets(one: Translated, port: int, hosts: tuple[str, str], added: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield time and octets; the Responder's port is 7471 before the NAT, 8471 behind it."""
    rng = random.Random(one.seed)
    ends = {"initiator": hosts[0], "responder": hosts[1], "ports": (port, 7471 if hosts == INSIDE else 8471)}
    # Numbers that differ by little, as those of hosts that count them up: ranges of connections overlap.
    made = Conversation(seed=one.seed, delay=0.001, isn=(1000 + one.seed + added, 7000 + one.seed), **ends)
    made.start()
    for _ in range(4):
        made.send("initiator", rng.randbytes(100)).send("responder", rng.randbytes(100))
    late = 0 if hosts == INSIDE else WAY
    for packet in made.close().sending(0).packets():
        time = packet.time + one.start + (late if packet.half.role == "initiator" else -late)
        yield time, octets_of(packet)


def compared(connections: Sequence[Translated], folder: Path) -> Comparison:
    before: list[tuple[int, bytes]] = []
    behind: list[tuple[int, bytes]] = []
    for one in connections:
        if one.before is not None:
            before += packets(one, one.before, INSIDE)
        if one.behind is not None:
            behind += [*packets(one, one.behind, OUTSIDE, one.added)][one.lost :]
    paths = folder / "before.pcap", folder / "behind.pcap"
    for path, records in zip(paths, (before, behind), strict=True):
        with path.open("wb") as file:
            PcapWriter(file).write(sorted(records))
    return compare(*map(str, paths), mapping=MAPPING)


MS = 1_000_000


@pytest.mark.parametrize(
    "connections",
    [
        pytest.param([Translated(1, 40001, None), Translated(2, 40000, 41000, 4 * MS)], id="one before alone"),
        pytest.param([Translated(1, None, 41001), Translated(2, 40000, 41000, 4 * MS)], id="one behind alone"),
        pytest.param([Translated(1, 40001, None), Translated(2, None, 41000)], id="each alone"),
        pytest.param([Translated(1, 40001, None), Translated(2, 40000, 40001, MS)], id="the port of the other"),
        pytest.param([Translated(1, 40001, 40000), Translated(2, 40000, 40001, MS)], id="ports exchanged"),
        pytest.param([Translated(1, 40001, None), Translated(2, 40000, 41000, 0, 5000)], id="numbers rewritten"),
        pytest.param(
            [Translated(n, 40000 + n, 41000 + n, n * MS, 0x7000_0000 + 9 * n) for n in range(4)], id="all rewritten"
        ),
        pytest.param([Translated(1, 40001, None), Translated(2, 40000, 41000, 0, 0, 8)], id="begins late"),
        pytest.param([Translated(1, 40001, None), Translated(2, 40000, 41000, 0, 5000, 8)], id="late and rewritten"),
    ],
)
def test_free_ports(connections: list[Translated], tmp_path: Path) -> None:
    found = compared(connections, tmp_path)
    ports = {tuple(int(name.split(" > ")[0].rsplit(":")[1]) for name in one.name) for one in found.connections}
    assert ports == {(one.before, one.behind) for one in connections if None not in (one.before, one.behind)}
    assert found.only_first == [f"10.0.0.1:{one.before} > 10.0.0.2:7471" for one in connections if one.behind is None]
    assert found.only_second == [
        f"192.0.2.9:{one.behind} > 192.0.2.10:8471" for one in connections if one.before is None
    ]
    halves = [half for one in found.connections for half in one.halves.values()]
    assert not found.counts_changes
    assert {kind for half in halves for kind, count in half.counts.items() if count} <= {"not-captured", "unknown"}


def test_a_port_used_twice(tmp_path: Path) -> None:
    """The second capture holds the later of two connections on the same addresses and ports."""
    paths = tmp_path / "before.pcap", tmp_path / "behind.pcap"
    first, second = ([*packets(Translated(n, 40000, None, n * 100 * MS), 40000, INSIDE)] for n in (1, 2))
    for path, records in zip(paths, (first + second, second), strict=True):
        with path.open("wb") as file:
            PcapWriter(file).write(records)
    for one, other in (paths, paths[::-1]):
        found = compare(str(one), str(other))
        assert found.is_same and len(found.connections) == 1
        assert len(found.only_first) + len(found.only_second) == 1
