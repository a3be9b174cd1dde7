"""JSON as ``json.dumps(values, indent=2)`` writes it, a piece at a time: what has thousands of connections is never
there as a whole, and the library's encoder in C knows no indentation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring_ascii
from math import isfinite
from typing import Any, Final

_INDENT: Final = "  "
#: Keys are few, names of ours; more are not kept of a level than this.
_MOST_KEYS: Final = 4096
#: Most numbers are counts of what did not happen, or happened once.
_NUMBERS: Final = {number: repr(number) for number in range(256)}
_SECOND: Final = 1e6
_MICROSECONDS: Final = 1_000_000
#: Below, repr has an exponent; above, floats lie further apart than microseconds, or nearly so.
_SHORTEST, _LONGEST = 1e-4, float(1 << 32)


class _Level:
    """What is written around the values of a level; ``line`` begins a line at it.

    Attributes:
        first: what comes before the first item of a list.
        next: what comes before any other item.
        end_list: what comes after the last one.
        end_object: what comes after the last value of an object.
        first_keys: what comes before the first value of an object, by its key.
        next_keys: what comes before any other value, by its key.
    """

    __slots__ = ("_inner", "_inside", "end_list", "end_object", "first", "first_keys", "next", "next_keys")

    def __init__(self, line: str) -> None:
        self._inside = line + _INDENT
        self._inner: _Level | None = None
        self.first, self.next = "[" + self._inside, "," + self._inside
        self.end_list, self.end_object = line + "]", line + "}"
        self.first_keys: dict[str, str] = {}
        self.next_keys: dict[str, str] = {}

    def inner(self) -> _Level:
        """Return the level of the values within."""
        if self._inner is None:
            self._inner = _Level(self._inside)
        return self._inner

    def note(self, key: str) -> None:
        """Note what comes before a value with a key."""
        if len(self.next_keys) >= _MOST_KEYS:
            self.first_keys.clear()
            self.next_keys.clear()
        text = f"{self._inside}{encode_basestring_ascii(key)}: "
        self.first_keys[key], self.next_keys[key] = "{" + text, "," + text


_OUTERMOST: Final = _Level("\n")


def indented(value: Any, depth: int = 0) -> str:
    """The text of a value that begins at a level so deep; the keys of objects are strings."""
    texts: list[str] = []
    level = _OUTERMOST
    for _ in range(depth):
        level = level.inner()
    _write(value, level, texts)
    return "".join(texts)


def _write(value: Any, level: _Level, texts: list[str]) -> None:
    """Append the text of a value in pieces."""
    kind = type(value)
    if kind is int:
        texts.append(_NUMBERS.get(value) or repr(value))
    elif kind is str:
        texts.append(encode_basestring_ascii(value))
    elif value is None:
        texts.append("null")
    elif value is True:
        texts.append("true")
    elif value is False:
        texts.append("false")
    elif kind is float and isfinite(value):
        texts.append(_number(value))
    elif isinstance(value, dict):
        _write_object(value, level, texts)
    elif isinstance(value, (list, tuple)):
        _write_list(value, level, texts)
    elif isinstance(value, str):
        texts.append(encode_basestring_ascii(value))
    else:
        texts.append(json.dumps(value))


def _number(value: float) -> str:
    """Return what repr does, for times of whole microseconds, as most captures have them, in a fraction of its time."""
    microseconds = int(value * _SECOND + 0.5) if _SHORTEST <= value < _LONGEST else 0
    # The shortest text that means the value is this one, for its neighbours of six digits are other floats.
    if not microseconds or microseconds / _SECOND != value:
        return repr(value)
    rest = microseconds % _MICROSECONDS
    return f"{microseconds // _MICROSECONDS}.{rest:06d}".rstrip("0") if rest else f"{microseconds // _MICROSECONDS}.0"


def _write_list(values: Sequence[Any], level: _Level, texts: list[str]) -> None:
    """Append the text of a list in pieces."""
    if not values:
        texts.append("[]")
        return
    before, inner = level.first, level.inner()
    for one in values:
        texts.append(before)
        before = level.next
        _write(one, inner, texts)
    texts.append(level.end_list)


def _write_object(values: dict[str, Any], level: _Level, texts: list[str]) -> None:
    """Append the text of an object in pieces."""
    if not values:
        texts.append("{}")
        return
    keys, inner = level.first_keys, level.inner()
    for key, one in values.items():
        before = keys.get(key)
        if before is None:
            level.note(key)
            before = keys[key]
        texts.append(before)
        keys = level.next_keys
        _write(one, inner, texts)
    texts.append(level.end_object)


def pieces(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the text of an object; a value that is an iterator becomes a list, an item at a time."""
    before = "{"
    for key, value in values.items():
        yield f"{before}\n{_INDENT}{json.dumps(key)}: "
        before = ","
        if not isinstance(value, Iterator):
            yield indented(value, 1)
            continue
        is_empty = True
        for one in value:
            yield f"{'[' if is_empty else ','}\n{_INDENT * 2}{indented(one, 2)}"
            is_empty = False
        yield "[]" if is_empty else f"\n{_INDENT}]"
    yield "\n}"
