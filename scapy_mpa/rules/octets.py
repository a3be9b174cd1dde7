"""Rules that octets alone cannot break: they need packets, and which side sent what first."""

from __future__ import annotations

from typing import Final

from scapy_mpa.rules.alignment import ALIGNMENT_RULES
from scapy_mpa.rules.tcp import TCP_RULES

#: Not reported about the octets of streams (:mod:`scapy_mpa.capture.streams`).
NEED_PACKETS: Final = frozenset(
    (
        *(rule.id for rule in (*ALIGNMENT_RULES, *TCP_RULES)),
        # How long segments are.
        *("mulpdu", "mulpdu-filled", "mulpdu-minimum"),
        # Which side was first.
        *("startup-reply-first", "startup-octets-before-reply", "startup-fpdu-before-reply"),
        *("startup-responder-first", "startup-not-closed", "startup-rejected-closed", "startup-timeout"),
        *("rtr-not-closed", "ird-ord-exceeded", "error-passed", "error-went-on", "error-closed"),
        # How the connection ended.
        *("connection-lost", "teardown-unacknowledged", "teardown-reset"),
    )
)
#: Nor are these where the octets of one side are given: the other side did what nobody knows.
NEED_BOTH: Final = frozenset(("startup-unanswered",))
