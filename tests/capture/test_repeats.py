"""One capture that holds each packet twice: it says what the same capture says with each packet once."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa import Report, analyze
from scapy_mpa.capture.files import Captures
from tests.capture.convert import LINKS, Record, recorded
from tests.capture.frames import capture, with_vlans
from tests.capture.test_twice import MS, renamed, unnamed
from tests.conftest import captures, named

#: Captures of hosts that number their packets, and none that has copies of its own.
PLAIN = ("siw-rping", "siw-crc-rping", "markers-aligned", "siw-terminate", "siw-peer-to-peer", "siw-nvme")


def made(records: list[Record], link_type: int = 1) -> bytes:
    packets, wires = [(time, octets) for time, octets, _ in records], [wire for _, _, wire in records]
    return capture(packets, link_type=link_type, unit=1, wire_lengths=wires)


def routed(octets: bytes) -> bytes:
    """Behind a router: other addresses of Ethernet, a smaller TTL, and the checksum that follows from it."""
    total = int.from_bytes(octets[24:26], "big") + 0x100
    checksum = (total & 0xFFFF) + (total >> 16)
    return (
        bytes(range(12))
        + octets[12:22]
        + bytes([octets[22] - 1])
        + octets[23:24]
        + checksum.to_bytes(2, "big")
        + octets[26:]
    )


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "the same": bytes,
    "a router between": routed,
    "a tag added": lambda octets: with_vlans(octets, (0x8100, 7)),
}


def doubled(records: list[Record], change: Callable[[bytes], bytes] = bytes, later: int = 3000) -> list[Record]:
    """Each packet, and a copy a little later, in the order of capture."""
    copies = [(time + later, change(octets), wire) for time, octets, wire in records]
    return sorted([*records, *copies], key=lambda one: one[0])


def said(report: Report) -> list[dict[str, Any]]:
    """Return what a report says about connections, except for frames."""
    halves = [(one, half) for one in report.connections for half in (one.initiator, one.responder)]
    return [
        {
            "counts": half.counts.as_dict(),
            "fpdus": [(row.seq, row.crc) for row in half.fpdus],
            "ended": one.lifecycle.ended,
        }
        for one, half in halves
    ]


def rules(report: Report) -> set[str]:
    return {one.rule.id for one in (*report.findings, *(f for c in report.connections for f in c.findings))}


@pytest.mark.parametrize("later", [0, 3000, 900_000])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", PLAIN)
def test_each_packet_twice(name: str, change: str, later: int) -> None:
    of = recorded(named(name))
    ip = [one for one in of.records if one[1][12:14] == b"\x08\x00"]
    once, twice = (analyze(io.BytesIO(made(records))) for records in (ip, doubled(ip, CHANGES[change], later)))
    assert said(twice) == said(once)
    assert rules(twice) - rules(once) == {"capture-twice"}
    (note,) = (one for one in twice.findings if one.rule.id == "capture-twice")
    assert note.count == len([one for one in ip if one[1][23] == 6])


def test_without_identification() -> None:
    """Nearly all packets come twice, so nothing is said of those that are sent again."""
    of = recorded(named("siw-crc-rping"))
    ip = [(time, unnamed(octets), wire) for time, octets, wire in of.records if one_is_ip(octets)]
    once, twice = analyze(io.BytesIO(made(ip))), analyze(io.BytesIO(made(doubled(ip))))
    assert said(twice) == said(once) and rules(twice) - rules(once) == {"capture-twice"}


def one_is_ip(octets: bytes) -> bool:
    return octets[12:14] == b"\x08\x00"


@pytest.mark.parametrize("change", [renamed, bytes])
@pytest.mark.parametrize("every", [3, 10])
def test_what_is_sent_again_or_doubled_by_the_network_stays(change: Callable[[bytes], bytes], every: int) -> None:
    """Only some packets come twice: with an identification of their own, or as a network doubles them."""
    of = recorded(named("siw-crc-rping"))
    ip = [one for one in of.records if one_is_ip(one[1])]
    some = [(time + 2000, change(octets), wire) for time, octets, wire in ip[4::every]]
    report = analyze(io.BytesIO(made(sorted([*ip, *some], key=lambda one: one[0]))))
    assert "capture-twice" not in rules(report)
    octets = [one for one in some if len(one[1]) > 66]
    again = sum(
        half.counts.retransmitted_segments
        for half in (report.connections[0].initiator, report.connections[0].responder)
    )
    assert again == len(octets)


@pytest.mark.parametrize("lost", [4, 5, 7])
def test_a_mirror_that_loses_copies(lost: int) -> None:
    """Each copy that is there is taken for one, but for the first ones, before which little is known."""
    of = recorded(named("siw-crc-rping"))
    ip = [one for one in of.records if one_is_ip(one[1])]
    copies = [one for at, one in enumerate(ip) if at % lost]
    some = [(time + 2000, octets, wire) for time, octets, wire in copies]
    report = analyze(io.BytesIO(made(sorted([*ip, *some], key=lambda one: one[0]))))
    (note,) = (one for one in report.findings if one.rule.id == "capture-twice")
    assert note.count >= len(copies) - 2
    assert said(report) == said(analyze(io.BytesIO(made(ip))))


def test_acknowledgements_alone_are_no_copies() -> None:
    """What has neither octets nor an identification comes again at once, too, where nothing else does."""
    of = recorded(named("siw-crc-rping"))
    bare = [(time, unnamed(octets), wire) for time, octets, wire in of.records if one_is_ip(octets)]
    acks = [one for one in bare if len(one[1]) == 66][:1] * 20
    report = analyze(
        io.BytesIO(made([(time + 1000 * at, octets, wire) for at, (time, octets, wire) in enumerate(acks)]))
    )
    assert acks and "capture-twice" not in rules(report)


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_no_shipped_capture_has_copies(path: Path) -> None:
    with Captures(path) as opened:
        kept = sum(len(batch) for batch in opened.batches())
    with Captures(path) as opened:
        assert sum(len(batch) for batch in opened.batches(copies=True)) == kept
        assert "capture-twice" not in {note.rule for note in opened.notes}


def test_far_behind_the_beginning() -> None:
    """Copies that begin after others: they are found now and then, from there on they count once."""
    of = recorded(named("siw-crc-rping"))
    ip = [one for one in of.records if one_is_ip(one[1])]
    span = ip[-1][0] - ip[0][0] + 1000 * MS
    many = [(time + n * span, octets, wire) for n in range(900) for time, octets, wire in ip]
    report = analyze(io.BytesIO(made([*many[:5000], *doubled(many[5000:])])), fpdus=False)
    (note,) = (one for one in report.findings if one.rule.id == "capture-twice")
    assert 1000 < note.count <= len(many) - 5000


def test_any_link() -> None:
    of = LINKS["sll2"](named("siw-rping"))
    once, twice = (analyze(io.BytesIO(made(one, of.link_type))) for one in (of.records, doubled(of.records)))
    assert said(once) == said(twice)
