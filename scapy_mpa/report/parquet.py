"""FPDUs as a Parquet file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO

from scapy_mpa.report.columns import Column, table_of, write_parquet
from scapy_mpa.values.records import FPDURecord

if TYPE_CHECKING:
    import pyarrow

COLUMNS = (
    Column("connection", "uint32"),
    Column("direction", "word"),
    Column("seq", "uint32"),
    Column("header_seq", "uint32"),
    Column("ulpdu_length", "uint16"),
    Column("wire_length", "uint32"),
    Column("markers", "uint16"),
    Column("crc", "word"),
    Column("located_by", "word"),
    Column("frames", "frames"),
    Column("placed_frame", "uint64"),
    Column("delivered_frame", "uint64"),
    Column("time", "timestamp"),
    Column("after_error", "bool_"),
    Column("opcode", "word"),
    Column("deviation", "word"),
)


def write_fpdus(records: Iterable[FPDURecord], file: BinaryIO) -> None:
    """Write records as a Parquet file. Raises MPAError without pyarrow, OSError if it cannot be written."""
    write_parquet(COLUMNS, records, _values, file)


def fpdus_table(records: Iterable[FPDURecord]) -> pyarrow.Table:
    """Make a table of records. Raises MPAError without pyarrow."""
    return table_of(COLUMNS, records, _values)


def _values(record: FPDURecord) -> tuple[Any, ...]:
    return tuple(record)
