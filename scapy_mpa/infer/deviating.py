"""Full Operation of a half connection whose sender deviates: FPDUs read by its dialect (framing/dialect.py).

A conforming receiver stopped at the first error.  The analysis knows what the sender does, and lists what it sent by
the rules of placement that hold for all (RFC 5044 §6): where Markers stand at places that are known without the FPDUs
before, those locate; where not, lengths alone do.  One finding reports it.
"""

from __future__ import annotations

from scapy_mpa.framing.ddp import TERMINATE_OPCODE
from scapy_mpa.framing.dialect import Dialect, SpokenFPDU, crc_agrees, fpduptr_at, read_fpdu, right_fpduptr, ulpdu_of
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import LONGEST_FPDU, MARKER_LENGTH
from scapy_mpa.infer.budget import DiagnosisBudget
from scapy_mpa.infer.diagnosis import Hypothesis, ddp_header, marker_agrees, verified_by_crc
from scapy_mpa.infer.evidence import PLAUSIBLE_HEADER
from scapy_mpa.receive.located import Breach, Diagnosis, Located, Outcome, offset_of
from scapy_mpa.receive.placing import DROPPED, TERMINATE_OCTETS, WithdrawnError
from scapy_mpa.receive.reassembly import Reassembly, frames_of
from scapy_mpa.receive.recovery import CHAIN, LOST
from scapy_mpa.receive.scan import Extent
from scapy_mpa.tcp.half import Moment
from scapy_mpa.values.records import BAD, GOOD, LENGTH, MARKER, NO_OPCODE, SCAN, START, UNCHECKED
from scapy_mpa.values.segment import Segment
from scapy_mpa.watch.fpdus import FIRST_ULPDU_OCTETS

#: Octets that are kept to find an FPDU in, behind a gap or behind what could not be read.
_MOST_SEARCHED = 4 * LONGEST_FPDU
#: FPDUs that must follow one another to be believed there where no CRC confirms one, bits they must be worth, and
#: readings that may be spent on all of a half connection.
_FEWEST_IN_A_ROW, _FEWEST_BITS, _MOST_READINGS = 3, 48, 1 << 16


class DeviatingChain:
    """What :class:`~scapy_mpa.receive.recovery.Recovery` is for conformant FPDUs, for those of a dialect.

    It tells FPDUs in the order of the stream: where segments came out of order, later than they were placed.
    """

    def __init__(self, reassembly: Reassembly, diagnosis: Diagnosis, agreed: Dialect, floor: Moment) -> None:
        self.floor = floor
        self.state = CHAIN
        self.diagnosis: Diagnosis | None = diagnosis
        self._diagnosis = diagnosis
        self.at = 0
        self.cut = 0
        #: FPDUs of which the dialect explains everything, and whether FPDUPTRs count from another origin than agreed.
        self._explained = 0
        self._has_other_origin = False
        self._reassembly = reassembly
        self._candidate = diagnosis.candidate
        self._dialect = diagnosis.candidate.dialect
        self._agreed = agreed
        self._due = self._dialect.first_due
        #: When the FPDU that ends at ``at`` was placed, None if it has a bad CRC or is not known.
        self._before: Moment | None = None
        #: The FPDU before has a bad CRC: its offset.
        self._bad: int | None = None
        #: How many octets must be there before they are searched once more.
        self._next_try = 0
        self._budget = DiagnosisBudget(_MOST_READINGS)
        self._fresh: list[Located] = []
        self._breaches: list[Breach] = []

    @property
    def in_order(self) -> bool:
        """Never: the fast path reads no dialect."""
        return False

    @property
    def knows_next(self) -> bool:
        """Nobody asks: what the sender does is known."""
        return False

    #: What its sender does is known by the first copies.
    judges_copies = False
    is_waiting = False

    def end_waiting(self, _now: Moment) -> Outcome:
        """No copy is waited for."""
        return self._advance()

    @property
    def is_chained(self) -> bool:
        """Whether it is known where the next FPDU begins."""
        return self.state is CHAIN

    @property
    def first_error(self) -> Breach | None:
        """The error by which a conforming receiver noticed, None if it did not."""
        doubt = self._diagnosis.doubt
        if doubt.code not in (2, 3):
            return None
        return Breach("deviating-sender", doubt.offset, doubt.frame, doubt.time, "")

    def conclusions(self, fpdus: int) -> list[Breach]:
        """The half connection is over, and had so many FPDUs: what its sender does wrong, and broke besides."""
        diagnosis = self._diagnosis
        doubt, candidate = diagnosis.doubt, diagnosis.candidate
        detail = f"{candidate.text}: explains {self._explained} of {fpdus} FPDUs"
        if self._has_other_origin:
            what = "the first octet of the FPDU" if self._agreed.origin == "header" else "ULPDU_Length"
            detail += f"; FPDUPTR counts from {what}"
        if diagnosis.others:
            detail += f"; {' or '.join(diagnosis.others)} would explain as many"
        place = doubt.offset, doubt.frame, doubt.time
        return [
            *diagnosis.opening,
            Breach("deviating-sender", *place, detail, doubt.code, candidate.deviations[0].topic),
        ]

    def count_cut(self) -> None:
        """Nothing more comes: the FPDU of which a part is there, if there is one, is cut by a gap."""
        self.cut += self.is_inside_fpdu

    @property
    def is_inside_fpdu(self) -> bool:
        """Whether a part of an FPDU is there."""
        return self.state is CHAIN and self.at < self._reassembly.next

    def take_over(self, _placed: Moment) -> bool:
        """There is no fast path to catch up with."""
        return False

    def work(self, _now: Moment, _new: list[tuple[int, int]]) -> Outcome:
        """Read the FPDUs that are complete in order."""
        return self._advance()

    def give_up(self, _now: Moment) -> Outcome:
        """Nothing more comes in order."""
        self.count_cut()
        return self._advance(is_last=True)

    def skip_gap(self, _now: Moment) -> Outcome:
        """Give up the octets between what is in order and the first range beyond the hole."""
        start = self._reassembly.beyond[0][0]
        self._reassembly.skip_to(start)
        self._lose(start)
        return self._advance()

    def drop(self, _now: Moment) -> Outcome:
        """Give up the octets in order."""
        self._lose(self._reassembly.next)
        return self._advance()

    def flush(self, _now: Moment) -> Outcome:
        """The half connection is over."""
        return self._advance(is_last=True)

    def take_rest(self, _now: Moment) -> Outcome | None:
        """Nothing was placed that the chain has not passed."""
        return None

    def withdraw(self, wrong: list[Segment], offset: int) -> None:
        """Forget what segments with a wrong TCP checksum brought; the real receiver dropped them."""
        for seg in wrong:
            self._breaches.append(Breach("tcp-checksum", offset, seg.frame, seg.time, DROPPED))
        self._reassembly.withdraw(wrong)

    # --- the chain ---

    def _advance(self, is_last: bool = False) -> Outcome:
        chain = self.state, self.at, self._due, self._before, self._bad
        explained = self._explained, self._has_other_origin
        while True:
            try:
                self._read_on(is_last)
                break
            except WithdrawnError:
                # The receiver dropped the segment as a whole: what else it brought is taken back.
                self.state, self.at, self._due, self._before, self._bad = chain
                self._explained, self._has_other_origin = explained
                self._next_try = 0
                self._fresh, self._breaches = [], [one for one in self._breaches if one.rule == "tcp-checksum"]
        self._reassembly.consume(min(self.at, self._reassembly.next))
        outcome = Outcome(sorted(self._fresh, key=offset_of), self._fresh, self._breaches)
        self._fresh, self._breaches = [], []
        return outcome

    def _read_on(self, is_last: bool) -> None:
        reassembly = self._reassembly
        if self.at < reassembly.base:
            self._lose(reassembly.base)
        while self.at < reassembly.next:
            if self.state is LOST and not self._find(is_last):
                break
            octets = reassembly.read(self.at, min(reassembly.next, self.at + LONGEST_FPDU))
            fpdu = read_fpdu(self._dialect, octets, self.at, self._due)
            if fpdu is None or (fpdu.end > reassembly.next and self._may_be_fpdu(fpdu)):
                break
            self._take(fpdu, octets[: fpdu.end - fpdu.offset])

    def _may_be_fpdu(self, fpdu: SpokenFPDU) -> bool:
        return 0 < fpdu.ulpdu_length <= MAX_ULPDU_LENGTH

    def _take(self, fpdu: SpokenFPDU, octets: bytes) -> None:
        """The next FPDU is complete, unless its length is none."""
        dialect = self._dialect
        by_crc = verified_by_crc(dialect)
        is_good = self._may_be_fpdu(fpdu) and (by_crc or ddp_header(fpdu, octets) is not None)
        if is_good and dialect.crc and dialect.crc_field:
            is_good = crc_agrees(dialect, fpdu, octets)
        if is_good:
            self._settle(fpdu, octets, GOOD if dialect.crc else UNCHECKED)
        elif wrong := self._reassembly.damaged(fpdu.offset, min(fpdu.end, self._reassembly.next)):
            self.withdraw(wrong, fpdu.offset)
            raise WithdrawnError
        elif self._bad is None and by_crc and self._may_be_fpdu(fpdu):
            self._settle(fpdu, octets, BAD)
        else:
            # Neither this one nor, if there is one, the one with the bad CRC before it says where the next one is.
            self._lose((self.at if self._bad is None else self._bad) + 1)

    def _lose(self, low: int) -> None:
        """It is not known any more where an FPDU begins; none that is still to be found begins before ``low``."""
        self.state, self.at, self._before, self._bad = LOST, low, None, None
        self._next_try = 0

    def _find(self, is_last: bool) -> bool:
        """Take up the first FPDU that is found behind ``at``."""
        reassembly, dialect = self._reassembly, self._dialect
        there = reassembly.next - self.at
        if there < self._next_try and not is_last:
            return False
        self._next_try = 2 * there
        octets = reassembly.read(self.at, reassembly.next)
        if not dialect.markers or dialect.period is not None:
            for match in PLAUSIBLE_HEADER.finditer(octets):
                place = self._place_of(self.at + match.start())
                if place is not None and self._begins_fpdu(*place):
                    self.state, (self.at, self._due) = CHAIN, place
                    return True
        if there > _MOST_SEARCHED or is_last:
            self._lose(reassembly.next if is_last else reassembly.next - LONGEST_FPDU)
        return False

    def _place_of(self, header: int) -> tuple[int, int] | None:
        """Offset of the FPDU whose ULPDU_Length is at ``header``, and octets before its next Marker."""
        dialect = self._dialect
        if not dialect.markers:
            return header, 0
        due = dialect.due_at(header)
        if due == dialect.between:
            return (header - MARKER_LENGTH, 0) if header - MARKER_LENGTH >= self.at else None
        return (header, due) if 0 < due < dialect.between else None

    def _begins_fpdu(self, offset: int, due: int) -> bool:
        found = Hypothesis(self._candidate, self._agreed, offset, due)
        fewest = 1 if verified_by_crc(self._dialect) else _FEWEST_IN_A_ROW
        found.explains(self._reassembly, self._reassembly.next, self._budget, fewest)
        return found.fpdus >= fewest and found.bits >= (0 if fewest == 1 else _FEWEST_BITS)

    def _settle(self, fpdu: SpokenFPDU, octets: bytes, crc: int) -> None:
        pieces = self._reassembly.pieces_of(fpdu.offset, fpdu.end)
        latest = max(pieces, key=lambda piece: piece.seg.frame)[3]
        complete = max((latest.frame, latest.time), self.floor)
        agreeing = self._check_markers(fpdu, octets, complete)
        is_named = agreeing > 0 and self._dialect.period is not None
        known = complete
        if fpdu.offset and self._before is not None and not is_named:
            known = max(complete, self._before)
        ulpdu = ulpdu_of(fpdu, octets, max(FIRST_ULPDU_OCTETS, TERMINATE_OCTETS))
        opcode = ulpdu[1] & 0x0F if len(ulpdu) > 1 else NO_OPCODE
        extent = Extent(fpdu.offset, fpdu.header, fpdu.ulpdu_length, fpdu.end, len(fpdu.markers))
        located_by = START if not fpdu.offset else MARKER if is_named else SCAN
        if fpdu.offset and self._before is not None and self._before[0] <= known[0]:
            located_by = LENGTH
        terminate = b""
        if crc == BAD:
            detail = f"FPDU with a ULPDU of {fpdu.ulpdu_length} octets: CRC mismatch"
            self._breaches.append(Breach("crc", fpdu.offset, *known, detail))
        elif opcode == TERMINATE_OPCODE:
            terminate = ulpdu[:TERMINATE_OCTETS]
        located = Located(
            fpdu.offset,
            extent,
            crc,
            frames_of(pieces),
            complete,
            known,
            opcode,
            is_named,
            octets=octets,
            beginning=ulpdu[:FIRST_ULPDU_OCTETS],
            terminate=terminate,
            located_by=located_by,
        )
        self._before = known if crc != BAD else None
        self._bad = fpdu.offset if crc == BAD else None
        self._explained += crc != BAD and agreeing == len(fpdu.markers)
        self._fresh.append(located)
        self.at, self._due = fpdu.end, fpdu.due

    def _check_markers(self, fpdu: SpokenFPDU, octets: bytes, complete: Moment) -> int:
        """How many Markers of an FPDU name its start; the first that does not is reported."""
        dialect, agreeing = self._dialect, 0
        for marker in fpdu.markers:
            said = fpduptr_at(dialect, fpdu, octets, marker)
            expected = right_fpduptr(fpdu, marker, dialect.origin)
            if marker_agrees(dialect, fpdu, octets, marker):
                agreeing += 1
                self._has_other_origin |= said != expected & ~3
            elif agreeing == fpdu.markers.index(marker):
                detail = f"Marker {marker - fpdu.offset} octets into the FPDU: FPDUPTR {said}, expected {expected}"
                self._breaches.append(Breach("marker-length", fpdu.offset, *complete, detail))
        return agreeing
