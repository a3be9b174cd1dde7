"""The FPDUs around findings, each with its message and its octets."""

from __future__ import annotations

from collections.abc import Iterator

from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.sequence import unwrap
from scapy_mpa.plot.view import Subject
from scapy_mpa.report.items import Item
from scapy_mpa.report.show import NumberedFPDU, fpdu_item, startup_item, startup_of
from scapy_mpa.report.why import Neighbour, fpdu_name
from scapy_mpa.rules.findings import Finding
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURecord

#: FPDUs before the one that a finding is about, and as many after it.
_AROUND = 2
#: Findings of a connection that FPDUs are shown around, the gravest first.
MOST_AROUND = 25


class AroundFPDU(NamedTuple):
    """An FPDU near a finding: its name, what is recorded of it, its message in words, its octets if they were read."""

    name: str
    record: FPDURecord
    message: str
    item: Item | None
    #: True if the finding is about it.
    is_here: bool


class Around(NamedTuple):
    """A finding with the FPDUs around it, or the startup frame that it is about."""

    finding: Finding
    fpdus: list[AroundFPDU]
    startup: Item | None = None


def around_findings(subject: Subject, findings: list[Finding]) -> list[Around]:
    """Return the FPDUs and octets around each of these findings of a connection.

    Octets are read again; where that cannot be done they are left out.
    """
    connection = subject.connection
    numbers = {index: _place(subject, found) for index, found in enumerate(findings[:MOST_AROUND])}
    wanted: dict[Role, set[int]] = {direction: set() for direction in subject.directions}
    for place in numbers.values():
        if place is not None:
            direction, number = place
            # The first one says by whose length it was located.
            wanted[direction].update(range(max(0, number - _AROUND - 1), number + _AROUND + 1))
    records = {direction: connection.half(direction).fpdus.some(some) for direction, some in wanted.items()}
    # Octets of a compressed capture are read forwards only.
    places = sorted(_places(subject, records), key=lambda place: place.record.frames[-1])
    items = {(place.record.direction, place.number): _item(subject, place) for place in places}
    found = []
    for index, finding in enumerate(findings):
        place = numbers.get(index)
        if place is None:
            startup = _startup(subject, finding) if index < MOST_AROUND else None
            found.append(Around(finding, [], startup))
            continue
        direction, number = place
        near = [
            _fpdu(records[direction][one], one, items.get((direction, one)), one == number)
            for one in range(max(0, number - _AROUND), number + _AROUND + 1)
            if one in records[direction]
        ]
        found.append(Around(finding, near))
    return found


def _place(subject: Subject, finding: Finding) -> tuple[Role, int] | None:
    """The FPDU that a finding is about, or the next one: who sent it, and its number. None if it is about none."""
    import numpy as np

    direction: Role = "initiator" if finding.direction == "initiator" else "responder"
    half = subject.connection.half(direction)
    if finding.direction not in subject.directions or half.seq_start is None or not len(half.fpdus):
        return None
    whole = subject.whole(direction)
    later = np.flatnonzero(whole.frames >= finding.frame)
    near = int(later[0]) if len(later) else len(whole.frames) - 1
    offset = unwrap(finding.seq, int(whole.fpdus.start[near]), half.seq_start)
    startup = startup_of(subject.connection, direction)
    if offset < 0 and startup is not None and -offset <= startup[0].wire_length:
        return None
    entry = max(0, int(np.searchsorted(whole.fpdus.start, offset, side="right")) - 1)
    first = int(whole.fpdus.count[:entry].sum())
    records = half.fpdus.some(range(first, first + int(whole.fpdus.count[entry])))
    end = int(whole.fpdus.start[entry])
    for number in sorted(records):
        end += records[number].wire_length
        if offset < end:
            return direction, number
    return direction, max(records, default=first)


def _places(subject: Subject, records: dict[Role, dict[int, FPDURecord]]) -> Iterator[NumberedFPDU]:
    for direction, some in records.items():
        half = subject.connection.half(direction)
        fpdus = subject.whole(direction).fpdus if some else None
        for number, record in some.items():
            before = some.get(number - 1)
            if number and before is None:
                continue  # it is there for the one after it
            previous = Neighbour(number - 1, before) if before is not None else None
            assert fpdus is not None and half.seq_start is not None
            entry = int(fpdus.count.cumsum().searchsorted(number, side="right"))
            offset = unwrap(record.seq, int(fpdus.start[entry]), half.seq_start)
            yield NumberedFPDU(number, record, offset, previous)


def _item(subject: Subject, place: NumberedFPDU) -> Item | None:
    try:
        return fpdu_item(subject.connection, place.record.direction, place)
    except CaptureError:
        return None


def _fpdu(record: FPDURecord, number: int, item: Item | None, is_here: bool) -> AroundFPDU:
    return AroundFPDU(fpdu_name(record, number), record, _message(item), item, is_here)


def _message(item: Item | None) -> str:
    """Return what the DDP header says about the message that an FPDU belongs to."""
    said = item.layer("DDP") if item is not None else None
    if said is None:
        return ""
    names = ("STag", "TO") if said.get("T") else ("QN", "MSN", "MO")
    words = [
        f"{name} {value:#010x}" if name == "STag" else f"{name} {value:#x}" if name == "TO" else f"{name} {value}"
        for name in names
        if (value := said.get(name)) is not None
    ]
    return ", ".join([*words, *(["last segment"] if said.get("L") else [])])


def _startup(subject: Subject, finding: Finding) -> Item | None:
    """The startup frame that a finding is about, if it is about one."""
    for direction in subject.directions:
        there = startup_of(subject.connection, direction)
        is_its = finding.direction in (None, direction)
        if there is not None and is_its and 0 <= finding.seq - there[1] < there[0].wire_length:
            try:
                return startup_item(subject.connection, direction)
            except CaptureError:
                return None
    return None
