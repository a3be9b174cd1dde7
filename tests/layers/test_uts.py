"""Runs the campaign mpa.uts with Scapy's own test program."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.conftest import REPO

CAMPAIGN = "tests/layers/mpa.uts"


def run(campaign: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scapy.tools.UTscapy", "-t", campaign, "-f", "text", "-N"],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_campaign_passes() -> None:
    result = run(CAMPAIGN)
    assert result.returncode == 0, result.stdout + result.stderr
    tests = len(re.findall(r"^= ", (REPO / CAMPAIGN).read_text(), re.MULTILINE))
    assert re.search(rf"PASSED={tests} FAILED=0", result.stdout + result.stderr)


def test_a_failure_would_be_seen(tmp_path: object) -> None:
    failing = f"{tmp_path}/failing.uts"
    with open(failing, "w") as file:
        file.write("% Fails\n\n+ One\n\n= It\nfrom scapy_mpa.layers import FPDU\nassert bytes(FPDU()) == b''\n")
    assert run(failing).returncode != 0
