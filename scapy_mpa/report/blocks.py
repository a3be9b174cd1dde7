"""Text about octets without packets: what sentences call frames are blocks of files there, and times are not known."""

from __future__ import annotations

import re
from typing import Final

#: What is said about them first.
WITHOUT_PACKETS: Final = (
    "octets without packets: addresses, times, segments, how it ended and who sent first are unknown; blocks are "
    "parts of the files"
)
_FRAMES = re.compile(r"\bframe(s?)(?= \d)")
_TIMES = re.compile(r" (?:in|after) 0\.000 ms")
_COLUMN = ", +0.000 ms"


def in_blocks(text: str) -> str:
    """Return a text in the form for streams; columns stay where they are."""
    text = _TIMES.sub("", _FRAMES.sub(r"block\1", text))
    return text.replace(_COLUMN, " " * len(_COLUMN))
