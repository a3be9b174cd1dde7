"""Rules of FPDUs: their length, PAD and CRC, what follows an error, and senders that deviate."""

from __future__ import annotations

from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.rules.rule import Rule

FPDU_RULES = (
    Rule(
        "fpdu-format", "error", "MUST", None, "fpdu-format",
        "every octet of Full Operation belongs to an FPDU or to a Marker in it",
        "A receiver finds each FPDU by the length of the one before; once octets do not fit, it finds no FPDU after "
        "them.",
    ),
    Rule(
        "deviating-sender", "error", "MUST", None, "fpdu-format",
        "FPDUs and Markers are formatted as the specification says",
        "All FPDUs of the sender become readable if one or two deviations known from implementations are assumed. A "
        "conforming peer cannot read any of them.",
    ),
    # --- ULPDU_Length ---
    Rule(
        "ulpdu-length-zero", "warning", "MAY", None, "ulpdu-length",
        f"DDP may post ULPDUs of 1 to {MAX_ULPDU_LENGTH} octets",
        "An FPDU without a ULPDU carries no DDP Segment. The specification permits one octet or more, but does not "
        "explicitly forbid 0.",
    ),
    Rule(
        "ulpdu-length-limit", "error", "MUST NOT", None, "ulpdu-length",
        f"a ULPDU holds at most {MAX_ULPDU_LENGTH} octets",
        "Above this limit an FPDU cannot fit into one IP datagram, and with Markers FPDUPTR would exceed 16 bits.",
    ),
    Rule(
        "mulpdu", "note", "SHOULD", None, "mulpdu",
        "a ULPDU is no longer than MULPDU for the EMSS that the segments show",
        "A longer ULPDU makes an FPDU that spans segments: the receiver must reassemble it before it can place it.",
    ),
    Rule(
        "mulpdu-filled", "note", "SHOULD", None, "mulpdu",
        "a DDP Segment that is not the last of its message fills MULPDU",
        "Smaller ones each cost a header, a CRC and a segment.",
    ),
    Rule(
        "mulpdu-minimum", "note", "MUST NOT", None, "mulpdu",
        "MULPDU is never below 128 octets: no message is split into ULPDUs shorter than that",
        "A path MTU that was forced down, perhaps by an attack, would otherwise turn a message into a flood of tiny "
        "FPDUs.",
    ),
    # --- PAD and CRC ---
    Rule(
        "pad", "warning", "MUST", None, "fpdu-format",
        "PAD is zero",
        "Receivers ignore it, except that the CRC covers it. Octets of a sender's memory may leak through it.",
    ),
    Rule(
        "crc", "error", "MUST", 2, "crc",
        "the CRC field is the CRC32c of the FPDU",
        "A receiver passes on neither this FPDU nor any after it; the ULP then ends the connection.",
    ),
    Rule(
        "crc-field", "error", "MUST", None, "crc",
        "the CRC field is present, with its four octets, even where CRCs are not in use",
        "Without it, every FPDU is four octets shorter than its receiver expects, and the second one is never found. "
        "The finding is reported as deviating-sender.",
        told_as="deviating-sender",
    ),
    Rule(
        "crc-off", "note", "MUST", None, "crc",
        "CRCs are in use unless an administrator turned them off on both sides",
        "Start the implementation with its default settings: C must be set in its startup frame. A capture of frames "
        "without C does not show who decided it.",
        observable="endpoint",
    ),
    # --- what follows an error ---
    Rule(
        "error-passed", "warning", "MUST NOT", None, "errors",
        "nothing that comes after an error in a half connection is passed on or answered",
        "A peer that answers what came after the error either did not check or did not stop: damaged octets may be in "
        "its memory.",
    ),
    Rule(
        "error-closed", "note", "MUST NOT", None, "errors",
        "after an error of code 2 or 3, MPA does not close the connection; its ULP does",
        "This allows a last message that says what was wrong, such as a Terminate.",
    ),
    Rule(
        "error-went-on", "note", "MUST NOT", None, "errors",
        "after an error of code 2 or 3, nothing more is passed on, and the ULP closes the connection",
        "A receiver that carries on as if nothing had happened did not find the error, or ignores it: either the "
        "octets were damaged only on the way to the capture, or nobody checks them.",
    ),
)  # fmt: skip
