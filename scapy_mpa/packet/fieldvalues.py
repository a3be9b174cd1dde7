"""Messages of upper layers with a given value in one header field; computed fields fit it.

A field is named as the layer has it; of a list it is that of its first element: ``reads.handle``,
``writes.segments.length``; of the layer above, with its name: ``ISCSIHeader.data_segment_length``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from scapy.contrib.oncrpc import RPC, RPC_Call
from scapy.fields import ConditionalField, Field, LEThreeBytesField, PacketField, PacketListField, StrField
from scapy.packet import Packet

from scapy_mpa.errors import FramingError
from scapy_mpa.framing.role import Role
from scapy_mpa.packet.iser import ISER, ISCSIHeader, ISERHello, ISERHelloReply
from scapy_mpa.packet.nvme import (
    NVMeAdminCommand,
    NVMeConnect,
    NVMeConnectData,
    NVMeDisconnect,
    NVMeIOCommand,
    NVMePropertyGet,
    NVMePropertySet,
    NVMeResponse,
)
from scapy_mpa.packet.rpcrdma import RPCRDMA, RPCRDMAChunk, RPCRDMARead, RPCRDMASegment
from scapy_mpa.packet.smbdirect import (
    SMBDirectDataTransfer,
    SMBDirectNegotiateRequest,
    SMBDirectNegotiateResponse,
)
from scapy_mpa.packet.upper import layer_of
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.header import Protocol
from scapy_mpa.ulp.identify import UNKNOWN_LENGTH, header_of

_HANDLE, _LENGTH, _NFS = 0x1000, 40, 100003
#: Layers whose fields are those of a header, too.
_ABOVE = (ISCSIHeader, NVMeConnectData)


class _Template(NamedTuple):
    """A message: its protocol, its sender (None: both), and what builds it."""

    protocol: Protocol
    role: Role | None
    build: Callable[[], Packet]


def _call() -> Packet:
    chunk = RPCRDMAChunk(segments=[RPCRDMASegment(handle=_HANDLE, length=_LENGTH)])
    reads = [RPCRDMARead(position=_LENGTH, handle=_HANDLE, length=_LENGTH)]
    header = RPCRDMA(reads=reads, writes=[chunk], reply=chunk.copy())
    call = RPC_Call(program=_NFS, pversion=4, procedure=0, aflavor=0, alength=0, vlength=0)
    made: Packet = header / RPC(xid=1, mtype=0) / call
    return made


_TEMPLATES: dict[str, _Template] = {
    "RPCRDMA": _Template("RPC-over-RDMA", None, _call),
    "RPCRDMA-error": _Template("RPC-over-RDMA", "responder", lambda: RPCRDMA(xid=1, procedure=4, errcode=1)),
    "SMBDirectNegotiateRequest": _Template("SMB Direct", "initiator", SMBDirectNegotiateRequest),
    "SMBDirectNegotiateResponse": _Template("SMB Direct", "responder", SMBDirectNegotiateResponse),
    "SMBDirectDataTransfer": _Template("SMB Direct", None, lambda: SMBDirectDataTransfer() / bytes(_LENGTH)),
    "NVMeConnect": _Template("NVMe-oF", "initiator", lambda: NVMeConnect() / NVMeConnectData()),
    "NVMePropertyGet": _Template("NVMe-oF", "initiator", NVMePropertyGet),
    "NVMePropertySet": _Template("NVMe-oF", "initiator", NVMePropertySet),
    "NVMeDisconnect": _Template("NVMe-oF", "initiator", NVMeDisconnect),
    "NVMeAdminCommand": _Template("NVMe-oF", "initiator", lambda: NVMeAdminCommand(length=4096, key=_HANDLE)),
    "NVMeIOCommand": _Template("NVMe-oF", "initiator", lambda: NVMeIOCommand(nsid=1, length=4096, key=_HANDLE)),
    "NVMeResponse": _Template("NVMe-oF", "responder", NVMeResponse),
    "ISER": _Template("iSER", None, lambda: ISER(w=1, r=1, write_stag=_HANDLE, read_stag=_HANDLE) / ISCSIHeader()),
    "ISERHello": _Template("iSER", "initiator", ISERHello),
    "ISERHelloReply": _Template("iSER", "responder", ISERHelloReply),
}


def messages(protocol: str | None = None, role: Role | None = None) -> list[str]:
    """The messages of a protocol that a side sends; None: of all that are known, of both sides."""
    return [
        name
        for name, one in _TEMPLATES.items()
        if protocol in (None, one.protocol) and (role is None or one.role in (None, role))
    ]


def fields_of(message: str) -> dict[str, int]:
    """The fields of the header of a message, each with its largest value; none if there is no such message."""
    return _fields(_TEMPLATES[message].build()) if message in _TEMPLATES else {}


def message_with(message: str, field: str, value: int) -> bytes:
    """Return the octets of a message with a value in one field; raises FramingError if it cannot have it."""
    return _with(_TEMPLATES[message].build(), field, value)


def header_fields(protocol: str | None, octets: bytes, role: Role) -> dict[str, int]:
    """The fields of the header that the octets of a side's Send begin with, as :func:`fields_of` has them."""
    packet = _dissected(protocol, octets, role)
    return _fields(packet) if packet is not None else {}


def header_with(protocol: str | None, octets: bytes, role: Role, field: str, value: int) -> bytes:
    """The octets of a side's Send of whose header a field has a value; raises FramingError if it cannot have it."""
    packet = _dissected(protocol, octets, role)
    if packet is None:
        raise FramingError(f"there is no header of {protocol or 'an upper layer'}")
    return _with(packet, field, value)


def _dissected(protocol: str | None, octets: bytes, role: Role) -> Packet | None:
    known = next((one.protocol for one in _TEMPLATES.values() if one.protocol == protocol), None)
    layer = layer_of(header_of(known, octets, UNKNOWN_LENGTH, role == "initiator")) if known is not None else None
    if layer is None:
        return None
    packet = layer(octets)
    return packet if isinstance(packet, layer) else None


def _fields(packet: Packet) -> dict[str, int]:
    found = dict(_numbers(packet))
    above = packet.payload
    if isinstance(above, _ABOVE):
        found |= {f"{type(above).__name__}.{path}": bits for path, bits in _numbers(above)}
    return {path: (1 << bits) - 1 for path, bits in found.items()}


def _numbers(packet: Packet) -> Iterator[tuple[str, int]]:
    """Yield each field of a packet that is a number, with its bits."""
    for one in packet.fields_desc:
        field: Any = one.fld if isinstance(one, ConditionalField) else one
        if isinstance(one, ConditionalField) and not one.cond(packet):
            continue
        if isinstance(field, (PacketListField, PacketField)):
            inner = _first(packet, field.name)
            if inner is not None:
                yield from ((f"{field.name}.{path}", bits) for path, bits in _numbers(inner))
        elif isinstance(field, LEThreeBytesField):
            yield field.name, 24
        elif isinstance(field, Field) and not isinstance(field, StrField) and field.fmt[-1] in "BHIQ":
            yield field.name, round(8 * field.sz)  # parts of an octet, of bits


def _first(packet: Packet, name: str) -> Packet | None:
    """The packet that a field has, or the first of its list; None if there is none."""
    value = packet.getfieldval(name)
    found = value[0] if isinstance(value, list) and value else value
    return found if isinstance(found, Packet) else None


def _with(packet: Packet, field: str, value: int) -> bytes:
    if not 0 <= value <= _fields(packet).get(field, -1):
        raise FramingError(f"no {packet.name} has a {field} of {value}")
    *lists, name = field.split(".")
    holder: Packet | None = packet
    if lists and lists[0] == type(packet.payload).__name__:
        holder = packet.payload
        del lists[0]
    for one in lists:
        holder = _first(holder, one) if holder is not None else None
    assert holder is not None
    holder.setfieldval(name, value)
    try:
        return bytes(packet)
    except Exception as error:  # whatever a field makes of what follows from another
        raise FramingError(f"{packet.name} cannot be built with a {field} of {value}: {error}") from error
