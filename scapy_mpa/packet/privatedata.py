"""Private Data of upper layers as Scapy packets: what stands in ``private_data`` of a startup frame, if it is known.

SMB Direct before RFC 6581 (MS-SMBD §6.1), RPC-over-RDMA (RFC 8797), NVMe-oF, iSER. They are built into a frame by
``MPARequest(private_data=RPCRDMAPrivateData(...))``; ``private_data_packet`` of a frame makes one of its octets.
"""

from __future__ import annotations

from scapy.fields import (
    BitField,
    ByteField,
    IntField,
    LEIntField,
    LEShortField,
    StrField,
    StrFixedLenField,
    XIntField,
)
from scapy.packet import Packet

from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.ulp.privatedata import private_data_parts


class SMBDirectDepths(Packet):
    """IRD and ORD of SMB Direct before RFC 6581, in network byte order."""

    name = "SMB Direct IRD and ORD"
    fields_desc = [IntField("ird", 0), IntField("ord", 0), StrField("more", b"")]


class SMBDirectDepthsLE(Packet):
    """IRD and ORD of SMB Direct before RFC 6581, as some peers write them: in little-endian order."""

    name = "SMB Direct IRD and ORD, little-endian"
    fields_desc = [LEIntField("ird", 0), LEIntField("ord", 0), StrField("more", b"")]


class RPCRDMAPrivateData(Packet):
    """RPC-over-RDMA (RFC 8797 §4); sizes are (octets / 1024) - 1."""

    name = "RPC-over-RDMA Private Data"
    fields_desc = [
        XIntField("magic", 0xF6AB0E18),
        ByteField("version", 1),
        BitField("reserved", 0, 7),
        BitField("remote_invalidation", 0, 1),
        ByteField("send_size", 3),
        ByteField("receive_size", 3),
        StrField("more", b""),
    ]


class NVMePrivateDataRequest(Packet):
    """NVMe-oF, in a Request."""

    name = "NVMe-oF Private Data"
    fields_desc = [
        LEShortField("recfmt", 0),
        LEShortField("qid", 0),
        LEShortField("hrqsize", 0),
        LEShortField("hsqsize", 0),
        LEShortField("cntlid", 0),
        StrFixedLenField("reserved", bytes(22), 22),
    ]


class NVMePrivateDataReply(Packet):
    """NVMe-oF, in a Reply that accepts."""

    name = "NVMe-oF Private Data"
    fields_desc = [LEShortField("recfmt", 0), LEShortField("crqsize", 0), StrField("reserved", b"")]


class NVMePrivateDataReject(Packet):
    """NVMe-oF, in a Reply that rejects."""

    name = "NVMe-oF Private Data, rejected"
    fields_desc = [LEShortField("recfmt", 0), LEShortField("sts", 0), StrField("reserved", b"")]


class ISERPrivateData(Packet):
    """iSER's flags."""

    name = "iSER Private Data"
    fields_desc = [
        BitField("no_zero_based_addresses", 0, 1),
        BitField("no_send_with_invalidate", 0, 1),
        BitField("reserved", 0, 30),
        StrField("more", b""),
    ]


#: Which class reads which form.
_BY_FORM: dict[str, type[Packet]] = {"RFC 8797": RPCRDMAPrivateData, "iSER": ISERPrivateData}


def private_data_packet(frame: StartupFrame, responder_port: int) -> Packet | None:
    """Return the upper layer's Private Data of a startup frame as a packet; None if they are unknown."""
    for part in private_data_parts(frame, responder_port):
        if part.protocol is None:
            continue
        octets = frame.private_data[part.offset :]
        if part.protocol == "SMB Direct":
            return (SMBDirectDepths if part.values["byte_order"] == "big" else SMBDirectDepthsLE)(octets)
        if part.protocol == "NVMe-oF":
            reply = NVMePrivateDataReject if frame.r else NVMePrivateDataReply
            return (NVMePrivateDataRequest if frame.kind == "request" else reply)(octets)
        return _BY_FORM[part.form](octets)
    return None
