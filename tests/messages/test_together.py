"""RDMA Writes that one segment brings are taken together: what is said of them is as if each came alone."""

from __future__ import annotations

from io import BytesIO
from random import Random
from typing import Any

import pytest

from scapy_mpa.analyzer.connection import FullOperation
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.messages.lines import STYLES
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.messages.stags import CapturedMemory
from scapy_mpa.receiver.plain import PlainRun
from tests.messages.test_memory import RPING_PORT, STAG, TO, call, rping_buffer

IMPAIRED: tuple[tuple[str, ...], ...] = (
    (), ("reorder",), ("lose:probability=0.1",), ("capture-loss:probability=0.05",), ("snap",), ("corrupt",),
)  # fmt: skip


def conversation(rng: Random) -> Conversation:
    """Many small Writes of both sides, most of which go on where the one before ended; some overlap or are outside."""
    is_rping = rng.random() < 0.5
    marked, ports = int(rng.random() < 0.3), (None, RPING_PORT if is_rping else 20049)
    talk = Conversation(segmentation="packed", m=(marked, marked), ports=ports, mulpdu=(1000, 1000))
    talk.send("initiator", rping_buffer(size=4096) if is_rping else call(1, writes=[(STAG, TO, 4096)]))
    stag, to = STAG, TO
    for _ in range(300):
        chance = rng.random()
        side: Any = "responder" if chance < 0.8 else "initiator"
        if chance < 0.03:
            talk.send(side, 1, invalidate=rng.choice((None, STAG)))
        elif chance < 0.05:
            talk.read(side, 40, sink=(STAG, TO), source=(STAG + 1, 8))
        elif chance < 0.1:
            stag, to = rng.choice((STAG, STAG, STAG + 1)), TO + rng.randrange(5000)
        octets = rng.choice((0, 16, 30, 42, 200, 3000) if rng.random() < 0.1 else (16, 30, 42))
        talk.write(side, octets, stag=stag, to=to)
        to += octets
    return talk


@pytest.mark.parametrize("impairments", IMPAIRED, ids=lambda names: names[0] if names else "none")
@pytest.mark.parametrize("seed", range(3))
def test_what_is_taken_together_is_as_one_by_one(
    seed: int, impairments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = BytesIO()
    Traffic([conversation(Random(seed))], impairments, seed=seed).write(file)
    runs: list[int] = []
    placed_run = CapturedMessages.placed_run

    def heard(self: CapturedMessages, operation: FullOperation, run: PlainRun) -> None:
        runs.append(len(run.starts))
        placed_run(self, operation, run)

    monkeypatch.setattr(CapturedMessages, "placed_run", heard)

    def found() -> tuple[object, ...]:
        file.seek(0)
        with CapturedMessages(file) as messages:
            rows = [*messages]
            lines = {name: [style.line(row, None) for row in rows] for name, style in STYLES.items()}
            for name, style in STYLES.items():
                text = "".join(style.lines(*one) for one in messages.runs())
                assert text == "".join(lines[name])
        file.seek(0)
        with CapturedMemory(file) as memory:
            return rows, [*memory.rows()]

    together = found()
    assert max(runs) > 1
    runs.clear()
    monkeypatch.setattr(CapturedMessages, "takes_runs", property(lambda _: False, lambda _, value: None), raising=False)
    assert found() == together
    assert not runs
