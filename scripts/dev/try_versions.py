#!/usr/bin/env python3
"""Try the oldest versions that pyproject.toml declares on the oldest Python available, or the newest on the newest.

    python -m scripts.dev.try_versions oldest

They are installed into a virtual environment in build/. There the tests of the command and of the Scapy layers run, and
``analyze --format json`` must print of each capture of pcaps/ what it prints where this script runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(sys.executable).parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
TESTS = ("tests/cli", "tests/layers")


@click.command()
@click.argument("versions", type=click.Choice([*RESOLUTIONS]))
def main(versions: str) -> None:
    """Install the oldest or newest versions, run the tests, and compare the analysis of each capture."""
    pythons = interpreters()
    minor = min(pythons) if versions == "oldest" else max(pythons)
    folder = ROOT / "build" / versions
    install(folder, pythons[minor], RESOLUTIONS[versions])
    run(folder / "bin" / "python", "-m", "pytest", "--numprocesses", "auto", *TESTS)
    captures = sorted((ROOT / "pcaps").rglob("*.pcap*"))
    differing = [path for path in captures if analysis(folder / "bin", path) != analysis(HERE, path)]
    for path in differing:
        click.echo(f"{path.relative_to(ROOT)}: analyze --format json differs")
    least = min(supported())
    if versions == "oldest" and minor != least:
        click.echo(f"oldest versions tried on 3.{minor}, not on 3.{least}")
    click.echo(f"{versions}: {len(captures) - len(differing)} of {len(captures)} captures give the same JSON")
    sys.exit(bool(differing))


def build_requires() -> list[str]:
    """Return what building the project takes, as pyproject.toml declares it."""
    return [*PROJECT["build-system"]["requires"]]


def supported() -> list[int]:
    """Return the minor versions of Python for which wheels are built: cp310-* is 10."""
    return [int(tag.removeprefix("cp3").removesuffix("-*")) for tag in PROJECT["tool"]["cibuildwheel"]["build"]]


def interpreters() -> dict[int, str]:
    """Return the supported Pythons that PATH has, by their minor version; with pyenv also those not activated."""
    environment = dict(os.environ)
    if shutil.which("pyenv"):
        listed = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True, check=True).stdout
        environment["PYENV_VERSION"] = ":".join(listed.split())
    found = {sys.version_info.minor: sys.executable}
    for minor in supported():
        if python := shutil.which(f"python3.{minor}"):
            asked = [python, "-c", "import sys; print(sys.executable)"]
            if path := subprocess.run(asked, capture_output=True, text=True, env=environment).stdout.strip():
                found[minor] = path
    return found


def install(folder: Path, python: str, resolution: str) -> None:
    """Install the project, what its tests need and what builds it in the versions of a resolution, and list them."""
    uv, build = HERE / "uv", folder / "build.txt"
    into: list[str | Path] = ["--quiet", "--python", folder, "--resolution", resolution]
    run(uv, "venv", "--quiet", "--clear", "--python", python, folder)
    build.write_text("\n".join(build_requires()))
    run(uv, "pip", "compile", *into, build, "--output-file", build)
    # The oldest versions declared have no wheels for later Pythons. There the oldest that has one is taken: what
    # building from source takes is not declared.
    wheels = ["--only-binary", ":all:"]
    editable = ["--config-settings", "editable_mode=compat", "--editable", ".[test]"]
    run(uv, "pip", "install", *into, *wheels, "--build-constraint", build, *editable)
    run(folder / "bin" / "python", "--version")
    run(uv, "pip", "list", "--python", folder)


def analysis(binaries: Path, capture: Path) -> tuple[int, Any]:
    """Return the exit status of ``analyze --format json``, 1 if the capture has errors, and the JSON that it prints.

    An uncaught exception ends with status 1, too, but prints no JSON: that raises ClickException with what it says.
    """
    command = [str(binaries / "scapy-mpa"), "analyze", "--format", "json", str(capture)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    with contextlib.suppress(json.JSONDecodeError):
        if result.returncode in (0, 1):
            return result.returncode, json.loads(result.stdout)
    raise click.ClickException(f"{binaries}: {capture.name}: status {result.returncode}\n{result.stderr}")


def run(*command: str | Path) -> None:
    """Run a command in the checkout; end with its status if it fails."""
    if status := subprocess.run([*map(str, command)], cwd=ROOT).returncode:
        sys.exit(status)


if __name__ == "__main__":
    main()
