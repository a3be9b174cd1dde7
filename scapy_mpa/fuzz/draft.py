"""A case while it is being made: first what the two sides say, unit by unit, then the packets that carry it.

``drafted`` takes a window of an exchange; mutations change the units; ``laying`` makes packets of them; more mutations
change the packets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scapy_mpa.craft.segmentation import Segmentation
from scapy_mpa.craft.setup import Close
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import C, M
from scapy_mpa.fuzz.exchange import Exchange
from scapy_mpa.fuzz.units import FPDUUnit, Startup, Unit, Way, startup_of
from scapy_mpa.report.said import Said


class Window(NamedTuple):
    """Which messages of an exchange: from a place (0 to 1) on, so many octets of ULPDUs; None: all."""

    start: float = 0.0
    octets: int | None = None


class Agreed(NamedTuple):
    """What the startup frames say in place of what they said: Markers (from the Initiator, the Responder), CRC."""

    markers: tuple[bool, bool]
    crc: bool


@dataclass
class DraftSide:
    """One side: how it lays FPDUs, cuts its stream, and what its sequence numbers begin with."""

    role: Role
    way: Way
    isn: int
    cutting: Segmentation
    deviation: str | None = None
    #: Octets by which its Markers stand too early.
    grid: int = 0


@dataclass
class Turn:
    """What one side sends before the other answers."""

    role: Role
    units: list[Unit]


class LaidUnit(NamedTuple):
    """Where a unit was laid, in octets of the TCP stream of its side; ``markers`` are where Markers begin."""

    role: Role
    unit: Unit
    start: int
    octets: bytes
    markers: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """What the unit is called."""
        return self.unit.name

    @property
    def end(self) -> int:
        """The stream offset behind it."""
        return self.start + len(self.octets)

    @property
    def is_fpdu(self) -> bool:
        """Whether it is an FPDU."""
        return isinstance(self.unit, FPDUUnit)


@dataclass
class Draft:
    """A case that is being made; ``packets`` and ``places`` are there when it has been laid."""

    exchange: Exchange
    case: int
    sides: tuple[DraftSide, DraftSide]
    turns: list[Turn]
    emss: int
    timestamps: bool = False
    begins_with_syn: bool = True
    close: Close = "fin"
    closes: Role = "initiator"
    packets: list[TcpPacket] = field(default_factory=list)
    places: list[LaidUnit] = field(default_factory=list)
    halves: tuple[SentHalf, ...] = ()
    snaplen: int | None = None

    def side(self, role: Role) -> DraftSide:
        """One of the two."""
        return self.sides[ROLES.index(role)]

    def half(self, role: Role) -> SentHalf:
        """The half connection that a side sent, when it has been laid."""
        return self.halves[ROLES.index(role)]

    def units(self) -> Iterator[tuple[Turn, int, Unit]]:
        """Every unit, with its turn and its place in that."""
        for turn in self.turns:
            for index, unit in enumerate(turn.units):
                yield turn, index, unit

    def fpdus(self, role: Role | None = None) -> list[tuple[Turn, FPDUUnit]]:
        """The FPDUs, of one side or of both."""
        return [
            (turn, unit) for turn, _, unit in self.units() if isinstance(unit, FPDUUnit) and role in (None, turn.role)
        ]

    def startups(self) -> list[tuple[Turn, Startup]]:
        """The startup frames."""
        return [(turn, unit) for turn, _, unit in self.units() if isinstance(unit, Startup)]

    def data(self) -> list[int]:
        """The indices of the packets that carry octets, whole datagrams."""
        return [index for index, packet in enumerate(self.packets) if packet.payload and packet.piece is None]


def drafted(
    exchange: Exchange,
    case: int,
    window: Window,
    *,
    agreed: Agreed | None = None,
    isns: tuple[int, int] = (0, 0),
    cuttings: tuple[Segmentation, Segmentation] = (Segmentation(), Segmentation()),
    emss: int = 1448,
) -> Draft:
    """Some messages of an exchange, behind its startup frames, as they were or with something else agreed on."""
    ways, frames = exchange.ways, []
    for role, frame in zip(ROLES, (exchange.request, exchange.reply), strict=True):
        if frame is not None:
            frames.append(Turn(role, [startup_of(frame, "Request" if role == "initiator" else "Reply")]))
    if agreed is not None and len(frames) == len(ROLES):
        ways = ways[0]._replace(markers=agreed.markers[0]), ways[1]._replace(markers=agreed.markers[1])
        ways = ways[0]._replace(crc=agreed.crc), ways[1]._replace(crc=agreed.crc)
        for turn, asks in zip(frames, agreed.markers[::-1], strict=True):
            (startup,) = turn.units
            assert isinstance(startup, Startup)
            startup.flags = startup.flags & ~(M | C) | (M if asks else 0) | (C if agreed.crc else 0)
    sides = [
        DraftSide(role, way, isn, cutting, deviation)
        for role, way, isn, cutting, deviation in zip(ROLES, ways, isns, cuttings, exchange.deviations, strict=True)
    ]
    turns = [*frames, *_turns(exchange.said, window)]
    return Draft(exchange, case, (sides[0], sides[1]), turns, emss, begins_with_syn=exchange.begins_with_syn)


def _turns(said: tuple[Said, ...], window: Window) -> Iterator[Turn]:
    """Turns of the FPDUs in a window; one that is longer than the window alone is cut to it."""
    numbers = dict.fromkeys(ROLES, 0)
    first = int(window.start * len(said))
    for one in said[:first]:
        numbers[one.role] += 1
    room = window.octets
    turn: Turn | None = None
    for one in said[first:]:
        ulpdu = one.ulpdu
        if room is not None:
            if turn is not None and len(ulpdu) > room:
                break
            ulpdu = ulpdu[:room]
            room -= len(ulpdu)
        unit = FPDUUnit(f"{one.role} FPDU {numbers[one.role]}", ulpdu, ulpdu, pad=one.pad)
        if one.crc is not None:
            unit = replace(unit, crc=one.crc)
        numbers[one.role] += 1
        if turn is None or turn.role != one.role:
            if turn is not None:
                yield turn
            turn = Turn(one.role, [])
        turn.units.append(unit)
    if turn is not None:
        yield turn
