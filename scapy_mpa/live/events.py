"""The events that an endpoint hands up, in the order in which they happened (RFC 5044 §3, §7.1.2, §7.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from scapy_mpa.framing.agreement import Operation, RtrType
from scapy_mpa.framing.negotiation import Rejection
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import StartupFrame


@dataclass(frozen=True, slots=True)
class StreamDataReceived:
    """Octets that are not MPA's: before ``start()`` (delayed startup, §7.1.3), or after a rejection (§7.1.2)."""

    octets: bytes


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A Responder has a valid Request. Unless it accepts automatically, ``accept()`` or ``reject()`` comes next."""

    request: StartupFrame

    @property
    def private_data(self) -> bytes:
        """The ULP's own, without enhanced data."""
        return self.request.ulp_data


@dataclass(frozen=True, slots=True)
class Established:
    """Full Operation: the Initiator has an accepting Reply, the Responder has sent one.

    A Responder still waits for the first FPDU before it may send (``may_send``).  Both frames are None in
    draft-culley-iwarp-mpa-02, which has none.
    """

    request: StartupFrame | None
    reply: StartupFrame | None
    #: Markers in each direction, CRC, IRD and ORD, RTR types, DDP and RDMAP versions.
    agreement: Operation
    #: Of DDP and RDMAP, which "MPA MUST provide" to them (§3).
    version: int
    #: The ready-to-receive message that this endpoint, as Initiator, has queued as its first FPDU (RFC 6581 §9.2).  A
    #: Send took MSN 1 of queue 0, a Read Request MSN 1 of queue 1: the upper layer continues with MSN 2.
    rtr: RtrType | None = None
    #: The ULP's own Private Data of the peer.
    private_data: bytes = b""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The Reply has R: MPA is left, the TCP connection stays open, and its octets are the ULP's (§7.1.2)."""

    #: The ULP's own, of the Reply.
    private_data: bytes
    request: StartupFrame
    reply: StartupFrame
    #: Why a Responder set R on its own: "ird", the Initiator's IRD is below what its ULP requires (RFC 6581 §9.1).
    why: Rejection | None = None


@dataclass(frozen=True, slots=True)
class ULPDUReceived:
    """A ULPDU, whole and validated (§3, §6).  TCP hands over octets in order, so each one is delivered at once."""

    ulpdu: bytes
    #: Of its FPDU's first octet, a leading Marker included, from the first octet of Full Operation: the order in which
    #: the sender sent them, and 64 bits long.
    offset: int
    #: Octets of its FPDU: Markers, PAD and CRC included.
    wire_length: int
    #: It is the ready-to-receive message of this type, with which the peer as Initiator had to begin (RFC 6581 §9.2):
    #: nothing of it is for the ULP, but a Read is answered by RDMAP.
    rtr: RtrType | None = None


@dataclass(frozen=True, slots=True)
class PeerDeviated:
    """The peer broke a rule that a receiver tolerates, or did what is worth a remark: nothing ends."""

    #: Its id in ``scapy_mpa.rules``.
    rule: str
    clause: str
    detail: str
    by: Role


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """The peer has ended its half connection at the end of an FPDU (§7.2); by RST, both are gone."""

    how: Literal["fin", "rst"] = "fin"


Event: TypeAlias = (
    "StreamDataReceived | RequestReceived | Established | Rejected | ULPDUReceived | PeerDeviated | StreamEnded"
)
