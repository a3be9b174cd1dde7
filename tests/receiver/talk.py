"""A TCP connection written down segment by segment, as a tap captures it."""

from __future__ import annotations

from scapy_mpa.values.segment import Segment
from tests.receiver.conversations import ADDRESSES
from tests.receiver.wire import ACK, FPDU, SYN, TCPSegment, encode_fpdu, encode_tcp, send, startup_frame

#: The number of the first octet of Full Operation, relative to the ISS: a startup frame without Private Data precedes.
BEGIN = 21
#: A Reply with R.
REJECTION = b"MPA ID Rep Frame" + bytes((0x20, 1, 0, 0))
MILLISECOND = 10**6


class Talk:
    """Segments of one pair of ports, a millisecond apart; numbers are relative to the ISS of their side.

    Attributes:
        segments: what was captured so far.
        time: when the next one is captured, nanoseconds.
    """

    def __init__(self, iss: tuple[int, int] = (1000, 9000), ports: tuple[int, int] = (40_000, 7471)) -> None:
        self.iss, self.ports = iss, ports
        self.segments: list[Segment] = []
        self.time = 0

    def put(
        self, side: int, seq: int, payload: bytes = b"", flags: int = ACK, *, ack: int = BEGIN, window: int = 65535,
        timestamps: tuple[int, int] | None = None, sacks: tuple[tuple[int, int], ...] = (), shift: int | None = None,
        checksum_error: int = 0, missing: int = 0,
    ) -> Talk:  # fmt: skip
        """Capture a segment; `missing` octets of its payload are cut off."""
        segment = TCPSegment(
            side, seq, ack, flags, window, payload, timestamps, sacks, shift=shift, checksum_error=checksum_error
        )
        key, number, acknowledged, octets, header = encode_tcp(segment, self.iss, ADDRESSES, self.ports)
        view = memoryview(octets)[: len(octets) - missing]
        self.time += MILLISECOND
        frame = len(self.segments) + 1
        self.segments.append(
            Segment(frame, self.time, key, number, acknowledged, flags, view, header, len(view), 0, len(payload))
        )
        return self

    def pause(self, nanoseconds: int) -> Talk:
        """Let time pass."""
        self.time += nanoseconds
        return self

    def open(self, shift: int | None = None, window: int = 65535) -> Talk:
        """Capture the handshake; `window` is the Responder's."""
        self.put(0, 0, flags=SYN, ack=0, shift=shift)
        self.put(1, 0, flags=SYN | ACK, ack=1, shift=shift, window=window)
        return self.put(0, 1, ack=1)

    def start(self, *, markers: bool = False, crc: bool = True, window: int = 65535) -> Talk:
        """Capture both startup frames; `window` is the Responder's."""
        self.put(0, 1, startup_frame(True, markers=markers, crc=crc), ack=1)
        return self.put(1, 1, startup_frame(False, markers=markers, crc=crc), window=window)

    def bring(self, octets: bytes, size: int, *, at: int = BEGIN, side: int = 0, ack: int = BEGIN) -> Talk:
        """Capture octets in segments of a size, in order."""
        for start in range(0, len(octets), size):
            self.put(side, at + start, octets[start : start + size], ack=ack)
        return self


def stream(*sizes: int, markers: bool = False, crc: bool = True, at: int = 0) -> tuple[bytes, list[FPDU]]:
    """Return Sends with so many octets of payload each, from an offset on, and where their FPDUs lie."""
    octets, fpdus = bytearray(), []
    for number, size in enumerate(sizes, 1):
        payload = bytes(1 + (number + place) % 255 for place in range(min(size, 255))) * (size // 255 + 1)
        encoded, fpdu = encode_fpdu(send(number, payload[:size]), at + len(octets), "Send", markers=markers, crc=crc)
        octets += encoded
        fpdus.append(fpdu)
    return bytes(octets), fpdus


def rejected(count: int, order: str = "in turn") -> Talk:
    """Return a connection with Requests, each of which is rejected; "packed" is all of each side in long segments."""
    request, reply = startup_frame(True, markers=False, crc=False), REJECTION
    talk, length = Talk().open(), 20 * count
    if order == "in turn":
        for at in range(1, 1 + length, 20):
            talk.put(0, at, request, ack=at).put(1, at, reply, ack=at + 20)
        return talk
    size = 20 if order == "Requests first" else 1400
    for side, octets in ((0, request * count), (1, reply * count)):
        talk.bring(octets, size, at=1, side=side, ack=1 + length * side)
    return talk
