"""A TCP connection laid segment by segment, and what the design says must come of it.

A `Talk` is a connection of real packets, each with a right checksum unless told: what was said, what was
lost, what was said twice. `expected` reads the placement rules off it octet by octet and shares no code with the
receiver. `follow` runs a receiver over segments in several ways that must not differ.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.analyzer.connection import CapturedConnection, FullOperation, Listener
from scapy_mpa.craft.packets import ACK, FIN, SYN, Endpoint, FrameMaker
from scapy_mpa.craft.stream import HalfStream, LaidFPDU
from scapy_mpa.craft.ulpdus import rdma_write, send
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.markers import Origin
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.receiver.startup import FoundFrame
from scapy_mpa.rules.findings import Finding, Findings
from scapy_mpa.values.records import AFTER_ERROR, FPDURecord, FPDURow, record_of
from scapy_mpa.values.records import LENGTH as BY_LENGTH
from scapy_mpa.values.records import MARKER as BY_MARKER
from scapy_mpa.values.segment import Segment

Side = Literal["a", "b"]
A = Endpoint("10.0.0.1", 40000, bytes.fromhex("020000000001"))
B = Endpoint("10.0.0.2", 7471, bytes.fromhex("020000000002"))
REQUEST = startup_frame("request", c=1).encode()
REPLY = startup_frame("reply", c=1).encode()

#: What the ids of rules begin with that are not about placing FPDUs.
WATCHED = (
    "alignment", "attack", "ddp", "error", "fpdu-above", "fpduptr-low", "marker-agree", "marker-reserved", "mulpdu",
    "pad", "rdmap", "rnic", "startup-responder-first", "startup-fpdu-before", "startup-octets-before",
    "startup-stream", "startup-unanswered", "teardown",
)  # fmt: skip

_MASK = 0xFFFFFFFF
_TCP_AT = 34
_SECOND = 1_000_000_000
_BLOCK = 200_000


def ulpdus(*sizes: int) -> list[bytes]:
    """A Send of each size, numbered from 1; below 18 octets an RDMA Write, below 14 part of one."""
    made = []
    for msn, size in enumerate(sizes, 1):
        payload = bytes((msn * 7 + i * 3) % 251 for i in range(max(size, 18)))
        if size >= 18:
            made.append(send(msn, payload[: size - 18]))
        else:
            made.append(rdma_write(msn, 0, payload)[:size])
    return made


class Tap:
    """Captures the segments of all talks, in order."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []

    def time(self, frame: int) -> int:
        return frame * _SECOND


class Talk:
    """One TCP connection between `a`, who sends the SYN, and `b`.

    `next` is the sequence number each side sends next; `origin` that of its first octet of Full Operation,
    `laid` the FPDUs from there on, `startup` the sequence numbers of its startup frame.
    """

    def __init__(
        self, tap: Tap | None = None, *, a: Endpoint = A, b: Endpoint = B, isn: tuple[int, int] = (1000, 5000)
    ) -> None:
        self.tap = Tap() if tap is None else tap
        self.initiator: Side = "a"
        self.next: dict[Side, int] = {"a": isn[0], "b": isn[1]}
        self.origin: dict[Side, int] = {}
        self.laid: dict[Side, list[LaidFPDU]] = {"a": [], "b": []}
        self.startup: dict[Side, tuple[int, int]] = {}
        self.crc = True
        self.streams: dict[Side, HalfStream] = {}
        self._makers = {"a": FrameMaker(a, b), "b": FrameMaker(b, a)}
        self.keys: dict[Side, bytes] = {}
        for side, maker in self._makers.items():
            octets = maker.frame(b"", seq=0, ack=0, flags=0, window=0)
            self.keys[side] = octets[26:38]  # type: ignore[index]

    @property
    def segments(self) -> list[Segment]:
        return self.tap.segments

    @staticmethod
    def peer(side: Side) -> Side:
        return "b" if side == "a" else "a"

    # --- TCP ---

    def put(
        self,
        side: Side,
        seq: int,
        payload: bytes = b"",
        *,
        flags: int = ACK,
        ack: int | None = None,
        checksum: int | Literal["right", "wrong", "zero", "pseudo"] = "right",
        captured: int | None = None,
    ) -> int:
        """Capture a segment of `side` at sequence number `seq`; returns its frame number.

        `captured`: how many of the payload's octets the capture kept.
        """
        ack = self.next[self.peer(side)] if ack is None else ack
        octets = bytearray(
            self._makers[side].frame(payload, seq=seq & _MASK, ack=ack & _MASK, flags=flags, window=0xFFFF)
        )
        right = octets[50] << 8 | octets[51]
        if checksum == "wrong":
            checksum = right ^ 0x5A5A
        elif checksum == "zero":
            checksum = 0
        elif checksum == "pseudo":
            checksum = pseudo_sum(self.keys[side], len(octets) - _TCP_AT)
        elif checksum == "right":
            checksum = right
        struct.pack_into("!H", octets, 50, checksum)
        frame = len(self.tap.segments) + 1
        start = _TCP_AT + 20
        kept = len(payload) if captured is None else captured
        buffer = memoryview(bytes(octets[: start + kept]))
        self.tap.segments.append(
            Segment(
                frame,
                self.tap.time(frame),
                self.keys[side],
                seq & _MASK,
                ack & _MASK,
                flags,
                buffer,
                start,
                start + kept,
                _TCP_AT,
                len(payload),
            )
        )
        return frame

    def say(self, side: Side, payload: bytes = b"", *, lost: bool = False, **options: Any) -> int:
        """`side` sends the next octets; `lost`: the capture does not have them."""
        flags = options.get("flags", ACK)
        seq = self.next[side]
        self.next[side] = (seq + len(payload) + bool(flags & SYN) + bool(flags & FIN)) & _MASK
        return 0 if lost else self.put(side, seq, payload, **options)

    def at(self, side: Side, offset: int, payload: bytes, **options: Any) -> int:
        """`side` sends octets at an offset of its Full Operation; they count as sent."""
        seq = self.origin[side] + offset
        end = (seq + len(payload)) & _MASK
        if (end - self.next[side]) & _MASK < 0x80000000:
            self.next[side] = end
        return self.put(side, seq, payload, **options)

    def open(self) -> Talk:
        """SYN, SYN and ACK, ACK."""
        self.say("a", flags=SYN, ack=0)
        self.say("b", flags=SYN | ACK)
        self.say("a")
        return self

    def close(self) -> Talk:
        """FIN, FIN, ACK."""
        self.say("a", flags=FIN | ACK)
        self.say("b", flags=FIN | ACK)
        self.say("a")
        return self

    # --- MPA ---

    def begin(self, side: Side, frame: bytes) -> None:
        """Make the next thing that `side` sends its startup frame."""
        seq = self.next[side]
        self.startup[side] = seq, (seq + len(frame)) & _MASK

    def greet(self, side: Side, frame: bytes, cuts: Sequence[int] = (), **options: Any) -> int:
        """`side` sends its startup frame, cut at the given octets; returns the last frame number."""
        self.begin(side, frame)
        number = 0
        for first, last in zip((0, *cuts), (*cuts, len(frame)), strict=True):
            number = self.say(side, frame[first:last], **options)
        return number

    def operate(self, *, markers: str = "", crc: bool = True, origin: Origin = "header", initiator: Side = "a") -> Talk:
        """Full Operation begins where both sides are now; `markers` names the sides that send them."""
        self.initiator = initiator
        self.crc = crc
        for side in ("a", "b"):
            self.origin[side] = self.startup[side][1]
            self.streams[side] = HalfStream(Dialect(side in markers, crc, origin))
        return self

    def startup_phase(
        self,
        *,
        m: tuple[int, int] = (0, 0),
        c: tuple[int, int] = (1, 0),
        rev: int = 1,
        origin: Origin = "header",
    ) -> Talk:
        """Request of `a` and Reply of `b`, with these M and C, and on to Full Operation."""
        self.greet("a", startup_frame("request", m=m[0], c=c[0], rev=rev).encode())
        self.greet("b", startup_frame("reply", m=m[1], c=c[1], rev=rev).encode())
        return self.operate(markers="b" * m[0] + "a" * m[1], crc=bool(c[0] or c[1]), origin=origin)

    def lay(self, side: Side, *sizes: int) -> bytes:
        """The octets of more FPDUs of `side`, which it has yet to send."""
        octets, laid = self.streams[side].lay(ulpdus(*sizes))
        self.laid[side] += laid
        return octets


def started(**options: Any) -> Talk:
    """A talk in Full Operation."""
    return Talk().open().startup_phase(**options)


def pseudo_sum(key: bytes, length: int) -> int:
    """The sum over the pseudo-header, word by word (RFC 9293 §3.1)."""
    total = 0
    for (word,) in struct.iter_unpack("!H", key[:-4] + struct.pack("!HH", 6, length)):
        total += word
        total = (total & 0xFFFF) + (total >> 16)
    return total


def renumbered(segments: Iterable[Segment], step: int = _SECOND) -> list[Segment]:
    """Segments captured in another order, `step` nanoseconds apart."""
    return [seg.replace(frame=n, time=n * step) for n, seg in enumerate(segments, 1)]


def cut_small(talk: Talk, side: Side, octets: bytes, size: int) -> None:
    """`side` says `octets` in segments of `size`."""
    for at in range(0, len(octets), size):
        talk.say(side, octets[at : at + size])


# --- what must come of it ---


def expected(
    talk: Talk,
    segments: Sequence[Segment] | None = None,
    *,
    connection: int = 0,
    dropped: Iterable[int] = (),
    floor: int | None = None,
) -> list[dict[str, Any]]:
    """The records of a talk without errors. `dropped` frames bring nothing; `floor` is the frame of the later
    startup frame, computed if both were captured.

    An FPDU is `cut` where a snapshot length left out octets of it; one whose length it left out is not found, and those
    after it only by a Marker.
    """
    segments = talk.segments if segments is None else segments
    brought: dict[Side, dict[int, int]] = {"a": {}, "b": {}}
    captured: dict[Side, set[int]] = {"a": set(), "b": set()}
    for seg in segments:
        if seg.frame in set(dropped):
            continue
        for side, octets in brought.items():
            if seg.key == talk.keys[side]:
                for i in range(seg.length):
                    octets.setdefault((seg.seq + i) & _MASK, seg.frame)
                captured[side].update((seg.seq + i) & _MASK for i in range(seg.end - seg.start))
    if floor is None:
        floor = max(
            brought[side][(first + i) & _MASK]
            for side, (first, last) in talk.startup.items()
            for i in range((last - first) & _MASK)
        )
    times = {seg.frame: seg.time / _SECOND for seg in segments}
    rows = []
    for side in (talk.initiator, talk.peer(talk.initiator)):
        origin, complete, gapped, before = talk.origin[side], floor, False, 0
        is_lost = False
        for fpdu in talk.laid[side]:
            frames = {brought[side].get((origin + at) & _MASK) for at in range(fpdu.offset, fpdu.end)}
            if None in frames:
                gapped, is_lost, before = True, True, 0
                continue
            kept = [(origin + at) & _MASK in captured[side] for at in range(fpdu.offset, fpdu.end)]
            header = fpdu.header_offset - fpdu.offset
            if not all(kept[header : header + 2]):
                is_lost, before = True, 0
                complete = max(complete, *(frame for frame in frames if frame))
                continue
            if is_lost and not before and not fpdu.markers:
                continue  # not the first after a gap that a Marker locates
            own = max(floor, *(frame for frame in frames if frame))
            complete = max(complete, own)
            placed = own if not fpdu.offset or fpdu.markers else max(own, before)
            by = "start" if not fpdu.offset else "length" if 0 < before <= placed else "marker"
            before = placed
            rows.append(
                {
                    "connection": connection,
                    "direction": "initiator" if side == talk.initiator else "responder",
                    "seq": (origin + fpdu.offset) & _MASK,
                    "header_seq": (origin + fpdu.header_offset) & _MASK,
                    "ulpdu_length": fpdu.ulpdu_length,
                    "wire_length": fpdu.wire_length,
                    "markers": fpdu.markers,
                    "crc": "cut" if not all(kept) else "good" if talk.crc else "unchecked",
                    "located_by": by,
                    "frames": sorted(frame for frame in frames if frame),
                    "placed_frame": placed,
                    "delivered_frame": None if gapped else complete,
                    "time": times.get(placed, float(placed)),
                    "after_error": False,
                    "deviation": None,
                }
            )
    return rows


# --- what comes of it ---


def records(receiver: Analyzer) -> list[FPDURecord]:
    """All FPDUs of all connections, by connection, direction and offset."""
    found = []
    for mpa in receiver.connections:
        for direction in ("initiator", "responder"):
            operation = mpa.operations.get(direction)
            if operation is not None and operation.log is not None:
                found += [
                    record_of(row, frames, mpa.number, operation.direction) for row, frames in operation.log.rows()
                ]
    return found


def seen(receiver: Analyzer) -> list[dict[str, Any]]:
    """The records, without what `expected` does not tell."""
    dicts = [record.as_dict() for record in records(receiver)]
    return [{key: row[key] for key in row if key != "opcode"} for row in dicts]


def is_watched(rule: str) -> bool:
    """Return True if a rule is one that FPDUs break which can be placed all the same: tests/rules has these."""
    return rule.startswith(WATCHED)


def placing(findings: Findings) -> list[Finding]:
    """The findings of placing, the gravest first, without what is only watched."""
    return [found for found in findings.sorted() if not is_watched(found.rule.id)]


def broken(findings: Findings) -> list[tuple[str, str | None, int, int]]:
    """Findings of placing in short: rule, direction, first frame, count."""
    return [(f.rule.id, f.direction, f.frame, f.count) for f in placing(findings)]


def codes(findings: Findings) -> set[int]:
    return {f.rule.code for f in placing(findings) if f.rule.code is not None}


def errors(receiver: Analyzer) -> list[str]:
    """Return what has severity error, anywhere."""
    everywhere = [receiver.findings, *(mpa.findings for mpa in receiver.connections)]
    return [f"{f.rule.id}: {f.detail}" for found in everywhere for f in placing(found) if f.severity == "error"]


def summary(receiver: Analyzer) -> dict[str, Any]:
    """All that a report is made of."""
    return {
        "records": [record.as_dict() for record in records(receiver)],
        "findings": [finding.as_dict() for finding in receiver.findings.sorted()],
        "connections": [
            {
                "number": mpa.number,
                "ends": (mpa.initiator, mpa.responder),
                "startup": [_values(found) for found in (mpa.request, mpa.reply)],
                "what": (mpa.profile.name, mpa.crc, mpa.rejected, mpa.inferred),
                "counts": {
                    direction: {name: getattr(operation.counts, name) for name in operation.counts.__slots__}
                    for direction, operation in mpa.operations.items()
                },
                "findings": [finding.as_dict() for finding in mpa.findings.sorted()],
            }
            for mpa in receiver.connections
        ],
    }


def feed(batches: Iterable[list[Segment]], *, records: bool = True, **options: Any) -> Analyzer:
    """A receiver that was fed these batches and let go of each."""
    receiver = Analyzer(records=records, **options)
    for batch in batches:
        receiver.feed(batch)
        receiver.release()
    receiver.finish()
    return receiver


def _in_blocks(segments: Sequence[Segment], size: int, receiver: Analyzer) -> None:
    """Feed blocks of `size` segments, each in one buffer that is spoilt when it may no longer be read."""
    blocks: list[bytearray] = []
    for first in range(0, len(segments), size):
        block = bytearray(_BLOCK + sum(seg.buffer.nbytes for seg in segments[first : first + size]))
        view, at, batch = memoryview(block), 0, []
        for seg in segments[first : first + size]:
            octets = seg.buffer
            block[at : at + octets.nbytes] = octets
            tcp = seg.tcp if seg.tcp < 0 else seg.tcp + at
            batch.append(seg.replace(buffer=view, start=seg.start + at, end=seg.end + at, tcp=tcp))
            at += octets.nbytes
        receiver.feed(batch)
        receiver.release()
        blocks.append(block)
        if len(blocks) > 2:
            # What was consumed is compared with retransmissions for one block more, then is gone.
            spoilt = blocks.pop(0)
            spoilt[:] = b"\xee" * len(spoilt)
    receiver.finish()


class PlacedRows(Listener):
    """Keeps the row and the frames of what was placed, in that order."""

    wants_octets = False

    def __init__(self) -> None:
        self.rows: list[tuple[FullOperation, FPDURow, tuple[int, ...]]] = []

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        assert octets == b""
        self.rows.append((operation, row, frames))


def follow(segments: Sequence[Segment], *, ways: bool = True, believed: bool = False, **options: Any) -> Analyzer:
    """A receiver that was fed all segments; that it matters not how they were cut in batches is asserted.

    `ways=False`: only all at once. `believed`: a listener may be handed FPDUs that turn out to be none.
    """
    listener = PlacedRows()
    receiver = feed([list(segments)], listener=listener, **options)
    placed = [(row, frames) for _, row, frames in listener.rows]
    logged = [
        (row, frames)
        for mpa in receiver.connections
        for operation in mpa.operations.values()
        if operation.log is not None
        for row, frames in operation.log.rows()
    ]
    # The same FPDUs, though the listener sees them before it is known when they are delivered.
    told = sorted(_placed(row) for row, _ in placed)
    kept = sorted(_placed(row) for row, _ in logged)
    assert {row for row, _ in kept} <= {row for row, _ in told}, "the listener was told other FPDUs"
    assert believed or [row for row, _ in kept] == [row for row, _ in told], "the listener was told other FPDUs"
    if not believed:
        for (row, sooner), (_, later) in zip(told, kept, strict=True):
            assert _may_become(sooner, later), f"the listener was told other flags: {row}"
    if ways:
        reference = summary(receiver)
        one_by_one = summary(feed([[seg] for seg in segments], **options))
        assert lasting(one_by_one) == lasting(reference), "a segment at a time"
        for size in (1, 3):
            other = Analyzer(records=True, **options)
            _in_blocks(segments, size, other)
            assert lasting(summary(other)) == lasting(reference), f"blocks of {size}"
    return receiver


def _values(found: FoundFrame | None) -> tuple[object, ...] | None:
    """The values of a startup frame, to be compared."""
    if found is None:
        return None
    where = found.start, found.end, found.frame, found.time, found.seq
    return found.startup, *where, found.ack, found.under_way, found.key, found.is_damaged


def lasting(told: dict[str, Any]) -> dict[str, Any]:
    """A summary without what is known of two blocks of a capture only: where late repeats began and ended."""
    for connection in told["connections"]:
        findings = connection["findings"]
        connection["findings"] = [found for found in findings if not found["rule"].startswith("alignment")]
        for counts in connection["counts"].values():
            counts.pop("header_aligned_segments", None)
            counts.pop("fpdu_aligned_segments", None)
            counts.pop("_near", None)  # where to look first
    return told


def _placed(row: FPDURow) -> tuple[tuple[int, ...], int]:
    """A row as it is when its FPDU is placed: not when it is delivered; and its flags."""
    return row._replace(flags=0, delivered=0), row.flags


def _may_become(sooner: int, later: int) -> bool:
    """Return True if flags may be these when an FPDU is placed and those at the end.

    The one before it may be found by its CRC later, and count as placed when it was complete (`marker` becomes
    `length`); and a bad CRC may show later that happened at an earlier frame (after_error).
    """
    if sooner & ~later & AFTER_ERROR:
        return False
    by = sooner >> 2 & 3, later >> 2 & 3
    return sooner & 3 == later & 3 and (by[0] == by[1] or by == (BY_MARKER, BY_LENGTH))


def only(receiver: Analyzer) -> CapturedConnection:
    """The one connection there is."""
    assert len(receiver.connections) == 1
    assert receiver.connections[0].number == 0
    return receiver.connections[0]


def check(
    talk: Talk, segments: Sequence[Segment] | None = None, *, ways: bool = True, **options: Any
) -> CapturedConnection:
    """Follow a talk without errors, and compare every record."""
    receiver = follow(talk.segments if segments is None else segments, ways=ways)
    assert seen(receiver) == expected(talk, segments, **options)
    assert receiver.findings.sorted() == []
    return only(receiver)
