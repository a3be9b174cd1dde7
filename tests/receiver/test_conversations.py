"""Drawn conversations: every FPDU of the real connection at its frames, and none else.

Draws in which the capture cannot tell (`conversations.cannot_tell`) must be read without an exception, no more. Long
runs: `python -m tests.receiver.conversations --draws 100000`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.receiver.conversations import KINDS, Conversation, cannot_tell, draw, judge
from tests.receiver.rows import rows

SEEDS = 20 * len(KINDS)


def _drawn(seed: int) -> Conversation:
    kind = KINDS[seed % len(KINDS)]
    conversation = next(filter(None, (draw(seed + again * SEEDS, kind) for again in range(20))), None)
    assert conversation is not None, f"{kind} {seed}: no draw"
    return conversation


@pytest.mark.parametrize("seed", range(SEEDS))
def test_rows(seed: int) -> None:
    """The rows are those of the truth."""
    conversation = _drawn(seed)
    difference = judge(conversation, rows, placed=False)
    if cannot_tell(conversation) is None:
        assert difference is None, f"{conversation.kind} {conversation.seed}"


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1640, id="payload looks like a Marker where none are"),
        pytest.param(1385, id="a forged FPDU is whole before the real one is"),
        pytest.param(4450, id="a damaged Reply comes before the right one"),
        pytest.param(36039, id="a damaged Reply rejects"),
    ],
)
def test_rows_that_were_wrong(seed: int) -> None:
    conversation = draw(seed, KINDS[seed % len(KINDS)])
    assert conversation is not None
    assert cannot_tell(conversation) is None
    assert judge(conversation, rows, placed=False) is None


#: Final in frame 35 and delivered in frame 32, but the frame of delivery is known later.
_LATE = pytest.param(294, marks=pytest.mark.xfail(reason="its delivery is known later than it is final", strict=True))


@pytest.mark.parametrize("seed", [_LATE if seed == 294 else seed for seed in range(SEEDS)])
def test_rows_as_placed(seed: int) -> None:
    """A record that is final stays as it is, whatever is captured later."""
    conversation = _drawn(seed)
    difference = judge(conversation, rows, placed=True)
    if cannot_tell(conversation) is None:
        assert difference is None, f"{conversation.kind} {conversation.seed}"


def test_every_kind_can_be_judged() -> None:
    """Of each kind there are draws, and the capture can tell in most of them."""
    told, drawn = Counter[str](), Counter[str]()
    for seed in range(6 * len(KINDS)):
        kind = KINDS[seed % len(KINDS)]
        conversation = draw(seed, kind)
        if conversation is not None:
            drawn[kind] += 1
            told[kind] += cannot_tell(conversation) is None
    assert not [kind for kind in KINDS if not told[kind]]
    assert sum(told.values()) > 0.8 * sum(drawn.values())
