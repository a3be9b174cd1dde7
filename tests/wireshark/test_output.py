"""Where the commands write: never into what they print, never over what is protected, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click import UsageError

from scapy_mpa.cli.output import written
from scapy_mpa.system.ending import ends_orderly
from tests.conftest import PCAPS

RPING = PCAPS / "siw-rping.pcap"
COMMAND = (sys.executable, "-m", "scapy_mpa")


@pytest.mark.parametrize("command", ["annotate", "export"])
def test_stdout_by_its_name_holds_the_capture_alone(command: str) -> None:
    named, dash = (
        subprocess.run([*COMMAND, command, str(RPING), out], capture_output=True, check=True).stdout
        for out in ("/dev/stdout", "-")
    )
    assert named == dash and named


def test_what_is_protected_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"before")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anything
    with pytest.raises(UsageError, match="Permission denied"), written(str(out)):
        pass
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"before"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    program = (
        "import os, sys; from scapy_mpa.cli.output import written; from scapy_mpa.system.ending import ends_orderly\n"
        "with ends_orderly(), written(sys.argv[1]) as file:\n"
        "    file.write(b'part'); os.kill(os.getpid(), int(sys.argv[2]))\n"
    )
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", program, str(out), str(int(number))], capture_output=True, check=False)
    assert done.returncode == 128 + number and not [*tmp_path.iterdir()]


def test_signals_are_as_before(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with ends_orderly(), written(str(tmp_path / "out")) as file:
        assert signal.getsignal(signal.SIGTERM) is not before
        file.write(b"whole")
    assert signal.getsignal(signal.SIGTERM) is before and (tmp_path / "out").read_bytes() == b"whole"
