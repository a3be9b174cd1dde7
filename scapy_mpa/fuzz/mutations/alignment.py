"""Where the stream is cut into segments: at FPDUs, in fields, at Markers (RFC 5044 §5.1, appendix A)."""

from __future__ import annotations

import random

from scapy_mpa.craft.segmentation import SEGMENTATIONS, Segmentation
from scapy_mpa.craft.segments import below, random_cuts
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.fuzz.draft import Draft, LaidUnit
from scapy_mpa.fuzz.draw import pick
from scapy_mpa.fuzz.mutations.common import Function

_SMALL = 400
_LARGEST_SEGMENT = 65000


def way(draft: Draft, rng: random.Random) -> str | None:
    """A side cuts its stream into segments in another way."""
    side = pick(rng, draft.sides)
    kind = pick(rng, tuple(name for name in SEGMENTATIONS if name not in ("dynamic", "window", "tiny")))
    side.cutting = Segmentation(kind)
    return f"the {side.role} cuts segments: {kind}"


def path(draft: Draft, rng: random.Random) -> str | None:
    """Segments have a different size: FPDUs no longer fit, or many fit in one."""
    draft.emss = pick(rng, (88, 127, 128, 256, 512, 516, 536, 1220, 1448, 8948))
    return f"segments of {draft.emss} octets"


def split(draft: Draft, rng: random.Random) -> str | None:
    """Segments end within a field: a length, a Marker, PAD, a CRC, a startup frame."""
    places = [place for place in draft.places if place.end > place.start]
    if not places:
        return None
    said = []
    for _ in range(1 + below(rng, 3)):
        place = pick(rng, places)
        at, what = _inside(place, rng)
        if _split(draft, place, at):
            said.append(f"{what} of {place.name}")
    return f"a segment ends in {', '.join(said)}" if said else None


def join(draft: Draft, rng: random.Random) -> str | None:
    """Neighbouring segments are joined."""
    pairs = [
        index
        for index, (one, other) in enumerate(zip(draft.packets, draft.packets[1:], strict=False))
        if one.payload and other.payload and one.half is other.half and one.end == other.start
    ]
    if not pairs:
        return None
    at = pick(rng, pairs)
    one, other = draft.packets[at], draft.packets[at + 1]
    if len(one.payload) + len(other.payload) > _LARGEST_SEGMENT:
        return None
    draft.packets[at : at + 2] = [other._replace(start=one.start, payload=one.payload + other.payload)]
    return f"packets {at} and {at + 1} in one"


def crumbs(draft: Draft, rng: random.Random) -> str | None:
    """A segment comes in pieces of a few octets."""
    data = [index for index in draft.data() if len(draft.packets[index].payload) > 1]
    if not data:
        return None
    at = pick(rng, data)
    packet = draft.packets[at]
    longest = 1 + below(rng, 12)
    size = min(len(packet.payload), _SMALL)
    cuts = [*random_cuts(0, size, rng, 1, longest)]
    if size < len(packet.payload):
        cuts.append((size, len(packet.payload)))
    draft.packets[at : at + 1] = [_part(packet, start, end) for start, end in cuts]
    return f"packet {at} in {len(cuts)} pieces of at most {longest} octets"


def _inside(place: LaidUnit, rng: random.Random) -> tuple[int, str]:
    """A stream offset within a unit, and what is there."""
    drawn = below(rng, 5)
    if place.is_fpdu and place.markers and drawn < 2:
        return pick(rng, place.markers) + below(rng, 5), "a Marker"
    if place.is_fpdu and drawn == 2:
        return place.end - below(rng, 5), "the CRC"
    if place.is_fpdu and drawn == 3:
        return place.start + 1 + below(rng, 4), "the first octets"
    return place.start + below(rng, place.end - place.start), "some octet"


def _split(draft: Draft, place: LaidUnit, at: int) -> bool:
    """Cut the segment that brings this octet before it."""
    half = draft.half(place.role)
    for index, packet in enumerate(draft.packets):
        if packet.half is half and packet.start < at < packet.end and packet.piece is None:
            middle = at - packet.start
            draft.packets[index : index + 1] = [_part(packet, 0, middle), _part(packet, middle, len(packet.payload))]
            return True
    return False


def _part(packet: TcpPacket, start: int, end: int) -> TcpPacket:
    damage = tuple((index - start, mask) for index, mask in packet.damage if start <= index < end)
    return packet._replace(start=packet.start + start, payload=packet.payload[start:end], damage=damage)


MESSAGES: tuple[Function, ...] = (way, path)
PACKETS: tuple[Function, ...] = (split, join, crumbs)
