"""FPDUs and messages as tables in memory, with the columns of the Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from scapy_mpa.errors import MPAError
from scapy_mpa.messages.parquet import messages_table
from scapy_mpa.messages.row import MessageRow
from scapy_mpa.report.columns import data_frame
from scapy_mpa.report.parquet import fpdus_table
from scapy_mpa.values.records import FPDURecord

if TYPE_CHECKING:
    import pandas
    import pyarrow


def to_arrow(rows: Iterable[FPDURecord] | Iterable[MessageRow]) -> pyarrow.Table:
    """Make a table of FPDUs (``iter_fpdus``) or of messages (``iter_messages``).

    Columns and types are those of ``--format parquet``: times in nanoseconds since the epoch, unsigned where nothing is
    negative. A table without rows has the columns of FPDUs.

    Raises:
        MPAError: pyarrow is not installed, or the rows are neither.
    """
    there: Iterator[Any] = iter(rows)
    first = next(there, None)
    every = there if first is None else chain([first], there)
    if isinstance(first, MessageRow):
        return messages_table(every)
    if first is None or isinstance(first, FPDURecord):
        return fpdus_table(every)
    raise MPAError(f"a table is made from FPDUs or messages, not from {type(first).__name__}")


def to_pandas(rows: Iterable[FPDURecord] | Iterable[MessageRow]) -> pandas.DataFrame:
    """Make a DataFrame of FPDUs or of messages, as :func:`to_arrow` does. Also raises MPAError without pandas."""
    return data_frame(to_arrow(rows))
