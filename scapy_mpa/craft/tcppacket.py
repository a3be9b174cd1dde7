"""A TCP packet as values, before it is octets: what impairments change, what the truth is computed from.

``TcpPacket`` says whose it is, which octets of the stream it carries, and what happened to it on the way; ``octets_of``
makes the frame. ``SentHalf`` is the half connection as it was sent.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Literal

from scapy_mpa.craft.fragments import headed, ip_fragment
from scapy_mpa.craft.packets import ACK, FrameMaker, pseudo_header_sum
from scapy_mpa.craft.sealing import Sealing
from scapy_mpa.craft.stream import LaidFPDU
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.sequence import wrap
from scapy_mpa.tuples import NamedTuple

_end = attrgetter("end")
_CHECKSUM_AT = 16
#: What a checksum that fits nothing differs by from the right one.
_WRONG = 0xA5A5
_TCP_HEADER = 20
#: The window scale option, aligned, up to the shift count.
_SHIFT_OPTION = b"\x01\x03\x03"


class SentHalf:
    """One half connection as its sender made it.

    Offsets count octets of the TCP stream from 0, the octet after SYN. ``startup`` is where the startup frame lies
    and ``origin`` where Full Operation begins (None: not, or not yet); ``laid`` are the FPDUs, their offsets counted
    from ``origin``, and ``opcodes`` what each carries (None: no opcode).
    """

    def __init__(self, connection: int, role: Role, frames: FrameMaker, isn: int) -> None:
        self.connection = connection
        self.role: Role = role
        self.frames = frames
        self.isn = isn
        self.startup: tuple[int, int] | None = None
        self.origin: int | None = None
        #: What its sender does wrong, by name, if that shows.
        self.deviation: str | None = None
        self.markers = False
        self.crc = True
        self.laid: list[LaidFPDU] = []
        self.opcodes: list[int | None] = []
        #: What puts its packets under ESP.
        self.sealing: Sealing | None = None
        self.encapsulate: Callable[[bytes], bytes] | None = None
        self.peer = self

    def fpdus_from(self, offset: int) -> Iterator[LaidFPDU]:
        """The FPDUs that hold octets from ``offset`` of Full Operation on."""
        for index in range(bisect_right(self.laid, offset, key=_end), len(self.laid)):
            yield self.laid[index]

    def seq(self, offset: int) -> int:
        """The sequence number of the octet at ``offset``."""
        return wrap(offset, self.isn + 1)


class IPFragment(NamedTuple):
    """A fragment of an IP datagram: octets [start, end) of what follows the IP header, of ``total``."""

    start: int
    end: int
    total: int
    identification: int


class TcpPacket(NamedTuple):
    """One packet, or one fragment of it.

    ``time`` is in nanoseconds since the epoch. ``start`` is the stream offset of the first payload octet (-1 in a
    SYN), ``ack`` how much of the peer's stream is acknowledged (None: no ACK; a SYN and a FIN count one octet).
    ``in_operation``: the payload belongs to Full Operation.
    """

    time: int
    half: SentHalf
    start: int
    payload: bytes
    ack: int | None
    flags: int
    window: int
    options: bytes
    identification: int
    in_operation: bool = False
    #: (index in the payload, what is XORed with that octet).
    damage: tuple[tuple[int, int], ...] = ()
    #: Of the octets as they are; of those before the damage; not filled in, in the two ways of hosts that offload; of
    #: nothing.
    checksum: Literal["right", "before", "zero", "pseudo", "wrong"] = "right"
    piece: IPFragment | None = None
    #: Its receiver drops it without a word for the CRC of an FPDU, though the TCP checksum is right (RFC 5044 §8).
    is_refused: bool = False
    #: Its sender sent these octets before.
    is_again: bool = False
    #: It is none of the connection's: forged, or of an earlier one. Its sender and its receiver know nothing of it.
    is_injected: bool = False
    #: Octets of its IPv4 header that are others: (index, octet).
    header: tuple[tuple[int, int], ...] = ()

    @property
    def window_shift(self) -> int:
        """The window scale that its sender announces from now on, in a SYN, in bits (RFC 7323 §2.2)."""
        at = self.options.rfind(_SHIFT_OPTION)
        return self.options[at + len(_SHIFT_OPTION)] if at >= 0 else 0

    @property
    def end(self) -> int:
        """The stream offset after the last payload octet."""
        return self.start + len(self.payload)

    @property
    def shows_damage(self) -> bool:
        """True if its TCP checksum shows that it was damaged."""
        return self.checksum == "wrong" or (bool(self.damage) and self.checksum == "before")

    @property
    def is_dropped(self) -> bool:
        """True if its receiver drops it, for its TCP checksum or for a CRC, and so does not acknowledge it."""
        return self.shows_damage or self.is_refused

    @property
    def headers(self) -> int:
        """Octets of the frame before the payload, fragments aside."""
        return self.half.frames.tcp_at + _TCP_HEADER + len(self.options)


def damaged(payload: bytes, damage: tuple[tuple[int, int], ...]) -> bytes:
    """The payload with its damage."""
    octets = bytearray(payload)
    for index, mask in damage:
        if index < len(octets):  # else it has been cut off
            octets[index] ^= mask
    return bytes(octets)


def octets_of(packet: TcpPacket) -> bytes:
    """The frame on the wire; under ESP, where its half says so, each time with the next sequence number."""
    frame = _plain_octets_of(packet)
    if packet.header and packet.half.frames.ip_version == 4:
        frame = headed(frame, {at: bytes((octet,)) for at, octet in packet.header}, packet.half.frames.ip_at)
    sealing, encapsulate = packet.half.sealing, packet.half.encapsulate
    if sealing is not None:
        frame = sealing.seal(frame, packet.half.frames, packet.piece is not None)
    return frame if encapsulate is None else encapsulate(frame)


def _plain_octets_of(packet: TcpPacket) -> bytes:
    half, payload = packet.half, packet.payload
    if packet.damage and packet.checksum != "before":
        payload = damaged(payload, packet.damage)
    ack = packet.ack
    frame = half.frames.frame(
        payload,
        seq=half.seq(packet.start),
        ack=half.peer.seq(ack) if ack is not None and packet.flags & ACK else 0,
        flags=packet.flags,
        window=packet.window,
        options=packet.options,
        identification=packet.identification,
    )
    if packet.checksum == "before" and packet.damage:
        frame = frame[: packet.headers] + damaged(payload, packet.damage)
    elif packet.checksum in ("zero", "pseudo", "wrong"):
        at = half.frames.tcp_at + _CHECKSUM_AT
        value = pseudo_header_sum(frame, half.frames) if packet.checksum == "pseudo" else 0
        if packet.checksum == "wrong":
            value = int.from_bytes(frame[at : at + 2], "big") ^ _WRONG
        frame = frame[:at] + struct.pack("!H", value) + frame[at + 2 :]
    if packet.piece is not None:
        return ip_fragment(frame, half.frames, *packet.piece)
    return frame
