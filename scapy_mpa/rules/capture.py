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
        "esp", "note", "", None, "",
        "the keys of what travels under ESP are given",
        "Without them, whatever MPA there is under ESP is not seen. --esp names a file of security associations.",
        clause="RFC 5044 §9.3",
    ),
    Rule(
        "esp-sa", "note", "", None, "",
        "there is a security association for each ESP packet",
        "No key that was given is for its addresses and SPI, so the packet is not looked into.",
        clause="RFC 4303 §3.4.2",
    ),
    Rule(
        "esp-integrity", "warning", "", None, "",
        "the Integrity Check Value of an ESP packet is right",
        "The key is wrong, or the packet was changed on its way. A receiver drops it, and so does the analysis.",
        clause="RFC 4303 §3.4.4.1",
    ),
    Rule(
        "esp-payload", "warning", "", None, "",
        "an ESP packet holds what its algorithm and its padding say, and is captured whole",
        "The key or the algorithm is wrong, or the capture cut the packet: there is no more to be seen of it.",
        clause="RFC 4303 §2.4",
    ),
    Rule(
        "esp-replay", "note", "", None, "",
        "the sequence number of an ESP packet was not there before",
        "A receiver drops what comes twice, and so does the analysis. A capture may also hold a packet twice.",
        clause="RFC 4303 §3.4.3",
    ),
    Rule(
        "capture-twice", "note", "", None, "",
        "a packet is in one of the captures",
        "Two captures of one tap hold each packet twice. Packets that are the same, octet for octet and at the same "
        "time, count once; what one capture lost is taken from the other. Nothing has to be done.",
    ),
    Rule(
        "capture-taps", "note", "", None, "",
        "captures are of one place in the network",
        "Each packet that passed two taps is there twice, and the second one looks like a retransmission. Analyse one "
        "of the captures; scapy-mpa compare sets two side by side.",
    ),
    Rule(
        "assumption", "note", "", None, "",
        "what --assume and --profile say of a connection fits the capture",
        "A start of Full Operation that --assume names, and that is not in the capture, changes nothing.",
    ),
    Rule(
        "limit", "note", "", None, "",
        "what is held back stays within the limits of the analysis (--limit NAME=NUMBER sets another)",
        "The limits keep a hostile capture from taking all memory. Where one bit, something of the capture was not "
        "looked at; the finding names it.",
    ),
)  # fmt: skip
