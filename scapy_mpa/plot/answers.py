"""How long Requests waited for their answers, and calls of upper layers for their replies; the slowest of them.

In: the messages of captures, read in memory that does not follow them.  Out: one value each, and the few slowest ones
with what the messages said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappush, heappushpop

from scapy_mpa.framing.role import Role, peer_of
from scapy_mpa.messages.row import MessageRow
from scapy_mpa.tuples import NamedTuple

_SECOND = 1_000_000_000
#: Messages that ask for an answer, and what they are called here.
REQUEST_NAMES = {"RDMA Read Request": "RDMA Read", "Atomic Request": "Atomic"}


class Answered(NamedTuple):
    """A Request or a call that was answered.

    Attributes:
        latency: nanoseconds from its last octet to the last one of its answer.
        frame: that brought its last octet; of a call the first one.
        answer_frame: that brought the last octet of the answer.
        connection: its number.
        side: who asked.
        what: "call", "RDMA Read" or "Atomic".
        time: nanoseconds since the epoch at which it was there.
        octets: of the answer's payload; of a call also those of the RDMA that was done for it.
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


def answers(rows: Iterable[MessageRow]) -> Iterator[Answered]:
    """Yield the answers to some messages, in their order."""
    for row in rows:
        one = _answered(row)
        if one is not None:
            yield one


def _answered(row: MessageRow) -> Answered | None:
    answer = row.answer
    if answer is not None:
        what = REQUEST_NAMES.get(row.message or "", "RDMA Read")
        return Answered(
            answer.latency_ns, row.last_frame, answer.frame, row.connection, row.direction, what, row.time_ns,
            answer.octets,
        )  # fmt: skip
    ulp = row.ulp
    if ulp is None or "latency" not in ulp:
        return None
    latency = round(ulp["latency"] * _SECOND)
    octets = row.octets + ulp["rdma_write_octets"] + ulp["rdma_read_octets"]
    side = peer_of(row.direction)
    time = row.time_ns - latency
    return Answered(latency, ulp["call_frame"], row.last_frame, row.connection, side, "call", time, octets)


class Slowest:
    """The slowest of many answers."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[int, int, Answered]] = []

    def add(self, one: Answered) -> None:
        """Add one more; of equal ones, those of the first frames stay."""
        item = one.latency, -one.frame, one
        (heappush if len(self._heap) < self._most else heappushpop)(self._heap, item)

    def found(self, rows: Iterable[MessageRow]) -> list[Answered]:
        """The slowest ones, the slowest first, with what the messages say in which they asked."""
        found = [one for _, _, one in sorted(self._heap, reverse=True)]
        asked = {(one.connection, one.side, one.frame): "" for one in found if one.what == "call"}
        for row in rows if asked else ():
            key = row.connection, row.direction, row.first_frame
            if row.text and asked.get(key) == "":
                asked[key] = row.text
        return [one._replace(text=asked.get((one.connection, one.side, one.frame), "")) for one in found]
