"""Rules of DDP and RDMAP over FPDUs as values: each broken by one sender, and kept by its twin."""

from __future__ import annotations

import pytest

from scapy_mpa.craft.ulpdus import rdma_write, send
from tests.rules.test_ddp import CASES, Ulpdus
from tests.watches.values import fpdus, rules, watched

#: A Terminate is reported, and the buffer that it names.
ALSO = {"terminate", "attack-buffer"}


@pytest.mark.parametrize("markers", [False, True])
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number][0]}-{number}")
def test_a_rule_is_broken_by_one_and_kept_by_its_twin(number: int, markers: bool) -> None:
    rule, wrong, right = CASES[number]
    # Other sizes before them move Markers through the headers.
    for size in (30, 400, 430, 452, 470):
        before = send(1, bytes(size))
        assert rules(watched(fpdus((before, *wrong), markers), markers=markers)) - ALSO == {rule}
        assert rules(watched(fpdus((before, *right), markers), markers=markers)) - ALSO == set()


def test_where_and_when() -> None:
    found = fpdus((send(1, b""), send(2, b""), send(4, b"")))
    (breach,) = watched(found)
    assert breach[:5] == ("ddp-msn", found[2].offset, *found[2].known, "MSN 4 of queue 0 after 2")


@pytest.mark.parametrize(
    "ulpdus",
    [
        (send(1, bytes(400), last=False), send(1, bytes(2000), message_offset=400), send(2, b"")),
        (rdma_write(1, 0, bytes(400), last=False), rdma_write(1, 400, bytes(400)), rdma_write(2, 0, b"")),
    ],
)
def test_what_is_missing_is_not_held_against_the_sender(ulpdus: Ulpdus) -> None:
    first, _, third = fpdus(ulpdus)
    assert watched((first, third)) == []
    assert watched(fpdus(ulpdus, offset=1 << 30)[1:]) == []  # nor is what came before the capture


def test_a_message_begins_like_one_before() -> None:
    """What repeats the last message but for TO is expected, unless it does not go on where it has to."""
    writes = [rdma_write(1, to, bytes(200), last=to == 600) for to in (0, 200, 400, 600)]
    assert watched(fpdus((*writes, *writes))) == []
    assert rules(watched(fpdus((*writes, *writes[:2], rdma_write(1, 401, bytes(200)))))) == {"ddp-last"}
