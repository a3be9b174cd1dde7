"""What all half connections of a capture share: what was asked for, limits, budgets, and whose octets lie in a block.

A capture is read in blocks.  A phase of a half connection that holds octets of the present block says so
(:meth:`ReceiverContext.touch`); when the block goes, the receiver has each such phase copy what it still needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from scapy_mpa.infer.inference import Budget
from scapy_mpa.receive.located import Deviations, Diagnosis
from scapy_mpa.rules.findings import Findings, Quota
from scapy_mpa.tcp.half import Half
from scapy_mpa.values.assumptions import Assumptions
from scapy_mpa.values.limits import Limits
from scapy_mpa.values.segment import Segment

#: A half connection is idle that brought nothing for so many frames.
_IDLE = 1 << 14


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


class Keeper(Protocol):
    """Who keeps the beginning of a half connection, because it may have to be read again."""

    @property
    def half(self) -> Half:
        """Whose beginning it is."""

    @property
    def kept_until(self) -> int:
        """The frame of the last segment kept."""

    def keep_no_longer(self) -> None:
        """What is kept goes, and nothing more will be kept."""


class DiagnosisBudget:
    """What may be spent on finding out what senders do wrong.

    How many FPDUs may still be read by hypotheses: some, and more as the capture goes on.  And how much may be kept of
    the beginnings of half connections, because they may have to be read again.

    Args:
        readings: FPDUs that may be read.
        room: octets of memory for beginnings.
    """

    def __init__(self, readings: int = 20_000, room: int = 1 << 20) -> None:
        self._left = readings
        self._room = room
        #: What each takes that keeps something, the one first that kept nothing for longest.
        self._keepers: dict[Keeper, int] = {}
        self._frames = 0

    def earn(self, frame: int) -> None:
        """So many frames of the capture have been read."""
        self._left += 8 * max(0, frame - self._frames)
        self._frames = max(frame, self._frames)

    def take_room(self, keeper: Keeper, weight: int, frame: int) -> bool:
        """Whether so much more may be kept of a half connection; what is over, or idle before ``frame``, gives way."""
        while weight > self._room:
            passive = next(iter(self._keepers), keeper)
            if passive is keeper or not (passive.half.is_over or passive.kept_until < frame - _IDLE):
                return False
            passive.keep_no_longer()
        self._room -= weight
        self._keepers[keeper] = self._keepers.pop(keeper, 0) + weight
        return True

    def give_room(self, keeper: Keeper) -> None:
        """Nothing of it is kept any longer."""
        self._room += self._keepers.pop(keeper, 0)

    def pay(self, readings: int = 1) -> bool:
        """Whether there is enough for so many readings more."""
        self._left -= readings
        return self._left >= 0


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
