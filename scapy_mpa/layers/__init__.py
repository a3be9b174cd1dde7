"""MPA, DDP and RDMAP as Scapy layers, their binding to TCP, and a socket.

Importing this imports Scapy. It changes nothing in Scapy for other protocols: TCP payloads that begin with the
Key of a startup frame are dissected as such, and that is all (see `binding`).
"""

from __future__ import annotations

from .binding import FPDUs, bind_mpa, unbind_mpa
from .connection import MPAConnection
from .ddp import DDPTagged, DDPUntagged
from .fpdu import FPDU, Marker
from .mpa import fpdu_packet, startup_packet
from .mpasocket import MPASocket
from .rdmap import (
    RDMAPAtomicRequest,
    RDMAPAtomicResponse,
    RDMAPImmediateData,
    RDMAPReadRequest,
    RDMAPReadResponse,
    RDMAPSend,
    RDMAPTerminate,
    RDMAPWrite,
)
from .session import MPASession
from .startup import MPAReply, MPARequest

__all__ = [
    "FPDU",
    "DDPTagged",
    "DDPUntagged",
    "FPDUs",
    "MPAConnection",
    "MPAReply",
    "MPARequest",
    "MPASession",
    "MPASocket",
    "Marker",
    "RDMAPAtomicRequest",
    "RDMAPAtomicResponse",
    "RDMAPImmediateData",
    "RDMAPReadRequest",
    "RDMAPReadResponse",
    "RDMAPSend",
    "RDMAPTerminate",
    "RDMAPWrite",
    "bind_mpa",
    "fpdu_packet",
    "startup_packet",
    "unbind_mpa",
]
