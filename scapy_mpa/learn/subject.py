"""The peer as automata learning sees it: words of inputs in, answers out, over as many connections as that takes.

What was answered once is kept. A word is given on a fresh connection; its part that is known is sent without waiting
for silence, and has to be answered as before. Where it is not, the sequence is given three times more, slowly: the same
answers show that silence was too short, and it is doubled; others show a peer that answers differently.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import peer_of
from scapy_mpa.learn.conversation import CLOSE, OVER, LearnConversation, PeerAnswer, Waits
from scapy_mpa.learn.inputs import FIN, alphabet
from scapy_mpa.probe.carrier import Carrier, NotReached
from scapy_mpa.probe.fitting import Clean
from scapy_mpa.probe.target import Target, brings_back

InputWord: TypeAlias = "tuple[str, ...]"

#: Silence is so many times as long as the slowest answer, at least.
_SLOWER = 4
#: Times that a sequence is given slowly, and times as long as otherwise that silence is then.
_SLOW_RUNS, _SLOW = 3, 4
#: Valid startups by which the peer's latency is measured.
_MEASURED = 3
#: A peer that seems too slow so often is one that answers differently.
_MOST_DOUBLED = 3
_POLL = 0.05


class LearnSettings(NamedTuple):
    """How a peer is learned.

    Attributes:
        clean: what a valid startup frame of ours says.
        silence: seconds without an octet that count as no answer, at least.
        timeout: seconds for an answer that must come.
        settle: seconds after a Reply before the next input.
        connections: the most that are made.
        interval: seconds from one connection to the next, at least.
        recovery: seconds in which a Responder takes a connection again.
        until: when to stop, by the monotonic clock; None: at no time.
        seed: of the words by which what was learned is tested.
        tests: words of three inputs or more that are drawn for this.
    """

    clean: Clean = Clean()
    silence: float = 0.1
    timeout: float = 2.0
    settle: float = 0.0
    connections: int = 1000
    interval: float = 0.0
    recovery: float = 1.0
    until: float | None = None
    seed: int = 0
    tests: int = 50


class LearnStopped(MPAError):
    """Learning ends before all is learned: a bound is reached, or Ctrl-C."""


class PeerLost(LearnStopped):
    """No connection with the peer comes about any more."""


class AnswersDiffer(LearnStopped):
    """The peer answers a sequence differently.

    Attributes:
        word: the sequence.
        answers: different answers to its last input.
    """

    def __init__(self, word: InputWord, answers: Sequence[PeerAnswer]) -> None:
        super().__init__(f"the peer answers differently: {' '.join(word) or 'before any input'}")
        self.word, self.answers = word, tuple(answers)


class SilenceTooShort(Exception):
    """The wait for silence was doubled, and what is known is dropped."""


class LearnedStep(NamedTuple):
    """One input of a sequence that was given: its octets, and what came back."""

    name: str
    octets: bytes
    answer: PeerAnswer
    how: str | None


class LearnSubject:
    """A peer that is learned.

    Args:
        target: the peer.
        settings: how.
        is_interrupted: asked before each connection.

    Attributes:
        inputs: the alphabet.
        answers: what is known: the answer to the last input of each word that was given.
        ends: for each such word that ended the connection, how the peer did: "fin", "rst".
        initial: what the peer sends before any input.
        connections: how many were made.
        silence: seconds that count as none.
    """

    def __init__(
        self, target: Target, settings: LearnSettings, is_interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        self._target, self._settings, self._is_interrupted = target, settings, is_interrupted
        self.role = target.role
        self.inputs = alphabet(target.role, settings.clean)
        self.answers: dict[InputWord, PeerAnswer] = {}
        self.ends: dict[InputWord, str] = {}
        self.initial: PeerAnswer = ()
        self.connections = 0
        self.silence = settings.silence
        self._doubled = 0
        self._last = -settings.interval
        # As AALpy counts them.
        self.num_queries = self.num_steps = self.num_cached_queries = 0

    def begin(self) -> bool:
        """Measure the peer by valid startups; return True if it has answered one."""
        slowest = 0.0
        for _ in range(_MEASURED):
            steps, late = self._run(self.inputs[:1])
            slowest = max(slowest, late)
        self.silence = max(self.silence, self._bounded(slowest))
        return CLOSE not in steps[-1].answer and bool(self.initial or steps[-1].answer)

    def query(self, word: Sequence[str]) -> list[PeerAnswer]:
        """Return the answers to a word.

        Raises LearnStopped, and SilenceTooShort if all has to be asked again.
        """
        given = tuple(word)
        found = self._known(given)
        if len(found) < len(given):
            self.num_queries += 1
            self.num_steps += len(given)
            steps, _ = self._run(given, found)
            self._keep(given, steps, len(found))
            found = self._known(given)
        else:
            self.num_cached_queries += 1
        return found

    def confirm(self, word: InputWord) -> None:
        """Give a word slowly; raises as :meth:`query` does if it is not answered as before."""
        answers = self._known(word)
        for at, step in enumerate(self._run(word, is_slow=True)[0]):
            if step.answer != answers[at]:
                self._settle(word[: at + 1], step.answer)

    def replay(self, word: InputWord) -> list[LearnedStep]:
        """Give a word, and return what was sent and what came back, step by step."""
        return self._run(word, is_slow=True)[0]

    def forget(self) -> None:
        """Drop all answers."""
        self.answers.clear()
        self.ends.clear()

    def _known(self, word: InputWord) -> list[PeerAnswer]:
        """Return the answers to a word as far as they are known."""
        found: list[PeerAnswer] = []
        is_over = False
        for at, name in enumerate(word):
            answer = OVER if is_over else self.answers.get(word[: at + 1])
            if answer is None:
                break
            found.append(answer)
            is_over = is_over or CLOSE in answer or name == FIN
        return found

    def _bounded(self, late: float) -> float:
        """Return how long silence has to be for a peer whose slowest answer came so late."""
        return min(_SLOWER * late, self._settings.timeout)

    def _run(
        self, word: InputWord, known: Sequence[PeerAnswer] = (), *, is_slow: bool = False
    ) -> tuple[list[LearnedStep], float]:
        """Give a word on a fresh connection; return its steps, and the seconds of the slowest answer.

        Where it ``is_slow``, silence is longer, and the last answer is waited for as one that must come.
        """
        settings = self._settings
        silence = min(_SLOW * self.silence, max(self.silence, settings.timeout)) if is_slow else self.silence
        waits = Waits(silence, max(silence, settings.timeout), settings.settle)
        talk = LearnConversation(self._connection(), peer_of(self.role), settings.clean, waits)
        steps: list[LearnedStep] = []
        try:
            if self.role == "initiator":
                self._note_initial(talk.begin())
            for at, name in enumerate(word):
                before = known[at] if at < len(known) else None
                is_first = not at and name == self.inputs[0]
                answer = talk.step(name, before, is_due=is_first or (is_slow and at == len(word) - 1))
                steps.append(LearnedStep(name, talk.sent, answer, talk.how))
                if before is not None and answer != before:
                    break
        finally:
            talk.close()
            self._target.done()
        return steps, talk.slowest

    def _note_initial(self, answer: PeerAnswer) -> None:
        if self.connections > 1 and answer != self.initial:
            raise AnswersDiffer((), (self.initial, answer))
        self.initial = answer

    def _keep(self, word: InputWord, steps: Sequence[LearnedStep], known: int) -> None:
        for at, step in enumerate(steps):
            prefix = word[: at + 1]
            if step.answer == OVER:
                return
            if at < known and step.answer != self.answers[prefix]:
                self._settle(prefix, step.answer)
            self.answers[prefix] = step.answer
            if step.how is not None:
                self.ends[prefix] = step.how

    def _settle(self, word: InputWord, answer: PeerAnswer) -> None:
        """Find out whether a peer is slow, which raises SilenceTooShort, or answers differently: AnswersDiffer."""
        runs = [self._run(word, is_slow=True) for _ in range(_SLOW_RUNS)]
        slow = [tuple(step.answer for step in steps) for steps, _ in runs]
        counted = dict.fromkeys(slow)
        if len(counted) == 1 and self._doubled < _MOST_DOUBLED:
            self._doubled += 1
            self.silence = max(2 * self.silence, self._bounded(max(late for _, late in runs)))
            raise SilenceTooShort
        if len(counted) == 1:
            raise AnswersDiffer(word, (self.answers[word], answer))
        one, other, *_ = counted
        at = next(at for at, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
        raise AnswersDiffer(word[: at + 1], list(dict.fromkeys(answers[at] for answers in slow)))

    def _connection(self) -> Carrier:
        """Return a fresh connection; raises LearnStopped."""
        settings = self._settings
        if self._is_interrupted():
            raise LearnStopped("interrupted")
        if self.connections >= settings.connections:
            raise LearnStopped(f"{settings.connections} connections were made")
        if settings.until is not None and time.monotonic() >= settings.until:
            raise LearnStopped("the time is up")
        left = self._last + settings.interval - time.monotonic()
        if left > 0:
            time.sleep(left)
        self._last = time.monotonic()
        self.connections += 1
        until = time.monotonic() + (settings.recovery if self.role == "responder" else 0)
        while True:
            try:
                return self._target.connection()
            except NotReached as error:
                if time.monotonic() < until:
                    time.sleep(_POLL)
                elif not brings_back(self._target, self._is_reached):
                    raise PeerLost(str(error)) from None

    def _is_reached(self) -> bool:
        try:
            self._target.connection().close()
        except NotReached:
            return False
        self._target.done()
        return True
