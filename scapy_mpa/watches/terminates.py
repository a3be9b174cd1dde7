"""Judges a Terminate on its own: control word, and which headers it quotes (RFC 5040 §4.8, figure 10; RFC 7306 §8.1).

In: the first octets of its ULPDU.  Out: the rules that it breaks, with details.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scapy_mpa.framing.ddp import (
    LAYER_NAMES,
    OPCODE_NAMES,
    TAGGED_HEADER_LENGTH,
    UNTAGGED_HEADER_LENGTH,
    Terminate,
    UntaggedHeader,
    decode_ddp,
    decode_terminate,
    header_length,
    is_defined,
    opcode_of,
    terminate_reserved,
)
from scapy_mpa.values.words import plural

_CONTROL, _SEGMENT_LENGTH, _READ_REQUEST_HEADER = 4, 2, 28
#: Octets of a Terminate that are read: its header, control word, DDP Segment Length, a DDP header, an RDMA header.
TERMINATE_OCTETS: Final = 2 * UNTAGGED_HEADER_LENGTH + _CONTROL + _SEGMENT_LENGTH + _READ_REQUEST_HEADER
_LLP, _REMOTE_PROTECTION = 2, (0, 1)
_READ_REQUEST_OPCODE = 1
#: Immediate Data, Atomic Requests and Responses: their RDMA header is quoted as zeros (RFC 7306 §8.1).
_OF_RFC_7306: Final = frozenset((8, 9, 10, 11))


def broken_rules(ulpdu: bytes, ulpdu_length: int) -> Iterator[tuple[str, str]]:
    """Yield the rules, with details, that a Terminate breaks.

    Args:
        ulpdu: the first TERMINATE_OCTETS of its ULPDU, or as many as were captured.
        ulpdu_length: octets of all of it.
    """
    said, header = decode_terminate(ulpdu, ulpdu_length), decode_ddp(ulpdu)
    if said is None:
        if isinstance(header, UntaggedHeader):
            yield "terminate-layout", f"a body of {plural(header.payload_length, 'octet')} has no control word"
        return
    body, body_length = ulpdu[UNTAGGED_HEADER_LENGTH:], ulpdu_length - UNTAGGED_HEADER_LENGTH
    faults = ["control word laid out from the least significant bit, as siw does"] if said.layout == "siw" else []
    faults += _missing_headers(said, body_length)
    if faults:
        yield "terminate-layout", "; ".join(faults)
    if faults := [*_header_faults(said, body, body_length)]:
        yield "terminate-headers", "; ".join(faults)
    reserved = terminate_reserved(ulpdu, said.layout)
    if reserved:
        yield "terminate-reserved", f"reserved bits {reserved:#06x} of the control word are set"
    if not is_defined(said):
        yield "terminate-code", f"no error is defined for {error_numbers(said)}"


def error_numbers(said: Terminate) -> str:
    """Return the numbers of an error in words."""
    return f"layer {said.layer}, etype {said.etype}, code {said.code:#04x}"


def _headers_start(said: Terminate) -> int:
    """Return the index in a Terminate's payload at which the first header that it quotes begins."""
    return _CONTROL + _SEGMENT_LENGTH * (said.m or said.d)


def _missing_headers(said: Terminate, body_length: int) -> Iterator[str]:
    """Yield that M, D and R announce more than follows the control word, where they do."""
    # A header may be of either kind: it is there if the shorter one has room.
    needed = _headers_start(said) + TAGGED_HEADER_LENGTH * said.d + _READ_REQUEST_HEADER * said.r
    if body_length < needed:
        bits = ", ".join(name for name in "MDR" if getattr(said, name.lower()))
        yield f"{bits} set, with {plural(body_length - _CONTROL, 'octet')} after the control word"


def _header_faults(said: Terminate, body: bytes, body_length: int) -> Iterator[str]:
    """Yield how M, D and R differ from figure 10, in which each is a SHOULD.

    Nothing is said about a Terminate without headers: that its bits SHOULD be set does not have all senders quote.
    ``body`` are the first octets of the Terminate's payload, ``body_length`` is how many there are.
    """
    quoted = body[_CONTROL + _SEGMENT_LENGTH :] if said.d else b""
    opcode = opcode_of(quoted)
    rdma_header = body[_headers_start(said) + header_length(quoted) * said.d :][:_READ_REQUEST_HEADER]
    if said.m != said.d:
        yield "M is set without D" if said.m else "D is set without M"
    if not is_defined(said) or (said.d and opcode is None and len(body) < body_length):
        return  # of a header that the capture cut nothing is known
    kind = said.layer, said.etype
    if said.d and (said.layer == _LLP or not said.etype):
        yield f"a DDP header is quoted in an error of {_name(said)}, which has none"
    if opcode in _OF_RFC_7306:
        if said.r and any(rdma_header):
            yield f"the RDMA header of an {OPCODE_NAMES[opcode]} is quoted, instead of zeros"
    elif said.r and kind != _REMOTE_PROTECTION:
        yield f"an RDMA header is quoted in an error of {_name(said)}, which has none"
    elif not said.r and kind == _REMOTE_PROTECTION and opcode == _READ_REQUEST_OPCODE:
        yield "the RDMA header of the RDMA Read Request is not quoted"


def _name(said: Terminate) -> str:
    return f"{LAYER_NAMES[said.layer]}, type {said.etype}"
