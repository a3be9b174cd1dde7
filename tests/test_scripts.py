"""The scripts that users copy: what they import, what they print, and with which status they end."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import scapy_mpa
from scapy_mpa import analyze
from tests.conftest import REPO

SCRIPTS = sorted((REPO / "scripts").glob("*.py"))
CAPTURES = REPO / "pcaps"

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


def run(script: str | Path, *arguments: str | Path, cwd: Path = REPO) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, REPO / "scripts" / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120, check=False)


def test_there_are_four() -> None:
    names = [script.name for script in SCRIPTS]
    assert names == ["analyze_pcap.py", "craft_pcap.py", "fuzz_pcap.py", "malform_pcap.py"]


@each_script
def test_a_script_is_short_and_uses_public_names(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scapy_mpa"):
            assert node.module == "scapy_mpa"
            assert {alias.name for alias in node.names} <= set(scapy_mpa.__all__)
        elif isinstance(node, ast.Import):
            assert not any(alias.name.startswith("scapy_mpa") for alias in node.names)


@each_script
def test_help_is_printed_and_nothing_done(script: Path, tmp_path: Path) -> None:
    result = run(script, "--help", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"usage: {script.name} ")
    assert list(tmp_path.iterdir()) == []


@each_script
def test_without_arguments_usage_and_status_2(script: Path, tmp_path: Path) -> None:
    result = run(script, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"usage: {script.name} ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["analyze_pcap.py", "absent.pcap"], "absent.pcap: No such file or directory"),
        (["craft_pcap.py", "absent/x.pcap"], "No such file or directory"),
        (["malform_pcap.py", "nosuch", "made"], "there is no rule 'nosuch'"),
        (["fuzz_pcap.py", "nosuch", "1", "made"], "there is no area nosuch"),
    ],
)
def test_what_cannot_be_done_is_said_with_status_2(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_analyze() -> None:
    result = run("analyze_pcap.py", CAPTURES / "markers-reordered.pcap")
    assert (result.returncode, result.stderr) == (0, "")
    assert "127.0.0.1:40640 sent 400 FPDUs, 1023 Markers;" in result.stdout
    assert run("analyze_pcap.py", CAPTURES / "faulty-pad.pcap").returncode == 1


def test_craft(tmp_path: Path) -> None:
    result = run("craft_pcap.py", tmp_path / "x.pcap")
    assert (result.returncode, result.stderr) == (0, "")
    (connection,) = analyze(tmp_path / "x.pcap").connections
    assert connection.profile.title == "RFC 6581"
    assert connection.initiator.counts.out_of_order_segments > 0


def test_malform(tmp_path: Path) -> None:
    result = run("malform_pcap.py", "error-passed", tmp_path / "made")
    assert (result.returncode, result.stderr) == (0, "")
    assert "crc at frame 10, error-passed at frame 13" in result.stdout
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["error-passed.pcap"]


def test_fuzz(tmp_path: Path) -> None:
    """The same seed gives the same captures, another seed others."""
    runs = [run("fuzz_pcap.py", "markers", "20", tmp_path / name, "--seed", name[0]) for name in ("1a", "1b", "2")]
    assert [(one.returncode, one.stderr) for one in runs] == [(0, "")] * 3
    assert "marker-" in runs[0].stdout
    first, second, other = (
        [path.read_bytes() for path in sorted((tmp_path / name).iterdir())] for name in ("1a", "1b", "2")
    )
    assert len(first) == 20
    assert first == second != other
