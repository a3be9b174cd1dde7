"""The messages of captures, wherever they were found, and the report that says which of them are yielded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeVar

from scapy_mpa.framing.role import Role
from scapy_mpa.messages.row import MessageRow
from scapy_mpa.rdmap.assembly import ConnectionMessages
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report

Self = TypeVar("Self", bound="FoundMessages")


class FoundMessages(ABC):
    """Messages; iterating yields them, as often as one likes. Use as a context manager.

    Attributes:
        report: without FPDUs; only messages of the connections that are left in it are yielded.
        remark: a line that says what was not examined, None if there is nothing.
        messages: what is known of the messages of each connection of the report, by its number.
        directions: those of which messages are yielded.
        protocols: the upper layers of which messages are yielded; none names all.
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

    @abstractmethod
    def close(self) -> None:
        """Drop what waits in files."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def shown_numbers(self) -> set[int]:
        """The numbers of the connections of which messages are yielded."""
        return {
            one.number
            for one in self.report.connections
            if one.number in self.messages
            and (not self.protocols or self.messages[one.number].upper.name in self.protocols)
        }

    @property
    def shown(self) -> list[tuple[Connection, ConnectionMessages]]:
        """The connections of which messages are yielded."""
        shown = self.shown_numbers()
        return [(one, self.messages[one.number]) for one in self.report.connections if one.number in shown]
