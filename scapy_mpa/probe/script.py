"""What one side of a case does on a connection, step by step: octets with their place in the stream, waits, the end.

A script is read off the packets that the case would be as a capture: what its side sends, in that order, and of the
peer only what has to have come before.  A step keeps its packet, so that a carrier which makes segments itself has
their numbers and flags; a carrier over the kernel's TCP uses the octets alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from scapy_mpa.craft.packets import FIN, RST, SYN
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.framing.role import Role
from scapy_mpa.tuples import NamedTuple


class Send(NamedTuple):
    """A segment with octets."""

    packet: TcpPacket

    @property
    def at(self) -> int:
        """The position of its first octet in the stream, from 0."""
        return self.packet.start

    @property
    def octets(self) -> bytes:
        """Its content."""
        return self.packet.payload


class BareOctets(NamedTuple):
    """Octets that are nobody's packet, to be sent after what was sent before."""

    octets: bytes


class Await(NamedTuple):
    """Go on when the peer has sent this: its startup frame, or an FPDU."""

    what: Literal["startup", "fpdu"]


class Finish(NamedTuple):
    """End the half connection by FIN, or the connection by RST."""

    how: Literal["fin", "rst"]


Step: TypeAlias = "Send | Await | Finish"


def script_of(
    packets: Iterable[TcpPacket], by: Role, is_forged: Callable[[TcpPacket], bool] = lambda _packet: False
) -> list[Step]:
    """The steps of a side, its own end included if it ends first; what is forged is sent whatever it carries."""
    steps: list[Step] = []
    awaited: set[str] = set()
    came: list[Literal["startup", "fpdu"]] = []
    for packet in packets:
        half = packet.half
        if half.role != by:
            if packet.flags & (FIN | RST) and not packet.is_injected:
                break
            if packet.payload and packet.in_operation:
                # A Responder must have received from an Initiator (RFC 5044 §7.1.2, rule 4), which waits for nobody.
                came += ["fpdu"] if by == "responder" else []
            elif packet.payload and half.startup is not None and packet.end > half.startup[0]:
                came.append("startup")
            continue
        if packet.payload or is_forged(packet):
            for what in came:
                if what not in awaited:
                    awaited.add(what)
                    steps.append(Await(what))
            came.clear()
            steps.append(Send(packet))
        elif packet.flags & (FIN | RST) and not packet.flags & SYN:
            steps.append(Finish("rst" if packet.flags & RST else "fin"))
    return steps
