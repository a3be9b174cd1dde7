"""MPA, DDP and RDMAP as Scapy layers, their binding to TCP, and a socket.

Importing this imports Scapy. It changes nothing in Scapy for other protocols: TCP payloads that begin with the
Key of a startup frame are dissected as such, and that is all (see ``binding``).
"""

from __future__ import annotations

from scapy_mpa.layers.answering import MPA_am
from scapy_mpa.layers.binding import FPDUs, bind_mpa, unbind_mpa
from scapy_mpa.layers.connection import MPAConnection
from scapy_mpa.layers.ddp import DDPTagged, DDPUntagged
from scapy_mpa.layers.fpdu import FPDU, Marker
from scapy_mpa.layers.listing import list_layers
from scapy_mpa.layers.mpa import fpdu_packet, startup_packet
from scapy_mpa.layers.mpasocket import MPASocket
from scapy_mpa.layers.privatedata import (
    ISERPrivateData,
    NVMePrivateDataReject,
    NVMePrivateDataReply,
    NVMePrivateDataRequest,
    RPCRDMAPrivateData,
    SMBDirectDepths,
    SMBDirectDepthsLE,
)
from scapy_mpa.layers.rdmap import (
    RDMAPAtomicRequest,
    RDMAPAtomicResponse,
    RDMAPImmediateData,
    RDMAPReadRequest,
    RDMAPReadResponse,
    RDMAPSend,
    RDMAPTerminate,
    RDMAPWrite,
)
from scapy_mpa.layers.session import MPASession
from scapy_mpa.layers.startup import MPAReply, MPARequest

__all__ = [
    "FPDU",
    "DDPTagged",
    "DDPUntagged",
    "FPDUs",
    "ISERPrivateData",
    "MPAConnection",
    "MPAReply",
    "MPARequest",
    "MPASession",
    "MPASocket",
    "MPA_am",
    "Marker",
    "NVMePrivateDataReject",
    "NVMePrivateDataReply",
    "NVMePrivateDataRequest",
    "RDMAPAtomicRequest",
    "RDMAPAtomicResponse",
    "RDMAPImmediateData",
    "RDMAPReadRequest",
    "RDMAPReadResponse",
    "RDMAPSend",
    "RDMAPTerminate",
    "RDMAPWrite",
    "RPCRDMAPrivateData",
    "SMBDirectDepths",
    "SMBDirectDepthsLE",
    "bind_mpa",
    "fpdu_packet",
    "startup_packet",
    "unbind_mpa",
]

list_layers()
