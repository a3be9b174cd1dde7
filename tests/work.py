"""How much work a call does, counted: the lines of Python it runs. Seconds depend on the machine, lines do not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(function: Callable[[], object]) -> int:
    """How many lines of Python ``function`` runs."""
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
