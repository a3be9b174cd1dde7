"""A TCP connection laid frame by frame, as fast as may be: what floods are made of."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Literal

from scapy_mpa.craft.packets import ACK, FIN, RST, SYN, Endpoint, FrameMaker
from scapy_mpa.framing.startup import startup_frame

Side = Literal["a", "b"]
_MASK = 0xFFFFFFFF
_MAC = b"\x02\0\0\0\0\x01"


class Flow:
    """One TCP connection; ``a`` is the Initiator.

    ``frames`` grow; ``at`` is the sequence number of the first octet of Full Operation of each side, ``first`` that of
    its SYN.
    """

    def __init__(
        self, number: int = 0, frames: list[bytes] | None = None, *, first: tuple[int, int] = (1000, 5000)
    ) -> None:
        self.frames = [] if frames is None else frames
        client = Endpoint(f"10.{number >> 24 & 255}.{number >> 16 & 255}.1", 1024 + number % 60000, _MAC)
        server = Endpoint("10.255.0.2", 7471, _MAC)
        self._makers = {"a": FrameMaker(client, server), "b": FrameMaker(server, client)}
        self._next = {"a": first[0], "b": first[1]}
        self.at = dict(self._next)

    def put(self, side: Side, seq: int, payload: bytes = b"", *, flags: int = ACK, ack: int | None = None) -> None:
        """Capture a segment of ``side`` at a sequence number."""
        ack = self._next["b" if side == "a" else "a"] if ack is None else ack
        frame = self._makers[side].frame(payload, seq=seq & _MASK, ack=ack & _MASK, flags=flags, window=512)
        self.frames.append(frame)

    def say(self, side: Side, payload: bytes = b"", *, flags: int = ACK) -> None:
        """Send the next payload of ``side``."""
        seq = self._next[side]
        self._next[side] = seq + len(payload) + bool(flags & (SYN | FIN)) & _MASK
        self.put(side, seq, payload, flags=flags)

    def open(self) -> Flow:
        """SYN, SYN and ACK, ACK."""
        self.say("a", flags=SYN)
        self.say("b", flags=SYN | ACK)
        self.say("a")
        return self

    def start(self, *, markers: bool = False, crc: bool = False, request: bool = True, reply: bool = True) -> Flow:
        """The startup frames; without one of them, the capture has not seen it."""
        for side, kind, seen in (("a", "request", request), ("b", "reply", reply)):
            frame = startup_frame(kind, m=markers, c=crc).encode()  # type: ignore[arg-type]
            if seen:
                self.say(side, frame)  # type: ignore[arg-type]
            else:
                self._next[side] += len(frame)
        self.at = dict(self._next)
        return self

    def bring(self, side: Side, octets: bytes, cuts: Iterable[tuple[int, int]]) -> Flow:
        """Segments [start, end) of ``octets``, which begin Full Operation, in any order."""
        for start, end in cuts:
            self.put(side, self.at[side] + start, octets[start:end])
        return self

    def reset(self) -> Flow:
        """RST."""
        self.say("a", flags=RST | ACK)
        return self


def file_of(frames: Iterable[bytes], *, link_type: int = 1) -> bytes:
    """A pcap file of frames, a microsecond apart."""
    made = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link_type)]
    for number, frame in enumerate(frames):
        made.append(struct.pack("<4I", number // 1_000_000, number % 1_000_000, len(frame), len(frame)) + frame)
    return b"".join(made)


def cuts_of(length: int, size: int) -> list[tuple[int, int]]:
    """Segments of so many octets each."""
    return [(at, min(at + size, length)) for at in range(0, length, size)]
