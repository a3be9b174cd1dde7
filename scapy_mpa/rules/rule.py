"""What a rule is.

A rule names what is expected, how grave its breach is, and where a specification says so. The clause depends
on the profile of the connection, so a rule holds either a *topic*, which
:func:`scapy_mpa.framing.profiles.clause` turns into the clause of that profile, or a clause of another
specification that is the same for all; neither where no specification speaks.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from scapy_mpa.framing.profiles import PROFILES, clause
from scapy_mpa.tuples import NamedTuple

Severity: TypeAlias = Literal["error", "warning", "note"]
#: From the gravest down.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

Requirement: TypeAlias = Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "REQUIRED", "MAY", ""]

#: Where a breach shows: in a capture, or only to a peer that talks to the implementation and sees its reaction.
Observable: TypeAlias = Literal["capture", "endpoint"]

ALL = tuple(PROFILES)
WITH_STARTUP = tuple(name for name, profile in PROFILES.items() if profile.startup_frames)
ENHANCED = tuple(name for name, profile in PROFILES.items() if profile.enhanced)


class Rule(NamedTuple):
    """One rule.

    ``requirement`` is the word of the clause, "" where the clause states a fact; ``code`` is the error code of
    RFC 5044 §8 or RFC 6581 §8, None where the breach has none. ``expected`` is a phrase that follows "expected:",
    ``why`` one or two sentences. ``told_as`` is the rule that findings name where a capture shows a breach of this
    one by what its sender does throughout, "" where they name this one.
    """

    id: str
    severity: Severity
    requirement: Requirement
    code: int | None
    topic: str
    expected: str
    why: str
    clause: str = ""
    profiles: tuple[str, ...] = ALL
    observable: Observable = "capture"
    told_as: str = ""

    def clause_in(self, profile: str) -> str | None:
        """The clause under ``profile``, None where no specification speaks."""
        return self.clause_about(profile, self.topic) if self.topic else self.clause or None

    def clause_about(self, profile: str, topic: str) -> str:
        """The clause about ``topic`` under ``profile``.

        Where the rule does not hold for that, it is the clause of the newest it holds for: that the Reply has Rev 1
        does not make RFC 5044 say what becomes of an enhanced Request.
        """
        return clause(profile if profile in self.profiles else self.profiles[-1], topic)

    def clauses(self) -> tuple[str, ...]:
        """The clause in each specification that the rule holds for, oldest first, each once."""
        found = (self.clause_in(profile) for profile in self.profiles)
        return tuple(dict.fromkeys(where for where in found if where is not None))
