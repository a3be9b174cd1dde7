"""Scapy's fuzz() on every layer: it builds, is dissected again, and repeats with the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from scapy.packet import Packet, fuzz
from scapy.volatile import RandInt, RandNum, RandShort

from scapy_mpa import (
    FPDU,
    DDPTagged,
    DDPUntagged,
    FPDUs,
    Marker,
    MPAReply,
    MPARequest,
    RDMAPAtomicRequest,
    RDMAPAtomicResponse,
    RDMAPImmediateData,
    RDMAPReadRequest,
    RDMAPReadResponse,
    RDMAPSend,
    RDMAPTerminate,
    RDMAPWrite,
)
from scapy_mpa.framing import decode_fpdu

TAGGED = (RDMAPWrite, RDMAPReadResponse)
UNTAGGED = (
    RDMAPSend,
    RDMAPReadRequest,
    RDMAPTerminate,
    RDMAPImmediateData,
    RDMAPAtomicRequest,
    RDMAPAtomicResponse,
)
BUILDS = 60


def _under_ddp(message: type[Packet]) -> Packet:
    below: Packet = DDPTagged() if message in TAGGED else DDPUntagged()
    return _over(below, message(), b"payload")


def _over(fpdu: Packet, *layers: Packet | bytes) -> Packet:
    for layer in layers:
        fpdu = fpdu / layer
    return fpdu


LAYERS: dict[str, Callable[[], Packet]] = {
    "request": MPARequest,
    "reply": MPAReply,
    "enhanced": lambda: MPARequest(s=1, rev=2),
    "marker": Marker,
    "tagged": DDPTagged,
    "untagged": DDPUntagged,
    **{message.__name__: partial(_under_ddp, message) for message in (*TAGGED, *UNTAGGED)},
    "terminated": lambda: RDMAPTerminate(ddp_segment_length=30, ddp_header=DDPUntagged()),
    "fpdu": lambda: _over(FPDU(), DDPUntagged(), RDMAPSend(), b"payload"),
    "two": lambda: _over(FPDU(), DDPUntagged(), RDMAPSend(), FPDU(), DDPTagged(), RDMAPWrite()),
    "fpdus": lambda: FPDUs(fpdus=[_over(FPDU(), DDPUntagged(), RDMAPSend()), _over(FPDU(), DDPTagged())]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_fuzz_builds_is_dissected_and_repeats(name: str) -> None:
    def built() -> list[bytes]:
        random.seed(17)
        return [bytes(fuzz(LAYERS[name]())) for _ in range(BUILDS)]

    made = built()
    assert made == built()
    assert len(set(made)) > BUILDS // 2
    cls = type(LAYERS[name]())
    for octets in made:
        packet = cls(octets)
        assert bytes(packet) == octets
        assert packet.show(dump=True)
        packet.summary()


@pytest.mark.parametrize("marker_offset", [None, 0, 100, 508])
@pytest.mark.parametrize("message", [*TAGGED, *UNTAGGED])
def test_what_an_fpdu_computes_stays_right(message: type[Packet], marker_offset: int | None) -> None:
    """fuzz() leaves alone what is None: ULPDU_Length, PAD, Markers and CRC follow what it draws."""
    random.seed(5)
    for _ in range(20):
        octets = bytes(fuzz(_over(FPDU(marker_offset=marker_offset), _under_ddp(message), bytes(600))))
        fpdu = decode_fpdu(octets, None if marker_offset is None else -marker_offset % 512)
        assert fpdu is not None
        assert fpdu.wire_length == len(octets)
        assert fpdu.crc_good
        assert bytes(FPDU(octets, marker_offset=marker_offset)) == octets


@pytest.mark.parametrize(
    "fields",
    [
        lambda: {"ulpdu_length": RandShort()},
        lambda: {"crc": RandInt()},
        lambda: {"marker_offset": RandNum(0, 508)},
        lambda: {"marker_offset": 0, "markers": [fuzz(Marker())]},
        lambda: {"marker_offset": 0, "markers": [Marker(fpduptr=RandShort())]},
    ],
)
def test_what_is_computed_can_be_drawn_too(fields: Callable[[], dict[str, Any]]) -> None:
    def built() -> list[bytes]:
        random.seed(23)
        return [bytes(_over(FPDU(b"", **fields()), DDPUntagged(), RDMAPSend(), bytes(700))) for _ in range(BUILDS)]

    made = built()
    assert made == built()
    assert len(set(made)) > BUILDS // 2
