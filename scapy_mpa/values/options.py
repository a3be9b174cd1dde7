"""What the TCP options of a SYN announce (RFC 9293 §3.1 and §3.7.1, RFC 7323 §3.2)."""

from __future__ import annotations

from typing import NamedTuple

from scapy_mpa.values.segment import Segment

_HEADER = 20
_END, _NO_OPERATION, _MSS, _TIMESTAMPS = 0, 1, 2, 8
#: Octets that timestamps take of each segment, with the two that fill them up (RFC 7323 appendix A).
_TIMESTAMPS_LENGTH = 12


class Announced(NamedTuple):
    """What one side announces: the Maximum Segment Size in octets, 0 if it does not, and whether it uses timestamps."""

    mss: int
    timestamps: bool


def announced(syn: Segment) -> Announced | None:
    """Read the options of a SYN; None if its header was not captured."""
    if syn.tcp < 0:
        return None
    octets = bytes(syn.buffer[syn.tcp : syn.start])
    mss, timestamps, at = 0, False, _HEADER
    while at < len(octets) and octets[at] != _END:
        if octets[at] == _NO_OPERATION:
            at += 1
            continue
        length = octets[at + 1] if at + 1 < len(octets) else 0
        if length < 2 or at + length > len(octets):
            break
        if octets[at] == _MSS and length == 4:
            mss = octets[at + 2] << 8 | octets[at + 3]
        timestamps = timestamps or octets[at] == _TIMESTAMPS
        at += length
    return Announced(mss, timestamps)


def emss_of(one: Announced | None, other: Announced | None) -> int:
    """The octets that a segment takes between two sides, 0 if that is not known."""
    if one is None or other is None or not one.mss or not other.mss:
        return 0
    options = _TIMESTAMPS_LENGTH if one.timestamps and other.timestamps else 0
    return max(0, min(one.mss, other.mss) - options)
