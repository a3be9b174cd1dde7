"""What ``scapy-mpa show`` prints for people: what it is and why it is there, then its octets, field by field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import wrap

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.report.fields import Field
from scapy_mpa.report.items import Frame, Item, ItemPart, Shown
from scapy_mpa.report.text import finding_lines
from scapy_mpa.report.words import plural
from scapy_mpa.values.segment import (
    ACK_FLAG,
    FIN,
    PSH,
    RST,
    SYN,
    endpoints,
)

#: Given a severity and a text, the text as the terminal should show it.
Styler = Callable[[str, str], str]

_WIDTH, _OCTETS_A_LINE = 110, 16
_LINE = "{:>8} {:>10}  {:<47}  {:<16}  {}"
#: Octets of a payload that is shortened: so many at its beginning, so many at its end.
_FIRST, _LAST, _SHORTENED = 32, 16, 128
_FLAGS = ((SYN, "SYN"), (ACK_FLAG, "ACK"), (PSH, "PSH"), (FIN, "FIN"), (RST, "RST"))
_SPECIFIED_IN = {"DDP tagged": "RFC 5041 §4.2", "DDP untagged": "RFC 5041 §4.3", "RDMAP": "RFC 5040 §4, RFC 7306"}


def _plain(_severity: str, text: str) -> str:
    return text


def shown_lines(shown: Shown, full: bool, style: Styler = _plain) -> Iterator[str]:
    """Yield the lines of all that was found; long payloads are shortened unless ``full``."""
    if shown.frame is not None:
        yield from _frame_lines(shown.frame, shown.items)
        if shown.items:
            yield ""
    for number, item in enumerate(shown.items):
        if number:
            yield ""
        yield from _item_lines(item, full, style)


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
    for item in items:
        if item.part is not None:
            yield f"  {_part_line(item, item.part, seg.frame)}"


def _part_line(item: Item, part: ItemPart, frame: int) -> str:
    """Which octets of the frame are what."""
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
        if others:
            said += f", the rest in {_frames(others)}"
    repeated = part.end - part.first - sum(end - first for first, end in part.new)
    if repeated:
        brought = {piece.frame for piece in item.pieces if piece.first < part.end and part.first < piece.end} - {frame}
        first = f", {_frames(sorted(brought))} brought {'it' if repeated == 1 else 'them'} first" if brought else ""
        said += f"; {'all' if not part.new else plural(repeated, 'octet')} repeated{first}"
    return said + ("; THEY DIFFER from those kept" if part.differs else "")


def _frames(frames: list[int]) -> str:
    if len(frames) > 8:
        return f"frames {frames[0]} to {frames[-1]} ({len(frames)} of them)"
    return f"frame{'s' if len(frames) > 1 else ''} {', '.join(map(str, frames))}"


def _item_lines(item: Item, full: bool, style: Styler) -> Iterator[str]:
    yield _heading(item)
    yield from (f"  {line}" for line in _about(item))
    for found in item.findings:
        yield from finding_lines(found, style)
    yield ""
    yield _LINE.format("offset", "sequence", "octets", "ASCII", "field")
    yield from _dump(item, full, style)
    yield from _decoded(item)


def _heading(item: Item) -> str:
    size = plural(len(item.octets), "octet")
    record = item.record
    if record is not None:
        markers = f", {plural(record.markers, 'Marker')}" if record.markers else ""
        ulpdu = f"{record.opcode or 'no RDMAP message'}, ULPDU of {plural(record.ulpdu_length, 'octet')}"
        return f"FPDU {item.name}: {ulpdu}, {size} in all{markers}, CRC {record.crc}"
    return f"{size} without a located FPDU" if item.kind == "octets" else f"{item.name}: {size}"


def _about(item: Item) -> Iterator[str]:
    source, destination = item.ends
    in_use = "Markers" if item.half.markers else "no Markers"
    in_use += ", CRC" if item.connection.crc else ", no CRC"
    who = f"connection {item.connection.number}, {item.direction}: {source} > {destination}"
    yield f"{who}; {item.connection.profile.name}, {in_use}" + (" (inferred)" if item.connection.inferred else "")
    last = item.seq + len(item.octets) - 1 & SEQ_MASK
    brought = f"; brought by {_frames(sorted({piece.frame for piece in item.pieces}))}" if item.pieces else ""
    after = "; after the first error of this direction" if item.record is not None and item.record.after_error else ""
    yield f"sequence {item.seq} to {last}{brought}{after}"
    yield from wrap(item.why.text, _WIDTH - 2)
    yield from wrap(item.why.placed, _WIDTH - 2)


# --- octets ---


def _dump(item: Item, full: bool, style: Styler) -> Iterator[str]:
    part = item.part
    first, end = (part.first, part.end) if part is not None and item.kind != "octets" else (0, len(item.octets))
    if first:
        yield f"{'':>19}  ({plural(first, 'octet')} in other frames)"
    starts = {piece.first: piece.frame for piece in item.pieces} if len(item.pieces) > 1 else {}
    last_payload = max((field.offset for field in item.fields if field.layer == "payload"), default=-1)
    for field in item.fields:
        a, b = max(field.offset, first), min(field.offset + field.length, end)
        if a >= b:
            continue
        label = field.label if a == field.offset else f"{field.name}, continued"
        short = not full and field.layer == "payload" and b - a > _SHORTENED
        if short and field.continued and field.offset != last_payload:
            yield from _rows(item, a, a, label, field, starts, style)
            yield _skipped(item, a, b, label)
            continue
        if short:
            yield from _rows(item, a, a + _FIRST, label, field, starts, style)
            yield _skipped(item, a + _FIRST, b - _LAST, "")
            yield from _rows(item, b - _LAST, b, "", field, starts, style)
        else:
            yield from _rows(item, a, b, label, field, starts, style)
    if end < len(item.octets):
        yield f"{'':>19}  ({plural(len(item.octets) - end, 'octet')} in other frames)"


def _rows(
    item: Item, first: int, end: int, label: str, field: Field, starts: dict[int, int], style: Styler
) -> Iterator[str]:
    """Octets [first, end), 16 a line; a line ends where a frame does."""
    at = first
    while at < end:
        if at in starts:
            yield f"{'':>19}  - frame {starts[at]} -"
        stop = min(end, at + _OCTETS_A_LINE)
        stop = next((place for place in range(at + 1, stop) if place in starts), stop)
        octets = item.octets[at:stop]
        ascii_ = "".join(chr(octet) if 32 <= octet < 127 else "." for octet in octets)
        said = style(field.severity, label) if field.severity is not None and label else label
        yield _LINE.format(at, item.seq + at & SEQ_MASK, octets.hex(" "), ascii_, said).rstrip()
        label = ""
        at = stop


def _skipped(item: Item, first: int, end: int, label: str) -> str:
    line = f"... {plural(end - first, 'octet')}"
    return _LINE.format(first, item.seq + first & SEQ_MASK, line, "", label).rstrip()


# --- DDP and RDMAP ---


def _decoded(item: Item) -> Iterator[str]:
    """The values of DDP and RDMAP, one a line."""
    ddp = item.layer("DDP")
    kind = "DDP tagged" if ddp and ddp.get("T") else "DDP untagged"
    for layer, title in (("DDP", kind), ("RDMAP", "RDMAP")):
        fields = [field for field in item.fields if field.layer == layer and not field.continued]
        if not fields:
            continue
        yield ""
        yield f"{title} ({_SPECIFIED_IN[title]})"
        for field in fields:
            for part in field.parts:
                yield f"  {part.name:<28} {part.shown:<20} {part.meaning}".rstrip()
            if field.note:
                yield f"  {'':<28} {field.note}"
