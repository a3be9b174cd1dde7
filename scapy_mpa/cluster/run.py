"""The analysis of captures on a Dask cluster: what is given to the workers, and what becomes of their answers.

First stage: :mod:`~scapy_mpa.cluster.reading`. Second stage: :mod:`~scapy_mpa.cluster.receiving`. Third stage: this
process joins the parts, as it does those of ``--jobs``. A task depends on its arguments and the captures alone: Dask
runs it again where a worker dies, and the answer that comes is the one that counts.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.capture.named import Sources, name_of
from scapy_mpa.capture.notes import Note, Unread
from scapy_mpa.cluster.messages import ClusterMessages, MessageTask, ShareMessages, receive_messages
from scapy_mpa.cluster.partition import part_of_chunk
from scapy_mpa.cluster.reading import UnitRead, joined, read_unit, reading_task, torn, units_of
from scapy_mpa.cluster.receiving import ReceivingTask, read_found, receive_share
from scapy_mpa.cluster.shared import HOW_TO_INSTALL, SharedFolder, said
from scapy_mpa.errors import CaptureError, MPAError
from scapy_mpa.framing.role import Role
from scapy_mpa.reading.analysis import report_of
from scapy_mpa.reading.part import ReportPart
from scapy_mpa.reading.query import Query
from scapy_mpa.reading.shares import require_files
from scapy_mpa.report.model import Report
from scapy_mpa.system.names import encodable
from scapy_mpa.tuples import NamedTuple

Task = TypeVar("Task")
Found = TypeVar("Found")

#: Octets of captures that a share has, on the average; and how many shares there are at most.
_OCTETS_OF_SHARE = 1 << 25
_MOST_SHARES = 256
#: Shares of each worker at least: some take longer than others.
_SHARES_OF_WORKER = 2


class Cluster(NamedTuple):
    """Workers: this many processes on this machine, or those of the scheduler with an ``address``.

    ``shared`` is the folder that all of them can write; without, one of this machine.
    """

    address: str | None = None
    workers: int = 0
    shared: str | None = None


def analyze_on_cluster(query: Query, cluster: Cluster, *, fpdus: bool) -> Report:
    """Analyse captures as :func:`scapy_mpa.analyze` does; the limits hold for each share of the TCP connections.

    Raises:
        CaptureError: Nothing of a capture can be read, or it is no file.
        MPAError: Dask is not installed, the cluster cannot be reached, or its workers die again and again.
    """
    with _shared_folder(query, cluster) as folder, _client(cluster) as client:
        units, tasks = _divided(client, query, folder, fpdus)
        parts: list[ReportPart] = [read_found(folder, name) for name in _done(client, receive_share, tasks)]
    return _report(query, units, parts)


def messages_on_cluster(
    query: Query,
    cluster: Cluster,
    *,
    payload: bool,
    held: int,
    directions: Sequence[Role],
    protocols: Sequence[str],
) -> ClusterMessages:
    """Find messages as :class:`~scapy_mpa.messages.reading.CapturedMessages` does.

    They are read from the shared folder, which is removed when they are closed. Raises as :func:`analyze_on_cluster`.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(_shared_folder(query, cluster))
        with _client(cluster) as client:
            units, tasks = _divided(client, query, folder, False)
            shares = [MessageTask(task, payload, held) for task in tasks]
            found: list[ShareMessages] = [read_found(folder, name) for name in _done(client, receive_messages, shares)]
        report = _report(query, units, [share.part for share in found])
        closing = stack.pop_all()
    return ClusterMessages(report, found, folder, closing, directions=directions, protocols=protocols)


@contextmanager
def _shared_folder(query: Query, cluster: Cluster) -> Iterator[SharedFolder]:
    """The folder of a run, which is removed at its end. Raises what the captures raise before that."""
    require_files(query.sources)
    with Captures(query.sources, limits=query.limits):
        pass  # it raises what it raises of any captures
    with ExitStack() as stack:
        parent = cluster.shared or stack.enter_context(TemporaryDirectory(prefix="scapy-mpa-"))
        folder = SharedFolder.made_in(parent)
        stack.callback(folder.remove)
        yield folder


def _divided(
    client: Any, query: Query, folder: SharedFolder, fpdus: bool
) -> tuple[list[UnitRead], list[ReceivingTask]]:
    """Return the results of the first stage, and the tasks of the second."""
    shares = _shares(query.sources, _workers(client))
    units = _read(client, query, folder, shares)
    # What a share was made of is in the folder.
    asked = query._replace(sources=Sources(()))
    tasks = []
    for share in range(shares):
        files, before = [], 0
        for unit in units:
            files.append((unit.name, [part_of_chunk(chunk, share) for chunk in unit.chunks], before))
            before += unit.packets
        tasks.append(ReceivingTask(folder, files, fpdus, asked))
    return units, tasks


def _report(query: Query, units: list[UnitRead], parts: list[ReportPart]) -> Report:
    """The third stage: all parts as one report."""
    sources = query.sources
    begins, notes, damage = _begins(sources, units), _notes(units), _damage(sources, units)
    not_read = _not_read(units)
    if not_read is not None:
        notes.append(not_read)
        damage.append(not_read.detail)
    parts[0] = parts[0]._replace(
        captures=[encodable(name_of(source)) for source in sources],
        packets=sum(unit.packets for unit in units),
        notes=notes,
        damage=damage,
        begins=begins,
        services={key: port for unit in units for key, port in unit.services.items()},
    )
    return report_of(parts, FrameIndex(sources, limits=query.limits, begins=begins))


def check_installed() -> None:
    """Raise :class:`~scapy_mpa.errors.MPAError` if what the cluster needs is not installed."""
    try:
        import cryptography
        import distributed
        import fsspec
    except ImportError:
        raise MPAError(HOW_TO_INSTALL) from None
    del cryptography, distributed, fsspec


@contextmanager
def _client(cluster: Cluster) -> Iterator[Any]:
    """The connection to the workers, which are started if they are of this machine, and end with it."""
    check_installed()
    import distributed

    # Dask's classes are not typed.
    dask: Any = distributed
    # What Dask logs of workers that come and go is no business of the command: it raises what matters.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        try:
            if cluster.address is None:
                local = dask.LocalCluster(
                    n_workers=cluster.workers,
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                    memory_limit=0,
                    # TLS with a key that only this process has: workers do whatever a client tells them, as this user.
                    security=True,
                )
                client = dask.Client(stack.enter_context(local))
            else:
                client = dask.Client(cluster.address, timeout="10s")
            stack.enter_context(client)
        except (OSError, ValueError, RuntimeError) as error:
            where = cluster.address or "this machine"
            raise MPAError(f"{where}: no Dask cluster answers: {said(error)}") from error
        yield client


def _workers(client: Any) -> int:
    found = len(client.scheduler_info(n_workers=-1)["workers"])
    if not found:
        raise MPAError("the Dask scheduler has no worker: start some with dask worker")
    return found


def _shares(sources: Sources, workers: int) -> int:
    octets = sum(os.stat(name_of(source)).st_size for source in sources)
    return min(_MOST_SHARES, max(_SHARES_OF_WORKER * workers, octets // _OCTETS_OF_SHARE))


def _read(client: Any, query: Query, folder: SharedFolder, shares: int) -> list[UnitRead]:
    """Return the results of the first stage, in the order of the captures."""
    units = units_of(query.sources, query.limits)
    known: dict[tuple[int, ...], UnitRead] = {}
    while True:
        new = [unit for unit in units if tuple(unit) not in known]
        tasks = [reading_task(query, unit, folder, shares) for unit in new]
        for unit, read in zip(new, _done(client, read_unit, tasks), strict=True):
            known[tuple(unit)] = read
        found = [known[tuple(unit)] for unit in units]
        apart = torn(found)
        if not apart:
            return found
        units = joined(units, apart)


def _done(client: Any, run: Callable[[Task], Found], tasks: Sequence[Task]) -> list[Found]:
    """Return the results of tasks, in their order."""
    from distributed import KilledWorker

    try:
        # A task that ran before may be another one by now: captures grow.
        return list(client.gather(client.map(run, tasks, pure=False)))
    except KilledWorker as error:
        raise MPAError("workers repeatedly die on the same task: do they have enough memory?") from error
    except ModuleNotFoundError as error:
        raise MPAError(f"a worker lacks the package {error.name}: scapy-mpa must be installed there too") from error
    except OSError as error:
        raise MPAError(f"the Dask cluster is gone: {said(error)}") from error


def _begins(sources: Sources, units: Sequence[UnitRead]) -> list[tuple[int, int]] | None:
    """Return the beginnings as :class:`~scapy_mpa.capture.files.Captures` has them."""
    if len(sources.groups) < len(sources):
        return None
    found, before = [], 0
    for unit in units:
        for index, frames in unit.frames:
            found.append((before, index))
            before += frames
    return found


def _notes(units: Sequence[UnitRead]) -> list[Note]:
    """Return the notes, one per rule, without the one of :func:`_not_read`."""
    found: dict[str, Note] = {}
    before = 0
    for unit in units:
        for note in unit.notes:
            if note.rule == "not-read":
                continue
            first = found.get(note.rule)
            frame, last = note.frame + before, note.last_frame + before
            if first is None:
                found[note.rule] = note._replace(frame=frame, last_frame=last)
            else:
                found[note.rule] = first._replace(last_frame=last, times=first.times + note.times)
        before += unit.packets
    return [*found.values()]


def _not_read(units: Sequence[UnitRead]) -> Note | None:
    """The note of all packets in what is not read; None if there are none."""
    found: Unread | None = None
    before = 0
    for unit in units:
        if unit.unread is not None:
            there = unit.unread.after(before)
            found = there if found is None else found.joined(there)
        before += unit.packets
    return found.note(before) if found is not None else None


def _damage(sources: Sources, units: Sequence[UnitRead]) -> list[str]:
    """Return one line for each capture that could only be read in part.

    Raises :class:`~scapy_mpa.errors.CaptureError` if nothing of one can be read, where all must be.
    """
    packets = sum(unit.packets for unit in units)
    found = [*sources.skipped]
    for _, is_unread, line in sorted(one for unit in units for one in unit.said):
        if is_unread and not (sources.lenient and packets):
            raise CaptureError(line)
        found.append(line)
    return found
