#!/usr/bin/env python3
"""Install what ``make dist`` built into clean virtual environments, and run it there: the wheel, then the sdist.

    python -m scripts.dev.check_dist dist

From the sdist all is compiled again, so the Cython sources, their ``.pxd`` and the header must be in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

from scapy_mpa.version import __version__

ROOT = Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "pcaps" / "siw-rping.pcap"


class CheckFailed(Exception):
    """A built distribution is not what it should be; says why."""


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist in a folder. Raises :class:`CheckFailed` unless there is one of each, of this version."""
    found = []
    for pattern in (f"scapy_mpa-{__version__}-*.whl", f"scapy_mpa-{__version__}.tar.gz"):
        paths = sorted(folder.glob(pattern))
        if len(paths) != 1:
            raise CheckFailed(f"{folder} holds {len(paths)} files {pattern}, where one is expected")
        found.append(paths[0])
    return found[0], found[1]


def missing_sources(sdist: Path) -> list[str]:
    """The files that compiling takes, and what belongs to every distribution, as far as the sdist lacks them."""
    package = ROOT / "scapy_mpa"
    needed = {path.relative_to(ROOT).as_posix() for kind in ("pxd", "pyx", "h") for path in package.rglob(f"*.{kind}")}
    needed |= {"LICENSE", "README.md", "pyproject.toml", "setup.py"}
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    return sorted(needed - held)


def run(*command: str | Path, folder: Path, pure: bool = False) -> str:
    """Return what a command prints. Raises :class:`CheckFailed` if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SCAPY_MPA"))}
    if pure:
        environment["SCAPY_MPA_PURE"] = "1"
    result = subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise CheckFailed(f"{' '.join(map(str, command))}: status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def check(distribution: Path) -> str:
    """Install a distribution into an environment of its own, and run it. Says which version it is, or raises."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "env", with_pip=True)
        python, command = folder / "env" / "bin" / "python", folder / "env" / "bin" / "scapy-mpa"
        run(
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--no-input",
            "install",
            "-q",
            distribution,
            folder=folder,
        )
        version = run(command, "--version", folder=folder).strip()
        if f"version {__version__} " not in version:
            raise CheckFailed(f"{distribution.name}: --version prints {version!r}")
        for pure in (False, True):
            said = run(command, "analyze", CAPTURE, folder=folder, pure=pure)
            if "15+20 FPDUs" not in said:
                raise CheckFailed(f"{distribution.name}: analyze prints\n{said}")
        run(python, "-c", "from scapy_mpa import FPDU, MPASession", folder=folder)
        run(command, "craft", "middlebox", "-o", "made.pcap", folder=folder)
    return version


def main(folder: Path) -> int:
    """Check both; the exit status."""
    try:
        wheel, sdist = built(folder)
        if missing := missing_sources(sdist):
            raise CheckFailed(f"{sdist.name} lacks {', '.join(missing)}")
        for distribution in (wheel, sdist):
            print(f"{distribution.name}: {check(distribution)}", flush=True)
    except CheckFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve()))
