"""Runs the campaigns of the layers with Scapy's own test program."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import REPO

CAMPAIGNS = sorted(str(path.relative_to(REPO)) for path in (REPO / "tests/layers").glob("*.uts"))


def run(campaign: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scapy.tools.UTscapy", "-t", campaign, "-f", "text", "-N"],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_campaign_passes(campaign: str) -> None:
    result = run(campaign)
    assert result.returncode == 0, result.stdout + result.stderr
    tests = len(re.findall(r"^= ", (REPO / campaign).read_text(), re.MULTILINE))
    assert re.search(rf"PASSED={tests} FAILED=0", result.stdout + result.stderr)


def test_a_failure_would_be_seen(tmp_path: object) -> None:
    failing = f"{tmp_path}/failing.uts"
    with open(failing, "w") as file:
        file.write("% Fails\n\n+ One\n\n= It\nfrom scapy_mpa.layers import FPDU\nassert bytes(FPDU()) == b''\n")
    assert run(failing).returncode != 0
