"""JSON as ``json.dumps(values, indent=2)`` writes it, a piece at a time: what has thousands of connections is never
there as a whole, and most of it is written by the encoder in C, which knows no indentation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

_INDENT = "  "


@cache
def _encoder(level: int) -> json.JSONEncoder:
    """Writes lists and objects without others in them, whose items stand at a level."""
    return json.JSONEncoder(separators=(f",\n{_INDENT * level}", ": "))


def indented(value: Any, level: int = 0) -> str:
    """The text of a value that begins at a level; the keys of objects are strings."""
    if isinstance(value, dict):
        inside, is_object = list(value.values()), True
    elif isinstance(value, (list, tuple)):
        inside, is_object = list(value), False
    else:
        return json.dumps(value)
    first, second = "{}" if is_object else "[]"
    if not inside:
        return first + second
    begin, end = f"{first}\n{_INDENT * (level + 1)}", f"\n{_INDENT * level}{second}"
    if not any(isinstance(one, (dict, list, tuple)) and one for one in inside):
        return begin + _encoder(level + 1).encode(value)[1:-1] + end
    texts = [indented(one, level + 1) for one in inside]
    if is_object:
        texts = [f"{json.dumps(key)}: {text}" for key, text in zip(value, texts, strict=True)]
    return begin + f",\n{_INDENT * (level + 1)}".join(texts) + end


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
