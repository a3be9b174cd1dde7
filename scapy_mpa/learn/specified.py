"""What RFC 5044 §7.1.2 and §8 have a peer do with each input, as a machine that leaves open what they leave open.

A :class:`PeerRule` names the words that may be in an answer, and those of which one must be. What RFC 5040 says of
Reads and Terminates counts too, since errors show by them. In the state ``open`` nothing is judged: MPA is left, we
have said our last, or the peer has already done something else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from fnmatch import fnmatchcase

from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.learn.conversation import (
    CLOSE,
    GONE,
    OTHER,
    OVER,
    READ_RESPONSE,
    REJECTION,
    REPLY,
    SILENCE,
    TERMINATE,
    PeerAnswer,
    is_last,
)
from scapy_mpa.learn.inputs import FIN, FPDUS, READY, alphabet
from scapy_mpa.learn.machine import LearnedMachine
from scapy_mpa.learn.subject import InputWord
from scapy_mpa.probe.fitting import Clean
from scapy_mpa.tuples import NamedTuple

_ANY_TERMINATE = f"{TERMINATE}*"
#: FPDUs of which the upper layer decides.
_MESSAGES = ("Send*", "RDMA Write", "RDMA Read Request", "Immediate Data*", "Atomic*")
_FPDU = (*_MESSAGES, READ_RESPONSE, _ANY_TERMINATE)
#: A CRC error, or one that says less (RFC 5044 §8, RFC 5040 §4.8).
_CRC_ERRORS = (f"{TERMINATE}2/0/2", f"{TERMINATE}0/0/0", f"{TERMINATE}0/2/255")
_VERSION_ERRORS = (f"{TERMINATE}1/2/6", f"{TERMINATE}0/2/5", f"{TERMINATE}0/0/0", f"{TERMINATE}0/2/255")


class PeerRule(NamedTuple):
    """What a peer does with an input.

    Attributes:
        words: the same for people.
        clause: which says so.
        must: patterns, of which one has to match a word of the answer; none: silence is allowed.
        may: patterns that words may match besides.
        after: the state that follows.
        besides: another rule that holds as well; what breaks both breaks this one.
    """

    words: str
    clause: str
    must: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    after: str = "open"
    besides: PeerRule | None = None

    def allows(self, answer: PeerAnswer) -> bool:
        """Return True if an answer is one of those that this leaves."""
        is_there = not self.must or any(_matches(word, self.must) for word in answer)
        return is_there and all(_matches(word, (*self.must, *self.may)) for word in answer)


class PeerDifference(NamedTuple):
    """An answer that the RFC does not leave open, at the end of the shortest word that shows it."""

    word: InputWord
    expected: str
    answer: PeerAnswer
    clause: str


_STARTUP = "RFC 5044 §7.1.2"
_OPEN = PeerRule("anything", "", may=("*",))
#: No clause says so.
_SURVIVES = PeerRule("the peer works afterwards, whatever it is sent", "")
_LAST = PeerRule(
    "nothing more, or a close: its Terminate is its last message", "RFC 5040 §5.4", may=(CLOSE,), after="terminated"
)
_NOT_VALID = PeerRule(
    "a close, without a Reply that accepts", "RFC 5044 §7.1.1 and §8, code 4", must=(CLOSE,), may=(REJECTION,)
)
_NO_KEY = _NOT_VALID._replace(clause=f"{_STARTUP}, rule 5")
#: Octets that are no FPDU by what was never agreed on may come before the close.
_NOT_VALID_REPLY = PeerRule(
    "a close, without an FPDU", "RFC 5044 §7.1.1 and §8, code 4", must=(CLOSE,), may=(f"{OTHER}*",)
)
_REQUESTED = {
    "request": PeerRule(
        "a Reply, and no FPDU before ours", f"{_STARTUP}, rules 2 and 4", (REPLY, REJECTION, CLOSE), after="unheard"
    ),
    "request-wrong-key": _NO_KEY,
    # Who can work with it may go on (§7.1.1).
    "request-wrong-rev": PeerRule(
        "a close, or a Reply if the peer can work with this Rev", "RFC 5044 §7.1.1", (REPLY, REJECTION, CLOSE),
        after="unheard",
    ),
    "request-wrong-pd-length": _NOT_VALID,
    **dict.fromkeys((*FPDUS, READY), _NO_KEY),
}  # fmt: skip
_REPLIED = {
    "reply": PeerRule("Full Operation", f"{_STARTUP}, rule 3", may=(*_FPDU, CLOSE), after="replied"),
    "reply-rejecting": PeerRule("no FPDU", f"{_STARTUP}, rule 3", may=(CLOSE, f"{OTHER}*"), after="rejected"),
    "reply-wrong-key": _NOT_VALID_REPLY._replace(clause=f"{_STARTUP}, rule 5"),
    "reply-wrong-rev": PeerRule("a close, or Full Operation", "RFC 5044 §7.1.1", may=(*_FPDU, CLOSE)),
    "reply-wrong-pd-length": _NOT_VALID_REPLY,
    **dict.fromkeys(FPDUS, _NOT_VALID_REPLY._replace(clause=f"{_STARTUP}, rule 5")),
}
_FRAMES = tuple(name for role in ROLES for name in alphabet(role, Clean()) if name not in (*FPDUS, FIN))
#: Its first octets are read as a ULPDU_Length of 19,792, whose FPDU swallows what follows.
_INSIDE = PeerRule(
    "no answer: these octets are part of an FPDU that is not complete", "RFC 5044 §4.1",
    may=(*_MESSAGES, _ANY_TERMINATE, CLOSE), after="inside",
)  # fmt: skip
_OPERATION = {
    "send": PeerRule("what the upper layer decides", "RFC 5044 §7.1.2", may=(*_FPDU, CLOSE), after="operation"),
    READY: PeerRule("what the upper layer decides", "RFC 6581 §9.2", may=(*_FPDU, CLOSE), after="operation"),
    "read": PeerRule(
        "an RDMA Read Response, a Terminate or a close", "RFC 5040 §5.2",
        (READ_RESPONSE, _ANY_TERMINATE, CLOSE), _MESSAGES, after="operation",
    ),
    "wrong-crc": PeerRule(
        "no part of it is passed on: Terminate, LLP error 2, a close, or silence", "RFC 5044 §8, code 2",
        may=(*_CRC_ERRORS, CLOSE), after="failed",
    ),
    "wrong-ddp-version": PeerRule(
        "Terminate, DDP: invalid DDP version, a close, or silence", "RFC 5041 §7",
        may=(*_VERSION_ERRORS, CLOSE), after="failed",
    ),
    "terminate": _OPEN,
    **dict.fromkeys(_FRAMES, _INSIDE),
}  # fmt: skip
_FAILED = PeerRule(
    "nothing after an error is passed on", "RFC 5044 §8",
    may=(*_MESSAGES, _ANY_TERMINATE, CLOSE), after="failed",
)  # fmt: skip
_NO_FPDU = PeerRule("no FPDU, nor a Terminate, before one of our FPDUs was valid", f"{_STARTUP}, rule 4", may=(CLOSE,))


def _unheard(rule: PeerRule) -> PeerRule:
    """Return a rule for a Responder that has not received an FPDU that is valid."""
    return rule._replace(after=f"unheard-{rule.after}", besides=_NO_FPDU)


_UNHEARD = {name: _unheard(_OPERATION[name]) for name in ("wrong-crc", *_FRAMES)}
_REJECTED = PeerRule("no FPDU after a rejection", f"{_STARTUP}, rule 3", may=(CLOSE, f"{OTHER}*"), after="rejected")
#: What each state has a peer do, by input; an input that is not there is left open.
_STATES: dict[str, dict[str, PeerRule]] = {
    "operation": _OPERATION,
    "unheard": {**_OPERATION, **_UNHEARD},
    "inside": dict.fromkeys((*FPDUS, READY, *_FRAMES), _INSIDE),
    "unheard-inside": dict.fromkeys((*FPDUS, READY, *_FRAMES), _unheard(_INSIDE)),
    "failed": dict.fromkeys((*FPDUS, READY, *_FRAMES), _FAILED),
    "unheard-failed": dict.fromkeys((*FPDUS, READY, *_FRAMES), _unheard(_FAILED)),
    "terminated": dict.fromkeys((*FPDUS, READY, *_FRAMES), _LAST),
    "rejected": dict.fromkeys(FPDUS, _REJECTED),
    # A Responder has to wait for an FPDU of the Initiator (rule 4): what it sends before is its own fault.
    "replied": {},
    "open": {},
}


def differences(machine: LearnedMachine, role: Role, initial: PeerAnswer = SILENCE) -> Iterator[PeerDifference]:
    """Yield where a peer in this role differs from the RFC, each difference once, the shortest words first.

    ``initial`` is what it sends before any input: an Initiator its Request.
    """
    states = {**_STATES, "startup": _REQUESTED if role == "responder" else _REPLIED}
    if role == "initiator" and initial != ("Request",):
        yield PeerDifference((), "a Request, and no FPDU before the Reply", initial, f"{_STARTUP}, rules 1 and 3")
    start: tuple[InputWord, int, str] = (), 0, "startup"
    waiting, reached, found = deque([start]), {start[1:]}, set[tuple[str, str, str, PeerAnswer]]()
    while waiting:
        word, number, state = waiting.popleft()
        for name, (answer, to) in machine.states[number].items():
            rule = states[state].get(name, _OPEN)
            broken = _broken(rule, answer)
            if broken is not None and (shown := (broken.words, broken.clause, name, answer)) not in found:
                found.add(shown)
                yield PeerDifference((*word, name), broken.words, answer, broken.clause)
            after = "open" if broken is not None else _after(state, rule, name, answer)
            if (to, after) not in reached and answer != OVER:
                reached.add((to, after))
                waiting.append(((*word, name), to, after))


def _broken(rule: PeerRule, answer: PeerAnswer) -> PeerRule | None:
    """Return the rule that an answer breaks, None if it breaks none."""
    if GONE in answer:
        return _SURVIVES
    if rule is _OPEN:
        return None
    last = next((at for at, word in enumerate(answer) if word.startswith(TERMINATE)), len(answer))
    kept = tuple(word for at, word in enumerate(answer) if at <= last or word == CLOSE)
    if not rule.allows(kept):
        return rule
    if kept != answer:
        return _LAST
    return rule.besides if rule.besides is not None and not rule.besides.allows(answer) else None


def _after(state: str, rule: PeerRule, name: str, answer: PeerAnswer) -> str:
    """Return the state behind an answer that is allowed."""
    if is_last(name, answer) or REJECTION in answer:
        return "open"
    if state == "replied" or rule.after == "replied":
        return "operation" if any(_matches(word, _FPDU) for word in answer) else "replied"
    return "terminated" if any(word.startswith(TERMINATE) for word in answer) else rule.after


def _matches(word: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(word, pattern) for pattern in patterns)
