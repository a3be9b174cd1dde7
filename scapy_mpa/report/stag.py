"""The STag that the DDP header of an FPDU names, which its record does not have."""

from __future__ import annotations

from scapy_mpa.framing.ddp import OPCODE_NAMES, TAGGED_OPCODES, TaggedHeader, decode_ddp
from scapy_mpa.values.records import FPDURecord

_INVALIDATING = ("Send with Invalidate", "Send with SE and Invalidate")
_NAMING = (*(OPCODE_NAMES[opcode] for opcode in TAGGED_OPCODES), *_INVALIDATING)


def stag_of(record: FPDURecord) -> int | None:
    """The STag of a tagged FPDU, or that which a Send invalidates; None if it names none.

    Its octets are read again; raises :class:`~scapy_mpa.errors.MPAError` if that cannot be.
    """
    if record.opcode not in _NAMING:
        return None
    header = decode_ddp(record.ulpdu())
    if header is None:
        return None
    return header.stag if isinstance(header, TaggedHeader) else header.rsvdulp
