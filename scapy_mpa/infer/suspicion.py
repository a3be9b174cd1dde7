"""Half connections that do not fit: what is kept of them until it is known whether a deviating sender explains it.

A half connection is in doubt from its first error on, or, where neither CRCs nor Markers would show one, from its first
ULPDU that DDP would not send.  It is received as it was; beside that, its segments are kept from the first octet of
Full Operation, as far as these are at hand still.  Mostly no dialect explains them, which shows at once, and they are
let go of.  If one does, the half connection is received anew, by that dialect.
"""

from __future__ import annotations

from typing import Protocol

from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.profiles import Profile
from scapy_mpa.framing.role import Role as Direction
from scapy_mpa.framing.senders import Bases, candidates
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.infer.budget import DiagnosisBudget
from scapy_mpa.infer.deviating import DeviatingChain
from scapy_mpa.infer.diagnosis import Hypothesis
from scapy_mpa.infer.evidence import PLAUSIBLE_CONTROLS
from scapy_mpa.receive.context import ReceiverContext
from scapy_mpa.receive.located import Breach, Diagnosis, Doubt
from scapy_mpa.receive.reassembly import PIECE_WEIGHT, Reassembly
from scapy_mpa.receive.recovery import Recovery
from scapy_mpa.receive.scan import FPDUReader
from scapy_mpa.tcp.half import Half
from scapy_mpa.values.segment import Segment, checksum_is_wrong, detached, small_copy

#: Octets from the beginning of Full Operation that are looked at before a dialect is believed.
MOST_OCTETS = 256 << 10
#: Octets from the first of Full Operation in which something must not fit to be looked into.
BEGINNING = 16 << 10
#: Octets of memory that a segment takes which is kept, besides those it holds.
_SEGMENT_WEIGHT = 500
#: Segments that are kept though nothing of them was taken.
_MOST_REPEATS = 64
#: What raises the doubt whether a sender deviates, with the error code by which a conforming receiver reports it (RFC
#: 5044 §8); and what does where no CRC would.
_DOUBTFUL: dict[str, int | None] = {"crc": 2, "marker-length": 3}
_DOUBTFUL_WITHOUT_CRC = {
    "ulpdu-length-zero", "ulpdu-length-limit", "ddp-header", "ddp-opcode", "ddp-reserved", "ddp-version", "ddp-queue",
}  # fmt: skip
#: What the first octets break also for one who knows that the sender deviates, if it does so in Markers.
_OF_OPENING = {"marker-absent", "marker-unasked"}
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
        self._reassembly = Reassembly(origin, True)
        self._hypotheses: list[Hypothesis] | None = None
        self._are_pairs_tried = False
        #: How many FPDUs single deviations explained that do not explain all.
        self._explained: dict[str, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether no more is kept."""
        return self.held > 2 * self._most or self._reassembly.next >= self._most

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
            start = self._reassembly.offset_of(seg.seq)
            self._reassembly.commit(seg, start, start + seg.end - seg.start)

    def release(self) -> None:
        """The block of the capture goes: copy what lies in it."""
        copies: dict[int, Segment] = {}
        self._reassembly.release(copies)
        self.segments = [copies.get(id(seg)) or small_copy(seg, copies) for seg in self.segments]

    def is_hopeless(self, budget: DiagnosisBudget) -> bool:
        """Whether no dialect explains what has come so far."""
        reassembly = self._reassembly
        limit = min(reassembly.next, self._most)
        if limit <= 0 or not reassembly.pieces or reassembly.starts[0] > 0:
            return True  # the beginning is gone
        if self._hypotheses is None:
            self._hypotheses = [Hypothesis(one, self.agreed) for one in candidates(self.agreed, self.bases, 1)]
        hypotheses, self._hypotheses = self._hypotheses, []
        for one in hypotheses:
            if one.explains(reassembly, limit, budget):
                self._hypotheses.append(one)
            self._explained[one.candidate.name] = one.fpdus
        if not self._are_pairs_tried and all(one.is_contradicted for one in self._hypotheses):
            # Only where one deviation does not explain all: two always can where one does.
            self._are_pairs_tried = True
            pairs = (Hypothesis(pair, self.agreed) for pair in candidates(self.agreed, self.bases, 2))
            self._hypotheses += [pair for pair in pairs if pair.explains(reassembly, limit, budget)]
        return not self._hypotheses

    def _adds_something(self, pair: Hypothesis) -> bool:
        """Whether a second deviation explains an FPDU that the first alone does not."""
        names = [deviation.name for deviation in pair.candidate.deviations]
        return len(names) < 2 or all(self._explained.get(name, 0) < pair.fpdus for name in names)

    def diagnosis(self, opening: tuple[Breach, ...]) -> Diagnosis | None:
        """What is believed now: what needs the fewest deviations; ``opening`` is what the first octets broke."""
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
        has_other_markers = best.candidate.dialect.markers != self.agreed.markers
        return Diagnosis(best.candidate, self.doubt, others, opening if has_other_markers else ())


class SuspectedConnection(Protocol):
    """The MPA connection that a half connection belongs to."""

    @property
    def profile(self) -> Profile:
        """The specification that it follows."""

    def startup_length(self, direction: Direction) -> int | None:
        """Octets of the startup frame of a direction, None if that was not captured."""


class SuspectedHalf(Protocol):
    """A half connection whose sender may deviate."""

    half: Half
    context: ReceiverContext
    direction: Direction

    @property
    def mpa(self) -> SuspectedConnection:
        """The MPA connection."""

    @property
    def chain(self) -> Recovery | DeviatingChain:
        """Where its FPDUs are."""


def _bases(owner: SuspectedHalf, first: int) -> Bases:
    """From where else than the first octet of Full Operation, ``first``, a sender may count Markers."""
    origin = owner.half.origin
    # The SYN has the number before that of the first octet.
    behind_syn = (first - origin + 1) & SEQ_MASK if origin is not None else None
    return Bases(behind_syn, owner.mpa.startup_length(owner.direction))


class Inquiry:
    """Whether the sender of one half connection deviates: what is kept of its beginning, and the doubt.

    Args:
        owner: the half connection.
        reader: reads single FPDUs of its octets.
        is_open: whether the first thing that does not fit is looked into.
        may_look_again: whether segments may be received anew; if not, a doubt is only reported to the context.

    Attributes:
        repeats: segments of which nothing was taken; where another one is dropped they may bring its octets.
        beginning: segments that have been let go of otherwise.
        kept_until: the frame of the last of them.
        is_open: whether the first thing that does not fit is looked into.
    """

    __slots__ = (
        "_context",
        "_diagnosed",
        "_doubt",
        "_may_look_again",
        "_opening",
        "_owner",
        "_reader",
        "_reassembly",
        "_suspicion",
        "beginning",
        "half",
        "is_open",
        "kept_until",
        "repeats",
    )

    def __init__(self, owner: SuspectedHalf, reader: FPDUReader, is_open: bool, may_look_again: bool) -> None:
        self.half = owner.half
        self._owner = owner
        self._reader = reader
        self._reassembly = reader.reassembly
        self._context = owner.context
        self.is_open = is_open
        self._may_look_again = may_look_again
        self._opening: tuple[Breach, ...] = ()
        self._doubt: Doubt | None = None
        self._suspicion: Suspicion | None = None
        self._diagnosed: tuple[Diagnosis, Suspicion] | None = None
        self.repeats: list[Segment] = []
        self.beginning: list[Segment] = []
        self.kept_until = 0

    @property
    def _agreed(self) -> Dialect:
        """How FPDUs were to lie."""
        layout = self._reader.layout
        return Dialect(layout.markers, layout.crc, self._owner.mpa.profile.fpduptr_origin)

    @property
    def is_in_doubt(self) -> bool:
        """Whether something did not fit, and it is not known yet whether a deviation explains it."""
        return self._doubt is not None

    @property
    def weight(self) -> int:
        """Octets of memory that is kept because of a doubt."""
        return self._suspicion.held if self._suspicion is not None else 0

    def notice(self, breach: Breach) -> None:
        """A rule was broken: that may be the first sign."""
        rule = breach.rule
        if rule in _OF_OPENING:
            self._opening += (breach,)
        if self.is_open and (rule in _DOUBTFUL or (not self._reader.layout.crc and rule in _DOUBTFUL_WITHOUT_CRC)):
            self._be_in_doubt(Doubt(breach.offset, breach.frame, breach.time, _DOUBTFUL.get(rule)))

    def _be_in_doubt(self, doubt: Doubt) -> None:
        """Something does not fit, for the first time: it is looked into when the block of the capture goes."""
        if self.is_open and doubt.offset < BEGINNING:
            self.is_open = False
            if self._may_look_again:
                self._doubt = doubt
            else:
                self._context.leave_doubt()

    def see_repeat(self, seg: Segment) -> None:
        """A segment came of which nothing was taken."""
        is_wanted = self._may_look_again and (self.is_open or self._doubt is not None)
        if is_wanted and len(self.repeats) < _MOST_REPEATS and not checksum_is_wrong(seg):
            self.repeats.append(detached(seg))

    def release(self) -> bool:
        """The block of the capture goes: keep what is let go of, as long as it may be read again.

        True if there is a doubt to be looked into.
        """
        if self.is_open:
            self._keep()
        return self._doubt is not None

    def _keep(self) -> None:
        reassembly = self._reassembly
        if not self._reader.layout.crc:
            self._look_at_part()
        if self._doubt is not None or not reassembly.consumed:
            return
        last, budget = reassembly.consumed[-1].frame, self._context.diagnosis
        if not self._may_look_again:
            self.is_open = self.is_open and reassembly.base < BEGINNING
            return
        weight = sum([seg.end - seg.start + _SEGMENT_WEIGHT for seg in reassembly.consumed])
        if reassembly.base < BEGINNING and budget.take_room(self, weight, last):
            self.kept_until = last
            self.beginning += map(detached, reassembly.consumed)
        else:
            self.keep_no_longer()

    def keep_no_longer(self) -> None:
        """What does not fit from now on is not looked into."""
        self.is_open = False
        self.forget_beginning()

    def forget_beginning(self) -> None:
        """Nothing is read again, or all that may be has been handed on."""
        self.repeats = []
        if self.beginning:
            self.beginning = []
            self._context.diagnosis.give_room(self)

    def _look_at_part(self) -> None:
        """Look at the FPDU of which a part is there, where no CRC will tell what it is."""
        reassembly = self._reassembly
        if not self._reader.layout.crc and reassembly.base < reassembly.next and self._owner.chain.knows_next:
            extent = self._reader.extent(reassembly.base, reassembly.next)
            control = self._reader.control(extent) if extent is not None else b""
            if len(control) == 2 and (control[0] << 8 | control[1]) not in PLAUSIBLE_CONTROLS:
                latest = reassembly.pieces_of(reassembly.base, reassembly.base + 1)[0].seg
                self._be_in_doubt(Doubt(reassembly.base, latest.frame, latest.time, None))

    def look_into(self, at_end: bool) -> bool:
        """Look at what came of a half connection in doubt; True if its sender deviates.

        ``at_end`` says that nothing more comes.
        """
        suspicion, context, reassembly = self._suspicion, self._context, self._reassembly
        if suspicion is None:
            assert self._doubt is not None
            most = context.limits.held_octets
            suspicion = Suspicion(
                self._doubt, reassembly.origin, self._agreed, _bases(self._owner, reassembly.origin), most
            )
            self._suspicion = suspicion
        held = (piece.seg for piece in reassembly.pieces)
        known = (*self.beginning, *self.repeats, *reassembly.previously_consumed, *reassembly.consumed, *held)
        at_hand = {seg.frame: seg for seg in known}
        suspicion.take([at_hand[frame] for frame in sorted(at_hand)])
        self.forget_beginning()
        context.diagnosis.earn(max(at_hand, default=0))
        is_hopeless = suspicion.is_hopeless(context.diagnosis)
        if not is_hopeless and not at_end and not suspicion.is_full:
            suspicion.release()
            return False
        self._doubt = self._suspicion = None
        diagnosis = suspicion.diagnosis(self._opening) if not is_hopeless else None
        if diagnosis is not None:
            self._diagnosed = diagnosis, suspicion
        return diagnosis is not None

    def take_diagnosis(self) -> tuple[Diagnosis, Suspicion] | None:
        """What the sender does wrong, with the segments to be read anew; once, None if that is not known."""
        diagnosed, self._diagnosed = self._diagnosed, None
        return diagnosed

    def finish(self) -> None:
        """The half connection is over: look into what does not fit, be it an FPDU that is not complete."""
        if self.is_open:
            self._look_at_part()
            chain = self._owner.chain
            if chain.is_inside_fpdu and self.half.closed is not None:
                self._be_in_doubt(Doubt(chain.at, *self.half.closed[1], None))
        if self._doubt is not None:
            self.look_into(at_end=True)

    def give_up(self) -> bool:
        """Too much is held back in all: give up what is kept because of a doubt; False if nothing is."""
        if self._suspicion is None:
            return False
        self._suspicion = self._doubt = None
        return True
