"""The upper layer that a connection carries: by Private Data, by port, and by headers that agree.

A candidate that Private Data or the port names is confirmed by the first Send that fits it, and dropped by one that
cannot be its own; octets that the capture cut refute nothing. Without a candidate, headers decide that no other
protocol's look like: those of SMB Direct's negotiation, of an RPC message after its transport header, perftest's
version, rping's memory once the peer uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias, TypeVar

from scapy_mpa.framing.legacy import SMB_DIRECT_PORT
from scapy_mpa.framing.startup import ENHANCED_DATA_LENGTH, StartupFrame
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp import iser, nvme, rpcrdma, smbdirect
from scapy_mpa.ulp.header import UNKNOWN, NamedMemory, Naming, Protocol, UpperHeader
from scapy_mpa.ulp.privatedata import ISER_PORT, NFS_PORT, NVME_PORT, PrivateDataPart, private_data_parts
from scapy_mpa.ulp.smbdirect import SmbDirectLimits, limits_of, negotiate_request, negotiate_response
from scapy_mpa.ulp.tools import PERFTEST_PORT, RPING_PORT, is_perftest_version, perftest_header, rping_header

PORTS: dict[int, Protocol] = {
    SMB_DIRECT_PORT: "SMB Direct",
    NFS_PORT: "RPC-over-RDMA",
    NVME_PORT: "NVMe-oF",
    ISER_PORT: "iSER",
    RPING_PORT: "rping",
    PERFTEST_PORT: "perftest",
}
#: What the Sends of these hold besides their first ones says nothing.
_WITHOUT_HEADERS = ("perftest",)
#: All that can be asked for by name.
PROTOCOLS = tuple(PORTS.values())
#: Octets of a Send that are examined.
LOOKED_AT = 4096
#: In place of the length of a Send that is not known: none is so long, since MO has 32 bits (RFC 5041 §4.3).
UNKNOWN_LENGTH = 1 << 32
#: Octets of a Send that complete any of these headers: a command of NVMe has this many, the others have fewer.
_LONGEST_HEADER = 64

_Found = TypeVar("_Found", bound=Naming | UpperHeader)
#: Reads a header off the octets of a Send: these, how many there are, whether the Initiator sent it, whether first; the
#: number of the queue, where a connection is one, as far as it is known.
_Parse: TypeAlias = Callable[[bytes, int, bool, bool, "int | None"], _Found | None]

_PARSERS: dict[Protocol, _Parse[UpperHeader]] = {
    "SMB Direct": lambda octets, length, by_initiator, first, _: smbdirect.header(octets, length, by_initiator, first),
    "RPC-over-RDMA": lambda octets, length, *_: rpcrdma.header(octets, length),
    "NVMe-oF": lambda octets, length, by_initiator, _, queue: nvme.header(octets, length, by_initiator, queue),
    "iSER": lambda octets, length, *_: iser.header(octets, length),
    "rping": lambda octets, length, *_: rping_header(octets, length),
    "perftest": lambda octets, length, *_: perftest_header(octets, length),
}
#: The same for what headers say about memory.
_NAMINGS: dict[Protocol, _Parse[Naming | UpperHeader]] = {
    **_PARSERS,
    "SMB Direct": lambda octets, length, by_initiator, first, _: smbdirect.naming(octets, length, by_initiator, first),
    "RPC-over-RDMA": lambda octets, length, *_: rpcrdma.naming(octets, length),
    "NVMe-oF": lambda octets, length, by_initiator, _, queue: nvme.naming(octets, length, by_initiator, queue),
    "iSER": lambda octets, length, *_: iser.naming(octets, length),
}


class UpperLayer:
    """The upper layer of one connection; either startup frame may be missing.

    Attributes:
        protocol: its name, "unknown" if nothing says it.
        grounds: what says so: "Private Data", "port", "headers".
        limits: what SMB Direct's negotiation came to, None if there was none.
    """

    __slots__ = (
        "_by_port",
        "_by_private",
        "_confirmed",
        "_inline",
        "_offered",
        "_queue",
        "_request",
        "_sent",
        "_stated",
        "limits",
    )

    def __init__(self, request: StartupFrame | None, reply: StartupFrame | None, responder_port: int) -> None:
        self._by_port, self._by_private, self._inline, self._queue = _stated(request, reply, responder_port)
        self._confirmed: Protocol | None = None
        #: Memory that the first message names, if it is rping's, until the peer uses it.
        self._offered: NamedMemory | None = None
        self._request: smbdirect.NegotiateRequest | None = None
        #: Sends of the Initiator, of the Responder.
        self._sent = [0, 0]
        #: True if the candidate still stands.
        self._stated = True
        self.limits: SmbDirectLimits | None = None

    @property
    def protocol(self) -> Protocol | None:
        """The protocol, None if it is not known."""
        return self._confirmed or (self._by_private or self._by_port if self._stated else self._by_private)

    @property
    def is_confirmed(self) -> bool:
        """True if headers showed it."""
        return self._confirmed is not None

    @property
    def is_possible(self) -> bool:
        """True if anything names a protocol, or memory was named that may be rping's."""
        return self.protocol is not None or self._offered is not None

    @property
    def name(self) -> str:
        """Its name, or "unknown"."""
        return self.protocol or UNKNOWN

    @property
    def grounds(self) -> list[str]:
        """The grounds for it."""
        protocol = self.protocol
        said = (self._by_private, "Private Data"), (self._by_port, "port"), (self._confirmed, "headers")
        return [ground for named, ground in said if protocol is not None and named == protocol]

    def see_send(self, octets: bytes, length: int, is_from_initiator: bool) -> UpperHeader | None:
        """A whole Send of ``length`` octets, which begins with these; returns its header if it is one of this layer."""
        return self._see(octets, length, is_from_initiator, _PARSERS)

    def header(self, octets: bytes, length: int, is_from_initiator: bool) -> UpperHeader | None:
        """The header of a Send that comes before others that are missing, which says nothing of the connection."""
        protocol = self.protocol
        return None if protocol is None else header_of(protocol, octets, length, is_from_initiator, self._queue)

    def see_naming(self, octets: bytes, length: int, is_from_initiator: bool) -> Naming | UpperHeader | None:
        """Do as :meth:`see_send`, but return what its header says about memory."""
        return self._see(octets, length, is_from_initiator, _NAMINGS)

    def _see(
        self, octets: bytes, length: int, is_from_initiator: bool, parsers: Mapping[Protocol, _Parse[_Found]]
    ) -> _Found | UpperHeader | None:
        side = 0 if is_from_initiator else 1
        is_first = not self._sent[side]
        self._sent[side] += 1
        if not length:
            self._sent[side] -= is_first  # a ready-to-receive message (RFC 6581 §9.2)
            return None
        protocol = self.protocol
        if protocol is not None:
            header = parsers[protocol](octets, length, is_from_initiator, is_first, self._queue)
            if header is not None:
                self._confirm(protocol, octets, length, is_from_initiator, is_first)
                return header
            is_cut = len(octets) < min(length, _LONGEST_HEADER)
            if self._confirmed is not None or protocol in _WITHOUT_HEADERS or not is_first or is_cut:
                return None
            self._stated = False
        if self._by_private is not None or self._confirmed is not None or not is_first:
            return None
        return self._recognise(octets, length, is_from_initiator)

    def _confirm(self, protocol: Protocol, octets: bytes, length: int, is_from_initiator: bool, is_first: bool) -> None:
        self._confirmed = protocol
        if protocol == "NVMe-oF" and is_from_initiator and is_first and self._queue is None:
            self._queue = nvme.connect_queue(octets)
        if protocol == "SMB Direct" and is_first and self.limits is None:
            if is_from_initiator:
                self._request = negotiate_request(octets[:length])
            elif self._request is not None:
                response = negotiate_response(octets[:length])
                self.limits = limits_of(self._request, response) if response is not None else None

    def _recognise(self, octets: bytes, length: int, is_from_initiator: bool) -> UpperHeader | None:
        """The header of a first Send, if only one protocol sends such a header."""
        found = smbdirect.header(octets, length, is_from_initiator, True)
        if found is None and is_perftest_version(octets, length):
            found = perftest_header(octets, length)
        if found is None:
            rpc = rpcrdma.header(octets, length)
            found = rpc if rpc is not None and rpc.values["rpc"] is not None else None
        if found is not None:
            self._confirm(found.protocol, octets, length, is_from_initiator, True)
            return found
        rping = rping_header(octets, length) if is_from_initiator else None
        if rping is not None and rping.named:
            self._offered = rping.named[0]
            return rping
        return None

    def most_octets(self, direction: str) -> int | None:
        """Return the most octets that a Send of this direction ("initiator": sent by the Initiator) may have, if the
        peer said so.

        SMB Direct's negotiation says it, and the Private Data of RPC-over-RDMA (RFC 8797).
        """
        if self.limits is not None:
            return self.limits.most_received(direction)
        return self._inline[1 if direction == "initiator" else 0]

    def see_use(self, stag: int, to: int) -> None:
        """The peer of the Initiator reads or writes memory: what an rping's first message named?"""
        offered = self._offered
        if offered is not None and self._confirmed is None:
            if (offered.stag, offered.to) == (stag, to):
                self._confirmed = "rping"
            self._offered = None


def names_nothing(
    request: StartupFrame | None,
    reply: StartupFrame | None,
    responder_port: int,
    octets: bytes,
    length: int,
    is_from_initiator: bool,
) -> bool:
    """Return True if neither the port nor Private Data nor the first Send names an upper layer, nor may it be rping's.

    The first Send, of either side, has ``length`` octets and begins with these.
    """
    stated = _stated(request, reply, responder_port)
    if stated.by_port is not None or stated.by_private is not None or not length:
        return False
    return not (
        rpcrdma.transport_header(octets, length) is not None
        or smbdirect.header(octets, length, is_from_initiator, True) is not None
        or is_perftest_version(octets, length)
        or (is_from_initiator and rping_header(octets, length) is not None)
    )


class _Stated(NamedTuple):
    """What the port and Private Data say.

    ``inline``: how many octets the Initiator and the Responder take in a Send, as their Private Data say (RFC 8797);
    ``queue``: the number of the queue that NVMe-oF's Private Data name.
    """

    by_port: Protocol | None
    by_private: Protocol | None
    inline: tuple[int | None, ...]
    queue: int | None


# Those of a thousand connections mostly say the same; few are kept, for a frame may have 64 KiB.
@lru_cache(maxsize=64)
def _stated(request: StartupFrame | None, reply: StartupFrame | None, responder_port: int) -> _Stated:
    parts = [_parts(frame, responder_port) for frame in (request, reply)]
    return _Stated(
        PORTS.get(responder_port),
        next((part.protocol for of in parts for part in of if part.protocol is not None), None),
        tuple(next((part.most_received for part in of if part.most_received), None) for of in parts),
        next((part.values["qid"] for part in parts[0] if "qid" in part.values), None),
    )


def _parts(frame: StartupFrame | None, responder_port: int) -> list[PrivateDataPart]:
    if frame is None or len(frame.private_data) < ENHANCED_DATA_LENGTH:
        return []
    return private_data_parts(frame, responder_port)


def header_of(
    protocol: Protocol, octets: bytes, length: int, is_from_initiator: bool, queue: int | None = None
) -> UpperHeader | None:
    """The header of a Send of a protocol, with unknown earlier Sends; None if there is none.

    The first Send of either side may be another message than those that follow.
    """
    parse = _PARSERS[protocol]
    later = parse(octets, length, is_from_initiator, False, queue)
    return later or parse(octets, length, is_from_initiator, True, queue)
