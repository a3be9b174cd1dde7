"""FPDU records as text, JSON lines or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator

from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.receive.records import FPDURecord

#: The keys of a record, in the order of the JSON lines and of the CSV columns.
KEYS = tuple("time" if name == "time_ns" else name for name in FPDURecord._fields)

#: Texts of FPDU sizes that are kept.
_MOST_SIZES = 4096

_TEXT = "{:>4} {:<9} {:>10} {:>6} {:>6} {:>4} {:<9} {:<6} {:>8} {:>9}  {:<26} {}"


def jsonl_lines(records: Iterable[FPDURecord]) -> Iterator[str]:
    """Yield a JSON object a line."""
    # Every value is a number, a name of ours, or null: nothing that would have to be escaped.  FPDUs of one segment
    # have their ends in common, FPDUs of one size what stands before, so both are put together once.
    opcodes = {name: json.dumps(name) for name in (*OPCODE_NAMES, None)}
    middles: dict[tuple[int, int, int, str, str], str] = {}
    last: tuple[object, ...] = ()
    end = ""
    for (
        connection,
        direction,
        seq,
        header_seq,
        ulpdu_length,
        wire_length,
        markers,
        crc,
        located_by,
        frames,
        placed,
        delivered,
        time,
        after_error,
        opcode,
    ) in records:
        size = ulpdu_length, wire_length, markers, crc, located_by
        middle = middles.get(size)
        if middle is None:
            if len(middles) >= _MOST_SIZES:
                middles.clear()
            middle = middles[size] = (
                f'"ulpdu_length": {ulpdu_length}, "wire_length": {wire_length}, "markers": {markers}, '
                f'"crc": "{crc}", "located_by": "{located_by}"'
            )
        place = frames, placed, delivered, time, after_error
        if place != last:
            last = place
            end = (
                f'"frames": {list(frames)}, "placed_frame": {placed or "null"}, '
                f'"delivered_frame": {delivered or "null"}, "time": {time / 1_000_000_000!r}, '
                f'"after_error": {"true" if after_error else "false"}'
            )
        yield (
            f'{{"connection": {connection}, "direction": "{direction}", "seq": {seq}, "header_seq": {header_seq}, '
            f'{middle}, {end}, "opcode": {opcodes[opcode]}}}\n'
        )


def csv_lines(records: Iterable[FPDURecord]) -> Iterator[str]:
    """Yield a header line, then a line a record: frames joined by one space, null empty, true and false."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")

    def line(values: Iterable[object]) -> str:
        text.seek(0)
        text.truncate()
        writer.writerow(values)
        return text.getvalue()

    yield line(KEYS)
    for record in records:
        values = record.as_dict()
        values["frames"] = " ".join(map(str, record.frames))
        values["after_error"] = "true" if record.after_error else "false"
        yield line("" if value is None else value for value in values.values())


def text_lines(records: Iterable[FPDURecord]) -> Iterator[str]:
    """Yield a heading, then a line a record, for people."""
    heading = ("conn", "direction", "seq", "ulpdu", "octets", "mark", "crc", "by", "placed", "delivered")
    yield _TEXT.format(*heading, "opcode", "frames").rstrip() + "\n"
    for record in records:
        frames = record.frames
        shown = " ".join(map(str, frames)) if len(frames) <= 6 else f"{frames[0]} ... {frames[-1]} ({len(frames)})"
        opcode = (record.opcode or "-") + (" (after error)" if record.after_error else "")
        yield (
            _TEXT.format(
                record.connection,
                record.direction,
                record.seq,
                record.ulpdu_length,
                record.wire_length,
                record.markers,
                record.crc,
                record.located_by,
                "-" if record.placed_frame is None else record.placed_frame,
                "-" if record.delivered_frame is None else record.delivered_frame,
                opcode,
                shown,
            )
            + "\n"
        )


FORMATS: dict[str, Callable[[Iterable[FPDURecord]], Iterator[str]]] = {
    "text": text_lines,
    "jsonl": jsonl_lines,
    "csv": csv_lines,
}
