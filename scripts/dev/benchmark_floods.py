"""Captures with very many connections, the same octets each time.

Each has a handshake, startup frames and three Sends of 20 octets, eight packets in all; ten take turns, and none is
closed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path

from scapy_mpa.craft.packets import ACK, PSH, SYN, Endpoint, FrameMaker
from scapy_mpa.craft.pcapfile import Packet, PcapWriter
from scapy_mpa.craft.ulpdus import send
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.startup import startup_frame

START = 1_700_000_000_000_000_000
STEP = 3_000  # nanoseconds a packet
_PORTS = 1 << 15
_TAKING_TURNS = 10
#: FPDUs of a connection, and packets: its handshake and startup frames are five.
SENDS, PACKETS = 3, 8


def _endpoint(first: str, number: int, port: int) -> Endpoint:
    return Endpoint(str(ipaddress.ip_address(first) + number), port, bytes(6))


_RESPONDER = _endpoint("10.128.0.1", 0, 7471)


def _connection(number: int, fpdus: list[bytes]) -> Iterator[bytes]:
    """The frames of one connection."""
    initiator, responder = _endpoint("10.0.0.1", number // _PORTS, 1024 + number % _PORTS), _RESPONDER
    there, back = FrameMaker(initiator, responder), FrameMaker(responder, initiator)
    request, reply = (startup_frame(kind, c=1).encode() for kind in ("request", "reply"))
    seq, ack = 1000 * number & 0xFFFFFFFF, 7 * number
    window = 0xFFFF
    yield there.frame(b"", seq=seq, ack=0, flags=SYN, window=window)
    yield back.frame(b"", seq=ack, ack=seq + 1, flags=SYN | ACK, window=window)
    yield there.frame(b"", seq=seq + 1, ack=ack + 1, flags=ACK, window=window)
    yield there.frame(request, seq=seq + 1, ack=ack + 1, flags=PSH | ACK, window=window)
    seq, ack = seq + 1 + len(request), ack + 1
    yield back.frame(reply, seq=ack, ack=seq, flags=PSH | ACK, window=window)
    ack += len(reply)
    for fpdu in fpdus:
        yield there.frame(fpdu, seq=seq, ack=ack, flags=PSH | ACK, window=window)
        seq += len(fpdu)


def connections(count: int) -> Iterator[bytes]:
    """The frames of this many connections."""
    fpdus = [encode_fpdu(send(msn, bytes(20))) for msn in range(1, SENDS + 1)]
    for first in range(0, count, _TAKING_TURNS):
        for frames in zip(
            *(_connection(number, fpdus) for number in range(first, min(first + _TAKING_TURNS, count))), strict=True
        ):
            yield from frames


def write(path: Path, frames: Iterator[bytes]) -> None:
    """Write a capture of these frames."""
    packets: Iterator[Packet] = ((START + STEP * number, frame) for number, frame in enumerate(frames))
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb", buffering=1 << 20) as file:
        PcapWriter(file).write(packets)
    partial.replace(path)
