"""Messages as JSON lines, CSV, or text for people.

A capture holds millions of them, most of which are parts of RDMA Writes and Reads. So lines are made of the values as
they are kept, not of :class:`~scapy_mpa.messages.row.MessageRow`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any

from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.messages.row import MessageRow
from scapy_mpa.tuples import NamedTuple

#: The columns of CSV; what a JSON line has as an object is spread over several.
CSV_COLUMNS = (
    *("connection", "direction", "message", "stag", "to", "qn", "msn", "invalidate_stag", "octets", "segments"),
    *("complete", "offset", "last", "first_frame", "last_frame", "placed_frame", "delivered_frame", "first_time"),
    *("time", "duration", "answer_first_frame", "answer_frame", "answer_latency", "answer_octets", "after_error"),
    *("ulp", "ulp_header", "named_by", "note", "call", "reply_frame", "call_latency", "payload"),
)
_SECOND = 1_000_000_000


class Style(NamedTuple):
    """How a line is made: a heading, and the line of a message with what to show in place of its payload.

    ``place`` takes, by %, TO and octets of an RDMA Write, which is all that the lines of those of one frame differ in.
    """

    heading: str
    line: Callable[[MessageRow, str | None], str]
    place: str

    def lines(self, row: MessageRow, lengths: Sequence[int]) -> str:
        """The lines of all messages that a row stands for, as :func:`~scapy_mpa.messages.row.messages_of` says."""
        line = self.line(row, None)
        if not lengths or row.to is None:
            return line
        before, _, behind = (part.replace("%", "%%") for part in line.partition(self.place % (row.to, row.octets)))
        places = zip(accumulate(lengths, initial=row.to), lengths, strict=False)
        return (before + self.place + behind) * len(lengths) % tuple(chain.from_iterable(places))


def json_line(row: MessageRow, payload: str | None) -> str:
    """A JSON line; ``payload`` is what stands there for its octets, None if nothing does."""
    # Unpacked, because this is done for every message: reading attributes one by one takes a third longer.
    (
        connection,
        direction,
        name,
        stag,
        to,
        qn,
        msn,
        invalidated,
        octets,
        segments,
        offset,
        last,
        first_frame,
        last_frame,
        placed,
        delivered,
        first,
        time,
        after_error,
        is_cut,
        answer,
        ulp,
        _,
        named_by,
        note,
        call,
        reply,
        _,
    ) = row
    place = (
        f'"stag": {stag}, "to": {to}, "qn": null, "msn": null'
        if stag is not None
        else f'"stag": null, "to": null, "qn": {qn}, "msn": {msn}'
        if qn is not None
        else '"stag": null, "to": null, "qn": null, "msn": null'
    )
    return (
        f'{{"connection": {connection}, "direction": "{direction}", '
        f'"message": {_NAMES[name]}, {place}, '
        f'"invalidate_stag": {"null" if invalidated is None else invalidated}, "octets": {octets}, '
        f'"segments": {segments}, "complete": {"true" if last and not offset and not is_cut else "false"}, '
        f'"offset": {offset}, "last": {"true" if last else "false"}, "first_frame": {first_frame}, '
        f'"last_frame": {last_frame}, "placed_frame": {placed}, '
        f'"delivered_frame": {delivered or "null"}, "first_time": {_seconds(first)}, '
        f'"time": {_seconds(time)}, "duration": {_seconds(time - first)}, '
        f'"answer": {"null" if answer is None else json.dumps(answer.as_dict())}, '
        f'"after_error": {"true" if after_error else "false"}, '
        f'"ulp": {"null" if ulp is None else json.dumps(ulp)}, "named_by": {named_by or "null"}, '
        f'"note": {"null" if note is None else json.dumps(note)}, '
        f'"call": {"null" if call is None else json.dumps(call)}, '
        f'"reply_frame": {"null" if reply is None else reply.frame}, '
        f'"call_latency": {"null" if reply is None else _seconds(reply.latency_ns)}'
        f"{'' if payload is None else f', {_PAYLOAD}{json.dumps(payload)}'}}}\n"
    )


@lru_cache(maxsize=64)
def _seconds(nanoseconds: int) -> str:
    """A time in seconds; many messages have the same."""
    return repr(nanoseconds / _SECOND)


#: The names of messages as they stand in JSON.
_NAMES = {name: json.dumps(name) for name in OPCODE_NAMES}
_PAYLOAD = '"payload": '


def csv_line(row: MessageRow, payload: str | None) -> str:
    """A line of CSV: null empty, true and false; the upper layer's header as JSON."""
    values = csv_values(row)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([*map(_csv, values), payload or ""])
    return out.getvalue()


def csv_values(row: MessageRow) -> tuple[Any, ...]:
    """The values of all columns but the last; times in seconds."""
    answer, ulp = row.answer, row.ulp
    answered = (
        (None, None, None, None)
        if answer is None
        else (answer.first_frame, answer.frame, answer.latency_ns / _SECOND, answer.octets)
    )
    return (
        *(row.connection, row.direction, row.message, row.stag, row.to, row.qn, row.msn, row.invalidate_stag),
        *(row.octets, row.segments, row.complete, row.offset, row.last, row.first_frame, row.last_frame),
        *(row.placed_frame, row.delivered_frame, row.first_time_ns / _SECOND, row.time_ns / _SECOND),
        *(row.duration_ns / _SECOND, *answered, row.after_error),
        *(None if ulp is None else ulp["protocol"], None if ulp is None else json.dumps(ulp)),
        *(row.named_by, row.note, row.call),
        *((None, None) if row.reply is None else (row.reply.frame, row.reply.latency_ns / _SECOND)),
    )


def _csv(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else value


def text_line(row: MessageRow, payload: str | None) -> str:
    """A line for people; how long the message took is in it if more than one frame carried it."""
    where = (
        f" STag {row.stag:#010x} TO {row.to:#x}"
        if row.stag is not None
        else f" QN {row.qn} MSN {row.msn}"
        if row.qn is not None
        else ""
    )
    if row.offset or not row.last:
        where += f" from octet {row.offset}" + ("" if row.last else ", more follows")
    frames = frames_text(row.first_frame, row.last_frame)
    said = [f"{row.octets} octets"]
    if row.segments > 1:
        said.append(f"{row.segments} segments in {ms(row.duration_ns)}")
    elif row.first_frame != row.last_frame:
        said[0] += f" in {ms(row.duration_ns)}"
    if row.invalidate_stag is not None:
        said.append(f"invalidates STag {row.invalidate_stag:#010x}")
    ended_by = row.answer or row.reply
    if ended_by is not None:
        answered = frames_text(ended_by.first_frame, ended_by.frame)
        said.append(f"answered at {answered} after {ms(ended_by.latency_ns)} by {ended_by.octets} octets")
    if row.named_by is not None:
        said.append(f"named at frame {row.named_by}")
    if row.ulp is not None:
        said.append(f"{row.ulp['protocol']}: {row.text}")
    marks = [mark for mark in ("never delivered" if row.delivered_frame is None else None, row.note) if mark]
    if row.after_error:
        marks.insert(0, "after error")
    note = f" ({'; '.join(marks)})" if marks else ""
    octets = "" if payload is None else f" {payload}"
    name = row.message or "no message"
    return f"#{row.connection} {row.direction} {frames} {name}{where}: {', '.join(said)}{note}{octets}\n"


def frames_text(first: int, last: int) -> str:
    """Return one frame, or a range of them."""
    return f"frame {first}" if first == last else f"frames {min(first, last)}-{max(first, last)}"


def ms(nanoseconds: int) -> str:
    """A time in milliseconds."""
    return f"{nanoseconds / 1_000_000:.3f} ms"


STYLES = {
    "text": Style("", text_line, " TO %#x: %d octets"),
    "jsonl": Style("", json_line, '"to": %d, "qn": null, "msn": null, "invalidate_stag": null, "octets": %d'),
    "csv": Style(",".join(CSV_COLUMNS) + "\n", csv_line, ",%d,,,,%d,"),
}
