"""MPA messages as boofuzz requests, out of messages.json beside this file; scapy-mpa fuzz --split writes both.

    from boofuzz import Session, Target, TCPSocketConnection
    from mpa_messages import connect

    session = Session(target=Target(connection=TCPSocketConnection("192.0.2.1", 7471)))
    connect(session)                        # an Initiator's; connect(session, "responder") for the other side
    session.fuzz()

Each session of a capture or scenario is a startup frame, and behind it each of its FPDUs as the first one: PD_Length,
ULPDU_Length, PAD, Markers and CRC follow what is mutated, unless they are mutated themselves (RFC 5044 §4, §7.1.1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from boofuzz import Block, Byte, Bytes, Checksum, DWord, QWord, Request, Size, Static
from crc32c import crc32c

_INTERVAL, _MARKER = 512, 4
_NUMBERS = {1: Byte, 4: DWord, 8: QWord}


def connect(session: Any, role: str = "initiator") -> None:
    """Have a boofuzz session send the messages of one side, each FPDU behind its startup frame."""
    for told in json.loads(Path(__file__).with_name("messages.json").read_text()):
        if told["role"] == role:
            first, fpdus = requests(told)
            session.connect(first)
            for fpdu in fpdus:
                session.connect(first, fpdu)


def requests(told: dict[str, Any]) -> tuple[Request, list[Request]]:
    """The startup frame and the FPDUs of one of the sessions in messages.json."""
    frame = told["startup"]
    private_data = Bytes("octets", bytes.fromhex(frame["private_data"]), max_len=65535)
    startup = Request(
        told["name"],
        children=(
            Bytes("key", bytes.fromhex(frame["key"]), size=16),
            Byte("flags", frame["flags"]),
            Byte("rev", frame["rev"]),
            Size("pd_length", block_name="private_data", length=2, endian=">"),
            Block("private_data", children=(private_data,)),
        ),
    )
    fpdus = []
    for fpdu in told["fpdus"]:
        covered = Block(
            "covered",
            children=(
                Size("ulpdu_length", block_name="ulpdu", length=2, endian=">"),
                Block("ulpdu", children=tuple(_fields(fpdu["fields"]))),
            ),
            encoder=_laid(told["markers"], told["origin"] == "header"),
        )
        crc = (
            Checksum("crc", block_name="covered", algorithm=_crc, length=4) if told["crc"] else Static("crc", bytes(4))
        )
        fpdus.append(Request(f"{told['name']} {fpdu['name']}", children=(covered, crc)))
    return startup, fpdus


def _fields(fields: list[list[str]]) -> Iterator[Any]:
    for name, text in fields:
        octets = bytes.fromhex(text)
        if name == "payload":
            yield Bytes(name, octets, max_len=60000)
        else:
            yield _NUMBERS[len(octets)](name, int.from_bytes(octets, "big"), endian=">")


def _crc(octets: bytes) -> bytes:
    return int(crc32c(octets)).to_bytes(4, "little")


def _laid(markers: bool, from_header: bool) -> Callable[[bytes], bytes]:
    """Adds PAD and the Markers of an FPDU that is the first of its direction, up to the CRC."""

    def lay(octets: bytes) -> bytes:
        octets += bytes(-len(octets) % 4)
        if not markers:
            return octets
        laid = bytearray()
        for at in range(0, len(octets) + 1, _INTERVAL - _MARKER):
            pointer = len(laid) - (_MARKER if laid and from_header else 0)
            laid += pointer.to_bytes(4, "big") + octets[at : at + _INTERVAL - _MARKER]
        return bytes(laid)

    return lay
