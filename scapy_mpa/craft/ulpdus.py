"""ULPDUs as RDMAP's senders make them: one DDP segment each, header and payload (RFC 5041 §4, RFC 5040 §4).

Values in, octets out. DDP version 1 and RDMAP version 1, those of the RFCs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ..framing.ddp import TAGGED_HEADER_LENGTH

_TAGGED = struct.Struct("!BBIQ")
_UNTAGGED = struct.Struct("!BBIIII")

_DDP_TAGGED, _DDP_LAST, _DDP_VERSION = 0x80, 0x40, 0x01
_RDMAP_VERSION = 0x40
_RDMA_WRITE, _SEND = 0x0, 0x3


def rdma_write(stag: int, tagged_offset: int, payload: bytes, *, last: bool = True) -> bytes:
    """One tagged DDP segment of an RDMA Write message; `last` sets L."""
    control = _DDP_TAGGED | _DDP_VERSION | (_DDP_LAST if last else 0)
    return _TAGGED.pack(control, _RDMAP_VERSION | _RDMA_WRITE, stag, tagged_offset) + payload


def send(msn: int, payload: bytes, *, message_offset: int = 0, last: bool = True) -> bytes:
    """One untagged DDP segment of a Send message on queue 0; MSN counts messages from 1."""
    control = _DDP_VERSION | (_DDP_LAST if last else 0)
    return _UNTAGGED.pack(control, _RDMAP_VERSION | _SEND, 0, 0, msn, message_offset) + payload


def rdma_write_message(stag: int, tagged_offset: int, payload: bytes, mulpdu: int) -> Iterator[bytes]:
    """An RDMA Write message in ULPDUs of at most `mulpdu` octets, all but the last of them full."""
    room = mulpdu - TAGGED_HEADER_LENGTH
    for start in range(0, max(1, len(payload)), room):
        part = payload[start : start + room]
        yield rdma_write(stag, tagged_offset + start, part, last=start + room >= len(payload))
