"""How a connection ends: FIN, RST, in the middle of an FPDU, with a Terminate (RFC 5044 §7.2, §8; RFC 5040 §4.8)."""

from __future__ import annotations

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.peer import ACCEPT, BAD_WRITE_STAG, DISCARD, LOSE, peer
from scapy_mpa.craft.changes.capture import repeated
from scapy_mpa.craft.changes.fpdu import cut_at_marker, fpdu_cut
from scapy_mpa.craft.changes.injected import injected
from scapy_mpa.craft.changes.packets import in_vain, reset_in_answer
from scapy_mpa.craft.changes.said import answers, ends, says
from scapy_mpa.craft.exchange import Step
from scapy_mpa.craft.ulpdus import (
    ATOMIC_REQUEST,
    READ_REQUEST,
    TERMINATE,
    atomic_request_body,
    rdma_write,
    read_request_body,
    send,
    terminate_body,
    untagged,
)
from scapy_mpa.framing.ddp import UNTAGGED_HEADER_LENGTH
from scapy_mpa.framing.role import Role, peer_of

_FIRST, _SAID, _LONG = "initiator send 30", "responder send 30", "initiator send 60"
_ENDS = peer("accept", "It takes the Terminate, may stop sending, and its ULP closes the connection.")
_MISREADS = peer(
    "accept", "It reads layer and type as they stand, so it reports a different error and closes the connection."
)
#: What is wrong is in the numbers, or in the headers that are quoted.
_REPORTS = peer("accept", "It takes the Terminate, reports it to its ULP as far as it makes sense, and the ULP closes.")
_TAKES = peer("ignore", "It ignores them, takes the Terminate, and its ULP closes the connection.")
_SECTION = "RFC 5040 §4.8"
_DROPS = peer("discard", "It has given up the stream with the Terminate, and drops what follows.")
_LOSES_ALL = peer("lose", "What it has not read yet is lost with the connection (code 1 if an FPDU had begun).")


def _terminate(control: bytes) -> bytes:
    return untagged(TERMINATE, 2, 1, control)


def _quoting(
    layer: int, etype: int, code: int, quoted: bytes, rdmap_header: bytes = b"", length: int | None = None
) -> bytes:
    """A Terminate that quotes a DDP header, and what follows it in its ULPDU, of which ``length`` is the length."""
    length = len(quoted + rdmap_header) if length is None else length
    return _terminate(terminate_body(layer, etype, code, ddp_header=quoted, length=length, rdmap_header=rdmap_header))


def _said_before(ulpdu: bytes, by: Role) -> tuple[Step, ...]:
    """The step in which a side sends a ULPDU that a Terminate of its peer quotes, if there is one."""
    return ((by, ulpdu),) if ulpdu else ()


#: The sender of a Terminate: what the names and purposes of its cases end with.
_SIDES: tuple[tuple[Role, str, str], ...] = (
    ("initiator", "", ""),
    ("responder", "-of-the-responder", ", from the Responder"),
)


#: An RDMA Write and a Send of the peer without payload, which a Terminate quotes.
_WRITE, _SEND = rdma_write(0x1234, 64, b""), send(2, b"")
_READ = untagged(READ_REQUEST, 1, 1, read_request_body(1, 4096, 100, 2, 8192))
_ATOMIC = untagged(ATOMIC_REQUEST, 1, 1, atomic_request_body(2, 17, 0x22, 0x38, 1, 2, 3, 4))
#: A Terminate of layer 2, type 0, code 2 as Linux siw lays it out, from the least significant bit on.
_REVERSED = bytes.fromhex("02020000")

_CUT = (
    *(
        Case(
            f"fin-{name}", f"FIN {what}", baseline, (says(_FIRST, _SAID, *steps), change), ("connection-lost",), LOSE,
            tests=("receiver-whole-fpdu",),
        )
        for name, what, baseline, steps, change in (
            ("in-length", "between the two octets of ULPDU_Length", "plain", (_LONG,), fpdu_cut(2, 1)),
            ("behind-length", "behind ULPDU_Length", "plain", (_LONG,), fpdu_cut(2, 2)),
            ("in-ulpdu", "in the middle of a ULPDU", "plain", (_LONG,), fpdu_cut(2, 40)),
            ("before-crc", "before the CRC", "plain", (_LONG,), fpdu_cut(2, -4)),
            ("before-marker", "where a Marker belongs", "markers", (send(2, bytes(600)),), cut_at_marker(2, 0)),
            ("behind-marker", "after a Marker in an FPDU", "markers", (send(2, bytes(600)),),
             cut_at_marker(2, 0, behind=True)),
            ("behind-leading-marker", "after the Marker with which an FPDU begins", "markers",
             (send(2, bytes(424)), send(3, b"")), cut_at_marker(3, 0, behind=True)),
        )
    ),
    Case(
        "rst-in-fpdu", "RST in the middle of a ULPDU", "plain",
        (says(_FIRST, _SAID, _LONG), fpdu_cut(2, 40), ends("rst")), ("connection-lost", "teardown-reset"), LOSE,
    ),
    Case(
        "fin-in-first-fpdu", "FIN in the middle of the first FPDU", "plain", (says(_FIRST), fpdu_cut(1, 20)),
        ("connection-lost",), LOSE,
    ),
    Case(
        "fin-of-the-responder-in-fpdu", "FIN of the Responder in the middle of its FPDU", "plain",
        (says(_FIRST, _SAID, "responder send 60"), fpdu_cut(2, 40), ends("fin")), ("connection-lost",), LOSE,
        by="responder",
    ),
)  # fmt: skip

_ENDS_OF_TCP = (
    Case(
        "fin-at-a-boundary", "FIN after a complete FPDU, and the peer has sent nothing since", "plain",
        (says(_FIRST, _SAID, _LONG), answers(None)), (), ACCEPT, clause="RFC 5044 §7.2",
    ),
    Case(
        "fin-before-any-fpdu", "FIN after the startup frames", "plain", (says("start"), answers(None)), (), ACCEPT,
        clause="RFC 5044 §7.2",
    ),
    Case(
        "no-end", "The capture ends before the connection does", "plain", (ends("none"),), (), ACCEPT,
        clause="RFC 5044 §7.2",
    ),
    Case(
        "rst-at-a-boundary", "RST instead of FIN, after a complete FPDU", "plain", (ends("rst"),), ("teardown-reset",),
        _LOSES_ALL,
    ),
    Case(
        "rst-in-answer", "An FPDU that is answered by a RST, and by nothing else", "plain",
        (says(_FIRST, _SAID, _LONG), reset_in_answer(2)), ("teardown-unacknowledged", "teardown-reset@peer"),
        peer("lose", "It has ended the connection; it is not known whether its ULP received the FPDU."),
        clause="RFC 5044 §7.2",
    ),
    Case(
        "peer-gone", "An FPDU is retransmitted six times, and the peer does not answer", "plain",
        (says(_FIRST, _SAID, _LONG), in_vain(2, 6)), ("connection-lost",),
        peer("lose", "It is gone, or the network is down; its peer gives up (code 1)."),
    ),
    Case(
        "sent-again-twice", "An FPDU is retransmitted twice before the capture ends", "plain",
        (says(_FIRST, _SAID, _LONG), in_vain(2, 2)), (), ACCEPT, clause="RFC 5044 §8",
    ),
    Case(
        "rst-and-fpdus", "FPDUs and FIN follow a RST that claims to be from their sender", "plain",
        (injected(3, "RA"),), ("attack-reset",),
        peer("lose", "It accepts the RST, which ends the connection, and drops what follows."),
    ),
    Case(
        "rst-outside-the-window", "A RST far outside the window that claims to be from a side that continues", "plain",
        (injected(3, "RA", far=0x60000000),), ("attack-reset",), DISCARD, clause="RFC 9293 §3.10.7.4",
    ),
)  # fmt: skip

_TERMINATES = (
    *(
        Case(
            f"terminate-{layer}-{etype}-{code:02x}", f"A Terminate: {what}", "plain",
            (says(_FIRST, _SAID, _terminate(terminate_body(layer, etype, code))), answers(None)),
            ("terminate",), _ENDS, clause="RFC 5040 §4.8",
        )
        for layer, etype, code, what in (
            (0, 0, 0, "a local catastrophic error of RDMAP"),
            (0, 1, 0, "an STag of RDMAP that is not valid"),
            (0, 1, 1, "a base or bounds violation of RDMAP"),
            (0, 2, 6, "an unexpected OpCode"),
            (1, 1, 0, "an STag of DDP that is not valid"),
            (1, 1, 4, "a DDP version that is not valid, in a tagged segment"),
            (1, 2, 1, "a QN that is not valid"),
            (2, 0, 1, "MPA: the TCP connection is lost"),
            (2, 0, 4, "MPA: an invalid startup frame"),
        )
    ),
    Case(
        "terminate-bits-reversed", "A Terminate for a CRC error, with its bits in the order of Linux siw",
        "plain",
        (says(_FIRST, _SAID, _terminate(_REVERSED)), answers(None)), ("terminate", "terminate-layout"), _MISREADS,
    ),
    Case(
        "terminate-bits-in-order", "A Terminate for a CRC error, with its bits in the order of the "
        "specification", "plain",
        (says(_FIRST, _SAID, _terminate(bytes.fromhex("20020000"))), answers(None)), ("terminate",), _ENDS,
    ),
    *(
        Case(
            f"terminate-{name}{suffix}", f"A Terminate {what}{words}", "plain",
            (says(_FIRST, _SAID, *_said_before(before, peer_of(by)), said), answers(None)),
            ("terminate", rule), _TAKES if rule == "terminate-reserved" else _REPORTS, by=by, clause=clause,
        )
        for by, suffix, words in _SIDES
        for name, what, rule, said, before, clause in (
            ("reserved-bits", "with all 13 reserved bits set", "terminate-reserved",
             _terminate(bytes.fromhex("00001fff")), b"", _SECTION),
            ("reserved-bits-of-siw", "with the reserved bits set that Linux siw uses for M, D and R",
             "terminate-reserved", _terminate(bytes.fromhex("11040700")), b"", _SECTION),
            ("layer-3", "with an undefined layer", "terminate-code",
             _terminate(terminate_body(3, 0, 0)), b"", _SECTION),
            ("type-3", "with an error type that RDMAP does not have", "terminate-code",
             _terminate(terminate_body(0, 3, 0)), b"", _SECTION),
            ("code-8", "with an error code that MPA does not have", "terminate-code",
             _terminate(terminate_body(2, 0, 8)), b"", _SECTION),
            ("header-of-mpa", "for an error of MPA, with a DDP header", "terminate-headers",
             _quoting(2, 0, 1, _SEND), _SEND, _SECTION),
            ("header-of-local-error", "for a local catastrophic error, with a DDP header", "terminate-headers",
             _quoting(0, 0, 0, _SEND), _SEND, _SECTION),
            ("header-missing", "whose bits announce a DDP header that does not follow", "terminate-layout",
             _terminate(bytes.fromhex("1203c000")), b"", _SECTION),
            ("length-missing", "with D and without M", "terminate-headers",
             _terminate(bytes.fromhex("120340000012") + _SEND), _SEND, _SECTION),
            ("rdma-header", "for an error of DDP, with an RDMA header", "terminate-headers",
             _quoting(1, 2, 3, _READ[:UNTAGGED_HEADER_LENGTH], rdmap_header=_READ[UNTAGGED_HEADER_LENGTH:]),
             _READ, _SECTION),
            ("rdma-header-missing", "for a remote protection error of an RDMA Read, without its RDMA header",
             "terminate-headers", _quoting(0, 1, 0, _READ[:UNTAGGED_HEADER_LENGTH], length=len(_READ)), _READ,
             _SECTION),
            ("atomic-quoted", "that quotes an Atomic Request, also its RDMA header", "terminate-headers",
             _quoting(0, 2, 7, _ATOMIC[:UNTAGGED_HEADER_LENGTH], rdmap_header=_ATOMIC[UNTAGGED_HEADER_LENGTH:]),
             _ATOMIC, "RFC 7306 §8.1"),
            ("quotes-another-msn", "that quotes a Send which was never sent", "terminate-quote",
             _quoting(1, 2, 3, send(9, b"")), b"", _SECTION),
            ("quotes-another-stag", "that quotes an RDMA Write to an STag which was never sent", "terminate-quote",
             _quoting(1, 1, 0, rdma_write(0x4321, 64, b"")), _WRITE, _SECTION),
            ("quotes-another-length", "that quotes a Send with a DDP Segment Length which it never had",
             "terminate-length", _quoting(1, 2, 3, _SEND, length=99), _SEND, _SECTION),
        )
    ),
    Case(
        "terminate-quotes-what-was-sent", "A Terminate that quotes a Send of its receiver", "plain",
        (says(_FIRST, _SAID, ("responder", _SEND), _quoting(1, 2, 3, _SEND)), answers(None)), ("terminate",), _ENDS,
        clause="RFC 5040 §4.8",
    ),
    Case(
        "buffers-not-offered", "Twenty connections from one address, each with an RDMA Write to a buffer that does "
        "not exist",
        "plain", (says(_FIRST, _SAID, rdma_write(0x1234, 0, bytes(20))), repeated(20)),
        ("terminate@peer", "attack-buffer@capture"), BAD_WRITE_STAG, clause="RFC 5044 §9.1",
    ),
    Case(
        "terminate-not-last", "An FPDU after a Terminate", "plain",
        (says(_FIRST, _SAID, _terminate(terminate_body(0, 2, 6)), send(2, bytes(20))), answers(None)),
        ("terminate", "terminate-last"), _DROPS,
    ),
    Case(
        "terminate-answered", "A Terminate crosses FPDUs that were already in flight", "plain",
        (says(_FIRST, _SAID, _terminate(terminate_body(0, 2, 6))),), ("terminate",), _ENDS,
    ),
    Case(
        "terminate-then-rst", "A Terminate and a RST, as many stacks end a connection", "plain",
        (says(_FIRST, _SAID, _terminate(terminate_body(0, 2, 6))), answers(None), ends("rst")), ("terminate",), _ENDS,
        clause="RFC 5040 §6.2.1",
    ),
)  # fmt: skip

CASES = (*_CUT, *_ENDS_OF_TCP, *_TERMINATES)
