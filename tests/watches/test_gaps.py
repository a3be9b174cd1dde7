"""What is missing of a direction, and how it ends."""

from __future__ import annotations

import pytest

from scapy_mpa.craft.ulpdus import send
from scapy_mpa.receiver.values import Breach, Gap, LeftOut, Moment, Rest
from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.watches.gaps import DROPPED, Closed, GapWatch
from tests.watches.values import SECOND, altered, arrival, fpdus

#: Three FPDUs of 108 octets: [0, 108), [108, 216), [216, 324).
FIRST, MIDDLE, THIRD = fpdus([send(msn, bytes(84)) for msn in (1, 2, 3)])
NOW = 99, 99 * SECOND


def moment(frame: int) -> Moment:
    return frame, frame * SECOND


def told(breaches: list[Breach]) -> list[tuple[str, int, int, str]]:
    return [(one.rule, one.offset, one.frame, one.detail) for one in breaches]


@pytest.mark.parametrize(
    ("acknowledged", "rule", "detail"),
    [
        (False, "gap", "108 octets were not captured"),
        (True, "capture-gap", "108 octets were not captured, though the peer acknowledged them"),
    ],
)
def test_a_gap(acknowledged: bool, rule: str, detail: str) -> None:
    watch = GapWatch(True, True)
    assert not watch.passed(FIRST)
    assert told([*watch.lost(Gap(108, 216, acknowledged, moment(3)))]) == [(rule, 108, 3, detail)]
    assert watch.has_gap
    assert not watch.passed(THIRD)


@pytest.mark.parametrize(("captured", "cut"), [(100, []), (60, [("capture-cut", 68, 4)])])
def test_a_segment_that_the_capture_cut(captured: int, cut: list[tuple[str, int, int]]) -> None:
    found = GapWatch(True, True).arrived(arrival(4, 8, 108, captured=captured))
    assert [(one.rule, one.offset, one.frame) for one in found] == cut


@pytest.mark.parametrize(
    ("is_beginning", "crc", "is_bad", "count"),
    [(True, True, False, 1), (True, True, True, 0), (True, False, False, 0), (False, True, False, 1)],
)
def test_octets_between_fpdus(is_beginning: bool, crc: bool, is_bad: bool, count: int) -> None:
    """Without CRC the reader reports what contradicts a length; after a bad CRC no length is trusted."""
    watch = GapWatch(is_beginning, crc)
    assert not watch.passed(altered(FIRST, 40, b"x", is_bad=True) if is_bad else FIRST)
    found = told([*watch.passed(THIRD)])
    assert found == [("fpdu-format", 108, 3, "108 octets that belong to no FPDU")] * count


@pytest.mark.parametrize(("is_beginning", "count"), [(True, 1), (False, 0)])
def test_octets_before_the_first_fpdu(is_beginning: bool, count: int) -> None:
    assert len(GapWatch(is_beginning, True).passed(MIDDLE)) == count


LOCATED, UNLOCATED = Rest(216, 252, True, moment(3)), Rest(216, 252, False, moment(3))
#: No window captured is larger: a number farther ahead tells nothing.
MOST_UNSEEN = 1 << 26
LOST = "connection-lost"
INTO = "{} 36 octets into an FPDU"


@pytest.mark.parametrize(
    ("rest", "closed", "acknowledged", "expected"),
    [
        (None, ("FIN", 4, 216), None, []),
        (LOCATED, None, None, []),
        (LOCATED, ("FIN", 4, 252), None, [(LOST, 216, 4, INTO.format("FIN"))]),
        # The capture may have the octets after the FIN, not after a RST.
        (LOCATED, ("FIN", 2, 252), None, [(LOST, 216, 3, INTO.format("FIN"))]),
        (LOCATED, ("RST", 2, 252), None, []),
        (LOCATED, ("RST", 4, 252), 253, [(LOST, 216, 4, INTO.format("RST"))]),
        # More was sent than was captured.
        (LOCATED, ("RST", 4, 252), 254, []),
        (LOCATED, ("RST", 4, 252), 252 + MOST_UNSEEN, [(LOST, 216, 4, INTO.format("RST"))]),
        (LOCATED, ("RST", 4, 300), 252, [("gap", 252, 4, "48 octets were not captured")]),
        (
            LOCATED,
            ("RST", 4, 251 + MOST_UNSEEN),
            None,
            [("gap", 252, 4, f"{MOST_UNSEEN - 1:,} octets were not captured")],
        ),
        (LOCATED, ("RST", 4, 252 + MOST_UNSEEN), None, [(LOST, 216, 4, INTO.format("RST"))]),
        (UNLOCATED, ("FIN", 4, 252), None, [("fpdu-format", 216, 99, "36 octets that belong to no FPDU")]),
    ],
)
def test_the_end(
    rest: Rest | None,
    closed: tuple[str, int, int] | None,
    acknowledged: int | None,
    expected: list[tuple[str, int, int, str]],
) -> None:
    watch = GapWatch(True, True)
    for fpdu in (FIRST, MIDDLE):
        watch.passed(fpdu)
    how = None if closed is None else Closed(closed[0], moment(closed[1]), closed[2])
    assert told([*watch.finish(rest, 216 if rest is None else 252, how, acknowledged, NOW)]) == expected


def test_octets_that_belong_to_no_fpdu_after_a_gap_or_in_the_midst_of_a_capture() -> None:
    watch = GapWatch(True, True)
    watch.lost(Gap(0, 216, False, moment(3)))
    assert not watch.finish(UNLOCATED, 252, None, None, NOW)
    assert not GapWatch(False, True).finish(UNLOCATED, 252, None, None, NOW)


@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize("after", ["fpdu", "gap", "end", "end after a gap"])
def test_damaged_octets_that_belong_to_no_fpdu(after: str, crc: bool) -> None:
    """They are named once, and accuse nobody, whatever comes after them."""
    watch = GapWatch(True, crc)
    watch.passed(FIRST)
    if after == "end after a gap":
        watch.lost(Gap(108, 120, False, moment(3)))
    watch.damaged(LeftOut(130, 190, 4, 4 * SECOND, DropReason.CHECKSUM, 108))
    if after == "fpdu":
        found = [*watch.passed(THIRD)]
    elif after == "gap":
        found = [*watch.lost(Gap(200, 216, False, moment(5)))][:-1]
    else:
        found = [*watch.finish(Rest(120, 200, False, moment(6), False), 200, None, None, NOW)]
    assert told(found) == [("tcp-checksum", 130, 4, DROPPED)]
