"""Captures that hold the same packets: of one tap they count once, of two taps it is said, a retransmission stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.joining import sources_of
from scapy_mpa.capture.twice import PacketsTwice
from scapy_mpa.framing.role import ROLES
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.report.model import Report
from tests.capture.convert import FORMATS, LINKS, Record, Recorded, recorded
from tests.capture.test_files import ethernet_frames
from tests.capture.tunnels import in_fragments
from tests.cli.test_command import invoke
from tests.conftest import PCAPS

PCAP = "pcap, nanoseconds, big-endian"
REORDERED, CRC, IPV6 = (PCAPS / f"{name}.pcap" for name in ("markers-reordered", "siw-crc-rping", "siw-rping-ipv6"))
MS = 1_000_000


def write(path: Path, link_type: int, records: Sequence[Record]) -> Path:
    path.write_bytes(FORMATS[PCAP](Recorded(link_type, [*records])))
    return path


def moved(records: Sequence[Record], nanoseconds: int) -> list[Record]:
    return [(time + nanoseconds, octets, wire) for time, octets, wire in records]


def counted(report: Report, *but: str) -> list[Any]:
    """All that does not depend on the numbers and the times of frames."""
    found: list[Any] = []
    for one in report.connections:
        values = one.as_dict()
        found.append([values[key] for key in ("initiator", "responder", "profile", "crc", "halves")])
        found.append([[(f.seq, f.wire_length, f.crc, f.opcode) for f in one.half(side).fpdus] for side in ROLES])
        found.append(sorted((f.rule.id, f.count, f.direction or "", f.seq, f.detail) for f in one.findings))
    found.append(sorted((f.rule.id, f.count, f.detail) for f in report.findings if f.rule.id not in but))
    return found


def notes(report: Report) -> dict[str, str]:
    return {one.rule.id: one.detail for one in report.findings}


def again(report: Report) -> int:
    return sum(one.half(side).counts.retransmitted_segments for one in report.connections for side in ROLES)


@pytest.mark.parametrize("capture", [REORDERED, CRC, IPV6], ids=lambda path: path.stem)
@pytest.mark.parametrize("link", [None, "vlan", "sll", "sll2", "raw"])
def test_a_capture_of_any_and_one_of_the_interface(capture: Path, link: str | None, tmp_path: Path) -> None:
    other = recorded(capture) if link is None else LINKS[link](capture)
    second = write(tmp_path / "any.pcap", other.link_type, moved(other.records, 3000))
    report = analyze([capture, second])
    assert counted(report, "capture-twice") == counted(analyze(capture))
    assert notes(report)["capture-twice"].endswith(
        "are identical: both captures are from one tap; each packet counts once"
    )
    assert f"{capture} and {second}" in notes(report)["capture-twice"] and "capture-taps" not in notes(report)


def test_three_captures(tmp_path: Path) -> None:
    of = recorded(CRC)
    paths = [write(tmp_path / f"{n}.pcap", of.link_type, moved(of.records, n)) for n in range(3)]
    report = analyze(paths)
    assert counted(report, "capture-twice") == counted(analyze(CRC))
    assert notes(report)["capture-twice"].startswith("100 packets of ") and "and in others" in str(notes(report))


def test_fragments(tmp_path: Path) -> None:
    pieces = [
        (time + n, piece, len(piece))
        for number, (time, frame, _) in enumerate(ethernet_frames(CRC))
        for n, piece in enumerate(in_fragments(frame, 48, number))
    ]
    paths = [write(tmp_path / name, 1, pieces) for name in ("one.pcap", "two.pcap")]
    assert counted(analyze(paths), "capture-twice") == counted(analyze(paths[0]))


@pytest.mark.parametrize("joining", ["auto", "follow"])
def test_a_rotation_that_overlaps_a_little(joining: Any, tmp_path: Path) -> None:
    """The end of one file is the beginning of the next; with --join follow nobody has looked where they overlap."""
    of = recorded(REORDERED)
    cut, overlap = len(of.records) // 2, 60
    first = write(tmp_path / "x.pcap0", of.link_type, of.records[:cut])
    second = write(tmp_path / "x.pcap1", of.link_type, of.records[cut - overlap :])
    report = analyze([first, second], joining=joining)
    if joining == "auto":
        assert report.joined == "follow"
        assert counted(report, "capture-twice") == counted(analyze(REORDERED))
    else:
        assert again(report) > again(analyze(REORDERED))


def renamed(octets: bytes) -> bytes:
    """The packet with another identification: it was sent again."""
    number = int.from_bytes(octets[18:20], "big") + 1 & 0xFFFF
    return octets[:18] + number.to_bytes(2, "big") + octets[20:]


def routed(octets: bytes) -> bytes:
    """The packet behind a router."""
    return octets[:22] + bytes([octets[22] - 1]) + octets[23:]


def unnamed(octets: bytes) -> bytes:
    return octets[:18] + bytes(2) + octets[20:]


@pytest.mark.parametrize(
    ("what", "before", "change", "later", "rule"),
    [
        ("the same", None, None, 0, "capture-twice"),
        ("the same, a little later", None, None, MS, "capture-twice"),
        ("the same, later", None, None, 2 * MS, "capture-taps"),
        ("another identification", None, renamed, 0, None),
        ("another TTL", None, routed, 0, "capture-taps"),
        ("no identification", unnamed, unnamed, 50_000, "capture-twice"),
        ("no identification, later", unnamed, unnamed, 200_000, None),
        ("no identification, another TTL", unnamed, lambda octets: routed(unnamed(octets)), 0, None),
    ],
)
def test_what_is_a_copy(
    what: str,
    before: Callable[[bytes], bytes] | None,
    change: Callable[[bytes], bytes] | None,
    later: int,
    rule: str | None,
    tmp_path: Path,
) -> None:
    of = recorded(CRC)
    ip = [record for record in of.records if record[1][12:14] == b"\x08\x00"]
    # Packets far enough apart that only those that belong together are near.
    ip = [(time + 10 * MS * n, octets, wire) for n, (time, octets, wire) in enumerate(ip)]
    here = [(time, before(octets) if before else octets, wire) for time, octets, wire in ip]
    there = [(time + later, change(octets) if change else octets, wire) for time, octets, wire in ip]
    paths = write(tmp_path / "a.pcap", 1, here), write(tmp_path / "b.pcap", 1, there)
    alone, report = analyze(paths[0]), analyze(paths)
    assert {*notes(report)} & {"capture-twice", "capture-taps"} == ({rule} if rule else set())
    assert (again(report) == again(alone)) == (rule == "capture-twice")
    named = [record for record in here if any(record[1][18:20])]
    if rule is not None:
        count = len(ip) if rule == "capture-twice" and later < MS else len(named)
        assert notes(report)[rule].startswith(f"{count} packets of ")


def test_a_retransmission_stays(tmp_path: Path) -> None:
    """In one file, and at the seam of two files of a rotation: it has another identification."""
    of = recorded(CRC)
    twice = [record for one in of.records for record in (one, (one[0] + 1000, renamed(one[1]), *one[2:]))]
    whole = write(tmp_path / "whole.pcap", of.link_type, twice)
    expected = analyze(whole)
    assert again(expected) > 30 and "capture-twice" not in notes(expected)
    for cut in range(9, 41, 2):
        paths = [
            write(tmp_path / "one.pcap", of.link_type, twice[:cut]),
            write(tmp_path / "two.pcap", of.link_type, twice[cut:]),
        ]
        for joining in ("auto", "merge", "follow"):
            assert counted(analyze(paths, joining=joining)) == counted(expected)
    # Captured at two places at once, each of them is there twice.
    paths = [whole, write(tmp_path / "other.pcap", of.link_type, moved(twice, 200))]
    assert counted(analyze(paths), "capture-twice") == counted(expected)


def test_one_capture_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise AssertionError

    monkeypatch.setattr(PacketsTwice, "is_copy", fail)
    assert analyze(CRC).connections


def test_a_flood_of_the_same_packet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is remembered, and compared, does not follow its length."""
    of = recorded(CRC)
    one = next(record for record in of.records if record[1][12:14] == b"\x08\x00")
    first = of.records[0][0]
    flood = [(first + 100 * n, *one[1:]) for n in range(70_000)]
    paths = [write(tmp_path / name, of.link_type, flood) for name in ("a.pcap", "b.pcap")]
    compared = 0
    overlap = PacketsTwice._overlap

    def counting(self: PacketsTwice, *arguments: Any) -> bool:
        nonlocal compared
        compared += 1
        return overlap(self, *arguments)

    monkeypatch.setattr(PacketsTwice, "_overlap", counting)
    with Captures(sources_of(paths)) as captures:
        assert sum(map(len, captures.batches())) <= 2 * len(flood)
    assert compared < 40 * 2 * len(flood)


def test_text_and_json() -> None:
    result = invoke("analyze", str(CRC), str(CRC))
    assert "note capture-twice: frame 10" in result.stdout and "retransmission" not in result.stdout
    values = json.loads(invoke("analyze", "--format", "json", str(CRC), str(CRC)).stdout)
    assert [one["rule"] for one in values["findings"]] == ["capture-twice"]


BASES = [recorded(REORDERED), recorded(CRC)]


@given(
    base=st.sampled_from(BASES),
    where=st.lists(st.sampled_from("bbbbbbxy"), min_size=30, max_size=30),
    jitter=st.lists(st.integers(-20_000, 20_000), min_size=7, max_size=7),
)
def test_what_each_capture_lost(
    tmp_path_factory: pytest.TempPathFactory, base: Recorded, where: list[str], jitter: list[int]
) -> None:
    """Two captures of one tap, each with loss and a clock that trembles, are what both together have."""
    folder = tmp_path_factory.mktemp("twice")
    files: tuple[list[Record], list[Record]] = ([], [])
    seen: list[tuple[int, int, int]] = []
    for number, (time, octets, wire) in enumerate(base.records):
        is_in = where[number % 30] if 2 < number < len(base.records) - 3 else "b"
        for file, found in enumerate(files):
            if is_in in ("b", "xy"[file]):
                then = time + jitter[number % 7] if file else time
                then = max(then, found[-1][0]) if found else then
                found.append((then, octets, wire))
                seen.append((then, file, number))
    union: dict[int, Record] = {}
    for time, _, number in sorted(seen):
        union.setdefault(number, (time, *base.records[number][1:]))
    paths = [write(folder / f"{n}.pcap", base.link_type, found) for n, found in enumerate(files)]
    whole = write(folder / "whole.pcap", base.link_type, sorted(union.values(), key=lambda one: one[0]))
    assert counted(analyze(paths), "capture-twice") == counted(analyze(whole))
