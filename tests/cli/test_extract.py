"""scapy-mpa extract: the packets of one connection, unchanged, and nothing else; what comes out says the same."""

from __future__ import annotations

import gzip
import io
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from scapy_mpa import analyze
from scapy_mpa.capture.copying import copy_frames
from scapy_mpa.capture.extract import conversation
from scapy_mpa.cli import cli
from scapy_mpa.framing.role import ROLES
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.extent import extent
from scapy_mpa.report.model import Report
from scapy_mpa.values.segment import SYN
from tests.capture.blocks import OBSOLETE, SIMPLE, block, capture_ng, interface, option, packet, section
from tests.capture.frames import MAGICS, capture, linked, pcap_records
from tests.capture.tunnels import in_fragments, tunnelled
from tests.conftest import PCAPS, REPO, captures
from tests.receive.cases import Talk, started

RPING = PCAPS / "siw-rping.pcap"
THREE = PCAPS / "siw-three-in-a-row.pcap"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["extract", *map(str, arguments)], standalone_mode=False, catch_exceptions=False)


def frames_of(report: Report, connection: Connection, source: Any) -> list[int]:
    found = conversation(source, connection.initiator.key)
    return list(found.between(*extent(report, connection, found)))


def extracted(report: Report, connection: Connection, source: Any) -> tuple[list[int], bytes]:
    frames, file = frames_of(report, connection, source), io.BytesIO()
    copy_frames(connection.index, frames, file)
    return frames, file.getvalue()


def told(connection: Connection, numbers: dict[int, int] | None = None) -> list[dict[str, Any]]:
    """The FPDUs of a connection, with frames by their number in the extract."""
    found: list[dict[str, Any]] = []
    for direction in ROLES:
        for record in connection.half(direction).fpdus:
            row = record.as_dict() | {"connection": 0}
            if numbers is not None:
                for name in ("placed_frame", "delivered_frame"):
                    row[name] = numbers[row[name]] if row[name] else None  # type: ignore[index]
                row["frames"] = [numbers[frame] for frame in record.frames]
            found.append(row)
    return found


def check(source: Any) -> list[list[int]]:
    """Every connection of a capture, extracted, says what it said; the frames of each."""
    report = analyze(source)
    all_frames = []
    for connection in report.connections:
        frames, octets = extracted(report, connection, source)
        again = analyze(io.BytesIO(octets))
        assert (again.packets, again.damage) == (len(frames), [])
        (alone,) = again.connections
        assert told(alone) == told(connection, {frame: number for number, frame in enumerate(frames, 1)})
        assert (alone.request, alone.reply, alone.rejected) == (
            connection.request,
            connection.reply,
            connection.rejected,
        )
        assert alone.initiator.endpoint == connection.initiator.endpoint
        all_frames.append(frames)
    return all_frames


# --- every capture ---


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_every_connection_says_the_same_alone(path: Path) -> None:
    all_frames = check(path)
    # No packet is in two of them.
    assert sum(map(len, all_frames)) == len({frame for frames in all_frames for frame in frames})


@pytest.mark.parametrize(("order", "unit"), MAGICS)
def test_a_pcap_file_is_copied_octet_for_octet(order: str, unit: int, tmp_path: Path) -> None:
    link_type, packets = pcap_records(THREE)
    source, output = tmp_path / "in.pcap", tmp_path / "out.pcap"
    whole = capture(
        [(when + 1, frame) for when, frame, _ in packets],
        link_type=link_type,
        order=order,
        unit=unit,
        wire_lengths=[wire + 3 for _, _, wire in packets],
    )
    source.write_bytes(whole)
    report = analyze(source)
    for connection in report.connections:
        result = invoke(source, "--connection", connection.number, "-o", output)
        assert result.return_value == 0
        frames = frames_of(report, connection, source)
        ends = f"{connection.initiator.endpoint} > {connection.responder.endpoint}"
        assert result.stdout == f"{output}: {len(frames)} packets of connection {connection.number}, {ends}\n"
        assert output.read_bytes()[:24] == whole[:24]
        _, all_packets = pcap_records(source)
        assert pcap_records(output) == (link_type, [all_packets[frame - 1] for frame in frames])


def test_the_syn_and_the_last_fin_are_there() -> None:
    report = analyze(THREE)
    counted = [len(frames_of(report, connection, THREE)) for connection in report.connections]
    assert sum(counted) == 42  # all TCP packets of the capture, tshark says
    _, packets = pcap_records(THREE)
    for connection in report.connections:
        frames = frames_of(report, connection, THREE)
        flags = [packets[frame - 1][1][47] for frame in frames]
        assert flags[0] == SYN and flags[1] & SYN


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is missing")
@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_tshark_reads_what_was_extracted(form: str, tmp_path: Path) -> None:
    source = tmp_path / f"in.{form}"
    _, packets = pcap_records(THREE)
    source.write_bytes(
        capture_ng(packets, tsresol=9) if form == "pcapng" else capture([p[:2] for p in packets], unit=1)
    )
    output = tmp_path / "out"
    assert invoke(source, "--connection", 1, "-o", output).return_value == 0

    def lines(path: Path, *more: str) -> list[str]:
        names = ("frame.time_epoch", "frame.len", "tcp.seq_raw", "tcp.flags", "tcp.payload")
        options = [option for name in names for option in ("-e", name)]
        command = ["tshark", "-r", str(path), "-T", "fields", *options, *more]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()

    assert lines(output) == lines(source, "-Y", "tcp.port == 52006")
    assert len(lines(output)) == 14


# --- several connections on the same addresses and ports ---


def talked(*talks: Talk) -> io.BytesIO:
    return io.BytesIO(capture([(seg[1], bytes(seg[6])) for seg in talks[-1].segments]))


def test_one_after_another_on_the_same_ports() -> None:
    first = started()
    first.at("a", 0, first.lay("a", 100, 200))
    first.close()
    second = Talk(first.tap, isn=(700_000, 900_000))
    begins = len(first.segments) + 1
    second.open().startup_phase(m=(1, 1))
    second.at("a", 0, second.lay("a", 1000))
    second.at("b", 0, second.lay("b", 50))
    second.close()
    frames = check(talked(second))
    assert frames == [[*range(1, begins)], [*range(begins, len(first.segments) + 1)]]


def test_a_syn_that_was_sent_twice_and_a_talk_without_mpa_before() -> None:
    other = Talk(isn=(50, 60)).open()
    other.say("a", b"GET / HTTP/1.1\r\n\r\n")
    other.close()
    talk = Talk(other.tap, isn=(700_000, 900_000))
    begins = talk.put("a", 700_000, flags=SYN, ack=0)
    talk.open().startup_phase()
    talk.at("a", 0, talk.lay("a", 100))
    assert check(talked(talk)) == [[*range(begins, len(talk.segments) + 1)]]


def test_only_the_answer_to_the_syn_was_captured() -> None:
    other = Talk(isn=(50, 60)).open().close()
    talk = Talk(other.tap, isn=(700_000, 900_000))
    talk.say("a", flags=SYN, lost=True)
    begins = talk.say("b", flags=SYN | 0x10)
    talk.startup_phase()
    talk.at("a", 0, talk.lay("a", 100))
    assert check(talked(talk)) == [[*range(begins, len(talk.segments) + 1)]]


def test_another_request_after_one_that_was_rejected() -> None:
    talk = Talk().open()
    talk.greet("a", startup_frame("request").encode())
    talk.greet("b", startup_frame("reply", r=1).encode())
    begins = talk.greet("a", startup_frame("request", c=1).encode(), (7,)) - 1
    talk.greet("b", startup_frame("reply", c=1).encode())
    talk.operate()
    talk.at("a", 0, talk.lay("a", 100))
    assert check(talked(talk)) == [[*range(1, begins)], [*range(begins, len(talk.segments) + 1)]]


def test_without_any_syn() -> None:
    talk = Talk()
    talk.startup_phase()
    talk.at("a", 0, talk.lay("a", 100))
    assert check(talked(talk)) == [[1, 2, 3]]


# --- what stands around TCP ---


@pytest.mark.parametrize("name", ["vlan, vxlan", "gre with key", "erspan iii", "ip in ipv6"])
def test_tunnels_are_copied_whole(name: str, tmp_path: Path) -> None:
    _, packets = pcap_records(THREE)
    source, output = tmp_path / "in.pcap", tmp_path / "out.pcap"
    source.write_bytes(capture([(when, tunnelled(name, frame)) for when, frame, _ in packets]))
    check(source)
    assert invoke(source, "--connection", 2, "-o", output).return_value == 0
    _, found = pcap_records(output)
    assert all(frame in [tunnelled(name, one) for _, one, _ in packets] for _, frame, _ in found)


@pytest.mark.parametrize("twice", [False, True])
def test_all_fragments_of_its_datagrams_come_along(twice: bool) -> None:
    _, packets = pcap_records(THREE)
    made: list[tuple[int, bytes]] = []
    whose: list[int] = []
    for number, (when, frame, _) in enumerate(packets, 1):
        for piece in reversed(in_fragments(tunnelled("vxlan", frame), 48, number)):
            for inner in [piece] * (1 + twice):
                made.append((when, inner))
                whose.append(number)
    source = io.BytesIO(capture(made))
    whole = analyze(THREE)
    found = check(source)
    for connection, frames in zip(whole.connections, found, strict=True):
        wanted = set(frames_of(whole, connection, THREE))
        got = [whose[frame - 1] for frame in frames]
        assert set(got) == wanted
        for number in wanted:
            # A repeat of the fragment that completes a datagram belongs to none.
            assert whose.count(number) - got.count(number) == (1 if twice else 0)


# --- forms of capture ---


def several_interfaces(order: str) -> bytes:
    """Two interfaces that carry the connections, one that does not, packets of all kinds, two sections."""
    _, packets = pcap_records(THREE)
    made = [section(order, option(1, b"a comment", order)), interface(1, order, tsresol=9)]
    made += [interface(101, order, tsresol=6, tsoffset=1000), interface(113, order), interface(1, order, snaplen=60000)]
    kinds = count()
    for number, (when, frame, wire) in enumerate(packets):
        if number == 30:
            made += [section(order), interface(1, order, tsresol=0x94)]
        if number >= 30:
            made.append(packet(frame, (when << 20) // 10**9, order, wire=wire))
            continue
        kind = next(kinds) % 4
        if kind == 0:
            made.append(packet(frame, when, order, wire=wire, options=option(1, b"mine", order)))
        elif kind == 1 and frame[12:14] == b"\x08\x00":
            made.append(packet(linked(101, frame), when // 1000 - 10**9, order, index=1))
        elif kind == 2:
            made.append(packet(frame, when // 1000, order, kind=OBSOLETE, index=3, wire=wire))
        else:
            made.append(packet(frame, order=order, kind=SIMPLE))
    return b"".join(made)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_with_several_interfaces(order: str) -> None:
    octets = several_interfaces(order)
    check(io.BytesIO(octets))
    report = analyze(io.BytesIO(octets))
    assert len(report.connections) == 3
    _, out = extracted(report, report.connections[0], io.BytesIO(octets))
    assert out[:12] == octets[:4] + struct.pack(order + "I", 28) + octets[8:12]
    assert out.count(b"eth0") == 3 and out.count(b"mine") > 2  # descriptions and packets as they were
    assert out.count(struct.pack(order + "II", 1, 36)) == 0


def test_a_description_that_is_too_long_to_be_kept_keeps_its_times() -> None:
    _, packets = pcap_records(THREE)
    seconds = 1_700_000_000
    options = option(9, b"\x09") + option(14, struct.pack("<q", seconds)) + option(1, bytes(3000))
    made = [section(), block(1, struct.pack("<HHI", 1, 0, 70000) + options + option(0, b""))]
    made += [packet(frame, when - seconds * 10**9, wire=wire) for when, frame, wire in packets]
    octets = b"".join(made)
    check(io.BytesIO(octets))
    report = analyze(io.BytesIO(octets))
    _, out = extracted(report, report.connections[0], io.BytesIO(octets))
    assert bytes(3000) not in out
    assert analyze(io.BytesIO(out)).connections[0].initiator.fpdus[0].time_ns == (
        analyze(THREE).connections[0].initiator.fpdus[0].time_ns
    )


def test_captures_of_different_link_types_and_forms() -> None:
    _, packets = pcap_records(THREE)
    hands: list[list[tuple[int, bytes, int]]] = [packets[hand::3] for hand in range(3)]
    ip_only = [(when, linked(113, frame), wire + 2) for when, frame, wire in hands[1]]
    sources: Sequence[bytes] = [
        capture([(when, frame) for when, frame, _ in hands[0]], unit=1),
        capture([(when, frame) for when, frame, _ in ip_only], link_type=113, order=">"),
        capture_ng(hands[2], order=">"),
    ]
    check([io.BytesIO(octets) for octets in sources])
    report = analyze([io.BytesIO(octets) for octets in sources])
    _, out = extracted(report, report.connections[0], [io.BytesIO(octets) for octets in sources])
    assert out.startswith(bytes.fromhex("0a0d0d0a"))


def test_pcap_files_of_one_link_type_that_are_not_alike() -> None:
    _, packets = pcap_records(THREE)
    sources = [
        capture([(when, frame) for when, frame, _ in packets[::2]], order=">"),
        capture([(when + 7, frame) for when, frame, _ in packets[1::2]], unit=1),
    ]
    check([io.BytesIO(octets) for octets in sources])
    report = analyze([io.BytesIO(octets) for octets in sources])
    _, out = extracted(report, report.connections[0], [io.BytesIO(octets) for octets in sources])
    assert out[:4] == MAGICS[">", 1]


def test_compressed_and_damaged(tmp_path: Path) -> None:
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(RPING.read_bytes()))
    reports = analyze(packed), analyze(RPING)
    assert extracted(reports[0], reports[0].connections[0], packed) == (
        extracted(reports[1], reports[1].connections[0], RPING)
    )
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(RPING.read_bytes()[:-30])
    result = invoke(cut, "-o", tmp_path / "out.pcap")
    assert result.return_value == 0 and "damaged after frame 53" in result.stderr
    assert len(pcap_records(tmp_path / "out.pcap")[1]) == 49


# --- the command ---


def test_selected_frames_only(tmp_path: Path) -> None:
    output = tmp_path / "out.pcap"
    assert invoke(THREE, "--frames", "17-30", "-o", output).return_value == 0
    assert len(pcap_records(output)[1]) == 14
    assert invoke(THREE, "--port", "52006", "-o", output).return_value == 0
    assert len(pcap_records(output)[1]) == 14


def test_several_connections(tmp_path: Path) -> None:
    """What was asked for comes in the order of the capture, each connection saying what it said."""
    output, report = tmp_path / "out.pcap", analyze(THREE)
    wanted = [report.connections[0], report.connections[2]]
    frames = sorted(frame for connection in wanted for frame in frames_of(report, connection, THREE))
    said = invoke(THREE, "--connection", 2, "--connection", 0, "-o", output).stdout
    assert said == f"{output}: {len(frames)} packets of connections 0, 2\n"
    _, packets = pcap_records(THREE)
    assert pcap_records(output)[1] == [packets[frame - 1] for frame in frames]
    numbers = {frame: number for number, frame in enumerate(frames, 1)}
    for alone, connection in zip(analyze(output).connections, wanted, strict=True):
        expected = [row | {"connection": alone.number} for row in told(connection, numbers)]
        assert [row | {"connection": alone.number} for row in told(alone)] == expected


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [
        (("--host", "10.9.0.1"), [0, 1, 2]),
        (("--ulp", "rping"), [0, 1, 2]),
        (("--port", 52006), [1]),
        (("--connection", 1, "--ulp", "rping"), [1]),
    ],
)
def test_connections_are_chosen_by_what_they_are(
    chosen: tuple[object, ...], numbers: list[int], tmp_path: Path
) -> None:
    output = tmp_path / "out.pcap"
    invoke(THREE, *chosen, "-o", output)
    connections = analyze(THREE, fpdus=False).connections
    assert [one.initiator.endpoint for one in analyze(output, fpdus=False).connections] == [
        connections[number].initiator.endpoint for number in numbers
    ]


def test_connections_are_chosen_by_time(tmp_path: Path) -> None:
    output, report = tmp_path / "out.pcap", analyze(THREE, fpdus=False)
    since = report.connections[1].lifecycle.first[1] / 1_000_000_000
    invoke(THREE, "--since", since, "-o", output)
    assert len(analyze(output, fpdus=False).connections) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((THREE, "--ulp", "iSER", "-o", "x"), "no connection matches --ulp"),
        ((THREE, "--frames", "1-", "-o", "x"), "there are 3 MPA connections, 0 to 2: choose with --connection"),
        ((THREE, "-o", "x"), "there are 3 MPA connections, 0 to 2: choose with --connection"),
        ((THREE, "--connection", 3, "-o", "x"), "there is no connection 3; the capture has 0 to 2"),
        ((RPING, "--connection", 1, "-o", "x"), "there is no connection 1; the capture has only 0"),
        ((RPING, "--port", 1, "-o", "x"), "there is no MPA connection"),
        ((RPING, "--direction", "initiator", "-o", "x"), "extract writes both directions of a connection"),
        ((RPING, "-o", "no/such/folder/x"), "no/such/folder/x: No such file or directory"),
    ],
)
def test_what_cannot_be_done(arguments: tuple[object, ...], message: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with pytest.raises(UsageError, match=message):
            invoke(*arguments)
    assert not list(tmp_path.iterdir())


def test_the_input_is_never_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "in.pcap"
    octets = RPING.read_bytes()
    source.write_bytes(octets)
    (tmp_path / "link.pcap").symlink_to(source)
    for output in (source, tmp_path / "link.pcap", f"{tmp_path}/./in.pcap", f"{tmp_path}/no such folder/../in.pcap"):
        with pytest.raises(UsageError, match="this file is being read, and would be overwritten"):
            invoke(source, "-o", output)
    with pytest.raises(UsageError, match="this file is being read"):
        invoke(THREE, source, "--connection", 0, "-o", source)
    assert source.read_bytes() == octets


def test_standard_output_and_pipes() -> None:
    command = [sys.executable, "-m", "scapy_mpa", "extract", str(RPING), "-o", "-"]
    result = subprocess.run(command, capture_output=True, cwd=REPO, timeout=60, check=True)
    assert result.stderr == b""
    report = analyze(RPING)
    assert result.stdout == extracted(report, report.connections[0], RPING)[1]
    command[4] = "-"
    with RPING.open("rb") as file:
        again = subprocess.run(command, stdin=file, capture_output=True, cwd=REPO, timeout=60, check=True)
    assert again.stdout == result.stdout
    piped = subprocess.run(command, input=RPING.read_bytes(), capture_output=True, cwd=REPO, timeout=60, check=False)
    assert (piped.returncode, piped.stdout) == (2, b"")
    assert piped.stderr == b"scapy-mpa: -: a pipe cannot be read again; extract needs a file\n"
