"""Rules that judge the capture, not the peers: what it lacks, and what was not examined."""

from __future__ import annotations

from scapy_mpa.rules.rule import Rule

CAPTURE_RULES = (
    Rule(
        "gap", "warning", "", None, "",
        "every octet of the half connection is captured",
        "The contents of the gap are unknown, and the FPDUs after it can be found only by a Marker or by searching.",
        clause="RFC 9293 §3.4",
    ),
    Rule(
        "capture-gap", "note", "", None, "",
        "every octet that the peer has acknowledged is captured",
        "The peer received the octets, so it was the capture that lost them, not the network.",
        clause="RFC 9293 §3.4",
    ),
    Rule(
        "capture-cut", "note", "", None, "",
        "packets are captured in full",
        "A snap length cut them. FPDUs whose ULPDU_Length was captured are placed and delivered as if complete, with "
        "crc cut.",
    ),
    Rule(
        "ip-fragments", "note", "", None, "",
        "the fragments of an IP datagram do not overlap",
        "The analysis leaves out a datagram whose fragments overlap, since it may mean one thing to a filter and "
        "another to a host. An IPv6 receiver drops it; an IPv4 receiver may reassemble it with the octets that came "
        "last (RFC 791 §3.2).",
        clause="RFC 8200 §4.5",
    ),
    Rule(
        "ip-fragmented", "note", "", None, "",
        "IP does not fragment the segments of a connection",
        "Most senders set Don't Fragment. A receiver may drop fragments, and it needs a separate buffer to reassemble "
        "them, which no acknowledgement controls.",
        clause="RFC 5044 §A.5.1",
    ),
    Rule(
        "link-type", "note", "", None, "",
        "packets are of a supported link type",
        "Other packets are not examined.",
    ),
    Rule(
        "startup-in-data", "note", "", None, "",
        "a Key begins nothing but a startup frame",
        "A file or a message holds octets that begin like a startup frame. Nobody answers them, and no MPA follows, "
        "so the connection is not taken for an MPA connection.",
        clause="RFC 5044 §7.1.1",
    ),
    Rule(
        "not-read", "note", "", None, "",
        "packets are in encapsulations that the analysis can read",
        "These packets may carry TCP, and MPA: the analysis cannot tell. --decode names the UDP ports of VXLAN, "
        "VXLAN-GPE and Geneve; docs/captures.md lists what is read.",
    ),
    Rule(
        "esp", "note", "", None, "",
        "the keys of all ESP traffic are given",
        "Without them, MPA under ESP cannot be seen. --esp names a file of security associations.",
        clause="RFC 5044 §9.3",
    ),
    Rule(
        "esp-sa", "note", "", None, "",
        "there is a security association for each ESP packet",
        "None of the given keys matches its addresses and SPI, so the packet is not examined.",
        clause="RFC 4303 §3.4.2",
    ),
    Rule(
        "esp-integrity", "warning", "", None, "",
        "the Integrity Check Value of an ESP packet is right",
        "The key is wrong, or the packet was changed on the way. A receiver drops it, and so does the analysis.",
        clause="RFC 4303 §3.4.4.1",
    ),
    Rule(
        "esp-payload", "warning", "", None, "",
        "an ESP packet is consistent with its algorithm and its padding, and is captured in full",
        "The key or the algorithm is wrong, or the capture cut the packet: the rest of it cannot be read.",
        clause="RFC 4303 §2.4",
    ),
    Rule(
        "esp-replay", "note", "", None, "",
        "the sequence number of an ESP packet has not been used before",
        "A receiver drops a packet that arrives a second time, and so does the analysis. Or the capture merely holds "
        "the packet twice.",
        clause="RFC 4303 §3.4.3",
    ),
    Rule(
        "capture-twice", "note", "", None, "",
        "each packet was captured once",
        "Two captures at one tap hold each packet twice. So does a single capture of all interfaces of a host, or of "
        "a mirror of both incoming and outgoing traffic. Copies count once; packets that one of two captures lost are "
        "taken from the other. No action is needed.",
    ),
    Rule(
        "capture-taps", "note", "", None, "",
        "all captures were made at one place in the network",
        "Each packet that passed two taps is captured twice, and the second copy looks like a retransmission. Analyse "
        "one of the captures alone; scapy-mpa compare compares two of them.",
    ),
    Rule(
        "assumption", "note", "", None, "",
        "what --assume and --profile say about a connection fits the capture",
        "A start of Full Operation that --assume gives has no effect if it is not in the capture.",
    ),
    Rule(
        "limit", "note", "", None, "",
        "what is held back stays within the limits of the analysis (--limit NAME=NUMBER changes one)",
        "The limits keep a hostile capture from using all memory. Where a limit was reached, part of the capture was "
        "not examined; the finding names it.",
    ),
)  # fmt: skip
