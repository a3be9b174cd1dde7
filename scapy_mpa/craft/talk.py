"""Two parties of a TCP connection, seen by a tap between them that misses nothing (RFC 9293).

What each side wants to send goes in; packets come out, with the sequence and acknowledgement numbers,
timestamps (RFC 7323) and acknowledgements a real connection has: one for every second segment in order, one
at once for a segment out of order and for one that fills a hole (RFC 5681 §4.2). Times are drawn from an
iterator that the caller gives, one a packet, so that many talks can share it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Literal

from .packets import ACK, FIN, PSH, SYN, Endpoint, FrameMaker
from .pcapfile import Packet
from .segments import Cut

Side = Literal["client", "server"]

_MODULO = 0xFFFFFFFF
_WINDOW = 2048
_WINDOW_SHIFT = 7
_NANOSECONDS_PER_TICK = 1_000_000
_TIMESTAMPS = struct.Struct("!BBBBII")
_TCP_HEADER, _IPV4_HEADER, _IPV6_HEADER, _ETHERNET_MTU = 20, 20, 40, 1500


class _Party:
    """What one side knows: what it has sent, and what it has received of the other."""

    __slots__ = ("frames", "held", "identification", "received", "sent", "tick", "unacknowledged")

    def __init__(self, frames: FrameMaker, isn: int) -> None:
        self.frames = frames
        self.sent = isn  # not reduced modulo 2**32, as all of a party's numbers
        self.received = 0
        self.held: dict[int, int] = {}
        self.unacknowledged = 0
        self.identification = isn
        self.tick = 0


class TcpTalk:
    """A TCP connection between `client`, who opens it, and `server`.

    `clock` gives the time of each packet in nanoseconds since the epoch, `itertools.count(start, step)` for
    one. `client_isn` and `server_isn` are the initial sequence numbers; `timestamps`: the TCP option is in
    use, which costs 12 octets of each segment (`emss` is what is left).
    """

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
        self._clock = clock
        self._timestamps = timestamps
        self._mss = mtu - _TCP_HEADER - (_IPV6_HEADER if ":" in client.address else _IPV4_HEADER)
        self.emss = self._mss - (_TIMESTAMPS.size if timestamps else 0)
        one = _Party(FrameMaker(client, server), client_isn)
        two = _Party(FrameMaker(server, client), server_isn)
        one.received, two.received = two.sent, one.sent
        self._parties: dict[Side, tuple[_Party, _Party]] = {"client": (one, two), "server": (two, one)}

    def open(self) -> Iterator[Packet]:
        """SYN, SYN and ACK, ACK."""
        client, server = self._parties["client"]
        yield self._packet(client, server, flags=SYN, seq=client.sent)
        client.sent += 1
        server.received += 1
        yield self._packet(server, client, flags=SYN | ACK, seq=server.sent)
        server.sent += 1
        client.received += 1
        yield self._packet(client, server, flags=ACK, seq=client.sent)

    def send(self, side: Side, octets: bytes) -> Iterator[Packet]:
        """Octets that fit in one segment: a startup frame, say."""
        return self.transfer(side, octets, [(0, len(octets))])

    def transfer(self, side: Side, octets: bytes, cuts: Iterable[Cut], start: int = 0) -> Iterator[Packet]:
        """Send `octets` in the segments that `cuts` names, in the order in which it names them.

        The cuts count from `start` at the first of `octets` and cover all of them; those out of order are
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

    def acknowledge(self, side: Side) -> Iterator[Packet]:
        """What a delayed-acknowledgement timer does: `side` acknowledges what it has not yet, if anything."""
        party, peer = self._parties[side]
        if party.unacknowledged:
            yield self._packet(party, peer, flags=ACK, seq=party.sent)

    def close(self, side: Side = "client") -> Iterator[Packet]:
        """`side` sends FIN, the other acknowledges with its own, which is acknowledged."""
        party, peer = self._parties[side]
        for sender, receiver in ((party, peer), (peer, party)):
            yield self._packet(sender, receiver, flags=FIN | ACK, seq=sender.sent)
            sender.sent += 1
            receiver.received += 1
        yield self._packet(party, peer, flags=ACK, seq=party.sent)

    @staticmethod
    def _receive(receiver: _Party, first: int, after: int) -> bool:
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

    def _packet(self, sender: _Party, receiver: _Party, payload: bytes = b"", *, flags: int, seq: int) -> Packet:
        """One packet, stamped and with everything acknowledged that its sender has received in order."""
        time = next(self._clock)
        options = self._options(sender, receiver, flags, time)
        sender.unacknowledged = 0
        sender.identification += 1
        octets = sender.frames.frame(
            payload,
            seq=seq & _MODULO,
            ack=sender.received & _MODULO if flags & ACK else 0,
            flags=flags,
            window=_WINDOW,
            options=options,
            identification=sender.identification,
        )
        return time, octets

    def _options(self, sender: _Party, receiver: _Party, flags: int, time: int) -> bytes:
        if self._timestamps:
            sender.tick = time // _NANOSECONDS_PER_TICK & _MODULO
            stamps = _TIMESTAMPS.pack(1, 1, 8, 10, sender.tick, receiver.tick if flags & ACK else 0)
        else:
            stamps = b""
        if flags & SYN:
            return struct.pack("!BBH", 2, 4, self._mss) + stamps + struct.pack("!BBBB", 1, 3, 3, _WINDOW_SHIFT)
        return stamps
