"""The rules, one row each.

A rule names what is expected, how grave its breach is, and where a specification says so.  The clause depends
on the profile of the connection, so a rule holds either a *topic*, which
:func:`scapy_mpa.framing.profiles.clause` turns into the clause of that profile, or a clause of another
specification that is the same for all.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "note"]
#: From the gravest down.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Rule(NamedTuple):
    """One rule.

    ``requirement`` is the word of the clause, "" where the clause states a fact; ``code`` is the error code of
    RFC 5044 §8, None where the breach has none.
    """

    id: str
    severity: Severity
    requirement: str
    code: int | None
    topic: str
    clause: str
    summary: str


_ROWS = (
    # --- codes 1 to 4 ---
    Rule("connection-lost", "error", "MUST", 1, "errors", "", "a half connection ends at the end of an FPDU"),
    Rule("crc", "error", "MUST", 2, "crc", "", "the CRC field is the CRC32c of the FPDU"),
    Rule(
        "marker-length", "error", "MUST", 3, "markers", "",
        "every Marker and the chain of lengths name the same start of an FPDU",
    ),
    Rule("startup-frame", "error", "MUST", 4, "startup-frame", "", "startup frames are valid"),
    # --- FPDUs and Markers ---
    Rule(
        "fpduptr-origin", "warning", "MUST", None, "marker-format", "",
        "FPDUPTR counts from the octet that the revision in use says",
    ),
    Rule("ulpdu-length-zero", "warning", "MUST", None, "ulpdu-length", "", "a ULPDU holds at least one octet"),
    Rule("ulpdu-length-limit", "error", "MUST NOT", None, "ulpdu-length", "", "a ULPDU holds at most 64768 octets"),
    # --- the layers around MPA ---
    Rule("terminate", "note", "", None, "", "RFC 5040 §4.8", "the peer ends the RDMAP stream and says why"),
    Rule(
        "terminate-layout", "warning", "MUST", None, "", "RFC 5040 §4.8",
        "the Terminate control word is laid out from the most significant bit",
    ),
    Rule(
        "overlap", "warning", "MUST", None, "", "RFC 9293 §3.7",
        "a retransmission brings the octets that were sent before",
    ),
    Rule("tcp-checksum", "note", "MUST", None, "", "RFC 9293 §3.1", "the TCP checksum is right"),
    # --- the capture ---
    Rule("gap", "warning", "", None, "", "RFC 9293 §3.4", "every octet of the half connection is captured"),
    Rule(
        "capture-gap", "note", "", None, "", "RFC 9293 §3.4",
        "every octet that the peer has acknowledged is captured",
    ),
    Rule("capture-cut", "note", "", None, "", "", "packets are captured whole"),
    Rule("outside-window", "note", "MUST", None, "", "RFC 9293 §3.10", "octets lie in the receive window"),
    Rule("ip-fragments", "note", "", None, "", "RFC 8200 §4.5", "the fragments of an IP datagram do not overlap"),
    Rule("link-type", "note", "", None, "", "", "packets are of a link type that is read"),
    Rule("limit", "note", "", None, "", "", "what is held back stays within the limits of the analysis"),
)  # fmt: skip

RULES: dict[str, Rule] = {rule.id: rule for rule in _ROWS}
