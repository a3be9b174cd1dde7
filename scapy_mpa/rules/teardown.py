"""Rules of the end of a connection: FIN, RST, Terminate."""

from __future__ import annotations

from scapy_mpa.rules.rule import Rule

TEARDOWN_RULES = (
    Rule(
        "connection-lost", "error", "MUST", 1, "errors",
        "a half connection ends at the end of an FPDU, with everything acknowledged",
        "An unfinished FPDU is lost: the receiver drops the octets that it has and reports code 1. Octets that were "
        "retransmitted while the peer no longer answered are lost, too: too many retries also mean a lost connection.",
    ),
    Rule(
        "teardown-unacknowledged", "warning", "", None, "teardown",
        "all octets that were sent are acknowledged before a RST ends the connection",
        "Unacknowledged octets may never have reached the upper layer: the connection ended before its work was done.",
    ),
    Rule(
        "teardown-reset", "note", "", None, "teardown",
        "a half connection ends by FIN",
        "A RST discards what its receiver had not yet read. Some stacks always end connections this way.",
    ),
    Rule(
        "terminate", "warning", "", None, "",
        "no error that ends the RDMAP stream",
        "A Terminate names the layer, the type and the code of an error that its sender found in what it received.",
        clause="RFC 5040 §4.8",
    ),
    Rule(
        "terminate-layout", "warning", "MUST", None, "",
        "the Terminate control word is laid out from the most significant bit, and is followed by what M, D and R "
        "announce",
        "Laid out the other way round, layer and type change places, and the receiver reports a different error from "
        "the one that was found. If the bits do not fit what follows, it reads other octets as headers.",
        clause="RFC 5040 §4.8",
    ),
    Rule(
        "terminate-headers", "note", "SHOULD", None, "",
        "M, D and R of a Terminate are set as figure 10 has them",
        "Its receiver does not look for a header that this error should not have, and misses the one by which it "
        "would find the faulty message.",
        clause="RFC 5040 §4.8",
    ),
    Rule(
        "terminate-reserved", "warning", "MUST", None, "",
        "the 13 reserved bits of the Terminate control word are zero",
        "Receivers ignore them.",
        clause="RFC 5040 §4.8",
    ),
    Rule(
        "terminate-quote", "warning", "MUST", None, "",
        "the DDP header that a Terminate quotes is one that its receiver sent",
        "Its receiver looks there for the faulty message, and blames the wrong one or finds none. This is reported "
        "only if everything that this receiver sent was captured.",
        clause="RFC 5040 §4.8",
    ),
    Rule(
        "terminate-length", "warning", "MUST", None, "",
        "the DDP Segment Length that a Terminate quotes is that of the segment whose header it quotes",
        "Its receiver is told a length that its message never had. The length of the payload alone, as siw quotes it, "
        "and that of the whole FPDU are accepted.",
        clause="RFC 5040 §4.8",
    ),
    Rule(
        "terminate-last", "warning", "MUST NOT", None, "",
        "nothing follows a Terminate in its half connection",
        "Its receiver has given up the stream and drops what follows.",
        clause="RFC 5040 §5.4",
    ),
    Rule(
        "terminate-code", "warning", "MUST", None, "",
        "a Terminate has a layer, an error type and an error code that are defined; after a failed negotiation, layer "
        "2, type 0 and code 5, 6 or 7",
        "Other numbers do not tell its receiver what is wrong. After a failed negotiation (RFC 6581 §8), the code "
        "tells the Responder what to offer next time: more IRD, or another type of RTR message.",
        clause="RFC 5040 §4.8",
    ),
)  # fmt: skip
