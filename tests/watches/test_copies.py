"""Copies of octets that differ, and segments that their receiver dropped."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from scapy_mpa.craft.ulpdus import send
from scapy_mpa.receiver.values import Breach, LeftOut, LocatedFPDU
from scapy_mpa.receiver.window import Layout
from scapy_mpa.stream.connection import Dropped, Stray
from scapy_mpa.stream.copies import RIGHT, UNKNOWN, WRONG, Rival
from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.values.records import UNCHECKED
from scapy_mpa.values.segment import ACK_FLAG, FIN, SYN
from scapy_mpa.watches.copies import CopyWatch, dropped_segments, other_fins, stray
from tests.watches.values import SECOND, altered, arrival, fpdus

#: Two FPDUs of 108 octets, [0, 108) and [108, 216), in frames 1 and 2.
FIRST, MIDDLE = fpdus([send(msn, bytes(84)) for msn in (1, 2)])
CRC, NO_CRC = Layout(False, True), Layout(False, False)


def watching(fpdu: LocatedFPDU = FIRST, layout: Layout = CRC) -> CopyWatch:
    watch = CopyWatch(layout, 20)
    for one in (fpdu, MIDDLE):
        watch.passed(one)
    return watch


def rival(chosen: int, other: int, octets: bytes = b"x", decided_by: str = "first", **changes: object) -> Rival:
    """Return a copy in frame ``other`` that differs at offset 40 from that in frame ``chosen``."""
    start = 40 if len(octets) < 108 else 0
    moments = (chosen, chosen * SECOND), (other, other * SECOND)
    one = Rival(start, start + len(octets), *moments, DropReason.NONE, 40, decided_by, octets, True)
    return one._replace(**changes)  # type: ignore[arg-type]


def told(breaches: Iterable[Breach]) -> list[tuple[str, int, str]]:
    return [(one.rule, one.frame, one.detail) for one in breaches]


DIFFERS = "an octet differs from its copy in frame {}: {}"
CRC_SAYS, MARKERS_SAY = "the CRC says which is right", "the Markers say which is right"
FIRST_KEPT, LATE = "the first copy is kept", "it came after the peer had acknowledged them"
INJECTED = "the octets of frame {} fit TCP but no FPDU, unlike those of frame {}"
BOTH = "frames 1 and 3 carried different FPDUs, both with good CRCs"
BAD_FIRST = altered(FIRST, 40, b"x", is_bad=True)
OTHER_GOOD = bytes(altered(FIRST, 40, b"x").octets)


@pytest.mark.parametrize(
    ("one", "fpdu", "layout", "overlap", "injection"),
    [
        (rival(1, 3), FIRST, CRC, (3, DIFFERS.format(1, CRC_SAYS)), (3, INJECTED.format(3, 1))),
        (rival(1, 3, is_late=True), FIRST, CRC, (3, DIFFERS.format(1, FIRST_KEPT)), (3, INJECTED.format(3, 1))),
        (rival(1, 3, decided_by="acknowledged"), FIRST, CRC, (3, DIFFERS.format(1, LATE)), (3, INJECTED.format(3, 1))),
        (rival(1, 3, has_right_checksums=False), FIRST, CRC, (3, DIFFERS.format(1, CRC_SAYS)), None),
        (rival(1, 3, OTHER_GOOD), FIRST, CRC, (3, DIFFERS.format(1, FIRST_KEPT)), (3, BOTH)),
        # The FPDU that was taken is bad.
        (rival(1, 3), BAD_FIRST, CRC, (3, DIFFERS.format(1, f"neither is right, {FIRST_KEPT}")), None),
        (
            rival(1, 3, bytes(FIRST.octets), "acknowledged"), BAD_FIRST, CRC,
            (3, DIFFERS.format(1, LATE)), (3, INJECTED.format(1, 3)),
        ),
        # The copy that counts came later, with octets that nothing else brought.
        (
            rival(3, 1, decided_by="validity", is_sole=True), FIRST.replace(frames=(3,)), CRC,
            (3, DIFFERS.format(1, CRC_SAYS)), (3, INJECTED.format(1, 3)),
        ),
        # Without CRC nothing tells who sent what.
        (rival(1, 3), FIRST.replace(crc=UNCHECKED), NO_CRC, (3, DIFFERS.format(1, FIRST_KEPT)), None),
        (
            rival(3, 1, decided_by="validity"), FIRST.replace(crc=UNCHECKED), NO_CRC,
            (3, DIFFERS.format(1, MARKERS_SAY)), None,
        ),
    ],
)  # fmt: skip
def test_copies_that_differ(
    one: Rival, fpdu: LocatedFPDU, layout: Layout, overlap: tuple[int, str], injection: tuple[int, str] | None
) -> None:
    expected = [("overlap", *overlap)] + ([] if injection is None else [("attack-injection", *injection)])
    assert told(watching(fpdu, layout).competed([one])) == expected


def test_a_frame_is_reported_once() -> None:
    found = told(watching().competed([rival(1, 3), rival(2, 3), rival(1, 4)]))
    assert [(rule, frame) for rule, frame, _ in found if rule == "overlap"] == [("overlap", 3), ("overlap", 4)]


def test_a_bad_fpdu_whose_receiver_dropped_it_silently() -> None:
    fpdu = FIRST.replace(frames=(1, 5))
    rivals = [rival(5, other, decided_by="validity") for other in (2, 4)]
    assert told(watching(fpdu).competed(rivals)) == [
        ("crc-dropped", 5, "frame 4 carried the FPDU with a bad CRC, frame 5 with a good one")
    ]
    # Not if the FPDU was not complete before.
    late = fpdu.replace(frames=(1, 5, 6))
    assert {rule for rule, _, _ in told(watching(late).competed(rivals))} == {"overlap", "attack-injection"}


@pytest.mark.parametrize(
    ("decided_by", "late", "detail"),
    [
        ("first", 3, "a startup frame differs from its copy in frame 1; the first copy is kept"),
        (
            "acknowledged", 30,
            "octets of a startup frame differ from those in frame 20: this copy came after the peer's answer",
        ),
    ],
)  # fmt: skip
def test_copies_of_a_startup_frame(decided_by: str, late: int, detail: str) -> None:
    one = rival(1, late, decided_by=decided_by, start=-20, end=0, differs_at=-4)
    assert told(watching().competed([one])) == [("overlap", late, detail)]


OUTSIDE = "octets after the next octet in order, outside the window"
OLD = "timestamp 7 is older than that of octets accepted before"
WRONG_SUM = "TCP checksum wrong: assumed to be dropped by the receiver"


@pytest.mark.parametrize(
    ("reason", "rule", "detail"),
    [
        (DropReason.CHECKSUM, "tcp-checksum", WRONG_SUM),
        (DropReason.PAWS, "old-timestamp", OLD),
        (
            DropReason.OVERWINDOW,
            "outside-window",
            f"108 octets, 0 {OUTSIDE}",
        ),
    ],
)
def test_a_segment_that_was_dropped_for_another(reason: DropReason, rule: str, detail: str) -> None:
    one = rival(5, 4, bytes(108), "reason", other_reason=reason)
    watch = watching()
    watch.arrived(arrival(4, 0, 108, reason=reason, tsval=7))
    assert told(watch.competed([one])) == [(rule, 4, f"{detail}; frame 5 carried its octets")]
    # It brought the same octets, and later: an ordinary retransmission.
    same = one._replace(differs_at=None, other=(6, 6))
    assert told(watching().competed([same])) == []
    assert len(told(watching().competed([same._replace(other=(4, 4))]))) == 1


@pytest.mark.parametrize(
    ("reason", "frame", "fin_frame", "detail"),
    [
        (DropReason.OVERWINDOW, 4, 0, f"100 octets, 900 {OUTSIDE}"),
        (DropReason.AFTER_FIN, 4, 3, "100 octets after the FIN of frame 3, which ends the half connection"),
        (DropReason.OVERWINDOW, 4, 5, f"100 octets, 900 {OUTSIDE}"),
        (DropReason.PAWS, 4, 0, OLD),
    ],
)
def test_octets_that_are_left_out(reason: DropReason, frame: int, fin_frame: int, detail: str) -> None:
    watch = CopyWatch(CRC)
    for number, start in enumerate((1000, 1100, 2000), frame):
        watch.arrived(arrival(number, start, start + 100, reason=reason, tsval=7))
    found = told(watch.left_out(LeftOut(1000, 1200, frame, 0, reason, 100), fin_frame, 0))
    assert [one[1] for one in found] == [frame, frame + 1]
    assert found[0][2] == detail
    assert len(told(watch.left_out(LeftOut(3000, 3200, 9, 0, reason, 100), fin_frame, 0))) == 1


@pytest.mark.parametrize(
    ("offset", "start", "where"),
    [
        (900, 0, f"800 {OUTSIDE}"),
        (90, 0, "10 octets before the next octet in order"),
        (-1, 0, "101 octets before the next octet in order"),
        (-2, 0, "2 octets before the first octet of the connection"),
        (-2, None, "102 octets before the next octet in order"),
        ((1 << 31) + 99, 0, f"{(1 << 31) - 1:,} {OUTSIDE}"),
        ((1 << 31) + 100, 0, f"{(1 << 31) - 100:,} octets before the first octet of the connection"),
        ((1 << 32) + 50, 0, "50 octets before the next octet in order"),
    ],
)
def test_a_segment_without_octets(offset: int, start: int | None, where: str) -> None:
    one = Dropped(4, 4, offset, 100, 77, ACK_FLAG | FIN, DropReason.NONE, None)
    assert told(dropped_segments([one], start)) == [("outside-window", 4, f"a FIN, {where}")]


@pytest.mark.parametrize(
    ("flags", "reason", "rule", "detail"),
    [
        (FIN, DropReason.CHECKSUM, "tcp-checksum", WRONG_SUM),
        (FIN, DropReason.PAWS, "old-timestamp", OLD),
        (0, DropReason.INVALID_ACK, "outside-window", "acknowledges 77, which was never sent"),
        (0, DropReason.OVERWINDOW, "outside-window", "an acknowledgement, 9 octets before the next octet in order"),
    ],
)
def test_why_a_segment_without_octets_was_dropped(flags: int, reason: DropReason, rule: str, detail: str) -> None:
    one = Dropped(4, 4, 91, 100, 77, ACK_FLAG | flags, reason, 7)
    assert told(dropped_segments([one], 0)) == [(rule, 4, detail)]


def test_fins_that_do_not_count() -> None:
    fins = [(100, 4, 4), (300, 9, 9)]
    assert [detail for _, _, detail in told(other_fins(fins, (200, 6, 6)))] == [
        "a FIN in frame 4, after which its sender continues",
        "another FIN after the FIN of frame 6, which ends the half connection",
    ]


EARLIER = "where the previous connection on these ports had its octets"
KEY = b"MPA ID Req Frame"


@pytest.mark.parametrize(
    ("changes", "offset", "rule", "detail"),
    [
        ({"flags": SYN}, 900, "attack-syn", "a SYN that nobody answered"),
        ({"flags": SYN, "checksum": WRONG}, 900, "tcp-checksum", WRONG_SUM),
        ({"checksum": UNKNOWN}, 600, "outside-window", f"9 octets, 500 {OUTSIDE}"),
        ({}, 599, "outside-window", "9 octets, 499 octets after the next octet in order"),
        ({"length": 0}, 90, "outside-window", "an acknowledgement, 10 octets before the next octet in order"),
        ({"beginning": KEY}, 90, "late-duplicate", "a startup frame, 10 octets before the next octet in order"),
        (
            {"is_earlier": True, "length": 0, "flags": FIN}, 90, "late-duplicate",
            f"a FIN, 10 octets before the next octet in order, {EARLIER}",
        ),
    ],
)  # fmt: skip
def test_a_segment_of_another_connection(changes: dict[str, object], offset: int, rule: str, detail: str) -> None:
    one = Stray(4, 4, 0, 7, ACK_FLAG, 9, b"", RIGHT)._replace(**changes)  # type: ignore[arg-type]
    assert told([stray(one, offset, 100, 600, 0, has_right_checksums=True)]) == [(rule, 4, detail)]


def test_what_came_after_octets_were_left_out_is_not_left_out_with_them() -> None:
    """However many segments are read at once."""
    watch = CopyWatch(CRC)
    for frame in (4, 5, 6):
        watch.arrived(arrival(frame, 900, 1000, reason=DropReason.PAWS))
    found = watch.left_out(LeftOut(900, 1000, 4, 4, DropReason.PAWS, 0, until=5), 0, 0)
    assert [one.frame for one in found] == [4, 5]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scapy_mpa.watches.copies.REMEMBERED", 2)
    monkeypatch.setattr("scapy_mpa.watches.copies.MOST_DOUBTFUL", 2)
    watch = CopyWatch(CRC)
    for fpdu in fpdus([send(msn, bytes(84)) for msn in range(1, 6)]):
        watch.passed(fpdu)
    assert [watch._fpdu_at(offset) is not None for offset in (108, 216, 324)] == [False, False, True]
    for frame in (1, 2, 3):
        watch.arrived(arrival(frame, 900, 1000, reason=DropReason.PAWS))
    assert len(list(watch.left_out(LeftOut(900, 1000, 1, 1, DropReason.PAWS, 0), 0, 0))) == 2
