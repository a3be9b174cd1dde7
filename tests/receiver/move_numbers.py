"""Change each number of the stream and of the receiver by a factor of two, and see that a test fails.

    python -m tests.receiver.move_numbers [NAME ...]

runs the tests once for each number and each factor, in a copy of the package; prints which fail, "NONE" if none does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.numbers_tables import numbers
from tests.conftest import REPO

TESTS = ("tests/receiver/test_numbers.py", "tests/receiver/test_deviation.py")


def failing(copy: Path, test: str) -> str:
    """Return the name of the first test of a file that fails with the package at ``copy``, "" if none does."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "--all", test],
        cwd=copy, env=os.environ | {"PYTHONPATH": str(copy), "SCAPY_MPA_PURE": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    found = re.search(r"^(?:FAILED|ERROR) \S+?(?:::(\S+)|$)", run.stdout, re.MULTILINE)
    return (found[1] or "import") if found else "" if run.returncode == 0 else "import"


def main() -> None:
    """Print one line for each number: its name, and the test that fails when it is doubled and when it is halved."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("scapy_mpa", "tests", "scripts", "docs", "pyproject.toml"):
            (copy / name).symlink_to(REPO / name)
        (copy / "scapy_mpa").unlink()
        shutil.copytree(REPO / "scapy_mpa", copy / "scapy_mpa", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        for path, name, value, _ in numbers():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            file, source = copy / path.relative_to(REPO), path.read_text(encoding="utf-8")
            told = []
            for changed in (f"2 * ({value})", f"({value}) // 2"):
                file.write_text(source.replace(f"\n{name}: Final = {value}", f"\n{name}: Final = {changed}"))
                tests = TESTS if path.stem == "deviation" else TESTS[:1]
                told.append(next(filter(None, (failing(copy, test) for test in tests)), "NONE"))
            file.write_text(source)
            print(f"{path.parent.name}/{path.stem}", name, value, *told, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
