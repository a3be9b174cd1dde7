"""One finding per deviation: what a peer does wrong is reported once, with the cases that show it.

A deviation is a rule that the peer breaks by the way, or what it did wrong about the question of a case: the row of
``expectations`` that has the case, and the observation that decided.  Its name stays the same from run to run, so that
a list of known failures may have it.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace

from scapy_mpa.probe.case import ProbeCase
from scapy_mpa.probe.expectations import expectation_of
from scapy_mpa.probe.judge import BAD, Fault, ProbeJudgement, Verdict

#: Rules of the peer's own octets: the verdict names them in place of what the case tests.
_OWN = ("invalid", "untaken")
#: What is one deviation in whatever case it shows.
_IN_ANY_CASE = ("unchecked-crc",)
#: What is no deviation of the peer's, or need not be the same one in another case.
_OF_ONE_CASE = ("expected", "monitor")


@dataclass
class PeerDeviation:
    """What a peer does wrong.

    Attributes:
        name: permanent.
        verdict: of the first case.
        reason: a sentence, of the first case.
        clause: that is broken.
        cases: names of those that show it, the first one first.
    """

    name: str
    verdict: Verdict
    reason: str
    clause: str
    cases: list[str] = field(default_factory=list)


class Deviations:
    """The deviations of a run, in the order in which they appeared."""

    def __init__(self) -> None:
        self.found: dict[str, PeerDeviation] = {}

    def count(self, case: ProbeCase, judgement: ProbeJudgement) -> ProbeJudgement:
        """Return the judgement with what it counts under.

        What is wrong by the way makes its first case fail; a later one has the verdict on its own question.  Octets
        that are not valid leave no such question: a later case could not be tested.
        """
        is_bad = judgement.verdict in BAD
        first: list[Fault] = []
        names: list[str] = []
        if is_bad:
            names.append(name_of(case, judgement))
            clause = judgement.clause or (case.clause if judgement.is_of_case else "")
            self._add(names[0], judgement.verdict, judgement.reason, clause, case)
        for fault in judgement.faults:
            if fault.rule not in names:
                names.append(fault.rule)
                self._add(fault.rule, "fail", fault.reason, fault.clause, case)
                if self.is_first(fault.rule, case):
                    first.append(fault)
        judgement = replace(judgement, deviations=tuple(names))
        counted = (*names[: int(is_bad)], *(one.rule for one in first))
        if is_bad and judgement.saw == "invalid" and not self.is_first(names[0], case):
            words = f"{judgement.reason}; as in {self.found[names[0]].cases[0]}"
            return replace(judgement, verdict="unsupported", reason=words)
        if is_bad or not first:
            return replace(judgement, counted=counted)
        gravest, *others = first
        more = f" (and {', '.join(one.rule for one in others)})" if others else ""
        return replace(
            judgement,
            verdict="fail",
            reason=f"{gravest.rule}: {gravest.reason}{more}",
            clause=gravest.clause,
            rule=gravest.rule,
            differs=gravest.differs,
            counted=counted,
        )

    def is_first(self, name: str, case: ProbeCase) -> bool:
        """Return True if no case before has shown a deviation."""
        return name not in self.found or self.found[name].cases[0] == case.name

    def _add(self, name: str, verdict: Verdict, reason: str, clause: str, case: ProbeCase) -> None:
        cases = self.found.setdefault(name, PeerDeviation(name, verdict, reason, clause)).cases
        if case.name not in cases:
            cases.append(case.name)


def name_of(case: ProbeCase, judgement: ProbeJudgement) -> str:
    """Return the name of the deviation that a verdict is about."""
    if judgement.saw in _OWN or judgement.rule == "startup-responder-first":
        return judgement.rule or judgement.saw
    if judgement.verdict == "peer gone" or judgement.saw in _OF_ONE_CASE:
        return f"{judgement.saw or 'gone'}:{case.name}"
    if judgement.saw == "untested":
        return f"untested:{case.area}"
    if judgement.saw in _IN_ANY_CASE:
        return judgement.saw
    if judgement.saw == "closed" and case.case.peer.reaction == "terminate":
        return "no-terminate"
    return f"{expectation_of(case.name).name}:{judgement.saw}"


def are_known(names: tuple[str, ...], expected: Container[str]) -> bool:
    """Return True if all of these are expected, and there are some."""
    return bool(names) and all(name in expected for name in names)
