"""Limits on how much of a capture is held back and followed.

Every limit is on by default, and no capture of a hundred well-behaved connections meets one.  Where one bites, the
report says so (finding ``limit``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from scapy_mpa.errors import MPAError
from scapy_mpa.tuples import NamedTuple

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Limits(NamedTuple):
    """The most that the analysis holds back and follows.

    ``held_octets`` and ``held_segments``: out of order in one half connection, or waiting there for a startup frame;
    ``total_octets``: the same for all half connections together. ``connections``: TCP connections followed at once,
    including unanswered SYNs. ``mpa_connections`` and ``findings``: kept for the report. ``datagrams`` and
    ``fragment_octets``: IP datagrams that wait for fragments, and their octets. ``decompression``: octets that may
    expand from next to nothing when a capture is decompressed.
    """

    held_octets: int = 16 << 20
    held_segments: int = 1 << 16
    total_octets: int = 256 << 20
    connections: int = 8192
    mpa_connections: int = 1 << 16
    findings: int = 100_000
    datagrams: int = 4096
    fragment_octets: int = 16 << 20
    decompression: int = 16 << 20


DEFAULT_LIMITS = Limits()


def parse_limits(texts: Sequence[str]) -> Limits:
    """Limits from texts such as ``held_octets=64M``; k, M and G stand for 2^10, 2^20 and 2^30.

    Raises :class:`~scapy_mpa.errors.MPAError` for what cannot be understood.
    """
    limits = {}
    for text in texts:
        parsed = re.fullmatch(r"\s*([a-z_]+)\s*=\s*([0-9]{1,15})\s*([kKmMgG]?)\s*", text)
        if parsed is not None and parsed[1] in Limits._fields and not int(parsed[2]):
            raise MPAError(f"{text!r}: a limit must be 1 or more")
        if parsed is None or parsed[1] not in Limits._fields:
            known = ", ".join(f"{name}={value}" for name, value in DEFAULT_LIMITS._asdict().items())
            raise MPAError(f"{text!r} is not a limit; the limits are {known}")
        limits[parsed[1]] = int(parsed[2]) * _UNITS[parsed[3].lower()]
    return DEFAULT_LIMITS._replace(**limits)
