"""A capture made over: what its MPA connections carry, sent again with Markers.

The ULPDUs of both directions are laid anew by craft's stream layer, M set in both startup frames, and cut into segments
of an Ethernet, one direction after the other at the places where they took turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scapy_mpa.craft.packets import ACK, PSH, SYN, Endpoint, FrameMaker
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.role import ROLES
from scapy_mpa.reading.found import FoundFPDUs
from scapy_mpa.report.connection import Connection

_EMSS = 1448
_WINDOW = 65535
_BEGIN = 1_700_000_000_000_000_000


class _Side:
    """One direction."""

    def __init__(self, connection: Connection, direction: str, number: int) -> None:
        self.direction = direction
        half = connection.initiator if direction == "initiator" else connection.responder
        source, destination = (_endpoint(half.key, index) for index in (0, 1))
        self.frames = FrameMaker(source, destination)
        self.stream = HalfStream(Dialect(True, connection.crc))
        self.seq = 1000 * (number + 1)

    def send(self, payload: bytes, peer: _Side, flags: int = PSH | ACK) -> Iterator[bytes]:
        for at in range(0, max(1, len(payload)), _EMSS):
            piece = payload[at : at + _EMSS]
            yield self.frames.frame(piece, seq=self.seq, ack=peer.seq, flags=flags, window=_WINDOW)
            self.seq += len(piece)


def _endpoint(key: bytes, index: int) -> Endpoint:
    address = ".".join(map(str, key[4 * index : 4 * index + 4]))
    port = int.from_bytes(key[8 + 2 * index : 10 + 2 * index], "big")
    return Endpoint(address, port, bytes([2, 0, 0, 0, 0, index]))


def with_markers(capture: Path, out: Path) -> int:
    """Write the only MPA connection (IPv4) of a capture with Markers in both directions; returns how many FPDUs."""
    with FoundFPDUs(str(capture)) as found, out.open("wb") as file:
        (connection,) = found.report.connections
        sides = {direction: _Side(connection, direction, number) for number, direction in enumerate(ROLES)}
        initiator, responder = sides["initiator"], sides["responder"]
        count = 0

        def packets() -> Iterator[bytes]:
            nonlocal count
            for side, peer, flags in ((initiator, responder, SYN), (responder, initiator, SYN | ACK)):
                yield from side.send(b"", peer, flags)
                side.seq += 1
            assert connection.request is not None and connection.reply is not None
            yield from initiator.send(connection.request._replace(m=1).encode(), responder)
            yield from responder.send(connection.reply._replace(m=1).encode(), initiator)
            for one in found:
                count += 1
                side = sides[one.record.direction]
                octets, _ = side.stream.lay([one.decoded.ulpdu])
                yield from side.send(octets, responder if side is initiator else initiator)

        PcapWriter(file).write((_BEGIN + number * 1000, frame) for number, frame in enumerate(packets()))
    return count
