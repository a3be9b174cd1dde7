"""What a receiver must say of one half connection, computed offline from the design's formulas alone.

In go the sender's side of the truth and which octets each captured segment brought; out come the records of
`fpdus` and the counters of `analyze`. No stream is followed: there is the first frame of each octet, and max().
Offsets are octets of Full Operation; the startup frame lies below 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

#: The frame of an octet that no frame brings.
NEVER = 1 << 62

OPCODES = (
    "RDMA Write", "RDMA Read Request", "RDMA Read Response", "Send", "Send with Invalidate", "Send with SE",
    "Send with SE and Invalidate", "Terminate", "Immediate Data", "Immediate Data with SE", "Atomic Request",
    "Atomic Response", None, None, None, None,
)  # fmt: skip


class Sent(NamedTuple):
    """An FPDU as its sender laid it; `bad`: its CRC is wrong, `named`: a Marker in it names its start."""

    offset: int
    header: int
    ulpdu_length: int
    end: int
    markers: int
    opcode: str | None
    named: bool
    bad: bool = False


class Captured(NamedTuple):
    """The octets [start, end) of the half connection, as brought by `frame`.

    `damage` are the offsets of damaged octets for which the receiver dropped it (RFC 5044 §8): all of them come again.
    """

    frame: int
    start: int
    end: int
    damage: tuple[int, ...] = ()


class Told(NamedTuple):
    """What is to be told of the half connection; `error`: (frame, offset) of its first bad CRC."""

    records: list[dict[str, Any]]
    counters: dict[str, int]
    gaps: list[tuple[int, int]]
    error: tuple[int, int] | None


def first_frames(captured: Sequence[Captured], low: int, high: int) -> list[int]:
    """The first frame that brought each octet of [low, high); `captured` is in the order of capture."""
    first = [NEVER] * (high - low)
    for frame, start, end, _ in reversed(captured):
        start, end = max(start, low), min(end, high)
        if start < end:
            first[start - low : end - low] = [frame] * (end - start)
    return first


def taken(sent: Sequence[Sent], captured: Sequence[Captured]) -> list[Captured]:
    """What was taken of each segment: not what it has in common with the copy by which a bad FPDU became good."""
    found: list[Captured] = []
    for i, segment in enumerate(captured):
        parts = [segment]
        for at in segment.damage:
            if any(c.start <= at < c.end and at not in c.damage for c in captured[:i]):
                continue
            fpdu = next(f for f in sent if f.offset <= at < f.end)
            copy = next(c for c in captured[i + 1 :] if c.start <= at < c.end and at not in c.damage)
            start, end = max(fpdu.offset, copy.start), min(fpdu.end, copy.end)
            parts = [
                part
                for whole in parts
                for part in (whole._replace(end=min(whole.end, start)), whole._replace(start=max(whole.start, end)))
                if part.start < part.end
            ]
        found += parts
    return found


def tell(
    sent: Sequence[Sent],
    captured: Sequence[Captured],
    *,
    startup: int,
    seq_start: int,
    crc: bool,
    time: Callable[[int], float],
    direction: str,
) -> Told:
    """`startup`: the frame by which both startup frames were captured; `seq_start`: the TCP sequence number of
    offset 0; `time`: seconds of a frame."""
    captured = [segment for segment in captured if segment.end > 0]
    highest = max((segment.end for segment in captured), default=0)
    end = max(highest, sent[-1].end if sent else 0)
    first = first_frames(taken(sent, captured), 0, end)
    complete = [max(startup, max(first[f.offset : f.end])) for f in sent]
    delivered = list(accumulate(complete, max))
    # Where the CRC is good this is placed(k); where it is bad, the frame at which that can be seen.
    placed: list[int] = []
    for k, f in enumerate(sent):
        scanned = k > 0 and sent[k - 1].bad and placed[-1] != NEVER
        # Behind a gap a Marker is waited for, where there are some; else a CRC that is good is looked for.
        scanned |= k > 0 and placed[-1] == NEVER and crc and not f.bad and not sent[0].markers
        alone = k == 0 or f.named or scanned
        placed.append(complete[k] if alone else max(complete[k], placed[-1]))
    error = min(((placed[k], f.offset) for k, f in enumerate(sent) if f.bad and placed[k] != NEVER), default=None)

    records: list[dict[str, Any]] = []
    for k, f in enumerate(sent):
        if placed[k] == NEVER:
            continue
        by_length = k > 0 and not sent[k - 1].bad and placed[k - 1] <= placed[k]
        frame = complete[k] if f.bad else placed[k]
        records.append(
            {
                "connection": 0,
                "direction": direction,
                "seq": (seq_start + f.offset) % 2**32,
                "header_seq": (seq_start + f.header) % 2**32,
                "ulpdu_length": f.ulpdu_length,
                "wire_length": f.end - f.offset,
                "markers": f.markers,
                "crc": "bad" if f.bad else "good" if crc else "unchecked",
                "located_by": "start" if k == 0 else "length" if by_length else "marker" if f.named else "scan",
                "frames": sorted(set(first[f.offset : f.end])),
                "placed_frame": None if f.bad else placed[k],
                "delivered_frame": None if f.bad or delivered[k] == NEVER else delivered[k],
                "time": time(frame),
                "after_error": error is not None and (frame, f.offset) > error,
                "opcode": f.opcode,
                "deviation": None,
            }
        )
    # A copy brings no octet that had not been captured, whichever of the two was taken.
    brought = first_frames(captured, 0, highest)
    return Told(records, _counters(sent, captured, records, brought), _gaps(brought), error)


def _counters(
    sent: Sequence[Sent], captured: Sequence[Captured], records: Sequence[dict[str, Any]], first: Sequence[int]
) -> dict[str, int]:
    starts, ends = {f.offset for f in sent}, {f.end for f in sent}
    aligned = [segment for segment in captured if segment.start in starts]
    highest, out_of_order, repeats = 0, 0, 0
    for frame, start, end, _ in captured:
        new = [offset for offset in range(max(start, 0), end) if first[offset] == frame]
        repeats += not new
        out_of_order += bool(new) and new[0] < highest
        highest = max(highest, end)
    early = [r for r in records if r["placed_frame"] is not None]
    return {
        "fpdus": len(records),
        "placed": len(early),
        "delivered": sum(r["delivered_frame"] is not None for r in early),
        "placed_out_of_order": sum(
            r["delivered_frame"] is None or r["placed_frame"] < r["delivered_frame"] for r in early
        ),
        "marker_count": sum(r["markers"] for r in records),
        "crc_errors": sum(r["crc"] == "bad" for r in records),
        "ulpdu_octets": sum(r["ulpdu_length"] for r in records),
        "stream_octets": sum(frame != NEVER for frame in first),
        "missing_octets": sum(frame == NEVER for frame in first),
        "segments": len(captured),
        "header_aligned_segments": len(aligned),
        "fpdu_aligned_segments": sum(segment.end in ends for segment in aligned),
        "out_of_order_segments": out_of_order,
        "retransmitted_segments": repeats,
    }


def _gaps(first: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of octets that no frame brings."""
    edges = [i for i in range(len(first)) if (first[i] == NEVER) != (i > 0 and first[i - 1] == NEVER)]
    return list(zip(edges[::2], edges[1::2], strict=True))
