"""What Requests of RDMAP ask for, by the octets of their body: RDMA Read Requests (RFC 5040 §4.4), Atomics."""

from __future__ import annotations

from collections.abc import Set
from struct import Struct

from scapy_mpa.tuples import NamedTuple

READ_REQUEST, ATOMIC_REQUEST = 1, 10

_BODY = Struct(">IQIIQ")
_HOST_BODY = Struct("<IQIIQ")
#: As C lays the fields out in the memory of a host.
_PADDED_BODY = Struct("<I4xQIIQ")
_REQUEST_ID_AT = 4
_WORD = Struct(">I")


class ReadRequest(NamedTuple):
    """What a Read Request says (RFC 5040 §4.4); ``size`` in octets."""

    sink_stag: int
    sink_to: int
    size: int
    source_stag: int
    source_to: int


def names_of_requests(opcodes: Set[int]) -> str:
    """What Requests of these opcodes are called together."""
    if ATOMIC_REQUEST not in opcodes:
        return "RDMA Reads"
    return "RDMA Reads and Atomics" if READ_REQUEST in opcodes else "Atomics"


def read_requests(body: bytes) -> list[ReadRequest]:
    """What the body of a Read Request says: first as RFC 5040 has it, then as senders in host order write it."""
    if len(body) == _PADDED_BODY.size:
        return [ReadRequest(*_PADDED_BODY.unpack(body))]
    if len(body) != _BODY.size:
        return []
    return [ReadRequest(*_BODY.unpack(body)), ReadRequest(*_HOST_BODY.unpack(body))]


def atomic_request_id(body: bytes) -> int | None:
    """The Request ID of an Atomic Request (RFC 7306 §5.2)."""
    return int(_WORD.unpack_from(body, _REQUEST_ID_AT)[0]) if len(body) >= _REQUEST_ID_AT + _WORD.size else None


def original_request_id(body: bytes) -> int | None:
    """The Original Request ID of an Atomic Response (RFC 7306 §5.3)."""
    return int(_WORD.unpack_from(body)[0]) if len(body) >= _WORD.size else None
