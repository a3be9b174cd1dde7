"""Counts and findings of captures are those of the receiver before, but for what is explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from scapy_mpa.report.analysis import analyze
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import DIRECTIONS
from scapy_mpa.rules.findings import Finding
from scapy_mpa.watches.counts import COUNT_KEYS
from tests.conftest import PCAPS, captures
from tests.watches.driver import Watched, watch_capture

#: How the rules begin that the watches find.
RULES: Final = (
    "alignment", "attack-buffer", "attack-hijack", "attack-injection", "attack-path-mtu", "attack-reset", "attack-syn",
    "capture-cut", "capture-gap", "connection-lost", "crc", "ddp-", "error-closed", "error-passed", "fpdu-above-emss",
    "fpdu-format", "fpduptr-", "gap", "ird-ord-exceeded", "late-duplicate", "marker-", "mulpdu", "old-timestamp",
    "outside-window", "overlap", "pad", "path-mtu", "rdmap-", "startup-rejected", "tcp-checksum", "tcp-refused",
    "teardown-", "terminate", "ulpdu-length-",
)  # fmt: skip
#: Of these, what startup frames show.
OTHERS: Final = ("terminate-code",)

#: Captures whose FPDUs the receivers find otherwise, and why.
OTHERWISE: Final = {
    "faulty-fpduptr-and-spacing": "a deviating sender, whose dialect is not looked for yet",
    "faulty-no-crc-field": "the same",
    "faulty-pad": "the same",
    "siw-snaplen128": "FPDUs that the capture cut are located and counted (crc cut)",
}


def told(found: Finding) -> tuple[object, ...]:
    return found.rule.id, found.direction, found.count, found.frame, found.last_frame, found.seq, found.detail


def known(connection: Connection) -> dict[str, Any]:
    found: dict[str, Any] = {
        "findings": sorted(
            told(one)
            for one in connection.findings
            if one.rule.id.startswith(RULES) and not one.rule.id.startswith(OTHERS)
        ),
        "lifecycle": connection.lifecycle,
    }
    for direction in DIRECTIONS:
        half = connection.half(direction)
        counts = half.as_dict()
        if counts["segments"]:
            first = half.first_ulpdu, half.opened, half.first_send
            terminated = connection.lifecycle.half(direction).terminated
            found[direction] = {key: counts[key] for key in COUNT_KEYS}, first, terminated
    return found


def watched(connection: Watched) -> dict[str, Any]:
    found: dict[str, Any] = {
        "findings": sorted(map(told, connection.findings.sorted())),
        "lifecycle": connection.lifecycle,
    }
    for half in connection.halves:
        if half is not None and half.counts.segments:
            fpdu = half.fpdus.first
            first = (None, None) if fpdu is None else (fpdu.ulpdu, fpdu.known)
            found[str(half.name)] = half.counts.as_dict(), (*first, half.fpdus.first_send), half.terminated
    return found


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_a_capture(path: Path) -> None:
    before, now = analyze(str(path)).connections, watch_capture(path)
    assert len(before) == len(now)
    is_equal = [*map(known, before)] == [*map(watched, now)]
    assert path.stem in OTHERWISE or [*map(watched, now)] == [*map(known, before)]
    assert not is_equal or path.stem not in OTHERWISE


@pytest.mark.parametrize("name", ["markers-lossy", "siw-netem-send", "siw-nfs4"])
def test_a_compressed_capture(name: str) -> None:
    test_a_capture(PCAPS / f"{name}.pcap.zst")
