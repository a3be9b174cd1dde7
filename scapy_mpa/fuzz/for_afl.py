"""A mutator for AFL++ and libFuzzer (atheris) that changes fields, not octets, and repairs what depends on them.

    AFL_PYTHON_MODULE=scapy_mpa.fuzz.for_afl afl-fuzz -i seeds/aflnet/raw -o found -- ./target @@

    atheris.Setup(sys.argv, test_one_input, custom_mutator=scapy_mpa.fuzz.for_afl.custom_mutator)

An input is what one side sends: a startup frame and FPDUs, FPDUs alone, or a ULPDU.  It is read as a receiver would
read it, changed by the mutations of ``scapy-mpa fuzz``, and laid again: PD_Length, ULPDU_Length, PAD, Markers and CRC
follow what was changed, unless a mutation is about them.  What cannot be read is passed on as it is.

AFL++ calls :func:`init`, :func:`fuzz`, :func:`describe` and :func:`deinit`.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from scapy_mpa.craft.segmentation import Segmentation
from scapy_mpa.craft.segments import below
from scapy_mpa.framing.ddp import decode_ddp
from scapy_mpa.framing.fpdu import decode_fpdu
from scapy_mpa.framing.markers import pad_length
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import KEY_LENGTH, REPLY_KEY, REQUEST_KEY, STARTUP_HEADER_LENGTH
from scapy_mpa.fuzz.draft import Draft, DraftSide, Turn
from scapy_mpa.fuzz.draw import octets, pick, weighted
from scapy_mpa.fuzz.exchange import Exchange
from scapy_mpa.fuzz.laying import stream_of
from scapy_mpa.fuzz.mutations import MUTATIONS
from scapy_mpa.fuzz.units import FPDUUnit, Plain, Startup, Unit, Way, copy_of

#: How often mutations of an area are drawn; what is about packets, or about both sides, does not show in an input.
_AREAS = {"ddp": 6, "fpdu": 4, "markers": 2, "startup": 2, "negotiation": 1}
_OF_ULPDUS = ("ddp-control", "ddp-field", "ddp-cut", "ddp-body", "ddp-terminate")
_HOW_MANY = (1, 1, 1, 2, 2, 3, 4)
#: Tries to find a mutation that has something to change, and a product that is not too long.
_TRIES, _PRODUCTS = 12, 4
#: How often an FPDU of the other input is put in.
_SPLICED = 0.15
#: FPDUs of an input that are read; the rest stays as it is.
_MOST_FPDUS = 256
#: Which ways to lay FPDUs are tried: Markers, CRC.
_WAYS = (Way(False, True), Way(True, True), Way(False, False), Way(True, False))
_OTHER: dict[Role, Role] = {"initiator": "responder", "responder": "initiator"}

_random = random.Random(0)
_last: list[str] = []


class Input(NamedTuple):
    """An input in its parts: whose it is, how its FPDUs lie, what it holds; ``is_ulpdu``: a ULPDU and nothing else."""

    role: Role
    way: Way
    units: tuple[Unit, ...]
    is_ulpdu: bool = False

    def encode(self) -> bytes:
        """The octets."""
        return _encoded(self, self.draft())

    def draft(self) -> Draft:
        """A draft that mutations may change."""
        exchange = Exchange("input", 0, 4, (1, 2), None, None, (self.way, self.way), (None, None), True, ())
        sides = [DraftSide(role, self.way, 0, Segmentation()) for role in ROLES]
        turn = Turn(self.role, [copy_of(unit) for unit in self.units])
        return Draft(exchange, 0, (sides[0], sides[1]), [turn], 1448)


def _encoded(what: Input, draft: Draft) -> bytes:
    if what.is_ulpdu:
        return b"".join(unit.ulpdu for _, unit in draft.fpdus())
    return stream_of(draft, what.role)


def read(data: bytes) -> Input:
    """An input in its parts, which encode to the same octets again."""
    startup, role = _startup(data)
    rest = data[len(startup.encode()) :] if startup is not None else data
    way, fpdus = max(((way, _fpdus(rest, way)) for way in _WAYS), key=lambda one: _covered(one[1]))
    if startup is None and not fpdus and decode_ddp(data) is not None:
        return Input(role, Way(False, True), (FPDUUnit("ULPDU", data, data),), is_ulpdu=True)
    units: list[Unit] = [startup] if startup is not None else []
    units += [unit for unit, _ in fpdus]
    if rest[_covered(fpdus) :]:
        units.append(Plain("rest", rest[_covered(fpdus) :]))
    found = Input(role, way, tuple(units))
    # Whatever is not understood stays as it is.
    return found if found.encode() == data else Input(role, way, (Plain("octets", data),))


def _startup(data: bytes) -> tuple[Startup | None, Role]:
    """The startup frame at the beginning, and whose it is."""
    key = data[:KEY_LENGTH]
    if key not in (REQUEST_KEY, REPLY_KEY) or len(data) < STARTUP_HEADER_LENGTH:
        return None, "initiator"
    told = int.from_bytes(data[KEY_LENGTH + 2 : STARTUP_HEADER_LENGTH], "big")
    private_data = data[STARTUP_HEADER_LENGTH : STARTUP_HEADER_LENGTH + told]
    name, role = ("Request", ROLES[0]) if key == REQUEST_KEY else ("Reply", ROLES[1])
    length = None if told == len(private_data) else told
    return Startup(name, key, data[KEY_LENGTH], data[KEY_LENGTH + 1], private_data, length), role


def _covered(fpdus: list[tuple[FPDUUnit, int]]) -> int:
    return sum(length for _, length in fpdus)


def _fpdus(data: bytes, way: Way) -> list[tuple[FPDUUnit, int]]:
    """FPDUs with the octets that each has, as far as they can be read so."""
    found: list[tuple[FPDUUnit, int]] = []
    at = 0
    while at < len(data) and len(found) < _MOST_FPDUS:
        fpdu = decode_fpdu(data[at:], at if way.markers else None, check_crc=way.crc)
        if fpdu is None or (way.crc and not fpdu.crc_good) or decode_ddp(fpdu.ulpdu) is None:
            break
        pad = None if fpdu.pad == bytes(pad_length(len(fpdu.ulpdu))) else fpdu.pad
        unit = FPDUUnit(f"FPDU {len(found)}", fpdu.ulpdu, fpdu.ulpdu, pad=pad)
        if not way.crc and fpdu.crc:
            unit.crc = fpdu.crc
        if unit.encode(way, at) != data[at : at + fpdu.wire_length]:
            break
        found.append((unit, fpdu.wire_length))
        at += fpdu.wire_length
    return found


def mutated(data: bytes, other: bytes | None, most: int, rng: random.Random) -> tuple[bytes, list[str]]:
    """An input changed by some mutations, of ``most`` octets at most, and what was done.

    ``other`` is one of which FPDUs may be taken.  The same octets come back if nothing can be changed in that room.
    """
    found = read(data)
    for _ in range(_PRODUCTS):
        draft, done = found.draft(), []
        if other and not found.is_ulpdu and rng.random() < _SPLICED:
            done += _splice(draft, read(other), rng)
        for _ in range(pick(rng, _HOW_MANY)):
            done += _change(draft, found, rng)
        made = _encoded(found, draft)
        if done and 0 < len(made) <= most:
            return made, done
    return data[:most], []


def _splice(draft: Draft, other: Input, rng: random.Random) -> list[str]:
    """Put an FPDU of another input in."""
    fpdus = [unit for unit in other.units if isinstance(unit, FPDUUnit)]
    if not fpdus:
        return []
    (turn,) = draft.turns
    places = [at for at, unit in enumerate(turn.units, 1) if isinstance(unit, (FPDUUnit, Startup))] or [0]
    turn.units.insert(pick(rng, places), copy_of(pick(rng, fpdus)))
    return ["an FPDU of another input"]


def _change(draft: Draft, what: Input, rng: random.Random) -> list[str]:
    """Make one mutation, if one finds something to change."""
    for _ in range(_TRIES):
        if what.is_ulpdu:
            name = pick(rng, _OF_ULPDUS)
        else:
            area = weighted(rng, [*_AREAS], [*_AREAS.values()])
            name = pick(rng, [one for one, it in MUTATIONS.items() if it.by_message and it.area == area])
        if (said := MUTATIONS[name].apply(draft, rng)) is not None:
            return [f"{name}: {said}"]
    units = draft.turns[0].units if draft.turns else []
    plain = [unit for unit in units if isinstance(unit, Plain) and unit.octets]
    if not plain:
        return []
    # Octets in which nothing is understood are changed as octets.
    unit = pick(rng, plain)
    at = below(rng, len(unit.octets))
    unit.octets = unit.octets[:at] + octets(rng, 1) + unit.octets[at + 1 :]
    return [f"octet {at}"]


# --- what AFL++ calls ---


def init(seed: int) -> None:
    """Begin: the same seed gives the same changes."""
    _random.seed(seed)


def fuzz(buf: bytearray, add_buf: bytearray | None, max_size: int) -> bytearray:
    """A changed input of ``max_size`` octets at most."""
    made, done = mutated(bytes(buf), bytes(add_buf) if add_buf else None, max_size, _random)
    _last[:] = done
    return bytearray(made)


def describe(max_description_length: int) -> str:
    """What was done last, for the name of a file."""
    names = [text.partition(":")[0].replace(" ", "-") for text in _last]
    return "+".join(names)[: max(0, max_description_length)]


def deinit() -> None:
    """The end: nothing is left to be closed."""
    _last.clear()


# --- what libFuzzer calls, through atheris ---


def custom_mutator(data: bytes, max_size: int, seed: int) -> bytes:
    """A changed input of ``max_size`` octets at most, the same for the same seed."""
    return mutated(data, None, max_size, random.Random(seed))[0]


def custom_crossover(data: bytes, other: bytes, max_size: int, seed: int) -> bytes:
    """The same, with an FPDU of another input put in where there is one."""
    rng = random.Random(seed)
    found = read(data)
    draft = found.draft()
    if found.is_ulpdu or not _splice(draft, read(other), rng):
        return mutated(data, other, max_size, rng)[0]
    made = _encoded(found, draft)
    return made if 0 < len(made) <= max_size else data[:max_size]
