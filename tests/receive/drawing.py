"""Draws of attacked captures by a seed: property A's (`inserting`)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.receive.conversing import Captured, Plan, World, old_places
from tests.receive.inserting import KINDS, Scene, earlier_plan, put_in
from tests.receive.judging import Draw


def draw_plan(rng: random.Random) -> Plan:
    """A conversation of any sort."""
    sizes = [tuple(rng.choice((18, 40, 100, 257, 500, 900, 1400)) for _ in range(rng.randrange(1, 8))) for _ in (0, 1)]
    if rng.random() < 0.15:
        sizes[1] = ()
    lossy = rng.random() < 0.5
    isn = [rng.choice((1000, 0xFFFFFF00, 0x7FFFFF80, rng.getrandbits(32))) for _ in (0, 1)]
    return Plan(
        seed=rng.getrandbits(30),
        isn=(isn[0], isn[1]),
        sizes=(sizes[0], sizes[1]),
        markers=(rng.random() < 0.5, rng.random() < 0.5),
        crc=rng.random() < 0.7,
        private=(rng.choice((0, 0, 7, 64)), rng.choice((0, 0, 32))),
        scale=rng.choice(((None, None), (None, 7), (7, 7), (0, 2), (3, 14), (7, None))),
        timestamps=rng.random() < 0.6,
        mss=rng.choice((256, 536, 1448, 4000)),
        buffers=(rng.choice((3000, 20_000, 65_536, 300_000)), rng.choice((3000, 20_000, 65_536, 300_000))),
        reading=(rng.choice((0.0, 0.0, 0.02)), rng.choice((0.0, 0.0, 0.02))),
        segmentation=rng.choice(("aligned", "packed", "odd")),
        delayed=rng.random() < 0.7,
        lost=(rng.choice((0.0, 0.03, 0.1)), rng.choice((0.0, 0.03, 0.1))) if lossy else (0.0, 0.0),
        late=rng.choice((0.0, 0.1, 0.4)) if lossy else 0.0,
        recut=rng.random() < 0.3,
        distance=rng.choice(((0.0005, 0.005), (0.005, 0.0005), (0.003, 0.003))),
        end=rng.choice(("fin", "fin", "rst", "open")),
        closer=rng.randrange(2),
    )


def conversation(plan: Plan) -> World | None:
    """None if it came to no end, or if the capture does not tell which segments were dropped for their timestamps."""
    world = World(plan)
    return world if world.run() and old_places(world) is not None else None


def draw_a(seed: int, kinds: Sequence[str] = tuple(KINDS), most: int = 3, plan: Plan | None = None) -> Draw | None:
    """A conversation with some segments of these kinds put in; with `most` 0 none."""
    rng = random.Random(seed)
    plan = draw_plan(rng) if plan is None else plan
    world, earlier = conversation(plan), conversation(earlier_plan(plan, rng))
    if world is None or earlier is None:
        return None
    scene = Scene(world, earlier)
    put: list[tuple[int, list[Captured]]] = []
    wanted = rng.randrange(1, most + 1) if most else 0
    for _ in range(30):
        if len(put) == wanted:
            break
        name = kinds[rng.randrange(len(kinds))]
        first, last = scene.first_place(), scene.last_place()
        at = rng.choice([*scene.startup_frames(), first, last, rng.randrange(first, last + 1)])
        made = put_in(scene, name, min(at, last), rng.randrange(2), rng)
        if made is not None:
            put.append((min(at, last), made))
    if len(put) < wanted:
        return None
    return laid(world, earlier if rng.random() < 0.2 else None, put, f"seed {seed}")


def laid(world: World, earlier: World | None, put: list[tuple[int, list[Captured]]], name: str) -> Draw:
    """One capture of the earlier conversation, if it was captured, and of this one with what is put in."""
    captured, plans, places = [], [], []
    old: list[int] = []
    worlds = []
    if earlier is not None:
        worlds.append(earlier)
        old += old_places(earlier) or ()
        places.append(list(range(len(earlier.captured))))
        since = earlier.captured[-1].time + 5.0
        captured += [one._replace(time=one.time - since) for one in earlier.captured]
        plans += [earlier.plan] * len(captured)
    worlds.append(world)
    mine: list[int] = []
    for at in range(len(world.captured) + 1):
        for _, made in sorted((p for p in put if p[0] == at), key=lambda p: p[1][0].time):
            captured += made
        if at < len(world.captured):
            mine.append(len(captured))
            captured.append(world.captured[at])
    places.append(mine)
    old += [mine[place] for place in old_places(world) or ()]
    plans += [world.plan] * (len(captured) - len(plans))
    return Draw(name, captured, plans, worlds, places, frozenset(old))


#: Conversations of the table of scenarios; the seeds make one that is lossy and one in order.
FLAVOURS = {
    "crc": Plan(seed=11),
    "crc-stamps-lossy": Plan(seed=12, sizes=((100, 900, 257, 500), (300, 40, 700)), lost=(0.1, 0.1), late=0.3),
    "markers-crc": Plan(
        seed=13, sizes=((900, 40, 1400), (500, 600)), markers=(True, True), scale=(2, 14), isn=(0xFFFFFF00, 0x7FFFFF80),
        timestamps=False, segmentation="odd", reading=(0.0, 0.02),
    ),
    "plain": Plan(
        seed=14, sizes=((100, 500, 40), (257, 18)), crc=False, scale=(None, None), timestamps=False,
        segmentation="packed", end="rst", closer=1, buffers=(3000, 3000),
    ),
}  # fmt: skip
#: When something is put in: behind the SYNs, behind either startup frame, in Full Operation, before the end.
MOMENTS = ("handshake", "request", "startup", "middle", "late")


def scene_of(flavour: str) -> Scene:
    """The conversation of this flavour, and one of before."""
    plan = FLAVOURS[flavour]
    world = conversation(plan)
    earlier = conversation(earlier_plan(plan, random.Random(flavour)))
    assert world is not None
    assert earlier is not None
    return Scene(world, earlier)


def scenario(scene: Scene, kind: str, moment: str, side: int) -> Draw | None:
    """One segment put in, always the same; None where there can be none of its kind at this moment."""
    first, last = scene.first_place(), scene.last_place()
    startup = sorted(scene.startup_frames())
    places = dict(zip(MOMENTS, (first, startup[0], startup[-1], (startup[-1] + last) // 2, last), strict=True))
    at = places[moment]
    name = f"{kind}-{moment}-{side}"
    made = put_in(scene, kind, at, side, random.Random(name))
    return None if made is None else laid(scene.world, None, [(at, made)], name)
