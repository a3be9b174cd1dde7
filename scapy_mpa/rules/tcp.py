"""Rules of TCP under MPA, and the attacks of RFC 5044 §9.1 as far as a capture shows them."""

from __future__ import annotations

from scapy_mpa.rules.rule import WITH_STARTUP, Rule

TCP_RULES = (
    Rule(
        "overlap", "warning", "MUST", None, "",
        "a retransmission brings the octets that were sent before",
        "Which of two versions the receiver took cannot be known. Either a segment was damaged, or someone wrote into "
        "the stream.",
        clause="RFC 9293 §3.7",
    ),
    Rule(
        "tcp-checksum", "note", "MUST", None, "",
        "the TCP checksum is right",
        "The real receiver dropped the segment, so its octets do not count; a retransmission may bring them.",
        clause="RFC 9293 §3.1",
    ),
    Rule(
        "crc-dropped", "note", "MAY", None, "",
        "the octets of an FPDU arrive as they were sent",
        "An FPDU had a bad CRC under a right TCP checksum. The receiver dropped the segment without a word, as it may, "
        "and TCP brought it again, so nothing is lost.",
        clause="RFC 5044 §8",
    ),
    Rule(
        "outside-window", "note", "MUST", None, "",
        "octets lie in the receive window",
        "A receiver drops what is outside. Many such segments are a broken sender, or someone who guesses at sequence "
        "numbers.",
        clause="RFC 9293 §3.10",
    ),
    Rule(
        "old-timestamp", "note", "MUST", None, "",
        "no segment is older, by its timestamp, than the octets taken before",
        "Its receiver drops it: it is a late duplicate, of an earlier connection perhaps.",
        clause="RFC 7323 §5.3",
    ),
    Rule(
        "late-duplicate", "note", "MUST", None, "",
        "no segment of an earlier connection on the same ports comes into this one",
        "Its sequence numbers lie outside the window, so its receiver drops it, and it belongs to nobody.",
        clause="RFC 9293 §3.4.3",
    ),
    Rule(
        "path-mtu", "note", "", None, "",
        "no router on the path drops a packet because it is too long",
        "Segments become smaller from there on: FPDUs that were made before are cut, those made later are smaller. A "
        "message that quotes no octet under way, or an MTU that no path has, was not sent by such a router.",
        clause="RFC 5044 §A.5.1",
    ),
    Rule(
        "attack-injection", "warning", "", None, "security",
        "all segments of a half connection come from its sender",
        "Octets that fit TCP but no FPDU, beside others at the same sequence numbers that do, were written into the "
        "stream. The connection is lost if they arrive first.",
    ),
    Rule(
        "tcp-refused", "note", "", None, "",
        "somebody listens where a SYN goes",
        "Nothing listens at that address and port, or something on the way does not let it through: the RST says so, "
        "and there is no connection that could carry MPA.",
        clause="RFC 9293 §3.10.7.1",
    ),
    Rule(
        "attack-reset", "note", "", None, "security",
        "who sends a RST sends nothing after it",
        "If data follows, or the RST lies outside the window, it came from someone else who meant the connection to "
        "end.",
    ),
    Rule(
        "attack-syn", "note", "", None, "security",
        "no SYN comes in the middle of a connection",
        "Nobody answered it, so nothing changes. Its sender may have lost its state, or somebody else meant the "
        "connection to end.",
    ),
    Rule(
        "attack-hijack", "note", "", None, "security",
        "the path of a half connection's segments does not change: TTL, or Hop Limit, stays",
        "A change may be a new route, or another machine that took over the stream.",
    ),
    Rule(
        "attack-buffer", "note", "", None, "security",
        "FPDUs target buffers that their receiver has offered",
        "A Terminate that names an invalid STag or an offset outside the buffer answers an error, or an attempt to "
        "reach memory that was not offered.",
    ),
    Rule(
        "attack-path-mtu", "note", "", None, "security",
        "segments do not become tiny in mid-connection",
        "A forged ICMP message can lower the path MTU so far that nothing but headers is sent.",
    ),
    Rule(
        "attack-unfinished-startup", "note", "", None, "security",
        "who opens connections completes the Request on some of them",
        "Each such connection holds resources of the Responder until it gives up waiting, so it has to have a timeout "
        "(RFC 5044 §7.1.2, rule 10). Many of one address come of an attacker, or of an Initiator that is broken.",
        profiles=WITH_STARTUP,
    ),
)  # fmt: skip
