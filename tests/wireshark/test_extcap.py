"""Interfaces that Wireshark lists because of us: their MPA connections come without Markers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from scapy_mpa.cli.extcap import extcap
from tests.cli.test_ongoing import wait_for
from tests.live.relay import Network, needs_network
from tests.wireshark.tshark import needs_tshark

#: Seconds that anything may take.
PATIENCE = 60
COMMAND = (sys.executable, "-m", "scapy_mpa")


def asked(*arguments: str) -> str:
    done = CliRunner().invoke(extcap, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_what_wireshark_asks() -> None:
    lines = asked("--extcap-interfaces", "--extcap-version=4.0").splitlines()
    assert lines[0].startswith("extcap {version=")
    assert "interface {value=mpa-lo}{display=MPA on lo, Markers stripped}" in lines
    assert asked("--extcap-interface", "mpa-lo", "--extcap-dlts") == "dlt {number=101}{name=RAW}{display=Raw IP}\n"
    assert "interface {value=mpa-comments-lo}{display=MPA on lo, with comments}" in lines
    ethernet = "dlt {number=1}{name=EN10MB}{display=Ethernet}\n"
    assert asked("--extcap-interface", "mpa-comments-lo", "--extcap-dlts") == ethernet
    assert asked("--extcap-interface", "mpa-lo", "--extcap-config") == ""
    assert "display filter" in asked("--extcap-interface", "mpa-lo", "--extcap-capture-filter", "tcp")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--capture",),
        ("--capture", "--extcap-interface", "lo", "--fifo", "x"),
        ("--capture", "--extcap-interface", "mpa-lo", "--fifo", "x", "--extcap-capture-filter", "tcp"),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(extcap, arguments)
    assert done.exit_code == 2
    assert not Path("x").exists()


def test_export_takes_an_interface_in_place_of_captures() -> None:
    for arguments, said in (
        (("-i", "no-such-interface", "out.pcapng"), "interface no-such-interface: "),
        (("a.pcap",), "Missing argument 'OUT'"),
    ):
        done = subprocess.run(
            [*COMMAND, "export", *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.fixture
def within(tmp_path: Path) -> tuple[str, ...]:
    """What runs a command for which our program is in Wireshark's folder of extcap programs."""
    folder = tmp_path / "extcap"
    folder.mkdir()
    program = folder / "scapy-mpa-extcap"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from scapy_mpa.cli.extcap import main; main()" "$@"\n')
    program.chmod(0o755)
    # Wireshark takes the folder from WIRESHARK_EXTCAP_DIR, but not for root.
    told = subprocess.run(["tshark", "-G", "folders"], capture_output=True, text=True, check=True).stdout
    line = next(line for line in told.splitlines() if line.startswith("Extcap path:"))
    mount = 'mount --bind "$0" "$1" && shift && exec "$@"'
    return ("unshare", "-m", "sh", "-c", mount, str(folder), line.split(maxsplit=2)[2])


def has_mounts() -> bool:
    """Return True if this user may have mounts of its own."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not has_mounts(), reason="mount namespaces take root and unshare")


@needs_tshark
@needs_mounts
def test_it_is_listed(within: tuple[str, ...]) -> None:
    done = subprocess.run([*within, "tshark", "-D"], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert "mpa-lo (MPA on lo, Markers stripped)" in done.stdout
    assert "mpa-comments-lo (MPA on lo, with comments)" in done.stdout


@needs_tshark
@needs_mounts
@needs_network("unshare")
@pytest.mark.parametrize(
    ("interface", "field", "condition", "pattern", "expected"),
    [
        ("mpa-lo", "iwarp_ddp.msn", "iwarp_rdma.opcode == 3", r"(?m)^\d+$", ["1", "1", "2", "2", "3", "3"]),
        ("mpa-comments-lo", "frame.comment", 'frame.comment contains "Send"', r"\(Send, ", 6 * ["(Send, "]),
    ],
)
def test_it_is_captured_from(
    within: tuple[str, ...],
    interface: str,
    field: str,
    condition: str,
    pattern: str,
    expected: list[str],
    tmp_path: Path,
) -> None:
    with Network() as network:
        shown = tmp_path / "shown"
        wanted = ("-T", "fields", "-e", field, "-Y", condition, "-l")
        with open(shown, "wb") as file:
            tshark = network.popen("a", [*within, "tshark", "-i", interface, *wanted], stdout=file, stderr=file)
        wait_for(lambda: network.run("a", ["cat", "/proc/net/packet"]).stdout.count("\n") > 1)
        log = tmp_path / "log"
        with open(log, "wb") as file:
            listen = [*COMMAND, "listen", "127.0.0.1", "7471", "--ulp", "echo", "--markers"]
            network.popen("a", listen, stdout=file, stderr=file)
        wait_for(lambda: b"7471" in log.read_bytes())
        talk = ("connect", "127.0.0.1", "7471", "--ulp", "echo", "--count", "3", "--size", "1200", "--markers")
        network.run("a", [*COMMAND, *talk])

        def found() -> list[str]:
            return sorted(re.findall(pattern, shown.read_text()))

        # It is shown while the capture goes on.
        wait_for(lambda: len(found()) >= 6)
        assert tshark.poll() is None
        tshark.terminate()
        tshark.wait(PATIENCE)
    assert found() == expected
