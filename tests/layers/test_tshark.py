"""What the layers build is dissected by tshark without complaint, with good CRCs."""

# mypy: disable-error-code="operator, unused-ignore"

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from scapy.packet import Packet
from scapy.utils import wrpcap

from scapy_mpa.layers import FPDU, DDPTagged, MPAReply, MPARequest, RDMAPWrite
from tests.layers.cases import ULPDUS, connection, fpdu_of_each

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is missing")

# What tshark 4.0 does not know: that siw's Terminates are laid out otherwise.
KNOWN = [name for name in ULPDUS if "siw" not in name]


def tshark(packets: list[Packet], folder: Path, *arguments: str) -> list[str]:
    capture = str(folder / "built.pcap")
    wrpcap(capture, packets)
    return subprocess.run(
        [
            "tshark",
            *("-r", capture),
            *("-o", "tcp.try_heuristic_first:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"),
            # It takes the payload of any Send for its own.
            *("--disable-protocol", "rpcordma"),
            *arguments,
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout.splitlines()


def fields(packets: list[Packet], folder: Path, *names: str) -> list[list[str]]:
    options = [option for name in names for option in ("-e", name)]
    lines = tshark(packets, folder, "-T", "fields", "-E", "separator=;", *options)
    return [line.split(";") for line in lines]


def complaints(packets: list[Packet], folder: Path) -> list[str]:
    """Lines of the whole dissection that tell of something wrong."""
    words = ("malformed", "expert info (warn", "expert info (err", "bad crc", "incorrect", "not set")
    return [
        line
        for line in tshark(packets, folder, "-V")
        if any(word in line.lower() for word in words) and "= " not in line
    ]


def test_every_message(tmp_path: Path) -> None:
    fpdus = [("initiator", FPDU() / ULPDUS[name][0]) for name in KNOWN]
    packets = list(connection(MPARequest(c=1, private_data=b"ulp"), MPAReply(c=1), fpdus))
    assert complaints(packets, tmp_path) == []
    rows = fields(packets, tmp_path, "iwarp_mpa.ulpdulength", "iwarp_rdma.opcode", "iwarp_ddp.tagged_flag")[5:]
    for name, row in zip(KNOWN, rows, strict=True):
        ulpdu, opcode, _ = ULPDUS[name]
        assert int(row[0]) == len(bytes(ulpdu)), name
        assert int(row[1].split(",")[0], 0) == opcode, name
        assert row[2].split(",")[0] == str(ulpdu.t)
    assert sum("(Good CRC32)" in line for line in tshark(packets, tmp_path, "-V")) == len(KNOWN)


def test_a_complaint_would_be_seen(tmp_path: Path) -> None:
    packets = list(connection(MPARequest(c=1), MPAReply(c=1), [("initiator", FPDU(crc=1) / ULPDUS["send"][0])]))
    assert any("CRC" in line for line in complaints(packets, tmp_path))


def test_siws_terminate_is_found_all_the_same(tmp_path: Path) -> None:
    packets = list(connection(MPARequest(c=1), MPAReply(c=1), fpdu_of_each()))
    rows = fields(packets, tmp_path, "iwarp_mpa.ulpdulength")
    assert [int(row[0]) for row in rows[5:]] == [len(bytes(ulpdu)) for ulpdu, _, _ in ULPDUS.values()]


@pytest.mark.parametrize("rev", [0, 1])
def test_startup_frames(rev: int, tmp_path: Path) -> None:
    request = MPARequest(m=1, c=0, rev=rev, private_data=b"request")
    reply = MPAReply(m=0, c=1, r=1, rev=rev, private_data=b"no")
    packets = list(connection(request, reply, []))
    names = ("marker_flag", "crc_flag", "rej_flag", "rev", "pdlength", "privatedata", "key.req", "key.rep")
    rows = fields(packets, tmp_path, *(f"iwarp_mpa.{name}" for name in names))
    assert rows[3][:6] == ["1", "0", "0", str(rev), "7", b"request".hex()]
    assert rows[4][:6] == ["0", "1", "1", str(rev), "2", b"no".hex()]
    assert rows[3][6] and rows[4][7]
    if rev:
        assert complaints(packets, tmp_path) == []


def test_markers(tmp_path: Path) -> None:
    """One Marker an FPDU and an FPDU a segment: that much of Markers tshark 4.0 understands."""
    at, fpdus, pointers = 0, [], []
    for size in (100, 300, 470, 200, 100, 400):
        fpdu = FPDU(marker_offset=-at % 512) / DDPTagged(stag=1, to=at) / RDMAPWrite() / bytes(size)
        markers = FPDU(bytes(fpdu), marker_offset=-at % 512).markers
        assert len(markers) <= 1
        pointers.append([str(marker.fpduptr) for marker in markers])
        at += len(bytes(fpdu))
        fpdus.append(("responder", fpdu))
    assert sum(map(len, pointers)) >= 3
    request = [("initiator", FPDU(marker_offset=0) / ULPDUS["send"][0])]
    packets = list(connection(MPARequest(m=1, c=1), MPAReply(m=1, c=1), [*request, *fpdus]))
    rows = fields(packets, tmp_path, "iwarp_mpa.marker_fpduptr")[6:]
    assert [[pointer for pointer in row[0].split(",") if pointer] for row in rows] == pointers
    assert complaints(packets, tmp_path) == []
    assert sum("(Good CRC32)" in line for line in tshark(packets, tmp_path, "-V")) == len(fpdus) + 1
