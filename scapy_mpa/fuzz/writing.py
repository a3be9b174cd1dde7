"""Cases as captures, and a log that says what was changed where: one JSON object a case."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.fuzz.case import FuzzCase
from scapy_mpa.system.whole import whole_file
from scapy_mpa.tuples import NamedTuple

LOG = "cases.jsonl"


class Written(NamedTuple):
    """How much was written."""

    cases: int
    packets: int
    captures: int


def write_capture(file: BinaryIO, cases: Iterable[FuzzCase]) -> int:
    """One capture of cases, in their order; returns the number of packets."""
    writer = PcapWriter(file)
    return sum(writer.write(case.packets, case.snaplen) for case in cases)


def write_cases(folder: Path, cases: Iterable[FuzzCase], *, per_file: int = 1) -> Written:
    """Captures in a folder, ``per_file`` cases in each (those whose numbers divided by it are the same), and the log.

    A capture is called after the numbers of its first and its last case. A run that is ended leaves no capture without
    its line in the log but the last. Raises OSError.
    """
    count = packets = captures = 0
    with open(folder / LOG, "w", encoding="utf-8", buffering=1) as log:
        for _, group in groupby(cases, key=lambda case: case.recipe.case // per_file):
            together = list(group)
            name = file_name(together)
            with whole_file(folder / name) as file:
                packets += write_capture(file, together)
            log.writelines(json.dumps({"file": name, **case.as_dict()}) + "\n" for case in together)
            count += len(together)
            captures += 1
    return Written(count, packets, captures)


def file_name(cases: list[FuzzCase]) -> str:
    """Return the name of a capture of these cases."""
    first, last = (f"{case.recipe.case:06}" for case in (cases[0], cases[-1]))
    return f"case-{first}.pcap" if first == last else f"cases-{first}-{last}.pcap"
