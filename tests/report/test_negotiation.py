"""What the report says of the negotiation: the kinds of the two ends, and whether what came out is right."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from scapy_mpa import analyze, craft
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.scenario import load, shipped
from scapy_mpa.framing.startup import EnhancedData, startup_frame
from scapy_mpa.report.connection import Connection, connection_line
from scapy_mpa.watches.fpdus import FIRST_ULPDU_OCTETS
from tests.conftest import PCAPS
from tests.receive.cases import REPLY, REQUEST, Talk

SCENARIOS = Path(craft.__file__).with_name("scenarios")
KINDS = {"RDMAC": "rdmac", "IETF non-permissive": "ietf", "IETF permissive": "ietf-permissive"}


def connections(name: str) -> list[Connection]:
    file = io.BytesIO()
    load(name).traffic(()).write(file)
    file.seek(0)
    return analyze(file).connections


@pytest.mark.parametrize("figure", [15, 16, 17])
def test_each_cell_is_right_and_its_kinds_are_among_those_named(figure: int) -> None:
    name = f"rfc5044-figure-{figure}"
    found = connections(name)
    cells = re.findall(r'title = "(.+ M=\d, .+ M=\d: .*)"', (SCENARIOS / f"{name}.toml").read_text())
    assert len(found) == len(cells)
    for connection, cell in zip(found, cells, strict=True):
        # "IETF permissive M=0, RDMAC M=1: ..."
        sides = re.match(r"(.+?) M=\d, (.+?) M=\d", cell)
        assert sides is not None
        judgement = connection.judgement
        assert KINDS[sides[1]] in judgement.initiator_kinds
        assert KINDS[sides[2]] in judgement.responder_kinds
        assert judgement.permitted
        assert not [found for found in connection.findings if found.severity != "note"]


@pytest.mark.parametrize("name", [name for name in shipped() if "corrupted" not in name])
def test_what_is_crafted_is_right(name: str) -> None:
    for connection in connections(name):
        told = connection.as_dict()["negotiation"]
        assert told is None or told["right"], told


def talked(talk: Talk) -> Connection:
    file = io.BytesIO()
    PcapWriter(file).write((seg.time, bytes(seg.buffer)) for seg in talk.segments)
    file.seek(0)
    (connection,) = analyze(file).connections
    return connection


def ids(connection: Connection) -> set[tuple[str, str]]:
    told = connection.as_dict()["negotiation"]
    assert told is not None
    assert told["right"] is (told["violations"] == [])
    return {(found["id"], found["by"]) for found in told["violations"]}


def enhanced(kind: str, **flags: int) -> bytes:
    data = EnhancedData(ird=4, ord=4, **flags)
    return startup_frame(kind, c=1, rev=2, enhanced=data).encode()  # type: ignore[arg-type]


def test_fpdus_after_a_rejection() -> None:
    talk = Talk().open()
    talk.greet("a", REQUEST)
    talk.greet("b", startup_frame("reply", c=1, r=1).encode())
    connection = talked(talk.close())
    assert connection.rejected
    assert ids(connection) == set()


def test_the_first_fpdu_is_not_the_message_agreed_on() -> None:
    talk = Talk().open()
    talk.greet("a", enhanced("request", a=1, c=1))
    talk.greet("b", enhanced("reply", a=1, c=1))
    talk.operate()
    talk.say("a", talk.lay("a", 50))
    connection = talked(talk)
    assert ids(connection) == {("rtr", "initiator")}
    (found,) = connection.findings
    assert (found.rule.id, found.direction) == ("rtr", "initiator")
    assert found.detail == "the Initiator's first FPDU is not an RTR message; it must be an RTR write"


def test_a_reply_of_another_kind() -> None:
    talk = Talk().open()
    talk.greet("a", enhanced("request", a=1, c=1))
    talk.greet("b", REPLY)
    talk.operate()
    assert ids(talked(talk)) == {("enhanced-reply", "responder")}


def test_more_is_asked_for_than_the_initiator_has() -> None:
    talk = Talk().open()
    talk.greet("a", startup_frame("request", c=1, rev=2, enhanced=EnhancedData(ird=2, ord=2)).encode())
    talk.greet("b", startup_frame("reply", c=1, rev=2, enhanced=EnhancedData(ird=2, ord=9)).encode())
    talk.operate()
    assert ("ird-ord-responder-ord", "responder") in ids(talked(talk))


@pytest.mark.parametrize("markers", ["", "ab"])
@pytest.mark.parametrize("sizes", [(40,), (1, 30), (3000, 20)])
def test_the_first_ulpdu_is_kept_by_either_path(markers: str, sizes: tuple[int, ...]) -> None:
    talk = Talk().open().startup_phase(m=(len(markers) // 2, len(markers) // 2))
    octets = talk.lay("a", *sizes)
    for at in range(0, len(octets), 1400):
        talk.say("a", octets[at : at + 1400])
    in_order = talked(talk)
    late = Talk().open().startup_phase(m=(len(markers) // 2, len(markers) // 2))
    assert late.lay("a", *sizes) == octets
    for at in reversed(range(0, len(octets), 5 if len(octets) < 100 else 700)):
        late.at("a", at, octets[at : at + (5 if len(octets) < 100 else 700)])
    header = 4 if markers else 0
    expected = octets[header + 2 : header + 2 + min(sizes[0], FIRST_ULPDU_OCTETS)]
    assert in_order.initiator.first_ulpdu == expected
    assert talked(late).initiator.first_ulpdu == expected
    assert in_order.responder.first_ulpdu is None


def test_it_is_said_in_the_line_where_it_is_not_plain() -> None:
    (plain,) = analyze(PCAPS / "siw-rping.pcap").connections
    assert "RNICs" not in connection_line(plain)
    # Of what is no RNIC of Figure 14 the line says nothing.
    (old,) = analyze(PCAPS / "siw-rev0.pcap").connections
    assert "RNICs" not in connection_line(old)
    found = connections("rfc5044-figure-16")
    assert "RNICs ietf-permissive/rdmac" in connection_line(found[2])
