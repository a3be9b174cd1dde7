"""Recording: what was written and read as packets that tools read; what is made up says so."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import TCP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader, RawPcapReader

from scapy_mpa import analyze
from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.craft.ulpdus import send
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.live.recording import RecordedConnection, Recording

REQUEST, REPLY = (startup_frame(kind, c=1, rev=1).encode() for kind in ("request", "reply"))
MADE_UP = b"synthetic packet"


def packets(file: io.BytesIO) -> list[tuple[Any, float]]:
    """Packets with their times, in seconds."""
    found: list[Any] = list(RawPcapNgReader(io.BytesIO(file.getvalue())))  # type: ignore[arg-type]
    return [(Ether(octets), ((meta.tshigh << 32) + meta.tslow) / meta.tsresol) for octets, meta in found]


def recorded(address: str = "127.0.0.1", mss: int = 1448) -> tuple[io.BytesIO, Recording, RecordedConnection]:
    file = io.BytesIO()
    recording = Recording(file)
    return file, recording, recording.connection((address, 40000), (address, 7471), mss)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "fe80::1%eth0"])
def test_a_session_reads_as_a_connection(address: str, tmp_path: Path) -> None:
    file, recording, connection = recorded(address)
    connection.open(1000.0)
    assert connection.data("client", REQUEST, 1000.1) == 4
    assert connection.data("server", REPLY, 1000.2) == 5
    laid = HalfStream(Dialect(False, True))
    fpdus = [laid.lay((send(msn, bytes(100 * msn)),))[0] for msn in range(1, 30)]
    for number, fpdu in enumerate(fpdus):
        connection.data("client", fpdu, 1001 + number / 1000)
    connection.close("client", "fin", 1002.0)
    last = connection.close("server", "fin", 1002.1)
    assert last == recording.frames == len(packets(file))
    path = tmp_path / "a.pcapng"
    path.write_bytes(file.getvalue())
    report = analyze(str(path))
    (found,) = report.connections
    assert [finding.rule.id for finding in found.findings] == ["fpdu-above-emss"]
    half = found.half("initiator")
    assert [fpdu.wire_length for fpdu in half.fpdus] == [len(fpdu) for fpdu in fpdus]
    # One written in a piece is one segment where it fits.
    assert [len(fpdu.frames) for fpdu in half.fpdus] == [1 + (len(fpdu) > 1448) + (len(fpdu) > 2896) for fpdu in fpdus]
    assert report.packets == recording.frames


def test_times_are_those_that_were_given_and_never_go_back() -> None:
    file, _, connection = recorded()
    connection.open(1000.0)
    connection.data("client", REQUEST, 1000.5)
    connection.data("server", REPLY, 1000.25)
    times = [time for _, time in packets(file)]
    assert times == sorted(times)
    assert times[3] == pytest.approx(1000.5)
    assert times[4] == pytest.approx(1000.5, abs=1e-3)


@pytest.mark.parametrize("mss", [88, 536, 1448, 32768, 65483, 1 << 20])
def test_what_was_read_at_once_is_cut_as_segments_are(mss: int) -> None:
    file, _, connection = recorded(mss=mss)
    octets = bytes(range(256)) * 1024
    connection.open(1.0)
    connection.data("server", octets, 2.0)
    carried = [bytes(packet[TCP].payload) for packet, _ in packets(file)]
    sizes = [len(one) for one in carried if one]
    assert b"".join(carried) == octets
    assert max(sizes) == min(mss, 65521 - 52)


def test_classic_pcap_has_the_same_packets() -> None:
    files = io.BytesIO(), io.BytesIO()
    for file, is_classic in zip(files, (False, True), strict=True):
        connection = Recording(file, is_classic=is_classic).connection(("10.0.0.1", 1), ("10.0.0.2", 2), 1448)
        connection.open(1.0)
        connection.data("client", REQUEST, 2.000000001)
        connection.close("client", "fin", 3.0)
    pcap, pcapng = RawPcapReader(io.BytesIO(files[1].getvalue())), packets(files[0])  # type: ignore[arg-type]
    assert pcap.nano
    read = [(octets, meta.sec * 10**9 + meta.usec) for octets, meta in pcap]
    assert [octets for octets, _ in read] == [bytes(packet) for packet, _ in pcapng]
    assert [time / 1e9 for _, time in read] == [pytest.approx(time, abs=1e-9) for _, time in pcapng]
    assert MADE_UP not in files[1].getvalue()


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_what_carries_no_octets_is_said_to_be_made_up(how: Any) -> None:
    file, recording, connection = recorded()
    connection.open(1.0)
    connection.data("client", REQUEST, 2.0)
    connection.close("server", how, 3.0)
    assert file.getvalue().count(MADE_UP) == recording.frames - 1 == 4
    assert ("F" if how == "fin" else "R") in packets(file)[-1][0][TCP].flags


def test_connections_of_one_recording_keep_apart(tmp_path: Path) -> None:
    file = io.BytesIO()
    recording = Recording(file)
    several = [recording.connection(("10.0.0.1", 40000 + n), ("10.0.0.2", 7471), 1448) for n in range(5)]
    for at, step in enumerate((REQUEST, REPLY)):
        for connection in several:
            if not at:
                connection.open(1.0)
            connection.data("server" if at else "client", step, 2.0 + at)
    path = tmp_path / "a.pcapng"
    path.write_bytes(file.getvalue())
    assert len(analyze(str(path)).connections) == 5


def test_without_a_file_frames_are_counted() -> None:
    recording = Recording()
    connection = recording.connection(("a", 1), ("b", 2), 0)
    connection.open(1.0)
    assert connection.data("client", b"x", 2.0) == 2
    assert connection.close("client", "fin", 3.0) == recording.frames == 3
    assert not recording.is_written


def test_ends_that_do_not_fit_one_packet() -> None:
    with pytest.raises(MPAError, match="cannot be recorded"):
        Recording(io.BytesIO()).connection(("127.0.0.1", 1), ("::1", 2), 1448)
