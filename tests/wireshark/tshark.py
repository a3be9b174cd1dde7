"""What tshark says of a file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is missing")

#: RDMAP's opcodes by the names that ``fpdus`` has for them.
OPCODES = {
    "RDMA Write": 0,
    "RDMA Read Request": 1,
    "RDMA Read Response": 2,
    "Send": 3,
    "Send with Invalidate": 4,
    "Send with SE": 5,
    "Send with SE and Invalidate": 6,
    "Terminate": 7,
    "Atomic Request": 10,
    "Atomic Response": 11,
}


def tshark(capture: Path, *arguments: str, upper_layers: bool = True) -> list[str]:
    """The lines that tshark prints; it must find nothing wrong with the file."""
    command = ["tshark", "-r", str(capture)]
    if not upper_layers:
        command += ["--disable-protocol", "rpcordma", "--disable-protocol", "smb_direct"]
    result = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=120)
    said = [line for line in result.stderr.splitlines() if "Running as user" not in line]
    assert result.returncode == 0 and said == [], said
    return result.stdout.splitlines()


def fields(capture: Path, *names: str, arguments: tuple[str, ...] = (), upper_layers: bool = True) -> list[list[str]]:
    """The values of fields, frame by frame; of one that repeats, joined by commas."""
    options = [word for name in names for word in ("-e", name)]
    lines = tshark(capture, "-T", "fields", *options, *arguments, upper_layers=upper_layers)
    return [line.split("\t") for line in lines]
