"""A learned peer as text, as JSON (``learn.schema.json``) and as a graph for Graphviz."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import which
from subprocess import DEVNULL
from typing import Any

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import error_meaning
from scapy_mpa.framing.role import Role
from scapy_mpa.learn.conversation import CLOSE, OVER, TERMINATE, PeerAnswer
from scapy_mpa.learn.kv import LearnedPeer
from scapy_mpa.learn.machine import LearnedMachine
from scapy_mpa.learn.subject import InputWord, LearnedStep, LearnSubject
from scapy_mpa.system.names import printable
from scapy_mpa.system.programs import started
from scapy_mpa.values.words import plural

_CLOSED = "closed"
#: Octets of an input that a line shows.
_SHOWN = 48
_ENDS = {"fin": "FIN", "rst": "RST"}


def answer_words(answer: PeerAnswer, how: str | None = None) -> str:
    """Return an answer for people; ``how`` the peer ended the connection: "fin", "rst"."""
    return ", then ".join(_word(word, how) for word in answer) or "silence"


def _word(word: str, how: str | None) -> str:
    if word == CLOSE and how is not None:
        return f"{CLOSE} ({_ENDS[how]})"
    if word.startswith(TERMINATE):
        return f"{word} ({error_meaning(*map(int, word.removeprefix(TERMINATE).split('/')))})"
    return printable(word)


# --- text ---


def text_lines(subject: LearnSubject, found: LearnedPeer) -> Iterator[str]:
    """Yield the states of a peer, then its differences from the RFC, and what was not learned."""
    machine = found.machine
    what = plural(len(subject.answers), "sequence") if found.is_tree else plural(len(machine.states), "state")
    yield (
        f"{subject.role}: {what}, {plural(len(subject.inputs), 'input')}, "
        f"{plural(subject.connections, 'connection')}; {subject.silence:.3g} s without an octet count as silence"
    )
    if subject.role == "initiator":
        yield f"before any input: {answer_words(subject.initial)}"
    if not found.is_tree:
        yield from _state_lines(subject, machine)
    for at, one in enumerate(found.differences, 1):
        yield f"difference {at}: {_joined(one.word)}"
        yield f"  expected: {one.expected}{f' ({one.clause})' if one.clause else ''}"
        yield f"  seen: {answer_words(one.answer, subject.ends.get(one.word))}"
    for word, exceptions in subject.exceptions.items():
        yield f"answered differently once: {_joined(word)}"
        yield from (f"  seen: {answer_words(subject.read(answer))}" for answer in exceptions)
    yield from (f"peer gone, but not again after the same inputs: {_joined(word)}" for word in subject.lost)
    if found.unstable is not None:
        yield f"answers differ: {_joined(found.unstable.word)}"
        yield from (f"  seen: {answer_words(subject.read(answer))}" for answer in found.unstable.answers)
    elif found.stopped is not None:
        yield f"not all was learned: {found.stopped}"
    count = len(found.differences)
    so_far = " in what was learned" if found.stopped is not None else ""
    yield f"{plural(count, 'difference') if count else 'no difference'} from RFC 5044{so_far}"


def _state_lines(subject: LearnSubject, machine: LearnedMachine) -> Iterator[str]:
    names = _names(machine)
    for number, access in enumerate(machine.access):
        if names[number] == _CLOSED:
            continue
        yield f"state {number}: {'a fresh connection' if not access else f'after {_joined(access)}'}"
        rows: dict[tuple[str, str], list[str]] = {}
        for name, (answer, to) in machine.states[number].items():
            words = answer_words(answer, subject.ends.get((*access, name)))
            rows.setdefault((words, names[to]), []).append(name)
        width = max((len(words) for words, _ in rows), default=0)
        for (words, name), inputs in rows.items():
            yield f"  {words:<{width}}  {name:<{len(_CLOSED)}}  {', '.join(inputs)}"


def _joined(word: InputWord) -> str:
    return " ".join(word) or "before any input"


def _names(machine: LearnedMachine) -> list[str]:
    """Return what states are called: their numbers, but for those in which the connection is over."""
    found = []
    for number, transitions in enumerate(machine.states):
        is_closed = bool(transitions) and all(answer == OVER for answer, _ in transitions.values())
        is_closed = is_closed or (not transitions and machine.is_over(machine.access[number]))
        found.append(_CLOSED if is_closed else str(number))
    return found


def replay_lines(steps: Iterable[LearnedStep]) -> Iterator[str]:
    """Yield what was sent and what came back, a line for each."""
    for name, octets, answer, how in steps:
        sent = f"{len(octets)} octets, {octets[:_SHOWN].hex()}{'...' * (len(octets) > _SHOWN)}" if octets else "FIN"
        yield f"{name}: not sent, the connection is over" if answer == OVER else f"{name}: {sent}"
        if answer != OVER:
            yield f"  {answer_words(answer, how)}"


# --- JSON ---


def learned_json(subject: LearnSubject, found: LearnedPeer, peer: str, seed: int) -> str:
    """Return all of it as JSON."""
    unstable = found.unstable
    said = {
        "peer": peer,
        "role": subject.role,
        "complete": found.stopped is None,
        "why": printable(str(found.stopped)) if found.stopped is not None else None,
        "seed": seed,
        "connections": subject.connections,
        "silence": subject.silence,
        "inputs": [*subject.inputs],
        "initial": [*subject.initial],
        "states": _states(subject, found.machine),
        "differences": [
            {
                "inputs": [*one.word],
                "expected": one.expected,
                "clause": one.clause,
                "seen": [*map(printable, one.answer)],
                "text": answer_words(one.answer, subject.ends.get(one.word)),
            }
            for one in found.differences
        ],
        "exceptions": [
            {"inputs": [*word], "answers": [[*map(printable, subject.read(one))] for one in answers]}
            for word, answers in subject.exceptions.items()
        ],
        "lost": [[*word] for word in subject.lost],
        "unstable": {
            "inputs": [*unstable.word],
            "answers": [[*map(printable, subject.read(one))] for one in unstable.answers],
        }
        if unstable is not None
        else None,
    }
    return json.dumps(said, indent=2)


def _states(subject: LearnSubject, machine: LearnedMachine) -> list[dict[str, Any]]:
    return [
        {
            "state": number,
            "access": [*access],
            "transitions": [
                {
                    "input": name,
                    "answer": [*map(printable, answer)],
                    "end": subject.ends.get((*access, name)),
                    "to": to,
                }
                for name, (answer, to) in machine.states[number].items()
            ],
        }
        for number, access in enumerate(machine.access)
    ]


# --- Graphviz ---


def dot_source(found: LearnedPeer, role: Role) -> str:
    """Return the graph: an edge for each pair of states, red where a difference ends."""
    machine = found.machine
    names = _names(machine)
    red = {(machine.state_after(one.word[:-1]), one.word[-1]) for one in found.differences if one.word}
    lines = [f'digraph "{role}" {{', "  rankdir=LR;", "  node [shape=circle];", '  begin [shape=point, label=""];']
    lines.append(f'  begin -> "{names[0]}";')
    for number, transitions in enumerate(machine.states):
        edges: dict[tuple[int, bool], dict[PeerAnswer, list[str]]] = {}
        for name, (answer, to) in transitions.items():
            if answer != OVER:
                edges.setdefault((to, (number, name) in red), {}).setdefault(answer, []).append(name)
        for (to, is_red), answers in edges.items():
            label = "".join(
                f"{_escaped(', '.join(inputs))} / {_escaped(_short(one))}\\l" for one, inputs in answers.items()
            )
            colour = ", color=red, fontcolor=red" if is_red else ""
            lines.append(f'  "{names[number]}" -> "{names[to]}" [label="{label}"{colour}];')
    return "\n".join((*lines, "}", ""))


def _short(answer: PeerAnswer) -> str:
    return " + ".join(answer) or "silence"


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


def draw_svg(dot: str | os.PathLike[str]) -> Path | None:
    """Have Graphviz draw a graph beside its file; return the file of the picture, None if there is no Graphviz."""
    program, picture = which("dot"), Path(dot).with_suffix(".svg")
    if program is None:
        return None
    command = [program, "-Tsvg", os.fspath(dot), "-o", os.fspath(picture)]
    with started(command, stdout=DEVNULL, stderr=DEVNULL) as process:
        status = process.wait()
    if status:
        raise MPAError(f"{program} ended with status {status}, and has not drawn {printable(os.fspath(dot))}")
    return picture
