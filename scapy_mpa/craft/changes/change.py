"""What a change is: a named operation on an ``Exchange``, at one level, with parameters.

A function that alters an exchange becomes, by ``change``, one that takes everything but the exchange and returns a
``NamedChange``; ``fpdu_change`` and ``packet_change`` do so with functions of one FPDU, and of packets at the place of
one.
``KINDS`` has all of them by name, each with its level, and with what draws its parameters where these are not given.
"""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeAlias

from scapy_mpa.craft.changes.draws import Draw, NothingToChange, a_packet, an_fpdu
from scapy_mpa.craft.network import acknowledged
from scapy_mpa.craft.sent import FPDUChange, SentFPDU
from scapy_mpa.craft.steps import octets
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import Role, peer_of
from scapy_mpa.tuples import NamedTuple

if TYPE_CHECKING:
    from scapy_mpa.craft.exchange import Exchange

P = ParamSpec("P")
_LONGEST = 40
#: Words of a Literal in an annotation, which Python writes with other quotes than its source has.
_WORDS = re.compile(r"""["'](\w*)["']""")
_LONGEST_DATAGRAM = 0xFFFF
_ANY_KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD
#: Parameters that name what is changed.
_WHERE = ("message", "field")
#: The FPDU, or packet, that most cases of the catalogue change.
_NUMBER = 2

Level: TypeAlias = Literal["startup", "ulpdu", "fpdu", "packet", "capture"]
#: The levels, in the order in which changes are made, with what they change.
LEVELS: dict[Level, str] = {
    "startup": "startup frames, and parameters of the connection",
    "ulpdu": "messages: ULPDUs and their order",
    "fpdu": "FPDUs as they lie in the stream",
    "packet": "TCP packets: their octets, numbers, order and time",
    "capture": "what of them is captured",
}
#: Levels of what a side says, whatever carries it.
OF_MESSAGES: tuple[Level, ...] = ("startup", "ulpdu", "fpdu")

Packets: TypeAlias = "list[TcpPacket]"


class NamedChange(NamedTuple):
    """A change with its parameters: its name, what it is in words, and what does it.

    ``apply`` returns the change of an FPDU that it asks for, if it is one. ``where`` is the message and the field that
    it changes, if its parameters name them; ``is_of_peer``: it is about what the peer of the exchange's side sends.
    """

    name: str
    text: str
    apply: Callable[[Exchange], FPDUChange | None]
    where: str = ""
    is_of_peer: bool = False


class ChangeKind(NamedTuple):
    """One kind of change.

    Attributes:
        name: what it is called.
        level: what it changes.
        area: of the catalogue; "": it is never drawn.
        meaning: what it does, in a line.
        repaired: what follows what is changed, unless it is to be left.
        usage: its parameters in words, with their defaults.
        draws: what draws them.
        make: makes one with its parameters.
        parse: makes one from text, as in ``number=2,octets=hex:00ff``; raises MPAError.
    """

    name: str
    level: Level
    area: str
    meaning: str
    repaired: str
    usage: str
    draws: Mapping[str, Draw]
    make: Callable[..., NamedChange]
    parse: Callable[[str], NamedChange]

    def drawn(self, exchange: Exchange, rng: random.Random) -> NamedChange:
        """Return one with parameters that fit an exchange; raises NothingToChange."""
        values = {name: draw(exchange, rng) for name, draw in self.draws.items()}
        first = [values.pop("number")] if "number" in values else []
        return self.make(*first, **values.pop("_", {}), **values)


#: All kinds by name, in the order of their modules.
KINDS: dict[str, ChangeKind] = {}


def register(kind: ChangeKind) -> None:
    """Add a kind; raises ValueError where two have one name."""
    if kind.name in KINDS:
        raise ValueError(f"two changes are called {kind.name!r}")
    KINDS[kind.name] = kind


def change(
    level: Level, area: str = "", repaired: str = "", /, **draws: Draw
) -> Callable[[Callable[Concatenate[Exchange, P], None]], Callable[P, NamedChange]]:
    """Make a function that alters an exchange into one that takes everything else and returns the ``NamedChange``.

    Args:
        level: at which it alters the exchange.
        area: of the catalogue; without one it is never drawn.
        repaired: what follows what is changed.
        draws: what draws each of its parameters; ``_``: a dictionary of those without a name.
    """

    def make(function: Callable[Concatenate[Exchange, P], None]) -> Callable[P, NamedChange]:
        return _kind(function, function, level, area, repaired, draws, 1)

    return make


def fpdu_change(
    area: str = "", repaired: str = "CRC", /, **draws: Draw
) -> Callable[[Callable[Concatenate[SentFPDU, P], bytes]], Callable[Concatenate[int, P], NamedChange]]:
    """Make a function of an FPDU, which returns the octets in its place, into one that takes the FPDU's number."""

    def make(function: Callable[Concatenate[SentFPDU, P], bytes]) -> Callable[Concatenate[int, P], NamedChange]:
        def apply(exchange: Exchange, number: int, *args: P.args, **kwargs: P.kwargs) -> FPDUChange:
            def alter(sent: SentFPDU) -> bytes:
                return function(sent, *args, **kwargs)

            exchange.fpdus.setdefault((exchange.by, number), []).append(alter)
            return alter

        return _kind(function, apply, "fpdu", area, repaired, {"number": an_fpdu, **draws}, 1)

    return make


def packet_change(
    area: str = "", /, *, noticed: bool = False, **draws: Draw
) -> Callable[[Callable[Concatenate[Packets, int, P], None]], Callable[Concatenate[int, P], NamedChange]]:
    """Make a function that alters a list of packets at the place of one into one that takes the packet's number.

    ``noticed``: nobody acknowledges then what has not arrived.
    """

    def make(function: Callable[Concatenate[Packets, int, P], None]) -> Callable[Concatenate[int, P], NamedChange]:
        def apply(exchange: Exchange, number: int, *args: P.args, **kwargs: P.kwargs) -> None:
            role = exchange.by

            def alter(packets: Packets) -> Packets:
                altered = [*packets]
                function(altered, find(altered, role, number), *args, **kwargs)
                return [*acknowledged(iter(altered))] if noticed else altered

            exchange.packets.append(alter)

        return _kind(function, apply, "packet", area, "", {"number": a_packet, **draws}, 2)

    return make


def _kind(
    function: Callable[..., Any],
    apply: Callable[..., FPDUChange | None],
    level: Level,
    area: str,
    repaired: str,
    draws: Mapping[str, Draw],
    own: int,
) -> Callable[..., NamedChange]:
    """Register what a function does; the first ``own`` of its parameters are what it alters."""
    name = function.__name__.strip("_").replace("_", "-")

    def made(*args: Any, **kwargs: Any) -> NamedChange:
        values = [*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in kwargs.items())]
        where = " ".join(str(kwargs[key]) for key in _WHERE if key in kwargs)
        return NamedChange(
            name, f"{name}({', '.join(values)})", lambda exchange: apply(exchange, *args, **kwargs), where
        )

    known = {one.name: one for one in [*inspect.signature(function).parameters.values()][own:]}
    if "number" in draws and "number" not in known:
        known = {"number": inspect.Parameter("number", _ANY_KIND, default=_NUMBER, annotation="int"), **known}

    def parse(text: str) -> NamedChange:
        values = _read(name, known, text)
        return made(*[values.pop("number")] if "number" in known else (), **values)

    meaning = (function.__doc__ or "").split("\n", 1)[0].rstrip(".").replace("``", "`")
    usage = ", ".join(str(one.replace(annotation=one.empty)) for one in known.values())
    register(ChangeKind(name, level, area, meaning, repaired, usage, draws, made, parse))
    made.__doc__, made.__name__ = function.__doc__, function.__name__
    return made


def _read(name: str, known: Mapping[str, inspect.Parameter], text: str) -> dict[str, Any]:
    """The parameters that a text gives, and the number that is given by default; raises MPAError."""
    values: dict[str, Any] = {"number": known["number"].default} if "number" in known else {}
    free = any(one.kind is one.VAR_KEYWORD for one in known.values())
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not (key in known or free):
            raise MPAError(f"{name} has no {key!r}; it has {', '.join(known) or 'no parameters'}")
        try:
            values[key] = _value(str(known[key].annotation) if key in known else "int | str", value)
        except ValueError as error:
            raise MPAError(f"{name}: {key} is {value!r}: {error}") from None
    for one in known.values():
        if one.kind is one.VAR_POSITIONAL:
            raise MPAError(f"{name} needs {one.name}, which may be a list: only from Python")
        if one.default is one.empty and one.name not in values and not free:
            raise MPAError(f"{name} needs {one.name}; its parameters are {', '.join(known)}")
    return {key: value for key, value in values.items() if value is not inspect.Parameter.empty}


def _value(annotation: str, text: str) -> Any:
    """A value as the annotation of its parameter has it; raises ValueError."""
    words = _WORDS.findall(annotation)
    if text in words:
        return text
    if "bytes" in annotation:
        return octets(text)
    if "bool" in annotation:
        words = ["true", "false"]
        if text in words:
            return text == "true"
    elif "int" in annotation:
        with suppress(ValueError):
            return int(text, 0)
        if "str" not in annotation:
            raise ValueError(f"it must be {' or '.join(['a whole number', *words])}")
    if words:
        raise ValueError(f"it must be {' or '.join(filter(None, words))}")
    return text


def of_peer(one: NamedChange) -> NamedChange:
    """The same change, of what the peer sends."""

    def apply(exchange: Exchange) -> FPDUChange | None:
        exchange.by = peer_of(exchange.by)
        made = one.apply(exchange)
        exchange.by = peer_of(exchange.by)
        return made

    return NamedChange(one.name, f"peer: {one.text}", apply, one.where, is_of_peer=True)


def find(packets: Packets, role: Role, number: int) -> int:
    """Return the index of a side's packet: 0 is the one with its startup frame, 1 the first with octets of its Full
    Operation, and so on; negative numbers count from the last.
    """
    data = [i for i, packet in enumerate(packets) if packet.half.role == role and packet.payload]
    startup = [i for i in data if not packets[i].in_operation]
    return startup[0] if number == 0 else [i for i in data if packets[i].in_operation][number - (number > 0)]


def first(packets: Iterable[TcpPacket], fits: Callable[[TcpPacket], bool]) -> TcpPacket:
    """The first packet that fits; raises NothingToChange where none does."""
    found = next(filter(fits, packets), None)
    if found is None:
        raise NothingToChange
    return found


def check_names(given: Iterable[str], known: Sequence[str], what: str) -> None:
    """Raise ValueError for the first unknown name; ``what`` says what it names."""
    for name in given:
        if name not in known:
            raise ValueError(f"there is no {what} {name!r}; it may be {', '.join(known)}")


def fitting(packet: TcpPacket) -> TcpPacket:
    """The packet; raises NothingToChange where it is too long for an IP datagram."""
    if packet.headers - packet.half.frames.ip_at + len(packet.payload) > _LONGEST_DATAGRAM:
        raise NothingToChange
    return packet


def _shown(value: object) -> str:
    """A value, shortened."""
    if isinstance(value, bytes):
        return f"hex:{value.hex()}" if len(value) <= _LONGEST // 2 else f"{len(value)} octets"
    if callable(value):
        return getattr(value, "__name__", "function")
    text = repr(value) if not isinstance(value, str) else value
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
