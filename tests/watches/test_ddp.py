"""Rules of DDP and RDMAP over FPDUs as values: each broken by one sender, and kept by its twin."""

from __future__ import annotations

import pytest

from scapy_mpa.craft.ulpdus import READ_RESPONSE, rdma_write, send, tagged
from scapy_mpa.framing.ddp import TAGGED_HEADER_LENGTH
from scapy_mpa.receiver.plain import PlainRun
from scapy_mpa.values.records import GOOD
from scapy_mpa.watches.ddp import DDPWatch, Response, ulpdu_of
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


@pytest.mark.parametrize("to", [300, 301])
def test_a_read_response_goes_on_where_plain_writes_begin(to: int) -> None:
    """Those come together; only where the first one begins matters."""
    first, *writes = fpdus(
        (
            tagged(READ_RESPONSE, 7, 100, bytes(200), last=False),
            rdma_write(7, to, b"some"),
            rdma_write(7, 300, b"more"),
        )
    )
    run = PlainRun(first.end, GOOD, True)
    for index, write in enumerate(writes):
        run.starts.append(write.offset)
        run.fpdus.append(write.ulpdu_length)
        run.firsts.append(index)
        run.frames.append(write.known[0])
        run.times.append(write.known[1])
        run.headers += ulpdu_of(write)[:TAGGED_HEADER_LENGTH]
    run.end = writes[-1].end
    watch = DDPWatch(is_beginning=True)
    assert watch.passed(first, ulpdu_of(first)) == ()
    found = [(one.rule, one.offset, one.frame) for one in watch.passed_run(run)]
    assert found == ([("rdmap-message-changes", first.end, 2)] if to == 300 else [])
    assert watch.passed_run(run) == ()
    assert [one.octets for one in watch.related if isinstance(one, Response)] == [-1] * len(found)


@pytest.mark.parametrize("most", [1, 50, 507, 508, 509, 1020, 4114])
@pytest.mark.parametrize("offset", [0, 4, 488, 492, 496, 500, 504, 508])
def test_the_first_octets_of_a_ulpdu_are_without_markers(offset: int, most: int) -> None:
    """However many Markers stand among them, wherever the FPDU begins."""
    ulpdu = bytes(number % 251 for number in range(5000))
    (whole,) = fpdus([ulpdu], markers=True, offset=offset)
    assert ulpdu_of(whole, most) == ulpdu[:most]
    (without,) = fpdus([ulpdu], offset=offset)
    assert ulpdu_of(without, most) == ulpdu[:most]
    # Of one that the capture cut, those that there are.
    cut = whole.replace(octets=whole.octets[:30])
    assert ulpdu[:most].startswith(ulpdu_of(cut, most))
