"""JSON as ``json.dumps(values, indent=2)`` writes it, a piece at a time: what has thousands of connections is never
there as a whole, and the library's encoder in C knows no indentation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring_ascii
from math import isfinite
from typing import Any, Final

_INDENT = "  "


#: What comes before a value of an object, from the comma on, by the beginning of a line at its level and its key.  Keys
#: are few, names of ours; more are not kept than this.
_BEFORE_VALUES: dict[str, dict[str, str]] = {}
_MOST_KEYS: Final = 4096


def indented(value: Any, level: int = 0) -> str:
    """The text of a value that begins at a level; the keys of objects are strings."""
    texts: list[str] = []
    _write(value, "\n" + _INDENT * level, texts)
    return "".join(texts)


def _write(value: Any, line: str, texts: list[str]) -> None:
    """Append the text of a value in pieces; ``line`` begins a line at its level."""
    kind = type(value)
    if kind is str:
        texts.append(encode_basestring_ascii(value))
    elif value is None:
        texts.append("null")
    elif value is True:
        texts.append("true")
    elif value is False:
        texts.append("false")
    elif kind is int or (kind is float and isfinite(value)):
        texts.append(repr(value))
    elif isinstance(value, dict):
        _write_object(value, line, texts)
    elif isinstance(value, (list, tuple)):
        inside = line + _INDENT
        before = "["
        for one in value:
            texts.append(before + inside)
            before = ","
            _write(one, inside, texts)
        texts.append(line + "]" if value else "[]")
    elif isinstance(value, str):
        texts.append(encode_basestring_ascii(value))
    else:
        texts.append(json.dumps(value))


def _write_object(values: dict[str, Any], line: str, texts: list[str]) -> None:
    """Append the text of an object in pieces."""
    if not values:
        texts.append("{}")
        return
    inside = line + _INDENT
    before_values = _BEFORE_VALUES.get(inside)
    if before_values is None:
        before_values = _BEFORE_VALUES[inside] = {}
    is_first = True
    for key, one in values.items():
        before = before_values.get(key)
        if before is None:
            if len(before_values) >= _MOST_KEYS:
                before_values.clear()
            before = before_values[key] = f",{inside}{encode_basestring_ascii(key)}: "
        texts.append("{" + before[1:] if is_first else before)
        is_first = False
        _write(one, inside, texts)
    texts.append(line + "}")


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
