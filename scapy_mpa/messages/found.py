"""The messages of captures, wherever they were found, and the report that says which of them are yielded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import TypeVar

from scapy_mpa.framing.role import Role
from scapy_mpa.messages.row import MessageRow, messages_of
from scapy_mpa.rdmap.assembly import ConnectionMessages
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report

Self = TypeVar("Self", bound="FoundMessages")


class FoundMessages(ABC):
    """Messages; iterating yields them, as often as one likes. Use as a context manager.

    Attributes:
        report: without FPDUs; only messages of the connections that are left in it are yielded.
        remark: a line that says what was not examined, None if there is nothing.
        messages: what is known about the messages of each connection of the report, by its number.
        directions: those whose messages are yielded.
        protocols: the upper layers whose messages are yielded; none names all.
    """

    report: Report
    remark: str | None
    messages: dict[int, ConnectionMessages]
    directions: Sequence[Role]
    protocols: Sequence[str]

    @abstractmethod
    def __iter__(self) -> Iterator[MessageRow]:
        """Yield the messages in the order of delivery; those never delivered come after all others."""

    def runs(self) -> Iterator[tuple[MessageRow, Sequence[int]]]:
        """Yield the same in fewer rows: each with the octets of the RDMA Writes it stands for, as ``messages_of`` says.

        They are empty for a single message.
        """
        for row in self:
            yield row, ()

    def noted_runs(self) -> Iterator[tuple[MessageRow, Sequence[int]]]:
        """Yield the same; the note of a message says if its peer never acknowledged all of it.

        That is said about connections that ended before their work did, and where all octets can be told apart.
        """
        lost = self._unacknowledged()
        if not lost:
            yield from self.runs()
            return
        left = Counter[tuple[int, Role]]()
        for row, lengths in self.runs():
            left[row.connection, row.direction] += len(lengths) or 1
        for row, lengths in self.runs():
            half = row.connection, row.direction
            note = lost.get(half)
            if note is None or left[half] - (len(lengths) or 1) >= note[0]:
                left[half] -= len(lengths) or 1
                yield row, lengths
                continue
            for one in messages_of(row, lengths):
                left[half] -= 1
                is_lost = left[half] < note[0]
                yield (one._replace(note="; ".join(filter(None, (one.note, note[1])))) if is_lost else one), ()

    def _unacknowledged(self) -> dict[tuple[int, Role], tuple[int, str]]:
        """How many of the last messages of a half connection were not acknowledged, and what is said about them."""
        halves = {
            (one.number, role): (one, role)
            for one, _ in self.shown
            for role in self.directions
            if one.lifecycle.is_unfinished and one.lifecycle.half(role).unacknowledged_messages
            # With octets between FPDUs that are not known, nobody knows which messages these are.
            and not one.half(role).counts.unlocated_octets and not one.half(role).counts.missing_octets
        }  # fmt: skip
        last = {
            half: deque[tuple[int, bool]](maxlen=one.lifecycle.half(role).unacknowledged_messages)
            for half, (one, role) in halves.items()
        }
        for row, lengths in self.runs() if halves else ():
            if (row.connection, row.direction) in last:
                last[row.connection, row.direction].extend((octets, row.last) for octets in lengths or (row.octets,))
        found: dict[tuple[int, Role], tuple[int, str]] = {}
        for half, (one, role) in halves.items():
            rows = [*last[half]]
            if rows and rows[-1][1] and one.half(role).counts.begun_octets:
                del rows[0]  # one of those counted began in an FPDU that is not complete: it is not listed
            # All but the first of them are so as a whole, unless some were acknowledged selectively.
            if rows and sum(octets for octets, _ in rows[1:]) <= one.lifecycle.half(role).unacknowledged_octets:
                by = one.lifecycle.reset_by
                reset = f", RST by the {by.capitalize()} at frame {one.lifecycle.reset_frame}" if by else ""
                found[half] = len(rows), f"never fully acknowledged{reset}"
        return found

    @abstractmethod
    def close(self) -> None:
        """Drop what waits in files."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def shown_numbers(self) -> set[int]:
        """The numbers of the connections whose messages are yielded."""
        return {
            one.number
            for one in self.report.connections
            if one.number in self.messages
            and (not self.protocols or self.messages[one.number].upper.name in self.protocols)
        }

    @property
    def shown(self) -> list[tuple[Connection, ConnectionMessages]]:
        """The connections whose messages are yielded."""
        shown = self.shown_numbers()
        return [(one, self.messages[one.number]) for one in self.report.connections if one.number in shown]
