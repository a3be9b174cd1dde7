"""Messages of upper layers that more than one test uses: each layer, and a crafted connection of SMB Direct."""

# mypy cannot follow Scapy's "/" where Python has no typing.Self.
# mypy: disable-error-code="arg-type, operator, unused-ignore"

from __future__ import annotations

from scapy.contrib.oncrpc import RPC, RPC_Call, RPC_Reply
from scapy.layers.smb2 import SMB2_Header, SMB2_Negotiate_Protocol_Request
from scapy.packet import Packet

from scapy_mpa.framing.role import Role
from scapy_mpa.layers import (
    FPDU,
    ISER,
    RPCRDMA,
    DDPUntagged,
    ISCSIHeader,
    ISERHello,
    ISERHelloReply,
    MPAConnection,
    NVMeAdminCommand,
    NVMeCommand,
    NVMeConnect,
    NVMeConnectData,
    NVMeDisconnect,
    NVMeFabrics,
    NVMeIOCommand,
    NVMePropertyGet,
    NVMePropertySet,
    NVMeResponse,
    RDMAPSend,
    RPCRDMAChunk,
    RPCRDMARead,
    RPCRDMASegment,
    SMBDirectDataTransfer,
    SMBDirectNegotiateRequest,
    SMBDirectNegotiateResponse,
)

#: The port of each protocol on iWARP.
PORTS = {"SMB Direct": 5445, "RPC-over-RDMA": 20049, "NVMe-oF": 4420, "iSER": 3260}

SEGMENT = RPCRDMASegment(handle=0x1234, length=4096, offset=1 << 40)
CALL = RPC(xid=7, mtype=0) / RPC_Call(pversion=4, procedure=1, aflavor=0, alength=0, vlength=0)
NULL_AUTH = {"aflavor": 0, "alength": 0, "vlength": 0}
SMB2 = SMB2_Header() / SMB2_Negotiate_Protocol_Request()

#: Each layer: a message, its octets.
MESSAGES: dict[str, tuple[Packet, str]] = {
    "negotiate request": (
        SMBDirectNegotiateRequest(preferred_send_size=1024, max_receive_size=1024, max_fragmented_size=1 << 17),
        "0001 0001 0000 0a00 00040000 00040000 00000200",
    ),
    "negotiate response": (
        SMBDirectNegotiateResponse(status=0xC00000BB, credits_requested=1, credits_granted=2, max_receive_size=1024),
        "0001 0001 0001 0000 0100 0200 bb0000c0 00001000 54050000 00040000 00001000",
    ),
    "credits alone": (SMBDirectDataTransfer(credits_granted=5, flags=1), "0a00 0500 0100 0000" + "00000000" * 3),
    "data": (
        SMBDirectDataTransfer(remaining_data_length=9) / b"abc",
        "0a00 0100 0000 0000 09000000 18000000 03000000 00000000 616263",
    ),
    "call without chunks": (
        RPCRDMA(credits=128) / CALL,
        (
            "00000007 00000001 00000080 00000000 00000000 00000000 00000000"
            "00000007 00000000 00000002 000186a3 00000004 00000001 00000000 00000000 00000000 00000000"
        ),
    ),
    "call with chunks": (
        RPCRDMA(
            reads=[RPCRDMARead(position=148, handle=5, length=3, offset=2)],
            writes=[RPCRDMAChunk(segments=[SEGMENT])],
            reply=RPCRDMAChunk(segments=[SEGMENT, SEGMENT]),
        )
        / CALL,
        (
            "00000007 00000001 00000020 00000000"
            "00000001 00000094 00000005 00000003 0000000000000002 00000000"
            "00000001 00000001 00001234 00001000 0000010000000000 00000000"
            "00000001 00000002 00001234 00001000 0000010000000000 00001234 00001000 0000010000000000"
            "00000007 00000000 00000002 000186a3 00000004 00000001 00000000 00000000 00000000 00000000"
        ),
    ),
    "reply": (
        RPCRDMA() / RPC(xid=7, mtype=1) / RPC_Reply(),
        (
            "00000007 00000001 00000020 00000000 00000000 00000000 00000000"
            "00000007 00000001 00000000 00000000 00000000 00000000"
        ),
    ),
    "no message": (
        RPCRDMA(xid=9, procedure="RDMA_NOMSG", reply=RPCRDMAChunk()),
        "00000009 00000001 00000020 00000001 00000000 00000000 00000001 00000000",
    ),
    "padded": (
        RPCRDMA(xid=9, procedure="RDMA_MSGP", align=1, thresh=2),
        "00000009 00000001 00000020 00000002 00000001 00000002 00000000 00000000 00000000",
    ),
    "error of versions": (
        RPCRDMA(xid=9, procedure="RDMA_ERROR", errcode="ERR_VERS", version_high=2),
        "00000009 00000001 00000020 00000004 00000001 00000001 00000002",
    ),
    "error of chunks": (
        RPCRDMA(xid=9, procedure="RDMA_ERROR"),
        "00000009 00000001 00000020 00000004 00000002",
    ),
    "identify": (
        NVMeAdminCommand(opcode="Identify", cid=0x12, nsid=1, address=1 << 32, length=4096, key=0x1234, cdw10=1),
        "06 40 1200 01000000 00000000 00000000 0000000000000000 0000000001000000 001000 34120000 40 01000000"
        + 5 * "00000000",
    ),
    "write": (
        NVMeIOCommand(opcode="Write", cid=3, nsid=1, sgl_subtype=15, cdw12=7, mptr=2) / b"data",
        (
            "01 40 0300 01000000 00000000 00000000 0200000000000000 0000000000000000 000000 00000000 4f"
            "00000000 00000000 07000000 00000000 00000000 00000000 64617461"
        ),
    ),
    "command of a queue that is not known": (
        NVMeCommand(opcode=2, psdt=0, fuse=1),
        "02 01" + 37 * "00" + "40" + 24 * "00",
    ),
    "connect": (
        NVMeConnect(cid=1, qid=2, sqsize=127, cattr=4, kato=5000, length=1024, key=9),
        "7f 40 0100 01" + 19 * "00" + "0000000000000000 000400 09000000 40 0000 0200 7f00 04 00 88130000" + 12 * "00",
    ),
    "connect with its data": (
        NVMeConnect() / NVMeConnectData(hostid=b"h" * 16, cntlid=1, subnqn=b"nqn.a", hostnqn=b"nqn.b"),
        "7f 40 0000 01"
        + 19 * "00"
        + 8 * "00"
        + "000400 00000000"
        + "40 0000 0000 1f00 00 00 00000000"
        + 12 * "00"
        + 16 * "68"
        + "0100"
        + 238 * "00"
        + "6e716e2e61"
        + 251 * "00"
        + "6e716e2e62"
        + 507 * "00",
    ),
    "property set": (
        NVMePropertySet(cid=1, ofst=0x14, value=0x460001),
        "7f 40 0100 00" + 19 * "00" + 15 * "00" + "40 00 000000 14000000 0100460000000000 0000000000000000",
    ),
    "property get": (
        NVMePropertyGet(cid=1, attrib=1),
        "7f 40 0100 04" + 19 * "00" + 15 * "00" + "40 01 000000 00000000" + 16 * "00",
    ),
    "disconnect": (NVMeDisconnect(recfmt=1), "7f 40 0000 08" + 19 * "00" + 15 * "00" + "40 0100" + 22 * "00"),
    "another Fabrics command": (
        NVMeFabrics(fctype="Authentication Send", specific=b"x" * 24),
        "7f 40 0000 05" + 19 * "00" + 15 * "00" + "40" + 24 * "78",
    ),
    "response": (
        NVMeResponse(result=1, sqhd=2, sqid=3, cid=4, dnr=1, m=1, crd=2, sct=1, sc=0x82, p=1),
        "0100000000000000 0200 0300 0400 05e3",
    ),
    "SCSI command": (
        ISER(w=1, write_stag=5, write_base_offset=6) / ISCSIHeader(i=1, initiator_task_tag=9) / b"abcd",
        "18000000 00000005 0000000000000006 00000000 0000000000000000"
        "41 80 0000 00 000004 0000000000000000 00000009" + 28 * "00" + "61626364",
    ),
    "SCSI response": (
        ISER() / ISCSIHeader(opcode="SCSI Response", initiator_task_tag=9),
        "10000000" + 24 * "00" + "21 80 0000 00 000000 0000000000000000 00000009" + 28 * "00",
    ),
    "hello": (ISERHello(iser_ird=4), "20 aa 0004" + 24 * "00"),
    "hello reply": (ISERHelloReply(rej=1, iser_ord=4), "31 aa 0004" + 24 * "00"),
}

#: Which messages answer which.
ANSWERS = [
    ("negotiate response", "negotiate request"),
    ("reply", "call without chunks"),
    ("SCSI response", "SCSI command"),
    ("hello reply", "hello"),
]


def send(upper: Packet, msn: int = 1) -> Packet:
    """An FPDU with a Send that carries a message."""
    return FPDU() / DDPUntagged(msn=msn) / RDMAPSend() / upper


def protocol_of(message: Packet) -> str:
    """The protocol of a message."""
    return str(getattr(message, "protocol"))  # noqa: B009, which is of our layers alone


def smb_direct_sends() -> list[tuple[Role, Packet]]:
    """Return senders and packets: the exchanges of MS-SMBD §4: negotiation, 500 octets at once, 64 KiB in fragments."""
    negotiate = {"preferred_send_size": 1024, "max_receive_size": 1024, "max_fragmented_size": 128 * 1024}
    sends: list[tuple[Role, Packet]] = [
        ("initiator", SMBDirectNegotiateRequest(**negotiate)),
        ("responder", SMBDirectNegotiateResponse(**negotiate)),
        ("initiator", SMBDirectDataTransfer() / SMB2),
        ("responder", SMBDirectDataTransfer(credits_granted=2)),
        ("initiator", SMBDirectDataTransfer(credits_granted=0) / bytes(range(250)) / bytes(range(250))),
    ]
    left = 64 * 1024
    while left:
        size = min(left, 1000)
        left -= size
        sends.append(("responder", SMBDirectDataTransfer(remaining_data_length=left) / (bytes([left & 0xFF]) * size)))
    return sends


def smb_direct_connection(port: int = 5445) -> MPAConnection:
    """A connection with these Sends."""
    made = MPAConnection(ports=(None, port), segmentation="aligned")
    for role, message in smb_direct_sends():
        made.send(role, bytes(message))
    return made
