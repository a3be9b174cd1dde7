"""Captures analysed without a report: connections with counts and findings, and findings of no connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.capture.files import Captures
from scapy_mpa.rules.findings import Finding
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.segment import Segment

#: How the rules begin that the watches find.
RULES: Final = (
    "alignment", "assumption", "attack-buffer", "attack-hijack", "attack-injection", "attack-path-mtu", "attack-reset",
    "attack-syn", "capture-cut", "capture-gap", "connection-lost", "crc", "ddp-", "enhanced-", "error-closed",
    "error-passed", "fpdu-above-emss", "fpdu-format", "fpduptr-", "gap", "ird-ord-", "late-duplicate", "marker-",
    "mulpdu", "old-timestamp", "outside-window", "overlap", "pad", "path-mtu", "rdmap-", "rnic-", "rtr", "startup-",
    "tcp-checksum", "tcp-refused", "teardown-", "terminate", "ulpdu-length-",
)  # fmt: skip
#: Of these, what other rooms find.
OTHERS: Final = ("startup-rejected-closed", "startup-timeout")


def is_watched(rule: str) -> bool:
    """Return True if the watches find breaches of a rule."""
    return rule.startswith(RULES) and not rule.startswith(OTHERS)


def watch(batches: Iterable[Iterable[Segment]], assumptions: Assumptions = NOTHING) -> Analyzer:
    """Analyse segments to their end."""
    analyzer = Analyzer(records=True, assumptions=assumptions)
    for batch in batches:
        analyzer.feed(batch)
        analyzer.release()
    analyzer.finish()
    return analyzer


def watch_capture(source: Path | BinaryIO) -> Analyzer:
    """Analyse a capture file."""
    with Captures(str(source) if isinstance(source, Path) else source) as captures:
        return watch(captures.batches())


def findings_of(analyzer: Analyzer) -> Iterator[Finding]:
    """Yield the findings of all connections, and of none."""
    for one in analyzer.connections:
        yield from one.findings.sorted()
    yield from analyzer.findings.sorted()
