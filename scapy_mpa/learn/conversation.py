"""One connection with a peer that is learned: an input is sent, and what the peer sends until it is silent is read.

An *answer* is a tuple of words: startup frames, FPDUs and an end, in the order in which they came, nothing twice in a
row; an empty one is silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from scapy_mpa.framing.ddp import Terminate, decode_terminate, opcode_name
from scapy_mpa.framing.role import Role
from scapy_mpa.learn.inputs import FIN, InputEncoder
from scapy_mpa.probe.carrier import Carrier, NotTaken
from scapy_mpa.probe.fitting import Clean
from scapy_mpa.probe.script import BareOctets, Finish
from scapy_mpa.probe.seen import Watcher
from scapy_mpa.tuples import NamedTuple

PeerAnswer: TypeAlias = "tuple[str, ...]"

SILENCE: PeerAnswer = ()
CLOSE = "close"
REPLY, REJECTION, REQUEST = "Reply", "Reply with R", "Request"
READ_RESPONSE = "RDMA Read Response"
#: Begins the words for a Terminate: layer, error type and error code follow.
TERMINATE = "Terminate "
#: Octets that become neither a startup frame nor an FPDU.
OTHER = "other octets"
#: Ends the answer to an input after which no connection with the peer works any more.
GONE = "peer gone"
#: What inputs answer when the connection is over: they are not sent.
OVER: PeerAnswer = ("over",)
#: A peer that goes on sending is read for so many waits.
_MOST_WAITS = 8
#: Words of an answer that are kept.
_MOST_WORDS = 16
#: Seconds for what a reset leaves to be read.
_LEFT = 0.001


def terminate_word(said: Terminate) -> str:
    """Return the word for a Terminate."""
    return f"{TERMINATE}{said.layer}/{said.etype}/{said.code}"


def is_last(name: str, answer: PeerAnswer) -> bool:
    """Return True if the connection is over after an input with this answer."""
    return name == FIN or CLOSE in answer or GONE in answer


class Waits(NamedTuple):
    """Seconds of waiting.

    Attributes:
        silence: without an octet, after which there is no answer, or no more of it.
        due: for the first octet of an answer that is known to come.
        settle: after a Reply, before the next input.
    """

    silence: float
    due: float
    settle: float = 0.0


class LearnConversation:
    """One connection.

    Args:
        carrier: which stands; it is closed by :meth:`close`.
        by: our role.
        clean: what a valid startup frame of ours says.
        waits: how long answers are waited for.
        clock: seconds.

    Attributes:
        is_over: the peer, or we, ended it.
        how: "fin" or "rst" once the peer has ended it, else None.
        slowest: seconds of the slowest first octet of an answer.
        sent: octets of the last input.
        terminates: what each Terminate said.
    """

    def __init__(
        self,
        carrier: Carrier,
        by: Role,
        clean: Clean,
        waits: Waits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._carrier = carrier
        self._encoder = InputEncoder(by, clean)
        self._watcher = Watcher(by)
        self._waits = waits
        self._clock = clock
        self._frames = self._fpdus = self._total = 0
        self._has_failed = False
        self.is_over = False
        self.how: str | None = None
        self.slowest = 0.0
        self.sent = b""
        self.terminates: list[Terminate] = []

    def begin(self) -> PeerAnswer:
        """Return what the peer sends before any input: the Request of an Initiator."""
        return self._answer(self._waits.due, None)

    def step(self, name: str, known: PeerAnswer | None = None, *, is_due: bool = False) -> PeerAnswer:
        """Send an input, and return the answer.

        Args:
            name: which input.
            known: what was answered before in this place: reading ends as soon as that has come. None: it is read until
                the peer is silent.
            is_due: an answer must come, and is waited for longer.
        """
        if self.is_over:
            return OVER
        seen = self._watcher.seen
        try:
            if name == FIN:
                self.sent = b""
                self._carrier.finish(Finish("fin"))
            else:
                self.sent = self._encoder.encode(name, seen.frame)
                if self._encoder.frame is not None and (self._watcher.own is None or seen.frame is None):
                    # The peer answers the last one before its Reply.
                    self._watcher.begin(self._encoder.frame, 0.0)
                    # What came early was noted when it came.
                    self._fpdus, self._has_failed = len(seen.fpdus), seen.error is not None
                self._carrier.send(BareOctets(self.sent))
        except NotTaken:
            pass
        except OSError:
            self._lose()
        answer = self._answer(self._waits.due if known or is_due else self._waits.silence, known)
        if name == FIN:
            self.is_over = True
        elif REPLY in answer and self._waits.settle:
            answer += self._answer(self._waits.settle, None)
        return answer

    def close(self) -> None:
        """Let go of the connection."""
        self._carrier.close()

    def _answer(self, first: float, known: PeerAnswer | None) -> PeerAnswer:
        """Read for ``first`` seconds until an octet comes, then until silence, or until what is known has come."""
        start = self._clock()
        until, last = start + first, start + first + _MOST_WAITS * self._waits.silence
        words: list[str] = []
        while not self.is_over and (known is None or tuple(words) != known):
            left = min(until, last) - self._clock()
            if left <= 0:
                break
            try:
                octets = self._carrier.receive(left)
            except OSError:
                self._lose()
                break
            if octets is None:
                continue
            if not words:
                self.slowest = max(self.slowest, self._clock() - start)
            if not octets:
                self._end("fin")
                break
            self._watcher.take(octets, 0.0)
            self._note(words)
            is_last = any(word.startswith(TERMINATE) for word in words)
            # The close that belongs to a Terminate may take its time.
            until = self._clock() + (self._waits.due if is_last else self._waits.silence)
        self._note(words)
        if self._watcher.seen.total > self._total and not words:
            words.append(OTHER)
        self._total = self._watcher.seen.total
        if self.how is not None and self.is_over:
            words.append(CLOSE)
        return tuple(words)

    def _note(self, words: list[str]) -> None:
        """Add words for what has become readable."""
        seen = self._watcher.seen
        found: list[str] = []
        if seen.frame is not None and not self._frames:
            self._frames = 1
            found.append(REQUEST if seen.frame.kind == "request" else REJECTION if seen.frame.r else REPLY)
        for fpdu in seen.fpdus[self._fpdus :]:
            said = decode_terminate(fpdu.ulpdu)
            self.terminates += [said] if said is not None else []
            found.append(terminate_word(said) if said is not None else opcode_name(fpdu.ulpdu) or OTHER)
        self._fpdus = len(seen.fpdus)
        if self._is_early():
            found.append(OTHER)
        if seen.error is not None and not self._has_failed:
            self._has_failed = True
            found.append(f"{OTHER} ({seen.error.rule or 'too many'})")
        for word in found:
            if words[-1:] != [word] and len(words) < _MOST_WORDS:
                words.append(word)

    def _is_early(self) -> bool:
        """Return True if an Initiator sends octets behind its Request that nobody can read before our Reply."""
        seen = self._watcher.seen
        if seen.frame is None or seen.frame.kind != "request" or self._watcher.own is not None:
            return False
        return seen.total > max(self._total, seen.frame.wire_length)

    def _lose(self) -> None:
        """Read what had come before the connection was reset."""
        try:
            while octets := self._carrier.receive(_LEFT):
                self._watcher.take(octets, 0.0)
        except OSError:
            pass
        self._end("rst")

    def _end(self, how: str) -> None:
        self.is_over, self.how = True, how
