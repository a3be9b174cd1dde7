"""The errors of an endpoint: ``LocalProtocolError``, caused by you, and ``RemoteProtocolError``, caused by the peer.

Both name a rule of :mod:`scapy_mpa.rules` where there is one, with the clause of the specification in use, its
requirement word and the error code (RFC 5044 §8, RFC 6581 §8).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.profiles import clause as clause_about
from scapy_mpa.rules.table import RULES

if TYPE_CHECKING:
    from scapy_mpa.live.events import Event


_Error = TypeVar("_Error", bound="ProtocolError")


class ProtocolError(MPAError):
    """A rule of MPA was broken, or would have been.

    Args:
        detail: what happened, in words.
        rule: the id of the rule, "" if none is broken but the two cannot work together.
        profile: the name of the specification whose clause counts.
        code: the error code where it is not the rule's.
        topic: of the clause (``framing.profiles``), where it is not the rule's.

    Attributes:
        detail: as above.
        rule: as above.
        clause: where the specification says it, "" if none does.
        requirement: the word of that clause: MUST, SHOULD and so on; "" where it states a fact.
        code: RFC 5044 §8 or RFC 6581 §8; None if the error has none.
        events: those that the same call found before the error: they count, and are in no list returned.
    """

    events: tuple[Event, ...] = ()

    def __init__(
        self, detail: str, rule: str = "", *, profile: str = "rfc5044", code: int | None = None, topic: str = ""
    ) -> None:
        found = RULES[rule] if rule else None
        self.detail = detail
        self.rule = rule
        where = found.clause_in(profile) if found is not None and not topic else None
        self.clause = clause_about(profile, topic) if topic else where or ""
        self.requirement: str = found.requirement if found is not None else ""
        self.code = code if code is not None or found is None else found.code
        named = f"{rule}: {detail}" if rule else detail
        told = " ".join(word for word in (self.clause, self.requirement) if word)
        told += f"{', ' if told else ''}code {self.code}" if self.code is not None else ""
        super().__init__(f"{named} ({told})" if told else named)

    def carrying(self: _Error, events: Iterable[Event]) -> _Error:
        """The same error, with these events as those before it."""
        self.events = tuple(events)
        return self


class LocalProtocolError(ProtocolError):
    """You asked for what the specifications forbid now: nothing was sent, and nothing has changed."""


class RemoteProtocolError(ProtocolError):
    """The peer broke a rule, or cannot work with us: raised once, and nothing from the peer is passed on after it."""
