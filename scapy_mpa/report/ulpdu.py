"""The fields of a DDP segment, and of the RDMAP message in it (RFC 5041 §4, RFC 5040 §4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from scapy_mpa.framing.ddp import (
    OPCODE_NAMES,
    SEND_OPCODES,
    TAGGED_HEADER_LENGTH,
    UNTAGGED_HEADER_LENGTH,
    TaggedHeader,
    decode_ddp,
)
from scapy_mpa.report.fields import Field, FieldValue, one
from scapy_mpa.ulp.identify import UNKNOWN_LENGTH
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from scapy_mpa.ulp.header import UpperHeader

_QUEUES = {0: "Sends", 1: "RDMA Read Requests", 2: "Terminate", 3: "Atomic Responses"}
#: Messages that have a header of their own after DDP's (RFC 5040 §4, RFC 7306 §4).
_WITH_HEADER = frozenset((1, 7, 8, 9, 10, 11))
_INVALIDATING = frozenset(
    (OPCODE_NAMES.index("Send with Invalidate"), OPCODE_NAMES.index("Send with SE and Invalidate"))
)


#: Reads the upper layer's header off the octets of a Send, and how many there are; None if there is none.
ReadSend: TypeAlias = Callable[[bytes, int], "UpperHeader | None"]


def ulpdu_fields(ulpdu: bytes, ulpdu_length: int, read_send: ReadSend | None = None) -> list[Field]:
    """The fields of a ULPDU of ``ulpdu_length`` octets; these were captured.

    ``read_send`` knows the upper layer of the connection.
    """
    if not ulpdu_length:
        return []
    ddp = decode_ddp(ulpdu)
    if ddp is None:
        note = "" if len(ulpdu) < ulpdu_length else "too short for a DDP header"
        return [Field(0, ulpdu_length, "payload", "ULPDU", note=note)]
    tagged = isinstance(ddp, TaggedHeader)
    segment = "last segment of the message" if ddp.last else "more segments follow"
    control = (
        FieldValue("T", int(tagged), "tagged" if tagged else "untagged"),
        FieldValue("L", int(ddp.last), segment),
        FieldValue("Rsvd", ulpdu[0] >> 2 & 0x0F),
        FieldValue("DV", ddp.dv),
    )
    message = OPCODE_NAMES[ddp.opcode] or "no message"
    rdmap = FieldValue("RV", ddp.rv), FieldValue("Rsv", ulpdu[1] >> 4 & 3), FieldValue("Opcode", ddp.opcode, message)
    fields = [Field(0, 1, "DDP", "DDP control", control), Field(1, 1, "RDMAP", "RDMAP control", rdmap)]
    if isinstance(ddp, TaggedHeader):
        fields += [
            one(2, 4, "DDP", "STag", ddp.stag, digits=8),
            one(6, 8, "DDP", "TO", ddp.to, digits=16),
        ]
        header = TAGGED_HEADER_LENGTH
        note = f"to TO {ddp.to:#x} of STag {ddp.stag:#x}"
    else:
        name = "Invalidate STag" if ddp.opcode in _INVALIDATING else "RsvdULP"
        fields += [
            one(2, 4, "DDP", name, ddp.rsvdulp, digits=8),
            one(6, 4, "DDP", "QN", ddp.qn, _QUEUES.get(ddp.qn, "")),
            one(10, 4, "DDP", "MSN", ddp.msn),
            one(14, 4, "DDP", "MO", ddp.mo),
        ]
        header = UNTAGGED_HEADER_LENGTH
        note = f"from octet {ddp.mo} of the message on"
        if ddp.opcode in _WITH_HEADER:
            from scapy_mpa.report.messages import message_fields

            fields += message_fields(ulpdu)
        if ddp.opcode in SEND_OPCODES and not ddp.mo and read_send is not None:
            length = ulpdu_length - header if ddp.last else UNKNOWN_LENGTH
            found = read_send(ulpdu[header:], length)
            if found is not None:
                from scapy_mpa.report.messages import upper_fields

                fields += upper_fields(ulpdu[header:], header, found)
    end = max(field.offset + field.length for field in fields)
    if end < ulpdu_length:
        rest = plural(ulpdu_length - end, "octet")
        said = f"{rest} after the header" if end > header else f"{rest}, {note}"
        fields.append(Field(end, ulpdu_length - end, "payload", "payload", note=said))
    return fields
