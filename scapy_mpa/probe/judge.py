"""The verdict on what a peer did: a table of what a case expects against what was seen.

What a conforming peer does about each case is said by the catalogue as a reaction (``catalogue.peer``), and what else
it may do by ``expectations``.  `observe` finds the one thing that a peer did which decides a case; ``TABLE`` has a
verdict for each reaction and observation; `_untested` and `_excused` say where that proves nothing, or is left open:

* Whether a rejection closes TCP is left open (RFC 5044 §7.1.2 rule 3, §7.1.4.2).
* A bad FPDU may be dropped without a word (§8): TCP's acknowledgement tells that from octets that were taken.
* After code 2 and 3 closing is the ULP's, with or without a last message (§8); no clause says when.  Of what DDP finds
  a Terminate SHOULD tell (RFC 5041 §7.1), of what RDMAP finds one has to (RFC 5040 §7.1).
* After an error of MPA or DDP nothing more is passed on (RFC 5044 §8, RFC 5041 §7.1): an RDMA Read that follows shows
  whether the peer has noticed it.
* Tagged buffers and Reads name memory that the peer may not have: it may end the stream for that.
* An end that the same connection without the change has too proves nothing: such a case could not be tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from scapy_mpa.catalogue.case import Case
from scapy_mpa.catalogue.peer import Reaction
from scapy_mpa.framing.ddp import Terminate, error_meaning, other_reading
from scapy_mpa.framing.startup import KEY_LENGTH, REPLY_KEY, REQUEST_KEY
from scapy_mpa.probe.case import BINDING, ProbeCase
from scapy_mpa.probe.expectations import Choice, choices, expectation_of
from scapy_mpa.probe.seen import SeenPeer
from scapy_mpa.tuples import NamedTuple

Verdict: TypeAlias = Literal["pass", "fail", "allowed", "unsupported", "no answer", "peer gone"]
VERDICTS: tuple[Verdict, ...] = ("pass", "allowed", "unsupported", "fail", "no answer", "peer gone")
#: What counts against a peer.
BAD: frozenset[Verdict] = frozenset(("fail", "no answer", "peer gone"))

#: What decides a case: the first of these that was seen.
Observation: TypeAlias = Literal[
    # No startup frame where one is owed: it came too late, nothing came, the connection ended.
    "late", "mute", "shut",
    # An Initiator that sends no FPDU, so that none may be sent to it; octets that are not valid.
    "quiet", "invalid",
    # A Reply, FPDUs, or a Response that should not be; a Reply with R.
    "replied", "spoke", "answered", "rejected",
    # A Terminate: as expected, with other words for it, that says less, for lack of memory, any other one.
    "terminated", "same", "less", "memory", "terminate",
    # An answer to the RDMA Read that follows an error, so that the peer has not noticed it.
    "passed",
    # The end of the connection; a Read that is not answered; octets that TCP does not acknowledge; nothing.
    "closed", "unanswered", "dropped", "open",
]  # fmt: skip

#: What a peer says of memory that it does not have, or has no room in: layer and type of a Terminate (RFC 5040 §4.8,
#: RFC 5041 §7.2), with the codes that mean it.
_OF_TAGGED = {(1, 1): (0, 1, 2), (0, 1): (0, 1, 2, 3, 9)}
_OF_REQUESTS = {(0, 1): (0, 1, 2, 3, 4), (1, 1): (0, 1, 2)}
_OF_QUEUES = {(1, 2): (2,)}
_OF_SENDS = {(1, 2): (2, 5)}
#: Numbers for one error: RDMAP or DDP reports it, or two of their checks find it.
_ALIKE = (
    {(0, 1, 0), (0, 1, 3), (1, 1, 0), (1, 1, 2)},
    {(0, 1, 1), (0, 1, 4), (1, 1, 1), (1, 1, 3)},
)
#: A Terminate that leaves open which error it was: unspecified, or catastrophic.
_LESS = {(0, 0), (1, 0)}
_LESS_CODES = {(0, 1, 0xFF), (0, 2, 0xFF), (0, 2, 7), (0, 2, 8)}
#: RDMAP's remote operation error "unexpected opcode".
_UNEXPECTED_OPCODE = (0, 2, 6)
_DDP, _MPA, _CRC = 1, 2, 2
_LEFT_TO_ULP = (2, 3)
#: Rules by which nothing may be done yet.
_OF_DELIVERY = {"receiver-delivery", "receiver-whole-fpdu"}
#: Who sends which startup frame.
_STARTUP = "RFC 5044 §7.1.2"
#: Where DDP SHOULD let the ULP say why the stream ends.
_OF_DDP = "RFC 5041 §7.1"


class Differs(NamedTuple):
    """The first octet that is not as it should be, and the octets from there."""

    offset: int
    expected: bytes
    seen: bytes


class Fault(NamedTuple):
    """Something that is wrong beside what a case is about: the rule that it breaks, a sentence, the clause."""

    rule: str
    reason: str
    clause: str
    differs: Differs | None = None


@dataclass(frozen=True)
class ProbeJudgement:
    """What became of a case.

    ``deviations`` and ``counted`` are filled in by the run (``deviations.Deviations``).

    Attributes:
        verdict: see ``VERDICTS``.
        reason: a phrase, "" for what needs none.
        clause: that is broken, in place of the case's.
        rule: that is broken, in place of the case's.
        differs: the first octet that is not as it should be.
        lacks_buffer: the peer lacks the memory that the case is about.
        is_of_case: it is about what the case is about, so that its clause is broken where none is named.
        saw: the observation that decided, and the numbers of a Terminate: what distinguishes a deviation.
        faults: what else is wrong in the connection.
        deviations: names of all deviations that the connection shows, and those of them that count here.
    """

    verdict: Verdict
    reason: str = ""
    clause: str = ""
    rule: str = ""
    differs: Differs | None = None
    lacks_buffer: bool = False
    is_of_case: bool = True
    saw: str = ""
    faults: tuple[Fault, ...] = ()
    deviations: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()


class Spoken(NamedTuple):
    """What our side of a case speaks of, beside what it is about."""

    tagged: bool = False
    #: RDMA Reads or Atomic Operations; those that name octets.
    asks: bool = False
    requests: bool = False
    sends: bool = False
    terminate: bool = False
    #: It begins with streaming data, or with Rev 0.
    streaming: bool = False
    rev_0: bool = False
    #: Its first FPDU is valid, so that a Responder may say why it ends the stream.
    is_heard: bool = False
    #: It is about a rejection; it has Private Data of its own.
    rejection: bool = False
    private_data: bool = False
    #: IRD and ORD that the clean connections do not have.
    depths: bool = False
    #: The peer closes on any, however little.
    refused_data: bool = False
    #: Every implementation of RFC 5044 answers such a Request.
    is_basic: bool = False
    #: It speaks as rping does.
    rping: bool = False


def expected_words(case: Case) -> str:
    """Return in a phrase what a conforming peer does."""
    peer = case.peer
    may = [words for choice, words in _CHOICES.items() if choice in choices(case)]
    said = _REACTIONS.get(peer.reaction, "")
    if peer.reaction == "terminate":
        said = f"Terminate: {error_meaning(peer.layer, peer.etype, peer.code)}"
    return f"{said}; also allowed: {', '.join(may)}" if may else said


_REACTIONS = {
    "accept": "continues",
    "ignore": "continues",
    "discard": "continues",
    "wait": "waits, or closes after a while",
    "lose": "ends the connection",
    "stop": "ends the connection, without an FPDU",
    "close": "closes at once, without a Reply or an FPDU",
    "reject": "a Reply with R",
}
_CHOICES: dict[Choice, str] = {
    "accept": "continues",
    "close": "closes",
    "terminate": "any Terminate",
    "silence": "sends nothing",
}


def seen_words(seen: SeenPeer) -> str:
    """What was seen, in a phrase."""
    said: list[str] = []
    if seen.frame is not None:
        frame = seen.frame
        bits = "".join(name for name in "MCRS" if getattr(frame, name.lower()))
        said.append(f"{frame.kind.capitalize()} Rev {frame.rev}{f' {bits}' if bits else ''}")
    terminate = seen.terminate
    others = (seen.count or len(seen.fpdus)) - (terminate is not None)
    if others:
        said.append(f"{others} FPDU{'s' * (others != 1)}")
    if terminate is not None:
        layout = " in the layout of siw" if terminate.layout == "siw" else ""
        said.append(f"Terminate{layout}: {terminate.meaning}")
    if seen.error is not None:
        said.append(f"octets that are not valid ({seen.error.rule or seen.error.detail})")
    if seen.end is not None:
        said.append(f"{'closed' if seen.end == 'fin' else 'reset'} after {seen.end_after:.3f} s")
    elif terminate is None:
        silence = "open" if said else "silence"
        taken = f", {seen.unacknowledged} octets not acknowledged" if seen.unacknowledged else ""
        said.append(f"{silence} for {seen.seconds:.3f} s{taken}")
    if seen.untaken:
        said.append(f"stopped reading: {seen.untaken} octets could not be sent")
    return ", ".join(said)


class _Cell(NamedTuple):
    """What an observation means where a reaction is expected; ``{how}`` and the like are filled in.

    ``leeway``: why it counts only with --strict, "" if it always does.
    """

    verdict: Verdict
    reason: str = ""
    clause: str = ""
    leeway: str = ""


_PASS = _Cell("pass")
_UNCHECKED = _Cell("fail", "the peer accepts an FPDU whose CRC does not match: {meaning}", "RFC 5044 §4.4")
_COMMON: dict[Observation, _Cell] = {
    "late": _Cell("no answer", "{frame} came too late: in {seconds}", _STARTUP),
    "mute": _Cell("no answer", "{frame} is missing", _STARTUP),
    "shut": _Cell("fail", "the peer {how} instead of sending {frame}", _STARTUP),
    "quiet": _Cell("unsupported", "the peer sends no FPDU, so none may be sent to it (RFC 5044 §7.1.2, rule 4)"),
    "invalid": _Cell("fail", "what the peer sends is not valid: {error}"),
}
_ENDS_STREAM = _Cell("fail", "the peer ends the stream with a Terminate: {meaning}")
_LACKS = _Cell("allowed", "the peer does not have the memory that the case uses: {meaning}")
_ANSWERED = _Cell("fail", "the peer does what it is asked, but must refuse")
_NO_END = _Cell("no answer", "no Terminate and no close followed")
_NO_MOMENT = _NO_END._replace(leeway="no clause says when the connection is closed")
_PASSED = _Cell("fail", "the peer answers a later RDMA Read: it has not noticed the error")
_ANOTHER = _Cell("fail", "another Terminate: {meaning}", "RFC 5040 §4.8")
_DROPPED = _Cell("allowed", "the peer's TCP does not acknowledge it: dropped silently (RFC 5044 §8)")
_ACCEPT: dict[Observation, _Cell] = {
    **_COMMON,
    "rejected": _Cell("fail", "the peer rejects the connection (R in its Reply)"),
    "memory": _LACKS,
    **dict.fromkeys(("terminated", "same", "less", "terminate"), _ENDS_STREAM),
    "closed": _Cell("fail", "the peer {how}"),
    "unanswered": _Cell("no answer", "the peer no longer answers an RDMA Read"),
    **dict.fromkeys(("dropped", "open"), _PASS),
}
_CLOSE: dict[Observation, _Cell] = {
    **_COMMON,
    "replied": _Cell("fail", "the peer answers a Request that is not valid"),
    "spoke": _Cell("fail", "the peer sends an FPDU in answer to a startup frame that is not valid"),
    "rejected": _Cell("fail", "the peer rejects the connection, and does not close it"),
    "closed": _PASS,
    **dict.fromkeys(("dropped", "open"), _Cell("no answer", "the peer does not close")),
}
#: The verdict on each observation, by what a conforming peer does.
TABLE: dict[Reaction, dict[Observation, _Cell]] = {
    "accept": _ACCEPT,
    "ignore": _ACCEPT,
    "discard": {**_ACCEPT, "closed": _Cell("allowed", "the peer {how}: its TCP accepted what it should have dropped")},
    "wait": {
        **_ACCEPT,
        "replied": _Cell("fail", "the peer answers an incomplete Request", _STARTUP),
        "answered": _Cell("fail", "the peer answers an RDMA Read before the preceding message has arrived"),
        "closed": _Cell("allowed", "the peer {how}, which is allowed"),
    },
    "lose": {
        **_ACCEPT,
        **dict.fromkeys(
            ("terminated", "same", "less", "memory", "terminate"), _Cell("allowed", "the peer says why it ends it")
        ),
        "closed": _PASS,
        **dict.fromkeys(("dropped", "open"), _Cell("allowed", "no clause says when the connection is closed")),
    },
    "stop": {
        **_COMMON,
        "rejected": _ACCEPT["rejected"],
        **dict.fromkeys(("terminated", "same", "less"), _PASS),
        **dict.fromkeys(("memory", "terminate"), _UNCHECKED),
        "passed": _PASSED,
        "closed": _PASS,
        "dropped": _DROPPED,
        "open": _NO_MOMENT,
    },
    "terminate": {
        **_COMMON,
        "rejected": _ACCEPT["rejected"],
        "answered": _ANSWERED,
        "terminated": _PASS,
        "same": _Cell("allowed", "Terminate: {meaning}, which says the same"),
        "less": _Cell("allowed", "Terminate: {meaning}, which leaves open what the error was"),
        "memory": _LACKS,
        "terminate": _ANOTHER,
        "passed": _PASSED,
        "closed": _Cell("fail", "the peer {how} without a Terminate", "RFC 5040 §7.1"),
        "dropped": _DROPPED,
        "open": _NO_END,
    },
    "close": _CLOSE,
    "reject": {
        **_COMMON,
        "replied": _Cell("allowed", "the peer accepts the Private Data, which is for its ULP to decide"),
        "rejected": _PASS,
    },
}
#: What a peer has chosen that does this in place of its reaction, and what is said then.
_CHOSEN: dict[Observation, tuple[Choice, ...]] = {
    "shut": ("close",), "rejected": ("close",), "closed": ("close",), "mute": ("silence",),
    "unanswered": ("silence",), "open": ("silence", "accept"), "dropped": ("silence", "accept"),
    "replied": ("accept",), "spoke": ("accept",), "answered": ("accept",), "passed": ("accept", "silence"),
    **dict.fromkeys(("terminated", "same", "less", "memory", "terminate"), ("terminate",)),
}  # fmt: skip
_IS_ALLOWED: dict[Choice, str] = {
    "accept": "the peer accepts it, which is allowed",
    "close": "the peer {how}, which is allowed",
    "terminate": "Terminate: {meaning}, where any is allowed",
    "silence": "the peer sends nothing, which is allowed",
}
_OPEN_ENDED = frozenset(("accept", "ignore", "discard"))


class Judge:
    """Judges one case.

    Args:
        case: what was given.
        seen: what came.
        said: what of ours the peer may not be able to take.
        control: what came of the same connection without anything wrong; None if there is none.
        spoken: what came of one on which a Send is said, which nobody may expect; None if there is none.
        is_unanswered: an RDMA Read of ours, by which the peer shows that it is in step, was not answered.
    """

    def __init__(
        self,
        case: ProbeCase,
        seen: SeenPeer,
        said: Spoken,
        control: SeenPeer | None = None,
        spoken: SeenPeer | None = None,
        *,
        is_unanswered: bool = False,
    ) -> None:
        self._case = case
        self._peer = case.case.peer
        self._seen = seen
        self._said = said
        self._control = control
        self._spoken = spoken
        self._is_unanswered = is_unanswered
        self._may, self._same = choices(case.case), expectation_of(case.name).same
        self._terminate = self._read_terminate()

    def judgement(self, *, strict: bool = False) -> ProbeJudgement:
        """The verdict; ``strict``: what SHOULD be counts as what MUST be."""
        seen = self._seen
        if seen.unsupported and not (seen.frame is not None and seen.frame.r and not self._said.rejection):
            return ProbeJudgement("unsupported", seen.unsupported)
        if self._said.rev_0 and (seen.frame.rev if seen.frame is not None else seen.end is not None):
            return ProbeJudgement("unsupported", "the peer does not speak Rev 0")
        found = self._found("rejected" if seen.unsupported else self.observe(), strict=strict)
        if seen.untaken and found.verdict in ("pass", "allowed") and seen.end is None and seen.terminate is None:
            return ProbeJudgement("no answer", "the peer has stopped reading", is_of_case=False, saw="untaken")
        word = self._case.requirement
        is_of_case = found.is_of_case and not found.clause
        # What a sender MAY do has to be taken (RFC 2119 §5).
        is_binding = word in BINDING or (word == "MAY" and self._peer.reaction in _OPEN_ENDED)
        if found.verdict in BAD and is_of_case and word and not is_binding and not strict:
            return ProbeJudgement("allowed", f"{found.reason} ({word})", differs=found.differs, faults=found.faults)
        return found

    # --- what was seen ---

    def observe(self) -> Observation:
        """Return the first thing that decides the case."""
        seen, reaction = self._seen, self._peer.reaction
        is_initiator = self._case.reach.role == "initiator"
        if self._lacks_startup:
            return "shut" if seen.end is not None else "late" if seen.frame is not None else "mute"
        if seen.waits_for == "fpdu" and reaction != "close" and not self._ends_for_the_reply:
            return "quiet"
        if reaction in ("close", "reject", "wait") and (found := self._startup_frame(is_initiator)) is not None:
            return found
        is_refused = reaction == "terminate" and self._case.area == "ddp" and self._said.asks
        if (is_refused and seen.has_answered) or (self._is_of_delivery and seen.responses):
            return "answered"
        if self._terminate is not None:
            return self._kind_of(self._terminate)
        if seen.has_echoed and self._case.is_watched:
            return "passed"
        if seen.error is not None and reaction != "close":
            return "invalid"
        if seen.frame is not None and seen.frame.r and not self._said.rejection and reaction != "close":
            return "rejected"
        if seen.end is not None and not (reaction in _OPEN_ENDED and self._is_over_rightly):
            return "closed"
        if self._is_unanswered and not seen.is_cut and seen.end is None and reaction in _OPEN_ENDED:
            return "unanswered"
        return "dropped" if seen.unacknowledged else "open"

    @property
    def _lacks_startup(self) -> bool:
        """Whether the peer owes a startup frame that is not there."""
        seen, reaction = self._seen, self._peer.reaction
        if seen.waits_for == "startup":
            return reaction != "close" or self._case.reach.role == "initiator"
        is_owed = reaction == "reject" or (reaction in ("accept", "ignore") and self._is_negotiated)
        return is_owed and seen.frame is None and seen.error is None

    @property
    def _ends_for_the_reply(self) -> bool:
        """Whether an Initiator ends it before its first FPDU for a Reply that lets it do so."""
        is_of_reply = self._case.area in ("startup", "negotiation") and self._case.reach.role == "initiator"
        return self._seen.end is not None and is_of_reply and "close" in self._may

    def _startup_frame(self, is_initiator: bool) -> Observation | None:
        """What the peer did in the startup, where that decides; None if nothing did."""
        seen, reaction = self._seen, self._peer.reaction
        if reaction == "wait" and self._case.begins_full_operation:
            return None
        if seen.fpdus and reaction == "close":
            return "spoke"
        if seen.error is not None and reaction != "close":
            return "invalid"
        if is_initiator or seen.frame is None:
            return None
        if not seen.frame.r or reaction == "wait":
            return "replied"
        return "rejected" if reaction == "reject" or seen.end is None else None

    @property
    def _is_of_delivery(self) -> bool:
        return self._peer.reaction == "wait" and bool(_OF_DELIVERY & {*self._case.case.tests})

    def _read_terminate(self) -> Terminate | None:
        """The peer's Terminate, read in the layout in which it is the expected one."""
        said = self._seen.terminate
        other = other_reading(said) if said is not None else None
        if other is not None and self._numbers(other) == self._expected:
            return other
        return said

    @property
    def _expected(self) -> tuple[int, int, int]:
        return self._peer.layer, self._peer.etype, self._peer.code

    @staticmethod
    def _numbers(terminate: Terminate) -> tuple[int, int, int]:
        return terminate.layer, terminate.etype, terminate.code

    def _kind_of(self, terminate: Terminate) -> Observation:
        numbers = self._numbers(terminate)
        if self._peer.reaction == "stop":
            return "terminated" if terminate.layer == _MPA or self._case.reach.role == "initiator" else "terminate"
        if self._peer.reaction == "terminate":
            if numbers == self._expected:
                return "terminated"
            if any(numbers in alike and self._expected in alike for alike in _ALIKE) or numbers in self._same:
                return "same"
        if self._lacks_memory(terminate):
            return "memory"
        # The codes of RFC 5044 §8 only SHOULD be provided to who sends the Terminate.
        is_open = self._peer.layer != _MPA or self._peer.code in _LEFT_TO_ULP
        is_less = numbers[:2] in _LESS or numbers in _LESS_CODES
        return "less" if is_open and is_less else "terminate"

    def _lacks_memory(self, terminate: Terminate) -> bool:
        """Whether a peer may send this Terminate whatever is wrong with the case."""
        key, said = (terminate.layer, terminate.etype), self._said
        return any(
            is_said and terminate.code in codes.get(key, ())
            for is_said, codes in (
                (said.tagged, _OF_TAGGED), (said.asks, _OF_QUEUES), (said.requests, _OF_REQUESTS),
                (said.sends, _OF_SENDS),
            )
        )  # fmt: skip

    # --- what it means ---

    def _found(self, saw: Observation, *, strict: bool) -> ProbeJudgement:
        """Look the observation up, and what it proves."""
        cell = self._excused(saw, self._cell(saw))
        if cell.leeway and not strict:
            cell = _Cell("allowed", f"{cell.reason}: {cell.leeway}")
        terminate = self._terminate
        name, rule, clause, differs = str(saw), "", cell.clause, None
        if terminate is not None and cell.verdict == "fail":
            name = "terminate-{}-{}-{:02x}".format(*self._numbers(terminate))
            if self._peer.reaction == "terminate" and saw == "terminate":
                rule, differs = "terminate", difference(self._control_word(), self._seen.terminate_octets[:2])
            elif saw == "terminated":
                rule = "startup-responder-first"
            if cell is _UNCHECKED:
                name = "unchecked-crc"
        error = self._seen.error
        if saw == "invalid" and error is not None:
            clause, rule = error.clause or clause, error.rule
            differs = key_difference(self._case, self._seen) if rule in ("startup-key", "startup-role") else None
        return ProbeJudgement(
            cell.verdict,
            self._worded(cell.reason),
            clause,
            rule,
            differs,
            lacks_buffer=saw == "memory" and cell.verdict == "allowed",
            saw=name,
            faults=self._layout() if cell.verdict != "unsupported" else (),
        )

    def _cell(self, saw: Observation) -> _Cell:
        """The entry of the table, with what depends on more than the two."""
        peer, cell = self._peer, TABLE[self._peer.reaction].get(saw, _NO_END)
        is_unheard = peer.reaction == "stop" and self._case.reach.role == "responder" and not self._said.is_heard
        if saw == "terminated" and is_unheard:
            return _Cell("fail", "the peer sends a Terminate, although no FPDU was valid before", _STARTUP)
        if saw == "terminate" and peer.reaction == "terminate" and peer.layer == _MPA:
            if peer.code == _CRC and self._terminate is not None and self._terminate.layer != _MPA:
                return _UNCHECKED
            return cell._replace(clause="RFC 5044 §8" if peer.code in _LEFT_TO_ULP else "RFC 6581 §9")
        if saw in ("late", "mute", "shut") and peer.reaction in _OPEN_ENDED and not self._is_initiator:
            return cell._replace(clause="")  # what the case is about is why there is no Reply
        if peer.reaction == "terminate" and peer.layer == _MPA and saw == "less":
            return _ANOTHER._replace(clause="RFC 5044 §8", leeway="that MPA reports its code is a SHOULD")
        if peer.reaction == "terminate" and saw in ("closed", "open"):
            return self._untold(saw, cell)
        if saw == "closed" and peer.reaction == "close" and self._seen.frame is not None and self._seen.frame.r:
            return _Cell("allowed", "the peer rejects the connection, and closes it")
        if saw in ("open", "dropped") and peer.reaction == "lose" and self._is_reset:
            return _PASS
        return cell

    def _untold(self, saw: Observation, cell: _Cell) -> _Cell:
        """The entry for an error that a Terminate should report, and none does."""
        peer = self._peer
        if peer.layer == _DDP:
            should = "a Terminate for an error of DDP is a SHOULD"
            return cell._replace(leeway=should, clause=_OF_DDP) if saw == "closed" else _NO_MOMENT
        if peer.layer == _MPA and peer.code in _LEFT_TO_ULP:
            words = "the peer {how} without a Terminate: that is for its ULP to decide (RFC 5044 §8)"
            return _Cell("allowed", words) if saw == "closed" else _NO_MOMENT
        return cell._replace(clause="RFC 6581 §9") if peer.layer == _MPA else cell

    def _excused(self, saw: Observation, cell: _Cell) -> _Cell:
        """The entry, unless it proves nothing, or the specifications leave that open."""
        if why := self._untested(saw, cell):
            return _Cell("unsupported", why)
        if cell.verdict not in BAD:
            return cell
        chosen = next((choice for choice in _CHOSEN.get(saw, ()) if choice in self._may), None)
        if chosen is not None:
            return _Cell("allowed", _IS_ALLOWED[chosen])
        if saw == "shut" and self._said.refused_data:
            return _Cell("allowed", "the peer {how} on any Private Data, which it should reject (RFC 5044 §7.1.2)")
        if saw == "rejected" and self._said.private_data:
            return _Cell("allowed", "the peer rejects Private Data, which is for its ULP to decide (RFC 5044 §7.1.2)")
        if saw == "rejected" and self._said.depths:
            return _Cell("allowed", "the peer rejects these depths, as a Responder may (RFC 6581 §9.1)")
        if saw == "closed" and self._seen.frame is not None and self._seen.frame.r:
            return _Cell("allowed", "after a rejection, closing is left to the ULP (RFC 5044 §7.1.2, rule 2)")
        if saw == "closed" and self._peer.reaction in _OPEN_ENDED and (self._said.tagged or self._said.requests):
            return _Cell("allowed", "the peer {how}: it may not have the memory that the case uses")
        return cell

    def _untested(self, saw: Observation, cell: _Cell) -> str:
        """Why this says nothing of the case: nothing better can come of a valid connection; "" if it says something."""
        control, reaction = self._control, self._peer.reaction
        is_refused = control is not None and (control.frame is None or bool(control.frame.r)) and self._is_negotiated
        if self._said.streaming and saw in ("shut", "mute", "late"):
            return "the peer does not accept streaming data before MPA"
        if self._case.reach.role == "responder" and is_refused and control is not None:
            is_owed = self._case.is_conformant and self._said.is_basic and control.frame is None
            if not is_owed and saw not in ("replied", "spoke", "invalid", "late"):
                return not_answered(control)
        is_choice = reaction in ("close", "reject") or "close" in self._may
        if saw == "rejected" and not is_choice and not self._is_plainly_valid:
            return "the peer rejects the connection (R in its Reply)"
        if self._is_unknown_opcode and cell.verdict in BAD and reaction in _OPEN_ENDED:
            return "the peer does not know the messages of RFC 7306"
        if saw != "closed" or reaction in ("wait", "lose", "reject"):
            return ""
        if reaction == "close":
            is_idle = control is not None and control.end is not None and not control.fpdus
            return f"the peer {{how}} valid connections too: {_NOTHING}" if is_idle and self._is_initiator else ""
        if control is not None and control.end is not None:
            return f"the peer {{how}} valid connections too: {_NOTHING}"
        if self._said.sends and self._spoken is not None and self._spoken.end is not None:
            return _UPPER_LAYER if self._said.rping else f"{_UPPER_LAYER} (try --ulp rping)"
        return ""

    @property
    def _is_initiator(self) -> bool:
        return self._case.reach.role == "initiator"

    @property
    def _is_plainly_valid(self) -> bool:
        """Whether a peer that accepts valid Requests has no reason to refuse this one."""
        is_valid = self._case.is_conformant or not self._case.begins_full_operation
        return is_valid and self._control is not None and self._control.frame is not None

    @property
    def _is_unknown_opcode(self) -> bool:
        said = self._seen.terminate
        readings = [one for one in (said, other_reading(said) if said is not None else None) if one is not None]
        is_unknown = any(self._numbers(one) == _UNEXPECTED_OPCODE for one in readings)
        return is_unknown and self._case.clause.startswith("RFC 7306")

    @property
    def _is_negotiated(self) -> bool:
        """Whether the connection begins with startup frames."""
        return self._case.case.baseline != "culley-02"

    @property
    def _is_reset(self) -> bool:
        return self._case.case.name.startswith(("rst-", "unanswered-reset"))

    @property
    def _is_over_rightly(self) -> bool:
        """Whether the peer has to end it, or we did."""
        return self._said.terminate or self._case.case.ends_by_itself

    def _layout(self) -> tuple[Fault, ...]:
        """A Terminate whose control word is not laid out as RFC 5040 §4.8 has it."""
        terminate = self._terminate
        if terminate is None or terminate.layout == "rfc5040":
            return ()
        right = bytes((terminate.layer << 4 | terminate.etype, terminate.code))
        reason = "the control word of its Terminate is laid out from the least significant bit"
        differs = difference(right, self._seen.terminate_octets[:2])
        return (Fault("terminate-layout", reason, "RFC 5040 §4.8", differs),)

    def _control_word(self) -> bytes:
        return bytes((self._peer.layer << 4 | self._peer.etype, self._peer.code))

    def _worded(self, reason: str) -> str:
        """A reason with what was seen in it."""
        seen, reaction = self._seen, self._peer.reaction
        frame = "Request" if self._is_initiator else "Reply"
        owed = "a startup frame" if reaction in ("wait", "lose", "stop", "terminate") else f"a {frame}"
        error = seen.error
        words = f"{error.rule}: {error.detail}" if error is not None and error.rule else str(error and error.detail)
        return (
            reason.replace("{frame}", owed)
            .replace("{how}", _ENDED.get(seen.end or "", "ends"))
            .replace("{seconds}", f"{seen.seconds:.3f} s")
            .replace("{meaning}", self._terminate.meaning if self._terminate is not None else "")
            .replace("{error}", words)
        )


_NOTHING = "closing proves nothing here"
_UPPER_LAYER = "the upper layer closes on these messages"
_ENDED = {"fin": "closes", "rst": "resets"}


def not_answered(control: SeenPeer | None) -> str:
    """Why a peer that answers a valid connection so can be tested no further."""
    if control is not None and control.frame is not None:
        return "the peer rejects the connection (R in its Reply)"
    return "the peer does not answer this kind of connection even when nothing is wrong"


def difference(expected: bytes, seen: bytes) -> Differs | None:
    """Where two octet strings differ first, None if they do not."""
    for at in range(max(len(expected), len(seen))):
        if expected[at : at + 1] != seen[at : at + 1]:
            return Differs(at, expected[at:], seen[at:])
    return None


def key_difference(case: ProbeCase, seen: SeenPeer) -> Differs | None:
    """Where the Key of a peer's startup frame is wrong, None if it is right."""
    right = REPLY_KEY if case.reach.role == "responder" else REQUEST_KEY
    found = bytes(seen.octets[:KEY_LENGTH])
    return difference(right[: len(found)], found)
