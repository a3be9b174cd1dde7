"""Learns a peer by AALpy's KV: its classification tree asks words, and a hypothesis is tested by others.

The words that test it are those whose answers are known, and for each state the shortest that leads there with each two
inputs behind it, in an order that the seed decides, then with three to five that it draws. A state in which the
connection is over needs none.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, TypeGuard

from aalpy.base import SUL, Oracle
from aalpy.learning_algs import run_KV

from scapy_mpa.learn.conversation import PeerAnswer
from scapy_mpa.learn.machine import LearnedMachine, machine_of, tree_of
from scapy_mpa.learn.specified import PeerDifference, differences
from scapy_mpa.learn.subject import (
    AnswersCorrected,
    AnswersDiffer,
    InputWord,
    LearnSettings,
    LearnStopped,
    LearnSubject,
    SilenceTooShort,
)
from scapy_mpa.tuples import NamedTuple

#: Inputs behind the shortest word to a state.
_FEWEST, _MOST = 3, 5


class _Asked(SUL):  # type: ignore[misc]
    """The peer, as AALpy asks it: a step is the end of the word so far."""

    def __init__(self, subject: LearnSubject) -> None:
        super().__init__()
        self._subject = subject
        self._word: InputWord = ()

    def query(self, word: InputWord) -> list[PeerAnswer]:
        self.num_queries += 1
        return self._subject.query(word)

    def pre(self) -> None:
        self._word = ()

    def post(self) -> None:
        self._word = ()

    def step(self, letter: str) -> PeerAnswer:
        self._word = (*self._word, letter)
        return self._subject.query(self._word)[-1]


class _Tests(Oracle):  # type: ignore[misc]
    """Looks for a word that the peer answers otherwise than a hypothesis."""

    def __init__(self, sul: _Asked, subject: LearnSubject, seed: int, tests: int) -> None:
        super().__init__([*subject.inputs], sul)
        self._subject, self._tests = subject, tests
        self._random = Random(seed)
        self.machine: LearnedMachine | None = None

    def find_cex(self, hypothesis: Any) -> InputWord | None:
        self.machine = machine = _machine_of(hypothesis, self._subject)
        known = sorted(self._subject.answers, key=len)
        for word in (*known, *self._words(machine)):
            self.num_queries += 1
            answers, expected = self._subject.query(word), machine.run(word)
            for at, pair in enumerate(zip(answers, expected, strict=True)):
                if pair[0] != pair[1]:
                    return word[: at + 1]
        return None

    def _words(self, machine: LearnedMachine) -> Iterator[InputWord]:
        """Yield each two inputs in each state, then longer words, of each state in turn, until there are enough."""
        starts = [word for word in machine.access if not machine.is_over(word)]
        inputs = self._subject.inputs
        once = [(*word, name) for word in starts for name in inputs if not machine.is_over((*word, name))]
        twice = [(*word, name) for word in once for name in inputs]
        self._random.shuffle(twice)
        yield from twice
        for number in range(self._tests):
            yield self._word(machine, starts[number % len(starts)])

    def _word(self, machine: LearnedMachine, start: InputWord) -> InputWord:
        """Draw a word; nothing follows the input that ends the connection."""
        word = start
        for _ in range(self._random.randint(_FEWEST, _MOST)):
            word = (*word, self._random.choice(self._subject.inputs))
            if machine.is_over(word):
                break
        return word


def _machine_of(hypothesis: Any, subject: LearnSubject) -> LearnedMachine:
    return machine_of(
        hypothesis.initial_state,
        subject.inputs,
        lambda state, name: (state.output_fun[name], state.transitions[name]),
    )


def transitions_of(machine: LearnedMachine) -> Iterator[InputWord]:
    """Yield the shortest word to each transition of a machine."""
    for access, transitions in zip(machine.access, machine.states, strict=True):
        yield from ((*access, name) for name in transitions)


class LearnedPeer(NamedTuple):
    """What is known of a peer.

    Attributes:
        machine: the last hypothesis; if what was answered contradicts it, or there is none, the tree of that.
        differences: where the peer differs from the RFC, each seen on a connection.
        stopped: why not all was learned, None if it was.
        is_tree: the machine has a state for each sequence.
    """

    machine: LearnedMachine
    differences: list[PeerDifference]
    stopped: LearnStopped | None = None
    is_tree: bool = False

    @property
    def unstable(self) -> AnswersDiffer | None:
        """The sequence that the peer answers differently, None if none was met."""
        return self.stopped if isinstance(self.stopped, AnswersDiffer) else None


def learned(subject: LearnSubject, settings: LearnSettings) -> LearnedPeer:
    """Learn a peer, and compare it with the RFC; whatever ends that early, what is known is returned."""
    while True:
        sul = _Asked(subject)
        tests = _Tests(sul, subject, settings.seed, settings.tests)
        try:
            run_KV([*subject.inputs], sul, tests, "mealy", cache_and_non_det_check=False, print_level=0)
            assert tests.machine is not None
            for word in transitions_of(tests.machine):
                # Nothing follows what ends a connection, so that it was seen once.
                if word in subject.answers:
                    subject.verify(word)
            machine = tests.machine.read(subject.read)
            found = [*differences(machine, subject.role, subject.initial)]
            # A word that the machine alone answered is given; if the peer answers it otherwise, learning goes on.
            if all(subject.read(subject.query(one.word)[-1]) == one.answer for one in found if one.word):
                for one in found:
                    # What was sent without waiting for silence is seen once more with it.
                    subject.confirm(one.word)
                return LearnedPeer(machine, found)
        except SilenceTooShort:
            subject.forget()
        except AnswersCorrected:
            pass
        except LearnStopped as stopped:
            tree = tree_of(subject.inputs, subject.answers).read(subject.read)
            found = [*differences(tree, subject.role, subject.initial)]
            if _agrees(tests.machine, subject):
                return LearnedPeer(tests.machine.read(subject.read), found, stopped)
            return LearnedPeer(tree, found, stopped, is_tree=True)


def _agrees(machine: LearnedMachine | None, subject: LearnSubject) -> TypeGuard[LearnedMachine]:
    """Return True if a hypothesis says all that is known."""
    return machine is not None and all(machine.run(word)[-1] == one for word, one in subject.answers.items())
