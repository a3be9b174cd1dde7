"""Rules of RDMAP messages and of what they have to do with each other (RFC 5040, RFC 7306)."""

from __future__ import annotations

from scapy_mpa.rules.rule import Rule

RDMAP_RULES = (
    Rule(
        "rdmap-message-changes", "error", "MUST", None, "",
        "all DDP Segments of a message have the same opcode and the same Invalidate STag",
        "DDP passes on these fields from any one of them, so the receiver may take the message for a different one.",
        clause="RFC 5041 §4.3",
    ),
    Rule(
        "read-response-unasked", "error", "MUST", None, "",
        "an RDMA Read is one Request and one Response",
        "Nobody waits for these octets, and they are placed in memory that may have another use by now.",
        clause="RFC 5040 §5.2",
    ),
    Rule(
        "read-response-differs", "error", "MUST", None, "",
        "RDMA Reads are answered in order, each with the STag, TO and number of octets of its Request",
        "The requester completes its oldest Read with it: the octets are not those that it asked for, or are in the "
        "wrong place.",
        clause="RFC 5040 §5.2.2",
    ),
    Rule(
        "request-unanswered", "error", "MUST", None, "",
        "each valid RDMA Read and Atomic Request gets a Response",
        "The requester waits for a Response that never comes, and is not told.",
        clause="RFC 5040 §5.2.1",
    ),
    Rule(
        "atomic-response", "error", "MUST", None, "",
        "Atomic Requests are answered in order, each once, by its Request ID",
        "The requester cannot tell which operation was done, or which value was there before.",
        clause="RFC 7306 §5.2.2",
    ),
    Rule(
        "atomic-alignment", "error", "MUST", None, "",
        "the memory that an Atomic Request names is aligned to 64 bits",
        "The peer must not do it, and ends the stream. It is the address that has to be aligned; a capture shows TO, "
        "which is the address, or is added to the base of the buffer. TO is judged as if the base were aligned; the "
        "sender is right if the base of its peer's buffer makes up for TO.",
        clause="RFC 7306 §5.2.1",
    ),
    Rule(
        "atomic-opcode", "error", "MUST", None, "",
        "an Atomic Request is a FetchAdd (AOpCode 0) or a CmpSwap (2)",
        "The peer knows no other operation, and ends the stream.",
        clause="RFC 7306 §5.2.1",
    ),
    Rule(
        "immediate-length", "error", "MUST", None, "",
        "Immediate Data has exactly 8 octets",
        "The receiver checks it, and ends the stream.",
        clause="RFC 7306 §6.3",
    ),
    Rule(
        "stag-invalidated", "error", "MUST", None, "",
        "nothing is sent to an invalidated STag before its owner names it again",
        "The STag no longer names any memory. The receiver ends the stream.",
        clause="RFC 5041 §7.1",
    ),
)  # fmt: skip
