"""SMB Direct as Scapy packets (MS-SMBD §2.2): Negotiate Request and Response, Data Transfer; little-endian.

    FPDU() / DDPUntagged() / RDMAPSend() / SMBDirectDataTransfer() / SMB2_Header() / SMB2_Negotiate_Protocol_Request()

A Data Transfer hands whole SMB2 messages on to Scapy's layers; a part of one, and what is compressed, stays octets.
"""

from __future__ import annotations

from struct import Struct

from scapy.config import conf
from scapy.fields import StrLenField
from scapy.packet import Packet

from scapy_mpa.packet.ddp import raw_if_short
from scapy_mpa.packet.fields import struct_fields
from scapy_mpa.packet.upper import _UpperPacket
from scapy_mpa.ulp.smbdirect import (
    ALIGNMENT,
    DATA_TRANSFER,
    NEGOTIATE_REQUEST,
    NEGOTIATE_RESPONSE,
    SMB2_ID,
    DataTransfer,
    NegotiateRequest,
    NegotiateResponse,
)

_VERSION = 0x0100
_ENCRYPTED_ID = b"\xfdSMB"
#: DataOffset and DataLength, and where they stand in a Data Transfer.
_COUNTS, _DATA_OFFSET_AT = Struct("<II"), 12
#: The largest DataOffset that padding is made for: these layers take no longer message unless told otherwise.
_MOST_PADDED = 1 << 13


class SMBDirectNegotiateRequest(_UpperPacket):
    """The client's first Send: what it asks for (MS-SMBD §2.2.1)."""

    name = "SMB Direct Negotiate Request"
    protocol = "SMB Direct"
    kinds = ("Negotiate Request",)
    fields_desc = struct_fields(
        NEGOTIATE_REQUEST,
        NegotiateRequest._fields,
        {
            "min_version": _VERSION,
            "max_version": _VERSION,
            "credits_requested": 10,
            "preferred_send_size": 1364,
            "max_receive_size": 8192,
            "max_fragmented_size": 1 << 20,
        },
    )
    dispatch_hook = raw_if_short(NEGOTIATE_REQUEST.size)


class SMBDirectNegotiateResponse(_UpperPacket):
    """The server's answer (MS-SMBD §2.2.2)."""

    name = "SMB Direct Negotiate Response"
    protocol = "SMB Direct"
    kinds = ("Negotiate Response",)
    is_from_initiator = False
    fields_desc = struct_fields(
        NEGOTIATE_RESPONSE,
        NegotiateResponse._fields,
        {
            "min_version": _VERSION,
            "max_version": _VERSION,
            "negotiated_version": _VERSION,
            "credits_requested": 10,
            "credits_granted": 10,
            "max_readwrite_size": 1 << 20,
            "preferred_send_size": 1364,
            "max_receive_size": 8192,
            "max_fragmented_size": 1 << 20,
        },
    )
    dispatch_hook = raw_if_short(NEGOTIATE_RESPONSE.size)

    def answers(self, other: Packet) -> int:
        return int(isinstance(other, SMBDirectNegotiateRequest))


def _padding_length(pkt: Packet) -> int:
    return max(0, int(pkt.data_offset or 0) - DATA_TRANSFER.size)


class SMBDirectDataTransfer(_UpperPacket):
    """A message with data, or only with credits (MS-SMBD §2.2.3).

    DataOffset and DataLength that are None are computed, and the padding before the data is made to fit DataOffset, up
    to 8 KiB.
    """

    name = "SMB Direct Data Transfer"
    protocol = "SMB Direct"
    kinds = ("Data Transfer",)
    fields_desc = [
        *struct_fields(
            DATA_TRANSFER,
            DataTransfer._fields,
            {"credits_requested": 10, "credits_granted": 1, "data_offset": None, "data_length": None},
        ),
        StrLenField("padding", None, length_from=_padding_length),  # type: ignore[arg-type]
    ]
    dispatch_hook = raw_if_short(DATA_TRANSFER.size)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        length, offset = self.getfieldval("data_length"), self.getfieldval("data_offset")
        fixed, padding = pkt[: DATA_TRANSFER.size], self.getfieldval("padding")
        if offset is None:
            before = DATA_TRANSFER.size + len(padding or b"")
            offset = (before if padding is not None else before + -before % ALIGNMENT) if pay else 0
        if padding is None:
            fits = DATA_TRANSFER.size <= offset <= _MOST_PADDED
            padding = bytes(offset - DATA_TRANSFER.size) if pay and fits else b""
        numbers = _COUNTS.pack(offset, len(pay) if length is None else length)
        return fixed[:_DATA_OFFSET_AT] + numbers + bytes(padding) + pay

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        length = int(self.data_length or 0)
        return s[:length], s[length:]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """An SMB2 message that is all of the data, and is not one fragment of several."""
        is_whole = not self.remaining_data_length and len(payload) == self.data_length
        if is_whole and payload.startswith((SMB2_ID, _ENCRYPTED_ID)):
            from scapy.layers import smb2

            if payload.startswith(SMB2_ID):
                return smb2.SMB2_Header
            # Scapy 2.6 has none.
            transform: type[Packet] = getattr(smb2, "SMB2_Transform_Header", conf.raw_layer)
            return transform
        return super().guess_payload_class(payload)

    def answers(self, other: Packet) -> int:
        if not isinstance(other, SMBDirectDataTransfer):
            return 0
        return self.payload.answers(other.payload) if self.payload and other.payload else 1
