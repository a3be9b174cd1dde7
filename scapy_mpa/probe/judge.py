"""The verdict on what a peer did: what it had to do beside what was seen, and what the specifications leave open.

What a conforming peer does about each case is said by the catalogue (``catalogue.peer``), as a reaction and as what
else it may do.  Here stands what of a connection counts as which, and for what more there is room:

* Whether a rejection closes TCP is left open (RFC 5044 §7.1.2 rule 3, §7.1.4.2).
* A bad FPDU may be dropped without a word (§8): TCP's acknowledgement tells that from octets that were taken.
* After code 2 and 3 closing is the ULP's, with or without a last message (§8); of what DDP and RDMAP find there has to
  be a Terminate (RFC 5040 §7.1).
* Tagged buffers and Reads name memory that the peer may not have: it may end the stream for that.
* An upper layer may end a connection whose messages mean nothing to it: not held against it if it does so where nothing
  is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from scapy_mpa.catalogue.peer import Choice, Peer
from scapy_mpa.framing.ddp import Terminate, error_meaning, other_reading
from scapy_mpa.framing.startup import KEY_LENGTH, REPLY_KEY, REQUEST_KEY
from scapy_mpa.probe.case import BINDING, ProbeCase
from scapy_mpa.probe.seen import SeenPeer

Verdict: TypeAlias = Literal["pass", "fail", "allowed", "unsupported", "no answer", "peer gone"]
VERDICTS: tuple[Verdict, ...] = ("pass", "allowed", "unsupported", "fail", "no answer", "peer gone")
#: What counts against a peer.
BAD: frozenset[Verdict] = frozenset(("fail", "no answer", "peer gone"))

#: What a peer says of memory that it does not have, or has no room in: layer and type of a Terminate (RFC 5040 §4.8,
#: RFC 5041 §7.2), with the codes that mean it.
_OF_TAGGED = {(1, 1): (0, 1, 2), (0, 1): (0, 1, 2, 3, 9)}
_OF_REQUESTS = {(0, 1): (0, 1, 2, 3, 4), (1, 1): (0, 1, 2), (1, 2): (2,)}
_OF_SENDS = {(1, 2): (2, 5)}
#: The same error, as RDMAP or DDP reports it.
_ALIKE = frozenset((((0, 1, 0), (1, 1, 0)), ((0, 1, 1), (1, 1, 1)), ((0, 1, 4), (1, 1, 3))))
#: RDMAP's remote operation error "unexpected opcode".
_UNEXPECTED_OPCODE = (0, 2, 6)
_MPA = 2
_LEFT_TO_ULP = (2, 3)
#: Who sends which startup frame.
_STARTUP = "RFC 5044 §7.1.2"


class Differs(NamedTuple):
    """The first octet that is not as it should be, and the octets from there."""

    offset: int
    expected: bytes
    seen: bytes


@dataclass(frozen=True)
class ProbeJudgement:
    """What became of a case."""

    verdict: Verdict
    reason: str = ""
    clause: str = ""
    rule: str = ""
    differs: Differs | None = None
    #: Other rules that it names.
    also: tuple[str, ...] = ()
    #: Whether the peer lacks the memory that the case is about.
    lacks_buffer: bool = False
    #: Whether it is about what the case is about, so that the clause of the case is broken where none is named.
    is_of_case: bool = True


class Spoken(NamedTuple):
    """What our side of a case speaks of, beside what it is about."""

    tagged: bool = False
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
    #: Every implementation of RFC 5044 answers such a Request.
    is_basic: bool = False


def expected_words(peer: Peer) -> str:
    """What a conforming peer does, in a phrase."""
    may = [_CHOICES[choice] for choice in peer.may]
    said = _REACTIONS.get(peer.reaction, "")
    if peer.reaction == "terminate":
        said = f"Terminate: {error_meaning(peer.layer, peer.etype, peer.code)}"
    return f"{said}; also allowed: {', '.join(may)}" if may else said


_REACTIONS = {
    "accept": "continues",
    "ignore": "continues",
    "discard": "continues",
    "wait": "waits, or closes after a time",
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

    def judgement(self, *, strict: bool = False) -> ProbeJudgement:
        """The verdict; ``strict``: what SHOULD be counts as what MUST be."""
        seen = self._seen
        if seen.unsupported:
            if seen.frame is not None and seen.frame.r and not self._said.rejection:
                return self._rejected()
            return ProbeJudgement("unsupported", seen.unsupported)
        found = self._found()
        if seen.untaken and found.verdict in ("pass", "allowed") and seen.end is None and seen.terminate is None:
            return ProbeJudgement("no answer", "the peer has stopped reading", is_of_case=False)
        word = self._case.requirement
        is_of_case = found.is_of_case and not found.clause
        if found.verdict in BAD and is_of_case and word and word not in BINDING and not strict:
            return ProbeJudgement("allowed", f"{found.reason} ({word})", differs=found.differs)
        return found

    def _found(self) -> ProbeJudgement:
        seen = self._seen
        if self._said.rev_0 and (seen.frame.rev if seen.frame is not None else seen.end is not None):
            return ProbeJudgement("unsupported", "the peer does not speak Rev 0")
        found = getattr(self, f"_{self._peer.reaction}")()
        assert isinstance(found, ProbeJudgement)
        return found

    # --- what is common ---

    def _may(self, choice: Choice) -> bool:
        return choice in self._peer.may

    def _unable(self, terminate: Terminate) -> str:
        """Why a peer may send this Terminate whatever is wrong with the case; "" if it may not."""
        key, said = (terminate.layer, terminate.etype), self._said
        if said.tagged and terminate.code in _OF_TAGGED.get(key, ()):
            return "the peer does not have the buffer that the case names"
        if said.requests and terminate.code in _OF_REQUESTS.get(key, ()):
            return "the peer does not have the buffer that is asked for"
        if said.sends and terminate.code in _OF_SENDS.get(key, ()):
            return "the peer has no buffer for the message"
        return ""

    def _layout(self, terminate: Terminate) -> ProbeJudgement | None:
        """A Terminate whose control word is not laid out as RFC 5040 §4.8 has it."""
        if terminate.layout == "rfc5040":
            return None
        right = bytes((terminate.layer << 4 | terminate.etype, terminate.code))
        differs = difference(right, self._seen.terminate_octets[:2])
        reason = "the control word of its Terminate is laid out from the least significant bit"
        return ProbeJudgement("fail", reason, "RFC 5040 §4.8", "terminate-layout", differs)

    def _refused(self, choices: str) -> ProbeJudgement:
        """The peer ended it before there was a Reply, or said nothing."""
        seen, control = self._seen, self._control
        if seen.error is not None:
            return self._unreadable()
        if self._said.streaming:
            return ProbeJudgement("unsupported", "the peer does not accept streaming data before MPA")
        owes = self._case.is_conformant and self._said.is_basic
        if control is not None and control.frame is None and not owes:
            return ProbeJudgement(
                "unsupported", "the peer does not answer this kind of connection even when nothing is wrong"
            )
        if seen.frame is not None:
            return ProbeJudgement("no answer", f"{choices} came too late: in {seen.seconds:.3f} s", _STARTUP)
        if seen.end is None:
            return ProbeJudgement("no answer", f"{choices} is missing", _STARTUP)
        return ProbeJudgement("fail", f"the peer {_ENDED[seen.end]} instead of sending {choices}", _STARTUP)

    def _unreadable(self) -> ProbeJudgement:
        """The peer's own octets are wrong."""
        error = self._seen.error
        assert error is not None
        differs = key_difference(self._case, self._seen) if error.rule in ("startup-key", "startup-role") else None
        reason = f"what the peer sends is not valid: {error.rule or error.detail}"
        return ProbeJudgement(
            "fail", f"{reason}: {error.detail}" if error.rule else reason, error.clause, error.rule, differs
        )

    @property
    def _is_negotiated(self) -> bool:
        """Whether the connection begins with startup frames."""
        return self._case.case.baseline != "culley-02"

    @property
    def _lacks_startup(self) -> bool:
        return self._seen.waits_for == "startup"

    # --- reactions ---

    def _accept(self) -> ProbeJudgement:
        seen, case = self._seen, self._case
        if self._lacks_startup or (seen.frame is None and seen.error is None and self._is_negotiated):
            if seen.end is not None and self._may("close"):
                return ProbeJudgement("allowed", f"the peer {_ENDED[seen.end]}, which is allowed")
            return self._refused(f"a {'Reply' if case.reach.role == 'responder' else 'Request'}")
        if seen.waits_for == "fpdu":
            return ProbeJudgement(
                "unsupported", "the peer sends no FPDU, so none may be sent to it (RFC 5044 §7.1.2, rule 4)"
            )
        if seen.terminate is not None:
            return self._accept_terminate(seen.terminate)
        if seen.error is not None:
            return self._unreadable()
        if seen.frame is not None and seen.frame.r and not self._said.rejection:
            return self._rejected()
        if seen.end is not None and not self._is_over_rightly():
            return self._accept_end()
        if self._is_unanswered and not seen.is_cut and seen.end is None:
            if self._may("silence"):
                return ProbeJudgement("allowed", "the peer sends nothing, which is allowed")
            return ProbeJudgement("no answer", "the peer does not answer an RDMA Read any more", "RFC 5040 §5.2")
        return ProbeJudgement("pass")

    _ignore = _accept

    def _rejected(self) -> ProbeJudgement:
        """A Reply with R where the Request is valid."""
        control = self._control
        if control is not None and control.frame is not None and control.frame.r:
            return ProbeJudgement("unsupported", "the peer rejects the connection (R in its Reply)")
        if self._may("close"):
            return ProbeJudgement("allowed", "the peer rejects the connection, which is allowed")
        if self._said.private_data:
            return ProbeJudgement(
                "allowed", "the peer rejects Private Data, which is for its ULP to decide (RFC 5044 §7.1.2)"
            )
        is_valid = self._case.is_conformant or not self._case.begins_full_operation
        if is_valid and control is not None and control.frame is not None:
            return ProbeJudgement("fail", "the peer rejects the connection (R in its Reply)")
        return ProbeJudgement("unsupported", "the peer rejects the connection (R in its Reply)")

    def _is_over_rightly(self) -> bool:
        """Whether the peer has to end it, or we did."""
        return self._said.terminate or self._case.ends_by_itself

    def _accept_terminate(self, terminate: Terminate) -> ProbeJudgement:
        """The layout counts only where nothing worse does: that the peer ends the stream at all."""
        readings = [one for one in (terminate, other_reading(terminate)) if one is not None]
        is_unknown = any((one.layer, one.etype, one.code) == _UNEXPECTED_OPCODE for one in readings)
        if is_unknown and self._case.clause.startswith("RFC 7306"):
            return ProbeJudgement("unsupported", "the peer does not know the messages of RFC 7306")
        why = self._unable(terminate)
        if not why and self._may("terminate"):
            why = "the peer ends the stream with a Terminate, which is allowed"
        if not why:
            return ProbeJudgement("fail", f"the peer ends the stream with a Terminate: {terminate.meaning}")
        return self._layout(terminate) or ProbeJudgement("allowed", why, lacks_buffer="buffer" in why)

    def _accept_end(self) -> ProbeJudgement:
        seen, control = self._seen, self._control
        assert seen.end is not None
        if self._may("close"):
            return ProbeJudgement("allowed", f"the peer {_ENDED[seen.end]}, which is allowed")
        if seen.frame is not None and seen.frame.r:
            return ProbeJudgement("allowed", "after a rejection closing is left to the ULP (RFC 5044 §7.1.2, rule 2)")
        if control is not None and control.end is not None:
            return ProbeJudgement("allowed", f"the peer {_ENDED[seen.end]}, as it also does on a valid connection")
        if self._said.sends and self._spoken is not None and self._spoken.end is not None:
            return ProbeJudgement("allowed", f"the peer {_ENDED[seen.end]}, as its upper layer does for any such Send")
        return ProbeJudgement("fail", f"the peer {_ENDED[seen.end]}")

    def _discard(self) -> ProbeJudgement:
        if self._seen.end is not None or self._seen.terminate is None:
            return ProbeJudgement("pass")
        return self._accept()

    def _wait(self) -> ProbeJudgement:
        seen = self._seen
        if self._lacks_startup:
            return self._refused("a startup frame")
        if seen.waits_for == "fpdu":
            return self._accept()
        if seen.error is not None:
            return self._unreadable()
        if not self._case.begins_full_operation and self._case.reach.role == "responder" and seen.frame is not None:
            return ProbeJudgement("fail", "the peer answers a Request that is not whole", "RFC 5044 §7.1.2")
        if seen.responses and "receiver-delivery" in self._case.case.tests:
            return ProbeJudgement("fail", "the peer answers an RDMA Read before the message before it has come")
        if seen.terminate is not None:
            return self._accept_terminate(seen.terminate)
        if seen.end is not None:
            return ProbeJudgement("allowed", f"the peer {_ENDED[seen.end]}, which is allowed")
        return ProbeJudgement("pass")

    def _lose(self) -> ProbeJudgement:
        seen = self._seen
        if self._lacks_startup:
            return self._refused("a startup frame")
        if seen.waits_for == "fpdu":
            return self._accept()
        if seen.terminate is not None:
            return self._layout(seen.terminate) or ProbeJudgement("allowed", "the peer says why it ends the stream")
        if seen.end is not None or self._case.case.name.startswith(("rst-", "unanswered-reset")):
            return ProbeJudgement("pass")
        return ProbeJudgement("allowed", "no clause says when the connection is closed")

    def _stop(self) -> ProbeJudgement:
        found = self._error()
        if found is not None:
            return found
        terminate = self._seen.terminate
        if terminate is not None:
            if self._said.is_heard or self._case.reach.role == "initiator":
                return self._layout(terminate) or ProbeJudgement("pass")
            reason = "the peer sends a Terminate, although no FPDU was valid before"
            return ProbeJudgement("fail", reason, "RFC 5044 §7.1.2", "startup-responder-first")
        return ProbeJudgement("pass") if self._seen.end is not None else self._silence()

    def _terminate(self) -> ProbeJudgement:
        peer, seen = self._peer, self._seen
        expected = peer.layer, peer.etype, peer.code
        found = self._error()
        if found is not None:
            return found
        if seen.has_answered and self._said.requests and self._case.area == "ddp" and not self._may("accept"):
            return ProbeJudgement("fail", "the peer does what it is asked, and must refuse")
        terminate = seen.terminate
        if terminate is None:
            return self._no_terminate()
        other = other_reading(terminate)
        if other is not None and (other.layer, other.etype, other.code) == expected:
            terminate = other
        numbers = terminate.layer, terminate.etype, terminate.code
        if numbers == expected:
            return self._layout(terminate) or ProbeJudgement("pass")
        if (numbers, expected) in _ALIKE or (expected, numbers) in _ALIKE:
            return ProbeJudgement("allowed", f"Terminate: {terminate.meaning}, which says the same")
        if self._may("terminate"):
            return ProbeJudgement("allowed", f"Terminate: {terminate.meaning}, where no clause names a code")
        if why := self._unable(terminate):
            return ProbeJudgement("allowed", why, lacks_buffer=True)
        right = bytes((peer.layer << 4 | peer.etype, peer.code))
        differs = difference(right, seen.terminate_octets[:2])
        return ProbeJudgement("fail", f"another Terminate: {terminate.meaning}", "RFC 5040 §4.8", "terminate", differs)

    def _error(self) -> ProbeJudgement | None:
        """What keeps an error from being judged."""
        seen = self._seen
        if self._lacks_startup:
            return self._refused("a startup frame")
        if seen.waits_for == "fpdu":
            return self._accept()
        if seen.error is not None:
            return self._unreadable()
        if seen.has_echoed:
            return ProbeJudgement("fail", "the peer continues as if nothing were wrong")
        return None

    def _no_terminate(self) -> ProbeJudgement:
        peer, seen = self._peer, self._seen
        if seen.end is None:
            if self._may("accept") or self._may("silence"):
                return ProbeJudgement("allowed", "the peer accepts it, which is allowed")
            return self._silence()
        if self._may("close"):
            return ProbeJudgement("allowed", f"the peer {_ENDED[seen.end]}, which is allowed")
        how = _ENDED[seen.end]
        if self._said.sends and self._spoken is not None and self._spoken.end is not None:
            return ProbeJudgement("allowed", f"the peer {how}, as its upper layer does for any such Send")
        if peer.layer == _MPA and peer.code in _LEFT_TO_ULP:
            return ProbeJudgement(
                "allowed", f"the peer {how} without a Terminate: that is for its ULP to decide (RFC 5044 §8)"
            )
        if peer.layer == _MPA:
            return ProbeJudgement("fail", f"the peer {how} without a Terminate", "RFC 6581 §9")
        return ProbeJudgement("fail", f"the peer {how} without a Terminate", "RFC 5040 §7.1")

    def _silence(self) -> ProbeJudgement:
        """Nothing came of an error."""
        if self._seen.unacknowledged:
            return ProbeJudgement(
                "allowed", "the peer's TCP does not acknowledge it: dropped without a word (RFC 5044 §8)"
            )
        return ProbeJudgement("no answer", "no Terminate and no close followed")

    def _close(self) -> ProbeJudgement:
        seen = self._seen
        if self._lacks_startup and self._case.reach.role == "initiator":
            return self._refused("a Request")
        if seen.fpdus:
            return ProbeJudgement("fail", "the peer sends an FPDU in answer to a startup frame that is not valid")
        if self._case.reach.role == "responder" and seen.frame is not None:
            if not seen.frame.r:
                return ProbeJudgement("fail", "the peer answers a Request that is not valid")
            if seen.end is not None:
                return ProbeJudgement("allowed", "the peer rejects the connection, and closes it")
            return ProbeJudgement("fail", "the peer rejects the connection, and does not close it")
        if seen.end is not None:
            return ProbeJudgement("pass")
        return ProbeJudgement("no answer", "the peer does not close")

    def _reject(self) -> ProbeJudgement:
        seen = self._seen
        if seen.frame is None:
            return self._refused("a Reply")
        if seen.frame.r:
            return ProbeJudgement("pass")
        return ProbeJudgement("allowed", "the peer accepts the Private Data, which is for its ULP to decide")


_ENDED = {"fin": "closes", "rst": "resets"}


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
