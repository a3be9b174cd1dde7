"""TCP options: what a SYN announces, timestamps, selective acknowledgements (RFC 9293 §3.1, RFC 7323, RFC 2018)."""

from __future__ import annotations

from struct import Struct

from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.octets import queued
from scapy_mpa.values.segment import Segment

_HEADER = 20
_END, _NO_OPERATION, _MSS, _WINDOW_SCALE, _SACK, _TIMESTAMPS = 0, 1, 2, 3, 5, 8
#: No receiver shifts its window by more (RFC 7323 §2.3).
LARGEST_SHIFT = 14
#: How nearly every segment with timestamps carries them (RFC 7323 appendix A).
USUAL_TIMESTAMPS = b"\x01\x01\x08\x0a"
USUAL_KINDS = int.from_bytes(USUAL_TIMESTAMPS, "big")
_NUMBER = Struct(">I").unpack_from
#: Octets that timestamps take of each segment, with the two that fill them up (RFC 7323 appendix A).
_TIMESTAMPS_LENGTH = 12


class Announced(NamedTuple):
    """What one side announces in its SYN.

    Attributes:
        mss: the Maximum Segment Size in octets, 0 if it names none.
        timestamps: whether it uses timestamps.
        shift: by how many bits its windows are to be shifted, None if it does not scale them.
    """

    mss: int
    timestamps: bool
    shift: int | None = None


def _options(seg: Segment) -> list[tuple[int, bytes]]:
    """Return kind and content of each option of a segment, as far as its header was captured."""
    octets = bytes(seg.buffer[seg.tcp : seg.start])
    found: list[tuple[int, bytes]] = []
    at = _HEADER
    while at < len(octets) and octets[at] != _END:
        if octets[at] == _NO_OPERATION:
            at += 1
            continue
        length = octets[at + 1] if at + 1 < len(octets) else 0
        if length < 2 or at + length > len(octets):
            break
        found.append((octets[at], octets[at + 2 : at + length]))
        at += length
    return found


def announced(syn: Segment) -> Announced | None:
    """Read the options of a SYN; None if its header was not captured."""
    if syn.tcp < 0:
        return None
    mss, timestamps, shift = 0, False, None
    if syn.start > syn.tcp + _HEADER:
        for kind, content in _options(syn):
            if kind == _MSS and len(content) == 2:
                mss = content[0] << 8 | content[1]
            elif kind == _WINDOW_SCALE and len(content) == 1:
                shift = min(content[0], LARGEST_SHIFT)
            timestamps = timestamps or kind == _TIMESTAMPS
    return Announced(mss, timestamps, shift)


def timestamps_of(seg: Segment) -> tuple[int, int]:
    """The timestamp of a segment and the one it echoes (TSval and TSecr, RFC 7323 §3.2), -1 and -1 without them."""
    at = seg.tcp + _HEADER
    if seg.tcp < 0 or seg.start < at + _TIMESTAMPS_LENGTH:
        return -1, -1
    kinds, stamp, echo = queued(seg.buffer, at)
    if kinds == USUAL_KINDS:
        return stamp, echo
    for kind, content in _options(seg):
        if kind == _TIMESTAMPS and len(content) == 8:
            return int.from_bytes(content[:4], "big"), int.from_bytes(content[4:], "big")
    return -1, -1


def window_of(seg: Segment) -> int | None:
    """The window field of a segment, not scaled (RFC 9293 §3.1); None if its header was not captured."""
    at = seg.tcp
    return seg.buffer[at + 14] << 8 | seg.buffer[at + 15] if at >= 0 and seg.start >= at + _HEADER else None


def sacked_by(seg: Segment) -> list[tuple[int, int]]:
    """The ranges that a segment acknowledges selectively, as sequence numbers (RFC 2018 §3)."""
    if seg.tcp < 0 or seg.start < seg.tcp + _HEADER + 10:
        return []
    if (
        seg.start == seg.tcp + _HEADER + 12
        and seg.buffer[seg.tcp + _HEADER : seg.tcp + _HEADER + 4] == USUAL_TIMESTAMPS
    ):
        return []  # nothing but timestamps
    found = []
    for kind, content in _options(seg):
        if kind == _SACK:
            numbers = [int(_NUMBER(content, at)[0]) for at in range(0, len(content) - 3, 4)]
            found += list(zip(numbers[::2], numbers[1::2], strict=False))
    return found


def emss_of(one: Announced | None, other: Announced | None) -> int:
    """The octets that a segment takes between two sides, 0 if that is not known."""
    if one is None or other is None or not one.mss or not other.mss:
        return 0
    options = _TIMESTAMPS_LENGTH if one.timestamps and other.timestamps else 0
    return max(0, min(one.mss, other.mss) - options)
