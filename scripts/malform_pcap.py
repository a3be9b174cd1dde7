#!/usr/bin/env python3
"""Malformed traffic from Python: the cases of a rule as captures, and what is found in each.

Usage: malform_pcap.py RULE FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from scapy_mpa import Malformed, MPAError, analyze


def main(rule: str, folder: str) -> int:
    """Write the cases of ``rule`` into ``folder``; 1 if the analysis does not find in one what it must."""
    Path(folder).mkdir(exist_ok=True)
    status = 0
    for case in Malformed.cases(rule):
        made = Malformed(case)
        path = Path(folder) / (case.name + made.suffix)
        made.write(path)
        found = [] if case.options else [*analyze(path).all_findings()]
        print(f"{path}: {', '.join(f'{one.rule.id} at frame {one.frame}' for one in found) or 'nothing'}")
        print(f"  {made.outcome.peer.says}")
        if not case.options and {(one.rule.id, one.direction) for one in found} != set(made.raised):
            status = 1
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:3]))
    except MPAError as error:
        sys.exit(str(error))
