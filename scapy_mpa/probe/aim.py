"""Has what a case says of tagged buffers name memory that the peer has, so that it reaches placement (RFC 5041 §5)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from scapy_mpa.catalogue.baseline import MIDDLE, OPENING
from scapy_mpa.catalogue.named import ASKED, FAR, GO_ON, NAMED, NAMES, UNKNOWN_STAG
from scapy_mpa.craft.changes.boundary import naming
from scapy_mpa.craft.exchange import Exchange, Step
from scapy_mpa.craft.messages import RAW
from scapy_mpa.craft.turns import Say
from scapy_mpa.craft.ulpdus import (
    ATOMIC_REQUEST,
    READ_REQUEST,
    READ_RESPONSE,
    SEND,
    SEND_INVALIDATE,
    atomic_request_body,
    read_atomic_request,
    read_request_body,
    tagged,
)
from scapy_mpa.framing.ddp import (
    SEND_OPCODES,
    TAGGED_HEADER,
    UNTAGGED_HEADER_LENGTH,
    TaggedHeader,
    UntaggedHeader,
    decode_ddp,
    opcode_of,
)
from scapy_mpa.framing.requests import read_requests
from scapy_mpa.probe.fitting import Unsupported
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.tools import rping_header, rping_message

_NUMBERED = re.compile(r"(?P<by>\{by\}|initiator|responder) (?P<verb>write|send) (?P<octets>\d+)")
_SIZE = re.compile(r"\{by\} read-request (?P<octets>\d+)")
#: A TO below this counts from the beginning of a buffer; above it, what it is about is the number itself.
_SMALL = 1 << 32
_RDMA_WRITE = 0
#: What stands for that memory in a step that reads it.
SOURCE = "source=0x4c495645,0"
_USUAL = MIDDLE[1]
#: First messages of an Initiator whose place rping's may take.
_OPENINGS = (OPENING[0], f"initiator {GO_ON}")
_LIMIT, _WORD = 1 << 64, 8
#: Where an untagged header has RsvdULP (RFC 5041 §4.3).
_RSVDULP = 2
#: What we name to rping's server: an STag, a Tagged Offset, octets.
_OUR_BUFFER = 0x5EED0100, 0x1000, 64
_INSTEAD = "{by} send 96"


class Live(NamedTuple):
    """Memory of the peer that may be written to: octets from a Tagged Offset on.

    ``is_sink``: an RDMA Read of the peer is to write there, and there may be more after it.  ``is_kept``: it is there
    on the next connection too, so that it must not be invalidated.
    """

    stag: int
    to: int
    octets: int
    is_sink: bool = False
    is_kept: bool = True


def aim(plan: Exchange, live: Live | None, *, sends: bool = True) -> None:
    """Have RDMA Writes of the side go to this memory, and without ``sends`` its Sends of some octets too.

    Without any, that with which the valid connections end is a Send as long as it is.  What the case says beside, or
    with, memory that its peer has named is said beside, or with, this; raises Unsupported where that cannot be.
    """
    if live is not None:
        is_asked = any(isinstance(step, tuple) and _opcode(step[1]) == READ_REQUEST for step in plan.steps)
        plan.steps = [_aimed(step, live, sends, is_asked=is_asked) for step in plan.steps]
    else:
        if needs_memory(plan):
            raise Unsupported("the peer has no known readable memory")
        plan.steps = [_INSTEAD if step == _USUAL else step for step in plan.steps]


def _aimed(step: Step, live: Live, sends: bool, *, is_asked: bool) -> Step:
    if isinstance(step, str) and SOURCE in step:
        return step.replace(SOURCE, f"source={live.stag},{live.to}")
    if isinstance(step, str):
        found = _NUMBERED.fullmatch(step)
        if found is None or (found["verb"] == "send" and sends) or found["by"] == "responder":
            return step
        return f"{found['by']} write {min(int(found['octets']), live.octets)} stag={live.stag} to={live.to}"
    if isinstance(step, (tuple, Say)):
        return step
    if is_named(step):
        return moved(step, live)
    if _stag_of(step) == UNKNOWN_STAG:
        return step
    header = decode_ddp(step)
    if isinstance(header, TaggedHeader) and header.opcode == READ_RESPONSE and live.is_sink and is_asked:
        return _answered(header, live)
    if not isinstance(header, TaggedHeader) or header.opcode != _RDMA_WRITE or not header.payload_length:
        return step
    to = header.to + live.to if header.to < _SMALL else header.to
    return TAGGED_HEADER.pack(step[0], step[1], live.stag, to & (1 << 64) - 1) + step[TAGGED_HEADER.size :]


def _answered(header: TaggedHeader, live: Live) -> bytes:
    """A Read Response that is to the peer's RDMA Read as the case's is to the one of the catalogue."""
    stag = live.stag if header.stag == ASKED.sink_stag else header.stag
    size = max(0, live.octets + header.payload_length - ASKED.size) if header.payload_length else 0
    return tagged(READ_RESPONSE, stag, live.to + header.to - ASKED.sink_to & _LIMIT - 1, bytes(size))


def is_named(step: Step) -> bool:
    """Return True if a ULPDU names memory that the peer has named before."""
    return _stag_of(step) == NAMED.stag


def needs_memory(plan: Exchange) -> bool:
    """Return True if the case is about memory that the peer names, which an Atomic Operation alone is not."""
    return any(
        SOURCE in step if isinstance(step, str) else is_named(step) and _opcode(step) != ATOMIC_REQUEST
        for step in plan.steps
    )


def _opcode(step: Step) -> int | None:
    header = decode_ddp(step) if isinstance(step, bytes) else None
    return header.opcode if header is not None else None


def _stag_of(step: Step) -> int | None:
    """The STag of the peer that a ULPDU names, None for none."""
    header = decode_ddp(step) if isinstance(step, bytes) else None
    if isinstance(header, TaggedHeader):
        return header.stag
    if header is None or not isinstance(step, bytes):
        return None
    body = step[UNTAGGED_HEADER_LENGTH:]
    if header.opcode == READ_REQUEST and (reads := read_requests(body)):
        return reads[0].source_stag
    if header.opcode == ATOMIC_REQUEST and (atomic := read_atomic_request(body)) is not None:
        return atomic.stag
    return header.rsvdulp if header.opcode == SEND_INVALIDATE else None


def moved(step: bytes, live: Live) -> bytes:
    """A ULPDU that names the catalogue's memory, laid beside or with this; raises Unsupported if that cannot be."""
    header = decode_ddp(step)
    if isinstance(header, TaggedHeader):
        to = _place(header.to, header.payload_length, live)
        return TAGGED_HEADER.pack(step[0], step[1], live.stag, to) + step[TAGGED_HEADER.size :]
    assert header is not None
    head, body = step[:UNTAGGED_HEADER_LENGTH], step[UNTAGGED_HEADER_LENGTH:]
    if header.opcode == READ_REQUEST:
        read = read_requests(body)[0]
        to = _place(read.source_to, read.size, live)
        return head + read_request_body(*read[:3], live.stag, to)
    if header.opcode == ATOMIC_REQUEST:
        atomic = read_atomic_request(body)
        assert atomic is not None
        aligned = live._replace(to=live.to + -live.to % _WORD, octets=live.octets - (-live.to % _WORD))
        return head + atomic_request_body(*atomic[:2], live.stag, _place(atomic.to, _WORD, aligned), *atomic[4:])
    if live.is_kept:
        raise Unsupported("the memory of the peer is needed after the case, and must not be invalidated")
    return step[:_RSVDULP] + live.stag.to_bytes(4, "big") + step[_RSVDULP + 4 :]


def _place(to: int, length: int, live: Live) -> int:
    """The TO that is to this memory as ``to`` is to the catalogue's."""
    first, end = to - NAMED.to, to - NAMED.to + length
    if to + length > _LIMIT:
        return to
    if end > NAMED.length:
        if live.is_sink and end - NAMED.length < FAR:
            raise Unsupported("the end of the peer's memory is unknown")
        at = live.to + live.octets + end - NAMED.length - length
    else:
        at = live.to + first
        if first >= 0 and first + length > live.octets:
            raise Unsupported(f"{first + length} octets of memory of the peer are needed, not {live.octets}")
    if not 0 <= at <= _LIMIT - length:
        raise Unsupported("there are no Tagged Offsets beyond the memory of the peer")
    return at


def names_memory(plan: Exchange) -> bool:
    """Return True if the side names memory of its own, that of the catalogue, to the peer."""
    return any(step in (f"{plan.by} {NAMES}", f"{{by}} {NAMES}") for step in plan.steps)


def name_our_buffer(plan: Exchange) -> bool:
    """Have the opening of an Initiator be the message by which rping's client names its source; whether it could be.

    rping's server reads that, and its Read Request names memory of its own, of the same size: as much as is read.
    """
    asked = [_SIZE.match(step) for step in plan.steps if isinstance(step, str) and SOURCE in step]
    at = next((at for at, step in enumerate(plan.steps) if step in _OPENINGS or _is_first_send(step)), None)
    if plan.by != "initiator" or plan.fpdus.get((plan.by, 1)) or (at is None and not asked):
        return False
    stag, to, octets = _OUR_BUFFER
    octets = max(octets, *(int(found["octets"]) for found in asked if found), 0)
    # What only reads begins with it.
    at, after = (0, 0) if at is None else (at, at + 1)
    plan.steps[at:after] = [f"initiator send hex:{rping_message(stag, to, octets).hex()}"]
    return True


def name_their_buffer(plan: Exchange, live: Live | None) -> None:
    """Have what a side says again of a capture, or in a change, name this memory of its peer, where that is known.

    Whether it is known or not, RDMA Writes are as long as rping's buffer at most, and Sends are RDMA Writes: rping does
    not know them.
    """
    plan.memory = (live.stag, live.to) if live is not None else None
    for at, step in enumerate(plan.steps):
        if isinstance(step, Say) and step.role == plan.by and step.message.opcode == RAW:
            ulpdu = step.message.payload[:]
            header = decode_ddp(ulpdu)
            if isinstance(header, UntaggedHeader) and header.opcode == SEND:
                ulpdu = tagged(_RDMA_WRITE, 0, header.mo, ulpdu[UNTAGGED_HEADER_LENGTH:])
            if opcode_of(ulpdu) == _RDMA_WRITE:
                ulpdu = ulpdu[: TAGGED_HEADER.size + _OUR_BUFFER[2]]
            if plan.memory is not None:
                ulpdu = naming(ulpdu, *plan.memory)
            plan.steps[at] = Say(step.role, step.message._replace(payload=ulpdu))


def _is_first_send(step: Step) -> bool:
    """Return True for the first Send of an Initiator, as a capture has it."""
    if not isinstance(step, Say) or step.role != "initiator":
        return False
    header = decode_ddp(step.message.payload[:])
    return isinstance(header, UntaggedHeader) and (header.opcode, header.msn, header.mo) == (SEND, 1, 0)


def learned(ulpdus: Iterable[bytes]) -> Live | None:
    """The memory that an rping peer names: the server where its RDMA Read goes to, the client in its Send."""
    for ulpdu in ulpdus:
        header = decode_ddp(ulpdu)
        if not isinstance(header, UntaggedHeader):
            continue
        payload = ulpdu[UNTAGGED_HEADER_LENGTH:]
        if header.opcode == READ_REQUEST and (requests := read_requests(payload)):
            sink = requests[0]
            return Live(sink.sink_stag, sink.sink_to, sink.size, is_sink=True, is_kept=False)
        if header.opcode in SEND_OPCODES and (found := rping_header(payload, len(payload))) is not None and found.named:
            (named,) = found.named
            return Live(named.stag, named.to, named.length, is_kept=False)
    return None
