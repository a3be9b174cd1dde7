"""Senders that deviate: which of the deviations of :mod:`scapy_mpa.framing.senders` explains what one sent.

In: the octets of a direction from the first of Full Operation on, once something there does not fit.  Out: a
:class:`Diagnosis`, whose layout lets the one :class:`~scapy_mpa.receiver.fpdus.FPDUReader` read them from there; or
nothing, and the direction stays as it was read.

Each dialect that one or two deviations make is a :class:`Hypothesis`.  It reads from the first octet on, and stops at
the first FPDU that it does not explain: a CRC, a Marker or, where nobody checks a CRC, headers DDP would not send.
CRCs alone do not tell where Markers are, so FPDUPTR must agree too.  Most octets that are damaged, or of another
protocol, leave no hypothesis after one FPDU.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import (
    MAX_ULPDU_LENGTH,
    FPDUPlace,
    crc_agrees,
    fpduptr_at,
    marker_agrees,
    read_fpdu,
    ulpdu_of,
)
from scapy_mpa.framing.markers import LONGEST_FPDU, MARKER_LENGTH
from scapy_mpa.framing.senders import Bases, Candidate, candidates
from scapy_mpa.infer.evidence import (
    COMPARED_HEADERS,
    CRC_BITS,
    HEADER_OCTETS,
    MARKER_BITS,
    Header,
    header_at,
    header_bits,
    succession_bits,
)
from scapy_mpa.receiver.fpdus import BEGINNING, FPDUReader
from scapy_mpa.receiver.values import Anomaly
from scapy_mpa.receiver.window import Layout
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.limits import Limits

#: Octets from the first of Full Operation that are read before a diagnosis is made: a bound of memory.  They hold four
#: of the longest FPDUs, so that two deviations show with FPDUs of any length.
MOST_OCTETS: Final = 256 << 10
#: FPDUs that only the dialect explains, one more for each further deviation: one may be damaged.
FEWEST_DEVIATING: Final = 2
#: The bits that all evidence must be worth: with 2^64 coincidences to one no capture of conforming senders is expected
#: to meet them.
FEWEST_BITS: Final = 64
#: So many FPDUs that only the dialect explains are more than one that was damaged puts in question.
FEWEST_ESTABLISHED: Final = 16
#: Bits by which one of two dialects that explain the same FPDUs is the likelier: those of one field of a DDP header
#: that goes on from the header before.
CLEARLY_LESS: Final = 24
#: FPDUs that hypotheses may read in a whole capture: a bound of time.
READINGS: Final = 20_000
#: FPDUs that they may read besides for each frame of the capture: a bound of time.
READINGS_A_FRAME: Final = 8
#: Octets of memory for the beginnings of all directions: a bound of memory.
ROOM: Final = 1 << 20
#: Octets that each piece of them takes besides its octets, about.
PIECE_WEIGHT: Final = 200
#: Frames after which a direction that nothing came of gives up its room to others: a bound of memory.
IDLE: Final = 1 << 14


class Diagnosis(NamedTuple):
    """What a sender does wrong: its dialect, the anomaly that showed it, names of dialects that explain as much."""

    candidate: Candidate
    anomaly: Anomaly
    others: tuple[str, ...]

    @property
    def layout(self) -> Layout:
        """How its FPDUs lie."""
        return Layout.of_dialect(self.candidate.dialect)


class DiagnosisBudget:
    """How many FPDUs hypotheses may still read, and how much memory the beginnings of directions may take."""

    __slots__ = ("_frame", "_readings", "_room", "_taken")

    def __init__(self, readings: int = READINGS, room: int = ROOM) -> None:
        self._readings = readings
        self._room = room
        self._frame = 0
        #: What each direction takes, the one first that took nothing for longest.
        self._taken: OrderedDict[DeviationSearch, int] = OrderedDict()

    def pay(self) -> bool:
        """Return True if one more FPDU may be read."""
        self._readings -= 1
        return self._readings >= 0

    def advance(self, frame: int) -> None:
        """Note how many frames of the capture have been read."""
        if frame > self._frame:
            self._readings += READINGS_A_FRAME * (frame - self._frame)
            self._frame = frame

    def reserve(self, search: DeviationSearch, weight: int) -> bool:
        """Return True if a direction may take so much in all; those that are idle or over give way."""
        self._room += self._taken.pop(search, 0)
        while weight > self._room:
            idle = next(iter(self._taken), None)
            if idle is None or not (idle.is_over or idle.last_frame < self._frame - IDLE):
                return False
            idle.close()
        if weight:
            self._taken[search] = weight
            self._room -= weight
        return True

    def release(self, search: DeviationSearch) -> None:
        """A direction takes nothing any longer."""
        self._room += self._taken.pop(search, 0)


class Hypothesis:
    """One dialect, and how far it explains what was sent.

    Args:
        candidate: the deviations that make the dialect.
        agreed: how FPDUs were to lie.

    Attributes:
        is_contradicted: whether there was something that it does not explain.
        fpdus: the FPDUs that it explains; ``deviating``: those that a conforming sender would not have sent there.
        bits: the evidence in these.
    """

    __slots__ = (
        "_agreed", "_at", "_due", "_has_marker", "_headers", "_is_shown_by_crc", "bits", "candidate", "deviating",
        "fpdus", "is_contradicted",
    )  # fmt: skip

    def __init__(self, candidate: Candidate, agreed: Dialect) -> None:
        self.candidate = candidate
        self._agreed = agreed
        self._at = 0
        self._due = candidate.dialect.first_due
        self._headers: list[Header] = []
        self._is_shown_by_crc = False
        #: Whether there is a Marker after the first octets, or these are zero, as the first Marker is (RFC 5044 §4.3):
        #: four octets before an FPDU may be anything.
        self._has_marker = False
        self.is_contradicted = False
        self.fpdus = self.deviating = self.bits = 0

    @property
    def is_believable(self) -> bool:
        """True if so much is no coincidence."""
        if self.candidate.dialect.markers and not self._agreed.markers and not self._has_marker:
            return False
        # A CRC that is good by the dialect alone is none by chance.
        fewest = 1 if self._is_shown_by_crc else FEWEST_DEVIATING + len(self.candidate.deviations) - 1
        return self.deviating >= fewest and self.bits >= FEWEST_BITS

    @property
    def is_established(self) -> bool:
        """True if so many FPDUs were explained that one that is not was damaged."""
        return self.deviating >= FEWEST_ESTABLISHED and self.bits >= FEWEST_BITS

    def explains(self, data: memoryview, budget: DiagnosisBudget) -> bool:
        """Read on in all octets from the first; return False if there is something that it does not explain.

        What has explained much stays, but reads no further.
        """
        while self._at < len(data) and not self.is_contradicted:
            if not budget.pay():
                return False
            octets = data[self._at : self._at + LONGEST_FPDU]
            fpdu = read_fpdu(self.candidate.dialect, octets, self._at, self._due)
            if fpdu is None:
                break
            bits = self._bits(fpdu, octets)
            if bits is None:
                self.is_contradicted = True
                break
            if fpdu.end > len(data):
                break
            self.bits += bits
            self.fpdus += 1
            is_zero = fpdu.offset == 0 and not any(octets[:MARKER_LENGTH])
            self._has_marker = self._has_marker or is_zero or any(fpdu.markers)
            self.deviating += self._deviates(fpdu, octets[: fpdu.end - fpdu.offset])
            self._at, self._due = fpdu.end, fpdu.due
        return not self.is_contradicted or self.is_established

    def _bits(self, fpdu: FPDUPlace, octets: memoryview) -> int | None:
        """Return the bits of evidence in an FPDU, which may not be complete yet; None if it is none."""
        dialect = self.candidate.dialect
        if not 0 < fpdu.ulpdu_length <= MAX_ULPDU_LENGTH or not _markers_agree(dialect, fpdu, octets):
            return None
        is_complete = fpdu.end - fpdu.offset <= len(octets)
        if is_complete and dialect.crc and dialect.crc_field and not crc_agrees(dialect, fpdu, octets):
            return None
        ulpdu = ulpdu_of(fpdu, octets, HEADER_OCTETS)
        padded = ulpdu.ljust(HEADER_OCTETS, b"\0")
        header = header_at(padded, 0, fpdu.ulpdu_length) if len(ulpdu) > 1 else None
        by_crc = dialect.has_proving_crc
        if header is None and not by_crc and (is_complete or len(octets) > 2 * HEADER_OCTETS + 2 * MARKER_LENGTH):
            return None
        bits = CRC_BITS if by_crc and is_complete else 0
        if header is not None:
            bits += header_bits(padded, 0, header) + succession_bits(self._headers, header)
            if is_complete:
                self._headers = [*self._headers[1 - COMPARED_HEADERS :], header]
        if is_complete:
            # A FPDUPTR of zero is worth little: there are zeros in any data.
            named = (fpduptr_at(dialect, fpdu, octets, marker) for marker in fpdu.markers)
            bits += sum(MARKER_BITS for fpduptr in named if fpduptr)
        return bits if bits or by_crc or not is_complete else None

    def _deviates(self, fpdu: FPDUPlace, octets: memoryview) -> bool:
        """Return True if an FPDU is not what a conforming sender would have sent at its place."""
        agreed = self._agreed
        right = read_fpdu(agreed, octets, fpdu.offset, agreed.due_at(fpdu.offset) if agreed.markers else 0)
        has_place = right is not None and (right.end, right.crc_at) == (fpdu.end, fpdu.crc_at)
        if right is None or not has_place or (agreed.crc and not crc_agrees(agreed, right, octets)):
            self._is_shown_by_crc |= self.candidate.dialect.has_proving_crc
            return True
        # CRCs do not tell where Markers are.
        return right.markers != fpdu.markers or not _markers_agree(agreed, right, octets)


def _markers_agree(dialect: Dialect, fpdu: FPDUPlace, octets: memoryview) -> bool:
    """Return True if the Markers of an FPDU, as far as they are there, name its start, counted from either origin."""
    end = fpdu.offset + len(octets)
    return all(marker_agrees(dialect, fpdu, octets, one) for one in fpdu.markers if one + MARKER_LENGTH <= end)


class DeviationSearch:
    """Finds out whether the sender of one direction deviates.

    Until something in BEGINNING does not fit, the octets of that are held though they were read.  Then all are held,
    MOST_OCTETS in order and twice that in all, until the diagnosis is made: when no hypothesis is left, when as much
    was read, or at the end.

    Args:
        reader: reads the direction, from the first octet of Full Operation on.
        bases: places from which its sender might count Markers.
        budget: bounds all searches together.
        limits: how much is held of one direction at most.

    Attributes:
        is_open: whether it is still to be found out.
        last_frame: the last frame of which something was held.
    """

    __slots__ = (
        "_bases", "_budget", "_edge", "_explained", "_has_tried_pairs", "_hypotheses", "_most", "_next_look",
        "_reader", "_seen_at", "_seen_edge", "_seen_held", "is_open", "last_frame",
    )  # fmt: skip

    def __init__(self, reader: FPDUReader, bases: Bases, budget: DiagnosisBudget, limits: Limits) -> None:
        self._reader = reader
        self._bases = bases
        self._budget = budget
        self._most = min(MOST_OCTETS, limits.held_octets)
        self._hypotheses: list[Hypothesis] | None = None
        self._has_tried_pairs = False
        #: How many FPDUs single deviations explain.
        self._explained: dict[str, int] = {}
        #: Octets from the first on of which no other copies can be chosen any more.
        self._edge = 0
        #: How many of them there must be to look again.
        self._next_look = 0
        #: Where the main chain was when it was looked at last, up to where octets were there, how many were held.
        self._seen_at = self._seen_edge = self._seen_held = -1
        self.is_open = True
        self.last_frame = 0
        reader.half.keep_from = 0

    @property
    def is_over(self) -> bool:
        """True once the peer acknowledged a FIN."""
        return self._reader.half.fin is not None

    def update(self, frame: int) -> Diagnosis | None:
        """Look at what the reader has read by a frame; return the diagnosis once it can be made."""
        reader, main, held = self._reader, self._reader.main, self._reader.half.copies.held
        if not self.is_open:
            return None
        if reader.anomaly is None and self.has_seen():
            return None
        self._seen_at, self._seen_edge, self._seen_held = main.at, main.edge, held
        self.last_frame = frame
        self._budget.advance(frame)
        if reader.anomaly is None:
            reader.judge_part(is_over=False)
        if reader.anomaly is None:
            if reader.main.at >= BEGINNING or not self._budget.reserve(self, self._weight()):
                self.close()
            return None
        self._budget.release(self)
        return self._examine(is_over=False)

    def has_seen(self) -> bool:
        """Return True if it has looked at all that the reader has read."""
        reader, main = self._reader, self._reader.main
        return main.at == self._seen_at and main.edge == self._seen_edge and reader.half.copies.held == self._seen_held

    def finish(self) -> Diagnosis | None:
        """Return the diagnosis, None if there is none: nothing more comes."""
        if self._reader.anomaly is None:
            self._reader.judge_part(is_over=True)
        return self._examine(is_over=True) if self._reader.anomaly is not None else None

    def decide(self) -> Diagnosis | None:
        """Return the diagnosis of what has come, None if there is none, and end the search: no more may be held."""
        if self._reader.anomaly is None:
            self._reader.judge_part(is_over=False)
        diagnosis = self._examine(is_over=True) if self.is_open and self._reader.anomaly is not None else None
        if diagnosis is None:
            self.close()
        return diagnosis

    @property
    def kept(self) -> tuple[int, int]:
        """Octets, and pieces, that are held for the search alone: they were read."""
        half = self._reader.half
        return max(half.needed, 0), half.copies.pieces_below(half.needed)

    def close(self) -> None:
        """End the search: what was held for it goes."""
        if self.is_open:
            self.is_open = False
            self._hypotheses = None
            self._budget.release(self)
            self._reader.half.keep_nothing()

    def _weight(self) -> int:
        half = self._reader.half
        octets = max(half.needed, 0)
        return octets + PIECE_WEIGHT * half.copies.pieces_below(half.needed) if octets else 0

    def _examine(self, is_over: bool) -> Diagnosis | None:
        """Look for hypotheses that explain the octets; look again when they have doubled."""
        copies = self._reader.half.copies
        edge = min(self._find_edge(is_over), self._most)
        is_last = is_over or edge == self._most or copies.held > 2 * self._most
        if edge < self._next_look and not is_last:
            return None
        self._next_look = 2 * edge
        has_any = copies.start == 0 and edge > 0 and self._test(copies.octets(0, edge))
        if has_any and not is_last:
            return None
        diagnosis = self._diagnosis() if has_any else None
        if diagnosis is None:
            self.close()
        return diagnosis

    def _find_edge(self, is_over: bool) -> int:
        half = self._reader.half
        while half.copies.next_start(self._edge) == self._edge:
            copies = half.copies
            _, end, is_captured = copies.piece(self._edge)
            is_settled = copies.is_settled(copies.index_of(self._edge)) or half.peer.is_acknowledged(self._edge, end)
            if not is_captured or not (is_over or is_settled):
                break
            self._edge = end
        return self._edge

    def _test(self, data: memoryview) -> bool:
        """Let hypotheses read on; return False if none explains what has come."""
        agreed = Dialect(self._reader.layout.markers, self._reader.layout.crc)
        if self._hypotheses is None:
            self._hypotheses = [Hypothesis(one, agreed) for one in candidates(agreed, self._bases, 1)]
        tested, self._hypotheses = self._hypotheses, []
        for one in tested:
            if one.explains(data, self._budget):
                self._hypotheses.append(one)
            self._explained[one.candidate.name] = one.fpdus
        if not self._has_tried_pairs and all(one.is_contradicted for one in self._hypotheses):
            # Only where one deviation does not explain all: where one does, two always can.
            self._has_tried_pairs = True
            pairs = (Hypothesis(pair, agreed) for pair in candidates(agreed, self._bases, 2))
            self._hypotheses += [pair for pair in pairs if pair.explains(data, self._budget)]
        return bool(self._hypotheses)

    def _diagnosis(self) -> Diagnosis | None:
        """Return what needs the fewest deviations of all that is left, None if it is not believable."""
        anomaly = self._reader.anomaly
        left = [one for one in self._hypotheses or () if self._needs_all(one)]
        left = [one for one in left if not one.is_contradicted] or left
        fewest = min((len(one.candidate.deviations) for one in left), default=0)
        # One deviation that explains everything is the likelier, even if too little came to believe it.
        left = [one for one in left if len(one.candidate.deviations) == fewest and one.is_believable]
        if not left or anomaly is None:
            return None
        best = max(left, key=lambda one: (one.fpdus, one.bits))
        return Diagnosis(best.candidate, anomaly, tuple(equally_likely(best, left)))

    def _needs_all(self, one: Hypothesis) -> bool:
        """Return True if no deviation alone explains as many FPDUs as all of them together."""
        names = [deviation.name for deviation in one.candidate.deviations]
        return len(names) < 2 or all(self._explained.get(name, 0) < one.fpdus for name in names)


def equally_likely(best: Hypothesis, left: Iterable[Hypothesis]) -> Iterable[str]:
    """Return the names of other dialects that explain the same FPDUs as the best one nearly as well."""
    return (
        one.candidate.name
        for one in left
        if one is not best and one.fpdus == best.fpdus and one.bits > best.bits - CLEARLY_LESS
    )
