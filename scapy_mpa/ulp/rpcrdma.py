"""RPC-over-RDMA version 1 (RFC 8166 §4): the transport header, its chunk lists, and the RPC message after it.

A chunk's handle is an STag: it names memory of the sender to its peer. Private Data are RFC 8797's.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Any

from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.header import NamedMemory, Naming, UpperHeader
from scapy_mpa.ulp.nfs import operations
from scapy_mpa.ulp.rpc import COMPOUND, call_name
from scapy_mpa.values.octets import place, word

_FIXED = Struct(">IIII")
#: Octets of a number, and of a segment: handle, length and, of 64 bits, offset.
_WORD_LENGTH, _SEGMENT_LENGTH = 4, 16
#: How an RPC message begins: its XID and what it is; after that a call has the version of RPC, 2, its program, the
#: version of that and the procedure.
_MESSAGE, _CALL = Struct(">II"), Struct(">12xIII")
_VERSION = 1
#: RFC 8166 §4.3.
PROCEDURES = {0: "RDMA_MSG", 1: "RDMA_NOMSG", 2: "RDMA_MSGP", 3: "RDMA_DONE", 4: "RDMA_ERROR"}
WITH_CHUNKS = (0, 1, 2)
RPC_MESSAGE, PADDED, _DONE, ERROR = 0, 2, 3, 4
#: RDMA_MSGP has rdma_align and rdma_thresh before its lists (RFC 8166 §4.3).
_PADDED_LENGTH = 8
_MOST_SEGMENTS = 1024
_RPC_CALL, _RPC_REPLY = 0, 1
_RPC_TYPES = {_RPC_CALL: "call", _RPC_REPLY: "reply"}


class TransportHeader(NamedTuple):
    """A transport header: its chunk lists, where it ends, and whether the octets end before.

    ``positions`` are those of the Read segments in the message, as many as there are ``reads``.
    """

    xid: int
    credits: int
    procedure: int
    reads: list[NamedMemory]
    writes: list[list[NamedMemory]]
    reply: list[NamedMemory] | None
    end: int
    is_cut: bool
    positions: list[int]


class _Reader:
    """Reads XDR off octets; raises struct.error or IndexError where they end before."""

    __slots__ = ("_octets", "at")

    def __init__(self, octets: bytes, at: int) -> None:
        self._octets = octets
        self.at = at

    def word(self) -> int:
        """The next number of 32 bits."""
        value = word(self._octets, self.at)
        self.at += _WORD_LENGTH
        return value

    def flag(self) -> bool:
        """Return True if an entry of a list follows."""
        value = self.word()
        if value > 1:
            raise ValueError("neither an entry nor the end of a list")
        return bool(value)

    def segment(self, use: str) -> NamedMemory:
        """The next handle, length and offset."""
        handle = word(self._octets, self.at)
        length, offset = place(self._octets, self.at + _WORD_LENGTH)
        self.at += _SEGMENT_LENGTH
        return NamedMemory(handle, offset, length, use)

    def array(self, use: str) -> list[NamedMemory]:
        """The next counted array of segments."""
        count = self.word()
        if count > _MOST_SEGMENTS:
            raise ValueError("more segments than any header has")
        return [self.segment(use) for _ in range(count)]


def header(octets: bytes, length: int) -> UpperHeader | None:
    """The transport header at the beginning of a Send of ``length`` octets, None if there is none."""
    found = transport_header(octets, length)
    if found is None:
        return None
    xid, credits, procedure, reads, writes, reply, end, is_cut, _ = found
    name, kind = PROCEDURES[procedure], _rpc(octets, found)
    values: dict[str, Any] = {
        "xid": xid,
        "credits": credits,
        "procedure": name,
        "reads": [one.as_dict() for one in reads],
        "writes": [[one.as_dict() for one in chunk] for chunk in writes],
        "reply_chunk": None if reply is None else [one.as_dict() for one in reply],
    }
    called = ""
    if kind == "call":
        values["program"], values["version"], values["rpc_procedure"] = asked = _CALL.unpack_from(octets, end)
        values["call"] = call_name(*asked)
        if asked == COMPOUND and (said := operations(octets, end)):
            values["call"] = f"{values['call']} {said}"
        called = f", {values['call']}"
    values["rpc"] = kind
    parts = [f"{(kind or name).capitalize() if kind else name} xid {xid:#010x}{called}"]
    for what, count in (("read", len(reads)), ("write", len(writes)), ("reply", len(reply or ()))):
        if count:
            parts.append(f"{count} {what} {'segment' if what != 'write' else 'chunk'}{'s' if count > 1 else ''}")
    _, named, call, is_reply, _ = _naming(found, kind)
    return UpperHeader("RPC-over-RDMA", values, named, ", ".join(parts), call, is_reply, is_cut)


def naming(octets: bytes, length: int) -> Naming | None:
    """Return what such a header says about memory, as :func:`header`."""
    found = transport_header(octets, length)
    return None if found is None else _naming(found, _rpc(octets, found))


def transport_header(octets: bytes, length: int) -> TransportHeader | None:
    """The transport header at the beginning of a Send of ``length`` octets, None if there is none."""
    if len(octets) < _FIXED.size:
        return None
    xid, version, credits, procedure = _FIXED.unpack_from(octets)
    if version != _VERSION or procedure not in PROCEDURES:
        return None
    reads: list[NamedMemory] = []
    positions: list[int] = []
    writes: list[list[NamedMemory]] = []
    reply: list[NamedMemory] | None = None
    reader = _Reader(octets, _FIXED.size)
    is_cut = False
    try:
        if procedure == PADDED:
            reader.at += _PADDED_LENGTH
        if procedure in WITH_CHUNKS:
            while reader.flag():
                positions.append(reader.word())
                reads.append(reader.segment("read"))
                if len(reads) > _MOST_SEGMENTS:
                    return None
            while reader.flag():
                writes.append(reader.array("write"))
                if len(writes) > _MOST_SEGMENTS:
                    return None
            if reader.flag():
                reply = reader.array("reply")
    except (StructError, IndexError):
        if len(octets) >= length:
            return None
        is_cut = True
    except ValueError:
        return None
    return TransportHeader(xid, credits, procedure, reads, writes, reply, reader.at, is_cut, positions)


def _naming(found: TransportHeader, kind: str | None) -> Naming:
    """Return what a transport header says about memory; its RPC message is a call, a reply or neither."""
    xid, _, procedure, reads, writes, reply, _, is_cut, _ = found
    named = (*reads, *(one for chunk in writes for one in chunk), *(reply or ()))
    is_reply = kind == "reply" if kind is not None else True if procedure == ERROR else None
    return Naming("RPC-over-RDMA", named, xid if procedure != _DONE else None, is_reply, is_cut)


def _rpc(octets: bytes, found: TransportHeader) -> str | None:
    """Return whether the RPC message after a header is a call or a reply; None if neither, or not available."""
    if found.is_cut or found.procedure != RPC_MESSAGE or len(octets) < found.end + _MESSAGE.size:
        return None
    xid, kind = _MESSAGE.unpack_from(octets, found.end)
    is_cut = kind == _RPC_CALL and len(octets) < found.end + _CALL.size
    return _RPC_TYPES.get(kind) if xid == found.xid and not is_cut else None
