"""Rules of named memory (RFC 5040, RFC 5041): its bounds, its life, and octets that may be read too early."""

from __future__ import annotations

from scapy_mpa.rules.rule import Rule

MEMORY_RULES = (
    Rule(
        "memory-bounds", "error", "MUST", None, "",
        "an RDMA Write, Read Request or Read Response stays inside the range of memory that its peer named for it",
        "A receiver that registered only this range ends the stream; one that registered more has other memory "
        "overwritten or read.",
        clause="RFC 5041 §7.1",
    ),
    Rule(
        "memory-life", "error", "MUST", None, "",
        "memory is written and read after its owner named it, and before it is invalidated or its call is answered",
        "The owner may be using the memory for something else, which is then overwritten or read.",
        clause="RFC 5041 §4.2",
    ),
    Rule(
        "placement-overlap", "note", "MAY", None, "",
        "no RDMA Write overlaps an earlier one, unless a Send was sent between them",
        "It is undefined which of them remains in memory, and from when: the contents are indeterminate until a Send "
        "is delivered.",
        clause="RFC 5040 §5.5",
    ),
    Rule(
        "placement-early", "note", "MAY", None, "",
        "nobody relies on the last octet of an RDMA Write or Read Response being placed last",
        "Segments are placed in any order. A program that polls the last octet instead of waiting for delivery reads "
        "stale data before it.",
        clause="RFC 5040 §5.5",
    ),
)  # fmt: skip
