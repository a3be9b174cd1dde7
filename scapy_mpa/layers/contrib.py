# scapy.contrib.description = Marker PDU Aligned framing (MPA, iWARP)
# scapy.contrib.status = loads
"""Marker PDU Aligned framing (MPA, RFC 5044), with DDP and RDMAP: iWARP.

``load_contrib("mpa")`` loads it once ``conf.exts.load("scapy-mpa")`` has registered it as scapy.contrib.mpa. It
defines nothing: whoever comes this way gets the same objects as ``from scapy_mpa import ...``.
"""

from scapy_mpa.layers.answering import MPA_am
from scapy_mpa.layers.binding import FPDUs, bind_mpa, unbind_mpa
from scapy_mpa.layers.connection import MPAConnection
from scapy_mpa.layers.mpasocket import MPASocket
from scapy_mpa.layers.session import MPASession
from scapy_mpa.packet.ddp import DDPTagged, DDPUntagged
from scapy_mpa.packet.fpdu import FPDU, Marker
from scapy_mpa.packet.iser import ISER, ISCSIHeader, ISERHello, ISERHelloReply
from scapy_mpa.packet.message import RDMAPMessage
from scapy_mpa.packet.mpa import fpdu_packet, startup_packet
from scapy_mpa.packet.nvme import (
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
)
from scapy_mpa.packet.privatedata import (
    ISERPrivateData,
    NVMePrivateDataReject,
    NVMePrivateDataReply,
    NVMePrivateDataRequest,
    RPCRDMAPrivateData,
    SMBDirectDepths,
    SMBDirectDepthsLE,
)
from scapy_mpa.packet.rdmap import (
    RDMAPAtomicRequest,
    RDMAPAtomicResponse,
    RDMAPImmediateData,
    RDMAPReadRequest,
    RDMAPReadResponse,
    RDMAPSend,
    RDMAPTerminate,
    RDMAPWrite,
)
from scapy_mpa.packet.rpcrdma import RPCRDMA, RPCRDMAChunk, RPCRDMARead, RPCRDMASegment
from scapy_mpa.packet.smbdirect import SMBDirectDataTransfer, SMBDirectNegotiateRequest, SMBDirectNegotiateResponse
from scapy_mpa.packet.startup import MPAReply, MPARequest

__all__ = [
    "FPDU",
    "ISER",
    "RPCRDMA",
    "DDPTagged",
    "DDPUntagged",
    "FPDUs",
    "ISCSIHeader",
    "ISERHello",
    "ISERHelloReply",
    "ISERPrivateData",
    "MPAConnection",
    "MPAReply",
    "MPARequest",
    "MPASession",
    "MPASocket",
    "MPA_am",
    "Marker",
    "NVMeAdminCommand",
    "NVMeCommand",
    "NVMeConnect",
    "NVMeConnectData",
    "NVMeDisconnect",
    "NVMeFabrics",
    "NVMeIOCommand",
    "NVMePrivateDataReject",
    "NVMePrivateDataReply",
    "NVMePrivateDataRequest",
    "NVMePropertyGet",
    "NVMePropertySet",
    "NVMeResponse",
    "RDMAPAtomicRequest",
    "RDMAPAtomicResponse",
    "RDMAPImmediateData",
    "RDMAPMessage",
    "RDMAPReadRequest",
    "RDMAPReadResponse",
    "RDMAPSend",
    "RDMAPTerminate",
    "RDMAPWrite",
    "RPCRDMAChunk",
    "RPCRDMAPrivateData",
    "RPCRDMARead",
    "RPCRDMASegment",
    "SMBDirectDataTransfer",
    "SMBDirectDepths",
    "SMBDirectDepthsLE",
    "SMBDirectNegotiateRequest",
    "SMBDirectNegotiateResponse",
    "bind_mpa",
    "fpdu_packet",
    "startup_packet",
    "unbind_mpa",
]
