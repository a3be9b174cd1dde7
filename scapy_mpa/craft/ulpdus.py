"""ULPDUs as RDMAP's senders make them: one DDP segment each, header and payload (RFC 5041 §4, RFC 5040 §4).

Values in, octets out. ``version`` is that of DDP and of RDMAP, which do not differ: 1 in the RFCs, 0 in the
protocols of the RDMA Consortium and in the drafts (RFC 5044 §C.1).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from scapy_mpa.framing.ddp import TAGGED_HEADER, TAGGED_HEADER_LENGTH, UNTAGGED_HEADER, control_octets
from scapy_mpa.tuples import NamedTuple

_READ_REQUEST = struct.Struct("!IQIIQ")
_ATOMIC_REQUEST = struct.Struct("!IIIQQQQQ")
_ATOMIC_RESPONSE = struct.Struct("!IQ")
_TERMINATE_CONTROL = struct.Struct("!BBH")
_SEGMENT_LENGTH = struct.Struct("!H")
#: M, D and R of a Terminate's control word, in its last two octets (RFC 5040 §4.8).
_M, _D, _R = 0x8000, 0x4000, 0x2000
#: The bits of the first word of an Atomic Request that say which operation it is (RFC 7306 §5.2.1).
_OPERATION = 0x0F

RDMA_WRITE, READ_REQUEST, READ_RESPONSE, SEND, SEND_INVALIDATE, SEND_SE, SEND_SE_INVALIDATE = range(7)
TERMINATE, IMMEDIATE, IMMEDIATE_SE, ATOMIC_REQUEST, ATOMIC_RESPONSE = range(7, 12)

#: The queues of untagged messages (RFC 5040 §4.2, RFC 7306 §4).
SEND_QUEUE, REQUEST_QUEUE, TERMINATE_QUEUE, ATOMIC_RESPONSE_QUEUE = range(4)

#: Atomic operations (RFC 7306 §5.1).
FETCH_ADD, CMP_SWAP = 0, 2


def tagged(opcode: int, stag: int, tagged_offset: int, payload: bytes, *, last: bool = True, version: int = 1) -> bytes:
    """Return one tagged DDP Segment; ``last`` sets L."""
    control = control_octets(opcode, tagged=True, last=last, version=version)
    return TAGGED_HEADER.pack(*control, stag, tagged_offset) + payload


def untagged(
    opcode: int,
    queue: int,
    msn: int,
    payload: bytes,
    *,
    message_offset: int = 0,
    invalidate: int = 0,
    last: bool = True,
    version: int = 1,
) -> bytes:
    """Return one untagged DDP Segment; ``invalidate`` is the STag in the Sends that have one."""
    control = control_octets(opcode, tagged=False, last=last, version=version)
    return UNTAGGED_HEADER.pack(*control, invalidate, queue, msn, message_offset) + payload


def rdma_write(stag: int, tagged_offset: int, payload: bytes, *, last: bool = True) -> bytes:
    """Return one tagged DDP Segment of an RDMA Write message; ``last`` sets L."""
    return tagged(RDMA_WRITE, stag, tagged_offset, payload, last=last)


def send(msn: int, payload: bytes, *, message_offset: int = 0, last: bool = True) -> bytes:
    """Return one untagged DDP Segment of a Send message on queue 0; MSN counts messages from 1."""
    return untagged(SEND, SEND_QUEUE, msn, payload, message_offset=message_offset, last=last)


def rdma_write_message(stag: int, tagged_offset: int, payload: bytes, mulpdu: int) -> Iterator[bytes]:
    """An RDMA Write message in ULPDUs of at most ``mulpdu`` octets, all but the last of them full."""
    room = mulpdu - TAGGED_HEADER_LENGTH
    for start in range(0, max(1, len(payload)), room):
        part = payload[start : start + room]
        yield rdma_write(stag, tagged_offset + start, part, last=start + room >= len(payload))


def read_request_body(sink_stag: int, sink_to: int, size: int, source_stag: int, source_to: int) -> bytes:
    """Return the body of an RDMA Read Request (RFC 5040 §4.4): ``size`` octets from the source to the sink."""
    return _READ_REQUEST.pack(sink_stag, sink_to, size, source_stag, source_to)


def atomic_request_body(
    operation: int, request_id: int, stag: int, to: int, data: int, mask: int, compare: int, compare_mask: int
) -> bytes:
    """Return the body of an Atomic Request (RFC 7306 §5.2); ``data`` is what is added or swapped in."""
    return _ATOMIC_REQUEST.pack(operation, request_id, stag, to, data, mask, compare, compare_mask)


class AtomicRequest(NamedTuple):
    """The body of an Atomic Request (RFC 7306 §5.2.1), as ``atomic_request_body`` writes it."""

    operation: int
    request_id: int
    stag: int
    to: int
    data: int
    mask: int
    compare: int
    compare_mask: int


def read_atomic_request(body: bytes) -> AtomicRequest | None:
    """Return what the body of an Atomic Request says, without its reserved bits; None unless it has 52 octets."""
    if len(body) != _ATOMIC_REQUEST.size:
        return None
    operation, *others = _ATOMIC_REQUEST.unpack(body)
    return AtomicRequest(operation & _OPERATION, *others)


def read_atomic_response(body: bytes) -> tuple[int, int] | None:
    """The Request ID and the value that an Atomic Response says (RFC 7306 §5.2.2); None if it has not 12 octets."""
    if len(body) != _ATOMIC_RESPONSE.size:
        return None
    request_id, value = _ATOMIC_RESPONSE.unpack(body)
    return request_id, value


def atomic_response_body(request_id: int, value: int) -> bytes:
    """Return the body of an Atomic Response (RFC 7306 §5.3): the value that was there."""
    return _ATOMIC_RESPONSE.pack(request_id, value)


def terminate_body(
    layer: int, etype: int, code: int, *, ddp_header: bytes = b"", length: int = 0, rdmap_header: bytes = b""
) -> bytes:
    """Return the body of a Terminate (RFC 5040 §4.8).

    ``ddp_header`` is that of the DDP Segment that it answers, ``length`` the octets of that segment, ``rdmap_header``
    the Read Request in it. M, D and R are set as these are given.
    """
    quotes = (_M | _D if ddp_header else 0) | (_R if rdmap_header else 0)
    control = _TERMINATE_CONTROL.pack(layer << 4 | etype, code, quotes)
    return control + (_SEGMENT_LENGTH.pack(length) if ddp_header else b"") + ddp_header + rdmap_header
