"""Segments that are received in turn: what is found is what the general way finds."""

from __future__ import annotations

import random
from io import BytesIO
from typing import Any

import pytest

from scapy_mpa import analyze
from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.capture.files import Captures
from scapy_mpa.craft.changes.draws import pick
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.segments import below
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.framing.role import ROLES
from tests.hostile.files import Case, drawn
from tests.hostile.mutate import MUTATIONS
from tests.hostile.samples import samples

IMPAIRED: list[tuple[str, ...]] = [
    (), ("reorder",), ("lose:probability=0.02",), ("capture-loss:probability=0.02",), ("snap",), ("corrupt",),
    ("reorder", "snap"),
]  # fmt: skip


def found(
    capture: BytesIO, patch: pytest.MonkeyPatch, *, in_turn: bool, fpdus: bool = True
) -> tuple[dict[str, Any], int]:
    """The report, and how many segments were received in turn; ``fpdus``: whether rows are kept."""
    count, receive = 0, Analyzer._receive_in_turn

    def counted(*arguments: Any) -> bool:
        nonlocal count
        is_received = in_turn and receive(*arguments)
        count += is_received
        return is_received

    capture.seek(0)
    with patch.context() as patched:
        patched.setattr(Analyzer, "_receive_in_turn", counted)
        return analyze(capture, fpdus=fpdus).as_dict(), count


def made(impairments: tuple[str, ...], markers: int, segmentation: str, size: int, octets: int = 1_200_000) -> BytesIO:
    """RDMA Writes of ``size`` octets, so many in all, and some Sends of the peer."""
    talk = Conversation(m=(markers, markers), segmentation=segmentation)
    for number in range(octets // size):
        talk.write("initiator", size, stag=7, to=size * number)
        if not number % 20:
            talk.send("responder", bytes(100))
    capture = BytesIO()
    Traffic([talk], impairments, seed=1).write(capture)
    return capture


@pytest.mark.uncompiled  # a method is replaced
@pytest.mark.parametrize("fpdus", [False, True], ids=["counted", "listed"])
@pytest.mark.parametrize("segmentation", ["aligned", "packed", "unaligned"])
@pytest.mark.parametrize("markers", [0, 1])
@pytest.mark.parametrize("impairments", IMPAIRED, ids=lambda names: "-".join(names) or "none")
def test_the_general_way_finds_the_same(
    impairments: tuple[str, ...], markers: int, segmentation: str, fpdus: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = made(impairments, markers, segmentation, 6000, 400_000)
    report, count = found(capture, monkeypatch, in_turn=True, fpdus=fpdus)
    assert count
    assert report == found(capture, monkeypatch, in_turn=False, fpdus=fpdus)[0]


@pytest.mark.uncompiled  # a method is replaced
@pytest.mark.parametrize("segmentation", ["aligned", "packed", "unaligned"])
@pytest.mark.parametrize("impairments", IMPAIRED, ids=lambda names: "-".join(names) or "none")
def test_the_general_way_finds_the_same_of_messages_of_both_sides(
    impairments: tuple[str, ...], segmentation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, rng = Conversation(m=(1, 0), segmentation=segmentation), random.Random(7)
    for number in range(60):
        side = pick(rng, ROLES)
        talk.write(side, 1 + below(rng, 9000), stag=7, to=number)
        talk.send(side, below(rng, 4000), invalidate=7 if number == 40 else None)
        if not number % 4:
            talk.read(side, below(rng, 9000))
    capture = BytesIO()
    Traffic([talk], impairments, seed=1).write(capture)
    report, count = found(capture, monkeypatch, in_turn=True)
    assert count
    assert report == found(capture, monkeypatch, in_turn=False)[0]


@pytest.mark.uncompiled  # a method is replaced
@pytest.mark.parametrize("number", range(200))
def test_the_general_way_finds_the_same_of_mutated_captures(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(f"in turn:{number}")
    case = Case(pick(rng, samples()).name, rng.getrandbits(32), drawn(tuple(MUTATIONS), rng, 4))
    capture = BytesIO(case.made().octets)
    for fpdus in (False, True):
        one, other = (found(capture, monkeypatch, in_turn=way, fpdus=fpdus)[0] for way in (True, False))
        assert one == other


@pytest.mark.parametrize("size", [40, 500, 6000])
@pytest.mark.parametrize("segmentation", ["aligned", "packed", "unaligned"])
@pytest.mark.parametrize("markers", [0, 1])
@pytest.mark.parametrize("impairments", IMPAIRED, ids=lambda names: "-".join(names) or "none")
def test_what_is_read_in_runs_is_found_as_what_is_listed(
    impairments: tuple[str, ...], markers: int, segmentation: str, size: int
) -> None:
    """Where nobody keeps rows, FPDUs that several frames brought, or that came late, are read in runs, too."""
    capture = made(impairments, markers, segmentation, size, 150_000)
    capture.seek(0)
    listed = analyze(capture, fpdus=True)
    for connection in listed.connections:
        for role in ROLES:
            assert connection.half(role).counts.fpdus == len(connection.half(role).fpdus)
    capture.seek(0)
    assert analyze(capture, fpdus=False).as_dict() == listed.as_dict()


@pytest.mark.parametrize("impairments", [(), ("reorder",)], ids=["in-order", "reordered"])
def test_octets_that_are_held_do_not_change_with_their_segment(impairments: tuple[str, ...]) -> None:
    """Who feeds segments may put others in their place."""
    capture = made(impairments, 1, "unaligned", 3000, octets=300_000)
    capture.seek(0)
    with Captures(capture) as captures:
        segments = [seg for batch in captures.batches() for seg in batch]
    found = []
    for is_wiped in (False, True):
        analyzer = Analyzer()
        for at in range(0, len(segments), 7):
            some = [seg.replace(buffer=memoryview(bytearray(seg.buffer))) for seg in segments[at : at + 7]]
            analyzer.feed(some)
            for seg in some if is_wiped else ():
                seg.buffer[:] = bytes(len(seg.buffer))
        analyzer.finish()
        (connection,) = analyzer.connections
        found.append([one.counts.as_dict() for one in connection.operations.values()])
    assert found[0] == found[1]
    assert found[0][0]["fpdus"] > 50 and not found[0][0]["crc_errors"]
