"""What was found of one half connection: a breach has an offset in the stream, a finding a sequence number."""

from __future__ import annotations

from scapy_mpa.framing.role import Role as Direction
from scapy_mpa.receive.located import Breach
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.rules.findings import Findings


class HalfFindings:
    """Makes findings of the breaches of one half connection.

    Attributes:
        broken: the rules that were found broken.
    """

    __slots__ = ("_direction", "_findings", "_reassembly", "broken")

    def __init__(self, findings: Findings, direction: Direction, reassembly: Reassembly) -> None:
        self._findings = findings
        self._direction = direction
        self._reassembly = reassembly
        self.broken: dict[str, None] = {}

    def add(self, breach: Breach) -> None:
        """Report one."""
        rule, offset, frame, time, detail = breach[:5]
        seq, direction = self._reassembly.seq_of(offset), self._direction
        if breach.is_of_peer:
            direction = "responder" if direction == "initiator" else "initiator"
        else:
            self.broken[rule] = None
        self._findings.add(rule, direction, frame, time, seq, detail, code=breach.code, topic=breach.topic)
