"""What is exported while it is captured: the same as of the whole capture, and at once."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.test_command import invoke
from tests.cli.test_ongoing import HEADER, records
from tests.conftest import PCAPS

COMMAND = (sys.executable, "-m", "scapy_mpa", "export", "--follow", "-", "-")
PLAIN = "--strip-markers"
#: Seconds that anything may take.
PATIENCE = 60
CAPTURES = (
    "markers-reordered.pcap", "markers-aligned.pcap", "markers-before-crc.pcap", "siw-three-in-a-row.pcap",
    "siw-rejected.pcap", "siw-rping-ipv6.pcap",
)  # fmt: skip


def followed(octets: bytes, *options: str) -> bytes:
    done = subprocess.run([*COMMAND, *options], input=octets, capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def exported(path: Path, folder: Path, *options: str) -> bytes:
    assert invoke("export", *options, str(path), str(folder / "out.pcapng")).exit_code == 0
    return (folder / "out.pcapng").read_bytes()


@pytest.mark.parametrize("name", CAPTURES)
def test_without_markers_as_of_a_file(name: str, tmp_path: Path) -> None:
    path = PCAPS / name
    assert followed(path.read_bytes(), PLAIN) == exported(path, tmp_path, PLAIN)


@pytest.mark.parametrize("name", CAPTURES[:3])
def test_ulpdus_as_of_a_file(name: str, tmp_path: Path) -> None:
    path = PCAPS / name
    assert followed(path.read_bytes()) == exported(path, tmp_path, "--order", "placed")


def test_octets_that_never_came_stay_a_gap(tmp_path: Path) -> None:
    octets = (PCAPS / "markers-aligned.pcap").read_bytes()
    one_by_one = [*records(octets)]
    del one_by_one[100]
    path = tmp_path / "gap.pcap"
    path.write_bytes(octets[:HEADER] + b"".join(one_by_one))
    made = followed(path.read_bytes(), PLAIN)
    (tmp_path / "plain.pcapng").write_bytes(made)
    found = [*_ulpdus(tmp_path / "plain.pcapng", tmp_path)]
    assert found == [*_ulpdus(path, tmp_path)]
    assert 100 < len(found) < 210


def test_each_is_written_when_it_is_there() -> None:
    octets = (PCAPS / "markers-aligned.pcap").read_bytes()
    with subprocess.Popen([*COMMAND, PLAIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(octets[:HEADER])
        # A section header and an interface come before any packet.
        began = process.stdout.read(28)
        assert began is not None and began[:4] == b"\x0a\x0d\x0d\x0a"
        for record in [*records(octets)][:20]:
            process.stdin.write(record)
        seen = b""
        while b"MPA ID Rep Frame" not in seen:
            more = process.stdout.read(65536)
            assert more
            seen += more
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_a_closed_pipe_ends_it() -> None:
    octets = (PCAPS / "markers-aligned.pcap").read_bytes()
    with subprocess.Popen([*COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        with suppress(BrokenPipeError):  # it has ended by then
            process.stdin.write(octets)
            process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == b""


def _ulpdus(path: Path, folder: Path) -> list[bytes]:
    """The ULPDUs of a capture in the order of their streams, the Initiator's first."""
    from scapy_mpa import iter_fpdus

    return sorted(record.packet().payload.original for record in iter_fpdus(str(path)))
