"""The Startup Phase of a half connection that never ended: half a startup frame, or none (RFC 5044 §7.1.1, §7.1.2).

How few octets of a Key are a startup frame depends on where they are.  Where the Reply is due, any are: nothing else
can come there.  At the first octet behind a SYN it takes eight: by chance one connection in 2^64 begins so, which is
what inference asks for too (:data:`~scapy_mpa.infer.inference.CONNECTION_BITS`).  Behind other data, which may be text
about MPA, it takes the header as far as Rev, whose value no text has.
"""

from __future__ import annotations

from typing import NamedTuple

from scapy_mpa.framing.startup import KEY_LENGTH, KEY_PREFIX
from scapy_mpa.receive.keys import LARGEST_REV, KeySearch, beginning_of_key
from scapy_mpa.receive.mpa import CapturedConnection
from scapy_mpa.rules.findings import Findings
from scapy_mpa.tcp.half import MAX_WINDOW, Half, Moment
from scapy_mpa.values.segment import Segment, endpoints
from scapy_mpa.values.startup import PartOfFrame
from scapy_mpa.watch.startup import PATIENCE

_FEWEST_AT_FIRST = 8
#: Where Rev stands.
_REV_AT = KEY_LENGTH + 1


def part_of_frame(search: KeySearch, half: Half, due: int | None) -> PartOfFrame | None:
    """A startup frame of which only a part was sent, and that last; ``due`` is the sequence number of a Reply.

    None if octets are missing behind it, which its sender sent or its receiver acknowledged.
    """
    stream = search.reassembly
    told = [end[0] for end in (half.fin, half.rst) if end is not None]
    if half.peer.ack > 0 and half.fin is None:
        told.append(half.peer.ack)
    if not stream.pieces or any(0 < stream.offset_of(seq) - stream.highest < MAX_WINDOW for seq in told):
        return None
    last = stream.range_at(stream.highest - 1)
    assert last is not None
    tail = stream.read(max(last[0], last[1] - len(KEY_PREFIX)), last[1])
    for candidate in (*search.candidates, last[1] - beginning_of_key(tail)):
        if not last[0] <= candidate < last[1]:
            continue
        octets, seq = stream.read(candidate, last[1]), stream.seq_of(candidate)
        if seq == due or _is_enough(octets, seq == half.origin):
            latest = max(stream.pieces_of(candidate, last[1]), key=lambda piece: piece.seg.frame).seg
            return PartOfFrame(octets, seq, latest.frame, latest.time)
    return None


def _is_enough(octets: bytes, is_first: bool) -> bool:
    """Whether octets that may begin a startup frame do; ``is_first``: they are the first of the connection."""
    if is_first:
        return len(octets) >= _FEWEST_AT_FIRST
    return len(octets) > _REV_AT and octets[_REV_AT] <= LARGEST_REV


class Unfinished(NamedTuple):
    """A startup frame of which no more came than ``part``, because of what happened then: ``how``, and when."""

    part: PartOfFrame
    how: str
    when: Moment


def ended(half: Half, part: PartOfFrame, now: Moment) -> Unfinished | None:
    """Why no more than a part of a startup frame came of ``half``; None if more may come, at ``now``."""
    peer = half.peer
    ends = [
        (end[1:], how)
        for how, end in (("FIN", half.fin), ("RST", half.rst), ("FIN of the peer", peer.fin), ("RST", peer.rst))
        if end is not None
    ]
    if ends:
        when, how = min([end for end in ends if end[0][0] >= part.frame] or ends)
        return Unfinished(part, how, when)
    waited = now[1] - part.time
    return Unfinished(part, f"no more for {waited / 1e9:.3f} s", now) if waited >= PATIENCE else None


def find_unfinished(
    mpa: CapturedConnection | None,
    findings: Findings,
    half: Half,
    unfinished: Unfinished | None,
    garbled: tuple[int, int, int, str] | None,
    unexpected: Segment | None,
) -> None:
    """At the end: why the Startup Phase of a half connection did not end.

    ``unfinished`` is the startup frame of which only a part came, ``garbled`` where its first octets are nearly a Key,
    and what they are, ``unexpected`` what came in place of the Reply.
    """
    role = mpa.role_of(half) if mpa is not None else None
    source, destination = endpoints(half.key)
    where = "" if mpa is not None else f"{source} > {destination}: "
    if unfinished is not None:
        part, how, when = unfinished
        rule = "startup-pd-length" if part.has_header else "startup-frame"
        findings.add(rule, role, *when, part.seq, f"{how} after {part}")
    elif mpa is None and garbled is not None:
        *place, detail = garbled
        frame, time, seq = place
        findings.add("startup-key", None, frame, time, seq, where + detail)
    elif mpa is not None and mpa.reply is None and unexpected is not None:
        seg = unexpected
        begins = bytes(seg.buffer[seg.start : min(seg.end, seg.start + 16)])
        findings.add("startup-key", role, seg.frame, seg.time, seg.seq, f"no MPA Reply: it begins with {begins!r}")
