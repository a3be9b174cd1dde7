"""The requirements of RFC 5042 (security of DDP and RDMAP)."""

from __future__ import annotations

from scapy_mpa.rules.requirements.row import Sections, seen, unseen

RFC_5042: Sections = {
    "3": (
        unseen("MUST", "ULPs affect each other only through the resource manager", "host"),
        unseen("MUST", "it allocates what is scarce", "host"),
        unseen("MUST NOT", "it does not take trust between streams for granted", "host"),
    ),
    "5.4.2": (unseen("RECOMMENDED", "TLS is not used over DDP", "ulp"),),
    "5.4.5": (
        unseen("MUST", "the rules of RFC 3723 hold", "ipsec"),
        unseen("MUST NOT", "a deleted security association does not end the stream", "ipsec"),
    ),
    "6.1.1": (
        unseen("MUST", "each stream has a Protection Domain of its own where STags are not shared", "host"),
        unseen("MUST", "otherwise, each STag is limited to one stream", "host"),
        unseen("MUST", "an STag is useless in another Protection Domain", "host"),
        unseen("MUST", "an STag that is limited to one stream is useless on another", "host"),
    ),
    "6.2.1": (
        seen("MUST", "a peer reaches no memory outside the buffer of an STag", "memory-bounds", "receiver-rdmap",
             "receiver-ddp-tagged"),
    ),
    "6.2.2": (
        unseen("SHOULD", "a buffer is used only when no peer can change it any more", "ulp"),
        seen("MUST", "a buffer cannot be changed once the right is revoked", "memory-life", "receiver-ddp-tagged"),
    ),
    "6.3.2": (unseen("SHOULD", "a buffer that can be read holds no leftover data", "ulp"),),
    "6.3.3": (unseen("SHOULD", "a buffer can be read only as long as needed", "degree"),),
    "6.3.4": (unseen("SHOULD", "an STag covers no more than what is to be read", "ulp"),),
    "6.3.5": (unseen("MUST", "a buffer for Writes cannot be read", "ulp"),),
    "6.3.6": (unseen("MUST NOT", "peers without trust get no STags to write the same buffer", "host"),),
    "6.4.1": (unseen("MUST", "the resource manager allocates what is scarce", "host"),),
    "6.4.3.1": (unseen("MUST", "a stream that takes too many of the shared receive buffers is detected", "host"),),
    "6.4.3.2": (
        unseen("MUST", "the resource manager controls the entries of completion queues", "host"),
        unseen("MUST", "a completion queue of streams without trust does not overflow", "host"),
    ),
    "6.4.3.3": (
        unseen("MUST", "streams without trust share no queue of Read Requests", "host"),
        unseen("SHOULD", "the number of outstanding Reads can be limited", "capability"),
    ),
    "6.4.5": (unseen("MUST NOT", "streams without trust share no STag", "host"),),
    "6.4.6": (
        unseen("MUST", "an overflow of a completion queue does not affect others", "host"),
        unseen("MUST", "no stream that does not use it is affected", "host"),
    ),
    "7.1": (unseen("MUST NOT", "ULPs that do not trust each other share no completion queue", "host"),),
    "7.2": (
        unseen("MUST", "only a trusted party allocates the queue of Read Requests", "host"),
        unseen("SHOULD", "nobody gets more than a fair share", "host"),
    ),
    "7.3": (unseen("MUST", "a ULP gets STags only for memory that it may use", "host"),),
    "A": (
        unseen("SHOULD", "for servers, what a ULP ought to do", "permission"),
        unseen("MUST", "can be what it has to do", "permission"),
        unseen("SHOULD", "where nothing speaks against it", "permission"),
        unseen("SHOULD", "what was weaker before", "permission"),
        unseen("MUST", "is marked where it is stronger here", "permission"),
        unseen("MUST", "a buffer is used only when no client can change it any more", "ulp"),
        unseen("SHOULD", "which §6.2.2 says less strictly", "ulp"),
        unseen("MUST", "a buffer that can be read holds no leftover data", "ulp"),
        unseen("SHOULD", "which §6.3.2 says less strictly", "ulp"),
        unseen("MUST NOT", "ULPs without trust share no queue of Read Requests", "host"),
    ),
}  # fmt: skip
