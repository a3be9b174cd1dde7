"""How many octets of an upper layer's header stay readable with ``--keep headers``.

Headers say what was asked for, of which memory; they hold no data of a user, but block addresses (NVMe, iSCSI) and file
handles (SMB2) do. What stands after them, such as the arguments of an NFS operation, is replaced.
"""

from __future__ import annotations

from typing import Final

from scapy_mpa.framing.ddp import UNTAGGED_HEADER_LENGTH
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.report.connection import Connection
from scapy_mpa.ulp.rpcrdma import transport_header

#: Octets of an RPC call up to the procedure; a reply has fewer (RFC 5531 §9).
_RPC: Final = 24
#: Octets that are examined of a Send: more than the chunk lists of any RPC that was captured.
_NVME_COMMAND, _NVME_RESPONSE = 64, 16
#: SMB Direct's header with its padding, and SMB2's (MS-SMBD §2.2, MS-SMB2 §2.2.1); negotiation has less.
_SMB: Final = 24 + 64
#: iSER's header and iSCSI's basic header segment (RFC 7145 §9.2, RFC 7143 §11.2).
_ISER: Final = 28 + 48
#: The buffer that rping and perftest name.
_BUFFER: Final = 32
#: Those whose Sends name buffers and nothing else.
_NAMES_BUFFERS: Final = ("rping", "perftest")
#: Findings that rest on what named the memory.
MEMORY_RULES: Final = frozenset(("memory-bounds", "memory-life", "placement-overlap"))
#: The longest Private Data of an upper layer that hold no names: NVMe-oF's (NVMe-oF 1.1 §7.3.6.4).
_PRIVATE_DATA: Final = 32


def kept_private_data(startup: StartupFrame) -> int:
    """Return how many octets of the upper layer's Private Data are left readable."""
    return min(len(startup.ulp_data), _PRIVATE_DATA)


def kept_protocol(connection: Connection, *, keeps_headers: bool) -> str | None:
    """Return the upper layer whose headers are left readable on a connection, None if none are.

    Without being asked for, that are buffers that rping and perftest name, where a finding rests on them: DDP's headers
    tell the STag and TO anyway.
    """
    protocol = connection.upper_layer.protocol
    is_needed = protocol in _NAMES_BUFFERS and any(found.rule.id in MEMORY_RULES for found in connection.findings)
    return protocol if keeps_headers or is_needed else None


def kept_upper_header(protocol: str, ulpdu: bytes, length: int, *, is_from_initiator: bool) -> int:
    """Return how many octets after the DDP header of an untagged segment are the header of an upper layer.

    ``length`` is that of the ULPDU, some of which a snapshot length may have cut.
    """
    mo = int.from_bytes(ulpdu[14:UNTAGGED_HEADER_LENGTH], "big")
    queue = int.from_bytes(ulpdu[6:10], "big")
    if mo or queue:
        return 0
    if protocol == "RPC-over-RDMA":
        found = transport_header(ulpdu[UNTAGGED_HEADER_LENGTH:], length - UNTAGGED_HEADER_LENGTH)
        return 0 if found is None else found.end + _RPC
    if protocol == "NVMe-oF":
        return _NVME_COMMAND if is_from_initiator else _NVME_RESPONSE
    return {"SMB Direct": _SMB, "iSER": _ISER}.get(protocol, _BUFFER if protocol in _NAMES_BUFFERS else 0)
