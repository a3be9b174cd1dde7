"""Rules of what startup frames agree on: RFC 5044 appendix C, RFC 6581 §6, §9 and §10."""

from __future__ import annotations

from scapy_mpa.rules.rule import ENHANCED, WITH_STARTUP, Rule

NEGOTIATION_RULES = (
    # --- kinds of RNIC (RFC 5044 appendix C, figures 14 to 17) ---
    Rule(
        "rnic-parameters", "note", "", None, "rnic-kinds",
        "Rev 0 comes with M and C set, as every RDMA Consortium card sends it",
        "Rev 0 without them matches no kind of RNIC in RFC 5044. An implementation of the drafts may send it.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "rnic-foreign-revision", "note", "", None, "rnic-negotiation",
        "Rev 0 and a later Rev meet only if one side can follow the other's revision",
        "A permissive IETF RNIC adapts. A non-permissive one answers with its own Rev and then closes, which is the "
        "fault of neither side.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "rnic-version", "error", "MUST", None, "rnic-kinds",
        "the DDP and the RDMAP version are those that the startup frames agree on: 0 with Rev 0, 1 with a later Rev",
        "A peer of the other version discards the DDP Segment and ends the stream.",
    ),
    Rule(
        "rnic-version-mixed", "error", "MUST", None, "rnic-kinds",
        "both directions have the same DDP and RDMAP version",
        "An endpoint sends the version it expects, so if the versions differ, one side accepts nothing from the other.",
    ),
    # --- enhanced connection establishment (RFC 6581 §10) ---
    Rule(
        "enhanced-reply", "error", "MUST", None, "interoperability",
        "an enhanced Request gets an enhanced Reply, and a plain one gets a plain Reply",
        "An Initiator that asked for IRD and ORD finds none in a plain Reply; one that did not ask takes them for "
        "Private Data of the ULP.",
        profiles=ENHANCED,
    ),
    Rule(
        "enhanced-unused", "note", "MUST NOT", None, "interoperability",
        "a Request is enhanced only if something enhanced is asked for",
        "An enhanced Request that asks for nothing has no benefit, and peers that know only RFC 5044 refuse it.",
        profiles=ENHANCED,
    ),
    Rule(
        "enhanced-connection-model", "error", "MUST", 7, "peer-to-peer",
        "Control Flag A is the same in the Request and the Reply",
        "A names the connection model. If the two differ, one side waits for a ready-to-receive message that the "
        "other never sends.",
        profiles=ENHANCED,
    ),
    Rule(
        "enhanced-control-flags", "warning", "MUST", None, "peer-to-peer",
        "Control Flags B, C and D are zero where A is",
        "Without A they are ignored.",
        profiles=ENHANCED,
    ),
    # --- the ready-to-receive message (RFC 6581 §9.2) ---
    Rule(
        "rtr-none-offered", "note", "MUST", 7, "peer-to-peer",
        "a Request with Control Flag A sets the flag of each type of RTR message that the Initiator can send",
        "If it sets none, no Reply can have a type in common with it, and the connection ends with code 7.",
        profiles=ENHANCED,
    ),
    Rule(
        "rtr-none", "error", "MUST", None, "peer-to-peer",
        "a Reply with Control Flag A sets the flag of at least one type of RTR message",
        "The Initiator picks its first FPDU from these types; if there is none, it must end the connection.",
        profiles=ENHANCED,
    ),
    Rule(
        "rtr", "error", "MUST", None, "peer-to-peer",
        "the Initiator's first FPDU is an RTR message of a type that both sides set",
        "The Responder may not send before the RTR message. If none comes, the Responder waits forever, or takes a "
        "message of the ULP for the RTR message.",
        profiles=ENHANCED,
    ),
    Rule(
        "rtr-not-closed", "error", "MUST", 7, "peer-to-peer",
        "without a type of RTR message in common, the Initiator sends a Terminate with code 7 and no other FPDU",
        "The two have no way to begin: the Responder cannot tell that its peer is ready.",
        profiles=ENHANCED,
    ),
    # --- IRD and ORD (RFC 6581 §9.1) ---
    Rule(
        "ird-ord-responder-ord", "error", "MUST", 6, "ird-ord",
        "ORD in the Reply is at most IRD in the Request",
        "The Responder could have more RDMA Reads outstanding than the Initiator has room for.",
        profiles=ENHANCED,
    ),
    Rule(
        "ird-ord-responder-ird", "note", "", None, "ird-ord",
        "IRD in the Reply is at least ORD in the Request",
        "The Initiator lowers its ORD to this IRD. This is correct, but it will have fewer RDMA Reads outstanding "
        "than it asked for.",
        profiles=ENHANCED,
    ),
    Rule(
        "ird-ord-not-negotiated", "warning", "MUST", None, "ird-ord",
        "0x3FFF in the Request is answered by 0x3FFF",
        "The value 0x3FFF leaves the depth to the ULP; an Initiator that sent it ignores what the Reply says instead.",
        profiles=ENHANCED,
    ),
    Rule(
        "ird-ord-exceeded", "warning", "MUST", None, "ird-ord",
        "an endpoint has no more RDMA Reads and Atomics outstanding than its ORD after negotiation",
        "The peer reserved resources for that many and no more; it may end the stream at the next one.",
        profiles=ENHANCED,
    ),
    Rule(
        "ird-ord-byte-order", "note", "MUST", None, "enhanced",
        "IRD and ORD are sent in network byte order",
        "In the other byte order a depth of 1 reads as 256, and the Control Flags are in the wrong octet.",
        profiles=ENHANCED,
    ),
    Rule(
        "rtr-read-depth", "note", "", None, "ird-ord",
        "where an RTR Read is agreed on, IRD in the Reply is at least 1",
        "Otherwise the Responder has no room for the very message that opens the connection.",
        profiles=ENHANCED,
    ),
)  # fmt: skip
