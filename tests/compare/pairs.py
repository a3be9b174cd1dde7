"""Captures of one crafted connection at two taps, and what the network between them did to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.impairments import Pipeline
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scapy_mpa.framing.role import ROLES, Role

#: Nanoseconds that each packet takes, and that the clock of the second tap is ahead.
WAY, AHEAD = 1_000_000, 5_000_000_000


class Truth(NamedTuple):
    """What the network did to the segments of one direction, as far as two taps can tell.

    Copies of the same octets are interchangeable: one that is lost while another is repeated leaves no trace.
    """

    lost: int
    repeated: int
    reordered: int
    #: Offsets from the beginning of Full Operation.
    changed: set[int]
    #: True if something was sent in several copies, of which nobody knows which came first.
    has_copies: bool


class Taps(NamedTuple):
    """Both captures, and the truth by direction."""

    first: Path
    second: Path
    truth: dict[Role, Truth]


def conversation(**setup: object) -> Conversation:
    made = Conversation(**{"seed": 5, "delay": 0.0001, **setup})
    made.start()
    for number in range(12):
        made.send("initiator", bytes([number + 1]) * 5000)
        made.send("responder", bytes([number + 100]) * 3000)
    return made.close()


def taps(made: Conversation, impairments: Iterable[object], folder: Path, seed: int = 1) -> Taps:
    """Capture a conversation at both ends of a way on which the impairments happen."""
    plain = [*made.sending(0).packets()]
    impaired = [*Pipeline(impairments, seed).apply(made.sending(0).packets())]
    ends: list[list[TcpPacket]] = [[], []]
    truth: dict[Role, Truth] = {}
    for place, role in enumerate(ROLES):
        arrived = [one for one in impaired if one.half.role == role]
        # What is sent again was captured where it was sent.
        sent = [one for one in plain if one.half.role == role] + [*_again(arrived)]
        sent.sort(key=_time)
        ahead, behind = ends[place], ends[1 - place]
        ahead += sent
        behind += [one._replace(time=one.time + WAY) for one in arrived]
        truth[role] = _truth(sent, arrived)
    paths = folder / "first.pcap", folder / "second.pcap"
    for path, packets, clock in zip(paths, ends, (0, AHEAD), strict=True):
        packets.sort(key=_time)
        with path.open("wb") as file:
            PcapWriter(file).write((one.time + clock, octets_of(one)) for one in packets)
    return Taps(*paths, truth)


def _again(arrived: list[TcpPacket]) -> Iterator[TcpPacket]:
    """Yield what was sent again, each packet once and as it was sent."""
    seen = set()
    for one in arrived:
        if one.is_again and _name(one) not in seen:
            seen.add(_name(one))
            yield one._replace(damage=(), checksum="right", piece=None)


def _time(packet: TcpPacket) -> int:
    return packet.time


def _name(packet: TcpPacket) -> tuple[int, int, int, int]:
    return packet.identification, packet.start, len(packet.payload), packet.is_again


def _counts(packet: TcpPacket) -> bool:
    """Return True if it is a segment with octets, or the fragment that begins one."""
    return bool(packet.payload) and (packet.piece is None or packet.piece.start == 0)


def _truth(sent: list[TcpPacket], arrived: list[TcpPacket]) -> Truth:
    """By the names that packets have: their IP identification."""
    ours, theirs = (Counter((one.start, len(one.payload)) for one in some if _counts(one)) for some in (sent, arrived))
    places = {_name(one): number for number, one in enumerate(sent) if one.payload}
    latest, late, seen = -1, 0, set()
    for one in arrived:
        name = _name(one)
        if not one.payload or name in seen:
            continue
        seen.add(name)
        late += places[name] < latest
        latest = max(latest, places[name])
    changed = {one.start + index - (one.half.origin or 0) for one in arrived for index, _ in one.damage}
    return Truth(
        sum((ours - theirs).values()), sum((theirs - ours).values()), late, changed, max(ours.values(), default=0) > 1
    )
