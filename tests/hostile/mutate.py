"""Mutations of a capture's packets: each takes a draft and a random number generator, and changes the draft.

Draws only on ``random()`` and ``getrandbits()``, whose results do not change between Python versions.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

from scapy_mpa.craft.changes.draws import edge, pick
from scapy_mpa.craft.segments import below
from tests.capture.frames import linked, with_vlans
from tests.capture.tunnels import TUNNELS, in_fragments, is_ip
from tests.hostile.samples import KINDS, Draft, Packet, samples, window

Mutation = Callable[[Draft, random.Random], None]

#: Octets that each kind of mark marks, as far as mutations are concerned.
_SIZES = {
    "ethernet": 14, "ip": 40, "tcp": 20, "payload": 64, "startup": 40, "length": 2, "marker": 4, "ddp": 18, "crc": 4,
}  # fmt: skip
#: A capture may become so many packets, so that mutations of mutations stay small.
_MOST_PACKETS = 2500
_MOST_OCTETS = 200_000
#: Deeper than is looked into.
_DEEPEST = 12


def _marked(draft: Draft, rng: random.Random, kind: str) -> tuple[Packet, int] | None:
    """A packet with such a mark, and where the mark is."""
    having = [packet for packet in draft.packets if packet.marks.get(kind)]
    if not having:
        return None
    packet = pick(rng, having)
    return packet, pick(rng, packet.marks[kind])


def _forge(draft: Draft, rng: random.Random, kind: str, offset: int, layout: str) -> None:
    """Put an odd number in place of the one at an offset from a mark."""
    found = _marked(draft, rng, kind)
    if found is None:
        return
    packet, at = found
    at += offset
    if at + struct.calcsize(layout) <= len(packet.octets):
        (value,) = struct.unpack_from(layout, packet.octets, at)
        struct.pack_into(layout, packet.octets, at, edge(rng, struct.calcsize(layout) * 8, value))


# --- octets ---


def flip(draft: Draft, rng: random.Random) -> None:
    """Change some octets of one header."""
    found = _marked(draft, rng, pick(rng, KINDS))
    if found is None:
        return
    packet, at = found
    size = _SIZES[next(kind for kind, places in packet.marks.items() if at in places)]
    for _ in range(1 + below(rng, 3)):
        place = at + below(rng, size)
        if place < len(packet.octets):
            packet.octets[place] = pick(rng, (packet.octets[place] ^ 1 << below(rng, 8), 0, 255, rng.getrandbits(8)))


def flip_anywhere(draft: Draft, rng: random.Random) -> None:
    """Change one octet of a packet."""
    packet = pick(rng, draft.packets)
    if packet.octets:
        packet.octets[below(rng, len(packet.octets))] ^= 1 + below(rng, 255)


def forge_ip(draft: Draft, rng: random.Random) -> None:
    """Forge a length, the fragment fields, the protocol or the header length of IP."""
    offset, layout = pick(rng, ((2, ">H"), (6, ">H"), (4, ">H"), (0, ">B"), (9, ">B"), (6, ">B")))
    _forge(draft, rng, "ip", offset, layout)


def forge_tcp(draft: Draft, rng: random.Random) -> None:
    """Forge ports, numbers, data offset, flags or checksum of TCP."""
    fields = ((4, ">I"), (4, ">I"), (8, ">I"), (12, ">B"), (13, ">B"), (13, ">B"), (16, ">H"), (0, ">H"))
    offset, layout = pick(rng, fields)
    _forge(draft, rng, "tcp", offset, layout)


def forge_startup(draft: Draft, rng: random.Random) -> None:
    """Forge flags, Rev, PD_Length or the enhanced data of a startup frame."""
    fields = ((16, ">B"), (16, ">B"), (17, ">B"), (18, ">H"), (18, ">H"), (20, ">H"), (22, ">H"))
    offset, layout = pick(rng, fields)
    _forge(draft, rng, "startup", offset, layout)


def forge_ulpdu_length(draft: Draft, rng: random.Random) -> None:
    """Forge the length of an FPDU."""
    _forge(draft, rng, "length", 0, ">H")


def forge_marker(draft: Draft, rng: random.Random) -> None:
    """Forge FPDUPTR, or what is reserved before it."""
    _forge(draft, rng, "marker", pick(rng, (0, 2, 2, 2)), ">H")


def forge_ddp(draft: Draft, rng: random.Random) -> None:
    """Forge the control octets of DDP and RDMAP."""
    _forge(draft, rng, "ddp", below(rng, 2), ">B")


def forge_crc(draft: Draft, rng: random.Random) -> None:
    """Forge the CRC of an FPDU."""
    _forge(draft, rng, "crc", 0, ">I")


# --- packets ---


def drop(draft: Draft, rng: random.Random) -> None:
    """Lose packets."""
    first = below(rng, len(draft.packets))
    del draft.packets[first : first + 1 + below(rng, 4)]


def begin_in_the_middle(draft: Draft, rng: random.Random) -> None:
    """Lose the first packets."""
    del draft.packets[: below(rng, min(len(draft.packets), 20))]


def duplicate(draft: Draft, rng: random.Random) -> None:
    """Capture packets twice, the second time somewhere behind."""
    at = below(rng, len(draft.packets))
    again = [packet.copy() for packet in draft.packets[at : at + 1 + below(rng, 6)]]
    place = at + 1 + below(rng, len(draft.packets) - at)
    draft.packets[place:place] = again


def move(draft: Draft, rng: random.Random) -> None:
    """See a packet earlier or later."""
    packet = draft.packets.pop(below(rng, len(draft.packets)))
    draft.packets.insert(below(rng, len(draft.packets) + 1), packet)


def reverse(draft: Draft, rng: random.Random) -> None:
    """See some packets from the last to the first."""
    start = below(rng, len(draft.packets))
    end = start + below(rng, len(draft.packets) - start) + 1
    draft.packets[start:end] = draft.packets[start:end][::-1]


def shuffle(draft: Draft, rng: random.Random) -> None:
    """See some packets in any order."""
    start = below(rng, len(draft.packets))
    end = start + 1 + below(rng, 40)
    draft.packets[start:end] = sorted(draft.packets[start:end], key=lambda _: rng.random())


def cut(draft: Draft, rng: random.Random) -> None:
    """Capture less of packets than there was: of one, or of all."""
    length = below(rng, pick(rng, (64, 128, 1500)))
    for packet in draft.packets if rng.random() < 0.3 else [pick(rng, draft.packets)]:
        del packet.octets[length:]


def forge_wire_length(draft: Draft, rng: random.Random) -> None:
    """Have the record claim another length on the wire."""
    packet = pick(rng, draft.packets)
    packet.wire = edge(rng, 32, packet.wire)


def retime(draft: Draft, rng: random.Random) -> None:
    """Put packets at another time."""
    distance = below(rng, 100) * 10**9 - 50 * 10**9
    for packet in draft.packets[below(rng, len(draft.packets)) :]:
        packet.time = max(packet.time + distance, 0)


def small_segments(draft: Draft, rng: random.Random) -> None:
    """Have TCP send a packet's payload in small segments; it may overlap itself."""
    found = _marked(draft, rng, "payload")
    if found is None or not (found[0].marks.get("tcp") and found[0].marks.get("ip")):
        return
    packet, at = found
    size, step = 1 + below(rng, 16), 1 + below(rng, 16)
    tcp, ip = packet.marks["tcp"][0], packet.marks["ip"][0]
    if at > len(packet.octets) or tcp + 20 > at or ip + 20 > tcp:
        return
    (seq,) = struct.unpack_from(">I", packet.octets, tcp + 4)
    made = []
    for start in range(0, min(len(packet.octets) - at, 1500), min(step, size)):
        octets = packet.octets[:at] + packet.octets[at + start : at + start + size]
        struct.pack_into(">I", octets, tcp + 4, (seq + start) & 0xFFFFFFFF)
        is_ipv4 = octets[ip] >> 4 == 4
        struct.pack_into(">H", octets, ip + (2 if is_ipv4 else 4), (len(octets) - ip - (0 if is_ipv4 else 40)) & 0xFFFF)
        made.append(Packet(packet.time, octets, len(octets), {"ip": [ip], "tcp": [tcp], "payload": [at]}))
    where = next(number for number, other in enumerate(draft.packets) if other is packet)
    if len(draft.packets) + len(made) < _MOST_PACKETS:
        draft.packets[where : where + 1] = made


def splice(draft: Draft, rng: random.Random) -> None:
    """Mix in another capture; perhaps under the addresses and ports of this one."""
    other = window(pick(rng, samples()), rng)
    found = _marked(draft, rng, "tcp")
    if found is not None and rng.random() < 0.5:
        packet, at = found
        theirs = bytes(packet.octets[at - 8 : at + 4])
        for mine in other.packets:
            for tcp in mine.marks.get("tcp", ()):
                ports = theirs[8:] if mine.octets[tcp : tcp + 2] < mine.octets[tcp + 2 : tcp + 4] else theirs[10:]
                mine.octets[tcp - 8 : tcp + 4] = theirs[:8] + (ports + theirs[8:10])[:4]
    place = below(rng, len(draft.packets) + 1)
    if rng.random() < 0.5:
        draft.packets[place:place] = other.packets
    else:
        for number, packet in enumerate(other.packets):
            draft.packets.insert(place + 2 * number, packet)


# --- what stands around and below ---


def nest(draft: Draft, rng: random.Random) -> None:
    """Put packets into tunnels, perhaps into more than are looked into."""
    if draft.link_type != 1:
        return
    names = [pick(rng, sorted(TUNNELS)) for _ in range(pick(rng, (1, 1, 1, 2, 3, _DEEPEST)))]
    for packet in draft.packets if rng.random() < 0.6 else [pick(rng, draft.packets)]:
        for name in names:
            if len(packet.octets) >= 14 and is_ip(bytes(packet.octets)):
                packet.replace(TUNNELS[name](bytes(packet.octets)))


def tag(draft: Draft, rng: random.Random) -> None:
    """Add VLAN tags, or MPLS labels that never end."""
    if draft.link_type == 1:
        packet = pick(rng, draft.packets)
        kind = pick(rng, (0x8100, 0x88A8, 0x9100, 0x8847))
        tags = [(kind, rng.getrandbits(16)) for _ in range(1 + below(rng, pick(rng, (2, 40))))]
        if len(packet.octets) >= 14:
            packet.replace(with_vlans(bytes(packet.octets), *tags))


def fragment(draft: Draft, rng: random.Random) -> None:
    """Send packets in IP fragments; some may overlap, be lost, or come in another order."""
    size = 8 * (1 + below(rng, pick(rng, (4, 100))))
    made: list[Packet] = []
    if draft.link_type != 1 or sum(len(packet.octets) for packet in draft.packets) // size > _MOST_PACKETS:
        return
    for ident, packet in enumerate(draft.packets):
        octets = bytes(packet.octets)
        # What has been forged already cannot be taken apart.
        whole = len(octets) >= 54 and octets[12:15] in (b"\x08\x00\x45", b"\x86\xdd\x60")
        pieces = in_fragments(octets, size, ident & 0xFFFF) if whole else [octets]
        if len(pieces) > 1 and rng.random() < 0.1:
            pieces[below(rng, len(pieces))] = pick(rng, pieces)
        made += [Packet(packet.time, bytearray(piece), len(piece), {"ip": [14]}) for piece in pieces]
    draft.packets = made


def relink(draft: Draft, rng: random.Random) -> None:
    """Capture at another link layer, or claim to have."""
    link_type = pick(rng, (0, 1, 9, 12, 14, 50, 51, 101, 108, 113, 228, 229, 276))
    if draft.link_type == 1 and rng.random() < 0.7:
        for packet in draft.packets:
            if len(packet.octets) >= 14:
                packet.replace(linked(link_type, bytes(packet.octets)))
    draft.link_type = link_type


#: By name, so that a case can be written down.
MUTATIONS: dict[str, Mutation] = {
    function.__name__: function
    for function in (
        flip, flip_anywhere, forge_ip, forge_tcp, forge_startup, forge_ulpdu_length, forge_marker, forge_ddp,
        forge_crc, drop, begin_in_the_middle, duplicate, move, reverse, shuffle, cut, forge_wire_length, retime,
        small_segments, splice, nest, tag, fragment, relink,
    )
}  # fmt: skip


def mutate(draft: Draft, mutations: Sequence[tuple[str, int]]) -> None:
    """Apply mutations one after another, each with a generator of its own, as long as the draft stays small."""
    for name, seed in mutations:
        if not draft.packets:
            return
        if len(draft.packets) <= _MOST_PACKETS and sum(len(packet.octets) for packet in draft.packets) <= _MOST_OCTETS:
            MUTATIONS[name](draft, random.Random(seed))
