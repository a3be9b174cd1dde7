"""Conversations in which one startup frame is wrong, in one field or by its lengths, and its peer takes it.

Both sides acknowledge every segment, so the capture shows how much of a frame its peer had when it went on.  FPDUs are
written by `conversing`, from RFC 5044; nothing of the package is used.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import NamedTuple

from tests.receive.conversing import ACK, FIN, SYN, Captured, Plan, Seg, lay_fpdu, pcap_of, send_message

KEYS = b"MPA ID Req Frame", b"MPA ID Rep Frame"
#: What is sent behind the startup frames.
BEHIND = "nothing", "octets", "FPDUs"
_TEXT = b"HELO iwarp.example\r\n250 what is no FPDU, nor anything that a Marker may stand in\r\n" * 3
_SIZES = (60, 300, 90), (120, 30)


class Fault(NamedTuple):
    """What is wrong with a startup frame.

    Attributes:
        name: of the case.
        key: in place of the Key.
        flags: bits that are set beside M and C.
        rev: its revision.
        declared, sent: octets of Private Data by PD_Length, and those there are.
    """

    name: str
    key: bytes | None = None
    flags: int = 0
    rev: int = 1
    declared: int = 0
    sent: int = 0


class Made(NamedTuple):
    """A capture, the frames of the Request and the Reply, and how many FPDUs each side sent."""

    octets: bytes
    frames: tuple[int, int]
    fpdus: tuple[int, int]


def make(fault: Fault, side: int, behind: str, markers: tuple[int, int], crc: bool, opener: int = 0) -> Made:
    """Return the capture in which the startup frame of a side has a fault; ``opener`` sent the SYN.

    Side 0 is the Initiator.
    """
    rng = random.Random(f"{fault.name} {side} {behind} {markers} {crc}")
    private = tuple(rng.randbytes(one) for one in ((fault.sent, 20) if side == 0 else (20, fault.sent)))
    frames = []
    for one in (0, 1):
        key, flags, rev, declared = KEYS[one], 0, 1, len(private[one])
        if one == side:
            key, flags, rev, declared = fault.key or key, fault.flags, fault.rev, fault.declared
        flags |= 0x80 * markers[1 - one] | 0x40 * crc
        frames.append(key + struct.pack("!BBH", flags, rev, declared) + private[one])
    talk = _Talk(opener)
    numbers = talk.say(0, frames[0]), talk.say(1, frames[1])
    fpdus = 0, 0
    if behind == "octets":
        for one in (0, 1):
            talk.say(one, _TEXT)
    elif behind == "FPDUs":
        fpdus = len(_SIZES[0]), len(_SIZES[1])
        for one in (0, 1):
            offset = 0
            for msn, size in enumerate(_SIZES[one], 1):
                octets, laid = lay_fpdu(send_message(msn, size, rng), offset, bool(markers[one]), crc)
                talk.say(one, octets)
                offset = laid.end
    talk.close()
    return Made(pcap_of(talk.captured, Plan(timestamps=False)), numbers, fpdus)


class _Talk:
    """Two sides of a TCP connection; every segment is acknowledged before the next."""

    def __init__(self, opener: int) -> None:
        self.captured: list[Captured] = []
        self.next = [0, 0]
        self._send(opener, b"", SYN)
        self._send(1 - opener, b"", SYN | ACK)
        self._send(opener, b"", ACK)

    def _send(self, side: int, payload: bytes, flags: int) -> int:
        seg = Seg(side, self.next[side], self.next[1 - side], flags, 65535, payload)
        self.next[side] = seg.end
        self.captured.append(Captured(len(self.captured) * 0.001, seg))
        return len(self.captured)

    def say(self, side: int, payload: bytes) -> int:
        """Send octets, in segments of at most 1400; return the frame of the last."""
        number = 0
        for at in range(0, len(payload), 1400):
            number = self._send(side, payload[at : at + 1400], ACK)
            self._send(1 - side, b"", ACK)
        return number

    def close(self) -> None:
        for side in (0, 1):
            self._send(side, b"", FIN | ACK)
        self._send(0, b"", ACK)


def faults(side: int) -> Iterator[Fault]:
    """Yield what may be wrong with the startup frame of a side."""
    own, other = KEYS[side], KEYS[1 - side]
    yield Fault("key-other", other)
    yield Fault("key-case", own.lower())
    yield Fault("key-last-octet", own[:-1] + b"E")
    yield Fault("key-four-octets", b"\0\0\0\0" + own[4:])
    yield Fault("key-blank", own.replace(b" ", b"_"))
    for bit in (0x01, 0x02, 0x04, 0x08, 0x10):
        yield Fault(f"flag-{bit:#04x}", flags=bit)
    for rev in (0, 3, 255):
        yield Fault(f"rev-{rev}", rev=rev)
    if side == 0:
        yield Fault("flag-r", flags=0x20)
    for declared, sent in (
        (0, 1), (1, 0), (0, 4), (4, 0), (20, 19), (20, 21), (20, 16), (20, 24), (0, 100), (100, 0), (200, 100),
        (100, 200), (65535, 0), (65535, 100), (0, 512), (512, 0), (512, 511), (512, 513), (511, 512), (513, 512),
        (513, 513), (65535, 65535), (512, 512),
    ):  # fmt: skip
        yield Fault(f"pd-{declared}-sent-{sent}", declared=declared, sent=sent)
