"""Captures that an earlier receiver read wrongly, each with the rows that are right for it.

`cases/expected.json` holds, for each case, the rows (values in the order of `keys`) and, where known, the findings as
pairs of rule and direction. How they were made:

* Of a capture with segments that its receivers never accepted, the frames in `Case.foreign` were left out, the rest was
  analysed by `scapy-mpa fpdus` and `scapy-mpa analyze` of commit 8529449, and the frames were numbered as in the whole
  capture again: the analysis must say of the connection what it says without them.
* `gap-…`, `g3-…` and `rot_…`: all segments are in order; the FPDUs were found by walking over ULPDU_Length, once for
  each run of octets, and the rows computed by `tests.receiver.truth`.
* `bl-…`: as with the right ULPDU_Length in FPDU 11 (718), which is left out of the rows; those after it are located by
  Marker, then by length, and come after the error (code 3 at frame 11).
* `loss-reorder-no-acks`: the truth that its generator wrote.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scapy_mpa.capture.files import Captures
from scapy_mpa.values.segment import PATH_MTU, Segment
from tests.receiver.rows import rows
from tests.receiver.wire import ACK, SYN, TCPSegment, encode_tcp, startup_frame
from tests.watches.driver import findings_of, is_watched, watch

CASES = Path(__file__).parent / "cases"


class Case(NamedTuple):
    """A capture, or several read as one.

    Attributes:
        captures: the files' names without ending.
        foreign: frames that no receiver accepted.
        added: rules whose findings may come in addition to those of `expected.json`: what is noted of such frames.
        absent: rules that must not be found, where `expected.json` has no findings.
    """

    captures: tuple[str, ...]
    foreign: tuple[int, ...] = ()
    added: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


_LATE = ("late-duplicate", "outside-window", "old-timestamp")
_FAR = ("outside-window",)
#: What 8529449 said wrongly of octets behind a gap.
_ACCUSATIONS = ("connection-lost", "crc", "ddp-header", "marker-length", "outside-window", "overlap")

TABLE = [
    # Eight of its FPDUs hold no whole DDP header (`ddp-header`), as its generator drew them.
    Case(("loss-reorder-no-acks",), absent=tuple(rule for rule in _ACCUSATIONS if rule != "ddp-header")),
    Case(("gap-3GiB-M1-60s",), absent=_ACCUSATIONS),
    Case(("g3-3x1GiB-n20-M1",), absent=_ACCUSATIONS),
    Case(("rot_00001", "rot_00003"), absent=(*_ACCUSATIONS, "teardown-unacknowledged")),
    Case(("rot_00003",), absent=_ACCUSATIONS),
    # Code 3 at the wrong length is one finding, `marker-length`; the FIN is not accused.
    Case(("bl-M1-64",), absent=("connection-lost", "ddp-header")),
    Case(("bl-M1-60000",), absent=("connection-lost", "ddp-header")),
    Case(("late-dup-in-handshake",), (2, 5), _LATE),
    Case(("challenge-ack-old-state",), (2, 3)),
    Case(("1-control",)),
    Case(("1-late-request",), (22,), _LATE),
    Case(("1b-late-reply",), (23,), _LATE),
    Case(("1c-late-request-fpdus-lost",), (16,), _LATE),
    Case(("1d-late-reply-false-error",), (16,), _LATE),
    Case(("2-rst-only",), (11,), ("attack-reset",)),
    Case(("2-syn-only",), (11,), ("attack-syn",)),
    Case(("2-rst-syn",), (11, 12), ("attack-reset", "attack-syn")),
    Case(("2b-syn-before-request-ahead",), (4,), ("attack-syn",)),
    Case(("2b-syn-before-request-behind",), (4,), ("attack-syn",)),
    Case(("3-far-segment",), (9,), _FAR),
    Case(("3b-far-segment-shifted",), (9,), _FAR),
    Case(("4-data-after-fin",), (17,), _FAR),
    Case(("4b-data-after-fin-proper-seq",), (17,), _FAR),
    Case(("5-late-data-100MB-ahead",), (19,), _LATE),
    Case(("6-fpdu-after-rejection-cut",)),
    Case(("8-silent-drop",), (7,), ("crc-dropped",)),
    Case(("9-old-timestamp",), (7,), ("old-timestamp",)),
    Case(("10-peer-gone",)),
    Case(("11-half-a-request",)),
    Case(("11b-300-half-requests",)),
    Case(("12-fragmentation-needed",)),
]


@cache
def expected() -> dict[str, dict[str, Any]]:
    """Return the content of expected.json."""
    found: dict[str, dict[str, Any]] = json.loads((CASES / "expected.json").read_text())
    return found


def segments(case: Case) -> Iterator[Segment]:
    """Yield the TCP segments of the captures of a case."""
    paths = [next(CASES.glob(f"{name}.pcap*")) for name in case.captures]
    with Captures(paths) as captures:
        for batch in captures.batches():
            yield from batch


def name_of(case: Case) -> str:
    """Return the name of a case in expected.json."""
    return " ".join(case.captures)


@pytest.mark.parametrize("case", TABLE, ids=name_of)
def test_rows(case: Case) -> None:
    """Every FPDU of the real connections at its frames, and none else."""
    right = expected()[name_of(case)]
    keys = right["keys"]
    sent = (seg for seg in segments(case) if not seg.flags & PATH_MTU)
    assert [[row[key] for key in keys] for row in rows(sent)] == right["rows"]


@pytest.mark.parametrize("case", TABLE, ids=name_of)
def test_findings(case: Case) -> None:
    """Nobody is accused for what its peer never accepted."""
    found = {(one.rule.id, one.direction) for one in findings_of(watch([segments(case)]))}
    assert not {rule for rule, _ in found} & set(case.absent)
    right = expected()[name_of(case)].get("findings")
    if right is not None:
        known = {(rule, direction) for rule, direction in right if is_watched(rule)}
        assert {finding for finding in found if finding[0] not in case.added} == known


def overlapping(count: int) -> list[Segment]:
    """Return a connection in which each segment overlaps the one before with other octets, but for one octet.

    No octet of it makes an FPDU. An earlier receiver took quadratic time for it (500 segments of 1400 octets).
    """
    random_octets = random.Random(7).getrandbits
    sent = [
        TCPSegment(0, 0, 0, SYN, 65535), TCPSegment(1, 0, 1, SYN | ACK, 65535), TCPSegment(0, 1, 1, ACK, 65535),
        TCPSegment(0, 1, 1, ACK, 65535, startup_frame(True, markers=False, crc=True)),
        TCPSegment(1, 1, 21, ACK, 65535, startup_frame(False, markers=False, crc=True)),
    ]  # fmt: skip
    sent += [
        TCPSegment(0, 21 + at, 21, ACK, 65535, random_octets(8 * 1400).to_bytes(1400, "big")) for at in range(count)
    ]
    found = []
    for frame, segment in enumerate(sent, 1):
        key, seq, ack, octets, header = encode_tcp(
            segment, (1000, 9000), (bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))), (40_000, 7471)
        )
        length = len(segment.payload)
        view = memoryview(octets)
        found.append(Segment(frame, frame * 10**6, key, seq, ack, segment.flags, view, header, len(view), 0, length))
    return found


def test_overlaps_make_no_fpdus() -> None:
    """Random octets that overlap are no FPDUs, good or bad ones, whichever of them count."""
    assert [row for row in rows(overlapping(100)) if row["crc"] != "bad"] == []
