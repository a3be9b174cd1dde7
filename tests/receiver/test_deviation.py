"""Senders that deviate are read as they lay FPDUs, and are named; nothing is changed for one that does not."""

from __future__ import annotations

import hashlib
import io
import json
import random
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa.capture.files import Captures
from scapy_mpa.craft.impairments import IMPAIRMENTS
from scapy_mpa.craft.packets import ACK, SYN, Endpoint, FrameMaker
from scapy_mpa.craft.scenario import load, shipped
from scapy_mpa.craft.setup import ConversationError
from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.craft.truth import Truth
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.senders import BY_NAME, Bases, candidates
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.receiver.connection import ConnectionReader
from scapy_mpa.receiver.deviation import IDLE, ROOM, DiagnosisBudget, Hypothesis, equally_likely
from scapy_mpa.receiver.fpdus import BEGINNING
from scapy_mpa.receiver.receiver import Receiver
from scapy_mpa.stream.peer_state import NEVER
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.segment import Segment
from tests.conftest import PCAPS
from tests.receiver.rows import rows

COPIES = Path(__file__).parent / "captures"
SCENARIOS = (
    "rddp-01", "stack-iw-cxgb4", "markers-without-crc", "neither-markers-nor-crc",
    "every-pad-and-marker-place", "markers-from-the-initiator", "stack-siw", "every-message",
)  # fmt: skip
"""Markers in both directions, in one and in none; with CRC and without; Rev 0, 1 and 2."""
#: Where no Marker comes within the stream these are one and the same.
NO_MARKER = {"markers-left-out", "markers-from-startup-frame", "markers-from-syn"}


def segments_of(capture: Path | bytes) -> list[Segment]:
    with Captures(io.BytesIO(capture) if isinstance(capture, bytes) else str(capture)) as captures:
        return [seg for batch in captures.batches() for seg in batch]


def connections_of(segments: Iterable[Segment], limits: Limits = DEFAULT_LIMITS) -> list[ConnectionReader]:
    receiver = Receiver(limits=limits)
    receiver.feed(segments)
    return [mpa for _, mpa in receiver.finish()]


def names(mpa: ConnectionReader) -> dict[str, str | None]:
    """Return what the sender of each direction does wrong."""
    assert mpa.initiator is not None
    found = {}
    for direction, d in (("initiator", mpa.initiator), ("responder", 1 - mpa.initiator)):
        diagnosis = mpa.diagnoses[d]
        found[direction] = diagnosis.candidate.name if diagnosis is not None else None
    return found


# --- captures of senders that deviate ---


@pytest.mark.parametrize(
    ("path", "deviation", "counts", "code", "digest"),
    [
        (
            COPIES / "faulty-fpduptr-and-spacing.pcap.zst",
            "fpduptr-little-endian+crc-not-in-spacing", (40, 40), 3, "cf19f73b5338549d",
        ),
        (COPIES / "faulty-no-crc-field.pcap.zst", "no-crc-field", (100, 90), None, "0cefe5b683c10f60"),
        (PCAPS / "faulty-pad.pcap", "pad-plus-2", (4, 5), None, "d606a5528f633b8c"),
    ],
    ids=["fpduptr-and-spacing", "no-crc-field", "pad"],
)  # fmt: skip
def test_real_captures(path: Path, deviation: str, counts: tuple[int, int], code: int | None, digest: str) -> None:
    """All rows are those that the receiver before this one had, `time` left out."""
    segments = segments_of(path)
    mpa = connections_of(segments)[0]
    assert names(mpa) == {"initiator": deviation, "responder": deviation}
    assert [diagnosis and diagnosis.anomaly.code for diagnosis in mpa.diagnoses] == [code, code]
    found = rows(segments)
    assert tuple(sum(row["direction"] == one for row in found) for one in ("initiator", "responder")) == counts
    assert hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16] == digest


# --- made senders that deviate ---


class Made:
    """A scenario whose senders deviate: its segments, and the rows that its senders know."""

    def __init__(self, name: str, deviations: tuple[str, str], impair: tuple[str, ...] = (), seed: int = 0) -> None:
        truth, file = Truth(), io.BytesIO()
        scenario = load(name, seed=seed, parameters={"deviation": deviations})
        scenario.traffic(impair, connection=0).write(file, truth=truth)
        self.octets = file.getvalue()
        self.segments = segments_of(self.octets)
        self.expected = list(truth.records())

    def of(self, direction: str) -> list[dict[str, Any]]:
        return [row for row in self.expected if row["direction"] == direction]


def made(name: str, deviation: str, **options: Any) -> Made | None:
    """Both senders deviate, or one, as far as it can show; None if it cannot."""
    for pair in ((deviation, deviation), (deviation, ""), ("", deviation)):
        try:
            return Made(name, pair, **options)
        except ConversationError:
            continue
    return None


def as_sender_knows(found: list[dict[str, Any]], direction: str) -> list[dict[str, Any]]:
    return [row | {"after_error": False} for row in found if row["direction"] == direction]


def without(found: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in keys} for row in found]


def shows(talk: Made, deviations: tuple[str, ...]) -> bool:
    """Return True if the deviation shows; then it is named, and all FPDUs are found as they were sent."""
    found, shown = rows(talk.segments), False
    (mpa,) = connections_of(talk.segments)
    for direction, name in names(mpa).items():
        expected, got = talk.of(direction), as_sender_knows(found, direction)
        wanted = expected[0]["deviation"] if expected else None
        if wanted is None or (name is None and "length-with-pad" in deviations):
            # FPDUs that conform, maybe with PAD in the ULPDU.
            assert name is None, (deviations, direction)
            assert [row["wire_length"] for row in got] == [row["wire_length"] for row in expected]
            continue
        shown = True
        if name in deviations and len(deviations) == 2:
            # One of the two explains it all: nothing of the other shows.
            keys = "seq", "wire_length", "markers"
            assert [[row[key] for key in keys] for row in got] == [[row[key] for key in keys] for row in expected]
            continue
        is_short = sum(row["wire_length"] for row in expected) < 512 and not any(row["markers"] for row in expected)
        may_be = NO_MARKER if is_short and wanted in NO_MARKER else {wanted}
        diagnosis = next(one for one in mpa.diagnoses if one is not None and one.candidate.name == name)
        assert name in may_be, (deviations, direction)
        assert may_be - {name} <= set(diagnosis.others), "what would explain it as well is named, too"
        assert got == without(expected, "time", "deviation"), (deviations, direction)
    return shown


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_deviation(scenario: str) -> None:
    talks = ((made(scenario, name), name) for name in BY_NAME)
    assert sum(shows(talk, (name,)) for talk, name in talks if talk is not None) >= 3


@pytest.mark.parametrize("scenario", ["every-pad-and-marker-place", "neither-markers-nor-crc"])
def test_two_deviations_together(scenario: str) -> None:
    alone = {talk.octets for name in BY_NAME if (talk := made(scenario, name)) is not None}
    pairs = [pair for pair in combinations(BY_NAME, 2) if "length-with-pad" not in pair]
    shown = 0
    for pair in random.Random(1).sample(pairs, len(pairs)):
        talk = made(scenario, "+".join(pair)) if shown < 8 else None
        if talk is not None and talk.octets not in alone:
            shown += shows(talk, pair)
    assert shown >= 6


@pytest.mark.parametrize(
    ("scenario", "deviation"),
    [
        ("every-pad-and-marker-place", "fpduptr-little-endian"),
        ("every-pad-and-marker-place", "markers-not-in-spacing"),
        ("rddp-01", "markers-from-syn"),
        ("neither-markers-nor-crc", "no-crc-field"),
        ("stack-iw-cxgb4", "crc-big-endian"),
        ("every-pad-and-marker-place", "no-pad"),
    ],
)
@pytest.mark.parametrize(
    "impair",
    [("reorder",), ("duplicate",), ("lose", "reorder"), ("retransmit", "jitter"), ("corrupt:probability=0.2",)],
)
def test_out_of_order(scenario: str, deviation: str, impair: tuple[str, ...]) -> None:
    """Placed at the frames that the rules of placement name, by that reading; damaged segments say nothing."""
    talk = made(scenario, deviation, impair=impair, seed=3)
    assert talk is not None
    assert shows(talk, (deviation,))


@pytest.mark.parametrize("impair", [("reorder",), ("lose", "reorder"), ("corrupt:probability=0.2",)])
def test_out_of_order_where_only_lengths_locate(impair: tuple[str, ...]) -> None:
    """Where Markers are depends on all FPDUs before: none of them locates one."""
    talk = made("rddp-01", "crc-not-in-spacing", impair=impair, seed=3)
    assert talk is not None
    for direction in ("initiator", "responder"):
        expected, got = talk.of(direction), as_sender_knows(rows(talk.segments), direction)
        assert {row["located_by"] for row in got} <= {"start", "length"}
        ignored = "time", "deviation", "located_by", "placed_frame"
        assert without(got, *ignored) == without(expected, *ignored)
        assert all(row["placed_frame"] >= max(row["frames"]) for row in got)


@pytest.mark.parametrize(
    ("scenario", "deviation", "is_found_again"),
    [
        ("rddp-01", "fpduptr-little-endian", True),
        ("rddp-01", "markers-from-syn", True),
        ("stack-iw-cxgb4", "crc-big-endian", True),
        ("neither-markers-nor-crc", "no-crc-field", True),
        ("rddp-01", "crc-not-in-spacing", False),
    ],
)
def test_after_a_gap(scenario: str, deviation: str, is_found_again: bool) -> None:
    """FPDUs are found again, unless only who read all before knows where Markers are."""
    whole = made(scenario, deviation, seed=5)
    cut = made(scenario, deviation, impair=("capture-loss:probability=0.06",), seed=5)
    assert whole is not None
    assert cut is not None
    (mpa,) = connections_of(cut.segments)
    assert names(mpa)["initiator"] == deviation
    sent = {(row["seq"], row["ulpdu_length"]) for row in whole.of("initiator")}
    listed = [row for row in rows(cut.segments) if row["direction"] == "initiator"]
    assert {(row["seq"], row["ulpdu_length"]) for row in listed} <= sent, "nothing is listed that was not sent"
    assert any(row["delivered_frame"] is None for row in listed) == is_found_again


# --- one direction, laid octet by octet ---


def ulpdu(msn: int, length: int = 100) -> bytes:
    """Return a Send (RFC 5041 §4, RFC 5040 §4)."""
    return bytes((0x41, 0x43)) + bytes(8) + msn.to_bytes(4, "big") + bytes(4) + bytes((msn & 0xFF,)) * (length - 18)


class OneSide:
    """A connection in which only the Initiator sends FPDUs, each segment acknowledged."""

    def __init__(self, crc: bool, port: int = 40000) -> None:
        self._makers = (
            FrameMaker(Endpoint("10.0.0.1", port, bytes(6)), Endpoint("10.0.0.2", 7471, bytes(6))),
            FrameMaker(Endpoint("10.0.0.2", 7471, bytes(6)), Endpoint("10.0.0.1", port, bytes(6))),
        )
        self._next = [1000, 5000]
        self.segments: list[Segment] = []
        self.put(0, flags=SYN)
        self.put(1, flags=SYN | ACK)
        self.put(0, startup_frame("request", c=int(crc)).encode())
        self.put(1, startup_frame("reply", c=int(crc)).encode())

    def put(self, d: int, payload: bytes = b"", flags: int = ACK) -> None:
        octets = bytes(
            self._makers[d].frame(
                payload, seq=self._next[d], ack=self._next[1 - d] if flags & ACK else 0, flags=flags, window=0xFFFF
            )
        )
        key = octets[26:38]
        frame = len(self.segments) + 1
        self.segments.append(
            Segment(
                frame, frame * 1_000_000, key, self._next[d], int.from_bytes(octets[42:46], "big"), flags,
                memoryview(octets), 54, len(octets), 34, len(payload),
            )
        )  # fmt: skip
        self._next[d] += len(payload) + (1 if flags & SYN else 0)

    def send(self, octets: bytes) -> None:
        for at in range(0, len(octets), 1400):
            self.put(0, octets[at : at + 1400])
            self.put(1)


def diagnosis_of(segments: Iterable[Segment], limits: Limits = DEFAULT_LIMITS) -> str | None:
    (mpa,) = connections_of(segments, limits)
    return names(mpa)["initiator"]


def sent_with(dialect: Dialect, lengths: Iterable[int]) -> OneSide:
    side, writer = OneSide(dialect.crc), HalfStream(dialect)
    side.send(b"".join(writer.lay((ulpdu(msn, length),))[0] for msn, length in enumerate(lengths, 1)))
    return side


#: FPDUs of 102 octets need no PAD, those of 100 two octets: only these show that PAD is left out.
@pytest.mark.parametrize(
    ("lengths", "is_named"),
    [
        ([102, 102, 100, 102, 102], False),
        ([102, 100, 102, 100, 102], True),
        ([1002] * 16 + [100] * 4, True),
        ([1002] * 17 + [100] * 4, False),
    ],
    ids=["one", "two", "first below 16 KiB", "first above 16 KiB"],
)
def test_how_many_and_how_early(lengths: list[int], is_named: bool) -> None:
    side = sent_with(Dialect(False, False, pad_rule="none"), lengths)
    assert diagnosis_of(side.segments) == ("no-pad" if is_named else None)


@pytest.mark.parametrize(
    ("deviating", "bits", "is_believable", "is_established"),
    [(2, 64, True, False), (1, 64, False, False), (2, 63, False, False), (15, 64, True, False), (16, 64, True, True)],
)
def test_what_is_believed(deviating: int, bits: int, is_believable: bool, is_established: bool) -> None:
    agreed = Dialect(False, False)
    candidate = next(one for one in candidates(agreed, Bases(), 1) if one.name == "no-pad")
    hypothesis = Hypothesis(candidate, agreed)
    hypothesis.deviating, hypothesis.bits = deviating, bits
    assert hypothesis.is_believable == is_believable
    assert hypothesis.is_established == is_established


def test_what_explains_as_much_is_named_unless_it_is_clearly_less() -> None:
    agreed = Dialect(False, False)
    best, near, far, less = (Hypothesis(one, agreed) for one in candidates(agreed, Bases(), 1)[:4])
    best.fpdus = near.fpdus = far.fpdus = 5
    best.bits, near.bits, far.bits, less.bits = 100, 77, 76, 100
    assert list(equally_likely(best, (best, near, far, less))) == [near.candidate.name]


@pytest.mark.parametrize("crc", [False, True])
def test_one_damaged_length_is_no_deviation(crc: bool) -> None:
    """Whichever bit of one ULPDU_Length: where its own octets are counted all others fit, but one is no habit."""
    for bit in range(16):
        writer = HalfStream(Dialect(False, crc))
        octets = bytearray(b"".join(writer.lay((ulpdu(msn),))[0] for msn in range(1, 21)))
        octets[5 * 108 + bit // 8] ^= 0x80 >> bit % 8
        side = OneSide(crc)
        side.send(bytes(octets))
        assert diagnosis_of(side.segments) is None, bit


def test_ulpdus_that_are_not_ddp_are_no_deviation() -> None:
    rng = random.Random(1)
    for crc in (False, True):
        side, writer = OneSide(crc), HalfStream(Dialect(False, crc))
        sent = [writer.lay((rng.randbytes(20 + rng.randrange(300)),))[0] for _ in range(60)]
        side.send(b"".join(sent))
        assert diagnosis_of(side.segments) is None
        assert len(rows(side.segments)) == 60


def test_it_is_decided_as_soon_as_enough_was_read() -> None:
    """Then what is held is let go of, and what was read before is told by the new reader."""
    writer, receiver, side = HalfStream(Dialect(False, True, crc_order="big")), Receiver(), OneSide(True)
    mpa = None
    for seg in side.segments:
        mpa = receiver.receive(seg)
    assert mpa is not None
    half, before = mpa.connection.halves[0], mpa.readers[0]
    assert before is not None
    held, decided_at = [], 0
    for msn in range(1, 401):
        first = len(side.segments)
        side.send(writer.lay((ulpdu(msn, 1390),))[0])
        receiver.feed(side.segments[first:])
        held.append(half.copies.held)
        if mpa.diagnoses[0] is not None and not decided_at:
            decided_at = writer.offset
    assert 256 << 10 <= decided_at <= (256 << 10) + 1400
    assert max(held) <= (256 << 10) + 1400
    assert held[-1] == 0
    assert before.replaced
    reader = mpa.readers[0]
    assert reader is not None
    assert [len(reader.passed), len(reader.final)] == [400, 400]


def test_a_limit_ends_the_search() -> None:
    """It is decided with what may be held."""
    side = sent_with(Dialect(False, True, crc_order="big"), [1390] * 400)
    limits = DEFAULT_LIMITS._replace(held_octets=100_000)
    assert diagnosis_of(side.segments, limits) == "crc-big-endian"
    (mpa,) = connections_of(side.segments, limits)
    assert mpa.readers[0] is not None
    assert len(mpa.readers[0].passed) == 400


# --- senders that do nothing wrong ---


@pytest.mark.parametrize("path", sorted(PCAPS.glob("*.pcap*")), ids=lambda path: path.name)
def test_no_capture_of_others_is_named(path: Path) -> None:
    if not path.name.startswith("faulty-"):
        assert not any(any(mpa.diagnoses) for mpa in connections_of(segments_of(path)))


IMPAIRED = [*((kind,) for kind in IMPAIRMENTS), ("lose:retransmit=false",), ("corrupt:probability=0.3",)]


@pytest.mark.parametrize("number", range(4))
def test_no_conforming_sender_is_named(number: int) -> None:
    """Whatever happened to the packets: a part of all scenarios and impairments."""
    cases = [(name, impair) for name in shipped() for impair in ((), *IMPAIRED)]
    for name, impair in cases[number::32]:
        file = io.BytesIO()
        load(name, seed=number).traffic(impair).write(file)
        found = [any(mpa.diagnoses) for mpa in connections_of(segments_of(file.getvalue()))]
        assert not any(found), (name, impair)


def test_an_rdmac_rnic_may_send_markers_unasked() -> None:
    """RFC 5044, figures 14 and 16: its Markers are read, and it does not deviate."""
    file = io.BytesIO()
    load("rfc5044-figure-16").traffic(("reorder",)).write(file)
    segments = segments_of(file.getvalue())
    assert not any(any(mpa.diagnoses) for mpa in connections_of(segments))
    assert {row["crc"] for row in rows(segments)} == {"good"}


# --- bounds ---


def test_nothing_is_held_once_a_sender_conforms() -> None:
    side, writer, receiver = OneSide(True), HalfStream(Dialect(False, True)), Receiver()
    receiver.feed(side.segments)
    mpa = receiver.receive(side.segments[-1])
    assert mpa is not None
    half, held = mpa.connection.halves[0], []
    for msn in range(1, 31):
        first = len(side.segments)
        side.send(writer.lay((ulpdu(msn, 1390),))[0])
        receiver.feed(side.segments[first:])
        held.append(half.copies.held)
    assert max(held) < BEGINNING + 1400
    assert held[-1] == 0
    assert half.keep_from == NEVER
    receiver.finish()
    assert mpa.readers[0] is not None
    assert len(mpa.readers[0].passed) == 30


def test_beginnings_that_are_idle_give_way() -> None:
    """All together are held in ROOM; one that brought nothing for IDLE frames gives way to another."""
    receiver, frame, users = Receiver(), 0, []
    writers = {port: HalfStream(Dialect(False, True)) for port in range(1000, 1200)}
    sides = {port: OneSide(True, port) for port in writers}

    def send(port: int) -> int:
        nonlocal frame
        side = sides[port]
        side.send(writers[port].lay((ulpdu(1, 10_000),))[0])
        for seg in side.segments:
            frame += 1
            user = receiver.receive(seg.replace(frame=frame))
        side.segments.clear()
        assert user is not None
        users.append(user)
        return sum(one.connection.halves[0].copies.held for one in users)

    held = [send(port) for port in range(1000, 1199)]
    assert max(held) <= ROOM
    assert ROOM // 2 < held[-1] == held[-2]
    frame += IDLE + 200 * 20
    send(1199)
    assert users[-1].connection.halves[0].copies.held > 10_000


def test_readings_are_bounded() -> None:
    """So many for each frame of the capture."""
    budget = DiagnosisBudget(readings=3)
    assert [budget.pay() for _ in range(4)] == [True, True, True, False]
    budget.advance(10)
    assert budget.pay()
