"""What every test may need: where things are, which captures have a truth, hypothesis's profiles, which part is run.

``from tests.conftest import REPO, PCAPS, captures, truth`` is for tables of cases, the fixture ``pcap`` for
single tests.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings
from zstandard import ZstdDecompressor

from scapy_mpa.compiled import PURE, is_compiled
from tests.sampling import EXAMPLES, sample

REPO = Path(__file__).resolve().parent.parent
PCAPS = REPO / "pcaps"

#: Where the files that are compressed in pcaps/ lie as they were: Scapy, for one, reads nothing compressed.
UNPACKED = REPO / "build" / "pcaps"

#: The folder with the texts of the specifications, if it is named; tests read nothing else outside the checkout.
SHARED = Path(os.environ["SCAPY_MPA_SHARED"]).resolve() if os.environ.get("SCAPY_MPA_SHARED") else None
collect_ignore = [] if SHARED else ["rules/test_specifications.py"]

#: Tests, by how their ids begin, in which lines are not counted: that takes longer than the tests, and others run the
#: same lines.
UNCOUNTED = (
    "tests/craft/test_scenarios.py",
    "tests/foreign/",
    "tests/hostile/",
    "tests/layers/test_session.py",
    "tests/receive/test_cuts",
    "tests/receive/test_long.py",
    "tests/receive/test_properties",
    "tests/report/test_shares.py",
)

#: Counting takes half as long as the tests themselves, and the other cases of a table run much the same lines.
COUNTED_CASES = 4

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
PROFILE = "ci" if os.environ.get("CI") else "here"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--all` and `--sample-seed`."""
    group = parser.getgroup("sampling", "what part of the suite is run (tests/sampling.py)")
    group.addoption("--all", action="store_true", help="every test, every case and every example: make test-all")
    group.addoption("--sample-seed", type=int, default=0, metavar="N", help="which part of the cases, without --all")


def pytest_configure(config: pytest.Config) -> None:
    """Choose hypothesis's profile before the tests are imported, which say their `examples` by it."""
    # Tests send SIGINT, which a shell without job control has all ignore that it starts in the background.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Readline, where pytest imports it, says in the environment of its workers how wide it takes the terminal to be.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    # And nohup has them ignore SIGHUP.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    settings.register_profile("sampled", settings.get_profile(PROFILE), max_examples=EXAMPLES)
    settings.load_profile("sampled" if is_sampled(config) else PROFILE)


def is_sampled(config: pytest.Config) -> bool:
    """Return True if only a part of the suite is run: not with `--all`, nor where a test is named."""
    return not config.getoption("all") and not any("::" in argument for argument in config.args)


def pytest_report_header(config: pytest.Config) -> str:
    """Say what part is run, and of what."""
    seed = config.getoption("sample_seed")
    part = f"sampled: part {seed} of the cases (--sample-seed); --all for all" if is_sampled(config) else "all cases"
    left = f"compiled; what counts lines is left to {PURE}=1 pytest -m uncompiled" if is_compiled() else "not compiled"
    return f"{part}; {left}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the sample, and say where pytest-cov counts lines.

    That is in the first cases of each table alone, and in nothing that is long.  Where modules are compiled, tests that
    count lines or replace what is compiled are left to a run without.
    """
    if is_compiled():
        left = [item for item in items if item.get_closest_marker("uncompiled")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, cases in tests.items():
        for number, item in enumerate(cases):
            is_long = is_hypothesis_test(getattr(item, "obj", None)) or test.startswith(UNCOUNTED)
            if is_long or number >= COUNTED_CASES:
                item.add_marker("no_cover")
    if is_sampled(config):
        seed = config.getoption("sample_seed")
        kept = {item for test, cases in tests.items() for item in sample(test, cases, seed)}
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def unpack() -> None:
    """Decompress to UNPACKED what is new in pcaps/; several processes may do so at a time."""
    UNPACKED.mkdir(parents=True, exist_ok=True)
    for path in PCAPS.glob("*.zst"):
        unpacked = UNPACKED / path.stem
        if not unpacked.exists() or unpacked.stat().st_mtime < path.stat().st_mtime:
            partial = unpacked.with_name(f".{path.stem}.{os.getpid()}")
            with path.open("rb") as packed, partial.open("wb") as file:
                ZstdDecompressor().copy_stream(packed, file)
            partial.replace(unpacked)


unpack()


def captures(*, with_truth: bool = False) -> list[Path]:
    """Return the captures of pcaps/ by name, decompressed; those with a truth beside them, if asked."""
    # By what pcaps/ has: UNPACKED keeps what was there before.
    found = [*PCAPS.glob("*.pcap"), *(UNPACKED / path.stem for path in PCAPS.glob("*.pcap.zst"))]
    paths = sorted(found, key=lambda path: path.stem)
    return [path for path in paths if truth_path(path).exists()] if with_truth else paths


def named(name: str) -> Path:
    """Return the path of the capture NAME of pcaps/, decompressed; KeyError if there is none."""
    return {path.stem: path for path in captures()}[name]


def truth_path(capture: Path) -> Path:
    """Return where the independently computed FPDU records of a capture are, decompressed, if there are any."""
    name = f"{capture.stem}.fpdus.jsonl"
    return (UNPACKED if (PCAPS / f"{name}.zst").exists() else PCAPS) / name


def truth(capture: Path) -> list[dict[str, Any]]:
    """The independently computed FPDU records of a capture, in the order of ``fpdus``."""
    return [json.loads(line) for line in truth_path(capture).read_text().splitlines()]


@pytest.fixture(scope="session")
def pcap() -> Callable[[str], Path]:
    """``pcap("siw-rping")`` is the path of that capture."""
    return named
