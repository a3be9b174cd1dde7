"""What a verdict may ask about a connection: its findings, its lifecycle, and what the upper layers stated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.rules.findings import Finding
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.lifecycle import HalfEnd, Lifecycle
from scapy_mpa.values.startup import PartOfFrame


class StatedLimit(NamedTuple):
    """The longest message that one side said it accepts: ``protocol`` says where, ``octets`` are of payload."""

    protocol: str
    octets: int


#: What each side said that it takes, as far as it did; the key is the receiver.
StatedLimits = Mapping[str, StatedLimit]


class JudgedConnection(Protocol):
    """A connection of the report, as far as a verdict asks it."""

    crc: bool
    part: PartOfFrame | None
    findings: list[Finding]
    lifecycle: Lifecycle

    @property
    def request(self) -> StartupFrame | None:
        """The Request, None if it was not captured."""

    @property
    def reply(self) -> StartupFrame | None:
        """The Reply, None if it was not captured."""

    @property
    def request_frame(self) -> int | None:
        """The frame that completed the Request."""

    @property
    def reply_frame(self) -> int | None:
        """The frame that completed the Reply."""

    @property
    def fpdu_count(self) -> int:
        """The FPDUs of both directions."""

    def half(self, direction: Role) -> HalfConnection:
        """The half connection that ``direction`` sent."""


class Circumstances(NamedTuple):
    """What a row of the table of verdicts may ask for."""

    connection: JudgedConnection
    life: Lifecycle
    limits: StatedLimits

    def finding(self, *rules: str, direction: str | None = None, until: int | None = None) -> Finding | None:
        """The first finding of these rules, of one direction, up to a frame, if these are given."""
        findings = self.connection.findings
        if not findings:
            return None
        found = [
            one
            for one in findings
            if one.rule.id in rules
            and (direction is None or one.direction == direction)
            and (until is None or one.frame <= until)
        ]
        return min(found, key=lambda one: one.frame, default=None)

    def end(self, direction: str) -> HalfEnd:
        """The end of what a direction sent."""
        return self.life.half(direction)

    @property
    def has_fpdus(self) -> bool:
        """True if an FPDU was captured."""
        return self.connection.fpdu_count > 0


def who(direction: str | None) -> str:
    """A side, in a sentence."""
    return f"the {direction.capitalize()}" if direction is not None else "somebody"
