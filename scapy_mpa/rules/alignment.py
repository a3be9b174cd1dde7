"""Rules of how FPDUs lie in TCP segments (RFC 5044 §5.1 and appendix A, §7.3 and §5.3 of the drafts)."""

from __future__ import annotations

from scapy_mpa.rules.rule import Rule

ALIGNMENT_RULES = (
    Rule(
        "alignment", "note", "SHOULD", None, "segmentation",
        "segments begin with an FPDU and hold whole ones",
        "An aligned segment can be placed as it arrives. Any other has to be held back until the rest of its FPDU is "
        "there.",
    ),
    Rule(
        "alignment-lost", "note", "SHOULD", None, "segmentation",
        "a sender that lost alignment regains it after a pause",
        "Such a sender starts a new segment with the next FPDU once its send buffer is empty; one that never does "
        "splits FPDUs for the rest of the connection.",
    ),
    Rule(
        "alignment-retransmission", "note", "SHOULD", None, "segmentation",
        "a retransmission keeps the boundaries of the segments that were sent before",
        "New boundaries split FPDUs just when the receiver is waiting for octets.",
    ),
    Rule(
        "fpdu-above-emss", "note", "SHOULD", None, "segmentation",
        "an FPDU fits into one segment",
        "An FPDU larger than EMSS can never be aligned: all its segments except the last wait in a buffer.",
    ),
)  # fmt: skip
