"""What is in an attacked capture, and whether an analysis of it is right.

The truth follows from the design's formulas alone: placed(k) = complete(k) for the first FPDU and those with a Marker,
else max(complete(k), placed(k-1)); delivered(k) = max of complete(j), j <= k; complete(k) is the first frame by which
all octets and both startup frames were captured, in segments that their receiver did not drop.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from tests.receive.conversing import ACK, FIN, Captured, Plan, World, pcap_of
from tests.receive.inserting import KINDS, MORE

#: The keys of a record that the model knows.
TRUE_KEYS = (
    "connection", "direction", "seq", "header_seq", "ulpdu_length", "wire_length", "markers", "crc", "frames",
    "placed_frame", "delivered_frame", "opcode", "after_error",
)  # fmt: skip
DIRECTIONS = ("initiator", "responder")
NEVER = 1 << 62
_MASK = 0xFFFFFFFF

Record = dict[str, Any]


class Outcome(NamedTuple):
    """What an analysis says: records of FPDUs, connections without their findings, findings."""

    records: list[Record]
    connections: list[Record]
    findings: list[Record]


class Draw(NamedTuple):
    """A capture and what it holds.

    `places`: of each world, the indices in `captured` of its real segments; `old`: of those, the ones dropped for their
    timestamps.
    """

    name: str
    captured: list[Captured]
    plans: list[Plan]
    worlds: list[World]
    places: list[list[int]]
    old: frozenset[int] = frozenset()

    @property
    def file(self) -> bytes:
        return pcap_of(self.captured, self.plans)

    @property
    def inserted(self) -> list[int]:
        """Frames that were put in, answers not counted."""
        return [n for n, one in enumerate(self.captured, 1) if one.inserted and one.inserted != "answer"]

    @property
    def real(self) -> list[int]:
        """Frames of the connection itself."""
        return [n for n, one in enumerate(self.captured, 1) if not one.inserted]

    def alone(self, frame: int) -> Draw:
        """With one inserted frame, and its answer, only."""
        return self.keeping(
            n for n, one in enumerate(self.captured)
            if not one.inserted or n == frame - 1 or (n == frame and one.inserted == "answer")
        )  # fmt: skip

    def without(self) -> Draw:
        """The same capture before anything was put in."""
        return self.keeping(n - 1 for n in self.real)

    def keeping(self, indices: Iterable[int]) -> Draw:
        kept = list(indices)
        number = {old: new for new, old in enumerate(kept)}
        return self._replace(
            captured=[self.captured[n] for n in kept],
            plans=[self.plans[n] for n in kept],
            places=[[number[n] for n in places if n in number] for places in self.places],
            old=frozenset(number[n] for n in self.old if n in number),
        )


def analysed(file: bytes) -> Outcome:
    """By the package that is imported."""
    from scapy_mpa import analyze

    report = analyze(io.BytesIO(file))
    records = [
        fpdu.as_dict() for one in report.connections for half in (one.initiator, one.responder) for fpdu in half.fpdus
    ]
    whole = report.as_dict()
    findings = [{**found, "connection": None} for found in whole["findings"]]
    for one in whole["connections"]:
        findings += [{**found, "connection": one["connection"]} for found in one.pop("findings")]
    return Outcome(records, whole["connections"], findings)


# --- what is true ---


def first_frames(draw: Draw, n: int, side: int) -> list[int]:
    """The first frame that brings each octet of a stream of the n-th conversation."""
    first = [NEVER] * len(draw.worlds[n].script.octets[side])
    for place in reversed(draw.places[n]):
        seg = draw.captured[place].seg
        if seg.side == side and seg.payload and place not in draw.old:
            first[seg.seq - 1 : seg.seq - 1 + len(seg.payload)] = [place + 1] * len(seg.payload)
    return first


def truth(draw: Draw, others: Mapping[int, list[int]] | None = None) -> list[Record]:
    """The records of all conversations in the capture; a frame is None where octets are missing.

    `others`: by side, other first frames of the octets of the stream.
    """
    records = []
    for n, world in enumerate(draw.worlds):
        script, plan = world.script, world.plan
        firsts = [(others or {}).get(side) or first_frames(draw, n, side) for side in (0, 1)]
        floor = max(max(firsts[side][: script.begins[side]]) for side in (0, 1))
        for side, direction in enumerate(DIRECTIONS):
            begin, laid = script.begins[side], script.laid[side]
            first = firsts[side][begin:]
            complete = [max(floor, max(first[fpdu.start : fpdu.end])) for fpdu in laid]
            delivered = list(accumulate(complete, max))
            placed = 0
            for k, fpdu in enumerate(laid):
                alone = k == 0 or fpdu.markers
                placed = complete[k] if alone else max(complete[k], placed)
                seq = plan.isn[side] + 1 + begin
                records.append(
                    {
                        "connection": n,
                        "direction": direction,
                        "seq": (seq + fpdu.start) & _MASK,
                        "header_seq": (seq + fpdu.header) & _MASK,
                        "ulpdu_length": fpdu.ulpdu_length,
                        "wire_length": fpdu.end - fpdu.start,
                        "markers": fpdu.markers,
                        "crc": "good" if plan.crc else "unchecked",
                        "frames": sorted(set(first[fpdu.start : fpdu.end])),
                        "placed_frame": placed if placed < NEVER else None,
                        "delivered_frame": delivered[k] if delivered[k] < NEVER else None,
                        "opcode": "Send",
                        "after_error": False,
                    }
                )
    return records


def against(found: Sequence[Record], wanted: Sequence[Record], what: str) -> list[str]:
    """Of records; one line each."""

    def key(record: Record) -> tuple[Any, ...]:
        return record["connection"], record["direction"], record["seq"]

    lines = []
    have, want = {key(r): r for r in found}, {key(r): r for r in wanted}
    for one in [k for k in want if k not in have]:
        lines.append(f"{what}: not found {one}, placed {want[one]['placed_frame']}")
    for one in [k for k in have if k not in want]:
        lines.append(f"{what}: false {one}, placed {have[one]['placed_frame']}, crc {have[one]['crc']}")
    for one in [k for k in want if k in have]:
        other = {name: (have[one][name], want[one][name]) for name in want[one] if have[one][name] != want[one][name]}
        if other:
            told = ", ".join(f"{name} {is_} not {should}" for name, (is_, should) in other.items())
            lines.append(f"{what}: {one}: {told}")
    return lines


# --- judging ---


def against_truth(draw: Draw, outcome: Outcome) -> list[str]:
    lines = against(true_only(outcome.records), truth(draw), "truth")
    if len(outcome.connections) != len(draw.worlds):
        ends = [f"{one['initiator']} > {one['responder']}" for one in outcome.connections]
        lines.append(f"connections: {len(ends)} not {len(draw.worlds)}: {ends}")
    return lines


def true_only(records: Sequence[Record]) -> list[Record]:
    """What the model knows of records."""
    return [{name: record[name] for name in TRUE_KEYS} for record in records]


def errors_of(outcome: Outcome) -> list[str]:
    return [
        f"error: {f['rule']} of frame {f['frame']}: {f['detail']}" for f in outcome.findings if f["severity"] == "error"
    ]


def findings_of_frames(outcome: Outcome, frames: Sequence[int], rules: Sequence[str]) -> list[Record]:
    """Those of some rules that name one of the frames."""
    return [f for f in outcome.findings if f["rule"] in rules and any(names(f, frame) for frame in frames)]


def named_frames(finding: Record) -> set[int]:
    """Frames that a finding names."""
    frames = {finding["frame"], finding["last_frame"]}
    for numbers in re.findall(r"frames? ((?:\d+(?:, | and )?)+)", finding["detail"]):
        frames.update(int(number) for number in re.findall(r"\d+", numbers))
    return {frame for frame in frames if frame is not None}


def names(finding: Record, frame: int) -> bool:
    """True if it does; where it stands for several breaches, those between the first and the last are not listed."""
    frames = named_frames(finding)
    return frame in frames or (finding["count"] > 1 and min(frames) <= frame <= max(frames))


def judge_a(draw: Draw, before: Outcome, after: Outcome) -> list[str]:
    """Property A: `before` is what is found where nothing was put in."""
    everything = {**KINDS, **MORE}
    answers = {n for n, one in enumerate(draw.captured, 1) if one.inserted == "answer"}
    told = [n for n in draw.inserted if (put := everything.get(draw.captured[n - 1].inserted)) is None or put.is_told]
    counting = [n for n in draw.inserted if may_count(draw, n)]
    told = [n for n in told if n not in counting and not is_before_window(draw, n)]
    may_hold = bool(counting)
    frames = {*draw.inserted, *answers}
    return against_truth(draw, after) or unchanged(draw.real, frames, told, before, after, may_hold)


#: Octets from a receiver's window: farther ahead nothing is believed that no ACK covers (DESIGN, copies with doubts).
_NEAR = 1 << 26


def may_count(draw: Draw, frame: int) -> bool:
    """Return True if octets, or a FIN, that were put in may be the connection's: nothing else brings them (DESIGN).

    Octets with a wrong checksum or an old timestamp are if they follow all that was sent; those beyond the window if
    they begin within a window of it, or if no ACK was captured after them.
    """
    kind, seg = draw.captured[frame - 1].inserted, draw.captured[frame - 1].seg
    world = draw.worlds[-1]
    end = 1 + len(world.script.octets[seg.side])
    ahead = seg.seq - end
    if (seg.end <= end and not seg.flags & FIN) or ahead > _NEAR:
        return False
    if kind in ("data-wrong-checksum", "data-old-timestamp"):
        return ahead <= 0
    window = max(known.edge - known.next for known in world.hosts[1 - seg.side].history)
    is_last = not any(one.seg.side != seg.side and one.seg.flags & ACK for one in draw.captured[frame:])
    return is_last or (bool(seg.payload) and ahead <= window)


def is_before_window(draw: Draw, frame: int) -> bool:
    """True if a forged acknowledgement was captured before any of its receiver's: no window is known (DESIGN)."""
    one = draw.captured[frame - 1]
    if not one.inserted.startswith("ack-"):
        return False
    return not any(b.seg.side != one.seg.side and b.seg.flags & ACK for b in draw.captured[: frame - 1])


def unchanged(
    real: Sequence[int],
    put: Collection[int],
    told: Collection[int],
    before: Outcome,
    after: Outcome,
    may_hold: bool = False,
) -> list[str]:
    """Return True if all that was found `before` is found `after` frames were put in.

    `real`: the numbers that the frames of before have now; `put`: the others; `told`: those a finding has to name;
    `may_hold`: octets that nothing contradicts may count as captured.
    """
    number = dict(enumerate(real, 1))

    def mapped(record: Record) -> Record:
        moved = {name: value for name, value in record.items() if name != "time"}
        moved["frames"] = [number[frame] for frame in record["frames"]]
        for name in ("placed_frame", "delivered_frame"):
            moved[name] = None if record[name] is None else number[record[name]]
        return moved

    found = [{name: value for name, value in record.items() if name != "time"} for record in after.records]
    lines = against(found, [mapped(record) for record in before.records], "before")
    if len(before.connections) != len(after.connections):
        lines.append(f"connections: {len(after.connections)} not {len(before.connections)}")
    for one, other in zip(before.connections, after.connections, strict=False):
        lines += _connection(one, other, number, may_hold)
    return lines + _findings(put, told, before.findings, after.findings, number)


#: Keys of a connection that say what it is; the rest counts, or says how the segments of the capture lie.
_SAME = ("initiator", "responder", "profile", "revision", "crc", "inferred", "rejected")
_COUNTS = (
    "markers", "fpdus", "placed", "delivered", "placed_out_of_order", "marker_count", "crc_errors", "ulpdu_octets",
    "stream_octets", "missing_octets",
)  # fmt: skip
_LIFE = ("ended", "ended_by", "closed", "reset_by", "unacknowledged_octets")
_LIFE_FRAMES = ("ended_frame", "reset_frame")


def _connection(one: Record, other: Record, number: Mapping[int, int], may_hold: bool) -> list[str]:
    lines = [f"connection: {name} {other[name]} not {one[name]}" for name in _SAME if one[name] != other[name]]
    for frame in ("request", "reply"):
        if one[frame] is None or other[frame] is None:
            lines += [f"connection: {frame} {other[frame]}"] if one[frame] != other[frame] else []
        elif {**one[frame], "frame": number[one[frame]["frame"]]} != other[frame]:
            lines.append(f"connection: {frame} {other[frame]}")
    for direction in DIRECTIONS:
        for name in _COUNTS:
            is_, should = other["halves"][direction][name], one["halves"][direction][name]
            if is_ != should and not (may_hold and name in ("stream_octets", "missing_octets")):
                lines.append(f"counts: {direction} {name} {is_} not {should}")
    life, lives = one.get("lifecycle") or {}, other.get("lifecycle") or {}
    for name in _LIFE:
        if life.get(name) != lives.get(name) and not (may_hold and name == "unacknowledged_octets"):
            lines.append(f"lifecycle: {name} {lives.get(name)} not {life.get(name)}")
    for name in _LIFE_FRAMES:
        should = number.get(life.get(name) or 0)
        if life and lives.get(name) != should:
            lines.append(f"lifecycle: {name} {lives.get(name)} not {should}")
    return lines


def _findings(
    put: Collection[int],
    told: Collection[int],
    before: Sequence[Record],
    after: Sequence[Record],
    number: Mapping[int, int],
) -> list[str]:
    lines = []
    kept: list[Record] = []
    for finding in before:
        first, last = number.get(finding["frame"]), number.get(finding["last_frame"])
        like = [
            f for f in after if all(f[name] == finding[name] for name in ("rule", "direction", "connection"))
        ]  # fmt: skip
        if not like:
            lines.append(f"finding lost: {finding['rule']} of frame {first}: {finding['detail']}")
        for found in like:
            same = (found["frame"], found["last_frame"], found["count"]) == (first, last, finding["count"])
            if same:
                kept.append(found)
            elif found["count"] < finding["count"]:
                lines.append(f"finding changed: {found['rule']} {found['count']} times, not {finding['count']}")
    for finding in after:
        if finding in kept:
            continue
        text = f"{finding['rule']} of frame {finding['frame']}: {finding['detail']}"
        if finding["severity"] == "error":
            lines.append(f"error: {text}")
        elif not any(names(finding, frame) for frame in put):
            lines.append(f"finding about no inserted frame: {text}")
    for frame in told:
        if not any(names(finding, frame) for finding in after):
            lines.append(f"unnamed: no finding names frame {frame}")
    return lines


def described(draw: Draw) -> str:
    """What it is, in a few lines."""
    plan = draw.worlds[-1].plan
    default = Plan()
    other = {
        name: value for name, value in plan._asdict().items() if value != getattr(default, name) and name != "seed"
    }
    lines = [f"{draw.name}: {len(draw.captured)} frames, {len(draw.worlds)} connections; {other}"]
    for n, one in enumerate(draw.captured, 1):
        if one.inserted:
            seg = one.seg
            flags = "".join(letter for bit, letter in ((1, "F"), (2, "S"), (4, "R"), (16, "A")) if seg.flags & bit)
            lines.append(
                f"  frame {n}: {one.inserted} of {DIRECTIONS[seg.side]}, {flags} seq "
                f"{(plan.isn[seg.side] + seg.seq) & _MASK} (ISN + {seg.seq}) ack ISN + {seg.ack} "
                f"{len(seg.payload)} octets, window {seg.window}, stamps {seg.stamps}"
            )
    return "\n".join(lines)
