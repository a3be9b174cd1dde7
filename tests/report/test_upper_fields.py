"""What ``show`` says of the layers above RDMAP in a Send."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.packet import Packet

from scapy_mpa.framing.ddp import UNTAGGED_HEADER_LENGTH
from scapy_mpa.layers import DDPUntagged, RDMAPSend
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.report.frame import show_frame
from scapy_mpa.report.hexdump import shown_lines
from scapy_mpa.report.ulpdu import ulpdu_fields
from scapy_mpa.ulp.identify import header_of
from tests.conftest import named
from tests.layers.uppercases import MESSAGES, protocol_of


def ulpdu_of(message: Packet, **fields: Any) -> bytes:
    return bytes(DDPUntagged(**fields) / RDMAPSend() / message)  # type: ignore[operator, unused-ignore]


def fields_of(message: Any, octets: bytes, length: int | None = None) -> list[Any]:
    read_send = partial(header_of, message.protocol, is_from_initiator=message.is_from_initiator)
    return ulpdu_fields(octets, len(octets) if length is None else length, read_send)


def check_tiles(fields: list[Any], length: int) -> None:
    at = 0
    for field in fields:
        assert field.offset == at and field.length > 0
        at += field.length
    assert at == length


@pytest.mark.parametrize("name", MESSAGES)
def test_every_layer(name: str) -> None:
    message, _ = MESSAGES[name]
    octets = ulpdu_of(message)
    fields = fields_of(message, octets)
    check_tiles(fields, len(octets))
    protocol = protocol_of(message)
    found = [field for field in fields if field.layer == protocol]
    assert found[0].offset == UNTAGGED_HEADER_LENGTH and found[0].note
    assert sum(field.length for field in found) == len(message) - len(message.payload)
    # Another segment of the message, and a connection that is not known, have no such fields.
    assert not any(field.layer == protocol for field in fields_of(message, ulpdu_of(message, mo=8)))
    assert not any(field.layer == protocol for field in ulpdu_fields(octets, len(octets)))


@given(st.sampled_from(list(MESSAGES)), st.binary(max_size=120), st.integers(0, 200), st.booleans())
def test_any_octets_of_a_send(name: str, octets: bytes, at: int, last: bool) -> None:
    message, _ = MESSAGES[name]
    plain = ulpdu_of(message, l=int(last))
    mixed = plain[: UNTAGGED_HEADER_LENGTH + at] + octets
    check_tiles(fields_of(message, mixed), len(mixed))
    # The capture cut it.
    check_tiles(fields_of(message, mixed, len(mixed) + 99), len(mixed) + 99)


def test_a_call_of_a_capture() -> None:
    capture = named("siw-nfs4")
    shown = show_frame(analyze(capture), 14)
    (item,) = shown.items
    header, call = item.layer("RPC-over-RDMA"), item.layer("RPC Call")
    assert header is not None and call is not None
    assert (header["XID"], header["Credits"], header["Handle"]) == (0x5EB6CE8E, 128, 0x51321A01)
    assert (call["Program"], call["Pversion"], call["Procedure"]) == (100003, 4, 1)
    text = "\n".join(shown_lines(shown, False))
    assert "RPC-over-RDMA (RFC 8166 §4)" in text and "NFS 4 COMPOUND" in text
    assert "(payload: 292 octets" not in text


def test_a_command_and_its_response_of_a_capture() -> None:
    report = analyze(named("siw-nvme"))
    (command,), (response,) = (show_frame(report, frame).items for frame in (26, 36))
    values, result = command.layer("NVMe-oF"), response.layer("NVMe-oF")
    assert values is not None and result is not None and values["CID"] == result["CID"] == 18
    assert any("Identify" in field.label for field in command.fields)
