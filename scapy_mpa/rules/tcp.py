"""Rules of TCP under MPA, and the attacks of RFC 5044 §9.1 as far as a capture shows them."""

from __future__ import annotations

from scapy_mpa.rules.rule import WITH_STARTUP, Rule

TCP_RULES = (
    Rule(
        "overlap", "warning", "MUST", None, "",
        "a retransmission has the same octets as the original",
        "It is not known which of the two versions the receiver took. Either a segment was damaged, or someone wrote "
        "into the stream.",
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
        "An FPDU had a bad CRC although the TCP checksum was right. The receiver silently dropped the segment, as it "
        "may, and TCP retransmitted it, so nothing is lost.",
        clause="RFC 5044 §8",
    ),
    Rule(
        "outside-window", "note", "MUST", None, "",
        "octets lie in the receive window",
        "A receiver drops octets outside it. Many such segments point to a broken sender, or to someone guessing "
        "sequence numbers.",
        clause="RFC 9293 §3.10",
    ),
    Rule(
        "old-timestamp", "note", "MUST", None, "",
        "no segment has an older timestamp than the octets accepted before it",
        "Its receiver drops it: it is a late duplicate, perhaps of an earlier connection.",
        clause="RFC 7323 §5.3",
    ),
    Rule(
        "late-duplicate", "note", "MUST", None, "",
        "no segment of an earlier connection on the same ports arrives in this one",
        "Its sequence numbers lie outside the window, so its receiver drops it, and it belongs to the stream of "
        "neither connection.",
        clause="RFC 9293 §3.4.3",
    ),
    Rule(
        "path-mtu", "note", "", None, "",
        "no router on the path drops a packet because it is too long",
        "Segments are smaller from then on: FPDUs that were made before are split, and later ones are smaller. A "
        "message that quotes no outstanding octet, or gives an MTU that no path has, did not come from such a router.",
        clause="RFC 5044 §A.5.1",
    ),
    Rule(
        "attack-injection", "warning", "", None, "security",
        "all segments of a half connection come from its sender",
        "Octets that fit TCP but no FPDU, while others at the same sequence numbers do fit, were injected into the "
        "stream. If they arrive first, the connection is lost.",
    ),
    Rule(
        "tcp-refused", "note", "", None, "",
        "a SYN is sent to a port on which somebody is listening",
        "Nothing is listening at that address and port, or something on the path blocks the SYN: the RST says so, and "
        "there is no connection to carry MPA.",
        clause="RFC 9293 §3.10.7.1",
    ),
    Rule(
        "attack-reset", "note", "", None, "security",
        "a side that sends a RST sends nothing after it",
        "If data follows, or the RST lies outside the window, it came from someone else who wanted the connection to "
        "end.",
    ),
    Rule(
        "attack-syn", "note", "", None, "security",
        "no SYN comes in the middle of a connection",
        "Nobody answered it, so nothing changes. Its sender may have lost its state, or somebody else wanted the "
        "connection to end.",
    ),
    Rule(
        "attack-hijack", "note", "", None, "security",
        "the path of a half connection's segments does not change: TTL, or Hop Limit, stays the same",
        "A change may be a new route, or another machine that took over the stream.",
    ),
    Rule(
        "attack-buffer", "note", "", None, "security",
        "a host does not address, on one connection after another, buffers that its peers have not offered",
        "A Terminate about a buffer usually answers an ordinary error. If most connections of a host end this way, "
        "the host is looking for memory that was not offered, or does not work at all.",
    ),
    Rule(
        "attack-path-mtu", "note", "", None, "security",
        "segments do not become tiny in the middle of a connection",
        "A forged ICMP message can lower the path MTU so far that little but headers is sent.",
    ),
    Rule(
        "attack-unfinished-startup", "note", "", None, "security",
        "a host that opens connections completes the Request on some of them",
        "Each such connection ties up resources of the Responder until it gives up waiting, so the Responder needs a "
        "timeout (RFC 5044 §7.1.2, rule 10). Many from one address point to an attacker, or to a broken Initiator.",
        profiles=WITH_STARTUP,
    ),
)  # fmt: skip
