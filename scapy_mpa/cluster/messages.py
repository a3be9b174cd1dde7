"""The messages of captures on a Dask cluster: what a task makes of a share, and all shares in the order of delivery.

The messages of a share are in a file of the shared folder, in their order. Whoever reads them merges the files of all
shares, a few messages of each at a time, so memory does not follow the captures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from heapq import merge
from operator import itemgetter
from typing import IO, TypeAlias

from scapy_mpa.analyzer.connection import Deviations
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.capture.named import Sources
from scapy_mpa.cluster.receiving import ReceivingTask, feed
from scapy_mpa.cluster.shared import SharedFolder, said
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.messages.found import FoundMessages
from scapy_mpa.messages.reading import MessageReading
from scapy_mpa.messages.row import MessageRow, MessageValues, row_of
from scapy_mpa.messages.store import Key, key_of
from scapy_mpa.rdmap.assembly import ConnectionMessages
from scapy_mpa.reading.analysis import part_of
from scapy_mpa.reading.onepass import Pass
from scapy_mpa.reading.part import ReportPart
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report, deviations_of
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple

#: Messages, and octets of theirs, that are written and read at a time.
_ROWS, _OCTETS = 512, 1 << 20
_SIZE_LENGTH = 8

#: The place of a message's connection in its share, its values and its octets.
_Kept: TypeAlias = "tuple[int, MessageValues, bytes | None]"
#: What it is sorted by, the number of its connection, its share, its values and its octets.
_Sorted: TypeAlias = "tuple[Key, int, int, MessageValues, bytes | None]"


class MessageTask(NamedTuple):
    """A share whose messages are reassembled; ``payload`` and ``held`` are those of MessageReading."""

    receiving: ReceivingTask
    payload: bool
    held: int


class ShareMessages(NamedTuple):
    """The result of a share: what it adds to the report, and the name of the file with its messages.

    ``messages`` has what is known of those of a connection, by its place in ``part``; ``errors`` the frame of the first
    error of a half connection, by twice that place, or by the next number for the Responder's half.
    """

    part: ReportPart
    rows: str
    messages: dict[int, ConnectionMessages]
    errors: dict[int, int]


def receive_messages(task: MessageTask) -> str:
    """Receive a share; returns the name of the file with what was found.

    Raises :class:`~scapy_mpa.errors.MPAError` if the folder cannot be read or written.
    """
    folder = task.receiving.folder
    try:
        found = _received(task)
        name, file = folder.create("messages")
        with file:
            file.write(folder.seal(found))
    except OSError as error:
        raise MPAError(f"{printable(folder.name)}: {said(error)}") from error
    return name


def _received(task: MessageTask) -> ShareMessages:
    share = task.receiving
    index = FrameIndex(Sources(()), limits=share.query.limits)
    part: ReportPart

    def fed(one: Pass) -> Sequence[Connection]:
        nonlocal part
        feed(share, one)
        part = part_of(one.analyzer, index)
        return [connection for _, connection in part.connections]

    def look() -> Deviations:
        one = Pass(share.query)
        feed(share, one)
        return deviations_of([connection for _, connection in part_of(one.analyzer, index).connections])

    reading = MessageReading(task.payload, task.held)
    try:
        reading.hear(fed, look, share.query)
        reading.finish()
        places = _places(part, reading)
        name, file = share.folder.create("rows")
        with file:
            _write(reading.in_order(places), share.folder, file)
    finally:
        reading.close()
    heard, errors = reading.heard, reading.errors
    return ShareMessages(
        part,
        name,
        {place: heard[serial] for serial, place in places.items()},
        {
            2 * place + side: errors[2 * serial + side]
            for serial, place in places.items()
            for side in range(len(ROLES))
            if 2 * serial + side in errors
        },
    )


def _places(part: ReportPart, reading: MessageReading) -> dict[int, int]:
    """The places of the connections in a share, by their number in the reading; sorted as a report numbers them."""
    part.connections.sort(key=itemgetter(0))
    place_of = {id(connection): place for place, (_, connection) in enumerate(part.connections)}
    return {
        serial: place_of[id(there)]
        for serial, there in enumerate(reading.connections)
        if there is not None and serial in reading.heard
    }


def _write(rows: Iterator[_Kept], folder: SharedFolder, file: IO[bytes]) -> None:
    """Write messages in chunks, each after its length."""
    chunk: list[_Kept] = []
    octets = 0
    for row in rows:
        chunk.append(row)
        octets += len(row[2] or b"")
        if len(chunk) >= _ROWS or octets >= _OCTETS:
            _put(folder.seal(chunk), file)
            chunk, octets = [], 0
    _put(folder.seal(chunk), file)


def _put(octets: bytes, file: IO[bytes]) -> None:
    file.write(len(octets).to_bytes(_SIZE_LENGTH, "big"))
    file.write(octets)


class ClusterMessages(FoundMessages):
    """The messages of all shares; ``closing`` is closed with it: it removes the folder."""

    def __init__(
        self,
        report: Report,
        shares: Sequence[ShareMessages],
        folder: SharedFolder,
        closing: ExitStack,
        *,
        directions: Sequence[Role] = ROLES,
        protocols: Sequence[str] = (),
    ) -> None:
        self.report, self.remark = report, None
        self.directions, self.protocols = directions, protocols
        self._shares, self._folder, self._closing = shares, folder, closing
        #: The connections of a share have numbers by now, in the order in which they are there.
        self._numbers = [[connection.number for _, connection in share.part.connections] for share in shares]
        self._places = {number: place for numbers in self._numbers for place, number in enumerate(numbers)}
        self.messages = {
            numbers[place]: messages
            for share, numbers in zip(shares, self._numbers, strict=True)
            for place, messages in share.messages.items()
        }

    def close(self) -> None:
        """Drop what waits in files."""
        self._closing.close()

    def __iter__(self) -> Iterator[MessageRow]:
        """Yield the messages in the order of delivery; those never delivered come after all others.

        Raises MPAError if the folder cannot be read.
        """
        shown = self.shown_numbers()
        with ExitStack() as files:
            for _, number, share, values, payload in merge(
                *(self._sorted(share, files) for share in range(len(self._shares))), key=itemgetter(0)
            ):
                half, direction = 2 * self._places[number] + (values.half & 1), ROLES[values.half & 1]
                if number in shown and direction in self.directions:
                    yield row_of(values, number, direction, self._shares[share].errors.get(half), payload)

    def _sorted(self, share: int, files: ExitStack) -> Iterator[_Sorted]:
        """The messages of a share, with what they are sorted by in all."""
        numbers = self._numbers[share]
        file = files.enter_context(self._folder.open(self._shares[share].rows))
        for index, (place, values, payload) in enumerate(_read(self._folder, file)):
            number = numbers[place]
            yield key_of(values, index, {values.half // 2: number}), number, share, values, payload


def _read(folder: SharedFolder, file: IO[bytes]) -> Iterator[_Kept]:
    while size := file.read(_SIZE_LENGTH):
        chunk: list[_Kept] = folder.unseal(file.read(int.from_bytes(size, "big")))
        yield from chunk
