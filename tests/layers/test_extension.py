"""Scapy's extension mechanism: ``conf.exts.load("scapy-mpa")``, ``load_contrib("mpa")``, the same objects either
way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import scapy_mpa.layers
from scapy_mpa.cli import cli
from tests.conftest import REPO

COMPLETION = Path(scapy_mpa.layers.__file__).parents[1] / "cli" / "scapy-mpa.bash"
CONTRIB = Path(scapy_mpa.layers.__file__).with_name("contrib.py")

LOAD = """
import sys
from scapy.all import conf, load_contrib
assert "scapy_mpa" not in sys.modules
conf.{load}
assert "scapy_mpa.layers" not in sys.modules, "loaded before it was asked for"
load_contrib("mpa")
import scapy.contrib.mpa, scapy_mpa.layers
names = scapy_mpa.layers.__all__
assert scapy.contrib.mpa.__all__ == names
for name in names:
    assert getattr(scapy.contrib.mpa, name) is getattr(scapy_mpa.layers, name) is eval(name)
assert bytes(FPDU()).hex() == "00000000c74b6748"
"""


def test_the_completion_is_that_of_the_command() -> None:
    assert COMPLETION.read_text() == CliRunner().invoke(cli, ["completion", "bash"]).stdout


@pytest.fixture
def distribution(tmp_path: Path) -> Path:
    """A folder in which the project looks installed, as its wheel would have it."""
    info = tmp_path / "scapy_mpa-0.0.0.dist-info"
    info.mkdir()
    metadata = "Metadata-Version: 2.4\nName: scapy-mpa\nVersion: 0.0.0\nLicense-Expression: GPL-2.0-or-later\n"
    (info / "METADATA").write_text(metadata)
    (info / "top_level.txt").write_text("scapy_mpa\n")
    (tmp_path / "scapy_mpa").symlink_to(REPO / "scapy_mpa")
    return tmp_path


@pytest.mark.parametrize(
    "load",
    ["exts.load('scapy-mpa')", "load_extensions = ['scapy-mpa']; conf.exts.loadall()"],
    ids=["load", "autoload"],
)
def test_loading(load: str, distribution: Path) -> None:
    pytest.importorskip("scapy", minversion="2.7")
    code = f"import sys; sys.path.insert(0, {str(distribution)!r})\n" + LOAD.format(load=load)
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=distribution,
        # Scapy has completion of those alone whose shell bash is.
        env=os.environ | {"SHELL": "/bin/bash", "BASH_COMPLETION_USER_DIR": str(distribution)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert (distribution / "completions" / COMPLETION.name).read_text() == COMPLETION.read_text()
    assert "WARNING" not in result.stderr


def test_the_shim_says_what_it_is() -> None:
    """As ``list_contrib()`` reads it out of contrib modules."""
    text = CONTRIB.read_text()
    assert "# scapy.contrib.description = " in text
    assert "# scapy.contrib.status = loads\n" in text
