"""What all half connections of a capture share: what was asked for, limits, budgets, and whose octets lie in a block.

A capture is read in blocks.  A phase of a half connection that holds octets of the present block says so
(:meth:`ReceiverContext.touch`); when the block goes, the receiver has each such phase copy what it still needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from scapy_mpa.infer.budget import DiagnosisBudget
from scapy_mpa.infer.inference import Budget
from scapy_mpa.receive.located import Deviations, Diagnosis
from scapy_mpa.rules.findings import Findings, Quota
from scapy_mpa.tcp.half import Half, Moment
from scapy_mpa.values.assumptions import Assumptions
from scapy_mpa.values.limits import Limits
from scapy_mpa.values.segment import Segment


class Phase(Protocol):
    """A phase of a half connection, as the receiver knows it."""

    @property
    def half(self) -> Half:
        """The direction of the TCP connection that it follows."""

    @property
    def weight(self) -> int:
        """Octets of memory that what is held back takes."""

    def receive(self, seg: Segment) -> None:
        """Take a segment with payload, the next one in order or any other."""

    def release(self) -> bool:
        """The block of the capture goes; True if something is left that has to go with the next one."""

    def relieve(self, now: tuple[int, int]) -> None:
        """Too much is held back in all: give up what is waited for."""

    def let_go(self) -> None:
        """The TCP connection is over: nothing that is held is read any more."""


class ReceiverContext:
    """What the half connections of a capture share.

    Args:
        limits: how much is held back and followed at most.
        assumptions: what the user told because no startup frame does.
        wants_log: whether each half connection keeps a log of its FPDUs.
        make_findings: makes the findings of a connection, which share the quota, or those of none, without one.
        deviations: what is known of senders before anything is read.

    Attributes:
        findings: those of no connection.
        budget: how long octets may be searched for FPDUs at every place.
        diagnosis: how much may be spent on senders that deviate.
        held: octets of memory that all half connections hold back, as far as that was looked at.
        starts_found: the sequence numbers told as the start of Full Operation that were found.
        last: the last frame with octets, FIN or RST of each direction of a TCP connection, by addresses and ports.
        has_doubt: whether a sender may deviate that was not looked into, as no octets may be received anew.
    """

    def __init__(
        self,
        limits: Limits,
        assumptions: Assumptions,
        wants_log: bool,
        make_findings: Callable[[Quota | None], Findings] = Findings,
        deviations: Deviations | None = None,
    ) -> None:
        self.limits = limits
        self.assumptions = assumptions
        self.wants_log = wants_log
        self.quota = Quota(limits.findings)
        self.findings = make_findings(None)
        self.budget = Budget()
        self.diagnosis = DiagnosisBudget()
        self.held = 0
        self.starts_found: set[int] = set()
        self.last: dict[bytes, Moment] = {}
        self.has_doubt = False
        self._make_findings = make_findings
        self._deviations = deviations or {}
        self._touched: list[Phase] = []
        self._passing: list[list[Segment]] = []

    def new_findings(self) -> Findings:
        """The findings of a new connection."""
        return self._make_findings(self.quota)

    def hold(self, more: int) -> None:
        """So many octets of memory more than known so far are held back, or less if negative."""
        self.held += more

    def find_start(self, seq: int) -> None:
        """Full Operation of some half connection can begin at this sequence number, as the user told."""
        self.starts_found.add(seq)

    def diagnosis_of(self, half: Half, origin: int) -> Diagnosis | None:
        """What is known of the sender of a half connection, ``origin`` being that of its Full Operation."""
        return self._deviations.get((half.key, origin))

    def leave_doubt(self) -> None:
        """A sender may deviate, and nobody looks into it."""
        self.has_doubt = True

    def touch(self, phase: Phase) -> None:
        """A phase holds octets of the present block of the capture."""
        self._touched.append(phase)

    def pass_on(self, consumed: list[Segment]) -> None:
        """These segments go with the next block, and nothing else has to be done then."""
        self._passing.append(consumed)

    def take_touched(self) -> list[Phase]:
        """The phases touched since the last time."""
        touched, self._touched = self._touched, []
        return touched

    def take_passing(self) -> list[list[Segment]]:
        """The lists of segments that go, since the last time."""
        passing, self._passing = self._passing, []
        return passing
