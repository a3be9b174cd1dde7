"""JSON as ``json.dumps(values, indent=2)`` writes it, a piece at a time: what has thousands of connections is never
there as a whole, and the library's encoder in C knows no indentation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring_ascii
from math import isfinite
from typing import Any

_INDENT = "  "


def indented(value: Any, level: int = 0) -> str:
    """The text of a value that begins at a level; the keys of objects are strings."""
    return _text(value, "\n" + _INDENT * level)


def _text(value: Any, line: str) -> str:
    """The text of a value; ``line`` begins a line at its level."""
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if type(value) is int or (type(value) is float and isfinite(value)):
        return repr(value)
    if isinstance(value, dict):
        if not value:
            return "{}"
        inside = line + _INDENT
        texts = [encode_basestring_ascii(key) + ": " + _text(one, inside) for key, one in value.items()]
        return "{" + inside + ("," + inside).join(texts) + line + "}"
    if isinstance(value, (list, tuple)):
        if not value:
            return "[]"
        inside = line + _INDENT
        return "[" + inside + ("," + inside).join([_text(one, inside) for one in value]) + line + "]"
    return json.dumps(value)


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
