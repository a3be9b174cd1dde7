"""Messages in another order than that of their delivery, in memory that does not follow the capture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from typing import Any

from scapy_mpa.messages.row import Answer, MessageRow
from scapy_mpa.reading.spill import Sorted

#: Octets of a payload that weigh as much as a message without one.
_WEIGHT = 300


def _latency(row: MessageRow) -> int:
    return -1 if row.latency_ns is None else row.latency_ns


#: What messages are sorted by, the largest first; of time the earliest.
SORT_KEYS: dict[str, Callable[[MessageRow], int]] = {
    "time": lambda row: -row.first_time_ns,
    "latency": _latency,
    "duration": lambda row: row.duration_ns,
    "octets": lambda row: row.octets,
}


def slowest(rows: Iterable[MessageRow], count: int) -> list[MessageRow]:
    """Return the `count` Requests and calls that waited longest for their answers, the slowest first."""
    return nlargest(count, (row for row in rows if row.latency_ns is not None), key=_latency)


def sorted_by(rows: Iterable[MessageRow], key: str) -> Iterator[MessageRow]:
    """Yield messages by one of ``SORT_KEYS``; those that are equal stay in their order.

    Raises OSError if a temporary file cannot be written.
    """
    of = SORT_KEYS[key]
    items: Sorted[tuple[int, int, tuple[Any, ...]]] = Sorted()
    try:
        for number, row in enumerate(rows):
            plain = [None if value is None else tuple(value) for value in (row.answer, row.reply)]
            values = tuple(row._replace(answer=None, reply=None))
            items.add((-of(row), number, (values, *plain)), 1 + len(row.payload or b"") // _WEIGHT)
        for _, _, (values, answer, reply) in items:
            yield MessageRow._make(values)._replace(
                answer=None if answer is None else Answer._make(answer),
                reply=None if reply is None else Answer._make(reply),
            )
    finally:
        items.close()
