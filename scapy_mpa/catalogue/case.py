"""A row of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from scapy_mpa.catalogue.baseline import ANSWER, BASELINES, MIDDLE
from scapy_mpa.catalogue.peer import BAD_CRC, Peer
from scapy_mpa.craft.changes.change import NamedChange
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.sent import Repairable
from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.rules.table import RULES
from scapy_mpa.tuples import NamedTuple

Area: TypeAlias = Literal[
    "startup", "negotiation", "fpdu", "markers", "alignment", "teardown", "ddp", "tcp", "attack", "capture"
]  # fmt: skip

#: The areas with their titles, in the order of a connection's life.
AREAS: dict[Area, str] = {
    "startup": "Startup frames and their order",
    "negotiation": "What startup frames agree on",
    "fpdu": "FPDUs: lengths, PAD and CRC",
    "markers": "Markers",
    "alignment": "FPDUs in segments",
    "teardown": "The end of a connection",
    "ddp": "DDP and RDMAP",
    "tcp": "TCP",
    "attack": "Segments of others: forged, late, overlapping",
    "capture": "What a capture lacks",
}


class Raised(NamedTuple):
    """A finding that the analysis must have: its rule, and who is to blame (None: the capture)."""

    rule: str
    direction: Role | None

    @property
    def severity(self) -> str:
        """The severity of the rule."""
        return RULES[self.rule].severity


class CaseOutcome(NamedTuple):
    """The outcome of a case: what the analysis must report, and what a conforming peer must do.

    ``raises`` are ids of rules, broken by whoever the case is about; ``rule@responder`` and the like name somebody
    else, ``rule@capture`` nobody.
    """

    raises: tuple[str, ...]
    peer: Peer


#: What comes of an FPDU whose CRC was left as it was, where CRCs are in use.
CRC_LEFT: Mapping[Repairable, CaseOutcome] = {"crc": CaseOutcome(("crc", "terminate@peer"), BAD_CRC)}


@dataclass(frozen=True)
class Case:
    """One row: a valid connection, and what is changed in it."""

    name: str
    purpose: str
    #: The valid connection, by its name in ``baseline.BASELINES``.
    baseline: str
    changes: tuple[NamedChange, ...]
    #: As in ``CaseOutcome``.
    raises: tuple[str, ...]
    peer: Peer
    #: The side that does it.
    by: Role = "initiator"
    #: "": that of the first rule, of those it ``breaks`` first.
    clause: str = ""
    #: What comes of it instead if the CRC or the lengths are left as they were.
    left: Mapping[Repairable, CaseOutcome] = field(default_factory=dict)
    #: Rules of endpoints for which the peer is tested by this.
    tests: tuple[str, ...] = ()
    #: Rules that are broken though ``analyze`` tells it by another, or which ``memory`` finds.
    breaks: tuple[str, ...] = ()
    #: Those of ``scapy-mpa analyze`` without which it does not show.
    options: tuple[str, ...] = ()
    area: Area = "startup"

    def plan(self, left: Repairable | None = None) -> Exchange:
        """Its connection, in which the peer does what it must, changed."""
        baseline = BASELINES[self.baseline]
        said = *baseline.opening, *MIDDLE
        planned = Exchange(baseline.setup, said, by=self.by, answer=ANSWER, left=left)
        _react(planned, self.outcome(left).peer)
        for change in self.changes:
            change.apply(planned)
        return planned

    def makes(self, *names: str) -> bool:
        """Return True if it makes one of these changes of what its own side sends."""
        return any(change.name in names and not change.is_of_peer for change in self.changes)

    @property
    def ends_by_itself(self) -> bool:
        """True if the end of its own side is what it is about."""
        return self.peer.reaction == "lose" or self.makes("ends")

    def outcome(self, left: Repairable | None = None) -> CaseOutcome:
        """Return the outcome, with all repaired or one thing left as it was (KeyError if it has no such thing)."""
        return CaseOutcome(self.raises, self.peer) if left is None else self.left[left]

    def raised(self, left: Repairable | None = None) -> tuple[Raised, ...]:
        """Return what the analysis must report about it, sorted."""
        return tuple(sorted((self._raised(text) for text in self.outcome(left).raises), key=str))

    def _raised(self, text: str) -> Raised:
        rule, _, who = text.partition("@")
        if who == "capture":
            return Raised(rule, None)
        if who in ROLES:
            return Raised(rule, "initiator" if who == "initiator" else "responder")
        other: Role = "responder" if self.by == "initiator" else "initiator"
        return Raised(rule, other if who == "peer" else self.by)

    @property
    def rules(self) -> tuple[str, ...]:
        """Every rule that it raises, breaks or tests, however it is repaired."""
        texts = [*self.raises, *(text for outcome in self.left.values() for text in outcome.raises)]
        return tuple(dict.fromkeys([*(text.partition("@")[0] for text in texts), *self.breaks, *self.tests]))


def _react(exchange: Exchange, peer: Peer) -> None:
    """Have the peer of a side do what it must."""
    if peer.reaction == "terminate":
        exchange.answer = f"{exchange.peer} terminate layer={peer.layer} etype={peer.etype} code={peer.code}"
        exchange.setup["closes"] = exchange.peer
    elif peer.reaction in ("wait", "lose"):
        exchange.answer = None
    elif peer.reaction == "stop":
        exchange.answer, exchange.setup["close"] = None, "none"
    elif peer.reaction in ("close", "reject"):
        exchange.steps, exchange.answer = ["start"], None
        if peer.reaction == "reject":
            exchange.setup["reject"] = True
        else:
            exchange.setup["closes"] = exchange.peer
            exchange.is_answered = exchange.by != "initiator"


def clause_of(case: Case) -> str:
    """Return the clause that the case is about: its own, or that of its first rule (``breaks`` first)."""
    if case.clause:
        return case.clause
    rules = [text.partition("@")[0] for text in (*case.breaks, *case.raises)]
    profile = BASELINES[case.baseline].setup.get("profile", "rfc5044")
    assert profile in PROFILES
    return next((clause for rule in rules if (clause := RULES[rule].clause_in(profile)) is not None), "")
