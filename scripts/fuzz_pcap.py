#!/usr/bin/env python3
"""Fuzzing from Python: cases that mutate one area, and by which rules the analysis reports them.

Usage: fuzz_pcap.py AREA COUNT [CAPTURE]
"""

from __future__ import annotations

import io
import sys
from collections import Counter

from scapy_mpa import analyze
from scapy_mpa.fuzz.baselines import baselines
from scapy_mpa.fuzz.run import Fuzzer
from scapy_mpa.fuzz.writing import write_capture


def main(area: str, count: int, *captures: str) -> int:
    """Print in how many cases each rule of severity error is raised."""
    begin = baselines(captures=captures, scenarios=() if captures else ["every-message"])
    fuzzer = Fuzzer(1, begin, areas=[area])
    raised: Counter[str] = Counter()
    for number in range(count):
        file = io.BytesIO()
        write_capture(file, [fuzzer.case(number)])
        file.seek(0)
        raised.update({found.rule.id for found in analyze(file).all_findings() if found.severity == "error"} or {"-"})
    for rule, times in raised.most_common():
        print(f"{times:6} {rule}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
