"""Which cases each role can be given, and by what: the kernel's TCP, our own segments, or only a capture.

It follows from what a case is: the octets that its side sends are carried by any TCP if each is sent once, in order,
and nothing else is changed.  Whatever is about segments (numbers, flags, checksums, their order, copies) takes a TCP
that makes them, and whatever is about what was captured, or about what the peer does by itself, is only a capture.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from scapy_mpa.catalogue.case import Case
from scapy_mpa.craft.packets import FIN, RST, SYN
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.framing.role import Role, peer_of
from scapy_mpa.probe.script import Send, script_of
from scapy_mpa.tuples import NamedTuple

Carriage: TypeAlias = Literal["tcp", "raw", "capture"]

#: What carries a case, in words.
CARRIAGES: dict[Carriage, str] = {
    "tcp": "the kernel's TCP",
    "raw": "own TCP (--raw)",
    "capture": "capture file only",
}

#: Changes by their names for which the packets do not tell what it takes, and why.
_BY_NAME: dict[str, tuple[Carriage, str]] = {
    "capture-loss": ("capture", "the peer has all octets: only the capture lacks some"),
    "cut": ("capture", "it is about where a capture begins"),
    "snap": ("capture", "it is about what a capture keeps of a packet"),
    "foreign": ("capture", "it is about the link types of a capture"),
    "repeated": ("capture", "it is about several connections"),
    "in-vain": ("capture", "it is about a peer that is gone"),
    "reset-in-answer": ("capture", "it is about what the peer does on its own"),
    "refused": ("capture", "it is about a peer that does not listen"),
    "fragmented": ("raw", "it is about IP fragments"),
    "hops": ("raw", "it is about the TTL"),
    "reported-too-big": ("raw", "it is about ICMP"),
}


class Reach(NamedTuple):
    """Whom a case can be given to, what carries it, and why not the kernel's TCP."""

    role: Role
    carriage: Carriage
    why: str = ""


def reach_of(case: Case) -> Reach:
    """Return what a case requires."""
    role = peer_of(case.by)
    if case.options:
        return Reach(role, "capture", "it is about an option of the analysis")
    found = [_BY_NAME[change.name] for change in case.changes if change.name in _BY_NAME]
    if found:
        return Reach(role, *min(found))
    plan = case.plan()
    packets = plan.sent()
    if any(packet.checksum in ("zero", "pseudo") for packet in packets):
        return Reach(role, "capture", "it is about checksums that a card fills in")
    if any(isinstance(step, str) and step.startswith("path-mtu") for step in plan.steps):
        return Reach(role, "raw", "it is about the sizes of segments on a path that changes")
    if any(plan.setup.get("isn", ())):
        return Reach(role, "raw", "it is about sequence numbers")
    if _asks_nothing(packets, case.by, plan.setup.get("profile") != "culley-02"):
        return Reach(role, "capture", "an Initiator begins on its own")
    why = _beyond_tcp([packet for packet in packets if packet.half.role == case.by], packets)
    return Reach(role, "raw", why) if why else Reach(role, "tcp")


def _asks_nothing(packets: list[TcpPacket], by: Role, is_negotiated: bool) -> bool:
    """Return True if a Responder speaks to an Initiator that never sends its Request."""
    return by == "responder" and is_negotiated and not any(p.payload for p in packets if p.half.role == "initiator")


def _beyond_tcp(own: list[TcpPacket], packets: list[TcpPacket]) -> str:
    """Return what a kernel's TCP would not do by itself of what a side sends; "" if nothing."""
    if any(packet.is_injected or packet.half is not own[0].half for packet in own):
        return "it has segments that are forged, or from an earlier connection"
    if any(packet.damage or packet.is_dropped for packet in own):
        return "it has segments that are damaged in transit"
    if any(packet.half.role == own[0].half.role and packet.flags & RST and packet is not own[-1] for packet in packets):
        return "it continues after a RST"
    if any(packet.header for packet in own):
        return "it has segments with another IP header"
    following, is_over = 0, False
    for packet in own:
        if packet.flags & SYN:
            if packet.payload or packet is not own[0]:
                return "it has a SYN with octets, or a second one"
            continue
        if packet.payload:
            if packet.start != following or is_over:
                return "its octets do not arrive in order and once each"
            following = packet.end
        is_over = is_over or bool(packet.flags & (FIN | RST))
    if not any(isinstance(step, Send) for step in script_of(packets, own[0].half.role)) and following:
        return "it sends after its peer has closed"
    return ""
