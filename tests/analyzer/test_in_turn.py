"""Segments that are received in turn: what is found is what the general way finds."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from scapy_mpa import analyze
from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.traffic import Traffic

IMPAIRED: list[tuple[str, ...]] = [
    (), ("reorder",), ("lose:probability=0.02",), ("capture-loss:probability=0.02",), ("snap",), ("corrupt",),
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


@pytest.mark.uncompiled  # a method is replaced
@pytest.mark.parametrize("markers", [0, 1])
@pytest.mark.parametrize("impairments", IMPAIRED, ids=lambda names: names[0] if names else "none")
def test_the_general_way_finds_the_same(
    impairments: tuple[str, ...], markers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Conversation(m=(markers, markers))
    for number in range(200):
        talk.write("initiator", 6000, stag=7, to=6000 * number)
        if not number % 20:
            talk.send("responder", bytes(100))
    capture = BytesIO()
    Traffic([talk], impairments, seed=1).write(capture)
    report, count = found(capture, monkeypatch, in_turn=True)
    assert count
    assert report == found(capture, monkeypatch, in_turn=False)[0]
