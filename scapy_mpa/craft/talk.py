"""Two parties of a TCP connection, seen by a tap between them that misses nothing (RFC 9293).

What each side wants to send goes in; packets come out, with the sequence and acknowledgement numbers, timestamps and
acknowledgements a real connection has. ``Talk`` is a wire between two ``TCP``s: it brings each packet to the other side
before the next is made. Times are drawn from an iterator that the caller gives, one a packet, so that many talks can
share it. Its packets are values (``TcpPacket``), which ``frames`` turns into octets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from scapy_mpa.craft.packets import ACK, PSH, RST, Endpoint, FrameMaker
from scapy_mpa.craft.pcapfile import Packet
from scapy_mpa.craft.segments import Cut
from scapy_mpa.craft.tcp import CRAFTED, TCP
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket, octets_of

Side = Literal["client", "server"]

ETHERNET_MTU = 1500


class Talk:
    """A TCP connection between ``client``, who opens it, and ``server``.

    Args:
        halves: the half connections, by sender.
        clock: gives the time of each packet in nanoseconds since the epoch, as ``itertools.count(start, step)`` does.
        timestamps: the TCP option is in use, which costs 12 octets of each segment.
        mtu: of the path, in octets; ``emss`` is what headers leave of it.
        windows: small windows, in octets, by the receiver that offers them; None: a large one.
    """

    def __init__(
        self,
        halves: dict[Side, SentHalf],
        clock: Iterator[int],
        *,
        timestamps: bool = True,
        mtu: int = ETHERNET_MTU,
        windows: dict[Side, int | None] | None = None,
    ) -> None:
        self._sides: dict[Side, TCP] = {
            side: TCP(
                half,
                mtu=mtu,
                timestamps=timestamps,
                habits=CRAFTED,
                clock=clock,
                window=windows[side] if windows is not None else None,
            )
            for side, half in halves.items()
        }

    @property
    def emss(self) -> int:
        """Octets of a full segment."""
        return self._sides["client"].mss

    def set_mtu(self, mtu: int) -> None:
        """The path takes packets of at most ``mtu`` octets from now on (RFC 1191)."""
        for tcp in self._sides.values():
            tcp.set_mtu(mtu)

    def operate(self, in_operation: bool) -> None:
        """Packets from now on belong to Full Operation, or do not."""
        for tcp in self._sides.values():
            tcp.in_operation = in_operation

    def sent(self, side: Side) -> int:
        """Octets of its stream that a side has sent."""
        return self._sides[side].snd_nxt

    def open(self) -> Iterator[TcpPacket]:
        """SYN, SYN and ACK, ACK."""
        self._sides["server"].listen()
        self._sides["client"].open()
        return self._carry("client")

    def send(self, side: Side, octets: bytes) -> Iterator[TcpPacket]:
        """Send octets that fit in one segment, such as a startup frame."""
        return self.transfer(side, octets, [(0, len(octets))])

    def transfer(self, side: Side, octets: bytes, cuts: Iterable[Cut], start: int = 0) -> Iterator[TcpPacket]:
        """Send ``octets`` in the segments that ``cuts`` names, in the order in which it names them.

        The cuts count from ``start`` at the first of ``octets`` and cover all of them; those out of order are
        held by the receiver and acknowledged as such. Acknowledgements come in between.
        """
        sender, receiver = self._sides[side], self._sides[other(side)]
        origin, highest = sender.snd_nxt - start, start + len(octets)
        for first, after in cuts:
            flags = ACK | PSH if after == highest else ACK
            sender.push(origin + first, octets[first - start : after - start], flags)
            (packet,) = sender.take_out()
            yield packet
            receiver.deliver(packet)
            if receiver.out:
                yield from self._carry(other(side))
        receiver.take()

    def acknowledge(self, side: Side) -> Iterator[TcpPacket]:
        """Act as a delayed-acknowledgement timer: ``side`` acknowledges what it has not yet, if anything."""
        tcp = self._sides[side]
        if tcp.unacked:
            tcp.acknowledge()
        return self._carry(side)

    def hold(self, side: Side) -> None:
        """The application of ``side`` does not read: what comes now stays in its small window."""
        self._sides[side].hold()

    def read(self, side: Side) -> Iterator[TcpPacket]:
        """Read everything; announce it if there is more room than was announced, or something to acknowledge."""
        self._sides[side].read()
        return self._carry(side)

    def finish(self, side: Side) -> Iterator[TcpPacket]:
        """``side`` sends FIN."""
        self._sides[side].finish()
        return self._carry(side)

    def close(self, side: Side = "client") -> Iterator[TcpPacket]:
        """``side`` sends FIN, the other acknowledges with its own, which is acknowledged."""
        yield from self.finish(side)
        yield from self.finish(other(side))
        yield from self.acknowledge(side)

    def reset(self, side: Side) -> Iterator[TcpPacket]:
        """``side`` sends RST (RFC 9293 §3.5.1)."""
        self._sides[side].acknowledge(RST | ACK)
        return iter(self._sides[side].take_out())

    def _carry(self, side: Side) -> Iterator[TcpPacket]:
        """Bring what a side sends to the other, and back what that sends then, until neither has more."""
        source, sink = self._sides[side], self._sides[other(side)]
        while source.out:
            for packet in source.take_out():
                yield packet
                sink.deliver(packet)
            source, sink = sink, source


def other(side: Side) -> Side:
    """The side that is not ``side``."""
    return "server" if side == "client" else "client"


def between(
    client: Endpoint,
    server: Endpoint,
    clock: Iterator[int],
    *,
    isns: tuple[int, int] = (0, 0),
    timestamps: bool = True,
    mtu: int = ETHERNET_MTU,
) -> Talk:
    """Return a talk between two endpoints; ``isns`` are the initial sequence numbers of client and server."""
    one = SentHalf(0, "initiator", FrameMaker(client, server), isns[0])
    two = SentHalf(0, "responder", FrameMaker(server, client), isns[1])
    one.peer, two.peer = two, one
    return Talk({"client": one, "server": two}, clock, timestamps=timestamps, mtu=mtu)


def frames(packets: Iterable[TcpPacket]) -> Iterator[Packet]:
    """Yield packets as octets, with their times."""
    return ((packet.time, octets_of(packet)) for packet in packets)
