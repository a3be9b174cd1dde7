"""One case of the catalogue as packets, as a capture file, and as the analysis sees it."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from scapy_mpa.catalogue.case import AREAS, Case, CaseOutcome, Raised, clause_of
from scapy_mpa.catalogue.reading import options
from scapy_mpa.catalogue.table import CASES, chosen, named
from scapy_mpa.craft.exchange import ExchangeCapture
from scapy_mpa.craft.sent import Repairable
from scapy_mpa.errors import MPAError
from scapy_mpa.rules.choice import named as rules_named
from scapy_mpa.system.whole import whole_file

if TYPE_CHECKING:
    from scapy.packet import Packet
    from scapy.plist import PacketList

    from scapy_mpa.report.model import Report
    from scapy_mpa.rules.findings import Finding

Repair = Literal["repaired", "left"]
_NANOSECONDS = 1_000_000_000


class Malformed:
    """A case by its name: a valid connection with one thing changed, and what a conforming peer does about it.

    ``crc`` and ``lengths`` say whether CRC and length fields are repaired after the change, or ``left`` as they were,
    where the case has that choice (``case.left``). Raises MPAError for a name or a choice that does not exist.
    """

    def __init__(self, case: str | Case, *, crc: Repair = "repaired", lengths: Repair = "repaired") -> None:
        self.case = named(case) if isinstance(case, str) else case
        self.left = left_of(crc, lengths)
        if self.left is not None and self.left not in self.case.left:
            choices = ", ".join(self.case.left) or "nothing"
            raise MPAError(f"{self.case.name} has no choice of {self.left}; it can leave {choices} as it was")
        self._captured: ExchangeCapture | None = None

    @staticmethod
    def cases(rule: str | None = None, area: str | None = None) -> list[Case]:
        """All cases; those of a rule (by its id, or the beginning of one), of an area. Raises MPAError for none."""
        if area is not None and area not in AREAS:
            raise MPAError(f"there is no area {area!r}; the areas are {', '.join(AREAS)}")
        return chosen(rules_named(rule) if rule is not None else (), () if area is None else (area,))

    def __repr__(self) -> str:
        return f"<Malformed {self.case.name}: {self.case.purpose}>"

    def __iter__(self) -> Iterator[Packet]:
        """Scapy packets, one by one."""
        import scapy.layers.inet
        import scapy.layers.inet6  # noqa: F401, what is above Ethernet
        from scapy.layers.l2 import Ether
        from scapy.utils import EDecimal

        for time, octets in self.captured.packets:
            packet = Ether(octets[: self.captured.snaplen])
            packet.time = EDecimal(time) / _NANOSECONDS
            yield packet

    @property
    def outcome(self) -> CaseOutcome:
        """The outcome: ``raises``, and what a conforming ``peer`` must do."""
        return self.case.outcome(self.left)

    @property
    def raised(self) -> tuple[Raised, ...]:
        """The findings that the analysis must have: each a rule and who is to blame."""
        return self.case.raised(self.left)

    @property
    def captured(self) -> ExchangeCapture:
        """Its frames with their times in nanoseconds since the epoch."""
        if self._captured is None:
            self._captured = self.case.plan(self.left).captured()
        return self._captured

    @property
    def suffix(self) -> str:
        """The suffix of its file: ``.pcap``, or ``.pcapng`` where a capture needs two interfaces."""
        return f".{self.captured.format}"

    @property
    def is_of_catalogue(self) -> bool:
        """True if it is a case of the catalogue, for which it is known what the analysis must find."""
        return self.case.name in CASES

    @property
    def file_name(self) -> str:
        """The name of its capture among others."""
        return "".join(one if one.isalnum() or one in "-_.=," else "-" for one in self.case.name) + self.suffix

    def forget(self) -> None:
        """Release the frames; they are made again when they are needed."""
        self._captured = None

    def packets(self) -> PacketList:
        """Return all packets as Scapy's, without that of a second interface, not Ethernet (``captured.foreign``)."""
        from scapy.plist import PacketList

        return PacketList(list(self), name=repr(self))

    def write(self, path: str | os.PathLike[str]) -> int:
        """Write a capture file; return the number of packets."""
        with whole_file(path) as file:
            return self.captured.write(file)

    def analyze(self) -> Report:
        """Return the report of ``scapy-mpa analyze`` about it."""
        from scapy_mpa.reading.analysis import analyze

        file = io.BytesIO()
        self.captured.write(file)
        file.seek(0)
        return analyze(file, fpdus=False, **options(self.case.options))

    def finding_of(self, rule: str) -> Finding | None:
        """Return the analysis' finding of this rule, None if there is none."""
        return next((found for found in self.analyze().all_findings() if found.rule.id == rule), None)

    def as_dict(self, capture: str | None = None) -> dict[str, Any]:
        """Return its entry in the manifest, with the name of its capture if that has been written."""
        case = self.case
        return {
            "name": case.name,
            "area": case.area,
            "purpose": case.purpose,
            "clause": clause_of(case) or None,
            "capture": capture,
            "by": case.by,
            "baseline": case.baseline,
            "changes": [change.text for change in case.changes],
            "choices": [*case.left],
            "left": self.left,
            "raises": [{"rule": one.rule, "direction": one.direction, "severity": one.severity} for one in self.raised],
            "breaks": [*case.breaks],
            "tests": [*case.tests],
            "options": [*case.options],
            "peer": self.outcome.peer.as_dict(),
        }


def left_of(crc: Repair, lengths: Repair) -> Repairable | None:
    """Return what is left as it was, None if nothing is; raises MPAError for both at once."""
    for name, value in (("crc", crc), ("lengths", lengths)):
        if value not in ("repaired", "left"):
            raise MPAError(f"{name} is {value!r}, but must be repaired or left")
    if crc == lengths == "left":
        raise MPAError(
            "either the CRC or the lengths are left as they were: leave only one of them, or nothing shows what was "
            "changed"
        )
    return "crc" if crc == "left" else "lengths" if lengths == "left" else None


def with_choice(case: Case, crc: Repair, lengths: Repair, *, only: bool = False) -> Malformed:
    """A case, left as it was where it has that choice; where it has not, repaired unless it is the ``only`` one."""
    left = left_of(crc, lengths)
    if left is not None and left not in case.left and not only:
        return Malformed(case)
    return Malformed(case, crc=crc, lengths=lengths)
