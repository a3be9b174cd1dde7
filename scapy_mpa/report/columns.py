"""Rows as a Parquet file or a table, by pyarrow.

The schema is fixed: unsigned where nothing is negative, times in nanoseconds. It says as which of pandas' integers,
those that can be null, a column is to be read: else ``pandas.read_parquet`` makes floats of columns with nulls, which
changes 64-bit TOs without a word.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from scapy_mpa.errors import MPAError
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.version import __version__

if TYPE_CHECKING:
    import pandas
    import pyarrow

#: pandas' integers that can be null, by pyarrow's.
_NULLABLE = {"uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "int64": "Int64"}
#: The version of the metadata's layout, as pandas writes it.
_PANDAS_LAYOUT = "1.0.0"

#: Rows of a row group.
_GROUP = 1 << 16


class Column(NamedTuple):
    """A column: its name, and its type as pyarrow's functions are called ("timestamp": nanoseconds since the epoch)."""

    name: str
    kind: str


def _type(kind: str) -> Any:
    import pyarrow

    if kind == "timestamp":
        return pyarrow.timestamp("ns")
    if kind == "frames":
        return pyarrow.list_(pyarrow.uint64())
    if kind == "word":  # one of a few
        return pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    return getattr(pyarrow, kind)()


def schema_of(columns: Sequence[Column]) -> pyarrow.Schema:
    """The schema of columns. Raises MPAError without pyarrow."""
    check_pyarrow()
    import pyarrow

    fields = [pyarrow.field(column.name, _type(column.kind)) for column in columns]
    return pyarrow.schema(fields, metadata={"pandas": json.dumps(_pandas_metadata(columns))})


def _pandas_metadata(columns: Sequence[Column]) -> dict[str, Any]:
    """Return the schema metadata that pandas reads, as pandas writes it: the pandas type of each column."""
    nullable = [
        {
            "name": column.name,
            "field_name": column.name,
            "pandas_type": column.kind,
            "numpy_type": _NULLABLE[column.kind],
            "metadata": None,
        }
        for column in columns
        if column.kind in _NULLABLE
    ]
    creator = {"library": "scapy-mpa", "version": __version__}
    return {
        "index_columns": [],
        "column_indexes": [],
        "columns": nullable,
        "creator": creator,
        "pandas_version": _PANDAS_LAYOUT,
    }


def check_pyarrow() -> None:
    """Raise MPAError, with the way to install it, if pyarrow is not there."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise MPAError(
            "Parquet is written by pyarrow, which is not installed: pip install 'scapy-mpa[parquet]'"
        ) from None


def write_parquet(
    columns: Sequence[Column], rows: Iterable[Any], values: Callable[[Any], Sequence[Any]], file: BinaryIO
) -> None:
    """Write rows; ``values`` returns the values of all columns for each. Raises OSError if that is impossible."""
    schema = schema_of(columns)
    from pyarrow import parquet

    with parquet.ParquetWriter(_Sink(file), schema) as writer:
        for table in _tables(schema, rows, values):
            writer.write_table(table)


def table_of(columns: Sequence[Column], rows: Iterable[Any], values: Callable[[Any], Sequence[Any]]) -> pyarrow.Table:
    """Make a table of rows; ``values`` returns the values of all columns for each. Raises MPAError without pyarrow."""
    schema = schema_of(columns)
    import pyarrow

    tables = [*_tables(schema, rows, values)]
    # Each group has words of its own.
    return pyarrow.concat_tables([schema.empty_table(), *tables]).unify_dictionaries()


def data_frame(table: pyarrow.Table) -> pandas.DataFrame:
    """A table as a DataFrame, whose integers stay integers where some are null.

    Raises MPAError, with the way to install it, without pandas.
    """
    try:
        import pandas
    except ImportError:
        raise MPAError("pandas is not installed: pip install pandas") from None
    import pyarrow

    integers = {getattr(pyarrow, kind)(): getattr(pandas, f"{name}Dtype")() for kind, name in _NULLABLE.items()}
    return table.to_pandas(types_mapper=integers.get)


def _tables(
    schema: pyarrow.Schema, rows: Iterable[Any], values: Callable[[Any], Sequence[Any]]
) -> Iterator[pyarrow.Table]:
    """Yield the rows as tables of one group each."""
    import pyarrow

    left = iter(rows)
    while group := [values(row) for row in islice(left, _GROUP)]:
        arrays = [
            pyarrow.array(column, type=field.type)
            for column, field in zip(zip(*group, strict=True), schema, strict=True)
        ]
        yield pyarrow.Table.from_arrays(arrays, schema=schema)


class _Sink:
    """A file that can only be written, such as a pipe: the only other thing that pyarrow asks for is its position."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0

    def write(self, octets: Any) -> int:
        """Write octets; returns how many."""
        octets = bytes(octets)
        self._file.write(octets)
        self._at += len(octets)
        return len(octets)

    def tell(self) -> int:
        """Return the number of octets written."""
        return self._at

    def flush(self) -> None:
        """Do nothing: no octets are kept here."""

    def close(self) -> None:
        """Whoever opened the file closes it."""
