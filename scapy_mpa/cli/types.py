"""Kinds of values that options take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from scapy_mpa.system.names import printable

#: Octets of the largest buffer that is registered.
_MOST_BUFFER = 1 << 30
#: Octets of the longest file that is sent: they are held several times over, in hexadecimal too.
_MOST_OCTETS = 1 << 26

if TYPE_CHECKING:
    from click import ParamType as ParamType
else:

    class ParamType(click.ParamType):
        """click's, with which one can write ``ParamType[str]``: click itself permits that from 8.4 on."""

        def __class_getitem__(cls, _: Any) -> type:
            return cls


class Word(click.Choice[str]):
    """One of some words; any prefix that is unambiguous is enough."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The whole word."""
        if isinstance(value, str) and value and value not in self.choices:
            like = [one for one in self.choices if one.lower().startswith(value.lower())]
            if len(like) == 1:
                return like[0]
        return super().convert(value, param, ctx)


class Begun(ParamType[str]):
    """A word that may be abbreviated, where the words are known once they are needed."""

    name = "word"

    def __init__(self, words: Callable[[], Iterable[str]]) -> None:
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The whole word; what begins none, or several, is left to the command to refuse."""
        words = [*self._words()]
        like = [one for one in words if one.startswith(value.lower())]
        return like[0] if len(like) == 1 and value not in words else str(value)


class TimeType(ParamType[float]):
    """A time: seconds, or a number with s, m or h after it, such as 60s or 5m."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        if isinstance(value, (int, float)):
            return float(value)
        parsed = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value)
        if parsed is None or not float(parsed[1]):
            self.fail(f"{value!r} is not a time such as 60s or 5m", param, ctx)
        return float(parsed[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[parsed[2]]


class STagType(ParamType[int]):
    """An STag, decimal or, with 0x, hexadecimal."""

    name = "stag"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Its number."""
        if isinstance(value, int):
            return value
        try:
            stag = int(value, 0)
        except ValueError:
            stag = -1
        if not 0 <= stag < 1 << 32:
            self.fail(f"{value!r} is not an STag such as 0x1a2b3c4d", param, ctx)
        return stag


class BufferType(ParamType[tuple[int, int, int]]):
    """``STAG,TO,OCTETS``: a tagged buffer."""

    name = "buffer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int, int]:
        """STag, TO of the first octet, number of octets."""
        if isinstance(value, tuple):
            return value
        try:
            _, to, octets = (int(number, 0) for number in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a buffer such as 0x1000,0,65536 (STag, TO, octets)", param, ctx)
        if not 0 <= octets <= _MOST_BUFFER or not 0 <= to <= (1 << 64) - octets:
            self.fail(
                f"{value!r}: a buffer has 0 to {_MOST_BUFFER} octets, and ends at TO 2^64 at the latest", param, ctx
            )
        return STagType().convert(value.partition(",")[0], param, ctx), to, octets


class OctetsType(ParamType[bytes]):
    """Octets: a text, ``hex:`` and digits, or ``@`` and the name of a file."""

    name = "octets"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """The octets."""
        if isinstance(value, bytes):
            return value
        # Only those that send something need it.
        from scapy_mpa.craft.steps import octets as octets_of_text

        try:
            return _octets_of_file(value[1:]) if value.startswith("@") else octets_of_text(value)
        except OSError as error:
            self.fail(f"{printable(value[1:])}: {error.strerror or error}", param, ctx)
        except ValueError:
            self.fail(f"{value!r} is neither text nor hex:00ff nor @FILE", param, ctx)


def _octets_of_file(name: str) -> bytes:
    """The octets of a file; raises OSError, and :class:`click.UsageError` for one that is too long."""
    with open(name, "rb") as file:
        octets = file.read(_MOST_OCTETS + 1)
    if len(octets) > _MOST_OCTETS:
        raise click.UsageError(f"{printable(name)}: @FILE sends at most {_MOST_OCTETS} octets")
    return octets


def with_file(step: str) -> str:
    """A step of a conversation in which ``@FILE`` stands for the octets of a file.

    Raises :class:`click.UsageError` if that cannot be read.
    """
    parsed = re.fullmatch(r"(\s*\S+\s+\S+\s+)@(\S+)(.*)", step, re.DOTALL)
    if parsed is None:
        return step
    try:
        octets = _octets_of_file(parsed[2])
    except OSError as error:
        raise click.UsageError(f"{printable(parsed[2])}: {error.strerror or error}") from None
    return f"{parsed[1]}hex:{octets.hex()}{parsed[3]}"
