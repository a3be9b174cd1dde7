"""How much work a call does, counted: the lines of Python it runs. Seconds depend on the machine, lines do not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from scapy_mpa.compiled import is_compiled


def lines_run(function: Callable[[], object]) -> int:
    """How many lines of Python ``function`` runs; RuntimeError where compiled modules run, whose lines do not count."""
    if is_compiled():
        raise RuntimeError("lines are counted with SCAPY_MPA_PURE=1 alone: mark the test `uncompiled`")
    lines = 0

    def in_frame(_frame: FrameType, event: str, _arg: Any) -> Callable[..., Any]:
        nonlocal lines
        lines += event == "line"
        return in_frame

    before = sys.gettrace()
    sys.settrace(lambda _frame, _event, _arg: in_frame)
    try:
        function()
    finally:
        sys.settrace(before)
    return lines
