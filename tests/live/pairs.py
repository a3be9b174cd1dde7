"""Two RDMAP endpoints in memory, and what one side of a capture said."""

from __future__ import annotations

from pathlib import Path

from scapy_mpa.live.rdmap import RDMAPEndpoint, RDMAPEvent, RDMAPSettings
from scapy_mpa.live.speaker import Speaker
from scapy_mpa.reading.found import FoundFPDUs


def endpoint(mulpdu: int = 1400, **settings: int) -> RDMAPEndpoint:
    return RDMAPEndpoint(lambda: mulpdu, RDMAPSettings(**settings))


def drain(rdmap: RDMAPEndpoint) -> list[bytes]:
    """All that it has to say now."""
    said = []
    while (ulpdu := rdmap.next_ulpdu()) is not None:
        said.append(ulpdu)
    return said


def exchange(one: RDMAPEndpoint, two: RDMAPEndpoint) -> tuple[list[RDMAPEvent], list[RDMAPEvent]]:
    """Carry ULPDUs back and forth until neither has more; returns the events of each."""
    events: tuple[list[RDMAPEvent], list[RDMAPEvent]] = ([], [])
    while True:
        said = drain(one), drain(two)
        if not any(said):
            return events
        for ulpdu in said[0]:
            events[1].extend(two.receive(ulpdu))
        for ulpdu in said[1]:
            events[0].extend(one.receive(ulpdu))


def talk(one: RDMAPEndpoint, first: Speaker, two: RDMAPEndpoint, second: Speaker) -> None:
    """Have two upper layers talk until neither has more to say."""
    first.begin()
    second.begin()
    sides = ((one, two, second), (two, one, first))
    is_silent = False
    while not is_silent:
        is_silent = True
        for speaking, hearing, upper in sides:
            while (ulpdu := speaking.next_ulpdu()) is not None:
                is_silent = False
                for event in hearing.receive(ulpdu):
                    upper.take(event)


def said(capture: Path) -> list[tuple[str, bytes]]:
    """Return what both sides of the first connection sent, in the order of delivery."""
    with FoundFPDUs(str(capture)) as found:
        return [(one.record.direction, one.decoded.ulpdu) for one in found if one.connection.number == 0]
