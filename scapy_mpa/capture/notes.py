"""What reading a capture leaves to be said in the report, besides damage.

One note stands for one rule: it keeps the first frame and counts the rest, as findings do, so that a flood of what is
noted takes no memory.
"""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """A rule of :mod:`scapy_mpa.rules.table`, broken so many ``times``.

    ``frame``, ``time`` (nanoseconds since the epoch) and ``detail`` are of the first time, ``last_frame`` of the last.
    """

    rule: str
    frame: int
    last_frame: int
    time: int
    times: int
    detail: str


class Notes:
    """The notes of one reading, in the order in which their rules were first broken."""

    def __init__(self) -> None:
        self._found: dict[str, Note] = {}

    def add(self, rule: str, frame: int, time: int, detail: str) -> None:
        """Count one breach of ``rule`` at ``frame``, captured at ``time`` (nanoseconds)."""
        found = self._found.get(rule)
        if found is None:
            self._found[rule] = Note(rule, frame, frame, time, 1, detail)
        else:
            self._found[rule] = found._replace(last_frame=frame, times=found.times + 1)

    def tell_with(self, note: Note) -> None:
        """Take a note that somebody else has counted, beside what was counted here of the same rule."""
        found = self._found.get(note.rule)
        if found is not None:
            note = note._replace(detail=f"{note.detail}; {found.times} more are in one capture twice")
        self._found[note.rule] = note

    def all(self) -> list[Note]:
        """One note a rule."""
        return [*self._found.values()]
