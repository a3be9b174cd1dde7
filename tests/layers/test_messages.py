"""DDP segments and RDMAP messages: the same table built and dissected."""

# mypy cannot follow Scapy's "/" where Python has no typing.Self.
# mypy: disable-error-code="arg-type, attr-defined, comparison-overlap, index, operator, unused-ignore"

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.config import conf
from scapy.layers.inet import IP, TCP
from scapy.packet import Packet, Raw, fuzz, ls

from scapy_mpa.framing import TaggedHeader, decode_ddp, decode_terminate, opcode_name
from scapy_mpa.layers import (
    FPDU,
    DDPTagged,
    DDPUntagged,
    RDMAPAtomicRequest,
    RDMAPReadRequest,
    RDMAPSend,
    RDMAPTerminate,
)
from tests.layers.cases import ULPDUS

IDS = list(ULPDUS)


@pytest.mark.parametrize(("ulpdu", "opcode", "octets"), ULPDUS.values(), ids=IDS)
def test_builds(ulpdu: Packet, opcode: int, octets: str) -> None:
    assert bytes(ulpdu).hex() == octets.replace(" ", "")
    assert ulpdu.opcode == opcode


@pytest.mark.parametrize(("ulpdu", "opcode", "octets"), ULPDUS.values(), ids=IDS)
def test_dissects(ulpdu: Packet, opcode: int, octets: str) -> None:
    packet = FPDU(bytes(FPDU() / ulpdu))
    dissected = packet.payload
    assert [type(layer) for layer in dissected.iterpayloads()] == [type(layer) for layer in ulpdu.iterpayloads()]
    assert bytes(dissected).hex() == octets.replace(" ", "")
    for built, layer in zip(ulpdu.iterpayloads(), dissected.iterpayloads(), strict=True):
        for name in built.fields:
            assert (
                bytes(getattr(layer, name)) == bytes(getattr(built, name))
                if isinstance(getattr(built, name), Packet)
                else getattr(layer, name) == getattr(built, name)
            )


@pytest.mark.parametrize(("ulpdu", "opcode", "octets"), ULPDUS.values(), ids=IDS)
def test_agrees_with_framing(ulpdu: Packet, opcode: int, octets: str) -> None:
    wire = bytes(ulpdu)
    plain = decode_ddp(wire)
    assert plain is not None
    kind = DDPTagged if isinstance(plain, TaggedHeader) else DDPUntagged
    segment = kind(wire)
    names = [name for name in plain._fields if name not in {"last", "payload_length"}]
    assert [getattr(segment, name) for name in names] == [getattr(plain, name) for name in names]
    assert bool(segment.l) == plain.last
    name = opcode_name(wire)
    assert name and (name in segment.summary() or name == "Terminate")
    terminate = decode_terminate(wire)
    if terminate:
        layer = segment[RDMAPTerminate]
        for field in ("layer", "etype", "code", "m", "d", "r", "layout"):
            assert getattr(layer, field) == getattr(terminate, field)
        assert terminate.meaning in segment.summary()


@pytest.mark.parametrize(("ulpdu", "opcode", "octets"), ULPDUS.values(), ids=IDS)
@pytest.mark.parametrize("dissected", [False, True])
def test_scapy_habits(
    ulpdu: Packet, opcode: int, octets: str, dissected: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    packet: Packet = FPDU() / ulpdu
    if dissected:
        packet = FPDU(bytes(packet))
    wire = bytes(packet)
    assert bytes(packet.copy()) == bytes(copy.deepcopy(packet)) == wire
    assert bytes(pickle.loads(pickle.dumps(packet))) == wire
    assert bytes(eval(packet.command(), {**vars(__import__("scapy_mpa.layers").layers), "Raw": Raw})) == wire
    assert packet.summary() in repr([packet.summary()])
    assert "FPDU" in packet.show(dump=True)
    assert f"ulpdu_length= {len(bytes(ulpdu))}\n" in packet.show2(dump=True)
    assert packet.haslayer(type(ulpdu)) and packet[type(ulpdu)] is packet.payload
    assert packet == packet.copy()
    for layer in packet.iterpayloads():
        ls(type(layer))
    assert isinstance(bytes(fuzz(packet)), bytes)
    capsys.readouterr()


def test_modified_after_dissection() -> None:
    packet = FPDU(bytes(FPDU() / DDPUntagged() / RDMAPTerminate(layer=2, code=2, layout="siw")))
    packet[RDMAPTerminate].code = 3
    del packet.crc
    assert packet[RDMAPTerminate].layout == "siw"
    again = FPDU(bytes(packet))
    assert again[RDMAPTerminate].code == 3 and again[RDMAPTerminate].layout == "siw" and again.crc_good


def test_given_flags_of_a_terminate_are_kept() -> None:
    terminate = RDMAPTerminate(m=0, d=0, r=1, ddp_segment_length=1, ddp_header=DDPTagged())
    assert bytes(terminate)[:6].hex() == "000020000001"
    assert bytes(RDMAPTerminate(m=1, d=1, r=1)).hex() == "0000e000"
    # RFC 5040 §4.8: the length must be there with D
    assert bytes(RDMAPTerminate(ddp_header=DDPTagged()))[:6].hex() == "000040000000"


MALFORMED = [
    # ULPDU, the layers it has
    ("", ["FPDU"]),
    ("41", ["FPDU", "Raw"]),
    ("c1", ["FPDU", "Raw"]),
    ("c140" + "00" * 11, ["FPDU", "Raw"]),
    ("4143" + "00" * 15, ["FPDU", "Raw"]),
    ("4143" + "00" * 16, ["FPDU", "DDPUntagged", "RDMAPSend"]),
    ("4141" + "00" * 16, ["FPDU", "DDPUntagged"]),
    ("4141" + "00" * 43, ["FPDU", "DDPUntagged", "Raw"]),
    ("4141" + "00" * 44, ["FPDU", "DDPUntagged", "RDMAPReadRequest"]),
    ("4141" + "00" * 48, ["FPDU", "DDPUntagged", "RDMAPReadRequest", "Raw"]),
    ("4147" + "00" * 19, ["FPDU", "DDPUntagged", "Raw"]),
    ("4147" + "00" * 16 + "0000e000", ["FPDU", "DDPUntagged", "RDMAPTerminate"]),
    ("4147" + "00" * 16 + "0000e00000", ["FPDU", "DDPUntagged", "RDMAPTerminate", "Raw"]),
    ("4147" + "00" * 16 + "0000e0000012" + "4143" + "00" * 15, ["FPDU", "DDPUntagged", "RDMAPTerminate", "Raw"]),
    ("4147" + "00" * 16 + "0000e0000012" + "4143" + "00" * 20, ["FPDU", "DDPUntagged", "RDMAPTerminate", "Raw"]),
    ("4148" + "00" * 23, ["FPDU", "DDPUntagged", "Raw"]),
    ("414a" + "00" * 67, ["FPDU", "DDPUntagged", "Raw"]),
    ("414b" + "00" * 27, ["FPDU", "DDPUntagged", "Raw"]),
    ("414f" + "00" * 20, ["FPDU", "DDPUntagged", "Raw"]),  # no such opcode
    ("4140" + "00" * 20, ["FPDU", "DDPUntagged", "Raw"]),  # an RDMA Write that is not tagged
    ("c143" + "00" * 20, ["FPDU", "DDPTagged", "Raw"]),  # a Send that is
]


@pytest.mark.parametrize(("ulpdu", "layers"), MALFORMED)
def test_malformed_is_raw_at_the_right_place(ulpdu: str, layers: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conf, "debug_dissector", True)
    octets = bytes(FPDU() / bytes.fromhex(ulpdu))
    packet = FPDU(octets)
    assert [type(layer).__name__ for layer in packet.iterpayloads()] == layers
    assert bytes(packet) == octets


@given(st.data())
def test_mutated_octets_are_dissected_and_kept(data: st.DataObject) -> None:
    ulpdu = bytearray(bytes(data.draw(st.sampled_from(list(ULPDUS.values())))[0]))
    for _ in range(data.draw(st.integers(0, 4))):
        ulpdu[data.draw(st.integers(0, len(ulpdu) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(ulpdu[: data.draw(st.integers(1, len(ulpdu)))])
    before, conf.debug_dissector = conf.debug_dissector, True
    try:
        for cls in (DDPTagged, DDPUntagged, RDMAPTerminate, RDMAPReadRequest, RDMAPAtomicRequest, FPDU):
            packet = cls(cut)
            assert bytes(packet) == cut
            packet.show(dump=True), packet.show2(dump=True), packet.summary(), packet.command()
            for layer in packet.iterpayloads():  # whatever was read is also what is built
                layer.clear_cache()
            assert bytes(packet) == cut
    finally:
        conf.debug_dissector = before


def test_one_line() -> None:
    packet = IP() / TCP() / FPDU(marker_offset=0) / DDPUntagged(msn=7) / RDMAPSend() / b"x"
    line = FPDU(bytes(packet[FPDU]), marker_offset=0).summary()
    assert line == "FPDU 19 octets, 1 Marker / DDP QN 0 MSN 7 MO 0 / Send / Raw"
    assert packet.summary().startswith("IP / TCP 127.0.0.1:")


ANSWERS = [
    ("read request", "read response", True),
    ("read response", "read request", False),
    ("atomic request", "atomic response", True),
    ("send", "send with SE", True),
    ("write", "send", True),
    ("send", "write", False),
    ("send", "atomic response", False),
    ("write", "immediate data", True),
    *((name, "terminate", True) for name in ULPDUS),
]


@pytest.mark.parametrize(("question", "answer", "answers"), ANSWERS)
def test_what_answers_what(question: str, answer: str, answers: bool) -> None:
    asked, told = FPDU() / ULPDUS[question][0], FPDU(bytes(FPDU() / ULPDUS[answer][0]))
    assert bool(told.answers(asked)) is answers
    assert told.hashret() == asked.hashret()
    assert (FPDU() / b"").answers(FPDU() / b"") and not told.answers(IP())


@pytest.mark.parametrize(
    ("field", "value", "answers"), [("stag", 2, 0), ("to", 1, 0), ("to", 5, 1), ("to", 6, 0), ("stag", 1, 1)]
)
def test_a_read_response_goes_where_the_request_said(field: str, value: int, answers: int) -> None:
    response = FPDU() / ULPDUS["read response"][0].copy()
    response[DDPTagged].setfieldval(field, value)
    assert response.answers(FPDU() / ULPDUS["read request"][0]) == answers
