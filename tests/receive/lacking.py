"""Property C: captures from which frames are missing; nothing real is lost for lack of an acknowledgement or a window.

What must be found follows from the octets that remain: where both startup frames were captured, every FPDU all of whose
octets were, if a CRC, a Marker of its own or an unbroken chain of lengths locates it; and, with a CRC, nothing else.
`before` is what another version finds: the same FPDUs or more.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.receive.conversing import FIN, RST, SYN, Captured
from tests.receive.drawing import conversation, draw_plan, laid
from tests.receive.judging import DIRECTIONS, NEVER, Draw, Outcome, Record, first_frames, true_only, truth

LACKS = (
    "acks", "acks-of-one", "one-way", "one-way-later", "hole", "loss", "handshake", "beginning", "reply",
    "acks-and-loss",
)  # fmt: skip
#: Of these the capture holds every octet.
_WHOLE = ("acks", "acks-of-one", "one-way-later", "handshake")


class Lacking(NamedTuple):
    """A draw of which frames are missing; `side`: whose, if it is one's."""

    draw: Draw
    kind: str
    side: int


def draw_c(seed: int, kinds: tuple[str, ...] = LACKS) -> Lacking | None:
    rng = random.Random(seed)
    kind, side = kinds[rng.randrange(len(kinds))], rng.randrange(2)
    plan = draw_plan(rng)
    world = conversation(plan)
    if world is None:
        return None
    draw = laid(world, None, [], f"seed {seed}")
    captured = draw.captured
    floor = _startup_place(draw)
    kept = [n for n in range(len(captured)) if _is_kept(captured[n], n, len(captured), kind, side, floor, rng)]
    if kind in ("hole", "beginning"):
        low = 0 if kind == "beginning" else rng.randrange(floor, len(captured) + 1)
        high = (
            floor + rng.randrange(max(1, (len(captured) - floor) // 2))
            if kind == "beginning"
            else low + rng.randrange(12)
        )
        kept = [n for n in kept if not low <= n < high]
    return Lacking(draw.keeping(kept), kind, side)


def _startup_place(draw: Draw) -> int:
    """Behind which both startup frames were captured."""
    script = draw.worlds[0].script
    return max(max(first_frames(draw, 0, side)[: script.begins[side]]) for side in (0, 1))


def _is_kept(one: Captured, n: int, count: int, kind: str, side: int, floor: int, rng: random.Random) -> bool:
    seg = one.seg
    pure = not seg.payload and not seg.flags & (SYN | FIN | RST)
    if kind == "acks":
        return not pure
    if kind == "acks-of-one":
        return not (pure and seg.side == side)
    if kind == "one-way":
        return seg.side == side
    if kind == "one-way-later":
        return seg.side == side or n < floor
    if kind == "loss":
        return n < floor or rng.random() > 0.08
    if kind == "acks-and-loss":
        return n < floor or (not pure and rng.random() > 0.05)
    if kind == "handshake":
        return not seg.flags & SYN
    if kind == "reply":
        return not (seg.side == 1 and seg.seq == 1 and seg.payload)
    return True


def judge_c(lacking: Lacking, after: Outcome, before: Outcome | None = None) -> list[str]:
    """One line for each thing that is wrong."""
    draw, kind = lacking.draw, lacking.kind
    lines = []
    if kind not in ("one-way", "reply", "beginning"):
        lines += _by_truth(lacking, after)
    if before is not None:
        true = {(r["direction"], r["seq"], r["wire_length"]): r for r in truth(draw)}
        have = {_extent(r): r for r in after.records}
        had = {_extent(r): r for r in before.records}
        lines += [f"lost: {one}" for one in had if one not in have and one in _as_named(true, before)]
        lines += [f"false: {one}" for one in have if one not in had and one not in _as_named(true, after)]
        if not draw.worlds[0].plan.timestamps and not lines:
            for one in had:
                for name in ("placed_frame", "delivered_frame"):
                    if have[one][name] != had[one][name]:
                        lines.append(f"moved: {one} {name} {have[one][name]} not {had[one][name]}")
    return lines


def _extent(record: Record) -> tuple[str, int, int]:
    return record["direction"], record["seq"], record["wire_length"]


def _as_named(true: dict[tuple[str, int, int], Record], outcome: Outcome) -> set[tuple[str, int, int]]:
    """The true extents, by the names of directions an analysis that saw no Request may have exchanged."""
    swapped = any(one["initiator"].endswith(":7471") for one in outcome.connections)
    other = dict(zip(DIRECTIONS, DIRECTIONS[::-1], strict=True))
    return {(other[d] if swapped else d, seq, length) for d, seq, length in true}


def _by_truth(lacking: Lacking, after: Outcome) -> list[str]:
    draw = lacking.draw
    plan, script = draw.worlds[0].plan, draw.worlds[0].script
    wanted = truth(draw)
    found = {_extent(r): r for r in true_only(after.records)}
    lines = []
    for side, direction in enumerate(DIRECTIONS):
        first = first_frames(draw, 0, side)[script.begins[side] :]
        is_broken = False
        is_lost = False
        for k, fpdu in enumerate(script.laid[side]):
            record = next(
                r for r in wanted if r["direction"] == direction and r["seq"] == _seq(lacking, side, fpdu.start)
            )
            # Behind a hole the next Marker is waited for where there are some, else a CRC is searched for.
            is_lost &= not fpdu.markers and (plan.markers[side] or not plan.crc)
            if not all(frame < NEVER for frame in first[fpdu.start : fpdu.end]):
                is_lost = is_broken = True
            if is_lost:
                continue
            one = found.pop(_extent(record), None)
            if one is None:
                lines.append(f"not found: {direction} {k}: {record['seq']}")
            elif (not is_broken or lacking.kind in _WHOLE) and not draw.old:
                lines += [
                    f"changed: {direction} {k}: {name} {one[name]} not {record[name]}"
                    for name in ("placed_frame", "delivered_frame", "frames", "crc")
                    if one[name] != record[name]
                ]
    if plan.crc:
        # What brought them may have been dropped for its timestamp: they are real.
        lines += [f"false: {one}" for one in found if one not in {_extent(r) for r in wanted}]
    return lines


def _seq(lacking: Lacking, side: int, offset: int) -> int:
    world = lacking.draw.worlds[0]
    return (world.plan.isn[side] + 1 + world.script.begins[side] + offset) & 0xFFFFFFFF
