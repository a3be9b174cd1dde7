"""What the Private Data of startup frames say, part by part, where that is known.

RFC 6581's enhanced data, or the older form of SMB Direct, come first; what follows is the upper layer's: RFC 8797's of
RPC-over-RDMA, NVMe-oF's, iSER's. rdma_cm puts no header of its own before these on iWARP.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from scapy_mpa.framing.legacy import LEGACY_DEPTHS_LENGTH, legacy_depths
from scapy_mpa.framing.startup import ENHANCED_DATA_LENGTH, NOT_NEGOTIATED, EnhancedData, StartupFrame
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.header import UNKNOWN, Protocol
from scapy_mpa.values.startup import enhanced_fields

#: RPC-over-RDMA's, NVMe-oF's and iSER's ports on iWARP.
NFS_PORT, NVME_PORT, ISER_PORT = 20049, 4420, 3260

#: What the enhanced data are called among the forms of Private Data.
ENHANCED_FORM = "RFC 6581"

_RPC_MAGIC = 0xF6AB0E18
_RPC = Struct(">IBBBB")
_REMOTE_INVALIDATION = 1
_NVME_REQUEST = Struct("<HHHHH")
_NVME_REQUEST_LENGTH = 32
_NVME_REPLY = Struct("<HH")
_NVME_REPLY_LENGTHS = (4, 32)
_ISER_LENGTH = 4
_NO_ZERO_BASED, _NO_INVALIDATE = 0x80, 0x40
_UNIT = 1024


class PrivateDataPart(NamedTuple):
    """A part of Private Data: where it lies, what it is, its values, what they say; ``protocol`` if that is known.

    ``most_received`` is how many octets its sender takes in a Send, 0 if it does not say so.
    """

    offset: int
    length: int
    form: str
    values: dict[str, Any]
    text: str
    protocol: Protocol | None = None
    most_received: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        return {"offset": self.offset, "length": self.length, "form": self.form, "text": self.text, **self.values}


def private_data_parts(frame: StartupFrame, responder_port: int) -> list[PrivateDataPart]:
    """The parts of the Private Data of a startup frame, all of its octets, in their order."""
    octets = frame.private_data
    parts: list[PrivateDataPart] = []
    at = 0
    enhanced, legacy = frame.enhanced, legacy_depths(frame, responder_port)
    if enhanced is not None:
        text = enhanced_text(enhanced)
        parts.append(PrivateDataPart(0, ENHANCED_DATA_LENGTH, ENHANCED_FORM, enhanced_fields(enhanced), text))
        at = ENHANCED_DATA_LENGTH
    elif legacy is not None:
        order = "" if legacy.byte_order == "big" else ", in little-endian order, where network byte order is expected"
        text = f"IRD {legacy.ird}, ORD {legacy.ord}{order}"
        form = "SMB Direct before RFC 6581"
        parts.append(PrivateDataPart(0, LEGACY_DEPTHS_LENGTH, form, legacy._asdict(), text, "SMB Direct"))
        at = LEGACY_DEPTHS_LENGTH
    rest = octets[at:]
    known = upper_part(rest, frame, responder_port)
    if known is not None:
        parts.append(known._replace(offset=at))
        at += known.length
    if at < len(octets):
        parts.append(PrivateDataPart(at, len(octets) - at, UNKNOWN, {"octets": octets[at:].hex()}, ""))
    return parts


def enhanced_text(data: EnhancedData) -> str:
    """RFC 6581's enhanced data in words."""
    depths = [
        f"{name} {'left to the ULP' if depth == NOT_NEGOTIATED else depth}"
        for name, depth in (("IRD", data.ird), ("ORD", data.ord))
    ]
    if not data.a:
        return ", ".join([*depths, "client-server model"])
    types = [name for name, flag in (("Send", data.b), ("RDMA Write", data.c), ("RDMA Read", data.d)) if flag]
    return ", ".join([*depths, f"peer-to-peer model, ready-to-receive message: {' or '.join(types) or 'none'}"])


def upper_part(octets: bytes, frame: StartupFrame, responder_port: int) -> PrivateDataPart | None:
    """Return what the upper layer's own Private Data are; None if they are unknown."""
    return _rpc_over_rdma(octets) or _nvme(octets, frame, responder_port) or _iser(octets, responder_port)


def _rpc_over_rdma(octets: bytes) -> PrivateDataPart | None:
    """RFC 8797 §4."""
    if len(octets) < _RPC.size:
        return None
    magic, version, flags, send, receive = _RPC.unpack_from(octets)
    if magic != _RPC_MAGIC:
        return None
    sizes = (send + 1) * _UNIT, (receive + 1) * _UNIT
    invalidation = bool(flags & _REMOTE_INVALIDATION)
    values = {
        "version": version,
        "remote_invalidation": invalidation,
        "send_size": sizes[0],
        "receive_size": sizes[1],
    }
    text = f"version {version}, sends at most {sizes[0]} octets inline, receives at most {sizes[1]}"
    text += f", {'supports' if invalidation else 'does not support'} remote invalidation"
    return PrivateDataPart(0, _RPC.size, "RFC 8797", values, text, "RPC-over-RDMA", sizes[1])


def _nvme(octets: bytes, frame: StartupFrame, responder_port: int) -> PrivateDataPart | None:
    """NVMe-oF's of a Request (32 octets), of a Reply that accepts, of one that rejects."""
    if frame.kind == "request":
        if len(octets) != _NVME_REQUEST_LENGTH:
            return None
        recfmt, qid, hrqsize, hsqsize, cntlid = _NVME_REQUEST.unpack_from(octets)
        if recfmt or not hrqsize or (responder_port != NVME_PORT and any(octets[_NVME_REQUEST.size :])):
            return None
        values = {"recfmt": recfmt, "qid": qid, "hrqsize": hrqsize, "hsqsize": hsqsize, "cntlid": cntlid}
        text = f"queue {qid}, host receive queue of {hrqsize}, host send queue of {hsqsize + 1}, controller {cntlid}"
        return PrivateDataPart(0, _NVME_REQUEST_LENGTH, "NVMe-oF", values, text, "NVMe-oF")
    if responder_port != NVME_PORT or len(octets) not in _NVME_REPLY_LENGTHS:
        return None
    recfmt, second = _NVME_REPLY.unpack_from(octets)
    if recfmt:
        return None
    name, said = ("sts", "rejected with status") if frame.r else ("crqsize", "controller receive queue of")
    return PrivateDataPart(0, len(octets), "NVMe-oF", {"recfmt": recfmt, name: second}, f"{said} {second}", "NVMe-oF")


def _iser(octets: bytes, responder_port: int) -> PrivateDataPart | None:
    """iSER's flags."""
    if responder_port != ISER_PORT or len(octets) < _ISER_LENGTH or any(octets[1:_ISER_LENGTH]):
        return None
    zero_based, invalidate = not octets[0] & _NO_ZERO_BASED, not octets[0] & _NO_INVALIDATE
    values = {"zero_based_addresses": zero_based, "send_with_invalidate": invalidate}
    text = f"{'' if zero_based else 'no '}zero-based addresses, {'' if invalidate else 'no '}Send with Invalidate"
    return PrivateDataPart(0, _ISER_LENGTH, "iSER", values, text, "iSER")
