"""Counts and findings of captures are those of the receiver before, but for what is explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from scapy_mpa.analyzer.connection import CapturedConnection
from scapy_mpa.framing.role import ROLES
from scapy_mpa.report.analysis import analyze
from scapy_mpa.report.connection import Connection
from scapy_mpa.rules.findings import Finding
from scapy_mpa.watches.counts import COUNT_KEYS
from tests.conftest import PCAPS, captures
from tests.watches.driver import is_watched, watch_capture

#: Captures that are told otherwise, and why.
OTHERWISE: Final = {
    "faulty-fpduptr-and-spacing": "the FPDUs of a sender that deviates are not judged yet",
    "faulty-no-crc-field": "the same",
    "faulty-pad": "the same",
    "siw-snaplen128": "FPDUs that the capture cut are located and counted (crc cut)",
    "siw-midstream": "its first frame is an ACK, which was left out",
    "siw-midstream-crc": "the same; five messages were not acknowledged, of which one was remembered",
}


def told(found: Finding) -> tuple[object, ...]:
    return found.rule.id, found.direction, found.count, found.frame, found.last_frame, found.seq, found.detail


def known(connection: Connection) -> dict[str, Any]:
    found: dict[str, Any] = {
        "findings": sorted(told(one) for one in connection.findings if is_watched(one.rule.id)),
        "lifecycle": connection.lifecycle,
    }
    for direction in ROLES:
        half = connection.half(direction)
        counts = half.as_dict()
        if counts["segments"]:
            first = half.first_ulpdu, half.opened, half.first_send
            terminated = connection.lifecycle.half(direction).terminated
            found[direction] = {key: counts[key] for key in COUNT_KEYS}, first, terminated
    return found


def watched(connection: CapturedConnection) -> dict[str, Any]:
    found: dict[str, Any] = {
        "findings": sorted(map(told, connection.findings.sorted())),
        "lifecycle": connection.lifecycle,
    }
    for half in connection.operations.values():
        if half.counts.segments:
            fpdu = half.fpdus.first
            first = (None, None) if fpdu is None else (fpdu.ulpdu, fpdu.known)
            found[half.direction] = half.counts.as_dict(), (*first, half.fpdus.first_send), half.terminated
    return found


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_a_capture(path: Path) -> None:
    report = analyze(str(path))
    analyzer = watch_capture(path)
    before, now = [*map(known, report.connections)], [*map(watched, analyzer.connections)]
    before.append({"findings": sorted(told(one) for one in report.findings if is_watched(one.rule.id))})
    now.append({"findings": sorted(map(told, analyzer.findings.sorted()))})
    assert len(before) == len(now)
    assert path.stem in OTHERWISE or now == before
    assert path.stem not in OTHERWISE or now != before


@pytest.mark.parametrize("name", ["markers-lossy", "siw-netem-send", "siw-nfs4"])
def test_a_compressed_capture(name: str) -> None:
    test_a_capture(PCAPS / f"{name}.pcap.zst")
