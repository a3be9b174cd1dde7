"""The second stage: a task runs the receiver over the segments of one share, in the order of the captures.

It does what each process of ``--jobs`` does (:mod:`scapy_mpa.reading.shares`), block by block, but reads its own
segments alone: where a block ends, and the time that passes in it, is known from its mark.
"""

from __future__ import annotations

from typing import Any

from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.capture.named import Sources
from scapy_mpa.cluster.partition import Chunk, read_partition
from scapy_mpa.cluster.shared import SharedFolder, said
from scapy_mpa.errors import MPAError
from scapy_mpa.reading.analysis import part_of
from scapy_mpa.reading.onepass import Pass
from scapy_mpa.reading.query import Query
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.segment import segment


class ReceivingTask(NamedTuple):
    """A share to be received.

    ``files`` are those of the first stage, in the order of the captures: the name, where the share is in it, and how
    many frames come before. ``fpdus`` asks for a record of every FPDU.
    """

    folder: SharedFolder
    files: list[tuple[str, list[Chunk], int]]
    fpdus: bool
    query: Query


def receive_share(task: ReceivingTask) -> str:
    """Receive a share; returns the name of the file with what was found.

    Raises :class:`~scapy_mpa.errors.MPAError` if the folder cannot be read or written.
    """
    try:
        one = Pass(task.query, records=task.fpdus)
        feed(task, one)
        part = part_of(one.analyzer, FrameIndex(Sources(()), limits=task.query.limits))
        name, file = task.folder.create("part")
        with file:
            file.write(task.folder.seal(part))
    except OSError as error:
        raise MPAError(f"{printable(task.folder.name)}: {said(error)}") from error
    return name


def read_found(folder: SharedFolder, name: str) -> Any:
    """Return what a task wrote into a file of the folder. Raises MPAError if that cannot be read."""
    try:
        with folder.open(name) as file:
            return folder.unseal(file.read())
    except OSError as error:
        raise MPAError(f"{printable(folder.name)}: {said(error)}") from error


def feed(task: ReceivingTask, one: Pass) -> None:
    """Have a pass take all segments of a share. Raises MPAError, or OSError, if the folder cannot be read."""
    octets = 0
    for name, chunks, before in task.files:
        with task.folder.open(name) as file:
            for segments, mark in read_partition(task.folder, file, chunks, before):
                octets += mark.octets
                passed = () if mark.last is None else (segment(mark.last[0], b"", 0, time=mark.last[1]),)
                # Where one process releases what it holds, so must all: what is available must not depend on shares.
                one.take(segments, octets, passed)
    one.finish(octets)
