"""Rules of DDP Segments, and of RDMAP's control octet and Read Requests (RFC 5041, RFC 5040)."""

from __future__ import annotations

from scapy_mpa.rules.rule import Rule

DDP_RULES = (
    Rule(
        "ddp-header", "warning", "MUST", None, "",
        "a ULPDU is long enough for its DDP header: 14 octets if tagged, 18 if not",
        "Anything shorter is not a DDP Segment. The length, or the place where it was read, is wrong.",
        clause="RFC 5041 §4.4",
    ),
    Rule(
        "ddp-version", "error", "MUST", None, "",
        "all DDP Segments of a half connection have the same DDP version, and RDMAP's is the same as DDP's",
        "A version that changes in mid-stream suggests that these octets are not DDP headers.",
        clause="RFC 5041 §4.1",
    ),
    Rule(
        "ddp-opcode", "error", "MUST", None, "",
        "the opcode is one that RDMAP defines, and T is right for its message",
        "A receiver ends the stream at a message it does not know.",
        clause="RFC 5040 §4.1",
    ),
    Rule(
        "ddp-queue", "error", "MUST", None, "",
        "an untagged message goes to the queue of its opcode: Sends to 0, requests to 1, Terminate to 2, Atomic "
        "Responses to 3",
        "Another queue has no buffer for it, so the receiver ends the stream.",
        clause="RFC 5040 §4.1",
    ),
    Rule(
        "ddp-msn", "error", "MUST", None, "",
        "MSN counts the messages of each queue from 1, without a gap",
        "The receiver picks buffers by MSN, and ends the stream or waits for the missing message. Some "
        "user-space stacks count across queues, which works only among themselves.",
        clause="RFC 5041 §4.3",
    ),
    Rule(
        "ddp-mo", "error", "MUST", None, "",
        "MO is the offset of a DDP Segment in its message, in network byte order",
        "The receiver writes the payload there, or ends the stream. Some user-space stacks send it in host order.",
        clause="RFC 5041 §5.2",
    ),
    Rule(
        "ddp-last", "warning", "MUST", None, "",
        "L is set in the last DDP Segment of a message and in no other",
        "Delivery depends on L: without it, a message is never complete; with L too early, it is too short.",
        clause="RFC 5041 §4.1",
    ),
    Rule(
        "ddp-unfinished", "error", "MUST", None, "",
        "a message has all of its DDP Segments, up to the one with L, before its sender closes",
        "The Segments that arrived were placed, and are never delivered.",
        clause="RFC 5041 §5.2",
    ),
    Rule(
        "ddp-to-wraps", "error", "MUST", None, "",
        "TO plus the length of a tagged DDP Segment does not exceed 2^64",
        "No buffer holds these octets. The receiver places none of them and ends the stream.",
        clause="RFC 5041 §7.1",
    ),
    Rule(
        "ddp-reserved", "note", "MUST", None, "",
        "the reserved bits of the DDP and RDMAP control fields are zero, and so is the Invalidate STag of a message "
        "that invalidates none",
        "Receivers check neither these bits nor the Invalidate STag (RFC 5040 §4.1), in which some stacks leave old "
        "octets. If bits are set in many FPDUs, the octets are probably not DDP headers.",
        clause="RFC 5041 §4.1",
    ),
    Rule(
        "rdmap-read-request", "note", "MUST", None, "",
        "an RDMA Read Request has a body of 28 octets, its integers in network byte order",
        "The peer reads STags, offsets and the length from it. Some user-space stacks send 32 octets, or host order.",
        clause="RFC 5040 §4.4",
    ),
)  # fmt: skip
