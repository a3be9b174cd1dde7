"""Rules of receivers that a capture of conforming traffic never shows.

Only a peer of the implementation sees them: each names something to send, or to leave out, and what must happen then.
"""

from __future__ import annotations

from scapy_mpa.rules.rule import ENHANCED, WITH_STARTUP, Rule

ENDPOINT_RULES = (
    Rule(
        "receiver-crc", "error", "MUST", 2, "crc",
        "a receiver checks the CRC of each FPDU where CRCs are in use, and passes on no FPDU whose CRC is wrong",
        "Send an FPDU with a wrong CRC: neither its ULPDU nor any later FPDU may have an effect.",
        observable="endpoint",
    ),
    Rule(
        "receiver-crc-off", "error", "MUST NOT", None, "fpdu-format",
        "a receiver ignores the CRC field where CRCs are not in use",
        "Agree on no CRCs (C set by neither side), then send FPDUs with any value in the field: all must be accepted.",
        observable="endpoint", profiles=WITH_STARTUP,
    ),
    Rule(
        "receiver-pad", "error", "MUST", None, "fpdu-format",
        "a receiver ignores PAD, except in the CRC",
        "Send an FPDU with PAD that is not zero and a CRC that covers it: it must be accepted.",
        observable="endpoint",
    ),
    Rule(
        "receiver-marker-reserved", "error", "MUST", None, "marker-format",
        "a receiver ignores RESERVED in a Marker, except in the CRC",
        "Send Markers whose RESERVED is not zero: their FPDUs must be accepted.",
        observable="endpoint",
    ),
    Rule(
        "receiver-fpduptr-low-bits", "error", "MUST", None, "marker-format",
        "a receiver treats the lowest two bits of FPDUPTR as zero",
        "Send Markers with these bits set: their FPDUs must be accepted.",
        observable="endpoint",
    ),
    Rule(
        "receiver-marker-length", "warning", "SHOULD", 3, "errors",
        "a receiver that uses Markers detects one that disagrees with the chain of lengths",
        "Send a Marker that points elsewhere: the receiver should report code 3 and pass on nothing more.",
        observable="endpoint",
    ),
    Rule(
        "receiver-alignment", "error", "MUST NOT", None, "receiver",
        "a receiver finds FPDUs regardless of segment boundaries",
        "Send FPDUs cut at every octet, and several in one segment: all must be accepted.",
        observable="endpoint",
    ),
    Rule(
        "receiver-whole-fpdu", "error", "MUST", None, "receiver",
        "a receiver passes on no part of an FPDU before all of it has arrived",
        "Send an FPDU without its last octets, and wait: it must have no effect yet.",
        observable="endpoint",
    ),
    Rule(
        "receiver-after-error", "error", "MUST NOT", None, "errors",
        "a receiver passes on nothing after the first error in a half connection",
        "Send good FPDUs after a bad one: none of them must have an effect.",
        observable="endpoint",
    ),
    Rule(
        "receiver-reserved-bits", "error", "MUST NOT", None, "startup-frame",
        "a receiver ignores the reserved bits of a startup frame",
        "Send a Request with each of them set: it must be answered as if they were zero.",
        observable="endpoint", profiles=WITH_STARTUP,
    ),
    Rule(
        "receiver-startup-frame", "error", "MUST", 4, "startup-rules",
        "a receiver closes the connection when a startup frame is not valid",
        "Send a wrong Key, a PD_Length above the limit, a second Request: the connection must be closed each time.",
        observable="endpoint", profiles=WITH_STARTUP,
    ),
    Rule(
        "receiver-revision", "error", "MUST", 4, "startup-frame",
        "a receiver checks Rev and closes the connection if it cannot work with it",
        "Send a Request of each Rev: each must lead to a working connection, or to a close.",
        observable="endpoint", profiles=WITH_STARTUP,
    ),
    Rule(
        "receiver-revision-1", "error", "MUST", None, "interoperability",
        "a Responder that knows Rev 2 also accepts plain Requests of Rev 1",
        "Send it a plain Request of Rev 1: it must answer with a plain Reply.",
        observable="endpoint", profiles=ENHANCED,
    ),
    Rule(
        "receiver-control-flags", "error", "MUST", None, "peer-to-peer",
        "a receiver ignores Control Flags B, C and D where A is zero",
        "Set them without setting A: the connection must work as if they were not set.",
        observable="endpoint", profiles=ENHANCED,
    ),
    # --- DDP and RDMAP (RFC 5040, RFC 5041) ---
    Rule(
        "receiver-ddp-reserved", "error", "MUST", None, "",
        "a receiver ignores the reserved bits of DDP and RDMAP, and an Invalidate STag where nothing is invalidated",
        "Send FPDUs with each of them set: they must be accepted. Those of RDMAP are in RFC 5040 §4.1.",
        clause="RFC 5041 §4.1", observable="endpoint",
    ),
    Rule(
        "receiver-ddp-tagged", "error", "MUST", None, "",
        "a receiver ends the stream at a tagged DDP Segment whose STag, TO or DV is not valid, and reports it in a "
        "Terminate",
        "Send one of each kind: a Terminate must name the error, and nothing from there on may have an effect.",
        clause="RFC 5041 §7.1", observable="endpoint",
    ),
    Rule(
        "receiver-ddp-untagged", "error", "MUST", None, "",
        "a receiver ends the stream at an untagged DDP Segment whose QN, MSN, MO or DV is not valid, and reports it "
        "in a Terminate",
        "Send one of each kind: a Terminate must name the error, and nothing from there on may have an effect.",
        clause="RFC 5041 §7.1", observable="endpoint",
    ),
    Rule(
        "receiver-zero-length", "error", "MUST NOT", None, "",
        "a receiver does not check STag and TO of an RDMA Write or an RDMA Read of 0 octets",
        "Send both with an STag and a TO that belong to no buffer: the Write must be accepted, and the Read answered.",
        clause="RFC 5041 §5.2", observable="endpoint",
    ),
    Rule(
        "receiver-delivery", "error", "MUST", None, "",
        "a receiver acts on a message only when all of it, and every message before it, has arrived",
        "Leave out an MSN: a Read Request after it must not be answered.",
        clause="RFC 5041 §5.4", observable="endpoint",
    ),
    Rule(
        "receiver-rdmap", "error", "MUST", None, "",
        "a receiver ends the stream at an RDMAP message that is not valid, and reports it in a Terminate",
        "Send unknown opcodes, other versions, and requests for memory that it has not offered: a Terminate must name "
        "the error, and nothing from there on may have an effect.",
        clause="RFC 5040 §7.2", observable="endpoint",
    ),
)  # fmt: skip
