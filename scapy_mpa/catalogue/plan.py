"""From a case to the packets of its connection: a valid one is planned, the plan is changed, and then carried out.

What a conforming peer must do is part of the plan: where it has to close, it closes, where it has to send a Terminate,
it sends that one. The same case gives the same octets every time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from scapy_mpa.catalogue.baseline import ANSWER, MIDDLE, Baseline
from scapy_mpa.catalogue.peer import Peer
from scapy_mpa.catalogue.sent import FPDUChange, Repairable, SentFPDU
from scapy_mpa.craft.conversation import RULES, Conversation
from scapy_mpa.craft.pcapfile import SNAPLEN, Packet, PcapWriter
from scapy_mpa.craft.pcapngfile import PcapngWriter
from scapy_mpa.craft.setup import Setup
from scapy_mpa.craft.steps import say
from scapy_mpa.craft.stream import LaidFPDU
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scapy_mpa.craft.traffic import Format
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.startup import StartupFrame

#: A step as text; a ULPDU of the side that the case is about; or of a side.
Step: TypeAlias = "str | bytes | tuple[Role, bytes]"
PacketChange: TypeAlias = Callable[[list[TcpPacket]], list[TcpPacket]]
FrameChange: TypeAlias = Callable[[list[Packet]], list[Packet]]

_LATER = 1000  # nanoseconds


class Foreign(NamedTuple):
    """A packet of another link type."""

    linktype: int
    octets: bytes


class CaseCapture(NamedTuple):
    """What a case is as a capture: packets with their times, how much of each is kept, and one of another link type."""

    packets: list[Packet]
    snaplen: int = SNAPLEN
    foreign: Foreign | None = None

    @property
    def format(self) -> Format:
        """Of the file: only pcapng has several interfaces."""
        return "pcap" if self.foreign is None else "pcapng"

    def write(self, file: BinaryIO) -> int:
        """Write it to a binary file; return the number of packets."""
        if self.foreign is None:
            return PcapWriter(file, snaplen=self.snaplen).write(self.packets)
        writer = PcapngWriter(file, snaplen=self.snaplen)
        interface = writer.add_interface(self.foreign.linktype)
        last = self.packets[-1][0] + _LATER
        return writer.write(self.packets) + writer.write([(last, self.foreign.octets)], interface)


class Plan:
    """What is to be said and sent; mutations change it before it is carried out.

    ``startup`` changes the startup frame of a side, ``octets`` then its octets; ``fpdus`` are changes by side and
    number of the FPDU, from 1; ``packets`` those of TCP packets as values, ``wire`` of those that are captured.
    """

    def __init__(self, baseline: Baseline, by: Role, peer: Peer, left: Repairable | None = None) -> None:
        self.by: Role = by
        self.peer: Role = peer_of(by)
        self.left = left
        self.setup: dict[str, Any] = {**baseline.setup, "allow": tuple(RULES)}
        self.valid: tuple[Step, ...] = (*baseline.opening, *MIDDLE)
        self.steps: list[Step] = [*self.valid]
        self.answer: Step | None = ANSWER
        self.startup: list[tuple[Role, Callable[[StartupFrame], StartupFrame]]] = []
        self.octets: list[tuple[Role, Callable[[bytes], bytes]]] = []
        self.fpdus: dict[tuple[Role, int], list[FPDUChange]] = {}
        self.packets: list[PacketChange] = []
        self.wire: list[FrameChange] = []
        #: Whether the Request gets a Reply.
        self.is_answered = True
        self.snaplen = SNAPLEN
        self.foreign: Foreign | None = None
        self._react(peer)

    def _react(self, peer: Peer) -> None:
        """Have the peer do what it must."""
        if peer.reaction == "terminate":
            self.answer = f"{self.peer} terminate layer={peer.layer} etype={peer.etype} code={peer.code}"
            self.setup["closes"] = self.peer
        elif peer.reaction in ("wait", "lose"):
            self.answer = None
        elif peer.reaction == "stop":
            self.answer, self.setup["close"] = None, "none"
        elif peer.reaction in ("close", "reject"):
            self.steps, self.answer = ["start"], None
            if peer.reaction == "reject":
                self.setup["reject"] = True
            else:
                self.setup["closes"] = self.peer
                self.is_answered = self.by != "initiator"

    def sent(self) -> list[TcpPacket]:
        """Carry it out: the packets, before what is captured of them is changed."""
        packets = list(self._conversation().sending().packets())
        for change in self.packets:
            packets = change(packets)
        return in_time(packets)

    def captured(self) -> CaseCapture:
        """The same as a capture."""
        frames = [(packet.time, octets_of(packet)) for packet in self.sent()]
        for alter in self.wire:
            frames = alter(frames)
        return CaseCapture(frames, self.snaplen, self.foreign)

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
            elif isinstance(step, tuple):
                conversation.ulpdu(*step)
            else:
                say(conversation, step.format(by=self.by, peer=self.peer))
        return conversation

    def _alter(self, role: Role, setup: Setup) -> Callable[[LaidFPDU, bytes, bytes], bytes]:
        """What changes the FPDUs of a side as they are laid."""
        number = 0

        def alter(place: LaidFPDU, ulpdu: bytes, octets: bytes) -> bytes:
            nonlocal number
            number += 1
            changes = self.fpdus.get((role, number), ()) or self.fpdus.get((role, 0), ())
            offset = place.offset if setup.has_markers(role) else None
            sent = SentFPDU(offset, ulpdu, octets, setup.crc, setup.origin, self.left)
            for change in changes:
                sent = replace(sent, octets=change(sent))
            return sent.octets

        return alter


def in_time(packets: list[TcpPacket]) -> list[TcpPacket]:
    """The same packets; none was captured before the one in front of it."""
    last, found = -1, []
    for packet in packets:
        last = max(packet.time, last + _LATER)
        found.append(packet._replace(time=last))
    return found
