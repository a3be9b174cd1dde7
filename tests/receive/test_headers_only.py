"""Captures of which a snapshot length left little more than headers: real ones, cut, against the whole ones."""

from __future__ import annotations

import io
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from scapy.sendrecv import sniff

from scapy_mpa import Report, analyze, iter_messages
from scapy_mpa.framing.role import ROLES
from scapy_mpa.layers.session import MPASession
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.messages.summary import summaries
from tests.capture.convert import recorded
from tests.capture.frames import capture
from tests.conftest import captures, named, truth
from tests.foreign.captures import Tap, foreign_packets
from tests.foreign.data import Data
from tests.foreign.makers import MAKERS

#: Octets of a frame: what tcpdump's users ask for, and what holds Ethernet, IPv4, TCP and the header of an MPA Request.
LENGTHS = (86, 96, 128, 256)
#: In these each segment begins with an FPDU, so that all lengths are captured.
ALIGNED = ("siw-nfs4", "siw-nvme", "siw-rping", "siw-crc-rping", "siw-peer-to-peer", "siw-terminate")
#: Senders that deviate: without CRC, and most Markers, nothing tells how.
UNTOLD = ("faulty-fpduptr-and-spacing", "faulty-no-crc-field", "faulty-pad")


def cut(path: Path, octets: int, ports: tuple[int, ...] = ()) -> bytes:
    """A capture with so many octets of each frame; of segments from these TCP ports alone, if any are named."""
    link_type, records = recorded(path)
    records = [one for one in records if not ports or int.from_bytes(one[1][34:36], "big") in ports]
    wires = [wire for _, _, wire in records]
    return capture([(time, frame[:octets]) for time, frame, _ in records], link_type=link_type, wire_lengths=wires)


@lru_cache(maxsize=32)
def whole(name: str) -> Report:
    return analyze(named(name))


def rows(report: Report) -> list[dict[str, Any]]:
    """All FPDUs, but for what a CRC says."""
    halves = [half for one in report.connections for half in (one.initiator, one.responder)]
    found = [record.as_dict() for half in halves for record in half.fpdus]
    return [{key: value for key, value in one.items() if key not in ("crc", "located_by")} for one in found]


def rules(report: Report) -> Counter[str]:
    found = [*report.findings, *(found for one in report.connections for found in one.findings)]
    return Counter(
        {rule: sum(one.count for one in found if one.rule.id == rule) for rule in {f.rule.id for f in found}}
    )


@pytest.mark.parametrize("octets", LENGTHS)
@pytest.mark.parametrize("name", ALIGNED)
def test_every_fpdu_is_found_by_its_header(name: str, octets: int) -> None:
    report = analyze(io.BytesIO(cut(named(name), octets)))
    assert rows(report) == rows(whole(name))
    assert len(rows(report)) == len(truth(named(name)))
    assert not rules(report) - rules(whole(name)) - Counter({"capture-cut": 1 << 30})
    counts = [[half.counts.as_dict() for half in (one.initiator, one.responder)] for one in report.connections]
    there = [[half.counts.as_dict() for half in (one.initiator, one.responder)] for one in whole(name).connections]
    assert counts == there


@pytest.mark.parametrize("octets", [64, 80, 90, 110, 160, 600])
@pytest.mark.parametrize(
    "path", [path for path in captures(with_truth=True) if path.stem not in UNTOLD], ids=lambda p: p.stem
)
def test_nothing_is_found_that_is_not_there(path: Path, octets: int) -> None:
    report = analyze(io.BytesIO(cut(path, octets)))
    keys = ("direction", "seq", "ulpdu_length", "wire_length")
    there = {tuple(row[key] for key in keys) for row in rows(whole(path.stem))}
    assert {tuple(row[key] for key in keys) for row in rows(report)} <= there
    assert not rules(report) - rules(whole(path.stem)) - Counter({"capture-cut": 1 << 30})
    silent = [one.number for one in whole(path.stem).connections if "before any FPDU" in one.verdict]
    assert {one.number for one in report.connections if "before any FPDU" in one.verdict} <= {*silent}


@pytest.mark.parametrize(("name", "found"), [("markers-aligned", [81, 91]), ("markers-one-way", [55, 91])])
def test_a_segment_that_begins_with_an_fpdu_shows_it_among_markers(name: str, found: list[int]) -> None:
    """The FPDUs behind it in the segment are not known, and so the chain of lengths ends."""
    (connection,) = analyze(io.BytesIO(cut(named(name), 96))).connections
    assert [len(connection.initiator.fpdus), len(connection.responder.fpdus)] == found
    (there,) = whole(name).connections
    assert found == [there.half(role).counts.header_aligned_segments for role in ROLES]


@pytest.mark.parametrize("octets", LENGTHS)
@pytest.mark.parametrize("name", ["siw-nfs4", "siw-nvme"])
def test_messages_and_calls(name: str, octets: int) -> None:
    keys = ("connection", "direction", "message", "octets", "stag", "to", "qn", "msn", "placed_frame", "first_frame")
    made = [one.as_dict() for one in iter_messages(io.BytesIO(cut(named(name), octets)))]
    there = [one.as_dict() for one in iter_messages(named(name))]
    assert [[one.get(key) for key in keys] for one in made] == [[one.get(key) for key in keys] for one in there]
    assert {one["complete"] for one in made if one["octets"] > 256} == {False}
    if octets >= 128:
        assert calls(io.BytesIO(cut(named(name), octets))) == calls(named(name))


def calls(source: Any) -> list[dict[str, Any]]:
    with CapturedMessages(source) as found:
        made = [one.as_dict()["ulp"] for one in summaries(found, found.shown)]
    return [{key: one[key] for key in ("protocol", "calls", "replies", "latency")} for one in made]


@pytest.mark.parametrize("octets", [96, 128])
def test_a_session_makes_a_packet_of_each(octets: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(cut(named("siw-nfs4"), octets))
    packets = sniff(offline=str(path), session=MPASession, quiet=True)
    assert [packet.record.seq for packet in packets if packet.record is not None] == [
        row["seq"] for row in sorted(rows(whole("siw-nfs4")), key=lambda row: row["placed_frame"])
    ]


def test_one_direction_alone_and_both_joined(tmp_path: Path) -> None:
    """A hardware tracer captures each direction by itself, 128 octets of a frame."""
    path, names = named("siw-nfs4"), [tmp_path / "initiator.pcap", tmp_path / "responder.pcap"]
    for name, port in zip(names, (33964, 20049), strict=True):
        name.write_bytes(cut(path, 128, (port,)))
    (both,) = analyze(names, joining="merge").connections
    (there,) = whole("siw-nfs4").connections
    for role, name in zip(ROLES, names, strict=True):
        (alone,) = analyze(name).connections
        assert len(both.half(role).fpdus) == len(alone.half(role).fpdus) == len(there.half(role).fpdus) > 500
        assert "nothing that the" in alone.verdict and "sent was captured" in alone.verdict
        assert "not closed its side" not in alone.verdict
        with CapturedMessages(name) as found:
            said = "".join(line for one in summaries(found, found.shown) for line in one.lines())
        assert ("175 calls, 0 with a reply that was captured" in said) == (role == "initiator")
        assert "0 answered" not in said


@pytest.mark.parametrize("octets", [96, 128])
def test_a_capture_that_begins_in_the_middle(octets: int) -> None:
    """Without startup frames and CRCs, segments tell that are as long as a ULPDU_Length at their beginning says."""
    first, second = analyze(io.BytesIO(cut(named("siw-midstream"), octets))).connections
    assert len(first.initiator.fpdus) == 383
    assert len(second.initiator.fpdus) == 10 and len(second.responder.fpdus) >= 9


def test_a_startup_frame_whose_header_was_cut_is_told() -> None:
    report = analyze(io.BytesIO(cut(named("siw-nfs4"), 80)))
    assert not report.connections
    (found,) = report.findings
    assert (found.rule.id, found.frame, found.last_frame) == ("capture-cut", 8, 10)
    assert "14 octets of a startup frame were captured" in found.detail


@pytest.mark.parametrize(("name", "octets"), [("siw-rping", 54), ("siw-rping", 68), ("siw-rping-ipv6", 80)])
def test_payloads_of_which_too_little_is_left_are_told(name: str, octets: int) -> None:
    path = named(name)
    report = analyze(io.BytesIO(cut(path, octets)))
    assert report.tcp_connections == 1 and not report.connections
    (found,) = report.findings
    first = whole(name).connections[0].request
    assert first is not None
    _, records = recorded(path)
    headers = 66 + 20 * name.endswith("ipv6")
    lengths = {frame: wire - headers for frame, (_, _, wire) in enumerate(records, 1) if wire > headers + 8}
    assert (found.rule.id, found.frame, found.last_frame) == ("capture-cut", min(lengths), max(lengths))
    assert found.count == len(lengths)
    left = max(0, octets - headers)
    assert f"{left} of {lengths[found.frame]} octets of the payload were captured, too few to show MPA" in found.detail


def test_tcp_headers_that_were_cut_are_told() -> None:
    report = analyze(io.BytesIO(cut(named("siw-rping-ipv6"), 68)))
    (found,) = report.findings
    assert report.tcp_connections == 0
    assert (found.rule.id, found.detail) == ("capture-cut", "the TCP header was not captured in full")
    assert 1 < found.count <= found.last_frame == report.packets


def test_nothing_is_told_of_other_protocols_of_which_enough_is_left() -> None:
    """Whole payloads, acknowledgements without any, and parts in which a startup header would be seen."""
    data, (maker, port) = Data(1), MAKERS["http-text"]
    packets = [*foreign_packets(maker(data), Tap(), data, port, 40_000, 40_000)]
    wires = [len(frame) for _, frame in packets]
    for octets, is_told in ((None, False), (66, True), (85, True), (86, False)):
        made = capture([(time, frame[:octets]) for time, frame in packets], wire_lengths=wires)
        assert [one.rule.id for one in analyze(io.BytesIO(made)).findings] == ["capture-cut"] * is_told


def test_no_silence_is_claimed_of_who_was_not_captured() -> None:
    """A Request and a FIN of its sender: the other side may have said anything."""
    link_type, records = recorded(named("siw-nfs4"))
    mine = [one for one in records if one[1][34:36] == (33964).to_bytes(2, "big")]
    packets = [(time, frame) for time, frame, _ in (*mine[:4], *mine[-2:])]
    (connection,) = analyze(io.BytesIO(capture(packets, link_type=link_type))).connections
    assert "did not answer" not in connection.verdict
    assert "nothing that the Responder sent was captured" in connection.verdict
    assert not connection.findings


def test_no_fpdu_was_sent_is_not_claimed_of_octets_that_are_missing() -> None:
    link_type, records = recorded(named("siw-nfs4"))
    packets = [(time, frame) for time, frame, _ in (*records[4:11], *records[-5:])]
    (connection,) = analyze(io.BytesIO(capture(packets, link_type=link_type))).connections
    assert connection.initiator.counts.missing_octets and "before any FPDU" not in connection.verdict
