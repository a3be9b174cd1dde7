#!/usr/bin/env python3
"""Try the oldest versions that pyproject.toml declares on the oldest Python at hand, or the newest on the newest.

    python -m scripts.try_versions oldest

They are installed into a virtual environment in build/. There the tests of the command and of the Scapy layers run, and
``analyze --format json`` must print of each capture of pcaps/ what it prints where this script runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(sys.executable).parent
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
TESTS = ("tests/cli", "tests/layers")


@click.command()
@click.argument("versions", type=click.Choice([*RESOLUTIONS]))
def main(versions: str) -> None:
    """Install the oldest or newest versions, run the tests, and compare the analysis of each capture."""
    pythons = interpreters()
    folder = ROOT / "build" / versions
    install(folder, pythons[min(pythons) if versions == "oldest" else max(pythons)], RESOLUTIONS[versions])
    run(folder / "bin" / "python", "-m", "pytest", "--numprocesses", "auto", *TESTS)
    captures = sorted((ROOT / "pcaps").rglob("*.pcap*"))
    differing = [path for path in captures if analysis(folder / "bin", path) != analysis(HERE, path)]
    for path in differing:
        click.echo(f"{path.relative_to(ROOT)}: analyze --format json differs")
    click.echo(f"{versions}: {len(captures) - len(differing)} of {len(captures)} captures give the same JSON")
    sys.exit(bool(differing))


def interpreters() -> dict[int, str]:
    """Return the Pythons from 3.10 on that PATH has, by their minor version; with pyenv also those not activated."""
    if shutil.which("pyenv"):
        listed = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True, check=True).stdout
        os.environ["PYENV_VERSION"] = ":".join(listed.split())
    found = {sys.version_info.minor: sys.executable}
    for minor in range(10, 20):
        if python := shutil.which(f"python3.{minor}"):
            asked = [python, "-c", "import sys; print(sys.executable)"]
            if path := subprocess.run(asked, capture_output=True, text=True).stdout.strip():
                found[minor] = path
    return found


def install(folder: Path, python: str, resolution: str) -> None:
    """Install the project, what its tests need and what builds it in the versions of a resolution, and list them."""
    uv, build = HERE / "uv", folder / "build.txt"
    requires = re.search(r"^requires = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.M)
    assert requires is not None
    run(uv, "venv", "--quiet", "--clear", "--python", python, folder)
    build.write_text(requires[1].replace('"', "").replace(",", "\n"))
    run(uv, "pip", "compile", "--quiet", "--python", folder, "--resolution", resolution, build, "--output-file", build)
    run(
        *(uv, "pip", "install", "--quiet", "--python", folder, "--resolution", resolution, "--build-constraint", build),
        *("--config-settings", "editable_mode=compat", "--editable", ".[test]"),
    )
    run(folder / "bin" / "python", "--version")
    run(uv, "pip", "list", "--python", folder)


def analysis(binaries: Path, capture: Path) -> str:
    """Return what ``analyze --format json`` prints of a capture; that there are errors in it is no failure."""
    command = [str(binaries / "scapy-mpa"), "analyze", "--format", "json", str(capture)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if result.returncode not in (0, 1):
        raise click.ClickException(f"{binaries}: {result.stderr}")
    return result.stdout


def run(*command: str | Path) -> None:
    """Run a command in the checkout; end with its status if it fails."""
    if status := subprocess.run([*map(str, command)], cwd=ROOT).returncode:
        sys.exit(status)


if __name__ == "__main__":
    main()
