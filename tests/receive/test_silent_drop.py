"""A receiver drops a segment without a word for the CRC of an FPDU in it, and TCP brings it again (RFC 5044 §8)."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from scapy_mpa import analyze, iter_fpdus
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.network import acknowledged
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scapy_mpa.craft.truth import Truth
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.report.model import Report
from scapy_mpa.rules.findings import Finding
from tests.receive.cases import follow, only, started

#: How FPDUs lie in segments: one in one, one in three, three in one.
LAYOUTS = ("one", "three", "packed")
#: In which order segments come: as sent; those behind the damaged one backwards; the one before its FPDU last of all.
ORDERS = ("sent", "backwards", "behind a hole")
#: Segments that come between the damaged one and what is sent again.
BETWEEN = 6


class Case(NamedTuple):
    """``part``: which of the three segments of the FPDU, or of the three FPDUs of the segment, is damaged."""

    markers: int
    layout: str
    part: int
    order: str = "sent"
    is_cut_elsewhere: bool = False

    def __str__(self) -> str:
        return "-".join(str(value).replace(" ", "_") for value in self)


CASES = [
    Case(*values)
    for values in itertools.product((0, 1), LAYOUTS, range(3), ORDERS, (False, True))
    if values[1] != "one" or not values[2]
]
each = pytest.mark.parametrize("case", CASES, ids=str)


def sent(case: Case) -> tuple[list[TcpPacket], list[int]]:
    """A connection, and where the segments of the Initiator's FPDUs are; it reads at the end, and is answered."""
    packed = case.layout == "packed"
    made = Conversation(m=(0, case.markers), c=(1, 1), timestamps=False, segmentation="packed" if packed else "aligned")
    for _ in range(30 if packed else 12):
        made.send("initiator", 420 if packed else 700)
    made.read("initiator", 100).send("responder", 40)
    packets = []
    for packet in made.sending().packets():
        is_cut = case.layout == "three" and packet.in_operation and packet.half.role == "initiator" and packet.payload
        packets += cut(packet, 3) if is_cut else [packet]
    places = [i for i, p in enumerate(packets) if p.in_operation and p.half.role == "initiator" and p.payload]
    return packets, places


def cut(packet: TcpPacket, parts: int) -> list[TcpPacket]:
    """A segment as several."""
    size = len(packet.payload)
    edges = [size * n // parts for n in range(parts + 1)]
    return [packet._replace(start=packet.start + a, payload=packet.payload[a:b]) for a, b in itertools.pairwise(edges)]


def spoiled(case: Case, *, is_refused: bool = True) -> tuple[list[TcpPacket], int]:
    """The packets as captured, of which one was damaged and came again; the number of the FPDU that it damaged."""
    packets, places = sent(case)
    at = places[{"one": 2, "three": 6 + case.part, "packed": 2}[case.layout]]
    victim = packets[at]
    half = victim.half
    assert half.origin is not None
    held = [f for f in half.fpdus_from(victim.start - half.origin) if f.offset < victim.end - half.origin]
    fpdu = held[case.part if case.layout == "packed" else 0]
    first, last = (max(fpdu.offset, victim.start - half.origin), min(fpdu.end, victim.end - half.origin))
    offset = (first + last) // 2
    offset += MARKER_LENGTH * (offset % MARKER_INTERVAL < MARKER_LENGTH)
    damage = ((offset + half.origin - victim.start, 0x41),)
    again = victim._replace(identification=victim.identification ^ 0x8000)
    packets[at] = victim._replace(damage=damage, is_refused=is_refused)
    behind = [i for i in places if i > at][:BETWEEN]
    packets[behind[-1] + 1 : behind[-1] + 1] = cut(again, 2) if case.is_cut_elsewhere else [again]
    if case.order == "backwards":
        for i, packet in zip(behind, [packets[i] for i in reversed(behind)], strict=True):
            packets[i] = packet
    elif case.order == "behind a hole":
        before = max(i for i in places if i < at and packets[i].end <= half.origin + fpdu.offset)
        packets.insert(behind[-1] + 3, packets[before])
        del packets[before]
    return list(acknowledged(iter(packets))), half.laid.index(fpdu)


def capture(packets: Iterable[TcpPacket]) -> tuple[io.BytesIO, list[dict[str, Any]]]:
    """A file with these packets, and the truth about it."""
    file, truth, frames = io.BytesIO(), Truth(), []
    last = 0
    for packet in packets:
        last = max(packet.time, last + 1000)
        packet = packet._replace(time=last)
        truth.note(packet)
        frames.append((packet.time, octets_of(packet)))
    PcapWriter(file).write(frames)
    file.seek(0)
    return file, list(truth.records())


def without_acks(packets: Iterable[TcpPacket]) -> list[TcpPacket]:
    """What is captured where nothing of the Responder's is but startup."""
    return [p for p in packets if p.half.role == "initiator" or not p.in_operation]


def records_of(report: Report) -> list[dict[str, Any]]:
    (connection,) = report.connections
    return [fpdu.as_dict() for half in (connection.initiator, connection.responder) for fpdu in half.fpdus]


def findings_of(report: Report) -> dict[str, Finding]:
    """By rule, without what is said of how segments lie."""
    return {f.rule.id: f for f in report.all_findings() if not f.rule.id.startswith("alignment")}


def frame_of_the_damage(packets: Iterable[TcpPacket]) -> int:
    return next(frame for frame, packet in enumerate(packets, 1) if packet.damage)


@each
@pytest.mark.parametrize("has_acks", [True, False], ids=["acknowledged", "one-way"])
def test_what_was_dropped_and_came_again_is_good(case: Case, has_acks: bool) -> None:
    packets, number = spoiled(case)
    if not has_acks:
        packets = without_acks(packets)
    file, truth = capture(packets)
    report = analyze(file)
    assert records_of(report) == truth
    assert all(record["crc"] == "good" and not record["after_error"] for record in truth)
    assert all(record["delivered_frame"] is not None for record in truth)
    (finding,) = findings_of(report).values()
    assert (finding.rule.id, finding.count) == ("crc-dropped", 1)
    # It names the frame that was dropped, and the one that made the FPDU good.
    damaged = frame_of_the_damage(packets)
    assert finding.frame in truth[number]["frames"] and finding.frame > damaged
    assert f"frame {damaged} carried" in finding.detail and f"frame {finding.frame} with a good one" in finding.detail


@each
def test_records_in_order_of_placement_have_it_once_and_good(case: Case) -> None:
    file, truth = capture(spoiled(case)[0])
    found = [fpdu.as_dict() for fpdu in iter_fpdus(file)]
    assert sorted((r["direction"], r["seq"], r["placed_frame"], r["crc"]) for r in found) == sorted(
        (r["direction"], r["seq"], r["placed_frame"], r["crc"]) for r in truth
    )


# Nothing behind a hole is acknowledged before it is closed.
@pytest.mark.parametrize("case", [case for case in CASES if case.order != "behind a hole"], ids=str)
def test_what_was_acknowledged_before_stays_bad(case: Case) -> None:
    """The receiver took the damaged segment: code 2, and what comes later for the same octets is dropped."""
    packets, number = spoiled(case, is_refused=False)
    file, truth = capture(packets)
    report = analyze(file)
    assert records_of(report) == truth
    assert [k for k, record in enumerate(truth) if record["crc"] == "bad"] == [number]
    found = findings_of(report)
    assert {"crc", "overlap"} <= set(found) and "crc-dropped" not in found
    assert (found["crc"].rule.code, found["crc"].count) == (2, 1)
    file.seek(0)
    assert [fpdu.as_dict()["crc"] for fpdu in iter_fpdus(file)].count("bad") == 1


@pytest.mark.parametrize("markers", [0, 1])
def test_what_never_comes_again_is_bad_in_the_end(markers: int) -> None:
    """Nobody acknowledges it; the half connection ends."""
    case = Case(markers, "one", 0)
    packets, number = spoiled(case)
    damaged = next(packet for packet in packets if packet.damage)
    packets = [packet for packet in packets if packet.damage or packet.payload != damaged.payload]
    file, truth = capture(acknowledged(iter(packets)))
    report = analyze(file)
    assert records_of(report) == truth
    assert [k for k, record in enumerate(truth) if record["crc"] == "bad"] == [number]
    assert "crc" in findings_of(report)


def test_a_bad_one_behind_a_bad_one_is_bad_where_it_was_complete() -> None:
    """Though it was not known before the acknowledgement that the length of the first one leads to it."""
    talk = started()
    octets = [bytearray(talk.lay("a", size)) for size in (40, 50, 60, 70)]
    octets[1][9] ^= 1
    octets[2][9] ^= 1
    frames = [talk.say("a", bytes(fpdu)) for fpdu in octets[:3]]
    talk.say("b")
    talk.say("a", bytes(octets[3]))
    (found,) = (finding for finding in only(follow(talk.segments)).findings.sorted() if finding.rule.id == "crc")
    assert (found.count, found.frame, found.last_frame) == (2, frames[1], frames[2])


@pytest.mark.parametrize("markers", [0, 1])
def test_the_copy_that_came_again_comes_once_more(markers: int) -> None:
    """A repeat of what was taken is a repeat."""
    packets, _ = spoiled(Case(markers, "one", 0))
    damaged = next(packet for packet in packets if packet.damage)
    at = max(i for i, p in enumerate(packets) if p.half is damaged.half and p.start == damaged.start and p.payload)
    for behind in (1, 3):
        more = [*packets[: at + behind], packets[at], *packets[at + behind :]]
        file, truth = capture(more)
        report = analyze(file)
        assert records_of(report) == truth
        assert set(findings_of(report)) == {"crc-dropped"}


@pytest.mark.parametrize("markers", [0, 1])
def test_it_is_dropped_twice(markers: int) -> None:
    """What is sent again is damaged as the first was, and comes a third time."""
    packets, number = spoiled(Case(markers, "one", 0))
    at = next(i for i, packet in enumerate(packets) if packet.damage)
    file, truth = capture([*packets[: at + 3], packets[at], *packets[at + 3 :]])
    report = analyze(file)
    assert records_of(report) == truth
    assert len(truth[number]["frames"]) == 1 and {record["crc"] for record in truth} == {"good"}
    assert set(findings_of(report)) == {"crc-dropped"}


def test_by_hand() -> None:
    """Segments of one FPDU each, of which the third is damaged and comes again behind others."""
    packets, number = spoiled(Case(0, "one", 0))
    file, _ = capture(packets)
    damaged = frame_of_the_damage(packets)
    again = [n for n, p in enumerate(packets, 1) if p.start == packets[damaged - 1].start and p.payload][-1]
    records = records_of(analyze(file))
    bad, following = records[number], records[number + 1]
    assert (bad["frames"], bad["placed_frame"], bad["delivered_frame"]) == ([again], again, again)
    # Without Markers nothing behind it is located before it is good.
    assert following["frames"] == [damaged + 1] and following["placed_frame"] == following["delivered_frame"] == again
    assert following["located_by"] == "length"
    packets, number = spoiled(Case(1, "one", 0))
    records = records_of(analyze(capture(packets)[0]))
    following = records[number + 1]
    assert following["located_by"] == "marker" and following["placed_frame"] < following["delivered_frame"]


@pytest.mark.parametrize("markers", [0, 1])
@pytest.mark.parametrize("late", [True, False], ids=["late-reply", "no-startup"])
def test_acknowledged_is_what_had_been_when_the_copy_came(markers: int, late: bool) -> None:
    """Segments that wait, for the Reply or until it is known what they are, were captured when they were."""
    packets, _ = spoiled(Case(markers, "one", 0))
    if late:
        reply = next(packet for packet in packets if packet.payload and packet.half.role == "responder")
        packets = [*(p for p in packets if p is not reply), reply]
    else:
        # Without Markers nothing would locate an FPDU that is bad at first, and the first one of the capture.
        _, places = sent(Case(markers, "one", 0))
        packets = packets[places[2 if markers else 1] :]
    file, truth = capture(packets)
    report = analyze(file)
    assert {record["crc"] for record in truth} == {"good"}
    assert records_of(report) == truth
