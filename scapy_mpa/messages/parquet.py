"""Messages as a Parquet file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO

from scapy_mpa.messages.row import MessageRow
from scapy_mpa.report.columns import Column, table_of, write_parquet

if TYPE_CHECKING:
    import pyarrow

COLUMNS = (
    Column("connection", "uint32"),
    Column("direction", "word"),
    Column("message", "word"),
    Column("stag", "uint32"),
    Column("to", "uint64"),
    Column("qn", "uint32"),
    Column("msn", "uint32"),
    Column("invalidate_stag", "uint32"),
    Column("octets", "uint64"),
    Column("segments", "uint32"),
    Column("complete", "bool_"),
    Column("offset", "uint64"),
    Column("last", "bool_"),
    Column("first_frame", "uint64"),
    Column("last_frame", "uint64"),
    Column("placed_frame", "uint64"),
    Column("delivered_frame", "uint64"),
    Column("first_time", "timestamp"),
    Column("time", "timestamp"),
    Column("duration_ns", "int64"),
    Column("answer_first_frame", "uint64"),
    Column("answer_frame", "uint64"),
    Column("answer_latency_ns", "int64"),
    Column("answer_octets", "uint64"),
    Column("after_error", "bool_"),
    Column("ulp", "word"),
    Column("ulp_header", "string"),
    Column("named_by", "uint64"),
    Column("note", "string"),
    Column("call", "word"),
    Column("reply_frame", "uint64"),
    Column("call_latency_ns", "int64"),
    Column("payload", "binary"),
)


def write_messages(rows: Iterable[MessageRow], file: BinaryIO) -> None:
    """Write messages as a Parquet file. Raises MPAError without pyarrow, OSError if it cannot be written."""
    write_parquet(COLUMNS, rows, _values, file)


def messages_table(rows: Iterable[MessageRow]) -> pyarrow.Table:
    """Make a table of messages. Raises MPAError without pyarrow."""
    return table_of(COLUMNS, rows, _values)


def _values(row: MessageRow) -> tuple[Any, ...]:
    answer, ulp = row.answer, row.ulp
    return (
        *(row.connection, row.direction, row.message, row.stag, row.to, row.qn, row.msn, row.invalidate_stag),
        *(row.octets, row.segments, row.complete, row.offset, row.last, row.first_frame, row.last_frame),
        *(row.placed_frame, row.delivered_frame, row.first_time_ns, row.time_ns, row.duration_ns),
        *((None, None, None, None) if answer is None else answer),
        row.after_error,
        *((None, None) if ulp is None else (ulp["protocol"], json.dumps(ulp))),
        *(row.named_by, row.note, row.call),
        *((None, None) if row.reply is None else (row.reply.frame, row.reply.latency_ns)),
        row.payload,
    )
