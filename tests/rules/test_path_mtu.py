"""What routers say of the path MTU: what fits a half connection, what does not, and what it explains."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from scapy_mpa import analyze
from scapy_mpa.analyzer.connection import CapturedConnection
from scapy_mpa.catalogue.malformed import Malformed
from scapy_mpa.craft.packets import FIN, RST
from scapy_mpa.report.model import Report
from scapy_mpa.rules.findings import Finding
from scapy_mpa.values.pathmtu import MOST_KEPT, path_mtu_segment
from tests.conftest import REPO
from tests.receive.cases import REPLY, REQUEST, Side, Talk, cut_small, follow, only, renumbered

ROUTER = bytes([192, 0, 2, 1])


def report(talk: Talk, side: Side, seq: int, *, mtu: int = 1400, size: int = 1500, damaged: bool = False) -> int:
    """A router reports a path MTU for a packet of a side; returns the frame."""
    frame = len(talk.segments) + 1
    talk.segments.append(
        path_mtu_segment(frame, talk.tap.time(frame), talk.keys[side], seq & 0xFFFFFFFF, mtu, size, damaged, ROUTER)
    )
    return frame


def found(mpa: CapturedConnection) -> list[Finding]:
    return [finding for finding in mpa.findings.sorted() if finding.rule.id == "path-mtu"]


def opened(isn: tuple[int, int] = (1000, 5000)) -> Talk:
    return Talk(isn=isn).open().startup_phase()


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("isn", [(1000, 5000), (0xFFFFFE00, 0xFFFFFE00)])
def test_it_is_told_of_the_half_whose_packet_it_quotes(side: Side, isn: tuple[int, int]) -> None:
    talk = opened(isn)
    seq = talk.next[side]
    talk.say(side, talk.lay(side, 1400))
    frame = report(talk, side, seq)
    talk.say("b" if side == "a" else "a")
    (finding,) = found(only(follow(talk.close().segments)))
    assert (finding.direction, finding.frame, finding.seq) == ("initiator" if side == "a" else "responder", frame, seq)
    assert (finding.severity, finding.clause, finding.code) == ("note", "RFC 5044 §A.5.1", None)
    assert finding.detail == "192.0.2.1 reports a next-hop MTU of 1400 for a packet of 1500 octets"


@pytest.mark.parametrize(
    ("far", "why"),
    [
        (0, ""),
        (1399, ""),
        (-1, "had been acknowledged"),
        (-100_000, "had been acknowledged"),
        (0x50000000, "had not been sent"),
        (-0x50000000, "had been acknowledged"),
    ],
)
def test_what_is_not_under_way_does_not_fit(far: int, why: str) -> None:
    talk = opened()
    talk.say("a", talk.lay("a", 1000))
    talk.say("b")
    seq = talk.next["a"]
    talk.say("a", talk.lay("a", 1400))
    report(talk, "a", seq + far)
    (finding,) = found(only(follow(talk.close().segments)))
    assert finding.detail.endswith(why or "1500 octets")


@pytest.mark.parametrize("when", ["request", "reply", "streaming", "waiting"])
@pytest.mark.parametrize("fits", [True, False])
def test_in_every_phase(when: str, fits: bool) -> None:
    talk = Talk().open()
    if when == "streaming":
        talk.say("a", b"upgrade?" * 100)
        report(talk, "a", 1001 if fits else talk.next["a"])
    talk.greet("a", REQUEST)
    if when == "request":
        report(talk, "a", talk.next["a"] - (len(REQUEST) if fits else 0))
    talk.greet("b", REPLY)
    if when == "reply":
        report(talk, "b", talk.next["b"] - (len(REPLY) if fits else 0))
    talk.operate()
    octets = talk.lay("a", 1000, 1000)
    talk.say("a", octets)
    if when == "waiting":
        report(talk, "a", talk.next["a"] - (1 if fits else 0))
    (finding,) = found(only(follow(talk.close().segments)))
    assert finding.detail.endswith(" for a packet of 1500 octets") == fits


def test_beyond_a_hole_nobody_knows_what_was_sent() -> None:
    talk = opened()
    talk.say("a", talk.lay("a", 1000), lost=True)
    talk.say("a", talk.lay("a", 1000))
    report(talk, "a", talk.next["a"] + 1)
    (finding,) = found(only(follow(talk.close().segments)))
    assert finding.detail.endswith(" for a packet of 1500 octets")


@pytest.mark.parametrize(
    ("mtu", "size", "damaged", "said"),
    [
        (0, 1500, False, "no next-hop MTU for a packet of 1500 octets"),
        (67, 1500, False, "a next-hop MTU of 67 for a packet of 1500 octets; below 68, which every path supports"),
        (68, 1500, False, "a next-hop MTU of 68 for a packet of 1500 octets"),
        (1500, 1500, False, "a next-hop MTU of 1500 for a packet of 1500 octets, which fits"),
        (1400, 1500, True, "a next-hop MTU of 1400 for a packet of 1500 octets; its ICMP checksum is wrong"),
    ],
)
def test_what_is_odd_about_it(mtu: int, size: int, damaged: bool, said: str) -> None:
    talk = opened()
    seq = talk.next["a"]
    talk.say("a", talk.lay("a", 1400))
    report(talk, "a", seq, mtu=mtu, size=size, damaged=damaged)
    (finding,) = found(only(follow(talk.close().segments)))
    assert finding.detail == f"192.0.2.1 reports {said}"


def shrinking(mtu: int, far: int = 0, reported: bool = True) -> Talk:
    """Segments of 76 octets follow one of 1406, behind a message."""
    talk = opened()
    seq = talk.next["a"]
    talk.say("a", talk.lay("a", 1400))
    if reported:
        report(talk, "a", seq + far, mtu=mtu)
    cut_small(talk, "a", talk.lay("a", 1400, 1400, 1400), 76)
    return talk.close()


@pytest.mark.parametrize(
    ("mtu", "far", "is_explained"),
    [
        (116, 0, True),
        (156, 0, True),
        (157, 0, False),
        (115, 0, False),
        (1400, 0, False),
        (0, 0, False),
        (116, -1, False),
        (116, 5000, False),
    ],
)
def test_tiny_segments_are_explained(mtu: int, far: int, is_explained: bool) -> None:
    talk = shrinking(mtu, far)
    tiny = next(one for one in only(follow(talk.segments)).findings.sorted() if one.rule.id == "attack-path-mtu")
    assert tiny.detail.endswith(f"; frame 7 reports a path MTU of {mtu}") == is_explained
    if not is_explained:
        assert tiny.detail.endswith("others had 1,408")


def test_nothing_is_explained_by_what_comes_later() -> None:
    talk = shrinking(116)
    message = talk.segments.pop(6)
    segments = renumbered([*talk.segments[:-3], message, *talk.segments[-3:]])
    rules = {one.rule.id: one.detail for one in only(follow(segments)).findings.sorted()}
    assert "frame" not in rules["attack-path-mtu"]


def test_many_are_one_finding_in_bounded_memory() -> None:
    talk = opened()
    seq = talk.next["a"]
    talk.say("a", talk.lay("a", 1400))
    for number in range(100):
        report(talk, "a", seq if number else seq - 1, mtu=1400 - number)
    mpa = only(follow(talk.close().segments))
    (finding,) = found(mpa)
    assert (finding.count, finding.frame, finding.last_frame) == (100, 7, 106)
    assert finding.detail.endswith(f"; 1 of the first {MOST_KEPT} such messages do not fit")
    watch = mpa.operations["initiator"].path_mtu
    assert watch is not None
    assert len(watch.messages.kept) == MOST_KEPT


@pytest.mark.parametrize("flags", [FIN, RST])
def test_it_opens_no_connection_and_ends_none(flags: int) -> None:
    talk = Talk()
    report(talk, "a", 1)
    receiver = follow(talk.segments)
    assert (receiver.tcp_connections, receiver.connections) == (0, [])
    talk = opened()
    report(talk, "a", talk.next["a"] - 1)
    talk.say("a", talk.lay("a", 100), flags=flags | 0x10)
    mpa = only(follow(talk.segments))
    assert mpa.operations["initiator"].counts.fpdus == (1 if flags == FIN else 0)


# --- whole captures ---


def captured(name: str) -> bytes:
    file = io.BytesIO()
    Malformed(name).captured.write(file)
    return file.getvalue()


def path_mtu(report: Report) -> Finding:
    return next(found for found in report.all_findings() if found.rule.id == "path-mtu")


def test_json_and_processes(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(captured("path-mtu-reported"))
    told = analyze(path).as_dict()
    rules = {one["rule"]: one for one in told["connections"][0]["findings"]}
    assert (rules["path-mtu"]["direction"], rules["path-mtu"]["frame"]) == ("initiator", 9)
    assert rules["attack-path-mtu"]["detail"].endswith("; frame 9 reports a path MTU of 128")
    assert rules["alignment"]["detail"].endswith("; frame 9 reports a path MTU of 128")
    assert analyze(path, jobs=2).as_dict() == told


def test_annotate_says_it_at_its_frame(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(captured("path-mtu-of-nobody"))
    run = [sys.executable, "-m", "scapy_mpa", "annotate", str(path), str(tmp_path / "y.pcapng")]
    subprocess.run(run, check=True, capture_output=True, cwd=REPO)
    octets = (tmp_path / "y.pcapng").read_bytes()
    assert octets.count(b"mpa note path-mtu initiator: 192.0.2.1 reports a next-hop MTU of 68") == 1


def test_without_markers_it_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(captured("path-mtu-reported"))
    stripped = tmp_path / "y.pcapng"
    run = [sys.executable, "-m", "scapy_mpa", "export", "--strip-markers", str(path), str(stripped)]
    subprocess.run(run, check=True, capture_output=True, cwd=REPO)
    (connection,) = analyze(stripped).connections
    assert connection.initiator.counts.fpdus == 6
