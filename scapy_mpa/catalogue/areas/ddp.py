"""DDP Segments and RDMAP messages, and Requests with their answers (RFC 5040, RFC 5041, RFC 7306)."""

from __future__ import annotations

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.named import ASKED, FAR, GO_ON, NAMED, NAMES, PORTS, UNKNOWN_STAG
from scapy_mpa.catalogue.peer import (
    ACCEPT,
    BAD_BOUNDS,
    BAD_MO,
    BAD_MSN,
    BAD_OPCODE,
    BAD_QUEUE,
    BAD_RDMAP_VERSION,
    BAD_SOURCE,
    BAD_SOURCE_TO,
    BAD_STAG,
    BAD_TAGGED_VERSION,
    BAD_TO,
    BAD_UNTAGGED_VERSION,
    BAD_WRITE_STAG,
    ENDED_STAG,
    IGNORE,
    MSN_MISSING,
    NO_SUCH_OPERATION,
    NO_SUCH_READ,
    READ_AND_MORE,
    STRAY_TERMINATE,
    UNASKED,
    Peer,
    peer,
)
from scapy_mpa.craft.changes.said import answers, ends, says
from scapy_mpa.craft.changes.startup import setup
from scapy_mpa.craft.exchange import Step
from scapy_mpa.craft.impairments import impaired
from scapy_mpa.craft.ulpdus import (
    ATOMIC_REQUEST,
    ATOMIC_RESPONSE,
    FETCH_ADD,
    IMMEDIATE,
    IMMEDIATE_SE,
    READ_REQUEST,
    READ_RESPONSE,
    SEND,
    SEND_INVALIDATE,
    SEND_SE,
    SEND_SE_INVALIDATE,
    TERMINATE,
    atomic_request_body,
    atomic_response_body,
    rdma_write,
    read_request_body,
    send,
    tagged,
    terminate_body,
    untagged,
)
from scapy_mpa.framing.role import Role, peer_of

_FIRST, _SAID = "initiator send 30", "responder send 30"
_PLACES = peer("accept", "It places the octets where the segment says; a message without L is never delivered.")
#: §7.1 compares MO with the offsets of the buffer alone: no check finds the octets that were left out.
_PLACES_APART = peer(
    "accept",
    "It places the octets where MO says, as long as they lie in the buffer; octets in between are not written.",
)
_PLACES_TWICE = peer("accept", "It places the octets where MO says: no check detects the error.")
_SHORT = peer("accept", "It must not act on it: no clause says what happens to a segment shorter than its header.")
_BODY = read_request_body(*ASKED)
#: RFC 5041 §4.3 lets a receiver take RsvdULP, which holds opcode and Invalidate STag, from any segment of a message.
_ANY_FIELD = peer(
    "accept", "It takes the opcode and Invalidate STag from any one of the segments, and need not compare them."
)
#: RFC 5040 §5.2.2: the Data Sink MAY validate STag, TO and length.
_NEED_NOT_COMPARE = peer(
    "accept", "It need not compare the Response with its Request; octets outside its own buffers are not placed."
)
_ANY_PLACE = peer(
    "accept", "It takes it for the answer, and checks neither STag nor TO; without a Request, it is not an answer."
)
_LEFT_WAITING = peer("accept", "It waits for the Response until its ULP gives up.")
#: What the peer asks for, where the case is about the answer.
_READ: Step = ("responder", untagged(READ_REQUEST, 1, 1, _BODY))
_SECOND_READ: Step = ("responder", untagged(READ_REQUEST, 1, 2, read_request_body(3, 0, 60, 2, 8192)))
_ATOMIC: Step = ("responder", untagged(ATOMIC_REQUEST, 1, 1, atomic_request_body(FETCH_ADD, 7, 2, 8192, 1, 0, 0, 0)))


def _response(stag: int = ASKED.sink_stag, to: int = ASKED.sink_to, size: int = ASKED.size) -> bytes:
    """A Read Response of one segment."""
    return tagged(READ_RESPONSE, stag, to, bytes(size))


def _atomic_response(request_id: int, msn: int = 1) -> bytes:
    return untagged(ATOMIC_RESPONSE, 3, msn, atomic_response_body(request_id, 0))


def _atomic_request(operation: int, to: int) -> bytes:
    return untagged(ATOMIC_REQUEST, 1, 1, atomic_request_body(operation, 7, NAMED.stag, to, 1, 0, 0, 0))


def _bits(ulpdu: bytes, first: int = 0, second: int = 0) -> bytes:
    """Return the ULPDU with these bits of the two control octets flipped."""
    return bytes((ulpdu[0] ^ first, ulpdu[1] ^ second)) + ulpdu[2:]


#: The endpoint's rule that a conforming peer's reaction belongs to.
_TESTED: dict[Peer, str] = {
    BAD_TO: "receiver-ddp-tagged",
    BAD_TAGGED_VERSION: "receiver-ddp-tagged",
    **dict.fromkeys((BAD_BOUNDS, BAD_WRITE_STAG), "receiver-ddp-tagged"),
    **dict.fromkeys((BAD_UNTAGGED_VERSION, BAD_QUEUE, BAD_MSN, BAD_MO), "receiver-ddp-untagged"),
    **dict.fromkeys((BAD_OPCODE, BAD_RDMAP_VERSION, BAD_STAG, BAD_SOURCE, BAD_SOURCE_TO), "receiver-rdmap"),
    MSN_MISSING: "receiver-delivery",
    IGNORE: "receiver-ddp-reserved",
}


def _case(
    name: str,
    purpose: str,
    raises: tuple[str, ...],
    take: Peer,
    *said: Step,
    clause: str = "",
    tests: str = "",
    by: Role = "initiator",
    breaks: tuple[str, ...] = (),
    is_named: bool = False,
    closes: bool = False,
) -> Case:
    """A case of a side that says this, and ``closes`` then; with ``is_named`` its peer has named memory before."""
    more = ("terminate@peer",) if take.reaction == "terminate" else ()
    tested = tuple(filter(None, (tests or _TESTED.get(take, ""),)))
    first, answer = (GO_ON, NAMES) if by == "initiator" else (NAMES, GO_ON)
    opening = (f"initiator {first}", f"responder {answer}") if is_named else (_FIRST, _SAID)
    changes = (*((setup(ports=PORTS),) if is_named else ()), says(*opening, *said), *((ends("fin"),) if closes else ()))
    return Case(
        name, purpose, "plain", changes, (*raises, *more), take, by=by, clause=clause, tests=tested, breaks=breaks
    )


def _both(
    name: str,
    purpose: str,
    raises: tuple[str, ...],
    take: Peer,
    *said: Step,
    clause: str = "",
    tests: str = "",
    breaks: tuple[str, ...] = (),
    is_named: bool = False,
    closes: bool = False,
) -> tuple[Case, Case]:
    """The case of an Initiator, and the same of a Responder: what the peer says in it is said by the other then."""
    turned = [(peer_of(step[0]), step[1]) if isinstance(step, tuple) else step for step in said]
    return (
        _case(name, purpose, raises, take, *said, clause=clause, tests=tests, breaks=breaks, is_named=is_named,
              closes=closes),
        _case(
            f"{name}-of-the-responder", f"{purpose}, from the Responder", raises, take, *turned, clause=clause,
            tests=tests, by="responder", breaks=breaks, is_named=is_named, closes=closes,
        ),
    )  # fmt: skip


def _host_order(body: bytes) -> bytes:
    """The five integers of a Read Request, each with its octets reversed."""
    sizes, at, parts = (4, 8, 4, 4, 8), 0, []
    for size in sizes:
        parts.append(body[at : at + size][::-1])
        at += size
    return b"".join(parts)


_HEADERS = (
    _case("ddp-untagged-short", "An untagged DDP Segment two octets short of its header", ("ddp-header",), _SHORT,
          send(2, b"")[:16], clause="RFC 5041 §4.4"),
    _case("ddp-tagged-short", "A tagged DDP Segment three octets short of its header", ("ddp-header",), _SHORT,
          rdma_write(1, 0, b"")[:11], clause="RFC 5041 §4.3"),
    _case("ddp-version-0", "A Send of DDP and RDMAP version 0 among those of version 1", ("ddp-version",),
          BAD_UNTAGGED_VERSION, untagged(SEND, 0, 2, bytes(20), version=0)),
    _case("ddp-version-2", "A Send of DDP version 2", ("ddp-version",), BAD_UNTAGGED_VERSION,
          _bits(send(2, bytes(20)), 3)),
    _case("ddp-version-0-tagged", "An RDMA Write with DDP version 0 and RDMAP version 1", ("ddp-version",),
          BAD_TAGGED_VERSION, _bits(rdma_write(1, 0, bytes(20)), 1)),
    _case("rdmap-version-0", "A Send with RDMAP version 0 and DDP version 1", ("ddp-version",), BAD_RDMAP_VERSION,
          _bits(send(2, bytes(20)), 0, 0x40)),
    _case("rdmap-version-3", "A Send of RDMAP version 3", ("ddp-version",), BAD_RDMAP_VERSION,
          _bits(send(2, bytes(20)), 0, 0x80)),
    *(
        _case(f"opcode-{opcode}", f"Opcode {opcode}, which no RFC defines", ("ddp-opcode",), BAD_OPCODE,
              untagged(opcode, 0, 2, bytes(20)), clause="RFC 5040 §4.1")
        for opcode in (12, 15)
    ),
    _case("opcode-send-tagged", "A Send in a tagged DDP Segment", ("ddp-opcode",), BAD_OPCODE,
          tagged(SEND, 1, 0, bytes(20)), clause="RFC 5040 §4.1"),
    _case("opcode-write-untagged", "An RDMA Write in an untagged DDP Segment", ("ddp-opcode",), BAD_OPCODE,
          untagged(0, 0, 2, bytes(20)), clause="RFC 5040 §4.1"),
    _case("ddp-reserved-bits", "All reserved bits of the DDP control octet are set", ("ddp-reserved",), IGNORE,
          _bits(send(2, bytes(20)), 0x3C)),
    _case("ddp-reserved-bit-tagged", "A reserved bit in an RDMA Write", ("ddp-reserved",), IGNORE,
          _bits(rdma_write(1, 0, bytes(20)), 4)),
    _case("send-with-invalidate-stag", "The Invalidate STag of a Send without Invalidate is not zero",
          ("ddp-reserved",), IGNORE, send(2, bytes(20))[:2] + b"\0\0\x12\x34" + send(2, bytes(20))[6:],
          clause="RFC 5040 §4.1"),
    _case("rdmap-reserved-bits", "Both reserved bits of the RDMAP control octet are set", ("ddp-reserved",), IGNORE,
          _bits(send(2, bytes(20)), 0, 0x30), clause="RFC 5040 §4.1"),
)  # fmt: skip

_QUEUES = (
    _case("queue-send-1", "A Send on queue 1", ("ddp-queue",), BAD_OPCODE, untagged(SEND, 1, 1, bytes(20))),
    _case("queue-read-request-0", "An RDMA Read Request on queue 0", ("ddp-queue",), BAD_OPCODE,
          untagged(READ_REQUEST, 0, 2, _BODY)),
    _case("queue-terminate-0", "A Terminate on queue 0", ("ddp-queue", "terminate"), STRAY_TERMINATE,
          untagged(TERMINATE, 0, 2, terminate_body(0, 2, 6)), clause="RFC 5040 §5.4"),
    _case("queue-4294967295", "A Send on the queue with the highest number", ("ddp-queue",), BAD_QUEUE,
          untagged(SEND, 0xFFFFFFFF, 1, bytes(20))),
    *_both("msn-left-out", "MSN 3 after MSN 1", ("ddp-msn",), MSN_MISSING, send(3, bytes(20)), clause="RFC 5041 §4.4"),
    *_both("msn-twice", "MSN 2 twice", ("ddp-msn",), BAD_MSN, send(2, bytes(20)), send(2, bytes(20))),
    *_both("msn-0", "MSN 0, where messages are counted from 1", ("ddp-msn",), BAD_MSN, send(0, bytes(20))),
    _case("msn-of-another-queue", "An RDMA Read Request with the MSN of the Sends", ("ddp-msn",), MSN_MISSING,
          untagged(READ_REQUEST, 1, 2, read_request_body(0, 0, 0, 0, 0))),
)  # fmt: skip

_MESSAGES = (
    _case("mo-too-large", "The second segment of a Send has an MO one too large", ("ddp-mo",), _PLACES_APART,
          send(2, bytes(200), last=False), send(2, b"rest", message_offset=201)),
    _case("mo-too-small", "The second segment of a Send has an MO one too small: an octet is written twice",
          ("ddp-mo",), _PLACES_TWICE, send(2, bytes(200), last=False), send(2, b"rest", message_offset=199)),
    _case("mo-not-0", "The only segment of a Send has MO 7", ("ddp-mo",), _PLACES_APART,
          send(2, b"x", message_offset=7)),
    *_both("mo-in-host-order", "The second segment of a Send has its MO in little-endian byte order",
          ("ddp-mo",), BAD_MO, send(2, bytes(200), last=False), send(2, b"rest", message_offset=200 << 24)),
    *_both("mo-passes-2-32", "The only segment of a Send ends one octet beyond the longest message", ("ddp-mo",),
           BAD_MO, send(2, bytes(20), message_offset=(1 << 32) - 20)),
    *_both("mo-passes-2-32-in-a-message", "The second segment of a Send has an MO so high that it exceeds 2^32",
           ("ddp-mo",), BAD_MO, send(2, bytes(200), last=False), send(2, b"rest", message_offset=(1 << 32) - 2)),
    _case("l-missing", "A Send without L, and then another Send", ("ddp-last",), _PLACES,
          send(2, bytes(200), last=False), send(3, bytes(20)), clause="RFC 5041 §4.1"),
    _case("l-too-early", "A Send continues after the segment with L", ("ddp-last",), BAD_MSN, send(2, bytes(200)),
          send(2, b"rest", message_offset=200), clause="RFC 5041 §4.1"),
    _case("l-missing-write", "An RDMA Write without L, and then one to another buffer", ("ddp-last",), _PLACES,
          rdma_write(1, 0, bytes(200), last=False), rdma_write(2, 0, bytes(20)), clause="RFC 5041 §4.1"),
    _case("write-to-elsewhere", "The second segment of an RDMA Write leaves out an octet", ("ddp-last",), _PLACES,
          rdma_write(1, 0, bytes(200), last=False), rdma_write(1, 201, bytes(20)), clause="RFC 5041 §4.1"),
    _case("to-up-to-the-last", "An RDMA Write whose last octet is one before the last of a 64-bit TO", (), ACCEPT,
          rdma_write(1, (1 << 64) - 201, bytes(200)), clause="RFC 5041 §7.1"),
    *_both("to-wraps", "An RDMA Write whose TO and length exceed 2^64", ("ddp-to-wraps",), BAD_TO,
          rdma_write(1, (1 << 64) - 100, bytes(200)), clause="RFC 5041 §7.1"),
    _case("to-wraps-in-a-message", "The second segment of an RDMA Write exceeds 2^64", ("ddp-to-wraps",), BAD_TO,
          rdma_write(1, (1 << 64) - 300, bytes(200), last=False), rdma_write(1, (1 << 64) - 100, bytes(101)),
          clause="RFC 5041 §7.1"),
    *_both("send-unfinished", "The last Send has no segment with L", ("ddp-unfinished",), _PLACES,
          send(2, bytes(200), last=False), closes=True),
    *_both("write-unfinished", "The last RDMA Write has no segment with L", ("ddp-unfinished",), _PLACES,
          rdma_write(1, 0, bytes(200), last=False), closes=True),
    *_both("opcode-changes", "A Send continues as a Send with SE", ("rdmap-message-changes",), _ANY_FIELD,
          send(2, bytes(200), last=False), untagged(SEND_SE, 0, 2, b"rest", message_offset=200)),
    *_both("invalidate-stag-changes", "The two segments of a Send with Invalidate name two STags",
          ("rdmap-message-changes",), _ANY_FIELD,
          untagged(SEND_INVALIDATE, 0, 2, bytes(200), invalidate=1, last=False),
          untagged(SEND_INVALIDATE, 0, 2, b"rest", invalidate=2, message_offset=200)),
    *_both("write-of-nothing", "An RDMA Write of 0 octets with an STag and a TO that belong to no buffer", (), ACCEPT,
          rdma_write(0xFFFFFFFF, (1 << 64) - 1, b""), clause="RFC 5041 §5.2", tests="receiver-zero-length"),
    *_both("read-of-nothing", "An RDMA Read of 0 octets with STags and TOs that belong to no buffer", (), ACCEPT,
          "{by} read 0 sink=0xfffffffe,0xffffffffffffffff source=0xffffffff,0xffffffffffffffff",
          clause="RFC 5040 §5.2.1", tests="receiver-zero-length"),
    _case("read-request-of-32", "An RDMA Read Request whose body has 32 octets", ("rdmap-read-request",),
          READ_AND_MORE, untagged(READ_REQUEST, 1, 1, _BODY + bytes(4)), clause="RFC 5040 §4.4"),
    _case("read-request-of-27", "An RDMA Read Request whose body is one octet short", ("rdmap-read-request",),
          NO_SUCH_READ, untagged(READ_REQUEST, 1, 1, _BODY[:-1]), clause="RFC 5040 §4.4"),
    _case("read-request-in-host-order", "An RDMA Read Request in little-endian byte order",
          ("rdmap-read-request",), BAD_STAG,
          untagged(READ_REQUEST, 1, 1, _host_order(read_request_body(1, 0x7F1234561010, 64, 2, 0x7F1234571010))),
          clause="RFC 5040 §4.4"),
    _case("send-se-invalidate", "A Send with SE and Invalidate", (), ACCEPT,
          untagged(SEND_SE_INVALIDATE, 0, 2, bytes(20), invalidate=0x1234), clause="RFC 5040 §4.1"),
    Case("atomic-request-alone", "An Atomic Request on queue 1", "plain",
         (says(_FIRST, _SAID, untagged(ATOMIC_REQUEST, 1, 1, bytes(52))), answers(("responder", _atomic_response(0)))),
         (), ACCEPT, clause="RFC 7306 §5.2"),
)  # fmt: skip

_ANSWERS = (
    *_both("read-response-unasked", "An RDMA Read Response without a Request", ("read-response-unasked",), UNASKED,
          _response()),
    *_both("read-response-twice", "Two RDMA Read Responses to one Request", ("read-response-unasked",), UNASKED,
          _READ, _response(), _response(), breaks=("memory-life",)),
    *_both("read-response-other-stag", "An RDMA Read Response to another STag than the Request names",
          ("read-response-differs",), _NEED_NOT_COMPARE, _READ, _response(stag=2)),
    *_both("read-response-other-to", "An RDMA Read Response one octet beyond the TO that the Request names",
          ("read-response-differs",), _NEED_NOT_COMPARE, _READ, _response(to=4097), breaks=("memory-bounds",)),
    *_both("read-response-too-long", "An RDMA Read Response with one octet too many", ("read-response-differs",),
          _NEED_NOT_COMPARE, _READ, _response(size=101), breaks=("memory-bounds",)),
    *_both("read-response-too-short", "An RDMA Read Response with one octet too few", ("read-response-differs",),
          _NEED_NOT_COMPARE, _READ, _response(size=99)),
    *_both("read-responses-out-of-order", "The second of two RDMA Reads is answered before the first",
          ("read-response-differs",), _NEED_NOT_COMPARE, _READ, _SECOND_READ, _response(3, 0, 60), _response()),
    *_both("read-response-without-octets", "An RDMA Read of no octets, whose Response has another STag and TO", (),
          _ANY_PLACE, ("responder", untagged(READ_REQUEST, 1, 1, read_request_body(1, 4096, 0, 2, 8192))),
          _response(9, 9, 0), clause="RFC 5041 §5.2"),
    *_both("read-unanswered", "An RDMA Read is never answered", ("request-unanswered",), _LEFT_WAITING, _READ,
          send(2, bytes(20))),
    *_both("atomic-unanswered", "An Atomic Request is never answered", ("request-unanswered",), _LEFT_WAITING, _ATOMIC,
          send(2, bytes(20)), clause="RFC 7306 §5.2.1"),
    *_both("atomic-response-other-id", "An Atomic Response with another Request ID than the Request",
          ("atomic-response",), UNASKED, _ATOMIC, _atomic_response(8)),
    *_both("atomic-response-unasked", "An Atomic Response without a Request", ("atomic-response",), UNASKED,
          _atomic_response(7)),
    *_both("atomic-response-twice", "Two Atomic Responses to one Request", ("atomic-response",), UNASKED, _ATOMIC,
          _atomic_response(7), _atomic_response(7, 2)),
    *_both("atomic-misaligned", "An Atomic Request whose TO is 4 modulo 8", ("atomic-alignment",), NO_SUCH_OPERATION,
          _atomic_request(FETCH_ADD, NAMED.to + 4), is_named=True),
    *(
        case
        for operation in (1, 3, 15)
        for case in _both(
            f"atomic-opcode-{operation}", f"An Atomic Request with AOpCode {operation}", ("atomic-opcode",),
            NO_SUCH_OPERATION, _atomic_request(operation, NAMED.to), is_named=True)
    ),
    *_both("immediate-data-of-7", "Immediate Data one octet too short", ("immediate-length",), NO_SUCH_OPERATION,
          untagged(IMMEDIATE, 0, 2, bytes(7))),
    *_both("immediate-data-of-9", "Immediate Data with SE one octet too long", ("immediate-length",), NO_SUCH_OPERATION,
          untagged(IMMEDIATE_SE, 0, 2, bytes(9))),
)  # fmt: skip

#: Places beside the memory that the peer has named: name, words, octets from its first one to the first, how many.
_BESIDE = (
    ("past", "right behind", NAMED.length, 20),
    ("over-the-end-of", "over the end of", NAMED.length - 20, 40),
    ("far-past", "far behind", NAMED.length + FAR, 20),
    ("before", "right before", -20, 20),
    ("over-the-start-of", "over the beginning of", -20, 40),
)
_SINK = 0x2000


def _write(at: int, size: int, stag: int = NAMED.stag) -> bytes:
    return rdma_write(stag, NAMED.to + at, bytes(size))


def _read(to: int, size: int, stag: int = NAMED.stag) -> bytes:
    return untagged(READ_REQUEST, 1, 1, read_request_body(_SINK, 0, size, stag, to))


#: Without octets, which an upper layer might not expect.
_INVALIDATED = untagged(SEND_INVALIDATE, 0, 2, b"", invalidate=NAMED.stag)
_MEMORY = (
    *(
        case
        for name, where, at, size in _BESIDE
        for case in (
            *_both(f"write-{name}-the-buffer", f"An RDMA Write {where} the memory that the peer named",
                   ("memory-bounds",), BAD_BOUNDS, _write(at, size), clause="RFC 5041 §7.1", is_named=True),
            *_both(f"read-{name}-the-buffer", f"An RDMA Read {where} the memory that the peer named",
                   ("memory-bounds",), BAD_SOURCE, _read(NAMED.to + at, size), clause="RFC 5040 §7.2", is_named=True),
        )
    ),
    *_both("write-to-unknown-stag", "An RDMA Write to an STag that names nothing", (), BAD_WRITE_STAG,
           _write(0, 20, UNKNOWN_STAG), clause="RFC 5041 §7.1"),
    *_both("read-from-unknown-stag", "An RDMA Read from an STag that names nothing", (), BAD_STAG,
           _read(NAMED.to, 20, UNKNOWN_STAG), clause="RFC 5040 §7.2"),
    *_both("write-to-invalidated", "An RDMA Write to an STag that the Send before it invalidated",
           ("stag-invalidated",), ENDED_STAG, _INVALIDATED, _write(0, 20), breaks=("memory-life",), is_named=True),
    *_both("read-from-invalidated", "An RDMA Read from an STag that the Send before it invalidated", ("memory-life",),
           BAD_STAG, _INVALIDATED, _read(NAMED.to, 20), clause="RFC 5040 §7.2", is_named=True),
    *_both("read-source-wraps", "An RDMA Read whose source TO and size exceed 2^64", (), BAD_SOURCE_TO,
           _read((1 << 64) - 10, 20), clause="RFC 5040 §7.2", is_named=True),
    *_both("write-over-a-write", "An RDMA Write over octets of another one, without a Send in between",
           ("placement-overlap",), ACCEPT, _write(0, 20), _write(10, 20), clause="RFC 5040 §5.5", is_named=True),
    Case("write-placed-late", "The first segment of an RDMA Write comes after the last", "markers",
         (says(_FIRST, _SAID, rdma_write(1, 0, bytes(1400), last=False), rdma_write(1, 1400, bytes(600)), send(2, b"")),
          impaired("reorder", 2, distance=1)), ("placement-early",), ACCEPT, clause="RFC 5040 §5.5"),
)  # fmt: skip

CASES = (*_HEADERS, *_QUEUES, *_MESSAGES, *_ANSWERS, *_MEMORY)
