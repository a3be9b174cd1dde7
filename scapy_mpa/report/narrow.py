"""FPDU records as text for a terminal that may be too narrow for all columns: the least needed are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from scapy_mpa.report.fpdus import frames_text, opcode_text
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURecord


class _Column(NamedTuple):
    """A column: its heading, its columns of the terminal (below 0: text, else a number), and what stands in it."""

    heading: str
    width: int
    text: Callable[[FPDURecord], str]


def _number(value: int | None) -> str:
    return str(value or "-")


_COLUMNS = (
    _Column("conn", 4, lambda record: str(record.connection)),
    _Column("direction", -9, lambda record: record.direction),
    _Column("seq", 10, lambda record: str(record.seq)),
    _Column("ulpdu", 6, lambda record: str(record.ulpdu_length)),
    _Column("octets", 6, lambda record: str(record.wire_length)),
    _Column("mark", 4, lambda record: str(record.markers)),
    _Column("crc", -9, lambda record: record.crc),
    _Column("by", -6, lambda record: record.located_by),
    _Column("placed", 8, lambda record: _number(record.placed_frame)),
    _Column("delivered", 9, lambda record: _number(record.delivered_frame)),
    _Column("opcode", -26, lambda record: opcode_text(record.opcode, record.after_error, record.deviation)),
    _Column("frames", -6, lambda record: frames_text(record.frames)),
)
#: What is left out first.
_LEAST_NEEDED = ("frames", "octets", "by", "mark", "delivered", "ulpdu", "conn", "placed", "crc")
#: Most opcodes are no longer; a longer one continues on the next line.
_USUAL_OPCODE = 18


def narrow_lines(records: Iterable[FPDURecord], width: int) -> Iterator[str]:
    """Yield a heading and a line for each record, with as many columns as ``width`` columns of a terminal take.

    A first line says which are left out, if some are.
    """
    columns = [*_COLUMNS]
    left_out = []
    for name in _LEAST_NEEDED:
        if _taken(columns) <= width:
            break
        columns = [column for column in columns if column.heading != name]
        left_out.append(name)
    if left_out:
        listed = [column.heading for column in _COLUMNS if column.heading in left_out]
        yield f"not shown in {width} columns: {', '.join(listed)}; a wider terminal or --format csv shows all"
    yield _line(columns, [column.heading for column in columns])
    for record in records:
        yield _line(columns, [column.text(record) for column in columns])


def _taken(columns: list[_Column]) -> int:
    """The columns of the terminal that a usual line takes."""
    sizes = [abs(column.width) for column in columns[:-1]]
    return sum(sizes) + len(sizes) + (_USUAL_OPCODE if columns[-1].heading == "opcode" else -columns[-1].width) + 1


def _line(columns: list[_Column], cells: list[str]) -> str:
    # Two blanks before the opcode: what follows it belongs to it where a line is folded.
    parts = [
        f"{' ' * (column.heading == 'opcode')}{cell:{'<' if column.width < 0 else '>'}{abs(column.width)}}"
        for column, cell in zip(columns, cells, strict=True)
    ]
    return " ".join(parts).rstrip()
