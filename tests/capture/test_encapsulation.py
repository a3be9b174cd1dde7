"""Tags and tunnels: made by craft and read by the same numbers; what is not read; two networks on one 5-tuple."""

from __future__ import annotations

import io
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa import Report, analyze
from scapy_mpa.capture.notes import MOST_KINDS
from scapy_mpa.compare.comparison import compare
from scapy_mpa.craft.encapsulation import ENCAPSULATIONS
from scapy_mpa.report.track import tracks
from scapy_mpa.values.encapsulation import (
    GENEVE,
    NAMED_ETHERTYPES,
    NAMED_IP_PROTOCOLS,
    NAMED_UDP_PORTS,
    TUNNELS,
    UDP_PORTS,
    VXLAN,
    VXLAN_GPE,
)
from scapy_mpa.wireshark.crosscheck import crosscheck
from tests.capture.convert import Record, recorded
from tests.capture.frames import capture, ethernet, with_vlans
from tests.capture.tunnels import MAC, in_fragments, ip4, outer4, vxlan
from tests.cli.test_command import run
from tests.conftest import PCAPS, REPO, named

CRC, IPV6 = named("siw-crc-rping"), named("siw-rping-ipv6")


def is_ip(frame: bytes) -> bool:
    return frame[12:14] in (b"\x08\x00", b"\x86\xdd")


def written(records: list[Record]) -> bytes:
    return capture([(time, octets) for time, octets, _ in records], unit=1)


def within(name: str, path: Path) -> list[Record]:
    encapsulate = ENCAPSULATIONS[name]
    return [(time, encapsulate(octets), 0) for time, octets, _ in recorded(path).records if is_ip(octets)]


def plain(path: Path) -> list[Record]:
    return [one for one in recorded(path).records if is_ip(one[1])]


def connections(report: Report) -> list[dict[str, Any]]:
    return [one.as_dict() for one in report.connections]


@pytest.mark.parametrize("path", [CRC, IPV6], ids=lambda path: path.stem)
@pytest.mark.parametrize("name", ENCAPSULATIONS)
def test_a_connection_is_the_same_in_it(name: str, path: Path) -> None:
    made, there = (analyze(io.BytesIO(written(one))) for one in (within(name, path), plain(path)))
    assert connections(made) == connections(there) and made.connections
    assert not made.findings and not made.damage


@pytest.mark.parametrize("name", ENCAPSULATIONS)
def test_tshark_finds_the_same_fpdus(name: str, tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    path.write_bytes(written(within(name, CRC)))
    found = crosscheck(path)
    assert found.ours == found.wireshark == found.agreed == 35 and not found.unexplained


@pytest.mark.parametrize("name", ENCAPSULATIONS)
def test_craft_makes_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    result = run("craft", "--say", "initiator send 100", "--set", f'encapsulation="{name}"', "-o", str(path))
    assert result.returncode == 0
    assert [len(one.initiator.fpdus) for one in analyze(path).connections] == [1]


@pytest.mark.parametrize("name", ENCAPSULATIONS)
def test_cut_at_every_octet(name: str) -> None:
    """Headers that a snapshot length cut are none, and nothing else comes of them."""
    frame = ENCAPSULATIONS[name](ethernet(bytes(100)))
    for size in range(len(frame)):
        report = analyze(io.BytesIO(capture([frame[:size]], wire_lengths=[len(frame)])))
        assert report.packets == 1 and not report.connections


def test_the_page_has_a_row_for_each() -> None:
    page = (REPO / "docs/captures.md").read_text()
    (section,) = re.findall(r"^### Encapsulations by name$(.*?)^###", page, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|", section, re.MULTILINE)
    assert rows == [*ENCAPSULATIONS]
    for name in (*NAMED_ETHERTYPES.values(), *NAMED_UDP_PORTS.values(), *NAMED_IP_PROTOCOLS.values()):
        assert name in page


# --- other ports ---


def ports_of(kind: str) -> tuple[bytes, bytes]:
    """The ports of a tunnel as craft has them, and with another one."""
    port = next(port for port, one in UDP_PORTS.items() if one == kind)
    return struct.pack("!HH", 50000, port), struct.pack("!HH", 50000, 9999)


def on_port_9999(kind: str) -> list[Record]:
    return [(time, octets.replace(*ports_of(kind), 1), 0) for time, octets, _ in within(kind, CRC)]


@pytest.mark.parametrize("kind", TUNNELS)
def test_another_port(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    path.write_bytes(written(on_port_9999(kind)))
    there = connections(analyze(io.BytesIO(written(plain(CRC)))))
    assert connections(analyze(path, udp_ports={9999: kind})) == there
    assert not analyze(path).connections
    result = run("fpdus", "--decode", f"udp:9999={kind}", "--format", "jsonl", str(path))
    assert len(result.stdout.splitlines()) == 35
    # Octets are read again from the frames, whatever they lie in.
    assert analyze(path, udp_ports={9999: kind}).connections[0].initiator.fpdus[0].octets()


@pytest.mark.parametrize("kind", TUNNELS)
def test_another_port_in_what_wireshark_shows(kind: str, tmp_path: Path) -> None:
    usual, moved = tmp_path / "usual.pcap", tmp_path / "moved.pcap"
    usual.write_bytes(written(within(kind, CRC)))
    moved.write_bytes(written(on_port_9999(kind)))
    found = crosscheck(moved, udp_ports={9999: kind})
    assert found.agreed == 35 and not found.unexplained
    options = ("--decode", f"udp:9999={kind}")
    assert run("crosscheck", *options, str(moved)).stdout == run("crosscheck", str(usual)).stdout
    comments = [tmp_path / "usual.pcapng", tmp_path / "moved.pcapng"]
    assert run("annotate", str(usual), str(comments[0])).returncode == 0
    assert run("annotate", *options, str(moved), str(comments[1])).returncode == 0
    assert comments[1].read_bytes().replace(*ports_of(kind)[::-1]) == comments[0].read_bytes()


@pytest.mark.parametrize("text", ["udp:9999", "tcp:9999=vxlan", "udp:99999=vxlan", "udp:9999=gtp", "9999=vxlan"])
def test_what_is_no_port_of_a_tunnel(text: str) -> None:
    result = run("analyze", "--decode", text, str(CRC))
    assert result.returncode == 2 and "udp:PORT=KIND" in result.stderr


# --- what is not read ---


def unread_frames() -> dict[str, bytes]:
    """A frame for each of what may hold TCP and is not read, by what is said of it."""
    inner = ethernet()
    frames = {
        f"EtherType {number:#06x} ({name})": MAC + struct.pack("!H", number) + bytes(8) + inner
        for number, name in NAMED_ETHERTYPES.items()
    }
    for port, name in NAMED_UDP_PORTS.items():
        udp = struct.pack("!HHHH", port, 50000, 16 + len(inner), 0) + bytes(8) + inner
        frames[f"UDP port {port} ({name})"] = outer4(17, udp)
    for number, name in NAMED_IP_PROTOCOLS.items():
        frames[f"IP protocol {number} ({name})"] = outer4(number, bytes(8) + inner)
    for port, kind, name in ((4789, GENEVE, "VXLAN"), (8472, GENEVE, "VXLAN"), (6081, VXLAN, "Geneve")):
        frames[f"UDP port {port} (not {name})"] = on_port(port, kind)
    for kind, name in ((VXLAN, "VXLAN"), (VXLAN_GPE, "VXLAN-GPE"), (GENEVE, "Geneve")):
        frames[f"UDP port 9999 (like {name}; --decode udp:9999={kind} reads it)"] = on_port(9999, kind)
    return frames


def on_port(port: int, kind: str) -> bytes:
    """A frame with a TCP segment in a tunnel, to a UDP port."""
    frame = ENCAPSULATIONS[kind](ethernet())
    return frame[:36] + struct.pack("!H", port) + frame[38:]


@pytest.mark.parametrize("said", unread_frames())
def test_what_is_not_read_is_named(said: str, tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    path.write_bytes(capture([unread_frames()[said]] * 3 + [ethernet()]))
    result = run("analyze", "--format", "json", str(path))
    line = f"3 of 4 packets hold no readable TCP: 3 {said}"
    assert result.stderr.splitlines() == [f"scapy-mpa: {line}"] and result.returncode == 0
    (found,) = analyze(path).findings
    assert (found.rule.id, found.detail, found.frame) == ("not-read", line, 1)
    assert (found.count, found.last_frame) == (3, 3)
    # In a merge, and of what grows, too.
    with path.open("rb") as pipe:
        command = [sys.executable, "-m", "scapy_mpa", "analyze", "--follow", "-"]
        followed = subprocess.run(command, stdin=pipe, capture_output=True, text=True, check=True, timeout=60)
    assert line in followed.stderr
    other = tmp_path / "other.pcap"
    other.write_bytes(capture([(10**18, ethernet())], unit=1))
    merged = analyze([path, other], joining="merge")
    assert [one.detail for one in merged.findings if one.rule.id == "not-read"] == [line.replace("of 4", "of 5")]


@pytest.mark.parametrize("kind", [VXLAN, VXLAN_GPE, GENEVE])
def test_what_is_nearly_like_a_tunnel_is_no_news(kind: str) -> None:
    """A reserved bit that is set, another EtherType inside, or less than the header on a port of none."""
    frame = on_port(9999, kind)
    reserved = (42, 0x80), (43, 1), (49, 1)
    others = [frame[:at] + bytes((frame[at] ^ bit,)) + frame[at + 1 :] for at, bit in reserved]
    inner = frame.rindex(b"\x08\x00\x45") if kind != VXLAN_GPE else 43
    others += [frame[:inner] + b"\x09\x09" + frame[inner + 2 :], *(frame[:end] for end in range(42, 51))]
    report = analyze(io.BytesIO(capture(others, wire_lengths=[len(frame)] * len(others))))
    assert not report.findings and not report.damage


def test_few_ports_are_named() -> None:
    """A flood to many ports takes no memory."""
    report = analyze(io.BytesIO(capture([on_port(port, VXLAN) for port in range(20000, 20500)])))
    (found,) = report.findings
    assert (found.count, found.last_frame, found.detail.count("--decode")) == (500, 500, MOST_KINDS)
    assert f"{500 - MOST_KINDS} others" in found.detail


def test_other_packets_are_no_news() -> None:
    dns = outer4(17, struct.pack("!HHHH", 53, 50000, 20, 0) + bytes(12))
    arp = MAC + b"\x08\x06" + bytes(28)
    report = analyze(io.BytesIO(capture([dns, arp, ethernet()])))
    assert not report.findings and not report.damage


# --- two networks ---


def tagged(octets: bytes, *numbers: int) -> bytes:
    return with_vlans(octets, *((0x8100, number) for number in numbers))


def moved(octets: bytes, by: int) -> bytes:
    """The same segment with other sequence numbers; the checksum says nothing any more."""
    made = bytearray(octets)
    for at in (38, 42):
        number = int.from_bytes(made[at : at + 4], "big")
        made[at : at + 4] = (number + by & 0xFFFFFFFF if number else 0).to_bytes(4, "big")
    made[50:52] = bytes(2)
    return bytes(made)


def interleaved(*streams: list[Record]) -> list[Record]:
    return sorted((one for stream in streams for one in stream), key=lambda one: one[0])


@pytest.mark.parametrize("by", [100, 500, 5000, 1 << 20, 1 << 31])
@pytest.mark.parametrize("how", ["VLAN", "VNI"])
def test_one_5_tuple_in_two_networks(how: str, by: int) -> None:
    """Sequence numbers near to each other, or far: by its path a segment belongs to one of them."""
    records = plain(CRC)
    if how == "VLAN":
        first = [(time, tagged(octets, 10), 0) for time, octets, _ in records]
        second = [(time + 7000, tagged(moved(octets, by), 20), 0) for time, octets, _ in records]
    else:
        first = [(time, vxlan(octets), 0) for time, octets, _ in records]
        other = [vxlan(moved(octets, by)).replace(b"\0\0\x2a\0", b"\0\0\x2b\0", 1) for _, octets, _ in records]
        second = [(time + 7000, octets, 0) for (time, _, _), octets in zip(records, other, strict=True)]
    report = analyze(io.BytesIO(written(interleaved(first, second))))
    assert [one.path for one in report.connections] == (
        ["VLAN 10", "VLAN 20"] if how == "VLAN" else ["VNI 42", "VNI 43"]
    )
    (alone,) = analyze(io.BytesIO(written(records))).connections
    for one in report.connections:
        assert not one.findings and one.lifecycle.ended == alone.lifecycle.ended
        for half, there in ((one.initiator, alone.initiator), (one.responder, alone.responder)):
            assert half.counts == there.counts or half.counts.as_dict() == there.counts.as_dict()
    assert "(VLAN 10)" in repr(report.connections[0]) or how == "VNI"
    assert report.connections[0].as_dict()["path"] == report.connections[0].path


@pytest.mark.parametrize("shift", [7000, -7000])
def test_one_5_tuple_in_two_networks_without_tags(shift: int) -> None:
    """Captures of two networks read together: the last segments of either are no late duplicates."""
    records = plain(CRC)
    other = [(time + shift, moved(octets, 1 << 30), 0) for time, octets, _ in records]
    report = analyze(io.BytesIO(written(interleaved(records, other))))
    (alone,) = analyze(io.BytesIO(written(records))).connections
    assert [found.rule.id for found in report.findings] == []
    assert [one.lifecycle.last[0] for one in report.connections] == [report.packets - 1, report.packets]
    assert [one.initiator.counts.segments for one in report.connections] == [alone.initiator.counts.segments] * 2


def in_two_networks(number: int | None) -> list[Record]:
    """One 5-tuple in a VLAN, or without tag, and in VLAN 20; sequence numbers are near to each other."""
    first = [(time, octets if number is None else tagged(octets, number), 0) for time, octets, _ in plain(CRC)]
    second = [(time + 7000, tagged(moved(octets, 500), 20), 0) for time, octets, _ in plain(CRC)]
    return interleaved(first, second)


@pytest.mark.parametrize("number", [10, None])
def test_extract_keeps_two_networks_apart(number: int | None, tmp_path: Path) -> None:
    path, out = tmp_path / "two.pcap", tmp_path / "one.pcap"
    path.write_bytes(written(in_two_networks(number)))
    run("extract", str(CRC), "-o", str(out))
    alone = analyze(out).packets
    for connection, name in enumerate((f" (VLAN {number})" if number else "", " (VLAN 20)")):
        result = run("extract", str(path), "-o", str(out), "--connection", str(connection))
        assert f"{alone} packets of connection {connection}, " in result.stderr + result.stdout
        assert (result.stderr + result.stdout).rstrip().endswith(f":7174{name}")
        assert analyze(out).packets == alone


@pytest.mark.parametrize("number", [10, None])
def test_what_reads_again_keeps_two_networks_apart(number: int | None, tmp_path: Path) -> None:
    path = tmp_path / "two.pcap"
    path.write_bytes(written(in_two_networks(number)))
    there = [track.starts for track in tracks(analyze(CRC).connections).values()]
    for one in analyze(path).connections:
        assert [track.starts for track in tracks([one]).values()] == there
    counts = []
    for capture_path, name in ((CRC, "one"), (path, "two")):
        run("export", "--strip-markers", str(capture_path), str(tmp_path / name))
        counts.append(analyze(tmp_path / name).packets)
    assert counts[1] == 2 * counts[0]


@pytest.mark.parametrize("number", [10, None])
def test_compare_and_crosscheck_keep_two_networks_apart(number: int | None, tmp_path: Path) -> None:
    two, one = tmp_path / "two.pcap", tmp_path / "one.pcap"
    two.write_bytes(written(in_two_networks(number)))
    one.write_bytes(written(plain(CRC)))
    found = compare(two, one)
    assert found.is_same and len(found.connections) == 1
    for half in found.connections[0].halves.values():
        first, second = half.segments
        assert first == second > 0
    (missing,) = found.only_first
    assert missing.endswith(":7174 (VLAN 20)")
    checked = crosscheck(two)
    assert not checked.unexplained and checked.counts["startup-only-ours", "two-networks"] > 0


def test_tables_name_the_network(tmp_path: Path) -> None:
    path = tmp_path / "two.pcap"
    path.write_bytes(written(in_two_networks(10)))
    for arguments in (("startup",), ("messages", "--summary")):
        heads = [line for line in run(*arguments, str(path)).stdout.splitlines() if line.startswith("#")]
        assert [re.findall(r"VLAN \d+", head) for head in heads] == [["VLAN 10"], ["VLAN 20"]]


@pytest.mark.parametrize(
    ("numbers", "later"),
    [((10, 20), None), ((10, None), None), ((10, 10), 30), ((None, None), 30)],
    ids=["a tag per direction", "a tag in one direction", "another tag from the middle on", "a tag from the middle on"],
)
def test_one_stream_on_several_paths(numbers: tuple[int | None, int | None], later: int | None) -> None:
    records = plain(CRC)
    made = []
    for count, (time, octets, _) in enumerate(records):
        number = numbers[octets[34:36] == b"\x1c\x06"]  # 7174, the Responder's port
        number = later if later is not None and count > len(records) // 2 else number
        made.append((time, octets if number is None else tagged(octets, number), 0))
    report = analyze(io.BytesIO(written(made)))
    assert connections(report) == connections(analyze(io.BytesIO(written(records))))


def test_a_tag_that_a_switch_adds_in_between() -> None:
    """The same packets with another tag: one connection, and each packet counts once."""
    records = plain(CRC)
    copies = [(time + 2000, tagged(octets, 10), 0) for time, octets, _ in records]
    report = analyze(io.BytesIO(written(interleaved([(time, octets, 0) for time, octets, _ in records], copies))))
    (one,), (there,) = report.connections, analyze(io.BytesIO(written(records))).connections
    assert one.initiator.counts.as_dict() == there.initiator.counts.as_dict()
    assert [found.rule.id for found in report.findings] == ["capture-twice"] and not one.findings


# --- fragments of IP ---


def test_segments_in_fragments_are_a_note() -> None:
    pieces = []
    for number, (time, octets, _) in enumerate(plain(CRC)):
        pieces += [(time + at, piece, 0) for at, piece in enumerate(in_fragments(octets, 64, number))]
    report = analyze(io.BytesIO(written(pieces)))
    (one,) = report.connections
    assert {found.rule.id for found in one.findings} == {"ip-fragmented"}
    assert [found.severity for found in one.findings] == ["note"] * len(one.findings)
    assert len(one.initiator.fpdus) + len(one.responder.fpdus) == 35


def test_ah_in_fragments() -> None:
    frame = ENCAPSULATIONS["ah"](ethernet(bytes(range(200))))
    report = analyze(io.BytesIO(capture(in_fragments(frame, 64, 7))))
    assert report.tcp_connections == 1
    assert not analyze(io.BytesIO(capture([MAC + b"\x08\x00" + ip4(51, bytes(4))]))).tcp_connections
    assert PCAPS.exists()
