"""Remarks for the report about reading a capture, besides damage.

One note stands for one rule: it keeps the first frame and counts the rest, as findings do, so that a flood of what is
noted takes no memory.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from scapy_mpa.tuples import NamedTuple

#: Kinds of what is not read that are counted apart, more than the tables have: a bound of memory, as each port is one.
MOST_KINDS: Final = 64


class Note(NamedTuple):
    """A rule of :mod:`scapy_mpa.rules.table`, broken this many ``times``.

    ``frame``, ``time`` (nanoseconds since the epoch) and ``detail`` are of the first time, ``last_frame`` of the last.
    """

    rule: str
    frame: int
    last_frame: int
    time: int
    times: int
    detail: str


class Unread(NamedTuple):
    """Packets that may hold TCP in what is not read: how many of each kind, in the order in which these came.

    ``frame`` and ``time`` (nanoseconds) are of the first one, ``last_frame`` of the last.
    """

    kinds: Counter[str]
    frame: int
    last_frame: int
    time: int

    def after(self, frames: int) -> Unread:
        """The same after this many frames of other captures."""
        return self._replace(frame=self.frame + frames, last_frame=self.last_frame + frames)

    def joined(self, later: Unread) -> Unread:
        """Together with those that came later."""
        return self._replace(kinds=self.kinds + later.kinds, last_frame=later.last_frame)

    def note(self, packets: int) -> Note:
        """The note of them, among so many packets."""
        kinds = ", ".join(f"{times} {what}" for what, times in self.kinds.most_common())
        total = self.kinds.total()
        detail = f"{total} of {packets} packets hold no readable TCP: {kinds}"
        return Note("not-read", self.frame, self.last_frame, self.time, total, detail)


class Notes:
    """The notes of one reading, in the order in which their rules were first broken."""

    def __init__(self) -> None:
        self._found: dict[str, Note] = {}
        #: What may hold TCP and is not read: names that tables have, and ports.
        self.unread: Unread | None = None

    def add(self, rule: str, frame: int, time: int, detail: str) -> None:
        """Count one breach of ``rule`` at ``frame``, captured at ``time`` (nanoseconds)."""
        found = self._found.get(rule)
        if found is None:
            self._found[rule] = Note(rule, frame, frame, time, 1, detail)
        else:
            self._found[rule] = found._replace(last_frame=frame, times=found.times + 1)

    def leave_unread(self, what: str, frame: int, time: int) -> None:
        """Count a packet, captured at ``time`` (nanoseconds), that may hold TCP in what is not read."""
        found = self.unread or Unread(Counter(), frame, frame, time)
        kinds = found.kinds
        kinds[what if what in kinds or len(kinds) < MOST_KINDS else "others"] += 1
        self.unread = found._replace(last_frame=frame)

    def tell_with(self, note: Note) -> None:
        """Take a note that was counted elsewhere, beside what was counted here of the same rule."""
        found = self._found.get(note.rule)
        if found is not None:
            note = note._replace(detail=f"{note.detail}; {found.times} more are in one capture twice")
        self._found[note.rule] = note

    def all(self) -> list[Note]:
        """Return the notes, one per rule."""
        return [*self._found.values()]
