"""Rules that judge the capture, not the peers: what it lacks, and what was not looked at."""

from __future__ import annotations

from scapy_mpa.rules.rule import Rule

CAPTURE_RULES = (
    Rule(
        "gap", "warning", "", None, "",
        "every octet of the half connection is captured",
        "What lies in the gap is unknown, and FPDUs behind it are found only by a Marker or by searching.",
        clause="RFC 9293 §3.4",
    ),
    Rule(
        "capture-gap", "note", "", None, "",
        "every octet that the peer has acknowledged is captured",
        "The peer received it, so the capture lost it, not the network.",
        clause="RFC 9293 §3.4",
    ),
    Rule(
        "capture-cut", "note", "", None, "",
        "packets are captured whole",
        "A snap length cut them. What is behind the cut counts as never captured.",
    ),
    Rule(
        "ip-fragments", "note", "", None, "",
        "the fragments of an IP datagram do not overlap",
        "A datagram whose fragments overlap is dropped, as receivers do, since it may mean one thing to a filter and "
        "another to a host.",
        clause="RFC 8200 §4.5",
    ),
    Rule(
        "link-type", "note", "", None, "",
        "packets are of a link type that is read",
        "The others are not looked into.",
    ),
    Rule(
        "assumption", "note", "", None, "",
        "what is told of a connection fits the capture",
        "A sequence number that was told as the start of Full Operation, and is not in the capture, changes nothing.",
    ),
    Rule(
        "limit", "note", "", None, "",
        "what is held back stays within the limits of the analysis (--limit NAME=NUMBER sets another)",
        "The limits keep a hostile capture from taking all memory. Where one bit, something of the capture was not "
        "looked at; the finding names it.",
    ),
)  # fmt: skip
