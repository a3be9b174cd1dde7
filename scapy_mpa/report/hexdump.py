"""The text of ``scapy-mpa show``: what an item is and why it is there, then its octets, field by field.

The rows of octets are values too, for whoever shows them otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import wrap

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.report.fields import Field, Kind
from scapy_mpa.report.items import Frame, Item, ItemPart, Shown
from scapy_mpa.report.text import finding_lines
from scapy_mpa.rules.table import Severity
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.segment import (
    ACK_FLAG,
    FIN,
    PSH,
    RST,
    SYN,
    endpoints,
)
from scapy_mpa.values.words import plural

#: Given a severity and a text, the text as the terminal should show it.
Styler = Callable[[str, str], str]
#: Given what octets are, and their hexadecimal or ASCII, that as the terminal should show it.
Painter = Callable[[Kind, str], str]

_WIDTH, _OCTETS_A_LINE = 110, 16
_LINE = "{:>8} {:>10}  {}  {}  {}"
_OCTETS_WIDTH, _ASCII_WIDTH = 47, 16
#: The columns of a terminal from which on a row holds all, and from which on it has ASCII.
_ALL_FROM, _ASCII_FROM = 112, 75
#: Octets of a payload that is shortened: this many at its beginning, this many at its end.
_FIRST, _LAST, _SHORTENED = 32, 16, 128
_FLAGS = ((SYN, "SYN"), (ACK_FLAG, "ACK"), (PSH, "PSH"), (FIN, "FIN"), (RST, "RST"))
_SPECIFIED_IN = {
    "DDP tagged": "RFC 5041 §4.2",
    "DDP untagged": "RFC 5041 §4.3",
    "RDMAP": "RFC 5040 §4, RFC 7306",
    "RPC-over-RDMA": "RFC 8166 §4",
    "SMB Direct": "MS-SMBD §2.2",
    "NVMe-oF": "NVMe-oF 1.1 §2",
    "iSER": "RFC 7145 §9",
    "RPC": "RFC 5531 §9",
    "RPC Call": "RFC 5531 §9",
    "RPC Response": "RFC 5531 §9",
    "iSCSI": "RFC 7143 §11.2",
}


def _plain(_what: str, text: str) -> str:
    return text


class DumpRow(NamedTuple):
    """A row of octets: the place of the first, its sequence number, hexadecimal, ASCII, and the field they begin.

    ``octets`` may be words in place of octets that are left out. Where ``at`` is None there are none: ``label`` says
    what lies between two rows.
    """

    at: int | None
    seq: int
    octets: str
    ascii: str
    label: str
    kind: Kind
    severity: Severity | None = None


def shown_lines(
    shown: Shown, full: bool, style: Styler = _plain, paint: Painter = _plain, columns: int | None = None
) -> Iterator[str]:
    """Yield the lines of all that was found; long payloads are shortened unless ``full``.

    Where a terminal has fewer ``columns`` than rows of octets take, sequence numbers and ASCII are left out, which
    a line says.
    """
    if shown.frame is not None:
        yield from _frame_lines(shown.frame, shown.items)
        if shown.items:
            yield ""
    for number, item in enumerate(shown.items):
        if number:
            yield ""
        yield from _item_lines(item, full, style, paint, columns)


def _frame_lines(frame: Frame, items: list[Item]) -> Iterator[str]:
    seg = frame.segment
    length, captured = seg.length, seg.end - seg.start
    cut = f" ({captured} captured)" if captured < length else ""
    source, destination = endpoints(seg.key)
    flags = " ".join(name for bit, name in _FLAGS if seg.flags & bit)
    yield f"frame {seg.frame}, time {seg.time / 1_000_000_000:.6f}: {source} > {destination} {flags}".rstrip()
    yield (
        f"  connection {frame.connection.number}, {frame.direction}, sequence {seg.seq}, acknowledges {seg.ack}, "
        f"{plural(length, 'octet')} of TCP payload{cut}"
    )
    if frame.checksum_is_wrong:
        yield "  its TCP checksum is wrong: a receiver dropped it"
    yield from (f"  {line}" for line in frame.meanings)
    for item in items:
        if item.part is not None:
            yield f"  {_part_line(item, item.part, seg.frame)}"


def _part_line(item: Item, part: ItemPart, frame: int) -> str:
    """Return a line that says what part of an item the octets of the frame are."""
    said = f"octets {part.at}-{part.at + part.end - part.first - 1}: "
    name = item.name if item.record is None else f"{item.name} ({item.record.opcode or 'no RDMAP message'})"
    if item.kind == "octets":
        return f"{said}no located FPDU"
    size = len(item.octets)
    if part.end - part.first == size:
        said += f"all of {name}"
    else:
        said += f"octets {part.first}-{part.end - 1} of {size} of {name}"
        others = sorted({piece.frame for piece in item.pieces if piece.frame != frame})
        cut = item.cut
        if others:
            said += f", {'others' if cut else 'the rest'} in {_frames(others)}"
        if cut:
            said += f"; the capture cut {plural(sum(end - first for first, end in cut), 'octet')}"
    repeated = part.end - part.first - sum(end - first for first, end in part.new)
    if repeated:
        brought = {piece.frame for piece in item.pieces if piece.first < part.end and part.first < piece.end} - {frame}
        first = f", {_frames(sorted(brought))} carried {'it' if repeated == 1 else 'them'} first" if brought else ""
        said += f"; {'all' if not part.new else plural(repeated, 'octet')} repeated{first}"
    return said + ("; THEY DIFFER from those kept" if part.differs else "")


def _frames(frames: list[int]) -> str:
    if len(frames) > 8:
        return f"frames {frames[0]} to {frames[-1]} ({len(frames)} of them)"
    return f"frame{'s' if len(frames) > 1 else ''} {', '.join(map(str, frames))}"


def _item_lines(item: Item, full: bool, style: Styler, paint: Painter, columns: int | None) -> Iterator[str]:
    yield heading(item)
    yield from (f"  {line}" for line in _about(item, _WIDTH if columns is None else min(columns, _WIDTH)))
    for found in item.findings:
        yield from finding_lines(found, style)
    yield ""
    if columns is not None and columns < _ALL_FROM:
        yield from _narrow_lines(item, full, style, paint, columns)
        yield from _decoded(item)
        return
    yield _line("offset", "sequence", f"{'octets':<{_OCTETS_WIDTH}}", f"{'ASCII':<{_ASCII_WIDTH}}", "field")
    for row in dump_rows(item, full):
        if row.at is None:
            yield f"{'':>19}  {row.label}"
            continue
        octets, ascii_ = f"{row.octets:<{_OCTETS_WIDTH}}", f"{row.ascii:<{_ASCII_WIDTH}}"
        label = style(row.severity, row.label) if row.severity is not None and row.label else row.label
        yield _line(row.at, row.seq, paint(row.kind, octets), paint(row.kind, ascii_), label)
    yield from _decoded(item)


def _narrow_lines(item: Item, full: bool, style: Styler, paint: Painter, columns: int) -> Iterator[str]:
    """Rows of octets without their sequence numbers, and without ASCII where that is too much; fields stand below."""
    has_ascii = columns >= _ASCII_FROM
    left_out = "sequence" if has_ascii else "sequence, ASCII"
    yield f"not shown in {columns} columns: {left_out}; a wider terminal or --format json shows all"

    def line(at: int | str, octets: str, ascii_: str) -> str:
        return f"{at:>8}  {octets}  {ascii_ if has_ascii else ''}".rstrip()

    yield line("offset", f"{'octets':<{_OCTETS_WIDTH}}", "ASCII")
    for row in dump_rows(item, full):
        if row.at is not None:
            octets = f"{row.octets:<{_OCTETS_WIDTH}}"
            yield line(row.at, paint(row.kind, octets), paint(row.kind, row.ascii))
        if row.label:
            yield f"{'':>10}{style(row.severity, row.label) if row.severity is not None else row.label}"


def heading(item: Item) -> str:
    """Return the item's name and size, in one line."""
    size = plural(len(item.octets), "octet")
    record = item.record
    if record is not None:
        markers = f", {plural(record.markers, 'Marker')}" if record.markers else ""
        ulpdu = f"{record.opcode or 'no RDMAP message'}, ULPDU of {plural(record.ulpdu_length, 'octet')}"
        return f"FPDU {item.name}: {ulpdu}, {size} in all{markers}, CRC {record.crc}"
    return f"{size} without a located FPDU" if item.kind == "octets" else f"{item.name}: {size}"


def _about(item: Item, width: int) -> Iterator[str]:
    source, destination = item.ends
    in_use = "Markers" if item.half.markers else "no Markers"
    in_use += ", CRC" if item.connection.crc else ", no CRC"
    who = f"connection {item.connection.number}, {item.direction}: {source} > {destination}"
    yield f"{who}; {item.connection.profile.name}, {in_use}" + (" (inferred)" if item.connection.inferred else "")
    last = item.seq + len(item.octets) - 1 & SEQ_MASK
    brought = f"; carried by {_frames(sorted({piece.frame for piece in item.pieces}))}" if item.pieces else ""
    after = "; after the first error of this direction" if item.record is not None and item.record.after_error else ""
    yield f"sequence {item.seq} to {last}{brought}{after}"
    yield from wrap(item.why.text, width - 2)
    yield from wrap(item.why.placed, width - 2)


# --- octets ---


def dump_rows(item: Item, full: bool = False) -> Iterator[DumpRow]:
    """Yield the octets, or those that the requested frame carried, in rows; long payloads are shortened unless
    ``full``.
    """
    part = item.part
    first, end = (part.first, part.end) if part is not None and item.kind != "octets" else (0, len(item.octets))
    cut, before = item.cut, first
    yield from _elsewhere(0, first, cut)
    starts = {piece.first: piece.frame for piece in item.pieces} if len(item.pieces) > 1 else {}
    last_payload = max((field.offset for field in item.fields if field.layer == "payload"), default=-1)
    for field in item.fields:
        a, b = max(field.offset, first), min(field.offset + field.length, end)
        if a >= b:
            continue
        if a > before:
            yield from _elsewhere(before, a, cut)
        before = b
        label = field.label if a == field.offset else f"{field.name}, continued"
        short = not full and field.layer == "payload" and b - a > _SHORTENED
        if short and field.continued and field.offset != last_payload:
            yield _skipped(item, a, b, label)
            continue
        if short:
            yield from _rows(item, a, a + _FIRST, label, field, starts)
            yield _skipped(item, a + _FIRST, b - _LAST, "")
            yield from _rows(item, b - _LAST, b, "", field, starts)
        else:
            yield from _rows(item, a, b, label, field, starts)
    yield from _elsewhere(max(before, end) if item.part is not None else before, len(item.octets), cut)


def _elsewhere(first: int, end: int, cut: list[tuple[int, int]]) -> Iterator[DumpRow]:
    """Yield rows in place of octets [first, end), which are in other frames, or were cut by the capture."""
    lacking = sum(max(0, min(end, until) - max(first, begin)) for begin, until in cut)
    if end - first > lacking:
        yield _between(f"({plural(end - first - lacking, 'octet')} in other frames)")
    if lacking:
        yield _between(f"({plural(lacking, 'octet')} that the capture cut)")


def _rows(item: Item, first: int, end: int, label: str, field: Field, starts: dict[int, int]) -> Iterator[DumpRow]:
    """Octets [first, end), 16 a row; a row ends where a frame does."""
    at = first
    while at < end:
        if at in starts:
            yield _between(f"- frame {starts[at]} -")
        stop = min(end, at + _OCTETS_A_LINE)
        stop = next((place for place in range(at + 1, stop) if place in starts), stop)
        octets = item.octets[at:stop]
        ascii_ = "".join(chr(octet) if 32 <= octet < 127 else "." for octet in octets)
        yield DumpRow(at, item.seq + at & SEQ_MASK, octets.hex(" "), ascii_, label, field.kind, field.severity)
        label = ""
        at = stop


def _skipped(item: Item, first: int, end: int, label: str) -> DumpRow:
    return DumpRow(first, item.seq + first & SEQ_MASK, f"... {plural(end - first, 'octet')}", "", label, "payload")


def _between(words: str) -> DumpRow:
    return DumpRow(None, 0, "", "", words, "payload")


def _line(at: int | str, seq: int | str, octets: str, ascii_: str, label: str) -> str:
    return _LINE.format(at, seq, octets, ascii_, label).rstrip()


# --- DDP, RDMAP, and what is above ---


def _decoded(item: Item) -> Iterator[str]:
    """The values of DDP, RDMAP and the layers above, one a line."""
    ddp = item.layer("DDP")
    kind = "DDP tagged" if ddp and ddp.get("T") else "DDP untagged"
    layers = dict.fromkeys(field.layer for field in item.fields if field.layer not in ("MPA", "payload"))
    for layer in layers:
        title = kind if layer == "DDP" else layer
        fields = [field for field in item.fields if field.layer == layer and not field.continued]
        yield ""
        yield f"{title} ({_SPECIFIED_IN[title]})" if title in _SPECIFIED_IN else title
        for field in fields:
            for part in field.parts:
                yield f"  {part.name:<28} {part.shown:<20} {part.meaning}".rstrip()
            if field.note:
                yield f"  {'':<28} {field.note}"
