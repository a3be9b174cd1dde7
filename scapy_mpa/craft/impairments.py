"""Everything that may happen to packets between their sender and a capture file, as one pipeline.

First comes what the network does, in the order given, then acknowledgements are made to fit; then what happens where
packets are captured. Each impairment draws from its own ``random.Random``, so that another one beside it does not
change what it does. ``IMPAIRMENTS`` is the table of kinds and their parameters.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from scapy_mpa.craft.changes.change import ChangeKind, NamedChange, find, register
from scapy_mpa.craft.changes.draws import Draw, a_packet, among, perhaps, pick, up_to
from scapy_mpa.craft.injecting import PLACES, WHERE, inject
from scapy_mpa.craft.network import (
    Chance,
    Packets,
    acknowledged,
    corrupt,
    duplicate,
    fragment,
    in_time,
    is_data,
    lose,
    reorder,
    retransmit,
    stamped,
)
from scapy_mpa.craft.pcapfile import SNAPLEN
from scapy_mpa.craft.setup import nanoseconds
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.craft.wanted import TRUTH, Wanted, one_of, whole
from scapy_mpa.craft.wanted import up_to as number_up_to
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import ROLES
from scapy_mpa.tuples import NamedTuple

if TYPE_CHECKING:
    from scapy_mpa.craft.exchange import Exchange


class Kind(NamedTuple):
    """One kind of impairment: the function, its parameters with their defaults, and a description.

    Attributes:
        apply: alters packets, those that a ``Chance`` falls on.
        parameters: with their defaults.
        meaning: what it is, in words.
        happens: what it happens to, and what that is called; None if it happens to all packets alike.
        by_network: it happens on the way, not where packets are captured.
        is_for: which packets it may fall on.
        area: of the catalogue.
        draws: what draws parameters for an exchange.
    """

    apply: Callable[..., Packets]
    parameters: dict[str, Any]
    meaning: str
    happens: tuple[str, str] | None = None
    by_network: bool = True
    is_for: Callable[[TcpPacket], bool] = is_data
    area: str = "tcp"
    draws: Mapping[str, Draw] = {}


def _capture_loss(packets: Packets, chance: Chance) -> Packets:
    for packet in packets:
        if chance.falls_on(packet):
            chance.count += 1
        else:
            yield packet


def _cut(packets: Packets, chance: Chance, count: int) -> Packets:
    chance.count += sum(1 for _ in islice(packets, count))
    yield from packets


def _jitter(packets: Packets, chance: Chance, seconds: float) -> Packets:
    for packet in packets:
        noise = nanoseconds(seconds * (2 * chance.rng.random() - 1))
        yield packet._replace(time=max(packet.time + noise, 0)) if chance.is_for(packet) else packet


def _offload(packets: Packets, chance: Chance, mode: Literal["zero", "pseudo"]) -> Packets:
    for packet in packets:
        is_whole = not packet.damage and packet.checksum == "right"
        yield packet._replace(checksum=mode) if chance.is_for(packet) and is_whole else packet


def _pass(packets: Packets, chance: Chance, length: int) -> Packets:
    return packets


_TRUTHS = among(False, True)
_FEW = up_to(6, 1)


def _any(packet: TcpPacket) -> bool:
    return True


def _not_startup(packet: TcpPacket) -> bool:
    """Without its startup frames nothing of a connection can be read."""
    return packet.in_operation or not packet.payload


def _what_is_injected(_: Exchange, rng: random.Random) -> dict[str, str]:
    what = pick(rng, tuple(PLACES))
    return {"what": what, "where": pick(rng, PLACES[what])}


#: The kinds of impairments. Besides its own parameters each has ``direction``, ``connection`` and ``number``. What is
#: drawn for one follows from its place in the table: a new one comes last.
IMPAIRMENTS: dict[str, Kind] = {
    "reorder": Kind(
        reorder,
        {"probability": 0.1, "distance": 5},
        "segments arrive late, after up to `distance` others",
        ("segment", "reordered"),
        draws={"distance": _FEW},
    ),
    "duplicate": Kind(
        duplicate,
        {"probability": 0.1, "distance": 3},
        "segments arrive twice",
        ("segment", "duplicated"),
        draws={"distance": up_to(6)},
    ),
    "lose": Kind(
        lose,
        {"probability": 0.05, "distance": 8, "retransmit": True, "resegment": False},
        "segments are lost, and retransmitted after `distance` others, if at all",
        ("segment", "lost"),
        draws={"distance": _FEW, "retransmit": _TRUTHS, "resegment": _TRUTHS},
    ),
    "retransmit": Kind(
        retransmit,
        {"probability": 0.1, "distance": 4},
        "octets that arrived are retransmitted in other segments",
        ("retransmission", "in vain"),
        draws={"distance": _FEW},
    ),
    "corrupt": Kind(
        corrupt,
        {"probability": 0.05, "distance": 8, "repaired": False, "dropped": False, "resegment": False},
        "an octet of an FPDU is damaged, and the TCP checksum shows it unless it was repaired; then the receiver may "
        "have dropped the segment because of the CRC",
        ("segment", "damaged"),
        draws={"distance": _FEW, "repaired": _TRUTHS, "dropped": _TRUTHS, "retransmit": _TRUTHS},
    ),
    "fragment": Kind(
        fragment,
        {"mtu": 576, "reverse": False},
        "IP datagrams arrive in fragments",
        ("IP datagram", "fragmented"),
        is_for=_any,
        draws={"mtu": among(68, 200, 576), "reverse": _TRUTHS},
    ),
    "capture-loss": Kind(
        _capture_loss,
        {"probability": 0.02},
        "packets that arrived are missing from the capture",
        ("packet", "not captured"),
        by_network=False,
        is_for=_not_startup,
        area="capture",
    ),
    "cut": Kind(
        _cut,
        {"count": 10},
        "the first `count` packets are missing from the capture",
        ("packet", "before the capture begins"),
        by_network=False,
        area="capture",
        draws={"count": up_to(12, 1)},
    ),
    "snap": Kind(
        _pass,
        {"length": 160},
        "the capture keeps `length` octets of each packet",
        by_network=False,
        area="capture",
        draws={"length": among(40, 54, 60, 66, 68, 74, 80, 96, 100, 128, 160, 256, 576, 1000)},
    ),
    "jitter": Kind(
        _jitter,
        {"seconds": 0.0001},
        "times are wrong by up to `seconds`, and may not be ascending",
        by_network=False,
        is_for=_any,
        area="capture",
        draws={"seconds": among(0.00001, 0.01, 10.0), "seed": up_to(0xFFFF)},
    ),
    "offload": Kind(
        _offload,
        {"mode": "pseudo"},
        "TCP checksums are not filled in: the pseudo-header's sum, or zero (mode zero)",
        by_network=False,
        is_for=_any,
        draws={"mode": among("pseudo", "zero")},
    ),
    "inject": Kind(
        inject,
        {"probability": 0.05, "what": "rst", "where": "ahead", "distance": 100_000_000},
        "segments that do not belong to the connection are inserted before its own, like forged ones and late "
        f"duplicates: `what` is {', '.join(PLACES)}, `where` {', '.join(WHERE)}",
        ("segment", "injected"),
        area="attack",
        draws={"distance": among(0, 1, 100, 65536, 1 << 20, 100_000_000, 1 << 30), "_": _what_is_injected},
    ),
}

_CHOICES = {"mode": ("pseudo", "zero"), "what": tuple(PLACES), "where": tuple(WHERE)}


class Impairment(NamedTuple):
    """An impairment and its parameters; only packets sent in ``direction``, and of ``connection``, if they are
    given; only the one with this ``number`` (``changes.change.find``), to which it always happens."""

    kind: str
    parameters: dict[str, Any]
    direction: str | None = None
    connection: int | None = None
    number: int | None = None

    def applies(self, packet: TcpPacket) -> bool:
        """Return True if it is meant for a packet."""
        if self.direction is not None and packet.half.role != self.direction:
            return False
        if self.connection is not None and packet.half.connection != self.connection:
            return False
        return IMPAIRMENTS[self.kind].is_for(packet)


def impairment(value: object) -> Impairment:
    """An impairment from text (``reorder``, ``lose:probability=0.1,retransmit=false``), or from a mapping with
    ``kind``.

    Raises MPAError for an invalid one.
    """
    if isinstance(value, Impairment):
        return value
    if isinstance(value, str):
        kind, _, rest = value.partition(":")
        given: dict[str, Any] = {"kind": kind.strip()}
        for part in filter(None, rest.split(",")):
            name, equals, text = part.partition("=")
            if not equals:
                raise MPAError(f"{part!r} in {value!r} is not NAME=VALUE")
            given[name.strip()] = _value(text.strip())
    elif isinstance(value, Mapping):
        given = dict(value)
    else:
        raise MPAError(f"{value!r} is not an impairment")
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in IMPAIRMENTS:
        raise MPAError(f"there is no impairment {kind!r}; the impairments are {', '.join(IMPAIRMENTS)}")
    direction, connection, number = (given.pop(name, None) for name in ("direction", "connection", "number"))
    if direction not in (None, *ROLES):
        raise MPAError(f"{kind}: direction is {direction!r}; it may be {', '.join(ROLES)}")
    for name, value in (("connection", connection), ("number", number)):
        if complaint := whole(0, _ANY).or_nothing().complaint(f"{kind}: {name}", value):
            raise MPAError(complaint)
    known = IMPAIRMENTS[kind].parameters
    parameters = {**known, **given}
    for name, value in given.items():
        if name not in known:
            raise MPAError(f"{kind} has no {name!r}; it has {', '.join((*known, 'direction', 'connection', 'number'))}")
        if complaint := _wanted(kind, name).complaint(f"{kind}: {name}", value):
            raise MPAError(complaint)
    if kind == "inject":
        places = PLACES[parameters["what"]]
        parameters["where"] = given.get("where", places[0])
        if parameters["where"] not in places:
            raise MPAError(f"inject: where of {parameters['what']} may be {', '.join(places)}")
    return Impairment(kind, parameters, direction, connection, number)


_LEAST = {"mtu": 68, "count": 0, "length": 1, "distance": 1}
_MOST = {"length": SNAPLEN}
_ANY = 1 << 32
#: Nothing lies farther outside a window, sequence numbers being what they are.
_FARTHEST = 1 << 30


def _wanted(kind: str, name: str) -> Wanted:
    """Return what a parameter may be: a value of its default's type, within its range."""
    default = IMPAIRMENTS[kind].parameters[name]
    if isinstance(default, bool):
        return TRUTH
    if isinstance(default, str):
        return one_of(*_CHOICES[name])
    if isinstance(default, int):
        least = 0 if kind in ("duplicate", "inject") else _LEAST.get(name, 0)
        return whole(least, _FARTHEST if kind == "inject" else _MOST.get(name, _ANY))
    return number_up_to(1 if name == "probability" else 3600)


def _value(text: str) -> Any:
    """A value as the command line gives it."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class NoSuchPacket(MPAError, LookupError):
    """An impairment names a packet number that does not exist."""


class Pipeline:
    """Impairments, in the order given, those of the network before those of the capture."""

    def __init__(self, impairments: Iterable[object] = (), seed: int = 0) -> None:
        self.impairments = [impairment(value) for value in impairments]
        self.seed = seed
        self._chances: list[tuple[Kind, Chance]] = []

    @property
    def snaplen(self) -> int | None:
        """Octets of a packet that the capture keeps; None: all of them."""
        return min((one.parameters["length"] for one in self.impairments if one.kind == "snap"), default=None)

    def happened(self) -> Iterator[tuple[int, str, str]]:
        """Yield what happened to the packets of :meth:`apply`: how many times, to what, what: 3, segment, lost."""
        return ((chance.count, *kind.happens) for kind, chance in self._chances if kind.happens is not None)

    def apply(self, packets: Iterable[TcpPacket]) -> Iterator[TcpPacket]:
        """Yield the packets that are captured."""
        chain = iter(packets)
        self._chances.clear()
        by_network = [one for one in self.impairments if IMPAIRMENTS[one.kind].by_network]
        fragments = [one for one in by_network if one.kind == "fragment"]
        injections = [one for one in by_network if one.kind == "inject"]
        others = [one for one in by_network if one.kind not in ("fragment", "inject")]
        for one in others:
            chain = self._apply(one, chain)
        if others:
            chain = acknowledged(stamped(in_time(chain)))
        # Whoever forges segments knows what has arrived.  Fragments are made on the last part of the way: what is sent
        # again was whole.
        for one in (
            *injections,
            *fragments,
            *(one for one in self.impairments if not IMPAIRMENTS[one.kind].by_network),
        ):
            chain = self._apply(one, chain)
        return chain

    def _apply(self, one: Impairment, packets: Packets) -> Packets:
        alike = [other for other in self.impairments if other.kind == one.kind]
        place = next(index for index, other in enumerate(alike) if other is one)
        kind, parameters = IMPAIRMENTS[one.kind], dict(one.parameters)
        probability = parameters.pop("probability", 1)
        if one.number is None:
            rng = random.Random(self.seed << 16 | place << 8 | list(IMPAIRMENTS).index(one.kind))
            chance = Chance(one.applies, rng, probability)
        else:
            held = [*packets]
            own = [packet for packet in held if one.connection in (None, packet.half.connection)]
            try:
                chosen = own[find(own, "responder" if one.direction == "responder" else "initiator", one.number)]
            except LookupError:
                raise NoSuchPacket(f"{one.kind}: there is no packet {one.number}") from None
            packets, chance = iter(held), Chance(lambda packet: packet is chosen, _Farthest(), 1)
        self._chances.append((kind, chance))
        return kind.apply(packets, chance, **parameters)


class _Farthest(random.Random):
    """Draws for what always happens: as far, and as much, as there may be."""

    def getrandbits(self, k: int) -> int:
        """The largest number of this many bits."""
        return (1 << k) - 1


def impaired(
    kind: str, number: int | None = None, *, seed: int = 0, direction: str | None = None, **parameters: Any
) -> NamedChange:
    """The change of an exchange that is one kind of impairment.

    Args:
        kind: its name.
        number: that of the packet to which it always happens; None: to any, as its parameters say.
        seed: decides about what is random.
        direction: the sender of what it happens to; None: the side that the exchange is changed by.
        parameters: those that are not as usual, and those of its function alone.
    """
    whose = IMPAIRMENTS[kind]
    told = [f"seed={seed}"] * bool(seed) if number is None else [str(number)]
    told += [f"direction={direction}"] * (direction is not None)
    text = f"{kind}({', '.join([*told, *(f'{key}={value}' for key, value in parameters.items())])})"

    def apply(exchange: Exchange) -> None:
        if kind == "snap":
            exchange.snaplen = parameters["length"]
            return
        own = None if kind in ("cut", "jitter") else exchange.by
        one = Impairment(kind, {**whose.parameters, **parameters}, direction or own, None, number)
        changes = exchange.taps if kind == "jitter" else exchange.packets
        changes.append(lambda packets: [*Pipeline([one], seed).apply(packets)])

    return NamedChange(kind, text, apply)


def _register(name: str, kind: Kind) -> None:
    """Have a kind of impairment among all changes: of one packet, or with a probability where it has one."""
    draws = kind.draws
    usage = ", ".join(f"{key}={str(value).lower()}" for key, value in kind.parameters.items())
    if "probability" in kind.parameters:
        draws = {"number": perhaps(a_packet), "probability": among(0.1, 0.3, 0.7), "seed": up_to(0xFFFF), **draws}
        usage += ", number=None, direction=None"
    usage += ", seed=0" * ("seed" in draws)

    def parse(text: str) -> NamedChange:
        parts = text.split(",")
        seeds = [part for part in parts if "seed" in draws and part.startswith("seed=")]
        seed = _value(seeds[-1].partition("=")[2]) if seeds else 0
        if complaint := whole(0, _ANY).complaint(f"{name}: seed", seed):
            raise MPAError(complaint)
        one = impairment(f"{name}:{','.join(part for part in parts if part not in seeds)}")
        if one.connection is not None:
            raise MPAError(f"{name}: connection={one.connection} is for `scapy-mpa craft`; this is one connection")
        return impaired(name, one.number, seed=seed, direction=one.direction, **one.parameters)

    meaning = kind.meaning[0].upper() + kind.meaning[1:]
    register(ChangeKind(name, "packet", kind.area, meaning, "", usage, draws, partial(impaired, name), parse))


for _name, _kind in IMPAIRMENTS.items():
    _register(_name, _kind)
