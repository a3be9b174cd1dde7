"""RDMAP messages as Scapy packets, those of RFC 5040 §4 and of RFC 7306 §4 to §6.

RDMA Write, RDMA Read Response and the four Sends have no header of their own beyond what DDP's holds, so
their layers have no fields: they name the message and set the opcode. ``DDPUntagged(opcode=5)/RDMAPSend()`` is a
Send with SE.
"""

from __future__ import annotations

from typing import Any

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteField,
    IntField,
    LongField,
    PacketField,
    ShortField,
    StrFixedLenField,
    XBitField,
    XIntField,
    XLongField,
)
from scapy.packet import Packet, bind_bottom_up, bind_top_down

from scapy_mpa.framing import LAYER_NAMES, decode_terminate, error_meaning
from scapy_mpa.framing.ddp import header_length, is_tagged
from scapy_mpa.packet import iser, nvme, rpcrdma, smbdirect  # noqa: F401 - what a Send carries
from scapy_mpa.packet.ddp import DDPTagged, DDPUntagged, raw_if_short, summarized_below
from scapy_mpa.packet.fields import NotOnWireField
from scapy_mpa.packet.upper import CarriesUpper, upper_of

#: Octets of an RDMA Read Request Header (RFC 5040 §4.4).
READ_REQUEST_LENGTH = 28
#: Octets of Terminate Control and Reserved (RFC 5040 §4.8).
TERMINATE_CONTROL_LENGTH = 4
IMMEDIATE_DATA_LENGTH = 8
ATOMIC_REQUEST_LENGTH = 52
ATOMIC_RESPONSE_LENGTH = 12

_ATOMIC_REQUEST = 10
ATOMIC_OPCODES = {0: "FetchAdd", 2: "CmpSwap"}


class _Named(Packet):
    """A message which the opcode names in the DDP header below it."""

    def mysummary(self) -> Any:
        below = self.underlayer
        name = below.opcode_name() if isinstance(below, (DDPTagged, DDPUntagged)) else str(self.name)
        return name, summarized_below()


class RDMAPWrite(_Named):
    """RDMA Write (RFC 5040 §4.3): the payload is what is written."""

    name = "RDMA Write"


class RDMAPReadResponse(_Named):
    """RDMA Read Response (RFC 5040 §4.5)."""

    name = "RDMA Read Response"

    def answers(self, other: Packet) -> int:
        """A segment answers the Request into whose sink it goes."""
        below = self.underlayer
        if not isinstance(other, RDMAPReadRequest) or not isinstance(below, DDPTagged):
            return 0
        distance = int(below.to) - int(other.sink_to)
        return int(below.stag == other.sink_stag and 0 <= distance <= int(other.read_message_size))


class RDMAPSend(_Named, CarriesUpper):
    """Send, Send with Invalidate, Send with SE, Send with SE and Invalidate (RFC 5040 §4.6)."""

    name = "RDMAP Send"

    def answers(self, other: Packet) -> int:
        """A Send answers a Send, a Write or Immediate Data; if both have the same upper layer, that decides."""
        ours, theirs = self.payload, other.payload
        if isinstance(other, RDMAPSend) and upper_of(self) is not None and upper_of(other) is not None:
            return int(ours.answers(theirs))
        return int(isinstance(other, (RDMAPSend, RDMAPWrite, RDMAPImmediateData)))


class RDMAPReadRequest(_Named):
    """RDMA Read Request (RFC 5040 §4.4)."""

    name = "RDMA Read Request"
    fields_desc = [
        XIntField("sink_stag", 0),
        XLongField("sink_to", 0),
        IntField("read_message_size", 0),
        XIntField("source_stag", 0),
        XLongField("source_to", 0),
    ]
    dispatch_hook = raw_if_short(READ_REQUEST_LENGTH)


class RDMAPImmediateData(_Named):
    """Immediate Data, with and without SE (RFC 7306 §6)."""

    name = "RDMAP Immediate Data"
    fields_desc = [StrFixedLenField("immediate_data", bytes(IMMEDIATE_DATA_LENGTH), IMMEDIATE_DATA_LENGTH)]
    dispatch_hook = raw_if_short(IMMEDIATE_DATA_LENGTH)

    def answers(self, other: Packet) -> int:
        return int(isinstance(other, (RDMAPSend, RDMAPWrite, RDMAPImmediateData)))


class RDMAPAtomicRequest(_Named):
    """Atomic Request (RFC 7306 §5.2.1)."""

    name = "RDMAP Atomic Request"
    fields_desc = [
        XBitField("reserved", 0, 28),
        BitEnumField("aopcode", 0, 4, ATOMIC_OPCODES),
        IntField("request_id", 0),
        XIntField("remote_stag", 0),
        XLongField("remote_to", 0),
        LongField("add_swap_data", 0),
        XLongField("add_swap_mask", 0),
        LongField("compare_data", 0),
        XLongField("compare_mask", 0),
    ]
    dispatch_hook = raw_if_short(ATOMIC_REQUEST_LENGTH)


class RDMAPAtomicRequestPart(_Named):
    """The first 28 octets of an Atomic Request: as many as a Terminate has room for (RFC 5040 §4.8, RFC 7306 §8.1)."""

    name = "RDMAP Atomic Request, its first 28 octets"
    fields_desc = RDMAPAtomicRequest.fields_desc[:6]


class RDMAPAtomicResponse(_Named):
    """Atomic Response (RFC 7306 §5.2.2)."""

    name = "RDMAP Atomic Response"
    fields_desc = [IntField("original_request_id", 0), LongField("original_remote_data_value", 0)]
    dispatch_hook = raw_if_short(ATOMIC_RESPONSE_LENGTH)

    def answers(self, other: Packet) -> int:
        return int(isinstance(other, RDMAPAtomicRequest) and other.request_id == self.original_request_id)


class _SegmentLength(ShortField):
    """DDP Segment Length: there if M or D is set (RFC 5040 §4.8), nothing on the wire if None."""

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        if val is None and pkt.getfieldval("ddp_header") is not None:
            val = 0  # MUST be present when D is set
        return s if val is None else super().addfield(pkt, s, val)

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        present = (pkt.getfieldval("m") or pkt.getfieldval("d")) and len(s) >= 2
        return super().getfield(pkt, s) if present else (s, None)


class _TerminatedHeader(PacketField):
    """A header out of the terminated message: there if its flag is set, nothing on the wire if None.

    An RDMA header is that of a Read Request, unless the DDP header before it says that it is an Atomic Request.
    """

    __slots__ = ["flag"]

    def __init__(self, name: str, flag: str) -> None:
        super().__init__(name, None, RDMAPReadRequest)
        self.flag = flag

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        # Without the field before it there is no telling where it begins.
        if not pkt.getfieldval(self.flag) or pkt.getfieldval(self.previous(pkt)) is None:
            return s, None
        cls: type[Packet] = RDMAPReadRequest
        length = READ_REQUEST_LENGTH
        if self.flag == "d":
            cls = DDPTagged if is_tagged(s) else DDPUntagged
            length = header_length(s)
        elif getattr(pkt.getfieldval("ddp_header"), "opcode", None) == _ATOMIC_REQUEST:
            cls = RDMAPAtomicRequestPart
            if len(s) >= ATOMIC_REQUEST_LENGTH:
                cls, length = RDMAPAtomicRequest, ATOMIC_REQUEST_LENGTH
        if len(s) < length:
            return s, None
        header = cls(s[:length], _parent=pkt)
        header.remove_payload()  # of a message without payload
        return s[length:], header

    def previous(self, pkt: Packet) -> str:
        """The field whose absence means that this one is cut off."""
        if self.flag == "d":
            return "ddp_segment_length"
        return "ddp_header" if pkt.getfieldval("d") else "ddp_segment_length" if pkt.getfieldval("m") else "r"


class RDMAPTerminate(Packet):
    """Terminate (RFC 5040 §4.8).

    M, D and R left None are computed: 1 if ``ddp_segment_length``, ``ddp_header`` (the terminated segment's
    ``DDPTagged`` or ``DDPUntagged``), ``rdmap_header`` (its ``RDMAPReadRequest``) are given.

    ``layout`` is not on the wire: "rfc5040", or "siw" for a control word laid out from the least significant bit, as
    the Linux driver does. It is recognised in dissected octets.
    """

    name = "RDMAP Terminate"
    fields_desc = [
        BitEnumField("layer", 0, 4, dict(enumerate(LAYER_NAMES))),
        BitField("etype", 0, 4),
        ByteField("code", 0),
        BitField("m", None, 1),
        BitField("d", None, 1),
        BitField("r", None, 1),
        XBitField("reserved", 0, 13),
        _SegmentLength("ddp_segment_length", None),
        _TerminatedHeader("ddp_header", "d"),
        _TerminatedHeader("rdmap_header", "r"),
        NotOnWireField("layout", "rfc5040"),
    ]
    dispatch_hook = raw_if_short(TERMINATE_CONTROL_LENGTH)

    def do_dissect(self, s: bytes) -> bytes:
        # decode_terminate takes a whole ULPDU; where only the message is available any header will do.
        terminate = decode_terminate(bytes(DDPUntagged(opcode="Terminate")) + s)
        layout = terminate.layout if terminate else "rfc5040"
        rest = super().do_dissect(_from_siw(s) if layout == "siw" else s)
        self.fields["layout"] = layout
        self.raw_packet_cache = s[: len(s) - len(rest)]
        return rest

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        flags = 0
        for bit, flag, name in (
            (0x80, "m", "ddp_segment_length"),
            (0x40, "d", "ddp_header"),
            (0x20, "r", "rdmap_header"),
        ):
            if self.getfieldval(flag) is None and self.getfieldval(name) is not None:
                flags |= bit
        pkt = pkt[:2] + bytes([pkt[2] | flags]) + pkt[3:]
        return (_to_siw(pkt) if self.getfieldval("layout") == "siw" else pkt) + pay

    def answers(self, other: Packet) -> int:
        return 1

    def mysummary(self) -> Any:
        layer, etype, code = (self.getfieldval(name) for name in ("layer", "etype", "code"))
        return f"Terminate, {error_meaning(layer, etype, code)}", summarized_below()


def _from_siw(octets: bytes) -> bytes:
    """Rearrange siw's control word as RFC 5040 has it."""
    kind, flags = octets[0], octets[2]
    flags = (flags & 1) << 7 | (flags & 2) << 5 | (flags & 4) << 3 | flags >> 3
    return bytes([(kind & 0x0F) << 4 | kind >> 4, octets[1], flags]) + octets[3:]


def _to_siw(octets: bytes) -> bytes:
    """Rearrange RFC 5040's control word as siw does."""
    kind, flags = octets[0], octets[2]
    flags = flags >> 7 | (flags & 0x40) >> 5 | (flags & 0x20) >> 3 | (flags & 0x1F) << 3
    return bytes([(kind & 0x0F) << 4 | kind >> 4, octets[1], flags]) + octets[3:]


def without_ddp(packet: Packet) -> Packet | None:
    """The first RDMAP message in a packet that has no DDP header right below it, None if all have one."""
    below: Packet | None = None
    for layer in packet.iterpayloads():
        if isinstance(layer, (_Named, RDMAPTerminate)) and not isinstance(below, (DDPTagged, DDPUntagged)):
            return layer
        below = layer
    return None


def _bind(lower: type[Packet], upper: type[Packet], opcodes: tuple[int, ...], **more: int) -> None:
    """Bind an RDMAP message to its opcodes; the first of them, and ``more``, are what it sets below it."""
    for opcode in opcodes:
        bind_bottom_up(lower, upper, opcode=opcode)
    bind_top_down(lower, upper, opcode=opcodes[0], **more)


_bind(DDPTagged, RDMAPWrite, (0,))
_bind(DDPTagged, RDMAPReadResponse, (2,))
_bind(DDPUntagged, RDMAPReadRequest, (1,), qn=1)
_bind(DDPUntagged, RDMAPSend, (3, 4, 5, 6), qn=0)
_bind(DDPUntagged, RDMAPTerminate, (7,), qn=2)
_bind(DDPUntagged, RDMAPImmediateData, (8, 9), qn=0)
_bind(DDPUntagged, RDMAPAtomicRequest, (10,), qn=1)
_bind(DDPUntagged, RDMAPAtomicResponse, (11,), qn=3)
