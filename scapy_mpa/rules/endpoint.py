"""Rules of receivers that a capture of conforming traffic never shows.

Whoever talks to an implementation sees them: each names something to send, or to leave out, and what must come of it.
"""

from __future__ import annotations

from scapy_mpa.rules.rule import ENHANCED, WITH_STARTUP, Rule

ENDPOINT_RULES = (
    Rule(
        "receiver-crc", "error", "MUST", 2, "crc",
        "a receiver checks the CRC of each FPDU where CRCs are in use, and passes none whose CRC is wrong",
        "Send an FPDU with a wrong CRC: its ULPDU must have no effect, and no FPDU after it either.",
        observable="endpoint",
    ),
    Rule(
        "receiver-crc-off", "error", "MUST NOT", None, "fpdu-format",
        "a receiver does not look at the CRC field where CRCs are not in use",
        "Send FPDUs with any value in the field after neither side set C: all must be taken.",
        observable="endpoint", profiles=WITH_STARTUP,
    ),
    Rule(
        "receiver-pad", "error", "MUST", None, "fpdu-format",
        "a receiver ignores PAD, except in the CRC",
        "Send an FPDU with PAD that is not zero and a CRC that covers it: it must be taken.",
        observable="endpoint",
    ),
    Rule(
        "receiver-marker-reserved", "error", "MUST", None, "marker-format",
        "a receiver ignores RESERVED in a Marker, except in the CRC",
        "Send Markers whose RESERVED is not zero: their FPDUs must be taken.",
        observable="endpoint",
    ),
    Rule(
        "receiver-fpduptr-low-bits", "error", "MUST", None, "marker-format",
        "a receiver takes the lowest two bits of FPDUPTR for zero",
        "Send Markers with these bits set: their FPDUs must be taken.",
        observable="endpoint",
    ),
    Rule(
        "receiver-marker-length", "warning", "SHOULD", 3, "errors",
        "a receiver that uses Markers notices one that disagrees with the chain of lengths",
        "Send a Marker that points elsewhere: code 3 should be reported and nothing further passed on.",
        observable="endpoint",
    ),
    Rule(
        "receiver-alignment", "error", "MUST NOT", None, "receiver",
        "a receiver finds FPDUs wherever segments are cut",
        "Send FPDUs cut at every octet, and several in a segment: all must be taken.",
        observable="endpoint",
    ),
    Rule(
        "receiver-whole-fpdu", "error", "MUST", None, "receiver",
        "a receiver passes nothing of an FPDU before the whole of it is there",
        "Send all of an FPDU but its last octets and wait: it must have no effect yet.",
        observable="endpoint",
    ),
    Rule(
        "receiver-after-error", "error", "MUST NOT", None, "errors",
        "a receiver passes on nothing after the first error in a half connection",
        "Send good FPDUs after a bad one: none of them must have an effect.",
        observable="endpoint",
    ),
    Rule(
        "receiver-reserved-bits", "error", "MUST NOT", None, "startup-frame",
        "a receiver does not look at the reserved bits of a startup frame",
        "Send a Request with each of them set: it must be answered as if they were zero.",
        observable="endpoint", profiles=WITH_STARTUP,
    ),
    Rule(
        "receiver-startup-frame", "error", "MUST", 4, "startup-rules",
        "a receiver closes the connection when a startup frame is not valid",
        "Send a wrong Key, a PD_Length above the limit, a second Request: the connection must be closed each time.",
        observable="endpoint", profiles=WITH_STARTUP,
    ),
    Rule(
        "receiver-revision", "error", "MUST", 4, "startup-frame",
        "a receiver checks Rev and closes the connection if it cannot work with it",
        "Send a Request of each Rev: each must be answered in a way that works afterwards, or by a close.",
        observable="endpoint", profiles=WITH_STARTUP,
    ),
    Rule(
        "receiver-revision-1", "error", "MUST", None, "interoperability",
        "a Responder that knows Rev 2 takes plain Requests of Rev 1 too",
        "Send a plain Request of Rev 1 to it: a plain Reply must come.",
        observable="endpoint", profiles=ENHANCED,
    ),
    Rule(
        "receiver-control-flags", "error", "MUST", None, "peer-to-peer",
        "a receiver ignores Control Flags B, C and D where A is zero",
        "Send them set without A: the connection must work as if they were not.",
        observable="endpoint", profiles=ENHANCED,
    ),
)  # fmt: skip
