"""A mutator for AFL++ and libFuzzer (atheris) that changes fields, not octets, and repairs what depends on them.

    AFL_PYTHON_MODULE=scapy_mpa.fuzz.for_afl afl-fuzz -i seeds/aflnet/raw -o found -- ./target @@

    atheris.Setup(sys.argv, test_one_input, custom_mutator=scapy_mpa.fuzz.for_afl.custom_mutator)

An input is what one side sends: a startup frame and FPDUs, FPDUs alone, or a ULPDU.  It is read as a receiver would
read it, changed as ``scapy-mpa fuzz`` changes messages, and laid again: PD_Length, ULPDU_Length, PAD, Markers and CRC
follow what was changed, unless a change is about them.  What cannot be read is passed on as it is.

AFL++ calls :func:`init`, :func:`fuzz`, :func:`describe` and :func:`deinit`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from scapy_mpa.craft.changes.change import OF_MESSAGES
from scapy_mpa.craft.changes.draws import octets, pick
from scapy_mpa.craft.changes.table import CHANGES
from scapy_mpa.craft.exchange import Exchange, Unit
from scapy_mpa.craft.messages import RAW, Message
from scapy_mpa.craft.segments import below
from scapy_mpa.craft.turns import Say
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import decode_ddp
from scapy_mpa.framing.fpdu import decode_fpdu, encode_fpdu
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH, pad_length
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import KEY_LENGTH, REPLY_KEY, REQUEST_KEY, STARTUP_HEADER_LENGTH
from scapy_mpa.fuzz.case import in_area
from scapy_mpa.fuzz.draw import weighted
from scapy_mpa.tuples import NamedTuple

#: How often changes of an area are drawn; what is about packets, or about both sides, does not show in an input.
_AREAS = {"ddp": 6, "fpdu": 4, "markers": 2, "startup": 2, "negotiation": 1}
_NAMES = {area: in_area(area, OF_MESSAGES) for area in _AREAS}
_OF_ULPDUS = ("header-field", "header-field", "ulpdu-octets", "ulpdu-octets", "resized", "ulpdu")
_HOW_MANY = (1, 1, 1, 2, 2, 3, 4)
#: Tries to find changes that show, and a product that is not too long.
_PRODUCTS = 12
#: How often an FPDU of the other input is put in.
_SPLICED = 0.15
#: FPDUs of an input that are read; the rest stays as it is.
_MOST_FPDUS = 256
#: Which ways to lay FPDUs are tried: Markers, CRC.
_WAYS = ((False, True), (True, True), (False, False), (True, False))
#: Octets of a path on which no stream is cut more than it must.
_MTU = 65535

_random = random.Random(0)
_last: list[str] = []


class Input(NamedTuple):
    """An input in its parts: whose it is, how its FPDUs lie, what they carry.

    ``frame`` is the startup frame, ``rest`` what is not understood. ``is_ulpdu``: it is a ULPDU and nothing else.
    """

    role: Role
    markers: bool
    crc: bool
    frame: bytes = b""
    fpdus: tuple[Message, ...] = ()
    rest: bytes = b""
    is_ulpdu: bool = False

    def exchange(self) -> Exchange:
        """An exchange that changes may alter."""
        setup = {
            "markers": (self.markers,) * 2,
            "c": (int(self.crc),) * 2,
            "mtu": _MTU,
            "segmentation": ("stream", "stream"),
        }
        made = Exchange(setup, [Say(self.role, one) for one in self.fpdus], by=self.role)
        for role in ROLES:
            made.begin(role, self.frame if role == self.role else b"")
        return made

    def encode(self, exchange: Exchange | None = None) -> bytes:
        """The octets, of what an exchange has become."""
        units = (exchange or self.exchange()).units(self.role)
        laid = b"".join(_ulpdu_in(unit) if self.is_ulpdu else unit.octets for unit in units)
        return laid + self.rest


def _ulpdu_in(unit: Unit) -> bytes:
    """Return the content of an FPDU without Markers, as far as it goes."""
    length = int.from_bytes(unit.octets[:LENGTH_FIELD_LENGTH], "big")
    return unit.octets[LENGTH_FIELD_LENGTH:][:length]


def read(data: bytes) -> Input:
    """An input in its parts, which encode to the same octets again."""
    frame, role = _startup(data)
    rest = data[len(frame) :]
    found = [(_fpdus(rest, *way), way) for way in _WAYS]
    (fpdus, covered), (markers, crc) = max(found, key=lambda one: one[0][1])
    if not frame and not fpdus and decode_ddp(data) is not None:
        return Input(role, False, True, fpdus=(Message(RAW, data),), is_ulpdu=True)
    made = Input(role, markers, crc, frame, tuple(fpdus), rest[covered:])
    # Whatever is not understood stays as it is.
    return made if made.encode() == data else Input(role, markers, crc, rest=data)


def _startup(data: bytes) -> tuple[bytes, Role]:
    """The startup frame at the beginning, empty if there is none, and whose it is."""
    key = data[:KEY_LENGTH]
    if key not in (REQUEST_KEY, REPLY_KEY) or len(data) < STARTUP_HEADER_LENGTH:
        return b"", "initiator"
    told = int.from_bytes(data[KEY_LENGTH + 2 : STARTUP_HEADER_LENGTH], "big")
    return data[: STARTUP_HEADER_LENGTH + told], "initiator" if key == REQUEST_KEY else "responder"


def _fpdus(data: bytes, markers: bool, crc: bool) -> tuple[list[Message], int]:
    """FPDUs, as far as they can be read so, and the octets that they have."""
    found: list[Message] = []
    at = 0
    while at < len(data) and len(found) < _MOST_FPDUS:
        place = at if markers else None
        fpdu = decode_fpdu(data[at:], place, check_crc=crc)
        if fpdu is None or (crc and not fpdu.crc_good) or decode_ddp(fpdu.ulpdu) is None:
            break
        pad = None if fpdu.pad == bytes(pad_length(len(fpdu.ulpdu))) else fpdu.pad
        made = Message(RAW, fpdu.ulpdu, pad=pad, crc=fpdu.crc if not crc and fpdu.crc else None)
        octets = encode_fpdu(fpdu.ulpdu, place, crc=crc if made.crc is None else made.crc, pad=pad, allow_oversize=True)
        if octets != data[at : at + fpdu.wire_length]:
            break
        found.append(made)
        at += fpdu.wire_length
    return found, at


def mutated(data: bytes, other: bytes | None, most: int, rng: random.Random) -> tuple[bytes, list[str]]:
    """An input changed in some ways, of ``most`` octets at most, and what was done.

    ``other`` is one of which FPDUs may be taken.  The same octets come back if nothing can be changed in that room.
    """
    found = read(data)
    for _ in range(_PRODUCTS):
        if found.fpdus or found.frame:
            changing, done = found, list[str]()
            if other and not found.is_ulpdu and rng.random() < _SPLICED:
                changing, done = _spliced(found, read(other), rng)
            exchange = changing.exchange()
            done += _changes(exchange, found, rng)
            try:
                made = changing.encode(exchange)
            except MPAError:  # what its sender would do wrong shows nothing here
                continue
        else:
            made, done = _octet_changed(data, rng)
        if done and made != data and 0 < len(made) <= most:
            return made, done
    return data[:most], []


def _spliced(found: Input, other: Input, rng: random.Random) -> tuple[Input, list[str]]:
    """An input with an FPDU of another one put in."""
    if not other.fpdus:
        return found, []
    at = below(rng, len(found.fpdus) + 1)
    fpdus = *found.fpdus[:at], pick(rng, other.fpdus), *found.fpdus[at:]
    return found._replace(fpdus=fpdus), ["an FPDU of another input"]


def _changes(exchange: Exchange, what: Input, rng: random.Random) -> Iterator[str]:
    """Make some changes, those that find something to change."""
    for _ in range(pick(rng, _HOW_MANY)):
        name = pick(rng, _OF_ULPDUS)
        if not what.is_ulpdu:
            name = pick(rng, _NAMES[weighted(rng, [*_AREAS], [*_AREAS.values()])])
        try:
            change = CHANGES[name].drawn(exchange, rng)
            change.apply(exchange)
        except LookupError:
            continue
        yield f"{name}: {change.text}"


def _octet_changed(data: bytes, rng: random.Random) -> tuple[bytes, list[str]]:
    """Octets in which nothing is understood, changed as octets."""
    if not data:
        return data, []
    at = below(rng, len(data))
    return data[:at] + octets(rng, 1) + data[at + 1 :], [f"octet {at}"]


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
    """Return what was done last, for the name of a file."""
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
    joined, done = (found, []) if found.is_ulpdu else _spliced(found, read(other), rng)
    if not done:
        return mutated(data, other, max_size, rng)[0]
    made = joined.encode()
    return made if 0 < len(made) <= max_size else data[:max_size]
