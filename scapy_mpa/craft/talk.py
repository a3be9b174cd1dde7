"""Two parties of a TCP connection, seen by a tap between them that misses nothing (RFC 9293).

What each side wants to send goes in; packets come out, with the sequence and acknowledgement numbers,
timestamps (RFC 7323) and acknowledgements a real connection has: one for every second segment in order, one
at once for a segment out of order and for one that fills a hole (RFC 5681 §4.2). Times are drawn from an
iterator that the caller gives, one a packet, so that many talks can share it.

``Talk`` leaves open what a packet is: ``TcpTalk`` makes its octets at once, ``conversation`` a description of it.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, Literal, TypeVar

from scapy_mpa.craft.packets import ACK, FIN, PSH, RST, SYN, Endpoint, FrameMaker
from scapy_mpa.craft.pcapfile import Packet
from scapy_mpa.craft.segments import Cut
from scapy_mpa.framing.sequence import SEQ_MASK

Side = Literal["client", "server"]
P = TypeVar("P")

#: What the window field says, in units of 2**WINDOW_SHIFT octets.
WINDOW = 2048
#: What a side says in its SYN (RFC 7323 §2.2), unless its window is small.
WINDOW_SHIFT = 7
_NANOSECONDS_PER_TICK = 1_000_000
#: TSval has 32 bits (RFC 7323 §3.2).
_LAST_TICK = 0xFFFFFFFF
#: Timestamps as they stand behind the TCP header: no operation twice, kind, length, TSval, TSecr (RFC 7323 §3.2).
TIMESTAMPS = struct.Struct("!BBBBII")
_TCP_HEADER, _IPV4_HEADER, _IPV6_HEADER, _ETHERNET_MTU = 20, 20, 40, 1500


class Party:
    """What one side knows: what it has sent, and what it has received of the other.

    ``sent`` and ``received`` are sequence numbers not reduced modulo 2**32.
    """

    __slots__ = ("held", "identification", "received", "sent", "side", "tick", "unacknowledged")

    def __init__(self, side: Side, isn: int) -> None:
        self.side: Side = side
        self.sent = isn
        self.received = 0
        self.held: dict[int, int] = {}
        self.unacknowledged = 0
        self.identification = isn
        self.tick = 0


class Talk(ABC, Generic[P]):
    """A TCP connection between ``client``, who opens it, and ``server``.

    Args:
        ip_version: 4 or 6.
        clock: Gives the time of each packet in nanoseconds since the epoch, as ``itertools.count(start, step)`` does.
        client_isn: The initial sequence number of the client.
        server_isn: That of the server.
        timestamps: The TCP option is in use, which costs 12 octets of each segment.
        mtu: Of the path, in octets; ``emss`` is what headers leave of it.
    """

    def __init__(
        self,
        *,
        ip_version: int,
        clock: Iterator[int],
        client_isn: int = 0,
        server_isn: int = 0,
        timestamps: bool = True,
        mtu: int = _ETHERNET_MTU,
    ) -> None:
        self._clock = clock
        self._timestamps = timestamps
        self._headers = _TCP_HEADER + (_IPV6_HEADER if ip_version == 6 else _IPV4_HEADER)
        self._mss = mtu - self._headers
        one, two = Party("client", client_isn), Party("server", server_isn)
        one.received, two.received = two.sent, one.sent
        self._parties: dict[Side, tuple[Party, Party]] = {"client": (one, two), "server": (two, one)}

    @property
    def emss(self) -> int:
        """Octets of a full segment."""
        return self._mss - (TIMESTAMPS.size if self._timestamps else 0)

    def set_mtu(self, mtu: int) -> None:
        """The path takes packets of at most ``mtu`` octets from now on (RFC 1191)."""
        self._mss = mtu - self._headers

    def open(self) -> Iterator[P]:
        """SYN, SYN and ACK, ACK."""
        client, server = self._parties["client"]
        yield self._packet(client, server, flags=SYN, seq=client.sent)
        client.sent += 1
        server.received += 1
        yield self._packet(server, client, flags=SYN | ACK, seq=server.sent)
        server.sent += 1
        client.received += 1
        yield self._packet(client, server, flags=ACK, seq=client.sent)

    def send(self, side: Side, octets: bytes) -> Iterator[P]:
        """Octets that fit in one segment: a startup frame, say."""
        return self.transfer(side, octets, [(0, len(octets))])

    def transfer(self, side: Side, octets: bytes, cuts: Iterable[Cut], start: int = 0) -> Iterator[P]:
        """Send ``octets`` in the segments that ``cuts`` names, in the order in which it names them.

        The cuts count from ``start`` at the first of ``octets`` and cover all of them; those out of order are
        held by the receiver and acknowledged as such. Acknowledgements come in between.
        """
        sender, receiver = self._parties[side]
        origin = sender.sent - start
        sender.sent += len(octets)
        highest = start + len(octets)
        for first, after in cuts:
            payload = octets[first - start : after - start]
            flags = ACK | PSH if after == highest else ACK
            yield self._packet(sender, receiver, payload, flags=flags, seq=origin + first)
            if self._receive(receiver, origin + first, origin + after):
                yield self._packet(receiver, sender, flags=ACK, seq=receiver.sent)

    def acknowledge(self, side: Side) -> Iterator[P]:
        """What a delayed-acknowledgement timer does: ``side`` acknowledges what it has not yet, if anything."""
        party, peer = self._parties[side]
        if party.unacknowledged:
            yield self._packet(party, peer, flags=ACK, seq=party.sent)

    def finish(self, side: Side) -> Iterator[P]:
        """``side`` sends FIN."""
        party, peer = self._parties[side]
        yield self._packet(party, peer, flags=FIN | ACK, seq=party.sent)
        party.sent += 1
        peer.received += 1
        peer.unacknowledged += 1

    def close(self, side: Side = "client") -> Iterator[P]:
        """``side`` sends FIN, the other acknowledges with its own, which is acknowledged."""
        yield from self.finish(side)
        yield from self.finish("server" if side == "client" else "client")
        yield from self.acknowledge(side)

    def reset(self, side: Side) -> Iterator[P]:
        """``side`` sends RST (RFC 9293 §3.5.1)."""
        party, peer = self._parties[side]
        yield self._packet(party, peer, flags=RST | ACK, seq=party.sent)

    @staticmethod
    def _receive(receiver: Party, first: int, after: int) -> bool:
        """Note the arrival of a segment; say whether it is acknowledged at once."""
        if first != receiver.received:
            receiver.held[first] = after
            return True
        receiver.received = after
        if receiver.held:
            while (following := receiver.held.pop(receiver.received, None)) is not None:
                receiver.received = following
            return True
        receiver.unacknowledged += 1
        return receiver.unacknowledged == 2

    def _packet(self, sender: Party, receiver: Party, payload: bytes = b"", *, flags: int, seq: int) -> P:
        """One packet, stamped and with everything acknowledged that its sender has received in order."""
        time = next(self._clock)
        options = self._options(sender, receiver, flags, time)
        sender.unacknowledged = 0
        sender.identification += 1
        return self._make(sender, time, payload, flags, seq, options)

    @abstractmethod
    def _make(self, sender: Party, time: int, payload: bytes, flags: int, seq: int, options: bytes) -> P:
        """A packet of ``sender``, who acknowledges what it has received if ``flags`` has ACK."""

    def _options(self, sender: Party, receiver: Party, flags: int, time: int) -> bytes:
        if self._timestamps:
            sender.tick = time // _NANOSECONDS_PER_TICK & _LAST_TICK
            stamps = TIMESTAMPS.pack(1, 1, 8, 10, sender.tick, receiver.tick if flags & ACK else 0)
        else:
            stamps = b""
        if flags & SYN:
            shift = self._window_shift(sender.side)
            return struct.pack("!BBH", 2, 4, self._mss) + stamps + struct.pack("!BBBB", 1, 3, 3, shift)
        return stamps

    def _window_shift(self, side: Side) -> int:
        """In which unit this side counts its window: 2 to the power of this."""
        return WINDOW_SHIFT


class TcpTalk(Talk[Packet]):
    """A talk whose packets are octets: frames between two endpoints."""

    def __init__(
        self,
        client: Endpoint,
        server: Endpoint,
        *,
        clock: Iterator[int],
        client_isn: int = 0,
        server_isn: int = 0,
        timestamps: bool = True,
        mtu: int = _ETHERNET_MTU,
    ) -> None:
        self._frames = {"client": FrameMaker(client, server), "server": FrameMaker(server, client)}
        super().__init__(
            ip_version=self._frames["client"].ip_version,
            clock=clock,
            client_isn=client_isn,
            server_isn=server_isn,
            timestamps=timestamps,
            mtu=mtu,
        )

    def _make(self, sender: Party, time: int, payload: bytes, flags: int, seq: int, options: bytes) -> Packet:
        octets = self._frames[sender.side].frame(
            payload,
            seq=seq & SEQ_MASK,
            ack=sender.received & SEQ_MASK if flags & ACK else 0,
            flags=flags,
            window=WINDOW,
            options=options,
            identification=sender.identification,
        )
        return time, octets
