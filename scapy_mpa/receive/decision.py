"""When the octets of a half connection without startup frame are looked at: they may be FPDUs, or may be none."""

from __future__ import annotations

#: As many octets, at the beginning of a TCP connection, are looked at before more may be FPDUs.
FIRST_LOOK = 24
#: How long (nanoseconds) octets wait before they are looked at: what was sent before may come later.
_TIME = 3_000_000_000
#: After so many octets that were no FPDUs some are looked at again; each time four times as many pass.
_FIRST_PAUSE = 1 << 20


class Decision:
    """Whether the octets of a half connection may be FPDUs, as far as it is decided."""

    __slots__ = ("_next_try", "_passing", "_pause", "_since", "open")

    def __init__(self, is_open: bool) -> None:
        #: They may be.
        self.open = is_open
        #: The time (nanoseconds) of the first octets that wait, and how many octets are tried next.
        self._since: int | None = None
        self._next_try = FIRST_LOOK
        #: Octets that pass before some are looked at again, and those that still have to.
        self._pause = self._passing = _FIRST_PAUSE

    @property
    def is_new(self) -> bool:
        """Whether nothing has been looked at yet."""
        return self._next_try == FIRST_LOOK

    def looked(self) -> None:
        """The first octets have been looked at."""
        self._next_try += 1

    def is_due(self, octets: int, now: int, at_once: bool) -> bool:
        """Whether so many octets are to be looked at: twice as many as last time wait, ``at_once`` or for long.

        ``now`` is in nanoseconds.
        """
        if self._since is None:
            self._since = now
        return (at_once or now - self._since >= _TIME) and self.is_enough(octets)

    def is_enough(self, octets: int) -> bool:
        """Whether these are twice as many octets as were looked at last."""
        if octets < self._next_try:
            return False
        self._next_try = 2 * octets
        return True

    def against(self) -> None:
        """The octets are no FPDUs: let them pass for a while."""
        if self.open:
            self.open = False
            self._passing = self._pause
            self._pause *= 4

    def passes(self, octets: int) -> bool:
        """Let so many octets pass; False when some are to be looked at again, by the next ones on."""
        self._passing -= octets
        if self._passing < 0:
            self.open = True
            self._since = None
        return self._passing >= 0
