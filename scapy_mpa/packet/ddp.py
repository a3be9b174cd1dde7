"""DDP segments as Scapy packets: ``DDPTagged`` and ``DDPUntagged`` (RFC 5041 §4), with RDMAP's control octet.

The second octet of either header is RDMAP's (RFC 5040 §4.1): RV, Rsv and Opcode, which say which message the
segment belongs to. So ``opcode`` is a field here, and the RDMAP layers (``rdmap``), which have the rest, set it:
``DDPUntagged()/RDMAPTerminate()`` has opcode 7 and QN 2. DV and RV are 1; the RDMA Consortium's are 0.
"""

from __future__ import annotations

from typing import Any

from scapy.config import conf
from scapy.fields import BitEnumField, BitField, IntField, XIntField, XLongField
from scapy.layers.inet import TCP
from scapy.packet import Packet, Raw

from scapy_mpa.framing import OPCODE_NAMES, TAGGED_HEADER_LENGTH, UNTAGGED_HEADER_LENGTH

OPCODES = {opcode: name for opcode, name in enumerate(OPCODE_NAMES) if name}


def raw_if_short(minimum: int) -> Any:
    """A ``dispatch_hook``: octets fewer than ``minimum`` are no such header but Raw."""

    def hook(cls: type[Packet], _pkt: Any = None, *args: Any, **fields: Any) -> type[Packet]:
        return conf.raw_layer if _pkt and len(_pkt) < minimum else cls

    return classmethod(hook)


#: Layers below a segment that are summarized too, where Scapy would name no more than their classes.
SUMMARIZED_BELOW: list[type[Packet]] = [TCP]


class _DDP(Packet):
    """What tagged and untagged segments have in common."""

    def do_dissect_payload(self, s: bytes) -> None:
        if s:
            super().do_dissect_payload(s)
            return
        # A message without payload is still a message, such as RFC 6581's RTR messages.
        cls = self.guess_payload_class(s)
        if not cls.fields_desc:
            self.add_payload(cls(_internal=1, _underlayer=self))

    def hashret(self) -> bytes:
        return b""

    def answers(self, other: Packet) -> int:
        if not isinstance(other, _DDP):
            return 0
        if isinstance(self.payload, Raw) or not self.payload or not other.payload:
            return 1
        return self.payload.answers(other.payload)

    def opcode_name(self) -> str:
        """The name of the RDMAP message, or its number."""
        opcode = self.getfieldval("opcode")
        return OPCODES.get(opcode, f"opcode {opcode}")


class DDPTagged(_DDP):
    """A tagged DDP segment (RFC 5041 §4.2)."""

    name = "DDP tagged"
    fields_desc = [
        BitField("t", 1, 1),
        BitField("l", 1, 1),
        BitField("rsvd", 0, 4),
        BitField("dv", 1, 2),
        BitField("rv", 1, 2),
        BitField("rsv", 0, 2),
        BitEnumField("opcode", 0, 4, OPCODES),
        XIntField("stag", 0),
        XLongField("to", 0),
    ]
    dispatch_hook = raw_if_short(TAGGED_HEADER_LENGTH)

    def mysummary(self) -> Any:
        text = self.sprintf("DDP tagged STag %stag% TO %to%")
        return text + ("" if self.getfieldval("l") else " (more)"), SUMMARIZED_BELOW


class DDPUntagged(_DDP):
    """An untagged DDP segment (RFC 5041 §4.3). ``rsvdulp`` is the Invalidate STag of the Sends that have one."""

    name = "DDP untagged"
    fields_desc = [
        BitField("t", 0, 1),
        BitField("l", 1, 1),
        BitField("rsvd", 0, 4),
        BitField("dv", 1, 2),
        BitField("rv", 1, 2),
        BitField("rsv", 0, 2),
        BitEnumField("opcode", 3, 4, OPCODES),
        XIntField("rsvdulp", 0),
        IntField("qn", 0),
        IntField("msn", 1),
        IntField("mo", 0),
    ]
    dispatch_hook = raw_if_short(UNTAGGED_HEADER_LENGTH)

    def mysummary(self) -> Any:
        text = self.sprintf("DDP QN %qn% MSN %msn% MO %mo%")
        return text + ("" if self.getfieldval("l") else " (more)"), SUMMARIZED_BELOW


def summarized_below() -> list[type[Packet]]:
    """The layers below an RDMAP message that are summarized too."""
    return [*SUMMARIZED_BELOW, DDPTagged, DDPUntagged]
