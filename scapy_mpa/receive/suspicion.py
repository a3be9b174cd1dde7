"""Half connections that do not fit: what is kept of them until it is known whether a deviating sender explains it.

A half connection is in doubt from its first error on, or, where neither CRCs nor Markers would show one, from its first
ULPDU that DDP would not send.  It is received as it was; beside that, its segments are kept from the first octet of
Full Operation, as far as these are at hand still.  Mostly no dialect explains them, which shows at once, and they are
let go of.  If one does, the half connection is received anew, by that dialect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.senders import Bases, candidates
from scapy_mpa.receive.context import DiagnosisBudget
from scapy_mpa.receive.diagnosis import Diagnosis, Hypothesis
from scapy_mpa.receive.located import Doubt
from scapy_mpa.receive.reassembly import PIECE_WEIGHT, Reassembly
from scapy_mpa.receive.segment import SEQ_MASK, Segment, checksum_is_wrong, small_copy

if TYPE_CHECKING:
    from scapy_mpa.receive.operation import FullOperation

#: Octets from the beginning of Full Operation that are looked at before a dialect is believed.
MOST_OCTETS = 256 << 10
#: Of two dialects that explain the same FPDUs one is the likelier if what it finds is worth so many bits more.
_CLEARLY_LESS = 24


class Suspicion:
    """What is kept of a half connection in doubt: its segments from the first octet on, and the hypotheses left."""

    def __init__(self, doubt: Doubt, origin: int, agreed: Dialect, bases: Bases, most: int = MOST_OCTETS) -> None:
        self.doubt = doubt
        self.agreed = agreed
        self.bases = bases
        self.segments: list[Segment] = []
        #: Those of the present block of the capture for which there was no room.
        self.left: list[Segment] = []
        self.held = 0
        self._most = min(most, MOST_OCTETS)
        self._frames: set[int] = set()
        self._stream = Reassembly(origin, True)
        self._hypotheses: list[Hypothesis] | None = None
        self._are_pairs_tried = False
        #: How many FPDUs single deviations explained that do not explain all.
        self._explained: dict[str, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether no more is kept."""
        return self.held > 2 * self._most or self._stream.next >= self._most

    def take(self, segments: list[Segment]) -> None:
        """Keep segments; those of frames that have been taken are left out."""
        for seg in segments:
            if seg.frame in self._frames:
                continue
            if self.is_full:
                self.left.append(seg)
                continue
            self._frames.add(seg.frame)
            self.segments.append(seg)
            self.held += seg.end - seg.start + PIECE_WEIGHT
            if checksum_is_wrong(seg):
                continue  # its receiver dropped it
            start = self._stream.offset_of(seg.seq)
            self._stream.commit(seg, start, start + seg.end - seg.start)

    def release(self) -> None:
        """The block of the capture goes: copy what lies in it."""
        copies: dict[int, Segment] = {}
        self._stream.release(copies)
        self.segments = [copies.get(id(seg)) or small_copy(seg, copies) for seg in self.segments]

    def is_hopeless(self, budget: DiagnosisBudget) -> bool:
        """Whether no dialect explains what has come so far."""
        stream = self._stream
        limit = min(stream.next, self._most)
        if limit <= 0 or not stream.pieces or stream.starts[0] > 0:
            return True  # the beginning is gone
        if self._hypotheses is None:
            self._hypotheses = [Hypothesis(one, self.agreed) for one in candidates(self.agreed, self.bases, 1)]
        hypotheses, self._hypotheses = self._hypotheses, []
        for one in hypotheses:
            if one.explains(stream, limit, budget):
                self._hypotheses.append(one)
            self._explained[one.candidate.name] = one.fpdus
        if not self._are_pairs_tried and all(one.is_contradicted for one in self._hypotheses):
            # Only where one deviation does not explain all: two always can where one does.
            self._are_pairs_tried = True
            pairs = (Hypothesis(pair, self.agreed) for pair in candidates(self.agreed, self.bases, 2))
            self._hypotheses += [pair for pair in pairs if pair.explains(stream, limit, budget)]
        return not self._hypotheses

    def _adds_something(self, pair: Hypothesis) -> bool:
        """Whether a second deviation explains an FPDU that the first alone does not."""
        names = [deviation.name for deviation in pair.candidate.deviations]
        return len(names) < 2 or all(self._explained.get(name, 0) < pair.fpdus for name in names)

    def diagnosis(self) -> Diagnosis | None:
        """What is believed now: what needs the fewest deviations."""
        left = [one for one in self._hypotheses or [] if self._adds_something(one)]
        left = [one for one in left if not one.is_contradicted] or left
        fewest = min((len(one.candidate.deviations) for one in left), default=0)
        # One deviation that explains everything is the likelier, even if too little came to believe it.
        left = [one for one in left if len(one.candidate.deviations) == fewest and one.is_believable]
        if not left:
            return None
        best = max(left, key=lambda one: (one.fpdus, one.bits))
        as_good = (one for one in left if one.fpdus == best.fpdus and one.bits > best.bits - _CLEARLY_LESS)
        others = tuple(one.candidate.name for one in as_good if one is not best)
        return Diagnosis(best.candidate, self.doubt, others)


def look_into(operation: FullOperation, at_end: bool) -> tuple[Diagnosis, Suspicion] | None:
    """Look at what came of a half connection in doubt; what its sender does wrong, and what was kept, if it deviates.

    ``at_end`` says that nothing more comes.
    """
    suspicion, context = operation.suspicion, operation.context
    if suspicion is None:
        assert operation.doubt is not None
        suspicion = operation.suspicion = _begin(operation, operation.doubt, context.limits.held_octets)
    stream = operation.reassembly
    held = (piece[3] for piece in stream.pieces)
    at_hand = {seg.frame: seg for seg in (*operation.beginning, *stream.previously_consumed, *stream.consumed, *held)}
    suspicion.take([at_hand[frame] for frame in sorted(at_hand)])
    operation.forget_beginning()
    context.diagnosis.earn(max(at_hand, default=0))
    diagnosis = None
    is_hopeless = suspicion.is_hopeless(context.diagnosis)
    if not is_hopeless and not at_end and not suspicion.is_full:
        suspicion.release()
        return None
    operation.doubt = operation.suspicion = None
    diagnosis = suspicion.diagnosis() if not is_hopeless else None
    if diagnosis is None:
        return None
    return diagnosis, suspicion


def _begin(operation: FullOperation, doubt: Doubt, most: int) -> Suspicion:
    mpa, seq_start = operation.mpa, operation.reassembly.origin
    origin = operation.half.origin
    bases = Bases(
        # The SYN has the number before that of the first octet.
        (seq_start - origin + 1) & SEQ_MASK if origin is not None else None,
        mpa.startup_length(operation.direction),
    )
    agreed = Dialect(operation.markers, operation.crc, mpa.profile.fpduptr_origin)
    return Suspicion(doubt, seq_start, agreed, bases, most)
