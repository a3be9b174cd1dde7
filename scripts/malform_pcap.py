#!/usr/bin/env python3
"""Write the malformed cases of a rule as captures, and say what the analysis finds in each."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scapy_mpa import Malformed, MPAError, analyze


def main(rule: str, folder: Path) -> int:
    """Write the cases of ``rule`` into ``folder``; return 1 if the analysis misses what a case must show, else 0."""
    cases = Malformed.cases(rule)
    folder.mkdir(exist_ok=True)
    status = 0
    for case in cases:
        made = Malformed(case)
        path = folder / (case.name + made.suffix)
        made.write(path)
        found = [] if case.options else [*analyze(path).all_findings()]
        print(f"{path}: {', '.join(f'{one.rule.id} at frame {one.frame}' for one in found) or 'nothing'}")
        print(f"  {made.outcome.peer.says}")
        if not case.options and {(one.rule.id, one.direction) for one in found} != set(made.raised):
            status = 1
    return status


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rule", help="as `scapy-mpa rules` lists them, or the beginning of one: crc, marker-")
    parser.add_argument("folder", type=Path, help="where the captures are written")
    arguments = parser.parse_args()
    try:
        sys.exit(main(arguments.rule, arguments.folder))
    except (MPAError, OSError) as error:
        parser.error(str(error))
