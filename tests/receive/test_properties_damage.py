"""Lost segments and corrupt FPDUs: what is left is told as `reference` computes it."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.framing.crc import crc32c, crc_field
from scapy_mpa.framing.markers import marker_positions
from scapy_mpa.framing.startup import startup_frame
from tests.receive.reference import OPCODES, Sent, Told
from tests.receive.test_properties import (
    RANDOM,
    TOO_SLOW,
    Scene,
    Side,
    ack_of,
    agree,
    captured,
    counters_of,
    damage,
    everything,
    findings_of,
    in_batches,
    laid,
    ordered,
    receiver_of,
    records_of,
    same_to_the_listener,
    sides,
    slowly,
)
from tests.sampling import examples

EXACT = "header_aligned_segments", "fpdu_aligned_segments"


def acknowledge(rng: Random, scene: Scene) -> dict[str, int]:
    """Say at the end, from each side, what it received; or not. Returns the offsets acknowledged."""
    said: dict[str, int] = {}
    for side, peer in (scene.sides, scene.sides[::-1]):
        edges = [0, len(peer.octets), *(edge for gap in holes(scene, peer) for edge in gap)]
        offset = rng.choice(edges)
        said[peer.direction] = offset
        scene.capture(side, 0, 0, ack=(peer.seq_start + offset) % 2**32)
    return said


def holes(scene: Scene, side: Side) -> list[tuple[int, int]]:
    """The octets of Full Operation that were sent and not captured, those after the last captured aside."""
    return scene.told(side).gaps


@st.composite
def lossy(draw: st.DrawFn, crc: bool | None = None, markers: bool | None = None) -> tuple[Scene, dict[str, int]]:
    """A capture that lacks some segments of Full Operation, and what each half's peer acknowledged at the end."""
    both = draw(sides(20, crc, markers))
    rng = draw(RANDOM)
    plan = ordered(rng, both, repeats=bool(rng.randint(0, 1)))
    lost = rng.choice([2, 4, 10])
    plan = [planned for planned in plan if planned[1] < 0 or rng.randint(0, lost)]
    scene = captured(rng, both, plan, fin=False, acks=False)
    said = acknowledge(rng, scene)
    if rng.randint(0, 1):
        # What was acknowledged stays so, whatever comes late.
        for side, peer in (both, both[::-1]):
            scene.capture(side, 0, 0, ack=peer.seq_start)
    return scene, said


@settings(max_examples=examples(200), suppress_health_check=TOO_SLOW)
@given(lossy())
def test_what_losses_leave_is_the_reference(lossy: tuple[Scene, dict[str, int]]) -> None:
    scene, said = lossy
    receiver = receiver_of(scene)
    damaged = damage(receiver)
    expected = []
    for side in scene.sides:
        told = scene.told(side)
        records = records_of(receiver, side.direction)
        counters = counters_of(receiver, side.direction, told.counters)
        if not side.crc and not any(f.markers for f in side.sent):
            # Behind a gap inside an FPDU, its length tells where the next one begins, if that is one DDP would send.
            found = [record for record in records if record not in told.records]
            assert all(is_sent(side, record) for record in found)
            records = [record for record in records if record in told.records]
            for name in ("fpdus", "placed", "placed_out_of_order"):
                counters[name] -= len(found)
            counters["ulpdu_octets"] -= sum(record["ulpdu_length"] for record in found)
        assert records == told.records
        for name in EXACT:
            # Whether a segment begins with an FPDU that was never complete cannot always be known.
            assert counters.pop(name) <= told.counters.pop(name)
        assert counters == told.counters
        # What was sent beyond all that was captured is no gap, acknowledged or not: no frame shows where it ends.
        noted = sum(end <= said[side.direction] for _, end in told.gaps)
        for rule, count in (("capture-gap", noted), ("gap", len(told.gaps) - noted)):
            if count:
                expected.append((rule, side.direction, count))
    assert [entry[:3] for entry in damaged] == sorted(expected)


def is_sent(side: Side, record: dict[str, Any]) -> bool:
    """True if a record is one of an FPDU that was sent, found by scanning or behind such a one, and not delivered."""
    places = {((side.seq_start + f.offset) % 2**32, f.ulpdu_length) for f in side.sent}
    return (record["seq"], record["ulpdu_length"]) in places and record["delivered_frame"] is None


@pytest.mark.uncompiled
@settings(max_examples=examples(60), suppress_health_check=TOO_SLOW)
@given(lossy())
def test_losses_look_the_same_to_the_slow_path_and_the_listener(lossy: tuple[Scene, dict[str, int]]) -> None:
    scene, _ = lossy
    fast = everything(receiver_of(scene))
    with slowly():
        assert everything(receiver_of(scene)) == fast
    same_to_the_listener(scene)


@settings(max_examples=examples(60), suppress_health_check=TOO_SLOW)
@given(lossy(), RANDOM)
def test_losses_look_the_same_in_batches(lossy: tuple[Scene, dict[str, int]], rng: Random) -> None:
    scene, _ = lossy
    receiver = Analyzer(records=True)
    in_batches(rng, scene, receiver)
    receiver.finish()
    assert everything(receiver) == everything(receiver_of(scene))


# --- corruption ---


def flip(rng: Random, side: Side, places: list[int]) -> int:
    """Corrupt one octet of the half connection as it was sent; returns its offset."""
    at = rng.choice(places)
    octets = bytearray(side.octets)
    octets[at] ^= rng.randint(1, 255)
    side.octets = bytes(octets)
    return at


def corrupted(rng: Random, side: Side, what: str) -> int:
    """Corrupt one FPDU of a side; returns its number."""
    candidates = [k for k, f in enumerate(side.sent) if what != "marker" or f.markers]
    assume(candidates)
    k = rng.choice(candidates)
    f = side.sent[k]
    # Without Markers in use `markers` is 0 everywhere.
    positions = list(marker_positions(f.offset, f.end)) if f.markers else []
    of_markers = {at for position in positions for at in range(position, position + 4)}
    if what == "marker":
        flip(rng, side, sorted(of_markers))
    elif what == "length":
        flip(rng, side, [f.header, f.header + 1])
    else:
        flip(rng, side, [at for at in range(f.header + 2, f.end) if at not in of_markers])
    opcode = OPCODES[side.octets[f.header + 3] & 15] if f.ulpdu_length > 1 else None
    named = any(
        int.from_bytes(side.octets[p + 2 : p + 4], "big") >> 2 == (p - f.header if p > f.offset else 0) >> 2
        for p in positions
    )
    side.sent[k] = f._replace(bad=True, opcode=opcode, named=named)
    return k


@st.composite
def spoiled(draw: st.DrawFn, what: str, markers: bool | None = None, losses: bool = False) -> tuple[Scene, Side, int]:
    """A capture with one corrupt FPDU: the side that sent it, and its number."""
    both = draw(sides(16, True, markers).filter(lambda both: any(side.sent for side in both)))
    rng = draw(RANDOM)
    side = both[0] if not both[1].sent or (both[0].sent and rng.randint(0, 1)) else both[1]
    k = corrupted(rng, side, what)
    plan = ordered(rng, both)
    if losses:
        plan = [planned for planned in plan if planned[1] < 0 or rng.randint(0, 5)]
    return captured(rng, both, plan, fin=not losses), side, k


def crc_findings(receiver: Analyzer) -> list[tuple[object, ...]]:
    return [entry for entry in damage(receiver) if entry[0] not in ("gap", "capture-gap")]


def expected_crc(scene: Scene, side: Side) -> list[tuple[object, ...]]:
    error = scene.told(side).error
    return [] if error is None else [("crc", side.direction, 1, error[0])]


@settings(max_examples=examples(120), suppress_health_check=TOO_SLOW)
@given(spoiled("payload"))
def test_a_bad_crc_is_told_as_the_reference(case: tuple[Scene, Side, int]) -> None:
    scene, side, _ = case
    receiver = receiver_of(scene)
    agree(scene, receiver)
    assert damage(receiver) == expected_crc(scene, side)


@settings(max_examples=examples(60), suppress_health_check=TOO_SLOW)
@given(spoiled("marker", markers=True))
def test_a_corrupt_marker_is_told_as_the_reference(case: tuple[Scene, Side, int]) -> None:
    scene, side, _ = case
    receiver = receiver_of(scene)
    agree(scene, receiver)
    assert damage(receiver) == expected_crc(scene, side)


@settings(max_examples=examples(80), suppress_health_check=TOO_SLOW)
@given(spoiled("payload", markers=True, losses=True))
def test_a_bad_crc_among_losses_is_told_as_the_reference(case: tuple[Scene, Side, int]) -> None:
    scene, side, _ = case
    receiver = receiver_of(scene)
    for each in scene.sides:
        # Without Markers it is not promised that ULPDUs that are no DDP are found behind a gap: the search is bounded.
        if not scene.told(each).gaps or (each.sent and each.sent[0].markers):
            assert records_of(receiver, each.direction) == scene.told(each).records
    if not scene.told(side).gaps or side.sent[0].markers:
        assert crc_findings(receiver) == expected_crc(scene, side)


def promised(sent: list[Sent], told: Told, bad: int) -> list[dict[str, Any]]:
    """What is told of the FPDUs that are found though the length of number `bad` cannot be trusted: those before
    it, those with a Marker, and those that follow one of these."""
    by_seq = {record["seq"]: record for record in told.records}
    assert len(by_seq) == len(told.records)
    first = told.records[0]["seq"] - sent[0].offset if told.records else 0
    found, known = [], True
    for k, f in enumerate(sent):
        followed, known = known, k != bad and (known or f.named)
        if known and (record := by_seq.get((first + f.offset) % 2**32)) is not None:
            # Where the bad one ends is not known, so neither is when it was complete, what is after the error,
            # and when all before a later FPDU was there; the one before may have been found or not.
            unknown = ["after_error", *(["delivered_frame"] if k > bad else []), *([] if followed else ["located_by"])]
            found.append({name: value for name, value in record.items() if name not in unknown})
    return found


@settings(max_examples=examples(120), suppress_health_check=TOO_SLOW)
@given(spoiled("length"))
def test_what_does_not_depend_on_a_corrupt_length_is_found(case: tuple[Scene, Side, int]) -> None:
    scene, side, bad = case
    receiver = receiver_of(scene)
    found = {record["seq"]: record for record in records_of(receiver, side.direction)}
    for expected in promised(side.sent, scene.told(side), bad):
        record = found.get(expected["seq"])
        assert record is not None
        assert {name: record[name] for name in expected} == expected
    other = scene.sides[1 - scene.sides.index(side)]
    assert records_of(receiver, other.direction) == scene.told(other).records
    bad_seq = (side.seq_start + side.sent[bad].offset) % 2**32
    assert bad_seq not in found or found[bad_seq]["crc"] == "bad"


def same_to_the_slow_path_and_in_batches(scene: Scene, rng: Random) -> None:
    """What is said of a scene does not depend on which way segments take, nor on how they are handed in."""
    fast = everything(receiver_of(scene))
    with slowly():
        assert everything(receiver_of(scene)) == fast
    receiver = Analyzer(records=True)
    in_batches(rng, scene, receiver)
    receiver.finish()
    assert everything(receiver) == fast


@pytest.mark.uncompiled
@settings(max_examples=examples(60), suppress_health_check=TOO_SLOW)
@given(st.sampled_from(["payload", "marker", "length"]).flatmap(lambda what: spoiled(what, markers=True)), RANDOM)
def test_corruption_looks_the_same_to_the_slow_path_and_in_batches(case: tuple[Scene, Side, int], rng: Random) -> None:
    scene, _, _ = case
    same_to_the_slow_path_and_in_batches(scene, rng)


# --- segments that their receiver drops for a CRC ---


@st.composite
def dropped(draw: st.DrawFn, markers: bool | None = None) -> tuple[Scene, Side]:
    """A capture in which one segment is damaged, and not acknowledged before its octets have come again."""
    both = draw(sides(12, True, markers).filter(lambda both: any(side.sent for side in both)))
    rng = draw(RANDOM)
    index = 0 if not both[1].sent or (both[0].sent and rng.randint(0, 1)) else 1
    side, plan = both[index], ordered(rng, both)
    at = rng.choice(places_of_damage(side, rng.choice(side.sent)))
    number, (_, first, last, _) = next((n, p) for n, p in enumerate(plan) if p[0] == index and p[1] <= at < p[2])
    assume(first >= 0)
    for start, end in cut_again(rng, side, first, last):
        plan.insert(rng.randint(number + 1, len(plan)), (index, start, end, True))
    good = next(n for n, p in enumerate(plan) if n > number and p[0] == index and p[1] <= at < p[2])
    # One octet may be a keep-alive, which brings anything; with a startup frame come only octets that were not there.
    assume(plan[good][1] >= 0 and plan[good][2] - plan[good][1] > 1)
    # What was acknowledged while nothing could be judged yet has a test of its own.
    good = max(good, *(n for n, p in enumerate(plan) if p[1] < 0))
    scene = Scene(both)
    if scene.needs_syns:
        scene.capture_syns()
    for n, planned in enumerate(plan):
        who, start, end, _ = planned
        ack = ack_of(rng, both, planned)
        if who != index and n < good and (ack - side.seq_start - first) % 2**32 < 2**31:
            ack = (side.seq_start + first) % 2**32
        scene.capture(both[who], start, end, ack=ack, damage=(at,) if n == number else ())
    return scene, side


def places_of_damage(side: Side, f: Sent) -> list[int]:
    """The octets of an FPDU that are neither its length nor Markers."""
    of_markers = {at for p in marker_positions(f.offset, f.end) for at in range(p, p + 4)} if f.markers else set()
    return [at for at in range(f.header + 2, f.end) if at not in of_markers]


def cut_again(rng: Random, side: Side, first: int, last: int) -> list[tuple[int, int]]:
    """A retransmission of [first, last), with the same boundaries or others."""
    if rng.randint(0, 1):
        return [(first, last)]
    start = rng.choice([first, max(first - rng.randint(0, 600), 0)])
    end = rng.choice([last, min(last + rng.randint(0, 600), len(side.octets))])
    edges = {start, end, *(rng.randint(start, end) for _ in range(rng.randint(0, 3)))}
    return list(pairwise(sorted(edges)))


@settings(max_examples=examples(200), suppress_health_check=TOO_SLOW)
@given(dropped())
def test_what_is_dropped_for_its_crc_and_comes_again_is_the_reference(case: tuple[Scene, Side]) -> None:
    scene, side = case
    receiver = receiver_of(scene)
    (damaged,) = (one.frame for one in scene.captured[side.direction] if one.damage)
    agree(scene, receiver, damaged)
    said = {(f["rule"], f["direction"]) for f in findings_of(receiver)}
    # Where both came before the FPDU could be judged, nobody can have dropped one for its CRC.
    assert said & {("crc-dropped", side.direction), ("overlap", side.direction)}
    assert {entry[:2] for entry in damage(receiver)} <= {("overlap", side.direction)}


@pytest.mark.uncompiled
@settings(max_examples=examples(80), suppress_health_check=TOO_SLOW)
@given(dropped(), RANDOM)
def test_what_is_dropped_looks_the_same_to_the_slow_path_in_batches_and_to_the_listener(
    case: tuple[Scene, Side], rng: Random
) -> None:
    scene, _ = case
    same_to_the_slow_path_and_in_batches(scene, rng)
    same_to_the_listener(scene)


@st.composite
def misled(draw: st.DrawFn) -> tuple[Scene, Side]:
    """A capture in which Markers of one FPDU, whose CRC is right, name another start."""
    both = draw(sides(16, True, True).filter(lambda both: any(f.markers for f in both[0].sent)))
    rng = draw(RANDOM)
    side = both[0]
    k = rng.choice([k for k, f in enumerate(side.sent) if f.markers])
    f = side.sent[k]
    positions = list(marker_positions(f.offset, f.end))
    wrong = {rng.choice(positions), rng.choice(positions)}
    octets = bytearray(side.octets)
    for position in wrong:
        right = {position - f.header, position - f.offset, 0 if position == f.offset else -1}
        fpduptr = rng.choice([p for p in (4 * rng.randint(0, 500), 2000, 2004, 2008) if p not in right])
        octets[position + 2 : position + 4] = fpduptr.to_bytes(2, "big")
    octets[f.end - 4 : f.end] = crc_field(crc32c(bytes(octets[f.offset : f.end - 4])))
    side.octets = bytes(octets)
    side.sent[k] = f._replace(named=wrong < set(positions))
    return captured(rng, both, ordered(rng, both)), side


@settings(max_examples=examples(80), suppress_health_check=TOO_SLOW)
@given(misled())
def test_a_marker_that_misleads_with_a_good_crc_costs_no_fpdu(case: tuple[Scene, Side]) -> None:
    scene, side = case
    receiver = receiver_of(scene)
    for each in scene.sides:
        told = scene.told(each)
        records = [{**record, "after_error": False} for record in records_of(receiver, each.direction)]
        assert records == told.records
        assert counters_of(receiver, each.direction, told.counters) == told.counters
    assert [entry[:2] for entry in damage(receiver)] == [("marker-length", side.direction)]


# --- cases that the properties found, too rare to be left to chance ---


def one_way(ulpdus: list[bytes], wrong: dict[int, bytes], cuts: list[tuple[int, int]]) -> tuple[Scene, Side]:
    """A stream with Markers and CRCs from the Initiator, octets replaced as `wrong` says, captured in `cuts`."""
    octets, sent = laid(ulpdus, markers=True, crc=True, rev=1)
    for at, other in wrong.items():
        octets = octets[:at] + other + octets[at + len(other) :]
    frames = startup_frame("request", c=1).encode(), startup_frame("reply", m=1, c=1).encode()
    initiator = Side("initiator", 100, b"", frames[0], True, octets, sent)
    responder = Side("responder", 200, b"", frames[1], True, b"", [])
    scene = Scene([initiator, responder])
    scene.capture(initiator, -len(frames[0]), 0, ack=responder.isn + 1)
    scene.capture(responder, -len(frames[1]), 0, ack=initiator.seq_start)
    for start, end in cuts:
        scene.capture(initiator, start, end, ack=responder.seq_start)
    return scene, initiator


@pytest.mark.uncompiled
def test_alignment_is_judged_alike_where_a_length_was_wrong() -> None:
    wrong = {4: (320).to_bytes(2, "big")}
    scene, _ = one_way([b"A@" * 32, b"A@" * 257], wrong, [(0, 76), (76, 600)])
    fast = everything(receiver_of(scene))
    with slowly():
        assert everything(receiver_of(scene)) == fast


def test_a_length_that_reaches_into_the_next_fpdu_does_not_hide_it() -> None:
    # The next one holds three Markers; what completes it holds none, and comes when the one after it is placed.
    wrong = {4: (70).to_bytes(2, "big")}
    ulpdus = [b"A@" * 32, b"A@" + bytes(1600), b"A@" * 400]
    scene, side = one_way(ulpdus, wrong, [(0, 600), (900, 2508), (600, 900)])
    good = [record["seq"] for record in records_of(receiver_of(scene), "initiator") if record["crc"] == "good"]
    assert good == [(side.seq_start + f.offset) % 2**32 for f in side.sent[1:]]


def test_after_error_counts_from_a_bad_fpdu_that_is_told_late() -> None:
    # One of its two Markers is corrupt, the other names its start; DDP could not have sent it.
    ulpdus = [b"A@" * 20, b"A@" * 20, b"AO" * 500]
    _, sent = laid(ulpdus, markers=True, crc=True, rev=1)
    late = sent[2]
    assert late.markers == 2
    wrong = {512 + 2: b"\xd9"}
    scene, side = one_way(ulpdus, wrong, [(late.offset, late.end), (0, sent[1].offset), (sent[1].offset, late.offset)])
    side.sent[2] = late._replace(bad=True)
    receiver = receiver_of(scene)
    agree(scene, receiver)
    assert damage(receiver) == expected_crc(scene, side)
