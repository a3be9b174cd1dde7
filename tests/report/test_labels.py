"""The fields of FPDUs and startup frames: each octet is in one, Markers or not, whole or cut; values are Scapy's."""

# mypy: disable-error-code="operator, unused-ignore"

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.framing.startup import EnhancedData, startup_frame
from scapy_mpa.layers import (
    DDPTagged,
    DDPUntagged,
    RDMAPAtomicRequest,
    RDMAPAtomicResponse,
    RDMAPImmediateData,
    RDMAPReadRequest,
    RDMAPSend,
    RDMAPTerminate,
    RDMAPWrite,
)
from scapy_mpa.report.fields import Field
from scapy_mpa.report.labels import StreamReading, fpdu_fields, startup_fields, unknown_fields

START = 4_294_967_000
ORIGIN: Any = {name: profile.fpduptr_origin for name, profile in PROFILES.items()}

TAGGED = {"T": 1, "L": 1, "Rsvd": 0, "DV": 1, "RV": 1, "Rsv": 0, "STag": 0xABCD, "TO": 0x1_0000_0002}
UNTAGGED = {"T": 0, "L": 1, "Rsvd": 0, "DV": 1, "RV": 1, "Rsv": 0, "MSN": 9, "MO": 0}
D = DDPUntagged(msn=9)
TERMINATED = {f"terminated {name}": value for name, value in UNTAGGED.items()}
MESSAGES = {
    "RDMA Write": (DDPTagged(stag=0xABCD, to=0x1_0000_0002) / RDMAPWrite() / b"abc", TAGGED | {"Opcode": 0}),
    "Send": (D / RDMAPSend() / b"abcd", UNTAGGED | {"QN": 0, "RsvdULP": 0, "Opcode": 3}),
    "Send with Invalidate": (
        DDPUntagged(msn=9, opcode=4, rsvdulp=0x77) / RDMAPSend(),
        UNTAGGED | {"QN": 0, "Invalidate STag": 0x77, "Opcode": 4},
    ),
    "RDMA Read Request": (
        D / RDMAPReadRequest(sink_stag=1, sink_to=2, read_message_size=3, source_stag=4, source_to=5),
        UNTAGGED
        | {"QN": 1, "RsvdULP": 0, "Opcode": 1, "Sink STag": 1, "Sink TO": 2, "Read Message Size": 3}
        | {"Source STag": 4, "Source TO": 5},
    ),
    "a Read Request with more behind it": (
        D / RDMAPReadRequest(source_to=5) / b"four",
        UNTAGGED
        | {"QN": 1, "RsvdULP": 0, "Opcode": 1, "Sink STag": 0, "Sink TO": 0, "Read Message Size": 0}
        | {"Source STag": 0, "Source TO": 5},
    ),
    "Terminate": (
        D / RDMAPTerminate(layer=2, etype=0, code=3),
        UNTAGGED
        | {
            "QN": 2,
            "RsvdULP": 0,
            "Opcode": 7,
            "Layer": 2,
            "EType": 0,
            "Code": 3,
            "M": 0,
            "D": 0,
            "R": 0,
            "Reserved": 0,
        },
    ),
    "Terminate of siw": (
        D / RDMAPTerminate(layer=1, etype=2, code=2, layout="siw", ddp_segment_length=44, ddp_header=D / RDMAPSend()),
        UNTAGGED
        | {"QN": 2, "RsvdULP": 0, "Opcode": 7, "Layer": 1, "EType": 2, "Code": 2, "M": 1, "D": 1, "R": 0, "Reserved": 0}
        | {"DDP Segment Length": 44, "terminated RsvdULP": 0, "terminated QN": 0, "terminated Opcode": 3}
        | TERMINATED,
    ),
    "Atomic Request": (
        D / RDMAPAtomicRequest(aopcode=2, request_id=7, remote_stag=8, remote_to=9, compare_data=10),
        UNTAGGED
        | {"QN": 1, "RsvdULP": 0, "Opcode": 10, "Reserved": 0, "AOpCode": 2, "Request ID": 7, "Remote STag": 8}
        | {"Remote TO": 9, "Add Swap Data": 0, "Add Swap Mask": 0, "Compare Data": 10, "Compare Mask": 0},
    ),
    "Atomic Response": (
        D / RDMAPAtomicResponse(original_request_id=7, original_remote_data_value=1 << 40),
        UNTAGGED
        | {"QN": 3, "RsvdULP": 0, "Opcode": 11, "Original Request ID": 7, "Original Remote Data Value": 1 << 40},
    ),
    "Immediate Data": (
        D / RDMAPImmediateData(immediate_data=b"12345678"),
        UNTAGGED | {"QN": 0, "RsvdULP": 0, "Opcode": 8, "Immediate Data": b"12345678".hex()},
    ),
}


def stream(markers: bool = True, *, crc: bool = True, profile: str = "rfc5044") -> StreamReading:
    return StreamReading(START if markers else None, crc, PROFILES[profile])


def seq_at(offset: int) -> int:
    return (START + offset) % 2**32


def tiles(fields: list[Field], length: int) -> bool:
    """Every octet belongs to one field."""
    at = 0
    for field in fields:
        if field.offset != at or field.length < 1:
            return False
        at += field.length
    return at == length


def values(fields: list[Field], *layers: str) -> dict[str, object]:
    return {
        part.name: part.value
        for field in fields
        if field.layer in layers and not field.continued
        for part in field.parts
    }


def joined(fields: list[Field], octets: bytes, layer: str, name: str = "") -> bytes:
    return b"".join(
        octets[field.offset : field.offset + field.length]
        for field in fields
        if field.layer == layer and (not name or field.name == name)
    )


@pytest.mark.parametrize("offset", [None, 0, 4, 256, 480, 488, 492, 496, 500, 504, 508])
@pytest.mark.parametrize("name", MESSAGES)
def test_messages_wherever_a_marker_falls(name: str, offset: int | None) -> None:
    message, expected = MESSAGES[name]
    octets = encode_fpdu(bytes(message), offset)
    fields = fpdu_fields(octets, seq_at(offset or 0), stream(offset is not None))
    assert tiles(fields, len(octets))
    assert values(fields, "DDP", "RDMAP") == expected
    assert values(fields, "MPA")["ULPDU_Length"] == len(bytes(message))
    assert {field.severity for field in fields} <= ({None, "warning"} if "siw" in name else {None})
    payload = bytes(message.lastlayer()) if message.lastlayer().name == "Raw" else b""
    assert joined(fields, octets, "payload") == payload


@pytest.mark.parametrize(
    ("terminate", "said"),
    [
        (RDMAPTerminate(layer=2, etype=0, code=2), "LLP MPA error: CRC does not match"),
        (RDMAPTerminate(layer=0, etype=1, code=2), "RDMAP remote protection error: access rights violation"),
        (
            RDMAPTerminate(layer=2, etype=0, code=2, layout="siw"),
            "LLP MPA error: CRC does not match; laid out from the least significant bit, as Linux siw does",
        ),
    ],
)
def test_a_terminate_says_what_it_means(terminate: Any, said: str) -> None:
    octets = encode_fpdu(bytes(D / terminate))
    (control,) = (field for field in fpdu_fields(octets, 0, stream(False)) if field.name == "Terminate control")
    assert control.label.endswith(f": {said}")


@given(st.integers(0, 3000), st.integers(0, 600), st.sampled_from(["rddp-01", "rfc5044"]), st.data())
def test_any_fpdu_whole_or_cut(length: int, place: int, profile: str, data: st.DataObject) -> None:
    ulpdu = bytes((n * 7) % 251 for n in range(length))
    offset = 4 * place
    octets = encode_fpdu(ulpdu, offset, origin=ORIGIN[profile])
    fields = fpdu_fields(octets, seq_at(offset), stream(profile=profile))
    assert tiles(fields, len(octets))
    markers = [field for field in fields if field.name == "Marker"]
    assert [(field.offset + offset) % 512 for field in markers] == [0] * len(markers)
    assert all(field.severity is None and field.label.endswith("; right") for field in markers)
    assert values(fields, "MPA")["CRC"] == int.from_bytes(octets[-4:], "little")
    assert [field.note for field in fields if field.name == "CRC"] == ["good"]
    assert len(joined(fields, octets, "MPA", "PAD")) == -(length + 2) % 4
    cut = data.draw(st.integers(1, len(octets)))
    assert tiles(fpdu_fields(octets[:cut], seq_at(offset), stream(profile=profile)), cut)


@given(st.binary(min_size=1, max_size=1500), st.integers(0, 0xFFFFFFFF), st.booleans())
def test_any_octets(octets: bytes, seq: int, markers: bool) -> None:
    assert tiles(unknown_fields(octets, seq, stream(markers)), len(octets))
    fields = fpdu_fields(octets, seq, stream(markers))
    end = fields[-1].offset + fields[-1].length
    assert tiles(fields, end) and end <= len(octets)
    assert all(isinstance(field.label, str) for field in fields)


def said(fields: list[Field], name: str) -> list[tuple[str, str | None]]:
    return [(field.note, field.severity) for field in fields if field.name == name]


def test_what_is_wrong_is_said() -> None:
    ulpdu = bytes(D / RDMAPSend() / bytes(1200))
    good = encode_fpdu(ulpdu, 512)
    bad = bytearray(good)
    bad[512 + 3] ^= 0x10
    fields = fpdu_fields(bytes(bad), seq_at(512), stream())
    assert said(fields, "Marker")[1] == (
        f"the FPDU begins {508 ^ 0x10} octets earlier, at sequence {seq_at(1024 - (508 ^ 0x10))}; WRONG, expected 508",
        "error",
    )
    ((crc, severity),) = said(fields, "CRC")
    assert crc.startswith("BAD, the CRC of these octets is 0x") and severity == "error"
    draft = encode_fpdu(ulpdu, 512, origin="first-octet")
    assert said(fpdu_fields(draft, seq_at(512), stream()), "Marker")[1] == (
        (
            f"the FPDU begins 512 octets earlier, at sequence {seq_at(512)}; counted from its first octet, "
            "as in the drafts, expected 508"
        ),
        "warning",
    )
    assert said(fpdu_fields(draft, seq_at(512), stream(profile="rddp-01")), "Marker")[1][1] is None
    padded = encode_fpdu(bytes(D / RDMAPSend() / b"a"), pad=b"\0\0\1")
    assert said(fpdu_fields(padded, 0, stream(False)), "PAD") == [("not zero", "warning")]
    assert said(fpdu_fields(encode_fpdu(b""), 0, stream(False)), "ULPDU_Length")[0][1] == "warning"
    large = encode_fpdu(bytes(64769), allow_oversize=True)
    assert said(fpdu_fields(large, 0, stream(False)), "ULPDU_Length") == [("above the limit of 64768", "error")]
    unused = encode_fpdu(ulpdu, crc=False)
    assert said(fpdu_fields(unused, 0, stream(False, crc=False)), "CRC") == [("not in use", None)]
    assert said(fpdu_fields(good[:600], seq_at(512), stream()), "payload") != []


def test_octets_without_a_located_fpdu_still_show_their_markers() -> None:
    octets = encode_fpdu(bytes(2000), 512)
    fields = unknown_fields(octets[100:], seq_at(612), stream())
    assert [field.offset for field in fields if field.name == "Marker"] == [412, 924, 1436]
    notes = [field.note for field in fields if field.name == "Marker"]
    assert notes[0] == f"an FPDU begins 508 octets earlier, at sequence {seq_at(516)}"


def test_startup_frames() -> None:
    enhanced = EnhancedData(1, 0, 1, 1, 5, 0x3FFF)
    frame = startup_frame("reply", m=1, c=1, r=1, enhanced=enhanced, private_data=b"ulp")
    fields = startup_fields(frame.encode(), frame)
    assert tiles(fields, len(frame.encode()))
    assert [field.label for field in fields] == [
        "Key MPA ID Rep Frame (MPA Reply)",
        (
            "flags: M 1 (requires Markers in what it receives), C 1 (prefers CRCs), R 1 (rejected), "
            "S 1 (enhanced data follows), Res 0"
        ),
        "Rev 2",
        "PD_Length 7",
        "enhanced data: A 1 (peer-to-peer), B 0, IRD 5",
        (
            "enhanced data: C 1 (RTR by zero-length RDMA Write), D 1 (RTR by zero-length RDMA Read), "
            "ORD 16383 (left to the ULP)"
        ),
        "Private Data: 3 octets of the ULP",
    ]
    plain = startup_frame("request", private_data=b"x")
    assert startup_fields(plain.encode(), plain)[-1].label == "Private Data: 1 octet"
