"""RPC-over-RDMA version 1 as Scapy packets (RFC 8166 §4): the transport header, its chunk lists, the RPC message.

    RDMAPSend() / RPCRDMA(reads=[RPCRDMARead(handle=0x99, length=4096)]) / RPC(xid=7) / RPC_Call(pversion=4)

``RPC`` and ``RPC_Call`` are of Scapy's ``oncrpc``; NFS version 3 goes on in Scapy's ``nfs`` once that is loaded. An XID
that is None is that of the RPC message. Octets that :mod:`scapy_mpa.ulp.rpcrdma` takes for no header are Raw.
"""

from __future__ import annotations

import struct
from typing import Any

from scapy.config import conf
from scapy.fields import (
    ConditionalField,
    FieldLenField,
    IntEnumField,
    IntField,
    PacketField,
    PacketListField,
    XIntField,
    XLongField,
)
from scapy.packet import Packet

from scapy_mpa.packet.upper import _UpperPacket
from scapy_mpa.ulp.rpcrdma import ERROR, PADDED, PROCEDURES, RPC_MESSAGE, WITH_CHUNKS, transport_header

_WORD = struct.Struct(">I")
_RPC_TYPES = (0, 1)
_ERR_VERS = 1
#: RFC 8166 §4.3.
ERRORS = {_ERR_VERS: "ERR_VERS", 2: "ERR_CHUNK"}


class _Element(Packet):
    """A part of a chunk list."""

    name = "RPC-over-RDMA element"

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        return b"", s


class RPCRDMASegment(_Element):
    """A run of memory: handle, an STag; length in octets; offset, a TO (RFC 8166 §4.2.1, xdr_rdma_segment)."""

    name = "RPC-over-RDMA segment"
    fields_desc = [XIntField("handle", 0), IntField("length", 0), XLongField("offset", 0)]


class RPCRDMARead(_Element):
    """An element of the Read list: a segment, and the position of its octets in the message (xdr_read_chunk)."""

    name = "RPC-over-RDMA Read segment"
    fields_desc = [IntField("position", 0), *RPCRDMASegment.fields_desc]


class RPCRDMAChunk(_Element):
    """A chunk of the Write list, or the Reply chunk: segments, counted (xdr_write_chunk)."""

    name = "RPC-over-RDMA chunk"
    fields_desc = [
        FieldLenField("count", None, count_of="segments", fmt="!I"),
        PacketListField("segments", [], RPCRDMASegment, count_from=lambda pkt: pkt.count),
    ]


class XDRListField(PacketListField):
    """A list in XDR: 1 before each element, 0 after the last (RFC 4506 §4.19)."""

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        return s + b"".join(_WORD.pack(1) + bytes(one) for one in val) + _WORD.pack(0)

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        found = []
        while _WORD.unpack_from(s)[0]:
            element, s = _element(self.cls, s[_WORD.size :], pkt)
            found.append(element)
        return s[_WORD.size :], found


class XDROptionalField(PacketField):
    """A packet that may be there: 1 before it, or 0 and nothing if it is None (RFC 4506 §4.19)."""

    def addfield(self, pkt: Packet, s: bytes, val: Any) -> bytes:
        return s + (_WORD.pack(0) if val is None else _WORD.pack(1) + bytes(val))

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Any]:
        if not _WORD.unpack_from(s)[0]:
            return s[_WORD.size :], None
        element, rest = _element(self.cls, s[_WORD.size :], pkt)
        return rest, element


def _element(cls: Any, octets: bytes, parent: Packet) -> tuple[Packet, bytes]:
    """The element at the beginning of octets, and what is after it."""
    element: Packet = cls(octets, _parent=parent)
    rest = bytes(element.payload)
    element.remove_payload()
    return element, rest


def _has_chunks(pkt: Packet) -> bool:
    return pkt.getfieldval("procedure") in WITH_CHUNKS


def _is_padded(pkt: Packet) -> bool:
    return bool(pkt.getfieldval("procedure") == PADDED)


def _is_error(pkt: Packet) -> bool:
    return bool(pkt.getfieldval("procedure") == ERROR)


def _is_of_versions(pkt: Packet) -> bool:
    return _is_error(pkt) and bool(pkt.getfieldval("errcode") == _ERR_VERS)


class RPCRDMA(_UpperPacket):
    """The transport header of a Send, with its lists (RFC 8166 §4.2, §4.3)."""

    name = "RPC-over-RDMA"
    protocol = "RPC-over-RDMA"
    kinds = ("",)
    fields_desc = [
        XIntField("xid", None),
        IntField("version", 1),
        IntField("credits", 32),
        IntEnumField("procedure", RPC_MESSAGE, PROCEDURES),
        ConditionalField(IntField("align", 0), _is_padded),
        ConditionalField(IntField("thresh", 0), _is_padded),
        ConditionalField(XDRListField("reads", [], RPCRDMARead), _has_chunks),
        ConditionalField(XDRListField("writes", [], RPCRDMAChunk), _has_chunks),
        ConditionalField(XDROptionalField("reply", None, RPCRDMAChunk), _has_chunks),
        ConditionalField(IntEnumField("errcode", 2, ERRORS), _is_error),
        ConditionalField(IntField("version_low", 1), _is_of_versions),
        ConditionalField(IntField("version_high", 1), _is_of_versions),
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: Any = None, *args: Any, **fields: Any) -> type[Packet]:
        if _pkt is not None:
            found = transport_header(bytes(_pkt), len(_pkt))
            if found is None or found.is_cut:
                return conf.raw_layer
        return cls

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.getfieldval("xid") is None and self.getfieldval("procedure") == RPC_MESSAGE:
            pkt = pay[: _WORD.size].ljust(_WORD.size, b"\0") + pkt[_WORD.size :]
        return pkt + pay

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """An RPC message with the same XID, which is a call or a reply."""
        if self.procedure == RPC_MESSAGE and len(payload) >= 2 * _WORD.size:
            xid, kind = struct.unpack_from(">II", payload)
            if xid == self.xid and kind in _RPC_TYPES:
                from scapy.contrib.oncrpc import RPC

                return RPC
        return super().guess_payload_class(payload)

    def answers(self, other: Packet) -> int:
        """A reply has the XID of its call."""
        if not isinstance(other, RPCRDMA):
            return 0
        ours, theirs = self.header(), other.header()
        if ours is None or theirs is None or ours.is_reply is False or theirs.is_reply:
            return 0
        return int(ours.call is not None and ours.call == theirs.call)
