"""A carrier that makes the segments itself, over any way for IP packets: a ``TCP`` of ours says which.

The capture of a case is what passed, packet by packet, not made up.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import time
from collections.abc import Iterator
from typing import Literal, Protocol

from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.link import RAW
from scapy_mpa.capture.packet import segment_in
from scapy_mpa.craft.packets import ACK, FIN, RST, SYN, Endpoint, FrameMaker
from scapy_mpa.craft.pcapfile import Packet
from scapy_mpa.craft.talk import Side
from scapy_mpa.craft.tcp import TCP
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket, octets_of
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.sequence import SEQ_MASK, seq_add
from scapy_mpa.live.recording import RecordedConnection, Recording
from scapy_mpa.probe.carrier import NotReached
from scapy_mpa.probe.case import ProbeCase
from scapy_mpa.probe.fitting import Unsupported
from scapy_mpa.probe.rawscript import Forge, Shaped, WirePiece, own_half
from scapy_mpa.probe.script import BareOctets, Finish, Send
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.segment import Segment, addresses_of, checksum_is_right

_ETHERNET = 14
_SECOND = 1_000_000_000
#: Our clock begins so late.
_BEGIN = 1_000_000 * _SECOND
_MACS = b"\x02\0\0\0\0\x01", b"\x02\0\0\0\0\x02"
#: Ports of ours, one after the other, so that no connection meets the rest of another.
_FIRST_PORT, _PORTS = 32768, 28000
#: Packets of a peer that are read before whoever waits for octets has its turn.
_AT_ONCE = 256
#: Packets that are remembered before there is a recording, and frames that one takes.
_EARLY, _MOST_FRAMES = 64, 1 << 17


class PacketWay(Protocol):
    """Carries the IP packets of our address."""

    @property
    def mtu(self) -> int:
        """Octets of a packet."""

    def read(self, seconds: float) -> bytes | None:
        """The next packet for us, None if none comes in time."""

    def write(self, packet: bytes) -> None:
        """Send one."""


class RawTCP:
    """One connection over segments that we build ourselves, as a carrier.

    Args:
        way: of the packets.
        ends: our address and port, and the peer's.
        tcp: the connection.
    """

    def __init__(self, way: PacketWay, ends: tuple[tuple[str, int], tuple[str, int]], tcp: TCP) -> None:
        self._way = way
        self._ends = ends
        self._tcp = tcp
        self._key = _key(*ends[::-1])
        self._fragments = Fragments()
        self._is_done = False
        self._recorded: RecordedPackets | None = None
        self._early: list[Packet] = []

    @property
    def addresses(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Address and port of our end, and of the peer's."""
        return self._ends

    @property
    def mss(self) -> int:
        """Octets that a segment takes."""
        return self._tcp.mss

    @property
    def beyond_hole(self) -> int:
        """The most octets of ours that the peer said it had beyond a hole."""
        return self._tcp.most_sacked

    def open(self, seconds: float, octets: bytes = b"") -> None:
        """The handshake; raises NotReached."""
        tcp, until = self._tcp, time.monotonic() + seconds
        tcp.tick(_now())
        tcp.open(octets)
        while tcp.state == "syn-sent":
            left = until - time.monotonic()
            if left <= 0:
                raise NotReached("no answer to the SYN: is there a route back to the address?")
            self._pump(left)
        if tcp.state != "established":
            raise NotReached("Connection refused")
        self._flush()

    def send(self, step: Send | Shaped | BareOctets) -> None:
        """Send a segment as it is; raises OSError if there is no longer a connection."""
        if isinstance(step, Shaped) and ":" in self._ends[0][0]:
            raise Unsupported("it is about the header of IPv4")
        self._pump(0.0)
        whole = self._tcp.behind(step.octets) if isinstance(step, BareOctets) else step.packet
        if not whole.flags & SYN:
            # What came with the SYN was sent by then.
            for packet in cut(whole, self._tcp.mss):
                self._tcp.send(packet)
        self._flush(step.pieces if isinstance(step, Shaped) else ())

    def forge(self, step: Forge) -> None:
        """Send a segment that belongs to no stream; raises OSError likewise.

        Raises Unsupported if its timestamp is what it is about, and the peer uses none (RFC 7323 §5.3).
        """
        self._pump(0.0)
        tcp, packet = self._tcp, step.packet
        if step.older and not tcp.options():
            raise Unsupported("the peer uses no TCP timestamps")
        start = tcp.right_edge + step.from_edge if step.from_edge is not None else step.start
        tcp.forge(
            packet._replace(
                time=_now(),
                half=tcp.half,
                start=start,
                ack=None if step.ack is None else tcp.rcv_nxt + step.ack,
                options=tcp.options(packet.flags, step.older) if packet.options or packet.flags & SYN else b"",
            )
        )
        self._flush()

    def finish(self, step: Finish) -> None:
        """FIN, or RST."""
        self._tcp.tick(_now())
        if step.how == "fin":
            self._tcp.finish()
        else:
            self._tcp.reset()
        self._flush()

    def receive(self, seconds: float) -> bytes | None:
        """Return what arrives within this many seconds: octets, b"" for a FIN, None; raises OSError for a RST."""
        tcp, until = self._tcp, time.monotonic() + seconds
        while True:
            if octets := tcp.take():
                return octets
            if tcp.is_ended:
                return b""
            if tcp.state == "reset":
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            if tcp.state == "lost":
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            left = until - time.monotonic()
            if left <= 0:
                return None
            self._pump(left)

    def unacknowledged(self) -> int | None:
        """Octets of ours that the peer has not acknowledged."""
        return self._tcp.unacknowledged

    def close(self) -> None:
        """Release it; a connection that is not over is reset, so that the peer is free for the next."""
        if self._is_done:
            return
        self._is_done = True
        if not self._tcp.is_over:
            self._pump(0.0)
        if not self._tcp.is_over:
            self._tcp.reset()
        self._flush()

    def recorded(self, recording: Recording) -> RecordedConnection:
        """Return what records everything that passes, from the SYN on."""
        self._recorded = RecordedPackets(recording)
        for packet in self._early:
            self._recorded.packet(packet)
        self._early.clear()
        return self._recorded

    # --- packets ---

    def _pump(self, seconds: float) -> None:
        """Take what arrives within this many seconds, until there is something to hand on; timers run on."""
        tcp = self._tcp
        for number in range(_AT_ONCE):
            now = _now()
            tcp.tick(now)
            self._flush()
            wait = 0.0 if number else seconds
            if tcp.deadline is not None:
                wait = min(wait, max(tcp.deadline - now, 0) / _SECOND)
            packet = self._way.read(wait)
            if packet is None:
                return
            self._take(packet)
            self._flush()

    def _take(self, packet: bytes) -> None:
        self._note(packet)
        seg = segment_in(0, 0, RAW, memoryview(packet), 0, len(packet), len(packet), self._fragments, waits=True)
        if seg is None or not seg.key or seg.flags > 0xFF or not checksum_is_right(seg):
            return
        if seg.key == self._key:
            self._tcp.tick(_now())
            self._tcp.receive(seg)
        elif not seg.flags & RST and len(seg.key) == len(self._key):
            answer = reset_for(seg)
            self._note(answer)
            self._way.write(answer)

    def _flush(self, pieces: tuple[WirePiece, ...] = ()) -> None:
        """Send what is to be sent; what carries octets in these pieces, where there are some."""
        for packet in self._tcp.take_out():
            frame = octets_of(packet)
            for one in (piece.of(frame) for piece in pieces) if pieces and packet.payload else (frame,):
                self._note(one[_ETHERNET:])
                self._way.write(one[_ETHERNET:])

    def _note(self, packet: bytes) -> None:
        ether_type = b"\x86\xdd" if packet[:1] and packet[0] >> 4 == 6 else b"\x08\x00"
        frame = time.time_ns(), _MACS[0] + _MACS[1] + ether_type + packet
        if self._recorded is not None:
            self._recorded.packet(frame)
        elif len(self._early) < _EARLY:
            self._early.append(frame)


class RecordedPackets(RecordedConnection):
    """A connection of a recording that is written as it passes; what an exchange says about it adds nothing."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._left = _MOST_FRAMES

    def packet(self, packet: Packet) -> None:
        """Record a packet."""
        if self._left > 0:
            self._left -= 1
            self._recording.passed(packet)

    def open(self, time: float) -> None:
        """The handshake was written when it passed."""

    def data(self, side: Side, octets: bytes, time: float) -> int:
        """The frame that passed last."""
        return self._recording.frames

    def close(self, side: Side, how: Literal["fin", "rst"], time: float) -> int:
        """The same."""
        return self._recording.frames


class RawConnector:
    """Makes connections to a Responder by segments of our own.

    Args:
        way: of the packets.
        address: ours, unknown to any kernel.
        host, port: of the peer.
        timeout: seconds for each answer.

    Raises NotReached if the peer has no address of the same IP version.
    """

    def __init__(self, way: PacketWay, address: str, host: str, port: int, timeout: float) -> None:
        self._way = way
        self._address = address
        self._timeout = timeout
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        except OSError as error:
            raise NotReached(f"{printable(host)}:{port}: {error.strerror or error}") from None
        self._peer: tuple[str, int] = (str(found[0][4][0]), port)
        if ipaddress.ip_address(self._peer[0].partition("%")[0]).is_loopback:
            raise NotReached(f"{self}: a loopback address can be reached only from its own host")
        self._next = int.from_bytes(os.urandom(2), "big") % _PORTS

    def __str__(self) -> str:
        return f"{self._peer[0]}:{self._peer[1]}"

    def connect(self, case: ProbeCase | None = None) -> RawTCP:
        """A new connection, begun as the case has it; raises NotReached."""
        self._next = (self._next + 1) % _PORTS
        ours = self._address, _FIRST_PORT + self._next
        begins = opening_of(case)
        half = live_half("initiator", maker(ours, self._peer), begins.isn)
        tcp = TCP(half, mtu=self._way.mtu, timestamps=begins.timestamps)
        carrier = RawTCP(self._way, (ours, self._peer), tcp)
        try:
            carrier.open(max(self._timeout, 1.0), begins.octets)
        except NotReached as error:
            raise NotReached(f"{self}: {error}") from None
        return carrier


def cut(packet: TcpPacket, mss: int) -> Iterator[TcpPacket]:
    """A segment, in as many as it takes."""
    size = len(packet.payload)
    if size <= mss:
        yield packet
        return
    for first in range(0, size, mss):
        last = min(first + mss, size)
        damage = tuple((at - first, mask) for at, mask in packet.damage if first <= at < last)
        payload = packet.payload[first:last]
        yield packet._replace(start=packet.start + first, payload=payload, damage=damage, piece=None)


class Begins(NamedTuple):
    """How a connection begins: our initial sequence number, timestamps or none, octets of the SYN."""

    isn: int
    timestamps: bool = True
    octets: bytes = b""


def opening_of(case: ProbeCase | None) -> Begins:
    """Return what a case says about it; a number that nobody can know where it says nothing."""
    isn = int.from_bytes(os.urandom(4), "big")
    if case is None:
        return Begins(isn)
    plan = case.case.plan()
    side, told = ROLES.index(plan.by), plan.setup.get("isn", (None, None))
    packets = plan.sent()
    own = own_half(packets, plan.by)
    octets = next((one.payload for one in packets if one.half is own and one.flags & SYN), b"")
    isn = told[side] if told[side] is not None else isn
    return Begins(isn, plan.setup.get("timestamps", True), octets)


def maker(source: tuple[str, int], destination: tuple[str, int]) -> FrameMaker:
    """Return what makes the frames from one end to the other."""
    return FrameMaker(Endpoint(*source, _MACS[0]), Endpoint(*destination, _MACS[1]))


def live_half(role: Role, frames: FrameMaker, isn: int) -> SentHalf:
    """Our half connection, beside that of a peer whose sequence numbers come with its SYN."""
    half, peer = SentHalf(0, role, frames, isn & SEQ_MASK), SentHalf(0, peer_of(role), frames, 0)
    half.peer, peer.peer = peer, half
    return half


def _now() -> int:
    """Nanoseconds; timestamps that are older have to be numbers too."""
    return time.monotonic_ns() + _BEGIN


def reset_for(seg: Segment) -> bytes:
    """The IP packet by which a host says that there is no such connection (RFC 9293 §3.10.7.1)."""
    source, destination = (str(ipaddress.ip_address(octets)) for octets in addresses_of(seg.key))
    ports = int.from_bytes(seg.key[-4:-2], "big"), int.from_bytes(seg.key[-2:], "big")
    frames = maker((destination, ports[1]), (source, ports[0]))
    if seg.flags & ACK:
        return frames.frame(b"", seq=seg.ack, ack=0, flags=RST, window=0)[_ETHERNET:]
    after = seq_add(seg.seq, seg.length + bool(seg.flags & SYN) + bool(seg.flags & FIN))
    return frames.frame(b"", seq=0, ack=after, flags=RST | ACK, window=0)[_ETHERNET:]


def _key(source: tuple[str, int], destination: tuple[str, int]) -> bytes:
    """The key of segments from one end to the other."""
    addresses = b"".join(ipaddress.ip_address(end[0]).packed for end in (source, destination))
    return addresses + b"".join(end[1].to_bytes(2, "big") for end in (source, destination))
