"""NVMe over Fabrics as Scapy packets (NVMe-oF 1.1 §2, §3; NVMe 1.4 §4.2, §4.6): capsules of RDMA; little-endian.

    RDMAPSend() / NVMeConnect(qid=0, sqsize=31) / NVMeConnectData(subnqn=b"nqn.2014-08.org.nvmexpress.discovery")

The data pointer is a keyed SGL data block descriptor, whose key is an STag; what follows a command is its data.
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    LEIntField,
    LEShortField,
    LEThreeBytesField,
    StrFixedLenField,
    XByteField,
    XLEIntField,
    XLELongField,
)
from scapy.packet import Packet

from scapy_mpa.packet.ddp import raw_if_short
from scapy_mpa.packet.upper import _UpperPacket
from scapy_mpa.ulp import nvme
from scapy_mpa.ulp.header import UpperHeader

CONNECT_DATA_LENGTH = 1024
#: Where the length of a data pointer lies in a command.
_LENGTH_AT, _LENGTH_END = 32, 35
_RAW_IF_SHORT = raw_if_short(nvme.COMMAND_LENGTH)

_SGL_TYPES = {0: "data block", 1: "bit bucket", 2: "segment", 3: "last segment", nvme.KEYED: "keyed data block"}


def _begin(opcode: Any) -> list[Any]:
    """Opcode, flags and command identifier."""
    return [
        opcode,
        BitField("psdt", 1, 2),
        BitField("flags_reserved", 0, 4),
        BitField("fuse", 0, 2),
        LEShortField("cid", 0),
    ]


#: The data pointer: a keyed SGL data block descriptor.
_SGL: list[Any] = [
    XLELongField("address", 0),
    LEThreeBytesField("length", 0),
    XLEIntField("key", 0),
    BitEnumField("sgl_type", nvme.KEYED, 4, _SGL_TYPES),
    BitField("sgl_subtype", 0, 4),
]


class _Command(_UpperPacket):
    """A command capsule; ``queue`` is a number that stands for its queue, None if it is not known."""

    name = "NVMe command"
    protocol = "NVMe-oF"
    queue: ClassVar[int | None] = None

    def header(self) -> UpperHeader | None:
        octets = bytes(self)
        return nvme.header(octets, len(octets), True, self.queue)


def _command(opcode: Any) -> list[Any]:
    """The fields of an Admin or I/O command (NVMe 1.4 §4.2)."""
    return [
        *_begin(opcode),
        LEIntField("nsid", 0),
        LEIntField("cdw2", 0),
        LEIntField("cdw3", 0),
        XLELongField("mptr", 0),
        *_SGL,
        *(XLEIntField(f"cdw{number}", 0) for number in range(10, 16)),
    ]


class NVMeCommand(_Command):
    """A command whose queue is unknown, and so the name of its opcode."""

    name = "NVMe command"
    kinds = ("command",)
    fields_desc = _command(XByteField("opcode", 0))
    dispatch_hook = _RAW_IF_SHORT


class NVMeAdminCommand(_Command):
    """A command on an Admin Queue (NVMe 1.4 §5)."""

    name = "NVMe Admin command"
    kinds = ("command admin",)
    queue = 0
    fields_desc = _command(ByteEnumField("opcode", 0x06, nvme.ADMIN_COMMANDS))
    dispatch_hook = _RAW_IF_SHORT


class NVMeIOCommand(_Command):
    """A command on an I/O queue (NVMe 1.4 §6)."""

    name = "NVMe I/O command"
    kinds = ("command io",)
    queue = 1
    fields_desc = _command(ByteEnumField("opcode", 0x02, nvme.IO_COMMANDS))
    dispatch_hook = _RAW_IF_SHORT


_FABRICS: list[Any] = [
    *_begin(ByteEnumField("opcode", nvme.FABRICS, {nvme.FABRICS: "Fabrics"})),
    ByteEnumField("fctype", 0, nvme.FABRICS_COMMANDS),
    StrFixedLenField("reserved", bytes(19), 19),
    *_SGL,
]


class NVMeFabrics(_Command):
    """A Fabrics command of another type than those below (NVMe-oF 1.1 §3)."""

    name = "NVMe Fabrics command"
    kinds = ("fabrics",)
    fields_desc = [*_FABRICS, StrFixedLenField("specific", bytes(24), 24)]
    dispatch_hook = _RAW_IF_SHORT


def _fabrics(fctype: int) -> list[Any]:
    """The fields of a Fabrics command of a type, up to those of its own."""
    typed = ByteEnumField("fctype", fctype, nvme.FABRICS_COMMANDS)
    return [typed if field.name == "fctype" else field for field in _FABRICS]


class NVMeConnect(_Command):
    """Connect: the host attaches a queue to a controller (NVMe-oF 1.1 §3.3).

    A ``length`` left None is that of the data: of those that follow, or of those that the controller is to read.
    """

    name = "NVMe Fabrics Connect"
    kinds = (f"fabrics {nvme.CONNECT}",)
    fields_desc = [
        *(LEThreeBytesField("length", None) if one.name == "length" else one for one in _fabrics(nvme.CONNECT)),
        LEShortField("recfmt", 0),
        LEShortField("qid", 0),
        LEShortField("sqsize", 31),
        XByteField("cattr", 0),
        XByteField("reserved_15", 0),
        LEIntField("kato", 0),
        StrFixedLenField("reserved_end", bytes(12), 12),
    ]
    dispatch_hook = _RAW_IF_SHORT

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.getfieldval("length") is None:
            length = min(len(pay) or CONNECT_DATA_LENGTH, (1 << 24) - 1)
            pkt = pkt[:_LENGTH_AT] + length.to_bytes(_LENGTH_END - _LENGTH_AT, "little") + pkt[_LENGTH_END:]
        return pkt + pay

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        if len(payload) == CONNECT_DATA_LENGTH:
            return NVMeConnectData
        return super().guess_payload_class(payload)


class NVMeConnectData(Packet):
    """The data of a Connect: who the host is, and what it connects to (NVMe-oF 1.1 §3.3)."""

    name = "NVMe Fabrics Connect data"
    fields_desc = [
        StrFixedLenField("hostid", bytes(16), 16),
        LEShortField("cntlid", 0xFFFF),
        StrFixedLenField("reserved", bytes(238), 238),
        StrFixedLenField("subnqn", b"", 256),
        StrFixedLenField("hostnqn", b"", 256),
        StrFixedLenField("reserved_end", bytes(256), 256),
    ]
    dispatch_hook = raw_if_short(CONNECT_DATA_LENGTH)


class NVMePropertySet(_Command):
    """Property Set: the host writes a property of the controller (NVMe-oF 1.1 §3.6)."""

    name = "NVMe Fabrics Property Set"
    kinds = (f"fabrics {nvme.PROPERTY_SET}",)
    fields_desc = [
        *_fabrics(nvme.PROPERTY_SET),
        XByteField("attrib", 0),
        StrFixedLenField("reserved_attrib", bytes(3), 3),
        XLEIntField("ofst", 0),
        XLELongField("value", 0),
        StrFixedLenField("reserved_end", bytes(8), 8),
    ]
    dispatch_hook = _RAW_IF_SHORT


class NVMePropertyGet(_Command):
    """Property Get: the host reads a property of the controller (NVMe-oF 1.1 §3.5)."""

    name = "NVMe Fabrics Property Get"
    kinds = (f"fabrics {nvme.PROPERTY_GET}",)
    fields_desc = [
        *_fabrics(nvme.PROPERTY_GET),
        XByteField("attrib", 0),
        StrFixedLenField("reserved_attrib", bytes(3), 3),
        XLEIntField("ofst", 0),
        StrFixedLenField("reserved_end", bytes(16), 16),
    ]
    dispatch_hook = _RAW_IF_SHORT


class NVMeDisconnect(_Command):
    """Disconnect: the host ends an I/O queue (NVMe-oF 1.1 §3.4)."""

    name = "NVMe Fabrics Disconnect"
    kinds = (f"fabrics {nvme.DISCONNECT}",)
    fields_desc = [
        *_fabrics(nvme.DISCONNECT),
        LEShortField("recfmt", 0),
        StrFixedLenField("reserved_end", bytes(22), 22),
    ]
    dispatch_hook = _RAW_IF_SHORT


class NVMeResponse(_UpperPacket):
    """A response capsule: the completion of a command (NVMe 1.4 §4.6); ``result`` is what the command says it is."""

    name = "NVMe response"
    protocol = "NVMe-oF"
    kinds = ("response",)
    is_from_initiator = False
    fields_desc = [
        XLELongField("result", 0),
        LEShortField("sqhd", 0),
        LEShortField("sqid", 0),
        LEShortField("cid", 0),
        # 16 bits, little-endian: the phase is the lowest one.
        BitField("dnr", 0, 1, tot_size=-2),
        BitField("m", 0, 1),
        BitField("crd", 0, 2),
        BitField("sct", 0, 3),
        BitField("sc", 0, 8),
        BitField("p", 0, 1, end_tot_size=-2),
    ]
    dispatch_hook = raw_if_short(nvme.RESPONSE_LENGTH)

    def answers(self, other: Packet) -> int:
        """A response has the identifier of its command."""
        return int(isinstance(other, _Command) and other.cid == self.cid)
