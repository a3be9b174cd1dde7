"""One direction of a connection as the report has it: its counts, and its FPDUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from scapy_mpa.analyzer.connection import CapturedConnection
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH, marker_count, plain_length
from scapy_mpa.framing.role import Role
from scapy_mpa.receiver.deviation import Diagnosis
from scapy_mpa.receiver.values import Moment
from scapy_mpa.report.context import HalfContext
from scapy_mpa.values.records import FPDULog, FPDURecord, FPDURow, record_of, rows_of
from scapy_mpa.values.segment import endpoints
from scapy_mpa.watches.counts import Counts
from scapy_mpa.watches.fpdus import FirstFPDU, FirstSend


class FPDURun:
    """FPDUs one after the other that one frame carried.

    Attributes:
        row: announces them.
        fpdus: ULPDU_Length and, times 2^16, the opcode of each.
        frame: brought them.
        lengths: octets of each on the wire.
    """

    __slots__ = ("_records", "fpdus", "frame", "lengths", "row")

    def __init__(self, row: FPDURow, fpdus: tuple[int, ...], records: FPDURecords) -> None:
        self._records = records
        self.row = row
        self.fpdus = fpdus
        self.frame = row.first_frame
        self.lengths = self._lengths(records.log.seq_start if records.log is not None else None)

    def _lengths(self, seq_start: int | None) -> list[int]:
        if seq_start is None:
            return [plain_length(one & 0xFFFF) for one in self.fpdus]
        lengths, seq = [], self.row.seq
        for one in self.fpdus:
            body = plain_length(one & 0xFFFF)
            length = body + MARKER_LENGTH * marker_count((seq - seq_start) % MARKER_INTERVAL, body)
            lengths.append(length)
            seq += length
        return lengths

    @property
    def is_at_once(self) -> bool:
        """True if the frame that carried them also placed and delivered them."""
        return self.row.placed == self.row.delivered == self.frame

    def records(self) -> Iterator[FPDURecord]:
        """Yield the record of each."""
        return self._records.expand(self)


class FPDURecords(Sequence[FPDURecord]):
    """The FPDUs of one half connection, in the order of the stream; made when they are examined.

    ``log`` is what they are made of, None if none was kept.
    """

    def __init__(
        self,
        log: FPDULog | None,
        count: int,
        connection: int,
        direction: Role,
        context: HalfContext | None = None,
        deviation: str | None = None,
    ) -> None:
        self._context = context
        #: What the sender does wrong, by name.
        self.deviation = deviation
        self.log = log
        self._count = count if log is not None else 0
        self.connection = connection
        self.direction: Role = direction
        self._records: list[FPDURecord] | None = None

    def __iter__(self) -> Iterator[FPDURecord]:
        """Yield the records without keeping them."""
        if self.log is not None:
            for row, frames in self.log.rows():
                yield record_of(row, frames, self.connection, self.direction, self._context, self.deviation)

    def entries(self) -> Iterator[FPDURecord | FPDURun]:
        """Yield the records, but as runs those FPDUs that one frame carried, placed and delivered together."""
        if self.log is None:
            return
        for row, frames, run in self.log.entries():
            if run is None:
                yield record_of(row, frames, self.connection, self.direction, self._context, self.deviation)
            else:
                yield FPDURun(row, run, self)

    def some(self, numbers: Iterable[int]) -> dict[int, FPDURecord]:
        """The records with these numbers, from 0 in the order of the stream; no others are made."""
        found: dict[int, FPDURecord] = {}
        wanted = sorted({*numbers}, reverse=True)
        first = 0
        for row, frames, run in self.log.entries() if self.log is not None else ():
            if not wanted:
                break
            end = first + (1 if run is None else len(run))
            if wanted[-1] < end:
                rows = [row] if run is None else [*rows_of(row, run, self.log.seq_start if self.log else None)]
                while wanted and wanted[-1] < end:
                    number = wanted.pop()
                    found[number] = record_of(
                        rows[number - first], frames, self.connection, self.direction, self._context, self.deviation
                    )
            first = end
        return found

    def expand(self, run: FPDURun) -> Iterator[FPDURecord]:
        """Yield the records of FPDUs that :meth:`entries` has together."""
        seq_start = self.log.seq_start if self.log is not None else None
        for row in rows_of(run.row, run.fpdus, seq_start):
            frames = (run.frame,)
            yield record_of(row, frames, self.connection, self.direction, self._context, self.deviation)

    def __len__(self) -> int:
        """Return the number of records."""
        return self._count

    @overload
    def __getitem__(self, index: int) -> FPDURecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[FPDURecord]: ...
    def __getitem__(self, index: int | slice) -> FPDURecord | list[FPDURecord]:
        """Return one record, or a slice of them."""
        return self._all()[index]

    def _all(self) -> list[FPDURecord]:
        if self._records is None:
            self._records = list(iter(self))
        return self._records


class HalfConnection:
    """One direction of a connection.

    ``endpoint`` is who sent it (``address:port``), ``markers`` whether Markers are in use, ``counts`` what was
    counted, ``fpdus`` its FPDUs (empty if the analysis kept none).
    """

    __slots__ = (
        "_context", "_direction", "_first", "_fpdus", "_log", "_number", "counts", "diagnosis", "first_send",
        "inferred", "key", "markers", "seq_start",
    )  # fmt: skip

    def __init__(self, mpa: CapturedConnection, direction: Role, index: FrameIndex) -> None:
        operation = mpa.operations.get(direction)
        self._direction: Role = direction
        self._number = mpa.number
        #: What its segments have for a key: addresses and ports of sender and receiver.
        self.key = mpa.keys[direction]
        #: What it was inferred to be, None if a startup frame says it or nothing does.
        self.inferred = mpa.inference_of(direction)
        #: Sequence number from which Markers count, None if Full Operation was not entered.
        self.seq_start: int | None = None
        #: Its first Send with payload, None if there is none, or nobody knows which was the first.
        self.first_send: FirstSend | None = None
        #: The first FPDU of Full Operation, None if it was not captured.
        self._first: FirstFPDU | None = None
        #: What the sender does wrong, if the FPDUs were read by that.
        self.diagnosis: Diagnosis | None = None
        self._fpdus: FPDURecords | None = None
        self._log: FPDULog | None = None
        self._context: HalfContext | None = None
        if operation is None:
            #: None if neither the startup frame that asks for them was captured nor Full Operation was entered.
            self.markers = mpa.markers(direction)
            self.counts = Counts()
            return
        self.markers = operation.markers
        self.counts = operation.counts
        self.seq_start, self.diagnosis, watch = operation.seq_start, operation.diagnosis, operation.fpdus
        self._first, self.first_send = watch.first, watch.first_send
        if operation.log is not None:
            self._log, self._context = operation.log, HalfContext(index, operation)

    def take_number(self, number: int, index: FrameIndex) -> None:
        """Belong to the connection of this number, in captures whose frames ``index`` finds."""
        self._number = number
        if self._context is not None:
            self._context.index = index
        if self._fpdus is not None:
            self._fpdus.connection = number

    @property
    def endpoint(self) -> str:
        """The sender, as ``address:port``."""
        return endpoints(self.key)[0]

    @property
    def fpdus(self) -> FPDURecords:
        """Its FPDUs."""
        if self._fpdus is None:
            what = self._log, self.counts.fpdus, self._number, self._direction, self._context, self.deviation
            self._fpdus = FPDURecords(*what)
        return self._fpdus

    @property
    def first_ulpdu(self) -> bytes | None:
        """The first octets of the first ULPDU of Full Operation, None if that FPDU was not captured."""
        return self._first.ulpdu if self._first is not None else None

    @property
    def opened(self) -> Moment | None:
        """The frame and the time (nanoseconds) at which that FPDU was complete, None if it was not captured."""
        return self._first.known if self._first is not None else None

    @property
    def deviation(self) -> str | None:
        """The name of what its sender does wrong; None if nothing, or if that is unknown."""
        return self.diagnosis.candidate.name if self.diagnosis is not None else None

    @property
    def dialect(self) -> Dialect | None:
        """How to read the FPDUs of a sender that deviates."""
        return self.diagnosis.candidate.dialect if self.diagnosis is not None else None

    def as_dict(self) -> dict[str, Any]:
        """The half connection with the keys of the report's JSON."""
        return {"markers": bool(self.markers), "deviation": self.deviation, **self.counts.as_dict()}


def marker_phase(markers: bool | None, offset: int) -> int | None:
    """What :func:`decode_fpdu` takes for the offset of an FPDU at a stream offset; None without Markers."""
    if not markers:
        return None
    phase = offset % MARKER_INTERVAL
    return None if 0 < phase < MARKER_LENGTH else phase  # no FPDU can begin inside a Marker


def inferred_as_dict(half: HalfConnection) -> dict[str, Any] | None:
    """Return what was inferred about a half connection, with the keys of the report's JSON."""
    found = half.inferred
    if found is None:
        return None
    return {
        "confirmations": found.confirmations,
        "evidence_bits": found.bits,
        "markers": found.markers,
        "crc": found.crc,
        "marker_seq": half.seq_start % MARKER_INTERVAL if found.markers and half.seq_start is not None else None,
        "fpduptr_origin": found.origin,
    }
