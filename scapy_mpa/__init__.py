"""scapy-mpa: reads, checks, makes and breaks MPA traffic (RFC 5044), the framing of iWARP on TCP.

The names below are loaded when they are first touched, so that ``import scapy_mpa`` costs nothing and Scapy is
only imported by what needs it.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scapy_mpa import offered
from scapy_mpa.version import __version__ as __version__

if TYPE_CHECKING:
    from scapy_mpa.capture.streams import Streams as Streams
    from scapy_mpa.catalogue.malformed import Malformed as Malformed
    from scapy_mpa.craft.setup import ConversationError as ConversationError
    from scapy_mpa.errors import CaptureError as CaptureError
    from scapy_mpa.errors import FramingError as FramingError
    from scapy_mpa.errors import MPAError as MPAError
    from scapy_mpa.framing.mulpdu import mulpdu as mulpdu
    from scapy_mpa.fuzz.run import Fuzzer as Fuzzer
    from scapy_mpa.layers import FPDU as FPDU
    from scapy_mpa.layers import ISER as ISER
    from scapy_mpa.layers import RPCRDMA as RPCRDMA
    from scapy_mpa.layers import DDPTagged as DDPTagged
    from scapy_mpa.layers import DDPUntagged as DDPUntagged
    from scapy_mpa.layers import FPDUs as FPDUs
    from scapy_mpa.layers import ISCSIHeader as ISCSIHeader
    from scapy_mpa.layers import ISERHello as ISERHello
    from scapy_mpa.layers import ISERHelloReply as ISERHelloReply
    from scapy_mpa.layers import ISERPrivateData as ISERPrivateData
    from scapy_mpa.layers import Marker as Marker
    from scapy_mpa.layers import MPA_am as MPA_am
    from scapy_mpa.layers import MPAConnection as MPAConnection
    from scapy_mpa.layers import MPAReply as MPAReply
    from scapy_mpa.layers import MPARequest as MPARequest
    from scapy_mpa.layers import MPASession as MPASession
    from scapy_mpa.layers import MPASocket as MPASocket
    from scapy_mpa.layers import NVMeAdminCommand as NVMeAdminCommand
    from scapy_mpa.layers import NVMeCommand as NVMeCommand
    from scapy_mpa.layers import NVMeConnect as NVMeConnect
    from scapy_mpa.layers import NVMeConnectData as NVMeConnectData
    from scapy_mpa.layers import NVMeDisconnect as NVMeDisconnect
    from scapy_mpa.layers import NVMeFabrics as NVMeFabrics
    from scapy_mpa.layers import NVMeIOCommand as NVMeIOCommand
    from scapy_mpa.layers import NVMePrivateDataReject as NVMePrivateDataReject
    from scapy_mpa.layers import NVMePrivateDataReply as NVMePrivateDataReply
    from scapy_mpa.layers import NVMePrivateDataRequest as NVMePrivateDataRequest
    from scapy_mpa.layers import NVMePropertyGet as NVMePropertyGet
    from scapy_mpa.layers import NVMePropertySet as NVMePropertySet
    from scapy_mpa.layers import NVMeResponse as NVMeResponse
    from scapy_mpa.layers import RDMAPAtomicRequest as RDMAPAtomicRequest
    from scapy_mpa.layers import RDMAPAtomicResponse as RDMAPAtomicResponse
    from scapy_mpa.layers import RDMAPImmediateData as RDMAPImmediateData
    from scapy_mpa.layers import RDMAPMessage as RDMAPMessage
    from scapy_mpa.layers import RDMAPReadRequest as RDMAPReadRequest
    from scapy_mpa.layers import RDMAPReadResponse as RDMAPReadResponse
    from scapy_mpa.layers import RDMAPSend as RDMAPSend
    from scapy_mpa.layers import RDMAPTerminate as RDMAPTerminate
    from scapy_mpa.layers import RDMAPWrite as RDMAPWrite
    from scapy_mpa.layers import RPCRDMAChunk as RPCRDMAChunk
    from scapy_mpa.layers import RPCRDMAPrivateData as RPCRDMAPrivateData
    from scapy_mpa.layers import RPCRDMARead as RPCRDMARead
    from scapy_mpa.layers import RPCRDMASegment as RPCRDMASegment
    from scapy_mpa.layers import SMBDirectDataTransfer as SMBDirectDataTransfer
    from scapy_mpa.layers import SMBDirectDepths as SMBDirectDepths
    from scapy_mpa.layers import SMBDirectDepthsLE as SMBDirectDepthsLE
    from scapy_mpa.layers import SMBDirectNegotiateRequest as SMBDirectNegotiateRequest
    from scapy_mpa.layers import SMBDirectNegotiateResponse as SMBDirectNegotiateResponse
    from scapy_mpa.layers import bind_mpa as bind_mpa
    from scapy_mpa.layers import unbind_mpa as unbind_mpa
    from scapy_mpa.live.endpoint import MPAEndpoint as MPAEndpoint
    from scapy_mpa.live.errors import LocalProtocolError as LocalProtocolError
    from scapy_mpa.live.errors import RemoteProtocolError as RemoteProtocolError
    from scapy_mpa.live.settings import EndpointSettings as EndpointSettings
    from scapy_mpa.messages.reading import iter_messages as iter_messages
    from scapy_mpa.messages.table import to_arrow as to_arrow
    from scapy_mpa.messages.table import to_pandas as to_pandas
    from scapy_mpa.packet.fromfile import packets as packets
    from scapy_mpa.reading.analysis import analyze as analyze
    from scapy_mpa.reading.analysis import iter_fpdus as iter_fpdus
    from scapy_mpa.reading.query import Selection as Selection
    from scapy_mpa.report.model import Report as Report
    from scapy_mpa.values.assumptions import Assumptions as Assumptions
    from scapy_mpa.values.limits import Limits as Limits
    from scapy_mpa.values.records import FPDURecord as FPDURecord
    from scapy_mpa.wireshark.crosscheck import crosscheck as crosscheck
    from scapy_mpa.wireshark.enrich import enrich as enrich

if os.environ.get("SCAPY_MPA_PURE", "0") not in ("", "0"):
    from scapy_mpa.compiled import prefer_source

    prefer_source()

_WHERE = {
    "Assumptions": "scapy_mpa.values.assumptions",
    "CaptureError": "scapy_mpa.errors",
    "ConversationError": "scapy_mpa.craft.setup",
    "FramingError": "scapy_mpa.errors",
    "Fuzzer": "scapy_mpa.fuzz.run",
    "MPAError": "scapy_mpa.errors",
    "Malformed": "scapy_mpa.catalogue.malformed",
    "mulpdu": "scapy_mpa.framing.mulpdu",
    "EndpointSettings": "scapy_mpa.live.settings",
    "LocalProtocolError": "scapy_mpa.live.errors",
    "MPAEndpoint": "scapy_mpa.live.endpoint",
    "RemoteProtocolError": "scapy_mpa.live.errors",
    "FPDURecord": "scapy_mpa.values.records",
    "Limits": "scapy_mpa.values.limits",
    "Streams": "scapy_mpa.capture.streams",
    "Selection": "scapy_mpa.reading.query",
    "analyze": "scapy_mpa.reading.analysis",
    "iter_fpdus": "scapy_mpa.reading.analysis",
    "iter_messages": "scapy_mpa.messages.reading",
    "packets": "scapy_mpa.packet.fromfile",
    "to_arrow": "scapy_mpa.messages.table",
    "to_pandas": "scapy_mpa.messages.table",
    "Report": "scapy_mpa.report.model",
    "crosscheck": "scapy_mpa.wireshark.crosscheck",
    "enrich": "scapy_mpa.wireshark.enrich",
    **dict.fromkeys(
        (
            "FPDU",
            "ISER",
            "ISCSIHeader",
            "ISERHello",
            "ISERHelloReply",
            "NVMeAdminCommand",
            "NVMeCommand",
            "NVMeConnect",
            "NVMeConnectData",
            "NVMeDisconnect",
            "NVMeFabrics",
            "NVMeIOCommand",
            "NVMePropertyGet",
            "NVMePropertySet",
            "NVMeResponse",
            "RPCRDMA",
            "RPCRDMAChunk",
            "RPCRDMARead",
            "RPCRDMASegment",
            "SMBDirectDataTransfer",
            "SMBDirectNegotiateRequest",
            "SMBDirectNegotiateResponse",
            "ISERPrivateData",
            "NVMePrivateDataReject",
            "NVMePrivateDataReply",
            "NVMePrivateDataRequest",
            "RPCRDMAPrivateData",
            "SMBDirectDepths",
            "SMBDirectDepthsLE",
            "DDPTagged",
            "DDPUntagged",
            "FPDUs",
            "MPAConnection",
            "MPA_am",
            "MPAReply",
            "MPARequest",
            "MPASession",
            "MPASocket",
            "Marker",
            "RDMAPAtomicRequest",
            "RDMAPAtomicResponse",
            "RDMAPImmediateData",
            "RDMAPMessage",
            "RDMAPReadRequest",
            "RDMAPReadResponse",
            "RDMAPSend",
            "RDMAPTerminate",
            "RDMAPWrite",
            "bind_mpa",
            "unbind_mpa",
        ),
        "scapy_mpa.layers",
    ),
}

__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'scapy_mpa' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})


def _draw_connection(*arguments: Any) -> Any:
    from scapy_mpa.plot.kinds import draw_connection

    return draw_connection(*arguments)


def _octets_of_layers(text: str) -> bytes:
    from scapy_mpa.packet.written import octets

    return octets(text)


offered.draw_connection = _draw_connection
offered.octets_of_layers = _octets_of_layers


def scapy_ext(ext: Any) -> None:
    """Register with Scapy: conf.exts.load("scapy-mpa") calls this; load_contrib("mpa") then finds the layers.

    Scapy also copies what completes the command in bash to where bash looks for it, if nothing is there.
    """
    from pathlib import Path

    here = Path(__file__).parent
    ext.config("scapy-mpa", __version__)
    ext.register("mpa", ext.MODE.CONTRIB, here / "layers" / "contrib.py")
    ext.register_bashcompletion(here / "cli" / "scapy-mpa.bash")
