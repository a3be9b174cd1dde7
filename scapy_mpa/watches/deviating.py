"""FPDUs of a sender that deviates: what it does wrong everywhere is one finding, what it breaks besides are others.

In: the diagnosis, and FPDUs in stream order.  Out: breaches, and each FPDU as a conforming sender without Markers would
have laid it, for the rules of DDP and RDMAP.
"""

from __future__ import annotations

from collections.abc import Iterator

from scapy_mpa.framing.fpdu import FPDUPlace, fpduptr_at, marker_agrees, read_fpdu, right_fpduptr, without_markers
from scapy_mpa.framing.markers import MARKER_LENGTH
from scapy_mpa.receiver.deviation import Diagnosis
from scapy_mpa.receiver.values import Breach, LocatedFPDU
from scapy_mpa.receiver.window import Layout
from scapy_mpa.values.records import BAD, CUT
from scapy_mpa.watches.fpdus import wrong_beginning


class DeviationWatch:
    """The FPDUs of one direction whose sender deviates.

    Args:
        diagnosis: what its sender does.
        agreed: how FPDUs were to lie.
        origin: what FPDUPTR counts from in the connection's profile.
    """

    __slots__ = ("_agreed", "_diagnosis", "_due", "_explained", "_has_other_origin", "_origin")

    def __init__(self, diagnosis: Diagnosis, agreed: Layout, origin: str) -> None:
        self._diagnosis = diagnosis
        self._agreed = agreed
        self._origin = origin
        self._due = diagnosis.candidate.dialect.first_due
        #: FPDUs that the dialect explains completely; whether FPDUPTRs count from another origin than agreed.
        self._explained = 0
        self._has_other_origin = False

    def passed(self, fpdu: LocatedFPDU) -> tuple[list[Breach], LocatedFPDU]:
        """Inspect the next FPDU in stream order; return breaches, and the FPDU without Markers."""
        dialect, offset = self._diagnosis.candidate.dialect, fpdu.offset
        due = dialect.due_at(offset) if dialect.period is not None else self._due
        spoken = read_fpdu(dialect, fpdu.octets, offset, due)
        breaches = [] if offset else self._beginning(fpdu)
        if spoken is not None:
            self._due = spoken.due
        if spoken is None or spoken.end - offset > len(fpdu.octets):
            # Not all of it was captured, or not all of one before it, so that nobody knows where its Markers are.
            return breaches, fpdu.replace(crc=BAD if fpdu.crc == BAD else CUT, octets=fpdu.octets[:0])
        agreeing = 0
        for marker in spoken.markers:
            found, right = (
                fpduptr_at(dialect, spoken, fpdu.octets, marker),
                right_fpduptr(spoken, marker, dialect.origin),
            )
            if marker_agrees(dialect, spoken, fpdu.octets, marker):
                agreeing += 1
                self._has_other_origin |= found != right & ~3
            elif agreeing == spoken.markers.index(marker):
                detail = f"Marker {marker - offset} octets into the FPDU: FPDUPTR {found}, expected {right}"
                breaches.append(Breach("marker-length", offset, *fpdu.complete, detail))
        self._explained += fpdu.crc != BAD and agreeing == len(spoken.markers)
        return breaches, self._plain(fpdu, spoken)

    def _plain(self, fpdu: LocatedFPDU, spoken: FPDUPlace) -> LocatedFPDU:
        octets = without_markers(spoken, bytes(fpdu.octets), spoken.offset, spoken.end)
        return fpdu.replace(header=fpdu.offset, markers=0, octets=memoryview(octets))

    def _beginning(self, fpdu: LocatedFPDU) -> list[Breach]:
        """Return what the first octets break whatever the dialect: Markers not asked for, or none that were."""
        if self._diagnosis.candidate.dialect.markers == self._agreed.markers:
            return []
        # The CRC of a sender that deviates in that, too, says nothing of where Markers are; the dialect does.
        if self._agreed.markers:
            begins = bytes(fpdu.octets[:MARKER_LENGTH]).hex(" ")
            detail = f"the first FPDU is one without Markers: the first octets are {begins}"
            return [Breach("marker-absent", 0, *fpdu.known, detail)]
        wrong = wrong_beginning(fpdu.octets, self._agreed)
        return [] if wrong is None else [Breach(wrong[0], 0, *fpdu.known, wrong[1])]

    def finish(self, fpdus: int) -> Iterator[Breach]:
        """Yield what the sender does wrong, of whose FPDUs this many were captured."""
        anomaly, candidate = self._diagnosis.anomaly, self._diagnosis.candidate
        detail = f"{candidate.text}: explains {self._explained} of {fpdus} FPDUs"
        if self._has_other_origin:
            detail += (
                f"; FPDUPTR counts from {'the first octet of the FPDU' if self._origin == 'header' else 'ULPDU_Length'}"
            )
        if self._diagnosis.others:
            detail += f"; {' or '.join(self._diagnosis.others)} would explain as many"
        place = anomaly.offset, anomaly.frame, anomaly.time
        yield Breach("deviating-sender", *place, detail, anomaly.code, candidate.deviations[0].topic)
