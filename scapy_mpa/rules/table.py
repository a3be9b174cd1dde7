"""The rules, by id. Each topic has a module of its own; see :mod:`scapy_mpa.rules.rule` for what a row means."""

from __future__ import annotations

from scapy_mpa.rules.alignment import ALIGNMENT_RULES
from scapy_mpa.rules.capture import CAPTURE_RULES
from scapy_mpa.rules.ddp import DDP_RULES
from scapy_mpa.rules.endpoint import ENDPOINT_RULES
from scapy_mpa.rules.fpdu import FPDU_RULES
from scapy_mpa.rules.markers import MARKER_RULES
from scapy_mpa.rules.memory import MEMORY_RULES
from scapy_mpa.rules.negotiation import NEGOTIATION_RULES
from scapy_mpa.rules.rdmap import RDMAP_RULES
from scapy_mpa.rules.rule import SEVERITIES, Rule, Severity
from scapy_mpa.rules.startup import STARTUP_RULES
from scapy_mpa.rules.tcp import TCP_RULES
from scapy_mpa.rules.teardown import TEARDOWN_RULES

__all__ = ["GROUPS", "RULES", "SEVERITIES", "Rule", "Severity"]

#: The rules by topic, in the order of a connection's life.
GROUPS: dict[str, tuple[Rule, ...]] = {
    "Startup": STARTUP_RULES,
    "Negotiation": NEGOTIATION_RULES,
    "FPDUs": FPDU_RULES,
    "Markers": MARKER_RULES,
    "Alignment": ALIGNMENT_RULES,
    "Teardown": TEARDOWN_RULES,
    "DDP and RDMAP": (*DDP_RULES, *RDMAP_RULES),
    "Memory": MEMORY_RULES,
    "TCP and attacks": TCP_RULES,
    "The capture": CAPTURE_RULES,
    "Endpoints": ENDPOINT_RULES,
}

RULES: dict[str, Rule] = {rule.id: rule for rules in GROUPS.values() for rule in rules}
