"""The requirements of RFC 6581."""

from __future__ import annotations

from scapy_mpa.rules.requirements.row import Sections, seen, unseen

RFC_6581: Sections = {
    "5": (seen("MUST NOT", "nothing of the Initiator comes before its RTR message", "rtr"),),
    "6": (
        seen("MUST", "Res is sent as zero, as in RFC 5044", "startup-reserved-bits"),
        seen("MUST NOT", "Res is not checked", "receiver-reserved-bits"),
        seen("MUST", "an enhanced startup frame has Rev 2 or above", "startup-enhanced-revision"),
        seen("MUST", "a Responder also accepts Requests of Rev 1", "receiver-revision-1"),
        seen("MUST", "with S, Private Data begins with the enhanced data", "startup-enhanced-data"),
    ),
    "7": (
        unseen("MUST", "the function code of an enhanced rejection", "sctp"),
        unseen("MUST", "enhanced session messages have Private Data", "sctp"),
        unseen("MUST", "Private Data follows the enhanced data", "sctp"),
        unseen("MUST NOT", "Private Data is at most 512 octets", "sctp"),
        unseen("MUST NOT", "there is none in a TERM message", "sctp"),
        unseen("SHOULD", "session messages are reported to the ULP", "sctp"),
        unseen("MUST", "they are reported with their Private Data", "sctp"),
        unseen("MUST", "a stream is ended by the plain function code", "sctp"),
    ),
    "9": (seen("MUST", "the enhanced data is in network byte order, depths in 14 bits", "ird-ord-byte-order"),),
    "9.1": (
        unseen("MUST", "the peer's IRD and ORD are passed to the ULP", "interface"),
        seen("SHOULD", "the Responder's ORD is at most the Initiator's IRD", "ird-ord-responder-ord"),
        seen("MUST", "the Responder's ORD is at most the Initiator's IRD", "ird-ord-responder-ord", "ird-ord-exceeded"),
        seen("MUST", "a Responder without resources ends with a Terminate of code 6", "terminate-code"),
        seen(
            "MUST", "the Initiator brings its IRD up to the Responder's ORD, its ORD down to the Responder's IRD",
            "ird-ord-exceeded",
        ),
        unseen("MUST", "an Initiator that lacks the resources for it ends with a Terminate", "internal"),
        seen("MUST", "that Terminate has code 6", "terminate-code"),
        unseen("MUST", "the Responder's IRD and ORD are passed to the ULP", "interface"),
        seen("MUST", "ORD 0x3FFF is answered by IRD 0x3FFF", "ird-ord-not-negotiated"),
        unseen("MUST", "IRD 0x3FFF in a Reply leaves the Initiator's ORD as it is", "internal"),
        seen("MUST", "IRD 0x3FFF is answered by ORD 0x3FFF", "ird-ord-not-negotiated"),
        unseen("MUST", "ORD 0x3FFF in a Reply leaves the Initiator's IRD as it is", "internal"),
    ),
    "9.2": (
        seen("MUST", "A is 1 for the peer-to-peer model", "rtr", "enhanced-connection-model"),
        seen("MUST", "the Initiator sets each type of RTR message that it supports", "rtr-none-offered"),
        unseen("MUST", "a Responder supports at least one type", "capability"),
        seen("MUST", "A in the Request is answered by A", "enhanced-connection-model"),
        unseen("SHOULD", "the Responder sets each of the Initiator's types that it supports", "capability"),
        seen("MUST", "at least one if it supports several of them", "rtr-none"),
        seen("MUST", "one of its own if it supports none of them", "rtr-none"),
        seen("MUST", "the Initiator sends one of the types agreed on", "rtr"),
        seen("MUST", "it ends with a Terminate if it cannot", "rtr-not-closed"),
        seen("MUST", "that Terminate has code 7", "terminate-code", "rtr-not-closed"),
        unseen("MUST", "A is 0 for the client-server model", "ulp"),
        seen("MUST", "A 0 in the Request is answered by A 0", "enhanced-connection-model"),
        seen("MUST", "B, C and D are 0 where A is", "enhanced-control-flags"),
        seen("MUST", "B, C and D are ignored where A is 0", "receiver-control-flags"),
    ),
    "9.3": (seen("MUST", "a local error without a code of its own ends with a Terminate of code 5", "terminate-code"),),
    "10": (
        seen("REQUIRED", "an enhanced Responder answers an enhanced Request by an enhanced Reply", "enhanced-reply"),
        seen("REQUIRED", "every Responder answers a plain Request by a plain Reply", "enhanced-reply"),
        seen("MUST NOT", "a Request that asks for nothing enhanced is not enhanced", "enhanced-unused"),
        seen("MUST", "a Responder accepts plain Requests", "receiver-revision-1"),
        seen("MUST", "it answers an enhanced Request by an enhanced Reply", "enhanced-reply"),
        seen("MUST", "it answers a plain Request by a plain Reply", "enhanced-reply"),
        seen("MUST", "a Responder without RFC 6581 closes the connection on an enhanced Request", "enhanced-reply"),
    ),
}  # fmt: skip
