"""How a connection ends: FIN, RST, in the middle of an FPDU, by a Terminate (RFC 5044 §7.2, §8; RFC 5040 §4.8)."""

from __future__ import annotations

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.fpdu import cut, cut_at_marker
from scapy_mpa.catalogue.frame import answers, ends, says
from scapy_mpa.catalogue.packet import in_vain, reset, reset_in_answer
from scapy_mpa.catalogue.peer import ACCEPT, DISCARD, LOSE, peer
from scapy_mpa.craft.ulpdus import TERMINATE, send, terminate_body, untagged

_FIRST, _SAID, _LONG = "initiator send 30", "responder send 30", "initiator send 60"
_ENDS = peer(
    "accept", "It takes the Terminate, sends nothing more, and its ULP closes the connection.", ("close", "silence")
)
_MISREADS = peer(
    "accept",
    "It reads layer and type as they stand, and so reports a different error, and closes the connection.",
    ("close", "silence"),
)
_DROPS = peer("discard", "It has given up the stream with the Terminate, and drops what follows.", ("close", "silence"))
_LOSES_ALL = peer("lose", "What it has not read yet is lost with the connection (code 1 if an FPDU was begun).")


def _terminate(control: bytes) -> bytes:
    return untagged(TERMINATE, 2, 1, control)


#: A Terminate of layer 2, type 0, code 2 as Linux siw lays it out, from the least significant bit on.
_REVERSED = bytes.fromhex("02020000")

_CUT = (
    *(
        Case(
            f"fin-{name}", f"FIN {what}", baseline, (says(_FIRST, _SAID, *steps), change), ("connection-lost",), LOSE,
            tests=("receiver-whole-fpdu",),
        )
        for name, what, baseline, steps, change in (
            ("in-length", "between the two octets of ULPDU_Length", "plain", (_LONG,), cut(2, 1)),
            ("behind-length", "behind ULPDU_Length", "plain", (_LONG,), cut(2, 2)),
            ("in-ulpdu", "in the middle of a ULPDU", "plain", (_LONG,), cut(2, 40)),
            ("before-crc", "before the CRC", "plain", (_LONG,), cut(2, -4)),
            ("before-marker", "where a Marker belongs", "markers", (send(2, bytes(600)),), cut_at_marker(2, 0)),
            ("behind-marker", "behind a Marker in an FPDU", "markers", (send(2, bytes(600)),),
             cut_at_marker(2, 0, behind=True)),
            ("behind-leading-marker", "behind the Marker with which an FPDU begins", "markers",
             (send(2, bytes(424)), send(3, b"")), cut_at_marker(3, 0, behind=True)),
        )
    ),
    Case(
        "rst-in-fpdu", "RST in the middle of a ULPDU", "plain",
        (says(_FIRST, _SAID, _LONG), cut(2, 40), ends("rst")), ("connection-lost", "teardown-reset"), LOSE,
    ),
    Case(
        "fin-in-first-fpdu", "FIN in the middle of the first FPDU", "plain", (says(_FIRST), cut(1, 20)),
        ("connection-lost",), LOSE,
    ),
    Case(
        "fin-of-the-responder-in-fpdu", "FIN of the Responder in the middle of its FPDU", "plain",
        (says(_FIRST, _SAID, "responder send 60"), cut(2, 40), ends("fin")), ("connection-lost",), LOSE,
        by="responder",
    ),
)  # fmt: skip

_ENDS_OF_TCP = (
    Case(
        "fin-at-a-boundary", "FIN after a whole FPDU, and the peer has sent nothing since", "plain",
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
        "rst-at-a-boundary", "RST in place of FIN, after a whole FPDU", "plain", (ends("rst"),), ("teardown-reset",),
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
        "rst-and-fpdus", "FPDUs and FIN follow a RST in the name of their sender", "plain", (reset(3),),
        ("attack-reset",), DISCARD,
    ),
    Case(
        "rst-outside-the-window", "A RST far outside the window, in the name of a side that continues", "plain",
        (reset(3, far=0x60000000),), ("attack-reset",), DISCARD, clause="RFC 9293 §3.10",
    ),
)  # fmt: skip

_TERMINATES = (
    *(
        Case(
            f"terminate-{layer}-{etype}-{code:02x}", f"A Terminate: {what}", "plain",
            (says(_FIRST, _SAID, _terminate(terminate_body(layer, etype, code))), answers(None)),
            ("terminate", *more), _ENDS, clause="RFC 5040 §4.8",
        )
        for layer, etype, code, what, *more in (
            (0, 0, 0, "a local catastrophic error of RDMAP"),
            (0, 1, 0, "an STag of RDMAP that is not valid", "attack-buffer@peer"),
            (0, 1, 1, "a base or bounds violation of RDMAP", "attack-buffer@peer"),
            (0, 2, 6, "an unexpected OpCode"),
            (1, 1, 0, "an STag of DDP that is not valid", "attack-buffer@peer"),
            (1, 1, 4, "a DDP version that is not valid, in a tagged segment"),
            (1, 2, 1, "a QN that is not valid"),
            (2, 0, 1, "MPA: the TCP connection is lost"),
            (2, 0, 4, "MPA: an invalid startup frame"),
        )
    ),
    Case(
        "terminate-bits-reversed", "A Terminate for a CRC error, its bits in the order of Linux siw",
        "plain",
        (says(_FIRST, _SAID, _terminate(_REVERSED)), answers(None)), ("terminate", "terminate-layout"), _MISREADS,
    ),
    Case(
        "terminate-bits-in-order", "A Terminate for a CRC error, its bits in the order of the specification", "plain",
        (says(_FIRST, _SAID, _terminate(bytes.fromhex("20020000"))), answers(None)), ("terminate",), _ENDS,
    ),
    Case(
        "terminate-not-last", "An FPDU after a Terminate", "plain",
        (says(_FIRST, _SAID, _terminate(terminate_body(0, 2, 6)), send(2, bytes(20))), answers(None)),
        ("terminate", "terminate-last"), _DROPS,
    ),
    Case(
        "terminate-answered", "A Terminate is answered by FPDUs that were under way", "plain",
        (says(_FIRST, _SAID, _terminate(terminate_body(0, 2, 6))),), ("terminate",), _ENDS,
    ),
    Case(
        "terminate-then-rst", "A Terminate and a RST, as many stacks end a connection", "plain",
        (says(_FIRST, _SAID, _terminate(terminate_body(0, 2, 6))), answers(None), ends("rst")), ("terminate",), _ENDS,
    ),
)  # fmt: skip

CASES = (*_CUT, *_ENDS_OF_TCP, *_TERMINATES)
