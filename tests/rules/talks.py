"""Talks that break one rule, and their twins that do not; what is told of them.

The segments are laid whole, cut, or out of order,
which are different paths of the receiver, and must say the same.
"""

from __future__ import annotations

from typing import Any, Literal

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.craft.ulpdus import send
from tests.receive.cases import Side, Talk, feed, started

How = Literal["whole", "cut", "late"]
HOWS: tuple[How, ...] = ("whole", "cut", "late")


class Teller:
    """Says the FPDUs of a talk in one of several ways."""

    def __init__(self, how: How = "whole") -> None:
        self.how = how

    def put(self, talk: Talk, side: Side, octets: bytes) -> int:
        """``side`` sends these octets; returns the first frame."""
        if self.how == "whole" or len(octets) < 12:
            return talk.say(side, octets)
        at, seq = len(octets) - 6, talk.next[side]
        parts = [(0, octets[:7]), (7, octets[7:at]), (at, octets[at:])]
        if self.how == "late":
            parts = [parts[0], parts[2], parts[1]]
        first = len(talk.segments) + 1
        talk.next[side] = (seq + len(octets)) & 0xFFFFFFFF
        for offset, part in parts:
            talk.put(side, seq + offset, part)
        return first


def put(talk: Talk, side: Side, *ulpdus: bytes, how: How = "whole") -> int:
    """``side`` sends FPDUs with these ULPDUs; returns the frame of the first octet."""
    octets, _ = talk.streams[side].lay(ulpdus)
    return Teller(how).put(talk, side, octets)


def begun(**options: Any) -> Talk:
    """A talk in Full Operation: the Initiator has sent the first Send, the Responder has answered."""
    talk = started(**options)
    put(talk, "a", send(1, bytes(30)))
    put(talk, "b", send(1, bytes(30)))
    return talk


def told(talk: Talk, how: How = "whole") -> set[tuple[str, str | None]]:
    """(rule, who) of all that is told, but for how FPDUs lie in segments where that is not meant."""
    left_out = () if how == "whole" else ("alignment", "fpdu-above-emss")
    found = {(found.rule.id, found.direction) for found in findings(feed([talk.segments]))}
    return {(rule, who) for rule, who in found if rule not in left_out}


def findings(receiver: Analyzer) -> list[Any]:
    """The findings of all connections and of none."""
    everywhere = [receiver.findings, *(mpa.findings for mpa in receiver.connections)]
    return [found for one in everywhere for found in one.sorted()]
