"""Change each number that decides what is found by a factor of two, and see that a test fails.

    python -m tests.receiver.move_numbers [NAME | ROOM | ROOM/MODULE ...]

runs the tests once for each number and each factor, in a copy of the package without compiled modules.  Prints which
test fails.  On a batch's size nothing that is found depends, nor on a bound of memory: of the latter the test is named
that puts another number in its place, and is at the limit then.  "NONE" if there is neither, and the status is 1.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.dev.numbers_tables import Number, numbers
from tests.conftest import REPO

#: Tests that numbers of a module or a room fail, too, after those of all.
TESTS = {
    "receiver/deviation": ("tests/receiver/test_deviation.py",),
    "infer": ("tests/infer/",),
    "watches/startup": ("tests/receive/test_startup.py", "tests/report/test_unfinished.py"),
    "watches": ("tests/watches/",),
}
OF_ALL = "tests/receiver/test_numbers.py"
#: It compares the numbers with the page that prints them, and shows nothing of what they decide.
_OF_PAGE = f"{OF_ALL}::test_the_page_has_the_numbers_and_each_has_a_reason"
_OPTIONS = ("-q", "-x", "--all", "-p", "no:cacheprovider", "-p", "no:randomly", "--deselect", _OF_PAGE)


def failing(copy: Path, tests: tuple[str, ...], known: frozenset[str] = frozenset()) -> list[str]:
    """Return the first test of each of these that fails with the package at ``copy``, ``known`` ones left out."""
    found = []
    for test in tests:
        left_out = [option for name in known for option in ("--deselect", name)]
        run = subprocess.run(
            [sys.executable, "-m", "pytest", *_OPTIONS, *left_out, test], cwd=copy, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(copy), "SCAPY_MPA_PURE": "1"}, check=False,
        )  # fmt: skip
        name = re.search(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
        if run.returncode:
            found.append(name[1] if name else "import")
    return found


def failing_anyway(copy: Path, tests: tuple[str, ...]) -> frozenset[str]:
    """Return the tests that fail though no number was changed: they say nothing of any."""
    known: frozenset[str] = frozenset()
    while more := failing(copy, tests, known):
        known |= {*more}
    return known


def seen_otherwise(number: Number) -> str:
    """Return how it is known that nothing found depends on a number, "" if something may."""
    if "batch" in number.reason:
        return "(a batch's size)"
    if "bound of memory" in number.reason.lower():
        name = f'scapy_mpa.{number.module.replace("/", ".")}.{number.name}"'
        for path in sorted((REPO / "tests").rglob("test_*.py")):
            for test in path.read_text(encoding="utf-8").split("\ndef ")[1:]:
                if name in test:
                    return test.partition("(")[0] + " (at the limit)"
    return ""


def main() -> None:
    """Print one line for each number: its name, and the test that fails when it is doubled and when it is halved."""
    with tempfile.TemporaryDirectory() as folder:
        copy, is_complete = Path(folder), True
        for name in ("tests", "scripts", "docs", "pcaps", "pyproject.toml"):
            (copy / name).symlink_to(REPO / name)
        shutil.copytree(REPO / "scapy_mpa", copy / "scapy_mpa", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        known: dict[tuple[str, ...], frozenset[str]] = {}
        for number in numbers():
            room, value = number.path.parent.name, number.value
            if sys.argv[1:] and not {room, number.module, number.name} & {*sys.argv[1:]}:
                continue
            tests = (OF_ALL, *TESTS.get(number.module, ()), *TESTS.get(room, ()))
            if tests not in known:
                known[tests] = failing_anyway(copy, tests)
            file, source = copy / number.path.relative_to(REPO), number.path.read_text(encoding="utf-8")
            told = []
            for changed in (f"2 * ({value})", f"({value}) // 2"):
                file.write_text(re.sub(rf"(?m)^({number.name}\b[^=\n]*=) .*$", rf"\1 {changed}", source, count=1))
                found = next((one for test in tests for one in failing(copy, (test,), known[tests])), "")
                told.append(found.rpartition("::")[2] or seen_otherwise(number) or "NONE")
            file.write_text(source)
            is_complete = is_complete and "NONE" not in told
            print(number.module, number.name, value, *told, sep=" | ", flush=True)
    sys.exit(not is_complete)


if __name__ == "__main__":
    main()
