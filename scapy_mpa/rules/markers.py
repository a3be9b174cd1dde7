"""Rules of Markers: where they stand and where they point."""

from __future__ import annotations

from scapy_mpa.rules.rule import WITH_STARTUP, Rule

MARKER_RULES = (
    Rule(
        "marker-absent", "error", "MUST", 3, "markers",
        "a half connection whose receiver set M has Markers",
        "The receiver removes four octets from the stream at each Marker position, whatever they are.",
    ),
    Rule(
        "marker-unasked", "error", "MUST NOT", None, "startup-fields",
        "a half connection whose receiver did not set M has no Markers",
        "The receiver takes Markers for octets of the ULPDU, so the length of every FPDU that holds one is wrong.",
        profiles=WITH_STARTUP,
    ),
    Rule(
        "marker-first", "error", "MUST", 3, "markers",
        "the first Marker is zero and comes before the first FPDU",
        "All other Markers are counted from it.",
    ),
    Rule(
        "marker-position", "error", "MUST", 3, "markers",
        "there is a Marker at every 512th octet of the stream, counted from the first, Markers included",
        "A receiver of out-of-order segments locates Markers by sequence number alone; it cannot find a Marker "
        "elsewhere. If it is known how the sender counts, the finding is reported as deviating-sender.",
        told_as="deviating-sender",
    ),
    Rule(
        "marker-length", "error", "MUST", 3, "markers",
        "every Marker and the chain of lengths agree on where an FPDU starts",
        "One of the two is wrong, and only the CRC shows which; a receiver that places out of order would write to "
        "the wrong place.",
    ),
    Rule(
        "marker-agree", "error", "MUST", 3, "markers",
        "all Markers of an FPDU point to its start",
        "A receiver uses the first one that arrives; if they differ, what it finds depends on the order of arrival.",
    ),
    Rule(
        "fpduptr-origin", "warning", "MUST", None, "marker-format",
        "FPDUPTR counts from the octet that the revision in use specifies",
        "The drafts count from the first octet of the FPDU, RFC 5044 from ULPDU_Length. The two differ by four in an "
        "FPDU that begins with a Marker, where the other side's receiver misses the header.",
    ),
    Rule(
        "fpduptr-low-bits", "warning", "MUST", None, "marker-format",
        "the lowest two bits of FPDUPTR are zero",
        "FPDUs begin at multiples of four, so these bits carry no information; receivers treat them as zero.",
    ),
    Rule(
        "marker-reserved", "warning", "MUST", None, "marker-format",
        "RESERVED is zero in a Marker",
        "Receivers ignore it, except that the CRC covers it.",
    ),
)  # fmt: skip
