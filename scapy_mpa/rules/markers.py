"""Rules of Markers: where they stand and where they point."""

from __future__ import annotations

from scapy_mpa.rules.rule import WITH_STARTUP, Rule

MARKER_RULES = (
    Rule(
        "marker-absent", "error", "MUST", 3, "markers",
        "a half connection whose receiver set M has Markers",
        "The receiver takes four octets out of the stream at each place where a Marker belongs, whatever they are.",
    ),
    Rule(
        "marker-unasked", "error", "MUST NOT", None, "startup-fields",
        "a half connection whose receiver did not set M has no Markers",
        "The receiver takes them for octets of the ULPDU, and the length of every FPDU that holds one is wrong.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "marker-first", "error", "MUST", 3, "markers",
        "the first Marker is zero and stands before the first FPDU",
        "It is where all others are counted from.",
    ),
    Rule(
        "marker-position", "error", "MUST", 3, "markers",
        "a Marker stands at each 512th octet of the stream, counted from the first, Markers included",
        "A receiver of segments out of order knows where Markers are by sequence number alone; what stands elsewhere "
        "cannot be found. The finding is deviating-sender where it is known how the sender counts.",
        told_as="deviating-sender",
    ),
    Rule(
        "marker-length", "error", "MUST", 3, "markers",
        "every Marker and the chain of lengths name the same start of an FPDU",
        "One of the two is wrong, and only the CRC shows which one; a receiver that places out of order "
        "would write to the wrong place.",
    ),
    Rule(
        "marker-agree", "error", "MUST", 3, "markers",
        "all Markers of an FPDU point to its start",
        "A receiver uses the first one that arrives; if they differ, what it finds depends on the order of arrival.",
    ),
    Rule(
        "fpduptr-origin", "warning", "MUST", None, "marker-format",
        "FPDUPTR counts from the octet that the revision in use says",
        "The drafts count from the first octet of the FPDU, RFC 5044 from ULPDU_Length. They differ by four in an FPDU "
        "that begins with a Marker, where the other side's receiver misses the header.",
    ),
    Rule(
        "fpduptr-low-bits", "warning", "MUST", None, "marker-format",
        "the lowest two bits of FPDUPTR are zero",
        "FPDUs begin at multiples of four, so they carry nothing; receivers take them for zero.",
    ),
    Rule(
        "marker-reserved", "warning", "MUST", None, "marker-format",
        "RESERVED is zero in a Marker",
        "Receivers ignore it, except that the CRC covers it.",
    ),
)  # fmt: skip
