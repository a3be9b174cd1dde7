"""What startup frames agree on: CRC, revisions, kinds of RNIC, and the depths and RTR messages of RFC 6581."""

from __future__ import annotations

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.peer import ACCEPT, BAD_UNTAGGED_VERSION, IGNORE, NO_BUFFER, NO_IRD, NO_RTR, peer
from scapy_mpa.craft.changes.change import NamedChange
from scapy_mpa.craft.changes.said import answers, says
from scapy_mpa.craft.changes.startup import setup
from scapy_mpa.craft.ulpdus import (
    READ_REQUEST,
    READ_RESPONSE,
    SEND,
    TERMINATE,
    rdma_write,
    read_request_body,
    send,
    tagged,
    terminate_body,
    untagged,
)

_NOT_NEGOTIATED = 0x3FFF
_WRITE = "initiator write '' stag=0"
_READ = "initiator read 0 sink=0,0 source=0,0"
_TERMINATE = untagged(TERMINATE, 2, 1, terminate_body(2, 0, 7))
_WORKS = peer("accept", "It follows the other revision, or closes the connection.")
_PLAIN = peer(
    "accept",
    "It leaves IRD and ORD to its ULP, or closes the connection, perhaps after a Terminate (2, 0, 5) (RFC 6581 §9.3).",
)
_COMES_DOWN = peer("accept", "It lowers its ORD to the IRD of the Reply.")
_NOT_READY = peer(
    "wait", "It waits for the RTR message, or accepts the FPDU as on any other connection: no clause says what it does."
)


def _depths(request: dict[str, int], reply: dict[str, int]) -> NamedChange:
    """The enhanced data of both frames; depths of 8 where nothing is said about them."""
    eight = {"ird": 8, "ord": 8}
    return setup(enhanced=({**eight, **request}, {**eight, **reply}))


def _read_request(msn: int) -> bytes:
    return untagged(READ_REQUEST, 1, msn, read_request_body(1, 4096, 100, 2, 8192))


_READ_RESPONSE = tagged(READ_RESPONSE, 1, 4096, bytes(100))
_PEERS = {"a": 1, "b": 1, "c": 1, "d": 1}

_CRC = tuple(
    Case(
        f"c-in-{which}", f"Only the {which} asks for CRCs, which are then in use in both directions", "plain",
        (setup(c=c),), (), ACCEPT, clause="RFC 5044 §7.1.1",
    )
    for which, c in (("request", (1, 0)), ("reply", (0, 1)))
)  # fmt: skip

_RNICS = (
    Case(
        "rev-0-without-m-and-c", "Rev 0 without M, which no RDMA Consortium RNIC sends", "plain",
        (setup(rev=(0, 0)),), ("rnic-parameters", "rnic-parameters@peer"), ACCEPT, tests=("receiver-revision",),
    ),
    Case(
        "rev-0-answered-by-rev-1", "Rev 0 is answered by Rev 1, as a non-permissive IETF RNIC does", "markers",
        (setup(rev=(0, 1)),), ("rnic-foreign-revision",), _WORKS, by="responder",
    ),
    Case(
        "rev-1-answered-by-rev-0", "Rev 1 is answered by Rev 0, as an RDMA Consortium RNIC does", "markers",
        (setup(rev=(1, 0)),), ("rnic-foreign-revision",), _WORKS, by="responder", tests=("receiver-revision",),
    ),
    Case(
        "ddp-version-1-with-rev-0", "Rev 0 with M and C, and a DDP Segment of version 1", "rddp-01",
        (says(send(1, bytes(20))),), ("rnic-version", "rnic-version-mixed", "terminate@peer"), BAD_UNTAGGED_VERSION,
    ),
    Case(
        "ddp-version-0-with-rev-1", "Rev 1, and a DDP Segment of version 0", "plain",
        (says(untagged(SEND, 0, 1, bytes(20), version=0)),), ("rnic-version", "rnic-version-mixed", "terminate@peer"),
        BAD_UNTAGGED_VERSION,
    ),
    Case(
        "ddp-versions-mixed", "DDP Segments of version 1 are answered with ones of version 0", "plain",
        (says("initiator send 20", untagged(SEND, 0, 1, bytes(20), version=0)),),
        ("rnic-version", "rnic-version-mixed", "terminate@peer"), BAD_UNTAGGED_VERSION, by="responder",
    ),
)  # fmt: skip

_ENHANCED = (
    Case(
        "enhanced-answered-plainly", "A plain Reply of Rev 2 to an enhanced Request", "enhanced",
        (setup(enhanced=(None, False)),), ("enhanced-reply",), _PLAIN, by="responder",
    ),
    Case(
        "enhanced-answered-by-rev-1", "A plain Reply of Rev 1 to an enhanced Request", "enhanced",
        (setup(enhanced=(None, False), rev=(2, 1)),), ("enhanced-reply", "startup-revision-differs"), _PLAIN,
        by="responder",
    ),
    Case(
        "plain-answered-enhanced", "An enhanced Reply to a plain Request", "enhanced",
        (setup(enhanced=(False, {"ird": 8, "ord": 8})),), ("enhanced-reply",), _PLAIN, by="responder",
    ),
    Case(
        "enhanced-for-nothing", "An enhanced Request that leaves both depths to the ULP and asks for nothing else",
        "enhanced", (_depths(*[{"ird": _NOT_NEGOTIATED, "ord": _NOT_NEGOTIATED}] * 2),), ("enhanced-unused",), ACCEPT,
    ),
    *(
        Case(
            f"control-flag-{flag}-without-a", f"Control Flag {flag.upper()} in a Request without A", "enhanced",
            (_depths({flag: 1}, {}),), ("enhanced-control-flags",), IGNORE, tests=("receiver-control-flags",),
        )
        for flag in "bcd"
    ),
    Case(
        "control-flag-a-not-answered", "Control Flag A in the Request and not in the Reply", "enhanced",
        (_depths(_PEERS, {}), says("start")), ("enhanced-connection-model", "terminate@peer"), NO_RTR, by="responder",
    ),
    Case(
        "control-flag-a-in-the-reply-alone", "Control Flag A in the Reply and not in the Request", "enhanced",
        (_depths({}, _PEERS), says("start")), ("enhanced-connection-model", "terminate@peer"), NO_RTR, by="responder",
    ),
)  # fmt: skip

_READY = (
    *(
        Case(
            f"rtr-{kind}", f"The RTR message that both sides offer is a zero-length {name}", "peer-to-peer",
            (_depths({"a": 1, flag: 1}, {"a": 1, flag: 1}), says(step, "initiator send 30", "responder send 30")),
            (), ACCEPT, clause="RFC 6581 §9.2",
        )
        for kind, flag, name, step in (
            ("write", "c", "RDMA Write", _WRITE), ("read", "d", "RDMA Read", _READ), ("send", "b", "Send",
             "initiator send"),
        )
    ),
    *(
        Case(
            name, purpose, "peer-to-peer",
            (_depths({"a": 1, flag: 1}, {"a": 1, flag: 1}), says(first)), ("rtr", *more), _NOT_READY,
        )
        for name, purpose, flag, first, *more in (
            ("rtr-left-out", "The Initiator's first FPDU is a message of its ULP, not the RTR message", "c",
             send(1, bytes(20))),
            ("rtr-of-another-type", "The RTR message is a Send, where both sides offer an RDMA Write", "c",
             send(1, b"")),
            ("rtr-write-of-1-octet", "The RTR message is an RDMA Write with an octet in it", "c",
             rdma_write(0, 0, b"\1")),
            ("rtr-send-of-1-octet", "The RTR message is a Send with an octet in it", "b", send(1, b"\1")),
            ("rtr-write-without-l", "The RTR message is an RDMA Write that is not the last segment", "c",
             rdma_write(0, 0, b"", last=False), "mulpdu-minimum", "mulpdu-filled", "ddp-unfinished"),
        )
    ),
    Case(
        "rtr-read-of-1-octet", "The RTR message is an RDMA Read of an octet", "peer-to-peer",
        (
            _depths({"a": 1, "d": 1}, {"a": 1, "d": 1}),
            says(untagged(READ_REQUEST, 1, 1, read_request_body(0, 0, 1, 0, 0))),
        ),
        ("rtr",), _NOT_READY,
    ),
    Case(
        "rtr-none-offered-terminate",
        "A Request with A and no type of RTR message; its sender ends the connection, as it must",
        "peer-to-peer", (_depths({"a": 1}, {"a": 1, "c": 1}), says(_TERMINATE), answers(None)),
        ("rtr-none-offered", "terminate"), ACCEPT,
    ),
    Case(
        "rtr-none-offered", "A Request with A and no type of RTR message, but its sender sends an FPDU", "peer-to-peer",
        (_depths({"a": 1}, {"a": 1, "c": 1}), says("initiator send 30")), ("rtr-none-offered", "rtr-not-closed"),
        _NOT_READY,
    ),
    Case(
        "rtr-none", "A Reply with A and no type of RTR message", "peer-to-peer",
        (_depths(_PEERS, {"a": 1}), says("start")), ("rtr-none", "terminate@peer"), NO_RTR, by="responder",
    ),
    Case(
        "rtr-no-match",
        "The Initiator does not support the only RTR type of the Reply; it ends the connection, as it must",
        "peer-to-peer", (_depths({"a": 1, "c": 1}, {"a": 1, "d": 1}), says("start")), ("terminate@peer",), NO_RTR,
        by="responder", clause="RFC 6581 §9.2",
    ),
    Case(
        "rtr-no-match-not-closed", "Without a type of RTR message in common, the Initiator still sends an FPDU",
        "peer-to-peer", (_depths({"a": 1, "c": 1}, {"a": 1, "d": 1}), says("initiator send 30")),
        ("rtr-not-closed",), _NOT_READY,
    ),
    *(
        Case(
            f"rtr-no-match-code-{code}", "Without a type of RTR message in common, the Initiator's Terminate has "
            f"code {code}", "peer-to-peer",
            (
                _depths({"a": 1, "c": 1}, {"a": 1, "d": 1}),
                says(untagged(TERMINATE, 2, 1, terminate_body(2, 0, code))), answers(None),
            ),
            ("terminate", *more), ACCEPT, clause="RFC 6581 §8",
        )
        for code, more in ((5, ()), (6, ("terminate-code",)))
    ),
)  # fmt: skip

_DEPTHS = (
    Case(
        "ord-equal-to-ird", "ORD in the Reply equals IRD in the Request", "enhanced",
        (_depths({"ird": 2}, {"ord": 2}),),
        (), ACCEPT, by="responder", clause="RFC 6581 §9.1",
    ),
    Case(
        "ord-above-ird", "ORD in the Reply is one above IRD in the Request", "enhanced",
        (_depths({"ird": 2}, {"ord": 3}), says("start")), ("ird-ord-responder-ord", "terminate@peer"), NO_IRD,
        by="responder",
    ),
    Case(
        "ird-equal-to-ord", "IRD in the Reply equals ORD in the Request", "enhanced",
        (_depths({"ord": 3}, {"ird": 3}),),
        (), ACCEPT, by="responder", clause="RFC 6581 §9.1",
    ),
    Case(
        "ird-below-ord", "IRD in the Reply is one below ORD in the Request", "enhanced",
        (_depths({"ord": 3}, {"ird": 2}),), ("ird-ord-responder-ird",), _COMES_DOWN, by="responder",
    ),
    Case(
        "depths-of-0x3ffe", "The largest depths that can be negotiated", "enhanced",
        (_depths(*[{"ird": _NOT_NEGOTIATED - 1, "ord": _NOT_NEGOTIATED - 1}] * 2),), (), ACCEPT, by="responder",
        clause="RFC 6581 §9.1",
    ),
    Case(
        "depth-not-negotiated", "ORD 0x3FFF in the Request is answered by IRD 0x3FFF", "enhanced",
        (_depths({"ord": _NOT_NEGOTIATED}, {"ird": _NOT_NEGOTIATED}),), (), ACCEPT, by="responder",
        clause="RFC 6581 §9.1",
    ),
    Case(
        "ord-0x3fff-answered-by-a-depth", "ORD 0x3FFF in the Request is answered by an IRD", "enhanced",
        (_depths({"ord": _NOT_NEGOTIATED}, {"ird": 2}),), ("ird-ord-not-negotiated",), IGNORE, by="responder",
    ),
    Case(
        "ird-0x3fff-answered-by-a-depth", "IRD 0x3FFF in the Request is answered by an ORD", "enhanced",
        (_depths({"ird": _NOT_NEGOTIATED}, {"ord": 2}),), ("ird-ord-not-negotiated",), IGNORE, by="responder",
    ),
    Case(
        "depths-in-host-order", "IRD 1 and ORD 4 in little-endian byte order", "enhanced",
        (_depths({"ird": 0x100, "ord": 0x400}, {"ird": 0x400, "ord": 0x80}),), ("ird-ord-byte-order",), ACCEPT,
    ),
    Case(
        "ord-reached", "As many RDMA Reads outstanding as ORD allows", "enhanced",
        (
            _depths({"ord": 2}, {"ird": 2}),
            says(_read_request(1), _read_request(2), ("responder", _READ_RESPONSE), ("responder", _READ_RESPONSE)),
        ),
        (), ACCEPT,
        clause="RFC 6581 §9.1",
    ),
    Case(
        "ord-exceeded", "One more RDMA Read outstanding than ORD allows", "enhanced",
        (_depths({"ord": 2}, {"ird": 2}), says(*map(_read_request, (1, 2, 3)))), ("ird-ord-exceeded", "terminate@peer"),
        NO_BUFFER,
    ),
    Case(
        "rtr-read-with-ird-0", "An RTR Read is agreed on, and IRD in the Reply is 0; another RTR message is sent",
        "peer-to-peer", (_depths(_PEERS, {**_PEERS, "ird": 0}),), ("rtr-read-depth", "ird-ord-responder-ird"),
        _COMES_DOWN, by="responder",
    ),
)  # fmt: skip

CASES = (*_CRC, *_RNICS, *_ENHANCED, *_READY, *_DEPTHS)
