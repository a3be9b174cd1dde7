"""A valid connection as values that may be changed at each level, and from these to packets and a capture.

An ``Exchange`` is what both sides say: parameters of the connection (``setup``), startup frames, messages or ULPDUs
(``steps``), the end. Changes (``changes``) alter it level by level before it is carried out: startup frames and what is
said, FPDUs as they are laid, then packets, then the frames that are captured. It comes from text, as scenarios have it,
from a builder, or from the FPDUs of a capture. The same exchange gives the same octets every time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from typing import Any, BinaryIO, Literal, TypeAlias

from scapy_mpa.craft import turns
from scapy_mpa.craft.conversation import RULES, Conversation
from scapy_mpa.craft.messages import Queues, segments
from scapy_mpa.craft.network import in_time
from scapy_mpa.craft.pcapfile import SNAPLEN, Packet, PcapWriter
from scapy_mpa.craft.pcapngfile import PcapngWriter
from scapy_mpa.craft.sent import FPDUChange, Repairable, SentFPDU
from scapy_mpa.craft.setup import SETUP_NAMES, Setup
from scapy_mpa.craft.steps import say
from scapy_mpa.craft.stream import LaidFPDU
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scapy_mpa.craft.turns import Say
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.tuples import NamedTuple

#: A step as text; a ULPDU of the side that the changes are about; of a side; or a message.
Step: TypeAlias = "str | bytes | tuple[Role, bytes] | Say"
StartupChange: TypeAlias = Callable[[StartupFrame], StartupFrame]
OctetsChange: TypeAlias = Callable[[bytes], bytes]
PacketChange: TypeAlias = Callable[[list[TcpPacket]], list[TcpPacket]]
FrameChange: TypeAlias = Callable[[list[Packet]], list[Packet]]

_LATER = 1000  # nanoseconds


class Foreign(NamedTuple):
    """A packet of another link type."""

    linktype: int
    octets: bytes


class ExchangeCapture(NamedTuple):
    """Packets with their times, how much of each is kept, and one of another link type."""

    packets: list[Packet]
    snaplen: int = SNAPLEN
    foreign: Foreign | None = None

    @property
    def format(self) -> Literal["pcap", "pcapng"]:
        """The format of the file: only pcapng has several interfaces."""
        return "pcap" if self.foreign is None else "pcapng"

    def write(self, file: BinaryIO) -> int:
        """Write it to a binary file; return the number of packets."""
        if self.foreign is None:
            return PcapWriter(file, snaplen=self.snaplen).write(self.packets)
        writer = PcapngWriter(file, snaplen=self.snaplen)
        interface = writer.add_interface(self.foreign.linktype)
        last = self.packets[-1][0] + _LATER
        return writer.write(self.packets) + writer.write([(last, self.foreign.octets)], interface)


class Unit(NamedTuple):
    """A startup frame or an FPDU of a side: its name, where in Full Operation it begins (None: before), its octets."""

    name: str
    offset: int | None
    octets: bytes


class Exchange:
    """What is to be sent; changes alter it before it is carried out.

    Args:
        setup: parameters of the connection (``craft.setup.Setup``).
        steps: what is said.
        by: the side that changes are about.
        answer: what its peer says to it.
        left: what changes leave as it was, where it could follow what they change.

    ``startup`` changes the startup frame of a side, ``octets`` then its octets; ``fpdus`` are changes by side and
    number of the FPDU, from 1; ``packets`` those of TCP packets as values, ``taps`` of what is captured of them, whose
    times stay as they are, ``wire`` of its octets.
    """

    def __init__(
        self,
        setup: Mapping[str, Any],
        steps: Iterable[Step],
        *,
        by: Role = "initiator",
        answer: Step | None = None,
        left: Repairable | None = None,
    ) -> None:
        self.by: Role = by
        self.left = left
        self.setup: dict[str, Any] = {**setup, "allow": tuple(RULES)}
        #: Memory of the peer that is known, which changes may name: an STag and a Tagged Offset.
        self.memory: tuple[int, int] | None = None
        self.valid: tuple[Step, ...] = tuple(steps)
        self.valid_answer = self.answer = answer
        self.steps: list[Step] = [*self.valid]
        self.startup: list[tuple[Role, StartupChange]] = []
        self.octets: list[tuple[Role, OctetsChange]] = []
        self.fpdus: dict[tuple[Role, int], list[FPDUChange]] = {}
        #: The identities of those changes that have found a place, since it was laid.
        self.made: set[int] = set()
        self.packets: list[PacketChange] = []
        self.taps: list[PacketChange] = []
        self.wire: list[FrameChange] = []
        #: True if the Request gets a Reply.
        self.is_answered = True
        self.snaplen = SNAPLEN
        self.foreign: Foreign | None = None
        self._laid: list[TcpPacket] | None = None
        #: What runs above RDMAP, by the name that reports have for it; None if that is not known.
        self.upper: str | None = None

    @classmethod
    def of(cls, conversation: Conversation) -> Exchange:
        """Return what is sent in a conversation, from a builder or a scenario."""
        setup = {name: getattr(conversation.setup, name) for name in SETUP_NAMES}
        return cls(setup, map(_as_step, conversation.steps))

    @property
    def peer(self) -> Role:
        """The other side than that which changes are about."""
        return peer_of(self.by)

    # --- what is said ---

    def begin(self, role: Role, frame: StartupFrame | bytes) -> None:
        """Have a side begin with this startup frame, or with these octets, whatever was agreed on."""
        if isinstance(frame, bytes):
            self.octets.append((role, lambda _: frame))
        else:
            self.startup.append((role, lambda _: frame))

    def said(self, role: Role) -> list[int]:
        """Return the indices of the steps in which a side sends FPDUs."""
        return [index for index, step in enumerate(self.steps) if self._speaker(step) == role]

    def queues(self, role: Role) -> Queues:
        """The Message Sequence Numbers that a side is at, after all that it says."""
        queues = Queues()
        for step in self._conversation().steps:
            if isinstance(step, Say) and step.role == role:
                for _ in segments(step.message, queues, lambda: MAX_ULPDU_LENGTH):
                    pass
        return queues

    def _speaker(self, step: Step) -> str | None:
        if isinstance(step, bytes):
            return self.by
        if isinstance(step, Say):
            return step.role
        if isinstance(step, tuple):
            return step[0]
        words = step.format(by=self.by, peer=self.peer).split()
        return words[0] if len(words) > 1 and words[0] in ROLES and words[1] != "stream" else None

    # --- carried out ---

    def units(self, role: Role) -> list[Unit]:
        """Return what a side sends, its startup frame first, before any change of packets."""
        sending = self._conversation().sending()
        stream = b"".join([one.payload for one in sending.packets() if one.half.role == role])
        half = sending.halves[ROLES.index(role)]
        found = []
        if half.startup is not None and stream[slice(*half.startup)]:
            name = "Request" if role == "initiator" else "Reply"
            found.append(Unit(name, None, stream[slice(*half.startup)]))
        for number, place in enumerate(half.laid):
            begin = (half.origin or 0) + place.offset
            octets = stream[begin : begin + place.wire_length]
            found.append(Unit(f"{role} FPDU {number}", place.offset, octets))
        return found

    def packets_so_far(self) -> list[TcpPacket]:
        """Return the packets, with all changes of packets so far; the conversation is fixed from then on."""
        self._laid, self.packets = self._changed(), []
        return self._laid

    def sent(self) -> list[TcpPacket]:
        """Carry it out: return the packets, before what is captured of them is changed."""
        packets = [*in_time(iter(self._changed()))]
        for change in self.taps:
            packets = change(packets)
        return packets

    def captured(self) -> ExchangeCapture:
        """The same as a capture."""
        frames = [(packet.time, octets_of(packet)) for packet in self.sent()]
        for alter in self.wire:
            frames = alter(frames)
        return ExchangeCapture(frames, self.snaplen, self.foreign)

    def check(self) -> None:
        """Carry it out, and raise MPAError if a change finds no place, or has a parameter that cannot be sent."""
        try:
            self.captured().write(BytesIO())
        except struct.error:
            raise MPAError("a number does not fit into its field") from None
        except (LookupError, TypeError, ValueError) as error:
            raise MPAError(str(error) or "there is nothing to change") from None
        if any(id(one) not in self.made for changes in self.fpdus.values() for one in changes):
            raise MPAError("there is no FPDU with a place for it")

    def _changed(self) -> list[TcpPacket]:
        packets = list(self._conversation().sending().packets()) if self._laid is None else self._laid
        for change in self.packets:
            packets = change(packets)
        return packets

    def _conversation(self) -> Conversation:
        setup = Setup(**self.setup)
        frames: dict[Role, bytes] = {}
        for role in ROLES if setup.specification.startup_frames else ():
            frame = setup.startup(role)
            for who, alter in self.startup:
                frame = alter(frame) if who == role else frame
            octets = frame.encode()
            for who, change in self.octets:
                octets = change(octets) if who == role else octets
            frames[role] = octets if role == "initiator" or self.is_answered else b""
        conversation = Conversation(
            **{
                **self.setup,
                "alter": tuple(self._alter(role, setup) for role in ROLES),
                "frames": tuple(frames.get(role) for role in ROLES),
            }
        )
        for step in (*self.steps, *(() if self.answer is None else (self.answer,))):
            if isinstance(step, bytes):
                conversation.ulpdu(self.by, step)
            elif isinstance(step, Say):
                conversation.say(step)
            elif isinstance(step, tuple):
                conversation.ulpdu(*step)
            else:
                say(conversation, step.format(by=self.by, peer=self.peer))
        return conversation

    def _alter(self, role: Role, setup: Setup) -> Callable[[LaidFPDU, bytes, bytes], bytes]:
        """Return what changes a side's FPDUs as they are laid; one with no place for a change stays as it is."""
        number = 0

        def alter(place: LaidFPDU, ulpdu: bytes, octets: bytes) -> bytes:
            nonlocal number
            number += 1
            changes = self.fpdus.get((role, number), ()) or self.fpdus.get((role, 0), ())
            offset = place.offset if setup.has_markers(role) else None
            sent = SentFPDU(offset, ulpdu, octets, setup.crc, setup.origin, self.left)
            for change in changes:
                with suppress(LookupError):
                    sent = replace(sent, octets=change(sent))
                    self.made.add(id(change))
            return sent.octets

        return alter


def _as_step(step: turns.Step) -> Step:
    """Return a step of a conversation: a message as it is, all else as text."""
    if isinstance(step, Say):
        return step
    if isinstance(step, turns.Streaming):
        return f"{step.role} stream hex:{step.octets.hex()}"
    if isinstance(step, turns.Pause):
        return f"pause {step.duration / 1_000_000_000}"
    if isinstance(step, turns.PathMTU):
        return f"path-mtu {step.mtu}"
    return f"close {step.how} {step.role}" if isinstance(step, turns.End) else "start"
