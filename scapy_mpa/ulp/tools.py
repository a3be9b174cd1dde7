"""Programs that test RDMA: rping (librdmacm) and perftest. Their messages name memory of the sender to its peer."""

from __future__ import annotations

import re
from struct import Struct

from scapy_mpa.ulp.header import NamedMemory, UpperHeader

#: rping's port, if none is given; perftest's.
RPING_PORT, PERFTEST_PORT = 7174, 18515

#: rping: buffer, rkey and size, big-endian; the same form, all zero, says "go on".
_RPING = Struct(">QII")
#: What rping's client fills its buffer with, a letter further in each iteration.
_LETTERS = bytes(range(ord("A"), ord("z") + 1))
#: perftest begins with its version, as text, in 16 octets.
_PERFTEST_VERSION = re.compile(rb"\d{1,2}\.\d{2,3}\0+")
_VERSION_LENGTH = 16
#: perftest's exchange of addresses: lid, out_reads, qpn, psn, rkey, vaddr (then srqn and GID), big-endian.
_EXCHANGE = Struct(">IIIII4xQ")
_EXCHANGE_LENGTH = 56


def rping_header(octets: bytes, length: int) -> UpperHeader | None:
    """An rping message: the memory that the peer is to read or write, or the word to go on."""
    if length != _RPING.size or len(octets) < length:
        return None
    address, stag, size = _RPING.unpack_from(octets)
    if not stag and not address:
        return UpperHeader("rping", {"message": "go on"}, text="go on")
    named = (NamedMemory(stag, address, size, "read or write"),)
    return UpperHeader("rping", {"message": "buffer", **named[0].as_dict()}, named, f"buffer of {size} octets")


def rping_message(stag: int = 0, address: int = 0, size: int = 0) -> bytes:
    """An rping message that names a buffer; without one, the word to go on."""
    return _RPING.pack(address, stag, size)


def rping_text(iteration: int, size: int) -> bytes:
    """Return the buffer of an rping client in an iteration, from 0: ``size`` octets, the last one zero."""
    text = b"rdma-ping-%d: " % iteration
    letters = _LETTERS[iteration % len(_LETTERS) :] + _LETTERS[: iteration % len(_LETTERS)]
    wanted = max(0, size - len(text))
    return (text + letters * (1 + wanted // len(letters)))[: max(0, size - 1)] + bytes(min(size, 1))


def is_perftest_version(octets: bytes, length: int) -> bool:
    """Return True if a message is the version that perftest begins with."""
    return length == _VERSION_LENGTH and _PERFTEST_VERSION.fullmatch(octets[:length]) is not None


def perftest_header(octets: bytes, length: int) -> UpperHeader | None:
    """A perftest message: its version, or the memory that the peer is to read or write."""
    if is_perftest_version(octets, length):
        version = octets[:length].rstrip(b"\0").decode("ascii")
        return UpperHeader("perftest", {"message": "version", "version": version}, text=f"version {version}")
    if length != _EXCHANGE_LENGTH or len(octets) < length:
        return None
    _, out_reads, _, _, stag, address = _EXCHANGE.unpack_from(octets)
    if not stag:
        return UpperHeader("perftest", {"message": "exchange"}, text="exchange")
    named = (NamedMemory(stag, address, 0, "read or write"),)
    values = {"message": "exchange", "out_reads": out_reads, **named[0].as_dict()}
    return UpperHeader("perftest", values, named, f"buffer at {address:#x}")
