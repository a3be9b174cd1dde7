"""Captured MPA conversations by seed, and the rows that are right for each.

`draw(seed, kind)` runs two TCP hosts that speak MPA over a bad network (`network`), captures what passes a tap, and
puts segments into the capture that no receiver accepted (`injected`). The truth is computed from which captured
segment brought which octets alone (`truth`). Nothing of the package is used but `Segment`, in which the capture is
handed over.

    python -m tests.receiver.conversations --draws 10000 --seed 1 [--kind paws] [--placed] [--verbose]

compares as many draws with `rows`, and prints counts by kind and the seeds of those that are wrong. `--write FILE`
writes the capture of one draw (`--seed`, `--kind`) as a pcap file instead.
"""

from __future__ import annotations

import argparse
import random
import signal
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scapy_mpa.values.segment import Segment
from tests.receiver.injected import KINDS as INJECTED
from tests.receiver.injected import Injection, Scene
from tests.receiver.network import Impairments, Network, Options, OwnSegmentDropped, Side, Tapped
from tests.receiver.script import MPA, Message, Script, Stream
from tests.receiver.truth import Copy, FirstFrames, Half, Row, rows_of
from tests.receiver.wire import FIN, SYN, encode_tcp, internet_checksum

#: What a draw has for certain; anything else it may have too. Each stands for one row of the tables of the design.
KINDS = (
    "benign", "loss", "reordered", "deep", "duplicates", "wrap", "gap", "gaps", "missed", "no-acks", "initiator",
    "responder", "no-syn", "large", "parallel", "reuse", "late", "checksum", "silent", *INJECTED, "several",
)  # fmt: skip
#: Nanoseconds since the epoch of time 0 of the first conversation.
_EPOCH = 1_700_000_000_000_000_000
ADDRESSES = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))


class Plan(NamedTuple):
    """One connection to be drawn; pairs are of the Initiator, then the Responder."""

    mpa: MPA
    messages: tuple[list[Message], list[Message]]
    segmentation: str
    buffers: tuple[int, int]
    shifts: tuple[int | None, int | None]
    clocks: tuple[int, int]
    path: Impairments
    options: Options
    iss: tuple[int, int]
    ports: tuple[int, int]
    #: "all", "no-acks", "initiator" or "responder": which segments are captured (`injected.Scene`).
    mode: str = "all"
    has_syn: bool = True


class Captured(NamedTuple):
    """A connection as captured, injected segments among the others."""

    plan: Plan
    streams: tuple[Stream, Stream]
    tapped: list[Tapped]
    injections: list[tuple[str, Injection]]


class Conversation(NamedTuple):
    """A capture and its truth.

    Attributes:
        segments: in the order of capture; frames count from 1.
        truth: the rows of all FPDUs, by connection, direction (Initiator first) and offset, without `time`.
        connections: what was captured of each connection, in the order of time.
    """

    seed: int
    kind: str
    segments: list[Segment]
    truth: list[Row]
    connections: list[Captured]


#: Damaged copies of one FPDU, all of them of octets that come again: so many sets of copies double with each.
MOST_DAMAGED = 3


def cannot_tell(conversation: Conversation) -> str | None:
    """Return why no receiver can find the truth of this draw in its capture, None if one can.

    * Without CRC there is no way to go on behind a gap if there are no Markers either; nor to know of Markers that a
      startup frame asked for that was not captured.
    * A gap of 2 GiB or more cannot be told from an old segment by sequence numbers alone: ACKs, timestamps or a CRC
      must show it.  From 3 GiB on nothing can: the largest window may lie as far behind.
    * Octets behind a gap and beyond the window that no ACK covers may be anybody's, unless no ACK was captured at all.
    * An injected segment is known by a rule of TCP that needs the ACKs of its receiver, by a CRC, or by coming later.
      Where none of these is captured or in use, it is as good as the real one.
    * Which copies make an FPDU valid can only be found by trying sets of them: no receiver is asked to do that for more
      than MOST_DAMAGED damaged ones.
    """
    for captured in conversation.connections:
        for side in (0, 1):
            if captured.plan.mode != ("responder", "initiator")[side] and captured.streams[side].fpdus:
                reason = _cannot_tell_stream(captured, side)
                if reason is not None:
                    return reason
        for kind, injection in captured.injections:
            if not injection.shown_by:
                return f"{kind}: nothing shows that it is foreign"
    return None


def _cannot_tell_stream(captured: Captured, side: int) -> str | None:
    plan, stream, tapped = captured.plan, captured.streams[side], captured.tapped
    covered = FirstFrames()
    acknowledged = reached = 0
    damaged = list[Tapped]()
    for one in tapped:
        is_of_side = one.segment.side == side
        place = one.segment.seq + len(one.segment.payload) if is_of_side else one.segment.ack
        if not one.kind and place - reached >= 3 << 30:
            return "a gap of 3 GiB or more between what was captured"
        reached = reached if one.kind else max(reached, place)
        if one.segment.side == side:
            covered.add(one.segment.seq, one.segment.seq + len(one.segment.payload), 0)
            if one.kind == "silent":
                damaged.append(one)
        elif not one.kind:
            acknowledged = max(acknowledged, one.segment.ack)
    if not (plan.mpa.crc or plan.mpa.markers(side)) and not covered.has(1, stream.end):
        return "a gap with neither CRC nor Markers"
    if plan.mode in ("initiator", "responder") and not plan.mpa.crc:
        return "Markers not known and no CRC"
    gaps = [(start + len(octets), end) for (start, octets), (end, _) in zip(stream.runs, stream.runs[1:], strict=False)]
    largest = max((end - start for start, end in gaps), default=0)
    if largest >= 1 << 31 and plan.mode != "all" and not plan.options.timestamps and not plan.mpa.crc:
        return "a gap of 2 GiB or more that nothing shows"
    if gaps and plan.mode == "no-acks" and acknowledged < gaps[-1][1]:
        return "no ACK covers what is behind a gap"
    for fpdu in stream.fpdus:
        low, high = stream.begin + fpdu.start, stream.begin + fpdu.end
        if sum(any(low <= at < high for at in one.changed) for one in damaged) > MOST_DAMAGED:
            return "too many damaged copies of one FPDU"
    return None


class _Drawing:
    """Draws plans; only `random` and `getrandbits` of its generator are used, which never change."""

    def __init__(self, seed: int, kind: str) -> None:
        self.rng = random.Random(f"{kind} {seed}")
        self.kind = kind

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def below(self, most: int) -> int:
        return int(self.rng.random() * most)

    def one_of(self, *values: Any) -> Any:
        return values[self.below(len(values))]

    def pair(self, *values: Any) -> tuple[Any, Any]:
        return self.one_of(*values), self.one_of(*values)

    def has(self, kind: str, otherwise: float) -> bool:
        """True for certain in draws of this kind, else with a probability; never in a benign one."""
        return self.kind == kind or (self.kind != "benign" and self.chance(otherwise))

    def size(self) -> int:
        """Octets of payload: some tiny, mostly less than a segment, some of several segments."""
        drawn = self.rng.random()
        if drawn < 0.2:
            return self.below(8)
        if drawn < 0.8:
            return self.below(400)
        return self.below(1400) if drawn < 0.96 else self.below(6000)

    def messages(self, count: int, reads: int, gaps: int) -> list[Message]:
        """Return messages of one side; `reads` Read Requests are among them."""
        found = [Message(self.one_of("send", "send", "write"), self.size()) for _ in range(count)]
        for _ in range(reads):
            found.insert(self.below(len(found) + 1), Message("read", self.size()))
        if self.kind == "large":
            found.insert(self.below(len(found) + 1), Message("write", self.one_of(16_000, 40_000, 64_768 - 14)))
        total = 0
        for _ in range(gaps):
            size = min(int(2 ** (4 + self.rng.random() * 27.58)), 3 << 30) if gaps < 4 else self.below(3 << 30) + 64
            total += size
            if total <= 40 << 30:
                found.insert(1 + self.below(max(1, len(found) - 1)), Message("gap", size & ~3))
        # Two gaps in a row, or one at either end, would be another draw.
        kept: list[Message] = []
        for message in found:
            if message.kind != "gap" or (kept and kept[-1].kind != "gap"):
                kept.append(message)
        while kept and kept[-1].kind == "gap":
            kept.pop()
        return kept

    def plan(self) -> Plan:
        kind = self.kind
        is_damaged = kind in ("checksum", "silent") or (kind == "several" and self.chance(0.2))
        damage = "silent" if kind == "silent" else "checksum"
        is_injected = kind in INJECTED or kind in ("several", "late")
        crc = True if damage == "silent" and is_damaged else self.chance(0.7)
        c = self.one_of((True, True), (True, False), (False, True)) if crc else (False, False)
        mpa = MPA(self.one_of(1, 1, 2), self.pair(True, False), c, self.pair(0, 0, 7, 60))
        is_deep = kind == "deep"
        count = 500 + self.below(300) if is_deep else self.one_of(1, 3, 8, 20, 40)
        if kind == "window":
            count = 40
        gaps = 1 if kind == "gap" else 4 + self.below(14) if kind == "gaps" else 0
        if kind in ("several", "no-acks", "missed", "no-syn") and self.chance(0.15):
            gaps = 1 + self.below(2)
        if gaps:
            count = max(count, 8)
        reads = self.one_of(0, 0, 1, 3) if not is_deep else 0
        of_initiator = self.messages(count, reads, gaps if self.chance(0.7) else 0)
        gapped = any(message.kind == "gap" for message in of_initiator)
        of_responder = self.messages(
            self.one_of(0, 2, count), 0, gaps if (gaps and not gapped) or self.chance(0.3) else 0
        )
        for message in of_initiator:
            if message.kind == "read":
                of_responder.append(Message("response", message.size))
        has_loss = self.has("loss", 0.4)
        overtaking = 500 if is_deep else self.one_of(3, 20, 100) if self.has("reordered", 0.4) else 0
        rates = (0.02, 0.1, 0.3)
        path = Impairments(
            lost_before_tap=self.one_of(*rates) if has_loss else 0.0,
            lost_behind_tap=self.one_of(0.0, *rates) if has_loss and not is_deep else 0.0,
            reordered=self.one_of(0.05, 0.3, 0.6) if overtaking else 0.0,
            overtaking=overtaking,
            duplicated=self.one_of(0.05, 0.3) if self.has("duplicates", 0.2) else 0.0,
            damaged=self.one_of(0.03, 0.1) if is_damaged else 0.0,
            damage=damage,
            distance=self.one_of((2e-5, 1e-4), (1e-4, 2e-5), (5e-3, 5e-3), (0.0, 2e-4)),
            missed=self.one_of(0.02, 0.1) if not (is_injected or is_damaged) and self.has("missed", 0.0) else 0.0,
        )
        options = Options(
            mss=536 if is_deep else self.one_of(256, 536, 1448, 8900),
            timestamps=self.chance(0.6) or kind == "paws",
            tick=self.one_of(4e-3, 1e-2, 1.0),
            sack=self.chance(0.6),
            flight=700 if is_deep else self.one_of(4, 12, 64),
            close=self.one_of("fin", "fin", "rst", "open") if kind != "fin" else "fin",
            closer=self.below(2),
            acks_in_gap=self.one_of(0, 0, 1, 5),
        )
        buffers = (1 << 20, 1 << 20) if is_deep else self.pair(20_000, 65_535, 400_000)
        if kind == "window":
            # So small that the stream comes beyond the first window, and the scale keeps some of it.
            buffers = self.pair(3000, 6000)
        shifts = self.one_of((None, None), (None, 7), (7, 7), (3, 14), (0, 2))
        if is_deep or kind == "window":
            shifts = (7, 7)
        mode = kind if kind in ("no-acks", "initiator", "responder") else "all"
        if mode == "all" and kind != "benign" and self.chance(0.15):
            mode = self.one_of("no-acks", "no-acks", "initiator", "responder")
        if mode == "responder":
            of_responder.append(Message("send", self.size()))
        starts: tuple[int, ...] = (1000, 0x7FFFFF80, self.rng.getrandbits(32))
        if kind == "wrap":
            starts = (0xFFFFFFFF - self.below(3000), 0xFFFFFFF0 - self.below(200))
        return Plan(
            mpa, (of_initiator, of_responder), self.one_of("aligned", "packed", "odd"), buffers, shifts,
            self.pair(100_000, 0xFFFFFFF0, 0x7FFFFFF0, 5_000_000), path, options, self.pair(*starts),
            (40_000, 7471), mode, not self.has("no-syn", 0.05),
        )  # fmt: skip


def _capture(plan: Plan, rng: random.Random) -> tuple[tuple[Stream, Stream], list[Tapped]] | None:
    """Run a conversation; return both streams and what was captured, None if it does not come to its end."""
    script = Script(plan.mpa, plan.messages, rng)
    # A segment is at most half a window.
    sizes = [min(plan.options.mss, plan.buffers[1 - side] // 4) for side in (0, 1)]
    streams = script.stream(0, plan.segmentation, sizes[0]), script.stream(1, plan.segmentation, sizes[1])
    sides = tuple(
        Side(stream.runs, stream.cuts, stream.end, plan.buffers[side], plan.shifts[side], plan.clocks[side])
        for side, stream in enumerate(streams)
    )
    network = Network((sides[0], sides[1]), plan.path, plan.options, rng)
    network.begins = streams[0].begin, streams[1].begin
    try:
        is_over = network.run()
    except OwnSegmentDropped:
        return None
    if not is_over:
        return None
    tapped = [one for one in network.captured if _is_captured(plan, one)]
    if not plan.has_syn:
        # The capture begins with the first octets.
        first = next((at for at, one in enumerate(tapped) if one.segment.payload), len(tapped))
        tapped = [one for one in tapped[first:] if not one.segment.flags & SYN]
    return (streams, tapped) if tapped else None


def _is_captured(plan: Plan, one: Tapped) -> bool:
    segment = one.segment
    if plan.mode == "no-acks":
        return bool(segment.payload or segment.flags & (SYN | FIN))
    return plan.mode == "all" or segment.side == (plan.mode == "responder")


def _inject(captured: Captured, kinds: Sequence[str], rng: random.Random) -> Captured | None:
    """Put one segment of each kind into a capture; None if there is no place for one."""
    plan, streams, tapped, _ = captured
    shifts = (0, 0) if None in plan.shifts else (plan.shifts[0] or 0, plan.shifts[1] or 0)
    scene = Scene(tapped, streams, plan.mpa, plan.mode, rng, shifts, (plan.clocks, plan.options.tick))
    made: list[tuple[str, Injection]] = []
    for kind in kinds:
        injection = next(filter(None, (INJECTED[kind](scene) for _ in range(8))), None)
        if injection is None:
            return None
        made.append((kind, injection))
    return captured._replace(tapped=_merged(tapped, made), injections=made)


def _merged(tapped: list[Tapped], made: Iterable[tuple[str, Injection]]) -> list[Tapped]:
    merged: list[Tapped] = []
    at = 0
    for kind, (place, segment, _) in sorted(made, key=lambda pair: pair[1].place):
        merged += tapped[at:place]
        at = place
        near = tapped[min(place, len(tapped) - 1)]
        merged.append(Tapped(near.time, segment, near.states, kind))
    return merged + tapped[at:]


def _earlier(drawing: _Drawing, later: Plan) -> Plan:
    """Return a plan of a connection between the same ports, before `later`: its numbers and its clocks are lower."""
    plan = drawing.plan()
    tick = later.options.tick
    before = int(600 / tick)
    back = drawing.one_of(3_000_000, 300_000_000, 1_500_000_000)
    return plan._replace(
        clocks=(later.clocks[0] - before, later.clocks[1] - before),
        options=plan.options._replace(tick=tick, timestamps=later.options.timestamps, close="fin"),
        iss=((later.iss[0] - back) % (1 << 32), (later.iss[1] - back - drawing.below(1000)) % (1 << 32)),
        mode=later.mode, has_syn=True,
        messages=([m for m in plan.messages[0] if m.kind != "gap"], [m for m in plan.messages[1] if m.kind != "gap"]),
        path=plan.path._replace(missed=0.0),
    )  # fmt: skip


def draw(seed: int, kind: str) -> Conversation | None:
    """Return the conversation of this seed; None if the draw makes none (no place for an injected segment)."""
    drawing = _Drawing(seed, kind)
    plan = drawing.plan()
    if kind in ("reuse", "late"):
        plan = plan._replace(has_syn=True)
    found = _capture(plan, drawing.rng)
    if found is None:
        return None
    captured: Captured | None = Captured(plan, *found, [])
    kinds = [kind] if kind in INJECTED else []
    if kind == "several":
        names = [name for name in INJECTED if name != "old-startup"]
        kinds = [drawing.one_of(*names) for _ in range(1 + drawing.below(4))]
    if kinds:
        captured = _inject(Captured(plan, *found, []), kinds, drawing.rng)
    if captured is None:
        return None
    connections = [captured]
    shifts = [0.0]
    if kind in ("reuse", "late"):
        earlier_plan = _earlier(drawing, plan)
        earlier = _capture(earlier_plan, drawing.rng)
        if earlier is None or earlier[1][-1].time > 500:
            return None
        connections.append(Captured(earlier_plan, *earlier, []))
        shifts.append(-earlier[1][-1].time - 60.0)
    elif kind == "parallel":
        for number in range(1 + drawing.below(3)):
            other_plan = drawing.plan()._replace(ports=(40_001 + number, 7471))
            other = _capture(other_plan, drawing.rng)
            if other is None:
                return None
            connections.append(Captured(other_plan, *other, []))
            shifts.append(drawing.rng.random() * 0.01)
    late: list[tuple[float, int, Tapped]] = []
    if kind == "late":
        late = _late_duplicates(drawing, connections)
    return _assembled(seed, kind, connections, shifts, late)


def _late_duplicates(drawing: _Drawing, connections: list[Captured]) -> list[tuple[float, int, Tapped]]:
    """Return segments of the earlier connection that come again in the later one, outside of its window."""
    later, earlier = connections
    found = []
    octets = [one for one in earlier.tapped if one.segment.payload and not one.kind]
    for _ in range(1 + drawing.below(3)):
        one = octets[drawing.below(len(octets))]
        side = one.segment.side
        number = (earlier.plan.iss[side] + one.segment.seq - later.plan.iss[side]) & 0xFFFFFFFF
        # The window before the SYN is the earlier connection's alone; gaps may bring the later one anywhere.
        if number > 1 << 31 and len(later.streams[side].runs) == 1:
            found.append((later.tapped[drawing.below(len(later.tapped))].time, 1, one))
    return found


def _assembled(
    seed: int, kind: str, connections: list[Captured], shifts: list[float], late: list[tuple[float, int, Tapped]]
) -> Conversation:
    """Merge the connections by time, number the frames, and compute the rows."""
    merged = [
        (one.time + shift, index, one)
        for index, (captured, shift) in enumerate(zip(connections, shifts, strict=True))
        for one in captured.tapped
    ]
    merged += late
    merged.sort(key=lambda entry: entry[0])
    segments: list[Segment] = []
    frames: list[list[tuple[int, Tapped]]] = [[] for _ in connections]
    for frame, (time, index, one) in enumerate(merged, 1):
        plan = connections[index].plan
        segments.append(_segment(frame, _EPOCH + int(time * 1e9), one, plan))
        frames[index].append((frame, one))
    halves = [_rows(captured, frames[index]) for index, captured in enumerate(connections)]
    order = sorted((index for index in range(len(halves)) if halves[index][0]), key=lambda index: halves[index][0])
    truth: list[Row] = []
    for number, index in enumerate(order):
        truth += [row | {"connection": number} for row in halves[index][1]]
    return Conversation(seed, kind, segments, truth, connections)


def _segment(frame: int, time: int, one: Tapped, plan: Plan) -> Segment:
    encoded = encode_tcp(one.segment, plan.iss, ADDRESSES, plan.ports)
    payload = len(one.segment.payload)
    return Segment(
        frame, time, encoded.key, encoded.seq, encoded.ack, one.segment.flags, memoryview(encoded.octets),
        encoded.header_length, len(encoded.octets), 0, payload,
    )  # fmt: skip


def _rows(captured: Captured, frames: list[tuple[int, Tapped]]) -> tuple[int, list[Row]]:
    """Return the frame by which the connection is numbered (0: there is none), and its rows."""
    plan, streams = captured.plan, captured.streams
    startups: list[int] = []
    for side, stream in enumerate(streams):
        first = FirstFrames()
        for frame, (_, segment, _, kind, _) in frames:
            if segment.side == side and not kind:
                first.add(segment.seq, segment.seq + len(segment.payload), frame)
        complete = first.frames(1, stream.begin)
        startups.append(max(complete) if first.has(1, stream.begin) else 0)
    if not any(startups):
        return 0, []
    rows: list[Row] = []
    for side, stream in enumerate(streams):
        copies = [
            Copy(frame, segment.seq - stream.begin, segment.seq - stream.begin + len(segment.payload),
                 tuple(at - stream.begin for at in changed))
            for frame, (_, segment, _, kind, changed) in frames
            if segment.side == side and segment.payload and kind in ("", "silent")
        ]  # fmt: skip
        if not copies:
            continue
        half = Half(
            stream.fpdus, stream.behind_gap, plan.mpa.markers(side), plan.mpa.crc,
            (plan.iss[side] + stream.begin) & 0xFFFFFFFF,
        )  # fmt: skip
        rows += rows_of(half, copies, max(startups), 0, ("initiator", "responder")[side])
    return startups[0] or startups[1], rows


# Long runs -------------------------------------------------------------------------------------------------------


def compare(conversation: Conversation, rows: list[Row]) -> str | None:
    """Return the first difference between rows and truth, None if there is none."""
    truth = conversation.truth
    for index, (found, right) in enumerate(zip(rows, truth, strict=False)):
        if found != right:
            keys = [key for key in right if found.get(key) != right[key]]
            return f"row {index}: " + ", ".join(f"{key} {found.get(key)!r}, right: {right[key]!r}" for key in keys[:4])
    return None if len(rows) == len(truth) else f"{len(rows)} rows, right: {len(truth)}"


def compare_placed(conversation: Conversation, rows: list[Row]) -> str | None:
    """Compare rows in the order in which they became final with the truth.

    A record that became final before it was delivered has no delivered_frame; one whose FPDU before was not final yet
    is located by `marker` where the truth says `length`. Nothing else may differ, and no record may come twice.
    """
    by_place = {(row["connection"], row["direction"], row["seq"]): row for row in conversation.truth}
    before = 0
    for row in rows:
        right = by_place.pop((row["connection"], row["direction"], row["seq"]), None)
        if right is None:
            return f"no such FPDU, or twice: {row}"
        final = row["final_frame"]
        allowed = dict(right)
        if row["delivered_frame"] is None and (right["delivered_frame"] or final + 1) > final:
            allowed["delivered_frame"] = None
        if row["located_by"] == "marker" and right["markers"] and right["located_by"] == "length":
            allowed["located_by"] = "marker"
        keys = [key for key in allowed if row.get(key) != allowed[key]]
        if keys:
            return "; ".join(f"{key} {row.get(key)!r}, right: {allowed[key]!r}" for key in keys)
        if final < before or final < max(row["frames"]):
            return f"final_frame {final}: before {before}, or before its octets"
        before = final
    return f"{len(by_place)} rows missing" if by_place else None


def pcap_of(segments: Iterable[Segment]) -> bytes:
    """Return the segments as a pcap file of IPv4 packets, times in nanoseconds."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 101)]
    for segment in segments:
        tcp = segment.buffer[segment.tcp : segment.end]
        length = 20 + len(tcp)
        header = struct.pack("!BBHHHBBH", 0x45, 0, length, segment.frame & 0xFFFF, 0x4000, 64, 6, 0) + segment.key[:8]
        header = header[:10] + struct.pack("!H", internet_checksum(header)) + header[12:]
        seconds, nanoseconds = divmod(segment.time, 10**9)
        out += [struct.pack("<IIII", seconds, nanoseconds, length, length), header, bytes(tcp)]
    return b"".join(out)


Rows = Callable[..., list[Row]]


def judge(conversation: Conversation, rows: Rows, placed: bool) -> str | None:
    """Return what is wrong in the rows of a conversation, None if nothing is."""
    if placed:
        return compare_placed(conversation, rows(conversation.segments, as_placed=True))
    return compare(conversation, rows(conversation.segments))


def _interrupt(number: int, _: object) -> None:
    raise TimeoutError(f"signal {number}: the draw took too long")


def main() -> int:
    """Compare many draws; return 1 if one is wrong."""
    parser = argparse.ArgumentParser(description="Compare drawn conversations with their truth.")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", choices=KINDS, help="of this kind alone")
    parser.add_argument("--placed", action="store_true", help="compare records in the order in which they become final")
    parser.add_argument("--rows", default="tests.receiver.rows", help="the module whose `rows` is compared")
    parser.add_argument("--seconds", type=float, default=20.0, help="a draw that takes longer is wrong")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the capture of one draw, and compare nothing")
    parser.add_argument("--verbose", action="store_true", help="print the first difference of each wrong draw")
    arguments = parser.parse_args()
    if arguments.write is not None:
        conversation = draw(arguments.seed, arguments.kind or KINDS[arguments.seed % len(KINDS)])
        if conversation is None:
            parser.error("this seed makes no draw")
        arguments.write.write_bytes(pcap_of(conversation.segments))
        return 0
    signal.signal(signal.SIGALRM, _interrupt)
    rows: Rows = __import__(arguments.rows, fromlist=["rows"]).rows
    right, wrong, untold, none = (Counter[str]() for _ in range(4))
    fpdus = Counter[str]()
    seeds: dict[str, list[int]] = {}
    reasons = Counter[str]()
    for number in range(arguments.draws):
        seed = arguments.seed + number
        kind = arguments.kind or KINDS[seed % len(KINDS)]
        conversation = draw(seed, kind)
        if conversation is None:
            none[kind] += 1
            continue
        reason = cannot_tell(conversation)
        signal.setitimer(signal.ITIMER_REAL, arguments.seconds)
        try:
            difference = judge(conversation, rows, arguments.placed)
        except Exception as error:  # noqa: BLE001
            difference = repr(error)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if reason is not None:
            untold[kind] += 1
            reasons[f"{reason} ({'right' if difference is None else 'wrong'})"] += 1
        elif difference is None:
            right[kind] += 1
            fpdus[kind] += len(conversation.truth)
        else:
            wrong[kind] += 1
            seeds.setdefault(kind, []).append(seed)
            if arguments.verbose:
                print(f"{kind} {seed}: {difference}", flush=True)
    heads = f"{'right':>8}{'wrong':>8}{'cannot tell':>13}{'no draw':>9}{'FPDUs right':>13}  seeds of the wrong"
    print(f"{'kind':14}{heads}")
    for kind in KINDS:
        if any(counter[kind] for counter in (right, wrong, untold, none)):
            first = " ".join(str(seed) for seed in seeds.get(kind, [])[:12])
            print(f"{kind:14}{right[kind]:8}{wrong[kind]:8}{untold[kind]:13}{none[kind]:9}{fpdus[kind]:13}  {first}")
    totals = [sum(counter.values()) for counter in (right, wrong, untold, none, fpdus)]
    print(f"{'all':14}{totals[0]:8}{totals[1]:8}{totals[2]:13}{totals[3]:9}{totals[4]:13}")
    for reason, count in reasons.most_common():
        print(f"{count:6} {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
