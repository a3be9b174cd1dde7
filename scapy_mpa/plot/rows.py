"""The messages of connections of a report, read again from the captures, for the pictures that show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType

from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.messages.row import MessageRow
from scapy_mpa.reading.query import Query, Selection, query_of
from scapy_mpa.report.connection import Connection
from scapy_mpa.values.segment import addresses_of


class ConnectionRows:
    """The messages of some connections of a report, which can be read as often as one likes: use as a context manager.

    Raises as :class:`~scapy_mpa.messages.reading.CapturedMessages` does.
    """

    def __init__(self, connections: Sequence[Connection]) -> None:
        self._messages = CapturedMessages(query_around(connections))
        self._found = self._messages.report.connections
        #: What the connections are numbered here, by their number in the report.
        self._numbers = {one.number: same_connection(one, self._found) for one in connections}

    def __contains__(self, connection: object) -> bool:
        """Return True if it is one of these connections of the report."""
        return isinstance(connection, Connection) and connection.number in self._numbers

    def of(self, connections: Iterable[Connection]) -> Iterator[MessageRow]:
        """Yield the messages of some of them, in the order of delivery, with their numbers in the report."""
        numbers = {self._numbers[one.number]: one.number for one in connections}
        # What is asked for is what the report has; the values of others are not made into rows.
        self._messages.report.connections = [one for one in self._found if one.number in numbers]
        for row in self._messages:
            yield row._replace(connection=numbers[row.connection])

    def close(self) -> None:
        """Release the files."""
        self._messages.close()

    def __enter__(self) -> ConnectionRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def query_around(connections: Sequence[Connection]) -> Query:
    """Return a query that reads some connections of a report again, and as little else as possible."""
    index = connections[0].index
    selection = Selection(
        (min(one.lifecycle.first[0] for one in connections), max(one.lifecycle.last[0] for one in connections)),
        tuple({int.from_bytes(one.initiator.key[-4:-2], "big") for one in connections}),
        tuple({addresses_of(one.initiator.key)[0] for one in connections}),
    )
    return query_of(index.sources, selection, connections[0].assumptions, index.limits)


def same_connection(connection: Connection, others: Sequence[Connection]) -> int | None:
    """The number that a connection has among those of another report; there may be several on its ports."""
    first = connection.lifecycle.first[0]
    there = [one for one in others if one.initiator.key == connection.initiator.key]
    return min(there, key=lambda one: abs(one.lifecycle.first[0] - first)).number if there else None
