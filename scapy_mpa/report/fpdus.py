"""FPDU records as text, JSON lines or CSV.

A capture holds millions of FPDUs and few sizes of them, and those that one frame brought have most of a line in
common. So a line is put together of four parts, each of which is made once for all lines that share it: which half
connection it is; the sequence numbers; the *size* (what does not depend on where it was captured); the *place* (when
it was captured and placed) with the opcode.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeAlias

from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.report.half import FPDURecords
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import AFTER_ERROR, CRC_VERDICTS, LOCATED_BY, FPDULog, FPDURecord, size_of

#: The keys of a record, in the order of the JSON lines and of the CSV columns.
KEYS = tuple("time" if name == "time_ns" else name for name in FPDURecord._fields)

#: Texts of FPDU sizes that are kept, and lines that are handed on together.
_MOST_SIZES = 4096
_LINES = 512
#: An offset modulo 512 takes this many bits.
_PHASE_BITS = 9


#: What has the text of a place: all frames of the FPDU, those that placed and delivered it (0: none), nanoseconds since
#: the epoch, whether it comes after an error, what its sender does wrong, its opcode.
PlaceText: TypeAlias = "Callable[[tuple[int, ...], int, int, int, bool, str | None, str | None], str]"


class Format(NamedTuple):
    """How a line is made: a heading, and the parts of a line.

    ``half`` is handed connection and direction; ``seqs`` takes, by %, the sequence numbers of the first octet and of
    ULPDU_Length; ``size`` is handed lengths and Markers, CRC verdict and located_by.
    Every value is a number or a name of ours: nothing that would have to be escaped or quoted.
    """

    heading: str
    half: Callable[[int, str], str]
    seqs: str
    size: Callable[[int, int, int, str, str], str]
    place: PlaceText


# --- JSON lines ---


def _json_half(connection: int, direction: str) -> str:
    return f'{{"connection": {connection}, "direction": "{direction}", "seq": '


def _json_size(ulpdu_length: int, wire_length: int, markers: int, crc: str, located_by: str) -> str:
    return (
        f'"ulpdu_length": {ulpdu_length}, "wire_length": {wire_length}, "markers": {markers}, "crc": "{crc}", '
        f'"located_by": "{located_by}", "frames": '
    )


_JSON_OPCODES = {name: json.dumps(name) for name in (*OPCODE_NAMES, None)}


def _json_place(
    frames: tuple[int, ...],
    placed: int,
    delivered: int,
    time: int,
    after_error: bool,
    deviation: str | None,
    opcode: str | None,
) -> str:
    listed = frames[0] if len(frames) == 1 else ", ".join(map(str, frames))
    return (
        f'[{listed}], "placed_frame": {placed or "null"}, "delivered_frame": {delivered or "null"}, '
        f'"time": {time / 1_000_000_000!r}, "after_error": {"true" if after_error else "false"}, '
        f'"opcode": {_JSON_OPCODES[opcode]}, "deviation": {"null" if deviation is None else json.dumps(deviation)}}}\n'
    )


# --- CSV: frames joined by one space, null empty, true and false ---


def _csv_half(connection: int, direction: str) -> str:
    return f"{connection},{direction},"


def _csv_size(ulpdu_length: int, wire_length: int, markers: int, crc: str, located_by: str) -> str:
    return f"{ulpdu_length},{wire_length},{markers},{crc},{located_by},"


def _csv_place(
    frames: tuple[int, ...],
    placed: int,
    delivered: int,
    time: int,
    after_error: bool,
    deviation: str | None,
    opcode: str | None,
) -> str:
    return (
        f"{' '.join(map(str, frames))},{placed or ''},{delivered or ''},{time / 1_000_000_000!r},"
        f"{'true' if after_error else 'false'},{opcode or ''},{deviation or ''}\n"
    )


# --- text, for people ---


def _text_half(connection: int, direction: str) -> str:
    return f"{connection:>4} {direction:<9} "


def _text_size(ulpdu_length: int, wire_length: int, markers: int, crc: str, located_by: str) -> str:
    return f"{ulpdu_length:>6} {wire_length:>6} {markers:>4} {crc:<9} {located_by:<6} "


def _text_place(
    frames: tuple[int, ...],
    placed: int,
    delivered: int,
    time: int,
    after_error: bool,
    deviation: str | None,
    opcode: str | None,
) -> str:
    name = opcode_text(opcode, after_error, deviation)
    return f"{placed or '-':>8} {delivered or '-':>9}  {name:<26} {frames_text(frames)}\n"


def opcode_text(opcode: str | None, after_error: bool, deviation: str | None) -> str:
    """The opcode for people, with what is odd about the FPDU."""
    marks = [mark for mark, is_so in (("after error", after_error), ("deviating", deviation)) if is_so]
    return (opcode or "-") + (f" ({', '.join(marks)})" if marks else "")


def frames_text(frames: tuple[int, ...]) -> str:
    """All frames of an FPDU for people: the first and the last, if they are many."""
    return " ".join(map(str, frames)) if len(frames) <= 6 else f"{frames[0]} ... {frames[-1]} ({len(frames)})"


_TEXT_HEADING = (
    f"{'conn':>4} {'direction':<9} {'seq':>10} {'ulpdu':>6} {'octets':>6} {'mark':>4} {'crc':<9} {'by':<6} "
    f"{'placed':>8} {'delivered':>9}  {'opcode':<26} frames\n"
)

TEXT = Format(_TEXT_HEADING, _text_half, "%10d %.0s", _text_size, _text_place)
JSONL = Format("", _json_half, '%d, "header_seq": %d, ', _json_size, _json_place)
CSV = Format(",".join(KEYS) + "\n", _csv_half, "%d,%d,", _csv_size, _csv_place)


# --- lines ---


def lines(style: Format, records: Iterable[FPDURecord]) -> Iterator[str]:
    """Yield the heading, if there is one, then a line a record."""
    if style.heading:
        yield style.heading
    sizes: dict[tuple[int, int, int, str, str], str] = {}
    _, half, seqs, size_text, place_text = style
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
        deviation,
    ) in records:
        size = ulpdu_length, wire_length, markers, crc, located_by
        middle = sizes.get(size)
        if middle is None:
            if len(sizes) >= _MOST_SIZES:
                sizes.clear()
            middle = sizes[size] = size_text(*size)
        end = place_text(frames, placed or 0, delivered or 0, time, after_error, deviation, opcode)
        yield f"{half(connection, direction)}{seqs % (seq, header_seq)}{middle}{end}"


def log_lines(style: Format, halves: Iterable[FPDURecords]) -> Iterator[str]:
    """Yield what :func:`lines` does of the records of ``halves``, without making any, many lines at a time."""
    if style.heading:
        yield style.heading
    for half in halves:
        if half.log is not None:
            yield from _of_log(style, half.log, style.half(half.connection, half.direction), half.deviation)


def _of_log(style: Format, log: FPDULog, begin: str, deviation: str | None) -> Iterator[str]:
    _, _, seqs, size_text, place_text = style
    seqs = begin.replace("%", "%%") + seqs
    seq_start = log.seq_start
    #: The texts of sizes, by all that decides about them.
    texts: dict[tuple[int, int, int, int], str] = {}
    #: Of a run's FPDU at a place of the Marker grid, by that, and by its length and opcode as the run has them: octets
    #: on the wire, those of a Marker in front, the text of its size, its opcode; all of one verdict.
    parts: dict[int, tuple[int, int, str, int]] = {}
    parts_verdict = -1
    phase = 0
    ready: list[str] = []
    append = ready.append
    for row, frames, run in log.plain_entries():
        seq, header_seq, wire_length, ulpdu_length, markers, flag, opcode, placed, delivered, time, _, _ = row
        is_after = flag >= AFTER_ERROR
        verdict = flag & ~AFTER_ERROR
        if run is None:
            key = ulpdu_length, wire_length, markers, verdict
            text = texts.get(key)
            if text is None:
                if len(texts) >= _MOST_SIZES:
                    texts.clear()
                text = texts[key] = size_text(*key[:3], CRC_VERDICTS[verdict & 3], LOCATED_BY[verdict >> 2])
            end = place_text(frames, placed, delivered, time, is_after, deviation, OPCODE_NAMES[opcode])
            append(seqs % (seq, header_seq) + text + end)
        else:
            if verdict != parts_verdict:
                parts.clear()
                parts_verdict = verdict
            # All FPDUs of a run with the same opcode end alike.
            ends: dict[int, str] = {}
            end, ends_opcode = "", -1
            for one in run:
                if seq_start is not None:
                    phase = (seq - seq_start) % MARKER_INTERVAL
                part = parts.get(one << _PHASE_BITS | phase)
                if part is None:
                    if len(parts) >= _MOST_SIZES:
                        parts.clear()
                    size = size_of(one & 0xFFFF, phase if seq_start is not None else None)
                    text = size_text(*size[:3], CRC_VERDICTS[verdict & 3], LOCATED_BY[verdict >> 2])
                    part = size.wire_length, MARKER_LENGTH * size.has_leading_marker, text, one >> 16
                    parts[one << _PHASE_BITS | phase] = part
                wire_length, leading, text, opcode = part
                if opcode != ends_opcode:
                    ends_opcode = opcode
                    if opcode not in ends:
                        name = OPCODE_NAMES[opcode]
                        ends[opcode] = place_text(frames, placed, delivered, time, is_after, deviation, name)
                    end = ends[opcode]
                append(seqs % (seq, (seq + leading) & SEQ_MASK) + text + end)
                seq = (seq + wire_length) & SEQ_MASK
        if len(ready) >= _LINES:
            yield "".join(ready)
            ready.clear()
    yield "".join(ready)


STYLES = {"text": TEXT, "jsonl": JSONL, "csv": CSV}
FORMATS: dict[str, Callable[[Iterable[FPDURecord]], Iterator[str]]] = {
    name: partial(lines, style) for name, style in STYLES.items()
}
