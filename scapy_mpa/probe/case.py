"""A case as a probe gives it: one of the catalogue, or a conformant connection of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from scapy_mpa.catalogue.baseline import BASELINES
from scapy_mpa.catalogue.case import Area, Case, clause_of
from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.probe.expectations import expectation_of
from scapy_mpa.probe.reach import Reach, reach_of
from scapy_mpa.rules.table import RULES

#: Areas of the catalogue, and that of connections in which nothing is wrong.
ProbeArea: TypeAlias = "Area | Literal['conformant']"
CONFORMANT: Literal["conformant"] = "conformant"

#: Words that forbid, or ask for, something without leaving a choice.
BINDING = ("MUST", "MUST NOT", "REQUIRED")


@dataclass(frozen=True)
class ProbeCase:
    """A case, and the area it is listed under."""

    case: Case
    area: ProbeArea

    @property
    def name(self) -> str:
        """Its permanent ID."""
        return self.case.name

    @cached_property
    def reach(self) -> Reach:
        """Whom it can be given to, and by what."""
        return reach_of(self.case)

    @property
    def is_conformant(self) -> bool:
        """True if nothing is wrong with it, so that whatever the peer does wrong is the peer's."""
        return self.area == CONFORMANT

    @property
    def rule(self) -> str:
        """The rule that the peer is tested by: one of receivers, else one that the case breaks; "" for none."""
        case = self.case
        names = [text.partition("@")[0] for text in (*case.tests, *case.breaks, *case.raises)]
        return names[0] if names else ""

    @property
    def clause(self) -> str:
        """The clause that says what the peer has to do."""
        if clause := expectation_of(self.name).clause:
            return clause
        profile = BASELINES[self.case.baseline].setup.get("profile", "rfc5044")
        assert profile in PROFILES
        if self.case.tests:
            return RULES[self.case.tests[0]].clause_in(profile) or clause_of(self.case)
        return clause_of(self.case)

    @property
    def requirement(self) -> str:
        """The word of that clause, "" where it states a fact."""
        return RULES[self.rule].requirement if self.rule else ""

    @property
    def is_watched(self) -> bool:
        """True if an answer to what follows shows that the peer has not noticed the error."""
        return self.case.peer.reaction in ("terminate", "stop")

    @property
    def begins_full_operation(self) -> bool:
        """True if its side sends FPDUs."""
        return self.case.plan().steps != ["start"]

    @property
    def is_over_with_startup(self) -> bool:
        """True if it is over as soon as the peer's startup frame has come."""
        return not self.begins_full_operation and self.case.peer.reaction == "accept"
