"""Names that others gave, of files and the like, as they may be printed.

A file name is any octets but a slash and a zero. Python has those that are no UTF-8 as lone surrogates (PEP 383), which
can be neither printed nor put into JSON; and what is a control character does to a terminal what whoever named the file
wants. Both are printed in hexadecimal. What an octet is stands as ``\\xff``, a character beyond as ``\\u202e``.
"""

from __future__ import annotations

import os
import re

#: Half of a character, which no encoding has.
_SURROGATES = "\ud800-\udfff"
#: C0, DEL and C1; marks that turn the direction of what follows (Unicode UAX 9); ends of lines and paragraphs.
_CONTROLS = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029"


def printable(name: str | os.PathLike[str]) -> str:
    """A name for people: on one line, and without anything that a terminal would obey."""
    return _escaping(_SURROGATES + _CONTROLS, os.fspath(name))


def encodable(name: str | os.PathLike[str]) -> str:
    """A name for programs, in JSON: as it is, but for octets that are no UTF-8."""
    return _escaping(_SURROGATES, os.fspath(name))


def _escaping(characters: str, text: str) -> str:
    # Most names have none of them: a pattern is compiled for the others alone.
    return text if text.isprintable() else re.sub(f"[{characters}]", _escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00  # the octet that it stands for
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
