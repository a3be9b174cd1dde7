"""What a sender does wrong, found out from octets that do not fit (the deviations of :mod:`scapy_mpa.framing.senders`).

Each dialect that one or two deviations make is a *hypothesis*.  It reads the stream from the first octet of Full
Operation and is dropped at the first FPDU that it does not explain: a CRC, a Marker or, where nobody checks a CRC, a
header that DDP would not send.  CRCs alone do not tell where Markers are, so that FPDUPTR must agree too.  What is left
when enough has been seen, or when nothing more comes, is believed if it explains FPDUs that conformant ones are not.

Most captures of damaged or foreign octets leave no hypothesis after one FPDU; the work is bounded by a
:class:`~scapy_mpa.infer.budget.DiagnosisBudget`.
"""

from __future__ import annotations

from scapy_mpa.framing.dialect import (
    Dialect,
    SpokenFPDU,
    crc_agrees,
    fpduptr_at,
    read_fpdu,
    right_fpduptr,
    ulpdu_of,
)
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import LONGEST_FPDU, MARKER_LENGTH, Origin
from scapy_mpa.framing.senders import Candidate
from scapy_mpa.infer.budget import DiagnosisBudget
from scapy_mpa.infer.evidence import (
    CRC_BITS,
    HEADER_OCTETS,
    MARKER_BITS,
    Header,
    header_at,
    header_bits,
    succession_bits,
)
from scapy_mpa.receive.reassembly import Reassembly

#: FPDUs that only the dialect explains, one more for each further deviation, and what all that speaks for it must be
#: worth (bits).
_FEWEST_DEVIATING, _FEWEST_BITS = 2, 64
#: So many are more than one that is damaged can put in doubt.
_FEWEST_ESTABLISHED = 16
#: Headers of FPDUs before that the next one is compared with.
_REMEMBERED = 8
_ORIGINS: tuple[Origin, Origin] = ("header", "first-octet")


class Hypothesis:
    """One dialect, and how far it explains the half connection.

    Args:
        candidate: the deviations that make the dialect.
        agreed: how FPDUs were to lie.
        at: the offset from which it reads.
        due: octets before its next Marker there, None where the half connection begins.
    """

    __slots__ = (
        "_agreed",
        "_has_marker",
        "_headers",
        "_is_told_by_crc",
        "at",
        "bits",
        "candidate",
        "deviating",
        "due",
        "fpdus",
        "is_contradicted",
    )

    def __init__(self, candidate: Candidate, agreed: Dialect, at: int = 0, due: int | None = None) -> None:
        self.candidate = candidate
        self._agreed = agreed
        self._headers: list[Header] = []
        self._is_told_by_crc = False
        #: Whether there is a Marker behind the first octets, or these are zero, as the first Marker is (RFC 5044 §4.3):
        #: four octets in front of an FPDU may be anything.
        self._has_marker = False
        #: Whether there was something that it does not explain.
        self.is_contradicted = False
        self.at = at
        self.due = candidate.dialect.first_due if due is None else due
        #: FPDUs explained, those among them that do not conform, bits of evidence.
        self.fpdus = self.deviating = self.bits = 0

    @property
    def is_believable(self) -> bool:
        """Whether so much is no coincidence."""
        if self.candidate.dialect.markers and not self._agreed.markers and not self._has_marker:
            return False
        # A CRC that is good by the dialect alone is none by chance.
        fewest = 1 if self._is_told_by_crc else _FEWEST_DEVIATING + len(self.candidate.deviations) - 1
        return self.deviating >= fewest and self.bits >= _FEWEST_BITS

    @property
    def is_established(self) -> bool:
        """Whether so many FPDUs were explained that one that is not was damaged."""
        return self.deviating >= _FEWEST_ESTABLISHED and self.bits >= _FEWEST_BITS

    def explains(self, reassembly: Reassembly, limit: int, budget: DiagnosisBudget, most: int = 1 << 62) -> bool:
        """Read on up to ``limit``, at most to FPDU ``most``; False if there is something that it does not explain.

        What has explained a lot already stays, but reads no further.
        """
        while self.at < limit and self.fpdus < most and not self.is_contradicted:
            if not budget.pay():
                return False
            octets = reassembly.read(self.at, min(limit, self.at + LONGEST_FPDU))
            fpdu = read_fpdu(self.candidate.dialect, octets, self.at, self.due)
            if fpdu is None:
                break
            worth = self._bits(fpdu, octets)
            if worth is None:
                self.is_contradicted = True
                break
            if fpdu.end > limit:
                break
            self.bits += worth
            self.fpdus += 1
            is_zero = fpdu.offset == 0 and not any(octets[:MARKER_LENGTH])
            self._has_marker = self._has_marker or is_zero or any(fpdu.markers)
            self.deviating += self._deviates(fpdu, octets[: fpdu.end - fpdu.offset])
            self.at, self.due = fpdu.end, fpdu.due
        return not self.is_contradicted or self.is_established

    def _markers_agree(self, fpdu: SpokenFPDU, octets: bytes) -> bool:
        return all(
            marker_agrees(self.candidate.dialect, fpdu, octets, marker)
            for marker in fpdu.markers
            if marker + MARKER_LENGTH <= fpdu.offset + len(octets)
        )

    def _bits(self, fpdu: SpokenFPDU, octets: bytes) -> int | None:
        """What an FPDU, which may not be complete yet, is worth; None if it is none."""
        dialect = self.candidate.dialect
        if not 0 < fpdu.ulpdu_length <= MAX_ULPDU_LENGTH or not self._markers_agree(fpdu, octets):
            return None
        is_complete = fpdu.end - fpdu.offset <= len(octets)
        by_crc = verified_by_crc(dialect)
        if is_complete and dialect.crc and dialect.crc_field and not crc_agrees(dialect, fpdu, octets):
            return None
        header = ddp_header(fpdu, octets)
        if header is None and not by_crc and (is_complete or len(octets) > 2 * HEADER_OCTETS + 2 * MARKER_LENGTH):
            return None
        bits = CRC_BITS if by_crc and is_complete else 0
        if header is not None:
            bits += header_bits(ulpdu_of(fpdu, octets, HEADER_OCTETS).ljust(HEADER_OCTETS, b"\0"), 0, header)
            bits += succession_bits(self._headers, header)
            if is_complete:
                self._headers = [*self._headers[1 - _REMEMBERED :], header]
        if is_complete:
            # A FPDUPTR of zero is worth little: there are zeros in any data.
            named = (fpduptr_at(dialect, fpdu, octets, marker) for marker in fpdu.markers)
            bits += sum(MARKER_BITS for fpduptr in named if fpduptr)
        return bits if bits or by_crc or not is_complete else None

    def _deviates(self, fpdu: SpokenFPDU, octets: bytes) -> bool:
        """Whether an FPDU, with these octets, is not what a conformant sender would have sent at its place."""
        agreed = self._agreed
        right = read_fpdu(agreed, octets, fpdu.offset, agreed.due_at(fpdu.offset) if agreed.markers else self.due)
        by_crc = verified_by_crc(self.candidate.dialect)
        if right is None or (right.end, right.crc_at) != (fpdu.end, fpdu.crc_at):
            self._is_told_by_crc |= by_crc
            return True
        if agreed.crc and not crc_agrees(agreed, right, octets):
            self._is_told_by_crc |= by_crc
            return True
        # CRCs do not tell where Markers are.
        if right.markers != fpdu.markers:
            return True
        return not all(marker_agrees(agreed, right, octets, marker) for marker in right.markers)


def verified_by_crc(dialect: Dialect) -> bool:
    """Whether a CRC confirms an FPDU."""
    return dialect.crc and dialect.crc_field and not dialect.crc_is_zero


def marker_agrees(dialect: Dialect, fpdu: SpokenFPDU, octets: bytes, marker: int) -> bool:
    """Whether a Marker of an FPDU names its start, from either origin."""
    said = fpduptr_at(dialect, fpdu, octets, marker)
    return any(said == right_fpduptr(fpdu, marker, origin) & ~3 for origin in _ORIGINS)


def ddp_header(fpdu: SpokenFPDU, octets: bytes) -> Header | None:
    """The DDP header of an FPDU, None if its ULPDU does not begin with one that DDP would send."""
    ulpdu = ulpdu_of(fpdu, octets, HEADER_OCTETS)
    return header_at(ulpdu.ljust(HEADER_OCTETS, b"\0"), 0, fpdu.ulpdu_length) if len(ulpdu) > 1 else None
