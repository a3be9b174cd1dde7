"""The second stage: a task runs the receiver over the segments of one share, in the order of the captures.

It does what each process of ``--jobs`` does (:mod:`scapy_mpa.reading.shares`), block by block, but reads its own
segments alone: where a block ends, and the time that passes in it, is known from its mark.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.capture.named import Sources
from scapy_mpa.capture.reader import BLOCK_SIZE
from scapy_mpa.cluster.partition import Chunk, read_partition
from scapy_mpa.cluster.shared import SharedFolder, said
from scapy_mpa.errors import MPAError
from scapy_mpa.reading.analysis import part_of
from scapy_mpa.system.names import printable
from scapy_mpa.values.assumptions import Assumptions
from scapy_mpa.values.limits import Limits
from scapy_mpa.values.segment import Segment, segment


class ReceivingTask(NamedTuple):
    """A share to be received.

    ``files`` are those of the first stage, in the order of the captures: the name, where the share is in it, and how
    many frames come before. ``fpdus`` asks for a record of every FPDU.
    """

    folder: SharedFolder
    files: list[tuple[str, list[Chunk], int]]
    fpdus: bool
    assumptions: Assumptions
    limits: Limits


def receive_share(task: ReceivingTask) -> str:
    """Receive a share; returns the name of the file with what was found.

    Raises :class:`~scapy_mpa.errors.MPAError` if the folder cannot be read or written.
    """
    try:
        receiver = Analyzer(records=task.fpdus, assumptions=task.assumptions, limits=task.limits)
        feed(task, receiver)
        part = part_of(receiver, FrameIndex(Sources(()), limits=task.limits))
        name, file = task.folder.create("part")
        with file:
            pickle.dump(part, file, pickle.HIGHEST_PROTOCOL)
    except OSError as error:
        raise MPAError(f"{printable(task.folder.name)}: {said(error)}") from error
    return name


def read_found(folder: SharedFolder, name: str) -> Any:
    """What a task wrote into a file of the folder. Raises MPAError if that cannot be read."""
    try:
        with folder.open(name) as file:
            return pickle.load(file)
    except OSError as error:
        raise MPAError(f"{printable(folder.name)}: {said(error)}") from error


def feed(task: ReceivingTask, receiver: Analyzer, see: Callable[[Sequence[Segment]], None] | None = None) -> None:
    """Hand a receiver all segments of a share; ``see`` is shown those of each block before.

    Raises MPAError, or OSError, if the folder cannot be read.
    """
    octets = released = 0
    for name, chunks, before in task.files:
        with task.folder.open(name) as file:
            for segments, mark in read_partition(file, chunks, before):
                if see is not None:
                    see(segments)
                receiver.feed(segments)
                if mark.last is not None:
                    frame, time = mark.last
                    receiver.pass_time((segment(frame, b"", 0, time=time),))
                octets += mark.octets
                # Where one process lets go of what it holds, so must all: what is at hand must not depend on shares.
                if octets - released >= BLOCK_SIZE // 2:
                    receiver.release()
                    released = octets
    if octets > released:
        receiver.release()
    receiver.finish()
