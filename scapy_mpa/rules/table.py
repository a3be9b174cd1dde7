"""The rules, by id.  Each topic has a module of its own; see :mod:`scapy_mpa.rules.rule` for what a row means."""

from __future__ import annotations

from scapy_mpa.rules.alignment import ALIGNMENT_RULES
from scapy_mpa.rules.capture import CAPTURE_RULES
from scapy_mpa.rules.ddp import DDP_RULES
from scapy_mpa.rules.endpoint import ENDPOINT_RULES
from scapy_mpa.rules.fpdu import FPDU_RULES
from scapy_mpa.rules.markers import MARKER_RULES
from scapy_mpa.rules.negotiation import NEGOTIATION_RULES
from scapy_mpa.rules.rule import SEVERITIES, Rule, Severity
from scapy_mpa.rules.startup import STARTUP_RULES
from scapy_mpa.rules.tcp import TCP_RULES
from scapy_mpa.rules.teardown import TEARDOWN_RULES

__all__ = ["RULES", "SEVERITIES", "Rule", "Severity"]

_ROWS = (
    *STARTUP_RULES,
    *NEGOTIATION_RULES,
    *FPDU_RULES,
    *MARKER_RULES,
    *ALIGNMENT_RULES,
    *TEARDOWN_RULES,
    *DDP_RULES,
    *TCP_RULES,
    *CAPTURE_RULES,
    *ENDPOINT_RULES,
)

RULES: dict[str, Rule] = {rule.id: rule for rule in _ROWS}
