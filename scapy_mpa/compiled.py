"""The compiled twins of the innermost loops, where the package was built with them (see CONTRIBUTING.md).

Each does what the loop in Python beside it does, stops at the first thing that is not ordinary, and leaves that to
Python, so that reports are the same.  Where there are none, or with the environment variable SCAPY_MPA_PURE set, the
names are None.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scapy_mpa.capture import _records
    from scapy_mpa.receive import _inorder

    pcap_records = _records.pcap
    enhanced_packets = _records.enhanced
    fpdus_in_order = _inorder.fpdus
    segments_in_order = _inorder.segments


def _twin(module: str, name: str) -> Any:
    """A function of a compiled module, None where there is none."""
    if os.environ.get("SCAPY_MPA_PURE"):
        return None
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


if not TYPE_CHECKING:
    pcap_records = _twin("scapy_mpa.capture._records", "pcap")
    enhanced_packets = _twin("scapy_mpa.capture._records", "enhanced")
    fpdus_in_order = _twin("scapy_mpa.receive._inorder", "fpdus")
    segments_in_order = _twin("scapy_mpa.receive._inorder", "segments")


def is_compiled() -> bool:
    """Whether compiled twins are in use."""
    return any(twin is not None for twin in (pcap_records, enhanced_packets, fpdus_in_order, segments_in_order))
