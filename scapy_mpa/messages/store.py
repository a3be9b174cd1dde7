"""Messages in the order in which they are delivered, in memory that does not follow the capture.

Most come in that order: those are written one after the other. What comes late, because it was never delivered or its
end was never captured, is sorted and merged with them. The answer to a Request comes after it: while the Request is
among the last ones it is put there at once, else it waits in a file of its own until rows are read.
"""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from typing import IO, Any, TypeAlias

from scapy_mpa.messages.row import MessageValues, messages_of
from scapy_mpa.rdmap.links import AnswerValues
from scapy_mpa.reading.spill import Sorted
from scapy_mpa.system.temporary import temporary_file

#: Rows that are written at a time, and how many of such chunks stay in memory.
_CHUNK, _CHUNKS = 2048, 4
_HALF, _OPCODE, _LAST_FRAME, _DELIVERED, _TIME = (
    MessageValues._fields.index(name) for name in ("half", "opcode", "last_frame", "delivered_frame", "time")
)
#: Read Request and Atomic Request.
REQUEST_OPCODES = frozenset((1, 10))
_FIELDS = len(MessageValues._fields)
_NEVER = 1 << 63

#: The values of a message.  Those of several RDMA Writes, as :func:`~scapy_mpa.messages.row.messages_of` has them, have
#: the octets of each after the values of the first.
_Row: TypeAlias = "tuple[Any, ...]"
#: What is sorted by: the frame of delivery; of those never delivered connection and last frame; then as they came.
Key: TypeAlias = "tuple[int, int, int, int]"


class _Rows:
    """Rows one after the other, as tuples without the names of their fields."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        #: How many octets each chunk in the file has: marshal reads much faster from octets than from a file.
        self._lengths = array("Q")
        self._chunks: list[list[_Row]] = [[]]
        #: The number of the first row in memory, and of the next one.
        self._first = self.count = 0
        self._answers: Sorted[tuple[int, AnswerValues]] = Sorted()

    def add(self, row: _Row) -> int:
        """Keep a row; returns its number."""
        last = self._chunks[-1]
        last.append(row)
        number = self.count
        self.count = number + 1
        if len(last) == _CHUNK:
            if len(self._chunks) == _CHUNKS:
                if self._file is None:
                    self._file = temporary_file()
                octets = marshal.dumps(self._chunks.pop(0))
                self._file.write(octets)
                self._lengths.append(len(octets))
                self._first += _CHUNK
            self._chunks.append([])
        return number

    def answer(self, number: int, answer: AnswerValues) -> None:
        """A row is answered, for the first time."""
        if number < self._first:
            self._answers.add((number, answer))
            return
        chunk, index = divmod(number - self._first, _CHUNK)
        self._chunks[chunk][index] = (*self._chunks[chunk][index][:-1], answer)

    def __iter__(self) -> Iterator[_Row]:
        answers = iter(self._answers)
        answered, answer = next(answers, (-1, None))
        number = 0
        for chunk in self._all():
            if not number <= answered < number + len(chunk):
                yield from chunk
                number += len(chunk)
                continue
            for row in chunk:
                if number == answered:
                    row = (*row[:-1], answer)
                    answered, answer = next(answers, (-1, None))
                yield row
                number += 1

    def _all(self) -> Iterator[list[_Row]]:
        place = 0
        for length in self._lengths:
            assert self._file is not None
            self._file.seek(place)
            place += length
            yield marshal.loads(self._file.read(length))
        yield from self._chunks

    def close(self) -> None:
        """Release everything."""
        self._chunks = [[]]
        self._answers.close()
        if self._file is not None:
            self._file.close()
            self._file = None


class MessageStore:
    """Takes messages, and yields them in order."""

    def __init__(self) -> None:
        self._in_order, self._late = _Rows(), _Rows()
        self._delivered = 0

    def add(self, row: _Row) -> int:
        """Keep the values of a message, or of several; returns what :meth:`answer` wants to know of it."""
        delivered = row[_DELIVERED]
        if delivered >= self._delivered:
            self._delivered = delivered
            return self._in_order.add(row)
        return ~self._late.add(row)

    def answer(self, number: int, answer: AnswerValues) -> None:
        """A message that was kept is answered, for the first time."""
        if number < 0:
            self._late.answer(~number, answer)
        else:
            self._in_order.answer(number, answer)

    def in_order(self, numbers: Mapping[int, int]) -> Iterator[MessageValues]:
        """Yield all messages by the frame of their delivery, then those never delivered by connection and last frame.

        ``numbers`` has the numbers that order the connections.
        """
        for values, lengths in self.runs(numbers):
            yield from messages_of(values, lengths)

    def runs(self, numbers: Mapping[int, int]) -> Iterator[tuple[MessageValues, Sequence[int]]]:
        """Yield the same as rows: the values of a message, and the octets of those that it stands for."""
        make = MessageValues._make
        for row in self._rows(numbers):
            yield (make(row), ()) if len(row) == _FIELDS else (make(row[:-1]), row[-1])

    def _rows(self, numbers: Mapping[int, int]) -> Iterator[_Row]:
        if not self._late.count:
            yield from self._in_order
            return
        late: Sorted[tuple[int, int, int, int, _Row]] = Sorted()
        try:
            for number, row in enumerate(self._late):
                late.add((*key_of(_values(row), number, numbers), row))
            behind = ((one[:4], one[4]) for one in late)
            before = ((key_of(_values(row), -1, numbers), row) for row in self._in_order)
            for _, row in merge(before, behind, key=_first):
                yield row
        finally:
            late.close()

    def close(self) -> None:
        """Release everything."""
        self._in_order.close()
        self._late.close()


class RequestStore(MessageStore):
    """Keeps nothing but Read and Atomic Requests: when they were whole, and when they were answered.

    Attributes:
        halves: of each, as :class:`~scapy_mpa.messages.row.MessageValues` has it.
        frames: that brought the last octet of it.
        asked: nanoseconds since the epoch at which that was.
        answered: the same of the end of its answer, 0 if there is none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.halves, self.frames = array("Q"), array("Q")
        self.asked, self.answered = array("q"), array("q")

    def add(self, row: _Row) -> int:
        """A message; returns what :meth:`answer` wants to know of a Request."""
        if row[_OPCODE] not in REQUEST_OPCODES:
            return -1
        self.halves.append(row[_HALF])
        self.frames.append(row[_LAST_FRAME])
        self.asked.append(row[_TIME])
        self.answered.append(0)
        return len(self.answered) - 1

    def answer(self, number: int, answer: AnswerValues) -> None:
        """A Request is answered, for the first time; calls are not kept."""
        if number >= 0:
            self.answered[number] = answer[3]


def key_of(row: MessageValues, number: int, numbers: Mapping[int, int]) -> Key:
    """Return the sort key of a message; ``number`` is the message's own, ``numbers`` those of the connections."""
    if row.delivered_frame:
        return row.delivered_frame, 0, 0, number
    return _NEVER, numbers.get(row.half // 2, -1), row.last_frame, number


def _values(row: _Row) -> MessageValues:
    return MessageValues._make(row[:_FIELDS])


def _first(item: tuple[Key, _Row]) -> Key:
    return item[0]
