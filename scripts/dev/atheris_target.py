#!/usr/bin/env python3
"""Let coverage of the reader, the framing and the receiver guide the search for captures that break them (atheris).

    python -m scripts.dev.atheris_target CORPUS                       # until stopped, or something breaks
    python -m scripts.dev.atheris_target CORPUS -max_total_time=600   # libFuzzer's options are taken

The corpus begins with windows of the shipped captures, in every format, and grows in the folder CORPUS.  What is looked
for is what fuzz_captures.py looks for; a capture that breaks it is left as crash-* in the present folder, and
becomes a test in tests/hostile/test_found.py.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

os.environ["SCAPY_MPA_PURE"] = "1"  # before the package is imported: coverage is that of its source

import atheris

with atheris.instrument_imports(
    include=[
        f"scapy_mpa.{room}" for room in ("analyzer", "capture", "framing", "infer", "receiver", "stream", "watches")
    ]
):
    import scapy_mpa.reading.analysis  # noqa: F401

from scapy_mpa.values.limits import DEFAULT_LIMITS
from tests.hostile.examine import TIGHT, examine, seconds_allowed
from tests.hostile.files import LAYOUTS, write
from tests.hostile.samples import Draft, samples

#: Octets of the longest input: a connection with its startup frames and some FPDUs.
_LONGEST = 8192
_PACKETS, _OCTETS_OF_SEED = 30, 4096
#: Instrumented code is slower than what users run.
_SLOWER = 10


def test_one_input(octets: bytes) -> None:
    """Run one input; libFuzzer calls this."""
    size = len(octets)
    examined = examine([octets], limits=TIGHT if size % 4 == 1 else DEFAULT_LIMITS)
    if examined.seconds > _SLOWER * seconds_allowed(max(size, _LONGEST)):
        raise TimeoutError(f"{examined.seconds} s for {size} octets")


def make_corpus(folder: Path) -> None:
    """Put windows of all samples into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    for number, sample in enumerate(samples()):
        for start in (0, len(sample.packets) // 2):
            packets, size = [], 0
            for packet in sample.packets[start : start + _PACKETS]:
                size += len(packet.octets)
                if size > _OCTETS_OF_SEED:
                    break
                packets.append(packet.copy())
            layout = LAYOUTS[number % len(LAYOUTS)]
            written = write(Draft(sample.link_type, packets), layout, rng)
            (folder / f"{sample.name}-{start}").write_bytes(written.octets)


def main() -> None:
    """Make the corpus if there is none yet, and hand over to libFuzzer."""
    folders = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    if not folders:
        sys.exit(__doc__)
    if not any(Path(folders[0]).glob("*")):
        make_corpus(Path(folders[0]))
    options = [f"-max_len={_LONGEST}", "-timeout=20", "-rss_limit_mb=1024"]
    atheris.Setup([sys.argv[0], *options, *sys.argv[1:]], test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
