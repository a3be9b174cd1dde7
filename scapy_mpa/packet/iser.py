"""iSER as Scapy packets (RFC 7145 §9): the header of an iSCSI PDU with the STags of its buffers, and Hello messages.

RDMAPSend() / ISER(w=1, write_stag=0x1234) / ISCSIHeader(opcode="SCSI Command")
"""

from __future__ import annotations

from typing import Any

from scapy.fields import BitEnumField, BitField, ShortField, StrFixedLenField, XByteField, XIntField
from scapy.packet import Packet

from scapy_mpa.packet.ddp import raw_if_short
from scapy_mpa.packet.fields import struct_fields
from scapy_mpa.packet.upper import _UpperPacket
from scapy_mpa.ulp import iser

_OPCODES = {iser.CONTROL_TYPE: "iSCSI control-type PDU", iser.HELLO: "Hello", iser.HELLO_REPLY: "HelloReply"}
_HELLO_RESERVED = 24


class ISER(_UpperPacket):
    """The header of an iSCSI control-type PDU (RFC 7145 §9.2): W and R say which STag is there."""

    name = "iSER"
    protocol = "iSER"
    kinds = ("iSCSI control-type PDU",)
    fields_desc = struct_fields(
        iser.CONTROL,
        ("flags", "reserved", "write_stag", "write_base_offset", "read_stag", "read_base_offset"),
        {},
        {
            "flags": [
                BitEnumField("opcode", iser.CONTROL_TYPE, 4, _OPCODES),
                BitField("w", 0, 1),
                BitField("r", 0, 1),
                BitField("flags_reserved", 0, 2),
            ],
            "write_stag": [XIntField("write_stag", 0)],
            "read_stag": [XIntField("read_stag", 0)],
        },
    )
    dispatch_hook = raw_if_short(iser.CONTROL.size)

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        return ISCSIHeader if len(payload) >= iser.BASIC_HEADER_LENGTH else super().guess_payload_class(payload)

    def answers(self, other: Packet) -> int:
        return self.payload.answers(other.payload) if isinstance(other, ISER) else 0


class ISERHello(_UpperPacket):
    """The Hello message of the Initiator (RFC 7145 §9.3)."""

    name = "iSER Hello"
    protocol = "iSER"
    kinds = ("Hello",)
    fields_desc = [
        BitEnumField("opcode", iser.HELLO, 4, _OPCODES),
        BitField("reserved", 0, 4),
        BitField("max_ver", 10, 4),
        BitField("min_ver", 10, 4),
        ShortField("iser_ird", 0),
        StrFixedLenField("reserved_end", bytes(_HELLO_RESERVED), _HELLO_RESERVED),
    ]
    dispatch_hook = raw_if_short(iser.HELLO_LENGTH)


class ISERHelloReply(_UpperPacket):
    """The HelloReply message of the Target (RFC 7145 §9.4)."""

    name = "iSER HelloReply"
    protocol = "iSER"
    kinds = ("HelloReply",)
    is_from_initiator = False
    fields_desc = [
        BitEnumField("opcode", iser.HELLO_REPLY, 4, _OPCODES),
        BitField("reserved", 0, 3),
        BitField("rej", 0, 1),
        BitField("max_ver", 10, 4),
        BitField("cur_ver", 10, 4),
        ShortField("iser_ord", 0),
        StrFixedLenField("reserved_end", bytes(_HELLO_RESERVED), _HELLO_RESERVED),
    ]
    dispatch_hook = raw_if_short(iser.HELLO_LENGTH)

    def answers(self, other: Packet) -> int:
        return int(isinstance(other, ISERHello))


class ISCSIHeader(Packet):
    """The Basic Header Segment of an iSCSI PDU (RFC 7143 §11.2.1); DataSegmentLength None is that of the payload."""

    name = "iSCSI"
    fields_desc = [
        BitField("reserved", 0, 1),
        BitField("i", 0, 1),
        BitEnumField("opcode", 0x01, 6, iser.PDUS),
        BitField("f", 1, 1),
        BitField("flags", 0, 7),
        StrFixedLenField("specific_2", bytes(2), 2),
        XByteField("total_ahs_length", 0),
        BitField("data_segment_length", None, 24),
        StrFixedLenField("lun", bytes(8), 8),
        XIntField("initiator_task_tag", 0),
        StrFixedLenField("specific_20", bytes(28), 28),
    ]
    dispatch_hook = raw_if_short(iser.BASIC_HEADER_LENGTH)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.getfieldval("data_segment_length") is None:
            length = max(0, len(pay) - 4 * int(self.getfieldval("total_ahs_length")))
            pkt = pkt[:5] + (length & 0xFFFFFF).to_bytes(3, "big") + pkt[8:]
        return pkt + pay

    def mysummary(self) -> Any:
        return self.sprintf("%opcode% ITT %initiator_task_tag%"), [ISER]

    def hashret(self) -> bytes:
        return b""

    def answers(self, other: Packet) -> int:
        """A PDU of the target answers one of the initiator with the same Initiator Task Tag."""
        if not isinstance(other, ISCSIHeader) or self.opcode < 0x20 or other.opcode >= 0x20:
            return 0
        return int(self.initiator_task_tag == other.initiator_task_tag)
