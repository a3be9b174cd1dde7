"""How long Requests waited for their answers, and calls of upper layers for their replies; the slowest of them.

In: the messages of captures, read in memory that does not follow them.  Out: one value each, and the few slowest ones
with what the messages said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappush, heappushpop
from typing import NamedTuple

from scapy_mpa.framing.role import Role, peer_of
from scapy_mpa.messages.row import MessageRow

_SECOND = 1_000_000_000
_REQUESTS = {"RDMA Read Request": "RDMA Read", "Atomic Request": "Atomic"}


class Wait(NamedTuple):
    """A Request or a call that was answered.

    Attributes:
        latency: nanoseconds from its last octet to the last one of its answer.
        frame: that brought its last octet; of a call the first one.
        answer_frame: that brought the last octet of the answer.
        connection: its number.
        side: who asked.
        what: "call", "RDMA Read" or "Atomic".
        time: nanoseconds since the epoch at which it was there.
        octets: of the answer's payload.
        text: what the upper layer says in it, "" if that is not known.
    """

    latency: int
    frame: int
    answer_frame: int
    connection: int
    side: Role
    what: str
    time: int
    octets: int
    text: str = ""


def waits(rows: Iterable[MessageRow]) -> Iterator[Wait]:
    """Those of some messages, in their order."""
    for row in rows:
        wait = _wait_of(row)
        if wait is not None:
            yield wait


def _wait_of(row: MessageRow) -> Wait | None:
    answer = row.answer
    if answer is not None:
        what = _REQUESTS.get(row.message or "", "RDMA Read")
        return Wait(
            answer.latency_ns, row.last_frame, answer.frame, row.connection, row.direction, what, row.time_ns,
            answer.octets,
        )  # fmt: skip
    ulp = row.ulp
    if ulp is None or "latency" not in ulp:
        return None
    latency = round(ulp["latency"] * _SECOND)
    octets = row.octets + ulp["rdma_write_octets"] + ulp["rdma_read_octets"]
    side = peer_of(row.direction)
    return Wait(latency, ulp["call_frame"], row.last_frame, row.connection, side, "call", row.time_ns - latency, octets)


class Slowest:
    """The slowest waits of many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[int, int, Wait]] = []

    def add(self, wait: Wait) -> None:
        """One more; of equal ones those of the first frames stay."""
        item = wait.latency, -wait.frame, wait
        (heappush if len(self._heap) < self._most else heappushpop)(self._heap, item)

    def found(self, rows: Iterable[MessageRow]) -> list[Wait]:
        """The slowest ones, the slowest first, with what the messages say in which they asked."""
        waits = [wait for _, _, wait in sorted(self._heap, reverse=True)]
        asked = {(wait.connection, wait.side, wait.frame): "" for wait in waits if wait.what == "call"}
        for row in rows if asked else ():
            key = row.connection, row.direction, row.first_frame
            if row.text and asked.get(key) == "":
                asked[key] = row.text
        return [wait._replace(text=asked.get((wait.connection, wait.side, wait.frame), "")) for wait in waits]
