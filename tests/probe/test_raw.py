"""``probe --raw`` against our own ``listen`` in another network namespace, over a router; and what it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from scapy_mpa import analyze
from scapy_mpa.cli import cli
from scapy_mpa.craft.packets import ACK, PSH, ones_complement_sum
from scapy_mpa.craft.tcp import TCP
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.probe.aim import Live
from scapy_mpa.probe.choice import all_cases
from scapy_mpa.probe.exchange import CaseExchange, Terms
from scapy_mpa.probe.fitting import Unsupported
from scapy_mpa.probe.rawcarrier import RawTCP, cut, live_half, maker
from scapy_mpa.probe.rawscript import Forge, Shaped, raw_script_of
from scapy_mpa.probe.run import peers
from scapy_mpa.probe.script import Finish, Send, script_of
from tests.conftest import REPO
from tests.live.relay import Network, Weather, needs_network, stop

SCHEMA = json.loads((REPO / "scapy_mpa" / "probe" / "probe.schema.json").read_text())
#: An address that is nobody's, and a port.
OURS, PORT = {4: "10.78.0.9", 6: "fd78::9"}, 7471
GOOD = {"pass", "allowed", "unsupported"}
COMMAND = [sys.executable, "-m", "scapy_mpa"]
#: Some of each kind: holes, Markers beyond them, copies that differ, checksums, numbers that wrap, forged segments.
HANDFUL = (
    "valid-segments-reversed-markers", "valid-segments-lost", "fpdu-late-behind-marker", "wrap-in-late-segment",
    "overlap-first-differs", "crc-dropped-marker", "tcp-checksum-then-right", "gap-markers", "rst-in-the-window",
    "syn-with-request", "late-octets-next", "octets-at-the-edge", "fragments-overlap", "ttl-changes",
)  # fmt: skip

needs = needs_network("tcpdump", "sysctl")


class Routed:
    """A peer on host b that listens; whoever probes it sits on host a, which routes for its TUN device."""

    def __init__(self, network: Network, version: int, *options: str) -> None:
        self._network, self._version = network, version
        self.peer = network.address("b", version)
        forwarding = "net.ipv4.ip_forward" if version == 4 else "net.ipv6.conf.all.forwarding"
        network.run("a", ["sysctl", "-qw", f"{forwarding}=1"])
        network.run("b", ["ip", "route", "add", OURS[version], "via", network.address("a", version)])
        listener = network.popen(
            "b", [*COMMAND, "listen", self.peer, str(PORT), *options], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert listener.stderr is not None
        assert "listening" in listener.stderr.readline()

    def probe(self, *options: str) -> list[dict[str, Any]]:
        """The result of each case, as its line."""
        command = [
            *COMMAND, "probe", self.peer, str(PORT), "--raw", OURS[self._version], "--buffer", "0x1000,0,65536",
            "--format", "jsonl", *options,
        ]  # fmt: skip
        done = self._network.run("a", command, timeout=300)
        assert not done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def routed(*options: str, weather: Weather | None = None, version: int = 4) -> Iterator[tuple[Routed, Network]]:
    with Network(weather) as network:
        yield Routed(network, version, *options), network


def named(*names: str) -> list[str]:
    return [word for name in names for word in ("--case", name)]


@needs
def test_fpdus_beyond_holes_arrive_and_are_delivered(tmp_path: Path) -> None:
    """A handful of cases; of the one whose segments come in reverse, our analysis of what passed at the peer."""
    path = tmp_path / "b.pcap"
    with routed("--markers") as (peer, network):
        capture = network.capture("b", path)
        lines = peer.probe("--timeout", "0.3", *named(*HANDFUL))
        stop(capture)
    assert [line["case"] for line in lines] == [name for name in all_cases() if name in HANDFUL]
    verdicts = {line["case"]: (line["verdict"], line["reason"]) for line in lines}
    assert {verdict for verdict, _ in verdicts.values()} <= GOOD, verdicts
    assert len([line for line in lines if line["verdict"] == "pass"]) >= len(HANDFUL) - 3, verdicts
    validator = Draft202012Validator(SCHEMA)
    for line in lines:
        validator.validate(line)
    by_name = {line["case"]: line["seen"] for line in lines}
    # The peer's TCP says that it has what lies beyond the hole, and the peer answers the Read that comes last.
    assert by_name["valid-segments-reversed-markers"]["beyond_hole"] > 500
    assert by_name["valid-segments-reversed-markers"]["unacknowledged"] in (0, None)
    assert by_name["gap-markers"]["beyond_hole"] > 0
    assert by_name["gap-markers"]["unacknowledged"] > 0
    assert by_name["overlap-first-differs"]["terminate"]["code"] == 2
    # An optimized receiver would have placed FPDUs by Markers while the hole was open (RFC 5044 appendix A.4).
    halves = [one["halves"]["initiator"] for one in analyze(path).as_dict()["connections"]]
    many = [half for half in halves if half["fpdus"] >= 121 and half["markers"]]
    assert any(half["placed_out_of_order"] > 20 and half["delivered"] == half["fpdus"] for half in many), many


@needs
@pytest.mark.parametrize("options", [("--markers",), ("--markers", "--no-crc"), ("--no-markers", "--no-crc")])
def test_every_case(options: tuple[str, ...]) -> None:
    with routed(*options) as (peer, _):
        lines = peer.probe("--timeout", "0.3")
    assert len(lines) == len(peers([*all_cases().values()], "responder", ("tcp", "raw")))
    bad = [(line["case"], line["verdict"], line["reason"]) for line in lines if line["verdict"] not in GOOD]
    assert not bad


@needs
@pytest.mark.parametrize("version", [4, 6])
def test_a_bad_network(version: int) -> None:
    """What a case does not impair comes through a network that loses, repeats and reorders."""
    weather = Weather(loss=0.05, reorder=0.1, repeat=0.05, later=0.005)
    with routed("--markers", weather=weather, version=version) as (peer, network):
        lines = peer.probe("--timeout", "10", *named("valid-segments-*", "valid-m*", "valid-private-data-*"))
        assert network.relay.tally["a"].lost > 5
    bad = [(line["case"], line["verdict"], line["reason"]) for line in lines if line["verdict"] not in GOOD]
    assert not bad


# --- what it takes ---


def probe(*arguments: str) -> object:
    return CliRunner().invoke(cli, ["probe", *arguments], standalone_mode=False).exception


def test_it_says_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "open", refused)
    found = probe("192.0.2.1", "7471", "--raw", "198.51.100.1")
    assert isinstance(found, MPAError)
    assert str(found) == "--raw needs root: /dev/net/tun: Operation not permitted"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("192.0.2.1", "1", "--raw", "127.0.0.1"), "127.0.0.1 is an address of this host"),
        (("192.0.2.1", "1", "--raw", "host"), "'host' is not an IP address"),
        (("192.0.2.1", "1", "--raw", "198.51.100.1", "--mtu", "100"), "an MTU of 100 is below the minimum for IPv4"),
        (("192.0.2.1", "1", "--raw", "198.51.100.1", "--tun", "a/b"), "'a/b' is not a device name"),
        (("192.0.2.1", "1", "--raw", "198.51.100.1", "--tun", "\x1b[2Jx"), "is not a device name"),
        (("192.0.2.1", "1", "--tun", "x"), "--tun and --mtu set up the TUN device of --raw"),
        (("--listen", "7471", "--raw", "198.51.100.1"), "--raw tests only a Responder"),
    ],
)
def test_arguments(arguments: tuple[str, ...], complaint: str) -> None:
    found = probe(*arguments)
    assert isinstance(found, (MPAError, UsageError))
    assert complaint in str(found)


@needs
def test_peers_that_are_not_there() -> None:
    with Network() as network:
        for peer, complaint in (("127.0.0.1", "a loopback address"), (network.address("b"), "no answer to the SYN")):
            command = [*COMMAND, "probe", peer, "1", "--raw", OURS[4], "--timeout", "0.1", "--case", "gap"]
            with pytest.raises(subprocess.CalledProcessError) as found:
                network.run("a", command)
            assert found.value.returncode == 2
            assert complaint in found.value.stderr
            assert found.value.stderr.count("\n") == 1


# --- scripts ---


def test_scripts_have_every_segment() -> None:
    """All that a side sends in a case, in its order; what belongs to no stream is marked."""
    for case in all_cases().values():
        if case.reach.carriage != "raw":
            continue
        packets = case.case.plan().sent()
        steps = raw_script_of(packets, case.case.by)
        forged = [step for step in steps if isinstance(step, Forge)]
        names = {change.text.partition("(")[0] for change in case.case.changes}
        if names & {"injected", "overlapping", "late-of-earlier", "syn-again"}:
            assert forged, case.name
        if not forged:
            assert [Send(one.packet) if isinstance(one, Shaped) else one for one in steps] == script_of(
                packets, case.case.by
            )
        sent = [step for step in steps if not isinstance(step, Finish) and not hasattr(step, "what")]
        assert len(sent) >= len([one for one in steps if isinstance(one, Send)]) > 0


@pytest.mark.parametrize(
    ("name", "start", "from_edge", "ack", "older"),
    [
        ("rst-at-the-edge", None, 0, 0, 0),
        ("octets-last-in-the-window", None, -4, 0, 0),
        ("octets-old", 160, None, 0, 60000),
        ("ack-of-never-sent", 160, None, 1000, 0),
        ("octets-without-ack", 280, None, None, 0),
        ("syn-again", -1, None, None, 0),
    ],
)
def test_forged_segments_lie_where_they_should(
    name: str, start: int | None, from_edge: int | None, ack: int | None, older: int
) -> None:
    case = all_cases()[name].case
    (forge,) = [step for step in raw_script_of(case.plan().sent(), case.by) if isinstance(step, Forge)]
    assert (forge.from_edge, forge.ack) == (from_edge, ack)
    assert abs(forge.older - older) < 1000
    if start is not None:
        assert forge.start == start


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("fragments", [(64, 0x2000, 0), (64, 7, 56)]),
        ("fragments-overlap", [(64, 0x2000, 0), (64, 7, 56)]),
        ("ttl-changes", [(57, 0x4000, 0)]),
    ],
)
def test_ip_headers_that_are_not_as_usual(name: str, pieces: list[tuple[int, int, int]]) -> None:
    """Put together again the fragments are the packet; of a TTL nothing else is changed."""
    case = all_cases()[name].case
    plan = case.plan()
    shaped = [step for step in raw_script_of(plan.sent(), case.by, plan.wire) if isinstance(step, Shaped)]
    found = [(one.ttl, int.from_bytes(one.fragment, "big"), one.first) for one in shaped[0].pieces]
    assert found == pieces
    frame = octets_of(shaped[0].packet)
    whole = bytearray(len(frame))
    for piece in shaped[0].pieces:
        part = piece.of(frame)
        assert ones_complement_sum(part[14:34]) == 0
        assert int.from_bytes(part[16:18], "big") == len(part) - 14
        whole[34 + piece.first : 34 + piece.first + len(part) - 34] = part[34:]
    assert whole[34:] == frame[34:]


class Nowhere:
    """A way on which nothing comes back."""

    mtu = 1500

    def read(self, _seconds: float) -> None:
        """Nothing."""

    def write(self, _packet: bytes) -> None:
        """Nobody has it."""


def carrier_without_peer(*, timestamps: bool = True) -> RawTCP:
    ends = ("10.0.0.1", 1), ("10.0.0.2", 2)
    tcp = TCP(live_half("initiator", maker(*ends), 0), mtu=1500, timestamps=timestamps)
    tcp.state = "established"
    return RawTCP(Nowhere(), ends, tcp)


@pytest.mark.parametrize(
    ("name", "is_asked"),
    [("tcp-checksum-then-right", True), ("late-octets", True), ("octets-old", True), ("overlap-head-second", True),
     ("crc-zero", True), ("msn-0", True), ("deviating-no-pad", True), ("fin-believed", False), ("gap", False),
     ("rst-and-fpdus", False), ("terminate-not-last", False), ("read-past-the-buffer", False)],
)  # fmt: skip
def test_a_read_follows_where_its_answer_says_something(name: str, is_asked: bool) -> None:
    """Of what was dropped the answer shows that the peer goes on, of an error that it has not noticed it."""
    case, live = all_cases()[name], Live(0x1000, 1 << 20, 1 << 16)
    exchange = CaseExchange(carrier_without_peer(), case, Terms(0.1, echoes=True, live=live))
    exchange.seen.frame = startup_frame("reply", c=1)
    exchange._fitted()
    assert exchange.wants_echo is is_asked


def test_an_old_timestamp_is_none_where_the_peer_uses_none() -> None:
    case = all_cases()["octets-old"].case
    (forge,) = [step for step in raw_script_of(case.plan().sent(), case.by) if isinstance(step, Forge)]
    carrier_without_peer().forge(forge)
    with pytest.raises(Unsupported, match="no TCP timestamps"):
        carrier_without_peer(timestamps=False).forge(forge)


@needs
def test_cases_about_timestamps_where_the_peer_uses_none() -> None:
    with routed() as (peer, network):
        network.run("b", ["sysctl", "-qw", "net.ipv4.tcp_timestamps=0"])
        names = named("octets-old", "fin-old", "late-octets-next", "octets-at-the-edge")
        lines = peer.probe("--timeout", "0.3", *names)
    verdicts = {line["case"]: line["verdict"] for line in lines}
    assert verdicts.pop("octets-at-the-edge") == "pass"
    assert set(verdicts.values()) == {"unsupported"}


def test_long_segments_are_cut_with_their_damage() -> None:
    half = live_half("initiator", maker(("10.0.0.1", 1), ("10.0.0.2", 2)), 0)
    packet = TcpPacket(0, half, 5, bytes(range(10)), 0, ACK | PSH, 0, b"", 0, damage=((1, 1), (6, 2), (9, 3)))
    assert [(one.start, one.payload, one.damage) for one in cut(packet, 4)] == [
        (5, bytes(range(4)), ((1, 1),)), (9, bytes(range(4, 8)), ((2, 2),)), (13, b"\x08\x09", ((1, 3),)),
    ]  # fmt: skip
    assert [*cut(packet, 10)] == [packet]


def test_it_leaves_nothing(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("devices take root")
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("there is no /dev/net/tun")
    started = time.monotonic()
    probe("192.0.2.1", "1", "--raw", "198.51.100.77", "--tun", "mpatest0", "--timeout", "0.001", "--case", "gap")
    assert time.monotonic() - started < 10
    assert not os.path.exists("/sys/class/net/mpatest0")
