"""The peer as automata learning sees it: words of inputs in, answers out, over as many connections as that takes.

What was answered once is kept. A word is given on a fresh connection; its part that is known is sent without waiting
for silence, and has to be answered as before. Where it is not, the sequence is given three times more, slowly. If the
same comes each time, the one answer that differs was cut by silence, which is doubled, or was an exception, which is
noted. Else the peer answers differently.

A peer that no longer answers a valid startup, within the time it has to recover, is gone: it is restarted, and the last
word is given anew, one more input at a time, until the peer is gone again. Nothing can follow that input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import other_reading
from scapy_mpa.framing.role import peer_of
from scapy_mpa.learn.conversation import (
    CLOSE,
    GONE,
    OVER,
    REJECTION,
    REPLY,
    REQUEST,
    LearnConversation,
    PeerAnswer,
    Waits,
    is_last,
    terminate_word,
)
from scapy_mpa.learn.inputs import alphabet
from scapy_mpa.probe.carrier import Carrier, NotReached
from scapy_mpa.probe.fitting import Clean
from scapy_mpa.probe.target import Target, brings_back
from scapy_mpa.tuples import NamedTuple

InputWord: TypeAlias = "tuple[str, ...]"

#: Silence is so many times as long as the slowest answer, at least.
_SLOWER = 4
#: Times that a sequence is given slowly, and times as long as otherwise that silence is then.
_SLOW_RUNS, _SLOW = 3, 4
#: Valid startups by which the peer's latency is measured.
_MEASURED = 3
#: A peer that seems too slow so often, or has so many exceptions, is one that answers differently.
_MOST_DOUBLED, _MOST_EXCEPTIONS = 3, 8
#: So often may a peer be gone, and not again after the same inputs.
_MOST_LOST = 3
_POLL = 0.05


class LearnSettings(NamedTuple):
    """How a peer is learned.

    Attributes:
        clean: what a valid startup frame of ours says.
        silence: seconds without an octet that count as no answer, at least.
        timeout: seconds for an answer that must come.
        settle: seconds after a Reply before the next input.
        connections: the most that are made, apart from those that only show whether the peer works.
        interval: seconds from one connection to the next, at least.
        recovery: seconds in which the peer answers a valid startup again, after a connection.
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
    """The peer no longer answers a valid startup, and is not brought back."""


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


class AnswersCorrected(Exception):
    """An answer that was kept is another one now: it was an exception, or the peer was gone after it."""


class LearnedStep(NamedTuple):
    """One input of a sequence that was given: its octets, and what came back."""

    name: str
    octets: bytes
    answer: PeerAnswer
    how: str | None


class _Given(NamedTuple):
    """A connection: what came before any input, its steps, and the seconds of the slowest answer."""

    initial: PeerAnswer
    steps: list[LearnedStep]
    slowest: float


def _signs(initial: PeerAnswer, answer: PeerAnswer) -> frozenset[str]:
    """Return what shows that a peer works: its Request, its Reply, accepting or not, and any answer at all."""
    replies = {REPLY} if REPLY in answer or REJECTION in answer else set()
    return frozenset({*initial} & {REQUEST} | replies | ({"answer"} if answer else set()))


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
        connections: how many were made, apart from those that only show whether the peer works.
        silence: seconds that count as none.
        exceptions: the answers to the last input of a word that came once, and not again when it was given anew.
        lost: words after which the peer was gone, but not again when their inputs were given anew.
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
        self.exceptions: dict[InputWord, list[PeerAnswer]] = {}
        self.lost: list[InputWord] = []
        #: A Terminate was laid out as siw does; what others are that may be read in both ways.
        self._is_siw = False
        self._other_readings: dict[str, str] = {}
        self._doubled = 0
        self._last = -settings.interval
        #: By what a valid startup shows that the peer works; none before the first one.
        self._signs: frozenset[str] = frozenset()
        self._previous: InputWord = ()
        # As AALpy counts them.
        self.num_queries = self.num_steps = self.num_cached_queries = 0

    def begin(self) -> bool:
        """Measure the peer by valid startups; return True if it has answered one."""
        slowest = 0.0
        for _ in range(_MEASURED):
            steps, late = self._run(self.inputs[:1])
            slowest = max(slowest, late)
            self._signs = self._signs or _signs(self.initial, steps[0].answer)
        self.silence = max(self.silence, self._bounded(slowest))
        return CLOSE not in steps[-1].answer and bool(self.initial or steps[-1].answer)

    def query(self, word: Sequence[str]) -> list[PeerAnswer]:
        """Return the answers to a word.

        Raises LearnStopped, and SilenceTooShort or AnswersCorrected if learning has to begin again.
        """
        given = tuple(word)
        found = self._known(given)
        if len(found) == len(given):
            self.num_cached_queries += 1
        while len(found) < len(given):
            self.num_queries += 1
            self.num_steps += len(given)
            steps, _ = self._run(given, found)
            self._keep(given, steps, len(found))
            found = self._known(given)
        return found

    def verify(self, word: InputWord) -> None:
        """Give a word whose answers are known once more; raises as :meth:`query` does."""
        answers = self._known(word)
        if GONE not in answers[-1]:
            self._keep(word, self._run(word, answers)[0], len(answers))

    def read(self, answer: PeerAnswer) -> PeerAnswer:
        """Return an answer as this peer means it.

        Some control words of a Terminate may be read in two ways; that of a peer which has laid out another one as siw
        does is read so, too.
        """
        return tuple(self._other_readings.get(word, word) for word in answer) if self._is_siw else answer

    def confirm(self, word: InputWord) -> None:
        """Give a word slowly; raises as :meth:`query` does if it is not answered as before.

        One after which the peer is gone is not given: that was seen twice.
        """
        answers = self._known(word)
        if answers and GONE in answers[-1]:
            return
        for at, step in enumerate(self._run(word, is_slow=True)[0]):
            if step.answer != answers[at]:
                self._settle(word[: at + 1], step.answer)
                return

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
            is_over = is_over or is_last(name, answer)
        return found

    def _bounded(self, late: float) -> float:
        """Return how long silence has to be for a peer whose slowest answer came so late."""
        return min(_SLOWER * late, self._settings.timeout)

    def _run(
        self, word: InputWord, known: Sequence[PeerAnswer] = (), *, is_slow: bool = False
    ) -> tuple[list[LearnedStep], float]:
        """Give a word to a peer that works; return its steps, and the seconds of the slowest answer.

        Where it ``is_slow``, silence is longer, and the last answer is waited for as one that must come.
        """
        if self._signs and word[:1] != self.inputs[:1]:
            # What it answers would not show whether it works.
            self._await_peer()
        self._count()
        until = time.monotonic() + self._settings.recovery
        while (found := self._given(word, known, is_slow=is_slow)) is None:
            if time.monotonic() >= until:
                self._note_death()
                until = time.monotonic() + self._settings.recovery
            time.sleep(_POLL)
        self._previous = word
        if self.role == "initiator":
            self._note_initial(found.initial)
        return found.steps, found.slowest

    def _give(self, word: InputWord, known: Sequence[PeerAnswer] = (), *, is_slow: bool = False) -> _Given:
        """Give a word on a fresh connection; raises NotReached, and LearnStopped."""
        settings = self._settings
        silence = min(_SLOW * self.silence, max(self.silence, settings.timeout)) if is_slow else self.silence
        waits = Waits(silence, max(silence, settings.timeout), settings.settle)
        talk = LearnConversation(self._connection(), peer_of(self.role), settings.clean, waits)
        steps: list[LearnedStep] = []
        initial: PeerAnswer = ()
        try:
            if self.role == "initiator":
                initial = talk.begin()
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
        for said in talk.terminates:
            self._is_siw = self._is_siw or said.layout == "siw"
            if said.layout != "siw" and (other := other_reading(said)) is not None:
                self._other_readings[terminate_word(said)] = terminate_word(other)
        return _Given(initial, steps, talk.slowest)

    # --- a peer that is gone ---

    def _given(self, word: InputWord, known: Sequence[PeerAnswer] = (), *, is_slow: bool = False) -> _Given | None:
        """Give a word; return None if the peer does not work: a valid startup is not answered as it was at first."""
        try:
            found = self._give(word, known, is_slow=is_slow)
        except NotReached:
            return None
        is_begun = word[:1] == self.inputs[:1]
        signs = self._signs if is_begun else self._signs & {REQUEST}
        return found if signs <= _signs(found.initial, found.steps[0].answer if is_begun else ()) else None

    def _is_reached(self) -> bool:
        """Return True if the peer answers a valid startup on a connection of its own."""
        return self._given(self.inputs[:1]) is not None

    def _recovers(self) -> bool:
        """Return True as soon as the peer answers a valid startup, False if it does not in time."""
        until = time.monotonic() + self._settings.recovery
        while not self._is_reached():
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL)
        return True

    def _await_peer(self) -> None:
        """Wait until the peer works; restart one that does not, and raise AnswersCorrected, or PeerLost."""
        if not self._recovers():
            self._note_death()

    def _note_death(self) -> None:
        """Restart the peer, and find out which input of the last word it does not survive.

        Raises AnswersCorrected if there is such a word, and PeerLost.
        """
        word, self._previous = self._previous, ()
        self._restart(word)
        if not word:
            return
        deadly = self._deadly(word)
        if deadly is None:
            self.lost.append(word)
            if len(self.lost) > _MOST_LOST:
                raise PeerLost("the peer is gone now and then, and not again after the same inputs")
            raise AnswersCorrected
        prefix, answer = deadly
        self._correct(prefix, (*answer, GONE))

    def _deadly(self, word: InputWord) -> tuple[InputWord, PeerAnswer] | None:
        """Return the first inputs of a word after which the peer is gone, and the last answer; None: it is not."""
        for length in range(1, len(word) + 1):
            prefix = word[:length]
            self._count()
            found = self._given(prefix, is_slow=True)
            if not self._recovers():
                self._restart(prefix)
                return prefix, found.steps[-1].answer if found is not None else ()
        return None

    def _restart(self, word: InputWord) -> None:
        if not brings_back(self._target, self._is_reached):
            after = f", after: {' '.join(word)}" if word else ""
            raise PeerLost(f"the peer no longer answers a valid startup{after}")

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
                return
            self.answers[prefix] = step.answer
            if step.how is not None:
                self.ends[prefix] = step.how

    def _settle(self, word: InputWord, answer: PeerAnswer) -> None:
        """Find out why the last input of a word was not answered as before; return if this answer was the exception.

        Raises SilenceTooShort if an answer was cut, AnswersCorrected if one that was kept was the exception, and
        AnswersDiffer.
        """
        runs = [self._run(word, is_slow=True) for _ in range(_SLOW_RUNS)]
        slow = [tuple(step.answer for step in steps) for steps, _ in runs]
        one, *others = dict.fromkeys(slow)
        if others:
            at = next(at for at, pair in enumerate(zip(one, others[0], strict=True)) if pair[0] != pair[1])
            raise AnswersDiffer(word[: at + 1], list(dict.fromkeys(answers[at] for answers in slow)))
        kept = [self.answers.get(word[: at + 1], OVER) for at in range(len(word))]
        corrected = next((at for at, pair in enumerate(zip(one, kept, strict=True)) if pair[0] != pair[1]), None)
        prefix = word if corrected is None else word[: corrected + 1]
        usual = one[len(prefix) - 1]
        exception = answer if corrected is None else kept[corrected]
        if usual[: len(exception)] == exception:
            if self._doubled == _MOST_DOUBLED:
                raise AnswersDiffer(prefix, (usual, exception))
            self._doubled += 1
            self.silence = max(2 * self.silence, self._bounded(max(late for _, late in runs)))
            raise SilenceTooShort
        self.exceptions.setdefault(prefix, []).append(exception)
        if sum(map(len, self.exceptions.values())) > _MOST_EXCEPTIONS:
            raise AnswersDiffer(prefix, (usual, exception))
        if corrected is not None:
            self._correct(prefix, usual)

    def _correct(self, word: InputWord, answer: PeerAnswer) -> None:
        """Keep another answer to a word, and none to words that begin with it; raises AnswersCorrected."""
        for longer in [known for known in self.answers if known[: len(word)] == word]:
            del self.answers[longer]
            self.ends.pop(longer, None)
        self.answers[word] = answer
        raise AnswersCorrected

    def _connection(self) -> Carrier:
        """Return a fresh connection; raises NotReached, and LearnStopped."""
        settings = self._settings
        if self._is_interrupted():
            raise LearnStopped("interrupted")
        if settings.until is not None and time.monotonic() >= settings.until:
            raise LearnStopped("the time is up")
        left = self._last + settings.interval - time.monotonic()
        if left > 0:
            time.sleep(left)
        self._last = time.monotonic()
        return self._target.connection()

    def _count(self) -> None:
        """Count a connection that is made to learn from; raises LearnStopped."""
        if self.connections >= self._settings.connections:
            raise LearnStopped(f"{self._settings.connections} connections were made")
        self.connections += 1
