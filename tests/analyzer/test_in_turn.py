"""Segments that are received in turn: what is found is what the general way finds."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from scapy_mpa import analyze
from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.framing.role import ROLES

IMPAIRED: list[tuple[str, ...]] = [
    (), ("reorder",), ("lose:probability=0.02",), ("capture-loss:probability=0.02",), ("snap",), ("corrupt",),
    ("reorder", "snap"),
]  # fmt: skip


def found(capture: BytesIO, patch: pytest.MonkeyPatch, *, in_turn: bool) -> tuple[dict[str, Any], int]:
    """The report, and how many segments were received in turn."""
    count, receive = 0, Analyzer._receive_in_turn

    def counted(*arguments: Any) -> bool:
        nonlocal count
        is_received = in_turn and receive(*arguments)
        count += is_received
        return is_received

    capture.seek(0)
    with patch.context() as patched:
        patched.setattr(Analyzer, "_receive_in_turn", counted)
        return analyze(capture).as_dict(), count


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
@pytest.mark.parametrize("markers", [0, 1])
@pytest.mark.parametrize("impairments", IMPAIRED, ids=lambda names: "-".join(names) or "none")
def test_the_general_way_finds_the_same(
    impairments: tuple[str, ...], markers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = made(impairments, markers, "aligned", 6000)
    report, count = found(capture, monkeypatch, in_turn=True)
    assert count
    assert report == found(capture, monkeypatch, in_turn=False)[0]


@pytest.mark.uncompiled  # a method is replaced
@pytest.mark.parametrize("markers", [0, 1])
def test_segments_that_do_not_end_with_an_fpdu_are_left_to_the_general_way(
    markers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = made((), markers, "packed", 500, 100_000)
    assert found(capture, monkeypatch, in_turn=True)[0] == found(capture, monkeypatch, in_turn=False)[0]


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
