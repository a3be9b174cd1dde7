#!/usr/bin/env python3
"""Write captures in which one area of MPA is mutated, and report which rules of severity error they break."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from scapy_mpa import Fuzzer, MPAError, analyze


def main(area: str, count: int, folder: Path, seed: int) -> int:
    """Write ``count`` cases into ``folder``, and print in how many of them each rule is broken."""
    fuzzer = Fuzzer(seed, areas=[area])
    folder.mkdir(exist_ok=True)
    broken: Counter[str] = Counter()
    for number in range(count):
        # A seed and a number determine a case: the same two give the same octets.
        path = folder / f"case-{number:06}.pcap"
        fuzzer.case(number).write(path)
        errors = {found.rule.id for found in analyze(path).all_findings() if found.severity == "error"}
        broken.update(errors or {"no error"})
    for rule, times in broken.most_common():
        print(f"{times:6} {rule}")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("area", help="what is mutated: startup, fpdu, markers, ... (see `scapy-mpa fuzz --list`)")
    parser.add_argument("count", type=int, help="how many cases are made")
    parser.add_argument("folder", type=Path, help="where the captures are written")
    parser.add_argument("--seed", type=int, default=1, help="which cases are made (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        sys.exit(main(arguments.area, arguments.count, arguments.folder, arguments.seed))
    except (MPAError, OSError) as error:
        parser.error(str(error))
