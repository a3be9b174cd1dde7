"""Several processes for one analysis: each reads the captures, and follows its share of the TCP connections.

The share of a connection follows from its addresses and ports alone, so no process has to ask another. Reading is done
by all of them; what is divided is following the octets. A worker sends what it found once, at its end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from scapy_mpa.capture.index import is_pipe
from scapy_mpa.capture.named import STANDARD_INPUT, CaptureSource, name_of
from scapy_mpa.errors import CaptureError, MPAError
from scapy_mpa.framing.crc import crc32c
from scapy_mpa.reading.part import ReportPart
from scapy_mpa.system.ending import kill_at_end, undisturbed
from scapy_mpa.system.names import printable
from scapy_mpa.values.segment import Segment, reverse_key

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

#: TCP connections whose share a process remembers.
_MOST_REMEMBERED = 1 << 16


class Share:
    """One of ``count`` shares of the TCP connections in a capture."""

    def __init__(self, number: int, count: int) -> None:
        self._number = number
        self._count = count
        self._is_mine: dict[bytes, bool] = {}

    def of(self, segments: list[Segment]) -> list[Segment]:
        """The segments of this share."""
        known = self._is_mine
        if len(known) > _MOST_REMEMBERED:
            known.clear()
        found = []
        for seg in segments:
            is_mine = known.get(seg.key)
            if is_mine is None:
                is_mine = known[seg.key] = self._holds(seg.key)
            if is_mine:
                found.append(seg)
        return found

    def _holds(self, key: bytes) -> bool:
        return share_of(key, self._count) == self._number


def share_of(key: bytes, count: int) -> int:
    """Return the share, from 0, of ``count`` that a half connection belongs to; both halves of a connection have the
    same.
    """
    # A CRC is linear: those of keys that differ in few bits leave remainders that do too, unless they are mixed.
    mixed = crc32c(min(key, reverse_key(key))) * 0x9E3779B1 & 0xFFFFFFFF
    return (mixed >> 16) % count


def parts(
    sources: CaptureSource | Sequence[CaptureSource], jobs: int, read: Callable[[Share], ReportPart]
) -> list[ReportPart]:
    """Return what ``jobs`` processes found, including this one; ``read`` reads the captures for a share.

    Raises :class:`~scapy_mpa.errors.MPAError` if the captures cannot be read by several processes, if one of these does
    not come to its end, and what reading raises.
    """
    from multiprocessing import get_context

    require_files(sources)
    context = get_context()
    workers: list[tuple[BaseProcess, Any]] = []
    with ExitStack() as forgetting, ExitStack() as stack:
        stack.callback(_stop, workers)
        for number in range(1, jobs):
            receiver, sender = context.Pipe(duplex=False)
            share = Share(number, jobs)
            process: BaseProcess = context.Process(target=_work, args=(sender, read, share), daemon=True)
            with undisturbed():
                process.start()
                forgetting.callback(kill_at_end(process))
            sender.close()
            workers.append((process, receiver))
        found = [read(Share(0, jobs))]
        for process, receiver in workers:
            try:
                result = receiver.recv()
            except (EOFError, OSError) as error:
                process.join()
                raise MPAError(f"a process that read the captures ended with status {process.exitcode}") from error
            if isinstance(result, BaseException):
                raise result
            found.append(result)
    return found


def _work(sender: Any, read: Callable[[Share], ReportPart], share: Share) -> None:
    """Do the work of a worker: find its part and send it, or the error."""
    # Whoever interrupts means the process that waits for this one, which ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sender.send(read(share))
    except Exception as error:  # noqa: BLE001 - it is raised where it is seen
        sender.send(error)


def _stop(workers: list[tuple[BaseProcess, Any]]) -> None:
    for process, receiver in workers:
        if process.is_alive():
            process.terminate()
        process.join()
        receiver.close()


def require_files(sources: CaptureSource | Sequence[CaptureSource]) -> None:
    """Raise :class:`~scapy_mpa.errors.CaptureError` for what several processes cannot read at once."""
    for source in _each(sources):
        if source == STANDARD_INPUT or not isinstance(source, (str, os.PathLike)) or is_pipe(source):
            raise CaptureError(f"{printable(name_of(source))}: several processes can read only a named file")


def _each(sources: CaptureSource | Sequence[CaptureSource]) -> Iterator[CaptureSource]:
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        yield from sources
    else:
        yield sources
