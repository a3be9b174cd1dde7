"""Property B: forged segments that TCP would take, with octets, a FIN or a RST inside the window.

What is right follows from the design's rule for rival copies: what came after the peer acknowledged those octets is
out; else, if a CRC is in use and only one copy makes the FPDU valid, that one was taken; else the first. Every forged
octet here differs from the one it rivals, and the first real copy always comes before it is acknowledged, so

* with a CRC and a forged copy that breaks it, everything is as if nothing had been forged;
* with a forged FPDU of the same extent and a good CRC, or without CRCs and with changes in a ULPDU alone, the first
  copy counts, and FPDUs lie where they lay;
* without CRCs and with anything else, what the forged octets do not touch and a Marker locates is found;
* a FIN counts once the peer acknowledges it and nothing beyond: here the peer does acknowledge what follows it.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.receive.conversing import ACK, FIN, RST, Captured, LaidFPDU, Seg, crc32c
from tests.receive.drawing import conversation, draw_plan, laid
from tests.receive.inserting import Place, Scene, earlier_plan
from tests.receive.judging import (
    DIRECTIONS,
    NEVER,
    Draw,
    Outcome,
    Record,
    against,
    errors_of,
    findings_of_frames,
    first_frames,
    judge_a,
    names,
    true_only,
    truth,
)  # fmt: skip

CONTESTS = (
    "octets", "ulpdu", "fpdu", "fin-exact", "rst-exact", "rst-silent", "rst-answering", "rst-inside-continued",
)  # fmt: skip


class Contest(NamedTuple):
    """A draw, what is forged in it, by whom, and in which offsets of the stream (of its sequence number)."""

    draw: Draw
    kind: str
    side: int
    frame: int
    start: int
    end: int


def draw_b(seed: int, kinds: tuple[str, ...] = CONTESTS) -> Contest | None:
    """None where there is no place for what was chosen."""
    rng = random.Random(seed)
    kind, side = kinds[rng.randrange(len(kinds))], rng.randrange(2)
    plan = draw_plan(rng)
    if any(plan.lost) or plan.late:
        # A forged segment with the sender's latest timestamp would make its own segments old that are held up.
        plan = plan._replace(timestamps=False)
    if kind in ("rst-silent", "rst-answering"):
        plan = plan._replace(end="open")
    world = conversation(plan)
    earlier = conversation(earlier_plan(plan, rng))
    if world is None or earlier is None:
        return None
    scene = Scene(world, earlier)
    for _ in range(20):
        first = max(scene.startup_frames())
        at = rng.randrange(first, scene.last_place() + 1) if scene.last_place() > first else first
        place = Place(scene, at, side, rng)
        seg = _TEARDOWN[kind](place) if kind in _TEARDOWN else _forged(place, kind)
        if seg is None:
            continue
        put = [Captured(scene.time(at, rng.random()), seg, f"forged-{kind}")]
        if kind == "rst-silent":
            world.captured[at:] = [one for one in world.captured[at:] if one.seg.side != side and not one.seg.payload]
        draw = laid(world, None, [(at, put)], f"seed {seed}")
        frame = draw.inserted[0]
        return Contest(draw, kind, side, frame, seg.seq - 1, seg.seq - 1 + len(seg.payload))
    return None


def _forged(place: Place, kind: str) -> Seg | None:
    """Octets between the acknowledgement and the end of the window, where something real comes or came."""
    script, view, rng = place.scene.world.script, place.view, place.rng
    begin, stream = script.begins[place.side], script.octets[place.side]
    low, high = max(view.acked - 1, begin), min(view.edge - 1, len(stream))
    if high - low < 8:
        return None
    inside = [f for f in script.laid[place.side] if low <= begin + f.start and begin + f.end <= high]
    if kind == "octets":
        start = low + rng.randrange(min(high - low - 4, 2000))
        end = min(high, start + place.pick(4, 30, 200, place.scene.plan.mss))
        payload = _others(stream[start:end], rng)
        return place.make(start + 1, payload)
    if not inside:
        return None
    fpdu = inside[rng.randrange(min(3, len(inside)))]
    start, end = begin + fpdu.start, begin + fpdu.end
    if kind == "fpdu":
        seen = [first < NEVER for first in _seen(place, start, end)]
        if any(seen) and not all(seen):
            return None
        return place.make(start + 1, rival(stream[start:end], fpdu, place.scene.plan.crc, rng))
    plain = _ulpdu_run(fpdu, place.scene.plan.markers[place.side])
    if plain is None:
        return None
    start, end = begin + plain[0], begin + plain[1]
    return place.make(start + 1, _others(stream[start:end], rng))


def _others(octets: bytes, rng: random.Random) -> bytes:
    """Every one of them another."""
    return bytes(octet ^ (1 + rng.randrange(255)) for octet in octets)


def _seen(place: Place, start: int, end: int) -> list[int]:
    """By octet of a stream, the first place that brought it so far."""
    first = [NEVER] * (end - start)
    for n, (_, seg, _) in enumerate(place.scene.captured[: place.at]):
        if seg.side == place.side:
            for at in range(max(start, seg.seq - 1), min(end, seg.seq - 1 + len(seg.payload))):
                first[at - start] = min(first[at - start], n)
    return first


def _ulpdu_run(fpdu: LaidFPDU, markers: bool) -> tuple[int, int] | None:
    """Octets of a payload behind DDP's header, before a Marker may come, and before PAD and CRC."""
    start, end = fpdu.header + 20, fpdu.end - 8
    if markers:
        # Markers at multiples of 512; the header may lie on both sides of one.
        start += 4
        end = min(end, start - start % 512 + 512)
        if start % 512 < 8:
            start += 8
    return (start, end) if end - start >= 2 else None


def rival(octets: bytes, fpdu: LaidFPDU, crc: bool, rng: random.Random) -> bytes:
    """An FPDU like another, its last octets of payload changed, and its CRC right (zero where there is none)."""
    changed = bytearray(octets)
    # The word before the CRC's, or before a Marker that stands there: of the payload, or PAD, if not DDP's header.
    at = len(octets) - 4
    where = next((p for p in range(at - 4, 23, -1) if fpdu.ulpdu_length > 30 and _is_payload(fpdu, p)), None)
    if where is not None:
        changed[where] ^= 1 + rng.randrange(255)
    else:
        # An RsvdULP field says nothing: octet 2 of the ULPDU.
        where = fpdu.header - fpdu.start + 2 + 2
        changed[where] ^= 1 + rng.randrange(255)
    if crc:
        changed[at:] = crc32c(bytes(changed[:at])).to_bytes(4, "little")
    return bytes(changed)


def _is_payload(fpdu: LaidFPDU, index: int) -> bool:
    """True if an octet is of the ULPDU, by counting from its header; Markers are 4 octets at multiples of 512."""
    at = fpdu.start + index
    if fpdu.markers and at % 512 < 4:
        return False
    between = sum(1 for p in range(fpdu.header, at) if fpdu.markers and p % 512 < 4)
    return 20 <= at - fpdu.header - between < 2 + fpdu.ulpdu_length


# --- FIN and RST ---


def _quiet(place: Place) -> int | None:
    """The next number its receiver expects, where all that was sent has been acknowledged, and more comes."""
    view, last = place.view, place.scene.world.hosts[place.side].last
    return view.acked if view.acked == view.sent < last else None


def _fin_exact(place: Place) -> Seg | None:
    seq = _quiet(place)
    return None if seq is None else place.make(seq, flags=FIN | ACK)


def _rst_exact(place: Place) -> Seg | None:
    seq = _quiet(place)
    return None if seq is None else place.make(seq, flags=place.pick(RST, RST | ACK))


def _rst_inside(place: Place) -> Seg | None:
    """In the window, not the next number expected, nor one that was acknowledged."""
    view = place.view
    free = [n for n in range(view.sent + 1, min(view.edge, view.sent + 3000)) if n not in view.numbers]
    return place.make(free[place.rng.randrange(len(free))], flags=place.pick(RST, RST | ACK)) if free else None


def _rst_continued(place: Place) -> Seg | None:
    later = [one for one in place.scene.captured[place.at :] if one.seg.side == place.side and one.seg.payload]
    new = any(one.seg.end > place.view.sent for one in later)
    return _rst_inside(place) if new else None


def _rst_answering(place: Place) -> Seg | None:
    """What a closed socket answers with: the number that was acknowledged (RFC 9293 §3.10.7.1)."""
    numbers = sorted(place.view.numbers)
    if place.at < len(place.scene.captured) or not numbers:
        return None
    return place.make(numbers[-1 - place.rng.randrange(min(3, len(numbers)))], flags=RST)


_TEARDOWN = {
    "fin-exact": _fin_exact,
    "rst-exact": _rst_exact,
    "rst-silent": _rst_inside,
    "rst-answering": _rst_answering,
    "rst-inside-continued": _rst_continued,
}


# --- judging ---


def judge_b(contest: Contest, before: Outcome, after: Outcome) -> list[str]:
    """`before`: what is found without the forged segment."""
    if contest.kind == "rst-inside-continued":
        return judge_a(contest.draw, before, after)
    if contest.kind == "fin-exact":
        return _continued(contest, after)
    if contest.kind in _TEARDOWN:
        return _ended(contest, after)
    return _placed(contest, after) + _named(contest, after)


def _placed(contest: Contest, after: Outcome) -> list[str]:
    draw = contest.draw
    plan, script = draw.worlds[0].plan, draw.worlds[0].script
    begin = script.begins[contest.side]
    if plan.crc and contest.kind != "fpdu":
        return against(true_only(after.records), truth(draw), "crc decides") + errors_of(after)
    if contest.kind in ("fpdu", "ulpdu"):
        first = first_frames(draw, 0, contest.side)
        for at in range(contest.start, contest.end):
            first[at] = min(first[at], contest.frame)
        return against(true_only(after.records), truth(draw, {contest.side: first}), "first copy") + errors_of(after)
    touched = {
        (plan.isn[contest.side] + 1 + begin + f.start) & 0xFFFFFFFF
        for f in script.laid[contest.side]
        if begin + f.start < contest.end and contest.start < begin + f.end
    }
    mine = DIRECTIONS[contest.side]
    untouched = [
        r for r in truth(draw)
        if r["direction"] != mine or (r["seq"] not in touched and (r["markers"] or r["seq"] == _first(contest)))
    ]  # fmt: skip
    found = {(r["direction"], r["seq"], r["wire_length"]) for r in after.records}
    return [
        f"untouched: not found {r['direction']} {r['seq']} with {r['markers']} Markers"
        for r in untouched
        if (r["direction"], r["seq"], r["wire_length"]) not in found
    ]


def _first(contest: Contest) -> int:
    world = contest.draw.worlds[0]
    return (world.plan.isn[contest.side] + 1 + world.script.begins[contest.side]) & 0xFFFFFFFF


def _named(contest: Contest, after: Outcome) -> list[str]:
    """A finding names the forged frame and one that brought a real copy."""
    real = {
        frame for frame in contest.draw.real
        if (seg := contest.draw.captured[frame - 1].seg).side == contest.side
        and seg.seq - 1 < contest.end and contest.start < seg.seq - 1 + len(seg.payload)
    }  # fmt: skip
    rules = ("overlap", "attack-injection", "crc-dropped")
    for finding in after.findings:
        if finding["rule"] in rules and names(finding, contest.frame) and any(names(finding, frame) for frame in real):
            return []
    told = [f"{f['rule']} of frame {f['frame']}: {f['detail']}" for f in after.findings if f["rule"] in rules]
    return [f"unnamed: no finding names frame {contest.frame} and one of {sorted(real)}: {told}"]


def _continued(contest: Contest, after: Outcome) -> list[str]:
    """The peer acknowledges octets beyond the forged FIN, so it did not close for it: nothing changes."""
    lines = against(true_only(after.records), truth(contest.draw), "beyond the FIN")
    later = any(
        n > contest.frame and (seg := contest.draw.captured[n - 1].seg).side == contest.side
        and seg.payload and seg.seq - 1 >= contest.start
        for n in contest.draw.real
    )  # fmt: skip
    if later and not findings_of_frames(after, [contest.frame], ("outside-window",)):
        lines.append(f"unnamed: no outside-window finding names frame {contest.frame}")
    return lines


def _ended(contest: Contest, after: Outcome) -> list[str]:
    """The connection ended with the forged segment; what was complete before is as it was."""
    lines = []
    draw, frame = contest.draw, contest.frame
    wanted = [r for r in truth(draw) if (r["delivered_frame"] or NEVER) < frame]
    found = {(r["direction"], r["seq"]): r for r in true_only(after.records)}
    for record in wanted:
        one = found.get((record["direction"], record["seq"]))
        if one is None or one["placed_frame"] != record["placed_frame"]:
            lines.append(f"before the end: {record['direction']} {record['seq']}: {one}")
    lines += _lifecycle(contest, after)
    return lines


def _lifecycle(contest: Contest, after: Outcome) -> list[str]:
    life: Record = (after.connections[0].get("lifecycle") or {}) if after.connections else {}
    if life.get("reset_frame") == contest.frame or findings_of_frames(
        after, [contest.frame], ("teardown-reset", "attack-reset")
    ):
        return []
    told = [f"{f['rule']} of frame {f['frame']}: {f['detail']}" for f in after.findings if "reset" in f["rule"]]
    return [f"lifecycle: RST of frame {contest.frame} not believed: {told}"]
