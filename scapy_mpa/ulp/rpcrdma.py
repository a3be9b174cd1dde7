"""RPC-over-RDMA version 1 (RFC 8166 §4): the transport header, its chunk lists, and the RPC message behind it.

A chunk's handle is an STag: it names memory of the sender to its peer. Private Data are RFC 8797's.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from scapy_mpa.ulp.header import NamedMemory, UpperHeader

_FIXED = Struct(">IIII")
_WORD = Struct(">I")
_SEGMENT = Struct(">IIQ")
_VERSION = 1
#: RFC 8166 §4.3.
PROCEDURES = {0: "RDMA_MSG", 1: "RDMA_NOMSG", 2: "RDMA_MSGP", 3: "RDMA_DONE", 4: "RDMA_ERROR"}
_WITH_CHUNKS = (0, 1)
_RPC_MESSAGE, _DONE, _ERROR = 0, 3, 4
_MOST_SEGMENTS = 1024
_RPC_TYPES = {0: "call", 1: "reply"}


class _Cut(Exception):
    """The octets end before the list does."""


class _Reader:
    """Reads XDR off octets."""

    def __init__(self, octets: bytes, at: int) -> None:
        self._octets = octets
        self.at = at

    def word(self) -> int:
        """The next number of 32 bits."""
        if self.at + _WORD.size > len(self._octets):
            raise _Cut
        (value,) = _WORD.unpack_from(self._octets, self.at)
        self.at += _WORD.size
        return int(value)

    def segment(self, use: str) -> NamedMemory:
        """The next handle, length and offset."""
        if self.at + _SEGMENT.size > len(self._octets):
            raise _Cut
        handle, length, offset = _SEGMENT.unpack_from(self._octets, self.at)
        self.at += _SEGMENT.size
        return NamedMemory(handle, offset, length, use)

    def array(self, use: str) -> list[NamedMemory]:
        """The next counted array of segments."""
        count = self.word()
        if count > _MOST_SEGMENTS:
            raise ValueError("more segments than any header has")
        return [self.segment(use) for _ in range(count)]


def header(octets: bytes, length: int) -> UpperHeader | None:
    """The transport header at the beginning of a Send of ``length`` octets, None if there is none."""
    if len(octets) < _FIXED.size:
        return None
    xid, version, credits, procedure = _FIXED.unpack_from(octets)
    if version != _VERSION or procedure not in PROCEDURES:
        return None
    name = PROCEDURES[procedure]
    reads: list[NamedMemory] = []
    writes: list[list[NamedMemory]] = []
    reply: list[NamedMemory] | None = None
    reader = _Reader(octets, _FIXED.size)
    is_cut = False
    try:
        if procedure in _WITH_CHUNKS:
            while _flag(reader):
                reader.word()  # the position in the message
                reads.append(reader.segment("read"))
                if len(reads) > _MOST_SEGMENTS:
                    return None
            while _flag(reader):
                writes.append(reader.array("write"))
                if len(writes) > _MOST_SEGMENTS:
                    return None
            if _flag(reader):
                reply = reader.array("reply")
    except _Cut:
        if len(octets) >= length:
            return None
        is_cut = True
    except ValueError:
        return None
    values: dict[str, Any] = {
        "xid": xid,
        "credits": credits,
        "procedure": name,
        "reads": [one.as_dict() for one in reads],
        "writes": [[one.as_dict() for one in chunk] for chunk in writes],
        "reply_chunk": None if reply is None else [one.as_dict() for one in reply],
    }
    kind = None if is_cut or procedure != _RPC_MESSAGE else _rpc(octets, reader.at, xid, values)
    values["rpc"] = kind
    named = (*reads, *(one for chunk in writes for one in chunk), *(reply or ()))
    parts = [f"{(kind or name).capitalize() if kind else name} xid {xid:#010x}"]
    for what, count in (("read", len(reads)), ("write", len(writes)), ("reply", len(reply or ()))):
        if count:
            parts.append(f"{count} {what} {'segment' if what != 'write' else 'chunk'}{'s' if count > 1 else ''}")
    is_reply = kind == "reply" if kind is not None else True if procedure == _ERROR else None
    call = xid if procedure != _DONE else None
    return UpperHeader("RPC-over-RDMA", values, named, ", ".join(parts), call, is_reply, is_cut)


def _flag(reader: _Reader) -> bool:
    value = reader.word()
    if value > 1:
        raise ValueError("neither an entry nor the end of a list")
    return bool(value)


def _rpc(octets: bytes, at: int, xid: int, values: dict[str, Any]) -> str | None:
    """Whether the RPC message behind the header is a call or a reply; its program and procedure go into ``values``."""
    reader = _Reader(octets, at)
    try:
        if reader.word() != xid:
            return None
        kind = _RPC_TYPES.get(reader.word())
        if kind == "call":
            reader.word()  # the version of RPC, 2
            values.update(program=reader.word(), version=reader.word(), rpc_procedure=reader.word())
    except _Cut:
        return None
    return kind
