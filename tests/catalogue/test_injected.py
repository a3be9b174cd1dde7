"""Of the area attack: what its receiver does not take changes nothing of what is found of the connection itself."""

from __future__ import annotations

import io
from typing import Any

import pytest

from scapy_mpa import analyze
from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.table import CASES
from scapy_mpa.craft.packets import SYN
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of

ATTACKS = [case for case in CASES.values() if case.area == "attack"]
#: A receiver takes what is forged, or nothing shows that it is.
BELIEVED = {"rst-believed", "fin-believed", "late-octets-next-no-timestamps", "syn-with-request"}
#: Forged octets come first, and no CRC says which copy is right: their frame counts as the one that brought them.
FIRST = {name for name in CASES if name.startswith("overlap-") and name.endswith("-first-no-crc")}
#: The same, of octets beside those that differ.
BESIDE = {name for name in CASES if name.startswith("overlap-") and {"head", "tail", "around"} & {*name.split("-")}}


def records(packets: list[TcpPacket]) -> list[dict[str, Any]]:
    file = io.BytesIO()
    PcapWriter(file).write((packet.time, octets_of(packet)) for packet in packets)
    file.seek(0)
    report = analyze(file)
    halves = [half for one in report.connections for half in (one.initiator, one.responder)]
    return [fpdu.as_dict() for half in halves for fpdu in half.fpdus]


def is_forged(packets: list[TcpPacket]) -> list[bool]:
    """Return which packets do not belong to the connection; nor do the challenges that answer them."""
    found, answers = [packet.is_injected for packet in packets], set()
    for at, packet in enumerate(packets[:-1]):
        after = packets[at + 1]
        if packet.is_injected and after.half is packet.half.peer and not after.payload:
            answers.add(at + 1)
    return [forged or at in answers for at, forged in enumerate(found)]


def renumbered(record: dict[str, Any], frames: list[int]) -> dict[str, Any]:
    def number(frame: int | None) -> int | None:
        return None if frame is None else frames[frame - 1]

    return {
        **record,
        "frames": [number(frame) for frame in record["frames"]],
        "placed_frame": number(record["placed_frame"]),
        "delivered_frame": number(record["delivered_frame"]),
    }


@pytest.mark.parametrize(
    "case", [case for case in ATTACKS if case.name not in BELIEVED | FIRST], ids=lambda one: one.name
)
def test_what_is_forged_changes_nothing_of_what_is_found(case: Case) -> None:
    packets = case.plan().sent()
    forged = is_forged(packets)
    assert any(forged)
    real = [number for number, one in enumerate(forged, 1) if not one]
    alone = records([packets[number - 1] for number in real])
    found = records(packets)
    if case.name in BESIDE:
        # Octets beside those that differ came with the forged segment, and count for its frame.
        keys = ("connection", "direction", "seq", "ulpdu_length", "crc", "opcode")
        assert [[one[key] for key in keys] for one in found] == [[one[key] for key in keys] for one in alone]
        assert all(one["placed_frame"] for one in found)
    else:
        assert found == [renumbered(one, real) for one in alone]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("rst-last-in-the-window", -1),
        ("rst-at-the-edge", 0),
        ("octets-last-in-the-window", -4),
        ("octets-at-the-edge", 0),
    ],
)
def test_the_edge_of_the_window(name: str, number: int) -> None:
    """Read off the capture: the highest acknowledgement so far and the window behind it."""
    packets = CASES[name].plan().sent()
    at = next(index for index, packet in enumerate(packets) if packet.is_injected)
    half = packets[at].half
    edges = [
        (packet.ack or 0) + (packet.window << (0 if packet.flags & SYN else 7))
        for packet in packets[:at]
        if packet.half is half.peer and packet.ack is not None
    ]
    assert packets[at].start == max(edges) + number


def test_an_earlier_connection_has_other_numbers_and_older_timestamps() -> None:
    packets = CASES["late-octets-in-the-window"].plan().sent()
    earlier, present = [one for one in packets if one.flags == SYN]
    assert earlier.half is not present.half and present.time > earlier.time
    stamps = [int.from_bytes(packet.options[8:12], "big") for packet in (earlier, present)]
    assert stamps[1] - stamps[0] == 60_000
    assert {packet.half.role for packet in packets if packet.is_injected} == {"initiator"}


def test_both_sides_and_every_order_are_there() -> None:
    assert {case.by for case in ATTACKS} == {"initiator", "responder"}
    assert {case.baseline for case in ATTACKS} >= {"plain", "no-crc"}
    assert len(ATTACKS) > 90
