"""A state machine that was learned: its states, each with the shortest word that leads there, and its transitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from scapy_mpa.learn.conversation import OVER, PeerAnswer, is_last
from scapy_mpa.learn.subject import InputWord
from scapy_mpa.tuples import NamedTuple

_State = TypeVar("_State", bound=Hashable)


class Transition(NamedTuple):
    """The answer to an input, and the number of the state that it leads to."""

    answer: PeerAnswer
    to: int


class LearnedMachine:
    """A Mealy machine; state 0 is the state of a fresh connection.

    Attributes:
        states: the transitions of each state, by input; a machine that is not complete lacks some.
        access: the shortest word to each state.
    """

    def __init__(self, states: Sequence[Mapping[str, Transition]]) -> None:
        self.states = states
        self.access: list[InputWord] = [()] * len(states)
        reached, waiting = {0}, deque([0])
        while waiting:
            state = waiting.popleft()
            for name, found in states[state].items():
                if found.to not in reached:
                    reached.add(found.to)
                    waiting.append(found.to)
                    self.access[found.to] = (*self.access[state], name)

    def read(self, read: Callable[[PeerAnswer], PeerAnswer]) -> LearnedMachine:
        """Return the same with its answers read otherwise."""
        return LearnedMachine(
            [{name: found._replace(answer=read(found.answer)) for name, found in one.items()} for one in self.states]
        )

    def run(self, word: InputWord) -> list[PeerAnswer]:
        """Return the answers to a word; raises KeyError where they are not known."""
        answers, state = [], 0
        for name in word:
            answer, state = self.states[state][name]
            answers.append(answer)
        return answers

    def state_after(self, word: InputWord) -> int | None:
        """Return the state after a word, None if that is not known."""
        state = 0
        for name in word:
            found = self.states[state].get(name)
            if found is None:
                return None
            state = found.to
        return state

    def is_over(self, word: InputWord) -> bool:
        """Return True if the connection is over after a word."""
        return any(answer == OVER or is_last(name, answer) for name, answer in zip(word, self.run(word), strict=True))


def machine_of(
    initial: _State, inputs: Sequence[str], step: Callable[[_State, str], tuple[PeerAnswer, _State] | None]
) -> LearnedMachine:
    """Return the machine of what can be reached; ``step`` says what an input does in a state, None if nobody knows."""
    numbers, waiting = {initial: 0}, deque([initial])
    states: list[dict[str, Transition]] = []
    while waiting:
        state = waiting.popleft()
        transitions: dict[str, Transition] = {}
        for name in inputs:
            found = step(state, name)
            if found is None:
                continue
            answer, to = found
            if to not in numbers:
                numbers[to] = len(numbers)
                waiting.append(to)
            transitions[name] = Transition(answer, numbers[to])
        states.append(transitions)
    return LearnedMachine(states)


def tree_of(inputs: Sequence[str], answers: Mapping[InputWord, PeerAnswer]) -> LearnedMachine:
    """Return what is known as a machine that is not complete: a tree, with a state for each word that was given."""

    def step(word: InputWord, name: str) -> tuple[PeerAnswer, InputWord] | None:
        longer = (*word, name)
        return (answers[longer], longer) if longer in answers else None

    start: InputWord = ()
    return machine_of(start, inputs, step)
