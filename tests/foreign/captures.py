"""Captures of the conversations that ``makers`` makes: connections from their SYN on, or from the middle."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from scapy_mpa.craft.packets import Endpoint
from scapy_mpa.craft.pcapfile import Packet, PcapWriter
from scapy_mpa.craft.segments import Cut, displace, emss_cuts
from scapy_mpa.craft.talk import between, frames
from scapy_mpa.craft.tcppacket import TcpPacket
from tests.foreign.data import Data, Message
from tests.foreign.makers import MAKERS

_CLIENT, _SERVER = b"\x02\0\0\0\0\x01", b"\x02\0\0\0\0\x02"
_START, _STEP = 1_700_000_000_000_000_000, 20_000


class Tap(NamedTuple):
    """How a conversation is captured.

    ``mtu`` of the network; ``middle``: the capture begins when some of it has been said; ``late``: the fraction of
    segments that come late, as a network does that reorders or loses; ``missed``: packets the capture misses;
    ``cut`` octets of each packet are kept (None: all); so many ``connections``, one after another, share what is said.
    """

    mtu: int = 1500
    middle: bool = False
    late: float = 0.0
    missed: float = 0.0
    cut: int | None = None
    connections: int = 1


TAPS = {
    "syn": Tap(),
    "syn-jumbo-reordered": Tap(mtu=9000, late=0.03),
    "syn-lossy": Tap(late=0.02, missed=0.01),
    "middle": Tap(middle=True),
    "middle-jumbo": Tap(mtu=9000, middle=True),
    "middle-lossy": Tap(middle=True, late=0.02, missed=0.01),
    "middle-cut": Tap(middle=True, cut=128),
    "middle-short": Tap(middle=True, connections=12),
}


def foreign_packets(
    messages: Iterable[Message], tap: Tap, data: Data, server: int, client: int, octets: int
) -> Iterator[Packet]:
    """The packets of a conversation between these ports until so many octets were said."""
    return frames(_packets(messages, tap, data, server, client, octets))


def _packets(
    messages: Iterable[Message], tap: Tap, data: Data, server: int, client: int, octets: int
) -> Iterator[TcpPacket]:
    talk = between(
        Endpoint("192.0.2.1", client, _CLIENT),
        Endpoint("198.51.100.2", server, _SERVER),
        itertools.count(_START, _STEP),
        isns=(data.rng.getrandbits(32), data.rng.getrandbits(32)),
        mtu=tap.mtu,
    )
    seen = list(talk.open())
    if not tap.middle:
        yield from seen
    said = 0
    # What is missed of the beginning ends anywhere in a message.
    skip = data.between(1, 30 if octets > 100_000 else 3) if tap.middle else 0
    for side, message in messages:
        cuts: list[Cut] = emss_cuts(0, len(message), talk.emss)
        if tap.late:
            cuts = displace(cuts, data.rng, tap.late, 8)
        for packet in talk.transfer(side, message, cuts):
            if skip:
                skip -= 1
            elif not tap.missed or data.rng.random() >= tap.missed:
                yield packet
        said += len(message)
        if said >= octets:
            break
    yield from talk.acknowledge("client")
    yield from talk.close("client")


def foreign_capture(name: str, tap: Tap, seed: int, octets: int) -> bytes:
    """A pcap file of conversations with so many octets at least."""
    maker, port = MAKERS[name]
    data = Data(seed)
    file = io.BytesIO()
    writer = PcapWriter(file, snaplen=tap.cut) if tap.cut else PcapWriter(file)
    share = octets // tap.connections + 1
    for n in range(tap.connections):
        writer.write(foreign_packets(maker(data), tap, data, port, 40_000 + n, share))
    return file.getvalue()
