"""From a conversation to packets: lay FPDUs in the two streams, split these into segments, and have TCP send them.

Packets come out one by one, and no more of the streams is held than one turn. What was laid is noted in the two
`SentHalf`s as it is laid, before the packets that carry it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from scapy_mpa.craft.deviating import DeviatingStream
from scapy_mpa.craft.encapsulation import ENCAPSULATIONS
from scapy_mpa.craft.messages import Message, Queues, segments
from scapy_mpa.craft.packets import FrameMaker
from scapy_mpa.craft.segmentation import Segmentation, dynamic_mulpdu
from scapy_mpa.craft.sent import SentFPDU
from scapy_mpa.craft.setup import ConversationError, Setup, nanoseconds
from scapy_mpa.craft.stream import HalfStream, LaidFPDU
from scapy_mpa.craft.talk import Side, Talk
from scapy_mpa.craft.tcp import HEADERS, TIMESTAMPS
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket
from scapy_mpa.craft.turns import End, PathMTU, Pause, Say, Start, Step, Streaming, turns
from scapy_mpa.framing.ddp import opcode_of
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.mulpdu import mulpdu
from scapy_mpa.framing.role import ROLES, Role


class Clock:
    """Times of packets: each ``gap`` after the one before, unless somebody waits (nanoseconds)."""

    def __init__(self, start: int, gap: int) -> None:
        self._next = start
        self._gap = gap

    def __iter__(self) -> Clock:
        return self

    def __next__(self) -> int:
        now = self._next
        self._next += self._gap
        return now

    def wait(self, duration: int) -> None:
        """Delay the next packet by this much."""
        self._next += duration


class _Sender:
    """Lays and splits the stream of one side."""

    def __init__(self, setup: Setup, role: Role, half: SentHalf, seed: int, emss: int) -> None:
        side = ROLES.index(role)
        self.half = half
        way = setup.segmentation_of(role)
        # The window that was offered stays, whatever becomes of EMSS.
        self.way = way._replace(longest=way.window(emss) or way.longest)
        self.stream: HalfStream | DeviatingStream
        if setup.deviation[side]:
            self.stream = DeviatingStream(half, Dialect(half.markers, half.crc, setup.origin), setup.deviation[side])
        else:
            self.stream = HalfStream(Dialect(half.markers, half.crc, setup.origin), setup.alter[side])
        self._alter = setup.alter[side]
        #: The message whose FPDUs are laid.
        self._message: Message | None = None
        self._origin = setup.origin
        self.queues = Queues()
        self.rng = random.Random(seed << 1 | side)
        self.version = setup.ddp_version
        self._mulpdu = setup.mulpdu[side]

    def lay(self, messages: list[Message], emss: int) -> tuple[bytes, list[LaidFPDU]]:
        """The FPDUs of a turn, for segments of ``emss`` octets; they are noted in the half."""
        stream, half, opcodes = self.stream, self.half, self.half.opcodes
        limit = self._mulpdu or mulpdu(emss, half.markers)
        # Where the segment begins that the next FPDU may share.
        segment = stream.offset

        def room() -> int:
            if not self.way.is_dynamic:
                return limit
            return dynamic_mulpdu(stream.offset - segment, emss, stream.offset, half.markers)

        def noted() -> Iterator[bytes]:
            for self._message in messages:
                for ulpdu in segments(self._message, self.queues, room, self.version):
                    opcodes.append(opcode_of(ulpdu))
                    yield ulpdu

        is_wrong = any(message.is_wrong for message in messages)
        if isinstance(stream, HalfStream):
            stream.alter = self._put_wrong if is_wrong else self._alter
        elif is_wrong:
            raise ConversationError("the CRC, PAD or length of an FPDU cannot be set if its sender deviates")
        ulpdus = noted()
        if not self.way.is_dynamic:
            octets, laid = stream.lay(ulpdus)
        else:
            pieces, laid = [], []
            for ulpdu in ulpdus:
                octets, (place,) = stream.lay((ulpdu,))
                pieces.append(octets)
                laid.append(place)
                if place.end - segment > emss:
                    segment = place.offset if place.wire_length <= emss else place.end
            octets = b"".join(pieces)
        half.laid += laid
        return octets, laid

    def _put_wrong(self, place: LaidFPDU, ulpdu: bytes, octets: bytes) -> bytes:
        """An FPDU with what its message has in place of what is right."""
        message, half = self._message, self.half
        assert message is not None
        if message.is_wrong:
            offset = place.offset if half.markers else None
            sent = SentFPDU(offset, ulpdu, octets, half.crc, self._origin, None)
            octets = sent.laid(ulpdu, pad=message.pad, ulpdu_length=message.ulpdu_length, crc=message.crc)
        return octets if self._alter is None else self._alter(place, ulpdu, octets)


class Sending:
    """One connection with this number; ``halves`` belong to the Initiator and the Responder."""

    def __init__(self, setup: Setup, steps: Sequence[Step], number: int = 0) -> None:
        self._setup = setup
        self._steps = steps
        seed = setup.seed << 24 | number
        rng = random.Random(seed)
        ends = {role: setup.endpoint(role, number) for role in ROLES}
        made = []
        for role, peer in (ROLES, ROLES[::-1]):
            frames = FrameMaker(ends[role], ends[peer], setup.vlan)
            half = SentHalf(number, role, frames, setup.sequence_number(role, rng))
            half.markers, half.crc = setup.has_markers(role), setup.crc
            half.sealing = setup.sealing(role, number)
            half.encapsulate = ENCAPSULATIONS.get(setup.encapsulation)
            made.append(half)
        self.halves = made[0], made[1]
        made[0].peer, made[1].peer = made[1], made[0]
        self._sides: dict[Role, Side] = {"initiator": "client", "responder": "server"}
        if setup.opens == "responder":
            self._sides = {"initiator": "server", "responder": "client"}
        self._clock = Clock(nanoseconds(setup.time), nanoseconds(setup.gap))
        self._delay = nanoseconds(setup.delay)
        emss = setup.mtu - HEADERS[setup.ip_version] - (TIMESTAMPS.size if setup.timestamps else 0)
        self._talk = Talk(
            {self._sides[half.role]: half for half in made},
            self._clock,
            timestamps=setup.timestamps,
            mtu=setup.mtu,
            windows={self._sides[half.role]: setup.segmentation_of(half.peer.role).window(emss) for half in made},
        )
        self._senders = {half.role: _Sender(setup, half.role, half, seed, self._talk.emss) for half in made}
        self._posted_emss: int | None = None

    def packets(self) -> Iterator[TcpPacket]:
        """The packets, from the first SYN to the last."""
        talk = self._talk
        end = End(self._setup.close, self._setup.closes)
        yield from talk.open()
        for first, messages in turns(self._steps):
            if isinstance(first, Say):
                yield from self._take_turn(first.role, messages)
            elif isinstance(first, Start):
                yield from self._start()
            elif isinstance(first, Streaming):
                yield from self._pass(first.role, first.octets)
            elif isinstance(first, Pause):
                yield from self._acknowledge()
                self._clock.wait(first.duration)
            elif isinstance(first, PathMTU):
                self._posted_emss = talk.emss
                talk.set_mtu(first.mtu)
            else:
                end = first
        yield from self._acknowledge()
        if end.how == "fin":
            self._clock.wait(self._delay)
            yield from talk.close(self._sides[end.role])
        elif end.how == "rst":
            yield from talk.reset(self._sides[end.role])

    def _start(self) -> Iterator[TcpPacket]:
        """Request and Reply (RFC 5044 §7.1)."""
        for half in self.halves:
            octets = self._setup.startup_octets(half.role)
            begin = self._talk.sent(self._sides[half.role])
            half.startup = begin, begin + len(octets)
            yield from self._pass(half.role, octets)
        if not self._setup.reject:
            for half in self.halves:
                assert half.startup is not None
                half.origin = half.startup[1]

    def _pass(self, role: Role, octets: bytes) -> Iterator[TcpPacket]:
        """Octets that are no FPDUs."""
        self._clock.wait(self._delay)
        sender = self._senders[role]
        cuts = sender.way.startup_cuts(len(octets), self._talk.emss, sender.rng)
        self._talk.operate(False)
        yield from self._talk.transfer(self._sides[role], octets, cuts)

    def _take_turn(self, role: Role, messages: list[Message]) -> Iterator[TcpPacket]:
        sender, talk, side = self._senders[role], self._talk, self._sides[role]
        self._clock.wait(self._delay)
        if sender.half.origin is None:
            sender.half.origin = talk.sent(side)
        start, posted, self._posted_emss = sender.stream.offset, self._posted_emss, None
        octets, laid = sender.lay(messages, posted or talk.emss)
        # What was posted for longer segments is a plain stream to TCP.
        window = sender.way.window(talk.emss)
        way = Segmentation("stream") if posted and posted > talk.emss and window is None else sender.way
        talk.operate(True)
        cuts = way.cuts(laid, talk.emss, sender.rng)
        receiver: Side = "server" if side == "client" else "client"
        if window is None:
            if sender.way.has_nagle and len(octets) % talk.emss and len(cuts) > 1:
                rest = cuts.pop()[0]
                yield from talk.transfer(side, octets[: rest - start], cuts, start)
                yield from talk.acknowledge(receiver)
                octets, cuts, start = octets[rest - start :], [(rest, start + len(octets))], rest
            yield from talk.transfer(side, octets, cuts, start)
            return
        for at in range(start, start + len(octets), window):
            # Where the window is full the sender waits for the receiver to open it again.
            part = [cut for cut in cuts if at <= cut[0] < at + window]
            talk.hold(receiver)
            yield from talk.transfer(side, octets[at - start : at - start + window], part, at)
            yield from talk.read(receiver)

    def _acknowledge(self) -> Iterator[TcpPacket]:
        """Yield the packets that delayed-acknowledgement timers send."""
        for role in ROLES:
            yield from self._talk.acknowledge(self._sides[role])
