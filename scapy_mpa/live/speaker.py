"""The upper layer above RDMAP on this side of a connection, which decides what is sent."""

from __future__ import annotations

from typing import Protocol

from scapy_mpa.errors import MPAError
from scapy_mpa.live.rdmap import RDMAPEvent, ULPDUTaken, WritePlaced
from scapy_mpa.values.words import plural

#: What a peer is asked that says what its upper layer should not.
NOT_THE_SAME = ": is --ulp the same on both sides?"


class UpperLayerError(MPAError):
    """The peer's upper layer sent, or placed, what its protocol does not allow."""


class PeerGivesUp(UpperLayerError):
    """The peer ended the stream with a Terminate that RDMAP did not see."""


class Speaker(Protocol):
    """An upper layer of one connection; it speaks by the :class:`RDMAPEndpoint` that it was made with."""

    @property
    def is_done(self) -> bool:
        """True if it has nothing more to say and waits for nothing: the connection is to be closed."""

    @property
    def summary(self) -> str:
        """What it did, in a phrase."""

    @property
    def doubt(self) -> str:
        """Why a peer may fall silent or close early, for the end of an error message; "" if unknown."""

    def begin(self) -> None:
        """Full Operation has begun."""

    def take(self, event: RDMAPEvent) -> None:
        """Receive an event; raises UpperLayerError for what must not arrive."""

    def go_on(self, now: float) -> float | None:
        """Send more, if there is more: nothing waits to be sent.

        Returns the time (in seconds, as ``now``) at which it has more to say, None if that depends on the peer.
        """


class Listening:
    """Says nothing, and lets RDMAP place and answer what comes."""

    def __init__(self) -> None:
        self._count = self._ulpdus = 0

    @property
    def is_done(self) -> bool:
        """False: it never ends on its own."""
        return False

    @property
    def doubt(self) -> str:
        """Why a peer may fall silent, or close early."""
        return NOT_THE_SAME

    @property
    def summary(self) -> str:
        """How much arrived."""
        return f"received {plural(self._ulpdus, 'ULPDU') if self._ulpdus else plural(self._count, 'message')}"

    def begin(self) -> None:
        """Nothing."""

    def take(self, event: RDMAPEvent) -> None:
        """Count it."""
        if isinstance(event, ULPDUTaken):
            self._ulpdus += 1
        else:
            self._count += not isinstance(event, WritePlaced) or event.last

    def go_on(self, _now: float) -> float | None:
        """Nothing."""
        return None
