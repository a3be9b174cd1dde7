"""The compiled loops over ordinary records of a pcap or pcapng file; None where nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

ordinary_records: Callable[..., tuple[int, int, int]] | None = None
ordinary_blocks: Callable[..., tuple[int, int, int]] | None = None

if not TYPE_CHECKING:
    try:
        from scapy_mpa.capture._ordinary import ordinary_blocks, ordinary_records
    except ImportError:
        ordinary_records = ordinary_blocks = None
