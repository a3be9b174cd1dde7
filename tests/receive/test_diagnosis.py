"""What a sender does wrong is found out, and its FPDUs are listed; nothing is said of one that does nothing wrong."""

from __future__ import annotations

import io
import random
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa import analyze, iter_fpdus
from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.craft.impairments import IMPAIRMENTS
from scapy_mpa.craft.packets import Endpoint
from scapy_mpa.craft.scenario import load, shipped
from scapy_mpa.craft.setup import ConversationError
from scapy_mpa.craft.truth import Truth
from scapy_mpa.framing.role import ROLES
from scapy_mpa.framing.senders import BY_NAME
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.report.model import Report
from scapy_mpa.rules.findings import Finding
from scapy_mpa.stream.connection import TCPHalf
from scapy_mpa.values.limits import DEFAULT_LIMITS
from tests.conftest import captures, named
from tests.receive.cases import REPLY, REQUEST, A, Talk, started
from tests.receive.midstream import Whole

SCENARIOS = (
    "rddp-01",
    "stack-iw-cxgb4",
    "markers-without-crc",
    "crc-alone",
    "neither-markers-nor-crc",
    "every-pad-and-marker-place",
    "markers-from-the-initiator",
    "markers-from-the-responder",
    "stack-siw",
    "every-message",
)
"""Markers in both directions, in one and in none; with CRC and without; Rev 0, 1 and 2."""

#: Where no Marker comes within the stream these are one and the same.
NO_MARKER = {"markers-left-out", "markers-from-startup-frame", "markers-from-syn"}


class Made:
    """A scenario whose senders deviate, its capture, and what its senders know."""

    def __init__(self, name: str, deviations: tuple[str, str], impair: Iterable[object] = (), seed: int = 0) -> None:
        scenario = load(name, seed=seed, parameters={"deviation": deviations})
        truth, file = Truth(), io.BytesIO()
        scenario.traffic(impair, connection=0).write(file, truth=truth)
        self.octets = file.getvalue()
        self.records = list(truth.records())

    def of(self, direction: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["direction"] == direction]


def made(name: str, deviation: str, **options: Any) -> Made | None:
    """Both senders deviate, or one, as far as it can show; None if it cannot."""
    for pair in ((deviation, deviation), (deviation, ""), ("", deviation)):
        try:
            return Made(name, pair, **options)
        except ConversationError:
            continue
    return None


def report_of(octets: bytes, **options: Any) -> Report:
    return analyze(io.BytesIO(octets), **options)


def halves(report: Report) -> Iterator[tuple[Connection, str, HalfConnection]]:
    for connection in report.connections:
        for direction in ROLES:
            yield connection, direction, connection.half(direction)


def diagnoses(connection: Connection, direction: str) -> list[Finding]:
    return [f for f in connection.findings if f.rule.id == "deviating-sender" and f.direction == direction]


def rows(half: HalfConnection) -> list[dict[str, Any]]:
    """The records, without what the sender cannot know."""
    return [record.as_dict() | {"after_error": False} for record in half.fpdus]


# --- captures of senders that deviate ---


@pytest.mark.parametrize(
    ("name", "deviation", "counts", "code"),
    [
        ("faulty-fpduptr-and-spacing", "fpduptr-little-endian+crc-not-in-spacing", (40, 40), 3),
        ("faulty-no-crc-field", "no-crc-field", (100, 90), None),
        ("faulty-pad", "pad-plus-2", (4, 5), None),
    ],
)
def test_real_captures(name: str, deviation: str, counts: tuple[int, int], code: int | None) -> None:
    path = named(name)
    report = analyze(path)
    for (connection, direction, half), count in zip(halves(report), counts, strict=True):
        assert half.deviation == deviation
        assert len(half.fpdus) == half.counts.fpdus == count
        assert half.counts.unlocated_octets == half.counts.crc_errors == half.counts.cut_fpdus == 0
        assert sum(fpdu.wire_length for fpdu in half.fpdus) == half.counts.stream_octets
        (found,) = diagnoses(connection, direction)
        assert found.code == code
        texts = [BY_NAME[one].text for one in deviation.split("+")]
        assert found.detail.startswith(f"{', and '.join(texts)}: explains {count} of {count} FPDUs")
        assert {f.rule.id for f in connection.findings if f.severity == "error"} == {"deviating-sender"}
    streamed = sorted(iter_fpdus(path), key=lambda fpdu: (fpdu.direction, fpdu.frames[-1], fpdu.seq))
    assert len(streamed) == sum(counts)
    assert {fpdu.deviation for fpdu in streamed} == {deviation}


@pytest.mark.parametrize("length", [54, 70, 72, 600])
def test_frames_that_the_capture_cut(length: int) -> None:
    """Whichever frame with an FPDU ends at a snapshot length, its sender is accused of nothing else."""
    capture = Whole(named("faulty-fpduptr-and-spacing").read_bytes())
    deviations = set()
    for cut in range(20, len(capture.records), 3):
        octets = bytearray(capture.header)
        for number, record in enumerate(capture.records):
            captured = min(length, len(record) - 16) if number == cut else len(record) - 16
            octets += record[:8] + struct.pack("<I", captured) + record[12 : 16 + captured]
        for connection, direction, half in halves(report_of(bytes(octets))):
            deviations.add(half.deviation)
            assert (
                sum(fpdu.wire_length for fpdu in half.fpdus) + half.counts.unlocated_octets == half.counts.stream_octets
            )
            errors = {f.rule.id for f in connection.findings if f.severity == "error" and f.direction == direction}
            assert errors == {"deviating-sender"}
    assert deviations == {"fpduptr-little-endian+crc-not-in-spacing"}


# --- every deviation in ten scenarios ---


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_deviation_in_ten_scenarios(scenario: str) -> None:
    shown = 0
    for name in BY_NAME:
        talk = made(scenario, name)
        shown += talk is not None and judge(talk, (name,))
    assert shown >= 3


@pytest.mark.parametrize("scenario", ["every-pad-and-marker-place", "neither-markers-nor-crc"])
def test_two_deviations_together(scenario: str) -> None:
    """If one of them alone makes the same octets, it is that one which is told."""
    alone = {talk.octets for name in BY_NAME if (talk := made(scenario, name)) is not None}
    pairs = list(combinations(BY_NAME, 2))
    shown = 0
    for names in random.Random(1).sample(pairs, len(pairs)):
        talk = made(scenario, "+".join(names)) if shown < 8 and "length-with-pad" not in names else None
        if talk is not None and talk.octets not in alone:
            shown += judge(talk, names)
    assert shown >= 6


def judge(talk: Made, names: tuple[str, ...]) -> bool:
    """Return True if the deviation shows; if so it is told, and all FPDUs are listed as they were sent."""
    shown = False
    for connection, direction, half in halves(report_of(talk.octets)):
        expected = talk.of(direction)
        wanted = expected[0]["deviation"] if expected else None
        told = diagnoses(connection, direction)
        if "length-with-pad" in names and half.deviation is None:
            # FPDUs that conform, with PAD in the ULPDU: that is how they are listed.
            assert not told
            assert [row["wire_length"] for row in rows(half)] == [row["wire_length"] for row in expected]
            continue
        if wanted is None:
            assert half.deviation is None, (names, direction)
            assert rows(half) == expected
            continue
        shown = True
        is_short = half.counts.stream_octets < 512 and not any(row["markers"] for row in expected)
        may_be = NO_MARKER if is_short and wanted in NO_MARKER else {wanted}
        if half.deviation in names and len(names) == 2:
            # One of the two explains it all: of the other nothing shows.
            lengths = [(row["seq"], row["wire_length"], row["markers"]) for row in expected]
            assert [(row["seq"], row["wire_length"], row["markers"]) for row in rows(half)] == lengths
            continue
        assert half.deviation in may_be, (names, direction, [f.detail for f in connection.findings])
        for row in expected:
            row["deviation"] = half.deviation
        assert rows(half) == expected, (names, direction)
        (found,) = told
        assert f"explains {len(expected)} of {len(expected)} FPDUs" in found.detail
        for other in may_be - {half.deviation}:
            assert other in str(found.detail), "what would explain it as well is told"
        errors = {f.rule.id for f in connection.findings if f.direction == direction and f.severity == "error"}
        assert errors - {"marker-absent", "marker-unasked"} == {"deviating-sender"}
        has_other_markers = bool({"markers-left-out", "markers-not-asked"} & set((half.deviation or "").split("+")))
        assert has_other_markers or errors == {"deviating-sender"}
    return shown


# --- in worse captures ---


@pytest.mark.parametrize(
    ("scenario", "deviation"),
    [
        ("every-pad-and-marker-place", "fpduptr-little-endian"),
        ("every-pad-and-marker-place", "markers-not-in-spacing"),
        ("rddp-01", "markers-from-syn"),
        ("neither-markers-nor-crc", "no-crc-field"),
        ("stack-iw-cxgb4", "crc-big-endian"),
    ],
)
@pytest.mark.parametrize("impair", [("reorder",), ("duplicate",), ("lose", "reorder"), ("retransmit", "jitter")])
def test_out_of_order(scenario: str, deviation: str, impair: tuple[str, ...]) -> None:
    """Placed at the frames that the rules of placement name, by that reading; in both orders of listing."""
    talk = made(scenario, deviation, impair=impair, seed=3)
    assert talk is not None
    report = report_of(talk.octets)
    for _, direction, half in halves(report):
        assert rows(half) == talk.of(direction), direction
    (connection,) = report.connections
    both = [*connection.initiator.fpdus, *connection.responder.fpdus]
    streamed = sorted(iter_fpdus(io.BytesIO(talk.octets)), key=lambda fpdu: (fpdu.direction, fpdu.seq))
    kept = [fpdu._replace(delivered_frame=None) for fpdu in sorted(both, key=lambda f: (f.direction, f.seq))]
    assert [fpdu._replace(delivered_frame=None) for fpdu in streamed] == kept


@pytest.mark.parametrize("direction", ROLES)
@pytest.mark.parametrize(
    ("scenario", "deviation"),
    [
        ("stack-siw-crc", "markers-not-asked"),
        ("every-pad-and-marker-place", "fpduptr-little-endian"),
        ("rddp-01", "crc-not-in-spacing"),
    ],
)
def test_segments_that_their_receiver_dropped(scenario: str, deviation: str, direction: str) -> None:
    """Octets whose TCP checksum is wrong say nothing of their sender: they come again."""
    deviations = (deviation, "") if direction == "initiator" else ("", deviation)
    talk = Made(scenario, deviations, ("corrupt:probability=0.2",), seed=2)
    (connection,) = report_of(talk.octets).connections
    half = getattr(connection, direction)
    assert half.deviation == deviation
    assert [fpdu.seq for fpdu in half.fpdus] == [record["seq"] for record in talk.of(direction)]


@pytest.mark.parametrize(
    ("scenario", "deviation", "found_again"),
    [
        ("rddp-01", "fpduptr-little-endian", True),
        ("stack-iw-cxgb4", "crc-big-endian", True),
        ("neither-markers-nor-crc", "no-crc-field", True),
        ("rddp-01", "crc-not-in-spacing", False),
    ],
)
def test_behind_a_gap(scenario: str, deviation: str, found_again: bool) -> None:
    """What follows octets that were not captured is found again, unless nothing tells where Markers are."""
    whole = made(scenario, deviation)
    cut = made(scenario, deviation, impair=("capture-loss:probability=0.06",), seed=5)
    assert whole is not None
    assert cut is not None
    report = report_of(cut.octets)
    half = report.connections[0].initiator
    assert half.deviation == deviation
    sent = {(row["seq"], row["ulpdu_length"]) for row in made_seqs(scenario, deviation)}
    listed = [(fpdu.seq, fpdu.ulpdu_length) for fpdu in half.fpdus]
    assert half.counts.missing_octets > 0
    assert set(listed) <= sent, "nothing is listed that was not sent"
    behind = any(fpdu.delivered_frame is None for fpdu in half.fpdus)
    assert behind == found_again
    assert (half.counts.unlocated_octets == 0) <= found_again


def made_seqs(scenario: str, deviation: str) -> list[dict[str, Any]]:
    talk = made(scenario, deviation, seed=5)
    assert talk is not None
    return talk.of("initiator")


def test_one_fpdu_damaged_later() -> None:
    """What a dialect does not explain is told as ever, and the finding says how much it does."""
    talk = made("stack-iw-cxgb4", "crc-big-endian")
    assert talk is not None
    octets = bytearray(talk.octets)
    (record,) = [row for row in talk.of("initiator") if row["ulpdu_length"] == 118][:1]
    at = octets.find(b"\0\x76\x41", len(octets) // 2)
    octets[at + 60] ^= 1
    # The TCP checksum would take the octets back: it is that of an offloading host.
    report = report_of(_with_checksums(bytes(octets)))
    half = report.connections[0].initiator
    assert record["ulpdu_length"] == 118
    assert half.deviation == "crc-big-endian"
    assert half.counts.crc_errors == 1
    (found,) = diagnoses(report.connections[0], "initiator")
    assert f"explains {half.counts.fpdus - 1} of {half.counts.fpdus} FPDUs" in found.detail


def test_a_wrong_tcp_checksum_alone_means_nothing() -> None:
    """Nor where the sender deviates, and no checksum before was right: all of its FPDUs can be read."""
    talk = made("neither-markers-nor-crc", "no-crc-field")
    assert talk is not None
    octets = _with_checksums(_with_checksums(talk.octets), b"\x12\x34", len(talk.octets) // 2)
    (connection,) = report_of(octets).connections
    for direction in ROLES:
        assert connection.half(direction).deviation == "no-crc-field"
        assert rows(connection.half(direction)) == talk.of(direction), direction
    assert not [found for found in connection.findings if found.rule.id == "tcp-checksum"]


def _with_checksums(octets: bytes, checksum: bytes = b"\0\0", first: int = 24) -> bytes:
    """The capture with this TCP checksum, zero if none is given, in all packets from an index on."""
    changed, at = bytearray(octets), 24
    order = "little" if octets[:1] in (b"\xd4", b"\x4d") else "big"
    while at < len(changed):
        size = int.from_bytes(changed[at + 8 : at + 12], order)  # type: ignore[arg-type]
        if at >= first:
            changed[at + 16 + 34 + 16 : at + 16 + 34 + 18] = checksum
        at += 16 + size
    return bytes(changed)


@pytest.mark.parametrize("impair", [(), ("reorder",)], ids=["in order", "reordered"])
@pytest.mark.parametrize("sides", [(1, 1), (1, 0), (0, 1)], ids=["both", "initiator", "responder"])
@pytest.mark.parametrize("name", [name for name in BY_NAME if name != "length-with-pad"])
def test_alone_and_in_both_directions(name: str, sides: tuple[int, int], impair: tuple[str, ...]) -> None:
    """The sender is named, all its FPDUs are explained, and neither side is accused of anything else."""
    pair = name * sides[0], name * sides[1]
    for scenario in SCENARIOS:
        try:
            talk = Made(scenario, pair, impair=impair, seed=7)
        except ConversationError:
            continue
        firsts = [talk.of(direction)[3:4] for direction in ROLES]
        if all(
            first and bool(first[0]["deviation"]) == bool(deviates)
            for first, deviates in zip(firsts, sides, strict=True)
        ):
            break
    else:
        pytest.skip("it cannot show in one direction alone")
    report = report_of(talk.octets)
    for connection, direction, half in halves(report):
        assert [(row["seq"], row["ulpdu_length"], row["frames"]) for row in rows(half)] == [
            (row["seq"], row["ulpdu_length"], row["frames"]) for row in talk.of(direction)
        ]
        found = diagnoses(connection, direction)
        assert bool(found) == bool(half.deviation) == bool(sides[ROLES.index(direction)])
        if found:
            assert name in (half.deviation or "").split("+")
            assert f": explains {len(half.fpdus)} of {len(half.fpdus)} FPDUs" in found[0].detail
    (connection,) = report.connections
    # Whether there are Markers is a rule of its own.
    allowed = {"deviating-sender", "marker-absent", "marker-unasked"}
    assert {f.rule.id for f in connection.findings if f.severity == "error"} <= allowed


# --- senders that do nothing wrong ---


@pytest.mark.parametrize(
    "path", [path for path in captures() if not path.stem.startswith("faulty-")], ids=lambda path: path.stem
)
def test_no_diagnosis_in_captures_of_others(path: Path) -> None:
    assert [half.deviation for _, _, half in halves(analyze(path, fpdus=False)) if half.deviation] == []


IMPAIRED = [*((kind,) for kind in IMPAIRMENTS), ("lose:retransmit=false",), ("corrupt:probability=0.3",)]


@pytest.mark.parametrize("number", range(8))
def test_no_diagnosis_in_conformant_traffic(number: int) -> None:
    """Whatever happened to the packets: a part of all scenarios and impairments."""
    cases = [(name, impair) for name in shipped() for impair in ((), *IMPAIRED)]
    for name, impair in cases[number::48]:
        file = io.BytesIO()
        load(name, seed=number).traffic(impair).write(file)
        report = report_of(file.getvalue(), fpdus=False)
        assert [half.deviation for _, _, half in halves(report) if half.deviation] == [], (name, impair)


@pytest.mark.parametrize("crc", [False, True])
def test_a_length_that_was_damaged_is_no_deviation(crc: bool) -> None:
    """One bit of one ULPDU_Length: where its own octets are counted all others fit, but one is no habit."""
    for bit in range(16):
        talk = Talk().open()
        talk.greet("a", REQUEST if crc else REQUEST[:16] + b"\0" + REQUEST[17:])
        talk.greet("b", REPLY if crc else REPLY[:16] + b"\0" + REPLY[17:])
        talk.operate(crc=crc)
        octets = bytearray(talk.lay("a", *[118] * 20))
        octets[5 * 124 + bit // 8] ^= 0x80 >> bit % 8
        talk.say("a", bytes(octets))
        talk.close()
        receiver = Analyzer(records=True)
        receiver.feed(talk.segments)
        receiver.finish()
        (mpa,) = receiver.connections
        assert mpa.operations["initiator"].deviation is None, bit
        assert not any(found.rule.id == "deviating-sender" for found in mpa.findings.sorted()), bit


def test_ulpdus_that_are_not_ddp_are_no_deviation() -> None:
    rng = random.Random(1)
    for c in (0, 1):
        scenario = load("neither-markers-nor-crc", parameters={"c": [c, c]})
        conversation = scenario.conversations[0]
        for _ in range(30):
            conversation.ulpdu("initiator", bytes(rng.getrandbits(8) for _ in range(20 + int(rng.random() * 300))))
        file = io.BytesIO()
        scenario.traffic().write(file)
        report = report_of(file.getvalue())
        assert all(half.deviation is None for _, _, half in halves(report))
        assert report.connections[0].initiator.counts.fpdus == 60


# --- bounds ---


def test_what_is_kept_is_bounded() -> None:
    """Not more than the limits allow, however long it goes on, and nothing once it is clear.

    The first length read backwards is that of an FPDU of 30725 octets: so long it may be one of little-endian order.
    """
    receiver = Analyzer()
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.greet("b", REPLY)
    talk.operate()
    most = 0
    for number in range(200):
        octets = bytearray(talk.lay("a", *[1400] * 10))
        if not number:
            octets[200] ^= 1
        talk.say("a", bytes(octets))
        # A bad FPDU is final, and what comes after it read, when its receiver acknowledged it.
        talk.say("b")
        receiver.feed(talk.segments[-2:] if number else talk.segments)
        receiver.release()
        held = half_of(receiver).copies.held
        most = max(most, held)
    assert most < 2 * 30725 and held == 0, "no dialect has such a CRC"


def test_a_deviating_sender_is_followed_in_bounded_memory() -> None:
    from scapy_mpa.craft.stream import HalfStream
    from scapy_mpa.framing.dialect import Dialect

    writer = HalfStream(Dialect(False, True, crc_order="big"))
    receiver = Analyzer(limits=DEFAULT_LIMITS._replace(held_octets=100_000))
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.greet("b", REPLY)
    talk.operate()
    receiver.feed(talk.segments)
    held = []
    for number in range(400):
        octets, _ = writer.lay((bytes([0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number & 255 | 1]) + bytes(1386),))
        talk.say("a", octets)
        talk.say("b")
        receiver.feed(talk.segments[-2:])
        receiver.release()
        held.append(half_of(receiver).copies.held)
    assert max(held) < 300_000
    assert held[-1] < 20_000
    operation = receiver.connections[0].operations["initiator"]
    assert operation.deviation == "crc-big-endian"
    receiver.finish()
    assert operation.counts.fpdus == 400


def test_what_is_kept_in_tiny_segments_is_bounded() -> None:
    receiver, talk = Analyzer(), started()
    for _ in range(8):
        for octet in talk.lay("a", *[1000] * 2):
            talk.say("a", bytes((octet,)))
        receiver.feed(talk.segments)
        talk.segments.clear()
        receiver.release()
        assert len(half_of(receiver).copies) < 2 * 2100
    assert half_of(receiver).copies.held == 0, "nothing is looked for any more"


def half_of(receiver: Analyzer) -> TCPHalf:
    """The octets of the Initiator."""
    mpa = receiver.connections[0]
    assert mpa.reader.initiator is not None
    return mpa.reader.connection.halves[mpa.reader.initiator]


def test_a_flood_of_bad_connections_costs_little() -> None:
    """Half connections of which each begins with a bad CRC: what may be read for them all is limited."""
    segments = []
    for port in range(600):
        talk = Talk(a=_endpoint(port))
        talk.open()
        talk.greet("a", REQUEST)
        talk.greet("b", REPLY)
        talk.operate()
        octets = bytearray(talk.lay("a", 60, 60))
        octets[20] ^= 1
        talk.say("a", bytes(octets))
        segments += talk.segments
    receiver = Analyzer()
    began = time.process_time()
    receiver.feed([seg.replace(frame=number) for number, seg in enumerate(segments, 1)])
    receiver.release()
    receiver.finish()
    assert time.process_time() - began < 3 * (1 + ("coverage" in sys.modules))
    assert len(receiver.connections) == 600


def _endpoint(port: int) -> Endpoint:
    return Endpoint(A.address, 20_000 + port, A.mac)
