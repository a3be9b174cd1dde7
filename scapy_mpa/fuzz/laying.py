"""From units to packets: lays them in the two streams, cuts these in segments, and has TCP send them.

The network is perfect here; what else happens to packets is the business of mutations.
"""

from __future__ import annotations

import random
from itertools import count

from scapy_mpa.craft.deviating import DeviatingStream
from scapy_mpa.craft.packets import Endpoint, FrameMaker
from scapy_mpa.craft.setup import ConversationError, Setup, nanoseconds
from scapy_mpa.craft.stream import LaidFPDU
from scapy_mpa.craft.talk import Side, Talk
from scapy_mpa.craft.tcp import HEADERS, TIMESTAMPS
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.markers import MARKER_LENGTH, header_offset, marker_positions
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.fuzz.draft import Draft, LaidUnit
from scapy_mpa.fuzz.units import FPDUUnit, Unit, first_free

_SIDES: dict[Role, Side] = {"initiator": "client", "responder": "server"}
_GAP = 12_000
#: Nanoseconds between the first packets of two cases, longer than a case takes.
_BETWEEN_CASES = 100_000_000
_MACS = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
_ADDRESSES = 1 << 24
_RESPONDER = {4: "192.168.0.2", 6: "fd00:1::2"}


def lay(draft: Draft, rng: random.Random) -> None:
    """Make the packets of a draft; ``rng`` decides where streams are cut."""
    halves = _halves(draft)
    draft.halves = halves
    talk = Talk(
        {_SIDES[half.role]: half for half in halves},
        count(nanoseconds(Setup.time) + later(draft.case), _GAP),
        timestamps=draft.timestamps,
        mtu=draft.emss + HEADERS[draft.exchange.ip_version] + TIMESTAMPS.size * draft.timestamps,
    )
    opening = list(talk.open())
    packets = opening if draft.begins_with_syn else []
    streams = {half.role: _Stream(draft, half) for half in halves}
    for turn in draft.turns:
        stream = streams[turn.role]
        start = stream.at
        octets, laid = stream.lay(turn.units)
        cutting = draft.side(turn.role).cutting
        if octets:
            cuts = cutting.cuts(laid, draft.emss, rng)
            packets += map(_placed, talk.transfer(_SIDES[turn.role], octets, cuts, start))
    for role in ROLES:
        packets += map(_placed, talk.acknowledge(_SIDES[role]))
    if draft.close == "fin":
        packets += map(_placed, talk.close(_SIDES[draft.closes]))
    elif draft.close == "rst":
        packets += map(_placed, talk.reset(_SIDES[draft.closes]))
    draft.packets = packets


def _placed(packet: TcpPacket) -> TcpPacket:
    """The packet, which says whether it belongs to Full Operation."""
    origin = packet.half.origin
    return packet._replace(in_operation=origin is not None and packet.start >= origin)


def stream_of(draft: Draft, role: Role) -> bytes:
    """All that one side sends, without packets around it."""
    half = next(half for half in _halves(draft) if half.role == role)
    stream = _Stream(draft, half)
    return b"".join([stream.lay(turn.units)[0] for turn in draft.turns if turn.role == role])


def _halves(draft: Draft) -> tuple[SentHalf, SentHalf]:
    """Both half connections; the Initiator has an address that no other case has."""
    ports = draft.exchange.ports
    addresses = initiator_address(draft.case, draft.exchange.ip_version), _RESPONDER[draft.exchange.ip_version]
    ends = [Endpoint(address, port, mac) for address, port, mac in zip(addresses, ports, _MACS, strict=True)]
    made = [
        SentHalf(0, side.role, FrameMaker(end, peer), side.isn)
        for side, end, peer in zip(draft.sides, ends, ends[::-1], strict=True)
    ]
    for half, peer, side in zip(made, made[::-1], draft.sides, strict=True):
        half.peer, half.markers, half.crc = peer, side.way.markers, side.way.crc
    return made[0], made[1]


def initiator_address(case: int, ip_version: int) -> str:
    """The address of the Initiator of a case, so that cases can stand in one capture."""
    host = (case + 1) % _ADDRESSES
    if ip_version == 4:
        return ".".join(map(str, (10, host >> 16, host >> 8 & 0xFF, host & 0xFF)))
    return f"fd00::{host >> 16:x}:{host & 0xFFFF:x}"


def later(case: int) -> int:
    """Nanoseconds by which the packets of a case come after those of case 0."""
    return case * _BETWEEN_CASES


class _Stream:
    """Lays the units of one side; ``at`` is the offset behind the last of them."""

    def __init__(self, draft: Draft, half: SentHalf) -> None:
        self._draft = draft
        self._half = half
        self._side = draft.side(half.role)
        self._deviating: DeviatingStream | None = None
        self.at = 0

    def lay(self, units: list[Unit]) -> tuple[bytes, list[LaidFPDU]]:
        """The octets of units, and where they are, to be cut."""
        pieces, laid = [], []
        for unit in units:
            octets = self._fpdu(unit) if isinstance(unit, FPDUUnit) else unit.encode()
            if not isinstance(unit, FPDUUnit):
                if self._half.origin is None:
                    self._half.startup = self.at, self.at + len(octets)
                self._draft.places.append(LaidUnit(self._half.role, unit, self.at, octets))
            if octets:
                laid.append(LaidFPDU(self.at, self.at, 0, len(octets), 0))
                pieces.append(octets)
            self.at += len(octets)
        return b"".join(pieces), laid

    def _fpdu(self, unit: FPDUUnit) -> bytes:
        half, side = self._half, self._side
        if half.origin is None:
            half.origin = self.at
            if side.deviation is not None:
                agreed = Dialect(side.way.markers, side.way.crc, side.way.origin)
                self._deviating = DeviatingStream(half, agreed, side.deviation)
        offset = self.at - half.origin
        if self._deviating is not None:
            try:
                octets = self._deviating.lay((unit.ulpdu,))[0]
            except ConversationError:  # it would not show: nothing deviates
                self._deviating = None
            else:
                self._note(unit, offset, octets, ())
                return octets
        if not side.way.markers:
            octets = unit.encode(side.way, offset)
            self._note(unit, offset, octets, ())
            return octets
        on_grid = first_free(offset + side.grid)
        # What stands where a Marker should, and is none, is filled up.
        filler = bytes(on_grid - side.grid - offset)
        octets = filler + unit.encode(side.way, on_grid)
        places = marker_positions(on_grid, on_grid + len(octets) - len(filler) - MARKER_LENGTH + 1)
        self._note(unit, offset, octets, tuple(half.origin + place - side.grid for place in places))
        return octets

    def _note(self, unit: FPDUUnit, offset: int, octets: bytes, markers: tuple[int, ...]) -> None:
        half = self._half
        assert half.origin is not None
        header = header_offset(offset) if half.markers else offset
        half.laid.append(LaidFPDU(offset, header, len(unit.ulpdu), len(octets), len(markers)))
        half.opcodes.append(None)
        self._draft.places.append(LaidUnit(half.role, unit, half.origin + offset, octets, markers))
