"""The compiled loop over ordinary records of a pcap file; None where nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

ordinary_records: Callable[..., tuple[int, int, int]] | None = None

if not TYPE_CHECKING:
    try:
        from scapy_mpa.capture._ordinary import ordinary_records
    except ImportError:
        ordinary_records = None
